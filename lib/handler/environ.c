/*
 * environ: the environment of an exec handler.
 *
 * A handler may print its environment or leave it in a core file. So it inherits what a jobrun inside it needs to
 * connect (PGHOST, PGSERVICE, a URL without a password), but no secrets. A URL with a password that handlers should
 * have goes into JOBRUN_HANDLER_DATABASE_URL: they get it as JOBRUN_DATABASE_URL. What must hold: no variable that is
 * set here occurs twice.
 */
#include "handler/environ.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define OWN_PREFIX "JOBRUN_"
#define HANDLER_URL "JOBRUN_HANDLER_DATABASE_URL"

struct names {
	char **items;
	size_t count;
	size_t size;
};

/* Takes `item`. */
static void
push(struct names *names, char *item)
{
	if (names->count == names->size) {
		names->size = names->size == 0 ? 64 : names->size * 2;
		names->items = jr_xrealloc(names->items, names->size, sizeof(*names->items));
	}
	names->items[names->count++] = item;
}

static void
set(struct names *names, const char *name, const char *value)
{
	if (value != NULL)
		push(names, jr_xasprintf("%s=%s", name, value));
}

static void
set_int(struct names *names, const char *name, int64_t value)
{
	push(names, jr_xasprintf("%s=%lld", name, (long long)value));
}

/* The value if `item` is NAME=value, else NULL. */
static const char *
value_of(const char *item, const char *name)
{
	size_t len = strlen(name);

	return strncmp(item, name, len) == 0 && item[len] == '=' ? item + len + 1 : NULL;
}

/* Does it describe one run? Such a variable in our own environment was set by an outer run. */
static bool
is_of_run(const char *item)
{
	static const char *const names[] = {"JOBRUN_RUN_ID", "JOBRUN_CLAIM", "JOBRUN_TYPE", "JOBRUN_QUEUE",
	    "JOBRUN_ATTEMPT", "JOBRUN_MAX_ATTEMPTS", "JOBRUN_KEY", "JOBRUN_SLOT", "JOBRUN_SLOT_LOCAL",
	    "JOBRUN_DEADLINE", "JOBRUN_OUT", "JOBRUN_CHECKPOINT"};

	for (size_t i = 0; i < JR_COUNT(names); i++) {
		if (value_of(item, names[i]) != NULL)
			return true;
	}
	return false;
}

/*
 * Does its value contain a PostgreSQL password? DATABASE_URL and JOBRUN_DATABASE_URL count with any password, since
 * they may hold a URL that libpq cannot parse.
 */
static bool
is_secret(const char *item)
{
	const char *url = value_of(item, "JOBRUN_DATABASE_URL"), *value = strchr(item, '=');

	if (url == NULL)
		url = value_of(item, "DATABASE_URL");
	return (url != NULL && jr_environ_has_password(url)) || (value != NULL && jr_environ_reveals(value + 1));
}

/*
 * Is the handler kept from inheriting it? has_url: the handler gets another JOBRUN_DATABASE_URL.
 */
static bool
is_left_out(const char *item, bool has_url)
{
	if (strncmp(item, "LD_", 3) == 0 || value_of(item, "PGPASSWORD") != NULL ||
	    value_of(item, HANDLER_URL) != NULL || value_of(item, "JOBRUN_PING") != NULL || is_of_run(item))
		return true;
	return (has_url && value_of(item, "JOBRUN_DATABASE_URL") != NULL) || is_secret(item);
}

void
jr_environ_log_left_out(char *const *base)
{
	for (; *base != NULL; base++) {
		char *reason;

		if (value_of(*base, HANDLER_URL) != NULL || !is_secret(*base))
			continue;
		reason =
		    jr_xasprintf("%.*s contains a connection string with a password", (int)strcspn(*base, "="), *base);
		jr_log(JR_INFO, JR_EVENT_VARIABLE_LEFT_OUT, JR_S("reason", reason));
		free(reason);
	}
}

