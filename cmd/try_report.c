/*
 * try_report: what a rehearsal came to, in words: the verdict, why, and what a runner would do next.
 *
 * The verdict has been given by the handler's kind; here it is only read aloud, from the outcome and its error_code.
 * What a handler said about itself (progress, checkpoint, result) is shown as the member that it is; a line whose
 * numbers are too large for a JSON reader in C is shown as it stands.
 */
#include "try_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "print.h"

#define WARNING "jobrun: " /* before a line that is not of the handler */

/* How an end is called. A run whose attempts are used up is dead, but its handler has failed. */
static const char *
verdict_word(const struct jr_outcome *outcome)
{
	switch (outcome->kind) {
	case JR_OUT_SUCCEEDED:
		return "done";
	case JR_OUT_LATER:
		return "later";
	case JR_OUT_DEAD:
		return "give up";
	case JR_OUT_RELEASED:
		return "interrupted";
	case JR_OUT_FAILED:
	case JR_OUT_CANCELLED:
	case JR_OUT_UNSTARTED:
	case JR_OUT_LOST:
		break;
	}
	return "fail";
}

static const char *
meaning(const struct jr_outcome *outcome)
{
	switch (outcome->kind) {
	case JR_OUT_SUCCEEDED:
		return "done";
	case JR_OUT_LATER:
		return "not now";
	case JR_OUT_DEAD:
		return "give up, it is of no use to try again";
	case JR_OUT_FAILED:
	case JR_OUT_RELEASED:
	case JR_OUT_CANCELLED:
	case JR_OUT_UNSTARTED:
	case JR_OUT_LOST:
		break;
	}
	return "failed";
}

/* Did NAME.json decide it? */
static const char *
whose_list(const struct jr_outcome *outcome, const struct jr_rules *rules)
{
	if (outcome->kind == JR_OUT_LATER && rules->later_set)
		return " (\"later\" in its settings)";
	if (outcome->kind == JR_OUT_DEAD && rules->give_up_set)
		return " (\"give_up\" in its settings)";
	return "";
}

/* Codes of the form "kind:detail", and how they are read aloud. */
static const struct {
	const char *prefix, *before, *after;
	bool is_listed; /* the lists of NAME.json are of these */
} code_words[] = {
    {"exit:", "exit status ", " means: ", true},
    {"signal:", "being killed by signal ", " means: ", false},
    {"http:", "HTTP status ", " means: ", true},
    {"curl:", "there was no good answer (libcurl says ", "), which means: ", false},
    {"sqlstate:", "SQLSTATE ", " means: ", true},
};

/* What a row of a batch says goes under the code of the error that would say it; NULL for another. */
static const char *
word_of_row(const struct jr_handler *handler, const char *code)
{
	static const char *const words[][2] = {
	    {"sqlstate:JR065", "give_up"}, {"sqlstate:JR075", "later"}, {"sqlstate:P0001", "fail"}};

	for (size_t i = 0; handler->settings.batch > 0 && i < JR_COUNT(words); i++) {
		if (strcmp(code, words[i][0]) == 0)
			return words[i][1];
	}
	return NULL;
}

/* Caller frees. */
static char *
why_of_code(const struct jr_outcome *outcome, const struct jr_handler *handler)
{
	const char *code = outcome->error_code != NULL ? outcome->error_code : "?";

	for (size_t i = 0; i < JR_COUNT(code_words); i++) {
		size_t len = strlen(code_words[i].prefix);

		if (strncmp(code, code_words[i].prefix, len) == 0)
			return jr_xasprintf("%s%s%s%s%s", code_words[i].before, code + len, code_words[i].after,
			    meaning(outcome),
			    code_words[i].is_listed ? whose_list(outcome, &handler->settings.rules) : "");
	}
	return jr_xasprintf("%s means: %s", code, meaning(outcome));
}

