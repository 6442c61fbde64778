#!/usr/bin/env bats
# Clients racing on few keys: each committed enqueue is followed by a start that sees it, one run for an idempotency key, no
# error but 40001.
#
# CHAOS_SECONDS (60) is how long, CHAOS_SEED what to repeat. 64 clients in all three isolation levels, a third of whose
# transactions roll back, against runners whose handler fails a third of the time, and of which one is killed now and then. Four
# keys are hot at any moment. They change with the clock: an update that was lost would otherwise be hidden by the next one of
# its key. Of type `look` no run ends but by success or a newer one. Runs of `rough` have two attempts and sometimes expire, and
# people cancel them and retry them. What has succeeded is pruned at once. A slow machine may race again, until the race was one.

load ../lib/common
load ../lib/sql
load ../lib/chaos

HOSTS=2

setup() {
	chaos_setup
	races=0
	bad_clients=0
	tables
	sql_handler look <<<'select look($1, 0.25)'
	sql_handler rough <<<'select look($1, 0.4)'
	sql_handler once <<<'select 1'
	client_scripts
}

# state: what the clients change; rows of one client (who) and rows of all (who = -1). seen: what the handler saw of it, written
# only by attempts that succeeded, with the times of the claim and of the look. got: what the clients were told; v: the version
# that goes with it, null for none.
tables() {
	q <<-'sql'
		create table state (key bigint, who integer, v bigint not null, primary key (key, who));
		create table seen (run_id bigint not null, unique_key text, claimed timestamptz not null, looked timestamptz not null,
			key bigint not null, who integer not null, v bigint not null);
		create table got (key bigint not null, kind text not null, id bigint not null, type text, who integer, v bigint, expires boolean);
		-- Four keys for a quarter of a second.
		create function hot(which integer) returns bigint language sql volatile as $$
			select (extract(epoch from clock_timestamp()) * 4)::bigint * 4 + which
		$$;
		create function change(key bigint, who integer) returns void language sql volatile as $$
			insert into state as s values (key, who, 1) on conflict on constraint state_pkey do update set v = s.v + 1
		$$;
		create function look(payload jsonb, bad double precision) returns void language plpgsql volatile as $$
		declare
			luck double precision := random();
		begin
			insert into seen select r.id, r.unique_key, r.started_at, clock_timestamp(), s.key, s.who, s.v
			from state s join jobrun.job_runs r on r.id = current_setting('jobrun.run_id')::bigint
			where s.key = (look.payload ->> 'key')::bigint;
			if luck < bad then
				raise exception 'bad luck';
			elsif luck < bad + 0.08 then
				raise exception 'not now' using errcode = 'JR075';
			end if;
		end $$;
		-- One run for a key, by the clock; and a run of the type for people to do something about.
		create function ask(type text, key bigint, mode text, who integer, expires interval) returns void language sql volatile as $$
			insert into got select key, mode, jobrun.enqueue(type, jsonb_build_object('key', key), unique_key => key::text,
				on_conflict => mode, expires_in => expires, max_attempts => case type when 'rough' then 2 else 1000 end,
				backoff_base => '20 ms', backoff_cap => '100 ms'),
				type, who, (select s.v from state s where s.key = ask.key and s.who = ask.who), expires is not null
		$$;
		create function one_of(statuses text[]) returns bigint language sql volatile as $$
			select r.id from jobrun.job_runs r where r.job_type = 'rough' and r.status = any (statuses) order by random() limit 1
		$$;
		update jobrun.settings set keep_succeeded = '0', stats_until = date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'
			+ interval '2 hours';
	sql
}

