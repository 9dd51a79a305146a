/* Rows of a table by index, the gradient that sums into it, rows' norms kept below a bound, bags of rows, and one_hot.
 */
#include <math.h>
#include "ops/embedding/bag_rows.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tensor/recorder.h"

#define ROW_TASKS 16 /* the gradient's rows are cut into this many ranges, each a task */

static bool check_indices(const tp_tensor *index, int64_t rows, bool of_bag) {
    const int64_t *v = (const int64_t *)index->data;
    for (int64_t i = 0; i < index->numel; i++)
        if ((v[i] < 0 || v[i] >= rows) && of_bag)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'input': Index %lld of input takes value %lld which is not in the valid range "
                              "[0, %lld): Expected idx >= 0 && idx < num_embeddings to be true",
                              (long long)i, (long long)v[i], (long long)rows);
        else if (v[i] < 0 || v[i] >= rows)
            return tpi_refuse(TP_ERR_INDEX,
                              "argument 'input': index out of range in self: got %lld for a table of %lld rows",
                              (long long)v[i], (long long)rows);
    return true;
}

bool tpi_check_bag_indices(tp_tensor *indices, int64_t rows) {
    if (tpi_device(indices).type != TP_CPU) return true;
    tp_tensor *index = tpi_index_data(indices, "input");
    bool ok = index && check_indices(index, rows, true);
    tpi_release(index);
    return ok;
}

/* A number below `bags`, or a negative one, for each of n indices. */
static bool check_bags(const tp_tensor *bag, int64_t n, int64_t bags) {
    const int64_t *v = (const int64_t *)bag->data;
    bool fits = bag->numel == n;
    for (int64_t i = 0; fits && i < n; i++) fits = v[i] < bags;
    return fits ||
           tpi_refuse(TP_ERR_INDEX, "argument 'bag': expected %lld numbers below %lld", (long long)n, (long long)bags);
}

typedef struct job {
    tp_dtype dtype;
    size_t bytes;           /* of a row */
    int64_t width, rows, n; /* elements of a row; rows of the table; indices */
    const int64_t *index;
    const char *from;
    char *to;
    const int64_t *counts; /* how often each row was looked up; NULL: gradients are not scaled */
    int64_t padding, run;
    const int64_t *sorted;         /* of the gradient: the places of indices, those of the first task's rows first */
    int64_t begins[ROW_TASKS + 1]; /* where each task's begin in it */
    const int64_t *bag;            /* whose row of the gradient an index has; NULL: each has its own */
} job;

static void lookup_run(int64_t run, void *context) {
    job *j = context;
    int64_t last = (run + 1) * j->run < j->n ? (run + 1) * j->run : j->n;
    for (int64_t i = run * j->run; i < last; i++) {
        if (j->index[i] == j->padding)
            memset(j->to + (size_t)i * j->bytes, 0, j->bytes);
        else
            memcpy(j->to + (size_t)i * j->bytes, j->from + (size_t)j->index[i] * j->bytes, j->bytes);
    }
}

/* Rows of the table; where the index is `zeroed`, zeros. */
static tp_tensor *rows_of(tp_tensor *weight, tp_tensor *indices, int64_t zeroed) {
    if (weight->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'weight': expected 2 dims, got %s",
                        tpi_shape_text(tpi_shape(weight)));
    int64_t shape[TP_MAX_DIMS];
    if (indices->ndim + 1 > TP_MAX_DIMS) return tpi_fail(TP_ERR_RUNTIME, "argument 'input': too many dims");
    for (int i = 0; i < indices->ndim; i++) shape[i] = indices->shape[i];
    shape[indices->ndim] = weight->shape[1];
    tp_tensor *index = tpi_index_data(indices, "input"), *table = tpi_contiguous_data(weight), *out = NULL;
    if (index && table && check_indices(index, weight->shape[0], false))
        out = tpi_empty(tp_ints_view(shape, indices->ndim + 1), (tp_dtype)weight->dtype, tpi_device(weight));
    if (out && out->numel > 0) {
        job j = {.bytes = (size_t)weight->shape[1] * tpi_itemsize(weight),
                 .n = index->numel,
                 .index = (const int64_t *)index->data,
                 .from = table->data,
                 .to = out->data,
                 .padding = zeroed};
        j.run = 1 + (int64_t)(65536 / j.bytes);
        tpi_parallel_for(tpi_ceil_div(j.n, j.run), (size_t)j.n * j.bytes > TPI_WORTH_BYTES, lookup_run, &j);
    }
    tpi_release(index);
    tpi_release(table);
    return out;
}

