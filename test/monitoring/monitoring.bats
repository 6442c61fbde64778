#!/usr/bin/env bats
# jobrun metrics with the real programs: promtool reads it, node_exporter and Prometheus scrape it, and what is broken fires its alert.
# `make monitoring` runs this; the usual suite does without these programs.

load ../lib/common

setup() {
	common_setup
	rules=$TOP/scripts/monitoring
	exporter_pids=()
	at_end+=(end_exporters)
	PATH=$PATH:/usr/sbin
}

end_exporters() {
	local pid

	for pid in ${exporter_pids[0]+"${exporter_pids[@]}"}; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

# listen NAME PATH COMMAND...: start COMMAND with --web.listen-address of a free port; sets NAME to its URL when PATH answers there. Another
# program may take the port meanwhile: then it tries another one.
listen() {
	local name=$1 path=$2 port pid

	shift 2
	for _ in 1 2 3 4 5; do
		port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
		"$@" "--web.listen-address=127.0.0.1:$port" >"$name.log" 2>&1 3>&- 4>&- &
		pid=$!
		exporter_pids+=("$pid")
		for _ in {1..300}; do
			if curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$port$path" 2>/dev/null; then
				printf -v "$name" '%s' "http://127.0.0.1:$port"
				return
			fi
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill "$pid" 2>/dev/null || true
	done
	cat "$name.log" >&2
	return 1
}

# start_prometheus: node_exporter reads $TMPDIR/prom, Prometheus scrapes it each second. Its alerts are those of jobrun.rules.yml but that they
# do not wait before they fire.
start_prometheus() {
	mkdir "$TMPDIR/prom"
	listen exporter /metrics prometheus-node-exporter --collector.disable-defaults --collector.textfile \
		"--collector.textfile.directory=$TMPDIR/prom"
	sed -E 's/^( +for:) .*/\1 0s/' "$rules/jobrun.rules.yml" >rules.yml
	cat >prometheus.yml <<-yml
		global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
		rule_files: [$PWD/rules.yml]
		scrape_configs:
		  - { job_name: node, static_configs: [{ targets: ["${exporter#http://}"] }] }
	yml
	listen prometheus /-/ready prometheus --config.file=prometheus.yml "--storage.tsdb.path=$TMPDIR/tsdb"
}

# ask PROMQL: the answer as JSON; an error of the query fails.
ask() {
	curl -fsS -m 10 --data-urlencode "query=$1" "$prometheus/api/v1/query" | jq -ce 'select(.status == "success") | .data.result'
}

number_is() {
	[ "$(ask "$1" | jq -r '.[0].value[1]')" = "$2" ]
}

# firing: the names of the alerts that fire now.
firing() {
	curl -fsS -m 10 "$prometheus/api/v1/alerts" | jq -r '[.data.alerts[] | select(.state == "firing") | .labels.alertname] | unique | join(" ")'
}

# fires ALERT: write the numbers until exactly this fires (a list in the order of the alphabet).
fires() {
	wait_until 60 fires_now "$*" || fail "not $*, but $(firing)"
}

fires_now() {
	[ -n "${stale:-}" ] || run_jobrun metrics -o "$TMPDIR/prom/jobrun.prom"
	[ "$(firing)" = "$1" ]
}

@test "promtool: the rules are right and their own tests pass; the numbers pass, with hostile names, too" {
	promtool check rules "$rules/jobrun.rules.yml"
	run promtool test rules "$rules/jobrun.rules.test.yml"
	assert_success
	for alert in $(sed -n 's/^ *- alert: //p' "$rules/jobrun.rules.yml"); do
		grep -qE "fires .*$alert\\b" "$BATS_TEST_FILENAME" || fail "nothing here makes $alert fire"
	done
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, E'a\"}\\\\ \n# TYPE x gauge\n{\t\u20ac', 'x')" \
		"insert into jobrun.job_runs (job_type) values ('work')" \
		"insert into jobrun.job_totals select now(), 3, 1, 1, 'work', 'default', o, '{1,2}', '{1,2}' from unnest('{dead,lost}'::text[]) o"
	jr_ok metrics
	assert_output --partial $'a\\"}\\\\ \\n# TYPE x gauge\\n{\t€'
	run promtool check metrics <<<"$output"
	assert_success
	assert_output ''
}

