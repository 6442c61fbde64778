/* permits: exact among any number of processes, and free as soon as their holder is dead. */
#include "process/state.h"

#include "base/backoff.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "private_directory.h"

static void
open_permits(struct jr_permits *permits, const struct fixture *f, size_t total)
{
	struct jr_err err;

	if (!jr_permits_open(permits, &f->state, "db", total, &err))
		fail_msg("%s", err.msg);
}

static void
places_are_taken_and_given_back(void **state)
{
	struct fixture *f = *state;
	struct jr_permits permits;

	open_permits(&permits, f, 5);
	assert_int_equal(jr_permits_take(&permits, 0), 0);
	assert_int_equal(jr_permits_take(&permits, 2), 2);
	assert_int_equal(jr_permits_take(&permits, 100), 3);
	assert_int_equal(jr_permits_take(&permits, 1), 0);
	assert_int_equal(permits.held_count, 5);
	jr_permits_give(&permits, 3);
	assert_int_equal(permits.held_count, 2);
	assert_true(permits.held[0] && permits.held[1] && !permits.held[2]);
	assert_int_equal(jr_permits_take(&permits, 1), 1);
	jr_permits_give(&permits, 3);
	jr_permits_close(&permits);
	jr_permits_close(&permits);
}

static void
lock_file_is_private_and_not_inherited(void **state)
{
	struct fixture *f = *state;
	struct jr_permits permits;
	struct stat st;

	open_permits(&permits, f, 1);
	assert_int_equal(fstat(permits.fds[0], &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_true((fcntl(permits.fds[0], F_GETFD) & FD_CLOEXEC) != 0);
	jr_permits_close(&permits);
}

static void
databases_have_permits_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct jr_permits a, b;
	struct jr_err err;
	char *pattern = jr_xasprintf("%s/????????????????.permits", f->directory);
	glob_t found;

	open_permits(&a, f, 1);
	assert_true(jr_permits_open(&b, &f->state, "another", 1, &err));
	assert_int_equal(jr_permits_take(&a, 1), 1);
	assert_int_equal(jr_permits_take(&b, 1), 1);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	globfree(&found);
	jr_permits_close(&a);
	jr_permits_close(&b);
	free(pattern);
}

static void
places_that_cannot_be_opened_are_an_error(void **state)
{
	struct fixture *f = *state;
	struct jr_permits permits;
	struct jr_err err;
	char *gone = jr_xasprintf("%s/gone", f->root);
	struct jr_state none = {.directories = {gone}, .count = 1};

	assert_false(jr_permits_open(&permits, &none, "db", 1, &err));
	assert_int_equal(err.code, JR_E_CONFIG);
	assert_non_null(strstr(err.msg, ".permits: No such file or directory"));
	free(gone);
}

/* A second directory in the fixture's root, and a set of both. The caller frees the second path. */
static struct jr_state
both(const struct fixture *f)
{
	struct jr_state two = {.directories = {f->directory, jr_xasprintf("%s/second", f->root)}, .count = 2};

	if (mkdir(two.directories[1], 0700) < 0 && errno != EEXIST)
		fail_msg("%s", strerror(errno));
	return two;
}

/* Permits of the set had by a process of its own, since locks of one never exclude each other. -1: not opened. */
static int
take_elsewhere(const struct jr_state *state, size_t total, size_t wanted)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct jr_permits permits;
		struct jr_err err;

		_exit(
		    jr_permits_open(&permits, state, "db", total, &err) ? (int)jr_permits_take(&permits, wanted) : 255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) < 255 ? WEXITSTATUS(status) : -1;
}

