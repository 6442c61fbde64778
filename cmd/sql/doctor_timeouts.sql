-- doctor_timeouts: settings of the server, the database or the role that end long handlers; each with where it is set. jobrun sets
-- them for its own statements, so the value that a new session gets is looked at. Returns findings (doctor.h).
with settings as (
	select s.name, s.reset_val::bigint as ms, '0' as off from pg_settings s
	where s.name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
		and s.reset_val <> '0'
),
-- include doctor_origins
select 'warn', format('%s is {time}, set for %s', o.name, o.set_for), o.ms,
	case o.name when 'statement_timeout' then 'it ends every statement of a program that takes longer, and of an sql handler without a timeout'
		when 'idle_session_timeout' then 'it ends the session of a program that works so long without a statement'
		when 'transaction_timeout' then 'it ends the session of a program whose transaction takes longer'
		else 'it ends the session of a program that works so long in a transaction without a statement' end,
	null::text, o.sql
from origins o
order by o.name
