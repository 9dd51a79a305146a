/* Python's operators on tensors: + - * / // % ** @ << >> & | ^ ~ and their in-place forms, comparisons, bool, int,
 * float. Two tensors, or a tensor and a number, go straight to the operator; anything else takes the general way by
 * name, and what does not fit there is left to the other object (NotImplemented). */
#include "tpy.h"

enum {
    ADD,
    SUB,
    MUL,
    DIV,
    FLOORDIV,
    REMAINDER,
    POW,
    MATMUL,
    LSHIFT,
    RSHIFT,
    AND,
    OR,
    XOR,
    EQ,
    NE,
    LT,
    LE,
    GT,
    GE,
    NEG,
    INVERT,
    ABS,
    POSITIVE,
    OPERATORS
};
/* How the operators' stanzas call them. */
static const char *const symbols[OPERATORS] = {
    [ADD] = "+",  [SUB] = "-",    [MUL] = "*",     [DIV] = "/",      [FLOORDIV] = "//", [REMAINDER] = "%",
    [POW] = "**", [MATMUL] = "@", [LSHIFT] = "<<", [RSHIFT] = ">>",  [AND] = "&",       [OR] = "|",
    [XOR] = "^",  [EQ] = "==",    [NE] = "!=",     [LT] = "<",       [LE] = "<=",       [GT] = ">",
    [GE] = ">=",  [NEG] = "-x",   [INVERT] = "~x", [ABS] = "abs(x)", [POSITIVE] = "+x"};
static const tp_operator *found[OPERATORS];

/* Every operator that has a symbol, once. */
int tpy_init_numbers(void) {
    for (int64_t i = 0; i < tp_operator_count(); i++) {
        const tp_operator *op = tp_operator_at(i);
        for (int k = 0; op->symbol && k < OPERATORS; k++)
            if (strcmp(symbols[k], op->symbol) == 0) found[k] = op;
    }
    for (int k = 0; k < OPERATORS; k++) {
        if (found[k]) continue;
        PyErr_Format(PyExc_SystemError, "no operator of the registry has the symbol %s", symbols[k]);
        return -1;
    }
    return 0;
}

static int fit_operand(PyObject *o, tp_value *v) {
    if (tpy_is_tensor(o)) {
        *v = tp_value_tensor(tpy_unwrap(o));
        return 1;
    }
    v->kind = TP_K_SCALAR;
    v->name = NULL;
    return tpy_fit_scalar(o, &v->as.scalar);
}

