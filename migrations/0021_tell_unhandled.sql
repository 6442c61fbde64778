-- 0021 tell_unhandled: a tick tells once that runs wait for a handler that no host has.

-- When a tick last looked for such runs, and when each of their job types was last told: {"TYPE": "time"}, of the last day.
alter table jobrun.settings add column unhandled_looked_at timestamptz not null default now(),
	add column unhandled_told jsonb not null default '{}';

-- These have got more parameters.
drop function if exists jobrun.next_claim(bigint);
drop function if exists jobrun.explain_conditions(bigint);
drop function if exists jobrun.taken_types(text);
drop function if exists jobrun.explain_handler(text, text);
drop function if exists jobrun.explain_hosts(text, text);
