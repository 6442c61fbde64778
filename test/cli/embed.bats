# scripts/embed-sql: what the program carries is what the files say, byte for byte, except that only the name is kept of a statement's
# head comment.

load ../lib/common

setup() {
	test_environment
	mkdir -p lib/sql cmd/sql migrations/functions
	printf 'oldest 1 1\nfunctions 1\n' >migrations/MANIFEST
}

teardown() {
	check_no_strays
}

embed() {
	run --separate-stderr "$TOP/scripts/embed-sql" out
}

# compile NAME...: a program that writes jr_sql_NAME to the file NAME, migration n to the file migration.n, and the n-th file of
# functions to functions.n.
compile() {
	local name

	{
		echo '#include "sql_text.h"'
		echo '#include <stdio.h>'
		echo 'static void write_to(const char *file, const char *text)'
		echo '{ FILE *f = fopen(file, "w"); if (f) { fputs(text, f); fclose(f); } }'
		echo 'int main(void) { char file[32];'
		for name in "$@"; do
			printf 'write_to("%s", jr_sql_%s);\n' "$name" "$name"
		done
		echo 'for (size_t i = 0; i < jr_migration_count; i++) {'
		echo 'snprintf(file, sizeof(file), "migration.%d", jr_migrations[i].version);'
		echo 'write_to(file, jr_migrations[i].sql);'
		echo 'printf("%d %s %s\n", jr_migrations[i].version, jr_migrations[i].name, jr_migrations[i].checksum);'
		echo '} for (size_t i = 0; i < jr_function_count; i++) {'
		echo 'snprintf(file, sizeof(file), "functions.%d", (int)i);'
		echo 'write_to(file, jr_functions[i].sql);'
		echo 'printf("%s\n", jr_functions[i].name);'
		echo '} if (jr_function_count > 0) printf("%d %d %d %s\n", jr_schema_oldest, jr_functions_oldest, jr_functions_number, jr_functions_checksum);'
		echo 'return jr_migrations[jr_migration_count].sql != NULL; }'
	} >out/main.c
	"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -Wno-overlength-strings -Iout -o out/main out/main.c out/sql_text.c
}

