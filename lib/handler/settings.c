/*
 * settings: NAME.json, the settings of a handler.
 *
 * The file is checked in this order: the kind of the handler, all names, all values, and then contradictions between
 * values. So the error that is reported is the one to correct first. What must hold: *settings has either all settings
 * of the file, or is as after init.
 */
#include "handler/settings.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "handler/settings_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT(field) offsetof(struct jr_settings, field)
#define WORDS_MAX ((size_t)2 * JR_SETTINGS_MAX)
#define SQLSTATE_CHARACTERS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

void
jr_settings_init(struct jr_settings *settings)
{
	*settings = (struct jr_settings){.timeout_ms = -1,
	    .grace_ms = -1,
	    .timeout_max_ms = -1,
	    .limits = {.cpu_s = -1, .memory = -1, .files = -1, .processes = -1}};
}

void
jr_settings_release(struct jr_settings *settings)
{
	jr_rules_release(&settings->rules);
	jr_strings_free(settings->argv);
	jr_strings_free(settings->env);
	free(settings->cwd);
	free(settings->user);
	free(settings->home);
	free(settings->limits.groups);
	jr_http_target_free(settings->http);
	jr_settings_wipe(settings->ping);
	jr_settings_init(settings);
}

static bool
is_number(const json_t *value, int64_t min, int64_t max)
{
	return json_integer_value(value) >= min && json_integer_value(value) <= max;
}

/* One element of "give_up" or "later", as text for struct jr_codes; NULL after a refusal. Caller frees. */
static char *
read_code(const struct jr_reading *r, const struct jr_step *step, const json_t *value)
{
	const char *name = jr_step_name(step);
	int64_t min = r->kind == JR_WITH_HTTP ? 100 : 1, max = r->kind == JR_WITH_HTTP ? 599 : 255;
	const char *text = json_string_value(value);

	if (r->kind == JR_WITH_SQL && text == NULL)
		(void)jr_refuse_type(r, step, value, "strings like \"23505\" or \"23\"");
	else if (r->kind == JR_WITH_SQL && (strlen(text) == 5 || strlen(text) == 2) &&
		 text[strspn(text, SQLSTATE_CHARACTERS)] == '\0')
		return jr_xstrdup(text);
	else if (r->kind == JR_WITH_SQL)
		(void)jr_refuse(
		    r, step, "%s: \"%.100s\" is not an SQLSTATE: five of 0-9 and A-Z, or two for a class", name, text);
	else if (!json_is_integer(value))
		(void)jr_refuse_type(r, step, value, "whole numbers");
	else if (!is_number(value, min, max))
		(void)jr_refuse(r, step,
		    "%s: %" JSON_INTEGER_FORMAT " is out of range, expected %" PRId64 " to %" PRId64, name,
		    json_integer_value(value), min, max);
	else
		return jr_xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return NULL;
}

static bool
read_codes(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	struct jr_settings *settings = target;
	bool is_later = member->offset == AT(rules.later);
	struct jr_codes *codes = is_later ? &settings->rules.later : &settings->rules.give_up;

	if (!jr_read_list(r, step, value, true))
		return false;
	*(is_later ? &settings->rules.later_set : &settings->rules.give_up_set) = true;
	codes->items = jr_xcalloc(json_array_size(value) + 1, sizeof(*codes->items));
	for (size_t i = 0; i < json_array_size(value); i++) {
		const struct jr_step element = {.up = step, .index = i};
		char *code = read_code(r, &element, json_array_get(value, i));

		if (code == NULL)
			return false;
		codes->items[codes->count++] = code;
	}
	return true;
}

/* An empty list is shown as "never". */
static void
show_codes(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_rules *rules = &((const struct jr_settings *)target)->rules;
	bool is_later = member->offset == AT(rules.later);
	const struct jr_codes *codes = is_later ? &rules->later : &rules->give_up;

	if (is_later ? rules->later_set : rules->give_up_set)
		jr_show_list(out, member, codes->items, codes->count, "", "never");
}

static void
show_timeout(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	if (out->words != NULL && ((const struct jr_settings *)target)->timeout_ms == 0)
		jr_show_bare(out, "no timeout", "");
	else
		jr_show_duration(out, member, target);
}

