-- report_running: runs that run, the longest first; $1 how many. Returns id, job type, queue, host, for how many ms it has run, its
-- timeout in ms, attempt, most attempts, ms until its lease ends, cancel requested, progress in words, how many thousandths of it are
-- done (null: it does not say), and in each row how many run.
select r.id, r.job_type, r.queue, r.locked_by, floor(extract(epoch from now() - r.started_at) * 1000)::bigint,
	nullif(floor(extract(epoch from r.timeout) * 1000)::bigint, 0), r.attempts, r.max_attempts,
	floor(extract(epoch from r.locked_until - now()) * 1000)::bigint, r.cancel_requested_at is not null,
	left(t.words, 1000), case when t.share is not null then floor(1000 * greatest(0, least(1, t.share)))::bigint end, r.n
from (select r.id, r.job_type, r.queue, r.locked_by, r.started_at, r.timeout, r.attempts, r.max_attempts, r.locked_until,
		r.cancel_requested_at, count(*) over () as n
	from jobrun.job_runs r where r.status = 'running' order by r.started_at, r.id limit $1::bigint) r
left join lateral (
	select case
			when p.progress ->> 'done' is not null and coalesce(p.progress ->> 'of', p.progress ->> 'total') is not null
				then format('%s of %s', p.progress ->> 'done', coalesce(p.progress ->> 'of', p.progress ->> 'total'))
			when jsonb_typeof(p.progress) = 'number' then null
			else p.progress #>> '{}'
		end as words, case
		when jsonb_typeof(p.progress) = 'number' then
			(p.progress #>> '{}')::numeric / case when (p.progress #>> '{}')::numeric > 1 then 100 else 1 end
		when jsonb_typeof(p.progress -> 'done') = 'number' and jsonb_typeof(coalesce(p.progress -> 'of', p.progress -> 'total')) = 'number'
			then (p.progress ->> 'done')::numeric / nullif(coalesce(p.progress ->> 'of', p.progress ->> 'total')::numeric, 0)
		end as share
	from jobrun.run_texts(r.id) p) t on true
order by r.started_at, r.id
