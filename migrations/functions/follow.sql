-- follow: somebody looks at the output of a run, so its runner sends it each second.

-- follow: mark a running run as followed for ten seconds. Its runner sees the mark with its next heartbeat. Who follows calls
-- this every few seconds, in transactions of their own; however many do, the row is written every two seconds at most. followed:
-- it is marked; false: it is not running, or the caller may not see its output (as in run_texts). heartbeat: how often its runner
-- renews its lease; null: that runner is an older program, which does not ask who follows. locked_until: its lease. If that
-- changes after the mark, there was a heartbeat.
--
-- A mark that another transaction has locked is not waited for: somebody else follows the run.
create or replace function jobrun.follow(run bigint, out followed boolean, out heartbeat interval, out locked_until timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp set lock_timeout = '200ms' as $fn$
#variable_conflict use_column
begin
	select true, h.heartbeat, r.locked_until into followed, heartbeat, locked_until
	from jobrun.job_runs r left join jobrun.job_runners h on h.id = r.runner_id
	where r.id = follow.run and r.locked_until is not null
		and (r.created_by = jobrun.caller() or jobrun.may('run', 'admin'));
	followed := coalesce(followed, false);
	if not followed or exists (select from jobrun.job_follows f
			where f.run_id = follow.run and f.followed_until > now() + interval '8 seconds') then
		return;
	end if;
	-- what nobody follows any more
	delete from jobrun.job_follows f where f.run_id in (select x.run_id from jobrun.job_follows x
		where x.followed_until < now() - interval '1 minute' limit 100 for update skip locked);
	insert into jobrun.job_follows as f (run_id, followed_until) values (follow.run, now() + interval '10 seconds')
	on conflict (run_id) do update set followed_until = excluded.followed_until where f.followed_until < excluded.followed_until;
exception when lock_not_available then
	null;
end
$fn$;
