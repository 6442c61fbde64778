-- runner_start: this runner's row, and what there is to do, in one statement: each statement of a new connection costs more
-- to plan than to execute, and so does each table. $1 id, $2 host, $3 pid, $4 version, $5 job types, $6 queues or null,
-- $7 permits, $8 how long it stays and starts new runs, in ms, or null: only until nothing is due, $9 how many candidates,
-- $10 counts of a runner that did nothing: if there is nothing to do, the row says at once that the runner has ended, and
-- `over` is true; null: it says goodbye itself.
-- expired: the lease of a run has ended. due_ms: as in fire_due. permit_name: identifies this database in the file of
-- permits. idle_session_ms: idle_session_timeout (0: none; null before 14). job_type, queue, priority: a row for each
-- candidate, or one with nulls. Candidates are looked up only if a run waits at all, whenever it is due.
-- No row: another runner has this id. A repeat is harmless: the id is a random number of this runner. It has no $10, so
-- that a late copy of the first one cannot end a runner that goes on.
with look as materialized (
	select exists (select from jobrun.job_runs r where r.status = 'running' and r.locked_until <= now()) as expired,
		exists (select from unnest($5::text[]) t(job_type) cross join lateral (
			select from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = t.job_type
			order by r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id
			limit 1) w) as waiting,
		ceil(extract(epoch from greatest(least((select d.next_slot_at from jobrun.job_definitions d where d.next_slot_at is not null
			order by d.next_slot_at limit 1), now() + interval '1 hour'), now()) - now()) * 1000)::bigint as due_ms
), runner as (
	insert into jobrun.job_runners as r (id, host, pid, version, job_types, queues, permits, lingers_until, finished_at, counts)
	select $1::bigint, $2::text, $3::bigint, $4::text, $5::text[], $6::text[], $7::bigint, now() + $8::bigint * interval '1 millisecond',
		case when $10::text is not null and not l.expired and not l.waiting and l.due_ms > 0 then now() end,
		coalesce($10::jsonb, '{}')
	from look l
	on conflict (id) do update set last_seen_at = now(), finished_at = case when $10::text is not null then r.finished_at end
		where r.host = excluded.host and r.pid = excluded.pid
	returning r.id, r.finished_at is not null as over
)
select c.job_type, c.queue, c.priority, r.id, s.install_id::text || '/' || current_database() as permit_name,
	(extract(epoch from current_setting('idle_session_timeout', true)::interval) * 1000)::bigint as idle_session_ms,
	l.expired, l.due_ms, r.over
from runner r cross join look l cross join jobrun.settings s
left join lateral (
	select k.job_type, k.queue, k.priority from jobrun.candidates($5::text[], $6::text[], $9::bigint) k
	where l.waiting offset 0) c on true
