/*
 * handler_exec_output: what a handler has printed, as text.
 *
 * What must hold: it is fit for a text column and bounded, whatever was printed; what jobrun has to say about
 * JOBRUN_OUT stands behind it and can be told from it.
 */
#include "handler/handler_exec_parts.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT_MAX (JR_OUTPUT_HEAD + JR_OUTPUT_TAIL + 200) /* and a line between */
#define WARNINGS_MAX 65536

/*
 * A byte that is no character grows to three, so a log full of them is cut a second time: in its middle again, because
 * the end of a log says the most.
 */
char *
jr_exec_output(const struct jr_capture *capture)
{
	struct jr_capture shorter;
	struct jr_buf raw;
	char *text;

	if (jr_capture_is_empty(capture))
		return NULL;
	jr_buf_init(&raw, OUTPUT_MAX);
	jr_capture_read(capture, &raw);
	text = jr_text_clean(raw.data, raw.len, (size_t)OUTPUT_MAX * 3);
	if (strlen(text) > OUTPUT_MAX) {
		jr_capture_init(&shorter, JR_OUTPUT_HEAD, JR_OUTPUT_TAIL);
		jr_capture_add(&shorter, text, strlen(text));
		jr_buf_clear(&raw);
		jr_capture_read(&shorter, &raw);
		jr_capture_release(&shorter);
		free(text);
		text = jr_text_clean(raw.data, raw.len, OUTPUT_MAX);
	}
	jr_buf_release(&raw);
	return text;
}

uint64_t
jr_exec_output_total(const struct jr_capture *capture)
{
	return capture->head.len + capture->ring_len + capture->dropped;
}

char *
jr_exec_output_warn(char *output, const char *warnings)
{
	struct jr_buf text;
	size_t len = output != NULL ? strlen(output) : 0;

	if (warnings[0] == '\0')
		return output;
	jr_buf_init(&text, OUTPUT_MAX + 1 + WARNINGS_MAX);
	jr_buf_add(&text, output, len);
	if (len > 0 && output[len - 1] != '\n')
		jr_buf_addc(&text, '\n');
	while (warnings[0] != '\0') {
		size_t line = strcspn(warnings, "\n");

		jr_buf_adds(&text, "jobrun: ");
		jr_buf_add(&text, warnings, line);
		jr_buf_addc(&text, '\n');
		warnings += line + (warnings[line] != '\0');
	}
	free(output);
	return jr_buf_detach(&text);
}
