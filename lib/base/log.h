/*
 * log: one event per line on stderr, as logfmt or JSON; events are those of a list, and fields those of an allow-list.
 *
 *	2026-11-21T01:30:03.120Z info event=run_end run=1041 type=send_mail attempt=1/5 outcome=succeeded ms=812
 *
 * Values are quoted only when they need it and every control byte is escaped. Payloads, output, headers and connection
 * strings are never logged: there is no field for them, and an error that stands in a line quotes no values of rows
 * (jr_pg_logged_error). A line is one write(2). On a descriptor that leads to systemd's journal it begins with its
 * priority, "<6>", which the journal takes off (sd-daemon(3)). The log's level, format and descriptor are a writable
 * static; scripts/checks lists every static that the library may have.
 */
#ifndef JR_LOG_H
#define JR_LOG_H

#include "base/base.h"

enum jr_level {
	JR_ERROR,
	JR_WARN,
	JR_INFO,
	JR_DEBUG
};

/*
 * All events. A new one goes here and into the section EVENTS of jobrun(1); `scripts/checks events` compares them, and
 * finds one that nothing logs.
 */
/* clang-format off */
#define JR_EVENTS(X) \
	X(ADOPT_FAILED, "adopt_failed") \
	X(CANCEL_FAILED, "cancel_failed") \
	X(CHILD_LOST, "child_lost") \
	X(CLAIM_FAILED, "claim_failed") \
	X(CONNECTED, "connected") \
	X(DB_BACK, "db_back") \
	X(DB_LOST, "db_lost") \
	X(FIRE_FAILED, "fire_failed") \
	X(FIRED, "fired") \
	X(GROUP_NOT_GONE, "group_not_gone") \
	X(GROUP_SPLIT, "group_split") \
	X(HANDLER_REFUSED, "handler_refused") \
	X(HEARTBEAT_FAILED, "heartbeat_failed") \
	X(IMPOSSIBLE_CHANGE, "impossible_change") \
	X(LEASE_LOST, "lease_lost") \
	X(LINGER_END, "linger_end") \
	X(LINGER_START, "linger_start") \
	X(LISTENING, "listening") \
	X(LOCKED, "locked") \
	X(NOTIFIED, "notified") \
	X(OUT_WARNINGS, "out_warnings") \
	X(OUTCOME_REFUSED, "outcome_refused") \
	X(OUTPUT_LOST, "output_lost") \
	X(PING_FAILED, "ping_failed") \
	X(PING_NOT_SENT, "ping_not_sent") \
	X(POLLING, "polling") \
	X(PROGRESS_REFUSED, "progress_refused") \
	X(QUEUE_LEFT_OUT, "queue_left_out") \
	X(RECLAIM_FAILED, "reclaim_failed") \
	X(RUN_END, "run_end") \
	X(RUN_START, "run_start") \
	X(RUNNER_SIGNAL, "runner_signal") \
	X(SEEN_FAILED, "seen_failed") \
	X(STATE_DIRECTORY, "state_directory") \
	X(STATE_PASSED_OVER, "state_passed_over") \
	X(UNHANDLED_FAILED, "unhandled_failed") \
	X(UNSTARTED, "unstarted") \
	X(VARIABLE_LEFT_OUT, "variable_left_out") \
	X(WATCHDOG_LOST, "watchdog_lost")

#define X(name, word) JR_EVENT_##name,
enum jr_event {
	JR_EVENTS(X)
};
#undef X
/* clang-format on */

enum jr_log_format {
	JR_LOG_TEXT,
	JR_LOG_JSON
};

struct jr_field {
	const char *key;
	enum {
		JR_STR,
		JR_INT
	} type;
	const char *str; /* NULL leaves the field out */
	int64_t num;
};

/* clang-format off */
#define JR_S(k, v) ((struct jr_field){ .key = (k), .type = JR_STR, .str = (v) })
#define JR_I(k, v) ((struct jr_field){ .key = (k), .type = JR_INT, .num = (v) })
#define jr_log(level, event, ...) \
	(jr_log_is_on(level) ? jr_log_fields((level), (event), (const struct jr_field[]){ __VA_ARGS__ }, \
	    JR_COUNT(((const struct jr_field[]){ __VA_ARGS__ }))) : (void)0)
/* clang-format on */

/*
 * Log events of `level` and worse. Before this call: JR_WARN, as text on descriptor 2. Whether `fd` leads to the
 * journal is what JOURNAL_STREAM says.
 */
void jr_log_init(enum jr_level level, enum jr_log_format format, int fd);

/* Are such events logged? jr_log asks before it looks at the fields. */
bool jr_log_is_on(enum jr_level level);

/* One line, if they are. A key outside the allow-list is a bug (assert; `scripts/checks events` finds it, too). */
void jr_log_fields(enum jr_level level, enum jr_event event, const struct jr_field *fields, size_t count);

#endif
