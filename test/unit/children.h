/*
 * children: a loop, a watchdog and shell scripts run as children, for the tests of child and spawn.
 */
#ifndef JR_TEST_CHILDREN_H
#define JR_TEST_CHILDREN_H

#include "process/child.h"
#include "process/group.h"
#include "process/watchdog.h"
#include "processes.h"

#include <errno.h>

struct fixture {
	struct jr_loop *loop;
	struct jr_watchdog *watchdog;
	struct jr_isolation *isolation; /* for what start_with starts; NULL: none */
};

struct result {
	bool ended;
	int times;
	int status;
	struct rusage usage;
	uint64_t dropped;
	struct jr_buf output;
};

static char *const no_env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};

static inline int
set_up(void **state)
{
	struct fixture *fixture = jr_xcalloc(1, sizeof(*fixture));
	struct jr_err err;

	fixture->loop = jr_loop_new(&err);
	fixture->watchdog = jr_watchdog_start(&err);
	*state = fixture;
	return fixture->loop != NULL && fixture->watchdog != NULL ? 0 : -1;
}

static inline int
tear_down(void **state)
{
	struct fixture *fixture = *state;

	jr_watchdog_free(fixture->watchdog);
	jr_loop_free(fixture->loop);
	free(fixture);
	return 0;
}

static inline void
on_ended(void *ctx, const struct jr_child_end *end)
{
	struct result *result = ctx;

	result->ended = true;
	result->times++;
	result->status = end->status;
	result->usage = end->usage;
	result->dropped = end->output->dropped;
	jr_buf_init(&result->output, 1 << 20);
	jr_capture_read(end->output, &result->output);
}

static inline struct jr_child *
start_with(struct fixture *fixture, const char *script, const char *input, size_t input_len, struct result *result)
{
	char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)script, NULL};
	struct jr_child_spec spec = {.path = "/bin/sh",
	    .argv = argv,
	    .envp = no_env,
	    .input = input,
	    .input_len = input_len,
	    .deadline_ms = JR_NEVER,
	    .isolation = fixture->isolation};
	struct jr_err err = {0};
	struct jr_child *child;

	*result = (struct result){0};
	child = jr_child_start(fixture->loop, fixture->watchdog, &spec, on_ended, result, &err);
	if (child == NULL)
		fail_msg("%s", err.msg);
	return child;
}

static inline struct jr_child *
start(struct fixture *fixture, const char *script, struct result *result)
{
	return start_with(fixture, script, NULL, 0, result);
}

/* Run a script to its end; the caller releases result->output. */
static inline int64_t
run(struct fixture *fixture, const char *script, const char *input, size_t input_len, struct result *result)
{
	struct jr_child *child = start_with(fixture, script, input, input_len, result);
	int64_t pid = jr_child_pid(child);

	turn_until(fixture->loop, &result->ended);
	turn_for(fixture->loop, 5);
	assert_int_equal(result->times, 1);
	assert_true(jr_group_is_gone(pid));
	jr_child_free(child);
	return pid;
}

static inline void
wait_for_output(struct fixture *fixture, struct jr_child *child, const char *text)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;
	bool found = false;

	while (!found) {
		struct jr_buf out;

		turn_for(fixture->loop, 5);
		jr_buf_init(&out, 1 << 20);
		jr_capture_read(jr_child_output(child), &out);
		found = strstr(out.data, text) != NULL;
		jr_buf_release(&out);
		assert_true(jr_clock_now_ms() < end_ms);
	}
}

#endif
