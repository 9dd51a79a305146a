/* The old ways to make tensors: torch.Tensor(2, 3), torch.FloatTensor([1, 2]), x.new(...). Sizes make an uninitialised
 * tensor, a sequence or an array gives the values, a tensor or a storage is looked at without a copy. Subclasses of
 * Tensor are made here too. */
#include "tpy.h"

static tp_tensor *of_sizes(PyObject *sizes, tp_dtype dtype, tp_device device) { /* a tuple of ints */
    int64_t shape[TP_MAX_DIMS];
    Py_ssize_t n = PyTuple_GET_SIZE(sizes);
    if (n > TP_MAX_DIMS)
        return (tp_tensor *)PyErr_Format(PyExc_ValueError, "expected at most %d sizes, got %zd", TP_MAX_DIMS, n);
    for (Py_ssize_t i = 0; i < n; i++) {
        int fits = tpy_fit_int(PyTuple_GET_ITEM(sizes, i), &shape[i]);
        if (fits < 0) return NULL;
        if (!fits)
            return (tp_tensor *)PyErr_Format(
                PyExc_TypeError,
                "new(): argument 'size' must be tuple of ints, but found element of type %s at pos %zd",
                Py_TYPE(PyTuple_GET_ITEM(sizes, i))->tp_name, i + 1);
    }
    tp_tensor *t = tpy_own(tp_empty(tp_ints_view(shape, n), .dtype = dtype, .device = device));
    return t ? t : (tp_tensor *)tpy_raise();
}

/* any: torch.Tensor takes a tensor of whatever dtype, torch.FloatTensor does not. */
static tp_tensor *of_one(PyObject *o, tp_dtype dtype, tp_device device, bool any) {
    if (tpy_is_tensor(o)) {
        tp_tensor *t = tpy_unwrap(o);
        if (!any && tp_dtype_of(t) != dtype)
            return (tp_tensor *)PyErr_Format(PyExc_TypeError, "expected a torch.%sTensor (got torch.%sTensor)",
                                             tp_dtype_word(dtype), tp_dtype_word(tp_dtype_of(t)));
        t = tpy_own(tp_detach(t));
        return t ? t : (tp_tensor *)tpy_raise();
    }
    tp_storage *storage = tpy_storage_in(o);
    if (PyErr_Occurred()) return NULL;
    if (storage) return tpy_storage_holds(o, dtype, true) ? tpy_over_storage(storage, dtype) : NULL;
    if (Py_TYPE(o) == tpy_size_type) return of_sizes(o, dtype, device);
    int64_t n;
    int whole = tpy_fit_int(o, &n);
    if (whole < 0) return NULL;
    if (whole) {
        tp_tensor *t = tpy_own(tp_empty(tp_ints_view(&n, 1), .dtype = dtype, .device = device));
        return t ? t : (tp_tensor *)tpy_raise();
    }
    if (!PySequence_Check(o))
        return (tp_tensor *)PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)",
                                         Py_TYPE(o)->tp_name);
    if (PyUnicode_Check(o) || PyBytes_Check(o))
        return (tp_tensor *)PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
    return tpy_tensor_of(o, dtype, device);
}

/* The keywords of old constructors: device, and the size of a tensor that has no other arguments. */
static bool read_options(PyObject *kwargs, tp_device *device, PyObject **size) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value);) {
        if (!PyUnicode_CompareWithASCIIString(key, "size")) {
            *size = value;
            continue;
        }
        if (PyUnicode_CompareWithASCIIString(key, "device")) {
            PyErr_Format(PyExc_TypeError, "new() got an unexpected keyword argument '%U'", key);
            return false;
        }
        int fits = value == Py_None ? 1 : tpy_fit_device(value, device);
        if (!fits)
            PyErr_Format(PyExc_TypeError, "new(): argument 'device' must be torch.device, not %s",
                         Py_TYPE(value)->tp_name);
        if (fits <= 0) return false;
    }
    return true;
}

