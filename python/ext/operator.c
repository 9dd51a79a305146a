/* Operators as Python callables. One object stands for all overloads of a name (max, max.dim, max.other); the registry
 * says what each takes. A call fits the arguments to the first overload that takes them, invokes its boxed form and
 * wraps the results.
 *
 * Two types share the code: Function (torch.max) and Method (Tensor.max), which binds to an instance as Python's
 * functions do. Both are called through vectorcall, so a call makes no tuple and no dict. */
#include "tpy.h"
#include <stddef.h>
#include <structmember.h>

typedef struct overload {
    const tp_operator *op;
    int nargs;
    int self;     /* where the tensor stands that a method is called on */
    bool factory; /* makes a tensor from nothing: takes requires_grad, layout, pin_memory */
    tpy_argument *args;
} overload;

typedef struct tpy_operator {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *name, *module, *doc, *dict;
    int count;
    bool inplace; /* the name_ form */
    bool method;
    overload *overloads;
} tpy_operator;

static PyTypeObject *function_type, *method_type;
static PyObject *named_types; /* name -> the named tuple of its results, made at first use */
static PyObject *functions;   /* PyTorch's name -> Function, for C callers and for modules that take over a name */
static struct {
    PyObject *input, *self, *out, *axis, *dim, *keepdims, *keepdim, *dims, *requires_grad, *layout, *pin_memory, *x1,
        *x2, *other, *names, *x, *a;
} word;

/* ---- Reading the registry ---- */
static bool read_type(tpy_argument *a, char letter, const char *type) {
    static const uint8_t kinds[128] = {
        ['t'] = TPY_TENSOR, ['l'] = TPY_TENSORS,  ['o'] = TPY_OPERAND, ['s'] = TPY_SCALAR, ['i'] = TPY_INT,
        ['n'] = TPY_INTS,   ['f'] = TPY_FLOAT,    ['F'] = TPY_FLOATS,  ['b'] = TPY_BOOL,   ['q'] = TPY_BOOL,
        ['B'] = TPY_BOOLS,  ['S'] = TPY_SCALARS,  ['c'] = TPY_STRING,  ['d'] = TPY_DTYPE,  ['D'] = TPY_DEVICE,
        ['L'] = TPY_LAYOUT, ['g'] = TPY_GENERATOR};
    size_t n = strlen(type);
    a->none_fits = n && type[n - 1] == '?';
    a->kind = kinds[letter & 127];
    const char *length = letter == 'n' ? strchr(type, '[') : NULL; /* int[2]: one number serves for both */
    a->length = (int8_t)(length ? atoi(length + 1) : letter == 'l' && strstr(type, "?[]") ? 1 : 0);
    if (strchr("tlosinfFbqBScdDLg", letter)) return true;
    PyErr_Format(PyExc_SystemError, "an argument of unknown type '%s' in the registry", type);
    return false;
}

static bool one_of(const char *name, const char *const *list) {
    while (*list && strcmp(name, *list)) list++;
    return *list != NULL;
}

static bool read_overload(overload *o, const tp_operator *op) {
    static const char *const rest[] = {"size", "dims", "shape", "repeats", NULL}, *const keyword_only[] = {
                                                                                      "correction", "alpha",
                                                                                      "generator", NULL};
    o->op = op;
    o->nargs = (int)op->nargs;
    o->args = PyMem_Calloc(op->nargs ? (size_t)op->nargs : 1, sizeof *o->args);
    if (!o->args || op->nargs > TPY_MAX_ARGS) {
        PyErr_NoMemory();
        return false;
    }
    o->self = 0;
    for (int i = 0; i < o->nargs; i++) {
        tpy_argument *a = &o->args[i];
        const tp_argument_info *info = &op->args[i];
        if (!(a->name = PyUnicode_InternFromString(info->name)) || !read_type(a, op->letters[i], info->type))
            return false;
        a->has_default = info->default_value != NULL;
        a->none_fits |= a->has_default && strcmp(info->default_value, "None") == 0;
        a->takes_rest = a->kind == TPY_INTS && !a->length && !a->has_default && one_of(info->name, rest) &&
                        i <= 1; /* not interpolate(x, 8, 2) */
        a->keyword_only =
            one_of(info->name, keyword_only) && i != 1 &&
            strcmp(info->type, "float") != 0; /* alpha of celu, elu and local_response_norm is none of those */
        if (a->kind == TPY_DEVICE) o->factory = true;
        if (i && strcmp(info->name, "self") == 0) o->self = i;
    }
    return true;
}

/* ---- Results ---- */
/* As PyTorch prints them: a line for each result. */
static PyObject *named_repr(PyObject *o) {
    PyObject *fields = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__match_args__"),
             *lines = fields ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; lines && i < PyTuple_GET_SIZE(o); i++) {
        PyObject *line = PyUnicode_FromFormat("%U=%R", PyTuple_GET_ITEM(fields, i), PyTuple_GET_ITEM(o, i));
        if (!line || PyList_Append(lines, line) < 0) Py_CLEAR(lines);
        Py_XDECREF(line);
    }
    PyObject *comma = lines ? PyUnicode_FromString(",\n") : NULL, *joined = comma ? PyUnicode_Join(comma, lines) : NULL;
    PyObject *text = joined ? PyUnicode_FromFormat("%s(\n%U)", Py_TYPE(o)->tp_name, joined) : NULL;
    Py_XDECREF(fields);
    Py_XDECREF(lines);
    Py_XDECREF(comma);
    Py_XDECREF(joined);
    return text;
}

static PyTypeObject *make_named(const char *name, const tp_operator *op) {
    PyStructSequence_Field fields[16] = {{0}};
    char *full = PyMem_Malloc(strlen(name) + 32); /* the type keeps the text */
    if (!full) return (PyTypeObject *)PyErr_NoMemory();
    sprintf(full, "torch.return_types.%s", name);
    for (int i = 0; i < op->nresults && i < 15; i++) fields[i].name = op->results[i];
    PyStructSequence_Desc desc = {full, NULL, fields, (int)op->nresults};
    PyTypeObject *type = PyStructSequence_NewType(&desc);
    if (type) type->tp_repr = named_repr;
    return type;
}

static PyObject *wrap_value(tp_value *v) {
    switch (v->kind) {
    case TP_K_TENSOR: return tpy_wrap(v->as.tensor);
    case TP_K_TENSORS: return tpy_wrap_list(v->as.tensors);
    case TP_K_SCALAR: return tpy_number(v->as.scalar);
    case TP_K_DTYPE: return tpy_dtype_object(v->as.dtype);
    case TP_K_STRING: return PyUnicode_FromString(v->as.string);
    default: Py_RETURN_NONE;
    }
}

