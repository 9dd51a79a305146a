/* UntypedStorage, the memory under tensors as bytes, and what changes a tensor's place in it: untyped_storage, set_,
 * resize_. Memory that processes share is made here too. */
#include "tpy.h"
#include <stddef.h>
#include <structmember.h>
#include <taper/binding.h>

typedef struct tpy_storage {
    PyObject_HEAD
    tp_storage *s; /* owned; borrowed while `kept` */
    PyObject *dict, *weakrefs;
    bool kept;    /* the storage owns the object: Python let go of it while tensors still have the memory */
    bool leaving; /* the object's end has begun */
} tpy_storage;
static PyTypeObject *storage_base, *storage_type;

/* Address of a storage -> address of its object: one storage is one object while either lives. */
static PyObject *objects;

static tp_storage *storage_of(PyObject *o) { return ((tpy_storage *)o)->s; }

static PyObject *object_of(tp_storage *s) { /* borrowed; NULL: none yet */
    PyObject *key = PyLong_FromVoidPtr(s), *there = key ? PyDict_GetItemWithError(objects, key) : NULL;
    Py_XDECREF(key);
    return there ? PyLong_AsVoidPtr(there) : NULL;
}
static int remember(tp_storage *s, void *object) { /* NULL: forget */
    PyObject *key = PyLong_FromVoidPtr(s), *value = object ? PyLong_FromVoidPtr(object) : NULL;
    int done = !key || (object && !value) ? -1
               : object                   ? PyDict_SetItem(objects, key, value)
                                          : PyDict_DelItem(objects, key);
    Py_XDECREF(key);
    Py_XDECREF(value);
    return done;
}

static PyObject *wrap_storage(tp_storage *s, PyTypeObject *type) { /* takes s over */
    if (!s) return tpy_raise();
    PyObject *there = object_of(s);
    if (there && ((tpy_storage *)there)
                     ->kept) { /* the caller's reference to the storage becomes the object's, and the other way round */
        ((tpy_storage *)there)->kept = false;
        tp_storage_watch(s, NULL);
        PyObject_GC_Track(there);
        return there;
    }
    if (there) {
        tp_storage_release(s);
        return Py_NewRef(there);
    }
    tpy_storage *o = PyErr_Occurred() ? NULL : (tpy_storage *)type->tp_alloc(type, 0);
    if (!o)
        tp_storage_release(s);
    else {
        o->s = s;
        if (remember(s, o) < 0) Py_CLEAR(o);
    }
    return (PyObject *)o;
}

PyObject *tpy_wrap_storage(tp_storage *s) { return wrap_storage(s, storage_type); }

tp_storage *tpy_storage_in(PyObject *o) {
    if (PyObject_TypeCheck(o, storage_base)) return storage_of(o);
    if (PyLong_Check(o) || PyList_Check(o) || PyTuple_Check(o)) return NULL;
    PyObject *inner = PyObject_GetAttrString(o, "_untyped_storage"); /* a TypedStorage */
    if (!inner) {
        PyErr_Clear();
        return NULL;
    }
    tp_storage *s = PyObject_TypeCheck(inner, storage_base) ? storage_of(inner) : NULL;
    Py_DECREF(inner); /* its owner keeps it */
    return s;
}

bool tpy_storage_holds(PyObject *o, tp_dtype dtype, bool argument) {
    PyObject *kind =
        PyObject_TypeCheck(o, storage_base) ? NULL : PyObject_GetAttrString(o, "dtype"); /* a TypedStorage has one */
    tp_dtype found = TP_NO_DTYPE;
    if (!kind) PyErr_Clear();
    bool same = !kind || (tpy_fit_dtype(kind, &found) > 0 && found == dtype);
    Py_XDECREF(kind);
    if (!same)
        PyErr_Format(PyExc_RuntimeError, "Expected a Storage of type %s or an UntypedStorage, but got %s%s%s",
                     tp_dtype_word(dtype), argument ? "type " : "", tp_dtype_word(found),
                     argument ? " for argument 1 'storage'" : "");
    return same;
}

