/*
 * global_options: the options of every command. They may stand before or after its name.
 */
#include <stddef.h>

#include "commands.h"

#define AT(field) offsetof(struct jr_app, field)

/* clang-format off */
static const struct jr_option global_options[] = {
	{ .name = "dbname", .letter = 'd', .arg = "CONNINFO", .help = "database: name, conninfo string or URI",
	    .type = JR_OPT_SECRET, .offset = AT(dbname) },
	{ .name = "json", .help = "print a JSON document on stdout", .type = JR_OPT_FLAG, .offset = AT(json) },
	{ .name = "log-format", .arg = "FORMAT", .help = "log lines on stderr: text or json (text)", .type = JR_OPT_STRING,
	    .offset = AT(log_format), .env = "JOBRUN_LOG_FORMAT", .choices = "text json" },
	{ .name = "no-pager", .help = "print directly, also what is longer than the screen", .type = JR_OPT_FLAG,
	    .offset = AT(no_pager) },
	{ .name = "verbose", .letter = 'v', .help = "print more on stderr; twice: even more", .type = JR_OPT_COUNT,
	    .offset = AT(verbose) },
	{ .name = "help", .letter = 'h', .help = "print this text", .type = JR_OPT_FLAG, .offset = AT(help) },
	{ .name = "version", .letter = 'V', .help = "versions of jobrun and its libraries", .type = JR_OPT_FLAG,
	    .offset = AT(version) },
	JR_OPTIONS_END,
};
/* clang-format on */

const struct jr_option *
jr_global_options(void)
{
	return global_options;
}
