/* For extension modules of CPython in C or C++ that take and give Taper's tensors: a table of functions, which
 * PyCapsule_Import(TP_PYTHON_API, 0) gives. All functions need the GIL. */
#ifndef TAPER_PYTHON_H
#define TAPER_PYTHON_H
#include <taper/tensor.h>

TP_BEGIN
typedef struct _object PyObject; /* CPython's own */

#define TP_PYTHON_API "taper._C._cpp_api"

typedef struct tp_python_api {
    int64_t size; /* sizeof(tp_python_api) of the module that was loaded: members are only ever added */
    tp_tensor *(*tensor)(PyObject *); /* borrowed; NULL without an error where the object is no tensor */
    PyObject *(*wrap)(
        tp_tensor *t); /* takes t over; the same object for the same tensor; NULL becomes the pending error */
    bool (*dtype)(PyObject *, tp_dtype *dtype);    /* false where the object is no dtype */
    PyObject *(*wrap_dtype)(tp_dtype dtype);       /* a reference */
    bool (*device)(PyObject *, tp_device *device); /* false where the object is no device */
    PyObject *(*wrap_device)(tp_device device);
    PyObject *(*raise)(void); /* the library's pending error as a Python exception; always NULL */
} tp_python_api;
TP_END
#endif
