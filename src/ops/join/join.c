/* Joining and rearranging copies: cat, flip, roll, triangles, diagonals put into matrices.
 * Work is split by the bytes or rows of the result, so nothing depends on the number of threads. */
#include "device/cpu/convert.h"
#include "tensor/channels_last.h"
#include "ops/join/join.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "ops/view/view.h"

#define CHUNK_BYTES (256 * 1024)

/* ---- cat ---- */

/* An empty one-dimensional tensor joins anything, whatever the other shapes: PyTorch's old rule. */
static bool skipped(const tp_tensor *t) { return t->ndim == 1 && t->shape[0] == 0; }

typedef struct joined {
    char *out;
    int64_t row_bytes; /* one row of the result: a piece of every tensor */
    int64_t total;
    int64_t n;
    const char **data; /* per tensor */
    int64_t *end;      /* per tensor: where its piece ends within a row */
} joined;

static void join_chunk(int64_t chunk, void *context) {
    const joined *j = context;
    int64_t at = chunk * CHUNK_BYTES, stop = at + CHUNK_BYTES < j->total ? at + CHUNK_BYTES : j->total;
    int64_t row = at / j->row_bytes, within = at % j->row_bytes, i = 0;
    while (j->end[i] <= within) i++;
    while (at < stop) {
        int64_t first = i ? j->end[i - 1] : 0, piece = j->end[i] - first, n = j->end[i] - within;
        if (n > stop - at) n = stop - at;
        if (n > 0) memcpy(j->out + at, j->data[i] + row * piece + (within - first), (size_t)n);
        at += n;
        within += n;
        if (within < j->end[i]) continue;
        if (++i == j->n) {
            i = 0;
            within = 0;
            row++;
        }
    }
}

/* All of one dtype and contiguous: rows are strings of memcpys. */
static bool join_rows(tp_tensor *out, int dim, int64_t n, tp_tensor *const *parts) {
    int64_t inner = (int64_t)tpi_itemsize(out);
    for (int d = dim + 1; d < out->ndim; d++) inner *= out->shape[d];
    char *block = tpi_malloc((size_t)n * (sizeof(char *) + sizeof(int64_t)));
    if (!block) return false;
    joined j = {.out = out->data,
                .row_bytes = inner * out->shape[dim],
                .total = out->numel * (int64_t)tpi_itemsize(out),
                .n = n,
                .data = (const char **)(void *)block,
                .end = (int64_t *)(void *)(block + (size_t)n * sizeof(char *))};
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        j.data[i] = parts[i]->data;
        j.end[i] = at += parts[i]->shape[dim] * inner;
    }
    tpi_parallel_for(tpi_ceil_div(j.total, CHUNK_BYTES), j.total > CHUNK_BYTES, join_chunk, &j);
    tpi_mfree(block);
    return true;
}

static bool join_parts(tp_tensor *out, int dim, int64_t n, tp_tensor *const *parts) {
    if (out->numel == 0) return true;
    bool plain = tp_is_contiguous(out) && tpi_device(out).type == TP_CPU && n > 0;
    for (int64_t i = 0; i < n && plain; i++) plain = parts[i]->dtype == out->dtype && tp_is_contiguous(parts[i]);
    int64_t row = (int64_t)tpi_itemsize(out);
    for (int d = dim; d < out->ndim; d++) row *= out->shape[d];
    bool rows = row == out->numel * (int64_t)tpi_itemsize(out); /* one row: each tensor is one piece */
    if (plain && (rows || row / n >= 64)) return join_rows(out, dim, n, parts);
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        tp_tensor *target = tpi_narrowed(out, dim, at, parts[i]->shape[dim]);
        bool ok = target && tpi_copy_data(target, parts[i]);
        tpi_release(target);
        if (!ok) return false;
        at += parts[i]->shape[dim];
    }
    return true;
}

static bool check_part(const tp_tensor *t, const tp_tensor *first, int64_t i, int dim) {
    if (t->ndim != first->ndim)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'tensors': Tensors must have same number of dimensions: got %d and %d, shapes %s "
                          "and %s of tensors 0 and %lld",
                          first->ndim, t->ndim, tpi_shape_text(tpi_shape(first)), tpi_shape_text(tpi_shape(t)),
                          (long long)i);
    for (int d = 0; d < first->ndim; d++)
        if (d != dim && t->shape[d] != first->shape[d])
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'tensors': Sizes of tensors must match except in dimension %d. Expected size "
                              "%lld but got size %lld for tensor number %lld in the list.",
                              dim, (long long)first->shape[d], (long long)t->shape[d], (long long)i);
    return true;
}

