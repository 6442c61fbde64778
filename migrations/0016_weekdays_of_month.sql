-- 0016 weekdays_of_month: a schedule can name the last working day of the month (LW), its last Friday (5L) and its second
-- Monday (1#2); and handlers get the slot in the zone of the schedule.

-- held_runs has one more column.
drop function if exists jobrun.claim, jobrun.claim_job, jobrun.exec_claim;
drop view if exists jobrun.held_runs;
-- It says seconds, too, if they are wanted.
drop function if exists jobrun.slot_text;

-- days: bits 1 to 31, bit 0 for L, and bit 32 for LW. weekdays: seven bits each, Sunday first: each such day, then the first to the
-- fifth of the month, then the last. The other masks: bit n is n. star: the field begins with "*". every: all others are null.
alter type jobrun.schedule_fields alter attribute weekdays type bigint;
