-- :n waiting runs of the prototype.
insert into queue_runs (job_type, payload) select 'noop', jsonb_build_object('n', i) from generate_series(1, :n) i;
