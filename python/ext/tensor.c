/* torch.Tensor: the type, how library tensors become objects and back, and what a tensor can be asked.
 *
 * One library tensor has at most one Python object: the library's binding slot points at it (borrowed), the object owns
 * a reference to the tensor. A tensor that comes back from the library (a gradient, a saved tensor) is the same object
 * as long as that lives.
 *
 * An object with something of its own (a subclass, attributes, weak references, or that it is a gradient) must not be
 * lost when Python lets go of it while the library still holds the tensor. Then the two change places: the tensor owns
 * the object (`kept`), and the object only borrows the tensor. They change back when the tensor is handed to Python
 * again, and when the library lets go of the tensor: its last reference is the object's then. */
#include "tpy.h"
#include <stddef.h>
#include <structmember.h>

PyTypeObject *tpy_tensor_type;

static void keep_from_del(PyObject *o);

/* ---- Objects for tensors ---- */
PyObject *tpy_wrap_as(tp_tensor *t, PyTypeObject *type) {
    if (!t) return tpy_raise();
    tpy_tensor *o = (tpy_tensor *)type->tp_alloc(type, 0);
    if (!o) {
        tp_release(t);
        return NULL;
    }
    o->t = t;
    if (!tp_binding(t)) tp_set_binding(t, o, NULL);
    if (type != tpy_tensor_type) {
        /* Only classes with __slots__: Python's collector does not free cycles with a tp_del in them. */
        if (!type->tp_del && type->tp_basicsize > tpy_tensor_type->tp_basicsize) type->tp_del = keep_from_del;
        if (tpy_dispatches(type)) tp_set_opaque(t, true);
    }
    return (PyObject *)o;
}

PyObject *tpy_wrap(tp_tensor *t) {
    PyObject *there = t ? tp_binding(t) : NULL;
    if (!there) return tpy_wrap_as(t, tpy_tensor_type);
    tpy_tensor *o = (tpy_tensor *)there;
    if (o->kept) { /* the caller's reference to the tensor becomes the object's, the tensor's to the object the caller's
                    */
        o->kept = false;
        tp_set_binding(t, there, NULL);
        PyObject_GC_Track(there);
        return there;
    }
    Py_INCREF(there);
    tp_release(t);
    return there;
}

/* The library lets go of the tensor that kept an object, on whatever thread. */
static void tensor_gone(void *object) {
    if (!PyGILState_Check() && !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    ((tpy_tensor *)object)->kept = false;
    PyObject_GC_Track(object);
    Py_DECREF(object);
    PyGILState_Release(state);
}

/* In the object's last moment: does the library still want it? */
static bool is_wanted(const tpy_tensor *o) { return o->t && tp_binding(o->t) == o && tp_references(o->t) > 1; }

static bool keep_alive(tpy_tensor *o) {
    bool own = o->lasting || Py_TYPE(o) != tpy_tensor_type || (o->dict && PyDict_GET_SIZE(o->dict)) || o->weakrefs;
    if (!own || !is_wanted(o)) return false;
    PyObject_GC_UnTrack(o);
    Py_SET_REFCNT((PyObject *)o, 1);
    o->kept = true;
    tp_set_binding(o->t, o, tensor_gone);
    tp_release(o->t); /* may be the last after all, if another thread was quick: then the object is gone here */
    return true;
}

/* The same for a class that a program made. Python empties the __slots__ of such an object before it calls
 * tensor_dealloc, so the object must be kept earlier; Python looks at the count after this function. */
static void keep_from_del(PyObject *object) {
    tpy_tensor *o = (tpy_tensor *)object;
    if (!is_wanted(o)) return;
    PyObject_GC_UnTrack(o);
    Py_SET_REFCNT(object, 2); /* the tensor's reference, and one that holds the object until the end of this function */
    o->kept = true;
    tp_set_binding(o->t, o, tensor_gone);
    tp_release(o->t);
    Py_SET_REFCNT(object, Py_REFCNT(object) - 1);
}

PyObject *tpy_wrap_list(tp_tensors list) {
    if (!list.v) return tpy_raise();
    PyObject *tuple = PyTuple_New(list.n);
    for (int64_t i = 0; tuple && i < list.n; i++) {
        PyObject *o = tpy_wrap(tp_retain(list.v[i]));
        if (o)
            PyTuple_SET_ITEM(tuple, i, o);
        else
            Py_CLEAR(tuple);
    }
    tp_release_all(list);
    return tuple;
}

static void tensor_dealloc(PyObject *o) {
    tpy_tensor *self = (tpy_tensor *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (keep_alive(self)) return;
    PyObject_GC_UnTrack(o);
    if (self->weakrefs) PyObject_ClearWeakRefs(o);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->claimed_device);
    if (self->t) {
        if (tp_binding(self->t) == o) tp_set_binding(self->t, NULL, NULL);
        tp_release(self->t);
    }
    type->tp_free(o);
    Py_DECREF(type);
}
static int tensor_traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(((tpy_tensor *)o)->dict);
    Py_VISIT(Py_TYPE(o));
    return ((tpy_tensor *)o)->t ? tpy_visit_owned(((tpy_tensor *)o)->t, visit, arg) : 0;
}
static int tensor_clear(PyObject *o) {
    Py_CLEAR(((tpy_tensor *)o)->dict);
    return 0;
}
static Py_hash_t tensor_hash(PyObject *o) {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_HashPointer(o); /* 3.14 deprecates the private name */
#else
    return _Py_HashPointer(o);
#endif
}

