/* Memory shared with NumPy and with everything that speaks Python's buffer protocol, in both directions and without a
 * copy. NumPy is met through that protocol alone: nothing here is compiled against it, and it is imported at the first
 * call that needs it.
 *
 * What is shared stays alive on both sides: a tensor over somebody's buffer holds the buffer, an exported buffer holds
 * the tensor's memory.
 */
#include "tpy.h"

/* ---- Formats: the struct module's letters ---- */
static const char *const formats[TP_DTYPE_COUNT] = {
    [TP_BOOL] = "?",        [TP_UINT8] = "B",   [TP_INT8] = "b",    [TP_INT16] = "h",   [TP_INT32] = "i",
    [TP_INT64] = "l",       [TP_FLOAT16] = "e", [TP_FLOAT32] = "f", [TP_FLOAT64] = "d", [TP_COMPLEX64] = "Zf",
    [TP_COMPLEX128] = "Zd", [TP_UINT16] = "H",  [TP_UINT32] = "I",  [TP_UINT64] = "L"};

static tp_dtype whole_dtype(Py_ssize_t itemsize, bool is_signed) {
    switch (itemsize) {
    case 1: return is_signed ? TP_INT8 : TP_UINT8;
    case 2: return is_signed ? TP_INT16 : TP_UINT16;
    case 4: return is_signed ? TP_INT32 : TP_UINT32;
    default: return is_signed ? TP_INT64 : TP_UINT64;
    }
}

/* The dtype of a buffer's elements, TP_NO_DTYPE if there is none. A format may begin with the byte order. */
static tp_dtype dtype_of_format(const char *format, Py_ssize_t itemsize) {
    if (!format) return itemsize == 1 ? TP_UINT8 : TP_NO_DTYPE;
    if (strchr("@=<>!", *format)) format++;
    if (format[0] == 'Z') return format[1] == 'f' ? TP_COMPLEX64 : format[1] == 'd' ? TP_COMPLEX128 : TP_NO_DTYPE;
    if (!format[0] || format[1]) return TP_NO_DTYPE;
    if (strchr("bhilqn", format[0])) return whole_dtype(itemsize, true);
    if (strchr("BHILQN", format[0])) return whole_dtype(itemsize, false);
    for (int d = TP_BOOL; d < TP_DTYPE_COUNT; d++)
        if (formats[d] && formats[d][0] == format[0] && tp_dtype_size((tp_dtype)d) == itemsize) return (tp_dtype)d;
    return format[0] == 'c' ? TP_UINT8 : TP_NO_DTYPE;
}

/* ---- NumPy, when it is there ---- */
static PyObject *numpy_name(const char *name) { /* numpy.name, looked up once; borrowed */
    static struct {
        const char *name;
        PyObject *object;
    } known[4];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].name && strcmp(known[i].name, name)) continue;
        if (known[i].object) return known[i].object;
        PyObject *module = PyImport_ImportModule("numpy");
        if (!module) return PyErr_Format(PyExc_RuntimeError, "Numpy is not available");
        known[i].object = PyObject_GetAttrString(module, name);
        known[i].name = known[i].object ? name : NULL;
        Py_DECREF(module);
        return known[i].object;
    }
    return PyErr_Format(PyExc_SystemError, "no room for another name of NumPy's");
}

bool tpy_is_ndarray(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (strcmp(type->tp_name, "numpy.ndarray") == 0) return true;
    if (!PyObject_CheckBuffer(o) || PyBytes_Check(o) || PyByteArray_Check(o) || PyMemoryView_Check(o) ||
        tpy_is_tensor(o))
        return false;
    for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro);
         i++) /* a subclass, such as numpy.memmap */
        if (strcmp(((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i))->tp_name, "numpy.ndarray") == 0) return true;
    return false;
}

