const { spawn } = require("node:child_process");

module.exports = (payload, helpers) =>
	new Promise((resolve, reject) => {
		const env = { ...process.env, JOBRUN_RUN_ID: helpers.job.id };
		const child = spawn(process.env.PROGRAM, [], { env, stdio: "ignore" });

		child.on("error", reject);
		child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`exit ${code}`))));
	});
