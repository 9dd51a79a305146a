/* Products of 8-bit numbers on GPUs: by the driver's library, which multiplies them as they are, or by a kernel of ours
 * where a matrix of bytes meets a few vectors, which is decoding with 8-bit weights. What neither serves is made of
 * other operators (byte_products.c). */
#include "device/gpu/trace.h"
#include "ops/matmul/matmul_gpu.h"
#include "ops/native_gpu.h"
#include "ops/temporaries.h"
#include "tensor/same_device.h"
#include "tpi_ops.h"

/* ---- By the library ---- */
static bool rows_run(const tp_tensor *t) { return t->strides[1] == 1 && t->strides[0] >= t->shape[1]; }
static bool columns_run(const tp_tensor *t) { return t->strides[0] == 1 && t->strides[1] >= t->shape[0]; }

/* out (contiguous) = a b, whose rows or columns lie one behind the other. The library counts by columns: it gets the
 * product of the transposes, b's first. */
static tpi_served by_library(tp_tensor *out, const tp_tensor *a, const tp_tensor *b, tpi_gpu_gemm g) {
    tp_device device = tpi_device(out);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver) return TPI_FAILED;
    if (!driver->gemm) return TPI_DECLINED;
    g.dtype = (tp_dtype)b->dtype;
    g.dtype_b = (tp_dtype)a->dtype;
    g.result = (tp_dtype)out->dtype;
    g.m = b->shape[1];
    g.n = a->shape[0];
    g.k = a->shape[1];
    g.batch = 1;
    g.a = b->data;
    g.b = a->data;
    g.c = out->data;
    g.trans_a = rows_run(b) ? 'n' : 't';
    g.trans_b = rows_run(a) ? 'n' : 't';
    g.lda = rows_run(b) ? b->strides[0] : b->strides[1];
    g.ldb = rows_run(a) ? a->strides[0] : a->strides[1];
    g.ldc = out->shape[1];
    g.alpha = 1;
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "product", 0);
    tpi_served served = driver->gemm(device.index, tpi_gpu_stream_of(device), &g);
    tpi_gpu_span_end(&span, served == TPI_SERVED);
    return served;
}

static bool can_multiply(const tp_tensor *a, const tp_tensor *b) {
    return a->ndim == 2 && b->ndim == 2 && a->shape[1] == b->shape[0] && a->numel && b->numel;
}

/* The same with a by rows and b by columns, as the library has kernels for every 8-bit dtype; copies where they do not
 * lie so. */
static tpi_served by_rows_and_columns(tp_tensor *out, tp_tensor *a, tp_tensor *b, tpi_gpu_gemm g) {
    if (rows_run(a) && columns_run(b)) return by_library(out, a, b, g);
    tpi_temporaries temps = {0};
    tp_tensor *rows = tpi_put(&temps, tpi_contiguous_data(a));
    tp_tensor *transposed = tpi_put(&temps, tpo_transpose(b, 0, 1));
    tp_tensor *dense = transposed ? tpi_put(&temps, tpi_contiguous_data(transposed)) : NULL;
    tp_tensor *columns = dense ? tpi_put(&temps, tpo_transpose(dense, 0, 1)) : NULL;
    tpi_served served = rows && columns ? by_library(out, rows, columns, g) : TPI_FAILED;
    tpi_release_temporaries(&temps, NULL);
    return served;
}

/* The same of operands that may lie anyhow. Bytes by columns are multiplied ten times as fast as bytes by rows, which
 * is worth the copy; 16-bit numbers are taken as they lie. */
static tpi_served multiply(tp_tensor *out, tp_tensor *a, tp_tensor *b, tpi_gpu_gemm g) {
    bool lie_well = (rows_run(a) || columns_run(a)) && (rows_run(b) || columns_run(b));
    bool as_they_lie = lie_well && tpi_itemsize(a) > 1;
    return as_they_lie ? by_library(out, a, b, g) : by_rows_and_columns(out, a, b, g);
}

