-- new_runs: many runs at once: rows inserted into jobrun.new_runs (see the table) become runs, and so do lines of a file.

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
	if v_all ?| '{run_in,expires_in,timeout,backoff_base,backoff_cap}' then
		v_all := jobrun.spell_durations(v_all);
	end if;
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

-- raise_in_line: raise an error again, with the number of the line in front; null: no single line is to blame. The server's hint for a
-- date that does not exist is to change DateStyle, which is no use.
create or replace function jobrun.raise_in_line(line bigint, code text, message text, hint text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_text constant text := case when line is null then '' else format('line %s: ', line) end || message;
	v_code constant text := case when code = '40P01' then '40001' else code end;     -- as enqueue_run
begin
	if raise_in_line.hint = '' or code = '22008' then
		raise exception '%', v_text using errcode = v_code;
	end if;
	raise exception '%', v_text using errcode = v_code, hint = raise_in_line.hint;
end
$fn$;

-- take_new_runs: insert rows with the same type and options and without keys together, others one by one. Together means up to 5,000 or
-- some MiB, since there may be more than an array can hold. One exception handler for all rows adds the number of the line to the error.
create or replace function jobrun.take_new_runs() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_head jobrun.new_runs;
	v_o    jobrun.run_options;
	v_done jobrun.enqueued;
	v_open record;
	v_line bigint;
	v_all  record;
	v_row  record;
	v_new  jobrun.job_runs;
	v_some jsonb[];
	v_size bigint := 0;
	v_text text;
	v_hint text;
begin
	-- Rows come in the order of nr. Only two looks at them, since there may be millions.
	select a.* into v_head from added a where num_nonnulls(a.job_type, a.payload, a.options, a.run) > 0 limit 1;
	v_o := jobrun.read_options(v_head.options, null);
	select min(a.nr) as first, max(a.nr) as last, bool_and(a.run is null and num_nonnulls(a.job_type, a.payload, a.options) = 0
			or a.run is null and a.job_type is not distinct from v_head.job_type and a.options is not distinct from v_head.options) as alike,
		count(*) filter (where num_nonnulls(a.job_type, a.payload, a.options) > 0) as n
	into v_all from added a;
	if v_all.n = 0 and v_all.alike then
		null;
	elsif num_nonnulls(v_o.idempotency_key, v_o.unique_key) = 0 and v_all.alike then
		perform jobrun.check_conflict(v_o.on_conflict, null);
		v_new := jobrun.run_of_many(v_head.job_type, v_all.n, v_o);
		for v_row in select coalesce(v_o.payload, a.payload) as payload from added a
			where num_nonnulls(a.job_type, a.payload, a.options) > 0
		loop
			v_some := array_append(v_some, v_row.payload);
			v_size := v_size + coalesce(pg_column_size(v_row.payload), 0);
			if v_size > 4194304 or cardinality(v_some) = 5000 then
				perform jobrun.insert_many(v_new, v_some);
				v_some := null;
				v_size := 0;
			end if;
		end loop;
		perform jobrun.insert_many(v_new, v_some);
		if v_new.run_at <= now() then
			perform jobrun.call_runners(v_new.job_type || ' ' || v_new.priority || ' ' || v_new.queue);
		end if;
		perform jobrun.count_up('jobrun.new_runs_created', v_all.n);
	else
		select c.* into v_open from jobrun.open_runs() c;
		for v_row in select a.*, row_number() over (order by a.nr) as line from added a order by a.nr loop
			continue when num_nonnulls(v_row.job_type, v_row.payload, v_row.options, v_row.run) = 0;
			v_line := v_row.line;
			v_done := jobrun.enqueue_with(v_row.job_type, v_row.payload, jobrun.read_options(v_row.options, v_row.run), v_open.open);
			if v_done.created and v_open.open is not null then
				v_open := jobrun.one_more(v_open.open, v_open.most);
			end if;
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
	perform jobrun.raise_in_line(v_line, sqlstate, v_text, v_hint);
	return null;
end
$fn$;

-- bad_line: the first line that is no JSON, or a payload that is too large; null: there is none.
create or replace function jobrun.bad_line(lines bytea[]) returns bigint
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_line    bigint := 0;
	v_bytes   bytea;
	v_payload jsonb;
begin
	foreach v_bytes in array lines loop
		v_line := v_line + 1;
		v_payload := convert_from(v_bytes, 'UTF8')::jsonb;
		if octet_length(v_payload::text) > 1048576 or pg_column_size(v_payload) > 1049600 then
			return v_line;
		end if;
	end loop;
	return null;
exception when others then
	return v_line;
end
$fn$;

-- bad_option: a member of a line of options that its type does not take, and why; null: there is none. PostgreSQL names the value alone.
create or replace function jobrun.bad_option(line bytea) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run    jsonb;
	v_member text;
begin
	v_run := jobrun.spell_durations(convert_from(line, 'UTF8')::jsonb);
	for v_member in select k.key from jsonb_object_keys(v_run) k(key) order by k.key loop
		perform jsonb_populate_record(null::jobrun.run_options, jsonb_build_object(v_member, v_run -> v_member));
	end loop;
	return null;
exception when others then
	return v_member || ': ' || sqlerrm;
end
$fn$;

-- enqueue_lines: for `jobrun enqueue --batch`: enqueue a run for each line, all of them or none. A line is JSON in UTF-8: a
-- payload, or with per_run an object of options like new_runs.run, which override `options`. A null, for an empty line, only
-- counts as a line. An error about a line begins with "line N: ". This is what COPY into new_runs does, without a table to
-- pass through, and with bytes that nothing has to quote.
create or replace function jobrun.enqueue_lines(job_type text, lines bytea[], options jsonb default null,
	per_run boolean default false, out created bigint, out existed bigint)
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_o       jobrun.run_options;
	v_open    record;
	v_created boolean;
	v_line    bigint;
	v_bytes   bytea;
	v_text    text;
	v_hint    text;
	v_detail  text;
	v_quoted  text;
begin
	created := 0;
	existed := 0;
	if not per_run then
		v_o := jobrun.read_options(options, null);
		created := cardinality(jobrun.enqueue_many_with(job_type, array(select convert_from(l.line, 'UTF8')::jsonb
			from (select unnest(lines) as line) l where l.line is not null), v_o));
		return;
	end if;
	select c.* into v_open from jobrun.open_runs() c;
	v_line := 0;
	foreach v_bytes in array lines loop
		v_line := v_line + 1;
		continue when v_bytes is null;
		v_o := jobrun.read_options(options, convert_from(v_bytes, 'UTF8')::jsonb);
		v_created := (jobrun.enqueue_with(job_type, null, v_o, v_open.open)).created;
		created := created + v_created::integer;
		existed := existed + (not v_created)::integer;
		if v_created and v_open.open is not null then
			v_open := jobrun.one_more(v_open.open, v_open.most);
		end if;
	end loop;
exception when others then
	-- The server says in the detail what is wrong with the JSON, and quotes in the context how far it came, both in its own language.
	get stacked diagnostics v_text = message_text, v_hint = pg_exception_hint, v_detail = pg_exception_detail,
		v_quoted = pg_exception_context;
	v_quoted := substring(split_part(v_quoted, chr(10), 1) from '^[^:"]*JSON[^:"]*[0-9][^:"]*: ?(.*)$');
	if v_quoted is not null then
		v_text := concat(v_text, ': ' || nullif(rtrim(v_detail, '.'), ''), '; up to there: ', v_quoted);
	end if;
	if sqlstate = '54001' then         -- the hint would be to change max_stack_depth
		v_text := 'the payload is nested too deeply';
		v_hint := '';
	end if;
	if v_line is null then
		v_line := jobrun.bad_line(lines);
		v_text := regexp_replace(v_text, '^payload [0-9]+ ', 'the payload ');
	elsif sqlstate like '22%' then
		v_text := coalesce(jobrun.bad_option(v_bytes), v_text);
	end if;
	perform jobrun.raise_in_line(v_line, sqlstate, v_text, v_hint);
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
