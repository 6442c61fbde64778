-- :n payloads in a table, json or jsonb as :kind says, for jobrun_many.sql and worker_many.sql.
create table public.payloads as select cast(jsonb_build_object('n', i) as :kind) as payload from generate_series(1, :n) i;
