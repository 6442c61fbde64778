-- enqueue_bulk_counts: how many runs this transaction has queued through new_runs, and how many existed already
select coalesce(nullif(current_setting('jobrun.new_runs_created', true), '')::bigint, 0),
	coalesce(nullif(current_setting('jobrun.new_runs_existed', true), '')::bigint, 0)
