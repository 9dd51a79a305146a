/* grad_fn objects: the tape's nodes as Python sees them.
 *
 * One node has at most one object, as tensors do; the object owns a reference to the node, and the node remembers the
 * object in its binding. For the node of a torch.autograd.Function that object is the call's ctx. What outlives
 * objects, the metadata dict, hangs on the node. Each name of node has a type of its own, made at first use, since
 * programs look at type(y.grad_fn).__name__. */
#include "grad.h"
#include <stddef.h>
#include <structmember.h>

typedef struct tpy_node {
    PyObject_HEAD
    tp_node *node; /* owned */
    PyObject *weakrefs;
} tpy_node;

typedef struct binding { /* what a node remembers; freed with it */
    PyObject *object;    /* borrowed, NULL while there is none */
    PyObject *metadata;  /* a dict, made on demand */
} binding;

static PyTypeObject *node_type;
static PyObject *types; /* name -> type */

/* ---- Bindings ---- */
static void binding_gone(void *b) {
    if (!Py_IsInitialized()) return;
    PyObject *metadata = ((binding *)b)->metadata;
    if (metadata) tpy_drop(metadata);
    PyMem_RawFree(b);
}

static binding *binding_of(tp_node *node) {
    binding *b = tp_node_binding(node);
    if (b) return b;
    if (!(b = PyMem_RawCalloc(1, sizeof *b))) return (binding *)PyErr_NoMemory();
    if (tp_node_set_binding(node, b, binding_gone)) return b;
    PyMem_RawFree(b);
    return (binding *)tpy_raise();
}

bool tpy_bind_node(tp_node *node, PyObject *object) {
    binding *b = binding_of(node);
    if (b) b->object = object;
    return b != NULL;
}

PyObject *tpy_node_metadata(tp_node *node) {
    binding *b = binding_of(node);
    if (!b) return NULL;
    if (!b->metadata) b->metadata = PyDict_New();
    return Py_XNewRef(b->metadata);
}

static PyTypeObject *type_named(const char *name) { /* borrowed */
    PyObject *type = PyDict_GetItemString(types, name);
    if (type) return (PyTypeObject *)type;
    PyObject *empty = PyTuple_New(0),
             *body = empty ? Py_BuildValue("{sOss}", "__slots__", empty, "__module__", "builtins") : NULL;
    type = body ? PyObject_CallFunction((PyObject *)&PyType_Type, "s(O)O", name, node_type, body) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(body);
    if (type && PyDict_SetItemString(types, name, type) < 0) Py_CLEAR(type);
    Py_XDECREF(type); /* the dict's */
    return (PyTypeObject *)type;
}

PyObject *tpy_wrap_node(tp_node *node) {
    if (!node) return tp_ok() ? Py_NewRef(Py_None) : tpy_raise();
    binding *b = binding_of(node);
    PyTypeObject *type = b && !b->object ? type_named(tp_node_name(node)) : NULL;
    tpy_node *o = type ? (tpy_node *)type->tp_alloc(type, 0) : NULL;
    PyObject *there = b ? Py_XNewRef(b->object) : NULL;
    if (o) { /* keeps the reference */
        o->node = node;
        return b->object = (PyObject *)o;
    }
    tp_node_release(node);
    return there;
}

static void node_dealloc(PyObject *o) {
    tpy_node *self = (tpy_node *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (self->weakrefs) PyObject_ClearWeakRefs(o);
    if (self->node) {
        binding *b = tp_node_binding(self->node);
        if (b && b->object == o) b->object = NULL;
        tp_node_release(self->node);
    }
    type->tp_free(o);
    Py_DECREF(type);
}
static int node_traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(o));
    return 0;
}

/* ---- What a node can be asked ---- */
static tp_node *node_of(PyObject *o) { return ((tpy_node *)o)->node; }
tp_node *tpy_node_of(PyObject *o) { return PyObject_TypeCheck(o, node_type) ? node_of(o) : tpy_function_node(o); }

