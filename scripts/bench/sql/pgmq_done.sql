-- Messages that are done are kept in the archive.
select count(*) from pgmq.archive('noop', $1::bigint[])
