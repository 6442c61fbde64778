-- stats: $1 the length of the window in ms, $2 job types (null: all), $3 type, queue, hour or day, $4 time zone of hours and days.
-- Returns name, succeeded, failed, dead, cancelled, lost; below how many ms half, 95 % and 99 % waited, and ran; the sum of the
-- times; both buckets, from 1 ms on; a document.
-- Types and queues by the time they took, hours and days in their order.
select d.name, d.succeeded, d.failed, d.dead, d.cancelled, d.lost, d.wait_p50_ms, d.wait_p95_ms, d.wait_p99_ms, d.run_p50_ms,
	d.run_p95_ms, d.run_p99_ms, d.run_ms, array_to_string(d.run_buckets, ' '), array_to_string(d.wait_buckets, ' '),
	row_to_json(d)::text
from (
	select s.name, s.succeeded, s.failed, s.dead, s.cancelled, s.lost,
		jobrun.below(s.wait_buckets, 0.5) as wait_p50_ms, jobrun.below(s.wait_buckets, 0.95) as wait_p95_ms,
		jobrun.below(s.wait_buckets, 0.99) as wait_p99_ms, jobrun.below(s.run_buckets, 0.5) as run_p50_ms,
		jobrun.below(s.run_buckets, 0.95) as run_p95_ms, jobrun.below(s.run_buckets, 0.99) as run_p99_ms, s.run_ms,
		s.run_buckets, s.wait_buckets
	from jobrun.stats(now() - $1::bigint * interval '1 ms', $2::text[], $3::text, $4::text) s) d
order by case when $3::text in ('type', 'queue') then d.run_ms end desc, d.name
