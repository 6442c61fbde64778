-- migrate_lock: one migration at a time, until the end of the transaction. The number is "jobrun" in ASCII.
select pg_advisory_xact_lock(117026625582446)
