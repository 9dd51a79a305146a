/* Which engines are there, and opening them. */
#include <string.h>
#include "dist/group.h"

bool tp_dist_available(const char *backend) { return backend && (strcmp(backend, "gloo") == 0 || strcmp(backend, "tcp") == 0); }