tp_tensor *tpi_native_cat(tp_tensors tensors, int64_t dim) {
    if (tensors.n == 0) return tpi_fail(TP_ERR_VALUE, "torch.cat(): expected a non-empty list of Tensors");
    tpi_promotion promotion = {0};
    const tp_tensor *first = NULL;
    for (int64_t i = 0; i < tensors.n; i++) {
        tp_tensor *t = tensors.v[i];
        if (t->ndim == 0)
            return tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': tensor %lld is zero-dimensional and cannot be joined",
                            (long long)i);
        tpi_promote_tensor(&promotion, t->dtype, t->ndim);
        if (!first && !skipped(t)) first = t;
    }
    if (!first) first = tensors.v[0];
    int d = TPI_DIM(first, dim);
    tp_dtype dtype = tpi_promoted(&promotion);
    if (d < 0 || dtype == TP_NO_DTYPE) return NULL;
    tp_tensor **parts = tpi_malloc(sizeof(*parts) * (size_t)tensors.n);
    if (!parts) return NULL;
    int64_t n = 0, shape[TP_MAX_DIMS];
    memcpy(shape, first->shape, sizeof(int64_t) * first->ndim);
    shape[d] = 0;
    bool ok = true, channels_last = first->ndim == 4 || first->ndim == 5;
    for (int64_t i = 0; i < tensors.n && ok; i++) {
        tp_tensor *t = tensors.v[i];
        if (skipped(t)) continue;
        ok = check_part(t, first, i, d);
        channels_last = ok && channels_last && !tp_is_contiguous(t) && tpi_suggested_layout(t) != TP_CONTIGUOUS;
        if (ok) {
            parts[n++] = t;
            shape[d] += t->shape[d];
        }
    }
    tp_tensor *out = NULL;
    tp_layout layout = tpi_layout_of(channels_last, first->ndim);
    if (ok) out = tpi_empty_layout((tp_ints){shape, first->ndim}, dtype, tpi_device(first), layout);
    if (out && !join_parts(out, d, n, parts)) out = tpi_release_then(out, NULL);
    tpi_mfree(parts);
    return out;
}

/* ---- flip and roll ---- */

typedef struct rows_job { /* rows of the last dim, moved one by one */
    tpi_odometer walk;    /* operand 0: the result, 1: the source */
    char *out;
    const char *in;
    int64_t rows, per_chunk, n, out_stride, in_stride;
    size_t itemsize;
    int dtype;
} rows_job;

static void move_rows(int64_t chunk, void *context) {
    const rows_job *j = context;
    tpi_odometer w = j->walk;
    int64_t row = chunk * j->per_chunk, end = row + j->per_chunk < j->rows ? row + j->per_chunk : j->rows;
    for (tpi_odometer_seek(&w, row); row < end; row++, tpi_odometer_next(&w)) {
        char *to = j->out + w.offset[0];
        const char *from = j->in + w.offset[1];
        if (j->out_stride == (int64_t)j->itemsize)
            tpi_load_run(j->n, from, j->in_stride, j->dtype, to, j->dtype);
        else
            tpi_move_run(to, j->out_stride, from, j->in_stride, j->n, j->itemsize);
    }
}

tp_tensor *tpi_native_flip(tp_tensor *self, tp_ints dims) {
    bool flipped[TP_MAX_DIMS] = {false};
    if (dims.n && !tpi_wrap_dims(dims, self->ndim, flipped)) return NULL;
    tp_tensor *out = tpi_empty_like(self, self->dtype);
    if (!out || out->numel == 0) return out;
    int64_t size = (int64_t)tpi_itemsize(self);
    rows_job j = {.walk = {.nargs = 2},
                  .out = out->data,
                  .in = self->data,
                  .n = 1,
                  .out_stride = size,
                  .in_stride = size,
                  .itemsize = (size_t)size,
                  .dtype = self->dtype};
    for (int d = 0; d < self->ndim; d++) {
        int64_t in = self->strides[d] * size, to = out->strides[d] * size;
        if (flipped[d]) {
            j.in += in * (self->shape[d] - 1);
            in = -in;
        }
        if (d == self->ndim - 1) {
            j.n = self->shape[d];
            j.in_stride = in;
            j.out_stride = to;
        } else
            tpi_odometer_dim(&j.walk, self->shape[d], (int64_t[]){to, in});
    }
    j.rows = out->numel / j.n;
    j.per_chunk = 1 + CHUNK_BYTES / (j.n * size);
    tpi_parallel_for(tpi_ceil_div(j.rows, j.per_chunk), out->numel * size > TPI_WORTH_BYTES, move_rows, &j);
    return out;
}

