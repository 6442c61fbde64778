/*
 * init: process 1 of a PID namespace, when jobrun is the command of a container.
 *
 * Process 1 is not like other processes: it gets only signals that it has a handler for, nothing in its namespace can
 * kill it (a watchdog could not kill a runner that stands still), and orphans become its children, which it has to
 * reap. So it does that alone: it reaps and passes signals on, and the program runs in a child.
 */
#ifndef JR_CMD_INIT_H
#define JR_CMD_INIT_H

#include <stdbool.h>

/*
 * To be called first. true: this is process 1, and the program has run in a child and ended with *status, or no child
 * could be made, which is told on stderr. false: go on; this is that child, or an ordinary process.
 */
bool jr_init_done(char **argv, int *status);

#endif
