-- audit: every change of settings, definitions, queues, pauses and grants, and of a run by people, leaves a row in
-- job_audit. The functions of the schema write that row themselves, with the reason; not for housekeeping, and not for
-- what applications enqueue. The triggers here record all other changes, by any client.

-- tell_change: record what was changed and the old values, without payloads, results and other texts of jobs. The
-- reason is the parameter jobrun.reason, which a client may set for its transaction.
create or replace function jobrun.tell_change() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_texts constant text[] := '{payload,progress,checkpoint,result,last_error,output}';
	v_old   jsonb := case when tg_op in ('UPDATE', 'DELETE') then to_jsonb(old) end;
	v_new   jsonb := case when tg_op in ('UPDATE', 'INSERT') then to_jsonb(new) end;
	v_row   constant jsonb := coalesce(v_old, v_new);
	v_words text[];
begin
	if tg_op = 'UPDATE' then
		v_words := array(select k.key from jsonb_object_keys(v_old) k(key) where v_old -> k.key <> v_new -> k.key and k.key <> 'updated_at');
		if v_words = '{}' then
			return null;
		end if;
		v_old := (select jsonb_object_agg(k.key, v_old -> k.key) from unnest(v_words) k(key));
		v_new := (select jsonb_object_agg(k.key, case when k.key = any (v_texts) then '"changed"' else v_new -> k.key end)
			from unnest(v_words) k(key));
		if tg_table_name = 'job_runs' then
			v_old := v_old || jsonb_build_object('status', v_row -> 'status', 'attempts', v_row -> 'attempts');
		end if;
	else
		v_new := jsonb_strip_nulls(v_new - v_texts);
	end if;
	perform jobrun.audit(lower(tg_op), case when tg_op = 'TRUNCATE' then 'table ' || tg_table_name else case tg_table_name
			when 'job_runs' then 'run ' || (v_row ->> 'id') when 'job_definitions' then 'definition ' || (v_row ->> 'name')
			when 'job_queues' then 'queue ' || (v_row ->> 'name') when 'job_types' then 'type ' || (v_row ->> 'name')
			when 'job_grants' then 'role ' || (v_row ->> 'role') else tg_table_name end end,
		jsonb_strip_nulls(v_old - v_texts), v_new, left(nullif(current_setting('jobrun.reason', true), ''), 250));
	return null;
end
$fn$;

-- tell_forgotten: record how many rows of the audit were deleted or changed.
create or replace function jobrun.tell_forgotten() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_gone jsonb;
begin
	select jsonb_build_object('rows', count(*), 'since', min(g.at), 'until', max(g.at)) into v_gone from gone g;
	if v_gone ->> 'rows' <> '0' then
		perform jobrun.audit(tg_argv[0], 'audit', v_gone, null, left(nullif(current_setting('jobrun.reason', true), ''), 250));
	end if;
	return null;
end
$fn$;

-- by_hand: did a client write the statement whose trigger asks? It did not if the statement has the rights of the owner (only the
-- owner may create triggers) and the search_path that functions of the schema have, and that no client has by accident. It is a
-- function because a statement reads the conditions of its table's triggers each time, and a call is the shortest condition. It has
-- no SET clause, which would change what it looks at.
create or replace function jobrun.by_hand() returns boolean
language plpgsql stable as $fn$
begin
	return pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog, jobrun, pg_temp'
		or not pg_catalog.has_table_privilege('jobrun.schema_migrations', 'trigger');
end
$fn$;

-- make_trigger: create a trigger unless one of this name exists.
create or replace function jobrun.make_trigger(name text, "table" text, rest text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_table constant text := format('jobrun.%I', "table");
begin
	if not exists (select from pg_trigger t where t.tgrelid = v_table::regclass and t.tgname = make_trigger.name) then
		execute format('create trigger %I %s', make_trigger.name, format(rest, v_table));
	end if;
end
$fn$;

-- Runs: changes by a claim, a heartbeat or a settle are not recorded; a request to cancel is. There is one trigger for updates, with a
-- short condition, since every statement reads it.
-- Queues: the counters of the rate are not recorded, nor is a row with default values, which the first lock key
-- creates.
select jobrun.make_trigger(t.name, t."table", t.what || ' execute function jobrun.' || t.tells) from (values
	('job_runs_told', 'job_runs', 'after update on %s for each row when ((old.locked_until is null and new.locked_until is null
		or old.cancel_requested_at is null and new.cancel_requested_at is not null) and jobrun.by_hand())', 'tell_change()'),
	('job_runs_gone_told', 'job_runs', 'after delete on %s for each row when (jobrun.by_hand())', 'tell_change()'),
	('job_queues_told', 'job_queues', 'after update of name, max_running, max_running_per_key, rate_limit, rate_period, paused_until,
		paused_reason, paused_by or delete on %s for each row when (jobrun.by_hand())', 'tell_change()'),
	('job_queues_new_told', 'job_queues', 'after insert on %s for each row when ((new.max_running, new.max_running_per_key, new.rate_limit,
		new.paused_until) is distinct from (null, 1, null, null) and jobrun.by_hand())', 'tell_change()'),
	('job_types_told', 'job_types', 'after insert or update or delete on %s for each row when (jobrun.by_hand())', 'tell_change()'),
	('job_definitions_told', 'job_definitions', 'after insert or update or delete on %s for each row when (jobrun.by_hand())',
		'tell_change()'),
	('job_grants_told', 'job_grants', 'after insert or update or delete on %s for each row when (jobrun.by_hand())', 'tell_change()'),
	('settings_told', 'settings', 'after update or delete on %s for each row when (jobrun.by_hand())', 'tell_change()'),
	('job_audit_pruned', 'job_audit', 'after delete on %s referencing old table as gone for each statement
		when (not jobrun.by_hand())', 'tell_forgotten(''prune'')'),
	('job_audit_deleted', 'job_audit', 'after delete on %s referencing old table as gone for each statement
		when (jobrun.by_hand())', 'tell_forgotten(''delete'')'),
	('job_audit_changed', 'job_audit', 'after update on %s referencing old table as gone for each statement', 'tell_forgotten(''update'')'))
	t(name, "table", what, tells)
union all
select jobrun.make_trigger(t || '_emptied', t, 'after truncate on %s for each statement execute function jobrun.tell_change()')
from unnest('{job_runs,job_queues,job_types,job_definitions,job_grants,settings,job_audit}'::text[]) t;
