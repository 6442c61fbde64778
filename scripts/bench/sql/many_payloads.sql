-- :n payloads in a table, as text, for jobrun_many.sql and worker_many.sql.
create table public.payloads as select format('{"n": %s}', i) as payload from generate_series(1, :n) i;
vacuum analyze public.payloads;
