# jobrun completion: what shells offer comes from the program's own tables and from the database.

load ../lib/common

# words WORD...: what the last word may be, without what it means.
words() {
	"$JOBRUN" completion -- "$@" | cut -f 1
}

# offers EXPECTED WORD...: completion offers exactly these. The database has 300 ms to answer, too few for a busy machine, so it is asked
# again.
offers() {
	wait_until 30 words_are "$@" || fail "not '$1', but '$(words "${@:2}")'"
}

words_are() {
	[ "$(words "${@:2}")" = "$1" ]
}

# bash_offers EXPECTED: the same, in COMPREPLY of bash.
bash_offers() {
	wait_until 30 bash_completes "$1" || fail "not '$1', but '${COMPREPLY[*]}'"
}

bash_completes() {
	_jobrun
	[ "${COMPREPLY[*]}" = "$1" ]
}

@test "completion knows each command and option, and words that options take" {
	local -x JOBRUN_DATABASE_URL=host=/nowhere
	for command in $(words ''); do
		[ "$command" != help ] || continue
		"$JOBRUN" "$command" --help >help || [ "$command" = check ]
		assert_equal "$(words "$command" -- | sort)" "$(grep -oE '^  (-.,|   ) --[a-z-]+' help | grep -oE -- '--[a-z-]+' | sort)"
	done
	assert_equal "$(words '' | wc -l)" $(($(sed -n '/define JR_COMMANDS/,/[^\\]$/p' "$TOP/cmd/commands.h" | grep -c '\bX(') + 1))
	assert_equal "$(words -d x --no-pager ca)" cancel
	assert_equal "$(words list --status=de)" --status=dead
	assert_equal "$(words list --status = de)" dead
	assert_equal "$(words list --status = | tail -n 1)" cancelled
	assert_equal "$(words --log-format '')" $'text\njson'
	assert_equal "$(words define hello --catch-up '')" $'once\nskip\nall\nnone'
	assert_equal "$(words queue mail --rate '')" none
	assert_equal "$(words list --by '')" error
	assert_equal "$(words import '')" crontab
	assert_equal "$(words completion z)" zsh
	# Any text goes there: nothing is offered, no words of the help either.
	for line in 'enqueue --unique' 'enqueue --idempotency-key' 'enqueue --lock' 'exec --ok-exit'; do
		# shellcheck disable=SC2086 # words
		assert_equal "$(words $line '')" ''
	done
	assert_equal "$(words --once --max-)" $'--max-runs\n--max-runtime'
	assert_equal "$(words help sl)" slots
	# What a command judges its words by, it offers.
	assert_equal "$(words grant '')" $'enqueue\nread\nrun\nadmin'
	assert_equal "$(words grant read '')" ''
	assert_equal "$(words doctor a)" autovacuum
	assert_equal "$(words doctor pooler '' | sort)" "$("$JOBRUN" doctor --help | sed -n '/With CHECKs only/,/^$/s/^  \([a-z_][a-z_]*\) .*/\1/p' | sort)"
	"$JOBRUN" list --columns nonsense 2>named || true
	assert_equal "$(words list --columns '' | paste -sd, | sed 's/,/, /g')" "$(sed 's/.*: there are //' named)"
	"$JOBRUN" list --sort nonsense 2>named || true
	assert_equal "$(words list --sort '' | paste -sd, | sed 's/,/, /g')" "$(sed 's/.*: there are //' named)"
	# A list with commas is continued.
	assert_equal "$(words list -o id,error)" $'id,error_code\nid,error'
	assert_equal "$(words list --columns=id,st)" $'--columns=id,status\n--columns=id,started_at'
	assert_equal "$(words list --status queued,d)" queued,dead
	assert_equal "$(words list --sort id,st)" ''
	# A file goes there: an argument, one of an option, a program.
	for line in 'define --file' 'run --handlers' 'import crontab' 'exec backup --' 'enqueue hello'; do
		run "$JOBRUN" completion -- $line ''
		assert_failure 1
		assert_output ''
	done
	# No database, nobody to say it to.
	run "$JOBRUN" completion -- show ''
	assert_output ''
	# A server that takes connections and never answers: what the host knows is offered.
	handler here <<<'true'
	python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(60)' >port &
	local server=$!
	until [ -s port ]; do sleep 0.05; done
	# shellcheck disable=SC1090
	source <("$JOBRUN" completion bash)
	COMP_WORDS=("$JOBRUN" try he) COMP_CWORD=2
	JOBRUN_DATABASE_URL="host=127.0.0.1 port=$(cat port)" _jobrun
	kill "$server"
	wait "$server" || true
	assert_equal "${COMPREPLY[*]}" here
	run "$JOBRUN" completion tcsh
	assert_failure 64
}

@test "completion offers job types, queues, definitions and ids, in bash as bash asks" {
	handler here <<<'true'
	"$JOBRUN" define nightly --schedule '@daily' --type report
	"$JOBRUN" queue mails --max-running 3
	id=$("$JOBRUN" enqueue here)
	queues=$'default\njobrun\nmails'
	offers here enqueue he
	offers report stats a b rep
	offers mails run --queue m
	offers "$queues" queue ''
	offers "$queues" list -q ''
	url=$JOBRUN_DATABASE_URL
	JOBRUN_DATABASE_URL=host=/nowhere offers "$queues" "-d$url" queue ''
	offers nightly slots n
	assert_equal "$(words slots nightly '')" ''
	offers "$id" retry 1 ''
	means() { [ "$("$JOBRUN" completion -- retry 1 '')" = "$id"$'\there, queued' ]; }
	wait_until 30 means || fail "$("$JOBRUN" completion -- retry 1 '')"
	explains() { [ "$(words explain '' | sort)" = "$(printf '%s\n' "$id" jobrun.prune nightly | sort)" ]; }
	wait_until 30 explains || fail "$(words explain '')"
	# shellcheck disable=SC1090
	source <("$JOBRUN" completion bash)
	COMP_WORDS=("$JOBRUN" list --type "=" he) COMP_CWORD=4
	bash_offers here
	COMP_WORDS=("$JOBRUN" -d "$JOBRUN_DATABASE_URL" show '') COMP_CWORD=4
	JOBRUN_DATABASE_URL=host=/nowhere bash_offers "$id"
}
