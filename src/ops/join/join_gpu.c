/* cat on GPUs: parts whose rows lie dense and evenly are read by one kernel, eight at a time; others are copied into
 * their places, each in one launch. */
#include "ops/native_gpu.h"

static const tpi_gpu_site site = {"cat_gpu_kernel.h", "cat"};

enum { MOST_PARTS = 8, SEVERAL = 4 /* pieces of a thread, as the kernel has it */ };

/* Empty one-dimensional tensors count as nothing, whatever the others' shapes. */
static bool is_nothing(const tp_tensor *t) { return t->ndim == 1 && t->numel == 0; }

/* ---- One kernel ---- */
typedef struct joined {
    tp_tensor *out;
    int order[TP_MAX_DIMS],
        at;              /* dims as they lie in memory, outermost first; which of them is the one to join along */
    int64_t rows, inner; /* what lies before that dim; bytes of one step along it */
    int d, piece;
    bool large;
} joined;

static joined described(tp_tensor *out, int d, tp_layout layout) {
    static const int last[] = {0, 2, 3, 1};
    joined c = {.out = out, .rows = 1, .inner = (int64_t)tpi_itemsize(out), .d = d};
    for (int i = 0; i < out->ndim; i++) {
        c.order[i] = layout == TP_CHANNELS_LAST ? last[i] : i;
        if (c.order[i] == d) c.at = i;
    }
    for (int i = 0; i < out->ndim; i++) {
        if (i < c.at) c.rows *= out->shape[c.order[i]];
        if (i > c.at) c.inner *= out->shape[c.order[i]];
    }
    return c;
}

/* Elements from one of t's rows to the next, where its rows are dense and lie evenly; -1 if not. */
static int64_t pitch_of(const joined *c, const tp_tensor *t) {
    int64_t run = 1, pitch = -1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        int k = c->order[i];
        if (t->shape[k] == 1) continue;
        if (i < c->at && pitch < 0) pitch = run = t->strides[k]; /* the innermost of the dims before */
        if (t->strides[k] != run) return -1;
        run *= t->shape[k];
    }
    return pitch < 0 ? run : pitch;
}

/* Bytes that every row of every part is a multiple of, and lies on; 0: parts do not lie as a kernel reads them. */
static int piece_of(const joined *c, tp_tensors parts) {
    uintptr_t all = (uintptr_t)c->out->data | (uintptr_t)(c->inner * c->out->shape[c->d]);
    for (int64_t i = 0; i < parts.n; i++) {
        const tp_tensor *t = parts.v[i];
        if (!t->numel) continue;
        int64_t pitch = pitch_of(c, t);
        if (pitch < 0) return 0;
        all |= (uintptr_t)t->data | (uintptr_t)(t->shape[c->d] * c->inner);
        all |= (uintptr_t)(pitch * (int64_t)tpi_itemsize(t));
    }
    int piece = 16;
    while (all % (uintptr_t)piece) piece /= 2;
    return piece;
}

/* Is a part so spread that its pieces are not counted in 31 bits? */
static bool is_spread(const joined *c, const tp_tensor *t) {
    return t->numel && tpi_gpu_is_large(c->rows * pitch_of(c, t) * (int64_t)tpi_itemsize(t) / c->piece);
}

static bool launch(const joined *c, int n, tp_tensor *const *part, int64_t from) {
    int parts = n <= 2 ? 2 : n <= 4 ? 4 : MOST_PARTS;
    int64_t ends[2 * MOST_PARTS], width = 0; /* where parts end in a row, and their rows' pitches */
    for (int i = 0; i < parts; i++) {
        const tp_tensor *t = part[i < n ? i : 0];
        if (i < n) width += t->shape[c->d] * c->inner / c->piece;
        ends[i] = width;
        ends[parts + i] = pitch_of(c, t) * (int64_t)tpi_itemsize(t) / c->piece;
    }
    int64_t pitch = c->inner * c->out->shape[c->d] / c->piece, count = c->rows * width;
    const tpi_gpu_define defines[] = {TPI_DEFINE("PIECE", c->piece), TPI_DEFINE("PARTS", parts),
                                      TPI_DEFINE("LARGE", c->large)};
    tp_device device = tpi_device(c->out);
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &site, false, 3, defines);
    tpi_gpu_arg args[1 + MOST_PARTS + 4] = {TPI_GPU_PTR(c->out->data + from * c->piece)};
    for (int i = 0; i < parts; i++) args[1 + i] = TPI_GPU_PTR(part[i < n ? i : 0]->data);
    args[1 + parts] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)(2 * parts * 8), ends};
    args[2 + parts] = TPI_GPU_VAL(width);
    args[3 + parts] = TPI_GPU_VAL(pitch);
    args[4 + parts] = TPI_GPU_VAL(count);
    int64_t blocks = tpi_gpu_blocks(tpi_ceil_div(count, SEVERAL));
    return kernel && tpi_gpu_launch(device, kernel, blocks, 256, 0, 5 + parts, args);
}

