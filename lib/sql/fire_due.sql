-- fire_due: ms until the next slot of any schedule, 0 or less: one is due. Null: there is none.
select ceil(extract(epoch from min(next_slot_at) - now()) * 1000)::bigint from jobrun.job_definitions
