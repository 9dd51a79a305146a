/* Batch norm: each channel by its mean and deviation over the batch (training) or by the running ones (evaluation).
 * A contiguous (N, C, ...) input is worked on channel by channel, plane after plane; a two-dimensional or channels_last
 * one as rows of channels, whose sums are taken per run of rows and then over the runs in order. */
#include <math.h>
#include "ops/native.h"
#include "ops/norm/norm_rows.h"
#include "ops/compute_dtype.h"
#include "tensor/channels_last.h"

#define RUN_ROWS 2048

typedef struct job {
    tp_dtype dtype;
    bool columns;                          /* rows of channels, rather than planes */
    int64_t images, channels, plane, rows; /* rows = images * plane */
    const char *x, *g;
    char *y;
    char *mean, *rstd, *a, *b, *c; /* per channel, in the dtype: statistics and the coefficients of the last pass */
    double *sums;                  /* per channel, or per run and channel */
    tpi_column_sum what;
} job;

/* ---- Sums per channel: of x, of (x - mean)^2, of g (x - mean), into j->sums[channel] ---- */

static void plane_sums(int64_t channel, void *context) {
    job *j = context;
    double total = 0, mean = j->mean ? tpi_compute_get(j->mean, j->dtype, channel) : 0;
    for (int64_t i = 0; i < j->images; i++) {
        int64_t at = (i * j->channels + channel) * j->plane;
        if (j->dtype == TP_FLOAT32) {
            const float *x = (const float *)j->x + at, *g = (const float *)j->g;
            total += j->what == TPI_COLUMN_SUM       ? TPI_ISA_PICK(tpi_sum_f32)(j->plane, x)
                     : j->what == TPI_COLUMN_SQUARES ? TPI_ISA_PICK(tpi_squares_f32)(j->plane, x, (float)mean)
                                                     : TPI_ISA_PICK(tpi_dot_f32)(j->plane, x, (float)mean, g + at);
        } else {
            const double *x = (const double *)j->x + at, *g = (const double *)j->g;
            total += j->what == TPI_COLUMN_SUM       ? TPI_ISA_PICK(tpi_sum_f64)(j->plane, x)
                     : j->what == TPI_COLUMN_SQUARES ? TPI_ISA_PICK(tpi_squares_f64)(j->plane, x, mean)
                                                     : TPI_ISA_PICK(tpi_dot_f64)(j->plane, x, mean, g + at);
        }
    }
    j->sums[channel] = total;
}

static void run_sums(int64_t run, void *context) {
    job *j = context;
    int64_t first = run * RUN_ROWS, rows = j->rows - first < RUN_ROWS ? j->rows - first : RUN_ROWS,
            at = first * j->channels;
    double *out = j->sums + run * j->channels;
    memset(out, 0, (size_t)j->channels * sizeof *out);
    if (j->dtype == TP_FLOAT32) TPI_ISA_PICK(tpi_column_sums_f32)
    (j->what, rows, j->channels, (const float *)j->x + at, (const float *)j->mean,
     j->g ? (const float *)j->g + at : NULL, out);
    else TPI_ISA_PICK(tpi_column_sums_f64)(j->what, rows, j->channels, (const double *)j->x + at,
                                           (const double *)j->mean, j->g ? (const double *)j->g + at : NULL, out);
}

static void compute_sums(job *j, tpi_column_sum what) {
    bool worth = j->rows * j->channels > 16384;
    j->what = what;
    if (!j->columns) {
        tpi_parallel_for(j->channels, worth, plane_sums, j);
        return;
    }
    int64_t runs = tpi_ceil_div(j->rows, RUN_ROWS);
    tpi_parallel_for(runs, worth, run_sums, j);
    for (int64_t r = 1; r < runs; r++)
        for (int64_t c = 0; c < j->channels; c++) j->sums[c] += j->sums[r * j->channels + c];
}

/* ---- The last pass: y = (x - mean) a + c, or y = a g + b (x - mean) + c, with coefficients per channel ---- */

