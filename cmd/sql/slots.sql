-- slots: the outcomes of the slots of definition $1 and the skipped starts of exec (they have a runner_id), newest
-- first. $2 only of the last so many ms (null: any age), $3 how many at most. Returns slot in the definition's zone; if
-- the row stands for many slots, the last of them and their number; outcome, run, its status now (null: pruned),
-- reason, document, are there older ones.
select s.slot_local, s.until_local, case when s.until_local is not null then s.slots end, s.outcome, s.run_id,
	case s.run_status when 'failed' then 'retrying' else s.run_status end, s.reason, row_to_json(o)::text, n.older
from (
	select o.*, count(*) over () > $3::bigint as older, row_number() over (order by o.slot desc) as nr
	from (
		select o.slot, o.until, o.slots, o.outcome, o.reason, o.run_id, o.runner_id, d.time_zone
		from jobrun.job_definitions d
		join jobrun.job_slots o on o.definition_id = d.id
		where d.name = $1::text
			and ($2::bigint is null or coalesce(o.until, o.slot) >= now() - $2::bigint * interval '1 millisecond')
		order by o.slot desc limit $3::bigint + 1) o) n
cross join lateral (
	select n.slot,
		jobrun.slot_text(case when n.runner_id is null then n.slot else date_trunc('second', n.slot) end, n.time_zone) as slot_local,
		n.until,
		case when n.slots > 1 then jobrun.slot_text(n.until, n.time_zone) end as until_local, n.slots, n.outcome, n.reason,
		n.run_id, n.runner_id,
		(select r.status from jobrun.all_runs r where r.id = n.run_id) as run_status) s
cross join lateral (select n.slot, replace(jobrun.slot_text(n.slot, n.time_zone, true), ' ', 'T') as slot_local, n.until as slot_until,
	replace(jobrun.slot_text(n.until, n.time_zone, true), ' ', 'T') as slot_until_local, n.slots, n.outcome, n.reason, n.run_id,
	n.runner_id, case s.run_status when 'failed' then 'retrying' else s.run_status end as run_status) o
where n.nr <= $3::bigint
order by n.nr
