-- complete: what $1 (TYPE, QUEUE, NAME, ID) may be, a line each. NAME is a definition; ids are the newest ones, each with a tab and what it is.
select case $1::text
	when 'TYPE' then jobrun.other_paused_types('')
	when 'QUEUE' then jobrun.other_queues('')
	when 'NAME' then (select string_agg(d.name, E'\n') from (select n.name from jobrun.job_definitions n order by n.name limit 1000) d)
	when 'ID' then (select string_agg(format(E'%s\t%s, %s', i.id, i.job_type, i.status), E'\n') from (
		select r.id, r.job_type, r.status from jobrun.runs r where not r.archived order by r.id desc limit 50) i)
end
