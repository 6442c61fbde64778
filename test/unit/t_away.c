/*
 * away: the memory of a database that is away speaks at once, then rarely, and of the recovery
 * once.
 */
#include "process/state.h"

#include "base/clock.h"
#include "base/mem.h"

#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "private_directory.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)

/* The file that remembers; it must exist. Caller frees. */
static char *
away_file(const struct fixture *f)
{
	char *pattern = jr_xasprintf("%s/*.away", f->directory);
	glob_t found;
	char *path;

	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	path = jr_xstrdup(found.gl_pathv[0]);
	globfree(&found);
	free(pattern);
	return path;
}

static void
write_file(const struct fixture *f, const char *text)
{
	char *path = away_file(f);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	free(path);
}

/* As if the failure had begun so long ago and `stage` of the times to speak had passed. */
static void
pretend(const struct fixture *f, int64_t age_ms, int stage)
{
	char line[64];

	(void)snprintf(
	    line, sizeof(line), "%020lld %010d cbf29ce484222325\n", (long long)(jr_clock_wall_ms() - age_ms), stage);
	write_file(f, line);
}

static void
first_failure_is_printed_and_the_second_is_not(void **state)
{
	struct fixture *f = *state;
	int64_t since_ms = -1;

	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	assert_int_equal(since_ms, 0);
	assert_false(jr_state_away(f->directory, "db", "", &since_ms));
	assert_true(since_ms >= 0 && since_ms < MINUTE);
	assert_true(jr_state_away(f->directory, "another db", "", &since_ms));
}

static void
failure_is_printed_again_after_ten_minutes_an_hour_and_each_six_hours(void **state)
{
	static const struct {
		int64_t age_ms;
		int stage; /* printed before */
		bool is_due;
	} table[] = {{9 * MINUTE, 0, false}, {10 * MINUTE, 0, true}, {59 * MINUTE, 1, false}, {HOUR, 1, true},
	    {5 * HOUR, 2, false}, {6 * HOUR, 2, true}, {7 * HOUR, 3, false}, {12 * HOUR, 3, true},
	    {240 * HOUR, 41, true}, {240 * HOUR, 42, false}, {8 * HOUR, 0, true}};
	struct fixture *f = *state;
	int64_t since_ms;

	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	for (size_t i = 0; i < JR_COUNT(table); i++) {
		pretend(f, table[i].age_ms, table[i].stage);
		assert_int_equal(jr_state_away(f->directory, "db", "", &since_ms), table[i].is_due);
		assert_true(since_ms >= table[i].age_ms && since_ms < table[i].age_ms + MINUTE);
		assert_false(jr_state_away(f->directory, "db", "", &since_ms)); /* and once each time */
	}
}

static void
recovery_is_printed_once(void **state)
{
	struct fixture *f = *state;
	int64_t since_ms;

	assert_false(jr_state_back(f->directory, "db", &since_ms));
	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	pretend(f, HOUR, 1);
	assert_true(jr_state_back(f->directory, "db", &since_ms));
	assert_true(since_ms >= HOUR && since_ms < HOUR + MINUTE);
	assert_false(jr_state_back(f->directory, "db", &since_ms));
	assert_int_equal(since_ms, 0);
	assert_true(jr_state_away(f->directory, "db", "", &since_ms)); /* a new failure is news */
}

static void
memory_that_makes_no_sense_begins_anew(void **state)
{
	static const char *const texts[] = {"", "garbage", "00000000000000000000 0000000000 ",
	    "0000000000000000000x 0000000000\n", "00000000000000000001 000000000x\n",
	    "00000000000000000001-0000000000\n"};
	struct fixture *f = *state;
	int64_t since_ms;

	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	for (size_t i = 0; i < JR_COUNT(texts); i++) {
		write_file(f, texts[i]);
		assert_true(jr_state_away(f->directory, "db", "", &since_ms));
		assert_int_equal(since_ms, 0);
		assert_false(jr_state_away(f->directory, "db", "", &since_ms));
	}
	pretend(f, -HOUR, 0); /* begun in the future: the clock was wrong then */
	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	write_file(f, "garbage");
	assert_true(jr_state_back(f->directory, "db", &since_ms));
	assert_int_equal(since_ms, 0);
}

static void
without_a_directory_every_failure_is_printed(void **state)
{
	struct fixture *f = *state;
	char *gone = jr_xasprintf("%s/gone", f->root);
	int64_t since_ms = -1;

	assert_true(jr_state_away(gone, "db", "", &since_ms));
	assert_true(jr_state_away(gone, "db", "", &since_ms));
	assert_int_equal(since_ms, 0);
	assert_false(jr_state_back(gone, "db", &since_ms));
	free(gone);
}

static void
runners_that_fail_together_print_it_once(void **state)
{
	struct fixture *f = *state;
	int64_t since_ms;
	char *path;
	int fd;

	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	path = away_file(f);
	write_file(f, "");
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0); /* another runner is about to print it */
	assert_false(jr_state_away(f->directory, "db", "", &since_ms));
	close(fd);
	assert_true(jr_state_away(f->directory, "db", "", &since_ms));
	free(path);
}

#define AWAY_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    AWAY_TEST(first_failure_is_printed_and_the_second_is_not),
	    AWAY_TEST(failure_is_printed_again_after_ten_minutes_an_hour_and_each_six_hours),
	    AWAY_TEST(recovery_is_printed_once),
	    AWAY_TEST(memory_that_makes_no_sense_begins_anew),
	    AWAY_TEST(without_a_directory_every_failure_is_printed),
	    AWAY_TEST(runners_that_fail_together_print_it_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
