/* Cross entropy. Rows of scores with class indices go straight from scores to loss and from scores to gradient, without
 * the log-probabilities in memory; everything else (more dimensions, probabilities as targets, label smoothing) is a
 * composition. */
#include "dispatch/detour.h"
#include "ops/temporaries.h"
#include "ops/loss/cross_entropy_rows.h"
#include "ops/loss/loss.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tpi_ops.h"

#define TASK_ELEMENTS 32768

/* ---- (N, C) scores and (N) class indices ---- */
typedef struct job {
    bool wide; /* double rather than float */
    int64_t rows, n, rows_per_task, ignore;
    const char *x, *scale;
    char *norms, *out;
    const int64_t *target;
} job;

static int64_t task_rows(const job *j, int64_t task, int64_t *first) {
    *first = task * j->rows_per_task;
    return j->rows - *first < j->rows_per_task ? j->rows - *first : j->rows_per_task;
}

static void norms_task(int64_t task, void *context) {
    job *j = context;
    int64_t first, rows = task_rows(j, task, &first);
    if (j->wide) TPI_ISA_PICK(tpi_score_norms_f64)
    (rows, j->n, (const double *)j->x + first * j->n, (double *)j->norms + 2 * first);
    else TPI_ISA_PICK(tpi_score_norms_f32)(rows, j->n, (const float *)j->x + first * j->n,
                                           (float *)j->norms + 2 * first);
}

static void back_task(int64_t task, void *context) {
    job *j = context;
    int64_t first, rows = task_rows(j, task, &first), at = first * j->n;
    if (j->wide) TPI_ISA_PICK(tpi_cross_entropy_back_f64)
    (rows, j->n, (const double *)j->x + at, (const double *)j->norms + 2 * first, j->target + first,
     (const double *)j->scale + first, (double *)j->out + at);
    else TPI_ISA_PICK(tpi_cross_entropy_back_f32)(rows, j->n, (const float *)j->x + at,
                                                  (const float *)j->norms + 2 * first, j->target + first,
                                                  (const float *)j->scale + first, (float *)j->out + at);
}

