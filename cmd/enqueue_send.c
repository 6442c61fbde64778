/*
 * enqueue_send: see enqueue_send.h.
 *
 * The run is known before COMMIT is sent, and when its answer is lost, whether it happened (see change.h): what is known
 * is true, or nothing is, and all of it is done again. So a kept or replaced run is not taken for another one, and a run of
 * this very command not for one that was there.
 */
#include "enqueue_send.h"

#include <stdlib.h>

#include "base/mem.h"
#include "change.h"
#include "payload.h"
#include "sql_text.h"

PGresult *
jr_enqueue_send(
    const struct jr_app *app, struct jr_db **db, const struct jr_request *request, bool dry_run, struct jr_err *err)
{
	const char *const *v = request->values;
	const char *of_definition[] = {v[JR_REQUEST_TYPE], v[JR_REQUEST_PAYLOAD], v[JR_REQUEST_IN], v[JR_REQUEST_AT],
	    v[JR_REQUEST_KEY], v[JR_REQUEST_PARENT], v[JR_REQUEST_TRACE], v[JR_REQUEST_KEY_IS_RANDOM],
	    v[JR_REQUEST_DRY_RUN]};
	const struct jr_statement of_type = {jr_sql_enqueue, JR_REQUEST_COUNT, v};
	const struct jr_statement now = {jr_sql_enqueue_definition, JR_COUNT(of_definition), of_definition};
	char *perhaps =
	    jr_xasprintf("the run may have been queued: safe to repeat with --idempotency-key %s", v[JR_REQUEST_KEY]);
	const struct jr_change change = {
	    .app = app, .db = db, .dry_run = dry_run, .undone = "nothing queued", .perhaps = perhaps};
	PGresult *result = NULL;

	if (!jr_change(&change, request->is_definition ? &now : &of_type, 1, &result, err) && err->code == JR_E_DATA &&
	    request->payload != NULL)
		jr_payload_locate(request->payload, err);
	free(perhaps);
	return result;
}
