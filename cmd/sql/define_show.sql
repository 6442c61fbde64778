-- define_show: the fields of definition $1: name, kind (text, ms, time: Unix ms), value (null: not set), age in ms of a
-- time. No row: no such definition.
select f.name, f.kind, f.value, case f.kind when 'time' then f.age_ms end
from jobrun.job_definitions d
cross join lateral (select v.*, row_number() over () as nr from (values
	('definition',      'text', d.name, null::timestamptz),
	('description',     'text', d.description, null),
	('type',            'text', d.job_type, null),
	('schedule',        'text', d.schedule, null),
	('time zone',       'text', case when d.schedule is not null then d.time_zone end, null),
	('enabled',         'text', case when d.enabled then 'yes' else 'no' end, null),
	('paused',          'text', case when d.paused_until = 'infinity' then 'until resumed' end, null),
	('paused until',    'time', null, case when d.paused_until > now() and isfinite(d.paused_until) then d.paused_until end),
	('paused because',  'text', case when d.paused_until > now() then d.paused_reason end, null),
	('catch-up',        'text', case when d.schedule is not null then d.catch_up end, null),
	('catch-up grace',  'ms',   floor(extract(epoch from d.catch_up_grace) * 1000)::bigint::text, null),
	('overlap',         'text', case when d.schedule is not null then d.overlap end, null),
	('counts from',     'time', null, case when d.schedule ilike '@every%' then d.anchor_at end),
	('queue',           'text', d.queue, null),
	('priority',        'text', d.priority::text, null),
	('max attempts',    'text', d.max_attempts::text, null),
	('timeout',         'ms',   floor(extract(epoch from d.timeout) * 1000)::bigint::text, null),
	('backoff',         'ms',   floor(extract(epoch from d.backoff_base) * 1000)::bigint::text, null),
	('backoff cap',     'ms',   floor(extract(epoch from d.backoff_cap) * 1000)::bigint::text, null),
	('lock key',        'text', d.concurrency_key, null),
	('on dead',         'text', d.on_dead, null),
	('created',         'time', null, d.created_at),
	('changed',         'time', null, case when d.updated_at > d.created_at then d.updated_at end)
) v(name, kind, value, at)) v
cross join lateral (select v.name, v.kind,
	coalesce(v.value, floor(extract(epoch from v.at) * 1000)::bigint::text) as value,
	floor(extract(epoch from now() - v.at) * 1000)::bigint as age_ms) f
where d.name = $1::text
order by v.nr
