-- next_after: $1 a point in time as people write it, read in the zone of this transaction; in Unix ms, null: not finite
select case when isfinite(t.at) then floor(extract(epoch from t.at) * 1000)::bigint end
from (select $1::text::timestamptz as at) t
