-- grants: the last file. Nobody may call or read anything unless it is granted: what default privileges of the database give to
-- everybody is taken back, and every role gets what job_grants says, no more: what an earlier version gave as well is taken from
-- it. A function or view that was made anew has no grants.
-- Whoever may write tables needs is_name() as well, since CHECKs call it; whoever may claim needs those of limits.
revoke all on all functions in schema jobrun from public;
revoke all on all tables in schema jobrun from public;
revoke all on schema jobrun from public;
select jobrun.apply_grants(g.role) from (select distinct r.role from jobrun.job_grants r order by r.role) g;
