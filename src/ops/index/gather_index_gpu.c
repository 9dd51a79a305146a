/* index and index_put on GPUs, by any tensors of numbers and masks. Places are worked out where they are read or
 * written; sums go by sorted places, so their order is fixed. Masks become numbers, for which the host waits, as their
 * count is the shape. */
#include "ops/index/gather_index_gpu.h"
#include "ops/sort/order_gpu.h"
#include "ops/temporaries.h"
#include "tpi_ops.h"

enum {
    MOST_NUMBERS = 6,
    MOST_DIMS = 8,
    STRETCH = 256
}; /* the first as ops/index/gather_index_gpu_kernel.h has room for */

static const tpi_gpu_site pick_site = {"gather_index_gpu_kernel.h", "pick"},
                          place_site = {"gather_index_gpu_kernel.h", "place"},
                          number_site = {"gather_index_gpu_kernel.h", "number"},
                          sum_site = {"gather_index_gpu_kernel.h", "sum"},
                          finish_site = {"gather_index_gpu_kernel.h", "finish"};

typedef struct picked_dim {
    int64_t size, x, values, index[MOST_NUMBERS]; /* strides in elements */
    bool numbers;                                 /* a dim of the tensors of numbers, not one that x keeps */
} picked_dim;

typedef struct picked {
    tpi_temporaries temps;
    int numbers, ndim, index_ndim;
    tp_tensor *index[MOST_NUMBERS];
    int64_t size[MOST_NUMBERS], stride[MOST_NUMBERS]; /* of the dims of x that they are for, in elements */
    int64_t index_shape[TP_MAX_DIMS], shape[TP_MAX_DIMS];
    picked_dim dims[TP_MAX_DIMS];
    int64_t count; /* elements of what is picked */
    bool distinct, wrap;
    tp_dtype index_dtype;
} picked;

/* ---- What is picked ---- */
static bool is_mask(const tp_tensor *t) { return t->dtype == TP_BOOL || t->dtype == TP_UINT8; }

static bool add_numbers(picked *p, tp_tensor *index, int64_t size, int64_t stride) {
    if (!index || p->numbers == MOST_NUMBERS) return false;
    p->index[p->numbers] = index;
    p->size[p->numbers] = size;
    p->stride[p->numbers++] = stride;
    return true;
}

/* A mask over dims of self from d on: the coordinates of what is true. Dims that lie in memory like one are one. */
static bool add_mask(picked *p, tp_tensor *self, int d, tp_tensor *mask) {
    for (int i = 0; i < mask->ndim; i++)
        if (mask->shape[i] != self->shape[d + i]) return false;
    bool line = true;
    for (int i = 0; i + 1 < mask->ndim; i++)
        line = line && self->strides[d + i] == self->strides[d + i + 1] * self->shape[d + i + 1];
    tp_tensor *plain = tpi_put(&p->temps, tpi_detached(mask)),
              *seen = plain && line ? tpi_put(&p->temps, tpo_reshape(plain, TP_INTS(-1))) : plain,
              *found = seen && mask->numel ? tpi_put(&p->temps, tpo_nonzero(seen)) : NULL;
    if (!found) return false;
    int ndim = seen->ndim;
    for (int i = 0; i < ndim; i++) {
        int64_t n = found->shape[0], step = ndim;
        tp_tensor *column = tpi_put(&p->temps, tpi_alias(found, 1, &n, &step, tpi_offset(found) + i));
        int of = line ? d + mask->ndim - 1 : d + i;
        if (!add_numbers(p, column, line ? mask->numel : self->shape[of], self->strides[of])) return false;
    }
    return true;
}

static bool same_dtype(picked *p) {
    p->index_dtype = TP_INT32;
    for (int i = 0; i < p->numbers; i++)
        if (p->index[i]->dtype != TP_INT32) p->index_dtype = TP_INT64;
    for (int i = 0; i < p->numbers; i++)
        if (!(p->index[i] = tpi_put(&p->temps, tpi_as_dtype_data(p->index[i], p->index_dtype)))) return false;
    return true;
}

