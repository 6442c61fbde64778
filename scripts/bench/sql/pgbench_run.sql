-- What a run with an effect writes at least: it is claimed in one transaction; its effect and its end are another. Each
-- client has runs of its own.
\set n :n + 1
\set id :client_id * :each + :n
update jobrun.job_runs
set status = 'running', runner_id = 1, locked_by = 'bench', locked_until = now() + interval '90 s', started_at = now(),
    attempts = attempts + 1, claim_seq = claim_seq + 1
where id = :id;
begin;
insert into public.effects (n) values (:id);
update jobrun.job_runs set status = 'succeeded', locked_until = null, finished_at = clock_timestamp()
where id = :id and claim_seq = 1 and runner_id = 1 and locked_until is not null;
commit;
