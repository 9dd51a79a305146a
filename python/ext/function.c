/* torch.autograd.Function: the C base of calls whose forward and backward are written in Python.
 *
 * A call's ctx is an instance of a class made beside the user's (MyFunctionBackward), and stands for the node too:
 * y.grad_fn is the ctx. Python's forward runs first, without a tape; the library's tp_apply then gets the results as
 * its own forward's, because only then their number is known. The node owns the ctx; the ctx points back at the call
 * only while the graph has it, so the two make no cycle. A cycle through an attribute (ctx.y = y for a result y) is
 * collected when y is the only one to hold the node; with several results, or a later call in the cycle, it stays, and
 * save_for_backward is the way that makes none. */
#include "grad.h"
#include <stddef.h>
#include <structmember.h>

typedef struct tpy_function {
    PyObject_HEAD
    PyObject *needs_input_grad, *to_save, *dirty, *nondiff;
    PyObject *weakrefs;
    tp_function_call *call; /* the library's, while the graph has it; NULL otherwise */
    tp_node *node;          /* borrowed from the call */
    char *tensor_args;      /* per argument of forward: is it a tensor? */
    int *outputs;           /* per result of forward: its place among the tensor results, or -1 */
    int nargs, noutputs;
    char materialize;
    bool released;                 /* the graph has let go of the call */
    const struct pending *pending; /* while tp_apply runs: what hand_over gives it */
} tpy_function;
static PyTypeObject *function_type;
static PyObject *word_backward_cls, *word_has_setup, *word_forward, *word_setup_context, *word_apply;

typedef struct pending { /* what the library's forward has to hand over */
    tpy_function *ctx;
    tp_tensor **inputs, **outputs;
    int ninputs, noutputs;
    bool has_setup; /* the class has a setup_context */
} pending;

tp_node *tpy_function_node(PyObject *ctx) {
    return PyObject_TypeCheck(ctx, function_type) ? ((tpy_function *)ctx)->node : NULL;
}

/* ---- The library's side ---- */
void tpy_release_ctx(void *context) { /* the graph lets go */
    if (!Py_IsInitialized()) return;
    tpy_entry entry = tpy_enter();
    tpy_function *ctx = context;
    ctx->call = NULL;
    ctx->node = NULL;
    ctx->released = true;
    tpy_leave(entry);
    tpy_drop(ctx);
}

/* Gradients for the results, as forward returned them: None where a result was no tensor. */
static PyObject *gradient_arguments(const tpy_function *ctx, tp_tensor *const *grads) {
    PyObject *args = PyTuple_New(ctx->noutputs);
    for (int i = 0; args && i < ctx->noutputs; i++) {
        PyObject *o = tpy_tensor_or_none(ctx->outputs[i] < 0 ? NULL : grads[ctx->outputs[i]]);
        if (o)
            PyTuple_SET_ITEM(args, i, o);
        else
            Py_CLEAR(args);
    }
    return args;
}

static const char *plain_name(const tpy_function *ctx) { return Py_TYPE(ctx)->tp_name; }

/* One gradient per argument; those of tensors go on. `answer` is a tuple. */
static bool read_answer(const tpy_function *ctx, PyObject *answer, tp_tensor **grad_inputs) {
    Py_ssize_t n = PyTuple_GET_SIZE(answer);
    while (n > ctx->nargs && PyTuple_GET_ITEM(answer, n - 1) == Py_None) n--;
    if (n != ctx->nargs) {
        PyErr_Format(PyExc_RuntimeError, "function %s returned an incorrect number of gradients (expected %d, got %zd)",
                     plain_name(ctx), ctx->nargs, n);
        return false;
    }
    for (int i = 0, input = 0; i < ctx->nargs; i++) {
        PyObject *o = PyTuple_GET_ITEM(answer, i);
        tp_tensor *grad;
        if (!ctx->tensor_args[i]) {
            if (o == Py_None) continue;
            PyErr_Format(PyExc_RuntimeError,
                         "function %s returned a gradient different than None at position %d, but the corresponding "
                         "forward input was not a Variable",
                         plain_name(ctx), i + 1);
            return false;
        }
        if (!tpy_read_gradient(o, &grad)) return false;
        grad_inputs[input++] = grad;
    }
    return true;
}

