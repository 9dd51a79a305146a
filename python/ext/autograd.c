/* The tape for Python: modes, backward and gradients, and what a tensor knows of its history. Hooks are in hooks.c,
 * grad_fn objects in node.c, torch.autograd.Function in function.c. The interpreter lock is free while the library
 * walks a graph. */
#include "grad.h"

/* ---- Modes ---- */
static PyObject *grad_enabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_grad_enabled());
}
static PyObject *inference_enabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_inference_enabled());
}
static PyObject *set_grad(PyObject *module, PyObject *mode) {
    (void)module;
    if (!PyBool_Check(mode))
        return PyErr_Format(PyExc_TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s",
                            Py_TYPE(mode)->tp_name);
    tp_set_grad_enabled(mode == Py_True);
    Py_RETURN_NONE;
}
/* Inference on or off; returns what was before, for _leave_inference. */
static PyObject *enter_inference(PyObject *module, PyObject *mode) {
    (void)module;
    int on = PyObject_IsTrue(mode);
    if (on < 0) return NULL;
    tp_grad_mode before = tp_grad_mode_enter(!on, on), wanted = {.grad_off = on, .inference = on};
    tp_grad_mode_leave(&wanted); /* entering never ends an inference scope; inference_mode(False) does */
    return PyLong_FromLong(before.grad_off | before.inference << 1);
}
static PyObject *leave_inference(PyObject *module, PyObject *token) {
    (void)module;
    long bits = PyLong_AsLong(token);
    if (bits == -1 && PyErr_Occurred()) return NULL;
    tp_grad_mode before = {.grad_off = bits & 1, .inference = bits >> 1 & 1};
    tp_grad_mode_leave(&before);
    Py_RETURN_NONE;
}

static PyObject *keep_inference(PyObject *module, PyObject *mode) {
    (void)module;
    int on = PyObject_IsTrue(mode);
    return on < 0 ? NULL : PyBool_FromLong(tp_keep_inference(on));
}

/* ---- The backward that runs ---- */
static PyObject *backward_number(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(tp_backward_number());
}
static PyObject *backward_node(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return tpy_wrap_node(tp_backward_node());
}
static PyObject *backward_runs(PyObject *module, PyObject *o) {
    (void)module;
    tp_node *node = tpy_node_of(o);
    if (!node) return PyErr_Format(PyExc_TypeError, "expected a grad_fn, got %s", Py_TYPE(o)->tp_name);
    return PyBool_FromLong(tp_backward_runs(node));
}
static PyObject *backward_keeps_graph(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_backward_keeps_graph());
}
static PyObject *backward_reaches(PyObject *module, PyObject *o) {
    (void)module;
    if (!tpy_is_tensor(o))
        return PyErr_Format(PyExc_TypeError, "_backward_reaches(): expected a tensor, got %s", Py_TYPE(o)->tp_name);
    bool reached = tp_backward_reaches(tpy_unwrap(o));
    return tp_ok() ? PyBool_FromLong(reached) : tpy_raise();
}

/* ---- Lists of tensors from Python ---- */
typedef struct list {
    PyObject *fast; /* holds the items */
    tp_tensor **v;  /* borrowed, but for those that stand for edges; NULL for None */
    int64_t n;
    PyObject *edges; /* the tensors that stand for edges, NULL where there are none */
} list;
static void list_end(list *l) {
    Py_XDECREF(l->fast);
    Py_XDECREF(l->edges);
    PyMem_Free(l->v);
}