@test "a statement is embedded byte for byte" {
	printf 'select 1;\n' >lib/sql/plain.sql
	printf 'select E'\''\\n\\\\'\'', "a""b", 100%% of %%s, $1; -- \\041\n\n\ttab\n' >lib/sql/quotes.sql
	printf '?""?= ??/ ??'\'' ??( ???\n' >lib/sql/trigraphs.sql
	printf 'caf\303\251 \377\200\001\033[0m1 \0109\n' >lib/sql/bytes.sql
	printf 'no final newline' >lib/sql/cut.sql
	printf 'dos\r\nlines\r\n' >lib/sql/dos.sql
	: >lib/sql/empty.sql
	embed
	assert_success
	compile plain quotes trigraphs bytes cut dos empty
	./out/main
	for name in plain quotes trigraphs bytes cut dos empty; do
		cmp "$name" "lib/sql/$name.sql"
	done
}

@test "only the name is embedded of the comment that a statement begins with" {
	printf -- '-- one: what it does.\n-- More: of that.\n--\nselect 1 -- one: 1\n-- stays\n' >lib/sql/one.sql
	printf -- '-- two:2\n-- stays\nselect 2::int\n' >lib/sql/two.sql
	printf -- 'select 3 -- three: 3\n-- stays\n' >lib/sql/three.sql
	printf -- '-- four: all of it\n-- is comment\n' >lib/sql/four.sql
	embed
	assert_success
	compile one two three four
	./out/main
	assert_equal "$(cat one)" $'-- one\nselect 1 -- one: 1\n-- stays'
	cmp two lib/sql/two.sql
	cmp three lib/sql/three.sql
	assert_equal "$(cat four)" '-- four'
}

@test "a line '-- include NAME' stands for a part, which may have parts; a part that is missing is an error" {
	printf -- '-- outer: why\n-- more\nselect 1\n\t-- include inner_part\nfrom a\n' >cmd/sql/outer.sql
	printf -- '-- why\n\twhere 2\n-- include innermost\n' >cmd/sql/inner_part.part
	printf 'and 3\n' >cmd/sql/innermost.part
	embed
	assert_success
	compile outer
	out/main
	printf -- '-- outer\nselect 1\n-- why\n\twhere 2\nand 3\nfrom a\n' | cmp - outer
	rm cmd/sql/innermost.part
	embed
	assert_failure
	[[ $stderr == *"there is no cmd/sql/innermost.part"* ]]
	printf -- '-- include innermost\n' >cmd/sql/innermost.part
	embed
	assert_failure
	[[ $stderr == *"include each other"* ]]
}

@test "a style sheet is embedded byte for byte" {
	mkdir -p cmd/report
	printf 'a::before { content: "\\25B2"; } /* ?\?( caf\303\251 */\n' >cmd/report/some.css
	embed
	assert_success
	printf '#include "sql_text.h"\n#include <stdio.h>\nint main(void) { return fputs(jr_css_some, stdout) < 0; }\n' >out/main.c
	"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -Wno-overlength-strings -Iout -o out/main out/main.c out/sql_text.c
	./out/main | cmp - cmd/report/some.css
}

@test "every byte but NUL is embedded, next to digits and letters too" {
	for ((byte = 1; byte < 256; byte++)); do
		hex=$(printf '\\x%02x' "$byte")
		printf '%b0a7F%b' "$hex" "$hex"
	done >lib/sql/all.sql
	[ "$(wc -c <lib/sql/all.sql)" -eq $((255 * 6)) ]
	embed
	assert_success
	compile all
	./out/main
	cmp all lib/sql/all.sql
}

@test "a long statement is embedded whole" {
	for ((i = 0; i < 3000; i++)); do
		echo "select $i, 'padding that makes the text longer than any limit of a literal';"
	done >lib/sql/long.sql
	embed
	assert_success
	compile long
	./out/main
	cmp long lib/sql/long.sql
}

@test "a NUL byte is refused" {
	printf 'select 1\0;\n' >lib/sql/nul.sql
	embed
	assert_failure
	[[ $stderr == *"lib/sql/nul.sql: a NUL byte"* ]]
	[ ! -e out/sql_text.c ]
}

@test "a name that is no C name is refused" {
	echo 'select 1;' >lib/sql/not-good.sql
	embed
	assert_failure
	[[ $stderr == *not-good.sql* ]]
}

@test "migrations are embedded in order, with version, name and checksum" {
	printf 'create table b ();' >migrations/0002_second_one.sql
	printf 'create table "a" ();\n' >migrations/0001_initial.sql
	embed
	assert_success
	compile
	run ./out/main
	assert_success
	assert_line -n 0 "1 initial $(sha256sum <migrations/0001_initial.sql | cut -d ' ' -f 1)"
	assert_line -n 1 "2 second_one $(sha256sum <migrations/0002_second_one.sql | cut -d ' ' -f 1)"
	cmp migration.1 migrations/0001_initial.sql
	cmp migration.2 migrations/0002_second_one.sql
}

@test "the first migration may have any number" {
	touch migrations/0041_one.sql migrations/0042_two.sql
	embed
	assert_success
	compile
	run ./out/main
	assert_line -n 1 --regexp '^42 two '
}

@test "functions are embedded in the order of the manifest, with one number and one checksum" {
	printf 'select 1;' >migrations/functions/last.sql
	printf 'select "2";\n' >migrations/functions/first.sql
	printf '# order\n\noldest 3 5\nfunctions 17\nfirst\nlast\n' >migrations/MANIFEST
	embed
	assert_success
	compile
	run ./out/main
	assert_success
	assert_output "first
last
3 5 17 $(cat migrations/functions/{first,last}.sql | sha256sum | cut -d ' ' -f 1)"
	cmp functions.0 migrations/functions/first.sql
	cmp functions.1 migrations/functions/last.sql
}

# manifest LINE...: what the manifest says; embed must fail, and say it with a text like REGEX.
manifest_refused() {
	local regex=$1

	shift
	printf '%s\n' "$@" >migrations/MANIFEST
	embed
	assert_failure
	assert_regex "$stderr" "$regex"
}

@test "a manifest that leaves a file out, names one twice or one that is not there, or lacks a number is refused" {
	touch migrations/functions/{a,b}.sql
	manifest_refused 'it does not name migrations/functions/b.sql' 'oldest 1 1' 'functions 1' a
	manifest_refused 'it names a twice' 'oldest 1 1' 'functions 1' a b a
	manifest_refused 'there is no migrations/functions/c.sql' 'oldest 1 1' 'functions 1' a b c
	manifest_refused "no line like 'oldest" 'functions 1' a b
	manifest_refused "no line like 'oldest" 'oldest 1' 'functions 1' a b
	manifest_refused "no line like 'functions" 'oldest 1 1' 'functions' a b
	rm migrations/MANIFEST
	embed
	assert_failure
}

@test "embed-sql takes migrations from another folder" {
	mkdir -p other/functions
	printf 'oldest 1 1\nfunctions 1\n' >other/MANIFEST
	touch other/0001_other.sql migrations/0001_this.sql
	run --separate-stderr "$TOP/scripts/embed-sql" out other
	assert_success
	compile
	run ./out/main
	assert_line -n 0 --regexp '^1 other '
}

@test "without any file embed-sql succeeds and counts no migration" {
	embed
	assert_success
	compile
	run ./out/main
	assert_success
	assert_output ""
}

@test "a gap, a second migration of one number, and a bad name are refused" {
	touch migrations/0001_one.sql migrations/0003_three.sql
	embed
	assert_failure
	[[ $stderr == *"0003_three.sql: number 2 was expected"* ]]
	rm migrations/0003_three.sql
	touch migrations/0001_again.sql
	embed
	assert_failure
	rm migrations/0001_again.sql
	touch migrations/0002_one.sql
	embed
	assert_failure
	[[ $stderr == *"another migration of this name"* ]]
	rm migrations/0002_one.sql
	touch migrations/0002_functions.sql
	embed
	assert_failure
	rm migrations/0002_functions.sql
	touch migrations/2_two.sql
	embed
	assert_failure
	[[ $stderr == *NNNN_name.sql* ]]
}

@test "the header keeps its modification time when only a text has changed" {
	echo 'select 1;' >lib/sql/one.sql
	embed
	assert_success
	touch -d '2001-01-01' out/sql_text.h
	echo 'select 2;' >lib/sql/one.sql
	embed
	assert_success
	[ "$(stat -c %Y out/sql_text.h)" -eq "$(date -d '2001-01-01' +%s)" ]
	grep -q 'select 2' out/sql_text.c
}

# without_words FILE: what the program carries of a statement.
without_words() {
	head -n 1 "$1" | cut -d : -f 1
	awk '!/^--/ { body = 1 } body' "$1"
}

@test "the SQL files of this repository are embedded byte for byte, and of the head comment of a statement only the name" {
	names=()
	for file in "$TOP"/lib/sql/*.sql "$TOP"/cmd/sql/*.sql; do
		file=${file##*/}
		names+=("${file%.sql}")
	done
	rm -r lib cmd migrations
	ln -s "$TOP/lib" lib
	ln -s "$TOP/cmd" cmd
	ln -s "$TOP/migrations" migrations
	embed
	assert_success
	compile "${names[@]}"
	./out/main >listing
	for name in "${names[@]}"; do
		file=lib/sql/$name.sql
		[ -e "$file" ] || file=cmd/sql/$name.sql
		grep -q -- '-- include ' "$file" || cmp "$name" <(without_words "$file")
	done
	for file in migrations/[0-9]*.sql; do
		version=$(basename "$file" | grep -o '^[0-9]*')
		cmp "migration.$((10#$version))" "$file"
	done
	n=0
	for name in $(sed -n '/ /!p' listing); do
		cmp "functions.$n" "migrations/functions/$name.sql"
		n=$((n + 1))
	done
	assert_equal "$n" "$(find migrations/functions/ -name '*.sql' | wc -l)"
}
