/*
 * out: the two files between a handler and its runner. JOBRUN_OUT, in which the handler appends JSON lines, and
 * JOBRUN_CHECKPOINT, the checkpoint of an earlier attempt.
 *
 *	{"progress": {"done": 40, "of": 100}}    shown to people; up to 60 kB
 *	{"checkpoint": {"page": 7}}              handed to the next attempt, on any host; up to 1 MiB
 *	{"result": {"rows": 1234}}               kept with the run when it succeeds; up to 1 MiB
 *	{"retry_in": "5m"}                       when it is to be tried again, if it is
 *
 * The last line of each kind counts; one line may have several members. A line that is not understood is a warning that
 * names it, never a failed run. The text of a line travels to the server as it is.
 *
 * The files are in a directory of this runner under TMPDIR (else /tmp), which is locked (flock) as long as the runner
 * lives, so that what a killed runner left is found and removed by the next one of the same account. What must hold:
 * the runner keeps the descriptor it made the file with and never opens the name again, so that nothing a handler puts
 * in its place is read; and no more is read than the limits, whatever is written.
 */
#ifndef JR_OUT_H
#define JR_OUT_H

#include "base/err.h"
#include "process/rlimits.h"

struct jr_outs; /* the directory; one for each runner */
struct jr_out;  /* the files of one attempt */

#define JR_PROGRESS_MAX 61440
#define JR_OUT_LINE_MAX 1048576
#define JR_OUT_READ_MAX 4194304 /* at one reading; what is in front of the last so many bytes is passed over */
#define JR_OUT_WARNINGS_MAX 10  /* of one attempt; the others are a count */

/* NULL: no directory could be made; JR_E_TEMP. Sweeps away what dead runners of this account left. */
struct jr_outs *jr_outs_open(struct jr_err *err) JR_MUST;
void jr_outs_close(struct jr_outs *outs); /* removes the directory; NULL is fine */

/* Make the files, readable and writable by the account of `limits` (else ours). checkpoint: JSON text or NULL. */
struct jr_out *jr_out_open(struct jr_outs *outs, int64_t run_id, int64_t claim_seq, const char *checkpoint,
    const struct jr_limits *limits, struct jr_err *err) JR_MUST;
void jr_out_close(struct jr_out *out); /* removes the files; NULL is fine */

const char *jr_out_path(const struct jr_out *out);            /* JOBRUN_OUT */
const char *jr_out_checkpoint_path(const struct jr_out *out); /* JOBRUN_CHECKPOINT; NULL: there was none */

/* Read on. `last`: the handler has ended, so a last line without a newline counts. */
void jr_out_read(struct jr_out *out, bool last);

/* What has been said so far, the last of each kind. Borrowed until the next read. NULL: not said. */
const char *jr_out_progress(const struct jr_out *out); /* the line, a JSON object with this member */
const char *jr_out_checkpoint(const struct jr_out *out);
const char *jr_out_result(const struct jr_out *out);
int64_t jr_out_retry_in_ms(const struct jr_out *out); /* 0: not said */

/* The two that are of use while it runs, if another was said since the last call; else NULL. Borrowed as above. */
void jr_out_take_changes(struct jr_out *out, const char **progress, const char **checkpoint);

/* The warnings, a line each, clean; "" if there are none. Borrowed. */
const char *jr_out_warnings(const struct jr_out *out);

#endif
