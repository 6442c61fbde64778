-- grant_add: role $2 may do what kind $1 may; $3 only these job types (null: all)
select jobrun.add_grant($1::text, $2::text, $3::text[])
