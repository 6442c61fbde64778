# shellcheck shell=bash disable=SC2154 # the suite sets JR_PSQL
#
# What tests of migrations ask of a database, and runners that hold runs meanwhile. They also load pg, pooler, variant and web.

# What a dump says of the schema, in an order of its own. A dump has a word of its own against psql commands.
dump() {
	"${JR_PSQL%psql}pg_dump" -s -n jobrun "$(past_pooler)" | grep -vE '^(--|$|\\(un)?restrict )' | sort
}

# rows [TABLE COLUMNS]...: what is in them. columns_of TABLE...: tables with their columns, for rows.
rows() {
	while [ $# -gt 0 ]; do
		q "select $2 from jobrun.$1"
		shift 2
	done
}

columns_of() {
	local table

	for table in "$@"; do
		echo "$table"
		q "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
			where attrelid = 'jobrun.$table'::regclass and attnum > 0 and not attisdropped"
	done
}

# hold_kinds: a runner holds a run of each kind, until let_go. It is heartbeaten every 2 s, and the lease outlasts a slow migration.
hold_kinds() {
	q 'create table if not exists public.sign (n integer)' "create or replace function public.wait_for_sign() returns text language plpgsql as \$\$
		begin while not exists (select from public.sign) loop perform pg_sleep(0.05); end loop; return 'seen'; end \$\$"
	web
	handler exec_one <<<"while [ ! -e '$TMPDIR/sign' ]; do sleep 0.05; done; echo '{\"result\": \"seen\"}' >>\$JOBRUN_OUT"
	echo 'select to_jsonb(public.wait_for_sign()) as result' >"$JOBRUN_HANDLERS/sql_one.sql"
	http_handler http_one "$web/hold/sign"
	for kind in exec sql http; do
		enqueue "${kind}_one"
	done
	bg_runner --lease 60s --heartbeat 2s
	wait_until 20 q_is 3 "select count(*) from jobrun.job_runs where status = 'running'"
}

let_go() {
	q 'insert into public.sign values (1)'
	touch "$TMPDIR/sign" "$web_dir/sign"
}

# heartbeaten UNTIL: the leases of all three have been moved since.
heartbeaten() {
	q_is 3 "select count(*) from jobrun.job_runs where status = 'running' and locked_until > '$1'"
}

# The results of all three were accepted, each in its first attempt.
accepted() {
	wait_until 20 q_is 'exec_one|succeeded|1|"seen"
http_one|succeeded|1|
sql_one|succeeded|1|"seen"' "select job_type, status, claim_seq, case when job_type <> 'http_one' then result::text end from jobrun.job_runs order by job_type"
}

# migrate_under FROM TO: a runner of program FROM holds runs while TO migrates.
migrate_under() {
	local until

	with "$1" hold_kinds
	with "$2" jr_ok migrate
	until=$(q "select max(locked_until) from jobrun.job_runs")
	wait_until 20 heartbeaten "$until"
	let_go
	accepted
	wait_runner
}
