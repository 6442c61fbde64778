-- grant_add: grant kind $1 to role $2; $3 only these job types, $4 only into these queues (null: all), $5 how many
-- unfinished runs at a time (null: any number). Returns the limits that it has replaced, in words; null: none, or the same.
select jobrun.add_grant($1::text, $2::text, $3::text[], $4::text[], $5::bigint), b.limits
from (select) one left join (
	select coalesce(nullif(concat_ws(', ', 'for ' || array_to_string(g.job_types, ', '), 'into ' || array_to_string(g.queues, ', '),
		'at most ' || g.max_open || ' open'), ''), 'no limits') as limits
	from jobrun.job_grants g
	where g.kind = $1::text and g.role = $2::text
		and (g.job_types, g.queues, g.max_open) is distinct from ($3::text[], $4::text[], $5::bigint)) b on true
