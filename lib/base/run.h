/*
 * run: what queue, runner and handlers pass to each other: a claimed run and the outcome of its attempt.
 *
 * A failed job is data. An outcome says how the attempt ended. It goes to the database through settle and never becomes
 * jobrun's exit status.
 */
#ifndef JR_RUN_H
#define JR_RUN_H

#include "base/base.h"

/* A run as claim.sql returned it. Owns its strings. Durations are in ms; -1: not set. */
struct jr_run {
	int64_t id;
	int64_t claim_seq; /* with id and runner_id the fence of every write */
	int64_t runner_id;
	int64_t attempts; /* this one included */
	int64_t max_attempts;
	int64_t snoozes;
	int64_t releases;
	int64_t timeout_ms;
	int64_t grace_ms;
	int64_t backoff_base_ms;
	int64_t backoff_cap_ms;
	int64_t started_ms; /* when it was claimed: Unix time in ms by the database's clock */
	int64_t claimed_ms; /* the same by jr_clock_now_ms() of this host */
	bool expired;       /* expires_at has passed: settle it dead, start nothing */
	bool cancelled;     /* somebody had asked to cancel it when this row was read */
	char *job_type;
	char *queue;
	char *payload;       /* JSON text as PostgreSQL prints it, never parsed here */
	char *key;           /* JOBRUN_KEY */
	char *slot;          /* RFC 3339 UTC or NULL */
	char *slot_local;    /* the same in the zone of the definition, with its offset; or NULL */
	char *checkpoint;    /* JSON text or NULL */
	char *trace_context; /* or NULL */
};

void jr_run_free(struct jr_run *run); /* NULL is fine */

/* What a handler reported. Each kind of handler maps its exit status or response to one of these. */
enum jr_verdict {
	JR_DONE,
	JR_LATER,
	JR_GIVE_UP,
	JR_FAIL
};

/* The outcome that is passed to settle. The words are those of settle.sql. */
enum jr_outcome_kind {
	JR_OUT_SUCCEEDED, /* "succeeded" */
	JR_OUT_FAILED,    /* "failed": counts as an attempt; the run is dead if it was the last one */
	JR_OUT_DEAD,      /* "dead": given up, expired */
	JR_OUT_LATER,     /* "later": does not count as an attempt; the number of these is limited */
	JR_OUT_RELEASED,  /* "released": does not count as an attempt; the number of these is limited */
	JR_OUT_CANCELLED, /* "cancelled" */
	JR_OUT_UNSTARTED, /* "unstarted": claimed and never started; does not count, and leaves no event */
	JR_OUT_LOST       /* "lost": written by reclaim only */
};

const char *jr_outcome_word(enum jr_outcome_kind kind);

/* Owns its strings. Texts are clean (jr_text_clean). */
struct jr_outcome {
	enum jr_outcome_kind kind;
	bool has_exit;      /* exit_status is valid */
	int exit_status;    /* 0..255, or 128 + signal */
	int64_t pid;        /* 0: none */
	int64_t cpu_ms;     /* user + system time of the child and of the children it waited for */
	int64_t max_rss_kb; /* 0: not known */
	int64_t delay_ms;   /* failed, later, lost: from now() until it may run again */
	int64_t output_dropped;
	/* The handler has written the outcome together with its effect: the runner only logs and counts it. */
	bool settled;
	char status[16]; /* if settled: the run's status now; "": succeeded */
	int64_t left_ms; /* if settled: the time until it may run again; -1: never */
	/*
	 * The outcome that the handler may have written, if its commit got no answer: the runner reads the database
	 * before it writes anything. Owned; NULL: there is no doubt.
	 */
	struct jr_outcome *doubt;
	char *error_code; /* NULL when it succeeded; else exit:1, signal:SEGV, timeout, lost, cannot-start... */
	char *error;      /* one or a few lines for people; NULL when it succeeded */
	char *output;     /* NULL: none */
	/*
	 * What the handler reported: each is NULL or the text of a JSON object with a member of that name. The text is
	 * passed on untouched; the server takes the member out of it.
	 */
	char *progress, *checkpoint, *result;
};

void jr_outcome_release(struct jr_outcome *outcome); /* leaves it zeroed */

#endif