tp_tensor *tpy_over_storage(tp_storage *s, tp_dtype dtype) {
    int64_t none = 0, n = tp_storage_size(s) / tp_dtype_size(dtype);
    tp_tensor *t = tpy_own(tp_empty(tp_ints_view(&none, 1), .dtype = dtype, .device = tp_storage_device(s)));
    if (t && tp_set_storage(t, s, 0, tp_ints_view(&n, 1), tp_no_ints())) return t;
    tp_release(t);
    return (tp_tensor *)tpy_raise();
}

/* The storage's bytes as a tensor, whose operators then do the work. */
static PyObject *bytes_of(PyObject *o) {
    tp_tensor *t = tpy_over_storage(storage_of(o), TP_UINT8);
    return t ? tpy_wrap(t) : NULL;
}

/* ---- The type ---- */
static tp_tensor *copy_of(tp_storage *s, tp_device device) {
    tp_tensor *bytes = tpy_over_storage(s, TP_UINT8);
    tp_tensor *copy = bytes ? tpy_own(tp_to(bytes, .device = device, .copy = true)) : NULL;
    if (bytes && !copy) tpy_raise();
    tp_release(bytes);
    return copy;
}
static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"size", "device", NULL};
    PyObject *given = NULL, *device_object = Py_None;
    tp_device device = {TP_CPU, 0};
    if (type == storage_base)
        return PyErr_Format(PyExc_RuntimeError,
                            "Cannot directly construct StorageBase; subclass it and then construct that");
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:UntypedStorage", names, &given, &device_object)) return NULL;
    if (device_object != Py_None && tpy_fit_device(device_object, &device) <= 0)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "UntypedStorage(): argument 'device' must be torch.device, not %s",
                                  Py_TYPE(device_object)->tp_name);
    int64_t n = 0;
    int fits = given ? tpy_fit_int(given, &n) : 1;
    if (fits < 0) return NULL;
    if (fits) {
        if (n < 0)
            return PyErr_Format(PyExc_RuntimeError, "UntypedStorage(): expected a size of 0 or more, got %lld",
                                (long long)n);
        return wrap_storage(tp_storage_new(n, device), type);
    }
    tp_storage *other = tpy_storage_in(given);
    if (!other && !PySequence_Check(given))
        return PyErr_Format(PyExc_TypeError, "UntypedStorage(): expected a size or a sequence, got %s",
                            Py_TYPE(given)->tp_name);
    tp_tensor *t = other ? copy_of(other, device) : tpy_tensor_of(given, TP_UINT8, device);
    if (!t) return NULL;
    PyObject *o = wrap_storage(tp_storage_of(t), type);
    tp_release(t);
    return o;
}
/* The last tensor lets go of memory that kept an object, on whatever thread: the object has the last reference now. */
static void storage_gone(tp_storage *s) {
    if (!PyGILState_Check() && !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *o = object_of(s);
    if (o) {
        ((tpy_storage *)o)->kept = false;
        PyObject_GC_Track(o);
        Py_DECREF(o);
    } else
        PyErr_Clear();
    PyGILState_Release(state);
}

/* In the object's last moment: an object with something of its own stays while tensors have the memory, as tensors' own
 * objects do (tensor.c). */
static bool keep_alive(tpy_storage *o) {
    bool own = Py_TYPE(o) != storage_type || (o->dict && PyDict_GET_SIZE(o->dict)) || o->weakrefs;
    if (!own || o->leaving || !o->s || tp_storage_references(o->s) < 2 || object_of(o->s) != (PyObject *)o)
        return false;
    PyObject_GC_UnTrack(o);
    Py_SET_REFCNT((PyObject *)o, 1);
    o->kept = true;
    tp_storage_watch(o->s, storage_gone);
    tp_storage_release(o->s); /* may be the last after all, if another thread was quick: then the object is gone here */
    return true;
}

static int storage_traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(((tpy_storage *)o)->dict);
    Py_VISIT(Py_TYPE(o));
    return 0;
}
static int storage_clear(PyObject *o) {
    Py_CLEAR(((tpy_storage *)o)->dict);
    return 0;
}

static void storage_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (keep_alive((tpy_storage *)o)) return;
    PyObject *pending, *value, *trace;
    PyErr_Fetch(&pending, &value, &trace);
    PyObject_GC_UnTrack(o);
    if (((tpy_storage *)o)->weakrefs) PyObject_ClearWeakRefs(o);
    type->tp_clear(o);
    if (storage_of(o) && object_of(storage_of(o)) == o && remember(storage_of(o), NULL) < 0) PyErr_Clear();
    PyErr_Restore(pending, value, trace);
    tp_storage_release(storage_of(o));
    type->tp_free(o);
    Py_DECREF(type);
}

