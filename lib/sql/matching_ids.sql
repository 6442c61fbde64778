-- matching_ids: the runs that a filter means, the oldest first, in batches; $1 to $5 as in list.sql, $6 and $7 the lowest and the
-- highest id, $8 how many make a batch. Gives an array of ids in their order, how many they are, and the last of them.
select array_agg(n.id order by n.id)::text, count(*), max(n.id)
from (
	select m.id, (row_number() over (order by m.id) - 1) / $8::bigint as batch
	from (
		select r.id from jobrun.job_runs r
		where ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
			and (r.status in ('queued', 'failed') and r.status = any ($2::text[])
					and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
				or r.status = 'running' and 'running' = any ($2::text[])
					and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
				or r.status = 'dead' and 'dead' = any ($2::text[])
					and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
				or r.status in ('succeeded', 'cancelled') and r.status = any ($2::text[])
					and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond'))
			and r.id between $6::bigint and $7::bigint
		order by r.id limit $1::bigint) m) n
group by n.batch
order by n.batch
