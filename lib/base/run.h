/*
 * run: the two things that travel between queue, runner and handlers: a claimed run, and the outcome of its attempt.
 *
 * A failed job is data. An outcome says what the attempt came to; it goes to the database through settle and never to
 * an exit status.
 */
#ifndef JR_RUN_H
#define JR_RUN_H

#include "base/base.h"

/* A run as claim.sql returned it. Owns its strings. Durations are ms, -1: not set on the run or its definition. */
struct jr_run {
	int64_t id;
	int64_t claim_seq; /* with runner_id the fence of every write */
	int64_t runner_id;
	int64_t attempts; /* this one included */
	int64_t max_attempts;
	int64_t snoozes;
	int64_t releases;
	int64_t timeout_ms;
	int64_t grace_ms;
	int64_t backoff_base_ms;
	int64_t backoff_cap_ms;
	int64_t started_ms; /* when it was claimed, by the database's clock: Unix time in ms; */
	int64_t claimed_ms; /* and by this host's jr_clock_now_ms() */
	bool expired;       /* expires_at has passed: settle it dead, start nothing */
	bool cancelled;     /* cancel was asked for before it could be adopted */
	char *job_type;
	char *queue;
	char *payload;       /* the text of PostgreSQL, never parsed here */
	char *key;           /* JOBRUN_KEY */
	char *slot;          /* RFC 3339 UTC or NULL */
	char *checkpoint;    /* JSON text or NULL */
	char *trace_context; /* or NULL */
};

void jr_run_free(struct jr_run *run); /* NULL is fine */

/* What a handler said, by its kind's table (done, later, give up, fail). */
enum jr_verdict {
	JR_DONE,
	JR_LATER,
	JR_GIVE_UP,
	JR_FAIL
};

/* What settle is told. The words are those of settle.sql. */
enum jr_outcome_kind {
	JR_OUT_SUCCEEDED, /* "succeeded" */
	JR_OUT_FAILED,    /* "failed": charged; dead if it was the last attempt */
	JR_OUT_DEAD,      /* "dead": given up, expired */
	JR_OUT_LATER,     /* "later": not charged, capped */
	JR_OUT_RELEASED,  /* "released": not charged, capped */
	JR_OUT_CANCELLED, /* "cancelled" */
	JR_OUT_UNSTARTED, /* "unstarted": claimed and never started; not charged, and no event */
	JR_OUT_LOST       /* "lost": by reclaim only */
};

const char *jr_outcome_word(enum jr_outcome_kind kind);

/* Owns its strings. Texts are clean (jr_text_clean). */
struct jr_outcome {
	enum jr_outcome_kind kind;
	bool has_exit;      /* exit_status is meant */
	int exit_status;    /* 0..255, or 128 + signal */
	int64_t pid;        /* 0: none */
	int64_t cpu_ms;     /* user + system of the child and what it waited for */
	int64_t max_rss_kb; /* 0: not known */
	int64_t delay_ms;   /* failed, later, lost: from now() until it may run again */
	int64_t output_dropped;
	bool settled;    /* the handler has written it, together with the effect, so it is only to be told; then: */
	char status[16]; /* what the run is now; "": succeeded */
	int64_t left_ms; /* the time until it may run again; -1: never */
	/* What the handler may have written instead: to be read before anything is written. Owned; NULL: nothing. */
	struct jr_outcome *doubt;
	char *error_code; /* NULL when it succeeded; else exit:1, signal:SEGV, timeout, lost, cannot-start... */
	char *error;      /* one or a few lines for people; NULL when it succeeded */
	char *output;     /* NULL: none */
	/*
	 * What the handler said: each is NULL or the text of a JSON object whose member of that name is meant. Such a
	 * line travels untouched; the server takes the member out of it.
	 */
	char *progress, *checkpoint, *result;
};

void jr_outcome_release(struct jr_outcome *outcome); /* leaves it zeroed */

#endif
