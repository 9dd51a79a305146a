/* Accelerators for Python: devices, the thread's current one, their memory, pinned memory, and the switches of their
 * libraries. What torch.cuda, torch.xpu and torch.accelerator are made of; streams, events and graphs are in streams.c.
 * Functions name a device by its type and index, ("cuda", 0). */
#include "gpu.h"
#include <string.h>
#include <unistd.h>

/* ---- Which device ---- */
static const struct {
    const char *name;
    tp_device_type type;
} kinds[] = {{"cuda", TP_CUDA}, {"xpu", TP_XPU}};

int tpy_gpu_kind(PyObject *o, void *type) {
    const char *name = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) {
            *(tp_device_type *)type = kinds[i].type;
            return 1;
        }
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "expected 'cuda' or 'xpu', got %R", o);
    return 0;
}

bool tpy_gpu_device(PyObject *args, const char *format, tp_device *device, ...) {
    va_list rest;
    PyObject *head = PyTuple_GetSlice(args, 0, 2), *tail = PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args));
    tp_device_type type;
    int index;
    bool fits = head && tail && PyArg_ParseTuple(head, "O&i", tpy_gpu_kind, &type, &index);
    if (fits) *device = (tp_device){(int16_t)type, (int16_t)index};
    va_start(rest, device);
    if (fits) fits = PyArg_VaParse(tail, format, rest);
    va_end(rest);
    Py_XDECREF(head);
    Py_XDECREF(tail);
    return fits;
}

/* ---- Devices ---- */
static PyObject *count(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    return tpy_gpu_kind(kind, &type) ? PyLong_FromLong(tp_gpu_count(type)) : NULL;
}
static PyObject *missing(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    return tpy_gpu_kind(kind, &type) ? Py_BuildValue("z", tp_gpu_missing(type)) : NULL;
}
static PyObject *backend(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    return tpy_gpu_kind(kind, &type) ? Py_BuildValue("z", tp_gpu_backend(type)) : NULL;
}
static PyObject *version(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    char text[256];
    if (!tpy_gpu_kind(kind, &type)) return NULL;
    return tp_gpu_version(type, text, sizeof text) < 0
               ? tpy_raise()
               : PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}
static PyObject *used(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    return tpy_gpu_kind(kind, &type) ? PyBool_FromLong(tp_gpu_used(type)) : NULL;
}

static PyObject *describe(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    tp_gpu_info i = {.size = sizeof i};
    if (!tpy_gpu_device(args, ":_gpu_describe", &device)) return NULL;
    if (!tp_gpu_describe(device, &i)) return tpy_raise();
    return Py_BuildValue("{ss ss sL sL sL sL sL sL sL sL sL sL sL sL sL sL sL sL sy# sO sO}", "name", i.name, "arch",
                         i.arch, "major", (long long)i.major, "minor", (long long)i.minor, "units", (long long)i.units,
                         "warp", (long long)i.warp, "max_threads", (long long)i.max_threads, "threads_per_unit",
                         (long long)i.threads_per_unit, "memory", (long long)i.memory, "shared", (long long)i.shared,
                         "shared_most", (long long)i.shared_most, "l2", (long long)i.l2, "clock_khz",
                         (long long)i.clock_khz, "memory_clock_khz", (long long)i.memory_clock_khz, "bus_bits",
                         (long long)i.bus_bits, "pci_domain", (long long)i.pci_domain, "pci_bus", (long long)i.pci_bus,
                         "pci_device", (long long)i.pci_device, "uuid", (char *)i.uuid, (Py_ssize_t)sizeof i.uuid,
                         "f64", i.f64 ? Py_True : Py_False, "integrated", i.integrated ? Py_True : Py_False);
}

