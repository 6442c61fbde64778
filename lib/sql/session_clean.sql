-- session_clean: what a user's statement may have left in the session; what DISCARD ALL does, but inside a transaction, so
-- that it meets the same session behind a pooler too. What follows is ours: its parameters are sent as UTF-8, with nulls in
-- arrays, and how long it may take the runs' leases say, whatever was reset. The settle may wait for a lock, so the server
-- goes on looking whether the connection stands: what a dead runner's transaction has locked must not stay locked.
do $do$
declare
	v_name  text;
	v_check constant text := pg_catalog.current_setting('client_connection_check_interval', true);
begin
	execute 'close all';
	execute 'unlisten *';
	perform pg_catalog.pg_advisory_unlock_all();
	-- those of PREPARE alone: a pooler has its own on the connection, and believes that they are there
	for v_name in select s.name from pg_catalog.pg_prepared_statements s where s.from_sql loop
		execute pg_catalog.format('deallocate %I', v_name);
	end loop;
	execute 'discard temp';
	execute 'discard sequences';
	execute 'reset all';
	perform pg_catalog.set_config('client_encoding', 'UTF8', true);
	perform pg_catalog.set_config('array_nulls', 'on', true), pg_catalog.set_config('statement_timeout', '0', true),
		pg_catalog.set_config('lock_timeout', '0', true), pg_catalog.set_config('jit', 'off', true);
	if v_check is not null then
		perform pg_catalog.set_config('client_connection_check_interval', v_check, true);
	end if;
	if pg_catalog.current_setting('transaction_timeout', true) <> '0' then
		perform pg_catalog.set_config('transaction_timeout', '0', true);
	end if;
end
$do$
