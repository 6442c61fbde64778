-- grant_add: role $2 may do what kind $1 may; $3 only these job types, $4 only into these queues (null: all), $5 at most so many runs
-- at a time that are not over (null: any number)
select jobrun.add_grant($1::text, $2::text, $3::text[], $4::text[], $5::bigint)
