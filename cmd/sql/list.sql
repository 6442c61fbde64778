-- list: runs, newest first, or in the order of a column. $1 how many at most, $2 to $12 as in run_filter.part, $13 archived
-- runs, too? $14 how many to look for (at least $1: so that their number can be told), $15 how many to look at of each kind
-- if $5 is null, $16 the column to sort by (null: id), $17 descending? Returns a row for each run, at least one: its first
-- columns are those of list_columns.c, or null. The last ones are the same in each row: the runs that were found, and
-- whether more may match that were not looked at.
-- The newest runs (or dead runs) are read by id until there are enough; the first branch and the second exclude each other. Only if there are not, run_windows.part is read. The archive is not
-- read without $13: a filter that few runs match would read years of it.
with newest as materialized (
	select * from (
		(select
			-- include run_columns
		from jobrun.job_runs r
		where $12::bigint is null and ($2::text[] is null or $2::text[] && '{queued,failed,succeeded,cancelled}')
		order by r.id desc limit $15::bigint + 1)
		union all
		(select
			-- include run_columns
		from jobrun.job_runs r
		where $12::bigint is null and $2::text[] = '{dead}' and r.status = 'dead'
		order by r.id desc limit $15::bigint + 1)) r
	where true
		-- include run_filter
	limit case when $16::text is null then $14::bigint end
), enough as materialized (
	select $16::text is null and (select count(*) from newest) >= $14::bigint as enough
), older as (
	select * from (
			-- include run_windows
		) r
	where not (select e.enough from enough e)
		-- include run_filter
), archived as (
	(select
			-- include run_columns
	from jobrun.job_runs_archive r
	where $13::boolean and ($2::text[] is null or $2::text[] && '{succeeded,cancelled}')
		-- include run_ended
		-- include run_filter
	order by r.id desc limit case when $16::text is null then $14::bigint end)
	union all
	(select
			-- include run_columns
	from jobrun.job_runs_archive r
	where $13::boolean and 'dead' = any ($2::text[]) and not $2::text[] && '{succeeded,cancelled}' and r.status = 'dead'
		-- include run_ended
		-- include run_filter
	order by r.id desc limit case when $16::text is null then $14::bigint end)
), found as materialized (
	select distinct on (r.id) r.*,
			-- include run_took
			as took_ms,
		floor(extract(epoch from case
			when r.status not in ('queued', 'failed') then r.started_at - r.run_at
			when r.run_at <= now() then now() - r.run_at end) * 1000)::bigint as wait_ms
	from (select * from newest union all select * from older union all select * from archived) r
	order by r.id desc
), sorted as (
	select f.*,
		case $16::text
			when 'priority' then f.priority
			when 'attempts' then f.attempts
			when 'took' then f.took_ms
			when 'wait' then f.wait_ms
			when 'parent' then f.parent_id
			when 'run_at' then extract(epoch from f.run_at)
			when 'created_at' then extract(epoch from f.created_at)
			when 'started_at' then extract(epoch from f.started_at)
			when 'finished_at' then extract(epoch from f.finished_at) end::double precision * case when $17::boolean then -1 else 1 end as number,
		case $16::text
			when 'type' then f.job_type
			when 'queue' then f.queue
			when 'status' then case f.status when 'failed' then 'retrying' else f.status end
			when 'lock' then f.concurrency_key
			when 'host' then f.locked_by
			when 'error_code' then f.error_code
			when 'created_by' then f.created_by end as text
	from found f
), picked as (
	select s.id, s.took_ms, s.wait_ms, row_number() over (order by s.number,
		case when not $17::boolean then s.text end, case when $17::boolean then s.text end desc nulls last,
		case when $16::text = 'id' and not $17::boolean then s.id end, s.id desc) as place
	from sorted s
), shown as (
	select p.place, r.id, r.job_type, r.queue, r.priority,
		case r.status when 'failed' then 'retrying' else r.status end as status,
		r.attempts, r.max_attempts, r.run_at, r.created_at, r.started_at, r.finished_at, r.expires_at, r.cancel_requested_at,
		r.archived_at, r.superseded_by, r.idempotency_key, r.unique_key, r.concurrency_key, r.parent_id, r.created_by,
		d.name as definition, r.slot, jobrun.slot_text(r.slot, d.time_zone) as slot_local,
		replace(jobrun.slot_text(r.slot, d.time_zone, true), ' ', 'T') as slot_with_offset, r.locked_by as host, r.runner_id,
		r.error_code, case when r.error_code is not null then (select t.last_error from jobrun.run_texts(r.id) t) end as error,
		p.took_ms, case when p.wait_ms > 0 then p.wait_ms when p.wait_ms <= 0 then 0 end as wait_ms
	from (select p.* from picked p where p.place <= $1::bigint) p
	cross join lateral ( -- "offset 0": rule 19 of lib/README.md
		select r.id, r.job_type, r.queue, r.priority, r.status, r.attempts, r.max_attempts, r.run_at, r.created_at, r.started_at,
			r.finished_at, r.expires_at, r.cancel_requested_at, r.archived_at, r.superseded_by, r.idempotency_key, r.unique_key,
			r.concurrency_key, r.parent_id, r.created_by, r.definition_id, r.slot, r.locked_by, r.runner_id, r.error_code
		from jobrun.all_runs r where r.id = p.id offset 0) r
	left join jobrun.job_definitions d on d.id = r.definition_id
), lines as (
	select s.*, case
			when s.status in ('queued', 'retrying') then s.run_at else coalesce(s.finished_at, s.started_at) end as at,
		case when s.superseded_by is not null then 'superseded by run ' || s.superseded_by
			when s.status = 'running' and s.cancel_requested_at is not null then 'cancel requested'
			when s.status = 'succeeded' then null
			else split_part(s.error, E'\n', 1) end as message
	from shown s
)
select l.id, l.job_type, l.status, l.attempts || '/' || l.max_attempts,
	floor(extract(epoch from now() - l.at) * 1000)::bigint, floor(extract(epoch from l.at) * 1000)::bigint, l.took_ms,
	l.definition, l.slot_local, floor(extract(epoch from l.slot) * 1000)::bigint, l.message,
	l.queue, l.priority, l.concurrency_key, l.unique_key, l.idempotency_key, l.attempts, l.max_attempts, l.wait_ms,
	l.host, l.runner_id, l.error_code, l.error, l.created_by, l.parent_id,
	floor(extract(epoch from l.run_at) * 1000)::bigint, floor(extract(epoch from l.created_at) * 1000)::bigint,
	floor(extract(epoch from l.started_at) * 1000)::bigint, floor(extract(epoch from l.finished_at) * 1000)::bigint,
	case when l.id is not null then (select row_to_json(j)::text from (select l.id, l.job_type, l.queue, l.priority, l.status,
		l.attempts, l.max_attempts, l.run_at, l.created_at, l.started_at, l.finished_at, l.expires_at, l.cancel_requested_at, l.archived_at, l.superseded_by,
		l.idempotency_key, l.unique_key, l.concurrency_key, l.parent_id, l.created_by, l.definition, l.slot, l.slot_with_offset as slot_local,
		l.host, l.runner_id, l.error_code, l.error, l.took_ms, l.wait_ms) j) end,
	t.found, t.more
from (
	select (select count(*) from found) as found,
		not (select e.enough from enough e) and (
			-- include run_more
		) as more) t
left join lines l on true
order by l.place
