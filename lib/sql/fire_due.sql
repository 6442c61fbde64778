-- fire_due: ms until the next slot of any schedule, at most an hour; 0: a slot is due
select jobrun.fire_due() as due_ms