static bool run_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                         tp_tensor **grad_inputs, int64_t ninputs) {
    (void)call;
    (void)noutputs;
    tpy_entry entry = tpy_enter();
    tpy_function *ctx = (tpy_function *)Py_NewRef((PyObject *)context);
    PyObject *args = gradient_arguments(ctx, grads),
             *boxed = args ? PyObject_GetAttrString((PyObject *)ctx, "_apply_boxed") : NULL;
    PyObject *answer = NULL;
    if (boxed &&
        boxed !=
            Py_None) { /* the list is the only holder of the gradients, so that backward may free them one by one */
        PyObject *list = PySequence_List(args);
        Py_CLEAR(args);
        answer = list ? PyObject_CallOneArg(boxed, list) : NULL;
        Py_XDECREF(list);
    } else if (boxed) {
        PyObject *apply = PyObject_GetAttr((PyObject *)ctx, word_apply);
        answer = apply ? PyObject_CallObject(apply, args) : NULL;
        Py_XDECREF(apply);
    }
    Py_XDECREF(boxed);
    Py_XDECREF(args);
    if (answer && !PyTuple_Check(answer)) {
        PyObject *one = PyTuple_Pack(1, answer);
        Py_SETREF(answer, one);
    }
    bool ok = answer && read_answer(ctx, answer, grad_inputs);
    for (int64_t i = 0; i < ninputs; i++) {
        if (!ok)
            grad_inputs[i] = NULL;
        else if (grad_inputs[i])
            tp_retain(grad_inputs[i]);
    }
    Py_XDECREF(answer);
    Py_DECREF(ctx);
    tpy_leave(entry);
    return ok;
}

static int index_in(PyObject *o, tp_tensor *const *list, int n) {
    for (int i = 0; tpy_is_tensor(o) && i < n; i++)
        if (list[i] == tpy_unwrap(o)) return i;
    return -1;
}

static bool tensors_only(PyObject *tuple, const char *what) {
    if (!PyTuple_Check(tuple)) {
        PyErr_Format(PyExc_TypeError, "%s attribute is expected to be a tuple but is %s", what,
                     Py_TYPE(tuple)->tp_name);
        return false;
    }
    return true;
}

static bool mark_all(tp_function_call *call, const pending *p) {
    PyObject *dirty = p->ctx->dirty, *nondiff = p->ctx->nondiff;
    if (dirty && !tensors_only(dirty, "dirty_tensors")) return false;
    if (nondiff && !tensors_only(nondiff, "non_differentiable")) return false;
    for (Py_ssize_t i = 0; dirty && i < PyTuple_GET_SIZE(dirty); i++) {
        PyObject *o = PyTuple_GET_ITEM(dirty, i);
        int at = index_in(o, p->inputs, p->ninputs);
        if (!tpy_is_tensor(o)) {
            PyErr_Format(PyExc_RuntimeError, "mark_dirty can only accept variables, but argument %zd is of type %s", i,
                         Py_TYPE(o)->tp_name);
            return false;
        }
        if (at < 0) {
            PyErr_SetString(PyExc_RuntimeError, "ctx.mark_dirty() received a tensor that was not an input. Only input "
                                                "Tensors that have been mutated should be passed to ctx.mark_dirty().");
            return false;
        }
        tp_function_mark_dirty(call, at);
    }
    for (Py_ssize_t i = 0; nondiff && i < PyTuple_GET_SIZE(nondiff); i++) {
        PyObject *o = PyTuple_GET_ITEM(nondiff, i);
        if (!tpy_is_tensor(o)) {
            PyErr_Format(PyExc_RuntimeError, "mark_non_differentiable only accepts variable arguments, but got %s",
                         Py_TYPE(o)->tp_name);
            return false;
        }
        int at = index_in(o, p->outputs, p->noutputs);
        if (at >= 0) tp_function_mark_nondiff(call, at);
    }
    return true;
}