tp_tensor *tpi_native_embedding_rows(tp_tensor *weight, tp_tensor *indices, int64_t padding_idx,
                                     bool scale_grad_by_freq) {
    /* these shape the gradient alone */
    (void)padding_idx;
    (void)scale_grad_by_freq;
    return rows_of(weight, indices, -1);
}

tp_tensor *tpi_native_embedding_backward_backward(tp_tensor *grad, tp_tensor *indices, int64_t padding_idx) {
    return rows_of(grad, indices, padding_idx);
}

/* Which indices each task adds up, in their order: one pass over them, instead of one per task. NULL without memory. */
static bool is_counted(const job *j, int64_t i) { return j->index[i] != j->padding && (!j->bag || j->bag[i] >= 0); }
static int64_t *sort_by_task(job *j) {
    int64_t each = tpi_ceil_div(j->rows, ROW_TASKS), *sorted = tpi_alloc((size_t)(j->n + 1) * sizeof *sorted),
            at[ROW_TASKS] = {0};
    if (!sorted) return NULL;
    for (int64_t i = 0; i < j->n; i++)
        if (is_counted(j, i)) at[j->index[i] / each]++;
    j->begins[0] = 0;
    for (int task = 0; task < ROW_TASKS; task++) {
        j->begins[task + 1] = j->begins[task] + at[task];
        at[task] = j->begins[task];
    }
    for (int64_t i = 0; i < j->n; i++)
        if (is_counted(j, i)) sorted[at[j->index[i] / each]++] = i;
    return sorted;
}

static void scatter_range(int64_t task, void *context) {
    job *j = context;
    int64_t each = tpi_ceil_div(j->rows, ROW_TASKS), first = task * each,
            last = first + each < j->rows ? first + each : j->rows;
    if (first >= last) return;
    memset(j->to + (size_t)first * j->bytes, 0, (size_t)(last - first) * j->bytes);
    for (const int64_t *next = j->sorted + j->begins[task], *end = j->sorted + j->begins[task + 1]; next < end;
         next++) {
        int64_t row = j->index[*next], i = j->bag ? j->bag[*next] : *next;
        if (j->dtype == TP_FLOAT32) {
            const float *from = (const float *)j->from + i * j->width;
            float *to = (float *)j->to + row * j->width, scale = j->counts ? 1.0f / (float)j->counts[row] : 1.0f;
            for (int64_t c = 0; c < j->width; c++) to[c] += from[c] * scale;
        } else {
            const double *from = (const double *)j->from + i * j->width;
            double *to = (double *)j->to + row * j->width, scale = j->counts ? 1.0 / (double)j->counts[row] : 1.0;
            for (int64_t c = 0; c < j->width; c++) to[c] += from[c] * scale;
        }
    }
}

