#!/usr/bin/env bats
# scripts/bench/run, with tiny numbers: nothing is judged, but each of its measurements must do its work.

load ../lib/common

# measures NAMES: these works have rows, and each of their contenders a sample, or the table would have holes.
measures() {
	run "$TOP/scripts/bench/run" --quick --no-peers --only "$1" "$PWD/out"
	assert_success
	table=$output
	run -0 jq -r '[.works[].name] | join(",")' out/results.json
	assert_output "$1"
	run -0 jq -r '.works[] | select((.rows | length) == 0 or any(.samples[]; length == 0)) | .name' out/results.json
	refute_output
}

@test "each measurement of make bench but claim does its work, and the results are in three files" {
	measures tick,exec,sql,drain,drain-large,http,bulk,single,pickup,cost
	for kind in json md svg; do
		assert_file_not_empty "out/results.$kind"
	done
	assert_regex "$table" '[|] tick, empty queue [|] [0-9.]+ ms [|] C, libpq: [0-9.]+ ms [|] '
	assert_regex "$table" 'PostgreSQL [^,]+, (no )?huge pages, fdatasync [0-9]+ us'
}

# With the others it would take longer than a test may.
@test "the measurement of claims does its work" {
	measures claim
}

@test "make bench measures nothing else" {
	PYTHONPATH=$TOP/scripts/bench run -0 python3 -c 'import works; print(*works.ALL)'
	assert_output 'tick exec sql drain drain-large http bulk single pickup claim cost'
}

# The medians of these are 2 and 8. Turn by turn they are as good as each other, twice of three times.
@test "a ratio is the median of the ratios of each turn; a contender that has failed has missed its target" {
	cat >judge.py <<-'python'
		import report, works
		row = works.Row("title", "rate", "/s", [works.Target(0.5, "floor"), works.Target(0.5, "broken"), works.Target(3)])
		samples = {"jobrun": [{"rate": r} for r in (1, 2, 9)], "floor": [{"rate": r} for r in (1, 8, 9)], "broken": []}
		print([(r["ratio"], r["met"]) for r in report.judge_row(row, samples, {}, False)])
		print([r["met"] for r in report.judge_row(row, dict(samples, jobrun=[]), {}, False)])
	python
	PYTHONPATH=$TOP/scripts/bench run -0 python3 judge.py
	assert_line --index 0 '[(1.0, True), (None, None), (2, False)]'
	assert_line --index 1 '[False, False, False]'
}

@test "an unknown name for --only is refused, with the names there are" {
	run -2 "$TOP/scripts/bench/run" --only tikc
	assert_output --partial 'no such work: tikc; there are tick, exec'
}

@test "a file for --pgmq that is not there is refused at once" {
	run -2 "$TOP/scripts/bench/run" --pgmq nowhere.sql
	assert_output --partial 'no such file: nowhere.sql; it is pgmq-extension/sql/pgmq.sql'
}

@test "make month and make curves do their work, and the results are in three files each" {
	run -0 "$TOP/scripts/bench/month" --runs 3000 --minutes 0.06 --held 0.01 "$PWD/out"
	run -0 jq -c '[length, .[-1].day, .[-1].enqueued > 1000, .[-1].archive_mib > 0]' out/month.json
	assert_output '[31,30,true,true]'
	run -0 "$TOP/scripts/bench/curves" --quick "$PWD/out"
	run -0 jq -c '[.[] | .[2] | length]' out/curves.json
	assert_output '[3,2,2,2]'
	for what in month curves; do
		for kind in json md svg; do
			assert_file_not_empty "out/$what.$kind"
		done
	done
}
