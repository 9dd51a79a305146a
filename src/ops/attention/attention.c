/* Scaled dot-product attention, forward and backward, in blocks of queries and keys with a running softmax: scores
 * exist for one block at a time, never for a whole sequence. Forward, a task is a block of queries of one head;
 * backward, a head. */
#include <math.h>
#include <stdatomic.h>
#include "ops/attention/score_rows.h"
#include "linalg/blas.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"

#define QUERIES 64 /* the most of a block */
#define KEYS    256
#define SHORT   256 /* queries up to which a causal block has half as many: less of it is what no query sees */

typedef struct part { /* one operand: (batch dims..., rows, columns), columns contiguous */
    tp_tensor *t;     /* owned */
    int64_t row;      /* stride */
} part;

typedef struct job {
    tp_dtype dtype;
    int64_t item;
    int64_t heads, queries, keys, width, value_width; /* heads: all batch dims together */
    int64_t block, query_blocks;                      /* queries of a block, and how many blocks of a head there are */
    bool causal;
    double scale;
    part q, k, v, out, grad, dq, dk, dv;
    tp_tensor *mask; /* expanded to (batch dims..., queries, keys), bool or the dtype; NULL: none. Owned */
    char *lse;       /* (heads, queries) */
    atomic_bool failed;
} job;

/* ---- Types ---- */

static void gemm(const job *j, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const char *a,
                 int64_t lda, const char *b, int64_t ldb, bool add, char *c, int64_t ldc) {
    if (j->dtype == TP_FLOAT32)
        tpi_gemm_f32(ta, tb, m, n, k, (float)alpha, (const float *)a, lda, (const float *)b, ldb, add ? 1.0f : 0.0f,
                     (float *)c, ldc);
    else
        tpi_gemm_f64(ta, tb, m, n, k, alpha, (const double *)a, lda, (const double *)b, ldb, add ? 1.0 : 0.0,
                     (double *)c, ldc);
}

static double get(const job *j, const char *data, int64_t i) { return tpi_compute_get(data, j->dtype, i); }
static void set(const job *j, char *data, int64_t i, double v) { tpi_compute_set(data, j->dtype, i, v); }

/* ---- Operands ---- */

/* The first element of matrix number `head` of t. */
static char *head_of(const tp_tensor *t, int64_t head) {
    char *at = t->data;
    for (int d = t->ndim - 3; d >= 0; d--) {
        at += head % t->shape[d] * t->strides[d] * (int64_t)tpi_itemsize(t);
        head /= t->shape[d];
    }
    return at;
}

/* t in the dtype, with unit stride along the columns; t itself where it is so already. */
static bool load_part(part *p, tp_tensor *t, tp_dtype dtype) {
    int n = t->ndim;
    bool fits = t->dtype == dtype && (t->strides[n - 1] == 1 || t->shape[n - 1] <= 1) &&
                (t->strides[n - 2] >= t->shape[n - 1] || t->shape[n - 2] <= 1);
    p->t = fits ? tpi_retain(t) : tpi_to_compute(t, dtype);
    if (p->t) p->row = p->t->shape[n - 2] <= 1 ? p->t->shape[n - 1] : p->t->strides[n - 2];
    if (p->t && p->row < 1) p->row = 1;
    return p->t;
}

/* A fresh (batch dims of like..., rows, columns). Where the third-last dim of `like` runs faster than its rows, as
 * heads split from a (batch, sequence, heads * width) tensor do, the result is laid out the same way, so that joining
 * the heads again is free. */
static bool make(part *p, const tp_tensor *like, int64_t rows, int64_t columns, tp_dtype dtype) {
    int n = like->ndim;
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS], order[TP_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        shape[i] = like->shape[i];
        order[i] = i;
    }
    shape[n - 2] = rows;
    shape[n - 1] = columns;
    if (n == 4 && like->strides[1] < like->strides[2]) {
        order[1] = 2;
        order[2] = 1;
    }
    int64_t step = 1;
    for (int i = n - 1; i >= 0; i--) {
        strides[order[i]] = step;
        step *= shape[order[i]] ? shape[order[i]] : 1;
    }
    p->t = tpi_empty_strided(tp_ints_view(shape, n), tp_ints_view(strides, n), dtype, tpi_device(like));
    p->row = strides[n - 2];
    return p->t;
}

