#!/usr/bin/env bats
# jobrun handlers: what this host can do and what is wrong; and what run says of files that are refused.

load ../lib/common

setup() {
	test_environment
}

# file NAME [MODE]: a file in the handlers directory, from stdin.
file() {
	cat >"$JOBRUN_HANDLERS/$1"
	chmod "${2:-644}" "$JOBRUN_HANDLERS/$1"
}

one_of_each() {
	handler backup <<<'exit 0'
	file backup.json <<<'{"timeout": "10m", "grace": "5s", "nice": 10, "memory": "512M", "env": {"TOKEN": "hunter2"}}'
	file count.sql <<<'select $1'
	file count.json <<<'{"batch": 500, "give_up": ["22", "23505"], "later": []}'
	echo "whsec_$(head -c 32 /dev/urandom | base64)" | file hook.secret 600
	file hook.json 600 <<-'json'
		{ "http": { "url": "https://hooks.example.org:8443/services/hunter2?key=hunter3", "secret": "file:hook.secret",
		    "headers": {"Authorization": "Bearer hunter4"}, "expect": [202, "3xx"] } }
	json
	file tool.json <<<'{"argv": ["backup", "hunter5"]}'
	file README <<<'Handlers live here.'
}

# The row of a type: TYPE KIND SETTINGS FROM with single blanks.
row() {
	printf '%s\n' "${lines[@]}" | grep "^$1 " | tr -s ' ' | sed 's/ $//'
}

@test "handlers shows each handler with its kind, its settings in words and its file, without a database" {
	one_of_each
	jr_ok handlers -d 'host=/nowhere dbname=none'
	assert_equal "$stderr" ''
	assert_regex "${lines[0]}" '^TYPE +KIND +SETTINGS +FROM$'
	assert_equal "${#lines[@]}" 7
	assert_equal "$(row backup)" \
		"backup exec timeout 10m, grace 5s, nice 10, memory 512M, env TOKEN $JOBRUN_HANDLERS/backup, backup.json"
	assert_equal "$(row count)" \
		"count sql batch 500, give up 22 23505, later never $JOBRUN_HANDLERS/count.sql, count.json"
	assert_equal "$(row hook)" \
		"hook http POST https://hooks.example.org:8443, signed, headers Authorization $JOBRUN_HANDLERS/hook.json"
	assert_equal "$(row tool)" "tool exec $JOBRUN_HANDLERS/backup $JOBRUN_HANDLERS/tool.json"
	assert_equal "$(row jobrun.noop)" 'jobrun.noop built-in - -'
	assert_equal "$(row jobrun.prune)" 'jobrun.prune built-in - -'
	jr_ok handlers --check
	assert_equal "${#lines[@]}" 7
}

@test "handlers TYPE says which of these job types have no handler here, and --check has exit status 1 then" {
	handler work <<<:
	jr_ok handlers --check work jobrun.noop
	refute_output --partial '!'
	jr handlers --check work mail
	assert_equal "$status" 1
	problem="no handler for mail: put an executable file mail, or mail.sql or mail.json, into $JOBRUN_HANDLERS"
	assert_line "! $problem"
	jr_ok handlers mail # no --check
	assert_line "! $problem"
	jr handlers --check --json work mail
	assert_equal "$status" 1
	assert_equal "$(jq -r '[.problems[].text] | join(";")' <<<"$output")" "$problem"
	# a file that is there and refused is not missing: one line says what is wrong with it
	echo 'begin; select 1' >"$JOBRUN_HANDLERS/mail.sql"
	jr handlers --check mail
	assert_equal "$status" 1
	assert_equal "$(grep -c '^!' <<<"$output")" 1
	assert_line --partial "! mail.sql:1:1: a handler runs inside jobrun's transaction"
	jr handlers --settings mail
	assert_one_line 64 '--settings shows all settings, and takes no TYPE'
}

@test "handlers TYPE shows these job types alone, and of what is wrong only what is about them, but with --check all of it" {
	one_of_each
	echo '#!/bin/sh' >"$JOBRUN_HANDLERS/mail"
	echo '#!/bin/sh' >"$JOBRUN_HANDLERS/other"
	jr_ok handlers backup jobrun.noop
	assert_equal "$(awk '{ print $1 }' <<<"$output" | paste -sd' ')" 'TYPE backup jobrun.noop'
	jr_ok handlers --json count
	assert_equal "$(jq -c '[[.handlers[].job_type], .problems]' <<<"$output")" '[["count"],[]]'
	jr_ok handlers mail
	assert_equal "${#lines[@]}" 1
	assert_output --regexp '^! mail: '
	jr_ok handlers nobody
	assert_equal "$output" "! no handler for nobody: put an executable file nobody, or nobody.sql or nobody.json, into $JOBRUN_HANDLERS"
	install -m 755 /dev/null "$JOBRUN_HANDLERS/Send_mail"
	jr_ok handlers send_mail
	assert_output --partial '! Send_mail: not a job type'
	rm "$JOBRUN_HANDLERS/Send_mail"
	jr handlers --check backup
	assert_equal "$status" 1
	assert_equal "$(awk '{ print $1, $1 == "!" ? $2 : "" }' <<<"$output" | paste -sd,)" 'TYPE ,backup ,! mail:,! other:'
	rm "$JOBRUN_HANDLERS"/{mail,other}
	jr_ok handlers --check backup
	assert_equal "${#lines[@]}" 2
}