static tp_tensor *make(PyObject *args, PyObject *kwargs, tp_dtype dtype, tp_device device, bool any) {
    PyObject *size = NULL;
    if (!read_options(kwargs, &device, &size)) return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (size) {
        if (n) return (tp_tensor *)PyErr_Format(PyExc_TypeError, "new(): 'size' stands beside other arguments");
        PyObject *sizes = PySequence_Tuple(size);
        tp_tensor *sized = sizes ? of_sizes(sizes, dtype, device) : NULL;
        Py_XDECREF(sizes);
        return sized;
    }
    int64_t nothing = 0;
    if (n > 1) return of_sizes(args, dtype, device);
    if (n == 1) return of_one(PyTuple_GET_ITEM(args, 0), dtype, device, any);
    tp_tensor *t = tpy_own(tp_empty(tp_ints_view(&nothing, 1), .dtype = dtype, .device = device));
    return t ? t : (tp_tensor *)tpy_raise();
}

PyObject *tpy_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    tp_tensor *t = make(args, kwargs, tp_default_dtype(), tp_no_device(), true);
    return t ? tpy_wrap_as(t, type) : NULL;
}

/* _legacy_tensor(dtype, device, arguments, keywords): what torch.cuda.FloatTensor(...) calls. */
static PyObject *legacy_tensor(PyObject *module, PyObject *given) {
    (void)module;
    PyObject *kind, *device_object, *args, *kwargs;
    tp_dtype dtype;
    tp_device device = tp_no_device();
    if (!PyArg_ParseTuple(given, "OOO!O!:_legacy_tensor", &kind, &device_object, &PyTuple_Type, &args, &PyDict_Type,
                          &kwargs))
        return NULL;
    if (tpy_fit_dtype(kind, &dtype) <= 0 || tpy_fit_device(device_object, &device) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_legacy_tensor() takes a dtype and a device");
    tp_tensor *t = make(args, kwargs, dtype, device, false);
    return t ? tpy_wrap(t) : NULL;
}

static PyObject *tensor_new(PyObject *self, PyObject *args, PyObject *kwargs) {
    tp_tensor *like = tpy_unwrap(self), *t = make(args, kwargs, tp_dtype_of(like), tp_device_of(like), false);
    return t ? tpy_wrap(t) : NULL;
}

static PyObject *tensor_new_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"data", "dtype", "device", "requires_grad", "layout", "pin_memory", NULL};
    PyObject *data, *kind = Py_None, *device_object = Py_None, *layout;
    int requires_grad = 0, pin = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOpOp:new_tensor", names, &data, &kind, &device_object,
                                     &requires_grad, &layout, &pin))
        return NULL;
    tp_dtype dtype = tp_dtype_of(tpy_unwrap(self));
    tp_device device = tp_device_of(tpy_unwrap(self));
    if (kind != Py_None && tpy_fit_dtype(kind, &dtype) <= 0)
        return PyErr_Format(PyExc_TypeError, "new_tensor(): argument 'dtype' must be torch.dtype, not %s",
                            Py_TYPE(kind)->tp_name);
    if (device_object != Py_None && tpy_fit_device(device_object, &device) <= 0)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "new_tensor(): argument 'device' must be torch.device, not %s",
                                  Py_TYPE(device_object)->tp_name);
    if (tpy_is_tensor(data) && tpy_warn_copy_construct() < 0) return NULL;
    tp_tensor *t = tpy_tensor_of(data, dtype, device);
    if (t && pin) t = tpy_pinned(t);
    if (t && requires_grad && !tp_set_requires_grad(t, true)) {
        tp_release(t);
        return tpy_raise();
    }
    return t ? tpy_wrap(t) : NULL;
}

/* ---- Subclasses ---- */
static PyObject *wrap_subclass(PyObject *cls, PyObject *data, int require_grad) {
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, tpy_tensor_type))
        return PyErr_Format(
            PyExc_TypeError,
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
            "class inherits from Tensor.");
    if (!tpy_is_tensor(data)) return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(data)->tp_name);
    tp_tensor *t = tpy_own(tp_detach(tpy_unwrap(data)));
    if (t && require_grad && !tp_set_requires_grad(t, true)) {
        tp_release(t);
        t = NULL;
    }
    return t ? tpy_wrap_as(t, (PyTypeObject *)cls) : tpy_raise();
}

