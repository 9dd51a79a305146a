/* The order of arguments that PyTorch had before keywords, with numbers in front of tensors: x.add_(-lr, grad),
 * torch.addmm(beta, x, alpha, a, b). Scripts of that time still say it; PyTorch takes it with a warning, and so do we.
 * Asked only when a call fits no overload. */
#include "tpy.h"

static const struct {
    const char *name, *one, *first, *second;
} forms[] = {/* the keyword for one number, for two */
             {"add", "alpha", NULL, NULL},        {"sub", "alpha", NULL, NULL},
             {"addcmul", "value", NULL, NULL},    {"addcdiv", "value", NULL, NULL},
             {"addmm", "beta", "beta", "alpha"},  {"addmv", "beta", "beta", "alpha"},
             {"addr", "beta", "beta", "alpha"},   {"addbmm", "beta", "beta", "alpha"},
             {"baddbmm", "beta", "beta", "alpha"}};

bool tpy_old_order(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, tpy_old_call *call) {
    size_t length = strlen(name) - (name[0] && name[strlen(name) - 1] == '_');
    size_t f = 0, count = sizeof forms / sizeof *forms;
    while (f < count && (strlen(forms[f].name) != length || strncmp(forms[f].name, name, length))) f++;
    if (f == count || n > TPY_OLD_ARGS || (kwnames && PyTuple_GET_SIZE(kwnames))) return false;
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
    if (!nnumbers || !tpy_is_tensor(args[n - 1]) || (nnumbers == 2 && !forms[f].first)) return false;
    call->args[call->n] = numbers[0];
    if (nnumbers == 2) call->args[call->n + 1] = numbers[1];
    call->kwnames =
        nnumbers == 1 ? Py_BuildValue("(s)", forms[f].one) : Py_BuildValue("(ss)", forms[f].first, forms[f].second);
    if (!call->kwnames) return false;
    if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                         "This overload of %s is deprecated: a number before a tensor. Say what it is: %s=...", name,
                         nnumbers == 1 ? forms[f].one : forms[f].first) == 0)
        return true;
    Py_DECREF(call->kwnames);
    return false;
}
