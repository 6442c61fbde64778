-- status_types: a row for each job type that has runs waiting, running, dead, or succeeded in the last 24 hours, or a definition
-- that is not jobrun's own; $1 only these (null: all), $2 how far runs are counted (null: all). Returns job type, queued, retrying,
-- running, dead, succeeded in 24 h, age in ms of the oldest due run, of the last success, of the next slot (negative: to come), document.
-- "+" stands behind counts that ended there.
select t.job_type, t.queued || m.waiting, t.retrying || m.waiting, t.running, t.dead || m.dead, t.succeeded_24h,
	floor(extract(epoch from now() - t.oldest_due_at) * 1000)::bigint,
	floor(extract(epoch from now() - t.last_succeeded_at) * 1000)::bigint,
	floor(extract(epoch from now() - t.next_slot_at) * 1000)::bigint, row_to_json(t)::text
from jobrun.type_counts($1::text[], $2::bigint) t
cross join lateral (select case when t.waiting_is_capped then '+' else '' end as waiting,
	case when t.dead_is_capped then '+' else '' end as dead) m
order by t.job_type
