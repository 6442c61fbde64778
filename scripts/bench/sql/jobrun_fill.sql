-- :n runs of type :job_type.
select count(*) from jobrun.enqueue_many(:'job_type', array(select jsonb_build_object('n', i) from generate_series(1, :n) i));
