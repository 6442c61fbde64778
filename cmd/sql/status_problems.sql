-- status_problems: what somebody should look at, a row for each problem; $1 only these job types (null: all). Returns
-- text, until when in Unix ms or null (printed after the text), the rest of the line, document; and the parts of all that: about, text,
-- advice, reason, by whom.
with due as (
	select d.job_type, d.due from jobrun.late_counts($1::text[]) d
), runners as materialized (
	select distinct n.job_types from jobrun.seen_runners() n
), silent as materialized (      -- no tick, for long enough that jobrun check says so
	select from jobrun.last_runner() l where l.last_seen_at <= now() - interval '5 minutes'
), problems as (
	select 0 as nr, 'database' as about, 'copy' as problem, c.copied as text,
		'jobrun migrate --adopt if it takes the place of that one, jobrun migrate --adopt --cancel-waiting if that one goes on' as look,
		null::timestamptz as paused_until, null::text as paused_by, null::text as reason
	from jobrun.copied() c(copied) where c.copied is not null
	union all
	select 0, 'everything', 'paused', 'paused', 'jobrun resume --all', s.paused_until, s.paused_by, s.paused_reason
	from jobrun.settings s where s.paused_until > now()
	union all
	(select distinct on (n.host) 0, 'host ' || n.host, 'paused', 'paused', 'jobrun resume --host ' || jobrun.shell_word(n.host), n.paused_until, n.paused_by,
		n.paused_reason
	from jobrun.job_runners n where n.paused_until > now() order by n.host, n.paused_until desc)
	union all
	select 1 as nr, r.job_type as about, 'dead' as problem, count(*) || ' dead in 24h' as text,
		'jobrun list --status dead --type ' || r.job_type as look, null::timestamptz as paused_until,
		null::text as paused_by, null::text as reason
	from (select r.job_type, r.finished_at from jobrun.job_runs r where r.status = 'dead' offset 0) r -- by the index of dead runs
	where r.finished_at >= now() - interval '24 hours'
		and ($1::text[] is null or r.job_type = any ($1::text[]))
	group by r.job_type
	union all
	select 2, d.job_type, 'no_runner', d.due || ' due, and no runner of the last 24h has this type',
		'put a handler ' || d.job_type || ' into the handlers directory of a host; '
			|| 'jobrun handlers says what this host has, and what is wrong', null, null, null
	from due d
	where not exists (select from runners n where d.job_type = any (n.job_types))
	union all
	select 3, d.job_type, 'late', d.due || ' due for more than 5 minutes, and no runner has been seen in that time',
		'is the crontab line in place? try: jobrun --once -v', null, null, null
	from due d
	where exists (select from runners n where d.job_type = any (n.job_types)) and exists (select from silent)
	union all
	select 3, o.job_type, 'behind', 'runs have been due for more than 5 minutes, and runners come', 'jobrun list --waiting --type ' || o.job_type,
		null, null, null
	from (select distinct d.job_type from jobrun.oldest_due($1::text[]) d where d.since <= now() - interval '5 minutes') o
	where exists (select from runners n where o.job_type = any (n.job_types)) and not exists (select from silent)
	union all        -- where nothing waits that would say so; where there is nothing but exec, its lines come when they do
	select 3, 'runners', 'silent', 'none has been seen for more than 5 minutes', 'is the crontab line in place? try: jobrun --once -v', null, null, null
	from silent
	where exists (select from runners n where n.job_types <> '{}')
		and not exists (select from due d join runners n on d.job_type = any (n.job_types))
	union all        -- one host of several, by the rhythm of its last ten ticks; a host that is silent for a day is forgotten
	select 3, 'host ' || h.host, 'silent', 'no runner has been seen for ' || m.silent || ' minutes, and one used to come every '
			|| case when m.usual = 1 then 'minute' else m.usual || ' minutes' end, 'on that host: jobrun doctor', null, null, null
	from jobrun.seen_hosts() h
	cross join lateral (
		select (max(l.started_at) - min(l.started_at)) / 9 as usual, max(l.last_seen_at) as seen_at
		from (
			select r.started_at, r.last_seen_at
			from (select n.* from jobrun.job_runners n where n.host = h.host order by n.started_at desc limit 1000) r
			where r.job_types <> '{}' order by r.started_at desc limit 10) l
		having count(*) = 10) w
	cross join lateral (select floor(extract(epoch from now() - w.seen_at) / 60) as silent,
		greatest(1, round(extract(epoch from w.usual) / 60)) as usual) m
	where $1::text[] is null and not h.is_paused and not exists (select from silent) and w.seen_at > now() - interval '1 day'
		and w.seen_at <= now() - greatest(interval '15 minutes', 3 * w.usual)
	union all
	select 3, 'host ' || r.locked_by, 'expired', case when count(*) = 1 then 'the lease of 1 running run ended more than 2 minutes ago, and no runner has taken it over'
			else 'the leases of ' || count(*) || ' running runs ended more than 2 minutes ago, and no runner has taken them over' end,
		'jobrun --once -v', null, null, null
	from jobrun.job_runs r
	where r.status = 'running' and r.locked_until < now() - interval '2 minutes' and ($1::text[] is null or r.job_type = any ($1::text[]))
	group by r.locked_by
	union all
	select 4, t.name, 'paused', 'paused', 'jobrun resume --type ' || t.name, t.paused_until, t.paused_by, t.paused_reason
	from jobrun.job_types t
	where t.paused_until > now() and ($1::text[] is null or t.name = any ($1::text[]))
	union all
	select 5, 'queue ' || q.name, 'paused', 'paused', 'jobrun resume --queue ' || q.name, q.paused_until, q.paused_by, q.paused_reason
	from jobrun.job_queues q
	where q.paused_until > now() and $1::text[] is null
	union all
	select 6, 'definition ' || d.name, 'paused', 'paused', 'jobrun resume --definition ' || d.name, d.paused_until, null,
		d.paused_reason
	from jobrun.job_definitions d
	where d.paused_until > now() and ($1::text[] is null or d.job_type = any ($1::text[]))
	union all        -- without jobrun.prune: where no runner is set up and nothing is due, that is no problem
	select 7, 'definition ' || d.name, 'late_slot', 'slot ' || jobrun.slot_text(d.next_slot_at, d.time_zone)
			|| ' has passed, and ' || case when n.came then 'the ticks since then could not fire it'
				else 'no tick has come since' end,
		case when n.came then 'jobrun --once says why' else 'is the crontab line in place? try: jobrun --once -v' end, null, null, null
	from jobrun.job_definitions d
	cross join lateral (select exists (select from jobrun.job_runners n
		where n.started_at > d.next_slot_at + interval '1 minute' and n.job_types <> '{}') as came) n
	where d.enabled and d.next_slot_at < now() - interval '2 minutes' and d.name not like 'jobrun.%'
		and ($1::text[] is null or d.job_type = any ($1::text[]))
	union all
	select 8, 'definition ' || d.name, 'overlap', 'slot ' || jobrun.slot_text(l.slot, d.time_zone) || ' was skipped, '
			|| substr(l.reason, 10), 'jobrun slots ' || d.name, null, null, null
	from jobrun.job_definitions d
	cross join lateral (select s.slot, s.outcome, s.reason from jobrun.job_slots s
		where s.definition_id = d.id and s.runner_id is null order by s.slot desc limit 1) l
	where l.outcome = 'skipped' and l.reason like 'overlap: %' and ($1::text[] is null or d.job_type = any ($1::text[]))
	union all        -- nothing fires until then
	select 9, 'definition ' || d.name, 'clock', 'slot ' || jobrun.slot_text(l.until, d.time_zone)
			|| ' is on record, and yet to come: the clock of the server was ahead',
		'jobrun define ' || d.name || ' --restart fires again from now on', null, null, null
	from jobrun.job_definitions d
	cross join lateral (select coalesce(s.until, s.slot) as until from jobrun.job_slots s
		where s.definition_id = d.id and s.runner_id is null order by s.slot desc limit 1) l
	where l.until > now() + interval '5 minutes' and ($1::text[] is null or d.job_type = any ($1::text[]))
)
select p.about || ': ' || p.text,
	case when isfinite(p.paused_until) then floor(extract(epoch from p.paused_until) * 1000)::bigint end,
	coalesce(' by ' || p.paused_by, '') || coalesce(': ' || p.reason, '') || ' (' || p.look || ')',
	row_to_json(d)::text, p.about, p.text, p.look, p.reason, p.paused_by
from problems p
cross join lateral (select p.about, p.problem, p.text, p.look as advice,
	case when isfinite(p.paused_until) then p.paused_until end as paused_until, p.reason as paused_reason, p.paused_by) d
order by p.nr, p.about
