-- access: does the schema fit the program, who is the caller, and what may it do? rights() alone says what each kind of
-- role may do; table job_grants says which role has which kind.

-- -------------------------------------------------------------------------------------------------------- does it fit?

-- need_in_words: for need(): the schema's version, or the error that says what does not fit.
create or replace function jobrun.need_in_words(
	min_version integer, max_version integer, min_functions integer, functions integer, checksum text)
returns integer
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_version   constant integer := coalesce((select max(m.version) from jobrun.schema_migrations m where m.name <> 'functions'), 0);
	v_functions integer;
	v_checksum  text;
begin
	select m.version, m.checksum into v_functions, v_checksum from jobrun.schema_migrations m where m.name = 'functions';
	if v_version < min_version then
		raise exception 'schema jobrun is at version %, this jobrun needs %: type ''jobrun migrate''', v_version, min_version
			using errcode = 'JR078';
	elsif v_version > max_version then
		raise exception 'schema jobrun is at version %, newer than this jobrun knows (%): install a newer jobrun',
			v_version, max_version using errcode = 'JR078';
	elsif v_functions is null or v_functions < min_functions then
		raise exception 'the functions of schema jobrun have number %, this jobrun needs %: type ''jobrun migrate''',
			coalesce(v_functions, 0), min_functions using errcode = 'JR078';
	elsif v_functions > need_in_words.functions then
		raise exception 'the functions of schema jobrun have number %, newer than this jobrun knows (%): install a newer jobrun',
			v_functions, need_in_words.functions using errcode = 'JR078';
	elsif v_functions = need_in_words.functions and v_checksum <> need_in_words.checksum then
		raise exception 'the functions of schema jobrun and of this jobrun both have number %, but their texts differ (checksum %, '
			'here %): install the jobrun that made the schema, or a newer one', v_functions, left(v_checksum, 12), left(need_in_words.checksum, 12)
			using errcode = 'JR078';
	end if;
	return v_version;
end
$fn$;

-- need: the schema's version, if schema and functions fit a program that works with versions min_version to max_version
-- and with functions from number min_functions up to its own; else JR078 with what to do. A number stands for one text:
-- an older program must not work with newer functions, and two builds with the same number and different texts must not
-- work with each other's functions. Every program, older or newer, calls this before it works with a schema that is not exactly
-- its own, so its signature never changes. A tick compares the checksum first; commands call it always.
--
-- Mostly all is well. So it is in SQL: only what does not fit costs the loading of PL/pgSQL, which takes the server as long as to
-- plan one of the larger statements.
create or replace function jobrun.need(
	min_version integer, max_version integer, min_functions integer, functions integer, checksum text)
returns integer
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when v.version between min_version and max_version and v.functions >= min_functions
			and (v.functions < need.functions or v.functions = need.functions and v.checksum = need.checksum)
		then v.version
		else jobrun.need_in_words(min_version, max_version, min_functions, need.functions, need.checksum) end
	from (select max(m.version) filter (where m.name <> 'functions') as version,
			max(m.version) filter (where m.name = 'functions') as functions,
			max(m.checksum) filter (where m.name = 'functions') as checksum
		from jobrun.schema_migrations m) v
$fn$;

-- this_database: what identifies this database. Only a physical copy has the same values. system_identifier is null if
-- the server does not let us read it; PostgreSQL asks for that right only when system_identifier() is executed.
create or replace function jobrun.system_identifier() returns bigint
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select c.system_identifier from pg_control_system() c
$fn$;

create or replace function jobrun.this_database(out system_identifier bigint, out database_oid bigint)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when has_function_privilege('pg_catalog.pg_control_system()', 'execute') then jobrun.system_identifier() end,
		(select d.oid::bigint from pg_database d where d.datname = current_database())
$fn$;

-- copied: a text if this database is not the one recorded in settings; null: it is, or nothing is recorded.
create or replace function jobrun.copied() returns text
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select format('this database was copied or moved here from another (server %s, database %s; here %s, %s)',
		coalesce(s.system_identifier::text, 'unknown'), s.database_oid, coalesce(t.system_identifier::text, 'unknown'), t.database_oid)
	from jobrun.settings s cross join jobrun.this_database() t
	where s.database_oid <> t.database_oid or s.system_identifier <> t.system_identifier
$fn$;

-- copy_in_words: for check_copy(): its text or its error.
create or replace function jobrun.copy_in_words() returns text
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_copied constant text := jobrun.copied();
	v_type   constant text := '''jobrun migrate --adopt'' if it takes the place of that one, '
		'''jobrun migrate --adopt --cancel-waiting'' if that one goes on';
