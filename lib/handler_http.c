#include "handler.h"

const struct jr_handler_kind jr_handler_http = {.name = "http"};
