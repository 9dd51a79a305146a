/* The tape for Python: modes, backward, gradients. */
#include "tpy.h"

static PyObject *backward(PyObject *module, PyObject *o) {
    (void)module;
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = tp_backward(tpy_unwrap(o));
    Py_END_ALLOW_THREADS
    return tpy_none_or_raise(ok);
}
static PyMethodDef functions[] = {{"_backward", backward, METH_O, NULL}, {0}};
int tpy_init_autograd(PyObject *module) { return PyModule_AddFunctions(module, functions); }
