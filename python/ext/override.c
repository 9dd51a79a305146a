/* __torch_function__ and __torch_dispatch__: objects that want to see calls before the library does. Plain tensors and
 * parameters never do, so that the question costs a type comparison per argument.
 *
 * Functions are asked first. A call that no function answers goes on to taper._dispatch, which puts it on the tape and
 * shows handlers the operators of aten that it is made of. Until the first instance of a class with such a handler is
 * made, nobody looks for one. */
#include "grad.h"

#include <structmember.h>

static PyObject *hook_name, *default_hook, *disabled_hook;
static PyObject *dispatch_name, *disabled_dispatch;
static PyObject *dispatch_call; /* taper._dispatch.call, once it is needed */
static bool dispatch_classes;   /* there was an instance of a class with a __torch_dispatch__ */
static _Thread_local long dispatch_modes,
    dispatch_off; /* TorchDispatchModes, and scopes without handlers, that this thread is in */
static Py_tss_t off_key = Py_tss_NEEDS_INIT; /* how many DisableTorchFunction scopes this thread is in */

/* torch.overrides.TorchFunctionMode: while a thread is in one, every call goes to `mode_hook` first. */
static PyObject *mode_hook; /* overrides._run_mode */
static long modes;          /* how many modes all threads are in together, so that the usual call asks one number */
static _Thread_local long modes_here; /* this thread's */
static _Thread_local bool
    skip_next; /* the next call that would be handed to a function is not (torch.overrides.redispatch_function) */

static bool is_off(void) { return PyThread_tss_get(&off_key) != NULL; }

/* The type's own __torch_function__, borrowed; NULL for types that leave calls alone. */
static PyObject *hook_of(PyTypeObject *type) {
    if (type == tpy_tensor_type || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
        type == &PyUnicode_Type || type == &PyTuple_Type || type == &PyList_Type || type == Py_TYPE(Py_None) ||
        type == tpy_dtype_type)
        return NULL;
    PyObject *hook = _PyType_Lookup(type, hook_name);
    return hook == disabled_hook || hook == default_hook ? NULL : hook;
}

/* Does the class have a __torch_dispatch__ of its own? */
static bool has_handler(PyTypeObject *type) {
    if (type == tpy_tensor_type || !PyType_IsSubtype(type, tpy_tensor_type)) return false;
    PyObject *handler = _PyType_Lookup(type, dispatch_name);
    return handler && handler != disabled_dispatch;
}

/* A subclass that keeps Tensor's own hook still gets its results in its type; one with a handler gets what that gives.
 */
static bool plain_subclass(PyTypeObject *type) {
    return type != tpy_tensor_type && PyType_IsSubtype(type, tpy_tensor_type) &&
           _PyType_Lookup(type, hook_name) == default_hook && !(dispatch_classes && has_handler(type));
}

bool tpy_dispatches(PyTypeObject *type) {
    bool has = has_handler(type);
    dispatch_classes |= has;
    return has;
}

bool tpy_has_modes(void) { return modes != 0 && (modes_here || dispatch_modes); }

bool tpy_handled(PyObject *o) {
    if (dispatch_off) return false;
    return dispatch_modes || (o && dispatch_classes && has_handler(Py_TYPE(o)));
}

static bool asks_function(PyObject *o) { return hook_of(Py_TYPE(o)) || plain_subclass(Py_TYPE(o)); }
static bool asks(PyObject *o) {
    return (asks_function(o) && !is_off()) || (dispatch_classes && !dispatch_off && has_handler(Py_TYPE(o)));
}

static bool overridden(PyObject *const *args, Py_ssize_t n);
bool tpy_overridden(PyObject *const *args, Py_ssize_t n) {
    bool is = overridden(args, n);
    if (__builtin_expect(is && skip_next, 0)) {
        skip_next = false;
        PyThread_tss_set(&off_key,
                         (void *)((intptr_t)PyThread_tss_get(&off_key) + 1)); /* handlers are asked all the same */
        is = overridden(args, n);
        PyThread_tss_set(&off_key, (void *)((intptr_t)PyThread_tss_get(&off_key) - 1));
    }
    return is;
}
static bool overridden(PyObject *const *args, Py_ssize_t n) {
    if (__builtin_expect(modes != 0, 0) && ((modes_here && !is_off()) || (dispatch_modes && !dispatch_off)))
        return true;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = args[i];
        if (Py_TYPE(o) == tpy_tensor_type || Py_TYPE(o) == &PyFloat_Type || Py_TYPE(o) == &PyLong_Type) continue;
        if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) { /* torch.cat([a, b]) */
            Py_ssize_t m = PySequence_Fast_GET_SIZE(o);
            for (Py_ssize_t j = 0; j < m; j++) {
                PyObject *inner = PySequence_Fast_GET_ITEM(o, j);
                if (Py_TYPE(inner) != tpy_tensor_type && Py_TYPE(inner) != &PyLong_Type && asks(inner)) return true;
            }
        } else if (asks(o))
            return true;
    }
    return false;
}

