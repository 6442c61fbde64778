/*
 * settings_exec: the members for exec handlers: program, environment, limits and account.
 *
 * The account and all its groups are looked up here, since the child must not look up anything between fork and exec.
 * What must hold: an invalid setting refuses the handler.
 */
#include "handler/settings_parts.h"

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "handler/document.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY_MIN INT64_C(1048576) /* no program starts with less */
#define ACCOUNT_BYTES_MAX 1048576   /* one line of passwd */
#define GROUPS_MAX 65536            /* the limit of the kernel */
#define ENV_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"
#define OWN_PREFIX "JOBRUN_"
#define PIDNS "pidns" /* "isolate" */

/* jobrun does not look up a bare name in PATH, as a shell would. trust.c checks the permissions of the file. */
static bool
check_program(const struct jr_reading *r, const struct jr_step *step, const char *name, const char *path)
{
	if (strchr(name, '/') != NULL || access(path, F_OK) == 0 || errno != ENOENT)
		return true;
	return jr_refuse(r, &(struct jr_step){.up = step},
	    "argv: there is no \"%.100s\" in the handlers directory, and PATH is not searched: write the whole path",
	    name);
}

bool
jr_read_argv(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_settings *settings = target;
	size_t count;

	(void)member;
	if (!jr_read_list(r, step, value, false))
		return false;
	count = json_array_size(value);
	settings->argv = jr_xcalloc(count + 1, sizeof(*settings->argv));
	for (size_t i = 0; i < count; i++) {
		const struct jr_step element = {.up = step, .index = i};
		const json_t *item = json_array_get(value, i);

		if (!json_is_string(item))
			return jr_refuse_type(r, &element, item, "strings");
		settings->argv[i] = jr_xstrdup(json_string_value(item));
	}
	if (settings->argv[0][0] == '\0')
		return jr_refuse(r, &(struct jr_step){.up = step}, "argv: expected the path of a program, not \"\"");
	free(settings->argv[0]);
	settings->argv[0] = jr_settings_path(r->directory, json_string_value(json_array_get(value, 0)));
	return check_program(r, step, json_string_value(json_array_get(value, 0)), settings->argv[0]);
}

static bool
is_env_name(const char *name)
{
	return name[0] != '\0' && (name[0] < '0' || name[0] > '9') && name[strspn(name, ENV_CHARACTERS)] == '\0';
}

