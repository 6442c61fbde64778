-- report_head: $1 the time zone of the page. One row: database, version of the server, version of the schema; the moment as day, time
-- and offset; how many ms ago the last runner was seen, its host; since when ends are counted run by run, and, if hours
-- before that are not summed, since when they are not (null: all are); may the caller read texts of handlers, has anything ever run, the moment in Unix ms.
select current_database(), split_part(current_setting('server_version'), ' ', 1),
	(select max(m.version) from jobrun.schema_migrations m),
	to_char(now() at time zone $1::text, 'FMDay, FMDD FMMonth YYYY'), to_char(now() at time zone $1::text, 'HH24:MI:SS'),
	case when o.ahead < '0' then '-' else '+' end || to_char(greatest(o.ahead, -o.ahead), 'HH24:MI'),
	floor(extract(epoch from now() - l.last_seen_at) * 1000)::bigint, l.host,
	to_char(w.since at time zone $1::text, 'HH24:MI'),
	case when w.stats_until < w.since - interval '1 minute'
		then to_char(greatest(w.stats_until, w.first) at time zone $1::text, 'Dy FMDD Mon HH24:MI') end,
	has_column_privilege('jobrun.job_attempts', 'output', 'select'),
	l.host is not null or exists (select from jobrun.job_runs), floor(extract(epoch from now()) * 1000)::bigint
from (select date_trunc('minute', now() at time zone $1::text - now() at time zone 'UTC') as ahead) o
cross join (select s.stats_until, date_trunc('hour', now()) - interval '167 hours' as first,
		-- include report_open
		as since
	from jobrun.settings s) w
left join jobrun.last_runner() l on true