begin
	if v_copied is not null and (select s.copies = 'refuse' from jobrun.settings s) then
		raise exception '%, and nothing is run in it', v_copied using errcode = 'JR078', hint = 'type ' || v_type;
	end if;
	return v_copied || ', and its runs are run here; type ' || v_type;
end
$fn$;

-- check_copy: for runners: the same text with what to type; JR078 if settings.copies is "refuse".
-- In SQL, as need() is, and without copied(), since each function costs a new connection as much as what it does.
create or replace function jobrun.check_copy() returns text
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when s.database_oid <> (select d.oid::bigint from pg_database d where d.datname = current_database())
			or s.system_identifier <>
				case when has_function_privilege('pg_catalog.pg_control_system()', 'execute') then jobrun.system_identifier() end
		then jobrun.copy_in_words() end
	from jobrun.settings s
$fn$;

-- adopt: record this database in settings as the right one. cancel_waiting: the original goes on working beside this
-- copy. So waiting runs here are cancelled, runs that were running when it was copied are asked to end, and new runs
-- get other keys (JOBRUN_KEY) than in the original. Does nothing if this database is recorded already.
create or replace function jobrun.adopt(cancel_waiting boolean default false, reason text default null,
	out adopted boolean, out cancelled bigint, out asked bigint)
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_old jobrun.settings;
begin
	select s.* into v_old from jobrun.settings s for no key update;
	adopted := jobrun.copied() is not null;
	cancelled := 0;
	asked := 0;
	if not adopted then
		return;
	elsif cancel_waiting then
		update jobrun.job_runs r set status = 'cancelled', finished_at = clock_timestamp(), error_code = 'cancelled'
		where r.status in ('queued', 'failed');
		get diagnostics cancelled = row_count;
		update jobrun.job_runs r set cancel_requested_at = now() where r.status = 'running' and r.cancel_requested_at is null;
		get diagnostics asked = row_count;
	end if;
	update jobrun.settings s set system_identifier = t.system_identifier, database_oid = t.database_oid,
		install_id = case when cancel_waiting then jobrun.new_install_id() else s.install_id end
	from jobrun.this_database() t;
	perform jobrun.audit('adopt', 'settings', jsonb_build_object('system_identifier', v_old.system_identifier::text,
			'database_oid', v_old.database_oid, 'install_id', v_old.install_id),
		(select jsonb_build_object('system_identifier', s.system_identifier::text, 'database_oid', s.database_oid,
			'install_id', s.install_id, 'cancelled', cancelled, 'asked', asked) from jobrun.settings s), reason);
end
$fn$;

-- new_install_id: must be unique, need not be secret. gen_random_uuid() exists since PostgreSQL 13 only.
create or replace function jobrun.new_install_id() returns uuid
language sql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text || random()::text)::uuid
$fn$;

-- ------------------------------------------------------------------------------------------------------ who is asking?

-- caller: the role whose rights count: that of SET ROLE, else the session's. (In these functions current_user is the
-- owner.)
create or replace function jobrun.caller() returns text
language plpgsql stable as $fn$
begin
	return case when pg_catalog.current_setting('role') operator(pg_catalog.=) 'none' then session_user
		else pg_catalog.current_setting('role') end;
end
$fn$;

-- role_may: has this role, or a role that it is a member of, a grant of one of these kinds? The owner of the schema can
-- do everything; a role that does not exist can do nothing.
create or replace function jobrun.role_may(role text, variadic kinds text[]) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_role constant oid := (select o.oid from pg_roles o where o.rolname = role_may.role);
begin
	return v_role is not null and (pg_has_role(v_role, (select n.nspowner from pg_namespace n where n.nspname = 'jobrun'), 'usage')
		or exists (select from jobrun.job_grants g join pg_roles o on o.rolname = g.role
			where g.kind = any (kinds) and pg_has_role(v_role, o.oid, 'usage')));
end
$fn$;

-- may: the same for the caller. Every enqueue calls this, so for speed it does not call role_may().
create or replace function jobrun.may(variadic kinds text[]) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_caller constant name := jobrun.caller();
begin
	return pg_has_role(v_caller, (select n.nspowner from pg_namespace n where n.nspname = 'jobrun'), 'usage')
		or exists (select from jobrun.job_grants g join pg_roles o on o.rolname = g.role
			where g.kind = any (kinds) and pg_has_role(v_caller, o.oid, 'usage'));