/* Of classes written in Python. Their own end, which runs __del__ and clears slots, begins only when the object is not
 * kept; Python then calls this function once more, as that of the base. */
static destructor subclass_end;
static void subclass_dealloc(PyObject *o) {
    tpy_storage *self = (tpy_storage *)o;
    if (self->leaving) {
        storage_dealloc(o);
        return;
    }
    if (keep_alive(self)) return;
    self->leaving = true;
    subclass_end(o);
    /* Here o is gone, unless __del__ kept it. */
}
static PyObject *storage_init_subclass(PyObject *cls, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    PyTypeObject *type = (PyTypeObject *)cls;
    if (type->tp_dealloc != subclass_dealloc) subclass_end = type->tp_dealloc;
    type->tp_dealloc = subclass_dealloc;
    Py_RETURN_NONE;
}

static Py_ssize_t storage_len(PyObject *o) { return (Py_ssize_t)tp_storage_size(storage_of(o)); }
static PyObject *storage_nbytes(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromSsize_t(storage_len(o));
}
static PyObject *storage_data_ptr(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(tp_storage_data(storage_of(o)));
}
static PyObject *storage_element_size(PyObject *o, PyObject *unused) {
    (void)o;
    (void)unused;
    return PyLong_FromLong(1);
}
static PyObject *storage_device(PyObject *o, void *unused) {
    (void)unused;
    return tpy_device_object(tp_storage_device(storage_of(o)));
}
static PyObject *storage_address(PyObject *o, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(storage_of(o));
}
static PyObject *storage_is_cuda(PyObject *o, void *unused) {
    (void)unused;
    return PyBool_FromLong(tp_storage_device(storage_of(o)).type == TP_CUDA);
}

static PyObject *storage_resize(PyObject *o, PyObject *size) {
    int64_t n;
    int fits = tpy_fit_int(size, &n);
    if (fits < 0) return NULL;
    if (!fits) return PyErr_Format(PyExc_RuntimeError, "resize_ expects an int, but got %s", Py_TYPE(size)->tp_name);
    if (n < 0)
        return PyErr_Format(PyExc_RuntimeError, "resize_(): expected a size of 0 or more, got %lld", (long long)n);
    bool ok;
    TPY_CHANGE(ok = tp_storage_resize(storage_of(o), n));
    return ok ? Py_NewRef(o) : tpy_raise();
}

static void drop_whole(void *whole) { tp_storage_release(whole); }

/* A part of the memory, which stays where it is. */
static PyObject *storage_slice(tp_storage *s, PyObject *key, int64_t n) {
    Py_ssize_t first, last, step;
    if (PySlice_Unpack(key, &first, &last, &step) < 0) return NULL;
    if (step != 1)
        return PyErr_Format(PyExc_RuntimeError, "Trying to slice with a step of %zd, but only a step of 1 is supported",
                            step);
    Py_ssize_t count = PySlice_AdjustIndices((Py_ssize_t)n, &first, &last, 1);
    if (tp_storage_device(s).type != TP_CPU)
        return PyErr_Format(PyExc_NotImplementedError, "only storages on the CPU can be sliced");
    tp_storage *part = tp_storage_over((char *)tp_storage_data(s) + first, count, drop_whole, tp_storage_retain(s));
    if (!part) tp_storage_release(s);
    return wrap_storage(part, storage_type);
}

static bool has_values(PyObject *o) {
    if (tp_storage_device(storage_of(o)).type != TP_META) return true;
    PyErr_SetString(PyExc_NotImplementedError, "Not available for 'meta' device type");
    return false;
}