static PyObject *wrap_results(const tp_operator *op, tp_value *results, PyTypeObject *named) {
    if (op->nresults == 1) return wrap_value(&results[0]);
    PyObject *tuple = named ? PyStructSequence_New(named) : PyTuple_New(op->nresults);
    bool ok = tuple != NULL;
    for (int i = 0; i < op->nresults; i++) { /* every result is taken over, whatever happens to the others */
        PyObject *o = wrap_value(&results[i]);
        ok &= o != NULL;
        if (!tuple)
            Py_XDECREF(o);
        else if (named)
            PyStructSequence_SetItem(tuple, i, o ? o : Py_NewRef(Py_None));
        else
            PyTuple_SET_ITEM(tuple, i, o ? o : Py_NewRef(Py_None));
    }
    if (!ok) Py_CLEAR(tuple);
    return tuple;
}
PyObject *tpy_results(const tp_operator *op, tp_value *results) { return wrap_results(op, results, NULL); }

/* ---- Fitting a call's arguments ---- */
static bool same_name(const tpy_argument *a, PyObject *key, int position, bool method) {
    if (a->name == key) return true;
    if (position == 0 && key == word.input && !method) return a->name == word.self;
    if (key == word.axis) return a->name == word.dim || a->name == word.dims;
    if (key == word.keepdims) return a->name == word.keepdim;
    if (key == word.dim || key == word.dims) return a->name == word.dims || (key == word.dims && a->name == word.dim);
    if (key == word.x2) return a->name == word.other;
    if (key == word.x1 || key == word.x || key == word.a) return a->name == word.self; /* NumPy's words */
    return PyUnicode_Compare(a->name, key) == 0;
}

/* Keywords that belong to Python's side of a call. */
typedef struct extras {
    PyObject *out;
    bool requires_grad, pin_memory;
} extras;

/* 1: taken; 0: no such keyword; -1: exception. */
static int fit_extra(const overload *o, PyObject *key, PyObject *value, extras *x) {
    if (PyUnicode_Compare(key, word.out) == 0) {
        if (value != Py_None) x->out = value;
        return 1;
    }
    if (!o->factory) return 0;
    if (PyUnicode_Compare(key, word.requires_grad) == 0) {
        int truth = PyObject_IsTrue(value);
        x->requires_grad = truth > 0;
        return truth < 0 ? -1 : 1;
    }
    if (PyUnicode_Compare(key, word.layout) == 0) return value == Py_None || tpy_is_strided(value);
    if (PyUnicode_Compare(key, word.names) == 0) return value == Py_None;
    if (PyUnicode_Compare(key, word.pin_memory) == 0) {
        x->pin_memory = value == Py_True;
        return PyBool_Check(value) || value == Py_None;
    }
    return 0;
}

/* A condition of bytes is one of truth values: where() takes it as comparisons once gave it. */
static bool take_bytes_as_truth(tp_value *v, tpy_frame *f) {
    static bool told; /* under the interpreter's lock */
    bool tells = !told;
    told = true;
    if (tells &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
                     "future version of PyTorch. Use a boolean condition instead.",
                     1) < 0)
        return false;
    tp_tensor *truth = tpy_own(tp_to(v->as.tensor, .dtype = TP_BOOL));
    PyObject *kept = truth ? tpy_wrap(truth) : tpy_raise();
    if (!kept || !tpy_frame_keep(f, kept)) return false;
    v->as.tensor = truth;
    return true;
}

static int fit_argument(const overload *o, int k, PyObject *given, tpy_frame *f) {
    tp_value *v = &f->values[k];
    if (given == Py_None && o->args[k].has_default && o->args[k].kind == TPY_INTS) return 1; /* x.amax(None) */
    int fits = tpy_fit(&o->args[k], given, v, f);
    if (fits > 0 && k == o->op->bytes_as_truth && v->kind == TP_K_TENSOR && tp_dtype_of(v->as.tensor) == TP_UINT8)
        return take_bytes_as_truth(v, f) ? 1 : -1;
    return fits;
}

static int fit_rest(PyObject *const *args, Py_ssize_t n, tp_value *v, tpy_frame *f) { /* x.view(2, 3) */
    int64_t *list = tpy_frame_alloc(f, (size_t)n * sizeof *list);
    if (!list) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int fits = f->exact && tpy_is_tensor(args[i]) ? 0 : tpy_fit_int(args[i], &list[i]);
        if (fits <= 0) return fits;
    }
    v->kind = TP_K_INTS;
    v->as.ints = tp_ints_view(list, n);
    return 1;
}

typedef struct misfit { /* why an overload does not take the arguments */
    const tpy_argument *argument;
    PyObject *given, *keyword;
    int position;
    enum { MISFIT_TYPE, MISFIT_MISSING, MISFIT_KEYWORD, MISFIT_COUNT, MISFIT_TWICE } why;
} misfit;

static int fit_overload(const tpy_operator *self, const overload *o, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames, tpy_frame *f, extras *x, misfit *m) {
    memset(f->values, 0, sizeof *f->values * (size_t)o->nargs);
    uint32_t given = 0;
    f->used = 0;
    Py_ssize_t i = 0;
    for (int position = 0; i < n; position++, i++) {
        int k = position;
        if (self->method && o->self)
            k = position == 0 ? o->self : position <= o->self ? position - 1 : position; /* x.where(condition, y) */
        if (k >= o->nargs || o->args[k].keyword_only) {
            *m = (misfit){.why = MISFIT_COUNT};
            return 0;
        }
        const tpy_argument *a = &o->args[k];
        int fits;
        if (a->takes_rest && i + 1 < n && !PyTuple_Check(args[i]) && !PyList_Check(args[i])) {
            fits = fit_rest(args + i, n - i, &f->values[k], f);
            i = n - 1;
        } else {
            fits = fit_argument(o, k, args[i], f);
        }
        if (fits <= 0) {
            *m = (misfit){a, args[i], NULL, (int)i + 1, MISFIT_TYPE};
            return fits;
        }
        given |= 1u << k;
    }
    Py_ssize_t nk = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t j = 0; j < nk; j++) {
        PyObject *key = PyTuple_GET_ITEM(kwnames, j), *value = args[n + j];
        int k = 0;
        while (k < o->nargs && !same_name(&o->args[k], key, k, self->method)) k++;
        if (k == o->nargs) {
            int taken = fit_extra(o, key, value, x);
            if (taken <= 0) {
                *m = (misfit){.keyword = key, .why = MISFIT_KEYWORD};
                return taken;
            }
            continue;
        }
        if (given & 1u << k) {
            *m = (misfit){.argument = &o->args[k], .why = MISFIT_TWICE};
            return 0;
        }
        given |= 1u << k;
        int fits = value == Py_None && o->args[k].has_default ? 1 : fit_argument(o, k, value, f);
        if (fits <= 0) {
            *m = (misfit){&o->args[k], value, NULL, 0, MISFIT_TYPE};
            return fits;
        }
    }
    for (int k = 0; k < o->nargs; k++) {
        if (given & 1u << k || o->args[k].has_default) continue;
        *m = (misfit){.argument = &o->args[k], .why = MISFIT_MISSING};
        return 0;
    }
    return 1;
}

