/* What gpu.c and streams.c share: how Python names a device of an accelerator, a type and an index. */
#ifndef TPY_GPU_H
#define TPY_GPU_H
#include "tpy.h"

int tpy_gpu_kind(PyObject *o, void *type); /* a converter for PyArg_Parse ("O&"): "cuda" or "xpu" to a tp_device_type */
/* Reads args = (type, index, ...), the rest by the format. false: an exception is set. */
bool tpy_gpu_device(PyObject *args, const char *format, tp_device *device, ...);
#endif
