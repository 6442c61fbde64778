/*
 * complete: what a word of a command line may be, for the completion of shells. All that it knows comes from the option
 * tables, the usages of the commands, the handlers of this host, and the database.
 */
#ifndef JR_COMPLETE_H
#define JR_COMPLETE_H

#include "commands.h"

/*
 * words[0..count-1] follow "jobrun" on the command line; the last one, which may be empty, is to be completed. Prints
 * each word that it may be on a line, and behind a tab what it means. False: it is the name of a file, or of a program.
 * A database that does not answer within 300 ms ends this process (SIGALRM): then it has no more words.
 */
bool jr_complete(const struct jr_app *app, char *const *words, int count);

#endif
