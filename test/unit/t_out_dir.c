/*
 * out: the files of an attempt, whose they are, and what is left of them.
 */
#include "out_files.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static void
what_is_put_in_its_place_is_not_read(void **state)
{
	static const char *const kinds[] = {"file", "link", "fifo", "directory", "nothing"};
	struct fixture *fixture = *state;
	char *elsewhere = make_file(fixture->directory, "other", "{\"progress\": 2}\n", 0600);

	for (size_t i = 0; i < JR_COUNT(kinds); i++) {
		struct jr_err err;
		const char *path;

		jr_out_close(fixture->out);
		fixture->out = jr_out_open(fixture->outs, 41, 8 + (int64_t)i, NULL, NULL, &err);
		path = jr_out_path(fixture->out);
		append(fixture, "{\"progress\": 1}\n");
		jr_out_read(fixture->out, false);
		assert_int_equal(unlink(path), 0);
		if (i == 0)
			write_with(path, "{\"progress\": 2}\n", 16, O_CREAT);
		else if (i == 1)
			assert_int_equal(symlink(elsewhere, path), 0);
		else if (i == 2)
			assert_int_equal(mkfifo(path, 0600), 0);
		else if (i == 3)
			assert_int_equal(mkdir(path, 0700), 0);
		jr_out_read(fixture->out, true);
		expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
		expect_warning(fixture, "JOBRUN_OUT: it was removed or replaced");
	}
	assert_int_equal(access(elsewhere, F_OK), 0); /* removing the link did not remove it */
	assert_int_equal(unlink(elsewhere), 0);
	free(elsewhere);
}

/* A handler that has said nothing yet. Only a plain file of ours is opened. */
static void
what_is_made_instead_of_it_is_not_read(void **state)
{
	static const char *const kinds[] = {"link", "fifo", "directory", "socket", "unreadable", "nothing"};
	struct fixture *fixture = *state;
	char *elsewhere = make_file(fixture->directory, "other", "{\"progress\": 2}\n", 0600);

	for (size_t i = 0; i < JR_COUNT(kinds); i++) {
		struct jr_err err;
		const char *path;

		jr_out_close(fixture->out);
		fixture->out = jr_out_open(fixture->outs, 41, 8 + (int64_t)i, NULL, NULL, &err);
		path = jr_out_path(fixture->out);
		assert_int_equal(access(path, F_OK), -1);
		if (i == 0)
			assert_int_equal(symlink(elsewhere, path), 0);
		else if (i == 1)
			assert_int_equal(mkfifo(path, 0600), 0);
		else if (i == 2)
			assert_int_equal(mkdir(path, 0700), 0);
		else if (i == 3)
			assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
		else if (i == 4 && geteuid() != 0)
			write_with(path, "{\"progress\": 2}\n", 16, O_CREAT);
		if (i == 4 && geteuid() != 0)
			assert_int_equal(chmod(path, 0), 0);
		jr_out_read(fixture->out, false);
		assert_string_equal(jr_out_warnings(fixture->out), "");
		jr_out_read(fixture->out, true);
		expect(jr_out_progress(fixture->out), NULL);
		if (i < 4 || (i == 4 && geteuid() != 0))
			expect_warning(fixture, "JOBRUN_OUT: it is not a plain file");
		else
			assert_string_equal(jr_out_warnings(fixture->out), "");
	}
	assert_int_equal(access(elsewhere, F_OK), 0);
	assert_int_equal(unlink(elsewhere), 0);
	free(elsewhere);
}

static void
one_that_belongs_to_another_account_is_not_read(void **state)
{
	struct fixture *fixture = *state;

	if (geteuid() != 0)
		skip();
	append(fixture, "{\"progress\": 1}\n");
	assert_int_equal(chown(jr_out_path(fixture->out), 65534, 65534), 0);
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), NULL);
	expect_warning(fixture, "JOBRUN_OUT: it is not a plain file");
}

static void
a_checkpoint_is_handed_on(void **state)
{
	struct fixture *fixture = *state;
	struct jr_err err;
	struct jr_out *out = jr_out_open(fixture->outs, 42, 1, "{\"page\": 7}", NULL, &err);
	char text[64] = "";
	struct stat st;
	int fd;

	assert_null(jr_out_checkpoint_path(fixture->out));
	assert_non_null(out);
	fd = open(jr_out_checkpoint_path(out), O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 12);
	assert_string_equal(text, "{\"page\": 7}\n");
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	(void)close(fd);
	jr_out_close(out);
	jr_out_close(NULL);
}

/* The mode of the directory of a file. */
static int
stat_parent(const char *path, struct stat *st)
{
	char *directory = jr_xmemdup0(path, (size_t)(strrchr(path, '/') - path));
	int rc = stat(directory, st);

	free(directory);
	return rc == 0 ? (int)(st->st_mode & 07777) : -1;
}

