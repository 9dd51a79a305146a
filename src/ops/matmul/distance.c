/* cdist and pdist, distances between rows, with their derivative as an expression over operators; and the cosine of the
 * angle between rows. */
#include "device/device.h"
#include "ops/temporaries.h"
#include "ops/matmul/distance.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tpi_ops.h"
#include <math.h>

enum {
    FEW = 32,
    SOME = TPI_DISTANCE_COLUMNS,
    MANY = 128
}; /* columns up to which rows of x2 are taken side by side; up to which they are where there are many of them */

typedef struct job {
    const tp_tensor *x1, *x2; /* contiguous (batches, r1, m) and (batches, r2, m); with few columns (batches, m, r2) */
    bool few;
    int64_t r1, r2, m;
    double p;
    char *out;
} job;

static bool has_few(int64_t columns, int64_t rows, double p) {
    return columns <= (rows >= MANY ? SOME : FEW) && (p == 2 || p == 1 || p == 0 || isinf(p));
}

/* From `rows` rows of x1, one without `few`, to n rows of x2, those of the batch from `first` on; the results begin at
 * number `at`. */
static void distances(const job *j, int64_t row, int64_t rows, int64_t batch, int64_t first, int64_t n, int64_t at) {
    const int64_t from = row * j->m, to = batch * j->r2 * j->m + (j->few ? first : first * j->m);
    if (j->x1->dtype == TP_FLOAT32) {
        const float *x = (const float *)j->x1->data + from, *y = (const float *)j->x2->data + to;
        if (j->few)
            TPI_ISA_PICK(tpi_distances_narrow_f32)(rows, n, j->m, x, y, j->r2, (float *)j->out + at, j->r2, j->p);
        else
            TPI_ISA_PICK(tpi_distances_f32)(n, j->m, x, y, (float *)j->out + at, j->p);
    } else {
        const double *x = (const double *)j->x1->data + from, *y = (const double *)j->x2->data + to;
        if (j->few)
            TPI_ISA_PICK(tpi_distances_narrow_f64)(rows, n, j->m, x, y, j->r2, (double *)j->out + at, j->r2, j->p);
        else
            TPI_ISA_PICK(tpi_distances_f64)(n, j->m, x, y, (double *)j->out + at, j->p);
    }
}

/* Some rows of one batch. */
static void some_rows(int64_t chunk, void *context) {
    const job *j = context;
    const int64_t each = j->few ? TPI_DISTANCE_ROWS : 1, chunks = tpi_ceil_div(j->r1, each), batch = chunk / chunks;
    const int64_t first = chunk % chunks * each, rows = j->r1 - first < each ? j->r1 - first : each;
    const int64_t row = batch * j->r1 + first;
    distances(j, row, rows, batch, 0, j->r2, row * j->r2);
}

/* t (..., r, m) broadcast to the batch shape, contiguous, in the compute dtype; transposed: as (..., m, r). */
static tp_tensor *spread(tp_tensor *t, const int64_t *batch, int ndim, tp_dtype compute, bool transposed) {
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, batch, sizeof *shape * (size_t)ndim);
    shape[ndim] = t->shape[t->ndim - 2];
    shape[ndim + 1] = t->shape[t->ndim - 1];
    tp_tensor *wide = tpi_expanded(t, tp_ints_view(shape, ndim + 2));
    if (wide && transposed) {
        int64_t strides[TP_MAX_DIMS], n = shape[ndim];
        memcpy(strides, wide->strides, sizeof *strides * (size_t)wide->ndim);
        shape[ndim] = shape[ndim + 1];
        shape[ndim + 1] = n;
        strides[ndim] = wide->strides[ndim + 1];
        strides[ndim + 1] = wide->strides[ndim];
        wide = tpi_release_then(wide, tpi_alias(wide, ndim + 2, shape, strides, tpi_offset(wide)));
    }
    return wide ? tpi_release_then(wide, tpi_to_compute(wide, compute)) : NULL;
}

