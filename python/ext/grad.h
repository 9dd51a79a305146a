/* What the files of the tape's Python side share: grad_fn objects, hooks and calls from the library back into Python.
 *
 * Callbacks come from inside a backward, where the interpreter lock is free, or from a release on any thread. Each is
 * between tpy_enter and tpy_leave, which take the lock and put the library's scopes aside, since Python's objects own
 * what they hold. A Python exception that ends a backward stays pending in the thread while the library unwinds, so
 * releases on the way put it aside too. */
#ifndef TPY_GRAD_H
#define TPY_GRAD_H
#include "tpy.h"

/* ---- Back into Python (hooks.c) ---- */
typedef struct tpy_entry {
    PyGILState_STATE lock;
    int64_t scopes;
} tpy_entry;
static inline tpy_entry tpy_enter(void) { return (tpy_entry){PyGILState_Ensure(), tp_scopes_aside()}; }
static inline void tpy_leave(tpy_entry entry) {
    tp_scopes_back(entry.scopes);
    PyGILState_Release(entry.lock);
}
/* The pending exception, if any, as an object that tpy_exception_back makes pending again. */
static inline PyObject *tpy_exception_aside(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *where;
    PyErr_Fetch(&type, &value, &where);
    if (!type) return NULL;
    PyErr_NormalizeException(&type, &value, &where);
    if (where) PyException_SetTraceback(value, where);
    Py_DECREF(type);
    Py_XDECREF(where);
    return value;
#endif
}
static inline void tpy_exception_back(PyObject *exception) {
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception);
#else
    if (exception)
        PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
    else
        PyErr_Clear();
#endif
}
void tpy_leave_error(void);                 /* the library must stop: a Python exception is pending */
void tpy_drop(void *object);                /* a release callback: gives back a reference, from any thread */
PyObject *tpy_tensor_or_none(tp_tensor *t); /* borrowed t; NULL is None */
PyObject *tpy_tensor_tuple(tp_tensor *const *v, int64_t n); /* borrowed; NULL entries are None */
bool tpy_read_gradient(PyObject *o, tp_tensor **out);       /* a tensor or None, borrowed; an exception otherwise */

/* ---- Hooks (hooks.c): one object is the hook's context in the library and the user's handle ---- */
enum tpy_hook_kind { TPY_HOOK_TENSOR, TPY_HOOK_LEAF, TPY_HOOK_NODE, TPY_HOOK_PRE };
PyObject *tpy_add_tensor_hook(PyObject *tensor, PyObject *callable, int kind);
PyObject *tpy_add_node_hook(tp_node *node, PyObject *callable, int kind);
int tpy_init_hooks(PyObject *module);

/* ---- grad_fn objects (node.c) ---- */
PyObject *tpy_wrap_node(tp_node *node);              /* takes the node over; NULL is None, or the pending error */
bool tpy_bind_node(tp_node *node, PyObject *object); /* object (borrowed) stands for the node from now on */
PyObject *tpy_node_edges(const tp_node *node);       /* next_functions */
PyObject *tpy_node_metadata(tp_node *node);
tp_node *tpy_node_of(PyObject *o); /* of a grad_fn or a call's ctx, borrowed; NULL for others */
int tpy_init_nodes(PyObject *module);

/* ---- torch.autograd.Function (function.c) ---- */
tp_node *tpy_function_node(PyObject *ctx); /* borrowed; NULL once the graph let go of the call */
void tpy_release_ctx(void *context);       /* the release of a call's ctx */
int tpy_init_functions(PyObject *module);
#endif