typedef struct roll_job { /* one dim of contiguous memory: lines of whole bytes, whose last `head` bytes come first */
    char *out;
    const char *in;
    int64_t lines, per_chunk, bytes, head;
} roll_job;

typedef int64_t loose __attribute__((vector_size(16), aligned(1), may_alias));

/* A copy up by a few bytes: a load waits for an earlier store whose address has the same lowest 12 bits, and both
 * blocks often begin a page, so it goes from the end down, each piece loaded whole before it is stored. */
static void copy_up(char *to, const char *from, int64_t n) {
    for (; n >= 64; n -= 64) {
        const loose *in = (const loose *)(const void *)(from + n - 64);
        loose *out = (loose *)(void *)(to + n - 64), a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
    }
    memcpy(to, from, (size_t)n);
}

enum { SHORT_LINE = 64 }; /* bytes: for those, a call of memcpy takes longer than its work */
typedef uint32_t word __attribute__((aligned(1), may_alias));

/* Short lines of words, one column of all of them after the other. */
static void roll_columns(const roll_job *j, int64_t line, int64_t end) {
    const int64_t words = j->bytes / (int64_t)sizeof(word), head = j->head / (int64_t)sizeof(word);
    for (int64_t c = 0; c < words; c++) {
        word *restrict to = (word *)(void *)j->out + c;
        const word *restrict from = (const word *)(const void *)j->in + (c < head ? c - head + words : c - head);
        for (int64_t l = line; l < end; l++) to[l * words] = from[l * words];
    }
}

static void roll_lines(int64_t chunk, void *context) {
    const roll_job *j = context;
    int64_t line = chunk * j->per_chunk, end = line + j->per_chunk < j->lines ? line + j->per_chunk : j->lines;
    if (j->bytes <= SHORT_LINE && j->bytes % (int64_t)sizeof(word) == 0 && j->head % (int64_t)sizeof(word) == 0) {
        roll_columns(j, line, end);
        return;
    }
    for (; line < end; line++) {
        char *to = j->out + line * j->bytes;
        const char *from = j->in + line * j->bytes;
        memcpy(to, from + j->bytes - j->head, (size_t)j->head);
        copy_up(to + j->head, from, j->bytes - j->head);
    }
}

bool tpi_roll_shifts(const tp_tensor *self, tp_ints shifts, tp_ints dims, bool back, int64_t *shift) {
    if (shifts.n == 0) return tpi_refuse(TP_ERR_RUNTIME, "argument 'shifts': `shifts` required");
    if (shifts.n != dims.n)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'dims': shifts and dimensions must align. shifts: %lld, dims:%lld",
                          (long long)shifts.n, (long long)dims.n);
    memset(shift, 0, TP_MAX_DIMS * sizeof *shift);
    for (int64_t i = 0; i < dims.n; i++) {
        int d = TPI_DIM(self, dims.v[i]);
        if (d < 0) return false;
        int64_t size = self->ndim && self->shape[d] ? self->shape[d] : 1;
        shift[d] = (((shift[d] + (back ? -1 : 1) * (shifts.v[i] % size)) % size) + size) % size;
    }
    return true;
}

