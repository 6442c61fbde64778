#!/usr/bin/env bats
# An application, in Python with psycopg, that enqueues in its own transactions.

load ../lib/common

setup() {
	common_setup
	for PYTHON in python3 /usr/bin/python3; do
		! "$PYTHON" -c 'import psycopg' 2>/dev/null || break
	done
	q 'create table orders (id bigint primary key)'
	handler invoice <<'sh'
cat >>"$TMPDIR/invoices"
sh
}

# app <<'python': the application; db is its connection, which the first statement begins a transaction on.
app() {
	{
		cat <<-'python'
			import os, subprocess, psycopg
			from psycopg.types.json import Jsonb
			def one(sql, *values):
			    return db.execute(sql, values).fetchone()[0]
			def jobrun():
			    subprocess.run([os.environ["PROGRAM"], "run"], check=True, stdin=subprocess.DEVNULL)
			def invoices():
			    try:
			        return open(os.environ["TMPDIR"] + "/invoices").read().split("\n")[:-1]
			    except FileNotFoundError:
			        return []
			def seen():  # what others see
			    with psycopg.connect(os.environ["DATABASE_URL"]) as other:
			        return other.execute("select count(*) from jobrun.job_runs").fetchone()[0]
			db = psycopg.connect(os.environ["DATABASE_URL"])
		python
		cat
	} >app.py
	DATABASE_URL=$(past_pooler) PROGRAM=$JOBRUN timeout -k 5 60 "$PYTHON" app.py
}

@test "a run enqueued in a transaction is seen by nobody before the commit, and then by all" {
	app <<-'python'
		db.execute("insert into orders values (1)")
		run = one("select jobrun.enqueue('invoice', %s)", Jsonb({"order": 1}))
		assert isinstance(run, int)
		jobrun()
		assert seen() == 0 and invoices() == []
		db.commit()
		assert seen() == 1
		jobrun()
		assert invoices() == ['{"order": 1}'], invoices()
		assert one("select status from jobrun.run_status(array[%s]::bigint[])", run) == "succeeded"
	python
}

@test "a transaction that ends by rollback, exception or lost connection leaves no run" {
	app <<-'python'
		db.execute("insert into orders values (1)")
		one("select jobrun.enqueue('invoice', unique_key => 'u', idempotency_key => 'i')")
		db.rollback()
		assert seen() == 0
		try:
		    with db.transaction():
		        one("select jobrun.enqueue('invoice', unique_key => 'u', idempotency_key => 'i')")
		        db.execute("insert into orders values (1), (1)")
		    raise SystemExit("a key was there twice")
		except psycopg.errors.UniqueViolation:
		    pass
		assert seen() == 0
		one("select jobrun.enqueue('invoice', unique_key => 'u', idempotency_key => 'i')")
		db.close()
		assert seen() == 0
		db = psycopg.connect(os.environ["DATABASE_URL"])
		# The keys are free again.
		one("select jobrun.enqueue('invoice', '1', unique_key => 'u', idempotency_key => 'i')")
		db.commit()
		jobrun()
		assert invoices() == ["1"], invoices()
	python
	q_is 0 'select count(*) from orders'
}

@test "rolling back to a savepoint removes the runs enqueued after it, and no others" {
	app <<-'python'
		first = one("select jobrun.enqueue('invoice', '1')")
		try:
		    with db.transaction():
		        one("select jobrun.enqueue('invoice', '2')")
		        raise psycopg.Rollback()
		except psycopg.Rollback:
		    pass
		third = one("select jobrun.enqueue('invoice', '3')")
		db.commit()
		assert seen() == 2 and first < third
		jobrun()
		assert sorted(invoices()) == ["1", "3"], invoices()
	python
}

@test "enqueue_many returns ids in the order of the payloads, and enqueues all or none" {
	app <<-'python'
		payloads = [Jsonb({"n": n}) for n in range(1000)]
		many = "select jobrun.enqueue_many('invoice', %s, run_in => '1 hour', priority => 7)"
		ids = [row[0] for row in db.execute(many, [payloads])]
		db.rollback()
		assert len(ids) == 1000 and seen() == 0
		ids = [row[0] for row in db.execute(many, [payloads])]
		db.commit()
		assert seen() == 1000
		stored = db.execute("select (payload ->> 'n')::int from jobrun.job_runs where id = any (%s) and priority = 7 order by array_position(%s::bigint[], id)",
		    [ids, ids]).fetchall()
		assert [row[0] for row in stored] == list(range(1000))
	python
}

@test "enqueue_many refuses a payload that is too long only as text, and says which" {
	run q "select jobrun.enqueue_many('invoice', array['1', to_jsonb(array_fill('1e131071'::numeric, array[8]))])"
	assert_failure
	assert_output --partial 'payload 2 has 1048592 bytes'
	q_is 7 "select count(*) from jobrun.enqueue_many('invoice', array_fill(to_jsonb(array_fill('1e131071'::numeric, array[7])), array[7]))"
}

@test "bad data raises its own SQLSTATE, and a savepoint saves the transaction" {
	app <<-'python'
		one("select jobrun.enqueue('invoice', '1')")
		for call in ("jobrun.enqueue('no such name!')", "jobrun.enqueue('invoice', priority => 5000)", "jobrun.enqueue('invoice', unique_key => '')",
		        "jobrun.enqueue('invoice', run_at => 'infinity')", "jobrun.enqueue('invoice', on_conflict => 'what')",
		        "jobrun.enqueue('invoice', on_conflict => 'replace')"):
		    try:
		        with db.transaction():
		            one("select " + call)
		        raise SystemExit(call + " was taken")
		    except psycopg.Error as error:
		        assert error.sqlstate == "JR065", (call, error.sqlstate)
		db.commit()
		assert seen() == 1
	python
}

@test "on_conflict without a unique key is refused, whichever way the runs come" {
	local call

	for call in "jobrun.enqueue('invoice', on_conflict => 'replace')" \
		"jobrun.enqueue_run('invoice', on_conflict => 'replace', idempotency_key => 'i')" \
		"jobrun.enqueue_lines('invoice', array['1'::bytea], '{\"on_conflict\":\"replace\"}')" \
		"jobrun.enqueue_lines('invoice', array['{}'::bytea], '{\"on_conflict\":\"replace\"}', true)"; do
		run q "select $call"
		assert_failure
		assert_output --partial 'on_conflict "replace" needs a unique_key'
	done
	run q "insert into jobrun.new_runs (job_type, options) values ('invoice', '{\"on_conflict\":\"unless_running\"}')"
	assert_output --partial 'on_conflict "unless_running" needs a unique_key'
	run q "insert into jobrun.new_runs (job_type, options) values ('invoice', '{\"on_conflict\":\"what\"}')"
	assert_output --partial 'on_conflict "what" is not one of'
	run q "insert into jobrun.new_runs (job_type, run) values ('invoice', null), ('invoice', '{\"on_conflict\":\"replace\"}')"
	assert_output --partial 'line 2: on_conflict "replace" needs a unique_key'
	q_is 0 "select count(*) from jobrun.job_runs"
	# The default may be said, and null is the default.
	q "select jobrun.enqueue('invoice', on_conflict => 'keep'), jobrun.enqueue('invoice', on_conflict => null)" >/dev/null
	q "insert into jobrun.new_runs (job_type, options) values ('invoice', '{\"on_conflict\":\"keep\"}')"
	q_is 3 "select count(*) from jobrun.job_runs"
}
