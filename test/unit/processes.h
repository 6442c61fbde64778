/*
 * processes: what tests of processes share: a private directory, scripts, waiting with a deadline,
 * a look into /proc.
 *
 * Nothing here sleeps for a fixed time: a condition is polled until it holds or the test fails.
 */
#ifndef JR_TEST_PROCESSES_H
#define JR_TEST_PROCESSES_H

#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/*
 * A new directory that only we can use. Caller frees; remove_directory removes it with what is in
 * it.
 */
static inline char *
make_directory(void)
{
	char *path = jr_xstrdup("/tmp/jobrun-unit-XXXXXX");

	assert_non_null(mkdtemp(path));
	return path;
}

static inline void
remove_directory(char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char *inner = jr_xasprintf("%s/%s", path, entry->d_name);

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && unlink(inner) < 0)
			remove_directory(jr_xstrdup(inner));
		free(inner);
	}
	if (dir != NULL)
		(void)closedir(dir);
	(void)rmdir(path);
	free(path);
}

/* A file in `directory`. Caller frees the path. */
static inline char *
make_file(const char *directory, const char *name, const char *text, mode_t mode)
{
	char *path = jr_xasprintf("%s/%s", directory, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static inline void
nap(void)
{
	const struct timespec span = {.tv_nsec = 5000000};

	(void)nanosleep(&span, NULL);
}

static inline void
on_tick(void *ctx)
{
	(void)ctx;
}

/* Turn the loop until *flag. */
static inline void
turn_until(struct jr_loop *loop, const bool *flag)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;
	struct jr_timer tick;
	struct jr_err err;

	jr_timer_init(&tick, on_tick, NULL);
	while (!*flag) {
		assert_true(jr_clock_now_ms() < end_ms);
		jr_timer_set(loop, &tick, jr_clock_now_ms() + 20);
		assert_true(jr_loop_turn(loop, &err));
	}
	jr_timer_cancel(&tick);
}

/* Turn the loop for a short while. */
static inline void
turn_for(struct jr_loop *loop, int64_t span_ms)
{
	int64_t end_ms = jr_clock_now_ms() + span_ms;
	struct jr_timer tick;
	struct jr_err err;

	jr_timer_init(&tick, on_tick, NULL);
	while (jr_clock_now_ms() < end_ms) {
		jr_timer_set(loop, &tick, end_ms);
		assert_true(jr_loop_turn(loop, &err));
	}
	jr_timer_cancel(&tick);
}

struct process {
	int64_t pid, parent, group;
	char state;
	char name[32];
};

static inline bool
read_process(const char *pid, struct process *process)
{
	char *path = jr_xasprintf("/proc/%s/stat", pid);
	FILE *file = fopen(path, "r");
	char line[512] = "";
	char *open, *close, *rest;

	free(path);
	if (file == NULL)
		return false;
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	(void)fclose(file);
	open = strchr(line, '(');
	close = strrchr(line, ')');
	if (open == NULL || close == NULL || strlen(close) < 5)
		return false;
	process->state = close[2];
	process->parent = strtol(close + 3, &rest, 10);
	process->group = strtol(rest, NULL, 10);
	*close = '\0';
	process->pid = strtol(pid, NULL, 10);
	(void)snprintf(process->name, sizeof(process->name), "%s", open + 1);
	return true;
}

/*
 * The first living process for which the non-zero arguments fit; 0 if there is none. Zombies do
 * not live.
 */
static inline int64_t
find_process(int64_t pid, int64_t parent, int64_t group, const char *name)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct process found;
	int64_t result = 0;

	assert_non_null(dir);
	while (result == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || !read_process(entry->d_name, &found))
			continue;
		if (found.state == 'Z' || found.state == 'X' || (pid != 0 && found.pid != pid))
			continue;
		if ((parent != 0 && found.parent != parent) || (group != 0 && found.group != group))
			continue;
		if (name == NULL || strcmp(found.name, name) == 0)
			result = found.pid;
	}
	(void)closedir(dir);
	return result;
}

static inline void
wait_for_group_to_end(int64_t group)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;

	while (find_process(0, 0, group, NULL) != 0) {
		assert_true(jr_clock_now_ms() < end_ms);
		nap();
	}
}

static inline void
wait_for_process_to_end(int64_t pid)
{
	int64_t end_ms = jr_clock_now_ms() + PATIENCE_MS;

	while (find_process(pid, 0, 0, NULL) != 0) {
		assert_true(jr_clock_now_ms() < end_ms);
		nap();
	}
}

#endif
