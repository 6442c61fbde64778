-- :n messages, a thousand a call.
select count(*) from generate_series(1, :n, 1000) k, lateral
    pgmq.send_batch('noop', array(select jsonb_build_object('n', i) from generate_series(k, least(k + 999, :n)) i));
