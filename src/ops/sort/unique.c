/* Duplicates: unique over all elements, over slices of a dim, and over neighbours. NaN is never equal to NaN. */
#include "ops/native.h"
#include "ops/sort/order.h"

/* What a call makes: a group per distinct element, in the order they are given out. */
typedef struct groups {
    int64_t n;      /* elements (or slices) */
    int64_t *group; /* per element: its group */
    int64_t *first; /* per group: an element of it */
    int64_t *count; /* per group */
    int64_t ngroups;
} groups;

static bool groups_new(groups *g, int64_t n) {
    *g = (groups){.n = n};
    g->group = tpi_malloc(sizeof(int64_t) * (size_t)(3 * n + 1));
    if (!g->group) return false;
    g->first = g->group + n;
    g->count = g->first + n;
    return true;
}

/* Element `at` comes next in order; `same` as the one before it? */
static void groups_add(groups *g, int64_t at, bool same) {
    if (!same) {
        g->first[g->ngroups] = at;
        g->count[g->ngroups++] = 0;
    }
    g->count[g->ngroups - 1]++;
    g->group[at] = g->ngroups - 1;
}

static tp_tensor *longs(const int64_t *v, tp_ints shape, tp_device device) {
    tp_tensor *t = tpi_empty(shape, TP_INT64, device);
    if (t && t->numel) memcpy(t->data, v, sizeof(int64_t) * (size_t)t->numel);
    return t;
}

/* The three results: what was not asked for is empty. `rows` holds the elements (or slices), `slice` bytes each. */
static bool set_results(const groups *g, tp_tensor *rows, size_t slice, tp_ints shape, tp_ints inverse_shape,
                        bool inverse, bool counts, tp_tensor **out) {
    int64_t none = 0;
    tp_device device = tpi_device(rows);
    out[0] = tpi_empty(shape, rows->dtype, device);
    out[1] = longs(g->group, inverse ? inverse_shape : (tp_ints){&none, 1}, device);
    out[2] = longs(g->count, counts ? (tp_ints){&g->ngroups, 1} : (tp_ints){&none, 1}, device);
    if (!out[0] || !out[1] || !out[2]) {
        for (int i = 0; i < 3; i++) {
            tpi_release(out[i]);
            out[i] = NULL;
        }
        return false;
    }
    for (int64_t i = 0; i < g->ngroups; i++)
        memcpy(out[0]->data + (size_t)i * slice, rows->data + (size_t)g->first[i] * slice, slice);
    return true;
}

/* By sorting: the order brings equal elements together. */
static bool group_by_order(groups *g, const tp_tensor *flat) {
    tpi_row_order order = {0};
    if (!tpi_row_order_new(&order, g->n, flat->dtype)) return false;
    tpi_row_order_load(&order, &(tpi_row){flat->data, (int64_t)tpi_itemsize(flat), (tp_dtype)flat->dtype, false});
    tpi_row_order_sort(&order);
    for (int64_t i = 0; i < g->n; i++) {
        uint64_t key = tpi_row_key(&order, i);
        groups_add(g, tpi_row_at(&order, i),
                   i > 0 && key == tpi_row_key(&order, i - 1) && !tpi_key_is_nan(key, flat->dtype));
    }
    tpi_row_order_free(&order);
    return true;
}

/* By counting, for integers whose values lie close together: a cell for each value between the least and the largest.
 * *done stays false where they do not. */
static bool group_by_count(groups *g, const tp_tensor *flat, bool inverse, bool *done) {
    typedef struct cell {
        int64_t count, element; /* element: one that has the value; then the value's group */
    } cell;
    enum { SPARSE = 4, FEW = 256 }; /* cells for each element, and beside them, that are worth clearing */
    if (!tp_dtype_is_integral((tp_dtype)flat->dtype) || g->n == 0) return true;
    uint64_t *keys = tpi_malloc(sizeof *keys * (size_t)g->n), least = UINT64_MAX, largest = 0;
    if (!keys) return false;
    tpi_keys(keys, flat->data, (int64_t)tpi_itemsize(flat), g->n, flat->dtype, false);
    for (int64_t i = 0; i < g->n; i++) {
        least = keys[i] < least ? keys[i] : least;
        largest = keys[i] > largest ? keys[i] : largest;
    }
    const bool close = (largest - least) / SPARSE <= (uint64_t)g->n + FEW;
    cell *cells = close ? tpi_malloc(sizeof *cells * (size_t)(largest - least + 1)) : NULL;
    for (uint64_t v = 0; cells && v <= largest - least; v++) cells[v] = (cell){0, 0};
    for (int64_t i = 0; cells && i < g->n; i++) {
        cell *c = &cells[keys[i] - least];
        c->count++;
        c->element = i;
    }
    for (uint64_t v = 0; cells && v <= largest - least; v++)
        if (cells[v].count) {
            g->first[g->ngroups] = cells[v].element;
            g->count[g->ngroups] = cells[v].count;
            cells[v].element = g->ngroups++;
        }
    for (int64_t i = 0; cells && inverse && i < g->n; i++) g->group[i] = cells[keys[i] - least].element;
    *done = cells != NULL;
    tpi_mfree(cells);
    tpi_mfree(keys);
    return *done || !close;
}