static bool save_all(tp_function_call *call, PyObject *to_save) {
    if (!to_save || to_save == Py_None) return true;
    if (!tensors_only(to_save, "saved_tensors")) return false;
    Py_ssize_t n = PyTuple_GET_SIZE(to_save);
    tp_tensor **list = PyMem_Calloc((size_t)n + 1, sizeof *list);
    bool ok = list || PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *o = PyTuple_GET_ITEM(to_save, i);
        if (o == Py_None) continue;
        if (tpy_is_tensor(o))
            list[i] = tpy_unwrap(o);
        else {
            ok = false;
            PyErr_Format(PyExc_TypeError, "save_for_backward can only save variables, but argument %zd is of type %s",
                         i, Py_TYPE(o)->tp_name);
        }
    }
    ok = ok && (tp_function_save(call, (tp_tensors){list, n}) || tpy_raise());
    PyMem_Free(list);
    return ok;
}

static bool is_dirty(PyObject *dirty, PyObject *o) {
    for (Py_ssize_t i = 0; dirty && PyTuple_Check(dirty) && i < PyTuple_GET_SIZE(dirty); i++)
        if (PyTuple_GET_ITEM(dirty, i) == o) return true;
    return false;
}

/* Was a result that is an input, unchanged, saved? With a setup_context nobody could tell which of the two was meant.
 */
static bool check_returned(const pending *p, PyObject *saved, const char *what) {
    for (Py_ssize_t i = 0; saved && PyTuple_Check(saved) && i < PyTuple_GET_SIZE(saved); i++) {
        PyObject *o = PyTuple_GET_ITEM(saved, i);
        if (index_in(o, p->inputs, p->ninputs) < 0 || index_in(o, p->outputs, p->noutputs) < 0) continue;
        if (is_dirty(p->ctx->dirty, o)) continue;
        PyErr_Format(PyExc_RuntimeError,
                     "An input that has been returned as-is as output is being saved for %s. This is not supported if "
                     "you override setup_context. You should return and save a view "
                     "of the input instead, e.g. with x.view_as(x) or setup ctx inside the forward function itself.",
                     what);
        return false;
    }
    return true;
}

static bool check_all_returned(const pending *p) {
    if (!p->has_setup) return true;
    if (!check_returned(p, p->ctx->to_save, "backward")) return false;
    PyObject *forward = PyObject_GetAttrString((PyObject *)p->ctx, "saved_for_forward");
    if (!forward) PyErr_Clear();
    bool ok = check_returned(p, forward, "forward");
    Py_XDECREF(forward);
    return ok;
}

static bool hand_over(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs) {
    (void)inputs;
    tpy_function *ctx = context;
    const pending *p = ctx->pending;
    ctx->call = call;
    ctx->node = tp_function_node(call);
    if (ctx->node) tp_node_release(ctx->node); /* the call keeps it */
    if (ctx->node && !tpy_bind_node(ctx->node, (PyObject *)ctx)) return false;
    if (!mark_all(call, p) || !check_all_returned(p) || !save_all(call, ctx->to_save)) return false;
    tp_function_materialize(call, ctx->materialize);
    for (int64_t i = 0; i < noutputs; i++) outputs[i] = tp_retain(p->outputs[i]);
    return true;
}

/* ---- A call ---- */
static bool read_inputs(tpy_function *ctx, PyObject *const *args, Py_ssize_t n, pending *p) {
    ctx->nargs = (int)n;
    ctx->tensor_args = PyMem_Calloc((size_t)n + 1, 1);
    p->inputs = PyMem_Calloc((size_t)n + 1, sizeof *p->inputs);
    ctx->needs_input_grad = PyTuple_New(n);
    if (!ctx->tensor_args || !p->inputs || !ctx->needs_input_grad) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        bool tensor = tpy_is_tensor(args[i]);
        ctx->tensor_args[i] = tensor;
        if (tensor) p->inputs[p->ninputs++] = tpy_unwrap(args[i]);
        PyTuple_SET_ITEM(ctx->needs_input_grad, i, PyBool_FromLong(tensor && tp_requires_grad(tpy_unwrap(args[i]))));
    }
    return true;
}

