/*
 * The settings of graphile-worker, chosen by GW: those that its documentation gives as fastest.
 *
 * batched: https://worker.graphile.org/docs/performance, "The above stats were achieved with this configuration":
 * concurrentJobs 24, maxPoolSize 25, localQueue { size: 500 }, completeJobBatchDelay 0, failJobBatchDelay 0.
 * spawn: the same, with as many at once as jobrun. single: GW_JOBS (10) at once, each job completed in a transaction of its own.
 */
const jobs = Number(process.env.GW_JOBS || 10);
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const settings = {
	batched: { concurrentJobs: 24, maxPoolSize: 25, ...batching },
	spawn: { concurrentJobs: 4, maxPoolSize: 5, ...batching },
	single: { concurrentJobs: jobs, maxPoolSize: jobs + 1 },
};

module.exports = {
	worker: { taskDirectory: `${__dirname}/tasks`, fileExtensions: [".js"], ...settings[process.env.GW] },
};
