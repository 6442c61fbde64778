-- waiting_reasons: why due runs among the next $1 waiting ones would not start, the same reasons together; $2 job types, $3 queues
-- (null: all), $4 what this host has handlers for: that others have none keeps nothing from starting here. Returns a line for people, document. The most frequent ten.
select format('%s %s %s%s: %s%s', g.n, case when g.n = 1 then 'due run' else 'due runs' end,
		case when g.state = 'never' then case when g.n = 1 then 'never starts unless somebody acts' else 'never start unless somebody acts' end
			else case when g.n = 1 then 'waits' else 'wait' end end,
		format(', %s run %s', case when g.n = 1 then 'which is' else 'such as' end, g.example_id),
		g.text, coalesce(' (' || g.command || ')', '')),
	json_build_object('count', g.n, 'example_id', g.example_id, 'verdict', g.state, 'reason', g.reason, 'text', g.text, 'command', g.command)::text
from (
	select n.state, n.reason, (array_agg(n.command order by n.id))[1] as command, w.text, count(*) as n, min(n.id) as example_id
	from jobrun.next_waiting($2::text[], $3::text[], $1::bigint) n
	cross join lateral (select r.job_type, r.run_at from jobrun.job_runs r where r.id = n.id offset 0) r
	cross join lateral (select jobrun.line_of(regexp_replace(n.words, '^(waits|never starts unless somebody acts): ', ''), n.at, n.rest) as text) w
	where n.state in ('waits', 'never') and r.run_at <= now()
		and not (n.reason in ('no_runner', 'no_handler', 'refused', 'not_for_queue') and r.job_type = any ($4::text[]))
	group by n.state, n.reason, w.text) g
order by g.n desc, g.example_id
limit 10
