/* DLPack capsules in both directions, of the first kind ("dltensor") and the versioned kind of DLPack 1
 * ("dltensor_versioned"), which the library knows nothing of: it is the old structure with a version, flags and another
 * order of fields around it. */
#include "tpy.h"
#include <taper/dlpack.h>

typedef struct versioned { /* DLManagedTensorVersioned, by DLPack's layout */
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct versioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} versioned;
#define FLAG_COPIED 2u

/* ---- To a capsule ---- */
static void drop_unused(PyObject *capsule) { /* a consumer renames the capsule when it takes the tensor */
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        DLManagedTensor *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (v->deleter) v->deleter(v);
    }
}

static void delete_versioned(versioned *v) {
    DLManagedTensor *m = v->manager_ctx;
    m->deleter(m);
    free(v); /* may run without the interpreter lock, so it is not Python's memory */
}

static PyObject *to_capsule(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *o;
    int with_version, copied;
    if (!PyArg_ParseTuple(args, "Opp:_to_dlpack", &o, &with_version, &copied)) return NULL;
    if (!tpy_is_tensor(o)) return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(o)->tp_name);
    if (tp_requires_grad(tpy_unwrap(o)))
        return PyErr_Format(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
    if (tp_device_of(tpy_unwrap(o)).type == TP_META)
        return PyErr_Format(PyExc_BufferError, "Cannot pack tensors on meta");
    DLManagedTensor *m = tp_to_dlpack(tpy_unwrap(o));
    if (!m) return tpy_raise();
    PyObject *capsule = NULL;
    if (!with_version)
        capsule = PyCapsule_New(m, "dltensor", drop_unused);
    else {
        versioned *v = malloc(sizeof *v);
        if (v) {
            *v = (versioned){.version = {1, 0},
                             .manager_ctx = m,
                             .deleter = delete_versioned,
                             .flags = copied ? FLAG_COPIED : 0,
                             .dl_tensor = m->dl_tensor};
            capsule = PyCapsule_New(v, "dltensor_versioned", drop_unused);
            if (!capsule) free(v);
        } else
            PyErr_NoMemory();
    }
    if (!capsule) m->deleter(m);
    return capsule;
}

/* ---- From a capsule ---- */
static void delete_inner(DLManagedTensor *m) {
    versioned *v = m->manager_ctx;
    if (v->deleter) v->deleter(v);
    free(m);
}

static DLManagedTensor *read_versioned(PyObject *capsule) {
    versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (v->version.major != 1) {
        PyErr_Format(PyExc_BufferError, "expected a DLPack tensor of version 1, got version %u.%u", v->version.major,
                     v->version.minor);
        return NULL;
    }
    DLManagedTensor *m = malloc(sizeof *m);
    if (!m) return (DLManagedTensor *)PyErr_NoMemory();
    *m = (DLManagedTensor){.dl_tensor = v->dl_tensor, .manager_ctx = v, .deleter = delete_inner};
    return m;
}

static PyObject *from_capsule(PyObject *module, PyObject *capsule) {
    (void)module;
    bool first = PyCapsule_IsValid(capsule, "dltensor"),
         second = !first && PyCapsule_IsValid(capsule, "dltensor_versioned");
    if (!first && !second)
        return PyErr_Format(PyExc_RuntimeError,
                            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
                            "once, so you might have already constructed a tensor from it once.");
    DLManagedTensor *m = first ? PyCapsule_GetPointer(capsule, "dltensor") : read_versioned(capsule);
    if (!m) return NULL;
    tp_tensor *t = tpy_own(tp_from_dlpack(m));
    if (!t) { /* the tensor is still the capsule's */
        if (second) free(m);
        return tpy_raise();
    }
    PyCapsule_SetName(capsule, first ? "used_dltensor" : "used_dltensor_versioned");
    return tpy_wrap(t);
}

static PyMethodDef functions[] = {
    {"_to_dlpack", to_capsule, METH_VARARGS, NULL}, {"_from_dlpack", from_capsule, METH_O, NULL}, {0}};

int tpy_init_dlpack(PyObject *module) { return PyModule_AddFunctions(module, functions); }
