/* torch.dtype, torch.device, torch.memory_format, torch.layout and torch.Size: small immutable types, one object per
 * value where PyTorch has one. They print with PyTorch's names. */
#include "tpy.h"
#include <structmember.h>

PyTypeObject *tpy_dtype_type, *tpy_device_type, *tpy_memory_format_type, *tpy_layout_type, *tpy_size_type;

/* ---- Pickles: these types call themselves torch's, which need not be importable, so their objects are found through
 * this module ---- */
static PyObject *restore; /* taper._C._restore */

static PyObject *
restore_object(PyObject *module,
               PyObject *args) { /* _restore(name): a constant of the module; _restore(name, ...): a call of it */
    PyObject *name = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (!name || !PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "_restore() needs a name");
    PyObject *object = PyObject_GetAttr(module, name);
    if (!object || PyTuple_GET_SIZE(args) == 1) return object;
    PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)),
             *made = rest ? PyObject_Call(object, rest, NULL) : NULL;
    Py_XDECREF(rest);
    Py_DECREF(object);
    return made;
}
static PyMethodDef functions[] = {{"_restore", restore_object, METH_VARARGS, NULL}, {0}};

/* ---- dtype ---- */
static PyObject *dtypes[TP_DTYPE_COUNT];

PyObject *tpy_dtype_object(tp_dtype dtype) {
    return Py_NewRef(dtype > TP_NO_DTYPE && dtype < TP_DTYPE_COUNT ? dtypes[dtype] : Py_None);
}
static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("torch.%s", tp_dtype_name(((tpy_dtype *)self)->dtype));
}
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("O(s)", restore, tp_dtype_name(((tpy_dtype *)self)->dtype));
}
static PyObject *dtype_is_floating(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(tp_dtype_is_floating(((tpy_dtype *)self)->dtype));
}
static PyObject *dtype_is_complex(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(tp_dtype_is_complex(((tpy_dtype *)self)->dtype));
}
static PyObject *dtype_is_signed(PyObject *self, void *unused) {
    (void)unused;
    tp_dtype d = ((tpy_dtype *)self)->dtype;
    if (d >= TP_BITS1X8 && d <= TP_BITS16) return PyErr_Format(PyExc_RuntimeError, "Bits types are undefined");
    if (d >= TP_QINT8 && d <= TP_QUINT2X4)
        return PyErr_Format(PyExc_RuntimeError, "isSignedType not supported for quantized types");
    bool narrow = d >= TP_UINT1 && d <= TP_UINT7, wide = d >= TP_UINT16 && d <= TP_UINT64;
    return PyBool_FromLong(d != TP_BOOL && d != TP_UINT8 && d != TP_FLOAT8_E8M0FNU && !narrow && !wide);
}
static PyObject *dtype_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_dtype_size(((tpy_dtype *)self)->dtype));
}
static PyObject *dtype_to_complex(PyObject *self, PyObject *unused) {
    (void)unused;
    tp_dtype d = tp_dtype_to_complex(((tpy_dtype *)self)->dtype);
    return d ? tpy_dtype_object(d) : tpy_raise();
}
static PyObject *dtype_to_real(PyObject *self, PyObject *unused) {
    (void)unused;
    return tpy_dtype_object(tp_dtype_to_real(((tpy_dtype *)self)->dtype));
}
static PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype with parts of this one."},
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of a complex one's parts."},
    {0}};
static PyGetSetDef dtype_properties[] = {
    {"is_floating_point", dtype_is_floating, NULL, "Is it one of the floats?", NULL},
    {"is_complex", dtype_is_complex, NULL, "Is it complex?", NULL},
    {"is_signed", dtype_is_signed, NULL, "Can it hold negative numbers?", NULL},
    {"itemsize", dtype_itemsize, NULL, "Bytes of an element.", NULL},
    {0}};
static PyType_Slot dtype_slots[] = {{Py_tp_repr, dtype_repr},
                                    {Py_tp_methods, dtype_methods},
                                    {Py_tp_getset, dtype_properties},
                                    {Py_tp_doc, "The type of a tensor's elements."},
                                    {0, NULL}};