/* forward(ctx, *args), or forward(*args) and then setup_context(ctx, args, result). */
static PyObject *run_forward(PyObject *cls, PyObject *ctx, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                             bool has_setup) {
    Py_ssize_t total = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *forward = PyObject_GetAttr(cls, word_forward), *result = NULL;
    if (!forward) return NULL;
    if (has_setup) {
        PyObject *inputs = NULL, *setup = NULL, *done = NULL;
        result = PyObject_Vectorcall(forward, args, (size_t)n, kwnames);
        if (result && (inputs = PyTuple_New(total)) && (setup = PyObject_GetAttr(cls, word_setup_context))) {
            for (Py_ssize_t i = 0; i < total; i++) PyTuple_SET_ITEM(inputs, i, Py_NewRef(args[i]));
            done = PyObject_CallFunctionObjArgs(setup, ctx, inputs, result, NULL);
        }
        if (!done) Py_CLEAR(result);
        Py_XDECREF(done);
        Py_XDECREF(setup);
        Py_XDECREF(inputs);
    } else {
        PyObject **all = PyMem_Malloc(((size_t)total + 1) * sizeof *all);
        if (all) {
            all[0] = ctx;
            for (Py_ssize_t i = 0; i < total; i++) all[i + 1] = args[i];
            result = PyObject_Vectorcall(forward, all, (size_t)n + 1, kwnames);
        } else
            PyErr_NoMemory();
        PyMem_Free(all);
    }
    Py_DECREF(forward);
    return result;
}

static bool read_outputs(tpy_function *ctx, PyObject *result, pending *p) { /* result is a tuple */
    ctx->noutputs = (int)PyTuple_GET_SIZE(result);
    ctx->outputs = PyMem_Calloc((size_t)ctx->noutputs + 1, sizeof *ctx->outputs);
    p->outputs = PyMem_Calloc((size_t)ctx->noutputs + 1, sizeof *p->outputs);
    if (!ctx->outputs || !p->outputs) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < ctx->noutputs; i++) {
        PyObject *o = PyTuple_GET_ITEM(result, i);
        ctx->outputs[i] = tpy_is_tensor(o) ? p->noutputs : -1;
        if (tpy_is_tensor(o)) p->outputs[p->noutputs++] = tpy_unwrap(o);
    }
    return true;
}

