#!/usr/bin/env bats
# jobrun import crontab: the printed crontab runs the same commands, and the printed script does, too.

load ../lib/common

# as_cron COMMAND: do what cron does with the command of a line: "%" and "\%", then SHELL -c in the home directory.
as_cron() {
	local command=$1 before='' input='' c i ended=0

	for ((i = 0; i < ${#command}; i++)); do
		c=${command:i:1}
		if [ "$c" = '\' ] && [ $((i + 1)) -lt ${#command} ]; then
			i=$((i + 1))
			[ "${command:i:1}" = % ] && c='' || c='\'
			c+=${command:i:1}
		elif [ "$c" = % ] && [ "$ended" -eq 0 ]; then
			ended=1
			continue
		elif [ "$c" = % ]; then
			c=$'\n'
		fi
		if [ "$ended" -eq 0 ]; then before+=$c; else input+=$c; fi
	done
	if [ "$ended" -eq 1 ]; then
		[ "${input%$'\n'}" != "$input" ] || input+=$'\n'
		printf '%s' "$input" | (cd "$HOME" && exec "${SHELL_OF_LINE:-/bin/sh}" -c "$before") 2>&1
	else
		(cd "$HOME" && exec "${SHELL_OF_LINE:-/bin/sh}" -c "$before") 2>&1 </dev/null
	fi
}

# run_crontab FILE: run all lines of a user's crontab, one after the other.
run_crontab() {
	local line

	while IFS= read -r line || [ -n "$line" ]; do
		if [[ $line =~ ^[A-Z_]+= ]]; then
			[[ $line == SHELL=* ]] && SHELL_OF_LINE=${line#SHELL=}
			export "${line?}"
		elif [[ $line =~ ^[[:blank:]]*([^[:blank:]]+[[:blank:]]+){5}(.*)$ && $line != '#'* ]]; then
			as_cron "${BASH_REMATCH[2]}" || true
		fi
	done <"$1"
}

# crontab_output FILE: without the traps of bats, which make loops slow.
crontab_output() {
	LC_ALL=C bash -c "$(declare -f as_cron run_crontab); run_crontab \"\$1\"" bash "$1"
}

nasty() {
	printf '#!/bin/sh\nprintf "<%%s>" "$0" "$@"\necho\n' >words
	chmod 755 words
	cat <<-'EOF'
		# a comment with 'quotes' and %
		GREETING=hello
		* * * * * echo "it's" 'a "word"' $GREETING
		0 0 * * * printf '\%s\n' one two
		0 0 * * * cat%first%second
		0 0 * * * cat; echo "after"%it's "in"% \% \\
		0 0 * * * echo 'a \\% b' c
		0 0 * * * echo back\\slash 'x\y' "\\\\" \'
		0 0 * * * echo äöü €; printf '\%d\n' 3
		0 0 * * * echo "$(date +\%Y | wc -c)" `echo x`
		0 0 * * * for i in 1 2; do echo $i; done | sort -r && echo "$((2*3))" # no comment
		0 0 * * * cd / && pwd >&1; echo !x ~ *nothing* {a,b}
		0 0 * * * false || exit 3
		0 0 * * * echo end\
		0 0 * * * cat%
	EOF
	printf '0 0 * * * \techo\ttab\t"in\tside"  \n'
	printf '5\t4  *\t* * %s/words  --flag=x a,b @home:1 +2\n' "$PWD"
	printf '0 0 * * * echo %0600d\n0 0 * * * echo %05000d\n' 7 7
	printf 'SHELL=/bin/bash\n0 0 * * * [[ a == a ]] && echo {1..3} "$0"\n'
	printf '0 0 * * * echo \xff\xfe | od -c'
}

@test "import crontab: the printed lines run the same commands, whatever they contain" {
	nasty >old
	crontab_output old >expected
	jr_ok import crontab old
	printf '%s\n' "$output" >new
	assert_equal "$(grep -c " exec " new)" 19
	refute_output --partial '# jobrun:'
	crontab_output new >got
	diff expected got
	q_is '19' "select count(*) from jobrun.job_runs"
	run_jobrun import crontab - <old >new2
	cmp new new2
	# Nothing is left to do.
	run_jobrun import crontab new >new3
	cmp new new3
}

@test "import crontab needs no database, and keeps times, users, variables, comments and what it cannot convert" {
	cat >old <<-'EOF'
		# m h dom mon dow user command
		MAILTO = "ops@example.org"
		  17 *	* * *	root	cd / && run-parts --report /etc/cron.hourly

		@daily www-data /usr/local/bin/Rotate_Logs.sh --all
		@reboot root /usr/bin/warm
		@fortnightly root /usr/bin/x
		*/5 * * * * app /usr/local/bin/jobrun run
		61x y
	EOF
	JOBRUN_DATABASE_URL=postgresql://nowhere.invalid/none jr_ok import crontab --system old
	assert_output "# m h dom mon dow user command
MAILTO = \"ops@example.org\"
  17 *	* * *	root	$JOBRUN exec run-parts -- /bin/sh -c 'cd / && run-parts --report /etc/cron.hourly'

@daily www-data $JOBRUN exec rotate_logs.sh -- /usr/local/bin/Rotate_Logs.sh --all
# jobrun: jobrun has no @reboot, so cron keeps this line
@reboot root /usr/bin/warm
# jobrun: jobrun does not know this time
@fortnightly root /usr/bin/x
*/5 * * * * app /usr/local/bin/jobrun run
# jobrun: this is no line of a crontab with users
61x y"
	printf '%s\n' 'SHELL=/usr/bin/fish' '1 2 * * * backup' >old
	jr_ok import crontab old
	assert_line '1 2 * * * backup'
	assert_line --partial '# jobrun: the shell of this line'
	# A line may be too long only with jobrun exec before it; some crons then refuse the whole file.
	printf '1 2 * * * %0990d\n' 1 >old
	jr_ok import crontab old
	assert_line --index 0 --partial 'too long'
	assert_line --index 1 "$(cat old)"
}

@test "import crontab converts lines in which only a directory or a user is named jobrun, and leaves calls of jobrun alone" {
	cat >old <<-'EOF'
		PGHOST=db
		0 1 * * * cd /var/lib/jobrun && ./purge
		0 2 * * * sudo -u jobrun /opt/x
		0 3 * * * pg_dump -d jobrun >/backup/jobrun
	EOF
	cat >calls <<-'EOF'
		* * * * * jobrun -d "host=db dbname=x" --once
		0 1 * * * su jobrun -c 'jobrun prune'
		0 1 * * * cd /x && /opt/jobrun --log-format json enqueue report '{"date": "\%"}'
	EOF
	cat old calls >both
	jr_ok import crontab both
	printf '%s\n' "$output" >new
	diff calls <(tail -n 3 new)
	run sed -n '2,4s/.* exec \([^ ]*\) -- .*/\1/p' new
	assert_output 'purge
x
pg_dump'
	run_jobrun import crontab --definitions both >script
	assert_equal "$(grep -c '"schedule"' script)" 3
	diff calls <(sed -n 's/^# \([*0].* \* .*\)/\1/p' script)
}

@test "import crontab refuses a file with a NUL, and says where" {
	printf '1 2 * * * echo a\0b\n' >old
	jr import crontab old
	assert_one_line 65 '^jobrun: old: there is a NUL at byte 17, which no text has$'
}

@test "import crontab makes valid and different names" {
	printf '1 1 * * * %s\n' '/a/backup' '/b/backup' 'nice -n 5 FOO=1 flock -n /run/x python3 -u /opt/Import.SQL' \
		'cd /srv/app && php artisan schedule:run' '"' '/opt/jobrun.daily x' >old
	jr_ok import crontab old
	run sed 's/.* exec \([^ ]*\) -- .*/\1/' <<<"$output"
	assert_output 'backup
backup-2
job
artisan
job-2
jobrun-daily'
}

@test "import crontab gives no line the name of one that calls jobrun exec already, above or below it" {
	cat >old <<-'EOF'
		0 1 * * * /opt/jobrun exec rsync -- /bin/sh -c 'rsync -a /a nas:/a'
		0 1 * * * rsync -a /c nas:/c
		0 1 * * * /opt/backup
		@reboot jobrun -d 'host=db dbname=x' exec --timeout 3h rsync-2 -- rsync -a /b nas:/b
		0 1 * * * cd / && nice jobrun exec backup --queue 'a b' -- /opt/other
	EOF
	jr_ok import crontab old
	assert_line --regexp ' exec rsync-3 -- /.*rsync -a /c nas:/c'
	assert_line --regexp ' exec backup-2 -- /opt/backup$'
	jr_ok import crontab --definitions old
	assert_equal "$(grep -o '"name": "[^"]*"' <<<"$output")" $'"name": "rsync-3"\n"name": "backup-2"'
}

@test "import crontab --definitions: the script may run again, and replaces no other handler" {
	printf '%s\n' 'PGHOST=db' '1 2 * * * /opt/backup' '1 3 * * * /opt/sync' >old
	run_jobrun import crontab --definitions old >script
	run -0 sh script
	assert_output --regexp '\+ backup.*\+ sync'
	run -0 --separate-stderr sh script
	assert_output ''
	assert_equal "$stderr" ''
	jr_ok handlers --check
	# Another one is in the way, or another kind of handler.
	printf '#!/bin/sh\necho mine\n' >mine
	cp mine "$JOBRUN_HANDLERS/sync"
	run -1 sh script
	assert_output "no definition was made: there is another sync in $JOBRUN_HANDLERS; change this name in the script"
	cmp mine "$JOBRUN_HANDLERS/sync"
	jr_ok define --remove backup sync
	rm "$JOBRUN_HANDLERS/sync"
	echo 'select 1' >"$JOBRUN_HANDLERS/sync.sql"
	run -1 sh script
	assert_output --partial 'there is another sync in'
	refute [ -e "$JOBRUN_HANDLERS/sync" ]
	q_is 0 "select count(*) from jobrun.job_definitions where name in ('backup', 'sync')"
	rm "$JOBRUN_HANDLERS/sync.sql"
	run -0 sh script
	jr_ok handlers --check
}

@test "import crontab --definitions: the script changes no other definition, and writes no handler for it" {
	printf '%s\n' 'PGHOST=db' '1 2 * * * /opt/backup' '1 3 * * * /opt/sync' >old
	run_jobrun import crontab --definitions old >script
	jr_ok define sync --schedule '@daily'
	jr_ok define backup --timeout 5m
	run -1 sh script
	assert_output 'nothing was written: there are other definitions named backup sync; change these names in the script'
	refute [ -e "$JOBRUN_HANDLERS/backup" ]
	q_is '@daily' "select schedule from jobrun.job_definitions where name = 'sync'"
	# What the server refuses is said, and nothing is written then either.
	run_jobrun import crontab --definitions - <<<$'PGHOST=db\nCRON_TZ=No/Where\n1 2 * * * /opt/another' >script
	run -1 sh script
	assert_output --regexp '^jobrun: .*No/Where'
	refute [ -e "$JOBRUN_HANDLERS/another" ]
}

@test "import crontab --definitions prints a script that makes handlers and definitions which do the same" {
	export TZ=Europe/Paris
	nasty >old
	sed -i '/false ||/d; /od -c/d; /a ..% b/d' old
	crontab_output old | sort >expected
	printf '%s\n' '@reboot /usr/bin/warm' 'CRON_TZ=Asia/Tokyo' '@weekly echo tokyo' >>old
	echo tokyo | sort - expected >both
	jr_ok import crontab --definitions old
	assert_line '# @reboot /usr/bin/warm'
	printf '%s\n' "$output" >script
	run -0 sh script
	q_is 'Asia/Tokyo|1
Europe/Paris|16' "select time_zone, count(*) from jobrun.job_definitions where job_type not like 'jobrun.%' group by 1 order by 1"
	jr_ok handlers --check
	# No slot may come meanwhile: one line is of each minute.
	q "update jobrun.job_definitions set enabled = false where job_type not like 'jobrun.%'" \
		"select jobrun.enqueue(name) from jobrun.job_definitions where job_type not like 'jobrun.%'"
	jr_ok run
	q "select a.output from jobrun.job_attempts a" | sed '/^$/d' | sort >got
	sed '/^$/d' both | diff - got
	q_is '17' "select count(*) from jobrun.job_runs where status = 'succeeded' and job_type not like 'jobrun.%'"
}

@test "import crontab --definitions says what to do with the crontab, and that output is kept, not mailed" {
	echo '30 2 * * * /bin/echo backup ran' >old
	jr_ok import crontab --definitions old
	assert_line --partial 'remove these lines from the crontab'
	assert_line '#     JOBRUN_DATABASE_URL=postgresql://ROLE@HOST/DATABASE'
	assert_line "#     * * * * * $JOBRUN run"
	assert_line '# From then on what they print is kept (jobrun logs), not mailed; only a run that is dead is.'
	jr_ok import crontab --definitions --system - <<<'30 2 * * * root /bin/echo backup ran'
	assert_line "#     * * * * * root $JOBRUN run"
}

@test "import crontab --definitions of a system crontab names the users" {
	printf '1 2 * * * www-data echo "a"\n1 2 * * * a"b echo b\n' >old
	jr_ok import crontab --definitions --system old
	assert_line '{"user": "www-data"}'
	assert_line --partial 'echo-2 is left out'
	refute_output --partial 'a"b'
}

@test "import crontab --definitions: a job runs without a home directory, as with cron" {
	printf '%s\n' '1 2 * * * pwd' >old
	jr_ok import crontab --definitions old
	printf '%s\n' "$output" >script
	sh script
	HOME=/no/such run -0 --separate-stderr "$JOBRUN_HANDLERS/pwd"
	assert_output /
	assert_equal "$stderr" ''
	run -0 "$JOBRUN_HANDLERS/pwd"
	assert_output "$(cd && pwd)"
}

@test "import crontab --definitions --system writes handlers where jobs of all users can reach them" {
	echo '1 2 * * * nobody /usr/bin/backup' >old
	jr_ok import crontab --definitions --system old
	assert_line 'handlers=${JOBRUN_HANDLERS:-/etc/jobrun/handlers}'
	assert_line --partial "# If root has ~/.config/jobrun/handlers, "
	refute_output --partial '$HOME'
	echo '1 2 * * * /usr/bin/backup' >old
	jr_ok import crontab --definitions old
	assert_line 'handlers=${JOBRUN_HANDLERS:-$HOME/.config/jobrun/handlers}'
}

@test "import crontab --definitions: the script does not hide handlers in /etc/jobrun by others in the home directory" {
	printf '%s\n' 'PGHOST=db' '1 2 * * * /usr/bin/backup' >old
	run_jobrun import crontab --definitions old >script
	assert_equal "$(grep -c '^etc=/etc/jobrun/handlers$' script)" 1
	sed -i "s:^etc=.*:etc=$PWD/etc:" script
	mkdir etc
	echo here >etc/mail
	unset JOBRUN_HANDLERS
	run -1 --separate-stderr sh script
	assert_equal "$stderr" "nothing was written: jobrun run uses the handlers in $PWD/etc, and $HOME/.config/jobrun/handlers would hide them
to put the new ones beside them, type: JOBRUN_HANDLERS=$PWD/etc sh script
to use the new ones alone, type: mkdir -p '$HOME/.config/jobrun/handlers'; sh script"
	refute [ -e "$HOME/.config/jobrun/handlers" ]
	q_is 0 "select count(*) from jobrun.job_definitions where name = 'backup'"
	JOBRUN_HANDLERS=$PWD/etc run -0 sh script
	assert_file_exist etc/backup
	refute [ -e "$HOME/.config/jobrun/handlers" ]
	# Without a definition there is nothing to write.
	echo '@reboot /usr/bin/once' >old
	run_jobrun import crontab --definitions old >empty
	refute grep -q '^etc=' empty
	# Nothing is hidden by one that is there already, nor if there is nothing to hide.
	mkdir -p "$HOME/.config/jobrun/handlers"
	run -0 sh script
	assert_file_exist "$HOME/.config/jobrun/handlers/backup"
	rm -r "$HOME/.config/jobrun" etc/*
	run -0 sh script
	assert_file_exist "$HOME/.config/jobrun/handlers/backup"
}

@test "import crontab --definitions writes handlers where JOBRUN_HANDLERS of the crontab says" {
	printf '%s\n' 'PGHOST=db' "JOBRUN_HANDLERS=$PWD/its own" '1 2 * * * /usr/bin/backup' >old
	run_jobrun import crontab --definitions old >script
	unset JOBRUN_HANDLERS
	run -0 sh script
	assert_file_exist 'its own/backup'
	refute [ -e "$HOME/.config/jobrun" ]
}

@test "import crontab --definitions leaves the variables with which jobrun connects out of handlers" {
	local behind='is left out of handlers; a command that needs it gets it from "env" in NAME.json'

	printf '%s\n' 'JOBRUN_DATABASE_URL=postgresql://a:one@db/x' 'DATABASE_URL=postgresql://a:two@db/x' PGPASSWORD=three \
		JOBRUN_PING=https://four.example PGHOST=db PGUSER=ada '1 2 * * * pg_dump' PGPASSFILE=/x >old
	jr_ok import crontab --definitions old
	refute_output --regexp 'a:one|a:two|three|four|PGPASSWORD|export [A-Z_]*DATABASE_URL'
	assert_line 'export PGHOST=db'
	assert_line 'export PGUSER=ada'
	assert_equal "$stderr" "jobrun: warning: DATABASE_URL $behind
jobrun: warning: PGPASSWORD $behind"
	# Those below all lines are in no handler.
	jr_ok import crontab --definitions - <<<$'PGHOST=db\n1 2 * * * true\nPGPASSWORD=x'
	assert_equal "$stderr" ''
}

@test "import crontab --definitions keeps the secrets of a private crontab private" {
	printf '%s\n' PGHOST=db 'API_KEY=s3cret' '1 2 * * * printf "\%s\n" $API_KEY' >old
	jr_ok import crontab --definitions old
	assert_equal "$stderr" ''
	printf '%s\n' "$output" >script
	rm -rf "$JOBRUN_HANDLERS"
	(umask 022 && sh script)
	assert_equal "$(stat -c %a "$JOBRUN_HANDLERS" "$JOBRUN_HANDLERS/printf")" $'700\n700'
	assert_equal "$("$JOBRUN_HANDLERS/printf")" s3cret
	jr_ok handlers --check
	# The account of a line must read a file that belongs to root.
	sed 's/printf/nobody printf/' old >system
	jr_ok import crontab --definitions --system system
	assert_line 'umask 022'
	assert_line 'chmod 755 "$handlers/printf"'
	assert_equal "$stderr" 'jobrun: warning: handlers of lines with a user are readable by all users, with any secrets in their variables and commands'
	jr_ok import crontab --definitions --system - <<<'@reboot nobody true'
	assert_equal "$stderr" ''
}

@test "import crontab says so if the lines look like those of a system crontab, and converts them as it was told" {
	printf 'PGHOST=db\n17 * * * *\troot  cd / && run-parts\n5 4 * * * root true\n' >old
	jr_ok import crontab old
	assert_equal "$stderr" 'jobrun: warning: the command of each line begins with a user of this host; if this is a system crontab, add --system'
	assert_line --partial "exec root -- /bin/sh -c 'root  cd / && run-parts'"
	jr_ok import crontab --system old
	assert_equal "$stderr" ''
	assert_line --regexp $'^17 .*\troot  .* exec run-parts -- '
	echo '5 5 * * * true' >>old
	jr_ok import crontab old
	assert_equal "$stderr" ''
}

@test "import crontab --system says so if the lines look like those of a user's crontab" {
	printf 'PGHOST=db\n0 3 * * * /usr/local/bin/backup --full\n5 * * * * cd /srv && ./sync\n' >old
	jr_ok import crontab --system old
	assert_equal "$stderr" "jobrun: warning: no line names a user of this host before its command; if this is the crontab of a user, leave out --system"
	echo '5 5 * * * root true' >>old
	jr_ok import crontab --system old
	assert_equal "$stderr" ''
}

@test "import crontab says which line is missing if cron would not know the database" {
	local variable missing='put this line at its top: JOBRUN_DATABASE_URL=postgresql://ROLE@HOST/DATABASE'

	echo '30 2 * * * /bin/echo backup ran' >old
	JOBRUN_DATABASE_URL=postgresql://ada:s3cret@db/app jr_ok import crontab old
	assert_equal "$stderr" "jobrun: warning: the crontab does not say which database, and cron does not have JOBRUN_DATABASE_URL of this shell; $missing"
	PGHOST='' JOBRUN_DATABASE_URL='' PGDATABASE=app jr_ok import crontab old
	assert_equal "$stderr" "jobrun: warning: the crontab does not say which database, and cron does not have PGDATABASE of this shell; $missing"
	run -0 --separate-stderr env -i "$JOBRUN" import crontab old
	assert_equal "$stderr" "jobrun: warning: the crontab does not say which database; $missing"
	for variable in JOBRUN_DATABASE_URL DATABASE_URL PGHOST PGSERVICE PGDATABASE; do
		(echo "$variable = 'x'" && cat old) >new
		jr_ok import crontab new
		assert_equal "$stderr" ''
	done
	# A variable holds for the lines below it.
	(cat old && echo 'PGHOST=db') >new
	jr_ok import crontab new
	assert_regex "$stderr" "$missing"
	# Nothing that needs the database was made.
	for variable in '' --definitions; do
		# shellcheck disable=SC2086 # no word if it is empty
		jr_ok import crontab $variable - <<<'@reboot /usr/bin/warm'
		assert_equal "$stderr" ''
	done
	# The line of jobrun run needs it, too; it may stand anywhere.
	PGDATABASE=app JOBRUN_DATABASE_URL='' jr_ok import crontab --definitions old
	assert_equal "$stderr" "jobrun: warning: the crontab does not say which database, and cron does not have PGDATABASE of this shell; $missing"
	jr_ok import crontab --definitions new
	assert_equal "$stderr" ''
}

@test "import refuses what is no crontab with one line" {
	jr import table
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: what is imported is a crontab: jobrun import crontab [FILE]'
	jr import crontab /no/such
	assert_equal "$status" 65
	printf 'a\0b\n' >zero
	jr import crontab zero
	assert_equal "$status" 65
	jr_ok import crontab /dev/null
	assert_output ''
}
