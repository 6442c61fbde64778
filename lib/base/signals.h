/*
 * signals: those that jobrun ignores, so that a write that is impossible fails and does not end the process: PIPE (the
 * reader has gone) and XFSZ (the limit of file sizes, ulimit -f). Ignored signals survive execve, so whoever starts
 * a program of somebody else's gives them their default disposition first.
 */
#ifndef JR_SIGNALS_H
#define JR_SIGNALS_H

#include <signal.h>

#include "base/base.h"

void jr_signals_ignore(void);
void jr_signals_default(void); /* before an execve in this process */

/* Async-signal-safe. */
bool jr_signals_has(int signo);
void jr_signals_fill(sigset_t *signals);

#endif