static void
files_belong_to_the_account_of_the_handler(void **state)
{
	struct fixture *fixture = *state;
	struct jr_limits limits = {.has_account = true, .uid = 65534, .gid = 65534};
	struct jr_err err;
	struct jr_out *out;
	struct stat st;

	if (geteuid() != 0)
		skip();
	/* One that could not get there would write into nothing. */
	assert_null(jr_out_open(fixture->outs, 42, 1, "1", &limits, &err));
	assert_non_null(strstr(err.msg, "set another TMPDIR"));
	assert_int_equal(chmod(fixture->directory, 0711), 0);
	out = jr_out_open(fixture->outs, 42, 1, "1", &limits, &err);
	assert_non_null(out);
	assert_int_equal(stat(jr_out_path(out), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_gid, 65534);
	/* Files of our own account, which handlers create as their umask says, are out of its reach. */
	assert_int_equal(stat_parent(jr_out_path(out), &st), 0711);
	assert_int_equal(stat_parent(jr_out_path(fixture->out), &st), 0700);
	assert_int_equal(stat(jr_out_checkpoint_path(out), &st), 0);
	assert_int_equal(st.st_uid, 65534);
	jr_out_close(out);
}

static void
a_name_that_a_handler_has_taken_is_taken_back(void **state)
{
	struct fixture *fixture = *state;
	char *directory = jr_xstrdup(jr_out_path(fixture->out));
	struct jr_err err;
	struct jr_out *out;
	char *planted;

	*strrchr(directory, '/') = '\0';
	planted = make_file(directory, "43.1.out", "{\"progress\": 1}\n", 0644);
	out = jr_out_open(fixture->outs, 43, 1, NULL, NULL, &err);
	assert_non_null(out);
	assert_string_equal(jr_out_path(out), planted);
	jr_out_read(out, true);
	expect(jr_out_progress(out), NULL);
	jr_out_close(out);
	free(planted);
	free(directory);
}

static void
one_that_a_handler_has_removed_is_made_anew(void **state)
{
	struct fixture *fixture = *state;
	char *directory = jr_xstrdup(jr_out_path(fixture->out));
	struct jr_err err;
	struct jr_out *out;

	append(fixture, "{\"progress\": 1}\n");
	jr_out_read(fixture->out, false);
	*strrchr(directory, '/') = '\0';
	remove_directory(jr_xstrdup(directory));
	out = jr_out_open(fixture->outs, 43, 1, "1", NULL, &err);
	assert_non_null(out);
	assert_int_not_equal(strncmp(jr_out_path(out), directory, strlen(directory)), 0);
	assert_int_equal(access(jr_out_checkpoint_path(out), R_OK), 0);
	/* The one from before goes on as far as it can. */
	jr_out_read(fixture->out, true);
	expect(jr_out_progress(fixture->out), "{\"progress\": 1}");
	expect_warning(fixture, "JOBRUN_OUT: it was removed or replaced");
	jr_out_close(out);
	free(directory);
}

static size_t
count_names(const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	(void)closedir(dir);
	return count;
}

static void
what_a_killed_runner_left_is_swept_away(void **state)
{
	struct fixture *fixture = *state;
	struct jr_outs *outs;
	struct jr_err err;
	char *outside, *stranger;
	pid_t pid = fork();

	if (pid == 0) {
		struct jr_out *out;
		char *link;

		outs = jr_outs_open(&err);
		out = outs != NULL ? jr_out_open(outs, 1, 1, "1", NULL, &err) : NULL;
		link = out != NULL ? jr_xasprintf("%s.link", jr_out_path(out)) : NULL;
		_exit(link != NULL && symlink("/etc", link) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &(int){0}, 0), pid);
	assert_int_equal(count_names(fixture->directory), 2);
	/* Not ours: another name; and what only looks like one of them. */
	outside = make_file(fixture->directory, "jobrun-outing", "x", 0600);
	stranger = jr_xasprintf("%s/jobrun-out-%lld-nodirs", fixture->directory, (long long)geteuid());
	assert_int_equal(symlink("/etc", stranger), 0);
	outs = jr_outs_open(&err);
	assert_non_null(outs);
	/* The fixture's, which is in use, the new one, the file and the link. */
	assert_int_equal(count_names(fixture->directory), 4);
	append(fixture, "");
	jr_outs_close(outs);
	assert_int_equal(unlink(outside), 0);
	assert_int_equal(unlink(stranger), 0);
	free(outside);
	free(stranger);
}

/* A directory that a dead runner of this account has left in the fixture's. Caller frees. */
static char *
make_leftover(const struct fixture *fixture, int number)
{
	char *path = jr_xasprintf("%s/jobrun-out-%lld-%06d", fixture->directory, (long long)geteuid(), number);

	assert_int_equal(mkdir(path, 0700), 0);
	return path;
}

static void
make_folder(const char *format, const char *directory, mode_t mode)
{
	char *path = jr_xasprintf("%s/%s", directory, format);

	assert_int_equal(mkdir(path, mode), 0);
	assert_int_equal(chmod(path, mode), 0);
	free(path);
}

static void
sweep_once(void)
{
	struct jr_err err;
	struct jr_outs *outs = jr_outs_open(&err);

	assert_non_null(outs);
	jr_outs_close(outs);
}

/* A sweep has little time, on a slow machine too little for anything. */
static void
sweep_until_gone(const char *path)
{
	for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++)
		sweep_once();
	assert_int_not_equal(access(path, F_OK), 0);
}

