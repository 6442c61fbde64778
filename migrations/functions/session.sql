-- session: what a sql handler's connection needs before and after a run. Functions, so that their plans are kept; to
-- assign the result of set_config is the cheapest way to call it. They have no SET clause, which would undo what they set.

-- session_open: the first statement of a sql handler's transaction: parameters by which it can read facts about its run
-- ('': there is none, or the statement is for many runs), and what bounds its time; null: unchanged. idle_ms and check_ms
-- bound how long the server keeps the transaction of a dead runner; check_ms from PostgreSQL 14 on and if the server runs
-- on Linux. transaction_timeout (17) is switched off: the run's own timeout bounds the transaction.
create or replace function jobrun.session_open(run_id text, claim text, attempt text, key text, slot text,
	timeout_ms text, idle_ms text, check_ms text)
returns void
language plpgsql volatile as $fn$
declare
	v_set text;
begin
	v_set := pg_catalog.set_config('jobrun.run_id', run_id, true);
	v_set := pg_catalog.set_config('jobrun.claim', claim, true);
	v_set := pg_catalog.set_config('jobrun.attempt', attempt, true);
	v_set := pg_catalog.set_config('jobrun.key', key, true);
	v_set := pg_catalog.set_config('jobrun.slot', slot, true);
	if pg_catalog.current_setting('transaction_timeout', true) operator(pg_catalog.<>) '0' then
		v_set := pg_catalog.set_config('transaction_timeout', '0', true);
	end if;
	if timeout_ms is not null then
		v_set := pg_catalog.set_config('statement_timeout', timeout_ms, true);
	end if;
	if idle_ms is not null then
		v_set := pg_catalog.set_config('idle_in_transaction_session_timeout', idle_ms, true);
		v_set := pg_catalog.set_config('jobrun.lock_ms', (idle_ms::integer operator(pg_catalog./) 3)::pg_catalog.text, true);
	end if;
	if check_ms is not null and pg_catalog.current_setting('client_connection_check_interval', true) is not null
			and pg_catalog.textlike(pg_catalog.version(), '%linux%') then
		v_set := pg_catalog.set_config('client_connection_check_interval', check_ms, true);
	end if;
end
$fn$;

-- session_clean: remove what a user's statement may have left in the session. Like DISCARD ALL, but inside a
-- transaction, so that behind a pooler it cleans the same session. The statements after it are jobrun's own: their
-- parameters are UTF-8 with nulls in arrays, and the leases of the runs bound their time, so these parameters are set
-- after the reset. The settle may wait for a lock, so the server must go on checking the connection: a dead runner's
-- transaction must not keep its locks. And it waits for a sixth of the lease at most, a third of idle_ms, which
-- session_open has noted, since the statement may have changed that parameter: somebody may keep the row of a run locked
-- as long as he likes, and no heartbeat renews the runs that the settle has written already.
create or replace function jobrun.session_clean() returns void
language plpgsql volatile as $fn$
declare
	v_name  text;
	v_set   text;
	v_check constant text := pg_catalog.current_setting('client_connection_check_interval', true);
	v_lock  constant text := pg_catalog.current_setting('jobrun.lock_ms', true);
begin
	execute 'close all'; -- PL/pgSQL has a CLOSE of its own
	unlisten *;
	v_set := pg_catalog.pg_advisory_unlock_all();
	-- only statements of PREPARE: a pooler has prepared statements of its own on the connection and relies on them
	for v_name in select s.name from pg_catalog.pg_prepared_statements s where s.from_sql loop
		execute pg_catalog.format('deallocate %I', v_name);
	end loop;
	discard temp;
	discard sequences;
	reset all;
	v_set := pg_catalog.set_config('client_encoding', 'UTF8', true);
	v_set := pg_catalog.set_config('array_nulls', 'on', true);
	v_set := pg_catalog.set_config('statement_timeout', '0', true);
	v_set := pg_catalog.set_config('lock_timeout', case when v_lock operator(pg_catalog.<>) '' then v_lock else '0' end, true);
	v_set := pg_catalog.set_config('jit', 'off', true);
	if v_check is not null then
		v_set := pg_catalog.set_config('client_connection_check_interval', v_check, true);
	end if;
	if pg_catalog.current_setting('transaction_timeout', true) operator(pg_catalog.<>) '0' then
		v_set := pg_catalog.set_config('transaction_timeout', '0', true);
	end if;
end
$fn$;