static void plane_write(int64_t channel, void *context) {
    job *j = context;
    double mean = tpi_compute_get(j->mean, j->dtype, channel), a = tpi_compute_get(j->a, j->dtype, channel);
    double b = tpi_compute_get(j->b, j->dtype, channel), c = tpi_compute_get(j->c, j->dtype, channel);
    for (int64_t i = 0; i < j->images; i++) {
        int64_t at = (i * j->channels + channel) * j->plane;
        if (j->dtype == TP_FLOAT32) {
            const float *x = (const float *)j->x + at;
            float *y = (float *)j->y + at;
            if (j->g) TPI_ISA_PICK(tpi_blend_f32)
            (j->plane, (const float *)j->g + at, (float)a, x, (float)mean, (float)b, (float)c, y);
            else TPI_ISA_PICK(tpi_scale_f32)(j->plane, x, (float)mean, (float)a, (float)c, y);
        } else {
            const double *x = (const double *)j->x + at;
            double *y = (double *)j->y + at;
            if (j->g)
                TPI_ISA_PICK(tpi_blend_f64)(j->plane, (const double *)j->g + at, a, x, mean, b, c, y);
            else
                TPI_ISA_PICK(tpi_scale_f64)(j->plane, x, mean, a, c, y);
        }
    }
}

static void run_write(int64_t run, void *context) {
    job *j = context;
    int64_t first = run * RUN_ROWS, rows = j->rows - first < RUN_ROWS ? j->rows - first : RUN_ROWS,
            at = first * j->channels, item = tpi_dtype_bytes[j->dtype];
    const void *x = j->x + at * item, *g = j->g ? j->g + at * item : NULL, *mean = j->mean, *a = j->a, *b = j->b,
               *c = j->c;
    void *y = j->y + at * item;
    if (j->dtype == TP_FLOAT32) {
        if (g)
            TPI_ISA_PICK(tpi_blend_columns_f32)(rows, j->channels, g, a, x, mean, b, c, y);
        else
            TPI_ISA_PICK(tpi_scale_columns_f32)(rows, j->channels, x, mean, a, c, y);
    } else {
        if (g)
            TPI_ISA_PICK(tpi_blend_columns_f64)(rows, j->channels, g, a, x, mean, b, c, y);
        else
            TPI_ISA_PICK(tpi_scale_columns_f64)(rows, j->channels, x, mean, a, c, y);
    }
}

static void write_all(job *j) {
    bool worth = j->rows * j->channels > 16384;
    if (j->columns)
        tpi_parallel_for(tpi_ceil_div(j->rows, RUN_ROWS), worth, run_write, j);
    else
        tpi_parallel_for(j->channels, worth, plane_write, j);
}

/* ---- Getting in and out ---- */

/* Data of t in the dtype, in the layout the job wants: that of the input when it is channels_last, else contiguous.
 * Owned. */
static tp_tensor *data_like(tp_tensor *t, const job *j, const tp_tensor *input) {
    if (!j->columns || input->ndim == 2) return tpi_to_compute(t, j->dtype);
    if (t->dtype == j->dtype && tpi_is_channels_last(t)) return tpi_retain(t);
    tp_tensor *copy = tpi_empty_layout(tpi_shape(t), j->dtype, tpi_device(t), tpi_layout_of(true, t->ndim));
    if (copy && tpi_copy_data(copy, t)) return copy;
    tpi_release(copy);
    return NULL;
}

static bool split(job *j, const tp_tensor *input) {
    if (input->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': expected at least 2 dims, got %s",
                          tpi_shape_text(tpi_shape(input)));
    j->images = input->shape[0];
    j->channels = input->shape[1];
    j->plane = 1;
    for (int i = 2; i < input->ndim; i++) j->plane *= input->shape[i];
    j->rows = j->images * j->plane;
    j->columns = input->ndim == 2 || (!tp_is_contiguous(input) && tpi_is_channels_last(input));
    j->dtype = tpi_compute_dtype(input, "input");
    return j->dtype;
}

static bool check_vector(const tp_tensor *t, const char *name, int64_t channels) {
    if (!t || (t->ndim == 1 && t->numel == channels)) return true;
    return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': %s should contain %lld elements not %lld", name, name,
                      (long long)channels, (long long)t->numel);
}

static double element(const tp_tensor *t, int64_t i, double none) {
    return t ? tp_scalar_to_double(
                   tpi_load_scalar(t->data + i * t->strides[0] * (int64_t)tpi_itemsize(t), (tp_dtype)t->dtype))
             : none;
}