static bool add_overriding(PyObject *list,
                           PyObject *o) { /* subclasses before their bases, otherwise in order; each type once */
    if (!asks_function(o)) return true;
    Py_ssize_t n = PyList_GET_SIZE(list), at = n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyTypeObject *other = Py_TYPE(PyList_GET_ITEM(list, i));
        if (other == Py_TYPE(o)) return true;
        if (at == n && PyType_IsSubtype(Py_TYPE(o), other)) at = i;
    }
    return PyList_Insert(list, at, o) == 0;
}

static PyObject *overriding(PyObject *const *args, Py_ssize_t n) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        bool ok = true;
        if (PyTuple_CheckExact(args[i]) || PyList_CheckExact(args[i]))
            for (Py_ssize_t j = 0; ok && j < PySequence_Fast_GET_SIZE(args[i]); j++)
                ok = add_overriding(list, PySequence_Fast_GET_ITEM(args[i], j));
        else
            ok = add_overriding(list, args[i]);
        if (!ok) Py_CLEAR(list);
    }
    return list;
}

/* Nobody among the functions answers: handlers see what the call is made of. */
static PyObject *call_handlers(PyObject *function, PyObject *args, PyObject *kwargs) {
    if (!dispatch_call) {
        PyObject *module = PyImport_ImportModule("taper._dispatch");
        dispatch_call = module ? PyObject_GetAttrString(module, "call") : NULL;
        Py_XDECREF(module);
        if (!dispatch_call) return NULL;
    }
    return PyObject_CallFunctionObjArgs(dispatch_call, function, args, kwargs, NULL);
}

PyObject *tpy_call_override(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    Py_ssize_t nk = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *objects = overriding(args, n + nk), *types = objects ? PyTuple_New(PyList_GET_SIZE(objects)) : NULL,
             *positional = types ? PyTuple_New(n) : NULL;
    PyObject *keywords = positional ? PyDict_New() : NULL, *result = NULL;
    for (Py_ssize_t i = 0; keywords && i < n; i++) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; keywords && i < nk; i++)
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[n + i]) < 0) Py_CLEAR(keywords);
    for (Py_ssize_t i = 0; keywords && i < PyList_GET_SIZE(objects); i++)
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(PyList_GET_ITEM(objects, i))));
    bool moded = modes_here && !is_off();
    if (keywords && !moded && (is_off() || !PyList_GET_SIZE(objects)))
        result = call_handlers(function, positional, keywords);
    else if (moded && keywords)
        result = PyObject_CallFunctionObjArgs(mode_hook, function, types, positional, keywords, NULL);
    for (Py_ssize_t i = 0; keywords && !moded && !is_off() && i < PyList_GET_SIZE(objects); i++) {
        PyObject *hook = PyObject_GetAttr((PyObject *)Py_TYPE(PyList_GET_ITEM(objects, i)), hook_name);
        Py_XSETREF(result,
                   hook ? PyObject_CallFunctionObjArgs(hook, function, types, positional, keywords, NULL) : NULL);
        Py_XDECREF(hook);
        if (result != Py_NotImplemented) break; /* an answer or an exception */
    }
    if (result == Py_NotImplemented) {
        Py_CLEAR(result);
        PyErr_Format(PyExc_TypeError, "no implementation found for '%R' on types that implement __torch_function__: %R",
                     function, types);
    }
    Py_XDECREF(objects);
    Py_XDECREF(types);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

