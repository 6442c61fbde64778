-- fire_due: ms until the next slot of any schedule, 0: one is due; an hour at most. Whatever stands there, this does not fail: the
-- tick depends on it.
select ceil(extract(epoch from greatest(least(min(next_slot_at), now() + interval '1 hour'), now()) - now()) * 1000)::bigint as due_ms
from jobrun.job_definitions
