-- enqueue_known: has a runner of the last 24 hours had job type $1?
select exists (select from jobrun.job_runners r
	where r.last_seen_at > now() - interval '24 hours' and $1::text = any (r.job_types))
