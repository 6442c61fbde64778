-- migrate_missing: what somebody has dropped of the functions and views $1, in which a name comes once for each signature. Returns how
-- many are missing, the name of one of them, and whether migrate_rights can ask.
select coalesce(sum(m.n), 0), min(m.name),
	exists (select from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
		where p.proname = 'lost_rights' and n.nspname = 'jobrun')
from (
	select w.name, count(*) - (
			select count(*) from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
			where p.proname = w.name and n.nspname = 'jobrun') - (
			select count(*) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
			where c.relname = w.name and n.nspname = 'jobrun' and c.relkind = 'v') as n
	from unnest($1::text[]) w(name) group by w.name) m
where m.n > 0
