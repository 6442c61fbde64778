-- doctor_replication: replication slots that hold something back: rows from vacuum, or WAL because nobody reads it. Returns findings
-- (doctor.h).
select case when s.xmin is not null and not s.active then 'fail' else 'warn' end,
	format('replication slot %s %s', s.slot_name, case when s.active then format('is %s transactions behind', age(s.xmin))
		else 'is not in use' end),
	null::bigint,
	case when s.xmin is not null then 'vacuum cannot remove what was deleted since'
		else format('the server keeps all WAL for it%s, until the disk is full', case when s.restart_lsn is not null and not pg_is_in_recovery()
			then format(', %s by now', pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn))) else '' end) end,
	null::text, case when not s.active then format('select pg_drop_replication_slot(%L)', s.slot_name) end
from pg_replication_slots s
where (not s.active and num_nonnulls(s.restart_lsn, s.xmin, s.catalog_xmin) > 0) or (s.active and age(s.xmin) > 1000000)
order by s.slot_name
limit 5