/* clang-format off */
static const struct jr_member members[] = {
	{ .name = "timeout", .with = JR_WITH_ANY, .read = jr_read_duration, .show = show_timeout, .offset = AT(timeout_ms),
	    .rank = JR_RANK_TIMES, .key = "timeout_ms", .help = "how long an attempt may take, for runs without a timeout; \"0\": no limit" },
	{ .name = "timeout_max", .with = JR_WITH_ANY, .read = jr_read_duration, .show = jr_show_duration,
	    .offset = AT(timeout_max_ms), .min = 1, .rank = JR_RANK_TIMES, .key = "timeout_max_ms",
	    .help = "the longest timeout; runs without a timeout get this one" },
	{ .name = "grace", .with = JR_WITH_ANY, .read = jr_read_duration, .show = jr_show_duration, .offset = AT(grace_ms),
	    .rank = JR_RANK_TIMES, .key = "grace_ms", .help = "from TERM to KILL; 10s by default" },
	{ .name = "give_up", .with = JR_WITH_ANY, .read = read_codes, .show = show_codes, .offset = AT(rules.give_up),
	    .rank = JR_RANK_CODES, .label = "give up", .help = "exit statuses, HTTP statuses or SQLSTATEs: never try again" },
	{ .name = "later", .with = JR_WITH_ANY, .read = read_codes, .show = show_codes, .offset = AT(rules.later),
	    .rank = JR_RANK_CODES, .help = "the same: try again later, without counting the attempt" },
	{ .name = "argv", .with = JR_WITH_EXEC, .read = jr_read_argv, .show = jr_show_argv, .rank = JR_RANK_TARGET,
	    .key = "program", .help = "the program and its arguments, when there is no executable NAME" },
	{ .name = "env", .with = JR_WITH_EXEC, .read = jr_read_env, .show = jr_show_env, .rank = JR_RANK_ENV,
	    .help = "{\"NAME\": \"value\"}: more variables" },
	{ .name = "cwd", .with = JR_WITH_EXEC, .read = jr_read_path, .show = jr_show_text, .offset = AT(cwd),
	    .rank = JR_RANK_LIMITS, .help = "the working directory; the handlers directory by default" },
	{ .name = "nice", .with = JR_WITH_EXEC, .read = jr_read_nice, .show = jr_show_nice, .min = -20, .max = 19,
	    .rank = JR_RANK_LIMITS, .help = "-20 to 19" },
	{ .name = "cpu", .with = JR_WITH_EXEC, .read = jr_read_cpu, .show = jr_show_cpu, .rank = JR_RANK_LIMITS, .key = "cpu_s",
	    .help = "processor time, like \"30s\"" },
	{ .name = "memory", .with = JR_WITH_EXEC, .read = jr_read_memory, .show = jr_show_size, .offset = AT(limits.memory),
	    .rank = JR_RANK_LIMITS, .help = "address space, like \"512M\"; at least \"1M\"" },
	{ .name = "files", .with = JR_WITH_EXEC, .read = jr_read_int, .show = jr_show_int, .offset = AT(limits.files), .min = 8,
	    .max = INT_MAX, .rank = JR_RANK_LIMITS, .help = "open files, at least 8" },
	{ .name = "processes", .with = JR_WITH_EXEC, .read = jr_read_int, .show = jr_show_int, .offset = AT(limits.processes),
	    .min = 1, .max = INT_MAX, .rank = JR_RANK_LIMITS, .help = "processes of the whole account" },
	{ .name = "user", .with = JR_WITH_EXEC, .read = jr_read_user, .show = jr_show_text, .offset = AT(user),
	    .rank = JR_RANK_WHO, .help = "the account to run as, when root starts jobrun" },
	{ .name = "no_new_privs", .with = JR_WITH_EXEC, .read = jr_read_no_new_privs, .show = jr_show_no_new_privs,
	    .rank = JR_RANK_WHO, .help = "true: set-user-ID programs and sudo give no further rights; true with \"user\"" },
	{ .name = "isolate", .with = JR_WITH_EXEC, .read = jr_read_isolate, .show = jr_show_isolate, .rank = JR_RANK_WHO,
	    .help = "\"pidns\": a PID namespace for each attempt, so that no process of it is left; setsid escapes without" },
	{ .name = "batch", .with = JR_WITH_SQL, .read = jr_read_int, .show = jr_show_int, .offset = AT(batch), .min = 1,
	    .max = JR_BATCH_MAX, .rank = JR_RANK_WHO, .help = "how many runs one statement gets at most, 1 to 1000" },
	{ .name = "http", .with = JR_WITH_HTTP, .read = jr_read_http, .show = jr_show_http, .rank = JR_RANK_TARGET,
	    .help = "the request that a run makes" },
	{ .name = "ping", .with = JR_WITH_ANY, .read = jr_read_ping, .show = jr_show_ping, .rank = JR_RANK_WHO,
	    .help = "a URL, or \"file:PATH\": GET it when a run has succeeded, and URL/fail when one is dead" },
	{ .name = "ping_start", .with = JR_WITH_ANY, .read = jr_read_bool, .show = jr_show_ping_start, .offset = AT(ping_start),
	    .rank = JR_RANK_WHO, .label = "ping at starts", .help = "true: GET URL/start when a run starts; false by default" },
};
/* clang-format on */

