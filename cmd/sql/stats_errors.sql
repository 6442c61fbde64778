-- stats_errors: why attempts ended badly within $1 ms, of job types $2 (null: all). Returns job type, error code (or the outcome, if
-- there is none), how many, how many runs went dead of it, age of the last in ms, the newest such run, the last in
-- Unix ms, document.
select d.job_type, d.error_code, d.count, d.dead, floor(extract(epoch from now() - d.last_at) * 1000)::bigint, d.example_id,
	floor(extract(epoch from d.last_at) * 1000)::bigint, row_to_json(d)::text
from (
	select r.job_type, coalesce(a.error_code, a.outcome) as error_code, count(*) as count,
		count(*) filter (where r.status = 'dead' and r.finished_at = a.finished_at) as dead, max(a.finished_at) as last_at, max(a.run_id) as example_id
	from jobrun.job_attempts a
	cross join lateral (select r.job_type, r.status, r.finished_at from jobrun.job_runs r where r.id = a.run_id offset 0) r
	where a.finished_at >= now() - $1::bigint * interval '1 ms' and a.outcome in ('failed', 'dead', 'lost')
		and ($2::text[] is null or r.job_type = any ($2::text[]))
	group by r.job_type, coalesce(a.error_code, a.outcome)) d
order by d.count desc, d.job_type, d.error_code
limit 1000
