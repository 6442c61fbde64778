-- report_days: the days of the last 168 hours in time zone $1: name, date, and the minute of the window in which each begins. The first
-- one began before it.
select to_char(d.day, 'Dy'), to_char(d.day, 'FMDD Mon'), floor(extract(epoch from d.day at time zone $1::text - w.first) / 60)::bigint
from (select date_trunc('hour', now()) - interval '167 hours' as first) w
cross join lateral generate_series(date_trunc('day', w.first at time zone $1::text), now() at time zone $1::text, interval '1 day') d(day)
order by d.day
