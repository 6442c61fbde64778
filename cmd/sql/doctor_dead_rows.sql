-- doctor_dead_rows: tables with ten times as many dead rows as start autovacuum, by the counters of the server. Returns findings
-- (doctor.h).
select 'warn', format('%s.%s has about %s dead rows beside %s live ones', s.schemaname, s.relname, s.n_dead_tup, s.n_live_tup), null::bigint,
	'vacuum does not keep up, and queries read through them', null::text, format('vacuum (analyze) %I.%I', s.schemaname, s.relname)
from pg_stat_all_tables s join pg_class c on c.oid = s.relid
cross join lateral (
	select coalesce(max(o.option_value) filter (where o.option_name = 'autovacuum_vacuum_threshold'),
			current_setting('autovacuum_vacuum_threshold'))::bigint as threshold,
		coalesce(max(o.option_value) filter (where o.option_name = 'autovacuum_vacuum_scale_factor'),
			current_setting('autovacuum_vacuum_scale_factor'))::double precision as scale
	from pg_options_to_table(c.reloptions) o) v
where s.schemaname = 'jobrun' and s.n_dead_tup > 1000 and s.n_dead_tup > 10 * (v.threshold + v.scale * greatest(c.reltuples, 0))
order by s.n_dead_tup desc
limit 5
