-- list: runs, newest first. $1 how many at most, $2 statuses (null: any, and then $5 is null), $3 job types, $4 queues
-- (each null: any), $5 only runs that ended, or if they have not ended were enqueued, within so many ms (null: at any
-- time), $6 names of definitions (null: any run), $7 archived runs, too? Returns id, job type, status, tries, age in ms
-- of its run_at, start or end (by status), ms it took, definition, slot in the definition's zone, message, document. The
-- conditions are the same as in matching_kinds.sql and matching_ids.sql.
-- Each group of statuses that has an index of its own is a branch, so that three dead runs among millions are found. The
-- archive is not read without $7: a filter that few runs match would read years of it.
with picked as materialized (
	(select r.id from jobrun.job_runs r
	where $2::text[] is null
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs r
	where 'dead' = any ($2::text[]) and r.status = 'dead'
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs r
	where 'running' = any ($2::text[]) and r.status = 'running'
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs r
	where $2::text[] && '{queued,failed}' and r.status in ('queued', 'failed') and r.status = any ($2::text[])
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs r
	where $2::text[] && '{succeeded,cancelled}' and r.status in ('succeeded', 'cancelled') and r.status = any ($2::text[])
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs_archive r
	where $7::boolean and $2::text[] is null
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs_archive r
	where $7::boolean and 'dead' = any ($2::text[]) and r.status = 'dead'
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
	order by r.id desc limit $1::bigint)
	union all
	(select r.id from jobrun.job_runs_archive r
	where $7::boolean and $2::text[] && '{succeeded,cancelled}' and r.status in ('succeeded', 'cancelled') and r.status = any ($2::text[])
		and ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and ($6::text[] is null or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($6::text[])))
		and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
	order by r.id desc limit $1::bigint)
), shown as materialized (
	select r.id, r.job_type, r.queue, r.priority, r.status, r.attempts, r.max_attempts, r.run_at, r.created_at,
		r.started_at, r.finished_at, r.expires_at, r.cancel_requested_at, r.archived_at,
		r.superseded_by, r.idempotency_key, r.parent_id, d.name as definition, r.slot,
		jobrun.slot_text(r.slot, d.time_zone) as slot_local, r.locked_by as host,
		r.error_code, case when r.error_code is not null then (select t.last_error from jobrun.run_texts(r.id) t) end as last_error,
		floor(extract(epoch from case
			when r.status = 'running' then now()
			when r.status = 'failed' then r.failed_at
			when r.finished_at is not null then r.finished_at end - r.started_at) * 1000)::bigint as took_ms
	from (select p.id from picked p order by p.id desc limit $1::bigint) p
	join jobrun.all_runs r on r.id = p.id
	left join jobrun.job_definitions d on d.id = r.definition_id
)
select s.id, s.job_type, case s.status when 'failed' then 'retrying' else s.status end, s.attempts || '/' || s.max_attempts,
	floor(extract(epoch from now() - case
		when s.status in ('queued', 'failed') then s.run_at else coalesce(s.finished_at, s.started_at) end) * 1000)::bigint,
	s.took_ms, s.definition, s.slot_local,
	case when s.superseded_by is not null then 'superseded by run ' || s.superseded_by
		when s.status = 'running' and s.cancel_requested_at is not null then 'cancel requested'
		when s.status = 'succeeded' then null
		else split_part(s.last_error, E'\n', 1) end,
	row_to_json(s)::text
from shown s
order by s.id desc
