/*
 * settings_parts: shared by the files of settings; no other file includes it. A file calls only functions of the files
 * above it in this list.
 *
 *	settings_place.c    line and column of a member in the text; pure
 *	settings_read.c     reads members by their tables; refusals, and readers of common types
 *	settings_show.c     prints members by their tables, as words and as JSON
 *	settings_ping.c     the address of a dead man's switch
 *	settings_secret.c   files that others cannot read, and the signature keys in them
 *	settings_exec.c     members of exec handlers
 *	settings_http.c     "http"
 *	settings.c          the whole file
 *
 * Tables describe how a NAME.json is read, printed and explained. The row of a member names the handler kinds that may
 * have it, the functions that read and print it, the field that it fills, and its help text. A new setting is one row
 * and its field.
 *
 * A chain of steps names a place in the document. The steps are on the stack of the reading functions. The text is
 * searched for line and column only for a refusal.
 */
#ifndef JR_SETTINGS_PARTS_H
#define JR_SETTINGS_PARTS_H

#include "handler/settings.h"

#include <jansson.h>
#include <sys/stat.h>

#define JR_SETTINGS_LIST_MAX 100 /* argv, env, give_up, later, expect */
#define JR_SECRET_FILE_MAX 1024
#define JR_FILE_PREFIX "file:" /* before the path of a file that contains the value */

/* json_object_iter takes only a pointer to non-const. */
static inline json_t *
jr_unconst(const json_t *value)
{
	return (json_t *)(uintptr_t)value;
}

/* The kinds of handler that may have a member. */
enum {
	JR_WITH_EXEC = 1,
	JR_WITH_SQL = 2,
	JR_WITH_HTTP = 4,
	JR_WITH_ANY = 7
};

/* A place in the document: a member of an object, or an element of a list. */
struct jr_step {
	const struct jr_step *up; /* NULL: at the top of the document */
	const char *key;          /* NULL: an element of a list */
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
	/* The range of numbers; durations have only min. A field that is less than min is not set. */
	int64_t min, max;
	unsigned with;
	unsigned rank;     /* its place in the line of words; rows of the same rank keep the order of the table */
	const char *label; /* its name in the line of words; NULL: `name`; "": it is not shown there */
	const char *key;   /* its name in the JSON document; NULL: `name` */
	const char *help;  /* one line, for `jobrun handlers --settings` */
};

/* Ranks in the line of words. */
enum {
	JR_RANK_TARGET, /* the program, or the target of a request */
	JR_RANK_TIMES,
	JR_RANK_WHO, /* the account, and the size of a batch */
	JR_RANK_LIMITS,
	JR_RANK_ENV,
	JR_RANK_CODES,
	JR_RANK_COUNT
};

/* The output of printers: one of the two; the other is NULL. */
struct jr_settings_out {
	struct jr_buf *words;
	json_t *object;
};

struct jr_reading {
	const char *file;                /* the name of the file, for messages */
	const char *path;                /* the path of the file */
	bool is_open;                    /* others can read it */
	const char *directory;           /* relative paths are relative to it */
	const char *text;                /* valid JSON */
	const struct jr_member *members; /* of the top level, to recognise such a member inside "http" */
	size_t member_count;
	enum jr_settings_for what;
	unsigned kind; /* one of JR_WITH_...; 0: unknown, because "http" and "argv" are missing */
	struct jr_settings *settings;
	struct jr_err *err;
};

/* Line and column (from 1, in characters) of a step in `text`, a valid JSON document. NULL: of the document. Pure. */
void jr_step_place(const char *text, const struct jr_step *step, size_t *line, size_t *column);

/* The name of the member at this step; for an element of a list, the name of the member with the list. */
const char *jr_step_name(const struct jr_step *step);

/* Fail with a message about `step`. jr_refuse_type names the expected type and the type of `value`. Always false. */
bool jr_refuse(const struct jr_reading *r, const struct jr_step *step, const char *fmt, ...) JR_PRINTF(3, 4);
bool jr_refuse_type(const struct jr_reading *r, const struct jr_step *step, const json_t *value, const char *expected);
const char *jr_type_word(const json_t *value); /* "a number" */