/* Each rolled dim is cut in two, so the result is made of 2^k blocks. */
static tp_tensor *rolled(tp_tensor *self, tp_ints shifts, tp_ints dims, bool back) {
    int64_t shift[TP_MAX_DIMS];
    if (!tpi_roll_shifts(self, shifts, dims, back, shift)) return NULL;
    tp_tensor *out = tpi_empty_like(self, self->dtype);
    if (!out || out->numel == 0) return out;
    int cut[TP_MAX_DIMS], ncut = 0;
    for (int d = 0; d < self->ndim; d++)
        if (shift[d]) cut[ncut++] = d;
    if (ncut == 1 && tpi_device(out).type == TP_CPU && tp_is_contiguous(self) && tp_is_contiguous(out)) {
        int64_t inner = (int64_t)tpi_itemsize(out);
        for (int d = cut[0] + 1; d < out->ndim; d++) inner *= out->shape[d];
        roll_job j = {
            .out = out->data, .in = self->data, .bytes = inner * out->shape[cut[0]], .head = inner * shift[cut[0]]};
        int64_t total = out->numel * (int64_t)tpi_itemsize(out);
        j.lines = total / j.bytes;
        j.per_chunk = 1 + CHUNK_BYTES / j.bytes;
        if (j.lines > 1) { /* a single line is two copies, which split their work themselves */
            tpi_parallel_for(tpi_ceil_div(j.lines, j.per_chunk), total > TPI_WORTH_BYTES, roll_lines, &j);
            return out;
        }
    }
    for (int64_t block = 0; block < (int64_t)1 << ncut; block++) {
        int64_t shape[TP_MAX_DIMS], from = tpi_offset(self), to = tpi_offset(out);
        memcpy(shape, self->shape, sizeof(int64_t) * self->ndim);
        for (int k = 0; k < ncut; k++) { /* the last `shift` elements come first */
            int d = cut[k];
            bool tail = block >> k & 1;
            shape[d] = tail ? shift[d] : self->shape[d] - shift[d];
            from += tail ? (self->shape[d] - shift[d]) * self->strides[d] : 0;
            to += tail ? 0 : shift[d] * out->strides[d];
        }
        tp_tensor *a = tpi_alias(out, out->ndim, shape, out->strides, to),
                  *b = a ? tpi_alias(self, self->ndim, shape, self->strides, from) : NULL;
        bool ok = b && tpi_copy_data(a, b);
        tpi_release(a);
        tpi_release(b);
        if (!ok) return tpi_release_then(out, NULL);
    }
    return out;
}

tp_tensor *tpi_native_roll_dims(tp_tensor *self, tp_ints shifts, tp_ints dims) {
    return rolled(self, shifts, dims, false);
}
tp_tensor *tpi_native_roll_back(tp_tensor *self, tp_ints shifts, tp_ints dims) {
    return rolled(self, shifts, dims, true);
}

/* ---- Triangles and diagonals ---- */

typedef struct triangle_job {
    rows_job rows;
    int64_t height, diagonal;
    bool lower;
} triangle_job;

static void triangle_rows(int64_t chunk, void *context) {
    const triangle_job *t = context;
    const rows_job *j = &t->rows;
    tpi_odometer w = j->walk;
    int64_t row = chunk * j->per_chunk, end = row + j->per_chunk < j->rows ? row + j->per_chunk : j->rows;
    for (tpi_odometer_seek(&w, row); row < end; row++, tpi_odometer_next(&w)) {
        int64_t edge = row % t->height + t->diagonal + (t->lower ? 1 : 0);
        edge = edge < 0 ? 0 : edge > j->n ? j->n : edge;
        int64_t from = t->lower ? 0 : edge, to = t->lower ? edge : j->n, size = (int64_t)j->itemsize;
        char *out = j->out + w.offset[0];
        memset(out, 0, (size_t)(from * size));
        tpi_move_run(out + from * size, size, j->in + w.offset[1] + from * j->in_stride, j->in_stride, to - from,
                     j->itemsize);
        memset(out + to * size, 0, (size_t)((j->n - to) * size));
    }
}

