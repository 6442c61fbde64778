#!/usr/bin/env bats
# Clients racing on few keys: no update without a later start, one run for an idempotency key, no error but 40001.
#
# CHAOS_SECONDS (60) is how long, CHAOS_SEED what to repeat. 64 clients in all three isolation levels, a third of whose
# transactions roll back, against runners whose handler fails a third of the time. Four keys are hot at any moment. They
# change with the clock: an update that was lost would otherwise be hidden by the next one of its key.

load ../lib/common
load ../lib/sql

HOSTS=2

setup_file() {
	export BATS_NO_PARALLELIZE_WITHIN_FILE=true # others race for the same CPUs meanwhile
}

setup() {
	common_setup
	seed=${CHAOS_SEED:-$$}
	PGBENCH=$(dirname "$JR_PSQL")/pgbench
	tables
	sql_handler look <<<'select look($1)'
	sql_handler once <<<'select 1'
	client_scripts
}

# state: what the clients change; rows of one client (who) and rows of all (who = -1). seen: what the handler saw of it, written
# only by attempts that succeeded. got: what the clients were told.
tables() {
	q <<-'sql'
		create table state (key bigint, who integer, v bigint not null, primary key (key, who));
		create table seen (run_id bigint, key bigint not null, who integer not null, v bigint not null);
		create table got (key bigint not null, kind text not null, id bigint not null);
		-- Four keys for a quarter of a second.
		create function hot(which integer) returns bigint language sql volatile as $$
			select (extract(epoch from clock_timestamp()) * 4)::bigint * 4 + which
		$$;
		create function change(key bigint, who integer) returns void language sql volatile as $$
			insert into state as s values (key, who, 1) on conflict on constraint state_pkey do update set v = s.v + 1
		$$;
		create function look(payload jsonb) returns void language plpgsql volatile as $$
		declare
			luck double precision := random();
		begin
			insert into seen select (payload ->> 'run')::bigint, s.key, s.who, s.v from state s where s.key = (payload ->> 'key')::bigint;
			if luck < 0.25 then
				raise exception 'bad luck';
			elsif luck < 0.33 then
				raise exception 'not now' using errcode = 'JR075';
			end if;
		end $$;
	sql
}

# Options of every run that a client asks for.
readonly RUN="max_attempts => 1000, backoff_base => '20 ms', backoff_cap => '100 ms'"

# A transaction changes states first, in order of keys, and asks for runs then: only jobrun's own locks could deadlock.
client_scripts() {
	local begin=$'\\set which random(0, 3)\n\\set luck random(1, 3)\n\\set nap random(0, 15)\n\\set rest random(0, 400)
\\set me :base + :client_id\nbegin;\nselect hot(:which) as key, hot((:which + 1) % 4) as other \\gset\n'
	local end=$'\\sleep :nap ms\n\\if :luck = 1\nrollback;\n\\else\ncommit;\n\\endif\n\\sleep :rest ms\n'
	local payload="jsonb_build_object('key', :key::bigint)" others="jsonb_build_object('key', :other::bigint)"

	script() {
		printf '%s%s\n%s' "$begin" "$(cat)" "$end" >"$TMPDIR/$1.sql"
	}
	script keep <<-sql
		select change(:key, :me);
		insert into got select :key, 'keep', jobrun.enqueue('look', $payload, unique_key => ':key', $RUN);
	sql
	script shared <<-sql
		select change(:key, -1);
		insert into got select :key, 'keep', jobrun.enqueue('look', $payload, unique_key => ':key', $RUN);
	sql
	script replace <<-sql
		select change(:key, :me);
		insert into got select :key, 'replace', jobrun.enqueue('look', $payload, unique_key => ':key', on_conflict => 'replace', $RUN);
	sql
	script unless <<-sql
		insert into got select :key, 'unless', jobrun.enqueue('look', $payload, unique_key => ':key', on_conflict => 'unless_running', $RUN);
	sql
	# Two keys, in an order that another client turns round; and a kept run that is replaced after all.
	script two <<-sql
		select change(least(:key, :other), :me), change(greatest(:key, :other), :me);
		insert into got select :key, 'keep', jobrun.enqueue('look', $payload, unique_key => ':key', $RUN);
		\\sleep :nap ms
		insert into got select :other, 'keep', jobrun.enqueue('look', $others, unique_key => ':other', $RUN);
		insert into got select :key, 'replace', jobrun.enqueue('look', $payload, unique_key => ':key', on_conflict => 'replace', $RUN);
	sql
	script savepoint <<-sql
		select change(:key, :me);
		savepoint s;
		select jobrun.enqueue('look', $payload, unique_key => ':key', $RUN);
		rollback to s;
		insert into got select :key, 'keep', jobrun.enqueue('look', $payload, unique_key => ':key', $RUN);
	sql
	script once <<-sql
		insert into got select :key, 'once', jobrun.enqueue('once', idempotency_key => ':key', $RUN);
		\\sleep :nap ms
		insert into got select :other, 'once', jobrun.enqueue('once', idempotency_key => ':other', $RUN);
	sql
}

