/*
 * pg_cancel: see pg_cancel.h.
 *
 * PQcancel opens a second connection, sends 16 bytes and waits until the server closes it. With a dead network that
 * takes minutes. PQcancel is safe in a signal handler, so it is safe between fork and _exit too, where other threads (a
 * name lookup of libcurl) may hold locks.
 *
 * PgBouncer 1.18 crashes when a client goes away in the middle of a cancel, and the cancelled statement is often
 * answered before the cancel ends. So it runs in a process that is no child of the runner, and only its alarm ends it
 * early.
 */
#include "pg/pg_cancel.h"

#include <string.h>

#include "base/log.h"
#include "pg/pg_apart.h"

#define CANCEL_S 5

static void
cancel(void *ctx)
{
	char text[256];

	(void)PQcancel(ctx, text, sizeof(text));
}

void
jr_pg_cancel_apart(PGconn *conn)
{
	PGcancel *request = PQgetCancel(conn);
	int reason;

	if (request == NULL)
		return;
	reason = jr_pg_apart(cancel, request, 0, CANCEL_S);
	PQfreeCancel(request);
	if (reason != 0)
		jr_log(JR_WARN, JR_EVENT_CANCEL_FAILED, JR_S("error", strerror(reason)));
}