static PyObject *storage_item(PyObject *o, PyObject *key) {
    if (!has_values(o)) return NULL;
    int64_t i, n = tp_storage_size(storage_of(o));
    int fits = tpy_fit_int(key, &i);
    if (fits < 0) return NULL;
    if (fits && (i < -n || i >= n))
        return PyErr_Format(PyExc_IndexError, "index %lld out of range for storage of size %lld", (long long)i,
                            (long long)n);
    if (!fits && !PySlice_Check(key))
        return PyErr_Format(PyExc_TypeError, "can't index a torch.UntypedStorage with %s", Py_TYPE(key)->tp_name);
    if (!fits) return storage_slice(storage_of(o), key, n);
    PyObject *bytes = bytes_of(o), *part = bytes ? PyObject_GetItem(bytes, key) : NULL,
             *result = part ? PyNumber_Long(part) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(part);
    return result;
}
static int storage_set_item(PyObject *o, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "a storage's items cannot be deleted");
        return -1;
    }
    PyObject *bytes = bytes_of(o);
    int done = bytes ? PyObject_SetItem(bytes, key, value) : -1;
    Py_XDECREF(bytes);
    return done;
}

static PyObject *by_bytes(PyObject *o, const char *method, PyObject *argument,
                          bool self) { /* calls a method of the bytes as a tensor */
    PyObject *bytes = bytes_of(o),
             *result = bytes ? PyObject_CallMethod(bytes, method, argument ? "O" : NULL, argument) : NULL;
    Py_XDECREF(bytes);
    if (!self || !result) return result;
    Py_DECREF(result);
    return Py_NewRef(o);
}
static PyObject *storage_tolist(PyObject *o, PyObject *unused) {
    (void)unused;
    return has_values(o) ? by_bytes(o, "tolist", NULL, false) : NULL;
}
static PyObject *storage_fill(PyObject *o, PyObject *value) { return by_bytes(o, "fill_", value, true); }
static PyObject *storage_copy(PyObject *o, PyObject *args) {
    PyObject *source, *non_blocking;
    if (!PyArg_ParseTuple(args, "O|O:copy_", &source, &non_blocking)) return NULL;
    tp_storage *from = tpy_storage_in(source);
    if (!from)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "copy_(): expected a storage, got %s", Py_TYPE(source)->tp_name);
    if (tp_storage_size(from) != tp_storage_size(storage_of(o)))
        return PyErr_Format(PyExc_RuntimeError, "size does not match, self was %zd bytes but src was %lld bytes",
                            storage_len(o), (long long)tp_storage_size(from));
    tp_tensor *t = tpy_over_storage(from, TP_UINT8);
    PyObject *bytes = t ? tpy_wrap(t) : NULL, *result = bytes ? by_bytes(o, "copy_", bytes, true) : NULL;
    Py_XDECREF(bytes);
    return result;
}
static PyObject *storage_resizable(PyObject *o, PyObject *unused) {
    (void)o;
    (void)unused;
    Py_RETURN_TRUE;
}
static PyObject *storage_fix_weakref(PyObject *o, PyObject *unused) { /* weak references are never out of order here */
    (void)o;
    (void)unused;
    Py_RETURN_NONE;
}
static PyObject *storage_clone(PyObject *o, PyObject *unused) {
    (void)unused;
    PyObject *bytes = by_bytes(o, "clone", NULL, false),
             *result = bytes ? wrap_storage(tp_storage_of(tpy_unwrap(bytes)), Py_TYPE(o)) : NULL;
    Py_XDECREF(bytes);
    return result;
}

/* ---- Memory that processes share ---- */
static PyObject *storage_new_shared(PyObject *type, PyObject *args) {
    long long bytes;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "L|O&:_new_shared", &bytes, PyUnicode_FSConverter, &path)) return NULL;
    tp_storage *s = path ? tp_storage_new_shared_file(PyBytes_AS_STRING(path), bytes) : tp_storage_new_shared(bytes);
    Py_XDECREF(path);
    return wrap_storage(s, (PyTypeObject *)type);
}
static PyObject *storage_share(PyObject *o, PyObject *args) {
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "|O&:_share", PyUnicode_FSConverter, &path)) return NULL;
    tp_storage *s = tp_storage_share(storage_of(o), path ? PyBytes_AS_STRING(path) : NULL);
    Py_XDECREF(path);
    return wrap_storage(s, storage_type);
}
static PyObject *storage_from_shared(PyObject *type, PyObject *args) {
    int fd, keep;
    long long bytes;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "iLp|O&:_from_shared", &fd, &bytes, &keep, PyUnicode_FSConverter, &path)) return NULL;
    tp_storage *s = tp_storage_from_shared(fd, bytes, keep, path ? PyBytes_AS_STRING(path) : NULL);
    Py_XDECREF(path);
    return wrap_storage(s, (PyTypeObject *)type);
}
static PyObject *storage_borrow_shared(PyObject *type, PyObject *args) {
    int fd;
    long long bytes;
    if (!PyArg_ParseTuple(args, "iL:_borrow_shared", &fd, &bytes)) return NULL;
    return wrap_storage(tp_storage_borrow_shared(fd, bytes), (PyTypeObject *)type);
}
static PyObject *storage_references(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_storage_references(storage_of(o)));
}
/* PyTorch's count, by address: a storage that Python has seen counts its object, which PyTorch keeps while the storage
 * lives. */
