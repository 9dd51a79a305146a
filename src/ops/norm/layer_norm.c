/* Layer and rms norm: each row (the normalised dims together) by its own mean and deviation. Rows are dealt out in runs
 * of fixed length; the weight's and bias's gradients are summed per run and then over the runs in order. */
#include "device/cpu/nontemporal.h"
#include "ops/norm/norm_results.h"
#include "ops/native.h"
#include "ops/norm/norm_rows.h"
#include "ops/compute_dtype.h"

#define RUNS 64 /* at most this many partial sums of the weight's gradient */

typedef struct job {
    tpi_norm s;
    tp_dtype dtype;
    int64_t rows, rows_per_run;
    const char *x, *grad;
    char *y; /* forward: the result; backward: dx */
    char *mean, *rstd;
    char *dweight, *dbias; /* RUNS rows of n each, or NULL */
} job;

static void forward_run(int64_t run, void *context) {
    job *j = context;
    int64_t first = run * j->rows_per_run, rows = j->rows - first < j->rows_per_run ? j->rows - first : j->rows_per_run,
            at = first * j->s.n;
    if (j->dtype == TP_FLOAT32) TPI_ISA_PICK(tpi_norm_rows_f32)
    (&j->s, rows, (const float *)j->x + at, (float *)j->y + at, j->mean ? (float *)j->mean + first : NULL,
     (float *)j->rstd + first);
    else TPI_ISA_PICK(tpi_norm_rows_f64)(&j->s, rows, (const double *)j->x + at, (double *)j->y + at,
                                         j->mean ? (double *)j->mean + first : NULL, (double *)j->rstd + first);
    if (j->s.past) TPI_ISA_PICK(tpi_nontemporal_end)();
}

static void backward_run(int64_t run, void *context) {
    job *j = context;
    int64_t first = run * j->rows_per_run, rows = j->rows - first < j->rows_per_run ? j->rows - first : j->rows_per_run,
            at = first * j->s.n;
    if (rows <= 0) return;
    int64_t item = tpi_dtype_bytes[j->dtype], width = j->s.n * item;
    char *dw = j->dweight ? j->dweight + run * width : NULL, *db = j->dbias ? j->dbias + run * width : NULL;
    if (dw) memset(dw, 0, (size_t)width);
    if (db) memset(db, 0, (size_t)width);
    const void *x = j->x + at * item, *g = j->grad + at * item, *mean = j->mean ? j->mean + first * item : NULL,
               *rstd = j->rstd + first * item;
    void *dx = j->y + at * item;
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_norm_rows_back_f32)(&j->s, rows, g, x, mean, rstd, dx, (float *)dw, (float *)db);
    else
        TPI_ISA_PICK(tpi_norm_rows_back_f64)(&j->s, rows, g, x, mean, rstd, dx, (double *)dw, (double *)db);
}

/* Splits the input's shape into rows of the normalised dims. */
static bool split(job *j, const tp_tensor *input, tp_ints normalized, const tp_tensor *weight, const tp_tensor *bias) {
    bool fits = normalized.n >= 1 && input->ndim >= normalized.n;
    j->rows = j->s.n = 1;
    for (int64_t i = 0; fits && i < normalized.n; i++) {
        fits = input->shape[input->ndim - normalized.n + i] == normalized.v[i];
        if (fits) j->s.n *= normalized.v[i];
    }
    if (normalized.n < 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'normalized_shape': Expected normalized_shape to be at least "
                                          "1-dimensional, i.e., containing at least one element, "
                                          "but got normalized_shape = []");
    if (!fits)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'normalized_shape': Given normalized_shape=%s, expected input with shape [*, ...] "
                          "ending in it, but got input of size%s",
                          tpi_shape_text(normalized), tpi_shape_text(tpi_shape(input)));
    for (int64_t i = 0; i < input->ndim - normalized.n; i++) j->rows *= input->shape[i];
    const tp_tensor *affine[2] = {weight, bias};
    for (int k = 0; k < 2; k++) {
        bool same = !affine[k] || affine[k]->ndim == normalized.n;
        for (int64_t i = 0; affine[k] && same && i < normalized.n; i++) same = affine[k]->shape[i] == normalized.v[i];
        if (!same)
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and normalized_shape = %s",
                k ? "bias" : "weight", k ? "bias" : "weight", tpi_shape_text(tpi_shape(affine[k])),
                tpi_shape_text(normalized));
    }
    if (!tpi_check_mixed_dtypes(input, 2, affine)) return false;
    j->dtype = tpi_compute_dtype(input, "input");
    return j->dtype;
}

