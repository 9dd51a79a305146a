/* Files of tensors: what torch.save and torch.load need of the library. A _File opens a checkpoint; value() makes
 * Python objects of the values that the library read, without running anything that the file names, but for classes and
 * functions that the caller lets through.
 */
#include "tpy.h"

typedef struct tpy_file {
    PyObject_HEAD
    tp_file *file;
    Py_buffer memory;     /* obj NULL: a path was opened */
    const char **allowed; /* names of what the caller lets through, in strings that `names` keeps */
    PyObject *names;
} tpy_file;

/* Errors about what a pickle holds are pickle.UnpicklingError; about the file, RuntimeError, as PyTorch's. */
static PyObject *raise_read(void) {
    tp_code code = tp_error_code();
    if (PyErr_Occurred() || (code != TP_ERR_VALUE && code != TP_ERR_IO && code != TP_ERR_TYPE)) return tpy_raise();
    PyObject *module = code == TP_ERR_IO ? NULL : PyImport_ImportModule("pickle");
    PyObject *type = module              ? PyObject_GetAttrString(module, "UnpicklingError")
                     : code == TP_ERR_IO ? Py_NewRef(PyExc_RuntimeError)
                                         : NULL;
    if (type) PyErr_SetString(type, tpy_error_text());
    tp_error_clear();
    Py_XDECREF(module);
    Py_XDECREF(type);
    return NULL;
}

/* ---- Values as Python objects ---- */
typedef struct maker {
    PyObject *made; /* address of a value -> its object */
    PyObject
        *find; /* find(full name, use) -> class or function; use: "value", "new" or "call" (taper/_file_names.py) */
    PyObject *restore; /* restore(storage, location) -> storage on the device wanted; NULL: all stay on the CPU */
    PyObject *utils;   /* taper._utils */
    int depth;         /* of the value that is being made */
} maker;
static PyObject *make(maker *m, const tp_saved *v);

static PyObject *made_before(maker *m, const tp_saved *v) { /* borrowed */
    PyObject *key = PyLong_FromVoidPtr((void *)v), *o = key ? PyDict_GetItemWithError(m->made, key) : NULL;
    Py_XDECREF(key);
    return o;
}
static PyObject *remember(maker *m, const tp_saved *v, PyObject *o) { /* gives o back; on failure drops it */
    PyObject *key = o ? PyLong_FromVoidPtr((void *)v) : NULL;
    if (key && PyDict_SetItem(m->made, key, o) < 0) Py_CLEAR(o);
    if (!key) Py_CLEAR(o);
    Py_XDECREF(key);
    return o;
}

/* Until v is finished, the dict of what was made stands for it. */
static bool begin(maker *m, const tp_saved *v) {
    PyObject *mark = remember(m, v, Py_NewRef(m->made));
    Py_XDECREF(mark);
    return mark != NULL;
}

static PyObject *make_text(const tp_saved *v) {
    return PyUnicode_DecodeUTF8(tp_saved_text(v), (Py_ssize_t)tp_saved_count(v), "surrogatepass");
}

static PyObject *make_bytes(const tp_saved *v) {
    tp_saved_about about = {.size = sizeof about};
    if (!tp_saved_describe(v, &about)) return raise_read();
    const char *bytes = tp_saved_text(v);
    Py_ssize_t n = (Py_ssize_t)tp_saved_count(v);
    return about.class_name ? PyByteArray_FromStringAndSize(bytes, n) : PyBytes_FromStringAndSize(bytes, n);
}

static PyObject *make_long(maker *m, const tp_saved *v) {
    return PyObject_CallMethod(m->utils, "_long", "y#", tp_saved_text(v), (Py_ssize_t)tp_saved_count(v));
}

static int fill_list(maker *m, PyObject *list, const tp_saved *v) {
    for (int64_t i = 0, n = tp_saved_count(v); i < n; i++) {
        PyObject *item = make(m, tp_saved_at(v, i));
        int failed = item ? PyList_Append(list, item) : -1;
        Py_XDECREF(item);
        if (failed) return -1;
    }
    return 0;
}

static PyObject *make_list(maker *m, const tp_saved *v) {
    PyObject *list = remember(m, v, PyList_New(0)); /* before its items: they may hold it */
    if (list && fill_list(m, list, v) < 0) Py_CLEAR(list);
    return list;
}

