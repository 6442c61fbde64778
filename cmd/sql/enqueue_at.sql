-- enqueue_at: $1 a time as people write it, read in the zone of this transaction. Returns it with an offset, so that it
-- means the same in any zone. A time in the past becomes now; an infinite one stays, and enqueue_run refuses it.
select case when isfinite(t.at) then (greatest(t.at, now()) at time zone 'UTC')::text || '+00' else t.at::text end
from (select $1::text::timestamptz as at) t
