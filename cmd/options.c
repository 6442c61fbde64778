/*
 * options: see options.h. getopt_long does the parsing: the tables are turned into its arrays, and its errors into one
 * line of text each. For getopt the value of a long option is FIRST_VALUE plus its row number, counted through all
 * tables, so that letters and long names lead to the same row.
 */
#include "options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "help.h"

#define FIRST_VALUE 256 /* above every letter */
#define NAME_COLUMN 30  /* the column in which the help of an option begins */

/* All tables together, as getopt wants them. */
struct joined {
	struct row {
		const struct jr_option *option;
		void *values; /* the struct that it fills */
	} * rows;
	size_t count;
	struct option *longs;
	char *letters;
};

static size_t
count_options(const struct jr_option *options)
{
	size_t n = 0;

	while (options != NULL && options[n].name != NULL)
		n++;
	return n;
}

static bool
has_argument(const struct jr_option *option)
{
	return option->type != JR_OPT_FLAG && option->type != JR_OPT_COUNT;
}

static int
kind_of_argument(const struct jr_option *option)
{
	if (!has_argument(option))
		return no_argument;
	return option->bare != NULL ? optional_argument : required_argument;
}

static void
join_one(struct joined *all, const struct jr_option *option, void *values, size_t *letter_count)
{
	size_t i = all->count++;

	all->rows[i] = (struct row){option, values};
	all->longs[i] =
	    (struct option){.name = option->name, .has_arg = kind_of_argument(option), .val = FIRST_VALUE + (int)i};
	if (option->letter == 0)
		return;
	all->letters[(*letter_count)++] = option->letter;
	if (has_argument(option))
		all->letters[(*letter_count)++] = ':';
}

static void
join(struct joined *all, const struct jr_option_set *sets, size_t set_count, bool stop_early)
{
	size_t total = 0, letter_count = 0;

	for (size_t i = 0; i < set_count; i++)
		total += count_options(sets[i].options);
	*all = (struct joined){.rows = jr_xcalloc(total + 1, sizeof(*all->rows)),
	    .longs = jr_xcalloc(total + 1, sizeof(*all->longs)),
	    .letters = jr_xcalloc(2 * total + 3, 1)};
	if (stop_early)
		all->letters[letter_count++] = '+';
	all->letters[letter_count++] = ':'; /* getopt returns ':' for a missing argument and prints nothing */
	for (size_t i = 0; i < set_count; i++) {
		for (size_t j = 0; j < count_options(sets[i].options); j++)
			join_one(all, &sets[i].options[j], sets[i].values, &letter_count);
	}
}

static void
joined_release(struct joined *all)
{
	free(all->rows);
	free(all->longs);
	free(all->letters);
}

static void *
field_of(const struct jr_option *option, void *values)
{
	return (char *)values + option->offset;
}

/* Fail with: unknown WHAT "TEXT": a, b or c. Of one word: the only one is a. */
static bool
fail_no_choice(char **words, size_t count, const char *what, const char *text, struct jr_err *err)
{
	struct jr_buf all;

	jr_buf_init(&all, 1000);
	if (count == 1)
		jr_buf_addf(&all, "the only one is ");
	for (size_t i = 0; i < count; i++)
		jr_buf_addf(&all, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", words[i]);
	jr_fail_unknown(err, what, text, (const char *const *)words, count, all.data);
	jr_buf_release(&all);
	return false;
}

static bool
is_choice(const struct jr_option *option, const char *what, const char *text, struct jr_err *err)
{
	char *words[8], *copy = jr_xstrdup(option->choices), *rest = copy;
	size_t count = 0;
	bool found = false;

	for (char *word; count < JR_COUNT(words) && (word = strsep(&rest, " ")) != NULL; count++) {
		words[count] = word;
		found = found || strcmp(word, text) == 0;
	}
	if (!found)
		fail_no_choice(words, count, what, text, err);
	free(copy);
	return found;
}

/* The rules of the table for the text of STRING, and for each of WORDS. */
static bool
check_text(const struct jr_option *option, const char *what, const char *text, struct jr_err *err)
{
	if (option->check != NULL)
		return option->check(what, text, err);
	return option->choices == NULL || is_choice(option, what, text, err);
}

static void
clear_words(struct jr_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->items[i]);
	free(words->items);
	*words = (struct jr_words){.items = NULL};
}

