/* For other languages on top of the library: what lets their own memory management live beside it. */
#ifndef TAPER_BINDING_H
#define TAPER_BINDING_H
#include <taper/tensor.h>

TP_BEGIN

/* Callbacks of the library run in a scope, which would release what a language's objects hold. In between these two
 * calls the thread's open scopes do not count: what functions return is the caller's. tp_scopes_back takes what
 * tp_scopes_aside returned; the two nest. */
TP_API int64_t tp_scopes_aside(void);
TP_API void tp_scopes_back(int64_t before);

/* A callback that failed says why: the first error of the thread stays, as always. Returns false. A code that is none
 * counts as TP_ERR_RUNTIME; without a message the error says that there is none. */
TP_API bool tp_error_leave(tp_code code, const char *message);

/* For transforms of functions, whose tapes begin and end inside an inference scope: may tensors of such scopes be saved
 * for backward on this thread? Returns what held before. */
TP_API bool tp_keep_inference(bool on);

/* For hooks that wait for several gradients: which of all backwards of the process runs on this thread, counted from 1
 * (0: none does), and whether a gradient comes to t in it. */
TP_API int64_t tp_backward_number(void);
TP_API bool tp_backward_reaches(tp_tensor *t);

/* For garbage collectors: if the caller's reference to t is the only one, visit is called for each callback's context
 * that goes with t, with the release it was given: the hooks of t and, where nothing else holds t's node, the node's
 * hooks and its custom function. visit may not call the library. */
typedef void (*tp_context_visitor)(void (*release)(void *context), void *context, void *arg);
TP_API void tp_visit_contexts(const tp_tensor *t, tp_context_visitor visit, void *arg);

/* Hands the last reference to a storage to watcher(storage) instead of freeing it, once, on whatever thread that
 * happens; NULL: no more. There is one watcher for all storages. */
TP_API bool tp_storage_watch(tp_storage *storage, void (*watcher)(tp_storage *storage));

TP_END
#endif