static bool join_at_once(joined *c, tp_tensors parts) {
    tp_tensor *some[MOST_PARTS];
    int n = 0;
    int64_t from = 0, at = 0;
    c->large = tpi_gpu_is_large(c->out->numel * (int64_t)tpi_itemsize(c->out) / c->piece);
    for (int64_t i = 0; i < parts.n; i++) c->large = c->large || is_spread(c, parts.v[i]);
    for (int64_t i = 0; i < parts.n; i++) {
        tp_tensor *t = parts.v[i];
        if (t->numel) {
            some[n++] = t;
            at += t->shape[c->d] * c->inner / c->piece;
        }
        if (n && (n == MOST_PARTS || i + 1 == parts.n)) {
            if (!launch(c, n, some, from)) return false;
            n = 0;
            from = at;
        }
    }
    return true;
}

/* ---- One copy after the other ---- */
static bool join_by_copies(tp_tensor *out, tp_tensors parts, int d) {
    int64_t at = 0;
    for (int64_t i = 0; i < parts.n; i++) {
        tp_tensor *t = parts.v[i];
        if (is_nothing(t)) continue;
        tp_tensor *target = tpi_narrowed(out, d, at, t->shape[d]);
        bool ok = target && (!t->numel || tpi_copy_data(target, t));
        at += t->shape[d];
        tpi_release(target);
        if (!ok) return false;
    }
    return true;
}

static bool join(tp_tensor *out, tp_tensors parts, int d, tp_layout layout) {
    joined c = described(out, d, layout);
    c.piece = piece_of(&c, parts);
    return c.piece ? join_at_once(&c, parts) : join_by_copies(out, parts, d);
}

tpi_served tpi_gpu_cat(tp_tensors tensors, int64_t dim, tp_tensor **result) {
    tp_tensor *first = NULL;
    for (int64_t i = 0; i < tensors.n && !first; i++)
        if (!is_nothing(tensors.v[i])) first = tensors.v[i];
    int d = first && first->ndim ? TPI_DIM(first, dim) : -1;
    if (d < 0) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    int64_t shape[TP_MAX_DIMS], length = 0;
    memcpy(shape, first->shape, (size_t)first->ndim * sizeof *shape);
    bool last = first->ndim == 4 && !tp_is_contiguous(first) && tp_is_contiguous_as(first, TP_CHANNELS_LAST);
    for (int64_t i = 0; i < tensors.n; i++) {
        const tp_tensor *t = tensors.v[i];
        if (is_nothing(t)) continue;
        if (t->dtype != first->dtype || t->ndim != first->ndim) return TPI_DECLINED;
        for (int k = 0; k < t->ndim; k++)
            if (k != d && t->shape[k] != shape[k]) return TPI_DECLINED;
        last = last && !tp_is_contiguous(t) && tp_is_contiguous_as(t, TP_CHANNELS_LAST);
        length += t->shape[d];
    }
    shape[d] = length;
    tp_layout layout = last ? TP_CHANNELS_LAST : TP_CONTIGUOUS;
    tp_tensor *out =
        tpi_empty_layout(tp_ints_view(shape, first->ndim), (tp_dtype)first->dtype, tpi_device(first), layout);
    return tpi_serve(out && (!out->numel || join(out, tensors, d, layout)) ? out : tpi_release_then(out, NULL), result);
}