tp_dtype tpy_numpy_scalar_dtype(PyObject *o) {
    static const struct {
        const char *name;
        tp_dtype dtype;
    } names[] = {
        {"float64", TP_FLOAT64}, {"float32", TP_FLOAT32},  {"int64", TP_INT64},         {"int32", TP_INT32},
        {"bool", TP_BOOL},       {"bool_", TP_BOOL},       {"uint8", TP_UINT8},         {"int8", TP_INT8},
        {"int16", TP_INT16},     {"float16", TP_FLOAT16},  {"complex64", TP_COMPLEX64}, {"complex128", TP_COMPLEX128},
        {"longlong", TP_INT64},  {"intc", TP_INT32},       {"uint16", TP_UINT16},       {"uint32", TP_UINT32},
        {"uint64", TP_UINT64},   {"ulonglong", TP_UINT64}, {"uintc", TP_UINT32}};
    const char *name = Py_TYPE(o)->tp_name;
    if (strncmp(name, "numpy.", 6)) return TP_NO_DTYPE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name + 6, names[i].name) == 0) return names[i].dtype;
    return TP_NO_DTYPE;
}

/* ---- Tensors over buffers ---- */
/* Lets a buffer go, from whatever thread gave the last tensor back. After the interpreter's end there is nothing left
 * to tell. */
static void let_go(void *context) {
    Py_buffer *b = context;
    if (!PyGILState_Check() && !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(b);
    PyMem_Free(b);
    PyGILState_Release(state);
}

static PyObject *refuse_array(PyObject *array) {
    PyObject *dtype = PyObject_GetAttrString(array, "dtype"),
             *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
    Py_XDECREF(dtype);
    if (!type) return NULL;
    PyErr_Format(PyExc_TypeError,
                 "can't convert np.ndarray of type %s. The only supported types are: float64, float32, float16, "
                 "complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.",
                 PyType_Check(type) ? ((PyTypeObject *)type)->tp_name : "unknown");
    Py_DECREF(type);
    return NULL;
}

static bool native_order(PyObject *array) {
    PyObject *dtype = PyObject_GetAttrString(array, "dtype"),
             *native = dtype ? PyObject_GetAttrString(dtype, "isnative") : NULL;
    bool yes = native == Py_True;
    Py_XDECREF(dtype);
    Py_XDECREF(native);
    return yes;
}

/* Bytes to elements; a buffer's stride must be a whole number of elements and not negative. */
static bool read_strides(const Py_buffer *b, int64_t *strides) {
    for (int i = 0; i < b->ndim; i++) {
        if (b->strides[i] < 0) {
            PyErr_SetString(PyExc_ValueError, "At least one stride in the given numpy array is negative, and tensors "
                                              "with negative strides are not currently supported. (You can probably "
                                              "work around this by making a copy of your array  with array.copy().) ");
            return false;
        }
        if (b->strides[i] % b->itemsize && b->shape[i] > 1) {
            PyErr_SetString(PyExc_ValueError, "given numpy array strides not a multiple of the element byte size. Copy "
                                              "the numpy array to reallocate the memory.");
            return false;
        }
        strides[i] = b->strides[i] / b->itemsize;
    }
    return true;
}

static bool warn_read_only(const Py_buffer *b, const char *kind, const char *short_kind) {
    return !b->readonly ||
           PyErr_WarnFormat(
               PyExc_UserWarning, 1,
               "The given %s is not writable, and PyTorch does not support non-writable tensors. This means "
               "writing to this tensor will result in undefined behavior. You may want to copy the %s to "
               "protect its data or make it writable before converting it to a tensor.",
               kind, short_kind) == 0;
}

static tp_tensor *over_buffer(PyObject *array, Py_buffer *b) { /* takes b over when it succeeds */
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    if (!native_order(array)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError,
                            "given numpy array has byte order different from the native byte order. Conversion between "
                            "byte orders is currently not supported.");
        return NULL;
    }
    tp_dtype dtype = dtype_of_format(b->format, b->itemsize);
    if (!dtype) return (tp_tensor *)refuse_array(array);
    if (b->ndim > TP_MAX_DIMS)
        return (tp_tensor *)PyErr_Format(PyExc_ValueError, "expected at most %d dimensions, got %d", TP_MAX_DIMS,
                                         b->ndim);
    if (!read_strides(b, strides)) return NULL;
    for (int i = 0; i < b->ndim; i++) shape[i] = b->shape[i];
    tp_tensor *t = tp_over_data(b->buf, dtype, tp_ints_view(shape, b->ndim), tp_ints_view(strides, b->ndim), let_go, b);
    return t ? tpy_own(t) : (tp_tensor *)tpy_raise();
}