/* Caller frees. */
static char *
why(const struct jr_outcome *outcome, const struct jr_handler *handler)
{
	const char *code = outcome->error_code != NULL ? outcome->error_code : "";

	if (outcome->kind == JR_OUT_SUCCEEDED)
		return jr_xstrdup(handler->kind->success_rule);
	if (outcome->kind == JR_OUT_RELEASED)
		return jr_xstrdup("it was stopped, and a runner gives back what it stops");
	if (strcmp(code, "timeout") == 0)
		return jr_xstrdup("a timeout means: failed, whatever the handler does at its end");
	if (strcmp(code, "cannot-start") == 0)
		return jr_xstrdup(outcome->kind == JR_OUT_LATER ? "the system was short of what a start needs: not now"
								: "it could not be started, which means: failed");
	if (word_of_row(handler, code) != NULL)
		return jr_xasprintf("the statement said %s", word_of_row(handler, code));
	return why_of_code(outcome, handler);
}

/* "5s to 10s", or "5m" when it asked for that. Caller frees. */
static char *
pause_words(const struct jr_rehearsed *rehearsed)
{
	char *from = jr_format_duration(rehearsed->pause_min_ms);
	char *to = jr_format_duration(rehearsed->pause_max_ms);
	char *words =
	    rehearsed->pause_min_ms == rehearsed->pause_max_ms ? jr_xstrdup(to) : jr_xasprintf("%s to %s", from, to);

	free(from);
	free(to);
	return words;
}

/* What a runner would make of the run. Caller frees. */
static char *
next_words(const struct jr_rehearsed *rehearsed, const struct jr_rehearsal *rehearsal)
{
	char *pause = pause_words(rehearsed), *words;

	switch (rehearsed->outcome.kind) {
	case JR_OUT_SUCCEEDED:
		words = jr_xstrdup("succeeded");
		break;
	case JR_OUT_LATER:
		words = jr_xasprintf("queued again, in %s (attempt not charged)", pause);
		break;
	case JR_OUT_RELEASED:
		words = jr_xstrdup("queued again, at once (attempt not charged)");
		break;
	case JR_OUT_FAILED:
		words = rehearsal->attempt < rehearsal->max_attempts
			    ? jr_xasprintf("failed, tried again in %s as attempt %" PRId64 " of %" PRId64, pause,
				  rehearsal->attempt + 1, rehearsal->max_attempts)
			    : jr_xasprintf("dead: attempt %" PRId64 " was the last", rehearsal->attempt);
		break;
	case JR_OUT_DEAD:
	case JR_OUT_CANCELLED:
	case JR_OUT_UNSTARTED:
	case JR_OUT_LOST:
	default:
		words = jr_xstrdup("dead");
		break;
	}
	free(pause);
	return words;
}

