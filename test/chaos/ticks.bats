#!/usr/bin/env bats
# Ticks of many hosts, with gaps and repeats: each slot once, by the policy of its definition.
#
# CHAOS_TICKS (10,000) is how many, CHAOS_SEED what to repeat. Five hosts call jobrun.fire() with times of their own, which go
# on by a minute as a rule, come up to 50 times, and leave up to three days out. Meanwhile people pause, disable, and end runs,
# a host's transaction is rolled back, and one definition cannot always be enqueued. lib/ticks.py keeps its own accounts.

load ../lib/common
load ../lib/chaos

HOSTS=5

setup() {
	chaos_setup
}

# Where simulated time begins: some days before clocks change somewhere.
begins() {
	local days=(2022-10-25 2023-03-06 2023-03-22 2023-09-27)

	echo "${days[$((seed % 4))]} 00:00:30+00"
}

# arrange TICKS: the definitions, as they were before the first tick, and who watches them.
arrange() {
	q <<-'sql'
		select count(jobrun.define(d.name, jsonb_build_object('schedule', d.schedule, 'time_zone', d.zone, 'catch_up', d.catch_up,
			'overlap', d.overlap, 'catch_up_grace', d.grace)))
		from (values
			('minutely',  '* * * * *',       'UTC',                  'once', 'skip',  null),
			('every_one', '* * * * *',       'America/New_York',     'all',  'allow', null),
			('recent',    '*/2 * * * *',     'Australia/Lord_Howe',  'all',  'allow', '6 hours'),
			('punctual',  '*/5 * * * *',     'Europe/Berlin',        'skip', 'skip',  null),
			('patient',   '*/7 8-17 * * *',  'Asia/Kathmandu',       'skip', 'allow', '90 minutes'),
			('hourly',    '0 * * * *',       'Australia/Lord_Howe',  'once', 'allow', '5 hours'),
			('night',     '30 2 * * *',      'Europe/Berlin',        'once', 'skip',  null),
			('nights',    '30 1,2 * * *',    'America/New_York',     'all',  'allow', null),
			('workdays',  '15 9 * * mon-fri', 'Africa/Casablanca',   'skip', 'skip',  '12 hours'),
			('month_end', '0 0 L * *',       'Pacific/Auckland',     'once', 'skip',  '1 day'),
			('every_7m',  '@every 7m',       'UTC',                  'once', 'skip',  null),
			('every_25h', '@every 25h',      'America/Sao_Paulo',    'all',  'allow', '2 days'),
			('never_late', '*/3 * * * *',    'UTC',                  'once', 'allow', null),
			('brittle',   '*/10 * * * *',    'UTC',                  'once', 'allow', null)
		) d(name, schedule, zone, catch_up, overlap, grace) having count(*) < 14;
		-- It would look at the real clock, and refuse a grace of 0.
		alter table jobrun.job_definitions disable trigger job_definitions_checked;
		update jobrun.job_definitions set catch_up_grace = '0' where name = 'never_late';
		create table ticks (n bigint generated always as identity primary key, at timestamptz not null);
		create sequence tick;
		create table calls (n bigint, txid bigint, told jsonb);
		-- What happens to a definition happens under its lock, so that these are in order for each.
		create table events (n bigint generated always as identity, definition bigint, kind text, what bigint, txid bigint,
			enabled boolean, paused_until bigint, reason text);
		create function micros(at timestamptz) returns bigint language sql immutable as $$
			select round(extract(epoch from at) * 1000000)::bigint
		$$;
		create function watch() returns trigger language plpgsql as $$
		begin
			if tg_table_name = 'job_slots' then
				insert into events (definition, kind, what, txid) values (new.definition_id, 'slot', micros(new.slot), txid_current());
			elsif tg_table_name = 'job_definitions' then
				insert into events (definition, kind, txid, enabled, paused_until, reason)
				values (new.id, 'state', txid_current(), new.enabled, micros(new.paused_until), new.paused_reason);
			elsif tg_op = 'INSERT' then
				insert into events (definition, kind, what, txid) values (new.definition_id, 'run', new.id, txid_current());
			else
				insert into events (definition, kind, what, txid) values (new.definition_id, 'end', new.id, txid_current());
			end if;
			return null;
		end $$;
		create trigger watch after insert on jobrun.job_slots for each row execute function watch();
		create trigger watch after insert or update of status on jobrun.job_runs for each row execute function watch();
		create trigger watch after update of enabled, paused_until on jobrun.job_definitions for each row execute function watch();
		create function fail() returns trigger language plpgsql as $$
		declare
			luck constant double precision := random();
		begin
			if new.job_type = 'brittle' and luck < 0.3 then
				raise exception using message = 'bad luck', errcode = case when luck < 0.1 then '40001' else 'P0001' end;
			end if;
			return new;
		end $$;
		create trigger fail before insert on jobrun.job_runs for each row execute function fail();
		-- Somebody does something with a definition, and has it locked for a moment.
		create function meddle() returns void language plpgsql as $$
		declare
			luck constant double precision := random();
			at   constant timestamptz := (select t.at from ticks t where t.n = (select s.last_value from tick s));
			it   jobrun.job_definitions;
		begin
			select d.* into it from jobrun.job_definitions d where d.name not like 'jobrun.%' and d.name <> 'brittle'
			order by random() limit 1 for no key update skip locked;
			if luck < 0.6 then
				update jobrun.job_runs set status = 'cancelled', finished_at = now() where definition_id = it.id and finished_at is null;
			elsif luck < 0.64 then
				update jobrun.job_definitions d set paused_until = at + random() * interval '1 day',
					paused_reason = case when random() < 0.5 then 'month end' end where d.id = it.id;
			elsif luck < 0.7 then
				update jobrun.job_definitions d set paused_until = null, paused_reason = null where d.id = it.id;
			elsif luck < 0.73 then
				update jobrun.job_definitions d set enabled = false where d.id = it.id;
			elsif luck < 0.9 then
				update jobrun.job_definitions d set enabled = true where d.id = it.id;
			end if;
			perform pg_sleep(random() * 0.02);
		end $$;
	sql
	q "insert into ticks (at) select '$(begins)'::timestamptz + make_interval(secs => s::integer)
			from unnest(string_to_array('$("$TOP/test/lib/ticks.py" plan "$seed" "$1")', ',')) with ordinality t(s, n) order by n" \
		"update jobrun.job_definitions d set anchor_at = '$(begins)',
			next_slot_at = jobrun.next_slot(jobrun.parse_schedule(d.schedule), d.time_zone, '$(begins)', '$(begins)')
			where d.name not like 'jobrun.%'" \
		"truncate events"
}

