#!/usr/bin/env bats
# Runners racing for queues with limits: never over, never stuck.
#
# CHAOS_SECONDS (60) sets how much there is to do, CHAOS_SEED what fails. The witness is a trigger that numbers each start and
# each end of a run: an end that a claim has seen has a smaller number than that claim, so that a sum over the numbers never
# shows more than there was.

load ../lib/common
load ../lib/sql
load ../lib/chaos

HOSTS=4

setup() {
	chaos_setup
	witness
	q "insert into jobrun.job_queues (name, max_running, max_running_per_key, rate_limit, rate_period) values
		('few', 3, null, null, null), ('keyed', null, 2, null, null), ('rated', null, null, 20, '1 s'), ('all', 5, 2, 20, '1 s')"
	q <<-'sql'
		create table sets (n bigint);
		create function work() returns text language plpgsql volatile as $$
		begin
			perform pg_sleep(random() * 0.02);
			if random() < 0.2 then
				raise exception 'bad luck';
			end if;
			return 'done';
		end $$;
	sql
	sql_handler single <<<'select work()'
	sql_handler set <<<'insert into sets select jsonb_array_length($1) from pg_sleep(0.01)'
	settings set <<<'{"batch": 10}'
	handler program <<<'exec sleep 0.01'
}

# at is the time by which the claim counts in a window: its transaction's.
witness() {
	q <<-'sql'
		create table public.trace (n bigint generated always as identity, at timestamptz, step integer,
			queue text collate "C", key text collate "C");
		create function public.trace() returns trigger language plpgsql as $$
		begin
			if (old.status = 'running') <> (new.status = 'running') then
				insert into public.trace (at, step, queue, key)
				values (now(), case new.status when 'running' then 1 else -1 end, new.queue, new.concurrency_key);
			end if;
			return null;
		end $$;
		create trigger trace after update on jobrun.job_runs for each row execute function public.trace();
		-- The fullest window: one begins with the first claim that no earlier one has room in time for.
		create function public.fullest(wanted text, period interval) returns bigint language plpgsql as $$
		declare
			begun timestamptz;
			claim timestamptz;
			used  bigint := 0;
			most  bigint := 0;
		begin
			for claim in select at from public.trace where queue = wanted and step = 1 order by n loop
				if begun + period > claim then
					used := used + 1;
				else
					begun := claim;
					used := 1;
				end if;
				most := greatest(most, used);
			end loop;
			return most;
		end $$;
	sql
}

# The most that ran at once, of each limit.
most() {
	q <<-'sql'
		with sums as (
			select queue, key, sum(step) over (partition by queue order by n) as running,
				sum(step) over (partition by queue, key order by n) as of_key
			from public.trace)
		select format('%s %s %s', q.name, w.what, w.n)
		from jobrun.job_queues q cross join lateral (
			select 1 as nr, 'running' as what, max(s.running) as n from sums s where s.queue = q.name and q.max_running is not null
			union all
			select 2, 'of a key', max(s.of_key) from sums s
			where s.queue = q.name and s.key is not null and q.max_running_per_key is not null
			union all
			select 3, 'in a window', public.fullest(q.name, q.rate_period) where q.rate_limit is not null) w
		where w.n is not null order by q.name, w.nr;
	sql
}

# over: the lines of $most that exceed their limit.
over() {
	awk '/^all running/ { limit = 5 } /^few running/ { limit = 3 } / of a key / { limit = 2 } / in a window / { limit = 20 }
		$NF > limit' <<<"$most"
}

# feed N: that many runs in each queue, of all types; half of those in the queues with a limit per key have a key.
feed() {
	q "select count(jobrun.enqueue((array['single', 'single', 'program', 'set'])[n % 4 + 1], queue => queue, priority => n % 3,
			max_attempts => 100, backoff_base => '20 ms', backoff_cap => '100 ms',
			concurrency_key => case when queue in ('keyed', 'all') and n % 2 = 0 then 'k' || n % 5 end))
		from generate_series(1, $1) n, unnest(array['few', 'keyed', 'rated', 'all', 'free']) queue" >/dev/null
}

