/* Products of matrices of 8-bit numbers, made of other operators: what every device can do. Devices whose libraries
 * multiply such numbers as they are have byte_products_gpu.c. */
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

tp_tensor *tpi_native_byte_product(tp_tensor *self, tp_tensor *mat2) {
    if (!are_matrices(self, mat2, "mat2", mat2->ndim == 2 ? mat2->shape[0] : 0)) return NULL;
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

tp_tensor *tpi_native_weight_only_product(tp_tensor *self, tp_tensor *weight, tp_tensor *scales) {
    if (!are_matrices(self, weight, "weight", weight->ndim == 2 ? weight->shape[1] : 0)) return NULL;
    if (scales->ndim != 1 || scales->shape[0] != weight->shape[0])
        return tpi_fail(TP_ERR_RUNTIME, "argument 'scales': expected one for each of weight's %lld rows, got shape %s",
                        (long long)weight->shape[0], tpi_shape_text(tpi_shape(scales)));
    tpi_temporaries temps = {0};
    tp_dtype wide = self->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    tp_tensor *x = tpi_put(&temps, tpo_to_dtype(self, wide)), *w = tpi_put(&temps, tpo_to_dtype(weight, wide));
    tp_tensor *s = tpi_put(&temps, tpo_to_dtype(scales, wide));
    tp_tensor *product = tpi_put(&temps, tpo_mm(x, tpi_put(&temps, tpo_transpose(w, 0, 1))));
    tp_tensor *result =
        product && s ? tpi_put(&temps, tpo_mul(tp_operand_tensor(product), tp_operand_tensor(s))) : NULL;
    return tpi_release_temporaries(&temps, result ? tpo_to_dtype(result, (tp_dtype)self->dtype) : NULL);
}
