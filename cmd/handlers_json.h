/*
 * handlers_json: what this host can do as a JSON document. As in the table, of headers and variables only the names are
 * said, of a URL only scheme, host and port, and of a secret nothing but that there is one.
 */
#ifndef JR_HANDLERS_JSON_H
#define JR_HANDLERS_JSON_H

#include "handler/handlers.h"

/* On stdout. `nothing`: why there is nothing to run here, NULL if there is something; it is one more problem. */
void jr_handlers_print_json(const struct jr_handlers *handlers, const char *nothing);

/* Scheme, host and port. Caller frees. */
char *jr_origin_of(const char *url) JR_MUST;

#endif
