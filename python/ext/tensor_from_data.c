/* torch.tensor and torch.as_tensor: tensors from Python's data. Nested sequences are read three times: for the dtype,
 * for the shape (along the first items, as PyTorch does) and to store the elements straight into the new tensor's
 * memory. */
#include "tpy.h"
#include <math.h>

#define TOO_DEEP "too many dimensions '%s'"

/* ---- What fills one element ---- */
static bool is_leaf(PyObject *o) {
    return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) || tpy_is_tensor(o) ||
           tpy_numpy_scalar_dtype(o) != TP_NO_DTYPE;
}
static bool is_text(PyObject *o) { return PyUnicode_Check(o) || PyBytes_Check(o); }
static int array_ndim(PyObject *array) {
    Py_buffer b;
    if (PyObject_GetBuffer(array, &b, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        return -1;
    }
    int ndim = b.ndim;
    PyBuffer_Release(&b);
    return ndim;
}
static bool is_nested(PyObject *o) {
    return !is_leaf(o) && PySequence_Check(o) && !(tpy_is_ndarray(o) && array_ndim(o) == 0);
}

/* ---- The dtype ---- */
static tp_dtype complex_default(void) { return tp_dtype_to_complex(tp_default_dtype()); }

tp_dtype tpy_wide_dtype(tp_dtype dtype) {
    if (tp_dtype_is_complex(dtype)) return dtype == TP_COMPLEX128 ? dtype : TP_COMPLEX64;
    return tp_dtype_is_floating(dtype) && dtype != TP_FLOAT64 ? TP_FLOAT32 : dtype;
}

static tp_dtype infer(PyObject *o, int depth); /* TP_NO_DTYPE with an exception */

static tp_dtype infer_items(PyObject *o, int depth) {
    if (depth > 128) {
        PyErr_Format(PyExc_ValueError, TOO_DEEP, Py_TYPE(o)->tp_name);
        return TP_NO_DTYPE;
    }
    PyObject *items = PySequence_Fast(o, "not a sequence");
    if (!items) return TP_NO_DTYPE;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    tp_dtype found = n ? TP_NO_DTYPE : tp_default_dtype();
    for (Py_ssize_t i = 0; i < n && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i)); /* looking at one may change the list */
        tp_dtype d = TP_NO_DTYPE;
        if (item == o)
            PyErr_SetString(PyExc_TypeError, "new(): self-referential lists are incompatible");
        else if (i && PyUnicode_Check(item))
            PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(item)->tp_name);
        else if (PyUnicode_Check(item))
            PyErr_Format(PyExc_ValueError, TOO_DEEP, Py_TYPE(item)->tp_name);
        else
            d = infer(item, depth + 1);
        Py_DECREF(item);
        if (!d) {
            Py_DECREF(items);
            return TP_NO_DTYPE;
        }
        found = found ? tp_promote_types(found, d) : d;
        if (!found) {
            tpy_raise();
            break;
        }
        if (found == TP_COMPLEX128) break;
    }
    Py_DECREF(items);
    return found;
}

static tp_dtype infer(PyObject *o, int depth) {
    tp_dtype numpy = tpy_numpy_scalar_dtype(o); /* first: numpy.float64 is a float too */
    if (numpy) return numpy;
    if (PyFloat_Check(o)) return tp_default_dtype();
    if (PyBool_Check(o)) return TP_BOOL;
    if (PyLong_Check(o)) return TP_INT64;
    if (PyComplex_Check(o)) return complex_default();
    if (tpy_is_tensor(o)) return tp_dtype_of(tpy_unwrap(o));
    if (is_text(o)) {
        PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
        return TP_NO_DTYPE;
    }
    if (tpy_is_ndarray(o)) return tpy_array_dtype(o);
    if (PySequence_Check(o)) return infer_items(o, depth);
    if (strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) == 0 && PyObject_HasAttrString(o, "dtype"))
        return tpy_array_dtype(o); /* a scalar of another dtype: says so */
    PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(o)->tp_name);
    return TP_NO_DTYPE;
}

