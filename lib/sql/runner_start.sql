-- runner_start: this runner's row. $1 id, $2 host, $3 pid, $4 version, $5 job types, $6 queues or null, $7 permits,
-- $8 how long it stays and starts new runs, in ms, or null: only until nothing is due.
-- Returns the id, a name that identifies this database in the file of permits, and idle_session_timeout in ms (0: none;
-- null before 14). No row: another runner has this id. A repeat is harmless: the id is a random number of this runner.
insert into jobrun.job_runners as r (id, host, pid, version, job_types, queues, permits, lingers_until)
values ($1::bigint, $2::text, $3::bigint, $4::text, $5::text[], $6::text[], $7::bigint,
	now() + $8::bigint * interval '1 millisecond')
on conflict (id) do update set last_seen_at = now() where r.host = excluded.host and r.pid = excluded.pid
returning r.id, (select s.install_id::text from jobrun.settings s) || '/' || current_database() as permit_name,
	(extract(epoch from current_setting('idle_session_timeout', true)::interval) * 1000)::bigint as idle_session_ms