char *
jr_settings_words(const struct jr_settings *settings)
{
	struct jr_buf words;
	struct jr_settings_out out = {.words = &words};
	char *text;

	jr_buf_init(&words, WORDS_MAX);
	jr_members_show(&out, members, JR_COUNT(members), settings);
	text = words.len > 0 ? jr_buf_detach(&words) : NULL;
	jr_buf_release(&words);
	return text;
}

json_t *
jr_settings_document(const struct jr_settings *settings)
{
	struct jr_settings_out out = {.object = json_object()};

	jr_members_show(&out, members, JR_COUNT(members), settings);
	return out.object;
}

static const char *
kind_words(unsigned with)
{
	return with == JR_WITH_ANY ? "all" : with == JR_WITH_EXEC ? "exec" : with == JR_WITH_SQL ? "sql" : "http";
}

void
jr_settings_describe(jr_setting_fn *each, void *ctx)
{
	for (size_t i = 0; i < JR_COUNT(members); i++)
		each(ctx, "", members[i].name, kind_words(members[i].with), members[i].help);
	for (size_t i = 0; i < jr_http_member_count; i++)
		each(ctx, "http.", jr_http_members[i].name, kind_words(jr_http_members[i].with),
		    jr_http_members[i].help);
}

/* Find the kind of the handler. "http" and "argv" are allowed only if there is no executable NAME and no NAME.sql. */
static bool
find_kind(struct jr_reading *r, const json_t *root)
{
	bool http = json_object_get(root, "http") != NULL;
	bool argv = json_object_get(root, "argv") != NULL;
	const struct jr_step step = {.key = http ? "http" : "argv"};

	if (r->what != JR_SETTINGS_ALONE && (http || argv))
		return jr_refuse(r, &step,
		    "\"%s\" makes a handler of its own, but there is %s file of that name: remove one of them",
		    step.key, r->what == JR_SETTINGS_SQL ? "a .sql" : "an executable");
	if (http && argv)
		return jr_refuse(r, &step, "\"http\" and \"argv\" are both here: a handler has one of them");
	if (r->what == JR_SETTINGS_SQL)
		r->kind = JR_WITH_SQL;
	else if (r->what == JR_SETTINGS_EXEC || argv)
		r->kind = JR_WITH_EXEC;
	else
		r->kind = http ? JR_WITH_HTTP : 0;
	r->settings->makes = http ? "http" : argv ? "argv" : NULL;
	return true;
}

static bool
has_code(const struct jr_codes *codes, const char *code)
{
	for (size_t i = 0; i < codes->count; i++) {
		if (strcmp(codes->items[i], code) == 0)
			return true;
	}
	return false;
}

/* Refuse a code with two meanings: in both lists, or in a list and in "expect". */
static bool
check_codes(const struct jr_reading *r, const char *name, const struct jr_codes *codes, const struct jr_codes *others)
{
	const struct jr_step list = {.key = name};

	for (size_t i = 0; i < codes->count; i++) {
		const struct jr_step step = {.up = &list, .index = i};

		if (others != NULL && has_code(others, codes->items[i]))
			return jr_refuse(r, &step, "%s: %s is in \"give_up\" too", name, codes->items[i]);
		if (r->settings->http != NULL &&
		    jr_http_target_expects(r->settings->http, strtol(codes->items[i], NULL, 10)))
			return jr_refuse(r, &step, "%s: %s means done, see \"expect\"", name, codes->items[i]);
	}
	return true;
}