# A transaction changes states first, in order of keys, and asks for runs then: only jobrun's own locks could deadlock.
client_scripts() {
	local begin=$'\\set which random(0, 3)\n\\set luck random(1, 3)\n\\set nap random(0, 15)\n\\set rest random(0, 400)
\\set me :base + :client_id\nbegin;\nselect hot(:which) as key, hot((:which + 1) % 4) as other \\gset\n'
	local end=$'\\sleep :nap ms\n\\if :luck = 1\nrollback;\n\\else\ncommit;\n\\endif\n\\sleep :rest ms\n'

	script() {
		printf '%s%s\n%s' "$begin" "$(cat)" "$end" >"$TMPDIR/$1.sql"
	}
	script keep <<<"select change(:key, :me); select ask('look', :key, 'keep', :me, null);"
	script shared <<<"select change(:key, -1); select ask('look', :key, 'keep', -1, null);"
	script replace <<<"select change(:key, :me); select ask('look', :key, 'replace', :me, null);"
	script unless <<<"select ask('look', :key, 'unless_running', null, null);"
	# Two keys, in an order that another client turns round; and a kept run that is replaced after all.
	script two <<-sql
		select change(least(:key, :other), :me), change(greatest(:key, :other), :me);
		select ask('look', :key, 'keep', :me, null);
		\\sleep :nap ms
		select ask('look', :other, 'keep', :me, null), ask('look', :key, 'replace', :me, null);
	sql
	script savepoint <<-sql
		select change(:key, :me);
		savepoint s;
		select ask('look', :key, 'keep', :me, null);
		rollback to s;
		select ask('look', :key, 'keep', :me, null);
	sql
	script rough <<<"select change(-:key, :me); select ask('rough', -:key, 'keep', :me, case :luck when 2 then interval '50 ms' end);"
	script coarse <<<"select change(-:key, :me); select ask('rough', -:key, 'replace', :me, case :luck when 2 then interval '50 ms' end);"
	script once <<-sql
		insert into got (key, kind, id) select :key, 'once', jobrun.enqueue('once', idempotency_key => ':key', max_attempts => 1000);
		\\sleep :nap ms
		insert into got (key, kind, id) select :other, 'once', jobrun.enqueue('once', idempotency_key => ':other', max_attempts => 1000);
	sql
	printf '%s\n' "select jobrun.cancel(one_of('{queued,failed,running}'));" '\sleep 300 ms' >"$TMPDIR/cancel.sql"
	printf '%s\n' '\set luck random(1, 3)' "select jobrun.retry(one_of('{dead,cancelled,queued,failed}'), :luck = 1);" \
		'\sleep 300 ms' >"$TMPDIR/retry.sql"
	printf '%s\n' "select jobrun.prune_step('{\"kind\": \"succeeded\"}', 100);" '\sleep 100 ms' >"$TMPDIR/prune.sql"
}

# clients ISOLATION HOW_MANY BASE SECONDS: pgbench; a transaction that fails with 40001 or 40P01 is counted and not tried
# again, any other error ends its client, and pgbench then fails.
clients() {
	local files=() name

	for name in keep@12 shared@6 replace@6 unless@4 two@6 savepoint@2 once@6 rough@8 coarse@6 cancel@2 retry@2 prune@1; do
		files+=(-f "$TMPDIR/${name%@*}.sql@${name#*@}")
	done
	PGOPTIONS="-c default_transaction_isolation=${1// /\\ } -c deadlock_timeout=50ms" env -u JOBRUN_TEST_ID "$PGBENCH" -n \
		-c "$2" -j 1 -D base="$3" -T "$4" --random-seed="$((seed + 100 * races + $3))" --max-tries=1 --failures-detailed "${files[@]}" \
		"$(past_pooler)" >"$TMPDIR/bench.$races.$3" 2>&1 3>&- 4>&-
}

# One host: ticks as fast as they come, until the file `stop` is there; each tenth is killed in the midst of it. Dead runs are news.
host() {
	local n=0 status seconds

	while [ ! -e "$TMPDIR/stop" ]; do
		seconds=60
		[ $((++n % 10)) -ne 0 ] || seconds=0.$((RANDOM % 5 + 1))
		status=0
		timeout -s KILL "$seconds" "$JOBRUN" run --sql-jobs 3 --lease 6s --state-dir "$TMPDIR/host$1" >>"$TMPDIR/host$1.log" 2>&1 || status=$?
		case $status in
		0 | 1) ;;
		137) echo "killed" >>"$TMPDIR/killed" ;;
		*) echo "exit $status" >>"$TMPDIR/host$1.log" ;;
		esac
	done
}

# race SECONDS: adds to races, and to bad_clients how many pgbench did not end well.
race() {
	local seconds=$1 hosts benches=() pid

	races=$((races + 1))
	rm -f "$TMPDIR/stop"
	start_hosts "$HOSTS"
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
	wait_until 60 drained --sql-jobs 8 --lease 6s
}

# How often pgbench counted something: "number of WHAT: N (...)".
counted() {
	sed -n "s/^number of $1: \([0-9]*\).*/\1/p" "$TMPDIR"/bench.* | awk '{ n += $1 } END { print n + 0 }'
}