static PyObject *current(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    return tpy_gpu_kind(kind, &type) ? PyLong_FromLong(tp_gpu_current(type)) : NULL;
}
static PyObject *set_current(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    if (!tpy_gpu_device(args, ":_gpu_set_current", &device)) return NULL;
    return tpy_none_or_raise(tp_gpu_set_current(device) && tpy_default_follows(device));
}
static PyObject *synchronize(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    bool ok;
    if (!tpy_gpu_device(args, ":_gpu_synchronize", &device)) return NULL;
    TPY_UNLOCKED(ok = tp_gpu_synchronize(device));
    return tpy_none_or_raise(ok);
}

/* ---- Memory ---- */
static PyObject *counter(const tp_gpu_counter *c) {
    return Py_BuildValue("{sLsLsLsL}", "current", (long long)c->current, "peak", (long long)c->peak, "allocated",
                         (long long)c->allocated, "freed", (long long)c->freed);
}
static PyObject *counters(const tp_gpu_counter *pools) {
    return Py_BuildValue("{sNsNsN}", "all", counter(&pools[TP_GPU_POOL_ALL]), "small_pool",
                         counter(&pools[TP_GPU_POOL_SMALL]), "large_pool", counter(&pools[TP_GPU_POOL_LARGE]));
}
/* memory_stats_as_nested_dict of one device. */
static PyObject *memory(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    tp_gpu_memory m = {.size = sizeof m};
    if (!tpy_gpu_device(args, ":_gpu_memory", &device)) return NULL;
    if (!tp_gpu_memory_query(device, &m)) return tpy_raise();
    return Py_BuildValue("{sN sN sN sN sN sN sN sN sN sL sL sL sL sL}", "allocation", counters(m.allocation), "segment",
                         counters(m.segment), "active", counters(m.active), "inactive_split",
                         counters(m.inactive_split), "allocated_bytes", counters(m.allocated_bytes), "reserved_bytes",
                         counters(m.reserved_bytes), "active_bytes", counters(m.active_bytes), "inactive_split_bytes",
                         counters(m.inactive_split_bytes), "requested_bytes", counters(m.requested_bytes),
                         "num_alloc_retries", (long long)m.num_alloc_retries, "num_ooms", (long long)m.num_ooms,
                         "num_sync_all_streams", (long long)m.num_sync_all_streams, "num_device_alloc",
                         (long long)m.num_device_alloc, "num_device_free", (long long)m.num_device_free);
}
static PyObject *reset_peak(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    return tpy_gpu_device(args, ":_gpu_reset_peak", &device) ? tpy_none_or_raise(tp_gpu_memory_reset_peak(device))
                                                             : NULL;
}
static PyObject *reset_accumulated(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    return tpy_gpu_device(args, ":_gpu_reset_accumulated", &device)
               ? tpy_none_or_raise(tp_gpu_memory_reset_accumulated(device))
               : NULL;
}
static PyObject *memory_info(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    int64_t free, total;
    if (!tpy_gpu_device(args, ":_gpu_memory_info", &device)) return NULL;
    return tp_gpu_memory_info(device, &free, &total) ? Py_BuildValue("LL", (long long)free, (long long)total)
                                                     : tpy_raise();
}
static PyObject *empty_cache(PyObject *module, PyObject *kind) {
    (void)module;
    tp_device_type type;
    bool ok;
    if (!tpy_gpu_kind(kind, &type)) return NULL;
    TPY_UNLOCKED(ok = tp_gpu_empty_cache(type));
    return tpy_none_or_raise(ok);
}
static PyObject *set_fraction(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    double fraction;
    return tpy_gpu_device(args, "d:_gpu_set_fraction", &device, &fraction)
               ? tpy_none_or_raise(tp_gpu_set_fraction(device, fraction))
               : NULL;
}
static PyObject *get_fraction(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    return tpy_gpu_device(args, ":_gpu_fraction", &device) ? PyFloat_FromDouble(tp_gpu_fraction(device)) : NULL;
}
static PyObject *summary(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    int abbreviated;
    if (!tpy_gpu_device(args, "p:_gpu_summary", &device, &abbreviated)) return NULL;
    int64_t n = tp_gpu_memory_summary(device, abbreviated, NULL, 0);
    if (n < 0) return tpy_raise();
    char *text = PyMem_Malloc((size_t)n + 1);
    if (!text) return PyErr_NoMemory();
    PyObject *result =
        tp_gpu_memory_summary(device, abbreviated, text, (size_t)n + 1) < 0 ? tpy_raise() : PyUnicode_FromString(text);
    PyMem_Free(text);
    return result;
}
static PyObject *alloc(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    long long bytes;
    unsigned long long stream;
    if (!tpy_gpu_device(args, "LK:_gpu_alloc", &device, &bytes, &stream)) return NULL;
    void *block = tp_gpu_memory_alloc(device, bytes, (tp_stream *)(uintptr_t)stream);
    return block ? PyLong_FromVoidPtr(block) : tpy_raise();
}
static PyObject *free_memory(PyObject *module, PyObject *address) {
    (void)module;
    void *block = PyLong_AsVoidPtr(address);
    return PyErr_Occurred() ? NULL : tpy_none_or_raise(tp_gpu_memory_free(block));
}
static bool add_block(const tp_gpu_block *b, void *list) {
    PyObject *row = Py_BuildValue("(KLKOKKLLi)", (unsigned long long)(uintptr_t)b->segment, (long long)b->segment_bytes,
                                  (unsigned long long)(uintptr_t)b->stream, b->large ? Py_True : Py_False,
                                  (unsigned long long)b->pool, (unsigned long long)(uintptr_t)b->address,
                                  (long long)b->bytes, (long long)b->requested, (int)b->state);
    bool fine = row && PyList_Append(list, row) == 0;
    Py_XDECREF(row);
    return fine;
}
/* [(segment, its bytes, stream, is large?, pool, address, bytes, bytes asked for, state)], in the order of addresses.
 */
