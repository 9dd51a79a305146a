/* For extension modules of CPython in C or C++ that take and give Taper's tensors: a table of functions, which
 * PyCapsule_Import(TP_PYTHON_API, 0) gives. It has what a shared library needs that is compiled without Python.h, too.
 * All functions need the GIL. */
#ifndef TAPER_PYTHON_H
#define TAPER_PYTHON_H
#include <taper/tensor.h>

TP_BEGIN
typedef struct _object PyObject; /* CPython's own */

#define TP_PYTHON_API "taper._C._cpp_api"

typedef enum {
    TP_PYTHON_OTHER,
    TP_PYTHON_NONE,
    TP_PYTHON_BOOL,
    TP_PYTHON_INT,
    TP_PYTHON_FLOAT,
    TP_PYTHON_COMPLEX,
    TP_PYTHON_TEXT,
    TP_PYTHON_LIST,
    TP_PYTHON_TUPLE,
    TP_PYTHON_DICT
} tp_python_kind;

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

    /* Objects. Where a function fails it gives NULL, false or -1, and a Python exception is set. New objects are
     * references that the caller owns. */
    PyObject *none; /* borrowed */
    PyObject *(*retain)(PyObject *);
    void (*release)(PyObject *);
    tp_python_kind (*kind)(PyObject *);
    const char *(*type_name)(PyObject *);
    bool (*to_bool)(PyObject *, bool *value);
    bool (*to_int)(PyObject *, int64_t *value);
    bool (*to_double)(PyObject *, double *value);
    bool (*to_complex)(PyObject *, double *real, double *imaginary);
    const char *(*text)(PyObject *, int64_t *length); /* UTF-8; the object keeps it */
    PyObject *(*from_bool)(bool value);
    PyObject *(*from_int)(int64_t value);
    PyObject *(*from_double)(double value);
    PyObject *(*from_text)(const char *text, int64_t length);
    PyObject *(*new_list)(int64_t n);
    PyObject *(*new_tuple)(int64_t n);
    PyObject *(*new_dict)(void);
    int64_t (*length)(PyObject *);                        /* of a list or a tuple; TypeError for others */
    PyObject *(*item)(PyObject *, int64_t i);             /* a reference */
    bool (*set_item)(PyObject *, int64_t i, PyObject *v); /* of a new list or tuple; takes v over, NULL: false */
    bool (*put_item)(PyObject *dict, PyObject *key, PyObject *value);
    bool (*next_item)(PyObject *dict, int64_t *at, PyObject **key, PyObject **value); /* borrowed; false at the end */
    void (*set_error)(tp_code code, const char *message);                             /* an exception for the code */

    /* A function that calls call(context, arguments), arguments a tuple. */
    PyObject *(*function)(void *context, PyObject *(*call)(void *context, PyObject *arguments));
    /* Instances of C++ classes (torch.classes): type is "NAMESPACE.NAME" and stays where it is; free is called with
     * held at the instance's end. */
    PyObject *(*wrap_object)(void *held, const char *type, void (*free)(void *held));
    void *(*object)(PyObject *, const char *type); /* held of wrap_object; NULL without an error for other objects */
} tp_python_api;
TP_END
#endif
