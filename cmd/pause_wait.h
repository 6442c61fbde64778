/*
 * pause_wait: wait until nothing runs of what was paused.
 */
#ifndef JR_PAUSE_WAIT_H
#define JR_PAUSE_WAIT_H

#include "pauses.h"

#define JR_PAUSE_WAIT_MS 3600000 /* the default of --timeout, as of the command wait */

/*
 * 0: nothing runs. JR_E_TEMP: the time is over, with the runs that are left in *err. A terminal is shown who runs, and
 * each end. INT ends the program with 130. The pause stays in any case.
 */
int jr_pause_wait(
    const struct jr_app *app, const struct jr_pauses *what, int64_t timeout_ms, struct jr_err *err) JR_MUST;

#endif