# Complaints of the witnesses. A request of type rough is excused when the run that it was told, or a newer one of the key, has ended
# by people or by its last attempt; by its expiry only if the request itself had one, or the run had begun once.
judge() {
	q <<-'sql'
		with wanted as (
			select g.type, g.key, g.who, g.v, g.id, g.expires from got g where g.v is not null),
		best as (
			select n.key, n.who, max(n.v) as v from seen n group by n.key, n.who)
		select format('%s, key %s: client %s committed version %s with run %s, and the last start that succeeded saw %s', w.type, w.key,
			w.who, w.v, w.id, b.v)
		from wanted w left join best b using (key, who)
		where w.v > coalesce(b.v, 0) and not (w.type = 'rough' and exists (
			select from jobrun.job_runs r where r.job_type = 'rough' and (r.payload ->> 'key')::bigint = w.key and r.id >= w.id
				and ((r.status = 'dead' and (r.error_code <> 'expired' or w.expires or r.attempts + r.snoozes + r.releases > 1))
					or (r.status = 'cancelled' and r.error_code <> 'superseded'))));
		select distinct format('key %s: run %s started when the newer run %s was running or had succeeded', o.key, o.run_id, n.run_id)
		from seen o join seen n on n.unique_key = o.unique_key and n.run_id > o.run_id and n.looked < o.claimed;
		select format('key %s: %s ids for an idempotency key', key, count(distinct id)) from got where kind = 'once'
		group by key having count(distinct id) > 1;
		select format('idempotency key %s: %s runs', idempotency_key, count(*)) from jobrun.job_runs where job_type = 'once'
		group by idempotency_key having count(*) > 1;
		select format('a client was told %s for key %s, which is of another key', g.id, g.key) from got g join jobrun.job_runs r on r.id = g.id
		where g.key::text <> case g.kind when 'once' then r.idempotency_key else r.unique_key end;
		select format('run %s (%s) ended %s', id, job_type, status) from jobrun.job_runs
		where job_type <> 'rough' and status <> 'succeeded' and error_code is distinct from 'superseded';
	sql
}

tell() {
	echo "# seed $seed: $(counted 'transactions actually processed') transactions, $(counted 'serialization failures') times 40001," \
		"$(counted 'deadlock failures') times 40P01; $(q "select count(*) from got") runs promised in" \
		"$(q "select count(distinct key) from got") keys, $(q "select max(id) from jobrun.job_runs") runs," \
		"$(ended_as superseded) superseded, $(ended_as cancelled) cancelled, $(ended_as expired) expired," \
		"$(cat "$TMPDIR/killed" 2>/dev/null | wc -l) runners killed, $(judge | wc -l) complaints" >&3
}

ended_as() {
	q "select count(*) from jobrun.job_runs where error_code = '$1'"
}

# was_race: has each thing that clients and runners race for happened? If not, nothing was shown.
was_race() {
	q_is t "select (select count(*) from jobrun.job_attempts where outcome in ('failed', 'later')) >= 20
		and (select count(*) from (select from got where kind <> 'once' group by id having count(*) > 1) s) >= 20
		and (select count(*) from jobrun.job_runs where error_code = 'superseded') >= 5" || return
	[ "$(counted 'serialization failures')" -ge 20 ]
}

@test "64 clients that race on few keys get an id or 40001, and each commit is followed by a start that sees it" {
	race "$seconds"
	until was_race || [ "$races" -ge 8 ]; do
		race "$seconds"
	done
	tell
	complaints=$(judge) # by itself: a judge who fails has no complaints either
	assert_equal "$complaints" ''
	assert_equal "$bad_clients" 0 "$(grep -h 'error' "$TMPDIR"/bench.* | head)"
	assert_equal "$(counted 'deadlock failures')" 0
	run grep -h '^exit' "$TMPDIR"/host*.log
	assert_output ''
	was_race
}

# sees REGEX: within some turns of the race a witness complains so. A turn begins with 64 connections, whose first transactions plan
# everything: where programs start slowly that takes most of four seconds, so a turn is longer there, and there are fewer.
sees() {
	while [ "$races" -lt $((50 / patience + 10)) ]; do
		race $((4 * patience))
		tell
		! grep -q "$1" <(judge) || return 0
	done
	fail 'no witness has seen it'
}

@test "the witness sees a keep that locks nothing" {
	q "create or replace function jobrun.lock_waiting(run_id bigint, on_conflict text, expires_at timestamptz, to_change boolean)
		returns jobrun.job_runs language sql volatile set search_path = pg_catalog, jobrun, pg_temp as \$\$
			select r.* from jobrun.job_runs r where r.id = run_id and r.status in ('queued', 'failed')
				and (on_conflict <> 'replace' or r.claim_seq = 0) \$\$"
	sees 'committed version'
}

@test "the witness sees a retry that starts behind a newer run" {
	# A key is hot for long enough that it gets a newer run while an older one runs.
	q "create or replace function hot(which integer) returns bigint language sql volatile as
		'select (extract(epoch from clock_timestamp()) / 2)::bigint * 4 + which'"
	q "create or replace function jobrun.newer_run(job_type text, unique_key text, id bigint, or_waiting boolean default false)
		returns bigint language sql stable as 'select null::bigint'"
	sees 'started when the newer run'
}