/* ---- The shape, along the first items ---- */
static int read_shape(PyObject *o, int64_t *shape) { /* the number of dims; -1 with an exception */
    int ndim = 0;
    Py_INCREF(o);
    while (is_nested(o)) {
        Py_ssize_t n = PySequence_Size(o);
        PyObject *first = NULL;
        if (n >= 0 && ndim == TP_MAX_DIMS)
            PyErr_Format(PyExc_ValueError, TOO_DEEP, Py_TYPE(o)->tp_name);
        else if (n >= 0) {
            shape[ndim++] = n;
            if (n == 0) break;
            if (!(first = PySequence_GetItem(o, 0)) && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
                PyErr_Clear();
                PyErr_Format(PyExc_ValueError, "could not determine the shape of object type '%s'",
                             Py_TYPE(o)->tp_name);
            }
        }
        Py_SETREF(o, first);
        if (!o) return -1;
    }
    bool text = is_text(o);
    if (text) PyErr_Format(PyExc_ValueError, TOO_DEEP, Py_TYPE(o)->tp_name);
    Py_DECREF(o);
    return text ? -1 : ndim;
}

/* ---- The elements ---- */
typedef struct filling {
    tp_dtype dtype; /* of the memory: never half, float8 and the like, which are filled as float or complex64 and
                       converted after */
    tp_dtype wanted;
    int ndim;
    int64_t shape[TP_MAX_DIMS], item, inner[TP_MAX_DIMS]; /* inner: bytes of one item of each dim */
    bool warned;
} filling;

static bool overflow(tp_dtype dtype) {
    PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", tp_dtype_name(dtype));
    return false;
}

static bool store_integer(tp_dtype dtype, char *to, int64_t v) {
    static const int64_t largest[] = {
        [TP_UINT8] = 255,       [TP_INT8] = INT8_MAX,     [TP_INT16] = INT16_MAX,  [TP_INT32] = INT32_MAX,
        [TP_INT64] = INT64_MAX, [TP_UINT16] = UINT16_MAX, [TP_UINT32] = UINT32_MAX};
    bool wraps = dtype == TP_UINT8 || dtype == TP_UINT16 || dtype == TP_UINT32; /* negative numbers do, as PyTorch's */
    if (v > largest[dtype] || v < -largest[dtype] - !wraps) return overflow(dtype);
    switch (dtype) {
    case TP_UINT16: *(uint16_t *)to = (uint16_t)v; return true;
    case TP_UINT32: *(uint32_t *)to = (uint32_t)v; return true;
    case TP_UINT8: *(uint8_t *)to = (uint8_t)v; return true;
    case TP_INT8: *(int8_t *)to = (int8_t)v; return true;
    case TP_INT16: *(int16_t *)to = (int16_t)v; return true;
    case TP_INT32: *(int32_t *)to = (int32_t)v; return true;
    default: *(int64_t *)to = v; return true;
    }
}

static bool read_integer(PyObject *o, tp_dtype dtype, int64_t *v) {
    if (PyFloat_Check(o)) {
        double d = PyFloat_AS_DOUBLE(o);
        if (!(d > -9223372036854777856.0 && d < 9223372036854775808.0)) return overflow(dtype);
        *v = (int64_t)d;
        return true;
    }
    PyObject *whole = PyLong_Check(o) ? Py_NewRef(o) : PyNumber_Index(o);
    if (!whole) return false;
    int beyond;
    *v = PyLong_AsLongLongAndOverflow(whole, &beyond);
    Py_DECREF(whole);
    if (beyond) PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    return !beyond && !(*v == -1 && PyErr_Occurred());
}

static bool store_uint64(char *to, PyObject *o) {
    PyObject *whole = PyLong_Check(o) ? Py_NewRef(o) : PyNumber_Index(o);
    if (!whole) {
        PyErr_SetString(PyExc_TypeError, "an integer is required");
        return false;
    }
    uint64_t v = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (v == (uint64_t)-1 && PyErr_Occurred()) return false;
    memcpy(to, &v, sizeof v);
    return true;
}

static bool store_complex(tp_dtype dtype, char *to, Py_complex c) {
    if (dtype == TP_COMPLEX64) {
        ((float *)to)[0] = (float)c.real;
        ((float *)to)[1] = (float)c.imag;
    } else {
        ((double *)to)[0] = c.real;
        ((double *)to)[1] = c.imag;
    }
    return true;
}

