#!/usr/bin/env bats
# What an enqueue, a claim and a retry read for a unique key does not grow with what has ended of it, nor with what waits of other
# keys, whatever statistics say.

load ../lib/common

# KEY_ROWS: how many have ended; half of them by success, and in the second half of ids only each fifth. As many wait, with other
# keys, and as many of another one have ended dead.
ROWS=${KEY_ROWS:-20000}

# filled: rows of key k that have ended, and the others.
filled() {
	echo "insert into jobrun.job_runs (job_type, unique_key, run_at) select 't', 'w' || i, now() + interval '1 day' from generate_series(1, $ROWS) i;
		insert into jobrun.job_runs (job_type, unique_key, status, claim_seq, attempts, started_at, finished_at, error_code)
		select 't', 'd', 'dead', 1, 1, now(), now(), 'x' from generate_series(1, $ROWS) i;"
	echo "insert into jobrun.job_runs (job_type, unique_key, status, claim_seq, attempts, started_at, finished_at)
		select 't', 'k', case when i % 5 = 0 or i * 8 < $ROWS * 3 then 'succeeded' when i % 5 = 1 then 'dead' else 'cancelled' end,
			1, 1, now(), now() from generate_series(1, $ROWS) i"
}

# costs: a session that has made plans for an empty table; fills it as \$1 says, and reads what the pages of each statement are.
costs() {
	q >"$TMPDIR/costs" <<-sql
		set client_min_messages = warning;
		alter table jobrun.job_runs set (autovacuum_enabled = off);
		insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'h', 'x');
		create table public.cost (what text, pages bigint);
		create function public.cost(what text, statement text) returns void language plpgsql as \$\$
		declare
			plan json;
		begin
			execute 'explain (analyze, buffers, format json) ' || statement into plan;
			insert into public.cost values (what, (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint
				+ (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint);
		end \$\$;
		create sequence public.claims;
		create function public.turn() returns void language plpgsql as \$\$
		declare
			run bigint;
			what text;
		begin
			perform public.cost('nothing waits', \$s\$select jobrun.enqueue('t', unique_key => 'k', max_attempts => 9)\$s\$);
			perform public.cost('keep', \$s\$select jobrun.enqueue('t', unique_key => 'k')\$s\$);
			perform public.cost('replace', \$s\$select jobrun.enqueue('t', unique_key => 'k', on_conflict => 'replace')\$s\$);
			what := format(\$s\$select id from jobrun.claim(7, 'h', 10, '{t}', '{default}', '{100}', null, null, null, 60000, %s)\$s\$,
				nextval('public.claims'));
			perform public.cost('claim', what);
			perform public.cost('unless running', \$s\$select jobrun.enqueue('t', unique_key => 'k', on_conflict => 'unless_running')\$s\$);
			-- the one before the last waits for its retry: it is kept, then replaced by a newer one, which supersedes it
			update jobrun.job_runs set status = 'failed', locked_until = null where status = 'running' returning id into run;
			insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values (run, 1, 1, 'failed');
			perform public.cost('keep a retry', \$s\$select jobrun.enqueue('t', unique_key => 'k')\$s\$);
			perform public.cost('replace a retry', \$s\$select jobrun.enqueue('t', unique_key => 'k', on_conflict => 'replace')\$s\$);
			perform public.cost('claim of two', format(\$s\$select id from jobrun.claim(7, 'h', 10, '{t}', '{default}', '{100}', null, null,
				null, 60000, %s)\$s\$, nextval('public.claims')));
			update jobrun.job_runs set status = 'succeeded', locked_until = null, finished_at = now() where status = 'running';
			perform public.cost('retry', format('select jobrun.retry(%s)', run));
			select min(r.id) into run from jobrun.job_runs r where r.unique_key = 'd' and r.status = 'dead';
			perform public.cost('retry of the oldest of many', format('select jobrun.retry(%L)', run));
			delete from jobrun.job_runs r where r.id = run;
		end \$\$;
		select from (select public.turn() from generate_series(1, 8)) t;
		truncate public.cost;
		$1
		select from (select public.turn() from generate_series(1, 2)) t;
		-- The cheaper of two: when others create and drop databases, a session may have to read the catalogue anew.
		select what, min(pages) from public.cost group by what having min(pages) > 250;
		select 'measured ' || count(distinct what) from public.cost;
	sql
	cat "$TMPDIR/costs"
	assert_equal "$(cat "$TMPDIR/costs")" 'measured 10'
	q 'truncate jobrun.job_runs, jobrun.job_attempts' # no runner made these rows, as the invariants would have it
}

@test "enqueue with a key reads few pages with plans made for an empty table that was never analysed" {
	costs "$(filled);"
}

@test "enqueue with a key reads few pages with statistics of an almost empty table" {
	costs "analyze jobrun.job_runs; $(filled);"
}

@test "enqueue with a key reads few pages with statistics of a full table" {
	costs "$(filled); analyze jobrun.job_runs;"
}

@test "enqueue with a key reads few pages with statistics of 31 rows of many keys" {
	costs "insert into jobrun.job_runs (job_type, unique_key, status, claim_seq, attempts, started_at, finished_at)
		select 't', 'x' || i, 'succeeded', 1, 1, now(), now() from generate_series(1, 31) i;
		insert into jobrun.job_runs (job_type, unique_key, run_at) select 't', 'y' || i, now() + interval '1 day' from generate_series(1, 31) i; analyze jobrun.job_runs; $(filled);"
}
