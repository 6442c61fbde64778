#!/usr/bin/env bats
# What zsh and fish make of jobrun's completions (completion.bats: bash, and what the program offers).

load ../lib/common

setup() {
	common_setup
	handler here <<<'true'
	"$JOBRUN" define nightly --schedule '@daily' --type report
	id=$("$JOBRUN" enqueue here)
	: >"$TMPDIR/file.json"
	PATH=$(dirname "$JOBRUN"):$PATH
}

# zsh_completes LINE...: are these what zsh makes of the lines in `typed`? A busy machine needs more than the 300 ms that the database
# has for an answer: then once more.
zsh_completes() {
	run --separate-stderr timeout 60 zsh -f "$TOP/test/lib/complete.zsh" "${typed[@]}"
	[ "$output" = "$(printf '%s\n' "$@")" ]
}

# fish_offers TEXT LINE: fish offers this for the line, each on a line with a tab and what it means.
fish_offers() {
	wait_until 10 fish_says "$@" || fail "fish: $output $stderr"
}

fish_says() {
	run --separate-stderr timeout 20 fish --no-config -c "jobrun completion fish | source; complete -C \"$2\"" </dev/null
	[ "$status $output" = "0 $1" ]
}

@test "zsh completes commands, options, their words, files, and what comes from the database" {
	typed=('jobrun statu' 'jobrun run --max-runs=1 --no-p' 'jobrun list --status=de' 'jobrun list --status de'
		"jobrun define --file $TMPDIR/fil" 'jobrun enqueue he' 'jobrun enqueue "he' 'jobrun slots ni' 'jobrun show '
		"jobrun -d '$JOBRUN_DATABASE_URL' stats re" 'jobrun -d "host=/no where" slots ni')
	wait_until 60 zsh_completes 'jobrun status' 'jobrun run --max-runs=1 --no-pager' 'jobrun list --status=dead' 'jobrun list --status dead' \
		"jobrun define --file $TMPDIR/file.json" 'jobrun enqueue here' 'jobrun enqueue "here"' 'jobrun slots nightly' "jobrun show $id" \
		"jobrun -d '$JOBRUN_DATABASE_URL' stats report" 'jobrun -d "host=/no where" slots ni' || fail "zsh: $output $stderr"
}

@test "fish completes commands, options, their words, files, and what comes from the database" {
	fish_offers "$("$JOBRUN" completion -- statu)" 'jobrun statu'
	fish_offers "$("$JOBRUN" completion -- run --no-p)" 'jobrun run --max-runs=1 --no-p'
	fish_offers --status=dead 'jobrun list --status=de'
	fish_offers dead 'jobrun list --status de'
	fish_offers "$TMPDIR/file.json" "jobrun define --file $TMPDIR/fil"
	fish_offers here 'jobrun enqueue he'
	fish_offers nightly 'jobrun slots ni'
	fish_offers "$id"$'\there, queued' 'jobrun show '
	fish_offers report "jobrun -d '$JOBRUN_DATABASE_URL' stats re"
	# No database answers, and nobody is told.
	fish_offers '' "jobrun -d 'host=/no where' slots ni"
	assert_equal "$stderr" ''
}
