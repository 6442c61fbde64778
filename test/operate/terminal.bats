#!/usr/bin/env bats
# What the commands share on a terminal: tables that fit, help that is wrapped, a pager.

load ../lib/common

# prints WIDTH ARGUMENT...: the lines on stdin are what jobrun prints on a terminal of that width, and none is wider.
prints() {
	NO_COLOR=1 run on_terminal "$@"
	assert_equal "$(sed 's/ *$//' <<<"$output")" "$(cat)"
	[ "$(LC_ALL=C.UTF-8 wc -L <<<"$output")" -le "$1" ] || fail "wider than $1"
}

# Two dead runs of two days ago.
dead_runs() {
	q "insert into jobrun.job_runs (job_type, status, attempts, claim_seq, created_at, finished_at, started_at, error_code, last_error)
		select v.t, 'dead', 1, 1, a.t, a.t, a.t, 'exit:65', v.e
		from (values (1, 'sync_customers_from_the_old_system', '顧客データベースの同期に失敗しました: タイムアウト'),
			(2, 'mail', E'cafe\u0301 \u202e' || repeat('x', 99))) v(n, t, e),
			lateral (select now() - interval '2 days 3 hours' as t) a order by v.n"
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, started_at, finished_at)
		select id, 1, 1, 'dead', error_code, started_at, finished_at from jobrun.job_runs"
}

