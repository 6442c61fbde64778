-- 0029 index_pages: cheaper pages of the indexes of runs, and claims that read what they have taken by ctid.

-- held_runs has a new column, tid, for these reads. insert_many and enqueue_many_with return the ids as an array.
drop function if exists jobrun.claim, jobrun.claim_job, jobrun.exec_claim, jobrun.start_keyed, jobrun.claim_free, jobrun.claim_turn,
	jobrun.claim_ahead, jobrun.check_pauses, jobrun.insert_many, jobrun.enqueue_many_with;
drop view if exists jobrun.held_runs;

-- A run gets an entry in the primary key when it is enqueued, when it is claimed and when it ends, on the same page. A page full of new
-- runs was searched for duplicates and dead entries, and split, as soon as its runs were claimed. At 45 a page takes 181 new runs, and
-- later their three entries: from version 13 on PostgreSQL makes a list of them, with 44 bytes. So it is not split, even while an old
-- snapshot keeps all entries, and the index is no larger than one whose pages were full at first.
alter index jobrun.job_runs_pkey set (fillfactor = 45);

-- The entries of these indexes have the id of the run, so only versions of the same run are alike. They are few: to look for them costs
-- more than it saves. PostgreSQL 12 does not look.
do $do$
begin
	if current_setting('server_version_num')::integer >= 130000 then
		execute 'alter index jobrun.job_runs_ready set (deduplicate_items = off)';
		execute 'alter index jobrun.job_runs_bound set (deduplicate_items = off)';
		execute 'alter index jobrun.job_runs_unfinished_keys set (deduplicate_items = off)';
		execute 'alter index jobrun.job_runs_finished_keys set (deduplicate_items = off)';
		execute 'alter index jobrun.job_runs_dead set (deduplicate_items = off)';
	end if;
end
$do$;