/* The member `name` of a line of JOBRUN_OUT; NULL if there is none. A reference of the caller's. */
static json_t *
said(const char *line, const char *name)
{
	json_t *document = line == NULL ? NULL : json_loads(line, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	json_t *member = json_incref(json_object_get(document, name));

	json_decref(document);
	if (member == NULL && line != NULL)
		member = json_string(line); /* numbers too large to be read here */
	return member;
}

static void
print_said(const char *line, const char *name, int width)
{
	json_t *value = said(line, name);
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (text != NULL)
		jr_print_field(name, text, width);
	free(text);
	json_decref(value);
}

static void
print_duration(const char *name, int64_t ms, int width)
{
	char *words = jr_format_duration(ms < 0 ? 0 : ms);

	jr_print_field(name, words, width);
	free(words);
}

static void
print_cost(const struct jr_rehearsed *rehearsed, int width)
{
	char *memory = jr_xasprintf("%.1f MiB", (double)rehearsed->outcome.max_rss_kb / 1024);

	print_duration("took", rehearsed->took_ms, width);
	if (rehearsed->outcome.has_exit) {
		print_duration("cpu", rehearsed->outcome.cpu_ms, width);
		if (rehearsed->outcome.max_rss_kb > 0)
			jr_print_field("memory", memory, width);
	}
	free(memory);
}

static void
print_handler(const struct jr_handler *handler, int width)
{
	char *words = jr_xasprintf("%s%s%s", handler->kind->name, handler->path != NULL ? " " : "",
	    handler->path != NULL ? handler->path : "");

	jr_print_field("handler", words, width);
	free(words);
}

/* What jobrun has to say about lines in JOBRUN_OUT stands at the end of the output, but a process never printed it. */
static void
print_warnings(const char *output, int width)
{
	struct jr_buf lines;

	jr_buf_init(&lines, JR_OUTPUT_TAIL);
	while (output != NULL && *output != '\0') {
		size_t len = strcspn(output, "\n");

		if (strncmp(output, WARNING, strlen(WARNING)) == 0 &&
		    memmem(output, len, "JOBRUN_OUT", strlen("JOBRUN_OUT")) != NULL)
			jr_buf_addf(&lines, "%s%.*s", lines.len > 0 ? "\n" : "", (int)(len - strlen(WARNING)),
			    output + strlen(WARNING));
		output += len + (output[len] != '\0');
	}
	if (lines.len > 0)
		jr_print_field("warning", lines.data, width);
	jr_buf_release(&lines);
}

static void
print_output(const struct jr_outcome *outcome, int width)
{
	if (outcome->output == NULL)
		return;
	if (outcome->has_exit)
		print_warnings(outcome->output, width);
	else
		jr_print_field("output", outcome->output, width);
}

/* What a process prints has been shown as it came. */
void
jr_try_report_print(const struct jr_rehearsed *rehearsed, const struct jr_rehearsal *rehearsal)
{
	const struct jr_outcome *outcome = &rehearsed->outcome;
	const int width = (int)sizeof("run would be") - 1;
	char *because = why(outcome, rehearsal->handler);
	char *next = next_words(rehearsed, rehearsal);

	print_handler(rehearsal->handler, width);
	jr_print_field("verdict", verdict_word(outcome), width);
	jr_print_field("because", because, width);
	jr_print_field("run would be", next, width);
	if (outcome->error_code != NULL)
		jr_print_field("error code", outcome->error_code, width);
	if (outcome->error != NULL)
		jr_print_field("error", outcome->error, width);
	print_cost(rehearsed, width);
	print_said(outcome->progress, "progress", width);
	print_said(outcome->checkpoint, "checkpoint", width);
	print_said(outcome->result, "result", width);
	print_output(outcome, width);
	free(because);
	free(next);
}

static void
set(json_t *document, const char *name, json_t *value)
{
	json_object_set_new(document, name, value != NULL ? value : json_null());
}

void
jr_try_report_document(const struct jr_rehearsed *rehearsed, const struct jr_rehearsal *rehearsal)
{
	const struct jr_outcome *outcome = &rehearsed->outcome;
	char *because = why(outcome, rehearsal->handler);
	char *next = next_words(rehearsed, rehearsal);
	json_t *document = json_pack("{ss ss ss? ss ss ss ss? ss? sI}", "job_type", rehearsal->handler->job_type,
	    "kind", rehearsal->handler->kind->name, "path", rehearsal->handler->path, "verdict", verdict_word(outcome),
	    "because", because, "run_would_be", next, "error_code", outcome->error_code, "error", outcome->error,
	    "took_ms", rehearsed->took_ms);

	set(document, "exit_status", outcome->has_exit ? json_integer(outcome->exit_status) : NULL);
	set(document, "cpu_ms", outcome->has_exit ? json_integer(outcome->cpu_ms) : NULL);
	set(document, "max_rss_kb",
	    outcome->has_exit && outcome->max_rss_kb > 0 ? json_integer(outcome->max_rss_kb) : NULL);
	set(document, "progress", said(outcome->progress, "progress"));
	set(document, "checkpoint", said(outcome->checkpoint, "checkpoint"));
	set(document, "result", said(outcome->result, "result"));
	set(document, "output", outcome->output != NULL ? json_string(outcome->output) : NULL);
	jr_print_value(document);
	json_decref(document);
	free(because);
	free(next);
}
