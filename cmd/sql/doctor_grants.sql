-- doctor_grants: has the role every right that job_grants says? A restore without them, or a REVOKE by hand, loses some. That admin may
-- read every table is left out: one that was made since, as a month of the archive is, has that right from the next grant or
-- migration on. Returns findings (doctor.h).
with wanted as (
	select g.role, g.kind, r.what
	from jobrun.job_grants g join pg_roles o on o.rolname = g.role and pg_has_role(current_user, o.oid, 'usage')
	cross join lateral jobrun.rights(g.kind) r(what)
	where r.what <> 'select on ' || jobrun.own_tables()
), missing as (
	select distinct w.role, w.kind, 'execute on ' || p.proname as name
	from wanted w join pg_proc p on w.what like 'execute on %'
		and position(format('jobrun.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) in w.what) > 0
	where p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and not has_function_privilege(p.oid, 'execute')
	union
	select w.role, w.kind, split_part(w.what, ' ', 1) || ' on ' || c.relname
	from wanted w join pg_class c on c.relkind in ('r', 'p', 'v') and w.what ~ ('jobrun\.' || c.relname || '(,|$)')
	where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun')
		and not has_any_column_privilege(c.oid, split_part(w.what, ' ', 1))
), ungranted as (
	select u.*, row_number() over (order by u.role) as nr, count(*) over () as roles from jobrun.ungranted() u
)
select f.state, f.text, null::bigint, f.consequence, f.command, null::text
from (
	select 1 as part, m.role, m.kind, 'fail' as state, format('%s was granted to role %s, but %s is missing%s', m.kind, m.role, min(m.name),
			case when count(*) > 1 then format(', and %s more', count(*) - 1) else '' end) as text,
		'commands fail for want of rights' as consequence, format('jobrun grant %s %I', m.kind, m.role) as command
	from missing m
	group by m.role, m.kind
	union all
	select 2, u.role, u.kind, 'warn', format('role %s has no grant, but %s', u.role, u.has)
			|| case when u.nr = 10 and u.roles > 10 then format(' (and %s more roles have such)', u.roles - 10) else '' end,
		'a role keeps its rights when it is renamed; grant again what it needs, or take all of them away',
		format('jobrun grant %s %I --revoke', u.kind, u.role)
	from ungranted u
	where u.nr <= 10) f
order by f.part, f.role, f.kind