/* ---- Errors ---- */
static const char *kind_text(const tpy_argument *a) {
    static const char *const texts[] = {"Tensor",
                                        "tuple of Tensors",
                                        "Tensor", /* or a number */
                                        "Number",
                                        "int",
                                        "tuple of ints",
                                        "float",
                                        "bool",
                                        "str",
                                        "torch.dtype",
                                        "torch.device",
                                        "torch.memory_format",
                                        "torch.Generator",
                                        "tuple of floats",
                                        "tuple of Numbers",
                                        "tuple of bools"};
    return texts[a->kind];
}

/* Of the arguments from the first on. */
static PyObject *list_types(PyObject *const *args, Py_ssize_t first, Py_ssize_t n, PyObject *kwnames) {
    PyObject *list = PyList_New(0);
    Py_ssize_t nk = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = first; list && i < n + nk; i++) {
        const char *type = Py_TYPE(args[i])->tp_name, *dot = strrchr(type, '.');
        PyObject *text = i < n ? PyUnicode_FromString(dot ? dot + 1 : type)
                               : PyUnicode_FromFormat("%U=%s", PyTuple_GET_ITEM(kwnames, i - n), dot ? dot + 1 : type);
        if (!text || PyList_Append(list, text) < 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    PyObject *comma = PyUnicode_FromString(", "), *joined = list && comma ? PyUnicode_Join(comma, list) : NULL;
    Py_XDECREF(comma);
    Py_XDECREF(list);
    return joined;
}

/* A method's own tensor has no position. */
static int shown_position(const tpy_operator *self, const misfit *m) {
    return m->position > 1 && self->method ? m->position - 1 : m->position;
}

/* A tuple or list given for tensors: which of its elements is none; false where that is not why it was refused. */
static bool refuse_list_element(const misfit *m) {
    if (m->argument->kind != TPY_TENSORS || !(PyTuple_Check(m->given) || PyList_Check(m->given))) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(m->given); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(m->given, i);
        if (tpy_is_tensor(item)) continue;
        PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument %d, but got %s", i,
                     m->position ? m->position - 1 : 0, Py_TYPE(item)->tp_name);
        return true;
    }
    return false;
}

/* A tuple or list given for ints: which of its elements is none, in PyTorch's two sentences; false where that is not
 * why it was refused. */
static bool refuse_element(const tpy_operator *self, const misfit *m) {
    if (strcmp(kind_text(m->argument), "tuple of ints") || !(PyTuple_Check(m->given) || PyList_Check(m->given)))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(m->given); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(m->given, i);
        if (PyIndex_Check(item)) continue;
        if (i == 0)
            PyErr_Format(
                PyExc_TypeError,
                "%U(): argument '%U' (position %d) must be tuple of ints, but found element of type %s at pos 0",
                self->name, m->argument->name, m->position ? shown_position(self, m) : 1, Py_TYPE(item)->tp_name);
        else
            PyErr_Format(PyExc_TypeError,
                         "%U(): argument '%U' failed to unpack the object at pos %zd with error \"type must be tuple "
                         "of ints,but got %s\"",
                         self->name, m->argument->name, i + 1, Py_TYPE(item)->tp_name);
        return true;
    }
    return false;
}

/* Functions call their first tensor `input`. */
static PyObject *shown_name(const tpy_operator *self, const misfit *m) { /* borrowed */
    return m->argument->name == word.self && !self->method ? word.input : m->argument->name;
}

static PyObject *refuse(const tpy_operator *self, const misfit *m, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames) {
    if (self->count == 1) {
        switch (m->why) {
        case MISFIT_TYPE:
            if (refuse_element(self, m) || refuse_list_element(m)) return NULL;
            if (m->position)
                return PyErr_Format(PyExc_TypeError, "%U(): argument '%U' (position %d) must be %s, not %s", self->name,
                                    shown_name(self, m), shown_position(self, m), kind_text(m->argument),
                                    Py_TYPE(m->given)->tp_name);
            return PyErr_Format(PyExc_TypeError, "%U(): argument '%U' must be %s, not %s", self->name,
                                shown_name(self, m), kind_text(m->argument), Py_TYPE(m->given)->tp_name);
        case MISFIT_MISSING:
            return PyErr_Format(PyExc_TypeError, "%U() missing 1 required positional arguments: \"%U\"", self->name,
                                shown_name(self, m));
        case MISFIT_KEYWORD:
            return PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument '%U'", self->name,
                                m->keyword);
        case MISFIT_TWICE:
            return PyErr_Format(PyExc_TypeError, "%U() got multiple values for argument '%U'", self->name,
                                m->argument->name);
        case MISFIT_COUNT: {
            int most = self->overloads[0].nargs - self->method;
            return PyErr_Format(PyExc_TypeError, "%U() takes %d positional argument%s but %zd %s given", self->name,
                                most, most == 1 ? "" : "s", n - self->method, n - self->method == 1 ? "was" : "were");
        }
        }
    }
    PyObject *types = list_types(args, self->method && n > 0, n, kwnames),
             *text = types ? PyUnicode_FromFormat(
                                 "%U() received an invalid combination of arguments - got (%U), but expected one of:",
                                 self->name, types)
                           : NULL;
    Py_XDECREF(types);
    for (int i = 0; text && i < self->count; i++) {
        const char *signature = strchr(self->overloads[i].op->signature, '(');
        PyObject *more = PyUnicode_FromFormat("%U\n * %s", text, signature);
        Py_SETREF(text, more);
    }
    if (text) PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return NULL;
}