static void drop(part *p) {
    tpi_release(p->t);
    p->t = NULL;
}

/* ---- Masks ---- */

/* How many of the keys from k0 on each query of the block may see. */
static void count_valid(const job *j, int64_t q0, int64_t rows, int64_t k0, int64_t columns, int64_t *valid) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t n = j->causal ? q0 + r - k0 + 1 : columns;
        valid[r] = n < 0 ? 0 : n < columns ? n : columns;
    }
}

/* What the mask adds to a block of scores, or NULL without one. */
static char *mask_block(const job *j, int64_t head, int64_t q0, int64_t rows, int64_t k0, int64_t columns,
                        char *scratch) {
    if (!j->mask) return NULL;
    const tp_tensor *t = j->mask;
    int64_t item = (int64_t)tpi_itemsize(t), down = t->strides[t->ndim - 2] * item,
            across = t->strides[t->ndim - 1] * item;
    const char *base = head_of(t, head) + q0 * down + k0 * across;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const char *at = base + r * down + c * across;
            if (t->dtype == TP_BOOL)
                set(j, scratch, r * KEYS + c, *(const uint8_t *)at ? 0 : -INFINITY);
            else if (j->dtype == TP_FLOAT32)
                ((float *)scratch)[r * KEYS + c] = *(const float *)at;
            else
                ((double *)scratch)[r * KEYS + c] = *(const double *)at;
        }
    return scratch;
}

/* ---- Forward ---- */

static void forward_task(int64_t task, void *context) {
    job *j = context;
    int64_t head = task / j->query_blocks, q0 = task % j->query_blocks * j->block, item = j->item;
    int64_t rows = j->queries - q0 < j->block ? j->queries - q0 : j->block, valid[QUERIES];
    size_t bytes = (size_t)((j->mask ? 2 : 1) * QUERIES * KEYS + 3 * QUERIES) * (size_t)item;
    char *s = tpi_alloc(bytes);
    if (!s) {
        atomic_store(&j->failed, true);
        return;
    }
    char *most = s + QUERIES * KEYS * item, *sum = most + QUERIES * item, *factor = sum + QUERIES * item,
         *scratch = factor + QUERIES * item;
    for (int64_t r = 0; r < rows; r++) {
        set(j, most, r, -INFINITY);
        set(j, sum, r, 0);
    }
    const char *q = head_of(j->q.t, head) + q0 * j->q.row * item, *k = head_of(j->k.t, head),
               *v = head_of(j->v.t, head);
    char *out = head_of(j->out.t, head) + q0 * j->out.row * item;
    int64_t seen = j->causal && q0 + rows < j->keys ? q0 + rows : j->keys;
    for (int64_t r = 0; r < rows; r++) memset(out + r * j->out.row * item, 0, (size_t)(j->value_width * item));
    for (int64_t k0 = 0; k0 < seen; k0 += KEYS) {
        int64_t columns = seen - k0 < KEYS ? seen - k0 : KEYS;
        gemm(j, false, true, rows, columns, j->width, j->scale, q, j->q.row, k + k0 * j->k.row * item, j->k.row, false,
             s, KEYS);
        count_valid(j, q0, rows, k0, columns, valid);
        char *mask = mask_block(j, head, q0, rows, k0, columns, scratch);
        if (j->dtype == TP_FLOAT32) {
            TPI_ISA_PICK(tpi_attend_rows_f32)
            (rows, columns, KEYS, valid, (float *)mask, (float *)s, (float *)most, (float *)sum, (float *)factor);
            if (k0) TPI_ISA_PICK(tpi_attend_scale_f32)(rows, j->value_width, j->out.row, (float *)factor, (float *)out);
        } else {
            TPI_ISA_PICK(tpi_attend_rows_f64)
            (rows, columns, KEYS, valid, (double *)mask, (double *)s, (double *)most, (double *)sum, (double *)factor);
            if (k0)
                TPI_ISA_PICK(tpi_attend_scale_f64)(rows, j->value_width, j->out.row, (double *)factor, (double *)out);
        }
        gemm(j, false, false, rows, j->value_width, columns, 1, s, KEYS, v + k0 * j->v.row * item, j->v.row, true, out,
             j->out.row);
    }
    for (int64_t r = 0; r < rows; r++) {
        double total = get(j, sum, r);
        set(j, j->lse, head * j->queries + q0 + r, total == 0 ? -INFINITY : get(j, most, r) + log(total));
        set(j, factor, r, total == 0 ? 0 : 1 / total);
    }
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_attend_scale_f32)(rows, j->value_width, j->out.row, (float *)factor, (float *)out);
    else
        TPI_ISA_PICK(tpi_attend_scale_f64)(rows, j->value_width, j->out.row, (double *)factor, (double *)out);
    tpi_free(s, bytes);
}

