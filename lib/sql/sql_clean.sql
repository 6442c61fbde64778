-- sql_clean: what a user's statement may have left in the session; all that DISCARD ALL does, but inside a transaction, so
-- that it meets the same session behind a pooler too. The parameters that follow are sent as UTF-8, whatever was reset.
do $do$
begin
	execute 'close all';
	execute 'unlisten *';
	perform pg_catalog.pg_advisory_unlock_all();
	execute 'deallocate all';
	execute 'discard temp';
	execute 'discard sequences';
	execute 'reset all';
	perform pg_catalog.set_config('client_encoding', 'UTF8', true);
end
$do$
