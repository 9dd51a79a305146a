/* torch.Generator and the default generator's seed and state. */
#include "gpu.h"

typedef struct {
    PyObject_HEAD
    tp_generator *g;
    bool shared;
} tpy_generator;
PyTypeObject *tpy_generator_type;
tp_generator *tpy_generator_of(PyObject *o) { return ((tpy_generator *)o)->g; }

static PyObject *wrap_generator(PyTypeObject *type, tp_generator *g) { /* takes g over */
    tpy_generator *self = g ? (tpy_generator *)type->tp_alloc(type, 0) : NULL;
    if (self)
        self->g = g;
    else if (g)
        tp_generator_free(g);
    else
        tpy_raise();
    return (PyObject *)self;
}
static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"device", NULL};
    PyObject *where = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", names, &where)) return NULL;
    tp_device device = {TP_CPU, 0};
    if (where && where != Py_None && tpy_fit_device(where, &device) <= 0) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "Generator(): argument 'device' must be torch.device, not %s",
                         Py_TYPE(where)->tp_name);
        return NULL;
    }
    return wrap_generator(type, tp_generator_new_on(device, 67280421310721ull)); /* PyTorch's default seed */
}
static void generator_dealloc(PyObject *o) {
    tpy_generator *self = (tpy_generator *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (!self->shared) tp_generator_free(self->g);
    type->tp_free(o);
    Py_DECREF(type);
}
/* Seeds are taken modulo 2^64; negative ones wrap, as PyTorch's do. */
static bool read_seed(PyObject *o, uint64_t *seed) {
    PyObject *whole = PyNumber_Index(o);
    if (!whole) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (!(whole = PyNumber_Long(o))) return false;
        } else
            return false;
    }
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(whole, &overflow);
    *seed = overflow ? PyLong_AsUnsignedLongLong(whole) : (uint64_t)v;
    Py_DECREF(whole);
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long: a seed has 64 bits");
    return false;
}
static PyObject *generator_manual_seed(PyObject *self, PyObject *o) {
    uint64_t seed;
    if (!read_seed(o, &seed)) return NULL;
    tp_generator_seed(tpy_generator_of(self), seed);
    return Py_NewRef(self);
}
static PyObject *generator_initial_seed(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(tp_generator_initial_seed(tpy_generator_of(self)));
}
static PyObject *generator_seed(PyObject *self, PyObject *unused) {
    (void)unused;
    uint64_t seed;
    if (!tp_generator_seed_anew(tpy_generator_of(self), &seed)) return tpy_raise();
    return PyLong_FromUnsignedLongLong(seed);
}
static PyObject *generator_get_state(PyObject *self, PyObject *unused) {
    (void)unused;
    return tpy_wrap(tp_generator_get_state(tpy_generator_of(self)));
}
static PyObject *generator_set_state(PyObject *self, PyObject *state) {
    if (!tpy_is_tensor(state))
        return PyErr_Format(PyExc_TypeError, "set_state(): argument 'new_state' must be Tensor, not %s",
                            Py_TYPE(state)->tp_name);
    if (!tp_generator_set_state(tpy_generator_of(self), tpy_unwrap(state))) return tpy_raise();
    return Py_NewRef(self);
}
static PyObject *generator_clone_state(PyObject *self, PyObject *unused) {
    (void)unused;
    return wrap_generator(Py_TYPE(self), tp_generator_clone(tpy_generator_of(self)));
}
static PyObject *generator_device(PyObject *self, void *unused) {
    (void)unused;
    return tpy_device_object(tp_generator_device(tpy_generator_of(self)));
}
/* Where a device generator is in its stream. */
static PyObject *generator_get_offset(PyObject *self, PyObject *unused) {
    (void)unused;
    int64_t offset = tp_generator_offset(tpy_generator_of(self));
    return offset < 0 ? PyErr_Format(PyExc_RuntimeError, "CPU Generator does not use offset")
                      : PyLong_FromLongLong(offset);
}
static PyObject *generator_set_offset(PyObject *self, PyObject *o) {
    int64_t offset;
    int fits = tpy_fit_int(o, &offset);
    if (fits <= 0)
        return fits < 0 ? NULL
                        : PyErr_Format(PyExc_TypeError, "set_offset(): expected an int, got %s", Py_TYPE(o)->tp_name);
    if (!tp_generator_set_offset(tpy_generator_of(self), offset)) return tpy_raise();
    return Py_NewRef(self);
}
static PyObject *generator_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *module = PyImport_ImportModule("taper.random"),
             *rebuild = module ? PyObject_GetAttrString(module, "_rebuild_generator") : NULL;
    PyObject *device = rebuild ? generator_device(self, NULL) : NULL,
             *state = device ? generator_get_state(self, NULL) : NULL;
    PyObject *result = state ? Py_BuildValue("O(OO)", rebuild, device, state) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(rebuild);
    Py_XDECREF(device);
    Py_XDECREF(state);
    return result;
}
static PyMethodDef generator_methods[] = {
    {"__reduce__", generator_reduce, METH_NOARGS, "For pickle and copies: the device and the state."},
    {"manual_seed", generator_manual_seed, METH_O, "Sets the seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "The seed it started from."},
    {"seed", generator_seed, METH_NOARGS, "Takes a seed from the system and returns it."},
    {"get_state", generator_get_state, METH_NOARGS, "The state as a byte tensor."},
    {"set_state", generator_set_state, METH_O, "Puts a state back."},
    {"clone_state", generator_clone_state, METH_NOARGS, "A generator in the same state."},
    {"get_offset", generator_get_offset, METH_NOARGS, "A device generator's place in its stream."},
    {"set_offset", generator_set_offset, METH_O, "Goes to a place in the stream."},
    {0}};
static PyGetSetDef generator_properties[] = {{"device", generator_device, NULL, "The device that it draws for.", NULL},
                                             {0}};
static PyType_Slot generator_slots[] = {{Py_tp_new, generator_new},
                                        {Py_tp_dealloc, generator_dealloc},
                                        {Py_tp_methods, generator_methods},
                                        {Py_tp_getset, generator_properties},
                                        {Py_tp_doc, "A stream of random numbers with its own state."},
                                        {0, NULL}};
static PyType_Spec generator_spec = {"torch.Generator", sizeof(tpy_generator), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, generator_slots};

/* An object over one of the library's own generators, which live as long as the process. */
static PyObject *wrap_shared(tp_generator *g) {
    tpy_generator *self = g ? (tpy_generator *)tpy_generator_type->tp_alloc(tpy_generator_type, 0) : NULL;
    if (!self) return g ? NULL : tpy_raise();
    self->g = g;
    self->shared = true;
    return (PyObject *)self;
}
static PyObject *default_generator_of(PyObject *module, PyObject *args) {
    (void)module;
    tp_device device;
    return tpy_gpu_device(args, ":_default_generator_of", &device) ? wrap_shared(tp_default_generator_of(device))
                                                                   : NULL;
}
/* Seeds the CPU's generator and those of all devices. */
static PyObject *manual_seed(PyObject *module, PyObject *o) {
    (void)module;
    uint64_t seed;
    if (!read_seed(o, &seed)) return NULL;
    tp_manual_seed(seed);
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {{"_default_generator_of", default_generator_of, METH_VARARGS, NULL},
                                  {"_manual_seed", manual_seed, METH_O, NULL},
                                  {0}};

int tpy_init_random(PyObject *module) {
    tpy_generator_type = (PyTypeObject *)PyType_FromSpec(&generator_spec);
    if (!tpy_generator_type || PyModule_AddType(module, tpy_generator_type) < 0) return -1;
    PyObject *standard = wrap_shared(tp_default_generator());
    if (!standard || PyModule_AddFunctions(module, functions) < 0) return -1;
    return PyModule_AddObject(module, "default_generator", standard);
}