static PyObject *make_subclass(PyObject *unused, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"cls", "data", "require_grad", NULL};
    (void)unused;
    PyObject *cls, *data;
    int require_grad = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p:_make_subclass", names, &cls, &data, &require_grad))
        return NULL;
    return wrap_subclass(cls, data, require_grad);
}

static PyObject *as_subclass(PyObject *self, PyObject *cls) { /* differentiable, unlike _make_subclass */
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, tpy_tensor_type))
        return PyErr_Format(
            PyExc_TypeError,
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
            "class inherits from Tensor.");
    return tpy_wrap_as(tpy_own(tp_alias(tpy_unwrap(self))), (PyTypeObject *)cls);
}

/* _wrapper(cls, data, device, requires_grad): a tensor of the subclass with the shape of data, which lies on the meta
 * device; it says that it is on device. */
static PyObject *make_wrapper(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *cls, *data, *device;
    int requires_grad;
    if (!PyArg_ParseTuple(args, "OO!O!p:_wrapper", &cls, tpy_tensor_type, &data, tpy_device_type, &device,
                          &requires_grad))
        return NULL;
    PyObject *made = wrap_subclass(cls, data, requires_grad);
    if (made) ((tpy_tensor *)made)->claimed_device = Py_NewRef(device);
    return made;
}

/* _use_count(tensor): how many hold the library's tensor, Python's object among them. */
static PyObject *use_count(PyObject *module, PyObject *tensor) {
    (void)module;
    if (!tpy_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(tensor)->tp_name);
    return PyLong_FromLongLong(tp_references(tpy_unwrap(tensor)));
}

/* _swap_tensor_impl(a, b): each object stands for the other's tensor from now on. */
static PyObject *swap_tensors(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!:_swap_tensor_impl", tpy_tensor_type, &a, tpy_tensor_type, &b)) return NULL;
    tpy_change_begin(); /* a call may rely on the object to keep its tensor alive */
    tpy_tensor *one = (tpy_tensor *)a, *two = (tpy_tensor *)b, before = *one;
    one->t = two->t;
    one->claimed_device = two->claimed_device;
    two->t = before.t;
    two->claimed_device = before.claimed_device;
    tp_set_binding(one->t, one, NULL);
    tp_set_binding(two->t, two, NULL);
    tpy_change_end();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"new", (PyCFunction)(void (*)(void))tensor_new, METH_VARARGS | METH_KEYWORDS,
     "new(*args): a tensor of this dtype on this device, made as torch.Tensor(*args) does."},
    {"new_tensor", (PyCFunction)(void (*)(void))tensor_new_tensor, METH_VARARGS | METH_KEYWORDS,
     "new_tensor(data, *, dtype=None, device=None, requires_grad=False): a copy of data in this tensor's dtype and "
     "place."},
    {"as_subclass", as_subclass, METH_O, "as_subclass(cls): the same data as an instance of a subclass."},
    {0}};
static PyMethodDef functions[] = {{"_legacy_tensor", legacy_tensor, METH_VARARGS, NULL},
                                  {"_wrapper", make_wrapper, METH_VARARGS, NULL},
                                  {"_swap_tensor_impl", swap_tensors, METH_VARARGS, NULL},
                                  {"_use_count", use_count, METH_O, NULL},
                                  {0}};
static PyMethodDef subclass_method = {
    "_make_subclass", (PyCFunction)(void (*)(void))make_subclass, METH_VARARGS | METH_KEYWORDS,
    "_make_subclass(cls, data, require_grad=False): data as an instance of cls, without history."};

int tpy_init_legacy(PyObject *module) {
    PyObject *function = PyCFunction_New(&subclass_method, NULL),
             *shared = function ? PyStaticMethod_New(function) : NULL;
    Py_XDECREF(function);
    if (!shared || PyObject_SetAttrString((PyObject *)tpy_tensor_type, "_make_subclass", shared) < 0) {
        Py_XDECREF(shared);
        return -1;
    }
    Py_DECREF(shared);
    return tpy_add_methods(methods) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
