const { spawn } = require("node:child_process");

module.exports = () =>
	new Promise((resolve, reject) => {
		const child = spawn(process.env.PROGRAM, [], { stdio: "ignore" });

		child.on("error", reject);
		child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`exit ${code}`))));
	});
