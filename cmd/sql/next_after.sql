-- next_after: $1 a time as people write it, read in the zone of this transaction. Returns Unix ms; null: it is infinite
select case when isfinite(t.at) then floor(extract(epoch from t.at) * 1000)::bigint end
from (select $1::text::timestamptz as at) t