static PyObject *storage_count_at(PyObject *unused, PyObject *address) {
    (void)unused;
    tp_storage *s = PyLong_AsVoidPtr(address);
    if (!s)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_RuntimeError, "_storage_Use_Count(): there is no storage at address 0");
    bool counted = object_of(s) != NULL;
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLongLong(tp_storage_references(s) + !counted);
}
static PyObject *storage_is_shared(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_storage_is_shared(storage_of(o)));
}
static PyObject *storage_shared_fd(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(tp_storage_shared_fd(storage_of(o)));
}
static PyObject *storage_shared_path(PyObject *o, PyObject *unused) {
    (void)unused;
    const char *path = tp_storage_shared_path(storage_of(o));
    return path ? PyUnicode_DecodeFSDefault(path) : Py_NewRef(Py_None);
}
static PyObject *storage_shared_count(PyObject *o, PyObject *add) {
    int64_t n;
    int fits = tpy_fit_int(add, &n);
    if (fits <= 0)
        return fits < 0 ? NULL : PyErr_Format(PyExc_TypeError, "_shared_count(): expected an int, got %R", add);
    int64_t now = tp_storage_shared_count(storage_of(o), n);
    return tp_ok() ? PyLong_FromLongLong(now) : tpy_raise();
}

static PyObject *storage_from_file(PyObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"filename", "shared", "nbytes", NULL};
    PyObject *path;
    int shared = 0;
    long long bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|pL:from_file", names, PyUnicode_FSConverter, &path, &shared,
                                     &bytes))
        return NULL;
    tp_storage *s = tp_storage_from_file(PyBytes_AS_STRING(path), shared, bytes);
    PyObject *o = wrap_storage(s, (PyTypeObject *)type);
    PyObject *name = o && shared ? PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(path)) : NULL;
    if (o && shared && (!name || PyObject_SetAttrString(o, "_filename", name) < 0)) Py_CLEAR(o);
    Py_XDECREF(name);
    Py_DECREF(path);
    return o;
}

static PyMethodDef storage_methods[] = {
    {"nbytes", storage_nbytes, METH_NOARGS, "The size in bytes."},
    {"size", storage_nbytes, METH_NOARGS, "The size in bytes."},
    {"data_ptr", storage_data_ptr, METH_NOARGS, "The address of the first byte."},
    {"element_size", storage_element_size, METH_NOARGS, NULL},
    {"resize_", storage_resize, METH_O, "resize_(bytes): another size, keeping what is there."},
    {"tolist", storage_tolist, METH_NOARGS, NULL},
    {"fill_", storage_fill, METH_O, NULL},
    {"copy_", storage_copy, METH_VARARGS, NULL},
    {"clone", storage_clone, METH_NOARGS, NULL},
    {"from_file", (PyCFunction)(void (*)(void))storage_from_file, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_file(filename, shared=False, nbytes=0): a file's bytes, mapped; shared: what is written reaches it."},
    {"is_shared", storage_is_shared, METH_NOARGS, NULL},
    {"resizable", storage_resizable, METH_NOARGS, NULL},
    {"_fix_weakref", storage_fix_weakref, METH_NOARGS, NULL},
    {"__init_subclass__", (PyCFunction)(void (*)(void))storage_init_subclass, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     NULL},
    {"_new_shared", storage_new_shared, METH_VARARGS | METH_CLASS,
     "_new_shared(bytes, path=None): memory that other processes can map."},
    {"_share", storage_share, METH_VARARGS,
     "_share(path=None): itself if other processes can map it, else a copy that they can."},
    {"_from_shared", storage_from_shared, METH_VARARGS | METH_CLASS,
     "_from_shared(fd, bytes, keep, path=None): memory of another process's; takes the descriptor over."},
    {"_borrow_shared", storage_borrow_shared, METH_VARARGS | METH_CLASS,
     "_borrow_shared(fd, bytes): the same on loan; its owner may use it again when this process has let go of it."},
    {"_count_at", storage_count_at, METH_O | METH_STATIC,
     "How many tensors and holders the storage at an address has."},
    {"_references", storage_references, METH_NOARGS,
     "How many tensors and holders the memory has; this object is one."},
    {"_shared_fd", storage_shared_fd, METH_NOARGS, "The descriptor by which others can map it; -1 if there is none."},
    {"_shared_path", storage_shared_path, METH_NOARGS, "The file by which others can map it, or None."},
    {"_shared_count", storage_shared_count, METH_O,
     "_shared_count(add): changes and gives the number that lies beside shared memory."},
    {0}};
static PyGetSetDef storage_properties[] = {{"device", storage_device, NULL, NULL, NULL},
                                           {"_cdata", storage_address, NULL, NULL, NULL},
                                           {"is_cuda", storage_is_cuda, NULL, NULL, NULL},
                                           {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                           {0}};
static PyMemberDef storage_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(tpy_storage, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tpy_storage, weakrefs), READONLY, NULL},
    {0}};