/* ---- Printing ---- */
static PyObject *format_as(PyObject *o, const char *name, const char *contents) {
    tp_tensor *t = tpy_unwrap(o);
    int64_t n = tp_format_as(t, name, contents, NULL, 0);
    if (n < 0) return tpy_raise();
    tp_capture_break("the text of a tensor is made"); /* also of one that no graph knows: print options may change */
    char *text = PyMem_Malloc((size_t)n + 1);
    if (!text) return PyErr_NoMemory();
    PyObject *result = tp_format_as(t, name, contents, text, (size_t)n + 1) < 0
                           ? tpy_raise()
                           : PyUnicode_DecodeUTF8(text, n, "replace");
    PyMem_Free(text);
    return result;
}
static const char *print_name(PyObject *o) { /* a subclass prints under its own name */
    const char *name = strrchr(Py_TYPE(o)->tp_name, '.');
    return Py_TYPE(o) == tpy_tensor_type ? NULL : name ? name + 1 : Py_TYPE(o)->tp_name;
}
/* As PyTorch shows an instance of a subclass that is a parameter. */
static PyObject *as_parameter(PyObject *o, PyObject *text) {
    PyObject *dict = ((tpy_tensor *)o)->dict,
             *marked = dict ? PyDict_GetItemString(dict, "_is_param") : NULL; /* borrowed */
    if (text && marked == Py_True) Py_SETREF(text, PyUnicode_FromFormat("Parameter(%U)", text));
    return text;
}
static PyObject *tensor_repr(PyObject *o) { return as_parameter(o, format_as(o, print_name(o), NULL)); }
static PyObject *tensor_repr_with(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"tensor_contents", NULL};
    const char *contents = NULL;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|$z:__repr__", names, &contents)
               ? as_parameter(o, format_as(o, print_name(o), contents))
               : NULL;
}
/* _format(name="tensor", contents=None): the text under another name, or with other contents. */
static PyObject *tensor_format(PyObject *o, PyObject *args) {
    const char *name = NULL, *contents = NULL;
    return PyArg_ParseTuple(args, "|zz:_format", &name, &contents) ? format_as(o, name, contents) : NULL;
}

/* ---- What a tensor is ---- */
/* A wrapper's is the one it was given; its own memory is nowhere. */
static tp_device device_of(PyObject *o) {
    PyObject *claimed = ((tpy_tensor *)o)->claimed_device;
    return claimed ? ((tpy_device *)claimed)->device : tp_device_of(tpy_unwrap(o));
}
#define PROPERTY(name, answer)                               \
    static PyObject *get_##name(PyObject *o, void *unused) { \
        (void)unused;                                        \
        tp_tensor *t = tpy_unwrap(o);                        \
        (void)t;                                             \
        return answer;                                       \
    }