static bool unique_elements(tp_tensor *self, bool return_inverse, bool return_counts, tp_tensor **out) {
    if (!tpi_check_not_complex(self, "self")) return false;
    tp_tensor *flat = tpi_contiguous_data(self);
    groups g = {0};
    bool done = false, ok = flat && groups_new(&g, self->numel) && group_by_count(&g, flat, return_inverse, &done);
    if (ok && !done) ok = group_by_order(&g, flat);
    if (ok)
        ok = set_results(&g, flat, tpi_itemsize(flat), (tp_ints){&g.ngroups, 1}, tpi_shape(self), return_inverse,
                         return_counts, out);
    tpi_mfree(g.group);
    tpi_release(flat);
    return ok;
}

/* ---- Slices of a dim ---- */
typedef struct slices {
    tp_tensor *rows;  /* owned: contiguous, the dim first */
    int64_t n, width; /* slices, and elements in each */
    uint64_t *keys;   /* n * width */
    int64_t shape[TP_MAX_DIMS];
    int dim;
} slices;

static bool slices_new(slices *s, tp_tensor *self, int64_t dim) {
    *s = (slices){.dim = TPI_DIM(self, dim)};
    if (s->dim < 0 || !tpi_check_not_complex(self, "self")) return false;
    if (self->ndim == 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'dim': a zero-dimensional tensor has no dimension");
    int64_t strides[TP_MAX_DIMS];
    s->shape[0] = self->shape[s->dim];
    strides[0] = self->strides[s->dim];
    for (int d = 0, at = 1; d < self->ndim; d++)
        if (d != s->dim) {
            s->shape[at] = self->shape[d];
            strides[at++] = self->strides[d];
        }
    tp_tensor *view = tpi_alias(self, self->ndim, s->shape, strides, tpi_offset(self));
    s->rows = view ? tpi_contiguous_data(view) : NULL;
    tpi_release(view);
    if (!s->rows) return false;
    s->n = s->shape[0];
    s->width = s->n ? s->rows->numel / s->n : 0;
    s->keys = tpi_malloc(sizeof(uint64_t) * (size_t)(s->rows->numel + 1));
    if (s->keys) tpi_keys(s->keys, s->rows->data, (int64_t)tpi_itemsize(self), s->rows->numel, self->dtype, false);
    return s->keys != NULL;
}

static void slices_free(slices *s) {
    tpi_release(s->rows);
    tpi_mfree(s->keys);
}

static int compare(const slices *s, int64_t a, int64_t b) {
    const uint64_t *x = s->keys + a * s->width, *y = s->keys + b * s->width;
    for (int64_t i = 0; i < s->width; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static bool same_slice(const slices *s, int64_t a, int64_t b) {
    if (compare(s, a, b) != 0) return false;
    for (int64_t i = 0; i < s->width; i++)
        if (tpi_key_is_nan(s->keys[a * s->width + i], s->rows->dtype)) return false;
    return true;
}

/* Bottom-up merge sort of slice numbers: stable, and no recursion. */
static int64_t *sort_slices(const slices *s, int64_t *order, int64_t *scratch) {
    for (int64_t i = 0; i < s->n; i++) order[i] = i;
    for (int64_t run = 1; run < s->n; run *= 2) {
        for (int64_t start = 0; start < s->n; start += 2 * run) {
            int64_t middle = start + run < s->n ? start + run : s->n, end = middle + run < s->n ? middle + run : s->n;
            for (int64_t a = start, b = middle, to = start; to < end; to++)
                scratch[to] = b >= end || (a < middle && compare(s, order[a], order[b]) <= 0) ? order[a++] : order[b++];
        }
        int64_t *t = order;
        order = scratch;
        scratch = t;
    }
    return order;
}

/* The unique slices with the dim back in its place. */
static bool set_slice_results(const slices *s, const groups *g, tp_tensor *self, bool inverse, bool counts,
                              tp_tensor **out) {
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS], final[TP_MAX_DIMS], n = s->n;
    memcpy(shape, s->shape, sizeof(int64_t) * self->ndim);
    shape[0] = g->ngroups;
    if (!set_results(g, s->rows, (size_t)s->width * tpi_itemsize(self), (tp_ints){shape, self->ndim}, (tp_ints){&n, 1},
                     inverse, counts, out))
        return false;
    for (int d = 0, from = 1; d < self->ndim; d++) {
        int source = d == s->dim ? 0 : from++;
        final[d] = shape[source];
        strides[d] = out[0]->strides[source];
    }
    tp_tensor *view = tpi_alias(out[0], self->ndim, final, strides, 0),
              *whole = view ? tpi_contiguous_data(view) : NULL;
    if (whole == view && whole) { /* nothing to move: still a tensor of its own */
        tp_tensor *own = tpi_detached(whole);
        whole = tpi_release_then(whole, own);
    }
    tpi_release(view);
    tpi_release(out[0]);
    out[0] = whole;
    if (whole) return true;
    for (int i = 1; i < 3; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return false;
}

static bool unique_slices(tp_tensor *self, int64_t dim, bool by_order, bool inverse, bool counts, tp_tensor **out) {
    slices s;
    groups g = {0};
    int64_t *order = NULL;
    bool ok = slices_new(&s, self, dim) && groups_new(&g, s.n);
    if (ok && by_order) ok = (order = tpi_malloc(sizeof(int64_t) * (size_t)(2 * s.n + 1))) != NULL;
    if (ok) {
        const int64_t *sorted = by_order ? sort_slices(&s, order, order + s.n) : NULL;
        for (int64_t i = 0; i < s.n; i++) {
            int64_t at = sorted ? sorted[i] : i;
            groups_add(&g, at, i > 0 && same_slice(&s, sorted ? sorted[i - 1] : i - 1, at));
        }
        ok = set_slice_results(&s, &g, self, inverse, counts, out);
    }
    tpi_mfree(order);
    tpi_mfree(g.group);
    slices_free(&s);
    return ok;
}

bool tpi_native_unique(tp_tensor *self, bool sorted, bool return_inverse, bool return_counts, int64_t dim,
                       tp_tensor **out) {
    (void)sorted; /* sorting is how duplicates are found */
    return dim == TP_NONE ? unique_elements(self, return_inverse, return_counts, out)
                          : unique_slices(self, dim, true, return_inverse, return_counts, out);
}

bool tpi_native_unique_dim(tp_tensor *self, int64_t dim, bool sorted, bool return_inverse, bool return_counts,
                           tp_tensor **out) {
    (void)sorted;
    return unique_slices(self, dim, true, return_inverse, return_counts, out);
}

bool tpi_native_unique_consecutive(tp_tensor *self, bool return_inverse, bool return_counts, int64_t dim,
                                   tp_tensor **out) {
    if (dim != TP_NONE) return unique_slices(self, dim, false, return_inverse, return_counts, out);
    if (!tpi_check_not_complex(self, "self")) return false;
    tp_tensor *flat = tpi_contiguous_data(self);
    uint64_t *keys = flat ? tpi_malloc(sizeof(uint64_t) * (size_t)(flat->numel + 1)) : NULL;
    groups g = {0};
    bool ok = keys && groups_new(&g, flat->numel);
    if (ok) {
        tpi_keys(keys, flat->data, (int64_t)tpi_itemsize(flat), flat->numel, flat->dtype, false);
        for (int64_t i = 0; i < g.n; i++)
            groups_add(&g, i, i > 0 && keys[i] == keys[i - 1] && !tpi_key_is_nan(keys[i], flat->dtype));
        ok = set_results(&g, flat, tpi_itemsize(flat), (tp_ints){&g.ngroups, 1}, tpi_shape(self), return_inverse,
                         return_counts, out);
    }
    tpi_mfree(g.group);
    tpi_mfree(keys);
    tpi_release(flat);
    return ok;
}