static void move_running(tp_tensor *t, int64_t i, double momentum, double value) {
    double moved = (1 - momentum) * element(t, i, 0) + momentum * value;
    tpi_store_scalar(t->data + i * t->strides[0] * (int64_t)tpi_itemsize(t), (tp_dtype)t->dtype, tp_float(moved));
}

/* Mean, rstd and the last pass's coefficients of every channel; training takes them from the batch and moves the
 * running ones. */
static void settle(job *j, tp_tensor *weight, tp_tensor *bias, tp_tensor *running_mean, tp_tensor *running_var,
                   bool training, double momentum, double eps) {
    double n = (double)j->rows;
    if (training) {
        compute_sums(j, TPI_COLUMN_SUM);
        for (int64_t c = 0; c < j->channels; c++) tpi_compute_set(j->mean, j->dtype, c, j->sums[c] / n);
        compute_sums(j, TPI_COLUMN_SQUARES);
    }
    for (int64_t c = 0; c < j->channels; c++) {
        double mean = training ? tpi_compute_get(j->mean, j->dtype, c) : element(running_mean, c, 0);
        double var = training ? j->sums[c] / n : element(running_var, c, 1), rstd = 1.0 / sqrt(var + eps);
        if (training && running_mean) move_running(running_mean, c, momentum, mean);
        if (training && running_var) move_running(running_var, c, momentum, j->sums[c] / (n - 1));
        tpi_compute_set(j->mean, j->dtype, c, mean);
        tpi_compute_set(j->rstd, j->dtype, c, rstd);
        tpi_compute_set(j->a, j->dtype, c, rstd * element(weight, c, 1));
        tpi_compute_set(j->c, j->dtype, c, element(bias, c, 0));
        tpi_compute_set(j->b, j->dtype, c, 0);
    }
    if (training && running_mean) tpi_touch(running_mean);
    if (training && running_var) tpi_touch(running_var);
}

static size_t sums_bytes(const job *j) {
    return (size_t)(j->channels * (j->columns ? tpi_ceil_div(j->rows, RUN_ROWS) + 1 : 1)) * sizeof(double);
}

bool tpi_native_batch_norm_forward(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_tensor *running_mean,
                                   tp_tensor *running_var, bool training, double momentum, double eps,
                                   tp_tensor **out) {
    job j = {0};
    if (!split(&j, input) || !check_vector(running_mean, "running_mean", j.channels) ||
        !check_vector(running_var, "running_var", j.channels) || !check_vector(weight, "weight", j.channels) ||
        !check_vector(bias, "bias", j.channels))
        return false;
    if (!training && (!running_mean || !running_var))
        return tpi_refuse(TP_ERR_RUNTIME, "running_%s must be defined in evaluation mode",
                          running_mean ? "var" : "mean");
    tp_device device = tpi_device(input);
    tp_tensor *x = data_like(input, &j, input), *y = x ? tpi_empty_like(x, j.dtype) : NULL;
    tp_tensor *mean = y ? tpi_empty(TP_INTS(j.channels), j.dtype, device) : NULL,
              *rstd = mean ? tpi_empty(TP_INTS(j.channels), j.dtype, device) : NULL;
    tp_tensor *work = rstd ? tpi_empty(TP_INTS(3, j.channels), j.dtype, device) : NULL;
    size_t bytes = sums_bytes(&j);
    j.sums = work ? tpi_alloc(bytes) : NULL;
    bool ok = j.sums;
    if (ok) {
        int64_t row = j.channels * tpi_dtype_bytes[j.dtype];
        j.x = x->data;
        j.y = y->data;
        j.mean = mean->data;
        j.rstd = rstd->data;
        j.a = work->data;
        j.b = work->data + row;
        j.c = work->data + 2 * row;
        settle(&j, weight, bias, running_mean, running_var, training, momentum, eps);
        if (x->numel > 0) write_all(&j);
        tpi_free(j.sums, bytes);
    }
    tpi_release(x);
    tpi_release(work);
    if (ok) {
        ok = (out[0] = tpi_from_compute(y, (tp_dtype)input->dtype)) != NULL;
        y = NULL;
    }
    if (ok) {
        out[1] = mean;
        out[2] = rstd;
        return true;
    }
    tpi_release(y);
    tpi_release(mean);
    tpi_release(rstd);
    return false;
}