static bool check_cdist(const tp_tensor *x1, const tp_tensor *x2, double p) {
    if (x1->ndim < 2 || x2->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': cdist only supports at least 2D tensors, %s got: %dD",
                          x1->ndim < 2 ? "x1" : "x2", x1->ndim < 2 ? "X1" : "X2", x1->ndim < 2 ? x1->ndim : x2->ndim);
    if (x1->shape[x1->ndim - 1] != x2->shape[x2->ndim - 1])
        return tpi_refuse(TP_ERR_RUNTIME,
                          "arguments 'x1' and 'x2': X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                          (long long)x1->shape[x1->ndim - 1], (long long)x2->shape[x2->ndim - 1]);
    if (!tpi_check_same_dtype(x2, "x2", x1, "x1")) return false;
    return p >= 0 || tpi_refuse(TP_ERR_VALUE, "argument 'p': expected a number that is not negative, got %g", p);
}

tp_tensor *tpi_native_cdist(tp_tensor *x1, tp_tensor *x2, double p, const char *compute_mode) {
    (void)compute_mode; /* distances are always taken from differences, which loses no digits */
    tp_dtype compute = tpi_compute_dtype(x1, "x1");
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!compute || !check_cdist(x1, x2, p)) return NULL;
    if (!tpi_broadcast(tp_ints_view(x1->shape, x1->ndim - 2), tp_ints_view(x2->shape, x2->ndim - 2), shape, &ndim))
        return NULL;
    bool few = x1->shape[x1->ndim - 2] > 1 && has_few(x1->shape[x1->ndim - 1], x2->shape[x2->ndim - 2], p);
    tp_tensor *a = spread(x1, shape, ndim, compute, false), *b = a ? spread(x2, shape, ndim, compute, few) : NULL,
              *out = NULL;
    if (b) {
        job j = {.x1 = a,
                 .x2 = b,
                 .few = few,
                 .r1 = x1->shape[x1->ndim - 2],
                 .r2 = x2->shape[x2->ndim - 2],
                 .m = x1->shape[x1->ndim - 1],
                 .p = p};
        int64_t batches = 1;
        for (int d = 0; d < ndim; d++) batches *= shape[d];
        shape[ndim] = j.r1;
        shape[ndim + 1] = j.r2;
        out = tpi_empty(tp_ints_view(shape, ndim + 2), compute, tpi_device(x1));
        if (out && out->numel) {
            j.out = out->data;
            tpi_parallel_for(batches * tpi_ceil_div(j.r1, few ? TPI_DISTANCE_ROWS : 1),
                             out->numel * (j.m + 1) * 4 >= TPI_WORTH_BYTES, some_rows, &j);
        }
    }
    tpi_release(a);
    tpi_release(b);
    return tpi_from_compute(out, (tp_dtype)x1->dtype);
}

/* x / y, and 0 where y is 0. */
static tp_tensor *divide_or_zero(tpi_temporaries *temps, tp_tensor *x, tp_tensor *y) {
    tp_tensor *zero = tpi_put(temps, tpo_eq(y, TP_OPERAND(0)));
    tp_tensor *safe = tpi_put(temps, tpo_masked_fill(y, zero, tp_int(1)));
    return tpi_put(temps, tpo_masked_fill(tpi_put(temps, tpo_div(TP_OPERAND(x), TP_OPERAND(safe))), zero, tp_int(0)));
}

/* p = 2 needs no (r1, r2, m) temporary: with w = grad / dist, the gradient of row i is x1[i] * sum_j w[i,j] - sum_j
 * w[i,j] x2[j]. */
static tp_tensor *euclid_backward(tp_tensor *grad, tp_tensor *x1, tp_tensor *x2, tp_tensor *dist) {
    tpi_temporaries temps = {0};
    tp_tensor *w = divide_or_zero(&temps, grad, dist);
    if (!w) return tpi_release_temporaries(&temps, NULL);
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, w->shape, sizeof *shape * (size_t)w->ndim);
    shape[w->ndim - 1] = 1;
    tp_tensor *total = tpi_put(&temps, tpo_sum_to(w, tp_ints_view(shape, w->ndim)));
    tp_tensor *here = tpi_put(&temps, tpo_mul(TP_OPERAND(x1), TP_OPERAND(total))),
              *there = tpi_put(&temps, tpo_matmul(w, x2));
    return tpi_release_temporaries(&temps, tpo_sub(TP_OPERAND(here), TP_OPERAND(there), tp_int(1)));
}