static PyType_Spec dtype_spec = {"torch.dtype", sizeof(tpy_dtype), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

int tpy_fit_dtype(PyObject *o, tp_dtype *out) {
    if (Py_TYPE(o) == tpy_dtype_type)
        *out = ((tpy_dtype *)o)->dtype;
    else if (o == (PyObject *)&PyFloat_Type)
        *out = TP_FLOAT64;
    else if (o == (PyObject *)&PyLong_Type)
        *out = TP_INT64;
    else if (o == (PyObject *)&PyBool_Type)
        *out = TP_BOOL;
    else if (o == (PyObject *)&PyComplex_Type)
        *out = TP_COMPLEX128;
    else
        return 0;
    return 1;
}

static int add_dtypes(PyObject *module) {
    static const struct {
        const char *alias, *name;
    } aliases[] = {{"half", "float16"},    {"float", "float32"}, {"double", "float64"},   {"short", "int16"},
                   {"int", "int32"},       {"long", "int64"},    {"cfloat", "complex64"}, {"cdouble", "complex128"},
                   {"chalf", "complex32"}, {"bit", "uint1"}};
    for (int d = TP_NO_DTYPE + 1; d < TP_DTYPE_COUNT; d++) {
        tpy_dtype *o = PyObject_New(tpy_dtype, tpy_dtype_type);
        if (!o) return -1;
        o->dtype = (tp_dtype)d;
        dtypes[d] = (PyObject *)o;
        if (PyModule_AddObjectRef(module, tp_dtype_name((tp_dtype)d), dtypes[d]) < 0) return -1;
    }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (PyModule_AddObjectRef(module, aliases[i].alias, dtypes[tp_dtype_by_name(aliases[i].name)]) < 0) return -1;
    return 0;
}

/* ---- device ---- */
/* Behind those of the library: a device that programs name and compare with; nothing can be made there. */
enum { DEVICE_NAMES = TP_DEVICE_TYPES + 1 };
static const char *const device_names[DEVICE_NAMES] = {"none", "cpu", "cuda", "xpu", "hip", "test", "meta", "mps"};

PyObject *tpy_device_object(tp_device device) {
    tpy_device *o = PyObject_New(tpy_device, tpy_device_type);
    if (!o) return NULL;
    o->device = device;
    o->indexed = device.type != TP_CPU && device.type != TP_META;
    return (PyObject *)o;
}

static int device_from_text(const char *text, tp_device *out, bool *indexed) {
    size_t n = strcspn(text, ":");
    int type = TP_CPU;
    while (type < DEVICE_NAMES && (strlen(device_names[type]) != n || strncmp(text, device_names[type], n))) type++;
    char *end = NULL;
    long index = text[n] == ':' ? strtol(text + n + 1, &end, 10) : 0;
    bool number_wrong = text[n] == ':' && (text[n + 1] < '0' || text[n + 1] > '9' || *end || index > INT16_MAX);
    if (type == DEVICE_NAMES || number_wrong) {
        PyErr_Format(PyExc_RuntimeError,
                     number_wrong
                         ? "Invalid device string: '%s'"
                         : "Expected one of cpu, cuda, xpu, hip, meta, mps device type at start of device string: %s",
                     text);
        return -1;
    }
    *out = (tp_device){(int16_t)type, (int16_t)index};
    *indexed = text[n] == ':';
    return 1;
}

static int device_from(PyObject *o, tp_device *out, bool *indexed) {
    if (Py_TYPE(o) == tpy_device_type) {
        *out = ((tpy_device *)o)->device;
        *indexed = ((tpy_device *)o)->indexed;
        return 1;
    }
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        return text ? device_from_text(text, out, indexed) : -1;
    }
    if (PyLong_Check(o) && !PyBool_Check(o)) { /* an index: of the accelerator */
        long index = PyLong_AsLong(o);
        if (index < 0 || index > INT16_MAX) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_RuntimeError, "Device index must not be negative, got %ld", index);
            return -1;
        }
        tp_device_type accelerator = tpy_accelerator();
        *out = (tp_device){(int16_t)(accelerator ? accelerator : TP_CUDA), (int16_t)index};
        *indexed = true;
        return 1;
    }
    return 0;
}
int tpy_fit_device(PyObject *o, tp_device *out) {
    bool indexed;
    int fits = device_from(o, out, &indexed);
    if (fits > 0 && out->type == TP_META) out->index = 0; /* there is one */
    if (fits > 0 && !indexed && (out->type == TP_CUDA || out->type == TP_XPU))
        out->index = (int16_t)tp_gpu_current((tp_device_type)out->type);
    return fits;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"type", "index", NULL}, *names_device[] = {"device", NULL};
    PyObject *which = NULL, *index = NULL;
    if (kwargs && PyDict_GetItemString(kwargs, "device")
            ? !PyArg_ParseTupleAndKeywords(args, kwargs, "O:device", names_device, &which)
            : !PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", names, &which, &index))
        return NULL;
    tp_device device;
    bool indexed;
    int fits = device_from(which, &device, &indexed);
    if (fits < 0) return NULL;
    if (!fits)
        return PyErr_Format(PyExc_TypeError, "device(): argument 'type' must be str, not %s", Py_TYPE(which)->tp_name);
    if (index && index != Py_None) {
        long i = PyLong_AsLong(index);
        if (i == -1 && PyErr_Occurred()) return NULL;
        if (indexed || i < 0 || i > INT16_MAX) {
            return PyErr_Format(PyExc_RuntimeError,
                                indexed ? "type (string) must not include an index because index was passed explicitly"
                                        : "Device index must be between 0 and 32767");
        }
        device.index = (int16_t)i;
        indexed = true;
    }
    tpy_device *o = (tpy_device *)type->tp_alloc(type, 0);
    if (!o) return NULL;
    o->device = device;
    o->indexed = indexed;
    return (PyObject *)o;
}
static PyObject *device_str(PyObject *self) {
    tpy_device *d = (tpy_device *)self;
    return d->indexed ? PyUnicode_FromFormat("%s:%d", device_names[d->device.type], d->device.index)
                      : PyUnicode_FromString(device_names[d->device.type]);
}
static PyObject *device_repr(PyObject *self) {
    tpy_device *d = (tpy_device *)self;
    return d->indexed
               ? PyUnicode_FromFormat("device(type='%s', index=%d)", device_names[d->device.type], d->device.index)
               : PyUnicode_FromFormat("device(type='%s')", device_names[d->device.type]);
}
static Py_hash_t device_hash(PyObject *self) {
    tpy_device *d = (tpy_device *)self;
    return d->device.type * 65599 + (d->indexed ? d->device.index + 1 : 0);
}
static PyObject *device_compare(PyObject *a, PyObject *b, int op) {
    if (Py_TYPE(b) != tpy_device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    tpy_device *x = (tpy_device *)a, *y = (tpy_device *)b;
    bool same = x->device.type == y->device.type && x->indexed == y->indexed &&
                (!x->indexed || x->device.index == y->device.index);
    return PyBool_FromLong(same == (op == Py_EQ));
}
static PyObject *device_type(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(device_names[((tpy_device *)self)->device.type]);
}
static PyObject *device_index(PyObject *self, void *unused) {
    (void)unused;
    tpy_device *d = (tpy_device *)self;
    if (!d->indexed) Py_RETURN_NONE;
    return PyLong_FromLong(d->device.index);
}
static PyObject *device_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    tpy_device *d = (tpy_device *)self;
    return d->indexed ? Py_BuildValue("O(ssi)", restore, "device", device_names[d->device.type], d->device.index)
                      : Py_BuildValue("O(ss)", restore, "device", device_names[d->device.type]);
}
static PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, NULL},
                                       {"__enter__", tpy_device_enter, METH_NOARGS, NULL},
                                       {"__exit__", tpy_device_exit, METH_VARARGS, NULL},
                                       {0}};
