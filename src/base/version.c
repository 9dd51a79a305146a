/* Which library is loaded: the numbers it was built with, which may be newer than the caller's header. */
#include <taper/base.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *tp_version(void) { return TEXT(TP_VERSION_MAJOR) "." TEXT(TP_VERSION_MINOR) "." TEXT(TP_VERSION_PATCH); }

int tp_version_number(void) { return TP_VERSION_MAJOR * 10000 + TP_VERSION_MINOR * 100 + TP_VERSION_PATCH; }