/* What one difference d contributes to the gradient, before grad is multiplied in: (..., r1, r2, m). */
static tp_tensor *slope(tpi_temporaries *temps, tp_tensor *d, tp_tensor *dist, double p) {
    tp_tensor *sign = tpi_put(temps, tpo_sign(d));
    if (p == 1) return sign;
    tp_tensor *size = tpi_put(temps, tpo_abs(d)), *far = tpi_put(temps, tpo_unsqueeze(dist, -1));
    if (isinf(p)) { /* every largest difference gets the whole gradient */
        tp_tensor *largest = tpi_put(temps, tpo_eq(size, TP_OPERAND(far)));
        return tpi_put(temps, tpo_mul(TP_OPERAND(sign), TP_OPERAND(largest)));
    }
    tp_tensor *ratio = divide_or_zero(temps, size, far);
    /* below p = 1 the power of a zero difference is infinite; sign is zero there */
    tp_tensor *still = tpi_put(temps, tpo_eq(ratio, TP_OPERAND(0)));
    tp_tensor *power = tpi_put(
        temps, tpo_pow(TP_OPERAND(tpi_put(temps, tpo_masked_fill(ratio, still, tp_int(1)))), TP_OPERAND(p - 1)));
    return tpi_put(temps, tpo_mul(TP_OPERAND(sign), TP_OPERAND(power)));
}

tp_tensor *tpi_compose_cdist_backward(tp_tensor *grad, tp_tensor *x1, tp_tensor *x2, double p, tp_tensor *dist) {
    if (p == 2) return euclid_backward(grad, x1, x2, dist);
    if (p == 0) return tpo_mul(TP_OPERAND(x1), TP_OPERAND(0));
    tpi_temporaries temps = {0};
    tp_tensor *a = tpi_put(&temps, tpo_unsqueeze(x1, -2)), *b = tpi_put(&temps, tpo_unsqueeze(x2, -3));
    tp_tensor *d = tpi_put(&temps, tpo_sub(TP_OPERAND(a), TP_OPERAND(b), tp_int(1)));
    tp_tensor *g = tpi_put(&temps, tpo_unsqueeze(grad, -1));
    tp_tensor *each = tpi_put(&temps, tpo_mul(TP_OPERAND(slope(&temps, d, dist, p)), TP_OPERAND(g)));
    if (!each) return tpi_release_temporaries(&temps, NULL);
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, each->shape, sizeof *shape * (size_t)each->ndim);
    shape[each->ndim - 2] = 1;
    tp_tensor *sum = tpi_put(&temps, tpo_sum_to(each, tp_ints_view(shape, each->ndim)));
    return tpi_release_temporaries(&temps, tpo_squeeze_dim(sum, -2));
}

/* ---- Pairs of rows: what is above the diagonal of cdist(self, self), row by row ---- */

static int64_t pairs_of(int64_t n) { return n > 1 ? n * (n - 1) / 2 : 0; }

static void distances_above(int64_t i, void *context) {
    const job *j = context;
    distances(j, i, 1, 0, i + 1, j->r2 - i - 1, i * j->r2 - i * (i + 1) / 2);
}

tp_tensor *tpi_native_pair_distances(tp_tensor *self, double p) {
    if (self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    tp_dtype compute = tpi_compute_dtype(self, "self");
    if (!compute) return NULL;
    int64_t n = self->shape[0], m = self->shape[1];
    bool few = has_few(m, n, p);
    const int64_t no_batch[1] = {0};
    tp_tensor *a = spread(self, no_batch, 0, compute, false),
              *transposed = a && few ? spread(self, no_batch, 0, compute, true) : NULL;
    tp_tensor *out = a && (transposed || !few) ? tpi_empty(TP_INTS(pairs_of(n)), compute, tpi_device(self)) : NULL;
    if (out && out->numel) {
        job j = {.x1 = a, .x2 = few ? transposed : a, .few = few, .r1 = n, .r2 = n, .m = m, .p = p, .out = out->data};
        tpi_parallel_for(n - 1, out->numel * (m + 1) * 4 >= TPI_WORTH_BYTES, distances_above, &j);
    }
    tpi_release(a);
    tpi_release(transposed);
    return tpi_from_compute(out, (tp_dtype)self->dtype);
}

/* Where the pairs are in an (n, n) matrix. */
static tp_tensor *indices_of_pairs(tpi_temporaries *temps, int64_t n, tp_device device) {
    tp_tensor *index = tpi_empty(TP_INTS(pairs_of(n)), TP_INT64, (tp_device){TP_CPU, 0});
    if (!index) return NULL;
    int64_t *at = (int64_t *)index->data;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) *at++ = i * n + j;
    return tpi_put(temps, tpi_moved_data(index, device));
}