/* The results with their history, in the places where forward put them. Takes the tensors in `made`. */
static PyObject *put_back(const tpy_function *ctx, PyObject *result, tp_tensor **made) {
    PyObject *tuple = PyTuple_New(ctx->noutputs);
    for (int i = 0, t = 0; i < ctx->noutputs; i++) {
        PyObject *o = ctx->outputs[i] < 0 ? Py_NewRef(PyTuple_GET_ITEM(result, i)) : tpy_wrap(made[t++]);
        if (tuple && o)
            PyTuple_SET_ITEM(tuple, i, o);
        else {
            Py_XDECREF(o);
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *record(tpy_function *ctx, PyObject *cls, PyObject *result, pending *p) {
    tp_tensor **made = PyMem_Calloc((size_t)p->noutputs + 1, sizeof *made);
    if (!made) return PyErr_NoMemory();
    tp_function function = {sizeof function, ((PyTypeObject *)cls)->tp_name, hand_over, run_backward, tpy_release_ctx};
    ctx->pending = p;
    Py_INCREF(ctx); /* the call's */
    bool ok = tp_apply(&function, ctx, (tp_tensors){p->inputs, p->ninputs}, made, p->noutputs);
    ctx->pending = NULL;
    PyObject *answer = ok ? put_back(ctx, result, made) : tpy_raise();
    PyMem_Free(made);
    return answer;
}

static PyObject *apply_with(PyObject *cls, tpy_function *ctx, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                            bool has_setup, pending *p) {
    p->has_setup = has_setup;
    if (!read_inputs(ctx, args, n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0), p))
        return NULL; /* arguments by keyword count too, as they came */
    tp_grad_mode mode = tp_grad_mode_enter(false, tp_inference_enabled());
    PyObject *given = run_forward(cls, (PyObject *)ctx, args, n, kwnames, has_setup);
    tp_grad_mode_leave(&mode);
    if (!given) return NULL;
    bool single = !PyTuple_Check(given);
    PyObject *result = single ? PyTuple_Pack(1, given) : Py_NewRef(given);
    PyObject *answer = result && read_outputs(ctx, result, p) ? record(ctx, cls, result, p) : NULL;
    if (answer && single) Py_SETREF(answer, Py_NewRef(PyTuple_GET_ITEM(answer, 0)));
    Py_XDECREF(result);
    Py_DECREF(given);
    return answer;
}

static PyObject *function_apply(PyObject *cls, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    PyObject *backward_cls = PyObject_GetAttr(cls, word_backward_cls),
             *has_setup = backward_cls ? PyObject_GetAttr(cls, word_has_setup) : NULL;
    tpy_function *ctx = has_setup ? (tpy_function *)PyObject_CallNoArgs(backward_cls) : NULL;
    PyObject *answer = NULL;
    if (ctx && !PyObject_TypeCheck((PyObject *)ctx, function_type))
        PyErr_Format(PyExc_TypeError, "_backward_cls must make autograd contexts");
    else if (ctx) {
        pending p = {.ctx = ctx};
        answer = apply_with(cls, ctx, args, n, kwnames, has_setup == Py_True, &p);
        PyMem_Free(p.inputs);
        PyMem_Free(p.outputs);
    }
    if (ctx) Py_CLEAR(ctx->to_save); /* the node has them now */
    Py_XDECREF((PyObject *)ctx);
    Py_XDECREF(has_setup);
    Py_XDECREF(backward_cls);
    return answer;
}

/* ---- ctx ---- */
static PyObject *ctx_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    tpy_function *ctx = (tpy_function *)type->tp_alloc(type, 0);
    if (ctx) ctx->materialize = 1;
    return (PyObject *)ctx;
}
static int ctx_clear(PyObject *o) {
    tpy_function *ctx = (tpy_function *)o;
    Py_CLEAR(ctx->needs_input_grad);
    Py_CLEAR(ctx->to_save);
    Py_CLEAR(ctx->dirty);
    Py_CLEAR(ctx->nondiff);
    return 0;
}
static int ctx_traverse(PyObject *o, visitproc visit, void *arg) {
    tpy_function *ctx = (tpy_function *)o;
    Py_VISIT(ctx->needs_input_grad);
    Py_VISIT(ctx->to_save);
    Py_VISIT(ctx->dirty);
    Py_VISIT(ctx->nondiff);
    Py_VISIT(Py_TYPE(o));
    return 0;
}
static void ctx_dealloc(PyObject *o) {
    tpy_function *ctx = (tpy_function *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (ctx->weakrefs) PyObject_ClearWeakRefs(o);
    ctx_clear(o);
    PyMem_Free(ctx->tensor_args);
    PyMem_Free(ctx->outputs);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *ctx_saved(PyObject *o, void *unused) {
    (void)unused;
    tpy_function *ctx = (tpy_function *)o;
    if (ctx->released)
        return PyErr_Format(
            PyExc_RuntimeError,
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if you need to "
            "backward through the graph a second time or if you need to access saved tensors after calling backward.");
    int64_t n = ctx->call ? tp_function_saved_count(ctx->call) : 0;
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple && i < n; i++) {
        tp_tensor *t = tp_function_saved(ctx->call, i);
        PyObject *saved = t ? tpy_wrap(t) : tp_ok() ? Py_NewRef(Py_None) : tpy_raise();
        if (saved)
            PyTuple_SET_ITEM(tuple, i, saved);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static tp_node *live_node(PyObject *o, const char *what) {
    tp_node *node = ((tpy_function *)o)->node;
    if (!node)
        PyErr_Format(PyExc_RuntimeError,
                     "Attribute '%s' is invalid for this instance of _C._FunctionBase. Accessing this attribute "
                     "directly on an instance of autograd.Function is a legacy access pattern that is no longer "
                     "supported. For examples on how to use new-style autograd functions, see "
                     "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function ",
                     what);
    return node;
}
static PyObject *ctx_next(PyObject *o, void *unused) {
    (void)unused;
    tp_node *node = live_node(o, "next_functions");
    return node ? tpy_node_edges(node) : NULL;
}
static PyObject *ctx_metadata(PyObject *o, void *unused) {
    (void)unused;
    tp_node *node = live_node(o, "metadata");
    return node ? tpy_node_metadata(node) : NULL;
}
static PyObject *ctx_name(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyUnicode_FromString(plain_name((tpy_function *)o));
}
static PyObject *ctx_sequence(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_node *node = live_node(o, "_sequence_nr");
    return node ? PyLong_FromUnsignedLongLong(tp_node_sequence(node)) : NULL;
}
static PyObject *ctx_hook(PyObject *o, PyObject *callable) {
    tp_node *node = live_node(o, "register_hook");
    return node ? tpy_add_node_hook(node, callable, TPY_HOOK_NODE) : NULL;
}
static PyObject *ctx_prehook(PyObject *o, PyObject *callable) {
    tp_node *node = live_node(o, "register_prehook");
    return node ? tpy_add_node_hook(node, callable, TPY_HOOK_PRE) : NULL;
}

static PyMethodDef methods[] = {
    {"_apply", (PyCFunction)(void (*)(void))function_apply, METH_FASTCALL | METH_KEYWORDS | METH_CLASS, NULL},
    {"name", ctx_name, METH_NOARGS, NULL},
    {"_sequence_nr", ctx_sequence, METH_NOARGS, NULL},
    {"register_hook", ctx_hook, METH_O, NULL},
    {"register_prehook", ctx_prehook, METH_O, NULL},
    {0}};
static PyGetSetDef properties[] = {{"saved_tensors", ctx_saved, NULL, NULL, NULL},
                                   {"saved_variables", ctx_saved, NULL, NULL, NULL},
                                   {"next_functions", ctx_next, NULL, NULL, NULL},
                                   {"metadata", ctx_metadata, NULL, NULL, NULL},
                                   {0}};
static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(tpy_function, weakrefs), READONLY, NULL},
                                {"needs_input_grad", T_OBJECT, offsetof(tpy_function, needs_input_grad), 0, NULL},
                                {"to_save", T_OBJECT, offsetof(tpy_function, to_save), 0, NULL},
                                {"dirty_tensors", T_OBJECT, offsetof(tpy_function, dirty), 0, NULL},
                                {"non_differentiable", T_OBJECT, offsetof(tpy_function, nondiff), 0, NULL},
                                {"materialize_grads", T_BOOL, offsetof(tpy_function, materialize), 0, NULL},
                                {0}};
static PyType_Slot slots[] = {
    {Py_tp_new, ctx_new},     {Py_tp_dealloc, ctx_dealloc}, {Py_tp_traverse, ctx_traverse}, {Py_tp_clear, ctx_clear},
    {Py_tp_methods, methods}, {Py_tp_getset, properties},   {Py_tp_members, members},       {0, NULL}};
static PyType_Spec spec = {"torch._C._FunctionBase", sizeof(tpy_function), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

int tpy_init_functions(PyObject *module) {
    if (!(word_backward_cls = PyUnicode_InternFromString("_backward_cls")) ||
        !(word_has_setup = PyUnicode_InternFromString("_has_setup_context")) ||
        !(word_forward = PyUnicode_InternFromString("forward")) ||
        !(word_setup_context = PyUnicode_InternFromString("setup_context")) ||
        !(word_apply = PyUnicode_InternFromString("apply")))
        return -1;
    function_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return function_type ? PyModule_AddObjectRef(module, "_FunctionBase", (PyObject *)function_type) : -1;
}
