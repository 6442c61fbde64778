// Node with pg: an order and the run that sends its invoice, both or neither.
const { Client } = require('pg');

async function order(item) {
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  try {
    await db.query('begin');
    const placed = await db.query('insert into orders (item) values ($1) returning id', [item]);
    const run = await db.query(
      "select jobrun.enqueue('send_invoice', jsonb_build_object('order', $1::bigint), run_in => '5 minutes') as id",
      [placed.rows[0].id]);
    await db.query('commit');
    return run.rows[0].id;
  } catch (error) {
    await db.query('rollback');
    throw error;
  } finally {
    await db.end();
  }
}

order(process.argv[2]).then(console.log, (error) => { console.error(error.message); process.exitCode = 1; });
