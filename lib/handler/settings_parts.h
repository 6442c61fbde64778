/*
 * settings_parts: what the files of settings share; nobody else includes it. Each calls only what stands above it.
 *
 *	settings_place.c    where in the text something stands; pure
 *	settings_read.c     members by their tables, refusals, and values that are read in one way everywhere
 *	settings_show.c     members by their tables, as words and as JSON
 *	settings_secret.c   files that are closed to others, and keys of signatures in them
 *	settings_exec.c     members of exec handlers
 *	settings_http.c     "http"
 *	settings.c          the whole file
 *
 * A NAME.json is read, printed and explained by tables: a member's row names the kinds it goes with, the functions that
 * read and print it, the field it fills, and what it is for. A new setting is one row and its field.
 *
 * Every refusal knows its place in the document by a chain of steps, which lie on the stack of the functions that read.
 * The text is searched for line and column only when there is something to refuse.
 */
#ifndef JR_SETTINGS_PARTS_H
#define JR_SETTINGS_PARTS_H

#include "handler/settings.h"

#include <jansson.h>
#include <sys/stat.h>

#define JR_SETTINGS_LIST_MAX 100 /* argv, env, give_up, later, expect */
#define JR_SECRET_FILE_MAX 1024
#define JR_FILE_PREFIX "file:" /* before the path of a file that a value stands in */

/* json_object_iter has no form for what is const. */
static inline json_t *
jr_unconst(const json_t *value)
{
	return (json_t *)(uintptr_t)value;
}

/* What a member goes with. */
enum {
	JR_WITH_EXEC = 1,
	JR_WITH_SQL = 2,
	JR_WITH_HTTP = 4,
	JR_WITH_ANY = 7
};

/* A place in the document: a member of an object, or an element of a list. */
struct jr_step {
	const struct jr_step *up; /* NULL: in the document itself */
	const char *key;          /* NULL: an element */
	size_t index;
};

struct jr_buf;
struct jr_reading;
struct jr_settings_out;

struct jr_member {
	const char *name;
	/* Fill the field of `target` at member->offset. */
	bool (*read)(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
	    const struct jr_member *member, void *target);
	/* Print the field of `target` at member->offset; nothing if it is not set. */
	void (*show)(struct jr_settings_out *out, const struct jr_member *member, const void *target);
	size_t offset;
	int64_t min,
	    max; /* for numbers and durations; max of 0: no limit but the program's. Less than min is not set */
	unsigned with;
	unsigned rank;     /* where it stands in the line of words; rows of one rank stand in the order of the table */
	const char *label; /* its name in the line; NULL: `name`; "": it is not shown there */
	const char *key;   /* its name in the document; NULL: `name` */
	const char *help;  /* one line, for `jobrun handlers --settings` */
};

/* Ranks in the line of words. */
enum {
	JR_RANK_TARGET, /* what is started or asked */
	JR_RANK_TIMES,
	JR_RANK_WHO, /* as whom, and how many at once */
	JR_RANK_LIMITS,
	JR_RANK_ENV,
	JR_RANK_CODES,
	JR_RANK_COUNT
};

/* Where printers write: one of the two, the other is NULL. */
struct jr_settings_out {
	struct jr_buf *words;
	json_t *object;
};

struct jr_reading {
	const char *file;                /* its name, for messages */
	const char *path;                /* the same, whole */
	bool is_open;                    /* others can read it */
	const char *directory;           /* where relative paths begin */
	const char *text;                /* valid JSON */
	const struct jr_member *members; /* of the document itself, so that one that stands too deep is known */
	size_t member_count;
	enum jr_settings_for what;
	unsigned kind; /* one of JR_WITH_...; 0: not known, for want of "http" and "argv" */
	struct jr_settings *settings;
	struct jr_err *err;
};

/* Line and column (from 1, in characters) of a step in `text`, a valid JSON document; NULL: of the document. Pure. */
void jr_step_place(const char *text, const struct jr_step *step, size_t *line, size_t *column);

