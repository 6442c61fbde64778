\set n random(1, 1000000)
select jobrun.enqueue('noop', jsonb_build_object('n', :n));
