/*
 * out_parts: what the files of out share. Nobody else includes it.
 *
 *	out.c          reading on in JOBRUN_OUT, and what has been said
 *	out_dir.c      the directory of a runner, the files in it, and what dead runners left
 *	out_line.c     what one line says
 *	out_remove.c   taking away what handlers have left
 */
#ifndef JR_OUT_PARTS_H
#define JR_OUT_PARTS_H

#include "handler/out.h"

struct jr_outs {
	int fd; /* of the directory; locked as long as it is open */
	char *path;
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

#define JR_OUT_LINE_SLACK 64 /* the name of a member and what stands around its value */

/* What the line says. false: it is not understood, *err says why; nothing of it is to be used. */
bool jr_out_line_read(const char *text, size_t len, struct jr_out_line *line, struct jr_err *err) JR_MUST;

/* A new file of that name for the account of `limits`, with that text in it. The descriptor; -1: errno says why. */
int jr_out_dir_make(
    const struct jr_outs *outs, const char *name, const char *text, const struct jr_limits *limits) JR_MUST;

/* A handler may have removed it, and must not keep those after it from starting: then there is a new one. */
bool jr_out_dir_keep(struct jr_outs *outs, struct jr_err *err) JR_MUST;

/* The name is still that of the file behind fd. */
bool jr_out_dir_has(const struct jr_outs *outs, const char *name, int fd);

/* May other accounts reach it? */
bool jr_out_dir_is_open(const struct jr_outs *outs);

/* Remove whatever has that name in the directory. */
void jr_out_dir_remove(const struct jr_outs *outs, const char *name);

/*
 * Remove whatever has that name in the directory behind fd, or everything that is in it, folders in folders included,
 * until end_ms. What cannot be removed is passed over.
 */
void jr_out_remove(int fd, const char *name, int64_t end_ms);
void jr_out_empty(int fd, int64_t end_ms);

/* Open the folder of that name, no link, also one that its owner, if that is us, may not read. -1: errno says why. */
int jr_out_open_folder(int fd, const char *name);

#endif
