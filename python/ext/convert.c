/* Tensor.to and its relatives, with PyTorch's flexible signatures: to(dtype), to(device), to(device, dtype), to(other);
 * cpu, cuda, xpu; type() by PyTorch's old names. Each returns the tensor itself where nothing changes. */
#include "tpy.h"

static const struct {
    const char *name;
    tp_device_type type;
} homes[] = {{"torch.", TP_CPU}, {"torch.cuda.", TP_CUDA}, {"torch.xpu.", TP_XPU}, {"torch.meta.", TP_META}};

/* ---- to ---- */
typedef struct target {
    tp_dtype dtype;
    tp_device device;
    tp_layout layout;
    bool copy, non_blocking;
} target;

static PyObject *convert(PyObject *self, const target *to) {
    tp_tensor *t = tpy_unwrap(self), *result;
    tp_device device = to->device, here = tp_device_of(t);
    if (device.type == here.type && device.index == here.index) device = tp_no_device();
    TPY_HEAVY(tp_numel(t), result = tp_to(t, .dtype = to->dtype, .device = device, .copy = to->copy,
                                          .memory_format = to->layout, .non_blocking = to->non_blocking));
    return result ? tpy_wrap(tpy_own(result)) : tpy_raise();
}

static PyObject *refuse_to(PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    PyObject *got = PyUnicode_FromString("");
    for (Py_ssize_t i = 0; got && i < n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0); i++) {
        const char *type = Py_TYPE(args[i])->tp_name;
        Py_SETREF(
            got, i < n ? PyUnicode_FromFormat("%U%s%s", got, i ? ", " : "", type)
                       : PyUnicode_FromFormat("%U%s%U=%s", got, i ? ", " : "", PyTuple_GET_ITEM(kwnames, i - n), type));
    }
    if (got)
        PyErr_Format(PyExc_TypeError,
                     "to() received an invalid combination of arguments - got (%U), but expected one of:\n"
                     " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = "
                     "False, *, torch.memory_format memory_format = None)\n"
                     " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format "
                     "memory_format = None)\n"
                     " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format "
                     "memory_format = None)\n",
                     got);
    Py_XDECREF(got);
    return NULL;
}

static int fit_format(PyObject *o, tp_layout *layout) {
    if (o == Py_None) return 1;
    if (Py_TYPE(o) != tpy_memory_format_type) return 0;
    *layout = ((tpy_memory_format *)o)->layout;
    return 1;
}

static int fit_other(PyObject *o, target *to) {
    if (!tpy_is_tensor(o)) return 0;
    to->dtype = tp_dtype_of(tpy_unwrap(o));
    to->device = tp_device_of(tpy_unwrap(o));
    return 1;
}

/* What comes first: a tensor or a dtype, or a device and then perhaps a dtype. Moves *at past what it read. */
static int fit_positions(PyObject *const *args, Py_ssize_t n, Py_ssize_t *at, target *to) {
    if (!n) return 1;
    *at = 1;
    if (fit_other(args[0], to) || tpy_fit_dtype(args[0], &to->dtype) > 0) return 1;
    if (args[0] != Py_None) {
        int fits = tpy_fit_device(args[0], &to->device);
        if (fits <= 0) return fits;
    }
    if (n > 1 && (args[1] == Py_None || tpy_fit_dtype(args[1], &to->dtype) > 0)) *at = 2;
    return 1;
}

static int fit_keyword(const char *name, PyObject *value, target *to) {
    if (strcmp(name, "dtype") == 0) return value == Py_None ? 1 : tpy_fit_dtype(value, &to->dtype);
    if (strcmp(name, "device") == 0) return value == Py_None ? 1 : tpy_fit_device(value, &to->device);
    if (strcmp(name, "tensor") == 0) return fit_other(value, to);
    if (strcmp(name, "memory_format") == 0) return fit_format(value, &to->layout);
    bool *flag = strcmp(name, "copy") == 0 ? &to->copy : strcmp(name, "non_blocking") == 0 ? &to->non_blocking : NULL;
    if (!flag || !PyBool_Check(value)) return 0;
    *flag = value == Py_True;
    return 1;
}

