/* Looking values up in sorted ones on GPUs: searchsorted, bucketize, isin. See ops/sort/search_gpu_kernel.h. */
#include "ops/native_gpu.h"
#include "ops/sort/search.h"
#include "tpi_ops.h"

static const tpi_gpu_site search_site = {"search_gpu_kernel.h", "search"};

/* t as contiguous elements of the dtype: owned. */
static tp_tensor *plain(tp_tensor *t, tp_dtype dtype) {
    tp_tensor *same = tpi_as_dtype_data(t, dtype);
    return same ? tpi_release_then(same, tpi_contiguous_data(same)) : NULL;
}

typedef struct search {
    bool right, found, invert; /* found: is it there, instead of where */
    tp_tensor *sorter;
} search;

/* rows: sorted along the last dim, in the dtype to compare in, contiguous. */
static tp_tensor *looked_up(tp_tensor *rows, tp_tensor *self, tp_dtype result, search s) {
    tp_dtype dtype = (tp_dtype)rows->dtype;
    tp_tensor *values = plain(self, dtype), *sorter = s.sorter ? plain(s.sorter, TP_INT64) : NULL;
    tp_tensor *out = values && (sorter || !s.sorter) ? tpi_empty(tpi_shape(self), result, tpi_device(self)) : NULL;
    int64_t n = self->numel, size = rows->ndim ? rows->shape[rows->ndim - 1] : 1,
            per_row = self->ndim && n ? self->shape[self->ndim - 1] : 1;
    if (out && n) {
        const tpi_gpu_define defines[] = {TPI_DEFINE("FLOATING", tp_dtype_is_floating(dtype)),
                                          TPI_DEFINE("ONE_ROW", rows->ndim <= 1),
                                          TPI_DEFINE("SORTER", sorter != NULL),
                                          TPI_DEFINE("RIGHT", s.right),
                                          TPI_DEFINE("FOUND", s.found),
                                          TPI_DEFINE("INVERT", s.invert),
                                          TPI_DEFINE_DTYPE("X", dtype),
                                          TPI_DEFINE_DTYPE("Y", result)};
        tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(self), &search_site, false, 8, defines);
        const tpi_gpu_arg args[] = {
            TPI_GPU_PTR(out->data),    TPI_GPU_PTR(rows->data), TPI_GPU_PTR(tpi_gpu_data(sorter)),
            TPI_GPU_PTR(values->data), TPI_GPU_VAL(n),          TPI_GPU_VAL(size),
            TPI_GPU_VAL(per_row)};
        if (!tpi_gpu_launch_each(tpi_device(self), kernel, n, 7, args)) out = tpi_release_then(out, NULL);
    }
    tpi_release(values);
    tpi_release(sorter);
    return out;
}

static bool comparable(const tp_tensor *a, const tp_tensor *b) {
    return !tp_dtype_is_complex((tp_dtype)a->dtype) && !tp_dtype_is_complex((tp_dtype)b->dtype) &&
           tpi_gpu_has_dtype(a) && tpi_gpu_has_dtype(b);
}

tpi_served tpi_gpu_searchsorted(tp_tensor *sequence, tp_tensor *self, bool out_int32, bool right, const char *side,
                                tp_tensor *sorter, tp_tensor **result) {
    bool left = side && !strcmp(side, "left"), known = !side || left || !strcmp(side, "right");
    if (!known || (left && right) || !comparable(sequence, self) || !tpi_search_fits(sequence, self))
        return TPI_DECLINED;
    if (sorter && (sorter->dtype != TP_INT64 || !tpi_same_shape(sorter, sequence))) return TPI_DECLINED;
    tp_tensor *rows = plain(sequence, tpi_search_dtype(sequence, self));
    return tpi_serve(
        tpi_release_then(rows, rows ? looked_up(rows, self, out_int32 ? TP_INT32 : TP_INT64,
                                                (search){.right = right || (side && !left), .sorter = sorter})
                                    : NULL),
        result);
}

tpi_served tpi_gpu_bucketize(tp_tensor *self, tp_tensor *boundaries, bool out_int32, bool right, tp_tensor **result) {
    return boundaries->ndim == 1 ? tpi_gpu_searchsorted(boundaries, self, out_int32, right, NULL, NULL, result)
                                 : TPI_DECLINED;
}

tpi_served tpi_gpu_isin(tp_tensor *elements, tp_tensor *test_elements, bool assume_unique, bool invert,
                        tp_tensor **result) {
    (void)assume_unique;
    if (!comparable(elements, test_elements)) return TPI_DECLINED;
    int64_t one = 1;
    tp_tensor *known = plain(test_elements, tpi_search_dtype(elements, test_elements)),
              *line = known ? tpi_alias(known, 1, &known->numel, &one, tpi_offset(known)) : NULL;
    tp_tensor *alone = line ? tpi_detached(line) : NULL, *sorted[2] = {NULL, NULL}, *out = NULL;
    if (alone && tpo_sort(alone, 0, false, true, sorted))
        out = looked_up(sorted[0], elements, TP_BOOL, (search){.found = true, .invert = invert});
    tpi_release(known);
    tpi_release(line);
    tpi_release(alone);
    tpi_release(sorted[0]);
    tpi_release(sorted[1]);
    return tpi_serve(out, result);
}