/* The name of the member that the step is, or is in. */
const char *jr_step_name(const struct jr_step *step);

/* Always false. `step` is the place; jr_refuse_type says what stands there instead of what was expected. */
bool jr_refuse(const struct jr_reading *r, const struct jr_step *step, const char *fmt, ...) JR_PRINTF(3, 4);
bool jr_refuse_type(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const char *expected);
const char *jr_type_word(const json_t *value); /* "a number" */

/* Refuse members of `object` that are not in the table or do not go with r->kind. */
bool jr_members_check(const struct jr_reading *r, const struct jr_step *up, const json_t *object,
    const struct jr_member *members, size_t count) JR_MUST;

/* Read each member by its row. jr_members_check has been asked. */
bool jr_members_read(const struct jr_reading *r, const struct jr_step *up, const json_t *object,
    const struct jr_member *members, size_t count, void *target) JR_MUST;

/* A string that is not empty; NULL after a refusal. Borrowed from `value`. */
const char *jr_read_text(
    const struct jr_reading *r, const struct jr_step *step, const json_t *value, const char *expected) JR_MUST;

/* A list of 1 to JR_SETTINGS_LIST_MAX elements (0 with may_be_empty). */
bool jr_read_list(
    const struct jr_reading *r, const struct jr_step *step, const json_t *value, bool may_be_empty) JR_MUST;

/* `path` itself if it is absolute, else below `directory`. Caller frees. */
char *jr_settings_path(const char *directory, const char *path) JR_MUST;

/* For the tables. int64_t: milliseconds, a whole number, bytes, seconds; bool; char *. */
bool jr_read_duration(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_int(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_bool(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_path(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;

/* Print all members that are set: words by rank, the document in the order of the table. */
void jr_members_show(struct jr_settings_out *out, const struct jr_member *members, size_t count, const void *target);

/* The two forms of one setting, by its label and key. The other form is dropped. jr_show_value takes `value`. */
void jr_show_words(struct jr_settings_out *out, const struct jr_member *member, const char *words);
void jr_show_value(struct jr_settings_out *out, const struct jr_member *member, json_t *value);
void jr_show_bare(struct jr_settings_out *out, const char *label, const char *words); /* by another label */

/* For the tables, as the readers above. */
void jr_show_duration(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_int(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_size(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_text(struct jr_settings_out *out, const struct jr_member *member, const void *target);

/* Items up to the first byte of `end`. none: the words for an empty list; NULL: no words. */
void jr_show_list(struct jr_settings_out *out, const struct jr_member *member, char *const *items, size_t count,
    const char *end, const char *none);
size_t jr_strings_count(char *const *items); /* NULL-terminated; NULL: 0 */

/* Members that only exec handlers have; target is the struct jr_settings. */
bool jr_read_argv(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_env(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_cpu(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_nice(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_memory(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_user(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_no_new_privs(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;

void jr_show_argv(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_env(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_cpu(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_nice(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_no_new_privs(struct jr_settings_out *out, const struct jr_member *member, const void *target);

/* "http"; target is the struct jr_settings. Its own members are in jr_http_members. */
extern const struct jr_member jr_http_members[];
extern const size_t jr_http_member_count;
void jr_show_http(struct jr_settings_out *out, const struct jr_member *member, const void *target);
bool jr_read_http(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
void jr_http_target_free(struct jr_http_target *target); /* NULL is fine */

/*
 * The text of a file that is closed to others: neither they nor its directory's owner choose what is in it, and at most
 * the group can read it. At most `max` bytes, none of them NUL. NULL, and no piece of it in *err, on failure; to be
 * freed by jr_settings_wipe, which takes NULL too.
 */
char *jr_settings_closed_file(const char *path, size_t max, struct jr_err *err) JR_MUST;
void jr_settings_wipe(char *text);
bool jr_settings_is_open(const struct stat *st) JR_MUST; /* can others read it, or the group change it? */

/* "secret" of http; target is the struct jr_http_target. */
bool jr_read_secret(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;

#endif
