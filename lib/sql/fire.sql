-- fire: turn due slots of all schedules into runs and rows of job_slots. Returns what was done; slots with the same
-- outcome share a row.
select f.definition, to_char(f.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as slot, f.outcome, f.reason, f.run_id, f.slots
from jobrun.fire() f
