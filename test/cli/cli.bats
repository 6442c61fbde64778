#!/usr/bin/env bats
# The program's face: help, options, exit statuses, closed descriptors.

load ../lib/common

@test "jobrun without arguments prints its usage to stderr and exits with 64" {
	jr
	assert_equal "$status" 64
	assert_equal "$output" ''
	assert_regex "$stderr" 'usage: jobrun'
}

@test "help goes to stdout with exit status 0, however it is asked for" {
	jr_ok --help
	assert_line --partial 'usage: jobrun'
	for command in enqueue run status list show logs wait retry slots cancel pause resume explain migrate grant queue handlers try effect; do
		jr_ok "$command" --help
		assert_equal "$stderr" ''
		assert_line --index 0 --partial "jobrun $command: "
		whole=$output
		jr_ok help "$command"
		assert_equal "$output" "$whole"
		jr_ok -h "$command"
		assert_equal "$output" "$whole"
	done
	jr_ok --once --help
	assert_line --index 0 --partial 'jobrun run: '
	jr_ok help
	assert_line --partial 'usage: jobrun'
}

@test "the manual has the usages that --help has, in their order; it may name the options" {
	cat >usages.py <<-'py'
		import glob, re, subprocess, sys

		def plain(usage):
		    """Without the brackets that hold options, and single spaces."""
		    while True:
		        begin = re.search(r"\[(-|OPTION)", usage)
		        if not begin:
		            return " ".join(usage.split())
		        end, depth = begin.start(), 0
		        while True:
		            depth += {"[": 1, "]": -1}.get(usage[end], 0)
		            end += 1
		            if depth == 0:
		                break
		        usage = usage[:begin.start()] + usage[end:]

		manual = {}
		for page in sorted(glob.glob(sys.argv[2] + "/jobrun-*.1.scd")):
		    synopsis = open(page).read().split("# SYNOPSIS\n")[1].split("\n# ")[0]
		    for line in re.sub(r"[*_\\]", "", synopsis).split("\n\n"):
		        if line.strip():
		            manual.setdefault(line.split()[1], []).append(plain(line))
		helped = {}
		for command in sorted(manual):
		    text = subprocess.run([sys.argv[1], command, "--help"], stdout=subprocess.PIPE, text=True).stdout
		    usages = re.search(r"^usage: (.*?)\n\n", text, re.M | re.S).group(1)
		    helped[command] = [plain("jobrun" + usage) for usage in re.split(r"^ *jobrun(?= )|^jobrun(?= )", usages, flags=re.M) if usage]
		for command in manual:
		    if manual[command] != helped[command]:
		        sys.exit(f"{command}: the manual has {manual[command]}, --help has {helped[command]}")
		print(len(manual))
	py
	run python3 usages.py "$JOBRUN" "$TOP/cmd/man"
	assert_success
	assert_output "$(sed -n '/define JR_COMMANDS/,/[^\\]$/p' "$TOP/cmd/commands.h" | grep -c '\bX(')"
}

@test "the version names the libraries" {
	jr_ok --version
	assert_regex "$output" '^jobrun [0-9.]+ \(libpq [0-9.]+, libcurl [0-9.]+, jansson [0-9.]+, libsmartcols [0-9.]+\)$'
	jr_ok list -V
	assert_regex "$output" '^jobrun '
}

@test "GnuTLS, which comes with libldap, does not initialize itself at the start" {
	run env GNUTLS_DEBUG_LEVEL=9 "$JOBRUN" --help
	assert_equal "$status" 0
	refute_output --partial 'gnutls['
}

@test "an unknown command or option exits with 64 and one line with a suggestion" {
	jr enquue
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: unknown command "enquue": did you mean "enqueue"?'
	jr list --limt 3
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: unknown option "--limt": did you mean "--limit"?'
	jr xyzzy
	assert_equal "$status" 64
	assert_regex "$stderr" 'jobrun --help'
	jr list -Q
	assert_equal "$status" 64
	assert_regex "$stderr" 'unknown option "-Q"'
}

