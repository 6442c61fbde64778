/*
 * import: what cmd_import.c and import_define.c share.
 */
#ifndef JR_IMPORT_H
#define JR_IMPORT_H

#include "base/buf.h"
#include "base/crontab.h"

struct jr_import_variable {
	char *name, *value;
	bool is_missed; /* a handler is without it */
};

struct jr_import {
	bool definitions, system;
	char *program; /* of jobrun, as a word of a shell */
	char **names;  /* that are taken */
	size_t name_count;
	struct jr_import_variable *variables; /* as of the line that is read */
	size_t variable_count;
	size_t defined;            /* how many definitions */
	size_t readable;           /* how many handlers all users can read */
	size_t entries, with_user; /* how many lines, and in how many a user of this host stands before the command */
	size_t unnamed;            /* how many lines of jobrun for which the crontab names no database */
	struct jr_buf definitions_text;
	struct jr_buf out;
};

/* A name for the command that no other line has. Borrowed. */
const char *jr_import_name(struct jr_import *import, const char *shell_command);

const char *jr_import_variable(const struct jr_import *import, const char *name); /* NULL: it is not set */
const char *jr_import_shell(const struct jr_import *import);
bool jr_import_names_database(const struct jr_import *import);

/* The script of --definitions: add the handler of a line; put around all of them what they need. */
void jr_import_define(
    struct jr_import *import, const struct jr_crontab_line *line, const char *shell_command, const char *input);
void jr_import_define_end(struct jr_import *import);
void jr_import_define_tell(const struct jr_import *import); /* warnings, on stderr */

#endif