static PyObject *snapshot(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    if (!tpy_gpu_device(args, ":_gpu_snapshot", &device)) return NULL;
    PyObject *list = PyList_New(0);
    if (!list) return NULL;
    bool ok = tp_gpu_memory_snapshot(device, add_block, list);
    if (ok && !PyErr_Occurred()) return list;
    Py_DECREF(list);
    return PyErr_Occurred() ? NULL : tpy_raise();
}

/* ---- Who takes memory ---- */
static PyObject *memory_watcher; /* a function, or NULL */

static void memory_told(const tp_gpu_memory_event *e, void *context) {
    (void)context;
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *function = Py_XNewRef(memory_watcher);
    PyObject *done = function ? PyObject_CallFunction(function, "siKLKO", e->device.type == TP_CUDA ? "cuda" : "xpu",
                                                      e->device.index, (unsigned long long)(uintptr_t)e->address,
                                                      (long long)e->bytes, (unsigned long long)(uintptr_t)e->stream,
                                                      e->taken ? Py_True : Py_False)
                              : NULL;
    if (!done) PyErr_Clear(); /* the memory is what matters */
    Py_XDECREF(done);
    Py_XDECREF(function);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

/* function(type, index, address, bytes, stream, taken?) or None */
static PyObject *watch_memory(PyObject *module, PyObject *function) {
    (void)module;
    if (!tp_gpu_memory_watch(function == Py_None ? NULL : memory_told, NULL)) return tpy_raise();
    Py_XSETREF(memory_watcher, function == Py_None ? NULL : Py_NewRef(function));
    Py_RETURN_NONE;
}

/* ---- Switches ---- */
static const char *const switches[TP_GPU_SWITCHES] = {[TP_GPU_MATMUL_TF32] = "matmul_tf32",
                                                      [TP_GPU_CONV_TF32] = "conv_tf32",
                                                      [TP_GPU_REDUCED_F16] = "reduced_f16",
                                                      [TP_GPU_REDUCED_BF16] = "reduced_bf16",
                                                      [TP_GPU_CONV_LIBRARY] = "conv_library",
                                                      [TP_GPU_CONV_BENCHMARK] = "conv_benchmark",
                                                      [TP_GPU_CONV_DETERMINISTIC] = "conv_deterministic"};

static int switch_named(const char *name) {
    for (int i = 0; i < TP_GPU_SWITCHES; i++)
        if (!strcmp(name, switches[i])) return i;
    PyErr_Format(PyExc_ValueError, "there is no switch '%s'", name);
    return -1;
}
static PyObject *is_on(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    int which = PyArg_ParseTuple(args, "s:_gpu_is_on", &name) ? switch_named(name) : -1;
    return which < 0 ? NULL : PyBool_FromLong(tp_gpu_is_on((tp_gpu_switch)which));
}
static PyObject *set_switch(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    int on, which = PyArg_ParseTuple(args, "sp:_gpu_turn", &name, &on) ? switch_named(name) : -1;
    if (which < 0) return NULL;
    tp_gpu_turn((tp_gpu_switch)which, on);
    Py_RETURN_NONE;
}

/* [(backend, name, what it serves, what serves instead, version, file)] */
static PyObject *list_gpu_libraries(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < tp_gpu_library_count(); i++) {
        tp_gpu_library l = {.size = sizeof l};
        PyObject *row = tp_gpu_library_at(i, &l)
                            ? Py_BuildValue("(ssssss)", l.backend, l.name, l.serves, l.instead, l.version, l.file)
                            : tpy_raise();
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* ---- Tensors in pinned memory, and on several streams ---- */
tp_tensor *tpy_pinned(tp_tensor *t) {
    tp_device device = tp_device_of(t);
    tp_tensor *pinned = NULL;
    if (device.type != TP_CPU)
        PyErr_Format(PyExc_RuntimeError, "cannot pin 'torch.%s.%sTensor' only dense CPU tensors can be pinned",
                     device.type == TP_XPU ? "xpu" : "cuda", tp_dtype_word(tp_dtype_of(t)));
    else if (!tpy_accelerator())
        PyErr_SetString(PyExc_RuntimeError, "Cannot access accelerator device when none is available.");
    else {
        TPY_HEAVY(tp_numel(t), pinned = tpy_own(tp_pin_memory(t)));
        if (!pinned) tpy_raise();
    }
    tp_release(t);
    return pinned;
}
static PyObject *pin_memory(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"device", NULL};
    PyObject *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:pin_memory", names, &device)) return NULL;
    tp_tensor *pinned = tpy_pinned(tp_retain(tpy_unwrap(self)));
    return pinned ? tpy_wrap(pinned) : NULL;
}
static PyObject *is_pinned(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"device", NULL};
    PyObject *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_pinned", names, &device)) return NULL;
    return PyBool_FromLong(tp_is_pinned(tpy_unwrap(self)));
}
static PyObject *pinned_trim(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    TPY_UNLOCKED(tp_pinned_trim());
    Py_RETURN_NONE;
}
static PyObject *record_stream(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *tensor;
    unsigned long long stream;
    if (!PyArg_ParseTuple(args, "O!K:_record_stream", tpy_tensor_type, &tensor, &stream)) return NULL;
    return tpy_none_or_raise(tp_record_stream(tpy_unwrap(tensor), (tp_stream *)(uintptr_t)stream));
}
static PyObject *host_detours(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(tp_host_detours());
}

