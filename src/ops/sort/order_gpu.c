/* Sorting by digits on GPUs: see order_gpu.h. Each digit is three launches; a tensor of rows is sorted by value and
 * then, stably, by row. */
#include "ops/sort/order_gpu.h"

enum { THREADS = 256 };

static int tile_of(int key) { return key == 8 ? 2048 : 4096; } /* as ops/sort/sort_gpu_kernel.h has it */

static const tpi_gpu_site keys_site = {"sort_gpu_kernel.h", "keys"}, count_site = {"sort_gpu_kernel.h", "count"},
                          prefix_site = {"sort_gpu_kernel.h", "prefix"}, move_site = {"sort_gpu_kernel.h", "move"},
                          rows_site = {"sort_gpu_kernel.h", "rows"}, whole_site = {"sort_gpu_kernel.h", "whole"},
                          short_site = {"sort_gpu_kernel.h", "short"};

enum { SHORT = 48, ORDER = 4 /* as ops/sort/sort_gpu_kernel.h has it */ };

typedef struct sorting {
    tp_device device;
    int64_t n;
    int key, tiles; /* bytes of a key */
    tp_tensor *keys[2], *indices[2], *counts, *totals;
    int now;          /* which of the pairs holds the latest */
    bool has_indices; /* places are there; before, they are the elements' numbers */
} sorting;

static int64_t blocks_for(tp_device device, int64_t n) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    int64_t blocks = tpi_ceil_div(n, THREADS), most = (caps ? caps->units : 1) * 16;
    return blocks < most ? blocks : most;
}

static bool start(sorting *s, tp_device device, int64_t n, int key) {
    *s = (sorting){.device = device, .n = n, .key = key, .tiles = (int)tpi_ceil_div(n, tile_of(key))};
    tp_dtype whole = key == 8 ? TP_INT64 : TP_INT32;
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++)
        ok = (s->keys[i] = tpi_empty(TP_INTS(n), whole, device)) &&
             (s->indices[i] = tpi_empty(TP_INTS(n), TP_INT32, device));
    return ok && (s->counts = tpi_empty(TP_INTS(256, s->tiles), TP_INT32, device)) &&
           (s->totals = tpi_empty(TP_INTS(256), TP_INT32, device));
}

static void drop(sorting *s) {
    for (int i = 0; i < 2; i++) {
        tpi_release(s->keys[i]);
        tpi_release(s->indices[i]);
    }
    tpi_release(s->counts);
    tpi_release(s->totals);
}

static bool by_digit(sorting *s, int shift) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("KEY", s->key), TPI_DEFINE("FIRST", !s->has_indices)};
    tpi_gpu_function *count = tpi_gpu_site_kernel(s->device, &count_site, false, 1, defines),
                     *prefix = tpi_gpu_site_kernel(s->device, &prefix_site, false, 1, defines);
    tpi_gpu_function *move = count && prefix ? tpi_gpu_site_kernel(s->device, &move_site, false, 2, defines) : NULL;
    if (!move) return false;
    int from = s->now, to = 1 - from;
    const tpi_gpu_arg counting[] = {TPI_GPU_PTR(s->counts->data), TPI_GPU_PTR(s->keys[from]->data), TPI_GPU_VAL(s->n),
                                    TPI_GPU_VAL(shift), TPI_GPU_VAL(s->tiles)};
    const tpi_gpu_arg summing[] = {TPI_GPU_PTR(s->counts->data), TPI_GPU_PTR(s->totals->data), TPI_GPU_VAL(s->tiles)};
    const tpi_gpu_arg moving[] = {TPI_GPU_PTR(s->keys[to]->data),
                                  TPI_GPU_PTR(s->indices[to]->data),
                                  TPI_GPU_PTR(s->keys[from]->data),
                                  TPI_GPU_PTR(s->indices[from]->data),
                                  TPI_GPU_PTR(s->counts->data),
                                  TPI_GPU_PTR(s->totals->data),
                                  TPI_GPU_VAL(s->n),
                                  TPI_GPU_VAL(shift),
                                  TPI_GPU_VAL(s->tiles)};
    if (!tpi_gpu_launch(s->device, count, s->tiles, THREADS, 0, 5, counting) ||
        !tpi_gpu_launch(s->device, prefix, 256, THREADS, 0, 3, summing) ||
        !tpi_gpu_launch(s->device, move, s->tiles, THREADS, 0, 9, moving))
        return false;
    s->now = to;
    s->has_indices = true;
    return true;
}