PyObject *tpy_node_edges(const tp_node *node) {
    int64_t n = tp_node_edges(node);
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple && i < n; i++) {
        int64_t input_nr;
        PyObject *next = tpy_wrap_node(tp_node_next(node, i, &input_nr)),
                 *edge = next ? Py_BuildValue("(NL)", next, (long long)input_nr) : NULL;
        if (edge)
            PyTuple_SET_ITEM(tuple, i, edge);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *node_repr(PyObject *o) {
    return PyUnicode_FromFormat("<%s object at %p>", tp_node_name(node_of(o)), o);
}
static PyObject *node_name(PyObject *o, PyObject *unused) {
    (void)unused;
    const bool of_leaf = tp_node_variable(node_of(o)) != NULL; /* PyTorch names these with their namespace */
    return PyUnicode_FromFormat("%s%s", of_leaf ? "torch::autograd::" : "", tp_node_name(node_of(o)));
}
static PyObject *node_sequence(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(tp_node_sequence(node_of(o)));
}
static PyObject *node_next(PyObject *o, void *unused) {
    (void)unused;
    return tpy_node_edges(node_of(o));
}
static PyObject *node_metadata(PyObject *o, void *unused) {
    (void)unused;
    return tpy_node_metadata(node_of(o));
}
static PyObject *node_hook(PyObject *o, PyObject *callable) {
    return tpy_add_node_hook(node_of(o), callable, TPY_HOOK_NODE);
}
static PyObject *node_prehook(PyObject *o, PyObject *callable) {
    return tpy_add_node_hook(node_of(o), callable, TPY_HOOK_PRE);
}
static PyObject *node_variable(PyObject *o, void *unused) {
    (void)unused;
    tp_tensor *t = tp_node_variable(node_of(o));
    return t ? tpy_tensor_or_none(t)
             : PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", tp_node_name(node_of(o)));
}

static bool read_gradients(PyObject *args, int64_t n, tp_tensor **grads, const char *name) {
    if (PyTuple_GET_SIZE(args) != n) {
        PyErr_Format(PyExc_TypeError, "%s expected %lld arguments, got %zd instead", name, (long long)n,
                     PyTuple_GET_SIZE(args));
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (!tpy_read_gradient(PyTuple_GET_ITEM(args, i), &grads[i])) return false;
    return true;
}

/* _saved_NAME is what the node keeps for its backward under that name; _raw_saved_NAME the same as an object that takes
 * hooks. */
static PyObject *saved_named(PyObject *o, PyObject *name, const char *text) {
    bool raw = !strncmp(text, "_raw_saved_", 11);
    tp_node *node = node_of(o);
    int64_t slot = tp_node_find_saved(node, text + (raw ? 11 : 7));
    if (slot < 0)
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", tp_node_name(node), name);
    if (!raw) {
        tp_tensor *t = tp_node_saved(node, slot);
        return t ? tpy_wrap(t) : tp_ok() ? Py_NewRef(Py_None) : tpy_raise();
    }
    PyObject *module = PyImport_ImportModule("taper.autograd._saved");
    PyObject *made = module ? PyObject_CallMethod(module, "SavedTensor", "OLO", o, (long long)slot, Py_True) : NULL;
    Py_XDECREF(module);
    return made;
}
static PyObject *node_getattr(PyObject *o, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    if (!strncmp(text, "_saved_", 7) || !strncmp(text, "_raw_saved_", 11)) return saved_named(o, name, text);
    return PyObject_GenericGetAttr(o, name);
}

/* dir(grad_fn): the type's names, and the two of each saved tensor. */
static PyObject *node_dir(PyObject *o, PyObject *unused) {
    (void)unused;
    PyObject *names = PyObject_Dir((PyObject *)Py_TYPE(o));
    const char *at = tp_node_saved_names(node_of(o));
    while (names && *at) {
        const size_t n = strcspn(at, " ");
        PyObject *name = PyUnicode_FromStringAndSize(at, (Py_ssize_t)n);
        PyObject *more = name ? Py_BuildValue("[NN]", PyUnicode_FromFormat("_raw_saved_%U", name),
                                              PyUnicode_FromFormat("_saved_%U", name))
                              : NULL;
        Py_SETREF(names, more ? PySequence_InPlaceConcat(names, more) : NULL);
        Py_XDECREF(more);
        Py_XDECREF(name);
        at += n + (at[n] == ' ');
    }
    return names;
}

/* For each gradient that flows in: an expanded tensor of the shape, dtype and device that it must have. */
static PyObject *node_input_metadata(PyObject *o, void *unused) {
    (void)unused;
    int64_t n = tp_node_inputs(node_of(o));
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *t = tpy_wrap(tp_node_output(node_of(o), i));
        if (!t || PyList_Append(list, t) < 0) Py_CLEAR(list);
        Py_XDECREF(t);
    }
    return list;
}

/* _saved_slot(node, slot): the tensor of a slot. */
static PyObject *saved_slot(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o;
    long long slot;
    if (!PyArg_ParseTuple(args, "OL", &o, &slot)) return NULL;
    tp_node *node = tpy_node_of(o);
    tp_tensor *t = node ? tp_node_saved(node, slot) : NULL;
    return t ? tpy_wrap(t) : tp_ok() ? Py_NewRef(Py_None) : tpy_raise();
}

/* grad_fn(*gradients): runs the node by itself. */
static PyObject *node_call(PyObject *o, PyObject *args, PyObject *kwargs) {
    tp_node *node = node_of(o);
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments", tp_node_name(node));
    int64_t inputs = tp_node_inputs(node), edges = tp_node_edges(node);
    tp_tensor **grads = PyMem_Calloc((size_t)(inputs + edges + 1), sizeof *grads), **results = grads + inputs;
    if (!grads) return PyErr_NoMemory();
    PyObject *answer = NULL;
    tpy_await_changes();
    if (read_gradients(args, inputs, grads, tp_node_name(node))) {
        bool ok;
        TPY_READING(ok = tp_node_run(node, grads, results));
        answer = ok ? tpy_tensor_tuple(results, edges) : tpy_raise();
        for (int64_t i = 0; ok && i < edges; i++) tp_release(results[i]);
    }
    PyMem_Free(grads);
    if (answer && edges == 1) Py_SETREF(answer, Py_NewRef(PyTuple_GET_ITEM(answer, 0)));
    return answer;
}

/* Leaves that a backward of these tensors would reach, as a list; asked by taper.func, which must know whether a result
 * hangs on more than what a transform made itself. */
static bool visit(PyObject *queue, PyObject *seen, tp_node *node) {
    if (!node) return tp_ok() || tpy_raise();
    PyObject *key = PyLong_FromVoidPtr(node), *o = key ? tpy_wrap_node(node) : NULL;
    int known = o ? PySet_Contains(seen, key) : -1;
    bool ok = known > 0 || (known == 0 && PySet_Add(seen, key) == 0 && PyList_Append(queue, o) == 0);
    if (!key) tp_node_release(node);
    Py_XDECREF(key);
    Py_XDECREF(o);
    return ok;
}

static tp_node *start_of(tp_tensor *t) {
    if (!tp_requires_grad(t)) return NULL;
    return tp_is_leaf(t) ? tp_grad_accumulator(t) : tp_grad_fn(t);
}

static bool follow(PyObject *queue, PyObject *seen, PyObject *leaves) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(queue); i++) {
        PyObject *o = PyList_GET_ITEM(queue, i);
        tp_node *node = tpy_node_of(o);
        if (!node) continue;
        tp_tensor *leaf = tp_node_variable(node);
        PyObject *variable = leaf ? tpy_tensor_or_none(leaf) : NULL;
        bool ok = !leaf || (variable && PyList_Append(leaves, variable) == 0);
        Py_XDECREF(variable);
        for (int64_t e = 0; ok && e < tp_node_edges(node); e++) ok = visit(queue, seen, tp_node_next(node, e, NULL));
        if (!ok) return false;
    }
    return true;
}

