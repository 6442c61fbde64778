/*
 * settings: NAME.json, the settings of a handler. It is read once and strictly. Errors are an unknown member, a value
 * of the wrong type or out of range, and a member of another kind of handler. The message names the file, line and
 * column, the rule and, for an unknown member, the nearest known one. If the file is refused, the handler is refused:
 * it must not run without the limits or the account that somebody has set for it.
 *
 *	any kind   timeout, timeout_max, grace ("10m"; a timeout of "0" is none); give_up, later (numbers; sql:
 *	           strings); ping (a URL or "file:PATH"), ping_start (true: it hears of starts, too)
 *	exec       argv (instead of an executable NAME), env {"NAME": "value"}, cwd, nice, cpu ("30s"), memory ("512M"),
 *	           files, processes, user, no_new_privs (true with user), isolate ("pidns")
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
	JR_SETTINGS_ALONE /* there is neither: NAME.json must have "http" or "argv" */
};

#define JR_BATCH_MAX 1000 /* "batch" */
#define JR_SECRET_MIN 24  /* bytes, as Standard Webhooks says */
#define JR_SECRET_MAX 64
#define JR_SECRETS_MAX 2         /* a new one, and the old one while it is being replaced */
#define JR_SETTINGS_MAX 65536    /* bytes of a NAME.json */
#define JR_HTTP_TIMEOUT_MS 30000 /* for the whole transfer; the default */
#define JR_HTTP_NO_TIMEOUT 0     /* the request has no timeout of its own: that of the attempt ends it */
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
	char *method;   /* such as POST */
	char **headers; /* "Name: value", NULL-terminated; no header that jobrun sets itself */
	char *proxy;    /* NULL: none; "environment": the proxy from https_proxy and the like */
	char *ca_file;  /* NULL: that of the system */
	struct jr_secret secrets[JR_SECRETS_MAX];
	size_t secret_count;
	struct jr_status_range *expect; /* the statuses that mean done; default 2xx */
	size_t expect_count;
	int64_t timeout_ms, connect_timeout_ms;
	bool allow_private; /* default true */
};

struct jr_settings {
	const char *makes; /* JR_SETTINGS_ALONE: the member that makes the file a handler of its own; static */
	int64_t timeout_ms, grace_ms; /* -1: not set; a timeout of 0: no limit */
	int64_t timeout_max_ms;       /* the longest timeout that a run may have; -1: not set */
	struct jr_rules rules;
	char **argv; /* NULL: run the file NAME; argv[0] is absolute */
	char **env;  /* "NAME=value", NULL-terminated; NULL: none */
	char *cwd;   /* absolute; NULL: the handlers directory */
	char *user;  /* the name of the account, for people and for its environment; NULL: none */
	char *home;  /* the home directory of `user` */
	struct jr_limits limits;
	bool no_new_privs_said;      /* "no_new_privs" is set; if not, it is true with `user` and false without */
	bool isolate;                /* "pidns": each start gets a PID namespace of its own */
	int64_t batch;               /* 0: one run at a time */
	struct jr_http_target *http; /* NULL: none */
	char *ping;                  /* the URL that hears how a run ended, a secret; NULL: none */
	bool ping_start;             /* it hears of starts, too */
};

/* The settings of a handler without a NAME.json. */
void jr_settings_init(struct jr_settings *settings);

/*
 * Read the file at `path`. On failure JR_E_CONFIG with one line ("send.json:3:5: ..."), and *settings is as after init.
 * The caller has checked the permissions of the file (perm.h). Only the owner and the group may be able to read a file
 * with a secret: that holds for this file too if a header in it is a secret (header.h).
 */
bool jr_settings_read(struct jr_settings *settings, const char *path, const char *directory, enum jr_settings_for what,
    struct jr_err *err) JR_MUST;
void jr_settings_release(struct jr_settings *settings);

/*
 * The settings that are set, without secrets: only the names of headers and variables; only scheme, host and port of a
 * URL. Either in one line (caller frees; NULL: nothing is set), or as a JSON object. Its members have the names of
 * NAME.json; if a duration or size became a number, the unit is appended to the name ("timeout_ms").
 */
char *jr_settings_words(const struct jr_settings *settings) JR_MUST;
json_t *jr_settings_document(const struct jr_settings *settings) JR_MUST;

/* Call `each` for every setting. Its full name is `in` followed by `name`, as in "http." and "url". */
typedef void jr_setting_fn(void *ctx, const char *in, const char *name, const char *kind, const char *help);
void jr_settings_describe(jr_setting_fn *each, void *ctx);

/*
 * Pure: does the target have a header of that name, in any case? Does "expect" contain the status?
 */
bool jr_http_target_has_header(const struct jr_http_target *target, const char *name) JR_MUST;
bool jr_http_target_expects(const struct jr_http_target *target, int64_t status) JR_MUST;

/* Standard Webhooks: "whsec_" and the base64 of 24 to 64 bytes; white space around it is ignored. */
bool jr_secret_parse(const char *text, struct jr_secret *secret, struct jr_err *err) JR_MUST;

/*
 * A URL for http or https: `text`, or with "file:PATH" the first word of that file, which others cannot read. A
 * relative PATH is one of `directory` (NULL: the current one). The caller frees it; NULL: *err says why (JR_E_CONFIG),
 * without the URL.
 */
char *jr_settings_url(const char *text, const char *directory, struct jr_err *err) JR_MUST;

/* Only scheme, host and port of a URL: some services put their key into the path. Caller frees. */
char *jr_http_origin(const char *url) JR_MUST;

#endif