end
$fn$;

-- is_admin: has the caller a grant of kind admin?
create or replace function jobrun.is_admin() returns boolean
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select jobrun.may('admin')
$fn$;

-- audit: record who did what to which object.
create or replace function jobrun.audit(action text, object text, old jsonb, new jsonb, reason text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if octet_length(reason) > 1000 then
		raise exception 'the reason has % bytes; at most 1000', octet_length(reason) using errcode = 'JR065';
	elsif getdatabaseencoding() <> 'UTF8' then         -- what UTF-8 lacks nobody could read
		perform convert_to(reason, 'UTF8');
	end if;
	insert into jobrun.job_audit (who, action, object, old, new, reason)
	values (jobrun.caller(), audit.action, audit.object, audit.old, audit.new, audit.reason);
end
$fn$;

-- -------------------------------------------------------------------------------------------------------------- grants

-- own_tables, own_functions: the tables and views, and the functions, whose owner is that of jobrun's tables, as GRANT takes them. In
-- the schema there may be others, which people have made: only their owners can give rights on them.
create or replace function jobrun.own_tables() returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select string_agg(format('jobrun.%I', c.relname), ', ' order by c.relname)
	from pg_class g join pg_class c on c.relnamespace = g.relnamespace and c.relowner = g.relowner
	where g.oid = 'jobrun.job_grants'::regclass and c.relkind in ('r', 'p', 'v', 'm', 'f')
$fn$;

create or replace function jobrun.own_functions() returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select string_agg(p.oid::regprocedure::text, ', ' order by p.oid)
	from pg_class g join pg_proc p on p.pronamespace = g.relnamespace and p.proowner = g.relowner
	where g.oid = 'jobrun.job_grants'::regclass and p.prokind in ('f', 'a', 'w')
$fn$;

-- rights: the rights of a kind, as GRANT takes them. Kinds: enqueue (applications), run (runners; includes enqueue),
-- read (people and monitors: no payload, output or error text), admin (all of these, and changes to how others work).
-- Functions are granted by signature, every signature of a name: an older one may exist beside the new one.
-- Trigger functions are granted to nobody: a role could put one on a table of its own, with a type whose casts would then run
-- with the rights of the owner.
create or replace function jobrun.rights(kind text) returns setof text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with columns as (     -- columns of a table without those that hold texts of jobs and handlers
		select c.relname, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as names
		from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and a.attnum > 0 and not a.attisdropped
			and a.attname not in ('payload', 'progress', 'checkpoint', 'result', 'last_error', 'error', 'output')
		group by c.relname),
	signatures as (
		select p.proname as name, format('jobrun.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) as signature
		from pg_class g join pg_proc p on p.pronamespace = g.relnamespace and p.proowner = g.relowner
		where g.oid = 'jobrun.job_grants'::regclass and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype)
	select r.what from (values
		('{enqueue,read,run,admin}'::text[], 'usage on schema jobrun'),
		('{enqueue,run,admin}', 'insert (job_type, payload, options, run) on jobrun.new_runs'),
		('{read,run,admin}', 'select on jobrun.runs, jobrun.attempts, jobrun.job_queues, jobrun.job_types, jobrun.job_runners, '
			|| 'jobrun.job_slots, jobrun.job_stats, jobrun.job_totals, jobrun.job_audit, jobrun.job_grants, jobrun.settings, jobrun.schema_migrations'),
		('{run,admin}', 'select on jobrun.job_runs, jobrun.job_attempts, jobrun.job_effects, jobrun.job_runs_archive, '
			|| 'jobrun.job_attempts_archive, jobrun.all_runs, jobrun.held_runs, jobrun.job_definitions'),
		('{run,admin}', 'select on jobrun.job_follows'),
		-- columns that change while a run lives; those set by enqueue never change
		('{run,admin}', (select 'update (' || string_agg(quote_ident(a.attname), ', ' order by a.attnum) || ') on jobrun.job_runs'
			from pg_attribute a where a.attrelid = 'jobrun.job_runs'::regclass and a.attnum > 0 and not a.attisdropped
			and a.attname <> all ('{id,job_type,queue,priority,payload,max_attempts,timeout,backoff_base,backoff_cap,expires_at,'
				'idempotency_key,unique_key,concurrency_key,trace_context,parent_id,definition_id,slot,created_by,created_at,'
				'is_counted}'::text[]))),
		('{run,admin}', 'insert on jobrun.job_attempts'),
		-- a runner writes its own facts, and pauses no host
		('{run,admin}', (select format('insert (%1$s), update (%1$s) on jobrun.job_runners', string_agg(quote_ident(a.attname), ', '
			order by a.attnum)) from pg_attribute a where a.attrelid = 'jobrun.job_runners'::regclass and a.attnum > 0
			and not a.attisdropped and a.attname <> all ('{paused_until,paused_reason,paused_by}'::text[]))),
		('{run,admin}', 'update (rate_window_start, rate_used) on jobrun.job_queues'),
		('{admin}', (select 'update (' || string_agg(quote_ident(a.attname), ', ' order by a.attnum) || ') on jobrun.settings'
			from pg_attribute a where a.attrelid = 'jobrun.settings'::regclass and a.attnum > 0 and not a.attisdropped
			and a.attname <> all ('{only_row,install_id,stats_until,totals_until,pruned_until,claims_total,claim_ms_total,claims_locked_total,system_identifier,database_oid,unhandled_looked_at,unhandled_told}'::text[]))),
		('{admin}', 'select on ' || jobrun.own_tables()),
		('{admin}', (select 'execute on function ' || string_agg(s.signature, ', ' order by s.signature) from signatures s))) r(kinds, what)
	where rights.kind = any (r.kinds)
	union all
	select 'execute on function ' || string_agg(s.signature, ', ' order by s.signature) from (values
		('{enqueue,read,run,admin}'::text[], '{need,run_status,in_place_of,next_slots,other_types}'::text[]),
		('{enqueue,run,admin}', '{enqueue,enqueue_run,enqueue_many,enqueue_lines,enqueue_definition,cancel,may_cancel,effect,effect_begin,effect_claim,'
			'effect_done,effect_undo,effect_end,effect_look}'),
		('{read,run,admin}', '{run_texts,attempt_texts,rate_left,clock,is_limited,is_name,slot_text,copied,newer_run,newer_or_archived,explain,'
			'explain_definition,seen_runners,other_paused_types,other_queues,oldest_due,waiting_heads,waiting_commands,measures,stats,stats_of,bucket_of,'
			'bucket_counts,below,follow,next_waiting,line_of,type_counts,late_counts,last_runner,seen_hosts,all_seen,explain_handler,rights,slots_ahead,lost_zone,'
			'command_line,shell_word,metrics,metrics_of_types,metrics_of_all,claims_of,own_tables,ungranted,public_functions,lost_rights}'),
		('{run,admin}', '{may_claim,check_pauses,moved_runs,claim,claim_free,claim_turn,claim_ahead,claim_job,start_keyed,settle,settle_group,settle_done,session_clean,raise_alarm,'
			'fire,fires_now,overlapping,exec_claim,limit_reason,spend_rate,prune_step,prune_again,check_copy,by_hand,is_enqueued,is_run,candidates,'
			'settle_one,session_open,fire_due,is_held_back,held_back,limit_words,tell_unhandled}')) r(kinds, names)
	join signatures s on s.name = any (r.names)
	where rights.kind = any (r.kinds)
	having count(*) > 0
	union all
	select format('select (%s) on jobrun.%I', c.names, c.relname) from columns c
	where rights.kind = 'read' and c.relname in ('job_runs', 'job_attempts', 'job_runs_archive', 'job_attempts_archive', 'all_runs', 'job_definitions')
$fn$;

-- public_functions: functions that everybody may call, and that run with the rights of the owner. PostgreSQL lets everybody call a
-- function that was made without privileges, as a restore without them does.
create or replace function jobrun.public_functions() returns setof name
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select p.proname
	from pg_class g join pg_proc p on p.pronamespace = g.relnamespace and p.proowner = g.relowner
	where g.oid = 'jobrun.job_grants'::regclass and p.prokind = 'f' and p.prosecdef and has_function_privilege('public', p.oid, 'execute')
$fn$;

-- lost_rights: what roles may not do although job_grants says so. A restore without privileges or a REVOKE by hand takes rights away, and a
-- role that is made after the restore has none. That admin may read every table is left out: one that was made since, as a month of
-- the archive is, has that right from the next grant or migration on.
create or replace function jobrun.lost_rights(out role name, out kind text, out what text) returns setof record
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with owner as (
		select g.relowner as oid, g.relnamespace as schema from pg_class g where g.oid = 'jobrun.job_grants'::regclass
	), wanted as (
		select k.kind, r.what from (select distinct g.kind from jobrun.job_grants g) k cross join lateral jobrun.rights(k.kind) r(what)
		where r.what <> 'select on ' || jobrun.own_tables()
	), objects(kind, type, oid, privilege, name) as (
		select w.kind, 'f', p.oid, 'execute', p.proname
		from owner o join pg_proc p on p.pronamespace = o.schema and p.proowner = o.oid join wanted w on w.what like 'execute on %'
			and position(format('jobrun.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) in w.what) > 0
		union
		select w.kind, 't', c.oid, split_part(w.what, ' ', 1), c.relname
		from owner o join pg_class c on c.relnamespace = o.schema and c.relowner = o.oid and c.relkind in ('r', 'p', 'v')
		join wanted w on w.what not like 'execute on %' and position(format('jobrun.%I,', c.relname) in w.what || ',') > 0
		union all
		select distinct w.kind, 'n', o.schema, 'usage', 'schema jobrun' from wanted w cross join owner o
	)
	select r.rolname, g.kind, o.privilege || ' on ' || o.name
	from jobrun.job_grants g join pg_roles r on r.rolname = g.role join objects o on o.kind = g.kind
	where not case o.type when 'f' then has_function_privilege(r.oid, o.oid, o.privilege)
		when 't' then has_any_column_privilege(r.oid, o.oid, o.privilege) else has_schema_privilege(r.oid, o.oid, o.privilege) end
$fn$;

-- revoke_all: take from the role all rights on the schema and on what is jobrun's in it. It is an identifier, or "public".
create or replace function jobrun.revoke_all(role text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	execute format('revoke all on %s from %s', jobrun.own_tables(), revoke_all.role);
	execute format('revoke all on function %s from %s', jobrun.own_functions(), revoke_all.role);
	execute format('revoke all on schema jobrun from %s', revoke_all.role);
end
$fn$;

-- apply_grants: grant every role what job_grants says. If `anew` names a role, only that role, and its old rights are
-- revoked first. To be called after functions or tables were created again; `jobrun migrate` does. Roles that do not
-- exist any more are skipped. What everybody may call is revoked in any case: with the right to use the schema, a role could call
-- what it was not granted.
create or replace function jobrun.apply_grants(anew text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_role  text;
	v_right text;
begin
	-- of two GRANTs for the same table at once, one fails with "tuple concurrently updated"
	lock table jobrun.job_grants in share row exclusive mode;
	if exists (select from jobrun.public_functions()) then
		execute format('revoke all on function %s from public', jobrun.own_functions());
	end if;
	if exists (select from pg_roles o where o.rolname = anew) then
		perform jobrun.revoke_all(quote_ident(anew));
	end if;
	for v_role, v_right in
		select distinct g.role, r.what from jobrun.job_grants g join pg_roles o on o.rolname = g.role
		cross join lateral jobrun.rights(g.kind) r(what)
		where anew is null or g.role = anew
		order by g.role, r.what
	loop
		execute format('grant %s to %I', v_right, v_role);
	end loop;
end
$fn$;

-- add_grant: grant this kind to the role. Kind enqueue may be limited: to these job_types and queues (null: all), and
-- to max_open unfinished runs at a time (null: any number).
create or replace function jobrun.add_grant(
	kind text, role text, job_types text[] default null, queues text[] default null, max_open bigint default null)
returns void
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_kind constant text := kind;
	v_role constant text := role;
	v_old  jsonb;
begin
	lock table jobrun.job_grants in share row exclusive mode;
	if v_kind is null or v_kind not in ('enqueue', 'run', 'read', 'admin') then
		raise exception 'there is no kind "%"; there are enqueue, run, read and admin', left(v_kind, 100) using errcode = 'JR065';
	elsif not exists (select from pg_roles o where o.rolname = v_role) then
		raise exception 'there is no role "%"', left(v_role, 100) using errcode = 'JR065', hint = format('create role %I login', v_role);
	elsif exists (select from pg_namespace n join pg_roles o on o.oid = n.nspowner where n.nspname = 'jobrun' and o.rolname = v_role) then
		raise exception 'role "%" owns the schema and can do everything', v_role using errcode = 'JR065';
	elsif num_nonnulls(job_types, queues, max_open) > 0 and v_kind <> 'enqueue' then
		raise exception 'only kind enqueue can be limited to job types, queues and a number of runs' using errcode = 'JR065';
	elsif max_open < 1 then
		raise exception 'max_open % is out of range; at least 1', max_open using errcode = 'JR065';
	end if;
	perform jobrun.check_name('job type', t.name) from unnest(job_types) t(name);
	perform jobrun.check_name('queue', q.name) from unnest(queues) q(name);
	select to_jsonb(g) - 'granted_at' into v_old from jobrun.job_grants g where g.role = v_role and g.kind = v_kind;
	insert into jobrun.job_grants as g (role, kind, job_types, queues, max_open)
	values (v_role, v_kind, add_grant.job_types, add_grant.queues, add_grant.max_open)
	on conflict (role, kind) do update set job_types = excluded.job_types, queues = excluded.queues, max_open = excluded.max_open,
		granted_at = now();
	perform jobrun.audit('grant', 'role ' || v_role, v_old, jsonb_build_object('role', v_role, 'kind', v_kind,
		'job_types', add_grant.job_types, 'queues', add_grant.queues, 'max_open', add_grant.max_open), null);
	perform jobrun.apply_grants(v_role);
end
$fn$;

-- ungranted: roles that have rights of a kind and no row in job_grants, mostly because they were renamed: rights follow a role, and the
-- row has its old name. Each kind gives EXECUTE on functions. SELECT and USAGE alone are no sign of a kind: an owner gives them by hand,
-- to programs that make reports. Nor are rights that others than the owner have given, since only they can take them back. kind: the
-- highest one that fits, else enqueue; has: its rights in words, or one of those there are; n: how many there are.
create or replace function jobrun.ungranted(out role name, out kind text, out has text, out n bigint) returns setof record
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with owner as (
		select g.relowner as oid, n.oid as schema, n.nspowner, n.nspacl
		from pg_class g join pg_namespace n on n.oid = g.relnamespace where g.oid = 'jobrun.job_grants'::regclass
	), tables as (
		select c.oid, c.relname, c.relacl from owner w join pg_class c on c.relnamespace = w.schema and c.relowner = w.oid
		where c.relkind in ('r', 'p', 'v', 'm', 'f')
	), acls(name, acl) as (
		select t.relname, t.relacl from tables t
		union all
		select t.relname, a.attacl from tables t join pg_attribute a on a.attrelid = t.oid and a.attacl is not null
		union all
		select p.proname, p.proacl from owner w join pg_proc p on p.pronamespace = w.schema and p.proowner = w.oid
		union all
		select 'schema jobrun', w.nspacl from owner w
	), rights as (
		select distinct o.rolname as role, lower(r.privilege_type) || ' on ' || a.name as what
		from owner w cross join acls a cross join lateral aclexplode(a.acl) r join pg_roles o on o.oid = r.grantee
		where r.grantor in (w.oid, w.nspowner) and r.grantee not in (w.oid, w.nspowner) and not o.rolsuper
			and r.privilege_type not in ('SELECT', 'USAGE')
			and not exists (select from jobrun.job_grants g where g.role = o.rolname)
	), found as ( -- of each kind a function that no lesser kind may call
		select r.role, min(r.what) as what, count(*) as n, case when bool_or(r.what = 'execute on add_grant') then 'admin'
			when bool_or(r.what = 'execute on claim') then 'run' when bool_or(r.what = 'execute on explain') then 'read'
			when bool_or(r.what = 'execute on enqueue') then 'enqueue' end as kind
		from rights r group by r.role
	)
	select f.role, coalesce(f.kind, 'enqueue'),
		case when f.kind is null then f.what || case when f.n > 1 then format(' and %s more', f.n - 1) else '' end
			else 'the rights of ' || f.kind end, f.n
	from found f
$fn$;

-- drop_grant: revoke this kind from the role, or everything if it has rights of a kind without a grant (see ungranted()). Returns
-- whether it had the kind, or such rights.
create or replace function jobrun.drop_grant(kind text, role text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_kind constant text := kind;
	v_role constant text := role;
	v_old  jsonb;
begin
	lock table jobrun.job_grants in share row exclusive mode;
	delete from jobrun.job_grants g where g.role = v_role and g.kind = v_kind returning to_jsonb(g) - 'granted_at' into v_old;
	if v_old is null then
		v_old := (select jsonb_build_object('role', u.role, 'rights', u.n) from jobrun.ungranted() u where u.role = v_role);
	end if;
	if v_old is null then
		return false;
	end if;
	perform jobrun.audit('revoke', 'role ' || v_role, v_old, null, null);
	perform jobrun.apply_grants(v_role);
	return true;
end
$fn$;
