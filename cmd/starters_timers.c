/*
 * starters_timers: timers of systemd whose services start runners.
 *
 * The unit files are read: systemctl would need a bus, and of a user's units a session. A timer that is linked into
 * timers.target.wants is enabled.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "starters_parts.h"

#define PREFIXES "@-:+!" /* may stand before a command */
#define SYSTEMD_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Where units of one manager are, the first one that has a unit counts. NULL-terminated. */
struct scope {
	const char *name;
	char *directories[6];
	size_t count;
};

static bool
is_timer(const char *name)
{
	size_t len = strlen(name), ending = strlen(".timer");

	return len > ending && strcmp(name + len - ending, ".timer") == 0;
}

/* The value of the first line "NAME=...", without prefixes; NULL: there is none. Caller frees. */
static char *
value_of(const char *unit, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = unit; *at != '\0';) {
		size_t all = strcspn(at, "\n");

		if (strncmp(at, name, len) == 0 && at[len] == '=') {
			size_t begin = len + 1 + strspn(at + len + 1, PREFIXES);

			return jr_xmemdup0(at + begin, all - begin);
		}
		at += all + (at[all] != '\0');
	}
	return NULL;
}

/* Caller frees; NULL: there is none. */
static char *
read_unit(struct jr_starters *starters, const struct scope *scope, const char *name)
{
	char *text = NULL;

	for (size_t i = 0; text == NULL && i < scope->count; i++) {
		char *path = jr_xasprintf("%s/%s", scope->directories[i], name);

		text = jr_starters_read_file(starters, path);
		free(path);
	}
	return text;
}

static bool
is_enabled(const struct scope *scope, const char *timer)
{
	bool found = false;

	for (size_t i = 0; !found && i < scope->count; i++) {
		char *path = jr_xasprintf("%s/timers.target.wants/%s", scope->directories[i], timer);

		found = access(path, F_OK) == 0;
		free(path);
	}
	return found;
}

/* The unit that a timer starts: Unit=, else the service of its name. Caller frees. */
static char *
service_of(const char *text, const char *timer)
{
	char *name = value_of(text, "Unit");

	return name != NULL ? name : jr_xasprintf("%.*s.service", (int)(strlen(timer) - strlen(".timer")), timer);
}

static void
look_at(struct jr_starters *starters, const struct scope *scope, const char *timer)
{
	char *text = read_unit(starters, scope, timer);
	char *name = text == NULL ? NULL : service_of(text, timer);
	char *service = name == NULL ? NULL : read_unit(starters, scope, name);
	char *command = service == NULL ? NULL : value_of(service, "ExecStart");

	if (command != NULL && jr_starters_starts_runner(command)) {
		char *where = jr_xasprintf("timer %s of %s", timer, scope->name);
		struct jr_starter *starter = jr_starters_add(starters, where, command, SYSTEMD_PATH);

		starter->is_enabled = is_enabled(scope, timer);
		starter->names_database = jr_starters_names_database(service);
		command = NULL;
	}
	free(command);
	free(service);
	free(name);
	free(text);
}

static bool
is_above(const struct scope *scope, size_t directory, const char *timer)
{
	bool found = false;

	for (size_t i = 0; !found && i < directory; i++) {
		char *path = jr_xasprintf("%s/%s", scope->directories[i], timer);

		found = access(path, F_OK) == 0;
		free(path);
	}
	return found;
}

static void
look_in(struct jr_starters *starters, struct scope *scope)
{
	for (size_t i = 0; i < scope->count; i++) {
		char **names = jr_starters_names(starters, scope->directories[i], is_timer);

		for (size_t k = 0; names != NULL && names[k] != NULL; k++) {
			if (!is_above(scope, i, names[k]))
				look_at(starters, scope, names[k]);
		}
		jr_strings_free(names);
	}
	for (size_t i = 0; i < scope->count; i++)
		free(scope->directories[i]);
}

void
jr_starters_find_timers(struct jr_starters *starters, const struct jr_starter_places *places)
{
	static const char *const of_system[] = {
	    "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"};
	static const char *const of_users[] = {"/etc/systemd/user", "/usr/lib/systemd/user"};
	struct scope system = {.name = "systemd"}, own = {.name = "systemd --user"};

	for (size_t i = 0; i < JR_COUNT(of_system); i++)
		system.directories[system.count++] = jr_xasprintf("%s%s", places->root, of_system[i]);
	if (places->home != NULL)
		own.directories[own.count++] = jr_xasprintf("%s/systemd/user", places->home);
	for (size_t i = 0; i < JR_COUNT(of_users); i++)
		own.directories[own.count++] = jr_xasprintf("%s%s", places->root, of_users[i]);
	look_in(starters, &system);
	look_in(starters, &own);
}