static double at(const job *j, const char *p, int64_t i) {
    return j->wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static void set(const job *j, char *p, int64_t i, double v) {
    if (j->wide)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

static bool plan(job *j, tp_dtype dtype, tp_tensor *self, tp_tensor *target, tp_tensor *weight, int64_t ignore) {
    if (self->ndim != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected shape (N, C), got %s",
                          tpi_shape_text(tpi_shape(self)));
    tpi_class_shape s;
    if (!tpi_class_shape_of(tpi_shape(self), target, weight, &s)) return false;
    if (weight && weight->dtype != self->dtype && (weight->dtype != TP_FLOAT32 || self->dtype == TP_FLOAT64))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'weight': expected scalar type %s but found %s",
                          tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word((tp_dtype)weight->dtype));
    *j = (job){.wide = dtype == TP_FLOAT64,
               .rows = s.outer,
               .n = s.classes,
               .ignore = ignore,
               .rows_per_task = 1 + TASK_ELEMENTS / (s.classes ? s.classes : 1)};
    return true;
}

/* The losses of the rows from the kept norms: one sequential pass over N numbers. */
static void gather_losses(const job *j, const tp_tensor *weight, tpi_reduction reduction, tp_tensor *output,
                          tp_tensor *total) {
    double loss = 0, weights = 0;
    for (int64_t r = 0; r < j->rows; r++) {
        bool skip = j->target[r] == j->ignore;
        double w = skip ? 0 : weight ? at(j, weight->data, j->target[r]) : 1;
        double l =
            skip ? 0
                 : w * (at(j, j->norms, 2 * r + 1) - (at(j, j->x, r * j->n + j->target[r]) - at(j, j->norms, 2 * r)));
        if (reduction == TPI_REDUCE_NONE) set(j, output->data, r, l);
        loss += l;
        weights += w;
    }
    if (reduction != TPI_REDUCE_NONE) set(j, output->data, 0, reduction == TPI_REDUCE_MEAN ? loss / weights : loss);
    set(j, total->data, 0, weights);
}

bool tpi_native_cross_entropy_forward(tp_tensor *self, tp_tensor *target, tp_tensor *weight, const char *reduction,
                                      int64_t ignore_index, tp_dtype asked, tp_tensor **out) {
    tp_dtype given = asked ? asked : (tp_dtype)self->dtype;
    tp_dtype dtype = tpi_compute_dtype(self, "input");
    tpi_reduction how = tpi_reduction_of(reduction);
    job j;
    if (!dtype || how == TPI_REDUCE_BAD || !plan(&j, dtype, self, target, weight, ignore_index)) return false;
    tp_tensor *x = tpi_to_compute(self, dtype), *w = tpi_to_compute(weight, dtype),
              *t = x ? tpi_class_targets(target, j.n, ignore_index) : NULL;
    bool ready = t && (w || !weight);
    tp_tensor *r[3] = {NULL};
    if (ready && (r[0] = tpi_empty((tp_ints){&j.rows, how == TPI_REDUCE_NONE}, dtype, tpi_device(self))) &&
        (r[1] = tpi_empty((tp_ints){&j.rows, 0}, dtype, tpi_device(self))) &&
        (r[2] = tpi_empty(TP_INTS(j.rows, 2), dtype, tpi_device(self)))) {
        j.x = x->data;
        j.norms = r[2]->data;
        j.target = (const int64_t *)t->data;
        tpi_parallel_for(tpi_ceil_div(j.rows, j.rows_per_task), j.rows * j.n > TASK_ELEMENTS, norms_task, &j);
        gather_losses(&j, w, how, r[0], r[1]);
        out[0] = tpi_from_compute(r[0], given);
        out[1] = tpi_from_compute(r[1], given);
        out[2] = r[2];
    } else {
        tpi_release(r[0]);
        tpi_release(r[1]);
        tpi_release(r[2]);
    }
    tpi_release(x);
    tpi_release(w);
    tpi_release(t);
    if (out[0] && out[1] && out[2]) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    tpi_release(out[2]);
    return false;
}

tp_tensor *tpi_native_cross_entropy_backward(tp_tensor *grad_output, tp_tensor *self, tp_tensor *target,
                                             tp_tensor *weight, const char *reduction, int64_t ignore_index,
                                             tp_tensor *total_weight, tp_tensor *norms) {
    tp_dtype dtype = tpi_compute_dtype(self, "self");
    tpi_reduction how = tpi_reduction_of(reduction);
    job j;
    if (!dtype || how == TPI_REDUCE_BAD || !plan(&j, dtype, self, target, weight, ignore_index)) return NULL;
    tp_tensor *x = tpi_to_compute(self, dtype), *w = tpi_to_compute(weight, dtype),
              *g = tpi_to_compute(grad_output, dtype), *kept = tpi_to_compute(norms, dtype);
    tp_tensor *t = x ? tpi_class_targets(target, j.n, ignore_index) : NULL,
              *scale = tpi_empty((tp_ints){&j.rows, 1}, dtype, tpi_device(self));
    tp_tensor *out =
        t && g && kept && scale && (w || !weight) ? tpi_empty(tpi_shape(self), dtype, tpi_device(self)) : NULL;
    if (out && out->numel) {
        j.x = x->data;
        j.norms = kept->data;
        j.target = (const int64_t *)t->data;
        j.scale = scale->data;
        j.out = out->data;
        double over = how == TPI_REDUCE_MEAN
                          ? tp_scalar_to_double(tpi_load_scalar(total_weight->data, (tp_dtype)total_weight->dtype))
                          : 1;
        for (int64_t r = 0; r < j.rows; r++) {
            double one = j.target[r] == ignore_index ? 0 : w ? at(&j, w->data, j.target[r]) : 1;
            set(&j, scale->data, r, one == 0 ? 0 : one * at(&j, g->data, how == TPI_REDUCE_NONE ? r : 0) / over);
        }
        tpi_parallel_for(tpi_ceil_div(j.rows, j.rows_per_task), j.rows * j.n > TASK_ELEMENTS, back_task, &j);
    }
    tpi_release(x);
    tpi_release(w);
    tpi_release(g);
    tpi_release(kept);
    tpi_release(t);
    tpi_release(scale);
    return tpi_from_compute(out, (tp_dtype)self->dtype);
}

/* ---- The general case ---- */
static tp_tensor *scaled(tp_tensor *a, double k) { return tpo_mul(tp_operand_tensor(a), tp_operand_double(k)); }

/* (C) as (1, C, 1, ...) so that it broadcasts over log-probabilities. */
static tp_tensor *along_classes(tp_tensor *weight, int ndim, int dim) {
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < ndim; i++) shape[i] = i == dim ? -1 : 1;
    return tpo_reshape(weight, tp_ints_view(shape, ndim));
}