/* With `bags`, a number for each index, that is the row of the gradient that belongs to it. */
static tp_tensor *sum_into_table(tp_tensor *grad, tp_tensor *indices, tp_tensor *bags, int64_t num_weights,
                                 int64_t padding_idx, bool scale_grad_by_freq) {
    tp_dtype compute = tpi_compute_dtype(grad, "grad_output");
    if (!compute) return NULL;
    int64_t width = grad->shape[grad->ndim - 1];
    job j = {.dtype = compute,
             .bytes = (size_t)width * tpi_dtype_bytes[compute],
             .width = width,
             .rows = num_weights,
             .padding = padding_idx};
    tp_tensor *index = tpi_index_data(indices, "indices"), *bag = bags ? tpi_index_data(bags, "bag") : NULL,
              *g = tpi_to_compute(grad, compute);
    bool fits = index && g && (bag || !bags) && check_indices(index, num_weights, false) &&
                (!bag || check_bags(bag, index->numel, g->ndim == 2 ? g->shape[0] : 0));
    tp_tensor *out = fits ? tpi_empty(TP_INTS(num_weights, width), compute, tpi_device(grad)) : NULL;
    size_t bytes = (size_t)num_weights * sizeof(int64_t);
    int64_t *counts = out && scale_grad_by_freq ? tpi_alloc(bytes) : NULL;
    bool ok = out && (counts || !scale_grad_by_freq);
    int64_t *sorted = NULL;
    if (ok) {
        j.n = index->numel;
        j.index = (const int64_t *)index->data;
        j.from = g->data;
        j.to = out->data;
        j.counts = counts;
        j.bag = bag ? (const int64_t *)bag->data : NULL;
        j.sorted = sorted = sort_by_task(&j);
        ok = sorted != NULL;
    }
    if (ok) {
        if (counts) memset(counts, 0, bytes);
        for (int64_t i = 0; counts && i < j.n; i++) counts[j.index[i]]++;
        tpi_parallel_for(ROW_TASKS, j.n * width + out->numel > 16384, scatter_range, &j);
    }
    if (counts) tpi_free(counts, bytes);
    if (sorted) tpi_free(sorted, (size_t)(j.n + 1) * sizeof *sorted);
    tpi_release(index);
    tpi_release(bag);
    tpi_release(g);
    if (!ok) {
        tpi_release(out);
        return NULL;
    }
    return tpi_from_compute(out, (tp_dtype)grad->dtype);
}

tp_tensor *tpi_native_embedding_backward(tp_tensor *grad, tp_tensor *indices, int64_t num_weights, int64_t padding_idx,
                                         bool scale_grad_by_freq) {
    return sum_into_table(grad, indices, NULL, num_weights, padding_idx, scale_grad_by_freq);
}

/* ---- Norms kept below a bound, in place ---- */

