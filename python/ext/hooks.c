/* Hooks written in Python: on tensors, leaves, nodes, and on what the tape saves; and the traces of anomaly mode.
 *
 * A hook's object is both what the library calls and what the user removes it with. Removing empties the object, which
 * is enough to stop it; unlinking it from the library's list needs the tensor, which the object knows only weakly, so
 * that a kept handle keeps no tensor alive. */
#include "grad.h"
#include <stddef.h>
#include <structmember.h>

/* ---- Back into Python ---- */
void tpy_leave_error(void) {
    (void)tp_node_name(NULL); /* any failing call leaves one; the pending exception says what happened */
}

void tpy_drop(void *object) {
    if (!Py_IsInitialized()) return; /* the interpreter is gone, and the object with it */
    tpy_entry entry = tpy_enter();
    PyObject *pending = tpy_exception_aside();
    Py_DECREF((PyObject *)object);
    tpy_exception_back(pending);
    tpy_leave(entry);
}

PyObject *tpy_tensor_or_none(tp_tensor *t) { return t ? tpy_wrap(tp_retain(t)) : Py_NewRef(Py_None); }

PyObject *tpy_tensor_tuple(tp_tensor *const *v, int64_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *o = tpy_tensor_or_none(v[i]);
        if (o)
            PyTuple_SET_ITEM(tuple, i, o);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

bool tpy_read_gradient(PyObject *o, tp_tensor **out) {
    *out = o != Py_None && tpy_is_tensor(o) ? tpy_unwrap(o) : NULL;
    if (*out || o == Py_None) return true;
    PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)", Py_TYPE(o)->tp_name);
    return false;
}

/* ---- Garbage ---- */
typedef struct visiting {
    visitproc visit;
    void *arg;
    int result; /* not 0: the collector has seen enough */
} visiting;

static void visit_context(void (*release)(void *), void *context, void *arg) {
    visiting *v = arg;
    if (!v->result && (release == tpy_drop || release == tpy_release_ctx)) v->result = v->visit(context, v->arg);
}

int tpy_visit_owned(const tp_tensor *t, visitproc visit, void *arg) {
    visiting v = {visit, arg, 0};
    tp_visit_contexts(t, visit_context, &v);
    return v.result;
}

/* ---- The hook object ---- */
typedef struct tpy_hook {
    PyObject_HEAD
    PyObject *callable; /* NULL once removed */
    PyObject *owner;    /* a weak reference to the tensor; NULL for nodes */
    PyObject *weakrefs;
    int64_t handle; /* the library's */
    int kind;
} tpy_hook;
static PyTypeObject *hook_type;

static void hook_dealloc(PyObject *o) {
    tpy_hook *self = (tpy_hook *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (self->weakrefs) PyObject_ClearWeakRefs(o);
    Py_CLEAR(self->callable);
    Py_CLEAR(self->owner);
    type->tp_free(o);
    Py_DECREF(type);
}
static int hook_traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(((tpy_hook *)o)->callable);
    Py_VISIT(((tpy_hook *)o)->owner);
    Py_VISIT(Py_TYPE(o));
    return 0;
}
static int hook_clear(PyObject *o) {
    Py_CLEAR(((tpy_hook *)o)->callable);
    return 0;
}

/* The tensor, if it is still there: a new reference, or NULL. */
static PyObject *owner_of(const tpy_hook *hook) {
    PyObject *owner = NULL;
    if (!hook->owner) return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    (void)PyWeakref_GetRef(hook->owner, &owner);
#else
    owner = PyWeakref_GetObject(hook->owner);
    owner = owner == Py_None ? NULL : Py_XNewRef(owner);
#endif
    return owner;
}

static PyObject *hook_remove(PyObject *o, PyObject *unused) {
    (void)unused;
    tpy_hook *self = (tpy_hook *)o;
    if (!self->callable) Py_RETURN_NONE;
    Py_CLEAR(self->callable);
    PyObject *owner = owner_of(self);
    if (owner && tp_requires_grad(tpy_unwrap(owner)) && !tp_remove_hook(tpy_unwrap(owner), self->handle))
        tp_error_clear(); /* written in place since: the hook stayed with the value it was added to, and does nothing
                             from now on */
    Py_XDECREF(owner);
    Py_RETURN_NONE;
}
static PyObject *hook_enter(PyObject *o, PyObject *unused) {
    (void)unused;
    return Py_NewRef(o);
}
static PyObject *hook_exit(PyObject *o, PyObject *args) { return hook_remove(o, args); }
static PyObject *hook_id(PyObject *o, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(((tpy_hook *)o)->handle);
}