tp_device_type tpy_accelerator(void) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (tp_gpu_count(kinds[i].type)) return kinds[i].type;
    return TP_DEVICE_NONE;
}

static PyMethodDef methods[] = {{"pin_memory", (PyCFunction)(void (*)(void))pin_memory, METH_VARARGS | METH_KEYWORDS,
                                 "pin_memory(): the tensor in memory that accelerators copy from by themselves."},
                                {"is_pinned", (PyCFunction)(void (*)(void))is_pinned, METH_VARARGS | METH_KEYWORDS,
                                 "is_pinned(): is it in pinned memory?"},
                                {0}};
static PyMethodDef functions[] = {{"_gpu_count", count, METH_O, NULL},
                                  {"_gpu_missing", missing, METH_O, NULL},
                                  {"_gpu_backend", backend, METH_O, NULL},
                                  {"_gpu_version", version, METH_O, NULL},
                                  {"_gpu_used", used, METH_O, NULL},
                                  {"_gpu_describe", describe, METH_VARARGS, NULL},
                                  {"_gpu_current", current, METH_O, NULL},
                                  {"_gpu_set_current", set_current, METH_VARARGS, NULL},
                                  {"_gpu_synchronize", synchronize, METH_VARARGS, NULL},
                                  {"_gpu_memory", memory, METH_VARARGS, NULL},
                                  {"_gpu_reset_peak", reset_peak, METH_VARARGS, NULL},
                                  {"_gpu_reset_accumulated", reset_accumulated, METH_VARARGS, NULL},
                                  {"_gpu_memory_info", memory_info, METH_VARARGS, NULL},
                                  {"_gpu_empty_cache", empty_cache, METH_O, NULL},
                                  {"_gpu_set_fraction", set_fraction, METH_VARARGS, NULL},
                                  {"_gpu_fraction", get_fraction, METH_VARARGS, NULL},
                                  {"_gpu_summary", summary, METH_VARARGS, NULL},
                                  {"_gpu_alloc", alloc, METH_VARARGS, NULL},
                                  {"_gpu_free", free_memory, METH_O, NULL},
                                  {"_gpu_snapshot", snapshot, METH_VARARGS, NULL},
                                  {"_gpu_memory_watch", watch_memory, METH_O, NULL},
                                  {"_gpu_is_on", is_on, METH_VARARGS, NULL},
                                  {"_gpu_turn", set_switch, METH_VARARGS, NULL},
                                  {"_gpu_libraries", list_gpu_libraries, METH_NOARGS, NULL},
                                  {"_pinned_trim", pinned_trim, METH_NOARGS, NULL},
                                  {"_record_stream", record_stream, METH_VARARGS, NULL},
                                  {"_host_detours", host_detours, METH_NOARGS, NULL},
                                  {0}};