static bool broadcast_index(picked *p) {
    for (int i = 0; i < p->numbers; i++) {
        int64_t next[TP_MAX_DIMS];
        int ndim;
        if (!tpi_broadcast(tp_ints_view(p->index_shape, p->index_ndim), tpi_shape(p->index[i]), next, &ndim)) {
            tp_error_clear();
            return false;
        }
        memcpy(p->index_shape, next, sizeof *next * (size_t)ndim);
        p->index_ndim = ndim;
    }
    return true;
}

static void index_dims(picked *p) {
    for (int i = 0; i < p->index_ndim; i++) {
        picked_dim *d = &p->dims[p->ndim++];
        *d = (picked_dim){.size = p->index_shape[i], .numbers = true};
        for (int k = 0; k < p->numbers; k++) {
            int own = i - (p->index_ndim - p->index[k]->ndim);
            d->index[k] = own >= 0 && p->index[k]->shape[own] != 1 ? p->index[k]->strides[own] : 0;
        }
    }
}

/* Indexed dims of self are those with a true in `taken`. */
static bool finish_picked(picked *p, tp_tensor *self, const bool *taken) {
    int first = -1, last = -1, count = 0;
    for (int d = 0; d < self->ndim; d++)
        if (taken[d]) {
            first = first < 0 ? d : first;
            last = d;
            count++;
        }
    if (!same_dtype(p) || !broadcast_index(p) || p->index_ndim + self->ndim - count > TP_MAX_DIMS) return false;
    bool together = last - first + 1 == count;
    if (!together) index_dims(p);
    for (int d = 0; d < self->ndim; d++) {
        if (together && d == first) index_dims(p);
        if (!taken[d]) p->dims[p->ndim++] = (picked_dim){.size = self->shape[d], .x = self->strides[d]};
    }
    p->count = 1;
    for (int i = 0; i < p->ndim; i++) {
        p->shape[i] = p->dims[i].size;
        p->count *= p->shape[i];
    }
    return true;
}

static bool pick_by(picked *p, tp_tensor *self, tp_tensors indices) {
    *p = (picked){.wrap = true, .distinct = true};
    bool taken[TP_MAX_DIMS] = {false};
    int d = 0, found = 0;
    for (int64_t i = 0; i < indices.n; i++) {
        tp_tensor *t = indices.v[i];
        int ndims = t && is_mask(t) ? t->ndim : 1;
        if (d + ndims > self->ndim || ndims == 0) return false;
        for (int k = 0; t && k < ndims; k++) taken[d + k] = true;
        if (t && !is_mask(t) && !tpi_gpu_is_index(t)) return false;
        if (t && !(is_mask(t) ? add_mask(p, self, d, t) : add_numbers(p, t, self->shape[d], self->strides[d])))
            return false;
        if (t) {
            found++;
            p->distinct = p->distinct && is_mask(t);
        }
        d += ndims;
    }
    p->distinct = p->distinct && found == 1;
    for (int k = 0; k < p->numbers; k++)
        if (!p->size[k]) return false; /* no number is right */
    return found && finish_picked(p, self, taken);
}

/* Dims of one element go, neighbours that all strides see as one become one. Returns how many are left, at least one.
 */
static int merged(const picked *p, picked_dim *to) {
    int n = 0;
    for (int i = 0; i < p->ndim; i++) {
        const picked_dim *d = &p->dims[i];
        if (d->size == 1) continue;
        picked_dim *before = n ? &to[n - 1] : NULL;
        bool joins = before && before->numbers == d->numbers && before->x == d->x * d->size &&
                     before->values == d->values * d->size;
        for (int k = 0; k < p->numbers && joins; k++) joins = before->index[k] == d->index[k] * d->size;
        if (!joins) {
            to[n++] = *d;
            continue;
        }
        int64_t size = before->size * d->size;
        *before = *d;
        before->size = size;
    }
    if (!n) to[n++] = (picked_dim){.size = 1};
    return n;
}

/* ---- Kernels ---- */
typedef struct numbers_text { /* an argument's struct, as the kernel text has it */
    int64_t at[(3 + MOST_NUMBERS) * MOST_DIMS + 2 * MOST_NUMBERS + 3];
    int n;
} numbers_text;
static void put(numbers_text *t, int64_t v) { t->at[t->n++] = v; }
static tpi_gpu_arg text_arg(const numbers_text *t) { return (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)t->n * 8, t->at}; }