static PyObject *make_tuple(maker *m, const tp_saved *v) {
    int64_t n = tp_saved_count(v);
    PyObject *tuple = begin(m, v) ? PyTuple_New((Py_ssize_t)n) : NULL;
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *item = make(m, tp_saved_at(v, i));
        if (item)
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, item);
        else
            Py_CLEAR(tuple);
    }
    return remember(m, v, tuple);
}

static PyObject *make_set(maker *m, const tp_saved *v) {
    PyObject *items = PyList_New(0), *set = items && fill_list(m, items, v) == 0 ? PySet_New(items) : NULL;
    Py_XDECREF(items);
    return remember(m, v, set);
}

static PyObject *make_size(const tp_saved *v) {
    int64_t sizes[64], n = tp_saved_count(v);
    if (n > 64) return PyErr_Format(PyExc_ValueError, "a Size of %lld numbers is too long", (long long)n);
    for (int64_t i = 0; i < n; i++) sizes[i] = tp_scalar_to_int(tp_saved_number(tp_saved_at(v, i)));
    return tpy_size_of(tp_ints_view(sizes, n));
}

static int set_attributes(PyObject *o, PyObject *state) { /* o.__dict__.update(state) */
    PyObject *dict = PyObject_GetAttrString(o, "__dict__");
    int failed = dict ? PyDict_Update(dict, state) : -1;
    Py_XDECREF(dict);
    return failed;
}

static int fill_dict(maker *m, PyObject *dict, const tp_saved *v) {
    for (int64_t i = 0, n = tp_saved_count(v); i < n; i++) {
        PyObject *key = make(m, tp_saved_key_at(v, i)), *value = key ? make(m, tp_saved_at(v, i)) : NULL;
        int failed = value ? PyObject_SetItem(dict, key, value) : -1;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed) return -1;
    }
    return 0;
}

static PyObject *find(maker *m, const char *name, const char *use) {
    return PyObject_CallFunction(m->find, "ss", name, use);
}

static PyObject *make_dict(maker *m, const tp_saved *v) {
    tp_saved_about about = {.size = sizeof about};
    if (!tp_saved_describe(v, &about)) return raise_read();
    PyObject *type = about.class_name ? find(m, about.class_name, "value") : Py_NewRef(&PyDict_Type),
             *dict = type ? PyObject_CallNoArgs(type) : NULL;
    Py_XDECREF(type);
    if (!remember(m, v, dict)) return NULL;
    const tp_saved *state = about.class_name ? tp_saved_part_of(v, TP_PART_STATE) : NULL;
    PyObject *attributes = NULL;
    bool ok = fill_dict(m, dict, v) == 0;
    if (ok && state) {
        attributes = make(m, state);
        ok = attributes && set_attributes(dict, attributes) == 0;
    }
    Py_XDECREF(attributes);
    if (!ok) Py_CLEAR(dict);
    return dict;
}

/* ---- Storages and tensors ---- */
static PyObject *make_storage(maker *m, const tp_saved *v) { /* an UntypedStorage, where it is wanted; one per key */
    tp_saved_about about = {.size = sizeof about};
    if (!tp_saved_describe(v, &about)) return raise_read();
    PyObject *key = PyUnicode_FromString(about.key), *there = key ? PyDict_GetItemWithError(m->made, key) : NULL;
    if (there || !key || PyErr_Occurred()) {
        Py_XDECREF(key);
        return Py_XNewRef(there);
    }
    tp_storage *s = NULL;
    TPY_HEAVY(about.bytes, s = tp_saved_storage(v));
    PyObject *o = s ? tpy_wrap_storage(s) : raise_read();
    if (o && m->restore && tp_storage_device(s).type != TP_META) {
        PyObject *moved = PyObject_CallFunction(m->restore, "Os", o, about.location);
        Py_SETREF(o, moved);
    }
    if (o && PyDict_SetItem(m->made, key, o) < 0) Py_CLEAR(o);
    Py_DECREF(key);
    return o;
}