# A tick of a host; its transaction is lost once in twenty times.
readonly TICK="begin;
\\set luck random(1, 20)
select nextval('tick') as n \\gset
insert into calls select :n, txid_current(),
	(select jsonb_agg(to_jsonb(f)) from ticks t cross join lateral jobrun.fire(t.at) f where t.n = :n);
\\if :luck = 1
rollback;
\\else
commit;
\\endif"

bench() {
	env -u JOBRUN_TEST_ID "$PGBENCH" -n "$@" "$(past_pooler)" 3>&- 4>&-
}

# skip_some: before people come and undo it, one definition is disabled and one paused, until ticks have skipped slots of both
# and slots that could not be enqueued.
skip_some() {
	q "update jobrun.job_definitions set enabled = false where name = 'minutely'" \
		"update jobrun.job_definitions set paused_until = '$(begins)'::timestamptz + interval '1 day' where name = 'every_one'"
	until q_is 3 "select count(distinct reason) from jobrun.job_slots where reason in ('disabled', 'paused', 'error: bad luck')" \
		>/dev/null 2>&1; do
		q "insert into calls select t.n, txid_current(), (select jsonb_agg(to_jsonb(f)) from jobrun.fire(t.at) f)
			from ticks t where t.n = (select nextval('tick'))"
	done
}

