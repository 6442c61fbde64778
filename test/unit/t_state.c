/* state: a private directory, or a refusal that says what to type. */
#include "process/state.h"

#include "base/mem.h"

#include <fcntl.h>
#include <setjmp.h>
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
directory_is_made_private(void **state)
{
	struct fixture *f = *state;
	mode_t old = umask(0);
	char *wanted = jr_xasprintf("%s/new///", f->root);
	struct jr_err err;
	char *path = jr_state_directory(wanted, &err);
	struct stat st;

	(void)umask(old);
	assert_non_null(path);
	assert_int_equal(path[strlen(path) - 1], 'w');
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	free(path);
	path = jr_state_directory(wanted, &err); /* and taken as it is the next time */
	assert_non_null(path);
	free(path);
	free(wanted);
}

static void
check_refused(const char *path, const char *reason)
{
	struct jr_err err;

	assert_null(jr_state_directory(path, &err));
	assert_int_equal(err.code, JR_E_CONFIG);
	if (strstr(err.msg, reason) == NULL)
		fail_msg("%s", err.msg);
}

static void
symbolic_link_is_refused_even_before_a_slash(void **state)
{
	struct fixture *f = *state;
	char *link = jr_xasprintf("%s/link", f->root);
	char *link_slash = jr_xasprintf("%s/link/", f->root);

	assert_int_equal(symlink(f->directory, link), 0);
	check_refused(link, "is a symbolic link");
	check_refused(link_slash, "is a symbolic link");
	free(link);
	free(link_slash);
}

static void
directory_open_to_others_is_refused_with_the_command_to_type(void **state)
{
	static const mode_t modes[] = {0701, 0710, 0720, 0755, 0777};
	struct fixture *f = *state;
	char *command = jr_xasprintf("type: chmod 700 %s", f->directory);

	for (size_t i = 0; i < JR_COUNT(modes); i++) {
		assert_int_equal(chmod(f->directory, modes[i]), 0);
		check_refused(f->directory, command);
	}
	/* chmod 700 /tmp would be bad advice. */
	assert_int_equal(chmod(f->directory, 01777), 0);
	check_refused(f->directory, "name one of your own");
	free(command);
}

static void
directory_of_somebody_else_is_refused_with_the_command_to_type(void **state)
{
	struct fixture *f = *state;
	char *command = jr_xasprintf(
	    "belongs to user 12345, not to user %u; type: chown %u %s", geteuid(), geteuid(), f->directory);

	if (geteuid() == 0) { /* only root can give it away */
		assert_int_equal(chown(f->directory, 12345, (gid_t)-1), 0);
		check_refused(f->directory, command);
	} else {
		check_refused("/", "belongs to user 0");
	}
	free(command);
}

static void
what_is_no_directory_or_cannot_be_made_is_refused(void **state)
{
	struct fixture *f = *state;
	char *file = jr_xasprintf("%s/file", f->root);
	char *deep = jr_xasprintf("%s/no/such", f->root);
	int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	check_refused(file, "is not a directory");
	check_refused(deep, "No such file or directory; name another with --state-dir");
	check_refused("", "No such file or directory");
	free(file);
	free(deep);
}

static void
environment_is_asked_when_no_option_is_given(void **state)
{
	struct fixture *f = *state;
	char *other = jr_xasprintf("%s/env", f->root);
	struct jr_err err;
	char *path;

	assert_int_equal(setenv("JOBRUN_STATE_DIR", other, 1), 0);
	path = jr_state_directory(NULL, &err);
	assert_string_equal(path, other);
	free(path);
	path = jr_state_directory(f->directory, &err);
	assert_string_equal(path, f->directory);
	free(path);
	assert_int_equal(unsetenv("JOBRUN_STATE_DIR"), 0);
	free(other);
}

static bool
is_private(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_mode == (S_IFDIR | 0700);
}

/* In a child whose root is empty: what became of the standard places, as bits. */
static int
standard_directories_in(const char *root)
{
	struct jr_err err;
	char *wanted_lock = jr_xasprintf("/run/lock/jobrun-%u", geteuid());
	char *wanted_tmpdir = jr_xasprintf("/t/jobrun-%u", geteuid());
	char *wanted_tmp = jr_xasprintf("/tmp/jobrun-%u", geteuid());
	char *none, *tmpdir, *tmp, *lock;
	int bits = 0;

	if (chroot(root) < 0 || chdir("/") < 0 || mkdir("/t", 0700) < 0 || setenv("JOBRUN_STATE_DIR", "", 1) < 0)
		return 0;
	(void)unsetenv("TMPDIR");
	none = jr_state_directory(NULL, &err);
	bits |= none == NULL && strstr(err.msg, "/tmp/jobrun") != NULL ? 1 : 0;
	bits |= mkdir("/tmp", 01777) == 0 ? 0 : 64;
	(void)setenv("TMPDIR", "/t", 1);
	tmpdir = jr_state_directory(NULL, &err);
	bits |= tmpdir != NULL && strcmp(tmpdir, wanted_tmpdir) == 0 && is_private(tmpdir) ? 2 : 0;
	(void)unsetenv("TMPDIR");
	tmp = jr_state_directory(NULL, &err);
	bits |= tmp != NULL && strcmp(tmp, wanted_tmp) == 0 && is_private(tmp) ? 4 : 0;
	bits |= mkdir("/run", 0755) == 0 && mkdir("/run/lock", 0755) == 0 ? 0 : 64;
	lock = jr_state_directory(NULL, &err);
	bits |= lock != NULL && strcmp(lock, wanted_lock) == 0 && is_private(lock) ? 8 : 0;
	/*
	 * what stands in its place and is not ours is no reason to go elsewhere: others would not
	 * follow
	 */
	bits |= chmod(wanted_lock, 0777) == 0 && jr_state_directory(NULL, &err) == NULL ? 16 : 0;
	free(none);
	free(tmpdir);
	free(tmp);
	free(lock);
	free(wanted_lock);
	free(wanted_tmpdir);
	free(wanted_tmp);
	return bits;
}

static void
standard_directory_is_run_lock_then_tmpdir_then_tmp(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip(); /* only root can change its root directory */
	pid = fork();
	if (pid == 0)
		_exit(standard_directories_in(f->root));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 31);
}

#define STATE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    STATE_TEST(directory_is_made_private),
	    STATE_TEST(symbolic_link_is_refused_even_before_a_slash),
	    STATE_TEST(directory_open_to_others_is_refused_with_the_command_to_type),
	    STATE_TEST(directory_of_somebody_else_is_refused_with_the_command_to_type),
	    STATE_TEST(what_is_no_directory_or_cannot_be_made_is_refused),
	    STATE_TEST(environment_is_asked_when_no_option_is_given),
	    STATE_TEST(standard_directory_is_run_lock_then_tmpdir_then_tmp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
