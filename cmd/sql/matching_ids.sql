-- matching_ids: the runs that match a filter, the oldest first, in batches. $1 to $12 as in run_filter.part, $13 and $14 the
-- lowest and the highest id, $15 the size of a batch. Returns for each batch an array of ids in order, their number and the
-- last id. All waiting runs are read, for the reason given in matching_kinds.sql.
with matching as materialized (
	(select r.id from jobrun.job_runs r
	where 'dead' = any ($2::text[]) and r.status = 'dead'
			-- include run_ended
		-- include run_filter
		and r.id between $13::bigint and $14::bigint
	order by r.id limit $1::bigint)
	union all
	select r.id from jobrun.job_runs r
	where 'running' = any ($2::text[]) and r.status = 'running'
		-- include run_filter
	union all
	select r.id from jobrun.job_runs r
	where $2::text[] && '{queued,failed}' and r.status in ('queued', 'failed')
		-- include run_filter
	union all
	(select r.id from jobrun.job_runs r
	where $2::text[] && '{succeeded,cancelled}' and r.status in ('succeeded', 'cancelled')
			-- include run_ended
		-- include run_filter
		and r.id between $13::bigint and $14::bigint
	order by r.id limit $1::bigint)
)
select array_agg(b.id order by b.id)::text, count(*), max(b.id)
from (
	select m.id, (row_number() over (order by m.id) - 1) / $15::bigint as batch
	from (
		select m.id from matching m where m.id between $13::bigint and $14::bigint
		order by m.id limit $1::bigint) m) b
group by b.batch
order by b.batch
