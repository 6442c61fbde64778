-- list_errors: the runs that match a filter, grouped by what went wrong. $1 how many groups at most, $2 to $12 as in
-- run_filter.part, $13 archived runs, too? $14 (not used, as in list.sql), $15 as in list.sql. Returns a row for each group,
-- the largest first, and at least one: job type, error_code, runs, age in ms and Unix ms of the first and the last end, id of
-- the last run, message, document; and the same in each row: groups, whether more runs may match that were not looked at.
-- Messages are equal if they differ only in numbers and in hexadecimal digits (eight and more, as in a UUID, or behind 0x), which
-- are then shown as "#". Runs of different types, or with different error codes, are never in one group.
with matching as (
	select * from (
			-- include run_windows
		) r
	where $14::bigint is not null
		-- include run_filter
	union all
	select
		-- include run_columns
	from jobrun.job_runs_archive r
	where $13::boolean
		-- include run_ended
		-- include run_filter
), texts as materialized (
	select m.id, m.job_type, m.error_code, coalesce(m.finished_at, m.failed_at, m.created_at) as at,
		left(split_part((select t.last_error from jobrun.run_texts(m.id) t), E'\n', 1), 1000) as line
	from matching m
), alike as materialized (
	select t.*, regexp_replace(t.line, '[0-9a-fA-F]{8}[0-9a-fA-F-]*|0x[0-9a-fA-F]+|[0-9]+', '#', 'g') as pattern
	from texts t
), groups as materialized (
	select a.job_type, a.error_code, count(*) as runs, min(a.at) as first, max(a.at) as last, max(a.id) as example,
		case when min(a.line) = max(a.line) then min(a.line) else a.pattern end as message
	from alike a
	group by a.job_type, a.error_code, a.pattern
)
select g.job_type, g.error_code, g.runs,
	floor(extract(epoch from now() - g.first) * 1000)::bigint, floor(extract(epoch from g.first) * 1000)::bigint,
	floor(extract(epoch from now() - g.last) * 1000)::bigint, floor(extract(epoch from g.last) * 1000)::bigint,
	g.example, g.message,
	case when g.job_type is not null then (select row_to_json(j)::text from (select g.job_type, g.error_code, g.runs as count, g.first as first_at, g.last as last_at,
		g.example as example_id, g.message as error) j) end,
	t.found, t.more
from (
	select (select count(*) from groups) as found,
			-- include run_more
		as more) t
left join (select g.* from groups g order by g.runs desc, g.last desc, g.example desc limit $1::bigint) g on true
order by g.runs desc, g.last desc, g.example desc
