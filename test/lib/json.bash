# shellcheck shell=bash disable=SC2016,SC2154 # jq expands the text; bats sets output; GOLDEN comes from the environment
#
# What --json prints, against test/cli/golden/*.json. GOLDEN=write writes these files anew instead.

# What must hold for every document: an object with "version": 1 as its first member, and for its members the rules of
# jobrun-json(7): which are times, and the words of a status. What applications and files define is left out.
json_rules='
	def theirs: ["payload", "progress", "checkpoint", "result", "settings", "old", "new"];
	def is_time: test("(_at|_until)$|^slot$");
	def is_local: test("^slot(_until)?_local$");
	def utc: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?[+]00:00$";
	def words: ["queued", "retrying", "running", "succeeded", "dead", "cancelled", null];
	(if type != "object" or keys_unsorted[0] != "version" or .version != 1 then "it does not begin with \"version\": 1" else empty end),
	(. as $doc | paths(scalars or . == null) | select(all(.[]; . as $p | theirs | index([$p]) == null)) as $path
		| $path[-1] as $name | ($doc | getpath($path)) as $value | ($path | map(tostring) | join(".")) as $where
		| select($name | type == "string")
		| if ($name | is_time) and $value != null and ($value | type != "string" or (test(utc) | not)) then "\($where) is not a time in UTC: \($value)"
		elif $name == "status" and (words | index([$value]) == null) then "\($where) is no status: \($value)"
		elif ($value | type) == "string" and ($name | is_time or is_local | not) and ($value | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]"))
			then "\($where) is a time, and its name does not say so"
		elif $name == "last_error" then "\($where): the name is error"
		else empty end)'

# What differs from one run of the test to the next: the times since $JSON_BEGAN.
json_fixed='
	def now_is($began; $now): if type == "string" and . >= $began and . <= $now then "(now)" else . end;
	walk(if type == "object" then with_entries(if .key | test("(_at|_until)$") then .value |= now_is($began; $now) else . end) else . end)'

# assert_json NAME [FILTER]: $output is as documented, and but for what the jq filter changes it is the file NAME.json.
assert_json() {
	local file=$BATS_TEST_DIRNAME/golden/$1.json found twice wrong

	twice=$(jq -nr --stream '[inputs | select(length == 2) | .[0]] | group_by(.)[] | select(length > 1) | .[0] | map(tostring) | join(".")' \
		<<<"$output") || fail "$1 is not JSON: $output"
	[ -z "$twice" ] || fail "$1 has members twice: $twice"
	# All are written alike: a blank stands in strings, and before the next element of a list on a line of its own.
	wrong=$(sed -E 's/"([^"\\]|\\.)*"/""/g' <<<"$output" | grep -E '[^ ][[:blank:]]' | head -c 200) || true
	[ -z "$wrong" ] || fail "$1 has blanks between its members: $wrong"
	wrong=$(jq -r "$json_rules" <<<"$output")
	[ -z "$wrong" ] || fail "$1: $wrong"
	found=$(jq --arg began "$JSON_BEGAN" --arg now "$(json_now)" "$json_fixed | ${2:-.}" <<<"$output")
	if [ "${GOLDEN:-}" = write ]; then
		printf '%s\n' "$found" >"$file"
	fi
	diff -u "$file" - <<<"$found" >"$TMPDIR/diff" || fail "$1 is not what it was. If it should be: GOLDEN=write make bats T=test/cli/json.bats
$(cat "$TMPDIR/diff")"
}

json_now() {
	q "select to_json(clock_timestamp() at time zone 'UTC') #>> '{}' || '+00:00'"
}

# json NAME FILTER ARGUMENT...: jobrun ARGUMENT... --json prints that document. FILTER may be "."; STATUS=N: with that exit status.
json() {
	local name=$1 filter=$2

	shift 2
	jr "$@" --json
	assert_equal "$status" "${STATUS:-0}"
	assert_json "$name" "$filter"
}
