-- enqueue_zone: set the time zone in which --at is read, for this transaction: $1 (--time-zone), which the server must
-- know, else $2 (TZ of the caller) if it is the name of a zone, else the default of the server, role or database.
-- ":NAME" is always a zone, never an abbreviation.
select set_config('TimeZone', coalesce(':' || $1::text,
	(select z.name from pg_timezone_names z where $1::text is null and lower(z.name) = lower($2::text) limit 1),
	(select s.reset_val from pg_settings s where s.name = 'TimeZone')), true)
from jobrun.next_slots('@daily', coalesce($1::text, 'UTC')) checked
