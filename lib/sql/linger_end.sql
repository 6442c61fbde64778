-- linger_end: this runner starts nothing new any more, though it still has runs to finish: it is worth no NOTIFY, and
-- nobody's successor. $1 id
update jobrun.job_runners set lingers_until = least(lingers_until, now())
where id = (select n.id from jobrun.job_runners n where n.id = $1::bigint for no key update skip locked)