/* A matrix of rows by columns that the library has filled, or NULL: declined, or failed and an error. */
static tp_tensor *library_product(tp_tensor *a, tp_tensor *b, tp_dtype result, tpi_gpu_gemm g) {
    tp_tensor *out = tpi_empty(TP_INTS(a->shape[0], b->shape[1]), result, tpi_device(a));
    if (!out || multiply(out, a, b, g) == TPI_SERVED) return out;
    return tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_byte_product(tp_tensor *self, tp_tensor *mat2, tp_tensor **result) {
    bool bytes = self->dtype == TP_INT8 && mat2->dtype == TP_INT8 && can_multiply(self, mat2);
    tp_tensor *out = bytes ? library_product(self, mat2, TP_INT32, (tpi_gpu_gemm){0}) : NULL;
    if (!out && tp_ok()) out = tpi_native_byte_product(self, mat2);
    return tpi_serve(out, result);
}

static bool is_float8(const tp_tensor *t) { return t->dtype == TP_FLOAT8_E4M3FN || t->dtype == TP_FLOAT8_E5M2; }

static bool is_scale(const tp_tensor *t) { return !t || (t->numel == 1 && t->dtype == TP_FLOAT32); }

static bool are_there(tp_device device, const tp_tensor *t) { return !t || tpi_same_device(tpi_device(t), device); }

tp_tensor *tpi_gpu_float8_product(tp_tensor *self, tp_tensor *mat2, tp_tensor *scale_a, tp_tensor *scale_b,
                                  tp_dtype dtype, bool fast) {
    tp_device device = tpi_device(self);
    bool there = is_float8(self) && is_float8(mat2) && is_scale(scale_a) && is_scale(scale_b) &&
                 can_multiply(self, mat2) && are_there(device, mat2) && are_there(device, scale_a) &&
                 are_there(device, scale_b);
    bool written = dtype == TP_FLOAT32 || dtype == TP_BFLOAT16 || dtype == TP_FLOAT16;
    const tpi_gpu_gemm g = {.scale_a = tpi_gpu_data(scale_b), .scale_b = tpi_gpu_data(scale_a), .fast = fast};
    tp_tensor *out = there ? library_product(self, mat2, written ? dtype : TP_FLOAT32, g) : NULL;
    return out && !written ? tpi_release_then(out, tpi_as_dtype_data(out, dtype)) : out;
}

/* ---- Bytes and a few vectors ---- */
static tpi_few_rows few_rows(tp_tensor *out, const tp_tensor *self, const tp_tensor *weight, const tp_tensor *scales) {
    int64_t k = self->shape[1];
    return (tpi_few_rows){.out = tpi_gpu_data(out),
                          .x = self->data,
                          .weight = weight->data,
                          .scales = scales->data,
                          .dtype = (tp_dtype)self->dtype,
                          .weight_dtype = TP_INT8,
                          .scales_dtype = (tp_dtype)scales->dtype,
                          .vectors = self->shape[0],
                          .rows = weight->shape[0],
                          .k = k,
                          .x_pitch = k,
                          .weight_pitch = k,
                          .out_pitch = weight->shape[0]};
}

static bool suits_kernel(const tp_tensor *self, const tp_tensor *weight, const tp_tensor *scales) {
    const tpi_few_rows f = few_rows(NULL, self, weight, scales);
    return tpi_gpu_floats(self) && self->dtype != TP_FLOAT64 && tp_is_contiguous(self) && tp_is_contiguous(weight) &&
           tpi_gpu_floats(scales) && tp_is_contiguous(scales) && tpi_gpu_few_rows_suits(tpi_device(self), &f);
}

static tp_tensor *by_kernel(const tp_tensor *self, const tp_tensor *weight, const tp_tensor *scales) {
    tp_tensor *out = tpi_empty(TP_INTS(self->shape[0], weight->shape[0]), (tp_dtype)self->dtype, tpi_device(self));
    const tpi_few_rows f = few_rows(out, self, weight, scales);
    return out && tpi_gpu_few_rows(tpi_device(self), &f) ? out : tpi_release_then(out, NULL);
}

/* More vectors: bytes are 16-bit floating-point numbers without a loss, and the library's sums are float32's. NULL:
 * declined, or failed and an error. */
static tp_tensor *by_16_bits(tp_tensor *self, tp_tensor *weight, tp_tensor *scales) {
    if (self->dtype != TP_FLOAT16 && self->dtype != TP_BFLOAT16) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *wide = tpi_put(&temps, tpo_to_dtype(weight, (tp_dtype)self->dtype));
    tp_tensor *transposed = tpi_put(&temps, tpo_transpose(wide, 0, 1));
    tp_tensor *s = tpi_put(&temps, tpo_to_dtype(scales, TP_FLOAT32));
    tp_tensor *product =
        transposed && s ? tpi_put(&temps, library_product(self, transposed, TP_FLOAT32, (tpi_gpu_gemm){0})) : NULL;
    tp_tensor *out = product ? tpi_put(&temps, tpo_mul(tp_operand_tensor(product), tp_operand_tensor(s))) : NULL;
    return tpi_release_temporaries(&temps, out ? tpo_to_dtype(out, (tp_dtype)self->dtype) : NULL);
}

tpi_served tpi_gpu_weight_only_product(tp_tensor *self, tp_tensor *weight, tp_tensor *scales, tp_tensor **result) {
    bool fits = self->ndim == 2 && weight->ndim == 2 && weight->shape[1] == self->shape[1] && self->numel &&
                weight->numel && weight->dtype == TP_INT8 && scales->ndim == 1 && scales->shape[0] == weight->shape[0];
    tp_tensor *out = NULL;
    if (fits)
        out = suits_kernel(self, weight, scales) ? by_kernel(self, weight, scales) : by_16_bits(self, weight, scales);
    if (!out && tp_ok()) out = tpi_native_weight_only_product(self, weight, scales);
    return tpi_serve(out, result);
}
