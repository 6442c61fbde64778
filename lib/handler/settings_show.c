/*
 * settings_show: print settings by their tables, as words in one line or as members of a JSON document.
 *
 * A printer always makes both forms, and the output keeps one of them. What must hold: a setting that is not set prints
 * nothing, and no printer shows a possible secret (only the names of variables and headers).
 */
#include "handler/settings_parts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "handler/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX ((size_t)JR_SETTINGS_MAX) /* bytes of the names of one setting */

void
jr_show_words(struct jr_settings_out *out, const struct jr_member *member, const char *words)
{
	const char *label = member->label != NULL ? member->label : member->name;

	if (out->words != NULL && label[0] != '\0')
		jr_show_bare(out, label, words);
}

void
jr_show_bare(struct jr_settings_out *out, const char *label, const char *words)
{
	const char *blank = label[0] != '\0' && words[0] != '\0' ? " " : "";

	if (out->words != NULL)
		(void)jr_buf_addf(out->words, "%s%s%s%s", out->words->len > 0 ? ", " : "", label, blank, words);
}

void
jr_show_value(struct jr_settings_out *out, const struct jr_member *member, json_t *value)
{
	if (out->object != NULL)
		jr_document_set(out->object, member->key != NULL ? member->key : member->name, value);
	else
		json_decref(value);
}

static int64_t
int_at(const struct jr_member *member, const void *target)
{
	const void *field = (const char *)target + member->offset;

	return *(const int64_t *)field;
}

void
jr_show_duration(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	int64_t ms = int_at(member, target);
	char *words;

	if (ms < member->min)
		return;
	words = jr_format_duration(ms);
	jr_show_words(out, member, words);
	jr_show_value(out, member, json_integer(ms));
	free(words);
}

void
jr_show_int(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	int64_t number = int_at(member, target);
	char words[24];

	if (number < member->min)
		return;
	(void)snprintf(words, sizeof(words), "%" PRId64, number);
	jr_show_words(out, member, words);
	jr_show_value(out, member, json_integer(number));
}

/* In words as people write it: 512M. */
void
jr_show_size(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	static const char *const units[] = {"", "K", "M", "G"};
	int64_t bytes = int_at(member, target), rest = bytes;
	char words[24];
	size_t i = 0;

	if (bytes < member->min)
		return;
	while (i < JR_COUNT(units) - 1 && rest >= 1024 && rest % 1024 == 0) {
		rest /= 1024;
		i++;
	}
	(void)snprintf(words, sizeof(words), "%" PRId64 "%s", rest, units[i]);
	jr_show_words(out, member, words);
	jr_show_value(out, member, json_integer(bytes));
}

void
jr_show_text(struct jr_settings_out *out, const struct jr_member *member, const void *target)
{
	const void *field = (const char *)target + member->offset;
	const char *text = *(char *const *)field;

	if (text == NULL)
		return;
	jr_show_words(out, member, text);
	jr_show_value(out, member, jr_document_string(text, strlen(text)));
}

void
jr_show_list(struct jr_settings_out *out, const struct jr_member *member, char *const *items, size_t count,
    const char *end, const char *none)
{
	struct jr_buf list;

	jr_buf_init(&list, NAMES_MAX);
	for (size_t i = 0; i < count; i++)
		(void)jr_buf_addf(&list, "%s%.*s", i > 0 ? " " : "", (int)strcspn(items[i], end), items[i]);
	if (count > 0 || none != NULL)
		jr_show_words(out, member, count > 0 ? list.data : none);
	jr_show_value(out, member, jr_document_list(items, count, end));
	jr_buf_release(&list);
}

size_t
jr_strings_count(char *const *items)
{
	size_t count = 0;

	while (items != NULL && items[count] != NULL)
		count++;
	return count;
}

void
jr_members_show(struct jr_settings_out *out, const struct jr_member *members, size_t count, const void *target)
{
	for (unsigned rank = 0; out->words != NULL && rank < JR_RANK_COUNT; rank++) {
		for (size_t i = 0; i < count; i++) {
			if (members[i].rank == rank)
				members[i].show(out, &members[i], target);
		}
	}
	for (size_t i = 0; out->object != NULL && i < count; i++)
		members[i].show(out, &members[i], target);
}