/* ---- Invoking ---- */
static int64_t work_of(const overload *o, const tp_value *values) { /* elements touched, roughly */
    int64_t total = 0;
    for (int i = 0; i < o->nargs; i++) {
        if (values[i].kind == TP_K_TENSOR)
            total += tp_numel(values[i].as.tensor);
        else if (values[i].kind == TP_K_TENSORS)
            for (int64_t j = 0; j < values[i].as.tensors.n; j++)
                total += values[i].as.tensors.v[j] ? tp_numel(values[i].as.tensors.v[j]) : 0;
        else if (values[i].kind == TP_K_INTS && o->factory) {
            double n = 1;
            for (int64_t j = 0; j < values[i].as.ints.n; j++) n *= (double)values[i].as.ints.v[j];
            total += n > 1e12 ? (int64_t)1e12 : (int64_t)n;
        } else if (values[i].kind == TP_K_SCALAR && o->factory)
            total += TPY_HEAVY_ELEMENTS;
    }
    return total;
}

/* What out was like before a call: PyTorch warns when it had elements and gets another shape. */
typedef struct shape_before {
    int64_t numel;
    PyObject *shape;
} shape_before;

static bool look_at_shape(PyObject *out, shape_before *before) {
    *before = (shape_before){0, NULL};
    if (!tpy_is_tensor(out) || !(before->numel = tp_numel(tpy_unwrap(out)))) return true;
    return (before->shape = tpy_shape(tpy_unwrap(out))) != NULL;
}

static bool warn_resized(PyObject *out, shape_before *before) {
    PyObject *now = before->shape ? tpy_shape(tpy_unwrap(out)) : NULL;
    int same = now ? PyObject_RichCompareBool(before->shape, now, Py_EQ) : before->shape ? -1 : 1;
    if (!same) {
        PyObject *was = PySequence_List(before->shape), *is = was ? PySequence_List(now) : NULL;
        if (is)
            same = PyErr_WarnFormat(PyExc_UserWarning, 1,
                                    "An output with one or more elements was resized since it had shape %R, which does "
                                    "not match the required output shape %R. This behavior is "
                                    "deprecated, and in a future PyTorch release outputs will not be resized unless "
                                    "they have zero elements. You can explicitly reuse an out "
                                    "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
                                    was, is);
        else
            same = -1;
        Py_XDECREF(was);
        Py_XDECREF(is);
    }
    Py_XDECREF(now);
    Py_CLEAR(before->shape);
    return same >= 0;
}

static PyObject *
write_out(PyObject *out,
          PyObject *result) { /* result is taken over; copies it into the given tensor, resized where it must be */
    if (!result) return NULL;
    PyObject *args[2] = {out, result}, *done = NULL;
    shape_before before = {0, NULL};
    if (!tpy_is_tensor(out) || !tpy_is_tensor(result))
        PyErr_Format(PyExc_TypeError, "argument 'out' must be Tensor, not %s", Py_TYPE(out)->tp_name);
    else if (!tp_can_cast(tp_dtype_of(tpy_unwrap(result)), tp_dtype_of(tpy_unwrap(out))))
        PyErr_Format(PyExc_RuntimeError, "Expected out tensor to have dtype %s, but got %s instead",
                     tp_dtype_name(tp_dtype_of(tpy_unwrap(result))), tp_dtype_name(tp_dtype_of(tpy_unwrap(out))));
    else if (look_at_shape(out, &before)) {
        PyObject *shape = tpy_shape(tpy_unwrap(result));
        PyObject *resized = shape ? PyObject_CallMethod(out, "resize_", "O", shape) : NULL;
        Py_XDECREF(shape);
        if (resized) done = tpy_call_name("copy_", args, 2, NULL);
        Py_XDECREF(resized);
        if (done && !warn_resized(out, &before)) Py_CLEAR(done);
        Py_XDECREF(before.shape);
    }
    Py_DECREF(result);
    return done;
}

static PyObject *call_out(const tpy_operator *self, const overload *o, tpy_frame *f, PyObject *out,
                          PyTypeObject *named) {
    const tp_operator *op = o->op;
    bool several = PyTuple_Check(out) || PyList_Check(out);
    if (op->nresults == 1 && several && PySequence_Size(out) == 1) {
        PyObject *one = PySequence_GetItem(out, 0), *r = one ? call_out(self, o, f, one, named) : NULL;
        Py_XDECREF(one);
        return r;
    }
    if (op->nresults == 1 && op->invoke_out) {
        if (!tpy_is_tensor(out))
            return PyErr_Format(PyExc_TypeError, "argument 'out' must be Tensor, not %s", Py_TYPE(out)->tp_name);
        bool ok;
        shape_before before = {0, NULL};
        if (!o->factory && !look_at_shape(out, &before)) return NULL;
        TPY_HEAVY(work_of(o, f->values), ok = op->invoke_out(tpy_unwrap(out), f->values));
        if (ok) return warn_resized(out, &before) ? Py_NewRef(out) : NULL;
        Py_XDECREF(before.shape);
        return tpy_raise_in(PyUnicode_AsUTF8(self->name));
    }
    tp_value results[16] = {{0}};
    bool ok;
    TPY_HEAVY(work_of(o, f->values), ok = op->invoke(f->values, results));
    if (!ok) return tpy_raise_in(PyUnicode_AsUTF8(self->name));
    if (op->nresults == 1) return write_out(out, wrap_value(&results[0]));
    PyObject *tuple = wrap_results(op, results, named);
    if (!tuple) return NULL;
    if (!several || PySequence_Size(out) != op->nresults) {
        Py_DECREF(tuple);
        return PyErr_Format(PyExc_TypeError, "argument 'out' must be a tuple of %d tensors", (int)op->nresults);
    }
    PyObject *given = named ? PyStructSequence_New(named) : PyTuple_New(op->nresults);
    for (int i = 0; given && i < op->nresults; i++) {
        PyObject *target = PySequence_GetItem(out, i),
                 *written = target ? write_out(target, Py_NewRef(PyTuple_GET_ITEM(tuple, i))) : NULL;
        Py_XDECREF(target);
        if (!written)
            Py_CLEAR(given);
        else if (named)
            PyStructSequence_SetItem(given, i, written);
        else
            PyTuple_SET_ITEM(given, i, written);
    }
    Py_DECREF(tuple);
    return given;
}