static PyType_Slot base_slots[] = {{Py_tp_new, storage_new},
                                   {Py_tp_dealloc, storage_dealloc},
                                   {Py_tp_traverse, storage_traverse},
                                   {Py_tp_clear, storage_clear},
                                   {Py_tp_methods, storage_methods},
                                   {Py_tp_getset, storage_properties},
                                   {Py_tp_members, storage_members},
                                   {Py_mp_length, storage_len},
                                   {Py_mp_subscript, storage_item},
                                   {Py_mp_ass_subscript, storage_set_item},
                                   {0, NULL}};
static PyType_Spec base_spec = {"torch._C.StorageBase", sizeof(tpy_storage), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, base_slots};
static PyType_Slot storage_slots[] = {{Py_tp_doc, "The memory under tensors, as bytes."},
                                      {Py_tp_dealloc, storage_dealloc},
                                      {Py_tp_traverse, storage_traverse},
                                      {Py_tp_clear, storage_clear},
                                      {0, NULL}};
static PyType_Spec storage_spec = {"torch.storage.UntypedStorage", sizeof(tpy_storage), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, storage_slots};

/* ---- Tensor's side ---- */
static PyObject *tensor_storage(PyObject *o, PyObject *unused) {
    (void)unused;
    return wrap_storage(tp_storage_of(tpy_unwrap(o)), storage_type);
}

static bool read_ints(PyObject *o, const char *name, int64_t *list, Py_ssize_t *n) {
    PyObject *items = PyTuple_Check(o) || PyList_Check(o) ? PySequence_Tuple(o) : NULL;
    if (!items && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "argument '%s' must be tuple of ints, not %s", name, Py_TYPE(o)->tp_name);
    if (!items) return false;
    *n = PyTuple_GET_SIZE(items);
    bool ok = *n <= TP_MAX_DIMS;
    if (!ok) PyErr_Format(PyExc_ValueError, "argument '%s': expected at most %d ints, got %zd", name, TP_MAX_DIMS, *n);
    for (Py_ssize_t i = 0; ok && i < *n; i++) {
        int fits = tpy_fit_int(PyTuple_GET_ITEM(items, i), &list[i]);
        if (!fits)
            PyErr_Format(PyExc_TypeError,
                         "argument '%s' must be tuple of ints, but found element of type %s at pos %zd", name,
                         Py_TYPE(PyTuple_GET_ITEM(items, i))->tp_name, i);
        ok = fits > 0;
    }
    Py_DECREF(items);
    return ok;
}