/* Refuse members of `object` that are not in the table or do not go with r->kind. */
bool jr_members_check(const struct jr_reading *r, const struct jr_step *up, const json_t *object,
    const struct jr_member *members, size_t count) JR_MUST;

/* Read each member by its row. Call jr_members_check first. */
bool jr_members_read(const struct jr_reading *r, const struct jr_step *up, const json_t *object,
    const struct jr_member *members, size_t count, void *target) JR_MUST;

/* A non-empty string, borrowed from `value`; NULL after a refusal. */
const char *jr_read_text(
    const struct jr_reading *r, const struct jr_step *step, const json_t *value, const char *expected) JR_MUST;

/* Refuse anything but a list of 1 (0 with may_be_empty) to JR_SETTINGS_LIST_MAX elements. */
bool jr_read_list(
    const struct jr_reading *r, const struct jr_step *step, const json_t *value, bool may_be_empty) JR_MUST;

/* `path` itself if it is absolute, else below `directory`. Caller frees. */
char *jr_settings_path(const char *directory, const char *path) JR_MUST;

/* Readers for the tables. The field is int64_t for a duration (milliseconds) or a number; bool; char * for a path. */
bool jr_read_duration(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_int(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_bool(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
bool jr_read_path(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;

/* Print all members that are set: in words by rank, in the document in the order of the table. */
void jr_members_show(struct jr_settings_out *out, const struct jr_member *members, size_t count, const void *target);

/*
 * A printer calls both for a setting; the one that does not match the output has no effect. jr_show_value takes
 * `value`.
 */
void jr_show_words(struct jr_settings_out *out, const struct jr_member *member, const char *words);
void jr_show_value(struct jr_settings_out *out, const struct jr_member *member, json_t *value);
void jr_show_bare(struct jr_settings_out *out, const char *label, const char *words); /* with another label */

/* Printers for the tables, like the readers above. */
void jr_show_duration(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_int(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_size(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_text(struct jr_settings_out *out, const struct jr_member *member, const void *target);

/* Print items, each up to the first byte that is in `end`. none: the words for an empty list; NULL: no words. */
void jr_show_list(struct jr_settings_out *out, const struct jr_member *member, char *const *items, size_t count,
    const char *end, const char *none);
size_t jr_strings_count(char *const *items); /* NULL-terminated; NULL: 0 */

/* Readers and printers for exec handlers; target is the struct jr_settings. */
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
bool jr_read_isolate(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;

void jr_show_argv(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_env(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_cpu(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_nice(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_no_new_privs(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_isolate(struct jr_settings_out *out, const struct jr_member *member, const void *target);

/* "http"; target is the struct jr_settings. jr_http_members has the members inside it. */
extern const struct jr_member jr_http_members[];
extern const size_t jr_http_member_count;
void jr_show_http(struct jr_settings_out *out, const struct jr_member *member, const void *target);
bool jr_read_http(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;
const char *jr_http_url_problem(const char *text) JR_MUST; /* why no request can go there; NULL: it can */
bool jr_read_ping(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST; /* "ping"; target is the struct jr_settings */
void jr_show_ping(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_show_ping_start(struct jr_settings_out *out, const struct jr_member *member, const void *target);
void jr_http_target_free(struct jr_http_target *target); /* NULL is fine */

/*
 * Read a file with a secret. Nobody but its owner and its group may be able to read it, and the rules of perm.h say who
 * may write to it and to its directory. It has at most `max` bytes, none of them NUL. NULL on failure; *err never
 * contains a piece of the text. Free the text with jr_settings_wipe, which takes NULL too.
 */
char *jr_settings_closed_file(const char *path, size_t max, struct jr_err *err) JR_MUST;
void jr_settings_wipe(char *text);
bool jr_settings_is_open(const struct stat *st) JR_MUST; /* can others access it, or the group write to it? */

/* "secret" of http; target is the struct jr_http_target. */
bool jr_read_secret(const struct jr_reading *r, const struct jr_step *step, const json_t *value,
    const struct jr_member *member, void *target) JR_MUST;

#endif