@test "a table fits the terminal: the widest columns are cut, empty ones left out, wide characters count twice" {
	dead_runs
	prints 80 list <<-'end'
		ID TYPE                      STATUS TRY WHEN      TOOK MESSAGE
		 2 mail                      dead   1/5 2d 3h ago   0s café \u{202e}xxxxxxxxxxx…
		 1 sync_customers_from_the_… dead   1/5 2d 3h ago   0s 顧客データベースの同期に…
	end
	prints 40 list <<-'end'
		ID TYPE         STATUS TRY MESSAGE
		 2 mail         dead   1/5 café \u{202e…
		 1 sync_custom… dead   1/5 顧客データベ…
		no room for WHEN, TOOK
	end
	LC_ALL=C prints 56 list <<-'end'
		ID TYPE          STATUS TRY WHEN      TOOK MESSAGE
		 2 mail          dead   1/5 2d 3h ago   0s café \u{20...
		 1 sync_custo... dead   1/5 2d 3h ago   0s 顧客データ...
	end
	COLUMNS=56 prints 80 list <<-'end'
		ID TYPE          STATUS TRY WHEN      TOOK MESSAGE
		 2 mail          dead   1/5 2d 3h ago   0s café \u{202e…
		 1 sync_custome… dead   1/5 2d 3h ago   0s 顧客データベ…
	end
}

@test "a pipe gets every column and every character, whatever COLUMNS says" {
	dead_runs
	COLUMNS=40 jr_ok list
	assert_line --index 0 --regexp '^ID TYPE +STATUS TRY WHEN +TOOK DEFINITION SLOT MESSAGE$'
	assert_line --index 1 --regexp ' - +- +café .u[{]202e[}]x{99}$'
	assert_line --index 2 --regexp '^ 1 sync_customers_from_the_old_system dead .* タイムアウト$'
}

@test "what explains a setting is wrapped, not cut" {
	NO_COLOR=1 run on_terminal 60 handlers --settings
	assert_line --index 1 'timeout              all  how long an attempt may take, for'
	assert_line --index 2 --regexp '^ {26}runs without a timeout; "0": no$'
	jr_ok handlers --settings
	assert_line --index 1 'timeout              all  how long an attempt may take, for runs without a timeout; "0": no limit'
}

@test "the summary of a tick counts every run: those that were put off, too" {
	handler good <<<'exit 0'
	handler later <<<'exit 75'
	handler bad <<<'exit 1'
	for type in good later later bad; do enqueue "$type" >/dev/null; done
	run on_terminal 100 run -j 1
	assert_output --regexp '4 runs in [^ ]+: 1 succeeded, 1 retrying, 0 dead, 2 put off$'
}

@test "help is wrapped to the terminal, to 100 columns at most, and to 80 in a pipe; examples and commands stay whole" {
	local command

	for command in $("$JOBRUN" --help | sed -nE 's/^  ([a-z]+) {2,}.*/\1/p'); do
		"$JOBRUN" "$command" --help >help || [ "$command" = check ] # a plugin has not looked: 3
		[ "$(wc -L <help)" -le 80 ] || fail "$(cat help)"
	done
	jr_ok retry --help
	assert_line --index 1 'usage: jobrun retry [OPTION...] ID...'
	assert_line --index 2 '       jobrun retry [OPTION...] FILTER...'
	assert_line "  -s, --status STATUS         instead of IDs: those that are dead, cancelled,"
	assert_line "                              retrying, queued (dead)"
	jr_ok pause --help
	assert_line 'usage: jobrun pause [--type TYPE] [--queue QUEUE] [--definition NAME]'
	assert_line '                    [--host HOST] [--all] [OPTION...]'
	run on_terminal 44 enqueue --help
	assert_line --index 2 'usage: jobrun enqueue'
	assert_line --index 3 '        [OPTION...] TYPE [PAYLOAD|-|@FILE]'
	assert_line --index 4 '       jobrun enqueue'
	assert_line --index 5 '        [OPTION...] --definition NAME'
	assert_line --index 6 '        [PAYLOAD|-|@FILE]'
	run on_terminal 50 grant --help
	assert_line '  enqueue  queue runs in its own transactions,'
	assert_line '           wait for and cancel its own runs, mark'
	assert_line '      --max-open N'
	assert_line '        enqueue: at most N unfinished runs of the'
	run on_terminal 150 grant --help
	assert_line --partial 'only these job types (all)'
	assert_line 'The role must exist (CREATE ROLE). Each migration grants everything again. To grant enqueue again'
	run on_terminal 60 define --help
	assert_line '  {"definitions": [{"name": ..., "schedule": ..., "payload": ...}, ...]}'
}

@test "where a table would have no rows, a terminal is told so, and a pipe gets nothing" {
	local command

	handler talk <<<'true'
	for command in list 'list --status dead' 'list --waiting' 'list --by error' queue grant 'run -n'; do
		# shellcheck disable=SC2086 # words
		run on_terminal 80 $command --no-pager
		assert_success
		assert_output '(0 rows)'
		# shellcheck disable=SC2086
		jr_ok $command
		assert_output ''
	done
}

# A pager that tells of itself, and prints what it gets below that.
told_pager() {
	printf '#!/bin/sh\necho "pager $LESS"\nexec cat\n' >my-pager
	chmod +x my-pager
}

@test "list, show, logs, slots, explain and help go to the pager on a terminal, not without one nor with --no-pager" {
	local command id

	told_pager
	handler talk <<<'echo hello; echo more'
	id=$(enqueue talk)
	jr_ok run
	for command in list "list --json" "show $id" "logs $id" 'slots jobrun.prune' "explain $id" help 'list --help'; do
		# shellcheck disable=SC2086 # words
		JOBRUN_PAGER="./my-pager x" PAGER=false run on_terminal 80 $command
		assert_success
		assert_line --index 0 'pager FRX'
		assert [ "${#lines[@]}" -gt 1 ]
		# shellcheck disable=SC2086
		JOBRUN_PAGER=./my-pager run on_terminal 80 $command --no-pager
		refute_output --partial 'pager FRX'
		# shellcheck disable=SC2086
		PAGER=./my-pager jr_ok $command
		refute_output --partial 'pager FRX'
	done
	LESS=M PAGER='./my-pager; echo over' run on_terminal 80 logs "$id"
	assert_output $'pager M\nhello\nmore\nover'
	PAGER=./my-pager run on_terminal 80 status
	refute_output --partial 'pager FRX'
	JOBRUN_PAGER='' PAGER=./my-pager run on_terminal 80 list
	refute_output --partial 'pager FRX'
	# It stands for the terminal: tables fit it, and control characters are visible.
	q "update jobrun.job_attempts set output = E'\\033]0;x\\007' || repeat('x', 99)"
	JOBRUN_PAGER=./my-pager run on_terminal 50 list --help
	assert_line '  -s, --status STATUS'
	JOBRUN_PAGER=./my-pager run on_terminal 50 logs "$id"
	assert_line --index 1 --partial '\x1b]0;x\x07xxx'
}

@test "without the pager everything is printed directly; who quits it early is not told of an error" {
	enqueue work >/dev/null
	PAGER=./no-such-pager run on_terminal 80 list
	assert_success
	assert_line --partial queued
	# More than a pipe holds.
	q "select count(jobrun.enqueue('work')) from generate_series(1, 1000)" >/dev/null
	PAGER='head -c 1' run on_terminal 80 list --json --limit 2000
	assert_success
	refute_output --partial jobrun:
	PAGER=true run on_terminal 80 list --json --limit 2000
	assert_success
	assert_output ''
	PAGER='./no-such-pager;' run on_terminal 80 list
	assert_line --partial 'the pager could not be started'
	PAGER="cat" run on_terminal 80 show 999999
	assert_failure 1
}