static bool store_number(tp_dtype dtype, char *to, PyObject *o) {
    if (dtype == TP_FLOAT32 || dtype == TP_FLOAT64) {
        double d = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : PyFloat_AsDouble(o);
        if (d == -1 && PyErr_Occurred()) return false;
        if (dtype == TP_FLOAT32)
            *(float *)to = (float)d;
        else
            *(double *)to = d;
        return true;
    }
    if (dtype == TP_BOOL) {
        int truth = PyObject_IsTrue(o);
        *(uint8_t *)to = truth > 0;
        return truth >= 0;
    }
    if (tp_dtype_is_complex(dtype)) {
        Py_complex c = PyComplex_AsCComplex(o);
        return !PyErr_Occurred() && store_complex(dtype, to, c);
    }
    if (dtype == TP_UINT64) return store_uint64(to, o);
    int64_t v;
    return read_integer(o, dtype, &v) && store_integer(dtype, to, v);
}

static bool store_tensor(filling *f, char *to, PyObject *o) { /* one element: what item() gives */
    tp_tensor *t = tpy_unwrap(o);
    if (tp_numel(t) != 1) {
        PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
        return false;
    }
    if (tp_requires_grad(t) && !f->warned) {
        f->warned = true;
        if (PyErr_WarnEx(PyExc_UserWarning,
                         "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                         "behavior.\nConsider using tensor.detach() first.",
                         1) < 0)
            return false;
    }
    tp_scalar s = tp_item_scalar(t);
    PyObject *number = tp_ok() ? tpy_number(s) : tpy_raise();
    bool ok = number && store_number(f->dtype, to, number);
    Py_XDECREF(number);
    return ok;
}

/* An array of the very shape that is missing is copied as a whole. 1: done; 0: not such an array; -1: exception. */
static int store_array(filling *f, int dim, PyObject *array, char *to) {
    tp_tensor *t = tpy_over_array(array, false);
    if (!t) { /* reversed, or of another byte order: element by element */
        PyErr_Clear();
        return 0;
    }
    tp_ints shape = tp_shape(t);
    bool same = shape.n == f->ndim - dim && tp_can_cast(tp_dtype_of(t), f->dtype);
    for (int64_t i = 0; same && i < shape.n; i++) same = shape.v[i] == f->shape[dim + i];
    int done = 0;
    if (same) {
        tp_tensor *cast = tpy_own(tp_to(t, .dtype = f->dtype));
        done = tpy_int_or_raise(cast && tp_copy_out(cast, to, (size_t)(tp_numel(cast) * f->item)), 1);
        tp_release(cast);
    }
    tp_release(t);
    return done;
}

static bool warn_of_arrays(void) { /* once */
    static bool told;
    if (told) return true;
    told = true;
    return PyErr_WarnEx(PyExc_UserWarning,
                        "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting "
                        "the list to a single numpy.ndarray with numpy.array() before converting to a tensor.",
                        1) == 0;
}

static bool store(filling *f, int dim, PyObject *o, char *to) {
    if (tpy_is_ndarray(o)) {
        tp_capture_break("a tensor is made from an array");
        if (dim && !warn_of_arrays()) return false;
        int done = store_array(f, dim, o, to);
        if (done) return done > 0;
    }
    if (dim == f->ndim) return tpy_is_tensor(o) ? store_tensor(f, to, o) : store_number(f->dtype, to, o);
    if (is_leaf(o) || is_text(o)) {
        PyErr_SetString(PyExc_TypeError, "not a sequence");
        return false;
    }
    PyObject *items = PySequence_Fast(o, "not a sequence");
    if (!items) return false;
    bool ok = PySequence_Fast_GET_SIZE(items) == f->shape[dim];
    if (!ok)
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)", (long long)f->shape[dim],
                     dim, PySequence_Fast_GET_SIZE(items));
    for (Py_ssize_t i = 0; ok && i < f->shape[dim] && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i)); /* converting one may change the list */
        ok = store(f, dim + 1, item, to + i * f->inner[dim]);
        Py_DECREF(item);
    }
    if (ok && PySequence_Fast_GET_SIZE(items) != f->shape[dim]) {
        PyErr_SetString(PyExc_RuntimeError, "a sequence changed its length while its items were read");
        ok = false;
    }
    Py_DECREF(items);
    return ok;
}

