/* Python objects as the registry's boxed values: what fits an argument of which type, by PyTorch's rules. A misfit is
 * no error here: the caller tries the next overload. */
#include "tpy.h"

static bool from_numpy_module(PyObject *o) { return strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) == 0; }

/* NumPy's scalar types, told by name so that NumPy need not be there. */
static int fit_numpy_scalar(PyObject *o, tp_scalar *out) {
    const char *name = Py_TYPE(o)->tp_name + 6;
    if (strncmp(name, "bool", 4) == 0) {
        int truth = PyObject_IsTrue(o);
        if (truth < 0) return -1;
        *out = tp_truth(truth);
        return 1;
    }
    if (strncmp(name, "int", 3) == 0 || strncmp(name, "uint", 4) == 0) {
        PyObject *whole = PyNumber_Index(o);
        long long v = whole ? PyLong_AsLongLong(whole) : -1;
        Py_XDECREF(whole);
        if (v == -1 && PyErr_Occurred()) return -1;
        *out = tp_int(v);
        return 1;
    }
    if (strncmp(name, "float", 5) == 0 || strcmp(name, "longdouble") == 0) {
        double v = PyFloat_AsDouble(o);
        if (v == -1 && PyErr_Occurred()) return -1;
        *out = tp_float(v);
        return 1;
    }
    if (strncmp(name, "complex", 7) == 0) {
        Py_complex c = PyComplex_AsCComplex(o);
        if (PyErr_Occurred()) return -1;
        *out = tp_cplx(c.real, c.imag);
        return 1;
    }
    return 0;
}

int tpy_fit_scalar(PyObject *o, tp_scalar *out) {
    if (PyFloat_Check(o)) {
        *out = tp_float(PyFloat_AS_DOUBLE(o));
        return 1;
    }
    if (PyBool_Check(o)) {
        *out = tp_truth(o == Py_True);
        return 1;
    }
    if (PyLong_Check(o)) {
        int overflow;
        long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
        uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
        if (large && !PyErr_Occurred()) {
            *out = tp_uint(large);
            return 1;
        }
        PyErr_Clear();
        if (overflow) { /* beyond 64 bits: as a float, or an error where an int is needed */
            double d = PyLong_AsDouble(o);
            if (d == -1 && PyErr_Occurred()) return -1;
            *out = tp_float(d);
            return 1;
        }
        *out = tp_int(v);
        return v == -1 && PyErr_Occurred() ? -1 : 1;
    }
    if (PyComplex_Check(o)) {
        *out = tp_cplx(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
        return 1;
    }
    if (tpy_is_tensor(o)) {
        tp_tensor *t = tpy_unwrap(o);
        if (tp_numel(t) != 1 || tp_ndim(t) != 0 || (tp_requires_grad(t) && tp_grad_enabled())) return 0;
        *out = tp_item_scalar(t);
        return tpy_int_or_raise(tp_ok(), 1);
    }
    return from_numpy_module(o) ? fit_numpy_scalar(o, out) : 0;
}

int tpy_fit_int(PyObject *o, int64_t *out) {
    if (PyLong_CheckExact(o) || (PyLong_Check(o) && !PyBool_Check(o))) {
        int overflow;
        *out = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) {
            PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long: the integer does not fit 64 bits");
            return -1;
        }
        return 1;
    }
    if (PyBool_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o) || o == Py_None) return 0;
    if (tpy_is_tensor(o)) {
        tp_tensor *t = tpy_unwrap(o);
        if (tp_numel(t) != 1 || !tp_dtype_is_integral(tp_dtype_of(t))) return 0;
        *out = tp_item_int(t);
        return tpy_int_or_raise(tp_ok(), 1);
    }
    if (from_numpy_module(o) && strncmp(Py_TYPE(o)->tp_name + 6, "bool", 4) == 0) return 0;
    if (!PyIndex_Check(o)) return 0;
    PyObject *whole = PyNumber_Index(o);
    if (!whole) {
        PyErr_Clear();
        return 0;
    }
    int fits = PyLong_CheckExact(whole) ? tpy_fit_int(whole, out) : 0;
    Py_DECREF(whole);
    return fits;
}

