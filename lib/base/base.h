/*
 * base: attributes, the limits of the program, and the functions that must not be used.
 *
 * Every limit that several modules share stands in this one block. Sizes are bytes, times are milliseconds.
 */
#ifndef JR_BASE_H
#define JR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JR_MUST __attribute__((warn_unused_result))
#define JR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define JR_NORETURN __attribute__((noreturn))
#define JR_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define JR_PAYLOAD_MAX 1048576 /* text of a payload */
#define JR_OUTPUT_HEAD 16384   /* kept from the beginning of a log */
#define JR_OUTPUT_TAIL 49152   /* kept from its end */
#define JR_ERROR_MAX 2048      /* last_error, job_attempts.error */
#define JR_NAME_MAX 63         /* job types, queues */
#define JR_KEY_MAX 255         /* idempotency keys */
#define JR_PERMITS_MAX 1024    /* handlers at once in one runner */
#define JR_HANDLERS_MAX 4096   /* files in a handlers directory */
#define JR_DRAIN_MS 500        /* how long a child's last output is read after it has ended */
#define JR_DURATION_MAX_MS (INT64_C(100) * 365 * 86400 * 1000)

/* Functions that have no bound, report no error or keep hidden state. A call does not compile. */
#define JR_BANNED(name) jr_banned_##name
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef strtok
#undef atoi
#undef atol
#undef gmtime
#undef localtime
#undef ctime
#undef mktemp
#undef system
#undef popen
#define strcpy JR_BANNED(strcpy)
#define strcat JR_BANNED(strcat)
#define strncpy JR_BANNED(strncpy)
#define strncat JR_BANNED(strncat)
#define sprintf JR_BANNED(sprintf)
#define vsprintf JR_BANNED(vsprintf)
#define strtok JR_BANNED(strtok)
#define atoi JR_BANNED(atoi)
#define atol JR_BANNED(atol)
#define gmtime JR_BANNED(gmtime)
#define localtime JR_BANNED(localtime)
#define ctime JR_BANNED(ctime)
#define mktemp JR_BANNED(mktemp)
#define system JR_BANNED(system)
#define popen JR_BANNED(popen)

#endif
