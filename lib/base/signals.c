/*
 * signals: see signals.h.
 */
#include "base/signals.h"

static const int of_writes[] = {SIGPIPE, SIGXFSZ};

void
jr_signals_ignore(void)
{
	for (size_t i = 0; i < JR_COUNT(of_writes); i++)
		(void)signal(of_writes[i], SIG_IGN);
}

void
jr_signals_default(void)
{
	for (size_t i = 0; i < JR_COUNT(of_writes); i++)
		(void)signal(of_writes[i], SIG_DFL);
}

bool
jr_signals_has(int signo)
{
	for (size_t i = 0; i < JR_COUNT(of_writes); i++) {
		if (signo == of_writes[i])
			return true;
	}
	return false;
}

void
jr_signals_fill(sigset_t *signals)
{
	(void)sigemptyset(signals);
	for (size_t i = 0; i < JR_COUNT(of_writes); i++)
		(void)sigaddset(signals, of_writes[i]);
}