static PyGetSetDef device_properties[] = {
    {"type", device_type, NULL, "The kind of device: cpu, cuda, xpu, meta.", NULL},
    {"index", device_index, NULL, "Its number among its kind, or None.", NULL},
    {0}};
static PyType_Slot device_slots[] = {{Py_tp_new, device_new},
                                     {Py_tp_repr, device_repr},
                                     {Py_tp_str, device_str},
                                     {Py_tp_hash, device_hash},
                                     {Py_tp_richcompare, device_compare},
                                     {Py_tp_methods, device_methods},
                                     {Py_tp_getset, device_properties},
                                     {Py_tp_doc, "Where a tensor lives."},
                                     {0, NULL}};
static PyType_Spec device_spec = {"torch.device", sizeof(tpy_device), 0, Py_TPFLAGS_DEFAULT, device_slots};

/* ---- memory_format and layout ---- */
static const char *const format_names[] = {"preserve_format", "contiguous_format", "channels_last", "channels_last_3d"};
static PyObject *format_repr(PyObject *self) {
    return PyUnicode_FromFormat("torch.%s", format_names[((tpy_memory_format *)self)->layout]);
}
static PyObject *format_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("O(s)", restore, format_names[((tpy_memory_format *)self)->layout]);
}
static PyMethodDef format_methods[] = {{"__reduce__", format_reduce, METH_NOARGS, NULL}, {0}};
static PyType_Slot format_slots[] = {{Py_tp_repr, format_repr}, {Py_tp_methods, format_methods}, {0, NULL}};
static PyType_Spec format_spec = {"torch.memory_format", sizeof(tpy_memory_format), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, format_slots};