@test "handlers refuses a TYPE that no handler could have" {
	for type in Mail '' mail.sql 'a b'; do
		jr handlers --check "$type"
		assert_one_line 64 "^jobrun: TYPE: \"$type\" is not a job type: "
	done
}

@test "handlers --json is one document, without secrets and without values of headers and variables" {
	one_of_each
	jr_ok handlers --json
	refute_regex "$output" 'hunter|whsec|AAEC'
	assert_equal "$(jq -r '[.handlers[] | .job_type + ":" + .kind] | join(" ")' <<<"$output")" \
		'backup:exec count:sql hook:http jobrun.noop:built-in jobrun.prune:built-in tool:exec'
	assert_equal "$(jq -r .directory <<<"$output")" "$JOBRUN_HANDLERS"
	assert_equal "$(jq -c .problems <<<"$output")" '[]'
	assert_equal "$(jq -c '.handlers[0] | [.path, .settings_path, .settings]' <<<"$output")" \
		"[\"$JOBRUN_HANDLERS/backup\",\"$JOBRUN_HANDLERS/backup.json\",{\"timeout_ms\":600000,\"grace_ms\":5000,\"env\":[\"TOKEN\"],\"nice\":10,\"memory\":536870912}]"
	assert_equal "$(jq -c '.handlers[1].settings' <<<"$output")" '{"give_up":["22","23505"],"later":[],"batch":500}'
	assert_equal "$(jq -c '.handlers[2].settings.http | [.origin, .method, .headers, .secrets, .expect]' <<<"$output")" \
		'["https://hooks.example.org:8443","POST",["Authorization"],1,[202,"300-399"]]'
	assert_equal "$(jq -c '.handlers[3] | [.kind, .path, .settings_path]' <<<"$output")" '["built-in",null,null]'
}

@test "handlers --settings names each setting that is known, and timeout_max is shown where it is set" {
	jr_ok handlers --settings -d 'host=/nowhere dbname=none' --handlers "$BATS_TEST_TMPDIR/none"
	names=$(printf '%s\n' "${lines[@]:1}" | awk '$2 == "all" || $2 == "sql" { print $1 }' | sort)
	file bad.sql <<<'select 1'
	file bad.json <<<'{"zzzzzzzzzz": 1}'
	jr_ok handlers
	assert_equal "$names" "$(grep '^! bad' <<<"$output" | sed 's/.*the known ones are //; s/, /\n/g' | sort)"
	jr_ok handlers --settings --json
	assert_equal "$(jq -r '.settings[] | select(.name == "http.proxy") | .kind' <<<"$output")" http
	assert_equal "$(jq '[.settings[] | select(.meaning == "")] | length' <<<"$output")" 0
	file bad.json <<<'{"timeout_max": "1h"}'
	jr_ok handlers
	assert_equal "$(row bad)" "bad sql timeout_max 1h $JOBRUN_HANDLERS/bad.sql, bad.json"
	jr_ok handlers --json
	assert_equal "$(jq -c '.handlers[0].settings' <<<"$output")" '{"timeout_max_ms":3600000}'
}

@test "handlers lists problems behind the table, and --check exits 1" {
	handler good <<<'exit 0'
	printf '{\n\t"tiemout": "5m"\n}\n' | file good.json
	file two.sql <<<'select 1; select 2'
	jr_ok handlers
	assert_equal "$stderr" ''
	assert_equal "${#lines[@]}" 5
	assert_equal "${lines[3]}" '! good.json:2:2: unknown member "tiemout"; did you mean "timeout"?'
	assert_regex "${lines[4]}" '^! two\.sql:1:11: a second statement begins here'
	jr handlers --check
	assert_equal "$status" 1
	assert_equal "$stderr" ''
	assert_equal "${#lines[@]}" 5
	jr handlers --check --json
	assert_equal "$status" 1
	assert_equal "$(jq '.problems | length' <<<"$output")" 2
}

