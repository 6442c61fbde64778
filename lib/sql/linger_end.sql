-- linger_end: this runner starts nothing new from now on, though it still has runs to finish. So nobody sends NOTIFY
-- for it, and it is no other runner's successor. $1 id
update jobrun.job_runners set lingers_until = least(lingers_until, now())
where id = (select n.id from jobrun.job_runners n where n.id = $1::bigint for no key update skip locked)
