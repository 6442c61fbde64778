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

# previous DIR: builds DIR/jobrun, the program as it was before the number of the functions rose, from previous.tar.gz.
previous() {
	mkdir -p "$1"
	tar -xzf "$TOP/test/lib/previous.tar.gz" -C "$1"
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u SANITIZE make -s -j2 -C "$1" BUILD=build CFLAGS=-O0 WARNINGS=-w HARDEN= build/jobrun >/dev/null
	ln -s build/jobrun "$1/jobrun"
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