tp_tensor *tpy_over_array(PyObject *array, bool warn) {
    Py_buffer *b = PyMem_Malloc(sizeof *b);
    if (!b) return (tp_tensor *)PyErr_NoMemory();
    if (PyObject_GetBuffer(array, b, PyBUF_RECORDS_RO) < 0) {
        PyMem_Free(b);
        if (PyErr_ExceptionMatches(PyExc_ValueError) ||
            PyErr_ExceptionMatches(PyExc_BufferError)) { /* a dtype that has no letter */
            PyErr_Clear();
            return (tp_tensor *)refuse_array(array);
        }
        return NULL;
    }
    tp_tensor *t = warn && !warn_read_only(b, "NumPy array", "array") ? NULL : over_buffer(array, b);
    if (t) return t;
    PyBuffer_Release(b);
    PyMem_Free(b);
    return NULL;
}

tp_dtype tpy_array_dtype(PyObject *array) {
    Py_buffer b;
    if (PyObject_GetBuffer(array, &b, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        refuse_array(array);
        return TP_NO_DTYPE;
    }
    tp_dtype dtype = dtype_of_format(b.format, b.itemsize);
    PyBuffer_Release(&b);
    if (!dtype) refuse_array(array);
    return dtype;
}

static PyObject *from_numpy(PyObject *module, PyObject *array) {
    (void)module;
    if (!tpy_is_ndarray(array))
        return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(array)->tp_name);
    tp_tensor *t = tpy_over_array(array, true);
    return t ? tpy_wrap(t) : NULL;
}

/* Elements of `item` bytes from an offset in a buffer; count < 0: all that are left. PyTorch's words for what does not
 * fit. */
static bool check_extent(long long count, long long offset, int64_t length, int64_t item) {
    if (!length || !count)
        PyErr_Format(PyExc_ValueError, "both buffer length (%lld) and count (%lld) must not be 0", (long long)length,
                     count);
    else if (offset < 0 || offset >= length)
        PyErr_Format(PyExc_ValueError,
                     "offset (%lld bytes) must be non-negative and no greater than buffer length (%lld bytes) minus 1",
                     offset, (long long)length);
    else if (count > 0 && count > (length - offset) / item)
        PyErr_Format(PyExc_ValueError,
                     "requested buffer length (%lld * %lld bytes) after offset (%lld bytes) must not be greater than "
                     "actual buffer length (%lld bytes)",
                     count, (long long)item, offset, (long long)length);
    else if (count < 0 && (length - offset) % item)
        PyErr_Format(PyExc_ValueError,
                     "buffer length (%lld bytes) after offset (%lld bytes) must be a multiple of element size (%lld)",
                     (long long)(length - offset), offset, (long long)item);
    return !PyErr_Occurred();
}