/* What the tape would compute with a tensor of a class with a handler: "add", "detach", "ones_like" or "clone". */
static tp_tensor *answer_tape(const char *what, tp_tensor *a, tp_tensor *b) {
    tpy_entry entry = tpy_enter();
    PyObject *args[] = {tpy_wrap(tp_retain(a)), b ? tpy_wrap(tp_retain(b)) : Py_NewRef(Py_None)};
    PyObject *module = PyImport_ImportModule("taper._dispatch");
    PyObject *result =
        module && args[0] && args[1] ? PyObject_CallMethod(module, "answer_tape", "sOO", what, args[0], args[1]) : NULL;
    Py_XDECREF(module);
    tp_tensor *made = NULL;
    if (result && tpy_is_tensor(result))
        made = tp_retain(tpy_unwrap(result));
    else if (result)
        PyErr_Format(PyExc_TypeError, "%s of gradients gave a %s and no tensor", what, Py_TYPE(result)->tp_name);
    Py_XDECREF(args[0]);
    Py_XDECREF(args[1]);
    Py_XDECREF(result);
    tpy_leave(entry);
    return made;
}

PyObject *tpy_lifted(PyObject *tensor) {
    if (!tensor || !tpy_handled(NULL)) return tensor;
    PyObject *module = PyImport_ImportModule("taper._dispatch"),
             *lifted = module ? PyObject_CallMethod(module, "lift", "O", tensor) : NULL;
    Py_XDECREF(module);
    Py_DECREF(tensor);
    return lifted;
}

/* ---- Python functions that ask ---- */
/* A function written in Python, such as nn.functional.softmax, looks at its arguments before an operator sees them. One
 * that is put into this object is called only where no argument is a stand-in: an object with a __torch_function__ that
 * is no tensor. Subclasses of Tensor are tensors to the function, and are asked by the operators. In all else the
 * object is the function. */
typedef struct {
    PyObject_HEAD
    PyObject *function;
    vectorcallfunc vectorcall;
} asking_function;

static bool stands_in(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    return type != tpy_tensor_type && hook_of(type) && !PyType_IsSubtype(type, tpy_tensor_type);
}
static bool any_stands_in(PyObject *const *args, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyTuple_CheckExact(args[i]) || PyList_CheckExact(args[i])) {
            for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(args[i]); j++)
                if (stands_in(PySequence_Fast_GET_ITEM(args[i], j))) return true;
        } else if (stands_in(args[i]))
            return true;
    }
    return false;
}
static PyObject *asking_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (any_stands_in(args, n + (names ? PyTuple_GET_SIZE(names) : 0))) return tpy_call_override(self, args, n, names);
    return PyObject_Vectorcall(((asking_function *)self)->function, args, nargsf, names);
}
static PyObject *asking_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *function;
    if (kwargs || !PyArg_ParseTuple(args, "O!", &PyFunction_Type, &function))
        return kwargs ? PyErr_Format(PyExc_TypeError, "expected one function") : NULL;
    asking_function *made = (asking_function *)type->tp_alloc(type, 0);
    if (!made) return NULL;
    made->function = Py_NewRef(function);
    made->vectorcall = asking_call;
    return (PyObject *)made;
}
static PyObject *
asking_getattro(PyObject *self,
                PyObject *name) { /* what makes a call, a bound method or a pickle is the object's own */
    const char *own[] = {"__call__", "__get__", "__reduce__", "__reduce_ex__", "__wrapped__"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (PyUnicode_CompareWithASCIIString(name, own[i]) == 0) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(((asking_function *)self)->function, name);
}
static int asking_setattro(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((asking_function *)self)->function, name, value);
}
static PyObject *asking_get(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
static PyObject *asking_repr(PyObject *self) { return PyObject_Repr(((asking_function *)self)->function); }
static PyObject *asking_reduce(PyObject *self, PyObject *unused) { /* by name, as functions are */
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}
static int asking_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((asking_function *)self)->function);
    return 0;
}
static int asking_clear(PyObject *self) {
    Py_CLEAR(((asking_function *)self)->function);
    return 0;
}
static void asking_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    asking_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}
static PyMemberDef asking_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(asking_function, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(asking_function, function), READONLY, NULL},
    {0}};
static PyMethodDef asking_methods[] = {{"__reduce__", asking_reduce, METH_NOARGS, NULL}, {0}};
static PyType_Slot asking_slots[] = {{Py_tp_new, asking_new},
                                     {Py_tp_call, PyVectorcall_Call},
                                     {Py_tp_getattro, asking_getattro},
                                     {Py_tp_setattro, asking_setattro},
                                     {Py_tp_descr_get, asking_get},
                                     {Py_tp_repr, asking_repr},
                                     {Py_tp_members, asking_members},
                                     {Py_tp_methods, asking_methods},
                                     {Py_tp_traverse, asking_traverse},
                                     {Py_tp_clear, asking_clear},
                                     {Py_tp_dealloc, asking_dealloc},
                                     {Py_tp_doc, "A Python function that asks stand-ins among its arguments first."},
                                     {0, NULL}};
