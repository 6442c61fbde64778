-- effect: effects that must happen once.

-- effect: true until a transaction that called it with this key has committed. If another transaction has called it and
-- is open, the call waits for its end. If the effect is in the same transaction, it happens exactly once:
-- `if jobrun.effect('mail-42') then ...`. Inside a handler (parameters jobrun.run_id and jobrun.claim; sql handlers
-- have them) it raises JR074 if that claim is not the running one any more.
create or replace function jobrun.effect(key text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_key   constant text := key;
	v_run   constant bigint := nullif(current_setting('jobrun.run_id', true), '')::bigint;
	v_claim constant bigint := nullif(current_setting('jobrun.claim', true), '')::bigint;
begin
	perform jobrun.check_key('key', v_key);
	if v_key is null then
		raise exception 'key must not be null' using errcode = 'null_value_not_allowed';
	elsif v_run is not null and not exists (select from jobrun.job_runs r
		where r.id = v_run and r.claim_seq = v_claim and r.locked_until is not null)
	then
		raise exception 'claim % of run % is not the running one any more', v_claim, v_run using errcode = 'JR074';
	end if;
	insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at) values (v_key, v_run, v_claim, now())
	on conflict (key) do update set run_id = excluded.run_id, claim_seq = excluded.claim_seq,
		started_at = excluded.started_at, done_at = excluded.done_at
		where e.done_at is null;
	return found;
end
$fn$;

-- effect_begin, effect_claim, effect_done, effect_undo, effect_end, effect_look: the steps of `jobrun effect`,
-- described in cmd/sql/effect_*.sql. They are functions, so that handlers need no rights on the tables.
create or replace function jobrun.effect_begin(effect text, run_id bigint, claim_seq bigint)
returns table (verdict text, exit_status text, age_ms bigint)
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
with fence as materialized (
	select $2 is null or exists (select from jobrun.job_runs r
		where r.id = $2 and r.claim_seq = $3 and r.locked_until is not null) as held
), met as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq)
	select $1, $2, $3 from fence f where f.held
	on conflict (key) do update set                 -- a row that is done does not change; the update only returns the current row
		run_id     = case when e.done_at is null then excluded.run_id else e.run_id end,
		claim_seq  = case when e.done_at is null then excluded.claim_seq else e.claim_seq end,
		started_at = case when e.done_at is null then excluded.started_at else e.started_at end
	returning e.done_at, e.detail
)
select case when not f.held then 'fenced'
		when m.done_at is null then 'go'
		when m.detail ? 'at_most_once' and not m.detail ? 'exit' then 'open'
		else 'done' end,
	m.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - m.done_at)))::bigint
from fence f left join met m on true
$fn$;

create or replace function jobrun.effect_claim(effect text, run_id bigint, claim_seq bigint, word text)
returns table (verdict text, exit_status text, age_ms bigint)
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
with fence as materialized (
	select $2 is null or exists (select from jobrun.job_runs r
		where r.id = $2 and r.claim_seq = $3 and r.locked_until is not null) as held
), met as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at, detail)
	select $1, $2, $3, now(), jsonb_build_object('at_most_once', $4) from fence f where f.held
	on conflict (key) do update set key = e.key     -- changes nothing; the update only returns the current row
	returning e.done_at, e.detail
)
select case when not f.held then 'fenced'
		when m.done_at is null then 'begun'
		when m.detail ->> 'at_most_once' = $4 then 'go'
		when m.detail ? 'at_most_once' and not m.detail ? 'exit' then 'open'
		else 'done' end,
	m.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - m.done_at)))::bigint
from fence f left join met m on true
$fn$;

create or replace function jobrun.effect_done(effect text, run_id bigint, claim_seq bigint) returns void
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at) values ($1, $2, $3, now())
on conflict (key) do update set run_id = excluded.run_id, claim_seq = excluded.claim_seq, done_at = excluded.done_at
	where e.done_at is null
$fn$;

create or replace function jobrun.effect_undo(effect text, word text) returns void
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
delete from jobrun.job_effects e where e.key = $1 and e.detail ->> 'at_most_once' = $2
$fn$;

create or replace function jobrun.effect_end(effect text, word text, exit_status integer) returns void
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
update jobrun.job_effects e set done_at = now(), detail = e.detail || jsonb_build_object('exit', $3)
where e.key = $1 and e.detail ->> 'at_most_once' = $2 and not e.detail ? 'exit'
$fn$;

create or replace function jobrun.effect_look(effect text) returns table (verdict text, exit_status text, age_ms bigint)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
select case when e.key is null then 'go'
		when e.done_at is null then 'begun'
		when e.detail ? 'at_most_once' and not e.detail ? 'exit' then 'open'
		else 'done' end,
	e.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - e.done_at)))::bigint
from (select $1 as key) asked left join jobrun.job_effects e on e.key = asked.key
$fn$;