/* Targets that are probabilities: smoothing moves them towards the uniform distribution. */
static tp_tensor *of_probabilities(tpi_temporaries *temps, tp_tensor *input, tp_tensor *target, tp_tensor *weight,
                                   tpi_reduction how, double smoothing) {
    int dim = input->ndim > 1;
    int64_t classes = input->shape[dim], dims[1] = {dim};
    if (smoothing > 0) {
        tp_tensor *less = tpi_put(temps, scaled(target, 1 - smoothing));
        target =
            tpi_put(temps, tpo_add(tp_operand_tensor(less), tp_operand_double(smoothing / (double)classes), tp_int(1)));
    }
    tp_tensor *p = tpi_put(temps, tpo_mul(tp_operand_tensor(tpi_put(temps, tpo_log_softmax(input, dim, TP_NO_DTYPE))),
                                          tp_operand_tensor(target)));
    if (weight)
        p = tpi_put(temps, tpo_mul(tp_operand_tensor(p),
                                   tp_operand_tensor(tpi_put(temps, along_classes(weight, input->ndim, dim)))));
    if (!p) return NULL;
    tp_tensor *s =
        tpi_put(temps, tpo_sum(p, how == TPI_REDUCE_NONE ? tp_ints_view(dims, 1) : tp_no_ints(), false, TP_NO_DTYPE));
    return s ? scaled(s, how == TPI_REDUCE_MEAN ? -(double)classes / (double)input->numel : -1) : NULL;
}

/* Class indices with smoothing: (1 - smoothing) of the plain loss and smoothing / C of the loss against every class. */
static tp_tensor *smoothed(tpi_temporaries *temps, tp_tensor *input, tp_tensor *target, tp_tensor *weight,
                           int64_t ignore_index, const char *reduction, double smoothing) {
    int dim = input->ndim > 1;
    int64_t dims[1] = {dim};
    tpi_reduction how = tpi_reduction_of(reduction);
    tp_tensor *log_p = tpi_put(temps, tpo_log_softmax(input, dim, TP_NO_DTYPE)), *plain[2] = {NULL};
    if (!log_p || !tpo_nll_loss_forward(log_p, target, weight, reduction, ignore_index, plain)) return NULL;
    tpi_put(temps, plain[0]);
    tpi_put(temps, plain[1]);
    tp_tensor *each = log_p;
    if (weight)
        each = tpi_put(temps, tpo_mul(tp_operand_tensor(log_p),
                                      tp_operand_tensor(tpi_put(temps, along_classes(weight, input->ndim, dim)))));
    tp_tensor *all = each ? tpi_put(temps, tpo_sum(each, tp_ints_view(dims, 1), false, TP_NO_DTYPE)) : NULL;
    tp_tensor *ignored = tpi_put(temps, tpo_eq(target, tp_operand_scalar(tp_int(ignore_index))));
    tp_tensor *kept = all && ignored ? tpi_put(temps, tpo_masked_fill(all, ignored, tp_int(0))) : NULL;
    if (how != TPI_REDUCE_NONE && kept) kept = tpi_put(temps, tpo_sum(kept, tp_no_ints(), false, TP_NO_DTYPE));
    if (how == TPI_REDUCE_MEAN && kept)
        kept = tpi_put(temps, tpo_div(tp_operand_tensor(kept), tp_operand_tensor(plain[1])));
    tp_tensor *part = tpi_put(temps, scaled(plain[0], 1 - smoothing));
    return kept ? tpo_sub(tp_operand_tensor(part), tp_operand_tensor(kept),
                          tp_float(smoothing / (double)input->shape[dim]))
                : NULL;
}

/* dtype: the loss's, for scores that are read as they are. */
static tp_tensor *cross_entropy(tp_tensor *input, tp_tensor *target, tp_tensor *weight, int64_t ignore_index,
                                const char *reduction, double label_smoothing, tp_dtype dtype) {
    tpi_reduction how = tpi_reduction_of(reduction);
    if (how == TPI_REDUCE_BAD) return NULL;
    if (!(label_smoothing >= 0 && label_smoothing <= 1))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'label_smoothing': label_smoothing must be between 0.0 and 1.0. Got: %g",
                        label_smoothing);
    if (input->ndim < 1) return tpi_fail(TP_ERR_RUNTIME, "argument 'input': Expected 1 or more dimensions (got 0)");
    tpi_temporaries temps = {0};
    if (tpi_same_shape(input, target)) {
        if (!tp_dtype_is_floating((tp_dtype)target->dtype))
            return tpi_fail(
                TP_ERR_RUNTIME,
                "argument 'target': Expected floating point type for target with class probabilities, got %s",
                tp_dtype_word((tp_dtype)target->dtype));
        if (ignore_index >= 0)
            return tpi_fail(TP_ERR_RUNTIME,
                            "argument 'ignore_index': ignore_index is not supported for floating point target");
        return tpi_release_temporaries(&temps, of_probabilities(&temps, input, target, weight, how, label_smoothing));
    }
    if (label_smoothing > 0)
        return tpi_release_temporaries(
            &temps, smoothed(&temps, input, target, weight, ignore_index, reduction, label_smoothing));
    if (input->ndim == 2) {
        tp_tensor *out[3] = {NULL};
        if (!tpo_cross_entropy_forward(input, target, weight, reduction, ignore_index, dtype, out)) return NULL;
        tpi_release(out[1]);
        tpi_release(out[2]);
        return out[0];
    }
    tp_tensor *log_p = tpi_put(&temps, tpo_log_softmax(input, input->ndim > 1, TP_NO_DTYPE));
    return tpi_release_temporaries(&temps, log_p ? tpo_nll_loss(log_p, target, weight, ignore_index, reduction) : NULL);
}

