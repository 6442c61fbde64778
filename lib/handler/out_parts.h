/*
 * out_parts: shared by the files of out; no other file includes it.
 *
 *	out.c          reads JOBRUN_OUT, and keeps the last line of each kind
 *	out_dir.c      the directories of a runner, the files in them, and the directories of dead runners
 *	out_line.c     parses one line
 *	out_remove.c   removes files and folders that handlers have left
 */
#ifndef JR_OUT_PARTS_H
#define JR_OUT_PARTS_H

#include "handler/out.h"

/*
 * A directory for the files of handlers. The files of our own account are in one that nobody else can enter: a handler
 * creates its JOBRUN_OUT itself, with the permissions of its umask. Handlers of other accounts must be able to open
 * their files, so theirs are in another directory.
 */
struct jr_out_dir {
	int fd; /* it is locked while this is open; -1: not made yet */
	char *path;
	bool is_shared; /* others can enter it, but not list it; the files in it are private */
};

struct jr_outs {
	struct jr_out_dir own, shared;
};

enum jr_out_member {
	JR_SAYS_PROGRESS,
	JR_SAYS_CHECKPOINT,
	JR_SAYS_RESULT,
	JR_SAYS_RETRY_IN,
	JR_SAYS_COUNT
};

struct jr_out_line {
	bool says[JR_SAYS_COUNT];
	int64_t retry_in_ms;
};

#define JR_OUT_LINE_SLACK 64 /* bytes around a value: the name of the member and the punctuation */

/* Parse a line. false: it is invalid and *err says why (err NULL: nobody wants to know); do not use *line. */
bool jr_out_line_read(const char *text, size_t len, struct jr_out_line *line, struct jr_err *err) JR_MUST;

/* Create a file for the account of `limits`, with `text` in it. Returns the descriptor; -1: errno says why. */
int jr_out_dir_make(
    const struct jr_out_dir *dir, const char *name, const char *text, const struct jr_limits *limits) JR_MUST;

/*
 * Open a file that a handler of our account has created, for reading. -1: errno says why. ENOENT: it has created none.
 * EINVAL: what has the name is not a plain file of our account, and was not opened (a link, a FIFO, a device).
 */
int jr_out_dir_open(const struct jr_out_dir *dir, const char *name) JR_MUST;

/* Create the directory if there is none, or if a handler has removed it: handlers that start later need it. */
bool jr_out_dir_keep(struct jr_out_dir *dir, struct jr_err *err) JR_MUST;
void jr_out_dir_close(struct jr_out_dir *dir); /* removes it; no harm if it was not made */

/* Does the name still belong to the file behind fd? */
bool jr_out_dir_has(const struct jr_out_dir *dir, const char *name, int fd);

/* Can other accounts reach it? */
bool jr_out_dir_is_open(const struct jr_out_dir *dir);

/* Remove `name` from the directory, whatever it is. */
void jr_out_dir_remove(const struct jr_out_dir *dir, const char *name);

/*
 * In the directory behind fd: remove `name`, whatever it is, or everything (empty), with all subfolders. Stops at
 * end_ms. Skips what cannot be removed.
 */
void jr_out_remove(int fd, const char *name, int64_t end_ms);
void jr_out_empty(int fd, int64_t end_ms);

/* Open a folder, but not through a link. If it is ours and not readable, make it readable. -1: errno says why. */
int jr_out_open_folder(int fd, const char *name);

#endif
