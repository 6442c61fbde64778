-- held_back: why nothing starts on host $1: everything is paused, or the host is; null: neither
select jobrun.held_back($1::text)