static tpy_hook *make_hook(PyObject *callable, PyObject *tensor, int kind) {
    tpy_hook *hook = (tpy_hook *)hook_type->tp_alloc(hook_type, 0);
    if (!hook) return NULL;
    hook->callable = Py_NewRef(callable);
    hook->kind = kind;
    if (tensor && !(hook->owner = PyWeakref_NewRef(tensor, NULL))) Py_CLEAR(hook);
    return hook;
}

static bool same_shape(const tp_tensor *a, const tp_tensor *b) {
    tp_ints s = tp_shape(a), r = tp_shape(b);
    return s.n == r.n && (!s.n || !memcmp(s.v, r.v, (size_t)s.n * sizeof *s.v));
}

/* What the callable returned in place of the gradient: a reference, or NULL where nothing changes. Takes `result`. */
static tp_tensor *replacement(PyObject *callable, const tp_tensor *grad, PyObject *result, bool *ok) {
    tp_tensor *t = result && tpy_is_tensor(result) ? tpy_unwrap(result) : NULL;
    *ok = t || result == Py_None;
    if (result && !*ok)
        PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(result)->tp_name);
    if (t && !same_shape(t, grad)) {
        PyObject *name = PyObject_GetAttrString(callable, "__name__");
        PyErr_Clear();
        PyErr_Format(PyExc_RuntimeError, "hook '%S' has changed the size of value", name ? name : callable);
        Py_XDECREF(name);
        *ok = false;
        t = NULL;
    }
    if (t) tp_retain(t);
    Py_XDECREF(result);
    return t;
}

static tp_tensor *run_tensor_hook(tp_tensor *grad, void *context) {
    tpy_entry entry = tpy_enter();
    tpy_hook *hook = context;
    PyObject *callable = Py_XNewRef(hook->callable), *argument = callable ? tpy_tensor_or_none(grad) : NULL;
    bool ok = true;
    tp_tensor *t =
        callable ? replacement(callable, grad, argument ? PyObject_CallOneArg(callable, argument) : NULL, &ok) : NULL;
    Py_XDECREF(argument);
    Py_XDECREF(callable);
    if (!ok) tpy_leave_error();
    tpy_leave(entry);
    return t;
}

