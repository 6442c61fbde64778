-- grant_drop: revoke kind $1 from role $2
select jobrun.drop_grant($1::text, $2::text)
