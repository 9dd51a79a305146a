/* First-order linear recurrences along a dim, y[k] = input[k] + decay[k] * y[k-1]: what the derivatives of running
 * products and of running logarithms of sums come down to. One pass, no divisions, so zeros among the factors are no
 * trouble. */
#include "ops/native.h"
#include <complex.h>

/* One step for `inner` neighbours; `before` is NULL at the first. */
typedef void (*step_fn)(int64_t inner, const char *decay, const char *input, const char *before, char *out);

#define STEP(T, name)                                                                                      \
    static void name(int64_t inner, const char *decay, const char *input, const char *before, char *out) { \
        const T *d = (const T *)decay, *x = (const T *)input, *b = (const T *)before;                      \
        T *y = (T *)out;                                                                                   \
        for (int64_t j = 0; j < inner; j++) y[j] = b ? x[j] + d[j] * b[j] : x[j];                          \
    }
STEP(float, step_f32)
STEP(double, step_f64)
STEP(float complex, step_c64)
STEP(double complex, step_c128)

typedef struct recurrence {
    step_fn step;
    const char *decay, *input;
    char *out;
    int64_t n, inner, row; /* steps, neighbours that go together, bytes of those */
    bool reverse;
} recurrence;

static void run_outer(int64_t outer, void *context) {
    const recurrence *r = context;
    const char *before = NULL;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = (outer * r->n + (r->reverse ? r->n - 1 - i : i)) * r->row;
        r->step(r->inner, r->decay + at, r->input + at, before, r->out + at);
        before = r->out + at;
    }
}

static tp_tensor *run(tp_tensor *decay, tp_tensor *input, int dim, bool reverse, tp_dtype compute) {
    tp_tensor *d = tpi_as_dtype_data(decay, compute), *x = d ? tpi_as_dtype_data(input, compute) : NULL;
    tp_tensor *dc = x ? tpi_contiguous_data(d) : NULL, *xc = dc ? tpi_contiguous_data(x) : NULL;
    tp_tensor *out = xc ? tpi_empty(tpi_shape(input), compute, tpi_device(input)) : NULL;
    if (out && out->numel) {
        recurrence r = {.decay = dc->data, .input = xc->data, .out = out->data, .n = 1, .inner = 1, .reverse = reverse};
        r.step = compute == TP_FLOAT32     ? step_f32
                 : compute == TP_FLOAT64   ? step_f64
                 : compute == TP_COMPLEX64 ? step_c64
                                           : step_c128;
        if (input->ndim) r.n = input->shape[dim];
        for (int i = dim + 1; i < input->ndim; i++) r.inner *= input->shape[i];
        r.row = r.inner * (int64_t)tpi_itemsize(out);
        tpi_parallel_for(out->numel / (r.n * r.inner), out->numel * (int64_t)tpi_itemsize(out) >= TPI_WORTH_BYTES,
                         run_outer, &r);
    }
    tpi_release(xc);
    tpi_release(dc);
    tpi_release(x);
    tpi_release(d);
    return out;
}

tp_tensor *tpi_native_linear_recurrence(tp_tensor *decay, tp_tensor *input, int64_t dim, bool reverse) {
    int d = TPI_DIM(input, dim);
    if (d < 0 || !tpi_check_same_dtype(decay, "decay", input, "input")) return NULL;
    if (decay->ndim != input->ndim || memcmp(decay->shape, input->shape, sizeof *input->shape * (size_t)input->ndim))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'decay': expected the shape of 'input', %s, got %s",
                        tpi_shape_text(tpi_shape(input)), tpi_shape_text(tpi_shape(decay)));
    tp_dtype dtype = (tp_dtype)input->dtype, compute = dtype == TP_FLOAT16 || dtype == TP_BFLOAT16 ? TP_FLOAT32 : dtype;
    if (!(tpi_dtype_category[dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX)))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected a floating point or complex tensor, got %s",
                        tp_dtype_name(dtype));
    tp_tensor *wide = run(decay, input, d, reverse, compute);
    return wide ? tpi_after(wide, tpi_as_dtype_data(wide, dtype)) : NULL;
}