static PyObject *from_buffer(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {"buffer", "dtype", "count", "offset", "requires_grad", NULL};
    PyObject *object, *dtype_object = NULL;
    long long count = -1, offset = 0;
    int requires_grad = 0;
    tp_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OLLp:frombuffer", names, &object, &dtype_object, &count, &offset,
                                     &requires_grad))
        return NULL;
    if (!dtype_object)
        return PyErr_Format(PyExc_TypeError, "frombuffer() missing 1 required positional arguments: \"dtype\"");
    if (tpy_fit_dtype(dtype_object, &dtype) <= 0)
        return PyErr_Format(PyExc_TypeError, "frombuffer(): argument 'dtype' must be torch.dtype, not %s",
                            Py_TYPE(dtype_object)->tp_name);
    if (!PyObject_CheckBuffer(object))
        return PyErr_Format(PyExc_ValueError, "object does not implement Python buffer protocol.");
    Py_buffer *b = PyMem_Malloc(sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, b, PyBUF_SIMPLE) < 0) {
        PyMem_Free(b);
        return NULL;
    }
    if (!warn_read_only(b, "buffer", "buffer")) {
        PyBuffer_Release(b);
        PyMem_Free(b);
        return NULL;
    }
    tp_tensor *t = NULL;
    int64_t length = b->len, item = tp_dtype_size(dtype);
    if (check_extent(count, offset, length, item)) {
        int64_t n = count < 0 ? (length - offset) / item : count;
        t = tp_over_data((char *)b->buf + offset, dtype, tp_ints_view(&n, 1), tp_no_ints(), let_go, b);
        if (!t) tpy_raise();
    }
    if (!t) {
        PyBuffer_Release(b);
        PyMem_Free(b);
        return NULL;
    }
    tpy_own(t);
    if (requires_grad && !tp_set_requires_grad(t, true)) {
        tp_release(t);
        return tpy_raise();
    }
    return tpy_wrap(t);
}

/* ---- Buffers over tensors ---- */
typedef struct exported { /* holds the memory through a tensor of its own, so that it stays where it is */
    tp_tensor *held;
    Py_ssize_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
} exported;

/* Would a write through the memory be one that gradients miss? Not where nothing is recorded: there parameters are
 * arrays as they are. */
static bool wants_grad(const tp_tensor *t) { return tp_requires_grad(t) && tp_grad_enabled(); }

int tpy_get_buffer(PyObject *o, Py_buffer *view, int flags) {
    tp_tensor *t = tpy_unwrap(o);
    tp_dtype dtype = tp_dtype_of(t);
    const char *why = wants_grad(t) ? "a tensor that requires grad has no buffer; use tensor.detach()"
                      : tp_is_conj(t) || tp_is_neg(t)
                          ? "a conjugate or negative view has no buffer; use tensor.resolve_conj() or resolve_neg()"
                      : tp_device_of(t).type != TP_CPU ? "a tensor has a buffer on the CPU only; use tensor.cpu()"
                      : !formats[dtype]                ? "bfloat16 has no buffer format; convert the tensor first"
                      : !(flags & PyBUF_STRIDES & ~PyBUF_ND) && !tp_is_contiguous(t)
                          ? "the tensor is not contiguous and no strides were asked for"
                          : NULL;
    view->obj = NULL;
    if (why) {
        PyErr_SetString(PyExc_BufferError, why);
        return -1;
    }
    exported *e = PyMem_Malloc(sizeof *e);
    if (!e) {
        PyErr_NoMemory();
        return -1;
    }
    if (!(e->held = tpy_own(tp_detach(t)))) {
        PyMem_Free(e);
        tpy_raise();
        return -1;
    }
    tp_ints shape = tp_shape(t), strides = tp_strides(t);
    int64_t item = tp_dtype_size(dtype);
    for (int64_t i = 0; i < shape.n; i++) {
        e->shape[i] = (Py_ssize_t)shape.v[i];
        e->strides[i] = (Py_ssize_t)(strides.v[i] * item);
    }
    static char nothing[16];
    void *data = tp_data(t);
    *view = (Py_buffer){.buf = data ? data : nothing,
                        .obj = Py_NewRef(o),
                        .len = (Py_ssize_t)(tp_numel(t) * item),
                        .itemsize = (Py_ssize_t)item,
                        .ndim = (int)shape.n,
                        .internal = e};
    if (flags & PyBUF_FORMAT) view->format = (char *)formats[dtype];
    if (flags & PyBUF_ND)
        view->shape = e->shape;
    else
        view->ndim = 1; /* bytes in a row */
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = e->strides;
    return 0;
}