/* As PyTorch does, bytes by themselves come back as a TypedStorage of uint8. */
static PyObject *make_typed_storage(maker *m, const tp_saved *v) {
    tp_saved_about about = {.size = sizeof about};
    PyObject *bytes = make_storage(m, v);
    if (!bytes || !tp_saved_describe(v, &about)) return bytes ? raise_read() : NULL;
    int64_t item = tp_dtype_size(about.dtype ? about.dtype : TP_UINT8), first = about.offset * item,
            last = first + about.numel * item;
    if (first || last != about.bytes) { /* files of the oldest kind name parts of storages */
        PyObject *start = PyLong_FromLongLong(first), *stop = PyLong_FromLongLong(last);
        PyObject *part = start && stop ? PySlice_New(start, stop, NULL) : NULL;
        Py_SETREF(bytes, part ? PyObject_GetItem(bytes, part) : NULL);
        Py_XDECREF(start);
        Py_XDECREF(stop);
        Py_XDECREF(part);
        if (!bytes) return NULL;
    }
    PyObject *dtype = tpy_dtype_object(about.dtype ? about.dtype : TP_UINT8),
             *typed = dtype ? PyObject_CallMethod(m->utils, "_typed_storage", "OO", bytes, dtype) : NULL;
    Py_DECREF(bytes);
    Py_XDECREF(dtype);
    return typed;
}

static tp_tensor *replaced(tp_tensor *t, tp_tensor *by) {
    tp_release(t);
    return by;
}

static PyObject *plain_tensor(maker *m, const tp_saved *v, const tp_saved_about *about) {
    PyObject *memory = make_storage(m, tp_saved_part_of(v, TP_PART_STORAGE));
    tp_storage *s = memory ? tpy_storage_in(memory) : NULL;
    if (memory && !s && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "map_location must give a storage, not %s", Py_TYPE(memory)->tp_name);
    PyObject *o = NULL;
    int64_t none = 0;
    tp_tensor *t =
        s ? tpy_own(tp_empty(tp_ints_view(&none, 1), .dtype = about->dtype, .device = tp_storage_device(s))) : NULL;
    if (t && tp_set_storage(t, s, about->offset, about->shape, about->strides)) {
        if (about->conjugated) t = replaced(t, tpy_own(tp_conj_physical(t)));
        if (about->negated) t = replaced(t, t ? tpy_own(tp_neg(t)) : NULL);
        o = t ? tpy_wrap(t) : tpy_raise();
    } else if (s) {
        tp_release(t);
        tpy_raise();
    }
    Py_XDECREF(memory);
    return o;
}

static PyObject *make_tensor(maker *m, const tp_saved *v) {
    tp_saved_about about = {.size = sizeof about};
    if (!tp_saved_describe(v, &about)) return raise_read();
    PyObject *tensor = plain_tensor(m, v, &about), *type = NULL, *state = NULL, *result = NULL;
    const tp_saved *attributes = tp_saved_part_of(v, TP_PART_STATE);
    if (tensor && !about.class_name && !attributes && !about.requires_grad) return remember(m, v, tensor);
    if (tensor && (type = about.class_name ? find(m, about.class_name, "value") : Py_NewRef(Py_None)) &&
        (state = attributes ? make(m, attributes) : Py_NewRef(Py_None)))
        result = PyObject_CallMethod(m->utils, "_finish_tensor", "OOOO", tensor, type,
                                     about.requires_grad ? Py_True : Py_False, state);
    Py_XDECREF(tensor);
    Py_XDECREF(type);
    Py_XDECREF(state);
    return remember(m, v, result);
}

/* ---- What the caller let through ---- */
/* An instance that class.__new__(class) makes is empty: that is asked for by another word than a call with arguments.
 */
static PyObject *what_is_called(maker *m, const tp_saved *v, bool by_new, bool plain) {
    const tp_saved *call = tp_saved_part_of(v, TP_PART_CALL);
    if (tp_saved_kind_of(call) != TP_SAVED_GLOBAL)
        return PyErr_Format(PyExc_ValueError, "a file calls what it has made");
    return find(m, tp_saved_text(call), by_new && plain ? "new" : "call");
}

static PyObject *call_new(PyObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *new = PyObject_GetAttrString(type, "__new__"), *first = PyTuple_Pack(1, type);
    PyObject *all = first ? PySequence_Concat(first, args) : NULL,
             *made = new &&all ? PyObject_Call(new, all, kwargs) : NULL;
    Py_XDECREF(new);
    Py_XDECREF(first);
    Py_XDECREF(all);
    return made;
}

