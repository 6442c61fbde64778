-- 0020 follow: while somebody follows a running run, its runner sends its output each second.

-- One row for each run that is followed; see follow(). It is a table of its own because who follows may hold its
-- transaction open, and a row of job_runs that is locked gets no heartbeat. Unlogged: a crash of the server empties it,
-- and who still follows writes it again.
create unlogged table jobrun.job_follows (
	run_id         bigint primary key,
	followed_until timestamptz not null
) with (fillfactor = 50);

-- null: a program that does not ask who follows
alter table jobrun.job_runners add column heartbeat interval;
