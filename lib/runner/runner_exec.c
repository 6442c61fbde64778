/*
 * runner_exec: one command of jobrun exec, instead of all claims. See runner.h.
 *
 * The claim makes the run, so it may not simply be repeated: after a lost answer the runner gives up on the claim,
 * adopts the run if there is one, and claims again only if there is none.
 *
 * What must hold: an outcome that would make the run wait is never sent, since only this runner could start it. The end
 * of the command is reported to the caller whether or not the database accepts it.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/runner_parts.h"

static void
say_why(struct jr_exec *exec, const char *why)
{
	free(exec->why);
	exec->why = jr_xstrdup_or_null(why);
}

/* An empty claim without a reason is an error: nothing says that the command should not start now. */
void
jr_exec_take_nothing(struct jr_runner *runner, const PGresult *result)
{
	struct jr_exec *exec = runner->opts->exec;
	struct jr_not_claimed said;

	if (exec == NULL)
		return;
	if (!jr_queue_read_not_claimed(result, &said)) {
		jr_runner_fail_gone(runner);
	} else if (said.reason != NULL) {
		exec->state = JR_EXEC_SKIPPED;
		exec->held_back = said.definition != NULL;
		say_why(exec, said.reason);
	}
}

const struct jr_handler *
jr_exec_handler(const struct jr_runner *runner, const char *job_type)
{
	if (runner->opts->exec != NULL)
		return runner->opts->exec->handler;
	return jr_handlers_find(runner->opts->handlers, job_type);
}

bool
jr_exec_goes_on(const struct jr_runner *runner)
{
	return runner->opts->exec != NULL && runner->opts->exec->goes_on;
}

bool
jr_exec_is_decided(const struct jr_runner *runner)
{
	const struct jr_exec *exec = runner->opts->exec;

	return exec != NULL && exec->state != JR_EXEC_NONE;
}

int64_t
jr_exec_fence(const struct jr_runner *runner, int64_t fence_at_ms)
{
	return jr_exec_goes_on(runner) ? JR_NEVER : fence_at_ms;
}

/* A signal that our caller ignores (nohup) does not end the command either. A blocked one still arrives here. */
bool
jr_exec_is_deaf(const struct jr_runner *runner, int signo)
{
	struct jr_exec *exec = runner->opts->exec;
	struct sigaction action;

	if (exec == NULL)
		return false;
	if (sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
		return true;
	if (exec->signal == 0)
		exec->signal = signo;
	return false;
}

void
jr_exec_note_start(struct jr_runner *runner, const struct jr_run *run)
{
	struct jr_exec *exec = runner->opts->exec;

	if (exec == NULL)
		return;
	exec->run_id = run->id;
	exec->state = JR_EXEC_RUNNING;
}

void
jr_exec_note_end(struct jr_runner *runner, const struct jr_outcome *outcome, const char *output)
{
	struct jr_exec *exec = runner->opts->exec;
	const char *code = outcome == NULL || outcome->error_code == NULL ? "" : outcome->error_code;

	if (exec == NULL)
		return;
	if (outcome == NULL)
		exec->state = JR_EXEC_LOST;
	else if (strcmp(code, "timeout") == 0)
		exec->state = JR_EXEC_TIMED_OUT;
	else if (outcome->has_exit)
		exec->state = JR_EXEC_ENDED;
	else
		exec->state = JR_EXEC_CANNOT_START;
	free(exec->output);
	exec->output = jr_xstrdup_or_null(output);
	if (outcome == NULL)
		return;
	exec->exit_status = outcome->exit_status;
	exec->stopped = exec->state == JR_EXEC_TIMED_OUT || outcome->kind == JR_OUT_CANCELLED;
	say_why(exec, outcome->error);
}

/* The error is "released: WHY" or "WHY". It becomes that of a command that was not started, or was stopped with us. */
static void
name_stop(struct jr_outcome *outcome)
{
	const char *colon = strchr(outcome->error, ':');
	const char *why = colon == NULL ? outcome->error : colon + 2;
	char *error =
	    outcome->has_exit ? jr_xstrdup("stopped: jobrun was told to end") : jr_xasprintf("not started: %s", why);

	free(outcome->error);
	free(outcome->error_code);
	outcome->error = error;
	outcome->error_code = jr_xstrdup("stopped");
}

struct jr_outcome
jr_exec_unstarted(const struct jr_runner *runner)
{
	if (runner->opts->exec == NULL)
		return (struct jr_outcome){.kind = JR_OUT_UNSTARTED};
	return (struct jr_outcome){.kind = JR_OUT_DEAD,
	    .error_code = jr_xstrdup("stopped"),
	    .error = jr_xstrdup("not started: the claim was not answered")};
}

void
jr_exec_judge(struct jr_runner *runner, struct jr_outcome *outcome)
{
	struct jr_exec *exec = runner->opts->exec;

	if (exec == NULL)
		return;
	if (outcome->kind == JR_OUT_RELEASED || outcome->kind == JR_OUT_UNSTARTED)
		name_stop(outcome);
	if (outcome->kind == JR_OUT_RELEASED || outcome->kind == JR_OUT_UNSTARTED || outcome->kind == JR_OUT_LATER)
		outcome->kind = JR_OUT_DEAD;
	if (exec->state != JR_EXEC_RUNNING) /* the attempt has said how it ended */
		return;
	exec->state = JR_EXEC_UNSTARTED;
	say_why(exec, outcome->error);
}