static PyObject *call_it(maker *m, const tp_saved *v) {
    tp_saved_about about = {.size = sizeof about};
    const tp_saved *given = tp_saved_part_of(v, TP_PART_ARGS), *named = tp_saved_part_of(v, TP_PART_KWARGS);
    if (!tp_saved_describe(v, &about)) return raise_read();
    bool plain = tp_saved_count(given) == 0 && tp_saved_count(named) == 0;
    PyObject *function = what_is_called(m, v, about.by_new, plain), *args = function ? make(m, given) : NULL;
    PyObject *kwargs = args && named ? make(m, named) : NULL, *result = NULL;
    if (args && (kwargs || !named))
        result = about.by_new ? call_new(function, args, kwargs) : PyObject_Call(function, args, kwargs);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

static PyObject *make_object(maker *m, const tp_saved *v) {
    PyObject *o = begin(m, v) ? remember(m, v, call_it(m, v)) : NULL;
    const tp_saved *parts[3] = {tp_saved_part_of(v, TP_PART_ITEMS), tp_saved_part_of(v, TP_PART_PAIRS),
                                tp_saved_part_of(v, TP_PART_STATE)};
    static const char *const methods[3] = {"_extend", "_put_pairs", "_build"};
    for (int i = 0; o && i < 3; i++) {
        PyObject *part = parts[i] ? make(m, parts[i]) : NULL,
                 *done = part ? PyObject_CallMethod(m->utils, methods[i], "OO", o, part) : NULL;
        if (parts[i] && !done) Py_CLEAR(o);
        Py_XDECREF(part);
        Py_XDECREF(done);
    }
    return o;
}

static PyObject *make_fresh(maker *m, const tp_saved *v) {
    switch (tp_saved_kind_of(v)) {
    case TP_SAVED_LONG: return make_long(m, v);
    case TP_SAVED_TEXT: return remember(m, v, make_text(v));
    case TP_SAVED_BYTES: return remember(m, v, make_bytes(v));
    case TP_SAVED_LIST: return make_list(m, v);
    case TP_SAVED_TUPLE: return make_tuple(m, v);
    case TP_SAVED_SET: return make_set(m, v);
    case TP_SAVED_DICT: return make_dict(m, v);
    case TP_SAVED_TENSOR: return make_tensor(m, v);
    case TP_SAVED_STORAGE: return remember(m, v, make_typed_storage(m, v));
    case TP_SAVED_DTYPE: return PyObject_CallMethod(m->utils, "_dtype_named", "s", tp_saved_text(v));
    case TP_SAVED_DEVICE: return PyObject_CallFunction((PyObject *)tpy_device_type, "s", tp_saved_text(v));
    case TP_SAVED_SIZE: return make_size(v);
    case TP_SAVED_GLOBAL: return find(m, tp_saved_text(v), "value");
    case TP_SAVED_OBJECT: return make_object(m, v);
    default: return PyErr_Format(PyExc_SystemError, "a value of an unknown kind");
    }
}

static PyObject *raise_depth(void) {
    PyObject *module = PyImport_ImportModule("pickle");
    PyObject *type = module ? PyObject_GetAttrString(module, "UnpicklingError") : NULL;
    if (type) PyErr_Format(type, "values are nested more than %d deep", TP_DEEPEST_PICKLE);
    Py_XDECREF(module);
    Py_XDECREF(type);
    return NULL;
}

static PyObject *make(maker *m, const tp_saved *v) {
    tp_saved_kind kind = tp_saved_kind_of(v);
    if (kind == TP_SAVED_NONE) Py_RETURN_NONE;
    if (kind == TP_SAVED_NUMBER) return tpy_number(tp_saved_number(v));
    PyObject *there = made_before(m, v);
    if (there == m->made)
        return PyErr_Format(PyExc_ValueError, "a tuple or an object that holds itself cannot be read");
    if (there || PyErr_Occurred()) return Py_XNewRef(there);
    /* A limit of ours: Python's on recursion is another in each of its versions. */
    if (m->depth == TP_DEEPEST_PICKLE) return raise_depth();
    m->depth++;
    PyObject *o = make_fresh(m, v);
    m->depth--;
    return o;
}

/* ---- The type ---- */
static bool read_names(tpy_file *self, PyObject *names) {
    Py_ssize_t n = PyList_GET_SIZE(names);
    self->names = Py_NewRef(names);
    self->allowed = PyMem_Calloc((size_t)n + 1, sizeof *self->allowed);
    if (!self->allowed) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(self->allowed[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i)))) return false;
    return true;
}

