/* sort and what takes some of the sorted elements: topk, kthvalue, medians, mode. Rows go through keys (order.h), so
 * every dtype and both directions share one stable sort; NaN counts as the largest. */
#include "ops/native.h"
#include "ops/sort/sorted_rows.h"
#include "ops/sort/ties.h"

/* ---- sort ---- */
typedef struct write_job {
    const tpi_row_order *order;
    int64_t *at;
    int64_t n;
} write_job;

static void write_chunk(int64_t chunk, void *context) {
    const write_job *j = context;
    int64_t i = chunk * TPI_LONG_ROW, end = i + TPI_LONG_ROW < j->n ? i + TPI_LONG_ROW : j->n;
    for (; i < end; i++) j->at[i] = tpi_row_at(j->order, i);
}

static void write_front(const tpi_rows *x, const char *row, const tpi_row_order *order, char *out, int64_t *at) {
    write_job j = {.order = order, .at = at, .n = x->k};
    int64_t chunks = tpi_ceil_div(x->k, TPI_LONG_ROW);
    tpi_parallel_for(chunks, chunks > 1, write_chunk, &j);
    tpi_row_pick(out, row, at, x->k, tpi_itemsize(x->in));
}

static tpi_row row_of(const tpi_rows *x, const char *row, bool descending) {
    return (tpi_row){row, (int64_t)tpi_itemsize(x->in), (tp_dtype)x->in->dtype, descending};
}

static void sort_row(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                     const void *context) {
    const tpi_row from = row_of(x, row, *(const bool *)context);
    tpi_row_order_load(order, &from);
    tpi_row_order_sort(order);
    write_front(x, row, order, out, at);
}

bool tpi_native_sort(tp_tensor *self, int64_t dim, bool descending, bool stable, tp_tensor **out) {
    (void)stable; /* always */
    tpi_rows x;
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    bool ok = tpi_rows_start(&x, self, d, self->ndim ? self->shape[d] : 1) && tpi_rows_run(&x, sort_row, &descending) &&
              tpi_rows_finish(&x, self, true, out);
    tpi_rows_free(&x);
    return ok;
}

/* ---- topk ---- */
/* Do rows nearly always have equal elements? */
static bool has_few_values(const tpi_rows *x) { return tpi_itemsize(x->in) == 1; }

/* A selection by radix may have to be thrown away. Is it likely to be, or no quicker than the one that never is? */
static bool takes_ties_at_once(const tpi_rows *x) {
    enum { SHORT_LIST = 32, MOST = 1024, PART = 5 }; /* a short list of the best so far is the quickest way there is */
    if (has_few_values(x) || tpi_ties_are_few(x->n, x->k)) return true;
    if (x->k <= SHORT_LIST) return false;
    return tpi_itemsize(x->in) == 2 || (x->k <= MOST && x->k < x->n / PART);
}

/* By radix, if it tells which elements come first: false where some of the first are equal. */
static bool topk_by_radix(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                          const tpi_row *from) {
    const int64_t front = x->k < x->n ? x->k + 1 : x->k;
    tpi_row_order_load(order, from);
    tpi_row_order_select(order, front);
    for (int64_t i = 1; i < front; i++)
        if (tpi_row_key(order, i) == tpi_row_key(order, i - 1)) return false;
    write_front(x, row, order, out, at);
    return true;
}

static void topk_row(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                     const void *context) {
    const tpi_row from = row_of(x, row, *(const bool *)context);
    if (!takes_ties_at_once(x) && topk_by_radix(x, row, order, out, at, &from)) return;
    tpi_ties_smallest(order, x->k, &from);
    write_front(x, row, order, out, at);
}

bool tpi_native_topk(tp_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted, tp_tensor **out) {
    (void)sorted; /* sorted costs little and serves both */
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    int64_t n = self->ndim ? self->shape[d] : 1;
    if (k < 0 || k > n)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'k': selected index k out of range: expected 0 to %lld, the size of dimension %d, got %lld",
            (long long)n, d, (long long)k);
    tpi_rows x;
    bool ok = tpi_rows_start(&x, self, d, k) && (k == 0 || tpi_rows_run(&x, topk_row, &largest)) &&
              tpi_rows_finish(&x, self, true, out);
    tpi_rows_free(&x);
    return ok;
}

/* ---- One element per row ---- */
static void write_one(const tpi_rows *x, const char *row, char *out, int64_t *at, int64_t which) {
    size_t size = tpi_itemsize(x->in);
    *at = which;
    memcpy(out, row + (size_t)which * size, size);
}

/* Where the k-th smallest stands, from 0, if no other element is equal to it; otherwise -1. */
static int64_t kth_by_radix(tpi_row_order *order, int64_t k, const tpi_row *from) {
    uint64_t key;
    tpi_row_order_load(order, from);
    const int64_t found = tpi_row_order_kth(order, k);
    tpi_keys(&key, from->from + found * from->stride, from->stride, 1, from->dtype, false);
    tpi_row_order_load(order, from);
    return tpi_row_order_count(order, key) > 1 ? -1 : found;
}

