-- enqueue: enqueue one run. Durations are milliseconds; null: the definition's value, else the built-in one.
-- $1 job type, $2 payload (text of JSON), $3 queue, $4 priority, $5 run_in, $6 run_at, $7 expires_in, $8 max_attempts,
-- $9 timeout, $10 backoff base, $11 backoff cap, $12 idempotency key, $13 parent run,
-- $14 is the key a random one of this command? Then the document does not have it.
-- $15 will this be rolled back? Then a new run has no id in the document.
-- $16 unique key, $17 on_conflict, $18 concurrency key, $19 trace context.
-- Returns id, created, replaced, run_at in Unix ms, age of run_at in ms (negative: to come), status, queue, priority,
-- document, job type, id (also of one that will be rolled back).
-- The CTE is materialized: a function that writes must be called once, not once for each column.
with run as materialized (
	select e.* from jobrun.enqueue_run(
		job_type        => $1::text,
		payload         => $2::text::jsonb,
		queue           => $3::text,
		priority        => $4::integer,
		run_in          => $5::bigint * interval '1 millisecond',
		run_at          => $6::text::timestamptz,
		expires_in      => $7::bigint * interval '1 millisecond',
		max_attempts    => $8::bigint,
		timeout         => $9::bigint * interval '1 millisecond',
		backoff_base    => $10::bigint * interval '1 millisecond',
		backoff_cap     => $11::bigint * interval '1 millisecond',
		idempotency_key => $12::text,
		unique_key      => $16::text,
		on_conflict     => $17::text,
		concurrency_key => $18::text,
		parent_id       => $13::bigint,
		trace_context   => $19::text) e
), told as (
	select case when not ($15::boolean and r.created) then r.id end as id, r.job_type, r.queue, r.priority, r.status,
		r.created, r.replaced, r.run_at, case when not $14::boolean then $12::text end as idempotency_key,
		$16::text as unique_key, $18::text as concurrency_key
	from run r
)
select t.id, t.created, t.replaced, floor(extract(epoch from t.run_at) * 1000)::bigint,
	floor(extract(epoch from now() - t.run_at) * 1000)::bigint, d.status, t.queue, t.priority, row_to_json(d)::text, t.job_type,
	(select r.id from run r)
from told t
cross join lateral (select t.id, t.job_type, t.queue, t.priority, case t.status when 'failed' then 'retrying' else t.status end as status,
	t.created, t.replaced, t.run_at, t.idempotency_key, t.unique_key, t.concurrency_key) d