static PyObject *file_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"path",       "memory", "map",        "map_shared", "allowed",
                            "any_global", "pickle", "big_endian", NULL};
    PyObject *path, *memory = Py_None, *names = NULL;
    int map = 0, map_shared = 0, any = 0, pickle = 0, big_endian = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|OppO!ppp:_File", words, PyUnicode_FSConverter, &path, &memory,
                                     &map, &map_shared, &PyList_Type, &names, &any, &pickle, &big_endian))
        return NULL;
    tpy_file *self = (tpy_file *)type->tp_alloc(type, 0);
    bool ok = self && (memory == Py_None || PyObject_GetBuffer(memory, &self->memory, PyBUF_SIMPLE) == 0) &&
              (!names || read_names(self, names));
    if (ok) {
        tp_file_options options = {.size = sizeof options,
                                   .map = map,
                                   .map_shared = map_shared,
                                   .any_global = any,
                                   .allowed = self->allowed,
                                   .nallowed = names ? PyList_GET_SIZE(names) : 0,
                                   .memory = self->memory.buf,
                                   .memory_bytes = self->memory.len,
                                   .pickle = pickle,
                                   .big_endian = big_endian};
        if (self->memory.obj && !options.memory) options.memory = ""; /* empty */
        self->file = tp_open_file(PyBytes_AS_STRING(path), &options);
        if (!self->file) ok = raise_read() != NULL;
    }
    Py_DECREF(path);
    if (!ok) Py_CLEAR(self);
    return (PyObject *)self;
}

static void file_dealloc(PyObject *o) {
    tpy_file *self = (tpy_file *)o;
    PyTypeObject *type = Py_TYPE(o);
    tp_close_file(self->file);
    if (self->memory.obj) PyBuffer_Release(&self->memory);
    PyMem_Free(self->allowed);
    Py_XDECREF(self->names);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *file_format(PyObject *o, void *unused) {
    static const char *const names[] = {[TP_FILE_UNKNOWN] = "",      [TP_FILE_PT] = "pt",
                                        [TP_FILE_PT_OLD] = "old pt", [TP_FILE_SAFETENSORS] = "safetensors",
                                        [TP_FILE_NPZ] = "npz",       [TP_FILE_NPY] = "npy",
                                        [TP_FILE_PICKLE] = "pickle"};
    (void)unused;
    return PyUnicode_FromString(names[tp_file_kind_of(((tpy_file *)o)->file)]);
}

static PyObject *file_end(PyObject *o, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(tp_file_end(((tpy_file *)o)->file));
}

static PyObject *file_pickle(PyObject *o, PyObject *unused) {
    (void)unused;
    const void *data;
    int64_t bytes;
    return tp_file_pickle(((tpy_file *)o)->file, &data, &bytes) ? PyBytes_FromStringAndSize(data, (Py_ssize_t)bytes)
                                                                : raise_read();
}

static PyObject *file_storage(PyObject *o, PyObject *args) {
    const char *key;
    long long bytes;
    PyObject *given;
    tp_dtype dtype = TP_NO_DTYPE;
    if (!PyArg_ParseTuple(args, "sLO:storage", &key, &bytes, &given)) return NULL;
    if (given != Py_None && tpy_fit_dtype(given, &dtype) <= 0)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "expected a dtype, got %s", Py_TYPE(given)->tp_name);
    tp_storage *s;
    TPY_HEAVY(bytes, s = tp_file_storage(((tpy_file *)o)->file, key, bytes, dtype));
    return s ? tpy_wrap_storage(s) : raise_read();
}

