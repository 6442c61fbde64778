/*
 * exec_works: scripts in a handlers directory, run as the work of an exec handler.
 */
#ifndef JR_TEST_EXEC_WORKS_H
#define JR_TEST_EXEC_WORKS_H

#include "handler/handlers.h"
#include "handler/trust.h"
#include "processes.h"

#include <sys/wait.h>

struct fixture {
	struct jr_host host;
	struct jr_handler handler;
	char *directory;
};

/* What `ended` was told, copied. */
struct result {
	bool ended;
	struct jr_work_end end;
	char *code, *error, *output;
	char *progress, *checkpoint, *said;
};

static inline int
set_up(void **state)
{
	struct fixture *fixture = jr_xcalloc(1, sizeof(*fixture));
	struct jr_err err;

	fixture->host.loop = jr_loop_new(&err);
	fixture->host.watchdog = jr_watchdog_start(&err);
	fixture->directory = make_directory();
	fixture->handler = (struct jr_handler){.job_type = (char *)(uintptr_t) "job",
	    .directory = fixture->directory,
	    .kind = &jr_handler_exec,
	    .trust = jr_trust_new()};
	jr_settings_init(&fixture->handler.settings);
	*state = fixture;
	return fixture->host.loop != NULL && fixture->host.watchdog != NULL ? 0 : -1;
}

static inline int
tear_down(void **state)
{
	struct fixture *fixture = *state;

	jr_handler_exec.close(&fixture->host);
	jr_trust_free(fixture->handler.trust);
	jr_watchdog_free(fixture->host.watchdog);
	jr_loop_free(fixture->host.loop);
	remove_directory(fixture->directory);
	free(fixture->handler.path);
	free(fixture);
	return 0;
}

static inline void
on_ended(void *ctx, const struct jr_work_end *end)
{
	struct result *result = ctx;

	assert_false(result->ended);
	result->ended = true;
	result->end = *end;
	result->code = jr_xstrdup_or_null(end->error_code);
	result->error = jr_xstrdup_or_null(end->error);
	result->output = jr_xstrdup_or_null(end->output);
	result->progress = jr_xstrdup_or_null(end->progress);
	result->checkpoint = jr_xstrdup_or_null(end->checkpoint);
	result->said = jr_xstrdup_or_null(end->result);
}

static inline void
release(struct result *result)
{
	free(result->code);
	free(result->error);
	free(result->output);
	free(result->progress);
	free(result->checkpoint);
	free(result->said);
	*result = (struct result){0};
}

static const struct jr_run example = {
    .id = 41,
    .claim_seq = 7,
    .attempts = 1,
    .max_attempts = 5,
    .timeout_ms = -1,
    .job_type = (char *)(uintptr_t) "job",
    .queue = (char *)(uintptr_t) "default",
    .payload = (char *)(uintptr_t) "{\"n\": 12345678901234567890.10}",
    .key = (char *)(uintptr_t) "k-41",
};

/* Start the script `text` as the handler "job". */
static inline struct jr_work *
start(struct fixture *fixture, const char *text, mode_t mode, int64_t run_deadline_ms, struct result *result,
    struct jr_err *err)
{
	static struct jr_owner owner; /* static for cppcheck, which takes the work for a pointer to it */

	owner = (struct jr_owner){.ended = on_ended, .ctx = result};
	free(fixture->handler.path);
	fixture->handler.path = make_file(fixture->directory, "job", text, mode);
	*result = (struct result){0};
	return jr_handler_exec.start(
	    &fixture->host, &fixture->handler, &example, JR_NEVER, run_deadline_ms, &owner, err);
}

static inline void
run(struct fixture *fixture, const char *script, struct result *result)
{
	char *text = jr_xasprintf("#!/bin/sh\n%s\n", script);
	struct jr_err err = {0};
	struct jr_work *work = start(fixture, text, 0755, JR_NEVER, result, &err);

	if (work == NULL) {
		fail_msg("%s", err.msg);
		return;
	}
	turn_until(fixture->host.loop, &result->ended);
	work->kind->free(work);
	free(text);
}

#endif
