-- session: what a sql handler's connection needs between two runs.

-- session_clean: remove what a user's statement may have left in the session. Like DISCARD ALL, but inside a
-- transaction, so that behind a pooler it cleans the same session. The statements after it are jobrun's own: their
-- parameters are UTF-8 with nulls in arrays, and the leases of the runs bound their time, so these parameters are set
-- after the reset. The settle may wait for a lock, so the server must go on checking the connection: a dead runner's
-- transaction must not keep its locks. It has no SET clause, which would undo what it sets.
create or replace function jobrun.session_clean() returns void
language plpgsql volatile as $fn$
declare
	v_name  text;
	v_check constant text := pg_catalog.current_setting('client_connection_check_interval', true);
begin
	execute 'close all';
	execute 'unlisten *';
	perform pg_catalog.pg_advisory_unlock_all();
	-- only statements of PREPARE: a pooler has prepared statements of its own on the connection and relies on them
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
$fn$;