bool tpi_native_embedding_renorm(tp_tensor *self, tp_tensor *indices, double max_norm, double norm_type) {
    tpi_looked(self);
    if (self->ndim != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected 2 dims, got %s", tpi_shape_text(tpi_shape(self)));
    tp_tensor *index = tpi_index_data(indices, "indices");
    size_t bytes = (size_t)self->shape[0] + 1;
    char *seen = index && check_indices(index, self->shape[0], false) ? tpi_alloc(bytes) : NULL;
    if (seen) memset(seen, 0, bytes);
    int64_t item = (int64_t)tpi_itemsize(self);
    for (int64_t i = 0; seen && i < index->numel; i++) {
        int64_t row = ((const int64_t *)index->data)[i];
        if (seen[row]) continue;
        seen[row] = 1;
        char *at = self->data + row * self->strides[0] * item;
        double norm = 0;
        for (int64_t c = 0; c < self->shape[1]; c++) {
            double v =
                fabs(tp_scalar_to_double(tpi_load_scalar(at + c * self->strides[1] * item, (tp_dtype)self->dtype)));
            norm = isinf(norm_type) ? fmax(norm, v)
                                    : norm + (norm_type == 2   ? v * v
                                              : norm_type == 1 ? v
                                                               : pow(v, norm_type));
        }
        if (!isinf(norm_type)) norm = norm_type == 2 ? sqrt(norm) : norm_type == 1 ? norm : pow(norm, 1 / norm_type);
        if (norm <= max_norm) continue;
        double scale = max_norm / (norm + 1e-7);
        for (int64_t c = 0; c < self->shape[1]; c++) {
            char *element = at + c * self->strides[1] * item;
            tpi_store_scalar(element, (tp_dtype)self->dtype,
                             tp_float(tp_scalar_to_double(tpi_load_scalar(element, (tp_dtype)self->dtype)) * scale));
        }
    }
    tpi_release(index);
    if (!seen) return false;
    tpi_free(seen, bytes);
    tpi_touch(self);
    return true;
}

/* ---- Bags: sums of a table's rows, sums of rows by bag number, their spreading back, and the places of the largest
 * ---- */

typedef struct bag_job {
    const tp_tensor *table;
    const int64_t *index, *offsets;
    int64_t n, bags, padding, run; /* indices; bags; bags of a task */
    char *out;
} bag_job;

static void sum_bags(int64_t task, void *context) {
    const bag_job *j = context;
    const int64_t width = j->table->shape[1], last = (task + 1) * j->run < j->bags ? (task + 1) * j->run : j->bags;
    for (int64_t b = task * j->run; b < last; b++) {
        int64_t first = j->offsets[b], n = (b + 1 < j->bags ? j->offsets[b + 1] : j->n) - first;
        if (j->table->dtype == TP_FLOAT32) TPI_ISA_PICK(tpi_bag_rows_f32)
        (width, n, j->n - first, j->index + first, j->padding, (const float *)j->table->data,
         (float *)j->out + b * width);
        else TPI_ISA_PICK(tpi_bag_rows_f64)(width, n, j->n - first, j->index + first, j->padding,
                                            (const double *)j->table->data, (double *)j->out + b * width);
    }
}

static bool check_offsets(const tp_tensor *offsets, int64_t bags, int64_t n) {
    const int64_t *o = (const int64_t *)offsets->data;
    bool fits = bags >= 0 && offsets->numel >= bags;
    for (int64_t b = 0; fits && b < bags; b++) fits = o[b] >= (b ? o[b - 1] : 0) && o[b] <= n;
    return fits || tpi_refuse(TP_ERR_INDEX, "argument 'offsets': expected %lld numbers that rise, up to %lld",
                              (long long)bags, (long long)n);
}

/* The sums of the rows of weight that each bag of indices names. */
tp_tensor *tpi_native_bag_sum(tp_tensor *weight, tp_tensor *indices, tp_tensor *offsets, tp_tensor *bag, int64_t bags,
                              int64_t padding_idx, bool scale_grad_by_freq) {
    /* of the gradient */
    (void)bag;
    (void)scale_grad_by_freq;
    tp_dtype compute = tpi_compute_dtype(weight, "weight");
    if (!compute) return NULL;
    if (weight->ndim != 2)
        return tpi_fail(TP_ERR_TYPE, "argument 'weight': expected 2 dims, got shape %s",
                        tpi_shape_text(tpi_shape(weight)));
    tp_tensor *table = tpi_to_compute(weight, compute), *index = tpi_index_data(indices, "input"),
              *start = tpi_index_data(offsets, "offsets"), *out = NULL;
    if (table && index && start && check_indices(index, weight->shape[0], true) &&
        check_offsets(start, bags, index->numel))
        out = tpi_empty(TP_INTS(bags, weight->shape[1]), compute, tpi_device(weight));
    if (out && out->numel) {
        bag_job j = {
            table,    (const int64_t *)index->data, (const int64_t *)start->data, index->numel, bags, padding_idx, 1,
            out->data};
        int64_t bytes = (index->numel + bags) * weight->shape[1] * (int64_t)tpi_itemsize(table);
        j.run = 1 + bags * 65536 / (bytes + 1);
        tpi_parallel_for(tpi_ceil_div(bags, j.run), bytes > TPI_WORTH_BYTES, sum_bags, &j);
    }
    tpi_release(table);
    tpi_release(index);
    tpi_release(start);
    return tpi_from_compute(out, (tp_dtype)weight->dtype);
}

tp_tensor *tpi_native_bag_sum_backward(tp_tensor *grad, tp_tensor *indices, tp_tensor *offsets, tp_tensor *bag,
                                       int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq) {
    (void)offsets; /* of the second derivative */
    return sum_into_table(grad, indices, bag, num_weights, padding_idx, scale_grad_by_freq);
}

/* rows (n, d) summed into (bags, d) by bag[i]; a negative bag number leaves the row out. */
tp_tensor *tpi_native_segment_sum(tp_tensor *rows, tp_tensor *bag, int64_t bags) {
    tp_dtype compute = tpi_compute_dtype(rows, "rows");
    if (!compute) return NULL;
    if (rows->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'rows': expected 2 dims, got %s", tpi_shape_text(tpi_shape(rows)));
    int64_t n = rows->shape[0], d = rows->shape[1];
    tp_tensor *x = tpi_to_compute(rows, compute), *b = tpi_index_data(bag, "bag"),
              *out = x && b && check_bags(b, n, bags) ? tpi_empty(TP_INTS(bags, d), compute, tpi_device(rows)) : NULL;
    if (out) {
        memset(out->data, 0, (size_t)out->numel * tpi_itemsize(out));
        for (int64_t i = 0; i < n; i++) {
            int64_t to = ((const int64_t *)b->data)[i];
            if (to < 0) continue;
            if (d == 1 && compute == TP_FLOAT32)
                ((float *)out->data)[to] += ((const float *)x->data)[i];
            else if (compute == TP_FLOAT32)
                TPI_ISA_PICK(tpi_add_floats)(d, (const float *)x->data + i * d, (float *)out->data + to * d);
            else
                for (int64_t c = 0; c < d; c++)
                    ((double *)out->data)[to * d + c] += ((const double *)x->data)[i * d + c];
        }
    }
    tpi_release(x);
    tpi_release(b);
    return tpi_from_compute(out, (tp_dtype)rows->dtype);
}

/* Row i of the result is row bag[i] of self, or zeros. */
tp_tensor *tpi_native_segment_spread(tp_tensor *self, tp_tensor *bag) {
    if (self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    tp_tensor *x = tpi_contiguous_data(self), *b = tpi_index_data(bag, "bag");
    for (int64_t i = 0; b && i < b->numel; i++)
        if (((const int64_t *)b->data)[i] >= self->shape[0]) {
            tpi_index_error("bag", ((const int64_t *)b->data)[i], 0, self->shape[0]);
            tpi_release(x);
            tpi_release(b);
            return NULL;
        }
    tp_tensor *out =
        x && b ? tpi_empty(TP_INTS(b->numel, self->shape[1]), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    size_t bytes = (size_t)self->shape[1] * tpi_itemsize(self);
    for (int64_t i = 0; out && i < b->numel; i++) {
        int64_t from = ((const int64_t *)b->data)[i];
        if (from < 0)
            memset(out->data + (size_t)i * bytes, 0, bytes);
        else
            memcpy(out->data + (size_t)i * bytes, x->data + (size_t)from * bytes, bytes);
    }
    tpi_release(x);
    tpi_release(b);
    return out;
}

/* For each bag and column the row with the largest value, the first of equals; 0 for an empty bag. */
tp_tensor *tpi_native_segment_argmax(tp_tensor *rows, tp_tensor *bag, int64_t bags) {
    tp_dtype compute = tpi_compute_dtype(rows, "rows");
    if (!compute) return NULL;
    if (rows->ndim != 2 || bag->ndim != 1 || bag->numel != rows->shape[0])
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'bag': expected one number for each of 'rows', two-dimensional, got %s for rows %s",
                        tpi_shape_text(tpi_shape(bag)), tpi_shape_text(tpi_shape(rows)));
    int64_t n = rows->shape[0], d = rows->shape[1];
    tp_tensor *x = tpi_to_compute(rows, TP_FLOAT64), *b = tpi_index_data(bag, "bag");
    for (int64_t i = 0; b && i < n; i++)
        if (((const int64_t *)b->data)[i] >= bags) {
            tpi_index_error("bag", ((const int64_t *)b->data)[i], 0, bags);
            tpi_release(x);
            tpi_release(b);
            return NULL;
        }
    tp_tensor *out = x && b ? tpi_empty(TP_INTS(bags, d), TP_INT64, tpi_device(rows)) : NULL;
    if (out) {
        int64_t *best = (int64_t *)out->data;
        const double *v = (const double *)x->data;
        for (int64_t i = 0; i < bags * d; i++) best[i] = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t to = ((const int64_t *)b->data)[i];
            for (int64_t c = 0; to >= 0 && c < d; c++)
                if (best[to * d + c] < 0 || v[i * d + c] > v[best[to * d + c] * d + c]) best[to * d + c] = i;
        }
        for (int64_t i = 0; i < bags * d; i++) best[i] = best[i] < 0 ? 0 : best[i];
    }
    tpi_release(x);
    tpi_release(b);
    return out;
}

/* offsets into n indices -> the bag of each index, -1 where the index is the padding one. */
tp_tensor *tpi_native_bag_of(tp_tensor *indices, tp_tensor *offsets, bool include_last_offset, int64_t padding_idx) {
    tp_tensor *index = tpi_index_data(indices, "input"), *start = tpi_index_data(offsets, "offsets");
    tp_tensor *out = index && start ? tpi_empty(TP_INTS(index->numel), TP_INT64, tpi_device(indices)) : NULL;
    if (out) {
        const int64_t *o = (const int64_t *)start->data, *v = (const int64_t *)index->data;
        int64_t bags = start->numel - include_last_offset, bag = -1, n = index->numel;
        bool fits = bags >= 0 && (bags == 0 || o[0] == 0) && (start->numel == 0 || o[start->numel - 1] <= n);
        for (int64_t i = 1; fits && i < start->numel; i++) fits = o[i] >= o[i - 1];
        if (!fits) {
            tpi_fail(TP_ERR_RUNTIME,
                     "argument 'offsets': offsets[0] has to be 0, they have to rise, and offsets[-1] can not be "
                     "greater than input's length %lld",
                     (long long)n);
            tpi_release(out);
            out = NULL;
        }
        for (int64_t i = 0; out && i < n; i++) {
            while (bag + 1 < bags && o[bag + 1] <= i) bag++;
            ((int64_t *)out->data)[i] = v[i] == padding_idx ? -1 : bag;
        }
    }
    tpi_release(index);
    tpi_release(start);
    return out;
}

tp_tensor *tpi_native_one_hot(tp_tensor *self, int64_t num_classes) {
    if (self->dtype != TP_INT64)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': one_hot is only applicable to index tensor of type LongTensor. Got %s",
                        tp_dtype_name((tp_dtype)self->dtype));
    if (self->numel == 0 && num_classes <= 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'num_classes': Can not infer total number of classes from empty tensor.");
    tp_tensor *index = tpi_contiguous_data(self);
    if (!index) return NULL;
    const int64_t *v = (const int64_t *)index->data;
    int64_t least = 0, most = -1, shape[TP_MAX_DIMS];
    for (int64_t i = 0; i < index->numel; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    if (num_classes == -1) num_classes = most + 1;
    if (least < 0 || num_classes < 1 || most >= num_classes) {
        tpi_release(index);
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': Class values must be %s. Got %lld for %lld classes",
                        least < 0 ? "non-negative" : "smaller than num_classes", (long long)(least < 0 ? least : most),
                        (long long)num_classes);
    }
    for (int i = 0; i < self->ndim; i++) shape[i] = self->shape[i];
    shape[self->ndim] = num_classes;
    tp_tensor *out = tpi_empty(tp_ints_view(shape, self->ndim + 1), TP_INT64, tpi_device(self));
    if (out) memset(out->data, 0, (size_t)out->numel * sizeof(int64_t));
    for (int64_t i = 0; out && i < index->numel; i++) ((int64_t *)out->data)[i * num_classes + v[i]] = 1;
    tpi_release(index);
    return out;
}
