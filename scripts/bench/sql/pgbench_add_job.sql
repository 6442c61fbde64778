\set n random(1, 1000000)
select graphile_worker.add_job('noop', json_build_object('n', :n));