static bool
check_env(const struct jr_reading *r, const struct jr_step *step, const json_t *value)
{
	if (!is_env_name(step->key))
		return jr_refuse(
		    r, step, "env: \"%.100s\" cannot be a variable: letters, digits and _, no digit first", step->key);
	if (strncmp(step->key, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0)
		return jr_refuse(
		    r, step, "env.%.100s: jobrun itself sets variables that begin with %s", step->key, OWN_PREFIX);
	if (!json_is_string(value))
		return jr_refuse(r, step, "env.%.100s: expected a string, not %s", step->key, jr_type_word(value));
	return true;
}

bool
jr_read_env(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	struct jr_settings *settings = target;
	size_t used = 0;

	(void)member;
	if (!json_is_object(value))
		return jr_refuse_type(r, step, value, "an object of names and strings");
	if (json_object_size(value) > JR_SETTINGS_LIST_MAX)
		return jr_refuse(r, step, "env: more than %d variables", JR_SETTINGS_LIST_MAX);
	settings->env = jr_xcalloc(json_object_size(value) + 1, sizeof(*settings->env));
	for (void *i = json_object_iter(jr_unconst(value)); i != NULL;
	     i = json_object_iter_next(jr_unconst(value), i)) {
		const struct jr_step variable = {.up = step, .key = json_object_iter_key(i)};
		const json_t *text = json_object_iter_value(i);

		if (!check_env(r, &variable, text))
			return false;
		settings->env[used++] = jr_xasprintf("%s=%s", variable.key, json_string_value(text));
	}
	return true;
}

/* Rounded up to seconds, the unit of the kernel. */
bool
jr_read_cpu(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const struct jr_member *member,
    void *target)
{
	struct jr_settings *settings = target;
	const struct jr_member duration = {.name = member->name, .min = 1};
	int64_t ms = 0;

	if (!jr_read_duration(r, step, value, &duration, &ms))
		return false;
	settings->limits.cpu_s = (ms + 999) / 1000;
	return true;
}

bool
jr_read_nice(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_settings *settings = target;
	const struct jr_member number = {.name = member->name, .min = member->min, .max = member->max};
	int64_t nice_value = 0;

	if (!jr_read_int(r, step, value, &number, &nice_value))
		return false;
	settings->limits.has_nice = true;
	settings->limits.nice = (int)nice_value;
	return true;
}

/* "512M": a whole number and K, M or G, or nothing for bytes. */
static bool
parse_size(const char *text, int64_t *bytes)
{
	static const struct {
		char letter;
		int64_t factor;
	} units[] = {{'K', 1024}, {'M', 1048576}, {'G', 1073741824}};
	size_t len = strlen(text);
	int64_t factor = 1;
	struct jr_err err;
	char *digits;
	bool ok;

	for (size_t i = 0; len > 1 && i < JR_COUNT(units); i++) {
		if (text[len - 1] == units[i].letter)
			factor = units[i].factor;
	}
	digits = jr_xmemdup0(text, factor > 1 ? len - 1 : len);
	ok = jr_parse_int("", digits, 0, INT64_MAX, bytes, &err) && !__builtin_mul_overflow(*bytes, factor, bytes);
	free(digits);
	return ok;
}

bool
jr_read_memory(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	struct jr_settings *settings = target;
	int64_t bytes = 0;

	(void)member;
	if (json_is_integer(value))
		bytes = json_integer_value(value);
	else if (!json_is_string(value))
		return jr_refuse_type(r, step, value, "a size like \"512M\"");
	else if (!parse_size(json_string_value(value), &bytes))
		return jr_refuse(r, step,
		    "memory: \"%.100s\" is not a size; write it like \"512M\": a whole number and K, M or G",
		    json_string_value(value));
	if (bytes < MEMORY_MIN)
		return jr_refuse(r, step,
		    "memory: %lld bytes are too little, at least \"1M\": no program starts with less",
		    (long long)bytes);
	settings->limits.memory = bytes;
	return true;
}

/* Get all groups of the account. false: it has more than GROUPS_MAX. */
static bool
read_groups(const struct passwd *account, struct jr_limits *limits)
{
	int size = 32;

	for (;;) {
		gid_t *groups = jr_xcalloc((size_t)size, sizeof(*groups));
		int count = size;

		if (getgrouplist(account->pw_name, account->pw_gid, groups, &count) >= 0) {
			limits->groups = groups;
			limits->group_count = (size_t)count;
			return true;
		}
		free(groups);
		if (size >= GROUPS_MAX)
			return false;
		size = count > size && count <= GROUPS_MAX ? count : size * 2;
	}
}

/* Returns 0, ENOENT or another errno. The caller frees *bytes in any case. */
static int
find_account(const char *name, struct passwd *account, char **bytes)
{
	for (size_t size = 1024; size <= ACCOUNT_BYTES_MAX; size *= 2) {
		struct passwd *found = NULL;
		int answer;

		free(*bytes);
		*bytes = jr_xmalloc(size);
		answer = getpwnam_r(name, account, *bytes, size, &found);
		if (answer == ERANGE)
			continue;
		/* Some services return an errno if there is no such account. */
		if (found == NULL)
			return answer == 0 || answer == ESRCH || answer == EBADF || answer == EPERM ? ENOENT : answer;
		return 0;
	}
	return ERANGE;
}

static bool
look_up(const struct jr_reading *r, const struct jr_step *step, const char *name, struct jr_settings *settings)
{
	struct passwd account;
	char *bytes = NULL;
	int answer = find_account(name, &account, &bytes);
	bool ok = false;

	if (answer == ENOENT) {
		(void)jr_refuse(r, step, "user: there is no account \"%.100s\" on this host", name);
	} else if (answer != 0) {
		(void)jr_refuse(r, step, "user: could not look up \"%.100s\": %s", name, strerror(answer));
	} else if (!read_groups(&account, &settings->limits)) {
		(void)jr_refuse(r, step, "user: \"%.100s\" is in more than %d groups", name, GROUPS_MAX);
	} else {
		settings->limits.has_account = true;
		settings->limits.uid = account.pw_uid;
		settings->limits.gid = account.pw_gid;
		settings->user = jr_xstrdup(name);
		settings->home = jr_xstrdup(account.pw_dir);
		ok = true;
	}
	free(bytes);
	return ok;
}

bool
jr_read_user(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	const char *name = jr_read_text(r, step, value, "the name of an account");

	(void)member;
	if (name == NULL)
		return false;
	if (name[strspn(name, "0123456789")] == '\0')
		return jr_refuse(r, step, "user: \"%.100s\" is a number; write the account's name", name);
	if (geteuid() != 0)
		return jr_refuse(r, step, "user: a handler can run as \"%.100s\" only if root starts jobrun", name);
	return look_up(r, step, name, target);
}

void
jr_show_argv(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_settings *settings = target;

	if (settings->argv == NULL)
		return;
	jr_show_bare(out, "", settings->argv[0]);
	jr_show_value(out, member, jr_document_string(settings->argv[0], strlen(settings->argv[0])));
}

void
jr_show_env(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_settings *settings = target;

	if (settings->env != NULL)
		jr_show_list(out, member, settings->env, jr_strings_count(settings->env), "=", NULL);
}

void
jr_show_cpu(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_settings *settings = target;
	char *words;

	if (settings->limits.cpu_s < 0)
		return;
	words = jr_format_duration(settings->limits.cpu_s * 1000);
	jr_show_words(out, member, words);
	jr_show_value(out, member, json_integer(settings->limits.cpu_s));
	free(words);
}

void
jr_show_nice(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_limits *limits = &((const struct jr_settings *)target)->limits;
	char words[24];

	if (!limits->has_nice)
		return;
	(void)snprintf(words, sizeof(words), "%d", limits->nice);
	jr_show_words(out, member, words);
	jr_show_value(out, member, json_integer(limits->nice));
}

/* With `user` the default is true. Only the JSON document shows the default. */
void
jr_show_no_new_privs(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const struct jr_settings *settings = target;

	if (settings->no_new_privs_said)
		jr_show_words(out, member, settings->limits.no_new_privs ? "true" : "false");
	if (settings->no_new_privs_said || settings->user != NULL)
		jr_show_value(out, member, json_boolean(settings->limits.no_new_privs));
}

bool
jr_read_no_new_privs(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	const struct jr_member flag = {.name = member->name};
	struct jr_settings *settings = target;

	settings->no_new_privs_said = true;
	return jr_read_bool(r, step, value, &flag, &settings->limits.no_new_privs);
}

/* Whether this host allows it is asked when the whole handler is judged. */
bool
jr_read_isolate(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target)
{
	static const char *const words[] = {PIDNS};
	const char *word = jr_read_text(r, step, value, "\"" PIDNS "\"");

	(void)member;
	if (word == NULL)
		return false;
	((struct jr_settings *)target)->isolate = true;
	if (strcmp(word, PIDNS) == 0)
		return true;
	if (jr_text_nearest(word, words, JR_COUNT(words)) != NULL)
		return jr_refuse(r, step, "isolate: unknown value \"%.100s\"; did you mean \"" PIDNS "\"?", word);
	return jr_refuse(r, step, "isolate: unknown value \"%.100s\"; the known one is \"" PIDNS "\"", word);
}

void
jr_show_isolate(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	if (!((const struct jr_settings *)target)->isolate)
		return;
	jr_show_words(out, member, PIDNS);
	jr_show_value(out, member, json_string(PIDNS));
}