/* The library's own tensors are strided; the other layouts name the tensors of taper.sparse and taper._opaque, which
 * are made of strided ones. */
typedef struct {
    PyObject_HEAD
    const char *name;
} layout_object;
static const char *const layout_names[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                           "sparse_bsr", "sparse_bsc", "_mkldnn"};
static PyObject *layout_repr(PyObject *self) { return PyUnicode_FromFormat("torch.%s", ((layout_object *)self)->name); }
static PyObject *layout_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("O(s)", restore, ((layout_object *)self)->name);
}
bool tpy_is_strided(PyObject *layout) {
    return Py_TYPE(layout) == tpy_layout_type && ((layout_object *)layout)->name == layout_names[0];
}
static PyMethodDef layout_methods[] = {{"__reduce__", layout_reduce, METH_NOARGS, NULL}, {0}};
static PyType_Slot layout_slots[] = {{Py_tp_repr, layout_repr}, {Py_tp_methods, layout_methods}, {0, NULL}};
static PyType_Spec layout_spec = {"torch.layout", sizeof(layout_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, layout_slots};

/* ---- Size: a tuple of ints with numel(), whose slices and sums are Sizes ---- */
static PyObject *fill_ints(PyObject *tuple, tp_ints values) {
    if (!tuple) return NULL;
    for (int64_t i = 0; i < values.n; i++) {
        PyObject *v = PyLong_FromLongLong(values.v[i]);
        if (!v) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, v);
    }
    return tuple;
}
PyObject *tpy_size_of(tp_ints sizes) { return fill_ints(tpy_size_type->tp_alloc(tpy_size_type, sizes.n), sizes); }
PyObject *tpy_int_tuple(tp_ints values) { return fill_ints(PyTuple_New(values.n), values); }
PyObject *tpy_shape(const tp_tensor *t) { return tpy_size_of(tp_shape(t)); }

static PyObject *size_from(PyObject *tuple) { /* takes the tuple over */
    if (!tuple || Py_TYPE(tuple) == tpy_size_type || !PyTuple_Check(tuple)) return tuple;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *size = tpy_size_type->tp_alloc(tpy_size_type, n);
    for (Py_ssize_t i = 0; size && i < n; i++) PyTuple_SET_ITEM(size, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(tuple);
    return size;
}
static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *tuple = PyTuple_Type.tp_new(type, args, kwargs);
    if (!tuple) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (PyLong_Check(item)) continue;
        PyObject *whole = PyNumber_Index(item);
        if (!whole) {
            if (PyErr_ExceptionMatches(PyExc_TypeError))
                PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                             Py_TYPE(item)->tp_name);
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, whole);
        Py_DECREF(item);
    }
    return tuple;
}
static PyObject *size_repr(PyObject *self) {
    PyObject *list = PySequence_List(self), *text = list ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}