/* Folders in folders, links out of it, what is no file, and what its owner may neither read nor change. */
static void
make_thicket(const char *directory, const char *outside)
{
	char *inner = jr_xasprintf("%s/a/b", directory), *link = jr_xasprintf("%s/link", inner);
	char *locked = jr_xasprintf("%s/locked", directory), *fixed = jr_xasprintf("%s/fixed", directory);

	make_folder("a", directory, 0700);
	make_folder("a/b", directory, 0700);
	make_folder("a/b/c", directory, 0700);
	free(make_file(inner, "file", "x", 0400));
	assert_int_equal(symlink(outside, link), 0);
	free(link);
	link = jr_xasprintf("%s/fifo", inner);
	assert_int_equal(mkfifo(link, 0600), 0);
	make_folder("locked", directory, 0700);
	make_folder("locked/in", directory, 0700);
	free(make_file(locked, "file", "x", 0));
	assert_int_equal(chmod(locked, 0), 0);
	make_folder("fixed", directory, 0700);
	free(make_file(fixed, "file", "x", 0));
	assert_int_equal(chmod(fixed, 0500), 0);
	free(inner);
	free(link);
	free(locked);
	free(fixed);
}

/* As an account without rights over others, so that modes mean something; in a child, where assertions end it. */
static void
become_somebody(const char *directory)
{
	if (geteuid() != 0)
		return;
	assert_int_equal(chmod(directory, 01777), 0);
	assert_int_equal(setgid(65534), 0);
	assert_int_equal(setuid(65534), 0);
}

static void
in_a_child(void (*check)(struct fixture *fixture), struct fixture *fixture)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		check(fixture);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
sweep_thickets(struct fixture *fixture)
{
	char *outside = jr_xasprintf("%s/outside", fixture->directory), *left;
	struct jr_outs *outs;
	struct jr_err err;
	struct jr_out *out;

	become_somebody(fixture->directory);
	assert_int_equal(mkdir(outside, 0700), 0);
	free(make_file(outside, "kept", "x", 0600));
	left = make_leftover(fixture, 1);
	make_thicket(left, outside);
	assert_int_equal(chmod(left, 0), 0);
	sweep_until_gone(left);
	free(left);
	outs = jr_outs_open(&err);
	/* Its own, too, at the end; and one that stands in the place of a file. */
	out = jr_out_open(outs, 1, 1, NULL, NULL, &err);
	assert_int_equal(mkdir(jr_out_path(out), 0700), 0);
	make_thicket(jr_out_path(out), outside);
	left = jr_xstrdup(jr_out_path(out));
	jr_out_close(out);
	*strrchr(left, '/') = '\0';
	make_thicket(left, outside);
	assert_int_equal(chmod(left, 0), 0);
	jr_outs_close(outs);
	sweep_until_gone(left);
	free(left);
	left = jr_xasprintf("%s/kept", outside);
	assert_int_equal(unlink(left), 0); /* behind a link nothing was removed */
	assert_int_equal(rmdir(outside), 0);
	free(left);
	free(outside);
}

static void
folders_in_folders_are_removed_whatever_their_modes(void **state)
{
	in_a_child(sweep_thickets, *state);
}