/* sizes and strides count in pieces of `piece` elements (or, for parts of complex numbers, elements have `parts`). */
static numbers_text picked_text(const picked *p, const picked_dim *dims, int n, int64_t piece, int64_t parts) {
    numbers_text t = {.n = 0};
    for (int i = 0; i < n; i++) put(&t, dims[i].size);
    for (int i = 0; i < n; i++) put(&t, dims[i].x * parts / piece);
    for (int i = 0; i < n; i++) put(&t, dims[i].values * parts / piece);
    for (int k = 0; k < p->numbers; k++)
        for (int i = 0; i < n; i++) put(&t, dims[i].index[k]);
    for (int k = 0; k < p->numbers; k++) put(&t, p->size[k]);
    for (int k = 0; k < p->numbers; k++) put(&t, p->stride[k] * parts / piece);
    return t;
}

/* How many elements can be moved at once: all strides and addresses, and the last dim, must be multiples. */
static int64_t piece_of(const picked *p, picked_dim *dims, int n, int size, uintptr_t align, bool values) {
    int64_t piece = 1;
    picked_dim *last = &dims[n - 1];
    if (last->numbers || last->x != 1 || (values && last->values != 1)) return 1;
    for (int64_t try = 2; try * size <= 16; try *= 2) {
        bool fits = last->size % try == 0 && align % (uintptr_t)(try * size) == 0;
        for (int i = 0; i < n - 1 && fits; i++) fits = dims[i].x % try == 0 && (!values || dims[i].values % try == 0);
        for (int k = 0; k < p->numbers && fits; k++) fits = p->stride[k] % try == 0;
        if (!fits) break;
        piece = try;
    }
    last->size /= piece;
    if (piece > 1) { /* one piece on, once divided */
        last->x = piece;
        last->values = piece;
    }
    return piece;
}

static int64_t elements_of(const picked_dim *dims, int n) {
    int64_t count = 1;
    for (int i = 0; i < n; i++) count *= dims[i].size;
    return count;
}

/* Launches a kernel over `count` elements; `given` are its arguments before the tensors of numbers. */
static bool launch(const picked *p, tp_device device, tpi_gpu_function *kernel, int64_t count, int ngiven,
                   const tpi_gpu_arg *given) {
    tpi_gpu_arg args[16];
    int n = 0;
    for (; n < ngiven; n++) args[n] = given[n];
    for (int k = 0; k < p->numbers; k++) args[n++] = TPI_GPU_PTR(p->index[k]->data);
    return kernel && tpi_gpu_launch(device, kernel, tpi_gpu_blocks(count), 256, 0, n, args);
}

static bool read_picked(picked *p, tp_tensor *out, tp_tensor *x) {
    picked_dim dims[TP_MAX_DIMS];
    int n = merged(p, dims);
    if (n > MOST_DIMS) return false;
    int size = (int)tpi_itemsize(x);
    int64_t piece = piece_of(p, dims, n, size, (uintptr_t)x->data | (uintptr_t)out->data, false),
            count = elements_of(dims, n);
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", n),
                                      TPI_DEFINE("NUMBERS", p->numbers),
                                      TPI_DEFINE("WRAP", p->wrap),
                                      TPI_DEFINE("LARGE", tpi_gpu_is_large(count)),
                                      TPI_DEFINE("PIECE", piece * size),
                                      TPI_DEFINE_DTYPE("INDEX", p->index_dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(x), &pick_site, false, 6, defines);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(x));
    numbers_text text = picked_text(p, dims, n, piece, 1);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault), TPI_GPU_PTR(out->data), TPI_GPU_PTR(x->data), text_arg(&text),
                                TPI_GPU_VAL(count)};
    return fault.word && launch(p, tpi_device(x), kernel, count, 6, args);
}

