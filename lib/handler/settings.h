/*
 * settings: NAME.json, what people say about a handler. Read once, strictly: a member that is not known, a value of the
 * wrong kind or out of range, a member that does not go with the kind of the handler are errors that name the file,
 * line and column, the rule and, for a member, the nearest known one. A file that is refused refuses its handler: it
 * must not run without the limits or the account that somebody wrote down for it.
 *
 *	any kind   timeout, timeout_max, grace ("10m"; a timeout of "0" is none); give_up, later (numbers; sql: strings)
 *	exec       argv (instead of an executable NAME), env {"NAME": "value"}, cwd, nice, cpu ("30s"), memory ("512M"),
 *	           files, processes, user, no_new_privs (true with user)
 *	sql        batch
 *	http       http {url, method, headers {"Name": "value" or "file:PATH"}, secret "file:PATH" or two of them,
 *	           timeout, connect_timeout, expect [200, "2xx"], allow_private, proxy (a URL or "environment"),
 *	           ca_file}
 *
 * Relative paths are relative to the handlers directory. Read with jansson (duplicate members are refused).
 */
#ifndef JR_SETTINGS_H
#define JR_SETTINGS_H

#include "base/err.h"
#include "handler/verdict.h"
#include "process/rlimits.h"

#include <jansson.h>

enum jr_settings_for {
	JR_SETTINGS_EXEC, /* there is an executable NAME */
	JR_SETTINGS_SQL,  /* there is a NAME.sql */
	JR_SETTINGS_ALONE /* neither: the file must have "http" or "argv" */
};

#define JR_BATCH_MAX 1000 /* "batch" */
#define JR_SECRET_MIN 24  /* bytes, as Standard Webhooks says */
#define JR_SECRET_MAX 64
#define JR_SECRETS_MAX 2         /* the new one, and the old one while it is replaced */
#define JR_SETTINGS_MAX 65536    /* bytes of a NAME.json */
#define JR_HTTP_TIMEOUT_MS 30000 /* whole transfer, unless said otherwise */
#define JR_HTTP_NO_TIMEOUT 0     /* of its own: the attempt's ends it */
#define JR_HTTP_CONNECT_MS 10000

struct jr_secret {
	unsigned char bytes[JR_SECRET_MAX];
	size_t len;
};

struct jr_status_range {
	int from, to; /* both included */
};

struct jr_http_target {
	char *url;      /* http or https, without user and password */
	char *method;   /* POST */
	char **headers; /* "Name: value", NULL-terminated; never one that jobrun sets itself */
	char *proxy;    /* NULL: none; "environment": what libcurl finds there */
	char *ca_file;  /* NULL: the system's */
	struct jr_secret secrets[JR_SECRETS_MAX];
	size_t secret_count;
	struct jr_status_range *expect; /* what is done; 2xx unless said otherwise */
	size_t expect_count;
	int64_t timeout_ms, connect_timeout_ms;
	bool allow_private; /* true unless said otherwise */
};

struct jr_settings {
	const char *makes; /* the member that makes the file a handler of its own, for JR_SETTINGS_ALONE; static */
	int64_t timeout_ms, grace_ms; /* -1: not said; a timeout of 0: no limit */
	int64_t timeout_max_ms;       /* no run has a longer one, or none; -1: not said */
	struct jr_rules rules;
	char **argv; /* NULL: the file itself; argv[0] is absolute */
	char **env;  /* "NAME=value", NULL-terminated; NULL: none */
	char *cwd;   /* absolute; NULL: the handlers directory */
	char *user;  /* the account's name, for people and its environment; NULL: none */
	char *home;  /* its home directory */
	struct jr_limits limits;
	bool no_new_privs_said;      /* else it goes with `user` */
	int64_t batch;               /* 0: one run at a time */
	struct jr_http_target *http; /* NULL: none */
};

/* What a handler without a NAME.json has. */
void jr_settings_init(struct jr_settings *settings);

/*
 * Read the file at `path`. JR_E_CONFIG with one line ("send.json:3:5: ..."); *settings is then as after init. Whether
 * the file may be trusted was asked before (perm.h); files of secrets must moreover be readable by nobody but their
 * owner and group, and so must this one if a header in it is a secret (header.h).
 */
bool jr_settings_read(struct jr_settings *settings, const char *path, const char *directory, enum jr_settings_for what,
    struct jr_err *err) JR_MUST;
void jr_settings_release(struct jr_settings *settings);

/*
 * What is set, without secrets: of headers and variables only the names, of a URL only scheme, host and port. In a few
 * words (caller frees; NULL: nothing is set), or as a JSON object in which members are called as in NAME.json, with the
 * unit behind the name where a string became a number.
 */
char *jr_settings_words(const struct jr_settings *settings) JR_MUST;
json_t *jr_settings_document(const struct jr_settings *settings) JR_MUST;

/* Call `each` for every setting there is. Its whole name is `in` and `name`, as in "http." and "url". */
typedef void jr_setting_fn(void *ctx, const char *in, const char *name, const char *kind, const char *help);
void jr_settings_describe(jr_setting_fn *each, void *ctx);

/*
 * Pure: has the target a header of that name, whatever the case of its letters? Is the status what "expect" calls done?
 */
bool jr_http_target_has_header(const struct jr_http_target *target, const char *name) JR_MUST;
bool jr_http_target_expects(const struct jr_http_target *target, int64_t status) JR_MUST;

/* Standard Webhooks: "whsec_" and base64 of 24 to 64 bytes; white space around it is no matter. */
bool jr_secret_parse(const char *text, struct jr_secret *secret, struct jr_err *err) JR_MUST;

#endif