static void
no_folder_lies_too_deep(void **state)
{
	struct fixture *fixture = *state;
	char *left = make_leftover(fixture, 1);
	int fd = open(left, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 1000; i++) { /* the path would be longer than any call takes */
		int next;

		assert_int_equal(mkdirat(fd, "dddddddddd", 0700), 0);
		next = openat(fd, "dddddddddd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	sweep_until_gone(left);
	free(left);
}

/* More of them than are looked at in one sweep. */
static void
what_cannot_be_removed_keeps_nobody_from_the_others(void **state)
{
	enum {
		STUCK = 150,
		FREE = 5
	};
	struct fixture *fixture = *state;
	char *names[STUCK + FREE];

	if (geteuid() != 0)
		skip(); /* only root can leave what its owner cannot remove */
	assert_int_equal(chmod(fixture->directory, 01777), 0);
	for (int i = 0; i < STUCK + FREE; i++) {
		names[i] = jr_xasprintf("%s/jobrun-out-65534-%06d", fixture->directory, i);
		assert_int_equal(mkdir(names[i], 0700), 0);
		make_folder("sub", names[i], 0700);
		if (i < STUCK)
			make_folder("sub/sub", names[i], 0700);
		assert_int_equal(chown(names[i], 65534, 65534), 0);
	}
	for (int round = 0; round < 100 && count_names(fixture->directory) > STUCK + 1; round++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (setgid(65534) < 0 || setuid(65534) < 0)
				_exit(1);
			sweep_once();
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &(int){0}, 0), pid);
	}
	for (int i = 0; i < STUCK + FREE; i++) {
		assert_int_equal(access(names[i], F_OK) == 0, i < STUCK);
		if (i < STUCK)
			remove_directory(names[i]);
		else
			free(names[i]);
	}
}

static void
sweep_with_mounts(struct fixture *fixture)
{
	char *left = make_leftover(fixture, 1), *other = make_leftover(fixture, 2);
	char *outside = jr_xasprintf("%s/outside", fixture->directory), *kept = jr_xasprintf("%s/kept", outside);
	char *whole = make_leftover(fixture, 3);
	char *inner = jr_xasprintf("%s/a/mount", left), *file = jr_xasprintf("%s/b", left);

	assert_int_equal(mkdir(outside, 0700), 0);
	free(make_file(outside, "kept", "x", 0600));
	make_folder("a", left, 0700);
	make_folder("a/mount", left, 0700);
	make_folder("z", left, 0700);
	free(make_file(left, "b", "x", 0600));
	make_folder("c", other, 0700);
	assert_int_equal(mount(outside, inner, NULL, MS_BIND, NULL), 0); /* of the same file system */
	assert_int_equal(mount(outside, whole, NULL, MS_BIND, NULL), 0);
	sweep_until_gone(file); /* what stood beside it, */
	sweep_until_gone(other);
	assert_int_equal(access(kept, F_OK), 0);
	assert_int_equal(umount(inner), 0);
	assert_int_equal(umount(whole), 0);
	sweep_until_gone(left); /* and now the rest */
	sweep_until_gone(whole);
	assert_int_equal(unlink(kept), 0);
	assert_int_equal(rmdir(outside), 0);
	free(left);
	free(other);
	free(whole);
	free(outside);
	free(kept);
	free(inner);
	free(file);
}

static void
what_is_mounted_there_is_not_entered(void **state)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	in_a_child(sweep_with_mounts, *state);
}

static void
a_directory_of_another_account_is_left_alone(void **state)
{
	struct fixture *fixture = *state;
	char *other = jr_xasprintf("%s/jobrun-out-%lld-AAAAAA", fixture->directory, (long long)geteuid());
	struct jr_outs *outs;
	struct jr_err err;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(chown(other, 65534, 65534), 0);
	outs = jr_outs_open(&err);
	assert_non_null(outs);
	assert_int_equal(access(other, F_OK), 0);
	jr_outs_close(outs);
	assert_int_equal(rmdir(other), 0);
	free(other);
}

static void
no_directory_is_a_passing_trouble(void **state)
{
	struct fixture *fixture = *state;
	struct jr_err err = {0};

	(void)setenv("TMPDIR", "/no/such/directory", 1);
	assert_null(jr_outs_open(&err));
	assert_int_equal(err.code, JR_E_TEMP);
	assert_non_null(strstr(err.msg, "/no/such/directory: No such file or directory"));
	(void)setenv("TMPDIR", fixture->directory, 1);
	jr_outs_close(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(what_is_put_in_its_place_is_not_read),
	    TEST(what_is_made_instead_of_it_is_not_read),
	    TEST(one_that_belongs_to_another_account_is_not_read),
	    TEST(a_checkpoint_is_handed_on),
	    TEST(files_belong_to_the_account_of_the_handler),
	    TEST(a_name_that_a_handler_has_taken_is_taken_back),
	    TEST(one_that_a_handler_has_removed_is_made_anew),
	    TEST(what_a_killed_runner_left_is_swept_away),
	    TEST(folders_in_folders_are_removed_whatever_their_modes),
	    TEST(no_folder_lies_too_deep),
	    TEST(what_cannot_be_removed_keeps_nobody_from_the_others),
	    TEST(what_is_mounted_there_is_not_entered),
	    TEST(a_directory_of_another_account_is_left_alone),
	    TEST(no_directory_is_a_passing_trouble),
	};

	return cmocka_run_group_tests_name("out_dir", tests, NULL, NULL);
}
