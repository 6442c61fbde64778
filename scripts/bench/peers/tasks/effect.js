module.exports = async (payload, helpers) => {
	await helpers.query("insert into public.effects (n) values ($1)", [payload.n]);
};
