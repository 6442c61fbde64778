# shellcheck shell=bash disable=SC2154 # the suite sets TOP and JOBRUN
#
# Other programs than the one under test: the one before, and some that are this one but for a changed migrations folder.

# variant DIR: builds DIR/jobrun from DIR/migrations and the objects of the program under test.
variant() {
	local dir=$1 build lines

	build=$(dirname "$JOBRUN")
	[ -e "$build/flags" ] || skip "no flags beside $JOBRUN: it was not built by this Makefile"
	mapfile -t lines <"$build/flags"
	(
		cd "$TOP" || return
		scripts/embed-sql "$dir/gen" "$dir/migrations"
		eval "${lines[0]} -Wno-overlength-strings -o '$dir/jobrun' '$dir/gen/sql_text.c' '$build'/cmd/*.o '$build/libjobrun.a' ${lines[1]}"
	)
}

# with PROGRAM COMMAND...: the same with another program under test.
with() {
	local JOBRUN=$1

	shift
	"$@"
}

# oldest DIR: builds DIR/jobrun, the program under test with the first migrations and functions that a database can be brought up
# from: oldest.tar.xz.
oldest() {
	mkdir -p "$1"
	tar -xJf "$TOP/test/lib/oldest.tar.xz" -C "$1"
	variant "$1"
}

# previous DIR: DIR/jobrun is the version before, the whole program, from previous.tar.xz. It is built once, for all who want it.
previous() {
	local kept=$TOP/test/lib/previous.tar.xz built

	built=$TOP/build/previous/$(sha256sum <"$kept" | cut -c 1-12)
	mkdir -p "$1" "$built"
	(
		flock 9
		[ -x "$built/jobrun" ] || build_previous "$kept" "$built"
	) 9>"$built/lock"
	ln -s "$built/jobrun" "$1/jobrun"
	ln -s "$built/tree/migrations" "$1/migrations"
}

# It has no examples and no manual; its Makefile looks into the folder of the former.
build_previous() {
	rm -rf "$2/tree"
	mkdir -p "$2/tree/scripts/examples"
	tar -xJf "$1" -C "$2/tree"
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u SANITIZE make -s -j2 -C "$2/tree" BUILD=build CFLAGS=-O0 WARNINGS=-w HARDEN= build/jobrun >/dev/null 9>&-
	cp "$2/tree/build/jobrun" "$2/jobrun.new"
	mv "$2/jobrun.new" "$2/jobrun"
}

# released DIR BEFORE: builds DIR/jobrun, the program under test as it will be released after BEFORE: the number of its functions is
# higher. It rises once between two releases.
released() {
	copy_migrations "$1"
	[ "$(functions_number "$TOP")" -gt "$(functions_number "$2")" ] || raise_functions "$1"
	variant "$1"
}

# copy_migrations DIR: DIR/migrations is a copy of this tree's, to be changed.
copy_migrations() {
	mkdir -p "$1"
	cp -R "$TOP/migrations" "$1/migrations"
}

# raise_functions DIR: the number of its functions is one higher.
raise_functions() {
	local manifest=$1/migrations/MANIFEST number

	number=$(functions_number "$1")
	sed -i "s/^functions .*/functions $((number + 1))/" "$manifest"
}

# next DIR: DIR/migrations is what a later program may bring: a table with one more column, a view that has it, too, functions that are
# made anew, and one with one more parameter beside the old one.
next() {
	local migrations=$1/migrations version

	version=$(newest "$TOP")
	copy_migrations "$1"
	raise_functions "$1"
	cat >"$migrations/$(printf '%04d' $((version + 1)))_colour.sql" <<-'sql'
		drop function if exists jobrun.claim, jobrun.claim_job, jobrun.exec_claim;
		drop view if exists jobrun.held_runs;
		drop trigger if exists job_definitions_checked on jobrun.job_definitions;
		drop trigger if exists job_definitions_own on jobrun.job_definitions;
		drop function if exists jobrun.check_definition;
		alter table jobrun.job_runs add column colour text;
		alter table jobrun.job_runs_archive add column colour text;
	sql
	sed -i 's/ as slot_local,$/&\n	r.colour,/' "$migrations/functions/views.sql"
	cat >>"$migrations/functions/settle.sql" <<-'sql'

		create or replace function jobrun.settle_done(run_ids bigint[], claim_seqs bigint[], runner_id bigint, results jsonb[], colour text)
		returns void language sql as $fn$ select jobrun.settle_done(run_ids, claim_seqs, runner_id, results) $fn$;
	sql
	variant "$1"
}

# functions_number DIR: the number of its functions; newest DIR: its highest version.
functions_number() {
	sed -n 's/^functions //p' "$1/migrations/MANIFEST"
}

newest() {
	local file

	file=$(find "$1/migrations" -maxdepth 1 -name '[0-9]*.sql' | sort | tail -n 1)
	file=${file##*/}
	echo $((10#${file%%_*}))
}
