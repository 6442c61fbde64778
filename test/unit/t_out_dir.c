/*
 * out: the files of an attempt, whose they are, and what is left of them.
 */
#include "out_files.h"

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
	assert_int_equal(stat(jr_out_path(out), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	jr_out_close(out);
	jr_out_close(NULL);
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
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_gid, 65534);
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
	assert_int_equal(access(jr_out_path(fixture->out), F_OK), 0);
	jr_outs_close(outs);
	assert_int_equal(unlink(outside), 0);
	assert_int_equal(unlink(stranger), 0);
	free(outside);
	free(stranger);
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
	    TEST(a_checkpoint_is_handed_on),
	    TEST(files_belong_to_the_account_of_the_handler),
	    TEST(a_name_that_a_handler_has_taken_is_taken_back),
	    TEST(what_a_killed_runner_left_is_swept_away),
	    TEST(a_directory_of_another_account_is_left_alone),
	    TEST(no_directory_is_a_passing_trouble),
	};

	return cmocka_run_group_tests_name("out_dir", tests, NULL, NULL);
}
