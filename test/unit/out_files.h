/*
 * out_files: a directory of a runner with the file of one attempt, and a handler's ways to write to it.
 */
#ifndef JR_TEST_OUT_FILES_H
#define JR_TEST_OUT_FILES_H

#include "base/buf.h"
#include "handler/out.h"
#include "processes.h"

#include <fcntl.h>

struct fixture {
	char *directory; /* TMPDIR */
	struct jr_outs *outs;
	struct jr_out *out;
};

static inline int
set_up(void **state)
{
	struct fixture *fixture = jr_xcalloc(1, sizeof(*fixture));
	struct jr_err err;

	fixture->directory = make_directory();
	(void)setenv("TMPDIR", fixture->directory, 1);
	fixture->outs = jr_outs_open(&err);
	fixture->out = jr_out_open(fixture->outs, 41, 7, NULL, NULL, &err);
	*state = fixture;
	return fixture->out != NULL ? 0 : -1;
}

static inline int
tear_down(void **state)
{
	struct fixture *fixture = *state;

	jr_out_close(fixture->out);
	jr_outs_close(fixture->outs);
	if (rmdir(fixture->directory) < 0) /* everything in it is gone */
		return -1;
	free(fixture->directory);
	free(fixture);
	return 0;
}

static inline void
write_with(const char *path, const char *text, size_t len, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(close(fd), 0);
}

/* As a handler does with >>. */
static inline void
append(struct fixture *fixture, const char *text)
{
	write_with(jr_out_path(fixture->out), text, strlen(text), O_CREAT | O_APPEND);
}

/* As a handler does with >. */
static inline void
replace(struct fixture *fixture, const char *text)
{
	write_with(jr_out_path(fixture->out), text, strlen(text), O_CREAT | O_TRUNC);
}

static inline void
expect(const char *found, const char *expected)
{
	if (expected == NULL)
		assert_null(found);
	else {
		assert_non_null(found);
		assert_string_equal(found, expected);
	}
}

static inline void
expect_warning(struct fixture *fixture, const char *text)
{
	const char *warnings = jr_out_warnings(fixture->out);

	if (strstr(warnings, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, warnings);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
