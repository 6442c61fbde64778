-- show: the fields of run $1: name, kind (text, prose, ms, time: Unix ms), value, age in ms of a time. No row: no such run.
-- The payload of exec, {"argv": [...]}, is a line that can be pasted into a shell (command).
-- why and try are the verdict of explain() for a waiting run, and what changes it; $2 this host, $3 the types that it has handlers for (null: not known).
-- Payload, result, error and the like are null for roles that may not read them.
select f.name, f.kind, f.value, case f.kind when 'time' then f.age_ms end
from jobrun.all_runs r
left join jobrun.job_definitions d on d.id = r.definition_id
cross join lateral jobrun.run_texts(r.id) t
cross join lateral (select jobrun.command_line(t.payload)) c(line)
left join lateral (
	select jobrun.line_of(e.words, e.at, e.rest) as words, e.command
	from jobrun.explain(r.id, $2::text, $3::text[]) e where e.condition = 'verdict' and r.status in ('queued', 'failed')) w on true
cross join lateral (select v.*, row_number() over () as nr from (values
	('run',         'text', r.id::text, null::timestamptz),
	('type',        'text', r.job_type, null),
	('definition',  'text', coalesce(d.name, r.definition_id || ', which was removed'), null),
	('slot',        'text', jobrun.slot_text(r.slot, d.time_zone), null),
	('status',      'text', case when r.status = 'failed' then 'retrying'
		when r.status = 'running' and r.cancel_requested_at is not null then 'running, cancel requested'
		when r.superseded_by is not null then r.status || ', superseded by run ' || r.superseded_by
		else r.status end, null),
	('why',         'prose', w.words, null),
	('try',         'text', w.command, null),
	('queue',       'text', r.queue, null),
	('priority',    'text', r.priority::text, null),
	('attempts',    'text', r.attempts || ' of ' || r.max_attempts
		|| case when r.snoozes > 0 then ', put off ' || r.snoozes || ' times' else '' end
		|| case when r.releases > 0 then ', interrupted ' || case r.releases when 1 then 'once' else r.releases || ' times' end else '' end, null),
	('error',       'prose', t.last_error, null),
	('error code',  'text', r.error_code, null),
	('created',     'time', null, r.created_at),
	('created by',  'text', r.created_by, null),
	('due',         'time', null, case when r.status in ('queued', 'failed') then r.run_at end),
	('expires',     'time', null, case when r.finished_at is null then r.expires_at end),
	('started',     'time', null, r.started_at),
	('finished',    'time', null, r.finished_at),
	('archived',    'time', null, r.archived_at),
	('took',        'ms', (
			-- include run_took
		)::text, null),
	('host',        'text', r.locked_by, null),
	('lease until', 'time', null, r.locked_until),
	('timeout',     'ms',   floor(extract(epoch from r.timeout) * 1000)::bigint::text, null),
	('backoff',     'ms',   floor(extract(epoch from r.backoff_base) * 1000)::bigint::text, null),
	('backoff cap', 'ms',   floor(extract(epoch from r.backoff_cap) * 1000)::bigint::text, null),
	('idempotency key', 'text', r.idempotency_key, null),
	('unique key',  'text', r.unique_key, null),
	('lock key',    'text', r.concurrency_key, null),
	('parent run',  'text', r.parent_id::text, null),
	('trace',       'text', r.trace_context, null),
	('progress',    'text', t.progress::text, null),
	('checkpoint',  'text', t.checkpoint::text, null),
	('result',      'text', t.result::text, null),
	('command',     'text', c.line, null),
	('payload',     'text', case when c.line is null then t.payload::text end, null)
) v(name, kind, value, at)) v
cross join lateral (select v.name, v.kind,
	coalesce(v.value, floor(extract(epoch from v.at) * 1000)::bigint::text) as value,
	floor(extract(epoch from now() - v.at) * 1000)::bigint as age_ms) f
where r.id = $1::bigint
order by v.nr
