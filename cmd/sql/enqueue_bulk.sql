-- enqueue_bulk: a row for each run; one of nulls for a line without anything, which only counts
copy jobrun.new_runs (job_type, payload, options, run) from stdin