static bool write_picked(picked *p, tp_tensor *x, tp_tensor *values, bool add) {
    picked_dim dims[TP_MAX_DIMS + 1];
    int n = merged(p, dims), parts = add && tp_dtype_is_complex((tp_dtype)x->dtype) ? 2 : 1;
    int64_t piece = 1;
    tp_dtype dtype = add ? tpi_dtype_to_real((tp_dtype)x->dtype) : TP_UINT8;
    int size = (int)tpi_itemsize(x);
    if (!add) piece = piece_of(p, dims, n, size, (uintptr_t)x->data | (uintptr_t)values->data, true);
    if (n + parts - 1 > MOST_DIMS) return false;
    numbers_text text;
    if (parts == 2) { /* the two numbers of an element are one more dim; strides so far count elements */
        for (int i = 0; i < n; i++) {
            dims[i].x *= 2;
            dims[i].values *= 2;
        }
        dims[n++] = (picked_dim){.size = 2, .x = 1, .values = 1};
        picked twice = *p;
        for (int k = 0; k < p->numbers; k++) twice.stride[k] *= 2;
        text = picked_text(&twice, dims, n, 1, 1);
    } else
        text = picked_text(p, dims, n, piece, 1);
    int64_t count = elements_of(dims, n);
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", n),
                                      TPI_DEFINE("NUMBERS", p->numbers),
                                      TPI_DEFINE("WRAP", p->wrap),
                                      TPI_DEFINE("LARGE", tpi_gpu_is_large(count)),
                                      TPI_DEFINE("PIECE", add ? 1 : piece * size),
                                      TPI_DEFINE("ADD", add),
                                      TPI_DEFINE("WHOLE", add && !tp_dtype_is_floating(dtype)),
                                      TPI_DEFINE_DTYPE("INDEX", p->index_dtype),
                                      TPI_DEFINE_DTYPE("X", dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(tpi_device(x), &place_site, dtype == TP_FLOAT64, 9, defines);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(x));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault), TPI_GPU_PTR(x->data), TPI_GPU_PTR(values->data), text_arg(&text),
                                TPI_GPU_VAL(count)};
    return fault.word && launch(p, tpi_device(x), kernel, count, 6, args);
}

/* ---- Sums ---- */

/* The numbers' dims of what is picked, or the others, merged. */
static int part_of(const picked *p, bool numbers, picked_dim *to) {
    picked part = *p;
    part.ndim = 0;
    for (int i = 0; i < p->ndim; i++)
        if (p->dims[i].numbers == numbers) part.dims[part.ndim++] = p->dims[i];
    return merged(&part, to);
}

/* One number for each position: its place among the indexed dims. */
static tp_tensor *numbers_of(picked *p, tp_device device, int64_t limit) {
    picked_dim dims[TP_MAX_DIMS];
    picked compact = *p;
    int64_t step = 1;
    for (int k = p->numbers - 1; k >= 0; k--) {
        compact.stride[k] = step;
        step *= p->size[k];
    }
    for (int i = 0; i < p->ndim; i++) compact.dims[i].values = 0; /* they need not be seen as one there */
    int n = part_of(&compact, true, dims);
    int64_t count = elements_of(dims, n);
    tp_dtype dtype = limit <= INT32_MAX ? TP_INT32 : TP_INT64;
    tp_tensor *out = n <= MOST_DIMS ? tpi_empty(TP_INTS(count), dtype, device) : NULL;
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", n),
                                      TPI_DEFINE("NUMBERS", p->numbers),
                                      TPI_DEFINE("WRAP", p->wrap),
                                      TPI_DEFINE("LARGE", tpi_gpu_is_large(count)),
                                      TPI_DEFINE_DTYPE("INDEX", p->index_dtype),
                                      TPI_DEFINE_DTYPE("X", dtype)};
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(device, &number_site, false, 6, defines) : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(device);
    numbers_text text = picked_text(&compact, dims, n, 1, 1);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault), TPI_GPU_PTR(tpi_gpu_data(out)), text_arg(&text),
                                TPI_GPU_VAL(count), TPI_GPU_VAL(limit)};
    return fault.word && launch(p, device, kernel, count, 6, args) ? out : tpi_release_then(out, NULL);
}

