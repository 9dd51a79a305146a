/* The negative log likelihood of class indices: values, total weight and gradient. Positions go in chunks of fixed size
 * whose partial sums, kept in double, add up in order. */
#include "ops/loss/loss.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"

#define CHUNK 8192 /* positions to a task */

tpi_reduction tpi_reduction_of(const char *name) {
    if (name && !strcmp(name, "mean")) return TPI_REDUCE_MEAN;
    if (name && !strcmp(name, "sum")) return TPI_REDUCE_SUM;
    if (name && !strcmp(name, "none")) return TPI_REDUCE_NONE;
    tpi_fail(TP_ERR_VALUE, "argument 'reduction': %s is not a valid value for reduction, expected none, mean or sum",
             name ? name : "None");
    return TPI_REDUCE_BAD;
}

bool tpi_class_shape_of(tp_ints input, const tp_tensor *target, const tp_tensor *weight, tpi_class_shape *out) {
    if (input.n < 1) return tpi_refuse(TP_ERR_VALUE, "argument 'input': Expected 1 or more dimensions (got 0)");
    if (target->dtype != TP_INT64 && target->dtype != TP_UINT8)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'target': expected target dtype to be Long or Byte, but got %s",
                          tp_dtype_word((tp_dtype)target->dtype));
    int dim = input.n > 1;
    *out = (tpi_class_shape){.outer = dim ? input.v[0] : 1, .classes = input.v[dim], .inner = 1};
    if (dim) out->shape[out->ndim++] = input.v[0];
    for (int64_t i = 2; i < input.n; i++) {
        out->inner *= input.v[i];
        out->shape[out->ndim++] = input.v[i];
    }
    bool same = target->ndim == out->ndim && !memcmp(target->shape, out->shape, sizeof *out->shape * (size_t)out->ndim);
    if (input.n == 1 && target->numel == 1 && target->ndim == 1)
        same = true; /* one index in a list serves as one index */
    if (!same && input.n > 1 && target->ndim && target->shape[0] != input.v[0])
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'target': Expected input batch_size (%lld) to match target batch_size (%lld).",
                          (long long)input.v[0], (long long)target->shape[0]);
    if (!same && input.n == 1 && target->ndim == 1)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'target': For 1D input, 1D target must have size 1, but got target size: %lld",
                          (long long)target->numel);
    if (!same && input.n <= 2)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'target': 0D or 1D target tensor expected, multi-target not supported; expected shape %s, got %s",
            tpi_shape_text((tp_ints){out->shape, out->ndim}), tpi_shape_text(tpi_shape(target)));
    if (!same && input.n == 4 && target->ndim == 3)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'target': size mismatch (got input: %s , target: %s",
                          tpi_shape_text(input), tpi_shape_text(tpi_shape(target)));
    if (!same && input.n != 4)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'target': Expected target size %s, got %s",
                          tpi_shape_text((tp_ints){out->shape, out->ndim}), tpi_shape_text(tpi_shape(target)));
    if (!same)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'target': only batches of spatial targets supported (3D tensors), expected shape "
                          "%s for an input of shape %s, got %s",
                          tpi_shape_text((tp_ints){out->shape, out->ndim}), tpi_shape_text(input),
                          tpi_shape_text(tpi_shape(target)));
    if (weight && (weight->ndim != 1 || weight->numel != out->classes))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'weight': weight tensor should be defined either for all %lld classes or no "
                          "classes but got weight tensor of shape: %s",
                          (long long)out->classes, tpi_shape_text(tpi_shape(weight)));
    return true;
}

tp_tensor *tpi_class_targets(tp_tensor *target, int64_t classes, int64_t ignore_index) {
    tp_tensor *wide = tpi_as_dtype_data(target, TP_INT64), *t = wide ? tpi_contiguous_data(wide) : NULL;
    tpi_release(wide);
    const int64_t *v = t ? (const int64_t *)t->data : NULL;
    for (int64_t i = 0; v && i < t->numel; i++)
        if (v[i] != ignore_index && (v[i] < 0 || v[i] >= classes)) {
            tpi_fail(TP_ERR_INDEX, "argument 'target': Target %lld is out of bounds. There are %lld classes",
                     (long long)v[i], (long long)classes);
            tpi_release(t);
            return NULL;
        }
    return t;
}

typedef struct job {
    tpi_class_shape s;
    tpi_reduction reduction;
    int64_t ignore, positions;
    bool wide;              /* double rather than float */
    const void *x, *weight; /* backward: x is the incoming gradient */
    const int64_t *target;
    void *out;
    double (*partial)[2]; /* per chunk: the loss and the weights */
    double scale;         /* backward of a reduced loss */
} job;

