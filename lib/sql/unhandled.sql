-- unhandled: what to tell people of runs that no host has a handler for. No row: nothing, or another runner looks.
select t.job_type, t.words, t.others from jobrun.tell_unhandled() t
