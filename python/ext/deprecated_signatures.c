/* Deprecated signatures of PyTorch, with numbers in front of tensors: x.add_(-lr, grad), torch.addmm(beta, x, alpha, a,
 * b). Old scripts use them; PyTorch accepts them with a warning, and so do we. Asked only when a call fits no overload.
 */
#include "tpy.h"

/* Names the first `count` of the operator's numbers: "beta alpha" gives ("beta", "alpha"). NULL: it has fewer. */
static PyObject *keywords(const char *numbers, int count) {
    PyObject *names = PyTuple_New(count);
    for (int i = 0; names && i < count; i++) {
        size_t n = strcspn(numbers, " ");
        PyObject *name = n ? PyUnicode_FromStringAndSize(numbers, (Py_ssize_t)n) : NULL;
        if (!name) {
            Py_DECREF(names);
            return NULL;
        }
        PyTuple_SET_ITEM(names, i, name);
        numbers += n + (numbers[n] == ' ');
    }
    return names;
}

bool tpy_deprecated_signature(const tp_operator *op, const char *name, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames, tpy_old_call *call) {
    if (!op->numbers_first || n > TPY_OLD_ARGS || (kwnames && PyTuple_GET_SIZE(kwnames))) return false;
    PyObject *numbers[2];
    int nnumbers = 0;
    call->n = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (tpy_is_tensor(args[i]))
            call->args[call->n++] = args[i];
        else if (nnumbers < 2 && (PyFloat_Check(args[i]) || PyLong_Check(args[i]) || PyComplex_Check(args[i])))
            numbers[nnumbers++] = args[i];
        else
            return false;
    }
    if (!nnumbers || !tpy_is_tensor(args[n - 1])) return false;
    call->args[call->n] = numbers[0];
    if (nnumbers == 2) call->args[call->n + 1] = numbers[1];
    call->kwnames = keywords(op->numbers_first, nnumbers);
    if (!call->kwnames) return false;
    if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                         "This overload of %s is deprecated: a number before a tensor. Say what it is: %U=...", name,
                         PyTuple_GET_ITEM(call->kwnames, 0)) == 0)
        return true;
    Py_DECREF(call->kwnames);
    return false;
}