/* A request without a timeout is limited by that of the attempt, if the settings have one; else by the default. */
static void
set_request_timeout(struct jr_settings *settings)
{
	if (settings->http != NULL && settings->http->timeout_ms < 0)
		settings->http->timeout_ms = settings->timeout_ms < 0 ? JR_HTTP_TIMEOUT_MS : JR_HTTP_NO_TIMEOUT;
}

static bool
read_root(struct jr_reading *r, const json_t *root)
{
	const struct jr_rules *rules = &r->settings->rules;

	if (!json_is_object(root))
		return jr_refuse(r, NULL, "expected an object, { ... }, not a list");
	if (!find_kind(r, root) || !jr_members_check(r, NULL, root, r->members, r->member_count))
		return false;
	if (r->kind == 0)
		return jr_refuse(r, NULL,
		    "\"http\" or \"argv\" is missing: there is neither an executable file nor a .sql file of that name");
	if (!jr_members_read(r, NULL, root, r->members, r->member_count, r->settings))
		return false;
	if (r->settings->ping_start && r->settings->ping == NULL)
		return jr_refuse(r, NULL, "ping_start: there is no \"ping\" that could hear of starts");
	set_request_timeout(r->settings);
	if (!r->settings->no_new_privs_said)
		r->settings->limits.no_new_privs = r->settings->limits.has_account;
	return check_codes(r, "give_up", &rules->give_up, NULL) &&
	       check_codes(r, "later", &rules->later, &rules->give_up);
}

/*
 * Report jansson's message. If it quotes a string from the file, the quotation is cut off, because it may be a secret.
 * The name of a duplicate member is not secret.
 */
static bool
refuse_syntax(const struct jr_reading *r, const json_error_t *error)
{
	const char *near = strstr(error->text, " near '\"");
	size_t len = near == NULL || json_error_code(error) == json_error_duplicate_key ? strlen(error->text)
											: (size_t)(near - error->text);

	if (r->text[strspn(r->text, " \t\r\n")] == '\0')
		return jr_refuse(r, NULL, "the file is empty; write {} if there are no settings");
	return jr_fail(r->err, JR_E_CONFIG, "%s:%d:%d: %.*s", r->file, error->line > 0 ? error->line : 1,
	    error->column > 0 ? error->column : 1, (int)len, error->text);
}

/* The contents of the file, terminated. NULL on failure; caller frees. */
static char *
read_file(const char *path, const char *file, size_t *len, bool *is_open, struct jr_err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *bytes = jr_xmalloc(JR_SETTINGS_MAX + 2);
	ssize_t got = -1;

	*len = 0;
	while (fd >= 0 && *len <= JR_SETTINGS_MAX && (got = read(fd, bytes + *len, JR_SETTINGS_MAX + 1 - *len)) > 0)
		*len += (size_t)got;
	if (fd < 0 || got < 0)
		jr_fail(err, JR_E_CONFIG, "%s: cannot read %s: %s", file, path, strerror(errno));
	else if (*len > JR_SETTINGS_MAX)
		jr_fail(err, JR_E_CONFIG, "%s: larger than %d bytes", file, JR_SETTINGS_MAX);
	*is_open = fd < 0 || fstat(fd, &st) < 0 || jr_settings_is_open(&st);
	if (fd >= 0)
		(void)close(fd);
	if (got < 0 || *len > JR_SETTINGS_MAX) {
		free(bytes);
		return NULL;
	}
	bytes[*len] = '\0';
	return bytes;
}

bool
jr_settings_read(struct jr_settings *settings, const char *path, const char *directory, enum jr_settings_for what,
    struct jr_err *err)
{
	const char *slash = strrchr(path, '/');
	struct jr_reading r = {.file = slash != NULL ? slash + 1 : path,
	    .path = path,
	    .directory = directory,
	    .members = members,
	    .member_count = JR_COUNT(members),
	    .what = what,
	    .settings = settings,
	    .err = err};
	json_error_t error;
	json_t *root;
	size_t len, mark;
	char *text = read_file(path, r.file, &len, &r.is_open, err);
	bool ok;

	jr_settings_init(settings);
	if (text == NULL)
		return false;
	mark = jr_text_mark(text, len);
	r.text = text + mark;
	root = json_loadb(r.text, len - mark, JSON_REJECT_DUPLICATES, &error);
	ok = root != NULL ? read_root(&r, root) : refuse_syntax(&r, &error);
	json_decref(root);
	free(text);
	if (!ok)
		jr_settings_release(settings);
	return ok;
}
