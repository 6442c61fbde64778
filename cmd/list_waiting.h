/* list_waiting: what will start next, and why each run does not run yet. */
#ifndef JR_LIST_WAITING_H
#define JR_LIST_WAITING_H

#include "commands.h"
#include "filter.h"

/* `list --waiting` with the types, queues and limit of the filter. Returns the exit status. */
int jr_list_waiting(const struct jr_app *app, const struct jr_filter *filter, struct jr_err *err);

#endif
