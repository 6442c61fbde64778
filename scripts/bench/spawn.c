/*
 * spawn N AT_ONCE PROGRAM: start a program N times, so many at once, and wait for all: what the kernel takes for it.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int
wait_for_one(void)
{
	int status;

	if (wait(&status) < 0) {
		perror("spawn: wait");
		return 1;
	}
	return status == 0 ? 0 : 1;
}

int
main(int argc, char **argv)
{
	char *program[2] = {NULL, NULL};
	long running = 0;
	long at_once;
	long n;

	if (argc != 4) {
		fputs("usage: spawn N AT_ONCE PROGRAM\n", stderr);
		return 64;
	}
	n = strtol(argv[1], NULL, 10);
	at_once = strtol(argv[2], NULL, 10);
	program[0] = argv[3];
	while (n-- > 0) {
		pid_t pid;
		int err = posix_spawn(&pid, argv[3], NULL, NULL, program, environ);

		if (err != 0) {
			fprintf(stderr, "spawn: %s: %s\n", argv[3], strerror(err));
			return 1;
		}
		if (++running < at_once)
			continue;
		if (wait_for_one() != 0)
			return 1;
		running--;
	}
	for (; running > 0; running--) {
		if (wait_for_one() != 0)
			return 1;
	}
	return 0;
}
