/*
 * zone: the time zone of this host, that of --time-zone, and times that people write.
 */
#ifndef JR_ZONE_H
#define JR_ZONE_H

#include "pg/db.h"

/*
 * Its name, as cron uses it: TZ, which may also be the path of a zone's file, else where the link /etc/localtime
 * points, else /etc/timezone; "UTC" if none of them says. Whether the name is in a zone database is not asked. Caller
 * frees.
 */
char *jr_zone_of_host(void);

/* The same, but NULL if that is UTC. */
char *jr_zone_but_utc(void);

/* JR_E_DATA unless the server knows `zone`, the argument of --time-zone. NULL is right. */
bool jr_zone_check(struct jr_db *db, const char *zone, struct jr_err *err) JR_MUST;

/*
 * The server may have refused `text`, a time as people write it, of this option: then say so in *err, with JR_E_USAGE.
 * What it says of the zone in which it would read the time stays as it is.
 */
void jr_zone_blame_time(const char *option, const char *text, struct jr_err *err);

/* The server may have refused the zone of this host: then say so in *err. */
void jr_zone_blame(struct jr_err *err);

/* The same for the zone in which enqueue reads times: `time_zone`, else (NULL) that of this host. Has it? */
bool jr_zone_blame_zone(const char *time_zone, struct jr_err *err);

#endif