static void kth_row(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                    const void *context) {
    enum { SHORT_ROW = 24 }; /* counting 256 digits takes longer than selecting from fewer */
    const int64_t k = *(const int64_t *)context - 1;
    const tpi_row from = row_of(x, row, false);
    const int64_t found = has_few_values(x) || x->n < SHORT_ROW ? -1 : kth_by_radix(order, k, &from);
    write_one(x, row, out, at, found >= 0 ? found : tpi_ties_kth(order, k, &from));
}

/* How many of a loaded row's elements are NaN, and the first of them. */
static int64_t count_nan(const tpi_rows *x, const tpi_row_order *order, int64_t *first) {
    int64_t count = tp_dtype_is_floating(x->in->dtype)
                        ? tpi_row_order_count(order, tpi_key_bits(x->in->dtype) == 32 ? UINT32_MAX : UINT64_MAX)
                        : 0;
    *first = -1;
    for (int64_t i = 0; count && *first < 0; i++)
        if (tpi_key_is_nan(tpi_row_key(order, i), x->in->dtype)) *first = i;
    return count;
}

static void median_row(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                       const void *context) {
    bool ignore_nan = *(const bool *)context;
    int64_t first, n = x->n;
    const tpi_row from = row_of(x, row, false);
    tpi_row_order_load(order, &from);
    int64_t nans = count_nan(x, order, &first);
    if (nans && (!ignore_nan || nans == n)) {
        write_one(x, row, out, at, first);
        return;
    }
    write_one(x, row, out, at, tpi_row_order_kth(order, (n - nans - 1) / 2));
}

/* The smallest among the most frequent; the last place it stands at. */
static void mode_row(const tpi_rows *x, const char *row, tpi_row_order *order, char *out, int64_t *at,
                     const void *context) {
    (void)context;
    const tpi_row from = row_of(x, row, false);
    tpi_row_order_load(order, &from);
    tpi_row_order_sort(order);
    int64_t best = 0, most = 0;
    for (int64_t i = 0, run = 0; i < x->n; i++) {
        run = i > 0 && tpi_row_key(order, i) == tpi_row_key(order, i - 1) ? run + 1 : 1;
        if (run > most) {
            most = run;
            best = i;
        }
    }
    write_one(x, row, out, at, tpi_row_at(order, best));
}

static bool one_per_row(tp_tensor *self, int64_t dim, bool keepdim, tpi_row_fn fn, const void *context,
                        tp_tensor **out) {
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    if (self->ndim && self->shape[d] == 0)
        return tpi_refuse(TP_ERR_INDEX,
                          "argument 'dim': expected a dimension with elements, but dimension %d of shape %s is empty",
                          d, tpi_shape_text(tpi_shape(self)));
    tpi_rows x;
    bool ok =
        tpi_rows_start(&x, self, d, 1) && tpi_rows_run(&x, fn, context) && tpi_rows_finish(&x, self, keepdim, out);
    tpi_rows_free(&x);
    return ok;
}

bool tpi_native_kthvalue(tp_tensor *self, int64_t k, int64_t dim, bool keepdim, tp_tensor **out) {
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    int64_t n = self->ndim ? self->shape[d] : 1;
    if (k < 1 || k > n)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'k': selected number k out of range for dimension %d: expected 1 to %lld, got %lld",
                          d, (long long)n, (long long)k);
    return one_per_row(self, d, keepdim, kth_row, &k, out);
}

bool tpi_native_median_dim(tp_tensor *self, int64_t dim, bool keepdim, tp_tensor **out) {
    bool ignore_nan = false;
    return one_per_row(self, dim, keepdim, median_row, &ignore_nan, out);
}

bool tpi_native_nanmedian_dim(tp_tensor *self, int64_t dim, bool keepdim, tp_tensor **out) {
    bool ignore_nan = true;
    return one_per_row(self, dim, keepdim, median_row, &ignore_nan, out);
}

bool tpi_native_mode(tp_tensor *self, int64_t dim, bool keepdim, tp_tensor **out) {
    return one_per_row(self, dim, keepdim, mode_row, NULL, out);
}

/* The median of all elements; of none, NaN. */
static tp_tensor *median_of_all(tp_tensor *self, bool ignore_nan) {
    tp_tensor *whole = tpi_contiguous_data(self),
              *line = whole ? tpi_alias(whole, 1, &whole->numel, TP_INTS(1).v, tpi_offset(whole)) : NULL,
              *out[2] = {NULL, NULL};
    tpi_release(whole);
    if (!line) return NULL;
    if (line->numel == 0) {
        out[0] = tpi_empty((tp_ints){NULL, 0}, self->dtype, tpi_device(self));
        if (out[0] && !tpi_fill_data(out[0], tp_float(__builtin_nan("")))) out[0] = tpi_release_then(out[0], NULL);
    } else if (one_per_row(line, 0, false, median_row, &ignore_nan, out))
        tpi_release(out[1]);
    return tpi_release_then(line, out[0]);
}

tp_tensor *tpi_native_median(tp_tensor *self) { return median_of_all(self, false); }
tp_tensor *tpi_native_nanmedian(tp_tensor *self) { return median_of_all(self, true); }
