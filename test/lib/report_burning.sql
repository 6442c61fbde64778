-- report_burning: what report_healthy.sql makes, and then: one host is gone for three hours, cron of the other one has stopped twenty minutes
-- ago, mail is dying since the morning, a queue is paused, a lease has run out, a slot is late, and much waits.
\ir report_healthy.sql
delete from jobrun.job_runners where host = 'app2' and started_at > now() - interval '3 hours';
delete from jobrun.job_runners where started_at > now() - interval '20 minutes';
delete from jobrun.job_runners where started_at between now() - interval '15 hours' and now() - interval '14 hours 20 minutes';
update jobrun.job_runners set finished_at = last_seen_at;
update jobrun.job_runs r set runner_id = (select min(n.id) from jobrun.job_runners n where n.host = r.locked_by) where r.status = 'running';

update jobrun.job_stats s set n = greatest(1, s.n * 15 / 100), run_buckets = array_fill(0::bigint, array[12]) || s.run_buckets[5:16]
from jobrun.settings t where s.job_type = 'send_mail' and s.outcome = 'succeeded' and s.hour > t.stats_until - interval '6 hours';
update jobrun.job_stats s set wait_buckets = array_fill(0::bigint, array[9]) || s.wait_buckets
from jobrun.settings t where s.outcome = 'succeeded' and s.hour > t.stats_until - interval '6 hours';
insert into jobrun.job_stats (hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
select t.stats_until - h * interval '1 hour', 130 - 9 * h, 1000, 0, 'send_mail', 'mail', o.outcome, array[0, 0, 0, 0, 130 - 9 * h]::bigint[], '{}'
from jobrun.settings t cross join generate_series(1, 7) h cross join (values ('dead'), ('failed')) o(outcome)
on conflict (hour, job_type, queue, outcome) do update set n = excluded.n * 2;

insert into jobrun.job_runs (job_type, queue, status, attempts, claim_seq, runner_id, locked_by, run_at, started_at, finished_at, error_code, last_error)
select d.job_type, d.queue, 'dead', 1, 1, 1, 'app1', t.at, t.at, t.at + interval '3 s', d.error_code, d.error
from (values ('send_mail', 'mail', 320, 'exit:65', 'exit 65: relay refused the sender'), ('send_mail', 'mail', 41, 'timeout', 'killed after 5m'),
	('deliver_webhook', 'default', 6, 'http:410', 'the server answered 410'), ('charge_card', 'default', 1, 'exit:1', 'exit 1')) d(job_type, queue, n, error_code, error)
cross join lateral generate_series(1, d.n) i cross join lateral (select now() - interval '80 s' * i - interval '7 s' as at) t;
insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at, error_code, error, host, output)
select r.id, 1, 1, 'dead', r.started_at, r.finished_at, r.error_code, r.last_error, 'app1', case r.error_code
	when 'exit:65' then E'connecting to relay.example.org:587\n554 5.7.1 <news@example.org>: sender address rejected: not owned by user relay\n'
	when 'exit:1' then E'charge of order 88123\nTraceback (most recent call last):\n  File "charge.py", line 214, in <module>\nValueError: amount is "12,50"\n' end
from jobrun.job_runs r where r.status = 'dead';

insert into jobrun.job_runs (job_type, queue, status, run_at, attempts, claim_seq)
select 'send_mail', 'mail', 'queued', now() - interval '4 s' * i, 0, 0 from generate_series(1, 12000) i
union all select 'fax', 'default', 'queued', now() - interval '9 minutes' * i, 0, 0 from generate_series(1, 12) i;
update jobrun.job_runs set locked_until = now() - interval '6 minutes' where status = 'running' and job_type <> 'report';
insert into jobrun.job_queues (name, paused_until, paused_reason, paused_by) values ('slow', 'infinity', 'CRM is being moved', 'ada');
update jobrun.job_definitions set next_slot_at = date_trunc('minute', now() - interval '17 minutes') where name = 'sync';
