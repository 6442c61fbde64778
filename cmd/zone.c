#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "commands.h"
#include "sql_text.h"
#include "zone.h"

static const char local_time[] = "/etc/localtime";

/* The name of the zone in the path of its file, which is what comes after a directory zoneinfo; NULL: there is none. */
static const char *
zone_of_path(const char *path)
{
	static const char directory[] = "zoneinfo/";
	const char *zone = strstr(path, directory);

	return zone != NULL ? zone + strlen(directory) : NULL;
}

/* The same for what this link points to. Caller frees. */
static char *
zone_of_link(const char *path)
{
	char link[4096];
	ssize_t len = readlink(path, link, sizeof(link) - 1);
	const char *zone;

	link[len > 0 ? len : 0] = '\0';
	zone = zone_of_path(link);
	return zone != NULL ? jr_xstrdup(zone) : NULL;
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

/* TZ names a zone, or its file. Caller frees. */
static char *
zone_of_variable(const char *tz)
{
	const char *zone = tz[0] == '/' ? zone_of_path(tz) : tz;
	char *target = zone == NULL ? zone_of_link(tz) : NULL;

	return target != NULL ? target : jr_xstrdup(zone != NULL ? zone : tz);
}

char *
jr_zone_of_host(void)
{
	const char *tz = getenv("TZ");
	char *zone;

	if (tz != NULL && tz[0] == ':')
		tz++;
	if (tz != NULL && tz[0] != '\0' && strcmp(tz, local_time) != 0)
		return zone_of_variable(tz);
	zone = zone_of_link(local_time);
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
	if (strcmp(err->sqlstate, "22007") == 0 || strcmp(err->sqlstate, "22008") == 0)
		jr_fail(err, JR_E_USAGE,
		    "\"%.100s\" is not a time; write it like '2026-12-24 18:00' or 'tomorrow 02:30'", text);
	jr_fail_in(err, option);
}

static bool
blame_host(struct jr_err *err)
{
	jr_fail_in(err, "the zone of this host (TZ, /etc/localtime); use --time-zone");
	return true;
}

void
jr_zone_blame(struct jr_err *err)
{
	if (strcmp(err->sqlstate, "22023") == 0 && strncmp(err->msg, "time zone ", 10) == 0)
		blame_host(err);
}

bool
jr_zone_blame_zone(const char *time_zone, struct jr_err *err)
{
	/* The name of a parameter is the same in all languages. A zone in the time itself is none of our business. */
	if (strcmp(err->sqlstate, "JR065") != 0 && strstr(err->msg, "\"TimeZone\"") == NULL)
		return false;
	return time_zone == NULL ? blame_host(err) : !jr_fail_in(err, "--time-zone");
}