static PyObject *file_value(PyObject *o, PyObject *args) {
    PyObject *restore;
    maker m = {0};
    if (!PyArg_ParseTuple(args, "OO:value", &m.find, &restore)) return NULL;
    const tp_saved *v = tp_file_value(((tpy_file *)o)->file);
    if (!v) return raise_read();
    m.restore = restore == Py_None ? NULL : restore;
    m.made = PyDict_New();
    m.utils = m.made ? PyImport_ImportModule("taper._utils") : NULL;
    PyObject *result = m.utils ? make(&m, v) : NULL;
    Py_XDECREF(m.made);
    Py_XDECREF(m.utils);
    return result;
}

static PyObject *file_globals(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_file *file = ((tpy_file *)o)->file;
    if (!tp_file_value(file)) return raise_read();
    PyObject *list = PyList_New(0);
    for (int64_t i = 0, n = tp_file_global_count(file); list && i < n; i++) {
        PyObject *name = PyUnicode_FromString(tp_file_global_at(file, i));
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyMethodDef file_methods[] = {
    {"pickle", file_pickle, METH_NOARGS, "The pickle of a zip file, as bytes."},
    {"storage", file_storage, METH_VARARGS,
     "storage(key, bytes, dtype): the storage of that name; dtype None for bytes."},
    {"value", file_value, METH_VARARGS,
     "value(find, restore): what the file holds; nothing that it names is called, but for what was allowed."},
    {"globals", file_globals, METH_NOARGS,
     "The classes and functions that the pickle names beyond those of plain values and tensors."},
    {0}};
static PyGetSetDef file_properties[] = {
    {"format", file_format, NULL, "pt, old pt, safetensors, npz, npy or pickle.", NULL},
    {"end", file_end, NULL, "Where an old .pt ended, once it was read.", NULL},
    {0}};
static PyType_Slot file_slots[] = {
    {Py_tp_new, file_new},           {Py_tp_dealloc, file_dealloc},        {Py_tp_methods, file_methods},
    {Py_tp_getset, file_properties}, {Py_tp_doc, "An opened checkpoint."}, {0, NULL}};
static PyType_Spec file_spec = {"taper._C._File", sizeof(tpy_file), 0, Py_TPFLAGS_DEFAULT, file_slots};

/* ---- Writing ---- */
static bool call_write(void *context, const void *data, size_t bytes) {
    PyObject *view = PyMemoryView_FromMemory((char *)data, (Py_ssize_t)bytes, PyBUF_READ),
             *done = view ? PyObject_CallOneArg(context, view) : NULL;
    if (view && done) { /* nobody may look at the memory later */
        PyObject *released = PyObject_CallMethod(view, "release", NULL);
        Py_XDECREF(released);
        if (!released) PyErr_Clear();
    }
    Py_XDECREF(view);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *write_pt(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path = NULL, *write, *list;
    Py_buffer pickle;
    const char *archive;
    if (!PyArg_ParseTuple(args, "O&Osy*O!:_write_pt", PyUnicode_FSConverter, &path, &write, &archive, &pickle,
                          &PyList_Type, &list))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    tp_storage **storages = PyMem_Calloc((size_t)n + 1, sizeof *storages);
    bool ok = storages || PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        storages[i] = tpy_storage_in(PyList_GET_ITEM(list, i));
        ok = storages[i] != NULL;
        if (!ok && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "expected a storage, got %s", Py_TYPE(PyList_GET_ITEM(list, i))->tp_name);
    }
    if (ok && write != Py_None) {
        tp_sink sink = {call_write, write};
        ok = tp_write_pt(NULL, &sink, archive, pickle.buf, pickle.len, n, storages);
    } else if (ok) {
        TPY_READING(ok = tp_write_pt(PyBytes_AS_STRING(path), NULL, archive, pickle.buf, pickle.len, n, storages));
    }
    PyMem_Free(storages);
    PyBuffer_Release(&pickle);
    Py_DECREF(path);
    return tpy_none_or_raise(ok);
}

typedef struct renaming {
    PyObject *function, *last; /* last: keeps the text alive that was handed out */
    bool failed;
} renaming;

static const char *call_rename(void *context, const char *module) {
    renaming *r = context;
    Py_XSETREF(r->last, r->failed ? NULL : PyObject_CallFunction(r->function, "s", module));
    const char *text = r->last && r->last != Py_None ? PyUnicode_AsUTF8(r->last) : NULL;
    r->failed = PyErr_Occurred() != NULL;
    return text;
}

static PyObject *rename_pickle(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer pickle;
    renaming r = {0};
    int64_t bytes;
    if (!PyArg_ParseTuple(args, "y*O:_rename_pickle", &pickle, &r.function)) return NULL;
    void *renamed = tp_pickle_rename(pickle.buf, pickle.len, call_rename, &r, &bytes);
    PyObject *result = r.failed ? NULL : renamed ? PyBytes_FromStringAndSize(renamed, (Py_ssize_t)bytes) : tpy_raise();
    if (r.failed) tp_error_clear();
    tp_free_bytes(renamed);
    Py_XDECREF(r.last);
    PyBuffer_Release(&pickle);
    return result;
}

static PyObject *write_pieces(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path = NULL, *list;
    if (!PyArg_ParseTuple(args, "O&O!:_write_pieces", PyUnicode_FSConverter, &path, &PyList_Type, &list)) return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list), have = 0;
    Py_buffer *views = PyMem_Calloc((size_t)n + 1, sizeof *views);
    const void **pieces = PyMem_Calloc((size_t)n + 1, sizeof *pieces);
    int64_t *bytes = PyMem_Calloc((size_t)n + 1, sizeof *bytes);
    bool ok = (views && pieces && bytes) || PyErr_NoMemory();
    for (; ok && have < n; have += ok) {
        ok = PyObject_GetBuffer(PyList_GET_ITEM(list, have), &views[have], PyBUF_SIMPLE) == 0;
        if (ok) {
            pieces[have] = views[have].buf;
            bytes[have] = views[have].len;
        }
    }
    if (ok) {
        TPY_UNLOCKED(ok = tp_write_pieces(PyBytes_AS_STRING(path), n, pieces, bytes));
    }
    for (Py_ssize_t i = 0; i < have; i++) PyBuffer_Release(&views[i]);
    PyMem_Free(views);
    PyMem_Free(pieces);
    PyMem_Free(bytes);
    Py_DECREF(path);
    return tpy_none_or_raise(ok);
}

/* Named tensors, in the format that the path's ending says. */
static PyObject *save_named(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path = NULL, *dict, *key, *value;
    if (!PyArg_ParseTuple(args, "O&O!:_save_named", PyUnicode_FSConverter, &path, &PyDict_Type, &dict)) return NULL;
    Py_ssize_t n = PyDict_GET_SIZE(dict), at = 0, have = 0;
    const char **names = PyMem_Calloc((size_t)n + 1, sizeof *names);
    tp_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    bool ok = (names && tensors) || PyErr_NoMemory();
    for (; ok && PyDict_Next(dict, &at, &key, &value); have += ok) {
        ok = PyUnicode_Check(key) && tpy_is_tensor(value);
        if (!ok)
            PyErr_Format(PyExc_TypeError, "expected a dict of texts and tensors, got %s: %s", Py_TYPE(key)->tp_name,
                         Py_TYPE(value)->tp_name);
        if (ok) {
            ok = (names[have] = PyUnicode_AsUTF8(key)) != NULL;
            tensors[have] = tpy_unwrap(value);
        }
    }
    if (ok) {
        TPY_READING(ok = tp_save(PyBytes_AS_STRING(path), n, names, tensors));
    }
    PyMem_Free(names);
    PyMem_Free(tensors);
    Py_DECREF(path);
    return tpy_none_or_raise(ok);
}

static PyMethodDef functions[] = {
    {"_save_named", save_named, METH_VARARGS,
     "_save_named(path, tensors): a dict of tensors, in the format that the path's ending says."},
    {"_write_pt", write_pt, METH_VARARGS,
     "_write_pt(path, write, archive, pickle, storages): a zip file of PyTorch's, to the path or by write(bytes)."},
    {"_write_pieces", write_pieces, METH_VARARGS, "_write_pieces(path, pieces): written beside, synced, renamed."},
    {"_rename_pickle", rename_pickle, METH_VARARGS,
     "_rename_pickle(pickle, rename): the pickle with modules named as rename(module) says; None: as they are."},
    {0}};

int tpy_init_files(PyObject *module) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&file_spec);
    if (!type || PyModule_AddType(module, type) < 0) return -1;
    Py_DECREF(type);
    return PyModule_AddFunctions(module, functions);
}
