-- A job of graphile-worker for each row of many_payloads.sql, in one call, as its documentation does it for many.
select count(*) from graphile_worker.add_jobs(array(
    select json_populate_record(null::graphile_worker.job_spec,
        json_build_object('identifier', :'job_type', 'payload', payload::json))
    from public.payloads));
