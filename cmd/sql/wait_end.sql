-- wait_end: how the runs $1 ended, in that order: id, job type, status (null: no such run), how often a dead one was tried, in words
-- (one that has expired was claimed only to end it), the first line of the error, result, document, and the run of $1 that
-- it has superseded and stands for (null: none)
select i.newer, s.job_type, s.status,
	case when s.error_code = 'expired' then ''
		else format(' after %s of %s attempt%s', s.attempts, s.max_attempts, case when s.max_attempts > 1 then 's' else '' end) end,
	case when s.superseded_by is not null then 'superseded by run ' || s.superseded_by
		when s.status = 'dead' then split_part(s.error, e'\n', 1) end,
	s.result::text,
	json_build_object('id', i.newer, 'in_place_of', o.id, 'job_type', s.job_type, 'status', s.status, 'attempts', s.attempts,
		'max_attempts', s.max_attempts, 'run_at', s.run_at, 'finished_at', s.finished_at, 'error_code', s.error_code,
		'superseded_by', s.superseded_by, 'result', s.result, 'error', s.error)::text,
	o.id
from unnest($1::text::bigint[]) with ordinality w (id, place)
join jobrun.in_place_of($1::text::bigint[]) i on i.id = w.id
left join jobrun.run_status(array(select n.newer from jobrun.in_place_of($1::text::bigint[]) n)) s on s.id = i.newer
cross join lateral (select nullif(w.id, i.newer) as id) o
order by w.place
