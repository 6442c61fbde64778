/*
 * err: why jobrun itself could not do something.
 *
 * The text is built in a local buffer and copied at the end, so that the old message may be an argument. What must
 * hold: msg is one line, terminated, without control bytes, and does not end in half a character when it was cut.
 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static void
set_message(struct jr_err *err, const char *text, bool was_cut)
{
	size_t len = strlen(text);

	if (was_cut)
		len = jr_text_whole(text, len);
	while (len > 0 && (unsigned char)text[len - 1] <= ' ')
		len--;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		err->msg[i] = c < ' ' || c == 0x7F ? ' ' : text[i];
	}
	err->msg[len] = '\0';
}

bool
jr_fail(struct jr_err *err, enum jr_errc code, const char *fmt, ...)
{
	char text[sizeof(err->msg)];
	va_list args;
	int len;

	if (err == NULL)
		return false;
	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (len < 0)
		text[0] = '\0';
	err->code = code;
	err->sqlstate[0] = '\0';
	set_message(err, text, len >= (int)sizeof(text));
	return false;
}

bool
jr_fail_in(struct jr_err *err, const char *what)
{
	char text[sizeof(err->msg)];
	int len = snprintf(text, sizeof(text), "%s: %s", what, err->msg);

	set_message(err, text, len >= (int)sizeof(text));
	return false;
}

/* Position in the order that err.h gives. A status that is not listed there (128 + N of a signal) is the worst. */
static size_t
rank(int status)
{
	static const int order[] = {JR_E_BUG, JR_E_CONFIG, JR_E_PERM, JR_E_TEMP, JR_E_DATA, JR_E_USAGE, JR_E_NEWS, 0};

	for (size_t i = 0; i < JR_COUNT(order); i++)
		if (order[i] == status)
			return i + 1;
	return 0;
}

int
jr_worse_status(int a, int b)
{
	return rank(b) < rank(a) ? b : a;
}