@test "node_exporter and Prometheus read the file; each thing that is broken fires its alert, and no other" {
	local expr exprs

	handler work <<<'exit 0'
	handler bad <<<'exit 65'
	q "select jobrun.enqueue('work', run_in => '1 hour')" "select jobrun.enqueue('bad', run_in => '1 hour')" >/dev/null
	start_prometheus
	stale=1 fires JobrunMetricsMissing
	jr_ok run
	run_jobrun metrics -o "$TMPDIR/prom/jobrun.prom"
	wait_until 60 number_is 'jobrun_runs{job_type="work",status="queued"}' 1
	# The file of another database on the same host has other series.
	sed "s/database=\"$JR_DATABASE\"/database=\"other\"/" "$TMPDIR/prom/jobrun.prom" >"$TMPDIR/prom/other.prom"
	wait_until 60 number_is 'count(jobrun_build_info)' 2
	number_is node_textfile_scrape_error 0
	rm "$TMPDIR/prom/other.prom"
	wait_until 60 number_is 'count(jobrun_build_info)' 1
	fires ''
	# Each query of the dashboard is one.
	exprs=$(jq -r '.panels[].targets[]?.expr' "$rules/jobrun-dashboard.json" | sed 's/\$__rate_interval/1m/g; s/\$[a-z_]*/.*/g')
	assert_between 15 "$(wc -l <<<"$exprs")" 99
	while read -r expr; do
		ask "$expr" >answer || fail "$expr"
	done <<<"$exprs"

	q "update jobrun.job_runs set run_at = now() where job_type = 'bad'"
	jr run
	fires JobrunDead
	number_is 'jobrun_runs_finished_total{outcome="dead"}' 1

	q "update jobrun.job_runs set run_at = now() - interval '10 minutes' where job_type = 'work'"
	fires JobrunDead JobrunLate
	q "insert into jobrun.job_queues (name, max_running) values ('default', 0) on conflict (name) do update set max_running = 0"
	fires JobrunDead JobrunLate JobrunQueueFull
	q "update jobrun.job_runs set run_at = now() - interval '40 minutes' where job_type = 'work'" 'delete from jobrun.job_queues'
	fires JobrunDead JobrunLate JobrunVeryLate
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where job_type = 'work'"
	fires JobrunDead

	q "update jobrun.job_runners set last_seen_at = now() - interval '10 minutes', started_at = now() - interval '10 minutes'"
	fires JobrunDead JobrunNoRunner
	q "update jobrun.job_runners set last_seen_at = now() - interval '20 minutes', started_at = now() - interval '20 minutes'"
	fires JobrunDead JobrunHostSilent JobrunNoRunner
	jr_ok run
	fires JobrunDead

	jr_ok define hourly --type work --schedule '@hourly'
	q "update jobrun.job_definitions set next_slot_at = now() - interval '11 minutes' where name = 'hourly'"
	fires JobrunDead JobrunSlotLate
	q "delete from jobrun.job_definitions where name = 'hourly'"
	jr_ok pause --queue mail
	fires JobrunDead JobrunPaused
	jr_ok resume --queue mail

	# A host dies; the next tick of another one takes its run back.
	q "update jobrun.job_runs set status = 'running', runner_id = 7, locked_by = 'gone', locked_until = now() - interval '1 minute',
		started_at = now() - interval '2 minutes', attempts = 1, claim_seq = 1 where job_type = 'work'"
	fires JobrunDead JobrunLeasesExpired
	jr run
	fires JobrunDead JobrunLeasesLost

	# A poison type: most of its attempts fail.
	handler poison <<<'exit 1'
	for _ in {1..12}; do
		enqueue poison --max-attempts 9 --backoff 1h
	done
	run_jobrun metrics -o "$TMPDIR/prom/jobrun.prom"
	wait_until 60 number_is 'jobrun_attempts_total{job_type="poison",outcome="failed"}' 0
	jr run
	fires JobrunDead JobrunFailing JobrunLeasesLost
	# More types than there are numbers for.
	q 'set session_replication_role = replica' "insert into jobrun.job_definitions (name, job_type) select 'made_up_' || n, 'made_up_' || n from generate_series(1, 300) n"
	fires JobrunDead JobrunFailing JobrunLeasesLost JobrunMetricsLeftOut
	q "delete from jobrun.job_definitions where name like 'made_up_%'"
	fires JobrunDead JobrunFailing JobrunLeasesLost

	# The database is away: the file gets old, and that alone is told of it.
	touch -d '10 minutes ago' "$TMPDIR/prom/jobrun.prom"
	jr metrics -o "$TMPDIR/prom/jobrun.prom" -d host=/nowhere
	assert_equal "$status" 75
	stale=1
	fires JobrunDead JobrunFailing JobrunLeasesLost JobrunMetricsStale
	stale=
	fires JobrunDead JobrunFailing JobrunLeasesLost
}
