/*
 * log: one event per line on stderr, as logfmt or JSON, with fields from an allow-list.
 *
 *	2026-11-21T01:30:03.120Z info event=run_end run=1041 type=send_mail attempt=1/5 outcome=succeeded ms=812
 *
 * Values are quoted only when they need it and every control byte is escaped. Payloads, output and connection strings
 * are never logged: there is no field for them. A line is one write(2). The log's level, format and descriptor are a
 * writable static; scripts/checks lists every static that the library may have.
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
	jr_log_fields((level), (event), (const struct jr_field[]){ __VA_ARGS__ }, \
	    JR_COUNT(((const struct jr_field[]){ __VA_ARGS__ })))
/* clang-format on */

/* Log events of `level` and worse. Before this call: JR_WARN, as text on descriptor 2. */
void jr_log_init(enum jr_level level, enum jr_log_format format, int fd);

/* One line. A key outside the allow-list is a bug (assert). */
void jr_log_fields(enum jr_level level, const char *event, const struct jr_field *fields, size_t count);

#endif