/* torch.tensor of a storage looks at it. The dtype, if none is given, is that of its items as Python numbers. */
static tp_tensor *over_memory(PyObject *o, tp_storage *memory, tp_dtype dtype) {
    if (!dtype) {
        PyObject *items = PySequence_List(o);
        dtype = items ? infer(items, 0) : TP_NO_DTYPE;
        Py_XDECREF(items);
    }
    return dtype && tpy_storage_holds(o, dtype, false) ? tpy_over_storage(memory, dtype) : NULL;
}

static tp_tensor *from_sequence(PyObject *o, tp_dtype dtype) {
    tp_storage *storage =
        PyList_Check(o) || PyTuple_Check(o) || is_leaf(o) || tpy_is_ndarray(o) ? NULL : tpy_storage_in(o);
    if (storage) return over_memory(o, storage, dtype);
    filling f = {.wanted = dtype ? dtype : infer(o, 0)};
    if (!f.wanted) return NULL;
    if (!tp_dtype_has_values(f.wanted))
        return (tp_tensor *)PyErr_Format(PyExc_RuntimeError, "store_scalar: invalid type");
    f.dtype = tpy_wide_dtype(f.wanted);
    f.item = tp_dtype_size(f.dtype);
    if ((f.ndim = read_shape(o, f.shape)) < 0) return NULL;
    int64_t bytes = f.item;
    for (int i = f.ndim - 1; i >= 0; i--) {
        f.inner[i] = bytes;
        if (__builtin_mul_overflow(bytes, f.shape[i], &bytes)) return (tp_tensor *)PyErr_NoMemory();
    }
    tp_tensor *t = tpy_own(tp_new(tp_ints_view(f.shape, f.ndim), f.dtype));
    if (!t) return (tp_tensor *)tpy_raise();
    if (!store(&f, 0, o, tp_data(t))) {
        tp_release(t);
        return NULL;
    }
    tp_capture_constant(t);
    if (f.dtype == f.wanted) return t;
    tp_tensor *narrow = tpy_own(tp_to(t, .dtype = f.wanted));
    tp_release(t);
    return narrow ? narrow : (tp_tensor *)tpy_raise();
}

/* ---- torch.tensor ---- */
/* t in the wanted dtype and on the wanted device; takes t over. */
static tp_tensor *moved(tp_tensor *t, tp_dtype dtype, tp_device device, bool copy) {
    if (!t || (!copy && (!dtype || dtype == tp_dtype_of(t)) && device.type == TP_DEVICE_NONE)) return t;
    tp_tensor *other;
    TPY_HEAVY(tp_numel(t), other = tp_to(t, .dtype = dtype, .device = device, .copy = copy));
    tpy_own(other);
    tp_release(t);
    return other ? other : (tp_tensor *)tpy_raise();
}

/* A tensor over the memory of another library's array, by DLPack. */
static tp_tensor *over_dlpack(PyObject *array) {
    PyObject *module = PyImport_ImportModule("taper._dlpack"),
             *o = module ? PyObject_CallMethod(module, "from_dlpack", "O", array) : NULL;
    tp_tensor *t = o ? tp_retain(tpy_unwrap(o)) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(o);
    return t;
}

tp_tensor *tpy_tensor_of(PyObject *data, tp_dtype dtype, tp_device device) {
    if (tpy_is_tensor(data)) return moved(tpy_own(tp_detach(tpy_unwrap(data))), dtype, device, true);
    if (tpy_is_ndarray(data)) {
        tp_capture_break("a tensor is made from an array");
        tp_tensor *t = tpy_over_array(data, false);
        return t ? moved(t, dtype, device, true) : NULL;
    }
    if (!is_leaf(data) && !PyList_CheckExact(data) && !PyTuple_CheckExact(data) &&
        PyObject_HasAttrString(data, "__dlpack__"))
        return moved(over_dlpack(data), dtype, device, true);
    return moved(from_sequence(data, dtype), TP_NO_DTYPE, device, false);
}

typedef struct tensor_arguments {
    PyObject *data;
    tp_dtype dtype;
    tp_device device;
    bool requires_grad, pin_memory;
} tensor_arguments;