#define MAX_GIVEN 12
PyObject *tpy_call_overridden_method(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                     PyObject *kwnames) {
    PyObject *all[MAX_GIVEN + 1] = {self}, *method = PyObject_GetAttrString((PyObject *)tpy_tensor_type, name),
                              *result = NULL;
    Py_ssize_t total = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (method && total > MAX_GIVEN)
        PyErr_Format(PyExc_TypeError, "%s() got too many arguments", name);
    else if (method) {
        for (Py_ssize_t i = 0; i < total; i++) all[i + 1] = args[i];
        result = tpy_call_override(method, all, n + 1, kwnames);
    }
    Py_XDECREF(method);
    return result;
}

/* The same for a call with a tuple and a dict. */
static PyObject *overridden_call(const char *name, PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *all[MAX_GIVEN], *key, *value, *names = PyTuple_New(kwargs ? PyDict_GET_SIZE(kwargs) : 0), *result = NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(args), at = 0, k = 0;
    if (!names) return NULL;
    if (n + PyTuple_GET_SIZE(names) > MAX_GIVEN)
        PyErr_Format(PyExc_TypeError, "%s() got too many arguments", name);
    else {
        for (Py_ssize_t i = 0; i < n; i++) all[i] = PyTuple_GET_ITEM(args, i);
        for (; kwargs && PyDict_Next(kwargs, &at, &key, &value); k++) {
            PyTuple_SET_ITEM(names, k, Py_NewRef(key));
            all[n + k] = value;
        }
        result = tpy_call_overridden_method(name, self, all, n, names);
    }
    Py_DECREF(names);
    return result;
}

static PyObject *tensor_to(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    if (tpy_overridden(&self, 1)) return tpy_call_overridden_method("to", self, args, n, kwnames);
    target to = {0};
    Py_ssize_t at = 0;
    int fits = fit_positions(args, n, &at, &to);
    bool *const flags[] = {&to.non_blocking, &to.copy};
    for (int i = 0; i < 2 && fits > 0 && at < n; i++) {
        fits = PyBool_Check(args[at]);
        *flags[i] = args[at++] == Py_True;
    }
    if (at < n) fits = fits < 0 ? -1 : 0;
    for (Py_ssize_t i = 0; fits > 0 && kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
        fits = name ? fit_keyword(name, args[n + i], &to) : -1;
    }
    if (fits < 0) return NULL;
    return fits ? convert(self, &to) : refuse_to(args, n, kwnames);
}

/* ---- cpu, cuda, xpu ---- */
static PyObject *tensor_cpu(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"memory_format", NULL};
    PyObject *format = Py_None;
    target to = {.device = {TP_CPU, 0}};
    if (tpy_overridden(&self, 1)) return overridden_call("cpu", self, args, kwargs);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:cpu", names, &format)) return NULL;
    if (!fit_format(format, &to.layout))
        return PyErr_Format(PyExc_TypeError, "cpu(): argument 'memory_format' must be torch.memory_format, not %s",
                            Py_TYPE(format)->tp_name);
    return convert(self, &to);
}

static PyObject *to_accelerator(PyObject *self, PyObject *args, PyObject *kwargs, const char *method,
                                tp_device_type type) {
    static char *names[] = {"device", "non_blocking", "memory_format", NULL};
    PyObject *device = Py_None, *format = Py_None;
    int non_blocking = 0;
    char spec[24];
    target to = {.device = {(int16_t)type, (int16_t)tp_gpu_current(type)}};
    if (tpy_overridden(&self, 1)) return overridden_call(method, self, args, kwargs);
    snprintf(spec, sizeof spec, "|Op$O:%s", method);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, spec, names, &device, &non_blocking, &format)) return NULL;
    int fits = device == Py_None                               ? 1
               : PyLong_Check(device) && !PyBool_Check(device) ? 2
                                                               : tpy_fit_device(device, &to.device);
    if (fits < 0) return NULL;
    if (fits == 2) to.device.index = (int16_t)PyLong_AsLong(device);
    if (PyErr_Occurred()) return NULL;
    if (!fits)
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'device' must be torch.device, not %s", method,
                            Py_TYPE(device)->tp_name);
    if (to.device.type != (int16_t)type)
        return PyErr_Format(PyExc_RuntimeError, "Invalid device, must be %s device", method);
    if (!fit_format(format, &to.layout))
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'memory_format' must be torch.memory_format, not %s",
                            method, Py_TYPE(format)->tp_name);
    to.non_blocking = non_blocking;
    return convert(self, &to);
}
static PyObject *tensor_cuda(PyObject *self, PyObject *args, PyObject *kwargs) {
    return to_accelerator(self, args, kwargs, "cuda", TP_CUDA);
}
static PyObject *tensor_xpu(PyObject *self, PyObject *args, PyObject *kwargs) {
    return to_accelerator(self, args, kwargs, "xpu", TP_XPU);
}

