/*
 * options: parse command lines and print their help from one table.
 *
 * A command describes its options in a table; each row names the field of the command's own options struct that it
 * fills. The table drives getopt_long, the defaults from the environment, and the usage text, so that the three cannot
 * disagree:
 *
 *	struct list_opts {
 *		struct jr_words statuses;
 *		int64_t limit;
 *		int64_t since_ms;
 *	};
 *	static const struct list_opts list_defaults = { .limit = 20, .since_ms = -1 };
 *	static const struct jr_option list_options[] = {
 *		{ .name = "status", .letter = 's', .arg = "STATUS", .help = "only these", .type = JR_OPT_WORDS,
 *		    .offset = offsetof(struct list_opts, statuses) },
 *		{ .name = "limit", .arg = "N", .help = "at most N rows (20)", .type = JR_OPT_INT,
 *		    .offset = offsetof(struct list_opts, limit), .min = 1, .max = 10000 },
 *		JR_OPTIONS_END,
 *	};
 *
 * Options and arguments may be mixed, "--" ends the options. Abbreviations of long options are refused, since a new
 * option of a later version could make them ambiguous. Every error is JR_E_USAGE and one line, with a suggestion if a
 * known name is near.
 */
#ifndef JR_OPTIONS_H
#define JR_OPTIONS_H

#include <stdio.h>

#include "base/err.h"

/* The type of the field at `offset`. */
enum jr_option_type {
	JR_OPT_FLAG,     /* bool: given or not */
	JR_OPT_COUNT,    /* int64_t: how often it was given */
	JR_OPT_STRING,   /* const char *: borrowed from argv or the environment; the last one counts */
	JR_OPT_SECRET,   /* char *: a copy; the argument is overwritten, so that ps(1) shows x for each character */
	JR_OPT_WORDS,    /* struct jr_words: repeated, or separated by commas; the command line replaces env */
	JR_OPT_INT,      /* int64_t in [min, max] */
	JR_OPT_DURATION, /* int64_t, milliseconds, in [min, max]; max of 0: no limit but the program's */
};

/* The items belong to the options struct, as a SECRET does; jr_options_release frees them. */
struct jr_words {
	char **items;
	size_t count;
	bool inherited; /* the items come from the environment: the first one on the command line replaces them */
};

struct jr_option {
	const char *name; /* without the dashes */
	const char *arg;  /* what the usage text calls the argument; NULL exactly for FLAG and COUNT */
	const char *bare; /* the text when the argument is left out, which then follows "=" only; NULL: it is needed */
	const char *help; /* one line; a default is said in it */
	const char *env;  /* variable that gives the default when it is set and not empty; NULL: none */
	/* The words, up to 8, that STRING or WORDS takes, divided by spaces; NULL: any text. `check` overrules it. */
	const char *choices;
	/* A rule for the text of STRING and for each of WORDS (jr_parse_queue ...); NULL: none. */
	bool (*check)(const char *what, const char *text, struct jr_err *err);
	const char *(*word)(size_t i); /* word number i of those that `check` knows, NULL behind the last; NULL: none */
	size_t offset;
	int64_t min, max;
	enum jr_option_type type;
	bool not_empty; /* STRING: an empty text is refused, as each empty one of WORDS is */
	char letter;    /* 0: none */
};

/* clang-format off */
#define JR_OPTIONS_END { .name = NULL }
/* clang-format on */

/* A table and the struct that it fills. */
struct jr_option_set {
	const struct jr_option *options;
	void *values;
};

/* Set the values that the environment gives. Call it before jr_options_parse. */
bool jr_options_environment(const struct jr_option_set *set, struct jr_err *err) JR_MUST;

/*
 * Parse argv[1..argc-1] with the tables of `sets` (the command's and the global ones; no name or letter may be in two
 * tables). On success the arguments that are not options are argv[*first..argc-1], in their order. With `stop_early`
 * parsing stops at the first argument that is no option. argv is reordered.
 */
bool jr_options_parse(const struct jr_option_set *sets, size_t set_count, bool stop_early, int argc, char **argv,
    int *first, struct jr_err *err) JR_MUST;

/* Free what WORDS and SECRET fields own. */
void jr_options_release(const struct jr_option_set *set);

/* Print the options and their help in two aligned columns, as jr_help_item does. */
void jr_options_print(FILE *out, const struct jr_option *options);

/* Fail with: unknown KIND "WORD": did you mean "NEAR"? Without a near word, `otherwise` replaces the question. */
bool jr_fail_unknown(struct jr_err *err, const char *kind, const char *word, const char *const *known, size_t count,
    const char *otherwise);

#endif