static PyObject *set_to_storage(PyObject *self, tp_storage *s, long long offset, PyObject *size, PyObject *stride) {
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS],
        whole = (tp_storage_size(s) - offset) / tp_dtype_size(tp_dtype_of(tpy_unwrap(self)));
    Py_ssize_t n = 1, m = 0;
    shape[0] = whole;
    if (size != Py_None && !read_ints(size, "size", shape, &n)) return NULL;
    if (stride != Py_None && !read_ints(stride, "stride", strides, &m)) return NULL;
    if (stride != Py_None && m && m != n)
        return PyErr_Format(PyExc_RuntimeError, "mismatch in length of strides and shape: %zd strides for %zd sizes", m,
                            n);
    bool ok;
    TPY_CHANGE(ok = tp_set_storage(tpy_unwrap(self), s, offset, tp_ints_view(shape, n),
                                   m ? tp_ints_view(strides, m) : tp_no_ints()));
    return ok ? Py_NewRef(self) : tpy_raise();
}

static PyObject *tensor_set(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"source", "storage_offset", "size", "stride", NULL};
    PyObject *source = Py_None, *size = Py_None, *stride = Py_None;
    long long offset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OLOO:set_", names, &source, &offset, &size, &stride)) return NULL;
    if (source == Py_None) {
        tp_storage *empty = tp_storage_new(0, tp_device_of(tpy_unwrap(self)));
        PyObject *done = empty ? set_to_storage(self, empty, 0, Py_None, Py_None) : tpy_raise();
        tp_storage_release(empty);
        return done;
    }
    if (tpy_is_tensor(source)) {
        tp_tensor *t = tpy_unwrap(source), *own = tpy_unwrap(self);
        if (tp_dtype_of(t) != tp_dtype_of(own))
            return PyErr_Format(PyExc_RuntimeError, "Could not set tensor of type %s to a tensor of type %s",
                                tp_dtype_name(tp_dtype_of(t)), tp_dtype_name(tp_dtype_of(own)));
        tp_storage *s = tp_storage_of(t);
        bool ok;
        TPY_CHANGE(ok = s && tp_set_storage(own, s, tp_storage_offset(t), tp_shape(t), tp_strides(t)));
        tp_storage_release(s);
        return ok ? Py_NewRef(self) : tpy_raise();
    }
    tp_storage *s = tpy_storage_in(source);
    if (!s)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "set_(): argument 'source' must be Tensor or Storage, not %s",
                                  Py_TYPE(source)->tp_name);
    if (!tpy_storage_holds(source, tp_dtype_of(tpy_unwrap(self)), true)) return NULL;
    return set_to_storage(self, s, offset, size, stride);
}

/* The strides of images in the order of channels_last: rows of pixels, whose channels lie beside each other. */
static tp_ints channels_last(tp_ints shape, int64_t *strides) {
    int64_t step = shape.v[1];
    strides[1] = 1;
    for (int64_t d = shape.n - 1; d > 1; d--) {
        strides[d] = step;
        step *= shape.v[d];
    }
    strides[0] = step;
    return tp_ints_view(strides, shape.n);
}

static bool set_strides(tp_tensor *t, tp_ints shape, tp_ints strides) {
    tp_storage *s = tp_storage_of(t);
    bool ok = s && tp_set_storage(t, s, tp_storage_offset(t), shape, strides);
    tp_storage_release(s);
    return ok;
}

