/*
 * enqueue_batch: a run for each line of a file, all of them or none.
 */
#ifndef JR_ENQUEUE_BATCH_H
#define JR_ENQUEUE_BATCH_H

#include "enqueue_request.h"

/*
 * The lines of opts->batch ("-": stdin), in one transaction. A line that is refused is named by its number, and nothing
 * is queued. If the answer to COMMIT is lost, the server is asked what became of it (doubt.h), so that the exit status
 * says what is so; only if it stays away for half a minute that is not known, and the message says that.
 */
int jr_enqueue_batch(const struct jr_app *app, const struct jr_enqueue_opts *opts, struct jr_enqueue_request *request,
    struct jr_err *err) JR_MUST;

#endif
