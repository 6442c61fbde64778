# shellcheck shell=bash disable=SC2154 # runner_pid and the like are common.bash's
#
# sql handlers, for the tests of them.

# sql_handler NAME <<'sql': make NAME.sql. settings NAME <<'json': its NAME.json.
sql_handler() {
	put "$1.sql"
}

settings() {
	put "$1.json"
}

# Renamed, so that a runner never meets half a file.
put() {
	cat >"$JOBRUN_HANDLERS/$1.new"
	chmod 644 "$JOBRUN_HANDLERS/$1.new"
	mv "$JOBRUN_HANDLERS/$1.new" "$JOBRUN_HANDLERS/$1"
}

# A table whose number says how often a statement had its effect.
counter() {
	q 'create table counter (n bigint not null)' 'insert into counter values (0)'
}

# fate ID: status|attempts|claim_seq|error_code
fate() {
	q "select status, attempts, claim_seq, error_code from jobrun.job_runs where id = $1"
}

# is_fate ID FATE: for wait_until and assertions.
is_fate() {
	q_is "$2" "select status, attempts, claim_seq, error_code from jobrun.job_runs where id = $1"
}

# works ID: does its statement run? Statements of handlers say so themselves, by a comment: /* work */.
works() {
	q_is t "select count(*) > 0 from pg_stat_activity
		where datname = current_database() and state = 'active' and query like '%/* work */%' and pid <> pg_backend_pid()"
}

does_not_work() {
	! works 2>/dev/null
}