/* ---- Backward: with weights P and D = rowsum(dO O):  dV = P' dO,  dS = P (dO V' - D) scale,  dQ = dS K,  dK = dS' Q
 * ---- */

static void backward_block(job *j, int64_t head, int64_t q0, int64_t k0, char *s, char *dp, char *scratch,
                           const char *d) {
    int64_t item = j->item, rows = j->queries - q0 < j->block ? j->queries - q0 : j->block,
            columns = j->keys - k0 < KEYS ? j->keys - k0 : KEYS, valid[QUERIES];
    if (j->causal && q0 + rows - k0 < columns) columns = q0 + rows - k0;
    const char *q = head_of(j->q.t, head) + q0 * j->q.row * item, *k = head_of(j->k.t, head) + k0 * j->k.row * item;
    const char *v = head_of(j->v.t, head) + k0 * j->v.row * item,
               *g = head_of(j->grad.t, head) + q0 * j->grad.row * item;
    const char *lse = j->lse + (head * j->queries + q0) * item;
    gemm(j, false, true, rows, columns, j->width, j->scale, q, j->q.row, k, j->k.row, false, s, KEYS);
    count_valid(j, q0, rows, k0, columns, valid);
    char *mask = mask_block(j, head, q0, rows, k0, columns, scratch);
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_attend_again_f32)(rows, columns, KEYS, valid, (float *)mask, (const float *)lse, (float *)s);
    else
        TPI_ISA_PICK(tpi_attend_again_f64)
    (rows, columns, KEYS, valid, (double *)mask, (const double *)lse, (double *)s);
    gemm(j, true, false, columns, j->value_width, rows, 1, s, KEYS, g, j->grad.row, true,
         head_of(j->dv.t, head) + k0 * j->dv.row * item, j->dv.row);
    gemm(j, false, true, rows, columns, j->value_width, 1, g, j->grad.row, v, j->v.row, false, dp, KEYS);
    if (j->dtype == TP_FLOAT32) TPI_ISA_PICK(tpi_attend_back_f32)
    (rows, columns, KEYS, (float *)s, (const float *)d + q0, (float)j->scale, (float *)dp);
    else TPI_ISA_PICK(tpi_attend_back_f64)(rows, columns, KEYS, (double *)s, (const double *)d + q0, j->scale,
                                           (double *)dp);
    gemm(j, true, false, columns, j->width, rows, 1, dp, KEYS, q, j->q.row, true,
         head_of(j->dk.t, head) + k0 * j->dk.row * item, j->dk.row);
    gemm(j, false, false, rows, j->width, columns, 1, dp, KEYS, k, j->k.row, true,
         head_of(j->dq.t, head) + q0 * j->dq.row * item, j->dq.row);
}

static void clear_head(const job *j, const part *p, int64_t head, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        memset(head_of(p->t, head) + r * p->row * j->item, 0, (size_t)(columns * j->item));
}

