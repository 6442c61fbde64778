/*
 * html: see html.h.
 */
#include "html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

#define COMMAND_MAX 200

static void
add_escaped(struct jr_buf *out, char c)
{
	switch (c) {
	case '&':
		jr_buf_adds(out, "&amp;");
		break;
	case '<':
		jr_buf_adds(out, "&lt;");
		break;
	case '>':
		jr_buf_adds(out, "&gt;");
		break;
	case '"':
		jr_buf_adds(out, "&quot;");
		break;
	case '\'':
		jr_buf_adds(out, "&#39;");
		break;
	default:
		jr_buf_addc(out, c);
	}
}

void
jr_html_text(struct jr_buf *out, const char *text, size_t most)
{
	char *visible;
	size_t characters = 0;

	if (text == NULL)
		return;
	visible = jr_text_visible(text, false);
	for (const char *c = visible; *c != '\0'; c++) {
		characters += ((unsigned char)*c & 0xC0) != 0x80;
		if (characters > most) {
			jr_buf_adds(out, "\u2026");
			break;
		}
		add_escaped(out, *c);
	}
	free(visible);
}

void
jr_html_value(struct jr_buf *out, const char *text, size_t most)
{
	jr_buf_adds(out, "<bdi>");
	jr_html_text(out, text, most);
	jr_buf_adds(out, "</bdi>");
}

void
jr_html_count(struct jr_buf *out, int64_t n, bool more)
{
	char *digits = jr_xasprintf("%" PRId64, n);
	size_t len = strlen(digits);

	if (more)
		jr_buf_adds(out, "&gt;&#8201;");
	for (size_t i = 0; i < len; i++) {
		jr_buf_addc(out, digits[i]);
		if (digits[i] != '-' && i + 1 < len && (len - i - 1) % 3 == 0)
			jr_buf_addc(out, ',');
	}
	free(digits);
}

void
jr_html_took(struct jr_buf *out, int64_t ms)
{
	char *took = jr_format_duration(ms >= 1000 ? ms / 1000 * 1000 : ms < 0 ? 0 : ms);

	jr_buf_adds(out, took);
	free(took);
}

void
jr_html_roughly(struct jr_buf *out, int64_t ms)
{
	static const int64_t units[] = {86400000, 3600000, 60000};

	for (size_t i = 0; i < JR_COUNT(units); i++) {
		if (ms >= units[i]) {
			jr_html_took(out, ms / units[i] * units[i]);
			return;
		}
	}
	jr_html_took(out, ms);
}

void
jr_html_about(struct jr_buf *out, int64_t ms)
{
	static const struct {
		double ms;
		const char *name;
	} units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}};

	for (size_t i = 0; i < JR_COUNT(units); i++) {
		double value = (double)ms / units[i].ms;

		if (value >= 1) {
			jr_buf_addf(out, value < 9.95 ? "%.1f&nbsp;%s" : "%.0f&nbsp;%s", value, units[i].name);
			return;
		}
	}
	jr_buf_addf(out, "%" PRId64 "&nbsp;ms", ms);
}

/* Nothing in it means anything to a shell, so that whoever pastes it runs jobrun and nothing else. */
static bool
is_plain_command(const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._:=/@+,-";

	return strncmp(text, "jobrun ", 7) == 0 && strspn(text, plain) == strlen(text) && strlen(text) <= COMMAND_MAX;
}

void
jr_html_command(struct jr_buf *out, const char *command)
{
	const char *behind = strstr(command, ": jobrun "), *text = behind == NULL ? command : behind + 2;

	if (!is_plain_command(text)) {
		jr_buf_adds(out, "<span class=\"advice\">");
		jr_html_text(out, command, COMMAND_MAX);
		jr_buf_adds(out, "</span>");
		return;
	}
	if (behind != NULL) {
		char *before = jr_xasprintf("%.*s", (int)(text - command), command);

		jr_buf_adds(out, "<span class=\"advice\">");
		jr_html_text(out, before, COMMAND_MAX);
		jr_buf_adds(out, "</span>");
		free(before);
	}
	jr_buf_adds(out, "<code class=\"cmd\">");
	jr_html_text(out, text, COMMAND_MAX);
	jr_buf_adds(out, "</code>");
}
