/*
 * verdict: see verdict.h.
 *
 * Each kind has a list of codes that mean later and a list of codes that mean give up; NAME.json may replace either. A
 * code is looked up in both lists, and the closer match wins: an exact code before a class of SQLSTATEs, then the list
 * of NAME.json before the one in this file. What must hold: a code that is in no list is a failure, so an unexpected
 * code is tried again and counts as an attempt.
 */
#include "handler/verdict.h"

#include "base/mem.h"
#include "base/text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define LAST_LINE_MAX (JR_ERROR_MAX - 64)
#define SQLSTATE_LEN 5
#define CLASS_LEN 2

enum condition {
	ALWAYS,
	IF_RETRY_AFTER,
	IF_NOT_SENT
};

struct standard {
	const char *code; /* NULL: the end of the list */
	enum condition condition;
};

/* The table of verdict.h. */
static const struct standard exit_later[] = {{"75", ALWAYS}, {NULL, ALWAYS}};
static const struct standard exit_give_up[] = {{"65", ALWAYS}, {NULL, ALWAYS}};
static const struct standard http_later[] = {{"429", ALWAYS}, {"503", IF_RETRY_AFTER}, {NULL, ALWAYS}};
static const struct standard http_give_up[] = {
    {"400", ALWAYS}, {"410", ALWAYS}, {"413", ALWAYS}, {"422", ALWAYS}, {NULL, ALWAYS}};
static const struct standard sql_later[] = {{"40", ALWAYS}, {"53", ALWAYS}, {"55P03", ALWAYS}, {"57P03", ALWAYS},
    {"JR075", ALWAYS}, {"08", IF_NOT_SENT}, {"57P01", IF_NOT_SENT}, {NULL, ALWAYS}};
static const struct standard sql_give_up[] = {{"22", ALWAYS}, {"JR065", ALWAYS}, {NULL, ALWAYS}};

/* How closely a list matches a code. A higher value is closer. */
enum match {
	NOT_AT_ALL,
	CLASS_OF_STANDARD,
	CLASS_OF_OWN,
	EXACT_OF_STANDARD,
	EXACT_OF_OWN
};

static void
codes_release(struct jr_codes *codes)
{
	for (size_t i = 0; i < codes->count; i++)
		free(codes->items[i]);
	free(codes->items);
}

void
jr_rules_release(struct jr_rules *rules)
{
	codes_release(&rules->ok);
	codes_release(&rules->give_up);
	codes_release(&rules->later);
	*rules = (struct jr_rules){0};
}

/* Only an SQLSTATE has a class. */
static bool
is_class_of(const char *item, const char *code)
{
	return strlen(item) == CLASS_LEN && strlen(code) == SQLSTATE_LEN && strncmp(item, code, CLASS_LEN) == 0;
}

static enum match
match_own(const struct jr_codes *codes, const char *code)
{
	enum match best = NOT_AT_ALL;

	for (size_t i = 0; i < codes->count; i++) {
		if (strcmp(codes->items[i], code) == 0)
			return EXACT_OF_OWN;
		if (is_class_of(codes->items[i], code))
			best = CLASS_OF_OWN;
	}
	return best;
}

/* `holds`: the condition of the codes that have one is true. */
static enum match
match_standard(const struct standard *list, const char *code, bool holds)
{
	enum match best = NOT_AT_ALL;

	for (; list->code != NULL; list++) {
		if (list->condition != ALWAYS && !holds)
			continue;
		if (strcmp(list->code, code) == 0)
			return EXACT_OF_STANDARD;
		if (is_class_of(list->code, code))
			best = CLASS_OF_STANDARD;
	}
	return best;
}

static enum jr_verdict
look_up(const struct jr_rules *rules, const struct standard *later, const struct standard *give_up, const char *code,
    bool holds)
{
	enum match is_later = rules->later_set ? match_own(&rules->later, code) : match_standard(later, code, holds);
	enum match is_give_up =
	    rules->give_up_set ? match_own(&rules->give_up, code) : match_standard(give_up, code, holds);

	if (is_later == NOT_AT_ALL && is_give_up == NOT_AT_ALL)
		return JR_FAIL;
	return is_later >= is_give_up ? JR_LATER : JR_GIVE_UP;
}

enum jr_verdict
jr_verdict_of_exit(const struct jr_rules *rules, int status)
{
	char code[16];

	if (!WIFEXITED(status))
		return JR_FAIL;
	if (WEXITSTATUS(status) == 0)
		return JR_DONE;
	(void)snprintf(code, sizeof(code), "%d", WEXITSTATUS(status));
	if (match_own(&rules->ok, code) != NOT_AT_ALL)
		return JR_DONE;
	return look_up(rules, exit_later, exit_give_up, code, false);
}

enum jr_verdict
jr_verdict_of_http(const struct jr_rules *rules, int status, bool has_retry_after)
{
	char code[16];

	(void)snprintf(code, sizeof(code), "%d", status);
	return look_up(rules, http_later, http_give_up, code, has_retry_after);
}

enum jr_verdict
jr_verdict_of_sqlstate(const struct jr_rules *rules, const char *sqlstate, bool sent)
{
	return look_up(rules, sql_later, sql_give_up, sqlstate, !sent);
}

/* SEGV for SIGSEGV; NULL for a signal without a name. */
static const char *
signal_name(int signo)
{
	static const char *const names[] = {[SIGHUP] = "HUP",
	    [SIGINT] = "INT",
	    [SIGQUIT] = "QUIT",
	    [SIGILL] = "ILL",
	    [SIGTRAP] = "TRAP",
	    [SIGABRT] = "ABRT",
	    [SIGBUS] = "BUS",
	    [SIGFPE] = "FPE",
	    [SIGKILL] = "KILL",
	    [SIGUSR1] = "USR1",
	    [SIGSEGV] = "SEGV",
	    [SIGUSR2] = "USR2",
	    [SIGPIPE] = "PIPE",
	    [SIGALRM] = "ALRM",
	    [SIGTERM] = "TERM",
	    [SIGVTALRM] = "VTALRM",
	    [SIGPROF] = "PROF",
	    [SIGXCPU] = "XCPU",
	    [SIGXFSZ] = "XFSZ",
	    [SIGPOLL] = "POLL",
	    [SIGPWR] = "PWR",
	    [SIGSYS] = "SYS"};

	return signo > 0 && (size_t)signo < JR_COUNT(names) ? names[signo] : NULL;
}

char *
jr_code_of_exit(int status)
{
	const char *name;

	if (WIFEXITED(status))
		return jr_xasprintf("exit:%d", WEXITSTATUS(status));
	name = signal_name(WTERMSIG(status));
	return name != NULL ? jr_xasprintf("signal:%s", name) : jr_xasprintf("signal:%d", WTERMSIG(status));
}

/* Caller frees. */
static char *
describe(int status)
{
	const char *name;

	if (WIFEXITED(status))
		return jr_xasprintf("exit %d", WEXITSTATUS(status));
	name = signal_name(WTERMSIG(status));
	return name != NULL ? jr_xasprintf("killed by SIG%s", name)
			    : jr_xasprintf("killed by signal %d", WTERMSIG(status));
}

char *
jr_error_of_exit(int status, const char *output)
{
	char *end = describe(status);
	char *last = jr_text_last_line(output != NULL ? output : "", LAST_LINE_MAX);
	char *error = jr_xasprintf("%s%s%s", end, last[0] != '\0' ? ": " : "", last);

	free(end);
	free(last);
	return error;
}
