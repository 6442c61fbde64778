-- enqueue_at: $1 a point in time as people write it, read in the zone of this transaction; out: one that any zone reads
-- the same way. The past means now; what is not finite stays so, for enqueue_run to refuse.
select case when isfinite(t.at) then (greatest(t.at, now()) at time zone 'UTC')::text || '+00' else t.at::text end
from (select $1::text::timestamptz as at) t
