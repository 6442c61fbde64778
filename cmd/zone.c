#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "commands.h"
#include "sql_text.h"
#include "zone.h"

/* What /etc/localtime points to below a directory zoneinfo; NULL: it is no such link. Caller frees. */
static char *
zone_of_link(void)
{
	static const char directory[] = "zoneinfo/";
	char link[4096];
	ssize_t len = readlink("/etc/localtime", link, sizeof(link) - 1);
	const char *zone;

	link[len > 0 ? len : 0] = '\0';
	zone = strstr(link, directory);
	return zone != NULL ? jr_xstrdup(zone + strlen(directory)) : NULL;
}

/* The first word of /etc/timezone; NULL: there is none. Caller frees. */
static char *
zone_of_file(void)
{
	FILE *file = fopen("/etc/timezone", "re");
	char line[256];
	char *zone = NULL;

	if (file == NULL)
		return NULL;
	if (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, " \t\r\n")] = '\0';
		if (line[0] != '\0')
			zone = jr_xstrdup(line);
	}
	fclose(file);
	return zone;
}

char *
jr_zone_of_host(void)
{
	const char *set = getenv("TZ");
	char *zone;

	if (set != NULL && set[0] != '\0')
		return jr_xstrdup(set + (set[0] == ':'));
	zone = zone_of_link();
	if (zone == NULL)
		zone = zone_of_file();
	return zone != NULL ? zone : jr_xstrdup("UTC");
}

char *
jr_zone_but_utc(void)
{
	char *zone = jr_zone_of_host();

	if (strcmp(zone, "UTC") != 0 && strcmp(zone, "Etc/UTC") != 0)
		return zone;
	free(zone);
	return NULL;
}

bool
jr_zone_check(struct jr_db *db, const char *zone, struct jr_err *err)
{
	PGresult *result;

	if (zone == NULL)
		return true;
	result = jr_db_query(db, jr_sql_zone, 1, &zone, JR_CMD_TIMEOUT_MS, err);
	if (result == NULL && err->code == JR_E_DATA)
		jr_fail_in(err, "--time-zone");
	PQclear(result);
	return result != NULL;
}

void
jr_zone_blame_time(const char *option, const char *text, struct jr_err *err)
{
	if (err->code != JR_E_DATA || strncmp(err->sqlstate, "22", 2) != 0)
		return;
	err->code = JR_E_USAGE;
	if (strcmp(err->sqlstate, "22007") == 0)
		jr_fail(err, JR_E_USAGE,
		    "\"%.100s\" is not a time; write it like '2026-12-24 18:00' or 'tomorrow 02:30'", text);
	jr_fail_in(err, option);
}

void
jr_zone_blame(struct jr_err *err)
{
	if (strcmp(err->sqlstate, "22023") == 0 && strncmp(err->msg, "time zone ", 10) == 0)
		jr_fail_in(err, "the zone of this host (TZ, /etc/localtime); use --time-zone");
}