static PyObject *size_numel(PyObject *self, PyObject *unused) {
    (void)unused;
    long long n = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); i++) n *= PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(n);
}
static PyObject *size_concat(PyObject *a, PyObject *b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return size_from(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
/* Python asks for this one last: nobody else answers. */
static PyObject *size_concat_only(PyObject *a, PyObject *b) {
    if (PyTuple_Check(b)) return size_concat(a, b);
    return PyErr_Format(PyExc_TypeError, "can only concatenate tuple (not %s) to torch.Size", Py_TYPE(b)->tp_name);
}
static PyObject *size_repeat(PyObject *self, Py_ssize_t n) {
    return size_from(PyTuple_Type.tp_as_sequence->sq_repeat(self, n));
}
static PyObject *size_item(PyObject *self, PyObject *key) {
    PyObject *item = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
    return PySlice_Check(key) ? size_from(item) : item;
}
static PyObject *size_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *tuple = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
    if (!tuple) return NULL;
    return Py_TYPE(self) == tpy_size_type ? Py_BuildValue("O(sN)", restore, "Size", tuple)
                                          : Py_BuildValue("O(N)", Py_TYPE(self), tuple);
}
static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size."},
    {"__reduce__", size_reduce, METH_NOARGS, NULL},
    {0}};
static PyType_Slot size_slots[] = {{Py_tp_new, size_new},
                                   {Py_tp_repr, size_repr},
                                   {Py_nb_add, size_concat},
                                   {Py_sq_concat, size_concat_only},
                                   {Py_sq_repeat, size_repeat},
                                   {Py_mp_subscript, size_item},
                                   {Py_tp_methods, size_methods},
                                   {Py_tp_doc, "A tensor's shape: a tuple of ints."},
                                   {0, NULL}};
static PyType_Spec size_spec = {"torch.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, size_slots};

int tpy_init_types(PyObject *module) {
    tpy_dtype_type = (PyTypeObject *)PyType_FromSpec(&dtype_spec);
    tpy_device_type = (PyTypeObject *)PyType_FromSpec(&device_spec);
    tpy_memory_format_type = (PyTypeObject *)PyType_FromSpec(&format_spec);
    tpy_layout_type = (PyTypeObject *)PyType_FromSpec(&layout_spec);
    tpy_size_type = (PyTypeObject *)PyType_FromSpecWithBases(&size_spec, (PyObject *)&PyTuple_Type);
    if (!tpy_dtype_type || !tpy_device_type || !tpy_memory_format_type || !tpy_layout_type || !tpy_size_type) return -1;
    PyTypeObject *const types[] = {tpy_dtype_type, tpy_device_type, tpy_memory_format_type, tpy_layout_type,
                                   tpy_size_type};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyModule_AddType(module, types[i]) < 0) return -1;
    for (int f = 0; f <= TP_CHANNELS_LAST_3D; f++) {
        tpy_memory_format *o = PyObject_New(tpy_memory_format, tpy_memory_format_type);
        if (!o) return -1;
        o->layout = (tp_layout)f;
        if (PyModule_AddObject(module, format_names[f], (PyObject *)o) < 0) return -1;
    }
    if (PyModule_AddFunctions(module, functions) < 0 || !(restore = PyObject_GetAttrString(module, "_restore")))
        return -1;
    for (size_t i = 0; i < sizeof layout_names / sizeof *layout_names; i++) {
        layout_object *o = PyObject_New(layout_object, tpy_layout_type);
        if (!o) return -1;
        o->name = layout_names[i];
        if (PyModule_AddObject(module, o->name, (PyObject *)o) < 0) return -1;
    }
    return add_dtypes(module);
}