static PyTypeObject *named_of(tpy_operator *self, const tp_operator *op) {
    if (!op->named_tuple) return NULL;
    PyObject *there = PyDict_GetItem(named_types, self->name); /* borrowed; torch.max and Tensor.max share it */
    if (there) return (PyTypeObject *)there;
    PyTypeObject *made = make_named(PyUnicode_AsUTF8(self->name), op);
    if (!made || PyDict_SetItem(named_types, self->name, (PyObject *)made) < 0) return NULL;
    Py_DECREF(made);
    return made;
}

static PyObject *invoke(tpy_operator *self, const overload *o, tpy_frame *f, const extras *x, PyObject *const *args) {
    const tp_operator *op = o->op;
    PyTypeObject *named = named_of(self, op);
    if (PyErr_Occurred()) return NULL;
    if (x->out) return call_out(self, o, f, x->out, named);
    tp_value results[16] = {{0}};
    const bool reshapes = self->inplace && !strcmp(op->kind, "view"); /* x.t_() */
    bool ok;
    if (reshapes) tpy_change_begin();
    TPY_HEAVY(work_of(o, f->values),
              ok = self->inplace ? op->invoke_inplace(f->values, results) : op->invoke(f->values, results));
    if (reshapes) tpy_change_end();
    if (!ok) return tpy_raise_in(PyUnicode_AsUTF8(self->name));
    if (self->inplace && results[0].kind == TP_K_TENSOR && results[0].as.tensor == tpy_unwrap(args[0])) {
        tp_release(results[0].as.tensor);
        return Py_NewRef(args[0]);
    }
    if (x->pin_memory && !(results[0].as.tensor = tpy_pinned(results[0].as.tensor))) return NULL;
    if (x->requires_grad && !tp_set_requires_grad(results[0].as.tensor, true)) {
        tp_release(results[0].as.tensor);
        return tpy_raise();
    }
    return wrap_results(op, results, named);
}

/* The first overload that takes the arguments, in f; tensors are not taken for numbers while another one may want a
 * tensor. NULL with an exception, or without one where none fits: m says why the last does not. */
static const overload *choose(const tpy_operator *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                              tpy_frame *f, extras *x, misfit *m) {
    f->owned = NULL;
    for (int lenient = self->count == 1; lenient < 2; lenient++) {
        f->exact = !lenient;
        for (int i = 0; i < self->count; i++) {
            *x = (extras){0};
            int fits = fit_overload(self, &self->overloads[i], args, n, kwnames, f, x, m);
            if (fits) return fits > 0 ? &self->overloads[i] : NULL;
        }
    }
    return NULL;
}

/* torch.zeros(2, 3, layout=torch.sparse_csr): the library's tensors are strided, taper.sparse makes the others. NULL
 * without an exception: no such call. */
static PyObject *make_sparse(const tpy_operator *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    Py_ssize_t at = kwnames ? PySequence_Index(kwnames, word.layout) : -1;
    if (at < 0 || Py_TYPE(args[n + at]) != tpy_layout_type || tpy_is_strided(args[n + at])) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("taper.sparse._make");
    PyObject *factory = module ? PyObject_GetAttrString(module, "factory") : NULL;
    PyObject *made = NULL,
             **all = factory ? PyMem_Malloc((size_t)(n + PyTuple_GET_SIZE(kwnames) + 1) * sizeof *all) : NULL;
    if (all) {
        all[0] = self->name;
        memcpy(all + 1, args, (size_t)(n + PyTuple_GET_SIZE(kwnames)) * sizeof *all);
        made = PyObject_Vectorcall(factory, all, (size_t)n + 1, kwnames);
    }
    PyMem_Free(all);
    Py_XDECREF(factory);
    Py_XDECREF(module);
    return made;
}

static PyObject *call_operator(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* A number where the operator accepts one for a tensor, as in x.copy_(3.0). NULL without an error: there is none. */
static PyObject *call_with_number(PyObject *callable, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    int64_t k = ((tpy_operator *)callable)->overloads[0].op->accepts_number;
    if (k < 0 || k >= n || n > TPY_MAX_ARGS || kwnames || tpy_is_tensor(args[k]) || !PyNumber_Check(args[k]))
        return NULL;
    tp_tensor *number = tpy_tensor_of(args[k], TP_NO_DTYPE, tp_no_device());
    PyObject *source = number ? tpy_wrap(number) : NULL, *given[TPY_MAX_ARGS];
    if (!source) return NULL;
    memcpy(given, args, (size_t)n * sizeof *args);
    given[k] = source;
    PyObject *made = call_operator(callable, given, (size_t)n, NULL);
    Py_DECREF(source);
    return made;
}

static PyObject *call_operator(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    tpy_operator *self = (tpy_operator *)callable;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (tpy_overridden(args, n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0)))
        return tpy_call_override(callable, args, n, kwnames);
    tpy_frame f;
    extras x;
    misfit m = {0};
    const overload *o = choose(self, args, n, kwnames, &f, &x, &m);
    PyObject *made = o ? invoke(self, o, &f, &x, args) : NULL;
    tpy_frame_end(&f);
    if (o || PyErr_Occurred()) return made;
    if ((made = make_sparse(self, args, n, kwnames)) || PyErr_Occurred()) return made;
    if ((made = call_with_number(callable, args, n, kwnames)) || PyErr_Occurred()) return made;
    tpy_old_call old;
    if (tpy_deprecated_signature(self->overloads[0].op, PyUnicode_AsUTF8(self->name), args, n, kwnames, &old)) {
        PyObject *result = call_operator(callable, old.args, (size_t)old.n, old.kwnames);
        Py_DECREF(old.kwnames);
        return result;
    }
    return PyErr_Occurred() ? NULL : refuse(self, &m, args, n, kwnames);
}

