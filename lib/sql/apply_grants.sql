-- apply_grants: give every role again what job_grants says; functions that were made anew have lost it
select jobrun.apply_grants()