static void backward_task(int64_t head, void *context) {
    job *j = context;
    int64_t item = j->item;
    size_t bytes = (size_t)((j->mask ? 3 : 2) * QUERIES * KEYS + j->queries) * (size_t)item;
    char *s = tpi_alloc(bytes);
    if (!s) {
        atomic_store(&j->failed, true);
        return;
    }
    char *dp = s + QUERIES * KEYS * item, *d = dp + QUERIES * KEYS * item, *scratch = d + j->queries * item;
    const char *g = head_of(j->grad.t, head), *o = head_of(j->out.t, head);
    for (int64_t r = 0; r < j->queries; r++) {
        const char *gr = g + r * j->grad.row * item, * or = o + r * j->out.row * item;
        if (j->dtype == TP_FLOAT32)
            ((float *)d)[r] = TPI_ISA_PICK(tpi_attend_dot_f32)(j->value_width, (const float *)gr, (const float *) or);
        else
            ((double *)d)[r] =
                TPI_ISA_PICK(tpi_attend_dot_f64)(j->value_width, (const double *)gr, (const double *) or);
    }
    clear_head(j, &j->dq, head, j->queries, j->width);
    clear_head(j, &j->dk, head, j->keys, j->width);
    clear_head(j, &j->dv, head, j->keys, j->value_width);
    for (int64_t k0 = 0; k0 < j->keys; k0 += KEYS)
        for (int64_t q0 = j->causal ? k0 / j->block * j->block : 0; q0 < j->queries; q0 += j->block)
            backward_block(j, head, q0, k0, s, dp, scratch, d);
    tpi_free(s, bytes);
}

/* ---- The operators ---- */

static bool check_shapes(const tp_tensor *q, const tp_tensor *k, const tp_tensor *v) {
    int n = q->ndim;
    bool fits = n >= 2 && k->ndim == n && v->ndim == n && k->shape[n - 1] == q->shape[n - 1] &&
                v->shape[n - 2] == k->shape[n - 2];
    for (int i = 0; fits && i < n - 2; i++) fits = k->shape[i] == q->shape[i] && v->shape[i] == q->shape[i];
    return fits ||
           tpi_refuse(
               TP_ERR_RUNTIME,
               "argument 'key': expected query (..., L, E), key (..., S, E) and value (..., S, Ev), got %s, %s and %s",
               tpi_shape_text(tpi_shape(q)), tpi_shape_text(tpi_shape(k)), tpi_shape_text(tpi_shape(v)));
}

static bool begin(job *j, tp_tensor *q, tp_tensor *k, tp_tensor *v, tp_tensor *mask, bool causal, double scale) {
    int n = q->ndim;
    if (!check_shapes(q, k, v)) return false;
    j->dtype = tpi_compute_dtype(q, "query");
    if (!j->dtype) return false;
    j->item = tpi_dtype_bytes[j->dtype];
    j->queries = q->shape[n - 2];
    j->width = q->shape[n - 1];
    j->keys = k->shape[n - 2];
    j->value_width = v->shape[n - 1];
    j->block = causal && j->queries <= SHORT ? QUERIES / 2 : QUERIES;
    j->query_blocks = tpi_ceil_div(j->queries, j->block);
    j->causal = causal;
    j->scale = scale;
    j->heads = 1;
    for (int i = 0; i < n - 2; i++) j->heads *= q->shape[i];
    if (mask) { /* cast first: an expanded mask is a view, and may never be made whole */
        int64_t shape[TP_MAX_DIMS];
        for (int i = 0; i < n - 1; i++) shape[i] = q->shape[i];
        shape[n - 1] = j->keys;
        tp_tensor *same = mask->dtype == TP_BOOL ? tpi_retain(mask) : tpi_as_dtype_data(mask, j->dtype);
        j->mask = same ? tpi_expanded(same, tp_ints_view(shape, n)) : NULL;
        tpi_release(same);
        if (!j->mask) return false;
    }
    return load_part(&j->q, q, j->dtype) && load_part(&j->k, k, j->dtype) && load_part(&j->v, v, j->dtype);
}

