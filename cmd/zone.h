/*
 * zone: the time zone of this host.
 */
#ifndef JR_ZONE_H
#define JR_ZONE_H

#include "base/err.h"

/*
 * Its name, as cron uses it: TZ, else where the link /etc/localtime points, else /etc/timezone; "UTC" if none of them
 * says. Whether the name is in a zone database is not asked. Caller frees.
 */
char *jr_zone_of_host(void);

/* The same, but NULL if that is UTC. */
char *jr_zone_but_utc(void);

/* The server may have refused a zone: then say in *err where it was from, --time-zone or this host. */
void jr_zone_blame(bool given, struct jr_err *err);

#endif
