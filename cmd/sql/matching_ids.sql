-- matching_ids: the runs that match a filter, the oldest first, in batches. $1 how many at most, $2 to $6 as in
-- matching_kinds.sql, $7 and $8 the lowest and the highest id, $9 the size of a batch. Returns for each batch an array
-- of ids in order, their number and the last id. All waiting runs are read, for the reason given in matching_kinds.sql.
with matching as materialized (
	(select r.id from jobrun.job_runs r
	where 'dead' = any ($2::text[]) and r.status = 'dead'
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
		and r.id between $7::bigint and $8::bigint
	order by r.id limit $1::bigint)
	union all
	select r.id from jobrun.job_runs r
	where 'running' = any ($2::text[]) and r.status = 'running'
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
	union all
	select r.id from jobrun.job_runs r
	where $2::text[] && '{queued,failed}' and r.status in ('queued', 'failed') and r.status = any ($2::text[])
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
	union all
	(select r.id from jobrun.job_runs r
	where $2::text[] && '{succeeded,cancelled}' and r.status in ('succeeded', 'cancelled') and r.status = any ($2::text[])
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
		and r.id between $7::bigint and $8::bigint
	order by r.id limit $1::bigint)
)
select array_agg(b.id order by b.id)::text, count(*), max(b.id)
from (
	select m.id, (row_number() over (order by m.id) - 1) / $9::bigint as batch
	from (
		select m.id from matching m where m.id between $7::bigint and $8::bigint
		order by m.id limit $1::bigint) m) b
group by b.batch
order by b.batch
