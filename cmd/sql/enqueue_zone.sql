-- enqueue_zone: set the time zone in which times without one are read, for this transaction: $1 (--time-zone), else $2, that of
-- the caller's host. The server must know it. ":NAME" is always a zone, never an abbreviation. TZ of a host may also be a rule
-- of POSIX, such as CET-1CEST or <+03>-3, which goes as it is.
select set_config('TimeZone', case when z.is_rule then z.name else ':' || z.name end, true)
from (select coalesce($1::text, $2::text) as name,
	$1::text is null and $2::text ~ '^([A-Za-z]{3,}|<[A-Za-z0-9+-]+>)[+-]?[0-9]' as is_rule) z
cross join lateral jobrun.next_slots('@daily', case when z.is_rule then 'UTC' else z.name end) checked