/* Training: with h = (x - mean) rstd over the n values of a channel, dx = w rstd (g - sum(g) / n - h sum(g h) / n).
 * Evaluation: dx = w rstd g. The weight's gradient is sum(g h), the bias's sum(g). The job has its mean, rstd, y (the
 * place of dx), sums and scratch a, b and c. */
static void write_gradients(job *j, const tp_tensor *x, const tp_tensor *g, const tp_tensor *weight, bool training,
                            tp_tensor *dw, tp_tensor *db) {
    double n = (double)j->rows;
    j->x = g->data;
    compute_sums(j, TPI_COLUMN_SUM);
    for (int64_t c = 0; c < j->channels; c++) tpi_compute_set(db->data, j->dtype, c, j->sums[c]);
    j->x = x->data;
    j->g = g->data;
    compute_sums(j, TPI_COLUMN_DOT);
    for (int64_t c = 0; c < j->channels; c++) {
        double r = tpi_compute_get(j->rstd, j->dtype, c), scale = r * element(weight, c, 1), along = j->sums[c] * r;
        tpi_compute_set(dw->data, j->dtype, c, along);
        tpi_compute_set(j->a, j->dtype, c, scale);
        tpi_compute_set(j->b, j->dtype, c, training ? -scale * r * along / n : 0);
        tpi_compute_set(j->c, j->dtype, c, training ? -scale * tpi_compute_get(db->data, j->dtype, c) / n : 0);
    }
    if (x->numel > 0) write_all(j);
}

bool tpi_native_batch_norm_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *weight, tp_tensor *bias,
                                    tp_tensor *mean, tp_tensor *rstd, bool training, tp_tensor **out) {
    job j = {0};
    if (!split(&j, input) || !check_vector(weight, "weight", j.channels) || !check_vector(bias, "bias", j.channels) ||
        !check_vector(mean, "mean", j.channels) || !check_vector(rstd, "rstd", j.channels) ||
        !tpi_check_shape(grad, "grad_out", tpi_shape(input)))
        return false;
    tp_device device = tpi_device(input);
    tp_tensor *x = data_like(input, &j, input), *g = x ? data_like(grad, &j, input) : NULL,
              *dx = g ? tpi_empty_like(x, j.dtype) : NULL;
    tp_tensor *m = tpi_to_compute(mean, j.dtype), *k = tpi_to_compute(rstd, j.dtype);
    tp_tensor *dw = dx && m && k ? tpi_empty(TP_INTS(j.channels), j.dtype, device) : NULL,
              *db = dw ? tpi_empty(TP_INTS(j.channels), j.dtype, device) : NULL;
    tp_tensor *work = db ? tpi_empty(TP_INTS(3, j.channels), j.dtype, device) : NULL;
    size_t bytes = sums_bytes(&j);
    j.sums = work ? tpi_alloc(bytes) : NULL;
    bool ok = j.sums;
    if (ok) {
        int64_t row = j.channels * tpi_dtype_bytes[j.dtype];
        j.mean = m->data;
        j.rstd = k->data;
        j.y = dx->data;
        j.a = work->data;
        j.b = work->data + row;
        j.c = work->data + 2 * row;
        write_gradients(&j, x, g, weight, training, dw, db);
        tpi_free(j.sums, bytes);
        out[0] = tpi_from_compute(dx, (tp_dtype)input->dtype);
        dx = NULL;
        out[1] = tpi_from_compute(dw, weight ? (tp_dtype)weight->dtype : j.dtype);
        dw = NULL;
        out[2] = tpi_from_compute(db, bias ? (tp_dtype)bias->dtype : j.dtype);
        db = NULL;
        ok = out[0] && out[1] && out[2];
        if (!ok) {
            tpi_release(out[0]);
            tpi_release(out[1]);
            tpi_release(out[2]);
        }
    }
    tpi_release(x);
    tpi_release(g);
    tpi_release(dx);
    tpi_release(m);
    tpi_release(k);
    tpi_release(dw);
    tpi_release(db);
    tpi_release(work);
    return ok;
}
