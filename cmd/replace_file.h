/*
 * replace_file: write a file whole or not at all. Who reads it sees the old text or the new one, never a part.
 */
#ifndef JR_REPLACE_FILE_H
#define JR_REPLACE_FILE_H

#include "base/err.h"

/*
 * The text goes into a temporary file in the same directory, which is then renamed. A file that exists keeps its mode
 * and, where that is allowed, its owner and group; a new one gets `mode`. Only a regular file is replaced, and no
 * symbolic link, since somebody else could have put it there. On failure the old file stays, and the temporary one is
 * removed.
 */
bool jr_replace_file(const char *path, const char *text, size_t len, unsigned mode, struct jr_err *err) JR_MUST;

#endif