PROPERTY(shape, tpy_shape(t))
PROPERTY(dtype, tpy_dtype_object(tp_dtype_of(t)))
PROPERTY(device, tpy_device_object(device_of(o)))
PROPERTY(ndim, PyLong_FromLong(tp_ndim(t)))
PROPERTY(itemsize, PyLong_FromLongLong(tp_dtype_size(tp_dtype_of(t))))
PROPERTY(nbytes, PyLong_FromLongLong(tp_dtype_size(tp_dtype_of(t)) * tp_numel(t)))
PROPERTY(is_leaf, (tpy_watch_read("is_leaf"), PyBool_FromLong(tp_is_leaf(t))))
PROPERTY(requires_grad, PyBool_FromLong(tp_requires_grad(t)))
PROPERTY(version,
         (tpy_watch_read("_version"),
          !tp_is_inference(t)
              ? PyLong_FromLongLong(tp_tensor_version(t))
              : (PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter."), NULL)))
PROPERTY(is_cuda, PyBool_FromLong(device_of(o).type == TP_CUDA || device_of(o).type == TP_HIP))
PROPERTY(is_meta, PyBool_FromLong(device_of(o).type == TP_META))
PROPERTY(is_cpu, PyBool_FromLong(device_of(o).type == TP_CPU))
PROPERTY(is_xpu, PyBool_FromLong(device_of(o).type == TP_XPU))
PROPERTY(false, Py_NewRef(Py_False))

static PyObject *by_name(PyObject *o, void *name) { /* T, mT, H, mH, real, imag: operators of the table */
    return tpy_call_name(name, &o, 1, NULL);
}
static PyObject *get_transpose(PyObject *o, void *name) {
    static bool told; /* under the interpreter's lock */
    int64_t ndim = tp_ndim(tpy_unwrap(o));
    if (ndim != 2 && ndim != 0 && !told) {
        told = true;
        if (PyErr_WarnEx(PyExc_UserWarning,
                         "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated "
                         "and it will throw an error in a future release. Consider `x.mT` to "
                         "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse "
                         "the dimensions of a tensor.",
                         1) < 0)
            return NULL;
    }
    return by_name(o, name);
}
static int set_by_name(PyObject *o, PyObject *value, void *name) { /* x.real = y writes into x */
    if (!value) {
        PyErr_Format(PyExc_RuntimeError, "%s cannot be deleted", (const char *)name);
        return -1;
    }
    PyObject *part = by_name(o, name);
    int status = part ? tpy_set_item(part, Py_Ellipsis, value) : -1;
    Py_XDECREF(part);
    return status;
}
static int set_requires_grad(PyObject *o, PyObject *value, void *unused) {
    (void)unused;
    if (!value || !PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    if (!tp_set_requires_grad(tpy_unwrap(o), value == Py_True)) {
        tpy_raise();
        return -1;
    }
    return 0;
}

PyGetSetDef tpy_tensor_properties[] = {
    {"shape", get_shape, NULL, "The sizes, a torch.Size.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements, a torch.dtype.", NULL},
    {"device", get_device, NULL, "Where the elements are, a torch.device.", NULL},
    {"ndim", get_ndim, NULL, "The number of dims.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"is_leaf", get_is_leaf, NULL, "True where no operator on the tape made it: its gradient is kept in grad.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Are operators on it recorded, so that backward reaches it?", NULL},
    {"_version", get_version, NULL, NULL, NULL},
    {"is_cuda", get_is_cuda, NULL, "Is it on a cuda device?", NULL},
    {"is_cpu", get_is_cpu, NULL, "Is it in the host's memory?", NULL},
    {"is_xpu", get_is_xpu, NULL, "Is it on an xpu device?", NULL},
    {"is_sparse", get_false, NULL, "Are only its nonzero elements kept (sparse_coo)?", NULL},
    {"is_sparse_csr", get_false, NULL, "Are its nonzero elements kept by rows (sparse_csr)?", NULL},
    {"is_quantized", get_false, NULL, "False: quantized tensors have a class of their own.", NULL},
    {"is_meta", get_is_meta, NULL, "Has it a shape and no elements?", NULL},
    {"is_mkldnn", get_false, NULL, "False: Taper has no such layout.", NULL},
    {"is_mps", get_false, NULL, "False: Taper has no such device.", NULL},
    {"is_nested", get_false, NULL, "Is it a nested tensor?", NULL},
    {"T", get_transpose, NULL, "The transpose: its dims in reverse.", "T"},
    {"real", by_name, set_by_name, "The real parts, a view.", "real"},
    {"imag", by_name, set_by_name, "The imaginary parts, a view.", "imag"},
    {"mT", by_name, NULL, "The last two dims swapped.", "mT"},
    {"H", by_name, NULL, "The conjugate transpose of a matrix.", "H"},
    {"mH", by_name, NULL, "The last two dims swapped, and conjugated.", "mH"},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0}};

/* ---- Methods ---- */
static bool read_dim(PyObject *o, const char *method, int64_t *dim) {
    int fits = tpy_fit_int(o, dim);
    if (fits == 0)
        PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' (position 1) must be int, not %s", method,
                     Py_TYPE(o)->tp_name);
    return fits > 0;
}
static PyObject *one_or_all(PyObject *o, PyObject *args, PyObject *kwargs, const char *method, bool sizes) {
    static char *names[] = {"dim", NULL};
    PyObject *which = NULL;
    char format[24];
    snprintf(format, sizeof format, "|O:%s", method);
    if ((kwargs || PyTuple_GET_SIZE(args)) && !PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &which))
        return NULL;
    tp_tensor *t = tpy_unwrap(o);
    if (!which || which == Py_None) return sizes ? tpy_shape(t) : tpy_int_tuple(tp_strides(t));
    int64_t dim;
    if (!read_dim(which, method, &dim)) return NULL;
    int64_t n = sizes ? tp_size(t, dim) : tp_stride(t, dim);
    return tp_ok() ? PyLong_FromLongLong(n) : tpy_raise();
}
static PyObject *tensor_size(PyObject *o, PyObject *args, PyObject *kwargs) {
    return one_or_all(o, args, kwargs, "size", true);
}
static PyObject *tensor_stride(PyObject *o, PyObject *args, PyObject *kwargs) {
    return one_or_all(o, args, kwargs, "stride", false);
}
static PyObject *tensor_dim(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(tp_ndim(tpy_unwrap(o)));
}
static PyObject *tensor_numel(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_numel(tpy_unwrap(o)));
}
static PyObject *tensor_offset(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_storage_offset(tpy_unwrap(o)));
}
static PyObject *tensor_element_size(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_dtype_size(tp_dtype_of(tpy_unwrap(o))));
}
static PyObject *tensor_data_ptr(PyObject *o, PyObject *unused) { /* nothing lies at the address of no elements */
    (void)unused;
    return PyLong_FromVoidPtr(tp_numel(tpy_unwrap(o)) ? tp_data(tpy_unwrap(o)) : NULL);
}
static PyObject *tensor_is_floating(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_dtype_is_floating(tp_dtype_of(tpy_unwrap(o))));
}
static PyObject *tensor_is_complex(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_dtype_is_complex(tp_dtype_of(tpy_unwrap(o))));
}
static PyObject *tensor_is_signed(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_dtype d = tp_dtype_of(tpy_unwrap(o));
    return PyBool_FromLong(d != TP_BOOL && d != TP_UINT8);
}
static PyObject *tensor_is_conj(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_is_conj(tpy_unwrap(o)));
}