static double value_at(const job *j, const void *p, int64_t i) {
    return j->wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static void set_at(const job *j, int64_t i, double v) {
    if (j->wide)
        ((double *)j->out)[i] = v;
    else
        ((float *)j->out)[i] = (float)v;
}
static int64_t index_of(const job *j, int64_t p) {
    return (p / j->s.inner * j->s.classes + j->target[p]) * j->s.inner + p % j->s.inner;
}

static void forward_task(int64_t chunk, void *context) {
    job *j = context;
    int64_t first = chunk * CHUNK, end = first + CHUNK < j->positions ? first + CHUNK : j->positions;
    double loss = 0, weights = 0;
    for (int64_t p = first; p < end; p++) {
        bool skip = j->target[p] == j->ignore;
        double w = skip        ? 0
                   : j->weight ? value_at(j, j->weight, j->target[p])
                               : 1,
               l = skip ? 0 : -w * value_at(j, j->x, index_of(j, p));
        if (j->reduction == TPI_REDUCE_NONE) set_at(j, p, l);
        loss += l;
        weights += w;
    }
    j->partial[chunk][0] = loss;
    j->partial[chunk][1] = weights;
}

static void backward_task(int64_t chunk, void *context) {
    job *j = context;
    int64_t first = chunk * CHUNK, end = first + CHUNK < j->positions ? first + CHUNK : j->positions;
    for (int64_t p = first; p < end; p++) {
        if (j->target[p] == j->ignore) continue;
        double w = j->weight ? value_at(j, j->weight, j->target[p]) : 1;
        set_at(j, index_of(j, p), -w * (j->reduction == TPI_REDUCE_NONE ? value_at(j, j->x, p) : j->scale));
    }
}

static bool run_forward(job *j, tp_tensor *output, tp_tensor *total, tp_dtype dtype) {
    int64_t chunks = tpi_ceil_div(j->positions, CHUNK);
    j->partial = tpi_malloc(sizeof *j->partial * (size_t)(chunks + 1));
    if (!j->partial) return false;
    tpi_parallel_for(chunks, j->positions > CHUNK, forward_task, j);
    double loss = 0, weights = 0;
    for (int64_t c = 0; c < chunks; c++) {
        loss += j->partial[c][0];
        weights += j->partial[c][1];
    }
    tpi_mfree(j->partial);
    if (j->reduction != TPI_REDUCE_NONE)
        tpi_store_scalar(output->data, dtype, tp_float(j->reduction == TPI_REDUCE_MEAN ? loss / weights : loss));
    tpi_store_scalar(total->data, dtype, tp_float(weights));
    return true;
}

bool tpi_native_nll_loss_forward(tp_tensor *self, tp_tensor *target, tp_tensor *weight, const char *reduction,
                                 int64_t ignore_index, tp_tensor **out) {
    tp_dtype dtype = tpi_compute_dtype(self, "input");
    job j = {.reduction = tpi_reduction_of(reduction), .ignore = ignore_index, .wide = dtype == TP_FLOAT64};
    if (!dtype || j.reduction == TPI_REDUCE_BAD || !tpi_class_shape_of(tpi_shape(self), target, weight, &j.s))
        return false;
    if (weight && weight->dtype != self->dtype && (weight->dtype != TP_FLOAT32 || self->dtype == TP_FLOAT64))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'weight': expected scalar type %s but found %s",
                          tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word((tp_dtype)weight->dtype));
    tp_tensor *x = tpi_to_compute(self, dtype), *w = tpi_to_compute(weight, dtype),
              *t = x ? tpi_class_targets(target, j.s.classes, ignore_index) : NULL;
    tp_ints shape = j.reduction == TPI_REDUCE_NONE ? (tp_ints){j.s.shape, j.s.ndim} : (tp_ints){j.s.shape, 0};
    tp_tensor *output = t && (w || !weight) ? tpi_empty(shape, dtype, tpi_device(self)) : NULL;
    tp_tensor *total = output ? tpi_empty((tp_ints){j.s.shape, 0}, dtype, tpi_device(self)) : NULL;
    bool fine = false;
    if (total) {
        j.x = x->data;
        j.weight = w ? w->data : NULL;
        j.target = (const int64_t *)t->data;
        j.out = output->data;
        j.positions = t->numel;
        fine = run_forward(&j, output, total, dtype);
    }
    tpi_release(x);
    tpi_release(w);
    tpi_release(t);
    if (!fine) {
        tpi_release(output);
        tpi_release(total);
        return false;
    }
    out[0] = tpi_from_compute(output, (tp_dtype)self->dtype);
    out[1] = tpi_from_compute(total, (tp_dtype)self->dtype);
    if (out[0] && out[1]) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    return false;
}

tp_tensor *tpi_native_nll_loss_backward(tp_tensor *grad_output, tp_ints size, tp_dtype dtype, tp_tensor *target,
                                        tp_tensor *weight, const char *reduction, int64_t ignore_index,
                                        tp_tensor *total_weight) {
    tp_dtype compute = tpi_compute_dtype(grad_output, "grad_output");
    job j = {.reduction = tpi_reduction_of(reduction), .ignore = ignore_index, .wide = compute == TP_FLOAT64};
    if (!compute || j.reduction == TPI_REDUCE_BAD || !tpi_class_shape_of(size, target, weight, &j.s)) return NULL;
    tp_tensor *g = tpi_to_compute(grad_output, compute), *w = tpi_to_compute(weight, compute);
    tp_tensor *t = g ? tpi_class_targets(target, j.s.classes, ignore_index) : NULL;
    tp_tensor *out = t && (w || !weight) ? tpi_empty(size, compute, tpi_device(grad_output)) : NULL;
    if (out && tpi_fill_data(out, tp_int(0)) && t->numel) {
        j.x = g->data;
        j.weight = w ? w->data : NULL;
        j.target = (const int64_t *)t->data;
        j.out = out->data;
        j.positions = t->numel;
        j.scale = j.reduction == TPI_REDUCE_NONE ? 0 : value_at(&j, g->data, 0);
        if (j.reduction == TPI_REDUCE_MEAN)
            j.scale /= tp_scalar_to_double(tpi_load_scalar(total_weight->data, (tp_dtype)total_weight->dtype));
        tpi_parallel_for(tpi_ceil_div(j.positions, CHUNK), j.positions > CHUNK, backward_task, &j);
    }
    tpi_release(g);
    tpi_release(w);
    tpi_release(t);
    return tpi_from_compute(out, dtype);
}
