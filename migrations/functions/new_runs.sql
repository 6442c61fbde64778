-- new_runs: rows inserted into jobrun.new_runs become runs; see the table.

-- count_up: add n to a parameter of the transaction that holds a number.
create or replace function jobrun.count_up(setting text, n bigint) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_before constant text := current_setting(setting, true);
begin
	perform set_config(setting, (n + case when v_before ~ '^[0-9]{1,15}$' then v_before::bigint else 0 end)::text, true);
end
$fn$;

-- read_options: the options of all runs, overridden by those of one run.
create or replace function jobrun.read_options(options jsonb, run jsonb) returns jobrun.run_options
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_all    jsonb;
	v_word   text;
	v_result jobrun.run_options;
begin
	if jsonb_typeof(options) <> 'object' then
		raise exception 'options are no object but %', left(options::text, 100) using errcode = 'JR065';
	elsif jsonb_typeof(run) <> 'object' then
		raise exception 'a run with options of its own is an object like {"payload": ..., "run_in": "5m"}, not %', left(run::text, 100)
			using errcode = 'JR065';
	end if;
	v_all := case when run ?| '{run_in,run_at}' then options - '{run_in,run_at}'::text[] else options end;
	v_all := coalesce(v_all, '{}') || coalesce(run, '{}');
	v_result := jsonb_populate_record(null::jobrun.run_options, v_all);
	select k.key into v_word from jsonb_object_keys(v_all) k(key) where not to_jsonb(v_result) ? k.key order by k.key limit 1;
	if found then
		raise exception 'there is no option "%"; there are %', left(v_word, 100),
			(select string_agg(k.key, ', ') from jsonb_object_keys(to_jsonb(v_result)) k(key)) using errcode = 'JR065';
	end if;
	v_result.payload := v_all -> 'payload';         -- the JSON null is a payload, too
	return v_result;
end
$fn$;

-- take_new_runs: insert rows with the same type and options and without keys together, others one by one. One exception
-- handler for all rows adds the number of the line to the error.
create or replace function jobrun.take_new_runs() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_head jobrun.new_runs;
	v_o    jobrun.run_options;
	v_done jobrun.enqueued;
	v_line bigint;
	v_all  record;
	v_row  record;
	v_text text;
	v_code text;
	v_hint text;
begin
	-- Rows come in the order of nr. Only two looks at them, since there may be millions.
	select a.* into v_head from added a where num_nonnulls(a.job_type, a.payload, a.options, a.run) > 0 limit 1;
	v_o := jobrun.read_options(v_head.options, null);
	select min(a.nr) as first, max(a.nr) as last, bool_and(a.run is null and num_nonnulls(a.job_type, a.payload, a.options) = 0
			or a.run is null and a.job_type is not distinct from v_head.job_type and a.options is not distinct from v_head.options) as alike,
		array_agg(coalesce(v_o.payload, a.payload)) filter (where num_nonnulls(a.job_type, a.payload, a.options) > 0) as payloads
	into v_all from added a;
	if v_all.payloads is null and v_all.alike then
		null;
	elsif num_nonnulls(v_o.idempotency_key, v_o.unique_key) = 0 and v_all.alike then
		perform jobrun.count_up('jobrun.new_runs_created', (select count(*) from jobrun.enqueue_many(v_head.job_type, v_all.payloads,
			v_o.queue, v_o.priority, v_o.run_in, v_o.run_at, v_o.expires_in, v_o.max_attempts, v_o.timeout, v_o.backoff_base,
			v_o.backoff_cap, v_o.concurrency_key, v_o.parent_id, v_o.trace_context)));
	else
		for v_row in select a.*, row_number() over (order by a.nr) as line from added a order by a.nr loop
			continue when num_nonnulls(v_row.job_type, v_row.payload, v_row.options, v_row.run) = 0;
			v_line := v_row.line;
			v_o := jobrun.read_options(v_row.options, v_row.run);
			v_done := jobrun.enqueue_run(v_row.job_type, coalesce(v_o.payload, v_row.payload), v_o.queue, v_o.priority, v_o.run_in,
				v_o.run_at, v_o.expires_in, v_o.max_attempts, v_o.timeout, v_o.backoff_base, v_o.backoff_cap, v_o.idempotency_key,
				v_o.unique_key, v_o.on_conflict, v_o.concurrency_key, v_o.parent_id, v_o.trace_context);
			perform jobrun.count_up(case when v_done.created then 'jobrun.new_runs_created' else 'jobrun.new_runs_existed' end, 1);
		end loop;
	end if;
	delete from jobrun.new_runs n where n.nr between v_all.first and v_all.last;
	return null;
exception when others then
	get stacked diagnostics v_text = message_text, v_hint = pg_exception_hint;
	if v_line is null then         -- rows inserted together: only a payload that is too large can fail
		select l.line into v_line from (select row_number() over (order by a.nr) as line, a.payload from added a) l
		where octet_length(l.payload::text) > 1048576 or pg_column_size(l.payload) > 1049600 order by l.line limit 1;
		v_text := regexp_replace(v_text, '^payload [0-9]+ ', 'the payload ');
	end if;
	v_text := case when v_line is null then '' else format('line %s: ', v_line) end || v_text;
	v_code := case when sqlstate = '40P01' then '40001' else sqlstate end;     -- as enqueue_run
	if v_hint = '' then
		raise exception '%', v_text using errcode = v_code;
	end if;
	raise exception '%', v_text using errcode = v_code, hint = v_hint;
end
$fn$;

do $do$
begin
	if not exists (select from pg_trigger t where t.tgrelid = 'jobrun.new_runs'::regclass and t.tgname = 'new_runs_taken') then
		create trigger new_runs_taken after insert on jobrun.new_runs referencing new table as added
			for each statement execute function jobrun.take_new_runs();
	end if;
end
$do$;