static void
a_permit_is_held_in_every_directory_so_that_one_in_common_is_enough(void **state)
{
	struct fixture *f = *state;
	struct jr_state two = both(f), second = {.directories = {two.directories[1]}, .count = 1};
	struct jr_permits permits;
	struct jr_err err;

	assert_true(jr_permits_open(&permits, &two, "db", 3, &err));
	assert_int_equal(permits.fd_count, 2);
	assert_int_equal(jr_permits_take(&permits, 2), 2);
	assert_int_equal(take_elsewhere(&f->state, 3, 3), 1); /* as before the second one was there */
	assert_int_equal(take_elsewhere(&second, 3, 3), 1);   /* as after the first one was taken away */
	jr_permits_give(&permits, 1);
	assert_int_equal(take_elsewhere(&f->state, 3, 3), 2);
	assert_int_equal(take_elsewhere(&second, 3, 3), 2);
	assert_int_equal(take_elsewhere(&two, 3, 3), 2);
	jr_permits_close(&permits);
	free(two.directories[1]);
}

/* Of a permit that is not had in all directories nothing is kept. */
static void
a_permit_that_is_taken_in_one_directory_is_not_held_in_the_others(void **state)
{
	struct fixture *f = *state;
	struct jr_state two = both(f), second = {.directories = {two.directories[1]}, .count = 1};
	struct jr_permits ours;
	struct jr_err err;

	assert_true(jr_permits_open(&ours, &second, "db", 1, &err));
	assert_int_equal(jr_permits_take(&ours, 1), 1);
	{
		int to_parent[2], to_child[2], status;
		char byte = 'x';
		pid_t pid;

		assert_int_equal(pipe(to_parent), 0);
		assert_int_equal(pipe(to_child), 0);
		pid = fork();
		if (pid == 0) {
			struct jr_permits theirs;
			int closed = close(to_child[1]); /* so that it ends with its parent */
			bool none = jr_permits_open(&theirs, &two, "db", 1, &err) && jr_permits_take(&theirs, 1) == 0;

			_exit(closed == 0 && write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1 &&
				      none
				  ? 0
				  : 1);
		}
		/* While the other is alive: the first directory's byte is free again. */
		assert_int_equal(read(to_parent[0], &byte, 1), 1);
		assert_int_equal(take_elsewhere(&f->state, 1, 1), 1);
		assert_int_equal(write(to_child[1], &byte, 1), 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		for (int i = 0; i < 2; i++) {
			close(to_parent[i]);
			close(to_child[i]);
		}
	}
	jr_permits_close(&ours);
	free(two.directories[1]);
}

static void
a_directory_whose_file_cannot_be_had_is_passed_over(void **state)
{
	struct fixture *f = *state;
	char *gone = jr_xasprintf("%s/gone", f->root);
	struct jr_state two = {.directories = {gone, f->directory}, .count = 2};
	struct jr_permits permits;
	struct jr_err err;

	assert_true(jr_permits_open(&permits, &two, "db", 2, &err));
	assert_int_equal(permits.fd_count, 1);
	assert_int_equal(jr_permits_take(&permits, 2), 2);
	assert_int_equal(take_elsewhere(&f->state, 2, 2), 0);
	jr_permits_close(&permits);
	free(gone);
}

static pid_t
take_in_child(const struct fixture *f, size_t total, size_t wanted, int ready_fd)
{
	pid_t pid = fork();
	struct jr_permits permits;
	struct jr_err err;
	char taken;

	if (pid != 0)
		return pid;
	if (!jr_permits_open(&permits, &f->state, "db", total, &err))
		_exit(1);
	taken = (char)jr_permits_take(&permits, wanted);
	if (write(ready_fd, &taken, 1) != 1)
		_exit(1);
	for (;;)
		(void)pause();
}

static void
killed_holder_frees_its_permits_at_once(void **state)
{
	struct fixture *f = *state;
	struct jr_permits permits;
	int fds[2], status;
	char taken = 0;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = take_in_child(f, 4, 3, fds[1]);
	assert_int_equal(read(fds[0], &taken, 1), 1);
	assert_int_equal(taken, 3);
	open_permits(&permits, f, 4);
	assert_int_equal(jr_permits_take(&permits, 4), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(jr_permits_take(&permits, 4), 3);
	jr_permits_close(&permits);
	close(fds[0]);
	close(fds[1]);
}

/*
 * A child that ends, or closes the descriptor it got by fork, is another process: no permit of ours
 * is lost.
 */
static void
end_of_a_child_does_not_free_our_permits(void **state)
{
	struct fixture *f = *state;
	struct jr_permits permits, others;
	struct jr_err err;
	int status;
	pid_t pid;

	open_permits(&permits, f, 2);
	assert_int_equal(jr_permits_take(&permits, 2), 2);
	for (int i = 0; i < 2; i++) {
		pid = fork();
		if (pid == 0) {
			jr_permits_close(&permits);
			if (!jr_permits_open(&others, &f->state, "db", 2, &err))
				_exit(100);
			_exit((int)jr_permits_take(&others, 2));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	jr_permits_close(&permits);
}

/*
 * Take and give back at random, marking each permit held by a file made with O_EXCL: two holders of
 * one permit show at once. Half of the processes know a second directory. 0 if all was well.
 */
static int
contend(const struct fixture *f, const struct jr_state *two, uint64_t seed, size_t total, int marks)
{
	struct jr_permits permits;
	struct jr_random random;
	struct jr_err err;

	jr_random_seed(&random, seed);
	if (!jr_permits_open(&permits, seed % 2 == 0 ? two : &f->state, "db", total, &err))
		return 1;
	for (int round = 0; round < 500; round++) {
		size_t had = jr_permits_take(&permits, (size_t)jr_random_below(&random, total + 1));
		char name[24];

		for (size_t i = 0; i < total; i++) {
			int fd;

			(void)snprintf(name, sizeof(name), "%zu", i);
			fd = permits.held[i] ? openat(marks, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) : -1;
			if (permits.held[i] && fd < 0)
				return 2;
			if (fd >= 0)
				(void)close(fd);
		}
		for (size_t i = 0; i < total; i++) {
			(void)snprintf(name, sizeof(name), "%zu", i);
			if (permits.held[i] && unlinkat(marks, name, 0) < 0)
				return 3;
		}
		if (had != permits.held_count)
			return 4;
		jr_permits_give(&permits, had);
	}
	jr_permits_close(&permits);
	return 0;
}

static void
several_processes_never_hold_more_than_the_total(void **state)
{
	enum {
		PROCESSES = 4,
		TOTAL = 5
	};
	struct fixture *f = *state;
	char *marks_path = jr_xasprintf("%s/marks", f->root);
	struct jr_state two = both(f);
	pid_t pids[PROCESSES];
	int marks;

	assert_int_equal(mkdir(marks_path, 0700), 0);
	marks = open(marks_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(marks >= 0);
	free(marks_path);
	for (size_t i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(contend(f, &two, i, TOTAL, marks));
	}
	for (size_t i = 0; i < PROCESSES; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	close(marks);
	free(two.directories[1]);
}

#define PERMITS_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    PERMITS_TEST(places_are_taken_and_given_back),
	    PERMITS_TEST(lock_file_is_private_and_not_inherited),
	    PERMITS_TEST(databases_have_permits_of_their_own),
	    PERMITS_TEST(places_that_cannot_be_opened_are_an_error),
	    PERMITS_TEST(a_permit_is_held_in_every_directory_so_that_one_in_common_is_enough),
	    PERMITS_TEST(a_permit_that_is_taken_in_one_directory_is_not_held_in_the_others),
	    PERMITS_TEST(a_directory_whose_file_cannot_be_had_is_passed_over),
	    PERMITS_TEST(killed_holder_frees_its_permits_at_once),
	    PERMITS_TEST(end_of_a_child_does_not_free_our_permits),
	    PERMITS_TEST(several_processes_never_hold_more_than_the_total),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