/* The shape of the statistics: the input's, with the normalised dims as ones. */
static tp_ints stats_shape(const tp_tensor *input, int64_t normalized, int64_t *buffer) {
    for (int i = 0; i < input->ndim; i++) buffer[i] = i < input->ndim - normalized ? input->shape[i] : 1;
    return tp_ints_view(buffer, input->ndim);
}

static void plan_runs(job *j) {
    j->rows_per_run = tpi_ceil_div(j->rows, RUNS);
    int64_t least = 1 + 16384 / (j->s.n + 1);
    if (j->rows_per_run < least) j->rows_per_run = least;
}

/* out: the result, mean (unless mean is false) and rstd. Statistics of 16-bit inputs are float32 when the weight is. */
static bool forward(tp_tensor *input, tp_ints normalized, tp_tensor *weight, tp_tensor *bias, double eps, bool centered,
                    tp_tensor **out) {
    job j = {.s = {.centered = centered, .eps = eps}};
    if (!split(&j, input, normalized, weight, bias)) return false;
    int64_t buffer[TP_MAX_DIMS];
    tp_ints stats = stats_shape(input, normalized.n, buffer);
    tp_tensor *x = tpi_to_compute(input, j.dtype), *w = tpi_to_compute(weight, j.dtype),
              *b = tpi_to_compute(bias, j.dtype);
    tp_tensor *y = x ? tpi_empty(tpi_shape(input), j.dtype, tpi_device(input)) : NULL;
    tp_tensor *mean = y && centered ? tpi_empty(stats, j.dtype, tpi_device(input)) : NULL,
              *rstd = y ? tpi_empty(stats, j.dtype, tpi_device(input)) : NULL;
    bool ok = rstd && (mean || !centered) && (w || !weight) && (b || !bias);
    if (ok && j.rows > 0) {
        j.s.weight = w ? w->data : NULL;
        j.s.bias = b ? b->data : NULL;
        j.x = x->data;
        j.y = y->data;
        j.mean = mean ? mean->data : NULL;
        j.rstd = rstd->data;
        j.rows_per_run = 1 + 16384 / (j.s.n + 1);
        j.s.past = tpi_rows_nontemporal(y->numel, j.s.n, j.dtype);
        tpi_parallel_for(tpi_ceil_div(j.rows, j.rows_per_run), y->numel > 16384, forward_run, &j);
    }
    tpi_release(x);
    tpi_release(w);
    tpi_release(b);
    return tpi_norm_results_put(&(tpi_norm_results){y, mean, rstd, input, weight, .keeps_layout = false}, ok, out);
}

/* Adds the runs' partial sums in order into a fresh tensor like `as`. */
static tp_tensor *add_runs(const job *j, const char *parts, int64_t runs, const tp_tensor *as) {
    tp_tensor *sum = tpi_empty(tpi_shape(as), j->dtype, tpi_device(as));
    if (!sum) return NULL;
    for (int64_t i = 0; i < j->s.n; i++) {
        double s = 0;
        for (int64_t r = 0; r < runs; r++) s += tpi_compute_get(parts, j->dtype, r * j->s.n + i);
        tpi_compute_set(sum->data, j->dtype, i, s);
    }
    return tpi_from_compute(sum, (tp_dtype)as->dtype);
}

