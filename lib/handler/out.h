/*
 * out: the two files between a handler and its runner: JOBRUN_OUT, to which the handler appends JSON lines, and
 * JOBRUN_CHECKPOINT, which contains the checkpoint of an earlier attempt.
 *
 *	{"progress": {"done": 40, "of": 100}}    shown to people; up to 60 kB
 *	{"checkpoint": {"page": 7}}              given to the next attempt, on any host; up to 1 MiB
 *	{"result": {"rows": 1234}}               kept with the run when it succeeds; up to 1 MiB
 *	{"retry_in": "5m"}                       the delay until the next attempt, if there is one
 *
 * The last line of each kind counts. One line may have several members. An invalid line gives a warning with its number
 * and never fails the run. The text of a line is sent to the server unchanged.
 *
 * The files are in a private directory of this runner under TMPDIR (else /tmp). The runner holds a lock (flock) on that
 * directory while it lives, so the next runner of the same account recognises and removes what a killed runner left.
 *
 * JOBRUN_OUT does not exist before the handler writes to it; >> and > create it. The runner looks for it at each read,
 * and opens the first plain file of its own account, or of root, that it finds there, never a link, a FIFO or a device.
 * Only for a handler that runs as another account does the runner create the file, in a second directory, which that
 * account can enter. What must hold: the runner keeps the descriptor of the first file and never opens the name again,
 * so it never reads what is put in its place later; and it never reads more than the limits.
 */
#ifndef JR_OUT_H
#define JR_OUT_H

#include "base/err.h"
#include "process/rlimits.h"

struct jr_outs; /* the directories; one for each runner */
struct jr_out;  /* the files of one attempt */

#define JR_PROGRESS_MAX 61440
#define JR_OUT_LINE_MAX 1048576
#define JR_OUT_READ_MAX 4194304 /* in one call of jr_out_read; if there is more, only the end is read */
#define JR_OUT_WARNINGS_MAX 10  /* for one attempt; further warnings are only counted */

/* Can directories be made at all? false: not until TMPDIR is right (JR_E_CONFIG). */
bool jr_outs_check(struct jr_err *err) JR_MUST;

/* Create the private directory; remove the directories of dead runners of this account. NULL on failure: JR_E_TEMP. */
struct jr_outs *jr_outs_open(struct jr_err *err) JR_MUST;
void jr_outs_close(struct jr_outs *outs); /* removes the directories; NULL is fine */

/* The files for the account of `limits` (else ours), which may read and write them. checkpoint: JSON or NULL. */
struct jr_out *jr_out_open(struct jr_outs *outs, int64_t run_id, int64_t claim_seq, const char *checkpoint,
    const struct jr_limits *limits, struct jr_err *err) JR_MUST;
void jr_out_close(struct jr_out *out); /* removes the files; NULL is fine */

const char *jr_out_path(const struct jr_out *out);            /* JOBRUN_OUT */
const char *jr_out_checkpoint_path(const struct jr_out *out); /* JOBRUN_CHECKPOINT; NULL: there was none */

/* Read what was appended since the last call. `last`: the handler has ended, so a line without a newline counts. */
void jr_out_read(struct jr_out *out, bool last);

/* The last line of each kind so far. Borrowed until the next read. NULL: there was none. */
const char *jr_out_progress(const struct jr_out *out); /* the line, a JSON object with this member */
const char *jr_out_checkpoint(const struct jr_out *out);
const char *jr_out_result(const struct jr_out *out);
int64_t jr_out_retry_in_ms(const struct jr_out *out); /* 0: none */

/* Progress and checkpoint, if there is a new one since the last call; else NULL. Borrowed as above. */
void jr_out_take_changes(struct jr_out *out, const char **progress, const char **checkpoint);

/* The warnings, one line each, clean; "" if there are none. Borrowed. */
const char *jr_out_warnings(const struct jr_out *out);

#endif
