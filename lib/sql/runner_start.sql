-- runner_start: this runner's row, and what there is to do, in one statement: a new connection plans each longer than it
-- executes it, and reads the catalogs for each table, function and type, so there are few. $1 id, $2 host, $3 pid, $4 version,
-- $5 job types, $6 queues or null, $7 permits, $8 how long it stays and starts new runs, an interval, or null: only until
-- nothing is due, $9 how many candidates, $10 counts of a runner that did nothing: if there is nothing to do, the row says at
-- once that the runner has ended, and `over` is true; null: it says goodbye itself. $11 refused handlers or null, $12 how
-- often it renews leases, an interval, $13 the checksum of this program's migrations and functions: if the database has others,
-- nothing is written and there is no row, and the runner asks need(); null: it has asked.
-- job_type, queue, priority: a row for each candidate, or one with nulls. Candidates are looked up only if a run of these types
-- waits, whenever it is due. "order by" makes the planner step through job_runs_ready type by type, until it finds a run; inside
-- EXISTS it would be ignored, and the table might be read. install_id and database identify this database in the file of permits.
-- idle_session_timeout: as it is shown; null before 14. expired: the lease of a run has ended. slot_due: a slot of a schedule is
-- due. looks: nobody has looked for runs that no host has a handler for in the last five minutes (a time that is yet to come is
-- that of a clock that was ahead); then the runner does, so it does not end here. copied: the warning that this database is a copy,
-- or null. Where copies are refused the statement fails. A runner that has ended does not look: it started nothing, and the look
-- costs as much as a tenth of its statements.
-- No row, and $13 is null: another runner has this id. A repeat is harmless: the id is a random number of this runner. A repeat has no $10,
-- so that a late copy of the first one cannot end a runner that goes on.
with look as materialized (
	select exists (select from jobrun.job_runs r where r.status = 'running' and r.locked_until <= now()) as expired,
		(select true from jobrun.job_runs r where r.status in ('queued', 'failed') and r.job_type = any ($5::text[])
			order by r.job_type limit 1) is not null as waiting,
		exists (select from jobrun.job_definitions d where d.next_slot_at <= now()) as slot_due,
		s.install_id,
		s.unhandled_looked_at <= now() - interval '5 minutes' or s.unhandled_looked_at > now() + interval '5 minutes' as looks
	from jobrun.settings s
	where $13::text is null or exists (select from jobrun.schema_migrations m where m.name = 'functions' and m.checksum = $13::text)
), runner as (
	insert into jobrun.job_runners as r (id, host, pid, version, job_types, queues, permits, lingers_until, finished_at, counts,
		refused, heartbeat)
	select $1::bigint, $2::text, $3::bigint, $4::text, $5::text[], $6::text[], $7::bigint, now() + $8::interval,
		case when $10::jsonb is not null and not l.expired and not l.waiting and not l.slot_due and not l.looks
			then now() end,
		coalesce($10::jsonb, '{}'), $11::text[], $12::interval
	from look l
	on conflict (id) do update set last_seen_at = now(), finished_at = case when $10::jsonb is not null then r.finished_at end
		where r.host = excluded.host and r.pid = excluded.pid
	returning r.id, $10::text is not null and r.finished_at is not null as over,
		case when $10::text is null or r.finished_at is null then jobrun.check_copy() end as copied
)
select c.job_type, c.queue, c.priority, r.id, l.install_id, current_database() as database,
	current_setting('idle_session_timeout', true) as idle_session_timeout, l.expired, l.slot_due, l.looks, r.over, r.copied
from runner r cross join look l
left join lateral ( -- with "offset 0" the function is called only if something waits
	select k.job_type, k.queue, k.priority from jobrun.candidates($5::text[], $6::text[], $9::bigint, $2::text) k
	where l.waiting offset 0) c on true