/* NVIDIA's libraries as Python packages have them: nvidia/cudnn/lib and the like, in any folder of sys.path. */
static bool search_packages(void) {
    PyObject *path = PySys_GetObject("path"), *folders = PyUnicode_FromString(""); /* the first is borrowed */
    for (Py_ssize_t i = 0; folders && path && PyList_Check(path) && i < PyList_GET_SIZE(path); i++) {
        PyObject *entry = PyList_GET_ITEM(path, i), *folder = PyUnicode_Check(entry) && PyUnicode_GetLength(entry) > 0
                                                                  ? PyUnicode_FromFormat("%U/nvidia", entry)
                                                                  : NULL; /* none: the current folder */
        const char *text = folder ? PyUnicode_AsUTF8(folder) : NULL;
        if (text && access(text, F_OK) == 0) Py_SETREF(folders, PyUnicode_FromFormat("%U%U:", folders, folder));
        Py_XDECREF(folder);
        PyErr_Clear(); /* of a name that is no text */
    }
    const char *found = folders ? PyUnicode_AsUTF8(folders) : NULL;
    bool fine = found && tp_gpu_search(found);
    Py_XDECREF(folders);
    if (!fine && !PyErr_Occurred()) tpy_raise();
    return fine;
}

int tpy_init_gpu(PyObject *module) {
    return PyModule_AddFunctions(module, functions) < 0 || !search_packages() ? -1 : tpy_add_methods(methods);
}