static bool
add_words(
    const struct jr_option *option, struct jr_words *words, const char *what, const char *text, struct jr_err *err)
{
	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		char *word = jr_xmemdup0(p, len);

		words->items = jr_xrealloc(words->items, words->count + 1, sizeof(*words->items));
		words->items[words->count++] = word;
		if (len == 0)
			return jr_fail(err, JR_E_USAGE, "%s: an empty word in \"%s\"", what, text);
		if (!check_text(option, what, word, err))
			return false;
		p += len;
		if (*p == '\0')
			return true;
	}
}

static bool
set_duration(const struct jr_option *option, int64_t *out, const char *what, const char *text, struct jr_err *err)
{
	int64_t ms;

	if (!jr_parse_duration(what, text, &ms, err))
		return false;
	if (ms < option->min || (option->max > 0 && ms > option->max)) {
		char *limit = jr_format_duration(ms < option->min ? option->min : option->max);

		jr_fail(err, JR_E_USAGE, "%s: %s is too %s; at %s %s", what, text, ms < option->min ? "short" : "long",
		    ms < option->min ? "least" : "most", limit);
		free(limit);
		return false;
	}
	*out = ms;
	return true;
}

static bool
set_string(const struct jr_option *option, const char **out, const char *what, const char *text, struct jr_err *err)
{
	if (option->not_empty && text[0] == '\0')
		return jr_fail(err, JR_E_USAGE, "%s: the %s is empty", what, option->arg);
	if (!check_text(option, what, text, err))
		return false;
	*out = text;
	return true;
}

/* Put the text of one option into its field. `what` is its name in messages. */
static bool
set_value(const struct jr_option *option, void *values, const char *what, const char *text, struct jr_err *err)
{
	void *field = field_of(option, values);

	switch (option->type) {
	case JR_OPT_FLAG:
		*(bool *)field = true;
		return true;
	case JR_OPT_COUNT:
		*(int64_t *)field += 1;
		return true;
	case JR_OPT_STRING:
		return set_string(option, field, what, text, err);
	case JR_OPT_SECRET:
		free(*(char **)field);
		*(char **)field = jr_xstrdup(text);
		return true;
	case JR_OPT_WORDS:
		if (((struct jr_words *)field)->inherited)
			clear_words(field);
		return add_words(option, field, what, text, err);
	case JR_OPT_INT:
		return jr_parse_int(what, text, option->min, option->max, field, err);
	case JR_OPT_DURATION:
		return set_duration(option, field, what, text, err);
	}
	return jr_fail(err, JR_E_BUG, "%s: an option of no known type", what);
}

bool
jr_options_environment(const struct jr_option_set *set, struct jr_err *err)
{
	for (const struct jr_option *option = set->options; option != NULL && option->name != NULL; option++) {
		const char *text = option->env == NULL ? NULL : getenv(option->env);

		if (text == NULL || *text == '\0')
			continue;
		if (!set_value(option, set->values, option->env, text, err))
			return false;
		if (option->type == JR_OPT_WORDS) {
			struct jr_words *words = field_of(option, set->values);

			words->inherited = true;
		}
	}
	return true;
}

bool
jr_fail_unknown(struct jr_err *err, const char *kind, const char *word, const char *const *known, size_t count,
    const char *otherwise)
{
	const char *near = jr_text_nearest(word, known, count);

	if (near != NULL)
		return jr_fail(err, JR_E_USAGE, "unknown %s \"%s\": did you mean \"%s\"?", kind, word, near);
	return jr_fail(err, JR_E_USAGE, "unknown %s \"%s\": %s", kind, word, otherwise);
}

/* `token` is "--nmae" or "--nmae=value". */
static bool
fail_unknown_long(const struct joined *all, const char *token, struct jr_err *err)
{
	size_t len = strcspn(token, "=");
	char *word = jr_xmemdup0(token, len);
	char **known = jr_xcalloc(all->count + 1, sizeof(*known));
	const char *begun = NULL;

	for (size_t i = 0; i < all->count; i++) {
		known[i] = jr_xasprintf("--%s", all->rows[i].option->name);
		if (len > 2 && strncmp(known[i], word, len) == 0)
			begun = known[i];
	}
	if (begun != NULL)
		jr_fail(err, JR_E_USAGE, "unknown option \"%s\": names are not shortened; write %s", word, begun);
	else
		jr_fail_unknown(err, "option", word, (const char *const *)known, all->count, "--help lists them all");
	for (size_t i = 0; i < all->count; i++)
		free(known[i]);
	free(known);
	free(word);
	return false;
}

