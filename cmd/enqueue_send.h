/*
 * enqueue_send: one run, sent until it is known what has become of it.
 */
#ifndef JR_ENQUEUE_SEND_H
#define JR_ENQUEUE_SEND_H

#include "enqueue_request.h"

/* Columns of enqueue.sql and enqueue_definition.sql. */
enum jr_sent_column {
	JR_SENT_ID,
	JR_SENT_CREATED,
	JR_SENT_REPLACED,
	JR_SENT_RUN_AT,
	JR_SENT_AGE,
	JR_SENT_STATUS,
	JR_SENT_QUEUE,
	JR_SENT_PRIORITY,
	JR_SENT_DOCUMENT,
	JR_SENT_TYPE
};

/* What they gave, when it is committed (dry run: rolled back); NULL on failure. *db may become another one, or NULL. */
PGresult *jr_enqueue_send(const struct jr_app *app, struct jr_db **db, const struct jr_request *request, bool dry_run,
    struct jr_err *err) JR_MUST;

#endif