/* ---- type ---- */
static const char *home_of(tp_device device) {
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++)
        if (homes[i].type == (tp_device_type)device.type) return homes[i].name;
    return "torch.";
}

/* "torch.cuda.FloatTensor". 1, or 0 if there is no such type. */
static int fit_type_name(const char *text, target *to) {
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        size_t start = strlen(homes[i].name);
        if (strncmp(text, homes[i].name, start)) continue;
        for (int d = TP_BOOL; d < TP_DTYPE_COUNT; d++) {
            const char *name = tp_dtype_word((tp_dtype)d);
            size_t word = strlen(name);
            if (strncmp(text + start, name, word) || strcmp(text + start + word, "Tensor")) continue;
            to->dtype = (tp_dtype)d;
            to->device = (tp_device){
                (int16_t)homes[i].type,
                (int16_t)(homes[i].type == TP_CPU || homes[i].type == TP_META ? 0 : tp_gpu_current(homes[i].type))};
            return 1;
        }
    }
    if (strcmp(text, "torch.Tensor")) return 0;
    to->dtype = tp_default_dtype();
    return 1;
}

static PyObject *tensor_type(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"dtype", "non_blocking", NULL};
    PyObject *wanted = Py_None;
    int non_blocking = 0;
    if (tpy_overridden(&self, 1)) return overridden_call("type", self, args, kwargs);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Op:type", names, &wanted, &non_blocking)) return NULL;
    tp_tensor *t = tpy_unwrap(self);
    target to = {.non_blocking = non_blocking};
    if (wanted == Py_None)
        return PyUnicode_FromFormat("%s%sTensor", home_of(tp_device_of(t)), tp_dtype_word(tp_dtype_of(t)));
    if (tpy_fit_dtype(wanted, &to.dtype) > 0) return convert(self, &to);
    PyObject *text = NULL;
    if (PyUnicode_Check(wanted))
        text = Py_NewRef(wanted);
    else if (PyType_Check(wanted)) {
        PyObject *module = PyObject_GetAttrString(wanted, "__module__"),
                 *name = PyObject_GetAttrString(wanted, "__name__");
        text = module && name ? PyUnicode_FromFormat("%S.%S", module, name) : NULL;
        Py_XDECREF(module);
        Py_XDECREF(name);
    } else
        return PyErr_Format(PyExc_TypeError, "dtype must be a type, str, or dtype object");
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    PyObject *result = NULL;
    if (utf8)
        result =
            fit_type_name(utf8, &to) ? convert(self, &to) : PyErr_Format(PyExc_ValueError, "invalid type: '%s'", utf8);
    Py_XDECREF(text);
    return result;
}

static PyMethodDef methods[] = {
    {"to", (PyCFunction)(void (*)(void))tensor_to, METH_FASTCALL | METH_KEYWORDS,
     "to(device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None), to(dtype), "
     "to(other): the tensor in another dtype or place."},
    {"cpu", (PyCFunction)(void (*)(void))tensor_cpu, METH_VARARGS | METH_KEYWORDS,
     "cpu(*, memory_format=None): the tensor in the CPU's memory."},
    {"cuda", (PyCFunction)(void (*)(void))tensor_cuda, METH_VARARGS | METH_KEYWORDS,
     "cuda(device=None, non_blocking=False, *, memory_format=None): the tensor on a GPU."},
    {"xpu", (PyCFunction)(void (*)(void))tensor_xpu, METH_VARARGS | METH_KEYWORDS,
     "xpu(device=None, non_blocking=False, *, memory_format=None): the tensor on an Intel GPU."},
    {"type", (PyCFunction)(void (*)(void))tensor_type, METH_VARARGS | METH_KEYWORDS,
     "type(dtype=None, non_blocking=False): the type's name, or the tensor in that type."},
    {0}};

int tpy_init_convert(PyObject *module) {
    (void)module;
    return tpy_add_methods(methods);
}