static bool run_leaf_hook(tp_tensor *leaf, void *context) {
    tpy_entry entry = tpy_enter();
    PyObject *callable = Py_XNewRef(((tpy_hook *)context)->callable),
             *argument = callable ? tpy_tensor_or_none(leaf) : NULL;
    PyObject *result = argument ? PyObject_CallOneArg(callable, argument) : NULL;
    bool ok = result || !callable;
    if (result && result != Py_None) {
        PyErr_SetString(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None.");
        ok = false;
    }
    Py_XDECREF(result);
    Py_XDECREF(argument);
    Py_XDECREF(callable);
    tpy_leave(entry);
    return ok;
}

/* A node hook's answer: None, or as many gradients as there were (one may come without a tuple). */
static tp_hook_result read_answer(PyObject *answer, int64_t n, tp_tensor **replaced) {
    if (!answer) return TP_HOOK_FAILED;
    if (answer == Py_None) return TP_HOOK_KEEP;
    bool tuple = PyTuple_Check(answer);
    int64_t count = tuple ? PyTuple_GET_SIZE(answer) : 1;
    if (count != n) {
        PyErr_Format(PyExc_RuntimeError,
                     "hook has returned an incorrect number of values (got %lld, but expected %lld)", (long long)count,
                     (long long)n);
        return TP_HOOK_FAILED;
    }
    for (int64_t i = 0; i < n; i++)
        if (!tpy_read_gradient(tuple ? PyTuple_GET_ITEM(answer, i) : answer, &replaced[i])) {
            for (int64_t j = 0; j <= i; j++) replaced[j] = NULL;
            return TP_HOOK_FAILED;
        }
    for (int64_t i = 0; i < n; i++)
        if (replaced[i]) tp_retain(replaced[i]);
    return TP_HOOK_REPLACE;
}

static tp_hook_result run_node_hook(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced,
                                    void *context) {
    tpy_entry entry = tpy_enter();
    tpy_hook *hook = context;
    bool before = hook->kind == TPY_HOOK_PRE;
    PyObject *callable = Py_XNewRef(hook->callable);
    tp_hook_result result = TP_HOOK_KEEP;
    if (callable) {
        PyObject *outputs = tpy_tensor_tuple(grad_outputs.v, grad_outputs.n),
                 *inputs = outputs && !before ? tpy_tensor_tuple(grad_inputs.v, grad_inputs.n) : NULL;
        PyObject *answer = before ? (outputs ? PyObject_CallOneArg(callable, outputs) : NULL)
                                  : (inputs ? PyObject_CallFunctionObjArgs(callable, inputs, outputs, NULL) : NULL);
        result = read_answer(answer, before ? grad_outputs.n : grad_inputs.n, replaced);
        Py_XDECREF(answer);
        Py_XDECREF(inputs);
        Py_XDECREF(outputs);
    }
    Py_XDECREF(callable);
    tpy_leave(entry);
    return result;
}

static PyObject *added(tpy_hook *hook, int64_t handle) {
    if (handle) {
        hook->handle = handle;
        return (PyObject *)hook;
    }
    Py_DECREF(hook); /* the library's */
    Py_DECREF(hook);
    return tpy_raise();
}

PyObject *tpy_add_tensor_hook(PyObject *tensor, PyObject *callable, int kind) {
    if (!PyCallable_Check(callable))
        return PyErr_Format(PyExc_TypeError, "a hook must be callable, not %s", Py_TYPE(callable)->tp_name);
    tpy_hook *hook = make_hook(callable, tensor, kind);
    if (!hook) return NULL;
    Py_INCREF(hook);
    return added(hook, kind == TPY_HOOK_LEAF
                           ? tp_add_accumulated_hook(tpy_unwrap(tensor), run_leaf_hook, hook, tpy_drop)
                           : tp_add_hook(tpy_unwrap(tensor), run_tensor_hook, hook, tpy_drop));
}

PyObject *tpy_add_node_hook(tp_node *node, PyObject *callable, int kind) {
    tp_capture_break("a hook on a node of the backward is registered"); /* before a backward is tried, which would run
                                                                           it once more */
    tpy_hook *hook = make_hook(callable, NULL, kind);
    if (!hook) return NULL;
    Py_INCREF(hook);
    return added(hook, kind == TPY_HOOK_PRE ? tp_node_add_prehook(node, run_node_hook, hook, tpy_drop)
                                            : tp_node_add_hook(node, run_node_hook, hook, tpy_drop));
}

/* ---- What the tape saves, in the user's hands: context is the tuple (pack, unpack) ---- */
static void *run_pack(tp_tensor *t, void *context) {
    tpy_entry entry = tpy_enter();
    PyObject *argument = tpy_wrap(tp_retain(t));
    PyObject *packed = argument ? PyObject_CallOneArg(PyTuple_GET_ITEM((PyObject *)context, 0), argument) : NULL;
    Py_XDECREF(argument);
    if (!packed) tpy_leave_error();
    tpy_leave(entry);
    return packed;
}

static tp_tensor *run_unpack(void *packed, void *context) {
    tpy_entry entry = tpy_enter();
    PyObject *result = PyObject_CallOneArg(PyTuple_GET_ITEM((PyObject *)context, 1), packed);
    if (result && !tpy_is_tensor(result)) {
        PyErr_Format(PyExc_TypeError,
                     "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
                     Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    tp_tensor *t = result ? tp_retain(tpy_unwrap(result)) : NULL;
    Py_XDECREF(result);
    if (!t) tpy_leave_error();
    tpy_leave(entry);
    return t;
}
static void drop_packed(void *packed, void *context) {
    (void)context;
    tpy_drop(packed);
}

static PyObject *push_saved_hooks(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return NULL;
    if (!PyCallable_Check(pack) || !PyCallable_Check(unpack))
        return PyErr_Format(PyExc_TypeError, "saved_tensors_hooks() takes two functions");
    PyObject *pair = PyTuple_Pack(2, pack, unpack);
    if (!pair) return NULL;
    tp_saved_hooks hooks = {.size = sizeof hooks,
                            .pack = run_pack,
                            .unpack = run_unpack,
                            .drop = drop_packed,
                            .context = pair,
                            .release = tpy_drop};
    if (tp_push_saved_hooks(&hooks)) Py_RETURN_NONE;
    Py_DECREF(pair);
    return tpy_raise();
}
/* _pack_saved(node, slot, pack, unpack): what the node keeps there goes through the hooks from now on. */
static PyObject *pack_saved(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o, *pack, *unpack;
    long long slot;
    if (!PyArg_ParseTuple(args, "OLOO", &o, &slot, &pack, &unpack)) return NULL;
    tp_node *node = tpy_node_of(o);
    if (!node) return PyErr_Format(PyExc_TypeError, "expected a grad_fn, got %s", Py_TYPE(o)->tp_name);
    PyObject *pair = PyTuple_Pack(2, pack, unpack);
    if (!pair) return NULL;
    tp_saved_hooks hooks = {.size = sizeof hooks,
                            .pack = run_pack,
                            .unpack = run_unpack,
                            .drop = drop_packed,
                            .context = Py_NewRef(pair),
                            .release = tpy_drop};
    bool ok = tp_node_pack_saved(node, slot, &hooks);
    Py_DECREF(pair);
    return ok ? Py_NewRef(Py_None) : tpy_raise();
}
static PyObject *pop_saved_hooks(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return tpy_none_or_raise(tp_pop_saved_hooks());
}

/* Takes the message, or None to allow hooks again; returns what was set before. */
static _Thread_local PyObject *forbidding; /* whose text the library has; NULL: none */
static PyObject *forbid_saved_hooks(PyObject *module, PyObject *message) {
    (void)module;
    if (message != Py_None && !PyUnicode_Check(message))
        return PyErr_Format(PyExc_TypeError, "expected a message as str, got %s", Py_TYPE(message)->tp_name);
    const char *text = message == Py_None ? NULL : PyUnicode_AsUTF8(message);
    if (message != Py_None && !text) return NULL;
    tp_forbid_saved_hooks(text);
    if (!tp_ok()) return tpy_raise();
    PyObject *before = forbidding ? forbidding : Py_NewRef(Py_None);
    forbidding = text ? Py_NewRef(message) : NULL;
    return before;
}

/* ---- Anomaly mode: where the program was at the forward call ---- */
static void *record_trace(void *context) {
    (void)context;
    tpy_entry entry = tpy_enter();
    PyObject *traceback = PyImport_ImportModule("traceback"),
             *lines = traceback ? PyObject_CallMethod(traceback, "format_stack", NULL) : NULL;
    PyObject *empty = lines ? PyUnicode_FromString("") : NULL, *text = empty ? PyUnicode_Join(empty, lines) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(lines);
    Py_XDECREF(traceback);
    if (!text) PyErr_Clear(); /* a call without its trace is no reason to fail it */
    tpy_leave(entry);
    return text;
}

/* PyTorch warns with the trace and raises the error as it is; a pending exception is put aside for the warning. */
static const char *describe_trace(void *trace, const tp_node *node, void *context) {
    (void)context;
    tpy_entry entry = tpy_enter();
    PyObject *pending = tpy_exception_aside();
    if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                         "Error detected in %s. Traceback of forward call that caused the error:\n%U",
                         tp_node_name(node), (PyObject *)trace) < 0 &&
        pending)
        PyErr_Clear();
    if (pending) tpy_exception_back(pending);
    tpy_leave(entry);
    return NULL;
}
static void drop_trace(void *trace, void *context) {
    (void)context;
    tpy_drop(trace);
}

static PyObject *set_anomaly(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {"enabled", "check_nan", NULL};
    int on, check_nan = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "p|p", names, &on, &check_nan)) return NULL;
    tp_trace_hooks hooks = {sizeof hooks, record_trace, describe_trace, drop_trace, NULL};
    if (!tp_set_trace_hooks(on ? &hooks : NULL)) return tpy_raise();
    tp_set_anomaly(on);
    tp_set_anomaly_checks_nan(check_nan);
    Py_RETURN_NONE;
}
static PyObject *anomaly_enabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_anomaly_enabled());
}
static PyObject *anomaly_checks_nan(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_anomaly_checks_nan());
}

