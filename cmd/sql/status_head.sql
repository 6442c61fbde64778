-- status_head: version of the server, version of the schema, age in ms and host of the runner seen last, running runs,
-- lingering runners (run --for), document, name of the database
select d.server_version, d.schema_version, d.runner_age_ms, d.runner_host, d.running, d.lingering, row_to_json(d)::text, d.name
from (
	select current_database() as name, split_part(current_setting('server_version'), ' ', 1) as server_version,
		(select max(m.version) from jobrun.schema_migrations m) as schema_version,
		l.last_seen_at as runner_seen_at, l.host as runner_host,
		floor(extract(epoch from now() - l.last_seen_at) * 1000)::bigint as runner_age_ms,
		(select count(*) from jobrun.job_runs r where r.status = 'running') as running,
		(select count(*) from jobrun.job_runners n where n.lingers_until > now() and n.finished_at is null) as lingering
	from (select 1) always
	left join jobrun.last_runner() l on true) d
