-- 0004: roles. What each kind of role may do stands in jobrun.rights() and nowhere else; who has which kind in job_grants.

-- rights: as GRANT takes them. Kinds: enqueue (applications), run (runners, which have those of enqueue), read (people and
-- monitors: no payload, output or error text), admin (all of these, and what changes how others work).
create function jobrun.rights(kind text) returns setof text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with columns as (     -- of a table, without those that hold what jobs and handlers say
		select c.relname, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as names
		from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and a.attnum > 0 and not a.attisdropped
			and a.attname not in ('payload', 'progress', 'checkpoint', 'result', 'last_error', 'error', 'output')
		group by c.relname)
	select r.what from (values
		('{enqueue,read,run,admin}'::text[], 'usage on schema jobrun'),
		('{enqueue,read,run,admin}', 'execute on function jobrun.need, jobrun.run_status'),
		('{enqueue,run,admin}', 'execute on function jobrun.enqueue, jobrun.enqueue_run, jobrun.enqueue_many, jobrun.cancel, jobrun.effect, '
			|| 'jobrun.effect_begin, jobrun.effect_claim, jobrun.effect_done, jobrun.effect_undo, jobrun.effect_end, jobrun.effect_look'),
		('{enqueue,run,admin}', 'insert (job_type, payload, options, run) on jobrun.new_runs'),
		('{read,run,admin}', 'select on jobrun.runs, jobrun.attempts, jobrun.job_queues, jobrun.job_types, jobrun.job_runners, '
			|| 'jobrun.job_slots, jobrun.job_stats, jobrun.job_audit, jobrun.job_grants, jobrun.settings, jobrun.schema_migrations'),
		('{read,run,admin}', 'execute on function jobrun.run_texts, jobrun.attempt_texts, jobrun.rate_left, '
			|| 'jobrun.is_limited, jobrun.is_name'),
		('{run,admin}', 'select, insert, update, delete on jobrun.job_runs, jobrun.job_attempts, jobrun.job_slots, jobrun.job_runners, '
			|| 'jobrun.job_effects, jobrun.job_stats, jobrun.job_runs_archive'),
		('{run,admin}', 'select on jobrun.held_runs, jobrun.job_definitions'),
		('{run,admin}', 'update (rate_window_start, rate_used) on jobrun.job_queues'),
		('{run,admin}', 'update (next_slot_at) on jobrun.job_definitions'),
		('{run,admin}', 'execute on function jobrun.claim, jobrun.claim_job, jobrun.settle_done, jobrun.raise_alarm'),
		('{admin}', 'select, insert, update, delete on jobrun.job_definitions'),
		('{admin}', 'update on jobrun.settings'),
		('{admin}', 'select on all tables in schema jobrun'),
		('{admin}', 'execute on all functions in schema jobrun')) r(kinds, what)
	where rights.kind = any (r.kinds)
	union all
	select format('select (%s) on jobrun.%I', c.names, c.relname) from columns c
	where rights.kind = 'read' and c.relname in ('job_runs', 'job_attempts', 'job_runs_archive', 'job_definitions')
$fn$;

-- apply_grants: gives every role what job_grants says, and takes from the role named (null: from none) what it had before. To
-- be called after functions or tables were made anew; `jobrun migrate` does. Roles that do not exist any more are passed over.
create function jobrun.apply_grants(anew text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_role  text;
	v_right text;
begin
	-- GRANT knows no waiting: two at once for the same table, and one fails with "tuple concurrently updated"
	lock table jobrun.job_grants in share row exclusive mode;
	if exists (select from pg_roles o where o.rolname = anew) then
		execute format('revoke all on all tables in schema jobrun from %I', anew);
		execute format('revoke all on all functions in schema jobrun from %I', anew);
		execute format('revoke all on schema jobrun from %I', anew);
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

-- add_grant: the role has this kind from now on. job_types: kind enqueue may be limited to these; null: all.
create function jobrun.add_grant(kind text, role text, job_types text[] default null) returns void
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
		raise exception 'role "%" owns the schema and may everything', v_role using errcode = 'JR065';
	elsif job_types is not null and v_kind <> 'enqueue' then
		raise exception 'only kind enqueue can be limited to job types' using errcode = 'JR065';
	end if;
	perform jobrun.check_name('job type', t.name) from unnest(job_types) t(name);
	select to_jsonb(g) - 'granted_at' into v_old from jobrun.job_grants g where g.role = v_role and g.kind = v_kind;
	insert into jobrun.job_grants as g (role, kind, job_types) values (v_role, v_kind, add_grant.job_types)
	on conflict (role, kind) do update set job_types = excluded.job_types, granted_at = now();
	perform jobrun.audit('grant', 'role ' || v_role, v_old,
		jsonb_build_object('role', v_role, 'kind', v_kind, 'job_types', add_grant.job_types), null);
	perform jobrun.apply_grants(v_role);
end
$fn$;

-- drop_grant: the role has this kind no more. Returns whether it had.
create function jobrun.drop_grant(kind text, role text) returns boolean
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
		return false;
	end if;
	perform jobrun.audit('revoke', 'role ' || v_role, v_old, null, null);
	perform jobrun.apply_grants(v_role);
	return true;
end
$fn$;

-- Default privileges of the database may have given something.
revoke all on all functions in schema jobrun from public;
revoke all on all tables in schema jobrun from public;
revoke all on schema jobrun from public;