static PyType_Spec asking_spec = {"taper._C._Asking", sizeof(asking_function), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, asking_slots};

/* ---- Scopes ---- */
static PyObject *enter_disabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyThread_tss_set(&off_key, (void *)((intptr_t)PyThread_tss_get(&off_key) + 1));
    Py_RETURN_NONE;
}
static PyObject *leave_disabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyThread_tss_set(&off_key, (void *)((intptr_t)PyThread_tss_get(&off_key) - 1));
    Py_RETURN_NONE;
}
static PyObject *change_modes(PyObject *module,
                              PyObject *by) { /* _change_modes(n): this thread enters n modes, or leaves them */
    (void)module;
    long n = PyLong_AsLong(by);
    if (n == -1 && PyErr_Occurred()) return NULL;
    modes += n; /* under the interpreter's lock */
    modes_here += n;
    Py_RETURN_NONE;
}
static PyObject *change_dispatch(PyObject *module,
                                 PyObject *args) { /* _change_dispatch(n, off): this thread enters n dispatch modes, and
                                                      `off` scopes without handlers */
    (void)module;
    long n, off;
    if (!PyArg_ParseTuple(args, "ll", &n, &off)) return NULL;
    modes += n;
    dispatch_modes += n;
    for (long i = n < 0 ? -n : n; i; i--) tp_watch_tape(n > 0);
    dispatch_off += off;
    Py_RETURN_NONE;
}
static PyObject *set_skip_next(PyObject *module, PyObject *on) {
    (void)module;
    skip_next = on == Py_True;
    Py_RETURN_NONE;
}
static PyObject *is_handled(PyObject *module,
                            PyObject *object) { /* _has_handler(o): a tensor of a class with a __torch_dispatch__? */
    (void)module;
    return PyBool_FromLong(dispatch_classes && has_handler(Py_TYPE(object)));
}
/* Python hands over Tensor's own hook and the one that turns hooks off, once both exist. */
static PyObject *set_hooks(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *standard, *disabled, *mode, *no_handler;
    if (!PyArg_ParseTuple(args, "OOOO", &standard, &disabled, &mode, &no_handler)) return NULL;
    Py_XSETREF(disabled_dispatch, Py_NewRef(no_handler));
    Py_XSETREF(mode_hook, Py_NewRef(mode));
    Py_XSETREF(default_hook, Py_NewRef(standard));
    Py_XSETREF(disabled_hook, Py_NewRef(disabled));
    Py_RETURN_NONE;
}
static PyObject *has_override(PyObject *module, PyObject *args) {
    (void)module;
    return PyBool_FromLong(tpy_overridden(((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args)));
}
static PyObject *call_override(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    (void)module;
    if (n < 1) return PyErr_Format(PyExc_TypeError, "_call_override() needs a function");
    return tpy_call_override(args[0], args + 1, n - 1, kwnames);
}
static PyMethodDef functions[] = {
    {"_enter_disabled_torch_function", enter_disabled, METH_NOARGS, NULL},
    {"_leave_disabled_torch_function", leave_disabled, METH_NOARGS, NULL},
    {"_change_dispatch", change_dispatch, METH_VARARGS, NULL},
    {"_has_handler", is_handled, METH_O, NULL},
    {"_skip_next_function", set_skip_next, METH_O, NULL},
    {"_set_torch_function_hooks", set_hooks, METH_VARARGS, NULL},
    {"_has_torch_function", has_override, METH_VARARGS, NULL},
    {"_change_modes", change_modes, METH_O, NULL},
    {"_call_torch_function", (PyCFunction)(void (*)(void))call_override, METH_FASTCALL | METH_KEYWORDS, NULL},
    {0}};

int tpy_init_override(PyObject *module) {
    hook_name = PyUnicode_InternFromString("__torch_function__");
    dispatch_name = PyUnicode_InternFromString("__torch_dispatch__");
    if (!hook_name || !dispatch_name || PyThread_tss_create(&off_key)) return -1;
    tp_set_opaque_handler(answer_tape);
    PyObject *asking = PyType_FromSpec(&asking_spec);
    int rc = asking ? PyModule_AddType(module, (PyTypeObject *)asking) : -1;
    Py_XDECREF(asking);
    return rc < 0 ? rc : PyModule_AddFunctions(module, functions);
}
