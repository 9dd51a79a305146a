/* DLPack: tensors to and from other libraries, sharing memory. What comes in is checked as a caller's memory is; a
 * managed tensor that is refused stays its owner's, and its deleter is not called. */
#include <taper/dlpack.h>
#include "tensor/storage.h"

static const struct {
    uint8_t code, bits;
} dlpack_dtype[TP_DTYPE_COUNT] = {
    [TP_BOOL] = {kDLBool, 8},
    [TP_UINT8] = {kDLUInt, 8},
    [TP_INT8] = {kDLInt, 8},
    [TP_INT16] = {kDLInt, 16},
    [TP_INT32] = {kDLInt, 32},
    [TP_INT64] = {kDLInt, 64},
    [TP_FLOAT16] = {kDLFloat, 16},
    [TP_BFLOAT16] = {kDLBfloat, 16},
    [TP_FLOAT32] = {kDLFloat, 32},
    [TP_FLOAT64] = {kDLFloat, 64},
    [TP_COMPLEX64] = {kDLComplex, 64},
    [TP_COMPLEX128] = {kDLComplex, 128},
    [TP_UINT16] = {kDLUInt, 16},
    [TP_UINT32] = {kDLUInt, 32},
    [TP_UINT64] = {kDLUInt, 64},
    [TP_COMPLEX32] = {kDLComplex, 32},
    [TP_FLOAT8_E4M3FN] = {kDLFloat8_e4m3fn, 8},
    [TP_FLOAT8_E5M2] = {kDLFloat8_e5m2, 8},
    [TP_FLOAT8_E4M3FNUZ] = {kDLFloat8_e4m3fnuz, 8},
    [TP_FLOAT8_E5M2FNUZ] = {kDLFloat8_e5m2fnuz, 8},
    [TP_FLOAT8_E8M0FNU] = {kDLFloat8_e8m0fnu, 8},
};

static const struct {
    int theirs;
    int16_t ours;
} devices[] = {
    /* the first with our number is the one we hand out */
    {kDLCPU, TP_CPU},      {kDLCUDA, TP_CUDA},    {kDLOneAPI, TP_XPU},       {kDLROCM, TP_HIP},
    {kDLCUDAHost, TP_CPU}, {kDLROCMHost, TP_CPU}, {kDLCUDAManaged, TP_CUDA},
};
enum { DEVICES = sizeof devices / sizeof *devices };

/* The managed tensor, what it keeps alive and its own copy of the geometry, in one block. */
typedef struct exported {
    DLManagedTensor managed;
    tp_tensor *tensor;
    int64_t dims[];
} exported;

static void exported_delete(DLManagedTensor *managed) {
    exported *e = managed->manager_ctx;
    tp_release(e->tensor);
    tpi_mfree(e);
}

struct DLManagedTensor *tp_to_dlpack(tp_tensor *t) {
    if (!tpi_is_tensor(t, "t")) return NULL;
    if (t->requires_grad)
        return tpi_fail(TP_ERR_RUNTIME, "argument 't': cannot export a tensor that requires gradient, detach it first");
    if (tpi_marked(t))
        return tpi_fail(TP_ERR_RUNTIME, "Can't export tensors with the %s bit set",
                        tp_dtype_is_complex((tp_dtype)t->dtype) ? "conjugate" : "negative");
    tp_device device = tpi_device(t);
    int at = 0;
    while (at < DEVICES && devices[at].ours != device.type) at++;
    if (at == DEVICES)
        return tpi_fail(TP_ERR_MISSING, "argument 't': DLPack has no device for device type %d", device.type);
    if (!dlpack_dtype[t->dtype].bits)
        return tpi_fail(TP_ERR_VALUE, "%s types are not supported by dlpack", tp_dtype_word((tp_dtype)t->dtype));
    exported *e = tpi_malloc(sizeof *e + 2 * (size_t)t->ndim * sizeof(int64_t));
    if (!e) return NULL;
    e->tensor = tpi_retain(t);
    for (int i = 0; i < t->ndim; i++) {
        e->dims[i] = t->shape[i];
        e->dims[t->ndim + i] = t->strides[i];
    }
    e->managed.manager_ctx = e;
    e->managed.deleter = exported_delete;
    e->managed.dl_tensor = (DLTensor){.data = t->data, .ndim = t->ndim, .shape = e->dims, .strides = e->dims + t->ndim};
    e->managed.dl_tensor.device =
        (DLDevice){(DLDeviceType)devices[at].theirs, device.type == TP_CPU ? 0 : device.index};
    e->managed.dl_tensor.dtype = (DLDataType){dlpack_dtype[t->dtype].code, dlpack_dtype[t->dtype].bits, 1};
    return &e->managed;
}

static tp_dtype dtype_from(DLDataType d) {
    for (int i = 1; i < TP_DTYPE_COUNT && d.lanes == 1; i++)
        if (dlpack_dtype[i].bits == d.bits && dlpack_dtype[i].code == d.code) return (tp_dtype)i;
    tpi_fail(TP_ERR_MISSING, "argument 'managed': no dtype for DLPack's type code %d with %d bits and %d lanes", d.code,
             d.bits, d.lanes);
    return TP_NO_DTYPE;
}

static void call_deleter(void *context) {
    DLManagedTensor *managed = context;
    if (managed->deleter) managed->deleter(managed);
}

tp_tensor *tp_from_dlpack(struct DLManagedTensor *managed) {
    if (!managed) return tpi_fail(TP_ERR_TYPE, "argument 'managed': expected a DLManagedTensor, got NULL");
    const DLTensor *d = &managed->dl_tensor;
    tp_dtype dtype = dtype_from(d->dtype);
    if (!dtype) return NULL;
    int at = 0;
    while (at < DEVICES && devices[at].theirs != (int)d->device.device_type) at++;
    if (at == DEVICES)
        return tpi_fail(TP_ERR_MISSING, "argument 'managed': no device for DLPack's device type %d",
                        (int)d->device.device_type);
    if (d->ndim < 0 || d->ndim > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'managed': expected 0 to %d dimensions, got %d", TP_MAX_DIMS, d->ndim);
    tp_device device = {devices[at].ours, (int16_t)(devices[at].ours == TP_CPU ? 0 : d->device.device_id)};
    int64_t own[TP_MAX_DIMS];
    tp_ints shape = tp_ints_view(d->shape, d->ndim),
            strides = tp_ints_view(d->ndim && d->strides ? d->strides : own, d->ndim);
    int64_t numel = tpi_numel_of(shape);
    if (numel < 0) return NULL;
    if (strides.v == own) tpi_contiguous_strides(shape, own);
    int64_t bytes = tpi_span_bytes(shape, strides, dtype);
    if (bytes < 0) return NULL;
    char *data = d->data ? (char *)d->data + d->byte_offset : NULL;
    size_t align = tpi_dtype_bytes[dtype] < 8 ? tpi_dtype_bytes[dtype] : 8;
    if ((numel && !data) || (uintptr_t)data % align)
        return tpi_fail(TP_ERR_VALUE, "argument 'managed': expected data at a multiple of %zu bytes for %s, got %p",
                        align, tp_dtype_name(dtype), (void *)data);
    tpi_storage *s = tpi_storage_over(data, (size_t)bytes, device, NULL, NULL);
    tp_tensor *t = s ? tpi_to_scope(tpi_tensor_over(s, dtype, shape, strides, 0)) : NULL;
    if (!t) return NULL;
    s->release = call_deleter; /* put in at the end: on failure the managed tensor stays the caller's */
    s->context = managed;
    return t;
}
