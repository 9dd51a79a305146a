/* Products of matrices of 8-bit numbers: on the CPU by kernels of their own, else made of other operators, which every
 * device can do. Devices whose libraries multiply such numbers as they are have byte_products_gpu.c. */
#include "base/min_max.h"
#include "base/threads.h"
#include "linalg/gemm.h"
#include "ops/matmul/byte_products.h"
#include "ops/matmul/matmul_gpu.h"
#include "ops/native.h"
#include "ops/temporaries.h"
#include "tpi_ops.h"

static bool are_matrices(const tp_tensor *self, const tp_tensor *other, const char *name, int64_t inner) {
    if (self->ndim != 2) return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected a matrix, got %dD", self->ndim);
    if (other->ndim != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a matrix, got %dD", name, other->ndim);
    return self->shape[1] == inner ||
           tpi_refuse(TP_ERR_RUNTIME, "arguments 'self' and '%s': shapes %s and %s cannot be multiplied", name,
                      tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)));
}

/* On the CPU, by kernels of bytes (linalg/gemm.h). */
static tp_tensor *multiply_bytes(const tp_tensor *a, const tp_tensor *b) {
    tp_tensor *out = tpi_empty(TP_INTS(a->shape[0], b->shape[1]), TP_INT32, tpi_device(a));
    if (!out || !out->numel) return out;
    const tpi_product p = {.dtype = (tp_dtype)a->dtype,
                           .batches = 1,
                           .m = a->shape[0],
                           .n = b->shape[1],
                           .k = a->shape[1],
                           .a = {a->data, 0, a->strides[0], a->strides[1]},
                           .b = {b->data, 0, b->strides[0], b->strides[1]},
                           .c = out->data,
                           .c_row = b->shape[1],
                           .alpha = tp_int(1),
                           .beta = tp_int(0)};
    return tpi_gemm_multiply(&p) ? out : tpi_release_then(out, NULL);
}

tp_tensor *tpi_native_byte_product(tp_tensor *self, tp_tensor *mat2) {
    if (!are_matrices(self, mat2, "mat2", mat2->ndim == 2 ? mat2->shape[0] : 0)) return NULL;
    const bool bytes = (self->dtype == TP_INT8 || self->dtype == TP_UINT8) && mat2->dtype == TP_INT8;
    if (bytes && tpi_device(self).type == TP_CPU && self->shape[1]) return multiply_bytes(self, mat2);
    tpi_temporaries temps = {0};
    tp_tensor *a = tpi_put(&temps, tpo_to_dtype(self, TP_INT32)), *b = tpi_put(&temps, tpo_to_dtype(mat2, TP_INT32));
    return tpi_release_temporaries(&temps, tpo_mm(a, b));
}

static tp_tensor *scaled(tpi_temporaries *temps, tp_tensor *product, tp_tensor *scale) {
    if (!product || !scale) return product;
    tp_tensor *one = tpi_put(temps, tpo_reshape(scale, tp_ints_view(NULL, 0)));
    return one ? tpi_put(temps, tpo_mul(tp_operand_tensor(product), tp_operand_tensor(one))) : NULL;
}

tp_tensor *tpi_native_float8_product(tp_tensor *self, tp_tensor *mat2, tp_tensor *scale_a, tp_tensor *scale_b,
                                     tp_dtype dtype, bool fast) {
    if (!are_matrices(self, mat2, "mat2", mat2->ndim == 2 ? mat2->shape[0] : 0)) return NULL;
    const tpi_device_ops *device = tpi_device_ops_of(tpi_device(self));
    if (!device) return NULL;
    tp_tensor *made = device->gpu ? tpi_gpu_float8_product(self, mat2, scale_a, scale_b, dtype, fast) : NULL;
    if (made || !tp_ok()) return made;
    tpi_temporaries temps = {0};
    tp_tensor *a = tpi_put(&temps, tpo_to_dtype(self, TP_FLOAT32)),
              *b = tpi_put(&temps, tpo_to_dtype(mat2, TP_FLOAT32));
    tp_tensor *product = tpi_put(&temps, tpo_mm(a, b));
    tp_tensor *result = scaled(&temps, scaled(&temps, product, scale_a), scale_b);
    return tpi_release_temporaries(&temps, tpo_to_dtype(result, dtype));
}

