/* Duplicates on GPUs: elements are sorted, slices merged in order (ops/sort/unique_gpu_kernel.h); then heads of groups
 * of equals are found, counted and taken. The host waits once, for the number of groups, which the results' shapes
 * depend on. */
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"

static const tpi_gpu_site merge_site = {"unique_gpu_kernel.h", "merge"}, heads_site = {"unique_gpu_kernel.h", "heads"};

static tpi_gpu_function *kernel_of(const tpi_gpu_site *site, const tp_tensor *x, bool ordered) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("FLOATING", tp_dtype_is_floating((tp_dtype)x->dtype)),
                                      TPI_DEFINE("ORDERED", ordered), TPI_DEFINE_DTYPE("X", x->dtype)};
    return tpi_gpu_site_kernel(tpi_device(x), site, false, 3, defines);
}

/* Which of n rows of x, in their order (NULL: as they lie), begin a new group? bool. */
static tp_tensor *heads_of(tp_tensor *x, tp_tensor *order, int64_t n) {
    int64_t width = x->numel / n;
    tp_tensor *out = tpi_empty(TP_INTS(n), TP_BOOL, tpi_device(x));
    tpi_gpu_function *kernel = out ? kernel_of(&heads_site, x, order != NULL) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(tpi_gpu_data(order)), TPI_GPU_PTR(x->data),
                                TPI_GPU_VAL(n), TPI_GPU_VAL(width)};
    return tpi_gpu_launch_each(tpi_device(x), kernel, n, 5, args) ? out : tpi_release_then(out, NULL);
}

/* The numbers of n rows in their order, put into `temps`. */
static tp_tensor *order_of(tp_tensor *x, int64_t n, tpi_temporaries *temps) {
    int64_t width = x->numel / n;
    tp_device device = tpi_device(x);
    tp_tensor *now = tpi_put(temps, tpo_arange(tp_int(n), TP_INT64, device)),
              *next = now ? tpi_put(temps, tpi_empty(TP_INTS(n), TP_INT64, device)) : NULL;
    tpi_gpu_function *kernel = next ? kernel_of(&merge_site, x, true) : NULL;
    bool ok = kernel;
    for (int64_t run = 1; run < n && ok; run *= 2) {
        const tpi_gpu_arg args[] = {TPI_GPU_PTR(next->data), TPI_GPU_PTR(now->data), TPI_GPU_PTR(x->data),
                                    TPI_GPU_VAL(n),          TPI_GPU_VAL(width),     TPI_GPU_VAL(run)};
        ok = tpi_gpu_launch_each(device, kernel, n, 6, args);
        tp_tensor *t = now;
        now = next;
        next = t;
    }
    return ok ? now : NULL;
}

/* groups[order[i]] = how many heads there are up to i, less one; of the shape, owned. */
static tp_tensor *inverse_of(tp_tensor *heads, tp_tensor *order, tp_ints shape) {
    int64_t one = 1;
    tpi_temporaries temps = {0};
    tp_tensor *counted = tpi_put(&temps, tpo_cumsum(heads, 0, TP_INT64)),
              *group = tpi_put(&temps, tpo_sub(TP_OPERAND(counted), TP_OPERAND(1), tp_int(1)));
    tp_tensor *out = group ? tpi_empty(shape, TP_INT64, tpi_device(heads)) : NULL,
              *line = out ? tpi_put(&temps, tpi_alias(out, 1, &out->numel, &one, 0)) : NULL;
    bool ok = line && (order ? tpo_scatter_(line, 0, order, group) != NULL : tpi_copy_data(line, group));
    tpi_release_temporaries(&temps, NULL);
    return ok ? out : tpi_release_then(out, NULL);
}

typedef struct wish {
    bool inverse, counts;
    tp_ints shape; /* of the inverse */
} wish;

/* The three results of n rows (or elements) of x, dim 0 first; order: NULL as they lie. What was not asked for is
 * empty. */
