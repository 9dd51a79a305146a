/* softmax and log_softmax along a dim, and their gradients from the result. A task takes whole rows or a band of
 * columns. */
#include "device/cpu/nontemporal.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "ops/norm/softmax_rows.h"

#define TASK_ELEMENTS 16384

typedef struct job {
    bool log;
    tp_dtype dtype;
    const char *a, *b; /* forward: x; backward: grad and the forward's result */
    char *out;
    int64_t outer, n, inner; /* the shape with the dim in the middle */
    int64_t rows_per_task, bands;
    bool past; /* rows go past the caches */
} job;

static void rows_task(int64_t task, void *context) {
    job *j = context;
    int64_t first = task * j->rows_per_task,
            rows = j->outer - first < j->rows_per_task ? j->outer - first : j->rows_per_task, at = first * j->n;
    if (j->dtype == TP_FLOAT32) {
        const float *a = (const float *)j->a + at, *b = (const float *)j->b;
        if (b)
            TPI_ISA_PICK(tpi_softmax_rows_back_f32)(j->log, rows, j->n, a, b + at, (float *)j->out + at);
        else
            TPI_ISA_PICK(tpi_softmax_rows_f32)(j->log, j->past, rows, j->n, a, (float *)j->out + at);
    } else {
        const double *a = (const double *)j->a + at, *b = (const double *)j->b;
        if (b)
            TPI_ISA_PICK(tpi_softmax_rows_back_f64)(j->log, rows, j->n, a, b + at, (double *)j->out + at);
        else
            TPI_ISA_PICK(tpi_softmax_rows_f64)(j->log, j->past, rows, j->n, a, (double *)j->out + at);
    }
    if (j->past) TPI_ISA_PICK(tpi_nontemporal_end)();
}

static void columns_task(int64_t task, void *context) {
    job *j = context;
    int64_t first = task % j->bands * TPI_SOFTMAX_COLUMNS, at = task / j->bands * j->n * j->inner + first;
    int64_t columns = j->inner - first < TPI_SOFTMAX_COLUMNS ? j->inner - first : TPI_SOFTMAX_COLUMNS;
    if (j->dtype == TP_FLOAT32) {
        const float *a = (const float *)j->a + at, *b = (const float *)j->b;
        if (b) TPI_ISA_PICK(tpi_softmax_columns_back_f32)
        (j->log, columns, j->n, j->inner, a, b + at, (float *)j->out + at);
        else TPI_ISA_PICK(tpi_softmax_columns_f32)(j->log, columns, j->n, j->inner, a, (float *)j->out + at);
    } else {
        const double *a = (const double *)j->a + at, *b = (const double *)j->b;
        if (b) TPI_ISA_PICK(tpi_softmax_columns_back_f64)
        (j->log, columns, j->n, j->inner, a, b + at, (double *)j->out + at);
        else TPI_ISA_PICK(tpi_softmax_columns_f64)(j->log, columns, j->n, j->inner, a, (double *)j->out + at);
    }
}

/* b NULL: forward of a; otherwise the gradient from a = grad and b = result. */
static tp_tensor *run(bool log, tp_tensor *a, tp_tensor *b, int64_t dim, tp_dtype result) {
    int d = TPI_DIM(a, dim);
    if (d < 0) return NULL;
    if (!tp_dtype_is_floating((tp_dtype)a->dtype))
        return tpi_fail(TP_ERR_MISSING, "\"%ssoftmax_%skernel_impl\" not implemented for '%s'", log ? "log_" : "",
                        d + 1 >= a->ndim ? "lastdim_" : "", tp_dtype_word((tp_dtype)a->dtype));
    job j = {.log = log, .dtype = tpi_compute_dtype(a, b ? "grad_output" : "self"), .outer = 1, .n = 1, .inner = 1};
    if (!j.dtype || (b && !tpi_check_shape(b, "output", tpi_shape(a)))) return NULL;
    for (int i = 0; i < a->ndim; i++) *(i < d ? &j.outer : i == d ? &j.n : &j.inner) *= a->shape[i];
    tp_tensor *ta = tpi_to_compute(a, j.dtype), *tb = tpi_to_compute(b, j.dtype);
    tp_tensor *out = ta && (tb || !b) ? tpi_empty(tpi_shape(a), j.dtype, tpi_device(a)) : NULL;
    if (out && out->numel > 0) {
        j.a = ta->data;
        j.b = tb ? tb->data : NULL;
        j.out = out->data;
        bool worth = out->numel > TASK_ELEMENTS;
        if (j.inner == 1) {
            j.rows_per_task = 1 + TASK_ELEMENTS / j.n;
            j.past = !b && tpi_rows_nontemporal(out->numel, j.n, j.dtype);
            tpi_parallel_for(tpi_ceil_div(j.outer, j.rows_per_task), worth, rows_task, &j);
        } else {
            j.bands = tpi_ceil_div(j.inner, TPI_SOFTMAX_COLUMNS);
            tpi_parallel_for(j.outer * j.bands, worth, columns_task, &j);
        }
    }
    tpi_release(ta);
    tpi_release(tb);
    return tpi_from_compute(out, result);
}

tp_tensor *tpi_native_softmax(tp_tensor *self, int64_t dim) {
    return run(false, self, NULL, dim, (tp_dtype)self->dtype);
}
tp_tensor *tpi_native_log_softmax(tp_tensor *self, int64_t dim) {
    return run(true, self, NULL, dim, (tp_dtype)self->dtype);
}
tp_tensor *tpi_native_softmax_backward(tp_tensor *grad, tp_tensor *output, int64_t dim, tp_dtype input_dtype) {
    return run(false, grad, output, dim, input_dtype);
}
tp_tensor *tpi_native_log_softmax_backward(tp_tensor *grad, tp_tensor *output, int64_t dim, tp_dtype input_dtype) {
    return run(true, grad, output, dim, input_dtype);
}
