#include "settings.h"

void
jr_settings_init(struct jr_settings *settings)
{
	*settings = (struct jr_settings){.timeout_ms = -1,
	    .grace_ms = -1,
	    .limits = {.cpu_s = -1, .memory = -1, .files = -1, .processes = -1}};
}