/* ---- Which overload takes a call, and what each of its arguments gets ---- */
static PyObject *bound_arguments(const tpy_operator *self, const overload *o, PyObject *const *args, Py_ssize_t n,
                                 PyObject *kwnames) {
    PyObject *given = PyDict_New();
    Py_ssize_t i = 0;
    for (int position = 0; given && i < n; position++, i++) {
        int k = position;
        if (self->method && o->self) k = position == 0 ? o->self : position <= o->self ? position - 1 : position;
        const tpy_argument *a = &o->args[k];
        bool rest = a->takes_rest && i + 1 < n && !PyTuple_Check(args[i]) && !PyList_Check(args[i]);
        PyObject *value = rest ? PyTuple_New(n - i) : Py_NewRef(args[i]);
        for (Py_ssize_t j = i; rest && value && j < n; j++) PyTuple_SET_ITEM(value, j - i, Py_NewRef(args[j]));
        if (rest) i = n - 1;
        if (!value || PyDict_SetItem(given, a->name, value) < 0) Py_CLEAR(given);
        Py_XDECREF(value);
    }
    for (Py_ssize_t j = 0; given && kwnames && j < PyTuple_GET_SIZE(kwnames); j++) {
        int k = 0;
        while (k < o->nargs && !same_name(&o->args[k], PyTuple_GET_ITEM(kwnames, j), k, self->method)) k++;
        if (PyDict_SetItem(given, k < o->nargs ? o->args[k].name : PyTuple_GET_ITEM(kwnames, j), args[n + j]) < 0)
            Py_CLEAR(given);
    }
    return given;
}

/* _bind(operator, *args, **kwargs): the table's entry that takes the call, as (name, its batch rule, signature,
 * {argument: value}); TypeError as the call itself. */
static PyObject *bind_call(PyObject *module, PyObject *const *all, Py_ssize_t count, PyObject *kwnames) {
    (void)module;
    if (count < 1 || (Py_TYPE(all[0]) != function_type && Py_TYPE(all[0]) != method_type))
        return PyErr_Format(PyExc_TypeError, "_bind(): expected an operator");
    tpy_operator *self = (tpy_operator *)all[0];
    PyObject *const *args = all + 1;
    Py_ssize_t n = count - 1;
    tpy_frame f;
    extras x;
    misfit m = {0};
    const overload *o = choose(self, args, n, kwnames, &f, &x, &m);
    tpy_frame_end(&f);
    if (!o) return PyErr_Occurred() ? NULL : refuse(self, &m, args, n, kwnames);
    PyObject *given = bound_arguments(self, o, args, n, kwnames);
    return given ? Py_BuildValue("(szsN)", o->op->name, o->op->batch, o->op->signature, given) : NULL;
}

PyObject *tpy_invoke(const tp_operator *op, const tp_value *values, bool inplace) {
    tp_value results[16] = {{0}};
    int64_t work = 0;
    for (int64_t i = 0; i < op->nargs; i++) work += values[i].kind == TP_K_TENSOR ? tp_numel(values[i].as.tensor) : 0;
    bool ok;
    TPY_HEAVY(work, ok = inplace ? op->invoke_inplace(values, results) : op->invoke(values, results));
    return ok ? wrap_results(op, results, NULL) : tpy_raise_in(op->name);
}

PyObject *tpy_call_name(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    PyObject *function = PyDict_GetItemString(functions, name); /* borrowed */
    if (!function) return PyErr_Format(PyExc_AttributeError, "there is no operator '%s'", name);
    return PyObject_Vectorcall(function, args, (size_t)n, kwnames);
}

/* ---- The types ---- */
static void operator_dealloc(PyObject *o) {
    tpy_operator *self = (tpy_operator *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_XDECREF(self->name);
    Py_XDECREF(self->module);
    Py_XDECREF(self->doc);
    Py_XDECREF(self->dict);
    type->tp_free(o); /* the overloads are shared by a name's forms and live as long as the module */
    Py_DECREF(type);
}
static int operator_traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(((tpy_operator *)o)->dict);
    Py_VISIT(Py_TYPE(o));
    return 0;
}
static PyObject *operator_repr(PyObject *o) {
    tpy_operator *self = (tpy_operator *)o;
    return self->method ? PyUnicode_FromFormat("<method '%U' of 'torch.Tensor' objects>", self->name)
                        : PyUnicode_FromFormat("<built-in function %U>", self->name);
}
static PyObject *method_bind(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)owner;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}
/* A pickle finds the object by its name here, since the module it names, torch, need not be importable. */
static PyObject *finder; /* taper._C._operator */
static PyObject *find_operator(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *name;
    int method;
    if (!PyArg_ParseTuple(args, "Up:_operator", &name, &method)) return NULL;
    PyObject *found = method ? PyObject_GetAttr((PyObject *)tpy_tensor_type, name)
                             : Py_XNewRef(PyDict_GetItemWithError(functions, name));
    if (!found && !PyErr_Occurred()) PyErr_Format(PyExc_AttributeError, "there is no operator '%U'", name);
    return found;
}
static PyObject *operator_reduce(PyObject *o, PyObject *unused) {
    (void)unused;
    tpy_operator *self = (tpy_operator *)o;
    return Py_BuildValue("O(OO)", finder, self->name, self->method ? Py_True : Py_False);
}
static PyObject *example_of(PyObject *name) { /* what taper._docs has for it; None if nothing */
    PyObject *docs = PyImport_ImportModule("taper._docs"),
             *examples = docs ? PyObject_GetAttrString(docs, "EXAMPLES") : NULL;
    PyObject *example = examples ? Py_XNewRef(PyDict_GetItemWithError(examples, name)) : NULL;
    Py_XDECREF(docs);
    Py_XDECREF(examples);
    return example || PyErr_Occurred() ? example : Py_NewRef(Py_None);
}
/* The docstring: PyTorch's form of the signature, what the table says, and an example for the operators used most. */
static PyObject *operator_doc(PyObject *o, void *unused) {
    (void)unused;
    tpy_operator *self = (tpy_operator *)o;
    if (self->doc) return Py_NewRef(self->doc);
    PyObject *text = PyUnicode_FromString("");
    for (int i = 0; text && i < self->count; i++) {
        const tp_operator *op = self->overloads[i].op;
        const char *signature = strchr(op->signature, '(');
        Py_SETREF(text, PyUnicode_FromFormat("%U%U%s\n", text, self->name, signature ? signature : "()"));
    }
    PyObject *example = text ? example_of(self->name) : NULL;
    if (!example)
        Py_CLEAR(text);
    else if (example == Py_None)
        Py_SETREF(text, PyUnicode_FromFormat("%U\n%s", text, self->overloads[0].op->doc));
    else
        Py_SETREF(text, PyUnicode_FromFormat("%U\n%s\n\n%U\n", text, self->overloads[0].op->doc, example));
    Py_XDECREF(example);
    return text;
}
static int operator_set_doc(PyObject *o, PyObject *value, void *unused) {
    (void)unused;
    Py_XSETREF(((tpy_operator *)o)->doc, Py_XNewRef(value));
    return 0;
}
static PyGetSetDef operator_properties[] = {{"__doc__", operator_doc, operator_set_doc, NULL, NULL},
                                            {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                            {0}};
static PyMethodDef operator_methods[] = {{"__reduce__", operator_reduce, METH_NOARGS, NULL}, {0}};
static PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(tpy_operator, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(tpy_operator, dict), READONLY, NULL},
    {"__name__", T_OBJECT, offsetof(tpy_operator, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(tpy_operator, name), READONLY, NULL},
    {"__module__", T_OBJECT, offsetof(tpy_operator, module), 0, NULL},
    {0}};
#define OPERATOR_SLOTS                                                                                             \
    {Py_tp_dealloc, operator_dealloc}, {Py_tp_traverse, operator_traverse}, {Py_tp_repr, operator_repr},           \
        {Py_tp_call, PyVectorcall_Call}, {Py_tp_getset, operator_properties}, {Py_tp_methods, operator_methods}, { \
        Py_tp_members, operator_members                                                                            \
    }
#define OPERATOR_FLAGS \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION)
/* As a built-in function, it stays what it is in a class; that it can be asked makes inspect.isroutine say yes. */
static PyObject *function_get(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)instance;
    (void)owner;
    return Py_NewRef(self);
}
static PyType_Slot function_slots[] = {OPERATOR_SLOTS, {Py_tp_descr_get, function_get}, {0, NULL}};
static PyType_Slot method_slots[] = {OPERATOR_SLOTS, {Py_tp_descr_get, method_bind}, {0, NULL}};
static PyType_Spec function_spec = {"taper.Function", sizeof(tpy_operator), 0, OPERATOR_FLAGS, function_slots};
static PyType_Spec method_spec = {"taper.Method", sizeof(tpy_operator), 0,
                                  OPERATOR_FLAGS | Py_TPFLAGS_METHOD_DESCRIPTOR, method_slots};

