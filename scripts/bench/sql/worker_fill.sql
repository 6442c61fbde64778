-- :n jobs of graphile-worker, in one call, as its documentation does it for many.
select count(*) from graphile_worker.add_jobs(array(
    select json_populate_record(null::graphile_worker.job_spec,
        json_build_object('identifier', :'job_type', 'payload', json_build_object('n', i)))
    from generate_series(1, :n) i));
