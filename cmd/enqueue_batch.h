/*
 * enqueue_batch: enqueue a run for each line of a file, all of them or none.
 */
#ifndef JR_ENQUEUE_BATCH_H
#define JR_ENQUEUE_BATCH_H

#include "enqueue_request.h"

/*
 * Enqueue the lines of opts->batch ("-": stdin) in one transaction. If a line is refused, the message has its number
 * and nothing is queued. If the answer to COMMIT is lost, the server is asked whether it was committed (doubt.h), so
 * that the exit status is right. If the database stays unreachable for half a minute, the message says that it is not
 * known.
 */
int jr_enqueue_batch(const struct jr_app *app, const struct jr_enqueue_opts *opts, struct jr_enqueue_request *request,
    struct jr_err *err) JR_MUST;

#endif