/* May a handler of another account inherit it? Nothing that belongs to our own account. */
static bool
is_for_everybody(const char *item)
{
	static const char *const names[] = {"PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"};

	for (size_t i = 0; i < JR_COUNT(names); i++) {
		if (value_of(item, names[i]) != NULL)
			return true;
	}
	return strncmp(item, "LC_", 3) == 0 || strncmp(item, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0;
}

static bool
is_our_own(const char *item)
{
	return strncmp(item, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0;
}

/* Do the settings set the variable of `item`? JOBRUN_* in the settings is ignored. */
static bool
is_replaced(const char *item, char *const *env)
{
	size_t len = strcspn(item, "=");

	for (; env != NULL && *env != NULL; env++) {
		if (strncmp(*env, item, len) == 0 && (*env)[len] == '=' && !is_our_own(*env))
			return true;
	}
	return false;
}

static void
add_account(struct names *names, const struct jr_environ_extra *extra)
{
	static const char *const user_names[] = {"USER", "LOGNAME"};

	if (extra->user == NULL)
		return;
	if (extra->home != NULL && !is_replaced("HOME", extra->env))
		set(names, "HOME", extra->home);
	for (size_t i = 0; i < JR_COUNT(user_names); i++) {
		if (!is_replaced(user_names[i], extra->env))
			set(names, user_names[i], extra->user);
	}
}

static void
add_settings(struct names *names, char *const *env)
{
	for (; env != NULL && *env != NULL; env++) {
		if (!is_our_own(*env))
			push(names, jr_xstrdup(*env));
	}
}

/* The variables that describe the run, and the terminating NULL: called last. */
static void
add_run(struct names *names, const struct jr_run *run, int64_t deadline_wall_ms, const struct jr_environ_extra *extra)
{
	set_int(names, "JOBRUN_RUN_ID", run->id);
	set_int(names, "JOBRUN_CLAIM", run->claim_seq);
	set(names, "JOBRUN_TYPE", run->job_type);
	set(names, "JOBRUN_QUEUE", run->queue);
	set_int(names, "JOBRUN_ATTEMPT", run->attempts);
	set_int(names, "JOBRUN_MAX_ATTEMPTS", run->max_attempts);
	set(names, "JOBRUN_KEY", run->key);
	set(names, "JOBRUN_SLOT", run->slot);
	set(names, "JOBRUN_SLOT_LOCAL", run->slot_local);
	if (deadline_wall_ms != JR_NEVER)
		set_int(names, "JOBRUN_DEADLINE", deadline_wall_ms / 1000);
	set(names, "JOBRUN_OUT", extra->out);
	set(names, "JOBRUN_CHECKPOINT", extra->checkpoint);
	push(names, NULL);
}

char **
jr_environ_inherit(char *const *base)
{
	struct names names = {0};
	const char *url = NULL;

	for (size_t i = 0; base[i] != NULL; i++) {
		const char *value = value_of(base[i], HANDLER_URL);

		if (value != NULL && value[0] != '\0')
			url = value;
	}
	for (size_t i = 0; base[i] != NULL; i++) {
		if (!is_left_out(base[i], url != NULL))
			push(&names, jr_xstrdup(base[i]));
	}
	set(&names, "JOBRUN_DATABASE_URL", url);
	push(&names, NULL);
	return names.items;
}

char **
jr_environ_make(
    char *const *inherited, const struct jr_run *run, int64_t deadline_wall_ms, const struct jr_environ_extra *extra)
{
	struct names names = {0};

	for (; *inherited != NULL; inherited++) {
		if (!is_replaced(*inherited, extra->env) && (extra->user == NULL || is_for_everybody(*inherited)))
			push(&names, jr_xstrdup(*inherited));
	}
	add_account(&names, extra);
	add_settings(&names, extra->env);
	add_run(&names, run, deadline_wall_ms, extra);
	return names.items;
}

char **
jr_environ_keep(
    char *const *base, const struct jr_run *run, int64_t deadline_wall_ms, const struct jr_environ_extra *extra)
{
	struct names names = {0};

	for (size_t i = 0; base[i] != NULL; i++) {
		if (!is_of_run(base[i]))
			push(&names, jr_xstrdup(base[i]));
	}
	add_run(&names, run, deadline_wall_ms, extra);
	return names.items;
}