@test "handlers tells of an empty directory, and of one that is not there or not safe" {
	jr_ok handlers
	assert_regex "${lines[3]}" "^! no handler is in $JOBRUN_HANDLERS: put an executable file, a .sql or a .json there, named after its job type\$"
	jr handlers --check
	assert_equal "$status" 1
	jr_ok handlers --json
	assert_regex "$(jq -r '.problems[0].text' <<<"$output")" '^no handler is in'
	jr handlers --handlers "$BATS_TEST_TMPDIR/none"
	assert_equal "$status" 78
	assert_regex "$stderr" "mkdir -p $BATS_TEST_TMPDIR/none"
	chmod 777 "$JOBRUN_HANDLERS"
	jr handlers
	assert_equal "$status" 78
	assert_regex "$stderr" "chmod go-w $JOBRUN_HANDLERS\$"
}

@test "handlers shows the timeout that a request really has" {
	file own.json <<<'{"http": {"url": "http://a", "timeout": "5s"}, "timeout": "10m"}'
	file given.json <<<'{"http": {"url": "http://a"}, "timeout": "10m"}'
	file none.json <<<'{"http": {"url": "http://a"}, "timeout": "0"}'
	file usual.json <<<'{"http": {"url": "http://a"}}'
	jr_ok handlers
	assert_equal "$(row own | cut -d' ' -f3-9)" 'POST http://a, answer within 5s, timeout 10m'
	assert_equal "$(row given | cut -d' ' -f3-)" "POST http://a, timeout 10m $JOBRUN_HANDLERS/given.json"
	assert_equal "$(row none | cut -d' ' -f3-)" "POST http://a, no timeout $JOBRUN_HANDLERS/none.json"
	assert_equal "$(row usual | cut -d' ' -f3-)" "POST http://a $JOBRUN_HANDLERS/usual.json"
	jr_ok handlers --json
	assert_equal "$(jq -c '[.handlers[] | select(.kind == "http") | [.settings.timeout_ms, .settings.http.timeout_ms]]' <<<"$output")" \
		'[[600000,null],[0,null],[600000,5000],[null,30000]]'
}

@test "a name with capitals is refused with the one it could have" {
	handler Send_Mail <<<'exit 0'
	file Count.sql <<<'select 1'
	handler 'b d' <<<'exit 0'
	jr_ok handlers
	assert_line --regexp '^! Send_Mail: not a job type: .*: rename it to send_mail$'
	assert_line --regexp '^! Count.sql: not a job type: .*: rename it to count.sql$'
	assert_line --regexp '^! b d: not a job type: .*, at most 63 characters$'
}

@test "an executable that the kernel cannot start is refused: a text without #!, an empty file" {
	printf 'echo hello\n' >"$JOBRUN_HANDLERS/plain"
	printf '#! \necho hello\n' >"$JOBRUN_HANDLERS/blank"
	: >"$JOBRUN_HANDLERS/nothing"
	printf 'MZ\0\0' >"$JOBRUN_HANDLERS/binary"     # for binfmt_misc, perhaps
	chmod +x "$JOBRUN_HANDLERS"/{plain,blank,nothing,binary}
	file named.json <<<"{\"argv\": [\"$JOBRUN_HANDLERS/plain\"]}"
	jr handlers --check
	assert_equal "$status" 1
	assert_line "! plain: cannot execute $JOBRUN_HANDLERS/plain: a script must begin with a line such as #!/bin/sh, and this one does not"
	assert_line "! blank: cannot execute $JOBRUN_HANDLERS/blank: a script must begin with a line such as #!/bin/sh, and this one does not"
	assert_line "! nothing: cannot execute $JOBRUN_HANDLERS/nothing: it is empty"
	assert_line --partial "! named.json: cannot execute $JOBRUN_HANDLERS/plain"
	assert_line --regexp '^binary +exec '
}

@test "control characters in names of files are made visible" {
	handler good <<<'exit 0'
	handler $'bad\e[31m' <<<'exit 0'
	jr_ok handlers
	assert_regex "$output" '! bad\\x1b\[31m: not a job type'
	jr_ok handlers --json
	assert_equal "$(jq '.problems | length' <<<"$output")" 1
}

@test "a secret that others can read refuses its handler with the chmod to type, and is not shown" {
	one_of_each
	chmod 644 "$JOBRUN_HANDLERS/hook.secret"
	jr handlers --check
	assert_equal "$status" 1
	assert_regex "$output" "! hook.json:1:[0-9]+: secret: $JOBRUN_HANDLERS/hook.secret is open to others: chmod o-rwx,g-w $JOBRUN_HANDLERS/hook.secret"
	refute_regex "$output" 'whsec'
}

@test "run makes control characters visible in the names of files that it does not use" {
	test_database
	handler good <<<'exit 0'
	handler $'bad\e[31m\xc2\x9b\xff' <<<'exit 0'
	jr_ok run
	assert_regex "$stderr" '^jobrun: not used: bad\\x1b\[31m\\x9b\\xff: not a job type'
	refute_regex "$stderr" $'\e'
}