/* The two numbers of a complex element are one more dim, which is kept. */
static void split_complex(picked_dim *dims, int n, picked_dim *kept, int *nkept) {
    for (int i = 0; i < n; i++) dims[i].values *= 2;
    for (int i = 0; i < *nkept; i++) {
        kept[i].x *= 2;
        kept[i].values *= 2;
    }
    kept[(*nkept)++] = (picked_dim){.size = 2, .x = 1, .values = 1};
}

/* The numbers that the kernels of sums read, in the order of their struct. */
static numbers_text sum_text(const picked *p, const picked_dim *dims, int n, const picked_dim *kept, int nkept,
                             int parts, int64_t limit) {
    numbers_text t = {.n = 0};
    for (int i = 0; i < n; i++) put(&t, dims[i].size);
    for (int i = 0; i < n; i++) put(&t, dims[i].values);
    for (int i = 0; i < nkept; i++) put(&t, kept[i].size);
    for (int i = 0; i < nkept; i++) put(&t, kept[i].x);
    for (int i = 0; i < nkept; i++) put(&t, kept[i].values);
    for (int k = 0; k < p->numbers; k++) put(&t, p->size[k]);
    for (int k = 0; k < p->numbers; k++) put(&t, p->stride[k] * parts);
    put(&t, elements_of(dims, n));
    put(&t, elements_of(kept, nkept));
    put(&t, limit);
    return t;
}

static bool add_picked(picked *p, tp_tensor *x, tp_tensor *values) {
    tp_device device = tpi_device(x);
    picked_dim dims[TP_MAX_DIMS], kept[TP_MAX_DIMS + 1];
    int n = part_of(p, true, dims), nkept = part_of(p, false, kept),
        parts = tp_dtype_is_complex((tp_dtype)x->dtype) ? 2 : 1;
    bool across = p->dims[0].numbers;
    for (int i = 0; i < p->ndim; i++)
        if (p->shape[i] > 1) across = p->dims[i].numbers;
    if (parts == 2) {
        split_complex(dims, n, kept, &nkept);
        across = false;
    }
    int64_t limit = 1, positions = elements_of(dims, n), each = elements_of(kept, nkept);
    for (int k = 0; k < p->numbers; k++) limit *= p->size[k];
    if (n > MOST_DIMS || nkept > MOST_DIMS || positions > INT32_MAX) return false;
    tp_tensor *numbers = tpi_put(&p->temps, numbers_of(p, device, limit)), *sorted = NULL;
    tp_tensor *order = numbers ? tpi_put(&p->temps, tpi_gpu_order_indices(numbers, limit, &sorted)) : NULL;
    tpi_put(&p->temps, sorted);
    if (!order) return false;
    tp_dtype dtype = tpi_dtype_to_real((tp_dtype)x->dtype);
    bool whole = !tp_dtype_is_floating(dtype), wide = dtype == TP_FLOAT64;
    int64_t stretches = tpi_ceil_div(positions, STRETCH);
    tp_tensor *ends = NULL; /* heads, then tails */
    if (stretches > 1) {
        ends = tpi_put(&p->temps, tpi_empty(TP_INTS(2, stretches, each),
                                            whole  ? TP_INT64
                                            : wide ? TP_FLOAT64
                                                   : TP_FLOAT32,
                                            device));
        if (!ends) return false;
    }
    char *heads = tpi_gpu_data(ends), *tails = ends ? heads + ends->numel / 2 * (int64_t)tpi_itemsize(ends) : NULL;
    const numbers_text t = sum_text(p, dims, n, kept, nkept, parts, limit);
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", n),
                                      TPI_DEFINE("NUMBERS", p->numbers),
                                      TPI_DEFINE("KEPT", nkept),
                                      TPI_DEFINE("WHOLE", whole),
                                      TPI_DEFINE("ACROSS", across),
                                      TPI_DEFINE("STRETCH", STRETCH),
                                      TPI_DEFINE("LARGE", tpi_gpu_is_large(positions * each)),
                                      TPI_DEFINE_DTYPE("INDEX", sorted->dtype),
                                      TPI_DEFINE_DTYPE("X", dtype)};
    tpi_gpu_function *sum = tpi_gpu_site_kernel(device, &sum_site, wide, 9, defines),
                     *finish = sum && ends ? tpi_gpu_site_kernel(device, &finish_site, wide, 9, defines) : NULL;
    const tpi_gpu_arg summing[] = {TPI_GPU_PTR(x->data),
                                   TPI_GPU_PTR(values->data),
                                   TPI_GPU_PTR(sorted->data),
                                   TPI_GPU_PTR(order->data),
                                   TPI_GPU_PTR(heads),
                                   TPI_GPU_PTR(tails),
                                   text_arg(&t)};
    const tpi_gpu_arg finishing[] = {TPI_GPU_PTR(x->data), TPI_GPU_PTR(sorted->data), TPI_GPU_PTR(heads),
                                     TPI_GPU_PTR(tails), text_arg(&t)};
    return tpi_gpu_launch_each(device, sum, positions * each, 7, summing) &&
           (!ends || tpi_gpu_launch_each(device, finish, (stretches - 1) * each, 5, finishing));
}

