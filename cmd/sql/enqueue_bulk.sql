-- enqueue_bulk: a row for each run. An empty line becomes a row of nulls, which creates no run
copy jobrun.new_runs (job_type, payload, options, run) from stdin