@test "an interpreter, and a script that argv names, is judged as a handler is" {
	mkdir tools
	cp /bin/sh tools/sh
	handler work <<<"#!$PWD/tools/sh
exit 0"
	file import.py <<<'pass'
	file import.json <<<'{"argv": ["/bin/sh", "import.py"]}'
	jr_ok handlers --check
	chmod 777 tools
	chmod 666 "$JOBRUN_HANDLERS/import.py"
	jr handlers --check
	assert_equal "$status" 1
	assert_line "! import.json: cannot trust $JOBRUN_HANDLERS/import.py: everybody can write to it: chmod go-w $JOBRUN_HANDLERS/import.py"
	assert_line "! work: its #! line: cannot trust $PWD/tools: everybody can write to it: chmod go-w $PWD/tools"
	chmod go-w tools "$JOBRUN_HANDLERS/import.py"
	jr_ok handlers --check
	rm tools/sh
	jr_ok handlers
	assert_line "! work: its #! line: cannot use $PWD/tools/sh: No such file or directory"
	handler work <<<$'#!/bin/sh\r\nexit 0\r'
	jr_ok handlers
	assert_line '! work: its #! line: it ends with a carriage return: save the file with Unix line ends'
}

@test "a NAME.json that others can read and that has a secret in its headers is refused with the chmod to type" {
	one_of_each
	chmod 644 "$JOBRUN_HANDLERS/hook.json"
	jr handlers --check
	assert_equal "$status" 1
	assert_regex "$output" "! hook.json:2:[0-9]+: headers: \"Authorization\" is a secret, and this file is open to others: put it into one of its own \\(\"file:PATH\"\\), or type: chmod o-rwx,g-w $JOBRUN_HANDLERS/hook.json"
	refute_regex "$output" 'hunter'
	chmod o-rwx,g-w "$JOBRUN_HANDLERS/hook.json"
	jr_ok handlers --check
	file hook.json <<<'{"http": {"url": "http://a", "headers": {"Authorization": "file:hook.token"}}}'
	file hook.token 644 <<<'Bearer hunter6'
	jr handlers --check
	assert_equal "$status" 1
	assert_regex "$output" "! hook.json:1:[0-9]+: headers.Authorization: $JOBRUN_HANDLERS/hook.token is open to others: chmod o-rwx,g-w $JOBRUN_HANDLERS/hook.token"
	chmod o-rwx,g-w "$JOBRUN_HANDLERS/hook.token"
	jr_ok handlers --check
	assert_regex "$output" 'POST http://a, headers Authorization '
	jr_ok handlers --json
	assert_equal "$(jq -c '.handlers[] | select(.job_type == "hook").settings.http.headers' <<<"$output")" '["Authorization"]'
	refute_regex "$output" 'hunter'
}

@test "run does not start a handler whose settings are refused, and says why" {
	test_database
	handler work <<<'echo ran >>"$TMPDIR/ran"'
	file work.json <<<'{"memroy": "512M"}'
	handler good <<<'exit 0'
	id=$(enqueue work)
	jr_ok run
	assert_regex "$stderr" 'work.json:1:2: unknown member .*memroy.*; did you mean .*memory'
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $id"
	assert_file_not_exist "$TMPDIR/ran"
	jr run --type work
	assert_equal "$status" 78
	assert_equal "$stderr" 'jobrun: work.json:1:2: unknown member "memroy"; did you mean "memory"?'
	rm "$JOBRUN_HANDLERS/good"
	jr run
	assert_equal "$status" 78
	assert_regex "$stderr" '^jobrun: work.json:1:2: '
}

@test "run refuses a type of which there are two handlers" {
	test_database
	handler work <<<'exit 0'
	file work.sql <<<'select 1'
	handler good <<<'exit 0'
	jr run --type work
	assert_equal "$status" 78
	assert_equal "$stderr" 'jobrun: work: both work and work.sql are here, and a job type has one handler: remove one of them'
}

@test "a relative path from a directory that is gone is refused with what to type" {
	handler work <<<'exit 0'
	mkdir "$JOBRUN_HANDLERS/gone"
	cd "$JOBRUN_HANDLERS/gone"
	rmdir "$JOBRUN_HANDLERS/gone"
	local why='the current directory is gone, or cannot be read: No such file or directory; give its whole path$'
	JOBRUN_HANDLERS=.. jr run
	assert_one_line 78 "^jobrun: cannot find the handlers directory ..: $why"
	jr run --ping file:tick.url
	assert_one_line 78 '^jobrun: --ping: cannot read ./tick.url: No such file or directory$'
	jr_ok handlers work
}