static bool read_flag(const char *function, const char *name, PyObject *o, bool *flag) {
    if (o != Py_None && !PyBool_Check(o)) {
        PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be bool, not %s", function, name, Py_TYPE(o)->tp_name);
        return false;
    }
    *flag = o == Py_True;
    return true;
}

static bool read_arguments(const char *function, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, bool flags,
                           tensor_arguments *a) {
    if (n > 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes 1 positional argument but %zd were given", function, n);
        return false;
    }
    a->data = n ? args[0] : NULL;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *key = PyTuple_GET_ITEM(kwnames, i), *value = args[n + i];
        const char *name = PyUnicode_AsUTF8(key);
        if (!name) return false;
        int fits = 1;
        if (strcmp(name, "data") == 0 && !a->data)
            a->data = value;
        else if (strcmp(name, "data") == 0) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument 'data'", function);
            return false;
        } else if (strcmp(name, "dtype") == 0)
            fits = value == Py_None ? 1 : tpy_fit_dtype(value, &a->dtype);
        else if (strcmp(name, "device") == 0)
            fits = value == Py_None ? 1 : tpy_fit_device(value, &a->device);
        else if (flags && strcmp(name, "requires_grad") == 0)
            fits = read_flag(function, name, value, &a->requires_grad) ? 1 : -1;
        else if (flags && strcmp(name, "pin_memory") == 0)
            fits = read_flag(function, name, value, &a->pin_memory) ? 1 : -1;
        else {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", function, name);
            return false;
        }
        if (fits < 0) return false;
        if (!fits) {
            PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be torch.%s, not %s", function, name, name,
                         Py_TYPE(value)->tp_name);
            return false;
        }
    }
    if (!a->data) {
        PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"data\"", function);
        return false;
    }
    return true;
}

int tpy_warn_copy_construct(void) {
    return PyErr_WarnEx(PyExc_UserWarning,
                        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                        "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
                        1);
}

/* The default device where none is named, even for what is on another one; the CPU as a default moves nothing. */
static tp_device named_or_default(tp_device device) {
    tp_device standard = tp_default_device();
    return device.type == TP_DEVICE_NONE && standard.type != TP_CPU ? standard : device;
}

static PyObject *make_tensor(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    (void)module;
    tensor_arguments a = {0};
    if (!read_arguments("tensor", args, n, kwnames, true, &a)) return NULL;
    if (tpy_is_tensor(a.data) && tpy_warn_copy_construct() < 0) return NULL;
    tp_tensor *t = tpy_tensor_of(a.data, a.dtype, a.pin_memory ? a.device : named_or_default(a.device));
    if (t && a.pin_memory) t = tpy_pinned(t);
    if (!t) return NULL;
    if (a.requires_grad && !tp_set_requires_grad(t, true)) {
        tp_release(t);
        return tpy_raise();
    }
    return tpy_lifted(tpy_wrap(t));
}

static PyObject *as_tensor(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    (void)module;
    tensor_arguments a = {0};
    if (!read_arguments("as_tensor", args, n, kwnames, false, &a)) return NULL;
    a.device = named_or_default(a.device);
    tp_tensor *t;
    if (tpy_is_tensor(a.data)) {
        t = tp_retain(tpy_unwrap(a.data));
        if (a.device.type != TP_DEVICE_NONE && a.device.type == tp_device_of(t).type &&
            a.device.index == tp_device_of(t).index)
            a.device = tp_no_device();
    } else
        t = tpy_is_ndarray(a.data) ? tpy_over_array(a.data, true) : from_sequence(a.data, a.dtype);
    t = moved(t, a.dtype, a.device, false);
    return t ? tpy_wrap(t) : NULL;
}

static PyMethodDef functions[] = {
    {"tensor", (PyCFunction)(void (*)(void))make_tensor, METH_FASTCALL | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False): a tensor with a copy of data."},
    {"as_tensor", (PyCFunction)(void (*)(void))as_tensor, METH_FASTCALL | METH_KEYWORDS,
     "as_tensor(data, dtype=None, device=None): data as a tensor, sharing its memory where that is possible."},
    {0}};

int tpy_init_make(PyObject *module) { return PyModule_AddFunctions(module, functions); }