static PyMethodDef hook_methods[] = {{"remove", hook_remove, METH_NOARGS, "Takes the hook away."},
                                     {"__enter__", hook_enter, METH_NOARGS, NULL},
                                     {"__exit__", hook_exit, METH_VARARGS, NULL},
                                     {0}};
static PyGetSetDef hook_properties[] = {{"id", hook_id, NULL, NULL, NULL}, {0}};
static PyMemberDef hook_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(tpy_hook, weakrefs), READONLY, NULL},
                                     {0}};
static PyType_Slot hook_slots[] = {{Py_tp_dealloc, hook_dealloc},
                                   {Py_tp_traverse, hook_traverse},
                                   {Py_tp_clear, hook_clear},
                                   {Py_tp_methods, hook_methods},
                                   {Py_tp_getset, hook_properties},
                                   {Py_tp_members, hook_members},
                                   {0, NULL}};
static PyType_Spec hook_spec = {"torch.utils.hooks.RemovableHandle", sizeof(tpy_hook), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                hook_slots};
static PyMethodDef functions[] = {
    {"_push_saved_hooks", push_saved_hooks, METH_VARARGS, NULL},
    {"_pop_saved_hooks", pop_saved_hooks, METH_NOARGS, NULL},
    {"_pack_saved", pack_saved, METH_VARARGS, NULL},
    {"_forbid_saved_hooks", forbid_saved_hooks, METH_O, NULL},
    {"set_anomaly_enabled", (PyCFunction)(void (*)(void))set_anomaly, METH_VARARGS | METH_KEYWORDS, NULL},
    {"is_anomaly_enabled", anomaly_enabled, METH_NOARGS, NULL},
    {"is_anomaly_check_nan_enabled", anomaly_checks_nan, METH_NOARGS, NULL},
    {0}};

int tpy_init_hooks(PyObject *module) {
    hook_type = (PyTypeObject *)PyType_FromSpec(&hook_spec);
    if (!hook_type || PyModule_AddObjectRef(module, "_Hook", (PyObject *)hook_type) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
