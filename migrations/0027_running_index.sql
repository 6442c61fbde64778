-- 0027 running_index: no posting lists in the index of running runs. Most of its entries have the same key, so a list takes the place of
-- a thousand of them. Whenever a page is full, PostgreSQL looks for dead ones among all entries of the page, but in a few pages of the
-- table only: with lists it looked at each entry again and again, which was a seventh of the work of a claim. The index has few
-- entries, so what a list saves in size does not count. PostgreSQL 12 has no lists there.
do $do$
begin
	if current_setting('server_version_num')::integer >= 130000 then
		execute 'alter index jobrun.job_runs_running set (deduplicate_items = off)';
	end if;
end
$do$;
