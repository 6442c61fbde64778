-- status_running: the oldest hundred of the runs that run now; $1 only of these job types (null: all). Returns id, type, attempt, host,
-- age in ms, progress in words, as far as the role may see it: its share if it is {"done": 40, "of": 100}.
select r.id, r.job_type, r.attempts || '/' || r.max_attempts, r.locked_by,
	floor(extract(epoch from now() - r.started_at) * 1000)::bigint,
	case when jsonb_typeof(t.progress -> 'done') = 'number' and jsonb_typeof(t.progress -> 'of') = 'number'
			and (t.progress ->> 'of')::numeric > 0
		then format('%s%% (%s of %s)', floor(100 * (t.progress ->> 'done')::numeric / (t.progress ->> 'of')::numeric),
			t.progress ->> 'done', t.progress ->> 'of')
		else left(t.progress::text, 300) end
from (
	select r.id, r.job_type, r.attempts, r.max_attempts, r.locked_by, r.started_at from jobrun.job_runs r
	where r.status = 'running' and ($1::text[] is null or r.job_type = any ($1::text[]))
	order by r.started_at, r.id limit 100) r
left join lateral jobrun.run_texts(r.id) t on true
order by r.started_at, r.id
