-- status_head: version of the server, version of the schema, age in ms and host of the runner seen last, running runs,
-- lingering runners (run --for), document, name of the database, ended_is_capped: has more succeeded since the last hour that was summed
-- than type_counts() looks at? $1 how far runs are counted (null: all). All that ended is counted first, by the index alone: mostly it is less.
select d.server_version, d.schema_version, d.runner_age_ms, d.runner_host, d.running, d.lingering, row_to_json(d)::text, d.name,
	d.ended_is_capped
from (
	select current_database() as name, split_part(current_setting('server_version'), ' ', 1) as server_version,
		(select max(m.version) from jobrun.schema_migrations m) as schema_version,
		l.last_seen_at as runner_seen_at, l.host as runner_host,
		floor(extract(epoch from now() - l.last_seen_at) * 1000)::bigint as runner_age_ms,
		(select count(*) from jobrun.job_runs r where r.status = 'running') as running,
		(select count(*) from jobrun.job_runners n where n.lingers_until > now() and n.finished_at is null) as lingering,
		$1::bigint is not null and exists (
			select from jobrun.job_runs r where r.finished_at >= e.since order by r.finished_at desc offset 50000 limit 1)
		and exists (
			select from jobrun.job_runs r where r.finished_at is not null and r.finished_at >= e.since and case
				when r.status <> 'succeeded' then r.status
				when r.idempotency_key is null or r.idempotency_key like 'cli:%' then 'succeeded'
				else 'keyed' end >= 'keyed'
			order by r.finished_at desc offset 50000 limit 1) as ended_is_capped
	from (select greatest(s.stats_until, now() - interval '24 hours') as since from jobrun.settings s) e
	left join jobrun.last_runner() l on true) d
