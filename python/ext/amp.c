/* Automatic mixed precision for Python: the thread's regions by device type, and the one pass that unscales gradients.
 */
#include "tpy.h"
#include <string.h>

/* Device types of PyTorch's for which Taper has no tensors: scripts may set regions for them, which then change
 * nothing. */
static struct {
    const char *name;
    bool enabled;
    tp_dtype dtype;
} others[] = {{"mps", false, TP_FLOAT16},          {"xla", false, TP_BFLOAT16}, {"ipu", false, TP_FLOAT16},
              {"hpu", false, TP_BFLOAT16},         {"mtia", false, TP_FLOAT16}, {"maia", false, TP_BFLOAT16},
              {"privateuseone", false, TP_FLOAT16}};
enum { OTHERS = sizeof others / sizeof *others, FIRST_OTHER = 100 };

/* A device type's number: the library's, or FIRST_OTHER and its place above. -1: an exception is set. */
static int device_number(PyObject *o) {
    const char *name = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    if (!name) {
        PyErr_Format(PyExc_TypeError, "expected a device type as str, but got %s", Py_TYPE(o)->tp_name);
        return -1;
    }
    for (int i = 0; i < OTHERS; i++)
        if (!strcmp(name, others[i].name)) return FIRST_OTHER + i;
    tp_device device;
    if (tpy_fit_device(o, &device) > 0) return device.type;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "unknown device type '%s'", name);
    return -1;
}

static bool is_enabled(int device) {
    return device >= FIRST_OTHER ? others[device - FIRST_OTHER].enabled : tp_autocast_enabled((tp_device_type)device);
}
static tp_dtype dtype_of(int device) {
    return device >= FIRST_OTHER ? others[device - FIRST_OTHER].dtype : tp_autocast_dtype((tp_device_type)device);
}
static void set_enabled(int device, bool on) {
    if (device >= FIRST_OTHER)
        others[device - FIRST_OTHER].enabled = on;
    else
        tp_set_autocast_enabled((tp_device_type)device, on);
}
static void set_dtype(int device, tp_dtype dtype) {
    if (device >= FIRST_OTHER)
        others[device - FIRST_OTHER].dtype = dtype;
    else
        tp_set_autocast_dtype((tp_device_type)device, dtype);
}

/* Without a device type the question is about CUDA, as it was before there were others. */
static char *device_type_keyword[] = {"device_type", NULL};
static PyObject *is_autocast_enabled(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    PyObject *o = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_autocast_enabled", device_type_keyword, &o)) return NULL;
    int device = o ? device_number(o) : TP_CUDA;
    return device < 0 ? NULL : PyBool_FromLong(is_enabled(device));
}
static PyObject *set_autocast_enabled(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o, *on = NULL;
    if (!PyArg_UnpackTuple(args, "set_autocast_enabled", 1, 2, &o, &on)) return NULL;
    int device = on ? device_number(o) : TP_CUDA, truth = device < 0 ? -1 : PyObject_IsTrue(on ? on : o);
    if (device < 0 || truth < 0) return NULL;
    set_enabled(device, truth);
    Py_RETURN_NONE;
}
static PyObject *get_autocast_dtype(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:get_autocast_dtype", device_type_keyword, &o)) return NULL;
    int device = device_number(o);
    return device < 0 ? NULL : tpy_dtype_object(dtype_of(device));
}
static PyObject *set_autocast_dtype(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o, *d;
    tp_dtype dtype;
    if (!PyArg_UnpackTuple(args, "set_autocast_dtype", 2, 2, &o, &d)) return NULL;
    int device = device_number(o);
    if (device < 0) return NULL;
    if (tpy_fit_dtype(d, &dtype) <= 0)
        return PyErr_Format(PyExc_TypeError, "set_autocast_dtype(): expected a torch.dtype, but got %s",
                            Py_TYPE(d)->tp_name);
    set_dtype(device, dtype);
    Py_RETURN_NONE;
}
static PyObject *is_autocast_cache_enabled(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(tp_autocast_cache_enabled());
}
static PyObject *set_autocast_cache_enabled(PyObject *module, PyObject *o) {
    (void)module;
    int on = PyObject_IsTrue(o);
    if (on < 0) return NULL;
    tp_set_autocast_cache_enabled(on);
    Py_RETURN_NONE;
}
static PyObject *clear_autocast_cache(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    tp_clear_autocast_cache();
    Py_RETURN_NONE;
}
static PyObject *increment_nesting(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(tp_autocast_nest(1));
}
static PyObject *decrement_nesting(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(tp_autocast_nest(-1));
}

/* (gradients, inverse scale) -> was one of them infinite or NaN? */
static PyObject *unscale(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list;
    double scale;
    if (!PyArg_ParseTuple(args, "Od:_unscale_gradients", &list, &scale)) return NULL;
    PyObject *grads = PySequence_Fast(list, "_unscale_gradients(): expected a sequence of tensors");
    if (!grads) return NULL;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(grads);
    tp_tensor **v = PyMem_New(tp_tensor *, n + 1);
    bool fine = v != NULL, found = false;
    for (Py_ssize_t i = 0; fine && i < n; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(grads, i);
        fine = tpy_is_tensor(o);
        if (fine)
            v[i] = tpy_unwrap(o);
        else
            PyErr_Format(PyExc_TypeError, "_unscale_gradients(): expected tensors, but got %s", Py_TYPE(o)->tp_name);
    }
    if (!v) PyErr_NoMemory();
    if (fine) TPY_HEAVY(TPY_HEAVY_ELEMENTS, fine = tp_unscale_gradients((tp_tensors){v, n}, scale, &found));
    PyMem_Free(v);
    Py_DECREF(grads);
    if (!fine) return PyErr_Occurred() ? NULL : tpy_raise();
    return PyBool_FromLong(found);
}

static PyMethodDef functions[] = {
    {"is_autocast_enabled", (PyCFunction)(void (*)(void))is_autocast_enabled, METH_VARARGS | METH_KEYWORDS,
     "Is automatic mixed precision on for a device type?"},
    {"set_autocast_enabled", set_autocast_enabled, METH_VARARGS,
     "Turns automatic mixed precision on or off for a device type."},
    {"get_autocast_dtype", (PyCFunction)(void (*)(void))get_autocast_dtype, METH_VARARGS | METH_KEYWORDS,
     "The lower precision of a device type's regions."},
    {"set_autocast_dtype", set_autocast_dtype, METH_VARARGS, "Sets the lower precision of a device type's regions."},
    {"is_autocast_cache_enabled", is_autocast_cache_enabled, METH_NOARGS,
     "Are casts of parameters kept within a region?"},
    {"set_autocast_cache_enabled", set_autocast_cache_enabled, METH_O,
     "Shall casts of parameters be kept within a region?"},
    {"clear_autocast_cache", clear_autocast_cache, METH_NOARGS, "Forgets the casts kept so far."},
    {"autocast_increment_nesting", increment_nesting, METH_NOARGS, "Enters a region; returns the depth."},
    {"autocast_decrement_nesting", decrement_nesting, METH_NOARGS, "Leaves a region; returns the depth."},
    {"_unscale_gradients", unscale, METH_VARARGS, NULL},
    {0}};

int tpy_init_amp(PyObject *module) { return PyModule_AddFunctions(module, functions); }