static int digits_of(uint64_t limit) { /* of the numbers up to the limit */
    int n = 1;
    while (limit >>= 8) n++;
    return n;
}

static bool make_keys(sorting *s, tp_tensor *x, bool backwards) {
    tp_dtype d = (tp_dtype)x->dtype;
    const tpi_gpu_define defines[] = {TPI_DEFINE("KEY", s->key),
                                      TPI_DEFINE("FLOATING", tp_dtype_is_floating(d) ? (d == TP_FLOAT64 ? 8 : 4) : 0),
                                      TPI_DEFINE("BACKWARDS", backwards), TPI_DEFINE_DTYPE("X", d)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(s->device, &keys_site, false, 4, defines);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(s->keys[0]->data), TPI_GPU_PTR(x->data), TPI_GPU_VAL(s->n)};
    return kernel && tpi_gpu_launch(s->device, kernel, blocks_for(s->device, s->n), THREADS, 0, 3, args);
}

/* What is sorted by value, sorted by row: keys are row numbers from here on. */
static bool by_row(sorting *s, int64_t n) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("KEY", s->key)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(s->device, &rows_site, false, 1, defines);
    int width = (int)n;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(s->keys[s->now]->data), TPI_GPU_PTR(s->indices[s->now]->data),
                                TPI_GPU_VAL(s->n), TPI_GPU_VAL(width)};
    bool ok = kernel && tpi_gpu_launch(s->device, kernel, blocks_for(s->device, s->n), THREADS, 0, 4, args);
    int digits = digits_of((uint64_t)(s->n / n - 1));
    for (int i = 0; i < digits && ok; i++) ok = by_digit(s, 8 * i);
    return ok;
}

static tp_tensor *finish(sorting *s, bool ok, tp_tensor **sorted) {
    tp_tensor *indices = ok ? tpi_retain(s->indices[s->now]) : NULL;
    if (sorted) *sorted = ok ? tpi_retain(s->keys[s->now]) : NULL;
    drop(s);
    return indices;
}

/* The digits that a dtype's keys differ in: narrow ones fill the low or high bytes of 32 bits. */
static void digit_range(tp_dtype d, int key, int *first, int *last) {
    *first = 0;
    *last = key;
    if (d == TP_BOOL || d == TP_UINT8) *last = 1;
    if (d == TP_BFLOAT16) *first = 2; /* its bits are the upper half */
    if (d == TP_FLOAT16) *first = 1;  /* 10 of 23 digits, 13 empty ones below */
}

tp_tensor *tpi_gpu_order(tp_tensor *x, int64_t n, bool backwards, tp_tensor **sorted) {
    tp_dtype d = (tp_dtype)x->dtype;
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(x));
    if (!caps || caps->max_threads < THREADS || tp_dtype_is_complex(d) || !tpi_gpu_is_counted(x) ||
        (d == TP_FLOAT64 && !caps->f64))
        return NULL;
    sorting s;
    bool ok =
        start(&s, tpi_device(x), x->numel, d == TP_FLOAT64 || d == TP_INT64 ? 8 : 4) && make_keys(&s, x, backwards);
    int first, last;
    digit_range(d, s.key, &first, &last);
    for (int i = first; i < last && ok; i++) ok = by_digit(&s, 8 * i);
    if (ok && x->numel > n) ok = by_row(&s, n);
    return finish(&s, ok, sorted);
}

static int items_for(int64_t n) { /* of a thread, so that a block has the row */
    int items = 1;
    while ((int64_t)items * THREADS < n) items *= 2;
    return items;
}

