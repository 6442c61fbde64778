#!/usr/bin/env bats
# jobrun list --waiting, and what run -n says of due runs that would not start.

load ../lib/common

# A run for each reason, in the order of starts; one runner has been seen, on host "there".
setup() {
	common_setup
	typical_handlers
	q "insert into jobrun.job_runners (id, pid, permits, host, version, job_types) values (7, 1, 1, 'there', 'x', '{work,mail}')" \
		"insert into jobrun.job_queues (name, max_running) values ('full', 0), ('some', 1)" \
		"insert into jobrun.job_types (name, paused_until, paused_by, paused_reason) values ('mail', 'infinity', 'ada', 'deploy')" \
		"insert into jobrun.job_runs (id, job_type, queue, priority, run_at) overriding system value values
			(1, 'work', 'default', 1, now() - interval '1 minute'), (2, 'work', 'some', 2, now()), (3, 'work', 'some', 3, now()),
			(4, 'work', 'full', 4, now()), (5, 'work', 'full', 5, now()), (6, 'nobody', 'default', 6, now()), (7, 'mail', 'default', 7, now()),
			(8, 'work', 'default', 0, now() + interval '1 hour')"
}

@test "list --waiting: what starts next, in order, and why each run does not run yet" {
	jr_ok list --waiting
	assert_equal "$(sed -E 's/ +/ /g; s/^ //; s# 0/5 .* (never:|starts with|waits:)# 0/5 \1#; s/due [^ ]+Z$/due TIME/' <<<"$output")" "$(
		cat <<-'end'
			ID TYPE QUEUE PRIORITY TRY DUE WHY
			1 work default 1 0/5 starts with the next claim
			2 work some 2 0/5 starts with the next claim
			3 work some 3 0/5 waits: other due runs come before it in queue some; its limits leave no further room
			4 work full 4 0/5 never: queue full lets no run start: its max-running is 0
			5 work full 5 0/5 never: queue full lets no run start: its max-running is 0
			6 nobody default 6 0/5 never: no host has a handler for nobody (seen without it: there)
			7 mail default 7 0/5 never: type mail is paused by ada until resumed: deploy
			8 work default 0 0/5 waits: due TIME
		end
	)"
	jr_ok list --waiting --json
	assert_equal "$(jq -c '[.runs[] | [.id, .why.verdict, .why.reason]]' <<<"$output")" \
		'[[1,"starts","next_claim"],[2,"starts","next_claim"],[3,"waits","turn"],[4,"never","queue_full"],[5,"never","queue_full"],[6,"never","no_handler"],[7,"never","type_paused"],[8,"waits","later"]]'
	assert_equal "$(jq -r '.runs[3].why.command' <<<"$output")" 'jobrun queue full --max-running 1'
	jr_ok list --waiting --type work --queue some --limit 1
	assert_equal "${#lines[@]}" 2
	assert_line --regexp '^ *2 work +some +2 0/5 .* starts with the next claim$'
	jr list --waiting --since 1h
	assert_one_line 64 '^jobrun: --waiting goes with --type, --queue, --limit and --json only$'
}

@test "run -n names what holds due runs back, the same reasons together" {
	q "update jobrun.job_types set paused_until = now() - interval '1 s'"
	cp "$JOBRUN_HANDLERS/work" "$JOBRUN_HANDLERS/mail"
	jr_ok run -n
	assert_equal "$(awk 'NR > 1 { print $1 }' <<<"$output" | paste -sd' ')" '1 2 7'
	assert_equal "$stderr" "$(
		cat <<-'end'
			jobrun: 2 due runs never start unless somebody acts, such as run 4: queue full lets no run start: its max-running is 0 (jobrun queue full --max-running 1)
			jobrun: 1 due run waits, which is run 3: other due runs come before it in queue some; its limits leave no further room (jobrun run --job 3)
			jobrun: 1 due run never starts unless somebody acts, which is run 6: no host has a handler for nobody (seen without it: there) (jobrun handlers --check nobody)
		end
	)"
	# One reason with another command for each run is one line, with that of the example.
	q "insert into jobrun.job_runs (id, job_type, queue, priority) overriding system value values (9, 'work', 'some', 3)"
	jr_ok run -n --queue some
	assert_equal "$stderr" 'jobrun: 2 due runs wait, such as run 3: other due runs come before it in queue some; its limits leave no further room (jobrun run --job 3)'
	jr_ok run -n --queue default --type work
	assert_equal "$stderr" ''
}