static bool adds(const tp_tensor *t) { /* can the device sum its elements? */
    tp_dtype real = tpi_dtype_to_real((tp_dtype)t->dtype);
    return real != TP_BOOL && tpi_gpu_has_dtype(t) &&
           (tpi_dtype_category[t->dtype] & (TPI_CAT_INT | TPI_CAT_FLOAT | TPI_CAT_COMPLEX));
}

/* values, which broadcast to what is picked, into their places. */
static bool write_values(picked *p, tp_tensor *self, tp_tensor *values, bool accumulate) {
    if (!p->count) return true;
    tp_tensor *wide = tpi_put(&p->temps, tpi_expanded(values, tp_ints_view(p->shape, p->ndim)));
    if (!wide) {
        tp_error_clear();
        return false;
    }
    if (tp_shares_storage(values, self)) { /* reading what is being written: read it all first */
        tp_tensor *own = tpi_put(&p->temps, tpi_empty(tpi_shape(wide), (tp_dtype)wide->dtype, tpi_device(wide)));
        if (!own || !tpi_copy_data(own, wide)) return false;
        wide = own;
    }
    for (int i = 0; i < p->ndim; i++) p->dims[i].values = wide->strides[i];
    return accumulate && !p->distinct ? add_picked(p, self, wide) : write_picked(p, self, wide, accumulate);
}

/* ---- The natives ---- */
tp_tensor *tpi_gpu_index_many(tp_tensor *self, tp_tensors indices) {
    tp_tensor *out = NULL;
    if (!self->numel) return NULL;
    if (indices.n == 1 && indices.v[0] && indices.v[0]->dtype == TP_BOOL && tpi_same_shape(self, indices.v[0])) {
        tp_tensor *alone = tpi_detached(self);
        return alone ? tpi_release_then(alone, tpo_masked_select(alone, indices.v[0])) : NULL;
    }
    picked p;
    bool ok = pick_by(&p, self, indices);
    if (ok) out = tpi_empty(tp_ints_view(p.shape, p.ndim), (tp_dtype)self->dtype, tpi_device(self));
    if (out && p.count && !read_picked(&p, out, self)) out = tpi_release_then(out, NULL);
    return tpi_release_temporaries(&p.temps, out);
}

tpi_served tpi_gpu_index_put(tp_tensor *self, tp_tensors indices, tp_tensor *values, bool accumulate) {
    if (values->dtype != self->dtype || !self->numel || (accumulate && !adds(self))) return TPI_DECLINED;
    picked p;
    bool ok = pick_by(&p, self, indices) && write_values(&p, self, values, accumulate);
    tpi_release_temporaries(&p.temps, NULL);
    return tpi_serve_if(ok);
}

bool tpi_gpu_add_slices(tp_tensor *self, int d, tp_tensor *index, tp_tensor *source) {
    if (source->dtype != self->dtype || !self->numel || !adds(self)) return false;
    picked p = {.wrap = false};
    bool taken[TP_MAX_DIMS] = {false};
    taken[d] = true;
    bool ok = add_numbers(&p, index, self->shape[d], self->strides[d]) && finish_picked(&p, self, taken) &&
              write_values(&p, self, source, true);
    tpi_release_temporaries(&p.temps, NULL);
    return ok;
}
