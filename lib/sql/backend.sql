-- backend: the pid of the server process. If it is not the pid that libpq got when it connected, there is a pooler in
-- transaction mode between, and parameters set for the session do not stay.
select pg_backend_pid() as pid