static bool set_results(tp_tensor *x, tp_tensor *order, int64_t n, wish w, tp_tensor **out) {
    tpi_temporaries temps = {0};
    tp_device device = tpi_device(x);
    tp_tensor *heads = tpi_put(&temps, heads_of(x, order, n)),
              *found = heads ? tpi_put(&temps, tpo_nonzero(heads)) : NULL;
    tp_tensor *starts = found ? tpi_put(&temps, tpo_reshape(found, TP_INTS(-1))) : NULL,
              *rows = starts && order ? tpi_put(&temps, tpo_index_select(order, 0, starts)) : starts;
    out[0] = rows ? tpo_index_select(x, 0, rows) : NULL;
    out[1] = !out[0] ? NULL : w.inverse ? inverse_of(heads, order, w.shape) : tpi_empty(TP_INTS(0), TP_INT64, device);
    tp_tensor *end = out[1] && w.counts ? tpi_put(&temps, tpo_full(TP_INTS(1), tp_int(n), TP_INT64, device)) : NULL;
    out[2] = !out[1] ? NULL : w.counts ? tpo_diff(starts, 1, 0, NULL, end) : tpi_empty(TP_INTS(0), TP_INT64, device);
    tpi_release_temporaries(&temps, NULL);
    if (out[2]) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    out[0] = out[1] = NULL;
    return false;
}

static bool served(const tp_tensor *t) {
    return t->numel && !tp_dtype_is_complex((tp_dtype)t->dtype) && tpi_gpu_has_dtype(t);
}

static bool unique_elements(tp_tensor *self, bool sorted, bool inverse, bool counts, tp_tensor **out) {
    if (!served(self)) return false;
    tpi_temporaries temps = {0};
    tp_tensor *alone = tpi_put(&temps, tpi_detached(self)), *line = tpi_put(&temps, tpo_reshape(alone, TP_INTS(-1))),
              *x = line ? tpi_put(&temps, tpi_contiguous_data(line)) : NULL;
    tp_tensor *both[2] = {NULL, NULL}; /* elements and numbers in order */
    bool ok = x && (!sorted || tpo_sort(x, 0, false, true, both)) &&
              set_results(x, both[1], self->numel, (wish){inverse, counts, tpi_shape(self)}, out);
    tpi_release(both[0]);
    tpi_release(both[1]);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

static bool unique_slices(tp_tensor *self, int64_t dim, bool sorted, bool inverse, bool counts, tp_tensor **out) {
    int d = TPI_DIM(self, dim);
    if (d < 0 || !self->ndim || !served(self)) {
        tp_error_clear();
        return false;
    }
    tpi_temporaries temps = {0};
    int64_t n = self->shape[d];
    tp_tensor *alone = tpi_put(&temps, tpi_detached(self)),
              *view = tpi_put(&temps, tpo_movedim(alone, TP_INTS(d), TP_INTS(0))),
              *x = view ? tpi_put(&temps, tpi_contiguous_data(view)) : NULL;
    tp_tensor *order = x && sorted ? order_of(x, n, &temps) : NULL;
    bool ok = x && (order || !sorted) && set_results(x, order, n, (wish){inverse, counts, tp_ints_view(&n, 1)}, out);
    if (ok && d != 0) { /* the dim goes back to its place */
        tp_tensor *front = tpi_put(&temps, out[0]), *back = tpi_put(&temps, tpo_movedim(front, TP_INTS(0), TP_INTS(d)));
        out[0] = back ? tpi_empty(tpi_shape(back), (tp_dtype)back->dtype, tpi_device(back)) : NULL;
        ok = out[0] && tpi_copy_data(out[0], back);
        for (int i = 0; !ok && i < 3; i++) {
            tpi_release(out[i]);
            out[i] = NULL;
        }
    }
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

tpi_served tpi_gpu_unique(tp_tensor *self, bool sorted, bool return_inverse, bool return_counts, int64_t dim,
                          tp_tensor **out) {
    (void)sorted; /* sorting is how duplicates are found */
    return tpi_serve_if(dim == TP_NONE ? unique_elements(self, true, return_inverse, return_counts, out)
                                       : unique_slices(self, dim, true, return_inverse, return_counts, out));
}

tpi_served tpi_gpu_unique_dim(tp_tensor *self, int64_t dim, bool sorted, bool return_inverse, bool return_counts,
                              tp_tensor **out) {
    (void)sorted;
    return tpi_serve_if(unique_slices(self, dim, true, return_inverse, return_counts, out));
}

tpi_served tpi_gpu_unique_consecutive(tp_tensor *self, bool return_inverse, bool return_counts, int64_t dim,
                                      tp_tensor **out) {
    return tpi_serve_if(dim == TP_NONE ? unique_elements(self, false, return_inverse, return_counts, out)
                                       : unique_slices(self, dim, false, return_inverse, return_counts, out));
}
