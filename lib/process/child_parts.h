/*
 * child_parts: what the files of child share. Nobody else includes it.
 *
 *	child.c          the life of a child, to the end of its group
 *	child_start.c    its start, and its pipes
 */
#ifndef JR_CHILD_PARTS_H
#define JR_CHILD_PARTS_H

#include <sys/types.h>

#include "process/child.h"
#include "process/relay.h"

enum jr_child_stage {
	JR_CHILD_RUNNING,  /* the leader lives */
	JR_CHILD_DRAINING, /* it has ended and is a zombie; its last output is read */
	JR_CHILD_LEAVING,  /* killed and reaped; members of the group may still be on their way out */
	JR_CHILD_GONE      /* `ended` has been called */
};

struct jr_child {
	struct jr_loop *loop;
	struct jr_watchdog *watchdog;
	jr_child_fn *ended;
	void *ctx;
	enum jr_child_stage stage;
	pid_t pid; /* and the number of its session and group */
	struct jr_watch exit_watch;
	struct jr_watch in_watch;
	struct jr_relay relays[2]; /* stdout and stderr, or one for both */
	struct jr_timer timer;
	const char *input;
	size_t input_left;
	struct jr_capture output;
	bool killed;
	int64_t leave_by_ms;
	int64_t pause_ms;
	int status;
	struct rusage usage;
	int64_t start_rss_kb; /* ours, which counts as the child's: it begins with it */
};

/* Not started yet. */
struct jr_child *jr_child_new(
    struct jr_loop *loop, struct jr_watchdog *watchdog, const struct jr_child_spec *spec) JR_MUST;

/* Kill and reap one that is not watched. */
void jr_child_abandon(struct jr_child *child);

#endif
