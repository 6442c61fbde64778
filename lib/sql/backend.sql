-- backend: the process that serves this session. Behind a pooler in transaction mode it is not the one that libpq was
-- told of when it connected, and what is set for the session does not stay.
select pg_backend_pid() as pid
