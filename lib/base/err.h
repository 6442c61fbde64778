/*
 * err: why jobrun itself could not do something.
 *
 * A job that fails is data (struct jr_outcome in run.h). A jr_err says that jobrun itself failed. The caller provides
 * the storage of a jr_err, which needs no release. It holds one line of text without a final newline and is not touched
 * on success. A function that can fail returns bool (true: done), takes `struct jr_err *err` last and is JR_MUST:
 *
 *	return jr_fail(err, JR_E_CONFIG, "cannot read %s: %s", path, strerror(errno));
 *
 * Messages: "could not ..." where a later try may succeed, "cannot ..." where it will not; lower case, no full stop,
 * always the reason, and where it helps what to do next. Only cmd/ prints them, once.
 */
#ifndef JR_ERR_H
#define JR_ERR_H

#include "base/base.h"

/* The values are the exit statuses of the program. */
enum jr_errc {
	JR_E_NEWS = 1,   /* bad news: no such run, a check failed */
	JR_E_USAGE = 64, /* wrong option or argument */
	JR_E_DATA = 65,  /* the payload or a file is not valid */
	JR_E_BUG = 70,   /* jobrun's own mistake */
	JR_E_TEMP = 75,  /* try later: no connection to the database, a lock held by another */
	JR_E_PERM = 77,  /* the database or the system refused */
	JR_E_CONFIG = 78 /* configuration, or a schema that does not fit */
};

struct jr_err {
	enum jr_errc code;
	char sqlstate[6]; /* "" when the error did not come from PostgreSQL */
	char msg[1024];
};

/*
 * Fill *err (clears sqlstate; the text is cut if it is too long, control bytes become spaces). NULL: nobody wants to
 * know why, and no text is made. Always false.
 */
bool jr_fail(struct jr_err *err, enum jr_errc code, const char *fmt, ...) JR_PRINTF(3, 4);

/* Put "what: " in front of the message in *err. Always false. */
bool jr_fail_in(struct jr_err *err, const char *what);

/* The worse of two exit statuses when several conditions apply: 70, 78, 77, 75, 65, 64, 1, 0 in this order. */
int jr_worse_status(int a, int b);

#endif
