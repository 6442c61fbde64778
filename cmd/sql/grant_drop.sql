-- grant_drop: role $2 may no more do what kind $1 may
select jobrun.drop_grant($1::text, $2::text)
