-- 0026 runners_seen: a runner each minute on each host, for weeks, is many rows. These find the newest of a host, and those that have
-- ended lately. Both hold what never changes, but for the end: a heartbeat stays HOT.
create index job_runners_hosts on jobrun.job_runners (host, started_at);
create index job_runners_finished on jobrun.job_runners (finished_at) where finished_at is not null;