/* out: the gradients of the input, the weight and the bias; where there is no weight or bias, an empty tensor stands
 * in. */
static bool backward(tp_tensor *grad, tp_tensor *input, tp_ints normalized, tp_tensor *mean, tp_tensor *rstd,
                     tp_tensor *weight, tp_tensor *bias, tp_tensor **out) {
    job j = {.s = {.centered = mean}};
    if (!split(&j, input, normalized, weight, bias)) return false;
    plan_runs(&j);
    int64_t runs = tpi_ceil_div(j.rows, j.rows_per_run);
    size_t parts = (size_t)(runs * j.s.n) * tpi_dtype_bytes[j.dtype];
    tp_tensor *x = tpi_to_compute(input, j.dtype), *g = tpi_to_compute(grad, j.dtype),
              *w = tpi_to_compute(weight, j.dtype);
    tp_tensor *m = tpi_to_compute(mean, j.dtype), *k = tpi_to_compute(rstd, j.dtype);
    tp_tensor *dx = x && g ? tpi_empty(tpi_shape(input), j.dtype, tpi_device(input)) : NULL;
    bool ok = dx && k && (m || !mean) && (w || !weight);
    if (ok && weight) ok = (j.dweight = tpi_alloc(parts)) != NULL;
    if (ok && bias) ok = (j.dbias = tpi_alloc(parts)) != NULL;
    if (ok) {
        j.s.weight = w ? w->data : NULL;
        j.x = x->data;
        j.grad = g->data;
        j.y = dx->data;
        j.mean = m ? m->data : NULL;
        j.rstd = k->data;
        if (j.rows > 0) tpi_parallel_for(runs, dx->numel > 16384, backward_run, &j);
        out[0] = tpi_from_compute_like(dx, (tp_dtype)input->dtype, input);
        dx = NULL;
        out[1] = weight ? add_runs(&j, j.dweight, runs, weight) : tpi_empty(TP_INTS(0), j.dtype, tpi_device(input));
        if (mean) out[2] = bias ? add_runs(&j, j.dbias, runs, bias) : tpi_empty(TP_INTS(0), j.dtype, tpi_device(input));
        ok = out[0] && out[1] && (!mean || out[2]);
        if (!ok) {
            tpi_release(out[0]);
            tpi_release(out[1]);
            if (mean) tpi_release(out[2]);
        }
    }
    if (j.dweight) tpi_free(j.dweight, parts);
    if (j.dbias) tpi_free(j.dbias, parts);
    tpi_release(dx);
    tpi_release(x);
    tpi_release(g);
    tpi_release(w);
    tpi_release(m);
    tpi_release(k);
    return ok;
}

bool tpi_native_native_layer_norm(tp_tensor *input, tp_ints normalized_shape, tp_tensor *weight, tp_tensor *bias,
                                  double eps, tp_tensor **out) {
    return forward(input, normalized_shape, weight, bias, eps, true, out);
}

bool tpi_native_layer_norm_backward(tp_tensor *grad, tp_tensor *input, tp_ints normalized_shape, tp_tensor *mean,
                                    tp_tensor *rstd, tp_tensor *weight, tp_tensor *bias, tp_tensor **out) {
    return backward(grad, input, normalized_shape, mean, rstd, weight, bias, out);
}

bool tpi_native_rms_norm_forward(tp_tensor *input, tp_ints normalized_shape, tp_tensor *weight, double eps,
                                 tp_tensor **out) {
    /* Not given: the smallest step of the type it computes in. */
    if (eps != eps) eps = input->dtype == TP_FLOAT64 ? 0x1p-52 : 0x1p-23;
    return forward(input, normalized_shape, weight, NULL, eps, false, out);
}

bool tpi_native_rms_norm_backward(tp_tensor *grad, tp_tensor *input, tp_ints normalized_shape, tp_tensor *rstd,
                                  tp_tensor *weight, tp_tensor **out) {
    return backward(grad, input, normalized_shape, NULL, rstd, weight, NULL, out);
}
