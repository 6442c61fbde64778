-- doctor_role: has the role too few rights for what this host does, or too many? $1: has this host handlers? Returns findings
-- (doctor.h).
with me as (
	select o.rolname, o.rolsuper, pg_has_role(o.oid, n.nspowner, 'usage') as owns
	from pg_roles o cross join pg_namespace n
	where o.rolname = current_user and n.nspname = 'jobrun'
), kinds as ( -- of each kind a function that no lesser kind may call
	select k.nr, k.kind
	from (values (1, 'admin', 'add_grant'), (2, 'run', 'claim'), (3, 'read', 'explain'), (4, 'enqueue', 'enqueue')) k(nr, kind, function)
	where exists (select from pg_proc p where p.proname = k.function
		and p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and has_function_privilege(p.oid, 'execute'))
), has as (
	select coalesce(bool_or(k.kind = 'run'), false) as runs,
		coalesce(string_agg(k.kind, ' and ' order by k.nr) filter (where k.nr = 1 or (k.nr = 2 and not a.admin) or (k.nr > 2 and not a.run)),
			'no kind') as words
	from kinds k cross join (select bool_or(nr = 1) as admin, bool_or(nr <= 2) as run from kinds) a
)
select f.state, f.text, null::bigint, f.consequence, f.command, f.sql
from me m cross join has h cross join lateral (
	select 'fail' as state, format('role %s has the rights of %s, and this host has handlers', m.rolname, h.words) as text,
		'it cannot run them' as consequence, format('jobrun grant run %I', m.rolname) as command, null as sql
	where $1::boolean and not h.runs
	union all
	select 'warn', format('role %s is superuser', m.rolname), 'runners and sql handlers may do anything in every database, and no grant limits them',
		'jobrun grant run jobrun_runner', 'create role jobrun_runner login'
	where m.rolsuper
	union all
	select 'warn', format('role %s owns the schema', m.rolname), 'runners and sql handlers may change tables and functions, and no grant limits them',
		'jobrun grant run jobrun_runner', 'create role jobrun_runner login'
	where m.owns and not m.rolsuper
	union all
	select 'ok', format('role %s has the rights of %s', m.rolname, h.words), null, null, null
	where not m.owns and (h.runs or not $1::boolean)) f