# fire_all TICKS: five hosts, each with its part of them, and two people; then a last tick, until nothing is left to do.
fire_all() {
	local people status=0

	echo "$TICK" >"$TMPDIR/tick.sql"
	echo 'select meddle();' >"$TMPDIR/meddle.sql"
	skip_some
	PGAPPNAME=people bench -c 2 -T 100000 -R 200 --random-seed="$((seed + 1))" -f "$TMPDIR/meddle.sql" >"$TMPDIR/people" 2>&1 &
	people=$!
	bench -c "$HOSTS" -t "$(($1 / HOSTS))" --random-seed="$seed" -f "$TMPDIR/tick.sql" >"$TMPDIR/hosts" 2>&1 || status=$?
	q "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'people'" >/dev/null
	wait "$people" || true
	[ "$status" -eq 0 ] || fail "$(cat "$TMPDIR/hosts")"
	wait_until 30 caught_up
}

caught_up() {
	q "insert into calls select max(t.n), txid_current(), (select jsonb_agg(to_jsonb(f)) from jobrun.fire(max(t.at)) f) from ticks t"
	q_is 0 "select count(*) from jobrun.job_definitions where next_slot_at <= (select max(at) from ticks)"
}

# All that is known, as the judge reads it. A call gives ten thousand slots at most.
accounts() {
	q <<-sql
		create function due(d jobrun.job_definitions) returns jsonb language sql as \$\$
			with recursive part as (
				select '$(begins)'::timestamptz as after, null::timestamptz[] as slots
				union all
				select n.slots[cardinality(n.slots)], n.slots from part p cross join lateral (
					select array_agg(s order by s) as slots
					from jobrun.next_slots(d.schedule, d.time_zone, p.after, 10000, d.anchor_at) s) n
				where p.after <= (select max(at) from ticks) and cardinality(n.slots) > 0)
			select jsonb_agg(micros(s) order by s) from part p cross join lateral unnest(p.slots) s
		\$\$;
		select jsonb_build_object(
			'definitions', (select jsonb_agg(jsonb_build_object('id', d.id, 'name', d.name, 'catch_up', d.catch_up,
				'overlap', d.overlap, 'grace', (extract(epoch from d.catch_up_grace) * 1000000)::bigint, 'slots', due(d)))
				from jobrun.job_definitions d where d.name not like 'jobrun.%'),
			'calls', (select jsonb_agg(jsonb_build_object('at', micros(t.at), 'txid', c.txid, 'told', c.told))
				from calls c join ticks t using (n)),
			'events', (select jsonb_agg(to_jsonb(e) order by e.n) from events e),
			'slots', (select jsonb_agg(jsonb_build_object('definition', s.definition_id, 'slot', micros(s.slot), 'until', micros(s.until),
				'slots', s.slots, 'outcome', s.outcome, 'reason', s.reason, 'run_id', s.run_id)) from jobrun.job_slots s),
			'runs', (select jsonb_agg(jsonb_build_object('id', r.id, 'definition', r.definition_id, 'slot', micros(r.slot)))
				from jobrun.job_runs r))
	sql
}

judge() {
	accounts >"$TMPDIR/accounts"
	"$TOP/test/lib/ticks.py" judge <"$TMPDIR/accounts" >"$TMPDIR/verdict"
	grep -v '^judged: ' "$TMPDIR/verdict" || true
}

tell() {
	echo "# seed $seed: $(tail -n 1 "$TMPDIR/verdict"), $(($(wc -l <"$TMPDIR/verdict") - 1)) complaints" >&3
}

@test "in simulated ticks of five hosts no slot is missing or fired twice, and each follows its policy" {
	arrange "${CHAOS_TICKS:-10000}"
	fire_all "${CHAOS_TICKS:-10000}"
	complaints=$(judge)
	tell
	assert_equal "$complaints" ''
	# There was something to judge.
	for what in 'queued' 'coalesced missed' 'skipped missed' 'skipped overlap' 'skipped paused' 'skipped disabled' 'skipped error'; do
		grep -qE "^judged: .*[1-9][0-9]* $what(,|$)" "$TMPDIR/verdict" || fail "nothing was $what: $(cat "$TMPDIR/verdict")"
	done
}