/* What the forward gave, and its gradient. */
static bool check_saved(const job *j, const tp_tensor *query, const tp_tensor *grad, const tp_tensor *output,
                        const tp_tensor *lse) {
    int64_t shape[TP_MAX_DIMS];
    for (int i = 0; i < query->ndim; i++) shape[i] = query->shape[i];
    shape[query->ndim - 1] = j->value_width;
    tp_ints expected = tp_ints_view(shape, query->ndim);
    return tpi_check_shape(grad, "grad_out", expected) && tpi_check_shape(output, "output", expected) &&
           tpi_check_numel(lse, "logsumexp", j->heads * j->queries);
}

static void finish(job *j) {
    drop(&j->q);
    drop(&j->k);
    drop(&j->v);
    drop(&j->out);
    drop(&j->grad);
    drop(&j->dq);
    drop(&j->dk);
    drop(&j->dv);
    tpi_release(j->mask);
}

/* query, key, value: the same batch dims; mask: bool (true: attend) or added to the scores; broadcasts to them. */
bool tpi_native_attention_forward(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask, bool is_causal,
                                  double scale, bool sums, tp_tensor **out) {
    (void)sums; /* they cost next to nothing here */
    job j = {0};
    bool ok = begin(&j, query, key, value, mask, is_causal, scale) &&
              make(&j.out, query, query->shape[query->ndim - 2], value->shape[value->ndim - 1], j.dtype);
    tp_tensor *lse = ok ? tpi_empty(tp_ints_view(query->shape, query->ndim - 1), j.dtype, tpi_device(query)) : NULL;
    ok = lse;
    if (ok && j.heads * j.queries > 0) {
        j.lse = lse->data;
        tpi_parallel_for(j.heads * j.query_blocks, j.heads * j.queries * j.keys * j.width > 32768, forward_task, &j);
        ok = !atomic_load(&j.failed);
        if (!ok) tpi_fail_memory(QUERIES * KEYS * sizeof(double), "attention scores");
    }
    if (ok) {
        out[0] = tpi_from_compute(j.out.t, (tp_dtype)query->dtype);
        j.out.t = NULL;
        ok = out[0];
    }
    finish(&j);
    if (ok) {
        out[1] = lse;
        return true;
    }
    tpi_release(lse);
    return false;
}

bool tpi_native_attention_backward(tp_tensor *grad, tp_tensor *query, tp_tensor *key, tp_tensor *value,
                                   tp_tensor *output, tp_tensor *lse, tp_tensor *mask, bool is_causal, double scale,
                                   tp_tensor **out) {
    job j = {0};
    bool ok = begin(&j, query, key, value, mask, is_causal, scale) && check_saved(&j, query, grad, output, lse) &&
              load_part(&j.grad, grad, j.dtype) && load_part(&j.out, output, j.dtype) &&
              make(&j.dq, query, j.queries, j.width, j.dtype) && make(&j.dk, key, j.keys, j.width, j.dtype) &&
              make(&j.dv, value, j.keys, j.value_width, j.dtype);
    tp_tensor *l = ok ? tpi_to_compute(lse, j.dtype) : NULL;
    ok = l;
    if (ok && j.heads > 0) {
        j.lse = l->data;
        tpi_parallel_for(j.heads, j.heads * j.queries * j.keys * j.width > 32768, backward_task, &j);
        ok = !atomic_load(&j.failed);
        if (!ok) tpi_fail_memory(QUERIES * KEYS * sizeof(double), "attention scores");
    }
    if (ok) {
        out[0] = tpi_from_compute(j.dq.t, (tp_dtype)query->dtype);
        out[1] = tpi_from_compute(j.dk.t, (tp_dtype)key->dtype);
        out[2] = tpi_from_compute(j.dv.t, (tp_dtype)value->dtype);
        j.dq.t = j.dk.t = j.dv.t = NULL;
        ok = out[0] && out[1] && out[2];
        if (!ok) {
            tpi_release(out[0]);
            tpi_release(out[1]);
            tpi_release(out[2]);
        }
    }
    tpi_release(l);
    finish(&j);
    return ok;
}
