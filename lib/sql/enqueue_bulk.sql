-- enqueue_bulk: a row for each run; null, null at the end: a line without anything, which only counts
copy jobrun.new_runs (job_type, payload, options, run) from stdin