/* ---- Edges of the tape (torch.autograd.graph.GradientEdge) where a tensor is expected ---- */
static bool is_edge(PyObject *o) {
    return PyTuple_Check(o) && Py_TYPE(o) != &PyTuple_Type && PyObject_HasAttrString(o, "node") &&
           PyObject_HasAttrString(o, "output_nr");
}
/* The tensor that stands for an edge; the list holds it. */
static bool read_edge(list *l, int64_t i, PyObject *edge) {
    PyObject *o = PyObject_GetAttrString(edge, "node"), *nr = o ? PyObject_GetAttrString(edge, "output_nr") : NULL;
    tp_node *node = nr ? tpy_node_of(o) : NULL;
    long long output = node ? PyLong_AsLongLong(nr) : -1;
    if (nr && !node)
        PyErr_Format(PyExc_TypeError, "the node of a GradientEdge must be a grad_fn, not %s", Py_TYPE(o)->tp_name);
    PyObject *tensor = node && !PyErr_Occurred() ? tpy_wrap(tp_node_output(node, output)) : NULL;
    Py_XDECREF(o);
    Py_XDECREF(nr);
    if (tensor && !l->edges) l->edges = PyList_New(0);
    bool ok = tensor && l->edges && PyList_Append(l->edges, tensor) == 0;
    if (ok) l->v[i] = tpy_unwrap(tensor);
    Py_XDECREF(tensor);
    return ok;
}
/* A tensor, or a sequence of tensors (and of None where none_fits). NULL and None give no list. */
static bool list_read(PyObject *o, const char *what, bool none_fits, list *l) {
    *l = (list){0};
    if (!o || o == Py_None) return true;
    /* a copy of a list: a hook may clear it while backward runs */
    l->fast = tpy_is_tensor(o) || is_edge(o) ? PyTuple_Pack(1, o)
              : PyList_Check(o)              ? PyList_AsTuple(o)
                                             : PySequence_Fast(o, "expected a tensor or a sequence of tensors");
    if (!l->fast) return false;
    l->n = PySequence_Fast_GET_SIZE(l->fast);
    if (!(l->v = PyMem_Calloc((size_t)l->n + 1, sizeof *l->v))) {
        PyErr_NoMemory();
        return false;
    }
    for (int64_t i = 0; i < l->n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(l->fast, i);
        if (tpy_is_tensor(item))
            l->v[i] = tpy_unwrap(item);
        else if (is_edge(item)) {
            if (!read_edge(l, i, item)) return false;
        } else if (item != Py_None || !none_fits) {
            if (none_fits)
                PyErr_Format(PyExc_TypeError, "gradients can be either Tensors or None, but got %s",
                             Py_TYPE(item)->tp_name);
            else
                PyErr_Format(PyExc_TypeError, "element %lld of %s must be Tensor, not %s", (long long)i, what,
                             Py_TYPE(item)->tp_name);
            return false;
        }
    }
    return true;
}
static int truth(PyObject *o, bool otherwise) { return !o || o == Py_None ? otherwise : PyObject_IsTrue(o); }

/* ---- Backward ---- */
/* The gradients a backward starts from, as PyTorch wants them; the library says the same in its own words. */
static bool check_first(const list *out, const list *g) {
    if (g->fast && g->n != out->n) {
        PyErr_Format(PyExc_RuntimeError, "got %lld tensors and %lld gradients", (long long)out->n, (long long)g->n);
        return false;
    }
    for (int64_t i = 0; i < out->n; i++) {
        const tp_tensor *t = out->v[i], *given = g->fast ? g->v[i] : NULL;
        if (!given && tp_requires_grad(t) && tp_numel(t) != 1) {
            PyErr_SetString(PyExc_RuntimeError, "grad can be implicitly created only for scalar outputs");
            return false;
        }
        if (!given) continue;
        tp_ints a = tp_shape(given), b = tp_shape(t);
        if (a.n == b.n && (!a.n || !memcmp(a.v, b.v, (size_t)a.n * sizeof *a.v))) continue;
        PyObject *first = tpy_size_of(a), *second = first ? tpy_size_of(b) : NULL;
        if (second)
            PyErr_Format(PyExc_RuntimeError,
                         "Mismatch in shape: grad_output[%lld] has a shape of %S and output[%lld] has a shape of %S.",
                         (long long)i, first, (long long)i, second);
        Py_XDECREF(first);
        Py_XDECREF(second);
        return false;
    }
    return true;
}

/* ---- What is to be called when the backward that runs now is done ---- */
static _Thread_local int backwards;         /* that run in this thread, one inside another */
static _Thread_local PyObject *final_calls; /* a list, NULL where there are none */

/* The outermost backward has come to its end: calls what was queued, in order, also what those calls queue; after a
 * failure, nothing. */
static bool run_final_calls(bool ok) {
    PyObject *calls = final_calls;
    if (!calls || backwards > 0) return ok;
    backwards++;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(calls); i++) {
        PyObject *result = PyObject_CallNoArgs(PyList_GET_ITEM(calls, i));
        ok = result != NULL;
        Py_XDECREF(result);
    }
    backwards--;
    final_calls = NULL;
    Py_DECREF(calls);
    return ok;
}

