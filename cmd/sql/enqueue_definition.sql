-- enqueue_definition: enqueue a run of definition $1 with all its values. $2 payload (JSON text; null: the
-- definition's), $3 run_in (ms), $4 run_at, $5 idempotency key, $6 parent run, $7 trace context, $8 is the key a random
-- one of this command? $9 will this be rolled back? Returns the columns of enqueue.sql.
with run as materialized (
	select e.* from jobrun.enqueue_definition(
		definition      => $1::text,
		payload         => $2::text::jsonb,
		run_in          => $3::bigint * interval '1 millisecond',
		run_at          => $4::text::timestamptz,
		idempotency_key => $5::text,
		parent_id       => $6::bigint,
		trace_context   => $7::text) e
), told as (
	select case when not ($9::boolean and r.created) then r.id end as id, r.job_type, $1::text as definition, r.queue, r.priority,
		r.status, r.created, r.replaced, r.run_at, case when not $8::boolean then $5::text end as idempotency_key
	from run r
)
select t.id, t.created, t.replaced, floor(extract(epoch from t.run_at) * 1000)::bigint,
	floor(extract(epoch from now() - t.run_at) * 1000)::bigint, d.status, t.queue, t.priority, row_to_json(d)::text, t.job_type,
	(select r.id from run r)
from told t
cross join lateral (select t.id, t.job_type, t.definition, t.queue, t.priority, case t.status when 'failed' then 'retrying' else t.status end as status,
	t.created, t.replaced, t.run_at, t.idempotency_key) d
