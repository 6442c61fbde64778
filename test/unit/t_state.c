/* state: private directories, or a refusal that says what to type. */
#include "process/state.h"

#include "base/mem.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
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
	struct jr_state found;
	struct jr_err err;
	struct stat st;

	for (int i = 0; i < 2; i++) { /* and taken as it is the next time */
		assert_true(jr_state_open(&found, wanted, &err));
		assert_int_equal(found.count, 1);
		assert_int_equal(found.directories[0][strlen(found.directories[0]) - 1], 'w');
		assert_int_equal(stat(found.directories[0], &st), 0);
		assert_int_equal(st.st_mode, S_IFDIR | 0700);
		jr_state_release(&found);
	}
	(void)umask(old);
	free(wanted);
}

static void
check_refused(const char *path, const char *reason)
{
	struct jr_state found;
	struct jr_err err;

	assert_false(jr_state_open(&found, path, &err));
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
one_that_is_named_is_the_only_one(void **state)
{
	struct fixture *f = *state;
	char *other = jr_xasprintf("%s/env", f->root);
	struct jr_state found;
	struct jr_err err;

	assert_int_equal(setenv("JOBRUN_STATE_DIR", other, 1), 0);
	assert_true(jr_state_open(&found, NULL, &err));
	assert_int_equal(found.count, 1);
	assert_string_equal(found.directories[0], other);
	jr_state_release(&found);
	assert_true(jr_state_open(&found, f->directory, &err));
	assert_int_equal(found.count, 1);
	assert_string_equal(found.directories[0], f->directory);
	jr_state_release(&found);
	assert_int_equal(unsetenv("JOBRUN_STATE_DIR"), 0);
	free(other);
}

/* The file system that statfs(2) says everything below this path is on; NULL: the true one. */
static const char *network_path;

int
statfs(const char *__file, struct statfs *__buf)
{
	if (syscall(SYS_statfs, __file, __buf) < 0)
		return -1;
	if (network_path != NULL && strncmp(__file, network_path, strlen(network_path)) == 0)
		__buf->f_type = 0x6969;
	return 0;
}

static void
network_file_systems_are_refused_by_their_numbers(void **state)
{
	struct fixture *f = *state;

	assert_true(jr_state_is_network(0x6969));
	assert_true(jr_state_is_network(0xFF534D42));  /* a number that is negative in an int */
	assert_false(jr_state_is_network(0xEF53));     /* ext4 */
	assert_false(jr_state_is_network(0x01021994)); /* tmpfs */
	network_path = f->root;
	check_refused(f->directory, "is on a network file system; name a directory of this host");
	network_path = NULL;
}

static bool
is_private(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_mode == (S_IFDIR | 0700);
}

/* Do these paths, divided by blanks, make up what is found, and is each made private? */
static void
expect_found(const char *expected)
{
	struct jr_state found;
	struct jr_err err = {.msg = ""};
	char *text = jr_xstrdup("");

	if (!jr_state_open(&found, NULL, &err) && err.code != JR_E_CONFIG)
		_exit(1);
	for (size_t i = 0; i < found.count; i++) {
		char *longer = jr_xasprintf("%s%s%s", text, i > 0 ? " " : "", found.directories[i]);

		if (!is_private(found.directories[i]))
			_exit(2);
		free(text);
		text = longer;
	}
	if (strcmp(text, expected) != 0) {
		fprintf(stderr, "found \"%s\", not \"%s\": %s\n", text, expected, err.msg);
		_exit(3);
	}
	free(text);
	jr_state_release(&found);
}

static void
make(const char *path, mode_t mode, uid_t owner)
{
	if (mkdir(path, mode) < 0 || chmod(path, mode) < 0 || chown(path, owner, (gid_t)-1) < 0)
		_exit(4);
}

/* In a child whose root is empty: as root. */
static void
directories_of_root(void)
{
	(void)unsetenv("HOME");
	expect_found("");
	make("/tmp", 01777, 0);
	expect_found("/tmp/jobrun-0");
	make("/run", 0755, 0);
	make("/run/lock", 01777, 0);
	make("/home", 0755, 0);
	make("/home/ada", 0755, 1000);
	(void)setenv("HOME", "/home/ada", 1); /* as with sudo: nothing of root's is left there */
	expect_found("/run/jobrun /run/lock/jobrun-0 /tmp/jobrun-0");
	if (access("/home/ada/.local", F_OK) == 0)
		_exit(5);
	make("/root", 0700, 0);
	(void)setenv("HOME", "/root", 1);
	network_path = "/root";
	expect_found("/run/jobrun /run/lock/jobrun-0 /tmp/jobrun-0");
	if (access("/root/.local", F_OK) == 0)
		_exit(11);
	network_path = NULL;
	expect_found("/run/jobrun /run/lock/jobrun-0 /root/.local/state/jobrun /tmp/jobrun-0");
	network_path = "/root/.local";
	expect_found("/run/jobrun /run/lock/jobrun-0 /tmp/jobrun-0");
	network_path = NULL;
	/* Open to others, a link, a file: passed over, each by itself. */
	if (chmod("/run/jobrun", 0770) < 0 || rmdir("/tmp/jobrun-0") < 0 || symlink("/root", "/tmp/jobrun-0") < 0)
		_exit(6);
	expect_found("/run/lock/jobrun-0 /root/.local/state/jobrun");
	/* A place in which others could put another in its stead. */
	if (chmod("/run/lock", 0777) < 0)
		_exit(7);
	expect_found("/root/.local/state/jobrun");
}

/* And as an account whose directories somebody else made first. */
static void
directories_of_ada(void)
{
	if (chmod("/run/lock", 01777) < 0)
		_exit(8);
	make("/run/lock/jobrun-1000", 0700, 1001);
	make("/tmp/jobrun-1000", 0777, 1001);
	if (setgid(1000) < 0 || setuid(1000) < 0)
		_exit(9);
	(void)setenv("HOME", "/home/ada", 1);
	(void)setenv("TMPDIR", "/home/ada", 1);
	expect_found("/home/ada/.local/state/jobrun");
	(void)setenv("HOME", "/nowhere", 1);
	expect_found("");
}

static void
directories_of_ours_that_are_not_safe_are_passed_over(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip(); /* only root can change its root directory */
	pid = fork();
	if (pid == 0) {
		(void)umask(022);
		if (chroot(f->root) < 0 || chdir("/") < 0 || setenv("JOBRUN_STATE_DIR", "", 1) < 0 ||
		    chmod("/", 0755) < 0)
			_exit(10);
		directories_of_root();
		directories_of_ada();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
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
	    STATE_TEST(one_that_is_named_is_the_only_one),
	    STATE_TEST(network_file_systems_are_refused_by_their_numbers),
	    STATE_TEST(directories_of_ours_that_are_not_safe_are_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
