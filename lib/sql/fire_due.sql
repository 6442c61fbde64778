-- fire_due: ms until the next slot of any schedule, at most an hour; 0: a slot is due. It must not fail, whatever value
-- next_slot_at has, since every tick depends on it.
select ceil(extract(epoch from greatest(least((select d.next_slot_at from jobrun.job_definitions d where d.next_slot_at is not null
	order by d.next_slot_at limit 1), now() + interval '1 hour'), now()) - now()) * 1000)::bigint as due_ms
