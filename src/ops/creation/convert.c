/* Copies and conversions: clone, to, contiguous, complex, and the in-place copy, fill and zero. */
#include <taper/gpu.h>
#include "ops/native.h"
#include "ops/temporaries.h"
#include "tensor/fits.h"
#include "tpi_ops.h"

tp_tensor *tpi_native_clone(tp_tensor *self, tp_layout memory_format) {
    tp_tensor *t = memory_format == TP_PRESERVE
                       ? tpi_empty_like(self, self->dtype)
                       : tpi_empty_layout(tpi_shape(self), self->dtype, tpi_device(self), memory_format);
    if (t && !tpi_copy_data(t, self)) return tpi_release_then(t, NULL);
    return t;
}

tp_tensor *tpi_native_to_dtype(tp_tensor *self, tp_dtype dtype) {
    tp_tensor *t = tpi_empty_like(self, dtype ? dtype : (tp_dtype)self->dtype);
    if (t && !tpi_copy_data(t, self)) return tpi_release_then(t, NULL);
    return t;
}

tp_tensor *tpi_native_to_device(tp_tensor *self, tp_device device) {
    tp_tensor *like = tpi_empty_like(self, self->dtype);
    tp_tensor *t = like ? tpi_empty_strided(tpi_shape(like), tpi_strides(like), self->dtype,
                                            device.type ? device : tpi_device(self))
                        : NULL;
    tpi_release(like);
    if (t && !tpi_copy_data(t, self)) return tpi_release_then(t, NULL);
    return t;
}

bool tpi_native_copy(tp_tensor *self, tp_tensor *src, bool non_blocking) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!tpi_same_shape(self, src)) {
        if (!tpi_broadcast(tpi_shape(self), tpi_shape(src), shape, &ndim)) return false;
        if (ndim != self->ndim || memcmp(shape, self->shape, sizeof(int64_t) * (size_t)ndim) != 0)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'src': shape %s does not broadcast to self's shape %s",
                              tpi_shape_text(tpi_shape(src)), tpi_shape_text(tpi_shape(self)));
    }
    bool before = tp_set_non_blocking(non_blocking), ok = tpi_copy_data(self, src);
    tp_set_non_blocking(before);
    return ok;
}

bool tpi_native_fill(tp_tensor *self, tp_scalar value) {
    return tpi_check_fits(value, (tp_dtype)self->dtype) && tpi_fill_data(self, value);
}

bool tpi_native_fill_tensor(tp_tensor *self, tp_tensor *value) {
    if (value->ndim != 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'value': expected a zero-dimensional tensor, got shape %s",
                          tpi_shape_text(tpi_shape(value)));
    return tpi_copy_data(self, value);
}

bool tpi_native_zero(tp_tensor *self) { return tpi_fill_data(self, tp_int(0)); }

/* out's real or imaginary parts, as a view of the real dtype. */
static tp_tensor *part_of(tp_tensor *out, int which) {
    int64_t still[TP_MAX_DIMS] = {0}; /* made without strides: an alias counts in out's own elements */
    tp_tensor *t = tpi_alias(out, out->ndim, out->shape, still, 0);
    if (!t) return NULL;
    for (int d = 0; d < out->ndim; d++) t->strides[d] = out->strides[d] * 2;
    t->dtype = (uint8_t)tpi_dtype_to_real(out->dtype);
    t->data = out->data + which * (int64_t)tpi_itemsize(t);
    return t;
}

static bool check_parts(const tp_tensor *real, const tp_tensor *imag) {
    const bool first = real->dtype == TP_FLOAT16 || real->dtype == TP_FLOAT32 || real->dtype == TP_FLOAT64;
    const bool second = imag->dtype == TP_FLOAT16 || imag->dtype == TP_FLOAT32 || imag->dtype == TP_FLOAT64;
    if (!first || !second)
        return tpi_refuse(TP_ERR_MISSING, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
                          tp_dtype_word((tp_dtype)real->dtype), tp_dtype_word((tp_dtype)imag->dtype));
    if (real->dtype == imag->dtype) return true;
    return tpi_refuse(TP_ERR_RUNTIME, "Expected object of scalar type %s but got scalar type %s for second argument",
                      tp_dtype_word((tp_dtype)real->dtype), tp_dtype_word((tp_dtype)imag->dtype));
}

tp_tensor *tpi_compose_polar(tp_tensor *abs, tp_tensor *angle) {
    if (!check_parts(abs, angle)) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *cosine = tpi_put(&temps, tpo_cos(angle));
    tp_tensor *sine = cosine ? tpi_put(&temps, tpo_sin(angle)) : NULL;
    tp_tensor *real = sine ? tpi_put(&temps, tpo_mul(TP_OPERAND(abs), TP_OPERAND(cosine))) : NULL;
    tp_tensor *imag = real ? tpi_put(&temps, tpo_mul(TP_OPERAND(abs), TP_OPERAND(sine))) : NULL;
    return tpi_release_temporaries(&temps, imag ? tpo_complex(real, imag) : NULL);
}

tp_tensor *tpi_native_complex(tp_tensor *real, tp_tensor *imag) {
    if (!check_parts(real, imag)) return NULL;
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!tpi_broadcast(tpi_shape(real), tpi_shape(imag), shape, &ndim)) return NULL;
    tp_tensor *out = tpi_empty((tp_ints){shape, ndim}, tpi_dtype_to_complex(real->dtype), tpi_device(real));
    if (!out) return NULL;
    tp_tensor *re = part_of(out, 0), *im = re ? part_of(out, 1) : NULL;
    bool ok = im && tpi_copy_data(re, real) && tpi_copy_data(im, imag);
    tpi_release(re);
    tpi_release(im);
    return ok ? out : tpi_release_then(out, NULL);
}