static tp_tensor *triangle_of(tp_tensor *self, int64_t diagonal, bool lower) {
    if (self->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected at least 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    tp_tensor *out = tpi_empty(tpi_shape(self), self->dtype, tpi_device(self));
    if (!out || out->numel == 0) return out;
    int64_t size = (int64_t)tpi_itemsize(self), last = self->ndim - 1;
    triangle_job t = {.height = self->shape[last - 1], .lower = lower};
    int64_t most = t.height + self->shape[last]; /* beyond it nothing changes: keeps the sums below from overflowing */
    t.diagonal = diagonal > most ? most : diagonal < -most ? -most : diagonal;
    t.rows = (rows_job){.walk = {.nargs = 2},
                        .out = out->data,
                        .in = self->data,
                        .n = self->shape[last],
                        .in_stride = self->strides[last] * size,
                        .itemsize = (size_t)size};
    for (int d = 0; d < last; d++)
        tpi_odometer_dim(&t.rows.walk, self->shape[d], (int64_t[]){out->strides[d] * size, self->strides[d] * size});
    t.rows.rows = out->numel / t.rows.n;
    t.rows.per_chunk = 1 + CHUNK_BYTES / (t.rows.n * size);
    tpi_parallel_for(tpi_ceil_div(t.rows.rows, t.rows.per_chunk), out->numel * size > TPI_WORTH_BYTES, triangle_rows,
                     &t);
    return out;
}

tp_tensor *tpi_native_tril(tp_tensor *self, int64_t diagonal) { return triangle_of(self, diagonal, true); }
tp_tensor *tpi_native_triu(tp_tensor *self, int64_t diagonal) { return triangle_of(self, diagonal, false); }

tp_tensor *tpi_native_diag_embed(tp_tensor *self, int64_t offset, int64_t dim1, int64_t dim2) {
    if (self->ndim == 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected at least 1 dimension, got none");
    int ndim = self->ndim + 1;
    if (ndim > TP_MAX_DIMS) return tpi_fail(TP_ERR_VALUE, "argument 'self': already has %d dimensions", TP_MAX_DIMS);
    int a = tpi_wrap_dim(dim1, ndim), b = a < 0 ? -1 : tpi_wrap_dim(dim2, ndim);
    if (b < 0) return NULL;
    if (a == b)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'dim2': dim1 and dim2 are both dimension %d, expected two different ones", a);
    int64_t side = tpi_size_plus(self->shape[self->ndim - 1], offset < 0 ? tpi_size_negated(offset) : offset),
            shape[TP_MAX_DIMS];
    for (int d = 0, from = 0; d < ndim; d++) shape[d] = d == a || d == b ? side : self->shape[from++];
    tp_tensor *out = tpi_empty((tp_ints){shape, ndim}, self->dtype, tpi_device(self)), *diagonal = NULL;
    tpi_geometry g;
    bool ok = out && tpi_fill_data(out, tp_int(0)) && tpi_geometry_diagonal(out, offset, a, b, &g);
    if (ok) diagonal = tpi_alias(out, g.ndim, g.shape, g.strides, g.offset);
    ok = diagonal && tpi_copy_data(diagonal, self);
    tpi_release(diagonal);
    return ok ? out : tpi_release_then(out, NULL);
}

/* ---- repeat_interleave with a count per element: the index that does it ---- */
tp_tensor *tpi_native_repeat_interleave_Tensor(tp_tensor *repeats, int64_t output_size) {
    if (repeats->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'repeats': expected one dimension, got shape %s",
                        tpi_shape_text(tpi_shape(repeats)));
    if (repeats->dtype != TP_INT64 && repeats->dtype != TP_INT32)
        return tpi_fail(TP_ERR_MISSING, "argument 'repeats': \"repeat_interleave_cpu\" not implemented for '%s'",
                        tp_dtype_word((tp_dtype)repeats->dtype));
    tp_tensor *counts = tpi_index_data(repeats, "repeats");
    if (!counts) return NULL;
    const int64_t *count = (const int64_t *)(const void *)counts->data;
    int64_t total = 0;
    for (int64_t i = 0; i < counts->numel; i++) {
        if (count[i] < 0)
            return tpi_release_then(
                counts, tpi_fail(TP_ERR_RUNTIME, "argument 'repeats': expected no negative counts, got %lld at %lld",
                                 (long long)count[i], (long long)i));
        total = tpi_size_plus(total, count[i]);
    }
    if (output_size != TP_NONE && output_size != total)
        return tpi_release_then(counts,
                                tpi_fail(TP_ERR_RUNTIME, "argument 'output_size': the counts add up to %lld, got %lld",
                                         (long long)total, (long long)output_size));
    tp_tensor *out = tpi_empty((tp_ints){&total, 1}, TP_INT64, tpi_device(repeats));
    if (out) {
        int64_t *at = (int64_t *)(void *)out->data;
        for (int64_t i = 0; i < counts->numel; i++)
            for (int64_t k = 0; k < count[i]; k++) *at++ = i;
    }
    if (out && repeats->dtype != TP_INT64) { /* indices of the counts' dtype */
        tp_tensor *same = tpi_empty((tp_ints){&total, 1}, (tp_dtype)repeats->dtype, tpi_device(repeats));
        if (same && !tpi_copy_data(same, out)) same = tpi_release_then(same, NULL);
        out = tpi_release_then(out, same);
    }
    return tpi_release_then(counts, out);
}
