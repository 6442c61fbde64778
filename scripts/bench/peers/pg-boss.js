/*
 * pg-boss.js migrate|fill N|drain: pg-boss with its library, without its timers. drain: fetch and complete, 1,000 at a
 * time; a worker of pg-boss polls instead, and is slower. Prints how many it completed.
 */
const PgBoss = require("pg-boss");

const [command, n] = process.argv.slice(2);
const connectionString = process.env.DATABASE_URL;
const boss = new PgBoss({ connectionString, supervise: false, schedule: false, migrate: command === "migrate" });

async function fill(left) {
	for (; left > 0; left -= 10000) {
		await boss.insert(Array.from({ length: Math.min(left, 10000) }, (_, i) => ({ name: "noop", data: { n: i } })));
	}
}

async function drain() {
	let done = 0;

	for (;;) {
		const jobs = await boss.fetch("noop", { batchSize: 1000 });
		if (!jobs || jobs.length === 0) {
			console.log(done);
			return;
		}
		await boss.complete("noop", jobs.map((job) => job.id));
		done += jobs.length;
	}
}

async function main() {
	boss.on("error", (error) => { throw error; });
	await boss.start();
	if (command === "migrate") await boss.createQueue("noop");
	if (command === "fill") await fill(Number(n));
	if (command === "drain") await drain();
	await boss.stop({ graceful: false });
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
