-- report_healthy: a database in which all is well: two hosts, each with a tick a minute, eight job types, a week of sums that follow day and
-- night, some runs of the open hour. Nothing here is random.
set session_replication_role = replica;
update jobrun.settings set stats_until = date_trunc('hour', now() - interval '10 minutes');

create temporary table kinds (nr integer, job_type text, queue text, busy numeric, run integer, wait integer, flaky numeric);
insert into kinds values (1, 'send_mail', 'mail', 420, 8, 9, 0.004), (2, 'resize_image', 'default', 260, 11, 10, 0.01),
	(3, 'charge_card', 'default', 90, 10, 7, 0.002), (4, 'sync_crm', 'slow', 24, 14, 12, 0.03), (5, 'report', 'slow', 6, 18, 10, 0),
	(6, 'deliver_webhook', 'default', 310, 9, 8, 0.05), (7, 'cleanup', 'default', 1, 15, 6, 0), (8, 'backup', 'default', 0.05, 21, 6, 0);

-- day: 0.15 at night to 1 in the afternoon; wave: what differs from hour to hour
insert into jobrun.job_stats (hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
select c.hour, c.n, c.n * 2 ^ k.run, c.n * 2 ^ k.wait, k.job_type, k.queue, c.outcome,
	array_fill(0::bigint, array[greatest(k.run - 2, 0)]) || array[c.n * 20 / 100, c.n - c.n * 20 / 100 - c.n * 6 / 100 - c.n / 100, c.n * 6 / 100, c.n / 100],
	case when c.outcome = 'succeeded' then array_fill(0::bigint, array[k.wait - 3])
		|| array[c.n * 55 / 100, c.n - c.n * 55 / 100 - c.n * 4 / 100, c.n * 4 / 100] else '{}' end
from kinds k
cross join lateral (
	select h.hour, o.outcome, floor(o.share * k.busy * case when extract(isodow from h.hour) > 5 then 0.45 else 1 end
		* (0.15 + 0.85 * (1 + cos(2 * pi() * (extract(hour from h.hour) - 14) / 24)) / 2)
		* (1 + 0.25 * sin(extract(epoch from h.hour)::bigint / 3600 * (k.nr + 2.7))) + o.round)::bigint as n
	from jobrun.settings s
	cross join lateral generate_series(s.stats_until - interval '175 hours', s.stats_until - interval '1 hour', interval '1 hour') h(hour)
	cross join lateral (values ('succeeded', 1, 0.9), ('failed', k.flaky, 0.3)) o(outcome, share, round)) c
where c.n > 0;

insert into jobrun.job_runs (job_type, queue, status, attempts, claim_seq, runner_id, locked_by, run_at, created_at, started_at, finished_at)
select k.job_type, k.queue, 'succeeded', 1, 1, 1, 'app1', t.at, t.at, t.at + interval '90 ms' * (i % 7), t.at + interval '90 ms' * (i % 7) + interval '1 ms' * 2 ^ (k.run - 1)
from kinds k cross join jobrun.settings s cross join lateral generate_series(1, greatest(1, (k.busy / 4)::integer)) i
cross join lateral (select s.stats_until + (now() - s.stats_until) * (i / (k.busy / 4 + 2)) as at) t;

insert into jobrun.job_runs (job_type, queue, status, run_at, attempts, claim_seq)
select 'send_mail', 'mail', 'queued', now() + interval '3 minutes' * i, 0, 0 from generate_series(1, 14) i
union all select 'deliver_webhook', 'default', 'failed', now() + interval '7 minutes' * i, 1, 1 from generate_series(1, 5) i
union all select 'charge_card', 'default', 'queued', now() - interval '2 seconds' * i, 0, 0 from generate_series(1, 3) i;
insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at, error_code, error, exit_status)
select r.id, 1, 1, 'failed', now() - interval '40 s', now() - interval '30 s', 'http:503', 'the server answered 503', null
from jobrun.job_runs r where r.status = 'failed';

insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, finished_at, job_types)
select h.nr * 10000 + i, 4711, 4, h.host, '1', t.at, t.at + interval '21 s', case when i > 0 then t.at + interval '21 s' end, array(select k.job_type from kinds k)
from (values (1, 'app1'), (2, 'app2')) h(nr, host) cross join generate_series(0, 1450) i
cross join lateral (select now() - i * interval '1 minute' - h.nr * interval '11 s' as at) t;

insert into jobrun.job_runs (job_type, queue, status, attempts, claim_seq, runner_id, locked_by, run_at, started_at, locked_until, progress)
values ('report', 'slow', 'running', 1, 1, 10000, 'app1', now() - interval '4 min', now() - interval '4 min', now() + interval '80 s', '{"done": 640, "of": 1000}'),
	('resize_image', 'default', 'running', 1, 1, 20000, 'app2', now() - interval '2 s', now() - interval '2 s', now() + interval '88 s', null),
	('sync_crm', 'slow', 'running', 2, 2, 20000, 'app2', now() - interval '41 s', now() - interval '38 s', now() + interval '70 s', '"page 12"');
insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at, error_code, error, exit_status)
select r.id, 1, 1, 'failed', now() - interval '2 min', now() - interval '90 s', 'exit:1', 'exit 1: connection reset', 1
from jobrun.job_runs r where r.job_type = 'sync_crm' and r.status = 'running';

insert into jobrun.job_definitions (name, job_type, schedule, time_zone, next_slot_at)
select d.name, d.job_type, d.schedule, 'UTC', (select n from jobrun.next_slots(d.schedule, 'UTC') n)
from (values ('nightly-backup', 'backup', '30 2 * * *'), ('sync', 'sync_crm', '*/15 * * * *'), ('sales-report', 'report', '0 6,12,18 * * *'),
	('cleanup', 'cleanup', '10 */2 * * *')) d(name, job_type, schedule);