/* Few numbers: one launch has them all. */
static tp_tensor *order_few(tp_tensor *index, int64_t limit, tp_tensor **sorted) {
    tp_device device = tpi_device(index);
    int key = (int)tpi_itemsize(index), n = (int)index->numel, k = 0, first = 0, last = digits_of((uint64_t)limit);
    tp_tensor *indices = tpi_empty(TP_INTS(n), TP_INT32, device),
              *keys = indices ? tpi_empty(TP_INTS(n), (tp_dtype)index->dtype, device) : NULL;
    const tpi_gpu_define defines[] = {TPI_DEFINE("KEY", key),
                                      TPI_DEFINE("FLOATING", 0),
                                      TPI_DEFINE("BACKWARDS", 0),
                                      TPI_DEFINE("NUMBERS", 1),
                                      TPI_DEFINE("WHAT", ORDER),
                                      TPI_DEFINE("ITEMS", items_for(n)),
                                      TPI_DEFINE_DTYPE("X", index->dtype)};
    tpi_gpu_function *kernel = keys ? tpi_gpu_site_kernel(device, &whole_site, false, 7, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(keys)),
                                TPI_GPU_PTR(tpi_gpu_data(indices)),
                                TPI_GPU_PTR(index->data),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(k),
                                TPI_GPU_VAL(first),
                                TPI_GPU_VAL(last)};
    bool ok = kernel && tpi_gpu_launch(device, kernel, 1, THREADS, 0, 7, args);
    if (sorted) *sorted = ok ? tpi_retain(keys) : NULL;
    tpi_release(keys);
    return ok ? indices : tpi_release_then(indices, NULL);
}

tp_tensor *tpi_gpu_order_indices(tp_tensor *index, int64_t limit, tp_tensor **sorted) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(index));
    if (!caps || caps->max_threads < THREADS || !tpi_gpu_is_counted(index) || !tpi_gpu_is_index(index)) return NULL;
    if (index->numel && index->numel <= tile_of((int)tpi_itemsize(index))) return order_few(index, limit, sorted);
    sorting s;
    bool ok = start(&s, tpi_device(index), index->numel, (int)tpi_itemsize(index));
    int64_t one = 1;
    tp_tensor *flat = ok ? tpi_alias(index, 1, &index->numel, &one, tpi_offset(index)) : NULL; /* it is contiguous */
    ok = flat && (!index->numel || tpi_copy_data(s.keys[0], flat));
    tpi_release(flat);
    int digits = digits_of((uint64_t)limit);
    for (int i = 0; i < digits && ok; i++) ok = by_digit(&s, 8 * i);
    return finish(&s, ok, sorted);
}

bool tpi_gpu_order_rows(tp_tensor *x, int64_t n, bool backwards, tpi_gpu_wanted wanted, int64_t k, tp_tensor *values,
                        tp_tensor *indices) {
    tp_dtype d = (tp_dtype)x->dtype;
    tp_device device = tpi_device(x);
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    int size = d == TP_FLOAT64 || d == TP_INT64 ? 8 : 4;
    int64_t rows = x->numel / n;
    if (!caps || caps->max_threads < THREADS || tp_dtype_is_complex(d) || (d == TP_FLOAT64 && !caps->f64) ||
        n > tile_of(size) || rows > INT32_MAX)
        return false;
    bool is_short = n <= SHORT && (rows > 1 || n <= 8);
    const tpi_gpu_define defines[] = {TPI_DEFINE("KEY", size),
                                      TPI_DEFINE("FLOATING", tp_dtype_is_floating(d) ? (d == TP_FLOAT64 ? 8 : 4) : 0),
                                      TPI_DEFINE("BACKWARDS", backwards),
                                      TPI_DEFINE("NUMBERS", 0),
                                      TPI_DEFINE("WHAT", wanted),
                                      TPI_DEFINE("ITEMS", is_short ? 1 : items_for(n)),
                                      TPI_DEFINE_DTYPE("X", d)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, is_short ? &short_site : &whole_site, false, 7, defines);
    int width = (int)n, rank = (int)k, first, last;
    digit_range(d, size, &first, &last);
    const tpi_gpu_arg shorts[] = {TPI_GPU_PTR(values->data), TPI_GPU_PTR(indices->data), TPI_GPU_PTR(x->data),
                                  TPI_GPU_VAL(width),        TPI_GPU_VAL(rank),          TPI_GPU_VAL(x->numel)};
    const tpi_gpu_arg wholes[] = {TPI_GPU_PTR(values->data), TPI_GPU_PTR(indices->data), TPI_GPU_PTR(x->data),
                                  TPI_GPU_VAL(width),        TPI_GPU_VAL(rank),          TPI_GPU_VAL(first),
                                  TPI_GPU_VAL(last)};
    if (is_short) return tpi_gpu_launch_each(device, kernel, x->numel, 6, shorts);
    return kernel && tpi_gpu_launch(device, kernel, rows, THREADS, 0, 7, wholes);
}
