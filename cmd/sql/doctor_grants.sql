-- doctor_grants: has each role every right that job_grants says, and nobody else? Returns findings (doctor.h).
with lost as (
	select l.role, l.kind, min(l.what) as what, count(*) as n from jobrun.lost_rights() l group by l.role, l.kind
), ungranted as (
	select u.*, row_number() over (order by u.role) as nr, count(*) over () as roles from jobrun.ungranted() u
)
select f.state, f.text, null::bigint, f.consequence, f.command, null::text
from (
	select 1 as part, null::name as role, null::text as kind, 'fail' as state, format('everybody may call jobrun.%s%s', min(p.name),
			case when count(*) > 1 then format(' and %s more', count(*) - 1) else '' end) as text,
		'they run with the rights of the owner, so who may use the schema can do what an admin can' as consequence, 'jobrun migrate' as command
	from jobrun.public_functions() p(name)
	having count(*) > 0
	union all
	select 2, l.role, l.kind, 'fail', format('%s was granted to role %s, but %s is missing%s', l.kind, l.role, l.what,
			case when l.n > 1 then format(', and %s more', l.n - 1) else '' end),
		'commands fail for want of rights', 'jobrun migrate'
	from lost l
	union all
	select 3, g.role, g.kind, 'warn', format('%s was granted to role %s, which does not exist', g.kind, g.role),
		'make the role, and then type ''jobrun migrate''; or take the grant back', format('jobrun grant %s %I --revoke', g.kind, g.role)
	from jobrun.job_grants g
	where not exists (select from pg_catalog.pg_roles o where o.rolname = g.role)
	union all
	select 4, u.role, u.kind, 'warn', format('role %s has no grant, but %s', u.role, u.has)
			|| case when u.nr = 10 and u.roles > 10 then format(' (and %s more roles have such)', u.roles - 10) else '' end,
		'a role keeps its rights when it is renamed; grant again what it needs, or take all of them away',
		format('jobrun grant %s %I --revoke', u.kind, u.role)
	from ungranted u
	where u.nr <= 10) f
order by f.part, f.role, f.kind