static tp_tensor *as_wanted(tpi_temporaries *temps, tp_tensor *t) {
    return t && tpi_autocast_wants_float(t) ? tpi_put(temps, tpo_to_dtype(t, TP_FLOAT32)) : t;
}

/* Under mixed precision the loss is that of scores in float32. Rows of 16-bit scores need no copy for that: they are
 * many with large vocabularies, and the kernel computes in float32. */
tp_tensor *tpi_compose_cross_entropy(tp_tensor *input, tp_tensor *target, tp_tensor *weight, int64_t ignore_index,
                                     const char *reduction, double label_smoothing) {
    bool narrow = (input->dtype == TP_FLOAT16 || input->dtype == TP_BFLOAT16) && tpi_autocast_wants_float(input) &&
                  input->ndim == 2 && !tpi_same_shape(input, target) && label_smoothing == 0;
    tpi_temporaries temps = {0};
    tp_tensor *x = narrow ? input : as_wanted(&temps, input), *t = as_wanted(&temps, target),
              *w = as_wanted(&temps, weight);
    bool ok = x && t && (w || !weight);
    return tpi_release_temporaries(
        &temps, ok ? cross_entropy(x, t, w, ignore_index, reduction, label_smoothing, narrow ? TP_FLOAT32 : TP_NO_DTYPE)
                   : NULL);
}

tp_tensor *tpi_compose_linear_cross_entropy(tp_tensor *input, tp_tensor *linear_weight, tp_tensor *target,
                                            tp_tensor *linear_bias, tp_tensor *weight, const char *reduction,
                                            int64_t ignore_index, double label_smoothing) {
    if (input->ndim < 1 || input->ndim > 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected input with dimensionality 1 or 2, got %d",
                        input->ndim);
    int last = linear_weight->ndim - 1;
    if (last < 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'linear_weight': expected dimensionality at least 2, got %d",
                        linear_weight->ndim);
    int64_t features = input->shape[input->ndim - 1], outputs = 1, shape[TP_MAX_DIMS], batch = input->ndim - 1;
    if (linear_weight->shape[last] != features)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'linear_weight': expected last dimension %lld as of the input, got %lld",
                        (long long)features, (long long)linear_weight->shape[last]);
    if (last > 1 && !batch)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': a loss of several dimensions requires batched input, got %s",
                        tpi_shape_text(tpi_shape(input)));
    for (int i = 0; i < last; i++) outputs *= shape[batch + i] = linear_weight->shape[i];
    if (linear_bias &&
        (linear_bias->ndim != last || memcmp(linear_bias->shape, linear_weight->shape, sizeof *shape * (size_t)last)))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'linear_bias': expected shape %s, got %s",
                        tpi_shape_text(tp_ints_view(linear_weight->shape, last)),
                        tpi_shape_text(tpi_shape(linear_bias)));
    if (batch) shape[0] = input->shape[0];
    tpi_temporaries temps = {0};
    tp_tensor *w = tpi_put(&temps, tpo_reshape(linear_weight, TP_INTS(outputs, features)));
    tp_tensor *b = linear_bias ? tpi_put(&temps, tpo_reshape(linear_bias, TP_INTS(outputs))) : NULL;
    tp_tensor *flat = w && (b || !linear_bias) ? tpi_put(&temps, tpo_linear(input, w, b)) : NULL;
    tp_tensor *scores = flat ? tpi_put(&temps, tpo_reshape(flat, tp_ints_view(shape, batch + last))) : NULL;
    if (!scores) return tpi_release_temporaries(&temps, NULL);
    if (ignore_index != TP_NONE && tpi_same_shape(scores, target))
        return tpi_release_temporaries(
            &temps,
            tpi_fail(TP_ERR_RUNTIME,
                     "argument 'ignore_index': ignore_index cannot be specified when target contains probabilities"));
    return tpi_release_temporaries(&temps, tpi_compose_cross_entropy(scores, target, weight,
                                                                     ignore_index == TP_NONE ? -100 : ignore_index,
                                                                     reduction, label_smoothing));
}
