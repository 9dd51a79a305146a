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

/* Whole lines of n steps that are contiguous, ROWS of them side by side, so that no step waits for the one before it,
 * in tiles of STEPS: lines are often a power of two apart and would push each other out of the cache. `reverse`: from
 * the last element on. */
enum { ROWS = 8, STEPS = 16 };
typedef void (*lines_fn)(int64_t n, bool reverse, const char *decay, const char *input, char *out);

#define LINES(T, name)                                                                                        \
    static void name(int64_t n, bool reverse, const char *decay, const char *input, char *out) {              \
        T d[ROWS][STEPS], x[ROWS][STEPS], before[ROWS] = {0};                                                 \
        for (int64_t at = 0; at < n; at += STEPS) {                                                           \
            const int64_t steps = n - at < STEPS ? n - at : STEPS, first = reverse ? n - at - steps : at;     \
            for (int r = 0; r < ROWS; r++) {                                                                  \
                memcpy(d[r], (const T *)decay + r * n + first, (size_t)steps * sizeof(T));                    \
                memcpy(x[r], (const T *)input + r * n + first, (size_t)steps * sizeof(T));                    \
            }                                                                                                 \
            for (int64_t k = 0; k < steps; k++) {                                                             \
                const int64_t i = reverse ? steps - 1 - k : k;                                                \
                for (int r = 0; r < ROWS; r++)                                                                \
                    x[r][i] = before[r] = at + k == 0 ? x[r][i] : x[r][i] + d[r][i] * before[r];              \
            }                                                                                                 \
            for (int r = 0; r < ROWS; r++) memcpy((T *)out + r * n + first, x[r], (size_t)steps * sizeof(T)); \
        }                                                                                                     \
    }
LINES(float, lines_f32)
LINES(double, lines_f64)
LINES(float complex, lines_c64)
LINES(double complex, lines_c128)

typedef struct recurrence {
    step_fn step;
    lines_fn lines;
    const char *decay, *input;
    char *out;
    int64_t n, inner, row; /* steps, neighbours that go together, bytes of those */
    int64_t first;         /* of those that are taken one after the other */
    bool reverse;
} recurrence;

static void run_lines(int64_t group, void *context) {
    const recurrence *r = context;
    const int64_t line = r->n * r->row; /* bytes */
    const int64_t at = group * (ROWS * line);
    r->lines(r->n, r->reverse, r->decay + at, r->input + at, r->out + at);
}

static void run_outer(int64_t outer, void *context) {
    const recurrence *r = context;
    outer += r->first;
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
        switch (compute) {
        case TP_FLOAT32:
            r.step = step_f32;
            r.lines = lines_f32;
            break;
        case TP_FLOAT64:
            r.step = step_f64;
            r.lines = lines_f64;
            break;
        case TP_COMPLEX64:
            r.step = step_c64;
            r.lines = lines_c64;
            break;
        default: r.step = step_c128; r.lines = lines_c128;
        }
        if (input->ndim) r.n = input->shape[dim];
        for (int i = dim + 1; i < input->ndim; i++) r.inner *= input->shape[i];
        r.row = r.inner * (int64_t)tpi_itemsize(out);
        const bool worth = out->numel * (int64_t)tpi_itemsize(out) >= TPI_WORTH_BYTES;
        const int64_t outer = out->numel / (r.n * r.inner), groups = r.inner == 1 ? outer / ROWS : 0;
        tpi_parallel_for(groups, worth, run_lines, &r);
        r.first = groups * ROWS;
        tpi_parallel_for(outer - r.first, worth, run_outer, &r);
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
    return wide ? tpi_release_then(wide, tpi_as_dtype_data(wide, dtype)) : NULL;
}
