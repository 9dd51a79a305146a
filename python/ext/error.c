/* The library's errors as Python's exceptions, of the types PyTorch raises. */
#include "tpy.h"

static PyObject *linalg_error;      /* torch.linalg.LinAlgError */
static PyObject *memory_error;      /* torch.OutOfMemoryError: an accelerator's memory is used up */
static PyObject *accelerator_error; /* torch.AcceleratorError: its driver reports an error */

int tpy_init_error(PyObject *module) {
    linalg_error =
        PyErr_NewExceptionWithDoc("torch._C._LinAlgError", "A matrix that cannot be factored, inverted or solved with.",
                                  PyExc_RuntimeError, NULL);
    memory_error = PyErr_NewExceptionWithDoc("torch.OutOfMemoryError", "An accelerator's memory is used up.",
                                             PyExc_RuntimeError, NULL);
    accelerator_error = PyErr_NewExceptionWithDoc("torch.AcceleratorError", "An accelerator's driver reports an error.",
                                                  PyExc_RuntimeError, NULL);
    if (!linalg_error || !memory_error || !accelerator_error) return -1;
    return PyModule_AddObjectRef(module, "_LinAlgError", linalg_error) ||
                   PyModule_AddObjectRef(module, "OutOfMemoryError", memory_error) ||
                   PyModule_AddObjectRef(module, "AcceleratorError", accelerator_error)
               ? -1
               : 0;
}

/* What comes from an accelerator, which the library tells by words that PyTorch has too. */
static PyObject *of_accelerator(tp_code code, const char *message) {
    if (code == TP_ERR_MISSING && strstr(message, "Torch not compiled with"))
        return PyExc_AssertionError; /* PyTorch's, for a device that is not there */
    if (code == TP_ERR_MEMORY && strstr(message, " out of memory. Tried to allocate")) return memory_error;
    static const char *const drivers[] = {"CUDA error:", "HIP error:", "XPU error:", "OpenCL error:"};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (strstr(message, drivers[i])) return accelerator_error;
    return NULL;
}

/* What the message says behind the name of a function of C, which Python's users do not call. */
const char *tpy_error_text(void) {
    const char *message = tp_error();
    size_t n = strncmp(message, "tp_", 3) ? 0 : strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n && !strncmp(message + n, ": ", 2) ? message + n + 2 : message;
}

/* A message about an argument begins with the operator it was given to; others say as PyTorch's do what does not fit.
 * Those of linear algebra name the operator alone, as PyTorch's: "linalg.inv: A must be ...". */
static void set_error(PyObject *type, const char *operator, const char * message) {
    const char *rest = strncmp(message, "argument", 8) ? NULL : strstr(message, ": ");
    if (operator&& rest && !strncmp(operator, "linalg_", 7))
        PyErr_Format(type, "linalg.%s%s", operator+ 7, rest);
    else if (operator&& strncmp(message, "argument", 8) == 0)
        PyErr_Format(type, "%s(): %s", operator, message);
    else
        PyErr_SetString(type, message);
}

PyObject *tpy_raise_in(const char *operator) {
    static PyObject **const types[] = {
        [TP_OK] = &PyExc_SystemError,
        [TP_ERR_VALUE] = &PyExc_ValueError,
        [TP_ERR_TYPE] = &PyExc_TypeError,
        [TP_ERR_INDEX] = &PyExc_IndexError,
        [TP_ERR_RUNTIME] = &PyExc_RuntimeError,
        [TP_ERR_MEMORY] = &PyExc_RuntimeError,
        [TP_ERR_MISSING] = &PyExc_NotImplementedError,
        [TP_ERR_IO] = &PyExc_OSError,
        [TP_ERR_LINALG] = &linalg_error,
    };
    if (PyErr_Occurred()) { /* a callback into Python failed: its exception says more than what followed from it */
        tp_error_clear();
        return NULL;
    }
    tp_code code = tp_error_code();
    const char *message = tp_error();
    PyObject *type = message ? of_accelerator(code, message) : NULL;
    if (!type) type = (size_t)code < sizeof types / sizeof *types ? *types[code] : PyExc_RuntimeError;
    set_error(type, operator, message ? tpy_error_text() : "no result and no error was left");
    tp_error_clear();
    return NULL;
}
PyObject *tpy_raise(void) { return tpy_raise_in(NULL); }
