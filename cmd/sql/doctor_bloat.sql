-- doctor_bloat: tables and indexes that are at least 16 MB larger than four times what their rows should take, by the counts and the
-- average widths of the last VACUUM and ANALYZE; nothing is scanned. A column without a known width counts as 64 bytes. Returns
-- findings (doctor.h).
with relations as (
	select c.oid, c.relname, c.relkind, c.reltuples, coalesce(i.indrelid, c.oid) as of_table, i.indkey::smallint[] as keys,
		c.relpages * current_setting('block_size')::bigint as size
	from pg_class c left join pg_index i on i.indexrelid = c.oid
	where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and c.relkind in ('r', 'i') and c.relpages > 2048
		and c.reltuples >= 0
), widths as (
	select r.oid, sum(coalesce(s.avg_width, 64)) as width
	from relations r join pg_attribute a on a.attrelid = r.of_table and a.attnum > 0 and not a.attisdropped
		and (r.keys is null or a.attnum = any (r.keys))
	left join pg_class t on t.oid = r.of_table
	left join pg_stats s on s.schemaname = 'jobrun' and s.tablename = t.relname and s.attname = a.attname
	group by r.oid
), sizes as (
	select r.*, (r.reltuples * (32 + coalesce(w.width, 0) + case when 0 = any (r.keys) then 64 else 0 end) * 1.5)::bigint as wanted
	from relations r left join widths w on w.oid = r.oid
)
select 'warn', format('%s jobrun.%s takes %s, and its rows about %s', case s.relkind when 'i' then 'index' else 'table' end, s.relname,
		pg_size_pretty(s.size), pg_size_pretty(s.wanted)), null::bigint,
	'what is read and saved is larger than it needs to be' || case s.relkind when 'i' then '' else '; VACUUM FULL locks the table meanwhile' end, null::text,
	case s.relkind when 'i' then format('reindex index concurrently jobrun.%I', s.relname) else format('vacuum full jobrun.%I', s.relname) end
from sizes s
where s.size > 4 * s.wanted + 16777216
order by s.size - s.wanted desc
limit 5