PyObject *tpy_number(tp_scalar s) {
    switch (s.kind) {
    case TP_SCALAR_BOOL: return PyBool_FromLong(s.as.i != 0);
    case TP_SCALAR_INT: return PyLong_FromLongLong(s.as.i);
    case TP_SCALAR_UINT: return PyLong_FromUnsignedLongLong((uint64_t)s.as.i);
    case TP_SCALAR_FLOAT: return PyFloat_FromDouble(s.as.d[0]);
    case TP_SCALAR_COMPLEX: return PyComplex_FromDoubles(s.as.d[0], s.as.d[1]);
    default: Py_RETURN_NONE;
    }
}

/* ---- A call's memory ---- */
static void free_block(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, NULL)); }

bool tpy_frame_keep(tpy_frame *f, PyObject *o) {
    if (!o) return false;
    if (!f->owned) f->owned = PyList_New(0);
    bool ok = f->owned && PyList_Append(f->owned, o) == 0;
    Py_DECREF(o);
    return ok;
}

void *tpy_frame_alloc(tpy_frame *f, size_t bytes) {
    int words = (int)((bytes + 7) / 8);
    if (bytes <= sizeof f->words && f->used + words <= (int)(sizeof f->words / 8)) {
        void *memory = f->words + f->used;
        f->used += words;
        return memory;
    }
    void *block = PyMem_Malloc(bytes);
    if (!block) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(block, NULL, free_block);
    if (!capsule) {
        PyMem_Free(block);
        return NULL;
    }
    return tpy_frame_keep(f, capsule) ? block : NULL;
}

void tpy_frame_end(tpy_frame *f) { Py_CLEAR(f->owned); }

/* ---- Lists ---- */
/* The items of a list or tuple (or a Size): 1, 0 for anything else, -1 with an exception. Whatever converting an item
 * or another thread does to a list, its items live as long as the call: unless they are plain numbers, they are copied
 * first. */
static int items_of(PyObject *o, PyObject ***items, Py_ssize_t *n, tpy_frame *f) {
    if (PyList_Check(o)) {
        Py_ssize_t plain = 0, size = PyList_GET_SIZE(o);
        while (plain < size &&
               (PyLong_CheckExact(PyList_GET_ITEM(o, plain)) || PyFloat_CheckExact(PyList_GET_ITEM(o, plain))))
            plain++;
        if (plain < size && !tpy_frame_keep(f, o = PyList_AsTuple(o))) return -1;
    } else if (!PyTuple_Check(o))
        return 0;
    *n = PySequence_Fast_GET_SIZE(o);
    *items = PySequence_Fast_ITEMS(o);
    return 1;
}

static int fit_ints(const tpy_argument *a, PyObject *o, tp_value *v, tpy_frame *f) {
    Py_ssize_t n;
    PyObject **items;
    int64_t *list;
    v->kind = TP_K_INTS;
    int many = items_of(o, &items, &n, f);
    if (many < 0) return -1;
    if (!many) {
        int64_t one;
        int fits = tpy_fit_int(o, &one);
        if (fits <= 0) return fits;
        n = a->length ? a->length : 1; /* int[2]: one value serves for all */
        if (!(list = tpy_frame_alloc(f, (size_t)n * sizeof *list))) return -1;
        for (Py_ssize_t i = 0; i < n; i++) list[i] = one;
    } else {
        if (!(list = tpy_frame_alloc(f, (size_t)(n ? n : 1) * sizeof *list))) return -1;
        for (Py_ssize_t i = 0; i < n; i++) {
            int fits = tpy_fit_int(items[i], &list[i]);
            if (fits <= 0) return fits;
        }
    }
    v->as.ints = tp_ints_view(list, n);
    return 1;
}

static int fit_tensors(PyObject *o, bool none_fits, tp_value *v, tpy_frame *f) {
    Py_ssize_t n;
    PyObject **items;
    int many = items_of(o, &items, &n, f);
    if (many <= 0) return many;
    tp_tensor **list = tpy_frame_alloc(f, (size_t)(n ? n : 1) * sizeof *list);
    if (!list) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (tpy_is_tensor(items[i]))
            list[i] = tpy_unwrap(items[i]);
        else if (none_fits && items[i] == Py_None)
            list[i] = NULL;
        else
            return 0;
    }
    v->kind = TP_K_TENSORS;
    v->as.tensors = (tp_tensors){list, n};
    return 1;
}

static int fit_real(PyObject *o, tp_scalar *out) {
    if (PyBool_Check(o)) { /* an int to Python, and so a float to PyTorch */
        *out = tp_float(o == Py_True);
        return 1;
    }
    int fits = tpy_fit_scalar(o, out);
    return fits > 0 && (out->kind == TP_SCALAR_COMPLEX || out->kind == TP_SCALAR_BOOL) ? 0 : fits;
}

