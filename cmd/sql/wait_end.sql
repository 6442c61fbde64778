-- wait_end: what has become of the runs $1, in that order: id, job type, status (null: there is none), attempts,
-- max_attempts, first line of the error, result, document
select w.id, s.job_type, s.status, s.attempts, s.max_attempts, split_part(s.error, e'\n', 1), s.result::text,
	json_build_object('id', w.id, 'job_type', s.job_type, 'status', s.status, 'attempts', s.attempts,
		'max_attempts', s.max_attempts, 'run_at', s.run_at, 'finished_at', s.finished_at, 'error_code', s.error_code,
		'result', s.result, 'error', s.error)::text
from unnest($1::text::bigint[]) with ordinality w (id, place)
left join jobrun.run_status($1::text::bigint[]) s on s.id = w.id
order by w.place