@test "an empty --handlers or --state-dir is refused; a variable that is empty means the default" {
	cd "$JOBRUN_HANDLERS"
	handler work <<<'touch "$TMPDIR/ran"'
	id=$(enqueue work)
	for command in run 'run -n' handlers 'try work' doctor; do
		# shellcheck disable=SC2086 # words
		jr $command --handlers ''
		assert_equal "$output" ''
		assert_one_line 64 '^jobrun: --handlers: the DIR is empty$'
	done
	for command in run doctor 'exec work'; do
		# shellcheck disable=SC2086 # words
		jr $command --state-dir= -- true
		assert_equal "$output" ''
		assert_one_line 64 '^jobrun: --state-dir: the DIR is empty$'
	done
	run_is "$id" queued
	JOBRUN_HANDLERS='' JOBRUN_STATE_DIR='' jr handlers
	assert_regex "$output$stderr" '/jobrun/handlers'
	[ ! -e "$TMPDIR/ran" ]
}

@test "abbreviated long options are refused" {
	jr list --lim 3
	assert_equal "$status" 64
	assert_regex "$stderr" 'write --limit'
	jr list --lim=3
	assert_equal "$status" 64
	jr --vers
	assert_equal "$status" 64
}

@test "an option that lacks its argument, or has one too many, exits with 64" {
	jr list --limit
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: --limit needs an argument: --limit N'
	jr list --json=yes
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: --json takes no argument'
	jr list --limit 0
	assert_equal "$status" 64
	jr list what
	assert_equal "$status" 64
	jr show
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: an argument is missing; usage: jobrun show [OPTION...] ID'
	jr slots one two
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: an argument too many: "two"; usage: jobrun slots [OPTION...] NAME; others: jobrun slots --help'
}

