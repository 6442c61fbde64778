-- report_dead: the newest 2000 dead runs by job type and error code, the newest group first; $1 time zone, $2 how many groups. Returns
-- job type, error code, runs, and of the newest run: id, ms since its end, its end as text, attempts, host, error, end of the output;
-- and in each row: groups in all, are there more dead runs?
with newest as materialized (
	select r.id, r.finished_at, r.job_type, r.error_code from jobrun.job_runs r where r.status = 'dead' order by r.id desc limit 2001
), groups as (
	select r.job_type, r.error_code, count(*) as runs, (array_agg(r.id order by r.finished_at desc, r.id desc))[1] as newest
	from (select n.* from newest n order by n.id desc limit 2000) r
	group by r.job_type, r.error_code
)
select g.job_type, g.error_code, g.runs, r.id, floor(extract(epoch from now() - r.finished_at) * 1000)::bigint,
	to_char(r.finished_at at time zone $1::text, 'Dy FMDD Mon HH24:MI'), r.attempts, r.locked_by,
	(select left(t.last_error, 1000) from jobrun.run_texts(r.id) t),
	(select right(t.output, 4000) from jobrun.attempt_texts(r.id, r.claim_seq) t), count(*) over (), (select count(*) > 2000 from newest)
from groups g cross join lateral ( -- "offset 0": rule 19 of lib/README.md
	select r.id, r.finished_at, r.attempts, r.locked_by, r.claim_seq from jobrun.job_runs r where r.id = g.newest offset 0) r
order by r.finished_at desc, r.id desc
limit $2::bigint
