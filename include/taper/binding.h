/* For other languages on top of the library: what lets their own memory management live beside it. */
#ifndef TAPER_BINDING_H
#define TAPER_BINDING_H
#include <taper/base.h>

TP_BEGIN

/* Callbacks of the library run in a scope, which would release what a language's objects hold. In between these two calls the thread's open
 * scopes do not count: what functions return is the caller's. tp_scopes_back takes what tp_scopes_aside returned; the two nest. */
TP_API int64_t tp_scopes_aside(void);
TP_API void tp_scopes_back(int64_t before);

TP_END
#endif
