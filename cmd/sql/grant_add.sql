-- grant_add: grant kind $1 to role $2; $3 only these job types, $4 only into these queues (null: all), $5 how many
-- unfinished runs at a time (null: any number)
select jobrun.add_grant($1::text, $2::text, $3::text[], $4::text[], $5::bigint)
