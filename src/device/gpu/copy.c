/* Copies and fills on GPUs: what is contiguous and of one dtype is the driver's copy of bytes, what runs along another
 * dim goes by tiles (transpose.c); everything else is a pointwise kernel whose result is its input, converted on the
 * way (map.c). Copies within a dtype move bits, as words of the elements' size. */
#include "device/gpu/gpu.h"
#include "device/gpu/map.h"
#include "device/gpu/trace.h"
#include <stdio.h>
#include <string.h>

/* The dtype whose elements are plain words of so many bytes. */
static tp_dtype word_of(int bytes) {
    return bytes == 1   ? TP_UINT8
           : bytes == 2 ? TP_INT16
           : bytes == 4 ? TP_INT32
           : bytes == 8 ? TP_INT64
                        : TP_COMPLEX128;
}

/* The function that gives what it takes, in each compute type. */
#define SAME(type) "INLINE " type " op_element(const " type " x, const params_t param) { return x; }\n"
static const char *const identity[TPI_CTYPES] = {SAME("uint8_t"), SAME("int32_t"), SAME("int64_t"), SAME("float"),
                                                 SAME("double"),  SAME("tpi_c64"), SAME("tpi_c128")};

static bool run_identity(tp_device device, tpi_plan *p) {
    tpi_ctype type =
        tpi_gpu_ctype((tp_dtype)p->dtype[p->dtype[1] == TP_UINT64 ? 0 : 1]); /* int64 does not hold uint64's values */
    char name[64];                                                           /* for profilers */
    snprintf(name, sizeof name, "copy_%s_%s", tp_dtype_name((tp_dtype)p->dtype[1]),
             tp_dtype_name((tp_dtype)p->dtype[0]));
    tpi_gpu_map_call call = {.what = &identity[type],
                             .text = {.name = name, .source = identity[type], .type = {(uint8_t)type, (uint8_t)type}}};
    return tpi_gpu_run_map(device, &call, p);
}

static bool copy_bytes(tp_device device, void *to, const void *from, size_t bytes) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of(device.type);
    if (!driver) return false;
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_COPY, "Memcpy DtoD", bytes);
    bool ok = driver->copy(device.index, tpi_gpu_stream_of(device), to, from, bytes, TPI_GPU_WITHIN);
    tpi_gpu_span_end(&span, ok);
    return ok;
}

bool tpi_gpu_copy(tp_device device, tpi_plan *p) {
    if (p->numel == 0) return true;
    int64_t size = tpi_dtype_bytes[p->dtype[0]];
    if (p->dtype[0] == p->dtype[1]) {
        if (p->ndim == 0 || (p->ndim == 1 && p->stride[0][0] == size && p->stride[1][0] == size)) {
            if (p->data[0] == p->data[1]) return true;
            return copy_bytes(device, p->data[0], p->data[1], (size_t)(p->numel * size));
        }
        p->dtype[0] = p->dtype[1] = (uint8_t)word_of((int)size);
    }
    return tpi_gpu_is_transpose(p) ? tpi_gpu_transpose(device, p) : run_identity(device, p);
}

bool tpi_gpu_fill(tp_device device, tpi_plan *p, const tp_scalar *value) {
    if (p->numel == 0) return true;
    tpi_param element = {.c128 = {0, 0}};
    tpi_store_scalar(&element, (tp_dtype)p->dtype[0], *value);
    p->dtype[0] = p->dtype[1] = (uint8_t)word_of(tpi_dtype_bytes[p->dtype[0]]);
    p->data[1] = (char *)&element;
    p->nargs = 2;
    p->numbers = 2;
    return run_identity(device, p);
}
