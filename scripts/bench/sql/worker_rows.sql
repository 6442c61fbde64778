-- The same without json_populate_record: all members of a job_spec, in the order of version 0.17.
select count(*) from graphile_worker.add_jobs(array(
    select row(:'job_type', payload::json, null, null, null, null, null, null)::graphile_worker.job_spec
    from public.payloads));
