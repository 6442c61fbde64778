/*
 * measure FILE COMMAND...: run a command and append to FILE what it took, a line of JSON: wall time and processor time
 * in seconds (with all processes that it has waited for), and its largest resident set in KiB. The exit status is the
 * command's.
 *
 * A program of its own because a process begins with the resident set of the one that started it: this one is small.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double
seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int
write_line(const char *file, double took, const struct rusage *usage)
{
	FILE *out = fopen(file, "a");

	if (out == NULL) {
		fprintf(stderr, "measure: %s: %s\n", file, strerror(errno));
		return 1;
	}
	fprintf(out, "{\"seconds\": %.6f, \"cpu\": %.6f, \"rss_kib\": %ld}\n", took,
	    seconds(usage->ru_utime) + seconds(usage->ru_stime), usage->ru_maxrss);
	return fclose(out) == 0 ? 0 : 1;
}

int
main(int argc, char **argv)
{
	struct rusage usage;
	double begun;
	pid_t pid;
	int status;
	int err;

	if (argc < 3) {
		fputs("usage: measure FILE COMMAND...\n", stderr);
		return 64;
	}
	begun = now();
	err = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ);
	if (err != 0) {
		fprintf(stderr, "measure: %s: %s\n", argv[2], strerror(err));
		return 127;
	}
	if (wait4(pid, &status, 0, &usage) < 0) {
		perror("measure: wait4");
		return 1;
	}
	if (write_line(argv[1], now() - begun, &usage) != 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
