-- A run of type :job_type for each row of many_payloads.sql, in one call.
select count(*) from jobrun.enqueue_many(:'job_type', array(select payload::jsonb from public.payloads));