static int fit_floats(PyObject *o, tp_value *v, tpy_frame *f) {
    Py_ssize_t n = 1;
    PyObject **items = &o; /* one number is a list of one */
    if (items_of(o, &items, &n, f) < 0) return -1;
    double *list = tpy_frame_alloc(f, (size_t)(n ? n : 1) * sizeof *list);
    if (!list) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        tp_scalar s;
        int fits = fit_real(items[i], &s);
        if (fits <= 0) return fits;
        list[i] = tp_scalar_to_double(s);
    }
    v->kind = TP_K_FLOATS;
    v->as.floats = (tp_floats){list, n};
    return 1;
}

static int fit_scalars(PyObject *o, tp_value *v, tpy_frame *f) {
    Py_ssize_t n;
    PyObject **items;
    int many = items_of(o, &items, &n, f);
    if (many <= 0) return many;
    tp_scalar *list = tpy_frame_alloc(f, (size_t)(n ? n : 1) * sizeof *list);
    if (!list) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int fits = tpy_fit_scalar(items[i], &list[i]);
        if (fits <= 0) return fits;
    }
    v->kind = TP_K_SCALARS;
    v->as.scalars = (tp_scalars){list, n};
    return 1;
}

static int fit_text(PyObject *o, tp_value *v) {
    if (!PyUnicode_Check(o)) return 0;
    v->kind = TP_K_STRING;
    v->as.string = PyUnicode_AsUTF8(o);
    return v->as.string ? 1 : -1;
}

static int fit_bool(PyObject *o, tp_scalar *out) {
    if (PyBool_Check(o)) {
        *out = tp_truth(o == Py_True);
        return 1;
    }
    if (!from_numpy_module(o) || strncmp(Py_TYPE(o)->tp_name + 6, "bool", 4)) return 0;
    return fit_numpy_scalar(o, out);
}

int tpy_fit(const tpy_argument *a, PyObject *o, tp_value *v, tpy_frame *f) {
    v->name = NULL;
    v->kind = TP_K_NONE;
    if (o == Py_None) return a->none_fits;
    if (f->exact && a->kind != TPY_TENSOR && a->kind != TPY_OPERAND && tpy_is_tensor(o)) return 0;
    int fits;
    switch ((enum tpy_kind)a->kind) {
    case TPY_TENSOR:
    case TPY_OPERAND:
        if (tpy_is_tensor(o)) {
            v->kind = TP_K_TENSOR;
            v->as.tensor = tpy_unwrap(o);
            return 1;
        }
        if (a->kind == TPY_TENSOR) return 0;
        /* fall through */
    case TPY_SCALAR: v->kind = TP_K_SCALAR; return tpy_fit_scalar(o, &v->as.scalar);
    case TPY_INT:
        v->kind = TP_K_SCALAR;
        v->as.scalar = tp_int(0);
        return tpy_fit_int(o, &v->as.scalar.as.i);
    case TPY_FLOAT: v->kind = TP_K_SCALAR; return fit_real(o, &v->as.scalar);
    case TPY_BOOL: v->kind = TP_K_SCALAR; return fit_bool(o, &v->as.scalar);
    case TPY_INTS: return fit_ints(a, o, v, f);
    case TPY_TENSORS: return fit_tensors(o, a->length != 0, v, f);
    case TPY_STRING: return fit_text(o, v);
    case TPY_DTYPE: v->kind = TP_K_DTYPE; return tpy_fit_dtype(o, &v->as.dtype);
    case TPY_DEVICE: v->kind = TP_K_DEVICE; return tpy_fit_device(o, &v->as.device);
    case TPY_LAYOUT:
        if (Py_TYPE(o) != tpy_memory_format_type) return 0;
        v->kind = TP_K_LAYOUT;
        v->as.layout = ((tpy_memory_format *)o)->layout;
        return 1;
    case TPY_GENERATOR:
        v->kind = TP_K_GENERATOR;
        fits = Py_TYPE(o) == tpy_generator_type;
        if (fits) v->as.generator = tpy_generator_of(o);
        return fits;
    case TPY_FLOATS: return fit_floats(o, v, f);
    case TPY_SCALARS: return fit_scalars(o, v, f);
    case TPY_BOOLS: return 0;
    }
    return 0;
}