enum {
    COLUMNS = 32,           /* of a task */
    WORTH_WAKING = 1 << 16, /* multiply-adds */
    FEW_ROWS = 8
};

/* Do the kernels serve? Below AVX-512 they are the faster ones for few rows. */
static bool widens_as_it_reads(const tp_tensor *self, const tp_tensor *weight) {
    return tpi_device(self).type == TP_CPU && self->dtype != TP_FLOAT64 && weight->dtype == TP_INT8 &&
           (self->shape[0] <= FEW_ROWS || tpi_cpu_isa == TPI_ISA_AVX512);
}

static void some_columns(int64_t task, void *context) {
    const tpi_weight_only *p = context;
    const int64_t first = task * COLUMNS;
    TPI_ISA_PICK(tpi_weight_only_columns)(p, first, tpi_min64(COLUMNS, p->n - first));
}

/* On the CPU, in float32: the weight is widened as it is read. */
static tp_tensor *multiply_weight(tpi_temporaries *temps, tp_tensor *x, tp_tensor *weight, tp_tensor *scales) {
    const int64_t m = x->shape[0], n = weight->shape[0];
    tp_tensor *rows = tpi_put(temps, tpi_contiguous_data(x)), *w = tpi_put(temps, tpi_contiguous_data(weight));
    tp_tensor *s = tpi_put(temps, tpi_contiguous_data(scales));
    tp_tensor *out = rows && w && s ? tpi_put(temps, tpi_empty(TP_INTS(m, n), TP_FLOAT32, tpi_device(x))) : NULL;
    if (!out) return NULL;
    tpi_weight_only p = {m,
                         n,
                         x->shape[1],
                         (const float *)rows->data,
                         (const float *)s->data,
                         (const int8_t *)w->data,
                         (float *)out->data};
    tpi_parallel_for(tpi_ceil_div(n, COLUMNS), m * n * p.k > WORTH_WAKING, some_columns, &p);
    return out;
}

tp_tensor *tpi_native_weight_only_product(tp_tensor *self, tp_tensor *weight, tp_tensor *scales) {
    if (!are_matrices(self, weight, "weight", weight->ndim == 2 ? weight->shape[1] : 0)) return NULL;
    if (scales->ndim != 1 || scales->shape[0] != weight->shape[0])
        return tpi_fail(TP_ERR_RUNTIME, "argument 'scales': expected one for each of weight's %lld rows, got shape %s",
                        (long long)weight->shape[0], tpi_shape_text(tpi_shape(scales)));
    tpi_temporaries temps = {0};
    tp_dtype wide = self->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    tp_tensor *x = tpi_put(&temps, tpo_to_dtype(self, wide)), *s = tpi_put(&temps, tpo_to_dtype(scales, wide));
    if (widens_as_it_reads(self, weight)) {
        tp_tensor *made = x && s ? multiply_weight(&temps, x, weight, s) : NULL;
        return tpi_release_temporaries(&temps, made ? tpo_to_dtype(made, (tp_dtype)self->dtype) : NULL);
    }
    tp_tensor *w = tpi_put(&temps, tpo_to_dtype(weight, wide));
    tp_tensor *product = tpi_put(&temps, tpo_mm(x, tpi_put(&temps, tpo_transpose(w, 0, 1))));
    tp_tensor *result =
        product && s ? tpi_put(&temps, tpo_mul(tp_operand_tensor(product), tp_operand_tensor(s))) : NULL;
    return tpi_release_temporaries(&temps, result ? tpo_to_dtype(result, (tp_dtype)self->dtype) : NULL);
}