# One host: ticks as fast as they come, until nothing is left to do or the file `stop` is there.
host() {
	local number=$1

	while [ ! -e "$TMPDIR/stop" ]; do
		"$JOBRUN" run -j 3 --sql-jobs 5 --state-dir "$TMPDIR/host$number" >>"$TMPDIR/host$number.log" 2>&1 ||
			echo "exit $?" >>"$TMPDIR/host$number.log"
	done
}

# One whose ticks are killed, within two seconds or as long as ten idle ticks take.
killed_host() {
	local number=$1 begin=${EPOCHREALTIME/[.,]/} most_ms after_ms

	"$JOBRUN" run --type none --state-dir "$TMPDIR/host$number" >/dev/null 2>&1 || true
	most_ms=$(((${EPOCHREALTIME/[.,]/} - begin) / 100))
	most_ms=$((most_ms > 2000 ? most_ms : 2000))
	while [ ! -e "$TMPDIR/stop" ]; do
		after_ms=$((RANDOM % most_ms + 100))
		timeout -s KILL "$((after_ms / 1000)).$(printf %03d $((after_ms % 1000)))" "$JOBRUN" run -j 3 --sql-jobs 5 --lease 2s \
			--state-dir "$TMPDIR/host$number" >>"$TMPDIR/host$number.log" 2>&1 || true
	done
}

# A client that now and then has the row of a queue in a transaction, for half a second at most.
locker() {
	while [ ! -e "$TMPDIR/stop" ]; do
		q <<-'sql'
			begin;
			select from jobrun.job_queues where name = (array['few', 'keyed', 'rated', 'all'])[1 + floor(random() * 4)::integer] for update;
			select pg_sleep(random() * 0.5);
			commit;
			select pg_sleep(random() * 0.5);
		sql
	done
}

# People who start single runs by hand meet the same limits.
people() {
	local id

	while [ ! -e "$TMPDIR/stop" ]; do
		id=$(q "select id from jobrun.job_runs where status = 'queued' and queue <> 'free' order by random() limit 1")
		[ -z "$id" ] || "$JOBRUN" run --job "$id" --state-dir "$TMPDIR/people" >>"$TMPDIR/people.log" 2>&1 || true
	done
}

# race RUNS SECONDS [HOST]
race() {
	local hosts drained=0

	feed "$1"
	rm -f "$TMPDIR/stop"
	start_hosts "$HOSTS" "${3:-host}"
	people 3>&- 4>&- &
	hosts+=("$!")
	wait_until "$2" nothing_is_open || drained=1
	touch "$TMPDIR/stop"
	wait "${hosts[@]}"
	return "$drained"
}

@test "four runners and people never exceed a queue's limit, reach each limit, and do everything" {
	reached='all running 5
all of a key 2
all in a window 20
few running 3
keyed of a key 2
rated in a window 20'
	# A slow machine may have to race again, until each limit is reached.
	for _ in 1 2 3 4 5; do
		race "$((seconds * 16))" "$((seconds * 4 + 60))"
		most=$(most)
		echo "# $(q "select count(*) from public.trace where step = 1") starts; the most were ${most//$'\n'/, }" >&3
		run over
		assert_output ''
		[ "$most" != "$reached" ] || break
	done
	assert_equal "$most" "$reached"
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
	run grep -h '^exit' "$TMPDIR"/host*.log
	assert_output ''
}

@test "runners that are killed, and queues that are locked now and then, never exceed a limit, and do everything" {
	locker >/dev/null 3>&- 4>&- &
	lock=$!
	race "$((seconds * 4))" "$((seconds * 6 + 60))" killed_host
	wait "$lock"
	most=$(most)
	echo "# $(q "select count(*) from public.trace where step = 1") starts, $(q "select count(*) from jobrun.job_attempts
		where outcome = 'lost'") lost; the most were ${most//$'\n'/, }" >&3
	assert_equal "$(wc -l <<<"$most")" 6
	run over
	assert_output ''
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
}

@test "the witness sees a claim that does not lock the queue" {
	q "do \$\$ begin
		execute replace(pg_get_functiondef('jobrun.claim'::regproc), 'order by q.name for no key update skip locked', 'order by q.name');
	end \$\$"
	for _ in {1..15}; do
		race 60 60
		! grep -qx 'few running 3' <(most) || continue
		return 0
	done
	fail 'nothing was over'
}
