/*
 * private_directory: the fixture of what keeps state in files: a directory of the test's own, and a private one in it.
 */
#ifndef JR_TEST_PRIVATE_DIRECTORY_H
#define JR_TEST_PRIVATE_DIRECTORY_H

#include "base/mem.h"
#include "process/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
	char root[64];
	char *directory;
	struct jr_state state; /* of that directory alone */
};

static int
setup(void **state)
{
	struct fixture *f = jr_xcalloc(1, sizeof(*f));
	struct jr_err err;

	(void)snprintf(f->root, sizeof(f->root), "/tmp/jr-state-XXXXXX");
	if (mkdtemp(f->root) == NULL)
		return -1;
	f->directory = jr_xasprintf("%s/private", f->root);
	if (!jr_state_open(&f->state, f->directory, &err))
		return -1;
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", "--", f->root, (char *)NULL);
		_exit(1);
	}
	(void)waitpid(pid, NULL, 0);
	jr_state_release(&f->state);
	free(f->directory);
	free(f);
	return 0;
}

#endif