/* ---- Making them all ---- */
static tpy_operator *make_operator(PyTypeObject *type, const char *name, overload *overloads, int count, bool inplace) {
    tpy_operator *o = (tpy_operator *)type->tp_alloc(type, 0);
    if (!o) return NULL;
    o->vectorcall = call_operator;
    o->name = PyUnicode_InternFromString(name);
    o->module = PyUnicode_InternFromString("torch");
    o->overloads = overloads;
    o->count = count;
    o->inplace = inplace;
    o->method = type == method_type;
    if (!o->name || !o->module) Py_CLEAR(o);
    return o;
}

/* One object of a name's: a function in `functions`, or a method in Tensor's dict. */
static bool add_form(PyTypeObject *type, const char *name, overload *overloads, int count, bool inplace) {
    PyObject *made = (PyObject *)make_operator(type, name, overloads, count, inplace);
    bool ok = made && PyDict_SetItemString(type == method_type ? tpy_tensor_type->tp_dict : functions, name, made) == 0;
    Py_XDECREF(made);
    return ok;
}

/* All overloads of one name: registry entries first..last, in order. */
static bool add_name(const char *name, int64_t first, int64_t last) {
    int count = (int)(last - first), inplace = 0, methods = 0;
    overload *all = PyMem_Calloc((size_t)count, sizeof *all), *changing = PyMem_Calloc((size_t)count, sizeof *all),
             *of_tensor = PyMem_Calloc((size_t)count, sizeof *all);
    if (!all || !changing || !of_tensor) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < count; i++) {
        const tp_operator *op = tp_operator_at(first + i);
        if (!read_overload(&all[i], op)) return false;
        if (op->invoke_inplace) changing[inplace++] = all[i];
        if (op->method) of_tensor[methods++] = all[i];
    }
    char changed[128];
    snprintf(changed, sizeof changed, "%s_", name);
    PyObject *there = PyDict_GetItemString(tpy_tensor_type->tp_dict, name); /* x.T and x.real are no methods */
    bool method = methods && !(there && Py_TYPE(there) == &PyGetSetDescr_Type);
    if (!add_form(function_type, name, all, count, false) ||
        (method && !add_form(method_type, name, of_tensor, methods, false)))
        return false;
    return !inplace || (add_form(function_type, changed, changing, inplace, true) &&
                        add_form(method_type, changed, changing, inplace, true));
}

/* The operators of one of PyTorch's namespaces, by the names they have there: a dict for the module's globals. */
static PyObject *namespace(PyObject *module, PyObject *which) {
    (void)module;
    const char *space = PyUnicode_Check(which) ? PyUnicode_AsUTF8(which) : NULL;
    if (!space) return PyErr_Format(PyExc_TypeError, "expected the name of a namespace");
    PyObject *found = PyDict_New(), *name, *object;
    size_t length = strlen(space);
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%s_", space);
    for (Py_ssize_t at = 0; found && PyDict_Next(functions, &at, &name, &object);) {
        tpy_operator *o = (tpy_operator *)object;
        if (o->inplace) continue;
        overload *here = PyMem_Calloc((size_t)o->count, sizeof *here);
        int count = 0;
        for (int i = 0; here && i < o->count; i++) {
            const char *names = o->overloads[i].op->names, *hit = names ? strstr(names, space) : NULL;
            while (hit && ((hit > names && hit[-1] != ' ') || (hit[length] && hit[length] != ' ')))
                hit = strstr(hit + 1, space);
            if (hit) here[count++] = o->overloads[i];
        }
        const char *text = PyUnicode_AsUTF8(name),
                   *plain = strncmp(text, prefix, length + 1) == 0 ? text + length + 1 : text;
        PyObject *function = count == 0          ? NULL
                             : count == o->count ? Py_NewRef(object)
                                                 : (PyObject *)make_operator(function_type, text, here, count, false);
        if (count == 0 || count == o->count) PyMem_Free(here);
        if (!here || (count && (!function || PyDict_SetItemString(found, plain, function) < 0))) Py_CLEAR(found);
        Py_XDECREF(function);
    }
    return found;
}
/* torch.return_types.NAME; None if the operator gives no named results. */
static PyObject *return_type(PyObject *module, PyObject *name) {
    (void)module;
    tpy_operator *o = (tpy_operator *)PyDict_GetItemWithError(functions, name); /* borrowed */
    PyTypeObject *named = NULL;
    for (int i = 0; o && !named && i < o->count; i++) named = named_of(o, o->overloads[i].op);
    if (PyErr_Occurred()) return NULL;
    return Py_NewRef(named ? (PyObject *)named : Py_None);
}
/* "map", "fold", "scan", "view", "compose", "native"; None where no operator has the name. */
static PyObject *operator_kind(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    const tp_operator *op = text ? tp_find_operator(text) : NULL;
    return op ? PyUnicode_FromString(op->kind) : text ? Py_NewRef(Py_None) : NULL;
}
/* Does a call draw random numbers? Of an operator ("bernoulli.p"), or of any overload of a function or method. */
static PyObject *operator_draws(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    const tp_operator *op = tp_find_operator(text);
    if (op) return PyBool_FromLong(op->draws);
    PyObject *callable = PyDict_GetItemWithError(functions, name); /* borrowed */
    if (!callable && !PyErr_Occurred()) callable = PyDict_GetItemWithError(tpy_tensor_type->tp_dict, name);
    if (PyErr_Occurred()) return NULL;
    bool draws = false;
    if (callable && (Py_IS_TYPE(callable, function_type) || Py_IS_TYPE(callable, method_type))) {
        const tpy_operator *o = (tpy_operator *)callable;
        for (int i = 0; i < o->count; i++) draws |= o->overloads[i].op->draws;
    }
    return PyBool_FromLong(draws);
}
/* Whether the sizes of the results depend on values, in the table's words: "", "always", "unless n", "masks indices".
 */
