/* status: ask what `jobrun status` shows, and print it. */
#ifndef JR_STATUS_H
#define JR_STATUS_H

#include "pg/db.h"

enum jr_status_part {
	JR_STATUS_HEAD,
	JR_STATUS_TYPES,
	JR_STATUS_PROBLEMS,
	JR_STATUS_RUNNING,
	JR_STATUS_PARTS
};

/* What is asked for. Zeroed: nothing yet. */
struct jr_status {
	PGresult *parts[JR_STATUS_PARTS];
};

/*
 * One round trip. types: only these, as an array literal; NULL: all. running: the runs that run, too. If it succeeds,
 * whatever was in *status before is freed; if not, it stays.
 */
bool jr_status_ask(struct jr_status *status, struct jr_db *db, const char *types, bool exact, bool running,
    int64_t timeout_ms, struct jr_err *err) JR_MUST;
void jr_status_release(struct jr_status *status);

void jr_status_print(const struct jr_status *status);
void jr_status_print_running(
    const struct jr_status *status); /* a line for each of the oldest running runs, and a blank one before */
void jr_status_print_json(const struct jr_status *status);

/* Has more succeeded since the last hour that was summed than is counted without --exact? */
bool jr_status_is_capped(const struct jr_status *status);

/* Is there a line for this job type? */
bool jr_status_has(const struct jr_status *status, const char *type);

#endif