@test "a connection string given as another argument is shown without its password" {
	local arguments

	for arguments in 'run URL' 'URL run' 'status URL' 'run --max-runs URL' 'help URL' 'exec URL -- true'; do
		jr ${arguments/URL/postgresql://me:hunter2@host/db}
		assert_regex "$stderr" 'postgresql://me:\*\*\*@host/db'
		refute_regex "$stderr" hunter2
		jr ${arguments/URL/password=hunter2}
		assert_regex "$stderr" 'password=\*\*\*'
		refute_regex "$stderr" hunter2
	done
}

@test "global options stand before or after the command, and the last one counts" {
	jr_ok --json list
	assert_equal "$output" '{"version":1,"total":0,"complete":true,"runs":[]}'
	jr_ok list --json
	assert_equal "$output" '{"version":1,"total":0,"complete":true,"runs":[]}'
	jr_ok -d dbname=nowhere list -d "$JOBRUN_DATABASE_URL" --json
	jr --log-format xml list
	assert_equal "$status" 64
}

@test "options and arguments may be mixed, and -- ends the options" {
	id=$(enqueue work --in 1h '{"a":1}' -p 3)
	q_is '3|1' "select priority, payload->>'a' from jobrun.job_runs where id = $id"
	jr enqueue -- work -1
	assert_equal "$status" 0
}

@test "jobrun --once is the same as jobrun run" {
	handler work <<<'cat >/dev/null'
	one=$(enqueue work)
	jr_ok --once
	run_is "$one" succeeded
	two=$(enqueue work)
	jr_ok -v --once -j 1
	run_is "$two" succeeded
	three=$(enqueue work)
	jr_ok run --once
	run_is "$three" succeeded
	for words in '--once --for 3s' '-v --once --for 3s' '--once --once --for 3s' 'run --once --for 3s'; do
		jr $words
		assert_one_line 64 '^jobrun: --for and --once exclude each other: type jobrun run --for D$'
	done
}

@test "-v says which setting of the connection was used" {
	jr_ok -v list
	assert_regex "$stderr" 'event=connected .*reason=JOBRUN_DATABASE_URL'
	jr_ok -v -d "$JOBRUN_DATABASE_URL" list
	assert_regex "$stderr" 'event=connected .*reason=-d'
}

@test "DATABASE_URL is used only if none of PGHOST, PGSERVICE and PGDATABASE is set" {
	url=$JOBRUN_DATABASE_URL
	unset JOBRUN_DATABASE_URL
	DATABASE_URL=$url jr_ok list --json
	host=${JR_SERVER#host=}
	DATABASE_URL="host=/nonexistent" PGHOST=${host%% *} PGUSER=jobrun PGDATABASE=$JR_DATABASE jr_ok list --json
	DATABASE_URL=$url PGHOST='' PGDATABASE='' jr_ok list --json
	export JOBRUN_DATABASE_URL=$url
}

@test "output that cannot be written to stdout exits with 75" {
	enqueue work
	for command in list status --help 'show 1' 'list --json'; do
		# shellcheck disable=SC2086 # words
		run bash -c "'$JOBRUN' $command >/dev/full"
		assert_equal "$status" 75
		assert_output --partial 'could not write to stdout: No space left on device'
		# shellcheck disable=SC2086
		run bash -c "'$JOBRUN' $command >&-"
		assert_equal "$status" 75
	done
	# More than a buffer: the reason of the write that failed first is lost.
	run bash -c "'$JOBRUN' metrics >/dev/full"
	assert_equal "$status" 75
	assert_output 'jobrun: could not write to stdout: the reason is not known; is the disk full?'
}

@test "enqueue whose id cannot be written to stdout names the run" {
	run bash -c "'$JOBRUN' enqueue work >/dev/full"
	assert_equal "$status" 75
	assert_output 'jobrun: run 1 was queued: could not write to stdout: No space left on device'
	run bash -c "'$JOBRUN' enqueue work -k key | true; '$JOBRUN' enqueue work -k key >/dev/full"
	assert_output 'jobrun: run 2 was there already: could not write to stdout: No space left on device'
	echo 1 >lines
	run bash -c "'$JOBRUN' enqueue work --batch lines >/dev/full"
	assert_equal "$status" 75
	assert_output 'jobrun: the batch was committed: could not write to stdout: No space left on device'
	run bash -c "'$JOBRUN' enqueue work -n >/dev/full"
	assert_equal "$status" 75
	assert_output 'jobrun: could not write to stdout: No space left on device'
	q_is 3 'select count(*) from jobrun.job_runs'
}

@test "a reader of stdout that goes away is no error" {
	for _ in {1..50}; do echo "select jobrun.enqueue('work');"; done | q >/dev/null
	run bash -c "set -o pipefail; '$JOBRUN' list --limit 50 | true"
	assert_equal "$status" 0
	assert_equal "$output" ''
}

@test "descriptors 0 to 2 may be closed" {
	id=$(enqueue work)
	run bash -c "'$JOBRUN' list --json <&- 2>&-"
	assert_equal "$status" 0
	run bash -c "'$JOBRUN' cancel $id 0<&- 1>&- 2>&-"
	run_is "$id" cancelled
}

@test "jobrun works in cron's environment when called by its absolute path" {
	handler work <<<'cat >/dev/null'
	id=$(enqueue work)
	run env -i PATH=/usr/bin:/bin HOME="$HOME" JOBRUN_TEST_ID="$JOBRUN_TEST_ID" "$JOBRUN" -d "$JOBRUN_DATABASE_URL" --once \
		--handlers "$JOBRUN_HANDLERS" --state-dir "$JOBRUN_STATE_DIR"
	assert_equal "$status" 0
	assert_equal "$output" ''
	run_is "$id" succeeded
	run env -i PATH=/usr/bin:/bin "$JOBRUN" -d "$JOBRUN_DATABASE_URL" list
	assert_line --partial succeeded
}