/* The row of a value that getopt returned or complained about: a letter, or FIRST_VALUE + row number. */
static size_t
row_of(const struct joined *all, int value)
{
	if (value >= FIRST_VALUE && (size_t)(value - FIRST_VALUE) < all->count)
		return (size_t)(value - FIRST_VALUE);
	for (size_t i = 0; i < all->count; i++) {
		if (value != 0 && all->rows[i].option->letter == value)
			return i;
	}
	return all->count;
}

static bool
fail_refused(const struct joined *all, int answer, char **argv, struct jr_err *err)
{
	size_t row = row_of(all, optopt);
	const struct jr_option *option = row < all->count ? all->rows[row].option : NULL;

	if (option != NULL && answer == ':')
		return jr_fail(
		    err, JR_E_USAGE, "--%s needs an argument: --%s %s", option->name, option->name, option->arg);
	if (option != NULL)
		return jr_fail(err, JR_E_USAGE, "--%s takes no argument", option->name);
	if (optopt != 0)
		return jr_fail(err, JR_E_USAGE, "unknown option \"-%c\": --help lists them all", optopt);
	return fail_unknown_long(all, argv[optind - 1], err);
}

/* getopt accepts any unambiguous beginning of a long name; jobrun does not. */
static bool
is_abbreviated(const struct jr_option *option, int answer, char **argv)
{
	const char *token = argv[optind - 1];
	size_t len;

	if (answer < FIRST_VALUE)
		return false;
	if (optarg == token) /* "--name value": the name is the argument before it */
		token = argv[optind - 2];
	len = strcspn(token, "=");
	return len != strlen(option->name) + 2;
}

static bool
take_option(const struct joined *all, int answer, char **argv, struct jr_err *err)
{
	size_t row = row_of(all, answer);
	const struct jr_option *option;
	char *what;
	bool ok;

	if (answer == '?' || answer == ':' || row >= all->count)
		return fail_refused(all, answer, argv, err);
	option = all->rows[row].option;
	if (is_abbreviated(option, answer, argv))
		return fail_unknown_long(all, optarg == argv[optind - 1] ? argv[optind - 2] : argv[optind - 1], err);
	what = jr_xasprintf("--%s", option->name);
	ok = set_value(option, all->rows[row].values, what, optarg == NULL ? option->bare : optarg, err);
	free(what);
	if (option->type == JR_OPT_SECRET && optarg != NULL)
		memset(optarg, 'x', strlen(optarg));
	return ok;
}

bool
jr_options_parse(const struct jr_option_set *sets, size_t set_count, bool stop_early, int argc, char **argv, int *first,
    struct jr_err *err)
{
	struct joined all;
	bool ok = true;
	int answer;

	join(&all, sets, set_count, stop_early);
	optind = 0; /* resets getopt in glibc and musl */
	opterr = 0;
	while (ok && (answer = getopt_long(argc, argv, all.letters, all.longs, NULL)) != -1)
		ok = take_option(&all, answer, argv, err);
	*first = optind;
	joined_release(&all);
	return ok;
}

void
jr_options_release(const struct jr_option_set *set)
{
	for (const struct jr_option *option = set->options; option != NULL && option->name != NULL; option++) {
		if (option->type == JR_OPT_WORDS)
			clear_words(field_of(option, set->values));
		if (option->type == JR_OPT_SECRET) {
			char **field = field_of(option, set->values);

			free(*field);
			*field = NULL;
		}
	}
}

void
jr_options_print(FILE *out, const struct jr_option *options)
{
	for (const struct jr_option *o = options; o->name != NULL; o++) {
		char letter[] = {
		    o->letter == 0 ? ' ' : '-', o->letter == 0 ? ' ' : o->letter, o->letter == 0 ? ' ' : ',', '\0'};
		char *left = jr_xasprintf("  %s --%s%s%s%s", letter, o->name,
		    o->arg == NULL    ? ""
		    : o->bare != NULL ? "[="
				      : " ",
		    o->arg == NULL ? "" : o->arg, o->bare != NULL ? "]" : "");

		jr_help_item(out, left, NAME_COLUMN, o->help);
		free(left);
	}
}
