-- fire: what is due of all schedules becomes runs and rows of job_slots; what was done, slots that went alike in one row.
select f.definition, to_char(f.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as slot, f.outcome, f.reason, f.run_id, f.slots
from jobrun.fire() f