void tpy_release_buffer(PyObject *o, Py_buffer *view) {
    (void)o;
    exported *e = view->internal;
    tp_release(e->held);
    PyMem_Free(e);
}

/* ---- Methods ---- */
static PyObject *as_ndarray(PyObject *o) {
    tp_tensor *t = tpy_unwrap(o);
    if (wants_grad(t))
        return PyErr_Format(PyExc_RuntimeError,
                            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    if (tp_device_of(t).type != TP_CPU) {
        PyObject *device = tpy_device_object(tp_device_of(t));
        PyErr_Format(
            PyExc_TypeError,
            "can't convert %S device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            device);
        Py_XDECREF(device);
        return NULL;
    }
    if (tp_is_conj(t))
        return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that has conjugate bit set. Use "
                                                "tensor.resolve_conj().numpy() instead.");
    if (tp_is_neg(t))
        return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that has negative bit set. Use "
                                                "tensor.resolve_neg().numpy() instead.");
    if (!formats[tp_dtype_of(t)])
        return PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType %s", tp_dtype_word(tp_dtype_of(t)));
    PyObject *make = numpy_name("asarray"), *memory = make ? PyMemoryView_FromObject(o) : NULL,
             *array = memory ? PyObject_CallOneArg(make, memory) : NULL;
    Py_XDECREF(memory);
    return array;
}

static PyObject *tensor_numpy(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"force", NULL};
    int force = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:numpy", names, &force)) return NULL;
    if (!force) return as_ndarray(o);
    PyObject *plain = tpy_wrap(tpy_own(tp_detach(tpy_unwrap(o)))),
             *near = plain ? PyObject_CallMethod(plain, "cpu", NULL) : NULL;
    if (near && tp_is_conj(tpy_unwrap(near))) Py_SETREF(near, PyObject_CallMethod(near, "resolve_conj", NULL));
    if (near && tp_is_neg(tpy_unwrap(near))) Py_SETREF(near, PyObject_CallMethod(near, "resolve_neg", NULL));
    PyObject *array = near ? as_ndarray(near) : NULL;
    Py_XDECREF(plain);
    Py_XDECREF(near);
    return array;
}

static PyObject *tensor_array(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy)) return NULL;
    PyObject *shared = as_ndarray(o);
    if (!shared || (dtype == Py_None && copy != Py_True)) return shared;
    PyObject *cast = PyObject_GetAttrString(shared, "astype"),
             *kind = dtype == Py_None ? PyObject_GetAttrString(shared, "dtype") : Py_NewRef(dtype);
    PyObject *none = PyTuple_New(0),
             *arguments = cast && kind && none
                              ? Py_BuildValue("{sOsO}", "dtype", kind, "copy", copy == Py_True ? Py_True : Py_False)
                              : NULL;
    PyObject *array = arguments ? PyObject_Call(cast, none, arguments) : NULL;
    if (array &&
        copy == Py_False) { /* copy=False promises the tensor's own memory: astype hands back its argument then */
        if (array != shared) {
            Py_CLEAR(array);
            PyErr_SetString(PyExc_ValueError, "Unable to avoid copy while creating an array as requested.");
        }
    }
    Py_XDECREF(cast);
    Py_XDECREF(kind);
    Py_XDECREF(none);
    Py_XDECREF(arguments);
    Py_DECREF(shared);
    return array;
}

static PyMethodDef methods[] = {{"numpy", (PyCFunction)(void (*)(void))tensor_numpy, METH_VARARGS | METH_KEYWORDS,
                                 "numpy(*, force=False): a NumPy array over the same memory."},
                                {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS,
                                 "__array__(dtype=None, copy=None): for numpy.asarray."},
                                {0}};
static PyMethodDef functions[] = {
    {"from_numpy", from_numpy, METH_O, "from_numpy(ndarray): a tensor over the array's memory."},
    {"frombuffer", (PyCFunction)(void (*)(void))from_buffer, METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False): a tensor over an object's memory."},
    {0}};

int tpy_init_array(PyObject *module) {
    return tpy_add_methods(methods) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