static PyObject *queue_callback(PyObject *module, PyObject *call) {
    (void)module;
    if (!backwards) {
        PyErr_SetString(PyExc_RuntimeError, "Final callbacks can only be installed during backward pass.");
        return NULL;
    }
    if (!final_calls && !(final_calls = PyList_New(0))) return NULL;
    if (PyList_Append(final_calls, call) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *run_backward(PyObject *roots, PyObject *gradients, PyObject *retain, PyObject *create,
                              PyObject *inputs) {
    list r = {0}, g = {0}, in = {0};
    tpy_await_changes();
    bool ok = list_read(roots, "tensors", false, &r) && list_read(gradients, "grad_tensors", true, &g) &&
              list_read(inputs, "inputs", false, &in);
    int creates = ok ? truth(create, false) : -1, keeps = creates < 0 ? -1 : truth(retain, creates > 0);
    ok = ok && keeps >= 0;
    ok = ok && check_first(&r, &g);
    if (ok && in.fast && !in.n) {
        ok = false;
        PyErr_SetString(PyExc_RuntimeError, "`inputs` argument to `backward()` cannot be empty.");
    }
    if (ok) {
        tp_backward_options options = {
            .size = sizeof options, .retain_graph = keeps, .create_graph = creates, .inputs = {in.v, in.n}};
        backwards++;
        TPY_READING(ok = tp_backward_many((tp_tensors){r.v, r.n}, g.v, &options));
        backwards--;
        if (!ok) tpy_raise();
        ok = run_final_calls(ok);
    }
    list_end(&r);
    list_end(&g);
    list_end(&in);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *tensor_backward(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    if (tpy_overridden(&o, 1)) return tpy_call_overridden_method("backward", o, args, n, kwnames);
    static const char *const names[] = {"gradient", "retain_graph", "create_graph", "inputs"};
    PyObject *given[4] = {NULL};
    if (n > 4)
        return PyErr_Format(PyExc_TypeError,
                            "Tensor.backward() takes from 1 to 5 positional arguments but %zd were given", n + 1);
    for (Py_ssize_t i = 0; i < n; i++) given[i] = args[i];
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        int k = 0;
        PyObject *key = PyTuple_GET_ITEM(kwnames, i);
        while (k < 4 && PyUnicode_CompareWithASCIIString(key, names[k])) k++;
        if (k == 4)
            return PyErr_Format(PyExc_TypeError, "Tensor.backward() got an unexpected keyword argument '%U'", key);
        given[k] = args[n + i];
    }
    return run_backward(o, given[0], given[1], given[2], given[3]);
}

static PyObject *backward(PyObject *module,
                          PyObject *args) { /* tensors, gradients, retain_graph, create_graph, inputs */
    (void)module;
    PyObject *roots, *gradients, *retain, *create, *inputs;
    if (!PyArg_ParseTuple(args, "OOOOO", &roots, &gradients, &retain, &create, &inputs)) return NULL;
    return run_backward(roots, gradients, retain, create, inputs);
}

static PyObject *gradients_of(const list *out, const list *in, const list *g, const tp_grad_options *options) {
    tp_tensor **grads = PyMem_Calloc((size_t)in->n + 1, sizeof *grads);
    if (!grads) return PyErr_NoMemory();
    bool ok;
    backwards++;
    TPY_READING(ok = tp_gradients((tp_tensors){out->v, out->n}, (tp_tensors){in->v, in->n}, g->v, grads, options));
    backwards--;
    PyObject *result = NULL;
    if (ok) {
        if (run_final_calls(true)) result = tpy_tensor_tuple(grads, in->n);
        for (int64_t i = 0; i < in->n; i++) tp_release(grads[i]);
    } else {
        tpy_raise();
        run_final_calls(false);
    }
    PyMem_Free(grads);
    return result;
}

/* outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads, stop_at_inputs (may be
 * left out) */
static PyObject *gradients(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *outputs, *inputs, *grad_outputs;
    int retain, create, unused, materialize, stop = 0;
    if (!PyArg_ParseTuple(args, "OOOpppp|p", &outputs, &inputs, &grad_outputs, &retain, &create, &unused, &materialize,
                          &stop))
        return NULL;
    list out = {0}, in = {0}, g = {0};
    tpy_await_changes();
    bool ok = list_read(outputs, "outputs", false, &out) && list_read(inputs, "inputs", false, &in) &&
              list_read(grad_outputs, "grad_outputs", true, &g);
    ok = ok && check_first(&out, &g);
    tp_grad_options options = {.size = sizeof options,
                               .retain_graph = retain,
                               .create_graph = create,
                               .allow_unused = unused,
                               .materialize_grads = materialize,
                               .stop_at_inputs = stop};
    PyObject *result = ok ? gradients_of(&out, &in, &g, &options) : NULL;
    list_end(&out);
    list_end(&in);
    list_end(&g);
    return result;
}

/* ---- A tensor's history ---- */
/* The library's gradients are dense. A sparse one (taper.sparse) stands among the object's attributes, under this name,
 * and the library has none then. */
static PyObject *sparse_grad_name;
bool tpy_forget_sparse_grad(PyObject *o) {
    PyObject *dict = ((tpy_tensor *)o)->dict;
    int has = dict ? PyDict_Contains(dict, sparse_grad_name) : 0;
    return has == 0 || (has > 0 && PyDict_DelItem(dict, sparse_grad_name) == 0);
}
static PyObject *get_grad(PyObject *o, void *quiet) {
    tp_tensor *t = tpy_unwrap(o), *grad = tp_grad(t);
    if (!grad && !quiet && !tp_is_leaf(t) && !tp_retains_grad(t) &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                     "won't be populated during autograd.backward(). If you indeed want "
                     "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf "
                     "Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
                     "the leaf Tensor instead.",
                     1) < 0)
        return NULL;
    PyObject *dict = grad ? NULL : ((tpy_tensor *)o)->dict,
             *sparse = dict ? PyDict_GetItemWithError(dict, sparse_grad_name) : NULL;
    if (sparse) return Py_NewRef(sparse);
    PyObject *found = PyErr_Occurred() ? NULL : tpy_tensor_or_none(grad);
    if (found && found != Py_None) ((tpy_tensor *)found)->lasting = true;
    return found;
}
static bool is_sparse_grad(PyObject *value) {
    return Py_TYPE(value) != tpy_tensor_type && PyObject_HasAttr((PyObject *)Py_TYPE(value), sparse_grad_name);
}
static int set_sparse_grad(PyObject *o, PyObject *value) {
    PyObject *told = PyObject_CallMethodNoArgs((PyObject *)Py_TYPE(value), sparse_grad_name);
    if (!told) return -1;
    Py_DECREF(told);
    if (!tp_set_grad(tpy_unwrap(o), NULL)) {
        tpy_raise();
        return -1;
    }
    PyObject *dict = PyObject_GenericGetDict(o, NULL);
    int done = dict ? PyDict_SetItem(dict, sparse_grad_name, value) : -1;
    Py_XDECREF(dict);
    return done;
}
static int set_grad_of(PyObject *o, PyObject *value, void *unused) {
    (void)unused;
    tp_tensor *t = tpy_unwrap(o);
    if (!tpy_forget_sparse_grad(o)) return -1;
    if (value && value != Py_None && is_sparse_grad(value)) return set_sparse_grad(o, value);
    if (!value || value == Py_None) return tpy_int_or_raise(tp_set_grad(t, NULL), 0);
    if (!tpy_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (value == o) {
        PyErr_SetString(PyExc_RuntimeError, "can't assign Variable as its own grad");
        return -1;
    }
    return tpy_int_or_raise(tp_set_grad(t, tpy_unwrap(value)), 0);
}
static PyObject *get_grad_fn(PyObject *o, void *unused) {
    (void)unused;
    tpy_watch_read("grad_fn");
    return tp_is_leaf(tpy_unwrap(o)) ? Py_NewRef(Py_None) : tpy_wrap_node(tp_grad_fn(tpy_unwrap(o)));
}
static PyObject *get_address(PyObject *o, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(tpy_unwrap(o));
}
static PyObject *get_data(PyObject *o, void *unused) {
    (void)unused;
    if (((tpy_tensor *)o)->claimed_device)
        return PyObject_CallMethod(o, "detach", NULL); /* a wrapper's class knows what it consists of */
    return tpy_wrap_as(tp_data_alias(tpy_unwrap(o)), tpy_tensor_type);
}
static int set_data(PyObject *o, PyObject *value, void *unused) {
    (void)unused;
    if (!value) {
        PyErr_SetString(PyExc_RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!");
        return -1;
    }
    if (!tpy_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s", Py_TYPE(value)->tp_name);
        return -1;
    }
    tp_capture_break("memory of a tensor's is exchanged: .data is assigned");
    bool ok;
    TPY_CHANGE(ok = tp_set_data(tpy_unwrap(o), tpy_unwrap(value)));
    return tpy_int_or_raise(ok, 0);
}
static PyObject *get_retains_grad(PyObject *o, void *unused) {
    (void)unused;
    tpy_watch_read("retains_grad");
    return PyBool_FromLong(tp_retains_grad(tpy_unwrap(o)));
}
static PyObject *get_output_nr(PyObject *o, void *unused) {
    (void)unused;
    tpy_watch_read("output_nr");
    return PyLong_FromLongLong(tp_output_nr(tpy_unwrap(o)));
}
static PyObject *get_base(PyObject *o, void *unused) {
    (void)unused;
    tpy_watch_read("_base");
    return tpy_tensor_or_none(tp_base(tpy_unwrap(o)));
}
static PyObject *get_none(PyObject *o, void *unused) {
    (void)o;
    (void)unused;
    Py_RETURN_NONE;
}
static int set_none(PyObject *o, PyObject *value, void *unused) {
    (void)o;
    (void)unused;
    if (!value || value == Py_None || (PyDict_Check(value) && !PyDict_GET_SIZE(value))) return 0;
    PyErr_SetString(PyExc_RuntimeError, "_backward_hooks cannot be assigned: use register_hook()");
    return -1;
}
static PyGetSetDef properties[] = {
    {"grad", get_grad, set_grad_of, "The gradient that backward left, or None.", NULL},
    {"_grad", get_grad, set_grad_of, NULL, "quietly"},
    {"grad_fn", get_grad_fn, NULL, "The node that made the tensor; None for leaves.", NULL},
    {"_grad_fn", get_grad_fn, NULL, NULL, NULL},
    {"data", get_data, set_data, "The same memory without history.", NULL},
    {"retains_grad", get_retains_grad, NULL, "Does backward leave its gradient in grad, though it is no leaf?", NULL},
    {"output_nr", get_output_nr, NULL, "Which result of its node it is.", NULL},
    {"_cdata", get_address, NULL,
     "Where the library's tensor lies: another number once another tensor stands behind the object.", NULL},
    {"_base", get_base, NULL, NULL, NULL},
    {"_backward_hooks", get_none, set_none, NULL, NULL},
    {"_post_accumulate_grad_hooks", get_none, set_none, NULL, NULL},
    {"name", get_none, NULL, "None: a tensor has no name.", NULL},
    {0}};

/* Transforms of torch.func that run in this thread: what they differentiate is theirs to say. */
static _Thread_local int transforms;
static PyObject *enter_transform(PyObject *module, PyObject *by) {
    (void)module;
    transforms += (int)PyLong_AsLong(by);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(transforms);
}
static PyObject *refuse_in_transform(const char *call, const char *more) {
    return PyErr_Format(PyExc_RuntimeError,
                        "You are attempting to call Tensor.%s()%s inside of a function being transformed by a "
                        "functorch transform. This is unsupported, please attempt to use "
                        "the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call %s() outside of a "
                        "function being transformed instead.",
                        call, more, call);
}

static PyObject *requires_grad_(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"requires_grad", NULL};
    int on = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:requires_grad_", names, &on)) return NULL;
    if (transforms && on)
        return refuse_in_transform("requires_grad_", " (or perhaps using torch.autograd.functional.* APIs)");
    if (on && !tp_dtype_is_floating(tp_dtype_of(tpy_unwrap(o))) && !tp_dtype_is_complex(tp_dtype_of(tpy_unwrap(o)))) {
        PyErr_SetString(PyExc_RuntimeError, "only Tensors of floating point dtype can require gradients");
        return NULL;
    }
    return tp_set_requires_grad(tpy_unwrap(o), on) ? Py_NewRef(o) : tpy_raise();
}
static PyObject *detach(PyObject *o, PyObject *unused) {
    (void)unused;
    if (tpy_overridden(&o, 1)) return tpy_call_overridden_method("detach", o, NULL, 0, NULL);
    return tpy_wrap(tp_detach(tpy_unwrap(o)));
}
static PyObject *detach_(PyObject *o, PyObject *unused) {
    (void)unused;
    if (tpy_overridden(&o, 1)) return tpy_call_overridden_method("detach_", o, NULL, 0, NULL);
    return tp_detach_(tpy_unwrap(o)) ? Py_NewRef(o) : tpy_raise();
}
static PyObject *retain_grad(PyObject *o, PyObject *unused) {
    (void)unused;
    if (transforms) return refuse_in_transform("retain_grad", "");
    return tpy_none_or_raise(tp_retain_grad(tpy_unwrap(o)));
}
static PyObject *is_inference(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_is_inference(tpy_unwrap(o)));
}
static PyObject *is_view(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_is_view(tpy_unwrap(o)));
}
static PyObject *register_hook(PyObject *o, PyObject *hook) { return tpy_add_tensor_hook(o, hook, TPY_HOOK_TENSOR); }
static PyObject *register_leaf_hook(PyObject *o, PyObject *hook) { return tpy_add_tensor_hook(o, hook, TPY_HOOK_LEAF); }
PyMethodDef tpy_autograd_methods[] = {
    {"backward", (PyCFunction)(void (*)(void))tensor_backward, METH_FASTCALL | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)"},
    {"requires_grad_", (PyCFunction)(void (*)(void))requires_grad_, METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True): changes it in place."},
    {"detach", detach, METH_NOARGS, "The same memory without history."},
    {"detach_", detach_, METH_NOARGS, "Forgets the history, in place."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps .grad though the tensor is not a leaf."},
    {"is_inference", is_inference, METH_NOARGS, NULL},
    {"_is_view", is_view, METH_NOARGS, NULL},
    {"register_hook", register_hook, METH_O, "hook(grad) runs when the gradient is ready; it may return a new one."},
    {"register_post_accumulate_grad_hook", register_leaf_hook, METH_O,
     "hook(tensor) runs after backward added to the leaf's .grad."},
    {0}};

static PyMethodDef functions[] = {{"is_grad_enabled", grad_enabled, METH_NOARGS, "Are calls recorded in this thread?"},
                                  {"_set_grad_enabled", set_grad, METH_O, NULL},
                                  {"is_inference_mode_enabled", inference_enabled, METH_NOARGS, NULL},
                                  {"_enter_inference", enter_inference, METH_O, NULL},
                                  {"_leave_inference", leave_inference, METH_O, NULL},
                                  {"_backward", backward, METH_VARARGS, NULL},
                                  {"_gradients", gradients, METH_VARARGS, NULL},
                                  {"_queue_callback", queue_callback, METH_O, NULL},
                                  {"_backward_number", backward_number, METH_NOARGS, NULL},
                                  {"_backward_reaches", backward_reaches, METH_O, NULL},
                                  {"_keep_inference", keep_inference, METH_O, NULL},
                                  {"_current_autograd_node", backward_node, METH_NOARGS, NULL},
                                  {"_backward_runs", backward_runs, METH_O, NULL},
                                  {"_enter_transform", enter_transform, METH_O, NULL},
                                  {"_backward_keeps_graph", backward_keeps_graph, METH_NOARGS, NULL},
                                  {0}};

static bool add_to_tensor(PyObject *descriptor, const char *name) {
    bool ok = descriptor && PyDict_SetItemString(tpy_tensor_type->tp_dict, name, descriptor) == 0;
    Py_XDECREF(descriptor);
    return ok;
}

int tpy_init_autograd(PyObject *module) {
    if (!(sparse_grad_name = PyUnicode_InternFromString("_sparse_grad"))) return -1;
    for (PyGetSetDef *p = properties; p->name; p++)
        if (!add_to_tensor(PyDescr_NewGetSet(tpy_tensor_type, p), p->name)) return -1;
    for (PyMethodDef *m = tpy_autograd_methods; m->ml_name; m++)
        if (!add_to_tensor(PyDescr_NewMethod(tpy_tensor_type, m), m->ml_name)) return -1;
    PyType_Modified(tpy_tensor_type);
    if (tpy_init_hooks(module) < 0 || tpy_init_nodes(module) < 0 || tpy_init_functions(module) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
