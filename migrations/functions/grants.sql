-- grants: the last file. Nobody may call or read anything without a grant. So rights that default privileges of the
-- database give to everybody are revoked, and every role gets exactly what job_grants says; further rights of an
-- earlier version are revoked. A function or view that was created again has no grants before. What others have made in the
-- schema is left alone: its owner alone can revoke rights on it.
-- A role that may write tables needs is_name(), is_enqueued() and is_run(), too, since CHECKs call them; a role that may claim needs the functions of
-- limits.
select jobrun.revoke_all('public');
select jobrun.apply_grants(g.role) from (select distinct r.role from jobrun.job_grants r order by r.role) g;