static PyObject *operator_dynamic_shape(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    const tp_operator *op = tp_find_operator(text);
    static const char *const words[] = {"", "always", "unless ", "masks "};
    int64_t how = op ? op->dynamic_shape : TP_DYNAMIC_NEVER;
    bool named = how == TP_DYNAMIC_UNLESS || how == TP_DYNAMIC_MASKS;
    return PyUnicode_FromFormat("%s%s", words[how], named ? op->args[op->dynamic_argument].name : "");
}
/* The names of the arguments whose bits are set. */
static PyObject *argument_names(const tp_operator *op, uint64_t mask) {
    PyObject *names = PyList_New(0);
    for (int64_t i = 0; names && i < op->nargs; i++) {
        if (!(mask >> i & 1)) continue;
        PyObject *name = PyUnicode_FromString(op->args[i].name);
        if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}
/* What the stanza of an operator ("max.dim") says of how its results depend on its arguments, as a dict; docs/tables.md
 * has the words. */
static PyObject *operator_facts(PyObject *module, PyObject *name) {
    (void)module;
    static const char *const elementwise[] = {NULL, "each", "same", "reduced"};
    const char *text = PyUnicode_AsUTF8(name);
    const tp_operator *op = text ? tp_find_operator(text) : NULL;
    if (!op) return text ? PyErr_Format(PyExc_KeyError, "no operator has the name %s", text) : NULL;
    PyObject *draws_by = argument_names(op, op->draws_by);
    if (!draws_by) return NULL;
    return Py_BuildValue("{sssssNszszszszszsz}", "kind", op->kind, "signature", op->signature, "draws_by", draws_by,
                         "batch", op->batch, "elementwise", elementwise[op->elementwise], "linear", op->linear, "along",
                         op->along, "parts", op->parts, "shape_from",
                         op->shape_from < 0 ? NULL : op->args[op->shape_from].name);
}
/* {name: the operator's that it stands for}, for all names that are others' aliases; overloads share their entry. */
static PyObject *operator_aliases(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *found = PyDict_New();
    for (int64_t i = 0; found && i < tp_operator_count(); i++) {
        const tp_operator *op = tp_operator_at(i);
        if (!op->alias) continue;
        PyObject *name = PyUnicode_FromStringAndSize(op->name, (Py_ssize_t)strcspn(op->name, ".")),
                 *of = PyUnicode_FromStringAndSize(op->alias, (Py_ssize_t)strcspn(op->alias, "."));
        if (!name || !of || PyDict_SetItem(found, name, of) < 0) Py_CLEAR(found);
        Py_XDECREF(name);
        Py_XDECREF(of);
    }
    return found;
}
static PyMethodDef namespace_functions[] = {
    {"_operator_aliases", operator_aliases, METH_NOARGS, NULL},
    {"_operator_facts", operator_facts, METH_O, NULL},
    {"_operator_kind", operator_kind, METH_O, NULL},
    {"_operator_draws", operator_draws, METH_O, NULL},
    {"_operator_dynamic_shape", operator_dynamic_shape, METH_O, NULL},
    {"_namespace", namespace, METH_O, NULL},
    {"_return_type", return_type, METH_O, NULL},
    {"_operator", find_operator, METH_VARARGS, NULL},
    {"_bind", (PyCFunction)(void (*)(void))bind_call, METH_FASTCALL | METH_KEYWORDS, NULL},
    {0}};

int tpy_init_operators(PyObject *module) {
    if (tpy_init_numbers() < 0) return -1;
#define WORD(w) \
    if (!(word.w = PyUnicode_InternFromString(#w))) return -1
    WORD(input);
    WORD(self);
    WORD(out);
    WORD(axis);
    WORD(dim);
    WORD(keepdims);
    WORD(keepdim);
    WORD(dims);
    WORD(requires_grad);
    WORD(layout);
    WORD(pin_memory);
    WORD(x1);
    WORD(x2);
    WORD(other);
    WORD(names);
    WORD(x);
    WORD(a);
#undef WORD
    function_type = (PyTypeObject *)PyType_FromSpec(&function_spec);
    method_type = (PyTypeObject *)PyType_FromSpec(&method_spec);
    functions = PyDict_New();
    named_types = PyDict_New();
    if (!function_type || !method_type || !functions || !named_types || PyModule_AddType(module, function_type) < 0 ||
        PyModule_AddType(module, method_type) < 0)
        return -1;
    int64_t total = tp_operator_count();
    for (int64_t i = 0, next; i < total; i = next) {
        const char *name = tp_operator_at(i)->name;
        size_t n = strcspn(name, ".");
        char base[96];
        snprintf(base, sizeof base, "%.*s", (int)n, name);
        for (next = i + 1; next < total; next++) {
            const char *other = tp_operator_at(next)->name;
            if (strncmp(other, name, n) || (other[n] && other[n] != '.')) break;
        }
        if (!add_name(base, i, next)) return -1;
    }
    PyType_Modified(tpy_tensor_type);
    if (PyModule_AddObjectRef(module, "_functions", functions) < 0 ||
        PyModule_AddFunctions(module, namespace_functions) < 0)
        return -1;
    return (finder = PyObject_GetAttrString(module, "_operator")) ? 0 : -1;
}