/* The symmetric (n, n) matrix with these above its diagonal. */
static tp_tensor *mirrored(tpi_temporaries *temps, tp_tensor *pairs, tp_tensor *pair_indices, int64_t n) {
    tp_tensor *zeros = tpi_put(temps, tpo_zeros(TP_INTS(n * n), (tp_dtype)pairs->dtype, tpi_device(pairs)));
    tp_tensor *flat = zeros ? tpi_put(temps, tpo_index_add(zeros, 0, pair_indices, pairs, tp_int(1))) : NULL;
    tp_tensor *above = flat ? tpi_put(temps, tpo_reshape(flat, TP_INTS(n, n))) : NULL,
              *below = above ? tpi_put(temps, tpo_t(above)) : NULL;
    return below ? tpi_put(temps, tpo_add(TP_OPERAND(above), TP_OPERAND(below), tp_int(1))) : NULL;
}

tp_tensor *tpi_compose_pair_distances_backward(tp_tensor *grad, tp_tensor *self, double p, tp_tensor *dist) {
    tpi_temporaries temps = {0};
    if (self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    int64_t n = self->shape[0];
    tp_tensor *pair_indices = indices_of_pairs(&temps, n, tpi_device(self)),
              *g = pair_indices ? mirrored(&temps, grad, pair_indices, n) : NULL,
              *d = g ? mirrored(&temps, dist, pair_indices, n) : NULL;
    return tpi_release_temporaries(&temps, d ? tpo_cdist_backward(g, self, self, p, d) : NULL);
}

tp_tensor *tpi_compose_pdist(tp_tensor *self, double p) {
    if (self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    if (!(p >= 0))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'p': pdist only supports non-negative p values, got %g", p);
    if (tpi_device(self).type == TP_CPU) return tpo_pair_distances(self, p);
    int64_t n = self->shape[0];
    tpi_temporaries temps = {0};
    tp_tensor *index = indices_of_pairs(&temps, n, tpi_device(self));
    if (!index) return NULL;
    tp_tensor *all = tpi_put(&temps, tpo_cdist(self, self, p, ""));
    tp_tensor *flat = tpi_put(&temps, tpo_reshape(all, TP_INTS(n * n)));
    return tpi_release_temporaries(&temps, tpo_index_select(flat, 0, index));
}

/* ---- Cosines ---- */

/* t along dim to length one; what is shorter than eps counts as that long. */
static tp_tensor *unit_length(tpi_temporaries *temps, tp_tensor *t, int64_t dim, double eps) {
    tp_tensor *norm = t ? tpi_put(temps, tpo_norm(t, tp_float(2), tp_ints_view(&dim, 1), true, TP_NO_DTYPE)) : NULL;
    tp_tensor *length = norm ? tpi_put(temps, tpo_clamp_min(norm, tp_operand_double(eps))) : NULL;
    return length ? tpi_put(temps, tpo_div(tp_operand_tensor(t), tp_operand_tensor(length))) : NULL;
}

/* The norms are those of the broadcast tensors: dim itself may be one that is repeated. */
tp_tensor *tpi_compose_cosine_similarity(tp_tensor *x1, tp_tensor *x2, int64_t dim, double eps) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!tpi_broadcast(tpi_shape(x1), tpi_shape(x2), shape, &ndim)) return NULL;
    tp_ints both = {shape, ndim};
    tpi_temporaries temps = {0};
    tpi_promotion p = {0};
    tpi_promote_tensor(&p, (tp_dtype)x1->dtype, x1->ndim);
    tpi_promote_tensor(&p, (tp_dtype)x2->dtype, x2->ndim);
    tp_dtype common = tpi_promoted(&p);
    if (common != x1->dtype) x1 = tpi_put(&temps, tpo_to_dtype(x1, common));
    if (x1 && common != x2->dtype) x2 = tpi_put(&temps, tpo_to_dtype(x2, common));
    if (!x1 || !x2) return tpi_release_temporaries(&temps, NULL);
    tp_tensor *a = unit_length(&temps, tpi_put(&temps, tpo_expand(x1, both, false)), dim, eps);
    tp_tensor *b = unit_length(&temps, tpi_put(&temps, tpo_expand(x2, both, false)), dim, eps);
    tp_tensor *each = a && b ? tpi_put(&temps, tpo_mul(tp_operand_tensor(a), tp_operand_tensor(b))) : NULL;
    return tpi_release_temporaries(&temps, each ? tpo_sum(each, tp_ints_view(&dim, 1), false, TP_NO_DTYPE) : NULL);
}