/* A misfit is for the other operand to answer; a real failure is not. */
static PyObject *or_not_implemented(PyObject *result) {
    if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *overridden_call(const char *name, PyObject *a, PyObject *b) {
    PyObject *args[] = {a, b}, *method = PyObject_GetAttrString((PyObject *)tpy_tensor_type, name);
    PyObject *result = method ? tpy_call_override(method, args, b ? 2 : 1, NULL) : NULL;
    Py_XDECREF(method);
    return result;
}

/* The method that PyTorch names to __torch_function__: of a tensor on the left, and of one on the right, which then
 * comes first. */
static PyObject *overridden_binary(int which, PyObject *a, PyObject *b) {
    static const char *const left[OPERATORS] = {[FLOORDIV] = "__floordiv__",
                                                [LSHIFT] = "__lshift__",
                                                [RSHIFT] = "__rshift__",
                                                [AND] = "__and__",
                                                [OR] = "__or__",
                                                [XOR] = "__xor__",
                                                [EQ] = "__eq__"};
    static const char *const right[OPERATORS] = {
        [SUB] = "__rsub__", [DIV] = "__rtruediv__",   [FLOORDIV] = "__rfloordiv__", [REMAINDER] = "__rmod__",
        [POW] = "__rpow__", [MATMUL] = "__rmatmul__", [LSHIFT] = "__rlshift__",     [RSHIFT] = "__rrshift__"};
    const char *own = found[which]->name; /* where there is no other */
    if (which <= XOR && !PyObject_TypeCheck(a, tpy_tensor_type))
        return overridden_call(right[which] ? right[which] : own, b, a);
    return overridden_call(left[which] ? left[which] : own, a, b);
}

static PyObject *binary(int which, PyObject *a, PyObject *b) {
    PyObject *args[] = {a, b};
    if (tpy_overridden(args, 2)) return overridden_binary(which, a, b);
    tp_value values[TPY_MAX_ARGS] = {{0}};
    int fits = fit_operand(a, &values[0]);
    if (fits > 0) fits = fit_operand(b, &values[1]);
    if (fits < 0) return NULL;
    if (!fits) Py_RETURN_NOTIMPLEMENTED;
    return tpy_invoke(found[which], values, false);
}

static PyObject *inplace(int which, PyObject *a, PyObject *b) {
    PyObject *args[] = {a, b};
    char name[40];
    snprintf(name, sizeof name, "%s_", found[which]->name);
    if (tpy_overridden(args, 2)) return overridden_call(name, a, b);
    tp_value values[TPY_MAX_ARGS] = {{0}};
    int fits = fit_operand(a, &values[0]);
    if (fits > 0) fits = fit_operand(b, &values[1]);
    if (fits < 0) return NULL;
    const tp_operator *op = found[which];
    if (!fits || !op->invoke_inplace) Py_RETURN_NOTIMPLEMENTED;
    PyObject *result = tpy_invoke(op, values, true);
    if (!result) return NULL;
    Py_DECREF(result);
    return Py_NewRef(a);
}

#define BINARY(name, which)                                                              \
    static PyObject *do_##name(PyObject *a, PyObject *b) { return binary(which, a, b); } \
    static PyObject *do_i##name(PyObject *a, PyObject *b) { return inplace(which, a, b); }
static PyObject *with_array(int which, PyObject *tensor, PyObject *array, bool array_first);
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
static PyObject *do_div(PyObject *a, PyObject *b) {
    PyObject *args[] = {a, b};
    if (tpy_is_tensor(b) && tpy_is_ndarray(a) && !tpy_overridden(args, 2)) return with_array(DIV, b, a, true);
    return binary(DIV, a, b);
}
static PyObject *do_idiv(PyObject *a, PyObject *b) { return inplace(DIV, a, b); }
BINARY(floordiv, FLOORDIV)
BINARY(remainder, REMAINDER)
BINARY(lshift, LSHIFT)
BINARY(rshift, RSHIFT)
BINARY(and, AND)
BINARY(or, OR)
BINARY(xor, XOR)
static PyObject *do_matmul(PyObject *a, PyObject *b) {
    PyObject *args[] = {a, b};
    if ((!tpy_is_tensor(a) || !tpy_is_tensor(b)) && !tpy_overridden(args, 2)) Py_RETURN_NOTIMPLEMENTED;
    return binary(MATMUL, a, b);
}
static PyObject *do_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) return PyErr_Format(PyExc_TypeError, "pow() of tensors takes no third argument");
    return or_not_implemented(binary(POW, a, b));
}
static PyObject *do_ipow(PyObject *a, PyObject *b, PyObject *modulus) {
    (void)modulus;
    return inplace(POW, a, b);
}

