/*
 * begun: a handler that appends its run's id and the time to $TMPDIR/begun, and ends. A program in C, since
 * a shell takes as long to start as a run waits. It is linked statically (see the Makefile).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int
main(void)
{
	const char *id = getenv("JOBRUN_RUN_ID");
	const char *folder = getenv("TMPDIR");
	struct timespec now;
	char name[4096];
	FILE *out;

	clock_gettime(CLOCK_REALTIME, &now);
	if (id == NULL || folder == NULL || snprintf(name, sizeof(name), "%s/begun", folder) >= (int)sizeof(name))
		return 64;
	out = fopen(name, "a");
	if (out == NULL)
		return 1;
	fprintf(out, "%s,%lld.%06ld\n", id, (long long)now.tv_sec, now.tv_nsec / 1000);
	return fclose(out) == 0 ? 0 : 1;
}