static PyObject *tensor_is_neg(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_is_neg(tpy_unwrap(o)));
}

static PyObject *tensor_is_contiguous(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"memory_format", NULL};
    PyObject *format = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_contiguous", names, &format)) return NULL;
    if (!format) return PyBool_FromLong(tp_is_contiguous(tpy_unwrap(o)));
    if (Py_TYPE(format) != tpy_memory_format_type)
        return PyErr_Format(PyExc_TypeError,
                            "is_contiguous(): argument 'memory_format' must be torch.memory_format, not %s",
                            Py_TYPE(format)->tp_name);
    return PyBool_FromLong(tp_is_contiguous_as(tpy_unwrap(o), ((tpy_memory_format *)format)->layout));
}
static PyObject *tensor_get_device(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_device d = device_of(o);
    return PyLong_FromLong(d.type == TP_CPU || d.type == TP_META ? -1 : d.index);
}
static PyObject *tensor_array_namespace(PyObject *o, PyObject *args, PyObject *kwargs) {
    (void)o;
    static char *names[] = {"api_version", NULL};
    const char *version = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$z:__array_namespace__", names, &version)) return NULL;
    if (version && strcmp(version, "2021.12") && strcmp(version, "2022.12") && strcmp(version, "2023.12"))
        return PyErr_Format(
            PyExc_ValueError,
            "__array_namespace__(): version '%s' of the array API is not one of 2021.12, 2022.12, 2023.12", version);
    return PyImport_ImportModule("taper._array_api");
}
PyMethodDef tpy_tensor_methods[] = {
    {"size", (PyCFunction)(void (*)(void))tensor_size, METH_VARARGS | METH_KEYWORDS,
     "size(dim=None): the sizes, or one of them."},
    {"stride", (PyCFunction)(void (*)(void))tensor_stride, METH_VARARGS | METH_KEYWORDS,
     "stride(dim=None): the strides in elements, or one of them."},
    {"__complex__", tpy_complex, METH_NOARGS, NULL},
    {"dim", tensor_dim, METH_NOARGS, "The number of dimensions."},
    {"ndimension", tensor_dim, METH_NOARGS, "The number of dimensions."},
    {"numel", tensor_numel, METH_NOARGS, "The number of elements."},
    {"nelement", tensor_numel, METH_NOARGS, "The number of elements."},
    {"storage_offset", tensor_offset, METH_NOARGS, "Where it begins in its storage, in elements."},
    {"element_size", tensor_element_size, METH_NOARGS, "Bytes per element."},
    {"data_ptr", tensor_data_ptr, METH_NOARGS, "The address of the first element."},
    {"is_floating_point", tensor_is_floating, METH_NOARGS, NULL},
    {"is_complex", tensor_is_complex, METH_NOARGS, NULL},
    {"is_signed", tensor_is_signed, METH_NOARGS, NULL},
    {"get_device", tensor_get_device, METH_NOARGS, NULL},
    {"_format", tensor_format, METH_VARARGS, NULL},
    {"__repr__", (PyCFunction)(void (*)(void))tensor_repr_with, METH_VARARGS | METH_KEYWORDS | METH_COEXIST,
     "__repr__(*, tensor_contents=None): the text, with other contents if given."},
    {"is_conj", tensor_is_conj, METH_NOARGS, "Is it a view whose memory holds the conjugates of its elements?"},
    {"is_neg", tensor_is_neg, METH_NOARGS, "Is it a view whose memory holds the negatives of its elements?"},
    {"is_contiguous", (PyCFunction)(void (*)(void))tensor_is_contiguous, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__array_namespace__", (PyCFunction)(void (*)(void))tensor_array_namespace, METH_VARARGS | METH_KEYWORDS,
     "The array API standard's functions for tensors."},
    {0}};

