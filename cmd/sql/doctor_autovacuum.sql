-- doctor_autovacuum: is it on, for the server and for each table? Returns findings (doctor.h).
select 'fail', format('%s is off', s.name), null::bigint, 'dead rows are never removed: tables grow, and claims become slower', null::text,
	format('alter system set %s = on', s.name)
from pg_settings s
where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
union all
select 'fail', format('autovacuum is off for %s.%s', n.nspname, c.relname), null, 'its dead rows are never removed: it grows, and claims become slower', null,
	format('alter table %I.%I reset (autovacuum_enabled)', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
cross join lateral pg_options_to_table(c.reloptions) o
where n.nspname = 'jobrun' and o.option_name = 'autovacuum_enabled' and o.option_value in ('off', 'false', 'no', '0')
order by 2
