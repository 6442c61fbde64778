/* terminal: see terminal.h. */
#include "terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/parse.h"

#define USUAL_COLUMNS 80
#define USUAL_ROWS 24
#define MOST_COLUMNS 10000

static bool knows_utf8 = true;

size_t
jr_terminal_columns(void)
{
	const char *text = getenv("COLUMNS");
	struct winsize size = {0};
	int64_t number;
	struct jr_err err;

	if (text != NULL && jr_parse_int("COLUMNS", text, 1, MOST_COLUMNS, &number, &err))
		return (size_t)number;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return USUAL_COLUMNS;
}

size_t
jr_terminal_rows(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
		return USUAL_ROWS;
	return size.ws_row < 2 ? 2 : size.ws_row;
}

void
jr_terminal_set_locale(void)
{
	setlocale(LC_CTYPE, "");
	knows_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	if (!knows_utf8)
		setlocale(LC_CTYPE, "C.UTF-8");
}

const char *
jr_terminal_mark(void)
{
	return knows_utf8 ? "\xE2\x80\xA6" : "...";
}