static PyObject *leaves_of(PyObject *module, PyObject *tensors) {
    (void)module;
    PyObject *list = PySequence_Fast(tensors, "a list of tensors"), *queue = list ? PyList_New(0) : NULL,
             *seen = queue ? PySet_New(NULL) : NULL;
    PyObject *leaves = seen ? PyList_New(0) : NULL;
    bool ok = leaves != NULL;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (tpy_is_tensor(o)) ok = visit(queue, seen, start_of(tpy_unwrap(o)));
    }
    ok = ok && follow(queue, seen, leaves);
    Py_XDECREF(list);
    Py_XDECREF(queue);
    Py_XDECREF(seen);
    if (!ok) Py_CLEAR(leaves);
    return leaves;
}

static PyObject *accumulator_of(PyObject *module, PyObject *o) {
    (void)module;
    if (!tpy_is_tensor(o)) return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(o)->tp_name);
    return tpy_wrap_node(tp_grad_accumulator(tpy_unwrap(o)));
}

static PyMethodDef methods[] = {
    {"name", node_name, METH_NOARGS, "The node's name, as AddBackward0."},
    {"register_hook", node_hook, METH_O,
     "hook(grad_inputs, grad_outputs) runs after the node; it may return new grad_inputs."},
    {"register_prehook", node_prehook, METH_O,
     "hook(grad_outputs) runs before the node; it may return new grad_outputs."},
    {"_sequence_nr", node_sequence, METH_NOARGS, NULL},
    {"__dir__", node_dir, METH_NOARGS, "Its attributes, those of saved tensors among them."},
    {0}};
static PyGetSetDef properties[] = {{"next_functions", node_next, NULL, NULL, NULL},
                                   {"metadata", node_metadata, NULL, NULL, NULL},
                                   {"variable", node_variable, NULL, NULL, NULL},
                                   {"_input_metadata", node_input_metadata, NULL, NULL, NULL},
                                   {0}};
static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(tpy_node, weakrefs), READONLY, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, node_dealloc},  {Py_tp_traverse, node_traverse}, {Py_tp_repr, node_repr},
                              {Py_tp_getattro, node_getattr}, {Py_tp_call, node_call},         {Py_tp_methods, methods},
                              {Py_tp_getset, properties},     {Py_tp_members, members},        {0, NULL}};
static PyType_Spec spec = {
    "torch.autograd.graph.Node", sizeof(tpy_node), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
static PyMethodDef functions[] = {{"_leaves_of", leaves_of, METH_O, NULL},
                                  {"_grad_accumulator", accumulator_of, METH_O, NULL},
                                  {"_saved_slot", saved_slot, METH_VARARGS, NULL},
                                  {0}};

int tpy_init_nodes(PyObject *module) {
    types = PyDict_New();
    node_type = types ? (PyTypeObject *)PyType_FromSpec(&spec) : NULL;
    if (!node_type || PyModule_AddObjectRef(module, "_Node", (PyObject *)node_type) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
