/*
 * settings_files: what tests of settings share: a directory, and a NAME.json in it that must be understood or refused.
 */
#ifndef JR_TEST_SETTINGS_FILES_H
#define JR_TEST_SETTINGS_FILES_H

#include "handler/settings.h"
#include "processes.h"

static int
set_up(void **state)
{
	*state = make_directory();
	return 0;
}

static int
tear_down(void **state)
{
	remove_directory(*state);
	return 0;
}

static inline bool
read_text(struct jr_settings *settings, const char *directory, enum jr_settings_for what, const char *text,
    struct jr_err *err)
{
	char *path = make_file(directory, "send.json", text, 0600);
	bool ok;

	*err = (struct jr_err){.code = JR_E_BUG};
	ok = jr_settings_read(settings, path, directory, what, err);
	free(path);
	return ok;
}

static inline void
understand(struct jr_settings *settings, const char *directory, enum jr_settings_for what, const char *text)
{
	struct jr_err err;

	if (!read_text(settings, directory, what, text, &err))
		fail_msg("%s: %s", text, err.msg);
}

/* The text is refused with a message that begins with "send.json:" and `expected`. */
static inline void
refuse(const char *directory, enum jr_settings_for what, const char *text, const char *expected)
{
	struct jr_settings settings, untouched;
	struct jr_err err;

	jr_settings_init(&untouched);
	if (read_text(&settings, directory, what, text, &err))
		fail_msg("%s: was not refused, expected \"%s\"", text, expected);
	assert_int_equal(err.code, JR_E_CONFIG);
	if (strncmp(err.msg, "send.json:", 10) != 0 || strncmp(err.msg + 10, expected, strlen(expected)) != 0)
		fail_msg("%s: \"%s\" instead of \"%s\"", text, err.msg, expected);
	assert_memory_equal(&settings, &untouched, sizeof(settings));
}

struct refusal {
	enum jr_settings_for what;
	const char *text, *expected;
};

static inline void
refuse_all(const char *directory, const struct refusal *refusals, size_t count)
{
	for (size_t i = 0; i < count; i++)
		refuse(directory, refusals[i].what, refusals[i].text, refusals[i].expected);
}

#endif