static PyObject *resize(PyObject *self, tp_ints shape, tp_layout layout) {
    tp_tensor *t = tpy_unwrap(self);
    int64_t strides[TP_MAX_DIMS];
    if (tp_requires_grad(t)) return PyErr_Format(PyExc_RuntimeError, "cannot resize variables that require grad");
    bool pixels = layout == TP_CHANNELS_LAST || layout == TP_CHANNELS_LAST_3D;
    if (pixels && shape.n != (layout == TP_CHANNELS_LAST ? 4 : 5))
        return PyErr_Format(PyExc_RuntimeError, "required rank %d tensor to use channels_last format",
                            layout == TP_CHANNELS_LAST ? 4 : 5);
    bool ok;
    TPY_CHANGE(ok = tp_resize(t, shape) && (!pixels || set_strides(t, shape, channels_last(shape, strides))));
    return ok ? Py_NewRef(self) : tpy_raise();
}
static bool read_format(PyObject *format, tp_layout *layout) {
    if (!format || format == Py_None) return true;
    if (Py_TYPE(format) != tpy_memory_format_type) {
        PyErr_Format(PyExc_TypeError, "argument 'memory_format' must be torch.memory_format, not %s",
                     Py_TYPE(format)->tp_name);
        return false;
    }
    *layout = ((tpy_memory_format *)format)->layout;
    return true;
}
static PyObject *tensor_resize(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (kwargs && PyDict_GET_SIZE(kwargs) &&
        !(PyDict_GET_SIZE(kwargs) == 1 && PyDict_GetItemString(kwargs, "memory_format")))
        return PyErr_Format(PyExc_TypeError, "resize_() got an unexpected keyword argument");
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    bool packed = n == 1 && (PyTuple_Check(PyTuple_GET_ITEM(args, 0)) || PyList_Check(PyTuple_GET_ITEM(args, 0)));
    int64_t shape[TP_MAX_DIMS];
    tp_layout layout = TP_CONTIGUOUS;
    if (!read_format(kwargs ? PyDict_GetItemString(kwargs, "memory_format") : NULL, &layout)) return NULL;
    if (!read_ints(packed ? PyTuple_GET_ITEM(args, 0) : args, "size", shape, &n)) return NULL;
    return resize(self, tp_ints_view(shape, n), layout);
}
static PyObject *tensor_resize_as(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"other", "memory_format", NULL};
    PyObject *other, *format = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O:resize_as_", names, &other, &format)) return NULL;
    if (!tpy_is_tensor(other))
        return PyErr_Format(PyExc_TypeError,
                            "resize_as_(): argument 'the_template' (position 1) must be Tensor, not %s",
                            Py_TYPE(other)->tp_name);
    tp_tensor *like = tpy_unwrap(other);
    tp_layout layout = TP_CONTIGUOUS;
    if (!read_format(format, &layout)) return NULL;
    if (layout == TP_PRESERVE && !tp_is_contiguous(like)) /* the other's order, if it is one that has a name */
        layout = tp_is_contiguous_as(like, TP_CHANNELS_LAST)      ? TP_CHANNELS_LAST
                 : tp_is_contiguous_as(like, TP_CHANNELS_LAST_3D) ? TP_CHANNELS_LAST_3D
                                                                  : TP_CONTIGUOUS;
    return resize(self, tp_shape(like), layout);
}
static PyObject *tensor_is_set_to(PyObject *self, PyObject *other) {
    if (!tpy_is_tensor(other))
        return PyErr_Format(PyExc_TypeError, "is_set_to(): argument 'tensor' (position 1) must be Tensor, not %s",
                            Py_TYPE(other)->tp_name);
    tp_tensor *a = tpy_unwrap(self), *b = tpy_unwrap(other);
    tp_ints x = tp_shape(a), y = tp_shape(b), sx = tp_strides(a), sy = tp_strides(b);
    bool same = tp_shares_storage(a, b) && tp_storage_offset(a) == tp_storage_offset(b) && x.n == y.n;
    for (int64_t i = 0; same && i < x.n; i++) same = x.v[i] == y.v[i] && sx.v[i] == sy.v[i];
    return PyBool_FromLong(same);
}

static PyMethodDef methods[] = {
    {"untyped_storage", tensor_storage, METH_NOARGS, "The memory under the tensor."},
    {"set_", (PyCFunction)(void (*)(void))tensor_set, METH_VARARGS | METH_KEYWORDS,
     "set_(source=None, storage_offset=0, size=None, stride=None): looks at other memory."},
    {"resize_", (PyCFunction)(void (*)(void))tensor_resize, METH_VARARGS | METH_KEYWORDS,
     "resize_(*sizes, memory_format=torch.contiguous_format): another shape, with more memory where it must."},
    {"resize_as_", (PyCFunction)(void (*)(void))tensor_resize_as, METH_VARARGS | METH_KEYWORDS,
     "resize_as_(tensor): resized to the tensor's shape."},
    {"is_set_to", tensor_is_set_to, METH_O, "is_set_to(tensor): do both look at the same memory in the same way?"},
    {0}};

int tpy_init_storage(PyObject *module) {
    storage_base = (PyTypeObject *)PyType_FromSpec(&base_spec);
    storage_type =
        storage_base ? (PyTypeObject *)PyType_FromSpecWithBases(&storage_spec, (PyObject *)storage_base) : NULL;
    objects = PyDict_New();
    if (!storage_type || !objects || PyModule_AddType(module, storage_base) < 0 ||
        PyModule_AddType(module, storage_type) < 0)
        return -1;
    return tpy_add_methods(methods);
}
