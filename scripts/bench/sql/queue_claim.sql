-- A claim of the prototype: the next 500 after the last one claimed, with a lease on each. LIMIT is a literal, so that
-- the plan is kept.
with c as materialized (
    select ctid from queue_runs
    where queue = 'default' and status = 0 and run_at <= now()
        and (priority, run_at, id) > ($1::smallint, $2::timestamptz, $3::bigint)
    order by priority, run_at, id limit 500 for update skip locked
), u as (
    update queue_runs j set status = 1, locked_by = 1, locked_until = now() + interval '5 min', attempts = attempts + 1
    from c where j.ctid = c.ctid
    returning j.id, j.priority, j.run_at, j.job_type, j.payload, j.attempts, j.max_attempts
)
select id, priority, run_at, id, job_type, payload, attempts, max_attempts from u order by priority, run_at, id