int tpy_add_methods(PyMethodDef *methods) {
    for (PyMethodDef *m = methods; m->ml_name; m++) {
        PyObject *method = PyDescr_NewMethod(tpy_tensor_type, m);
        int done = method ? PyDict_SetItemString(tpy_tensor_type->tp_dict, m->ml_name, method) : -1;
        Py_XDECREF(method);
        if (done < 0) return -1;
    }
    PyType_Modified(tpy_tensor_type);
    return 0;
}

/* ---- Sequence ---- */
static Py_ssize_t tensor_len(PyObject *o) {
    tp_tensor *t = tpy_unwrap(o);
    if (tp_ndim(t)) return (Py_ssize_t)tp_size(t, 0);
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}
static PyObject *tensor_iter(PyObject *o) {
    if (tp_ndim(tpy_unwrap(o)) == 0) return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
    PyObject *parts = tpy_call_name("unbind", &o, 1, NULL), *iterator = parts ? PyObject_GetIter(parts) : NULL;
    Py_XDECREF(parts);
    return iterator;
}

static PyMemberDef tensor_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(tpy_tensor, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tpy_tensor, weakrefs), READONLY, NULL},
    {0}};

PyObject *tpy_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs); /* convert.c */

int tpy_init_tensor(PyObject *module) {
    static const PyType_Slot own[] = {
        {Py_tp_dealloc, tensor_dealloc},     {Py_tp_traverse, tensor_traverse},
        {Py_tp_clear, tensor_clear},         {Py_tp_hash, tensor_hash},
        {Py_tp_repr, tensor_repr},           {Py_tp_richcompare, tpy_compare},
        {Py_tp_methods, tpy_tensor_methods}, {Py_tp_getset, tpy_tensor_properties},
        {Py_tp_members, tensor_members},     {Py_mp_length, tensor_len},
        {Py_sq_length, tensor_len},          {Py_mp_subscript, tpy_get_item},
        {Py_mp_ass_subscript, tpy_set_item}, {Py_tp_iter, tensor_iter},
        {Py_bf_getbuffer, tpy_get_buffer},   {Py_bf_releasebuffer, tpy_release_buffer},
        {Py_tp_new, tpy_tensor_new},         {Py_tp_doc, "A strided view on memory, with its history."}};
    PyType_Slot slots[96];
    size_t n = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) slots[n++] = own[i];
    for (const PyType_Slot *s = tpy_number_slots; s->slot; s++) slots[n++] = *s;
    slots[n] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {"torch.Tensor", sizeof(tpy_tensor), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
    tpy_tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!tpy_tensor_type || PyModule_AddType(module, tpy_tensor_type) < 0) return -1;
    tpy_tensor_type->tp_name = "Tensor"; /* what Python's own messages say, as of a class written in Python; __module__
                                            is torch all the same */
    return 0;
}