# clients ISOLATION HOW_MANY BASE SECONDS: pgbench; a transaction that fails with 40001 or 40P01 is counted and not tried
# again, any other error ends its client, and pgbench then fails.
clients() {
	local files=() name

	for name in keep@6 shared@3 replace@3 unless@2 two@3 savepoint@1 once@3; do
		files+=(-f "$TMPDIR/${name%@*}.sql@${name#*@}")
	done
	PGOPTIONS="-c default_transaction_isolation=${1// /\\ } -c deadlock_timeout=50ms" env -u JOBRUN_TEST_ID "$PGBENCH" -n \
		-c "$2" -j 1 -D base="$3" -T "$4" --random-seed="$((seed + $3))" --max-tries=1 --failures-detailed "${files[@]}" \
		"$(past_pooler)" >"$TMPDIR/bench.$3" 2>&1 3>&- 4>&-
}

# One host: ticks as fast as they come, until the file `stop` is there.
host() {
	while [ ! -e "$TMPDIR/stop" ]; do
		"$JOBRUN" run --sql-jobs 3 --state-dir "$TMPDIR/host$1" >>"$TMPDIR/host$1.log" 2>&1 || echo "exit $?" >>"$TMPDIR/host$1.log"
	done
}

drained() {
	"$JOBRUN" run --sql-jobs 8 --state-dir "$TMPDIR/last" >>"$TMPDIR/last.log" 2>&1 || true
	q_is 0 "select count(*) from jobrun.job_runs where finished_at is null"
}

# race SECONDS: sets bad_clients, how many pgbench did not end well.
race() {
	local seconds=$1 hosts=() benches=() n pid

	bad_clients=0
	rm -f "$TMPDIR/stop"
	for n in $(seq "$HOSTS"); do
		host "$n" 3>&- 4>&- &
		hosts+=("$!")
	done
	clients 'read committed' 24 0 "$seconds" &
	benches+=("$!")
	clients 'repeatable read' 20 24 "$seconds" &
	benches+=("$!")
	clients 'serializable' 20 44 "$seconds" &
	benches+=("$!")
	for pid in "${benches[@]}"; do
		wait "$pid" || bad_clients=$((bad_clients + 1))
	done
	touch "$TMPDIR/stop"
	wait "${hosts[@]}"
	wait_until 60 drained
}

# How often pgbench counted something: "number of WHAT: N (...)".
counted() {
	sed -n "s/^number of $1: \([0-9]*\).*/\1/p" "$TMPDIR"/bench.* | awk '{ n += $1 } END { print n + 0 }'
}

# Complaints of the witnesses.
judge() {
	q <<-'sql'
		select format('key %s: client %s committed version %s, and the last start that succeeded saw %s', s.key, s.who, s.v, max(n.v))
		from state s left join seen n using (key, who) group by s.key, s.who, s.v having s.v > coalesce(max(n.v), 0);
		select format('key %s: %s ids for an idempotency key', key, count(distinct id)) from got where kind = 'once'
		group by key having count(distinct id) > 1;
		select format('idempotency key %s: %s runs', idempotency_key, count(*)) from jobrun.job_runs where job_type = 'once'
		group by idempotency_key having count(*) > 1;
		select format('a client was told %s for key %s, which is not there or of another key', g.id, g.key) from got g
		where not exists (select from jobrun.job_runs r
			where r.id = g.id and g.key::text = case g.kind when 'once' then r.idempotency_key else r.unique_key end);
		select format('run %s ended %s', id, status) from jobrun.job_runs where status <> 'succeeded';
	sql
}

tell() {
	echo "# seed $seed: $(counted 'transactions actually processed') transactions, $(counted 'serialization failures') times 40001," \
		"$(counted 'deadlock failures') times 40P01; $(q "select count(*) from got") runs promised in" \
		"$(q "select count(distinct key) from got") keys, $(q "select count(*), sum(claim_seq) from jobrun.job_runs" | sed 's/|/ runs, /') claims," \
		"$(judge | wc -l) complaints" >&3
}

@test "64 clients race on few keys: an id or 40001, and no update without a later start" {
	race "${CHAOS_SECONDS:-60}"
	tell
	assert_equal "$(judge)" ''
	assert_equal "$bad_clients" 0 "$(grep -h 'error' "$TMPDIR"/bench.* | head)"
	assert_equal "$(counted 'deadlock failures')" 0
	run grep -h '^exit' "$TMPDIR"/host*.log
	assert_output ''
	# The race must have been one, or nothing was shown.
	[ "$(q "select count(*) from jobrun.job_attempts where outcome in ('failed', 'later')")" -ge 20 ]
	[ "$(q "select count(*) from (select from got where kind <> 'once' group by id having count(*) > 1) s")" -ge 20 ]
	[ "$(counted 'serialization failures')" -ge 20 ]
}

@test "the witness sees a keep that locks nothing" {
	q "create or replace function jobrun.lock_waiting(run_id bigint, to_change boolean) returns jobrun.job_runs
		language sql volatile set search_path = pg_catalog, jobrun, pg_temp as \$\$
			select r.* from jobrun.job_runs r where r.id = run_id and r.status in ('queued', 'failed') \$\$"
	for _ in 1 2 3 4 5; do
		race 4
		tell
		! grep -q 'committed version' <(judge) || return 0
	done
	fail 'no update was lost'
}
