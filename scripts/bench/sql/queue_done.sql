-- The end of the prototype's runs, if nobody else has claimed them meanwhile.
update queue_runs j set status = 2, finished_at = now() from unnest($1::bigint[]) u(id)
where j.id = u.id and j.status = 1 and j.locked_by = 1
