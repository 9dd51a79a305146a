/* Tensors from and to Python's and other libraries' data. */
#include "tpy.h"

const char *tpy_dtype_word(tp_dtype dtype) {
    static const char *const words[TP_DTYPE_COUNT] = {[TP_BOOL] = "Bool", [TP_UINT8] = "Byte", [TP_INT8] = "Char", [TP_INT16] = "Short", [TP_INT32] = "Int", [TP_INT64] = "Long",
        [TP_FLOAT16] = "Half", [TP_BFLOAT16] = "BFloat16", [TP_FLOAT32] = "Float", [TP_FLOAT64] = "Double", [TP_COMPLEX64] = "ComplexFloat", [TP_COMPLEX128] = "ComplexDouble"};
    return dtype > TP_NO_DTYPE && dtype < TP_DTYPE_COUNT ? words[dtype] : "Undefined";
}

PyObject *tpy_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type, (void)args, (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "unsupported");
}
int tpy_init_convert(PyObject *module) {
    (void)module;
    return 0;
}