static PyObject *unary(int which, PyObject *a) {
    if (tpy_overridden(&a, 1)) return overridden_call(found[which]->name, a, NULL);
    tp_value values[TPY_MAX_ARGS] = {{0}};
    values[0] = tp_value_tensor(tpy_unwrap(a));
    return tpy_invoke(found[which], values, false);
}
static PyObject *do_neg(PyObject *a) { return unary(NEG, a); }
static PyObject *do_invert(PyObject *a) {
    tp_dtype dtype = tp_dtype_of(tpy_unwrap(a));
    if ((tp_dtype_is_floating(dtype) || tp_dtype_is_complex(dtype)) && !tpy_overridden(&a, 1))
        return PyErr_Format(PyExc_TypeError,
                            "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return unary(INVERT, a);
}
static PyObject *do_abs(PyObject *a) { return unary(ABS, a); }
static PyObject *do_pos(PyObject *a) {
    PyObject *args[] = {a};
    return tpy_call_name(found[POSITIVE]->name, args, 1, NULL);
}

/* As in PyTorch: == and array / tensor take an array for the tensor over its memory. Other operators leave arrays to
 * NumPy. */
static PyObject *with_array(int which, PyObject *tensor, PyObject *array, bool array_first) {
    tp_tensor *t = tpy_over_array(array, false);
    PyObject *over = t ? tpy_wrap(t) : NULL;
    PyObject *result = over ? (array_first ? binary(which, over, tensor) : binary(which, tensor, over)) : NULL;
    Py_XDECREF(over);
    return result;
}

PyObject *tpy_compare(PyObject *a, PyObject *b, int op) {
    static const int which[] = {[Py_LT] = LT, [Py_LE] = LE, [Py_EQ] = EQ, [Py_NE] = NE, [Py_GT] = GT, [Py_GE] = GE};
    return op == Py_EQ && tpy_is_ndarray(b) ? with_array(EQ, a, b, false) : binary(which[op], a, b);
}

/* ---- Conversions of one-element tensors ---- */
static int do_bool(PyObject *o) {
    tp_tensor *t = tpy_unwrap(o);
    if (tp_numel(t) != 1) {
        PyErr_SetString(PyExc_RuntimeError, tp_numel(t)
                                                ? "Boolean value of Tensor with more than one value is ambiguous"
                                                : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    if (tpy_handled(o)) {
        PyObject *number = tpy_call_overridden_method("item", o, NULL, 0, NULL);
        int truth = number ? PyObject_IsTrue(number) : -1;
        Py_XDECREF(number);
        return truth;
    }
    tp_scalar s = tp_item_scalar(t);
    if (!tp_ok()) {
        tpy_raise();
        return -1;
    }
    return tp_scalar_to_bool(s);
}
static PyObject *item(PyObject *o) {
    tp_tensor *t = tpy_unwrap(o);
    if (tp_numel(t) != 1)
        return PyErr_Format(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    if (tpy_handled(o)) return tpy_call_overridden_method("item", o, NULL, 0, NULL);
    tp_scalar s = tp_item_scalar(t);
    return tp_ok() ? tpy_number(s) : tpy_raise();
}
/* Once, as PyTorch: the number leaves the tape unseen. */
static bool warn_of_scalar(PyObject *o) {
    static bool told; /* under the interpreter's lock */
    if (told || !tp_requires_grad(tpy_unwrap(o))) return true;
    told = true;
    return PyErr_WarnEx(PyExc_UserWarning,
                        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
                        "Consider using tensor.detach() first.",
                        1) == 0;
}
static PyObject *converted(PyObject *o, PyObject *(*convert)(PyObject *)) {
    PyObject *number = warn_of_scalar(o) ? item(o) : NULL;
    if (number && PyComplex_CheckExact(number)) { /* a real number may be written as a complex one */
        Py_complex value = PyComplex_AsCComplex(number);
        Py_DECREF(number);
        number = value.imag == 0
                     ? PyFloat_FromDouble(value.real)
                     : PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                                    convert == PyNumber_Float ? "double" : "int64_t");
    }
    PyObject *result = number ? convert(number) : NULL;
    Py_XDECREF(number);
    return result;
}
static PyObject *do_int(PyObject *o) { return converted(o, PyNumber_Long); }
static PyObject *do_float(PyObject *o) { return converted(o, PyNumber_Float); }
PyObject *tpy_complex(PyObject *o, PyObject *unused) {
    (void)unused;
    PyObject *number = warn_of_scalar(o) ? item(o) : NULL;
    Py_complex value = number ? PyComplex_AsCComplex(number) : (Py_complex){0, 0};
    Py_XDECREF(number);
    return PyErr_Occurred() ? NULL : PyComplex_FromCComplex(value);
}
static PyObject *do_index(PyObject *o) {
    tp_dtype d = tp_dtype_of(tpy_unwrap(o));
    if (tp_numel(tpy_unwrap(o)) != 1 || (!tp_dtype_is_integral(d) && d != TP_BOOL))
        return PyErr_Format(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
    return converted(o, PyNumber_Index);
}

PyType_Slot tpy_number_slots[] = {{Py_nb_add, do_add},
                                  {Py_nb_inplace_add, do_iadd},
                                  {Py_nb_subtract, do_sub},
                                  {Py_nb_inplace_subtract, do_isub},
                                  {Py_nb_multiply, do_mul},
                                  {Py_nb_inplace_multiply, do_imul},
                                  {Py_nb_true_divide, do_div},
                                  {Py_nb_inplace_true_divide, do_idiv},
                                  {Py_nb_floor_divide, do_floordiv},
                                  {Py_nb_inplace_floor_divide, do_ifloordiv},
                                  {Py_nb_remainder, do_remainder},
                                  {Py_nb_inplace_remainder, do_iremainder},
                                  {Py_nb_power, do_pow},
                                  {Py_nb_inplace_power, do_ipow},
                                  {Py_nb_matrix_multiply, do_matmul},
                                  {Py_nb_lshift, do_lshift},
                                  {Py_nb_inplace_lshift, do_ilshift},
                                  {Py_nb_rshift, do_rshift},
                                  {Py_nb_inplace_rshift, do_irshift},
                                  {Py_nb_and, do_and},
                                  {Py_nb_inplace_and, do_iand},
                                  {Py_nb_or, do_or},
                                  {Py_nb_inplace_or, do_ior},
                                  {Py_nb_xor, do_xor},
                                  {Py_nb_inplace_xor, do_ixor},
                                  {Py_nb_negative, do_neg},
                                  {Py_nb_positive, do_pos},
                                  {Py_nb_absolute, do_abs},
                                  {Py_nb_invert, do_invert},
                                  {Py_nb_bool, do_bool},
                                  {Py_nb_int, do_int},
                                  {Py_nb_float, do_float},
                                  {Py_nb_index, do_index},
                                  {0, NULL}};
