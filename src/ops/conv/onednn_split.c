/* How a convolution is cut for oneDNN, and which convolutions go there.
 *
 * A call of the library computes a few images and a slice of the channels on one thread. The cut depends on the shape
 * alone, and partial weight gradients are added in the order of the images, so the bits do not depend on threads.
 * Images move into the library's layout call by call, while they are in the cache; weights move once.
 *
 * Which shapes: measured on one core of an AMD EPYC with AVX2 (library 2.6.3; our own code / the library, moves
 * included, milliseconds, batch 8, forward, input gradient, weight gradient): 3x3, 64 channels,
 * 56x56          28.7/22.4   31.3/21.7   30.1/27.0 3x3, 512 channels, 7x7           33.2/24.3   25.9/27.6   26.8/31.0
 * the weights outweigh the images 3x3x3, 32 channels, 16x32x32      80.6/41.0   93.3/41.6   (no kernel) 1x1, 256 to 64,
 * 56x56            12.8/13.0   12.7/15.4   19.0/12.9   a plain product, but for the weights 7x7 stride 2, 3 to 64,
 * 224x224   40.3/23.2   (no kernel) 42.3/33.0 3x3, 1 to 32, 28x28, batch 64     1.0/0.9     0.9/3.9     1.3/3.6    one
 * channel is padded to eight 9 taps, 64 channels, 4096        (no kernel) 91.8/67.9   80.8/92.4 depthwise 3x3, 96,
 * 56x56          5.1/2.5     5.4/2.8     6.1/2.9 */
#include "ops/conv/onednn.h"
#include "base/min_max.h"
#include "base/threads.h"
#include <stdatomic.h>

enum {
    LEAST_WORK = 1 << 20,    /* multiply-adds below which a call is not worth its overhead */
    CALL_ELEMENTS = 1 << 16, /* small images are handed over together, up to about this many elements of x and y */
    TASKS = 16,              /* enough for balance */
    FEW_TASKS = 8,           /* with fewer images than this, channels are sliced too */
    SLICE = 32,              /* the fewest channels worth a slice: kernels work on that many at a time */
    WEIGHT_SLICE = 128,      /* x's channels in a slice of a weight gradient */
    LIGHT_WEIGHTS = 1 << 18, /* weights above which their gradient is a better product than a convolution */
    PARTS = 1 << 24          /* elements in all partial sums of weights together, about */
};
#define MOST_ELEMENTS ((int64_t)1 << 28) /* of any array of a call: offsets in kernels have 32 bits */

typedef struct cut {
    tpi_onednn_piece piece;
    int64_t images, calls;  /* per call; over the batch */
    int64_t slices;         /* of groups, else of y's channels (forward) or x's (backward) */
    int64_t x_step, y_step; /* channels from one slice to the next; 0: every slice sees them all */
    int64_t chunks, each;   /* weight gradient: partial sums, and calls that make up one */
} cut;

static int64_t spatial_of(const tpi_conv *c) { /* leading dims of size 1 that nothing moves over are left out */
    for (int i = 0; i < 2; i++)
        if (c->x[i] != 1 || c->y[i] != 1 || c->k[i] != 1 || c->pad[i] != 0) return 3 - i;
    return 1;
}

/* The choice: see the figures at the top. */
static bool worth_it(const tpi_conv *c, tpi_conv_role role, bool last) {
    int64_t taps = tpi_conv_taps(c), depthwise = c->cx == 1 && c->cy == 1;
    double work = (double)c->batch * c->groups * c->cy * c->cx * taps * tpi_conv_ysize(c);
    if (work < LEAST_WORK) return false;
    if (c->groups > 1) return depthwise ? c->groups >= 8 && spatial_of(c) > 1 : c->cx % 8 == 0 && c->cy % 8 == 0;
    bool wide = c->cx >= 8 && c->cy >= 8, light = c->cy * c->cx * taps <= LIGHT_WEIGHTS;
    if (role == TPI_CONV_Y) return taps > 1 || (last && wide);
    if (role == TPI_CONV_X) return c->cx % 8 == 0 && c->cy % 8 == 0 && (taps > 1 || last);
    if (taps == 1) return wide;
    return (wide || c->cx == 3) && light && spatial_of(c) > 1; /* three channels have a kernel of their own */
}

static int64_t divisor_up_to(int64_t n, int64_t most) { /* the largest */
    for (int64_t d = most; d > 1; d--)
        if (n % d == 0) return d;
    return 1;
}

/* The largest power of two up to `most` that leaves slices of `least` channels or more, all of one size. */
static int64_t slices_up_to(int64_t channels, int64_t most, int64_t least) {
    int64_t slices = 1;
    while (slices * 2 <= most && channels % (slices * 2) == 0 && channels / (slices * 2) >= least) slices *= 2;
    return slices;
}

static cut cut_up(const tpi_conv *c, tpi_conv_role role, bool last, bool bias) {
    cut t = {.piece = {.c = *c,
                       .x_channels = c->groups * c->cx,
                       .y_channels = c->groups * c->cy,
                       .w_channels = c->cx,
                       .spatial = spatial_of(c),
                       .role = role,
                       .bias = bias && role == TPI_CONV_Y,
                       .last = last}};
    int64_t image = t.piece.x_channels * tpi_conv_xsize(c) + t.piece.y_channels * tpi_conv_ysize(c);
    t.images = divisor_up_to(c->batch, tpi_min64(tpi_max64(CALL_ELEMENTS / image, 1), tpi_ceil_div(c->batch, TASKS)));
    t.calls = c->batch / t.images;
    int64_t *sliced = c->groups > 1 ? &t.piece.c.groups : role == TPI_CONV_Y ? &t.piece.c.cy : &t.piece.c.cx;
    int64_t least = c->groups > 1 ? tpi_ceil_div(SLICE, c->cx) : SLICE;
    t.slices = t.calls >= FEW_TASKS ? 1 : slices_up_to(*sliced, tpi_ceil_div(FEW_TASKS, t.calls), least);
    /* Kernels that are as fast on images channels last, so that nothing need move, unless channels are sliced: products
     * of pixels with a matrix, and depthwise ones but for the weights. */
    bool plain = last && (tpi_conv_taps(c) == 1 || (c->cx == 1 && c->cy == 1 && role != TPI_CONV_W));
    if (role == TPI_CONV_W && c->groups == 1 && !plain)
        t.slices = tpi_max64(t.slices, slices_up_to(*sliced, TASKS, WEIGHT_SLICE));
    *sliced /= t.slices;
    t.piece.as_stored = plain && t.slices == 1;
    t.x_step = c->groups > 1 || role != TPI_CONV_Y ? t.piece.c.groups * t.piece.c.cx : 0;
    t.y_step = c->groups > 1 || role == TPI_CONV_Y ? t.piece.c.groups * t.piece.c.cy : 0;
    int64_t parts = tpi_min64(TASKS / t.slices, PARTS / (c->groups * c->cy * c->cx * tpi_conv_taps(c)));
    t.each = tpi_ceil_div(t.calls, tpi_min64(t.calls, tpi_max64(parts, 1)));
    t.chunks = tpi_ceil_div(t.calls, t.each);
    t.piece.c.batch = t.images;
    return t;
}

static bool within_reach(const cut *t) {
    const tpi_onednn_piece *p = &t->piece;
    double x = (double)t->images * p->x_channels * tpi_conv_xsize(&p->c),
           y = (double)t->images * p->y_channels * tpi_conv_ysize(&p->c);
    double w = (double)p->c.groups * p->c.cy * p->w_channels * tpi_conv_taps(&p->c);
    return x < MOST_ELEMENTS && y < MOST_ELEMENTS && w < MOST_ELEMENTS;
}

static bool fits(const tpi_conv_call *call) {
    if (call->dtype != TP_FLOAT32 || !worth_it(call->c, call->role, call->last)) return false;
    cut t = cut_up(call->c, call->role, call->last, call->bias);
    tpi_onednn_plan *plan = within_reach(&t) ? tpi_onednn_plan_for(&t.piece) : NULL;
    tpi_onednn_plan_done(plan);
    return plan;
}

/* ---- Running ---- */

typedef struct job {
    cut t;
    const tpi_onednn_plan *plan;
    const float *x, *y, *w, *bias;
    char *packed; /* the slices' weights one after the other; of a weight gradient, those of the chunks */
    size_t packed_bytes, scratch_bytes;
    atomic_bool no_memory, failed;
} job;

static float *x_at(const job *j, int64_t call, int64_t slice) {
    int64_t plane = tpi_conv_xsize(&j->t.piece.c);
    return (float *)j->x + call * j->t.images * j->t.piece.x_channels * plane +
           slice * j->t.x_step * (j->t.piece.last ? 1 : plane);
}
static float *y_at(const job *j, int64_t call, int64_t slice) {
    int64_t plane = tpi_conv_ysize(&j->t.piece.c);
    return (float *)j->y + call * j->t.images * j->t.piece.y_channels * plane +
           slice * j->t.y_step * (j->t.piece.last ? 1 : plane);
}
static float *
w_at(const job *j,
     int64_t slice) { /* w's rows are y's channels, and its columns belong to x's channels inside of a group */
    const tpi_onednn_piece *p = &j->t.piece;
    int64_t column = j->t.y_step ? 0 : slice * j->t.x_step;
    return (float *)j->w + (slice * j->t.y_step * p->w_channels + column) * tpi_conv_taps(&p->c);
}
static float *packed_at(const job *j, int64_t i) { return (float *)(j->packed + (size_t)i * j->packed_bytes); }

/* The bias of a transposed convolution, which the library does not know. */
static void add_bias(const job *j, float *x, int64_t slice) {
    const tpi_onednn_piece *p = &j->t.piece;
    int64_t channels = p->c.groups * p->c.cx, plane = tpi_conv_xsize(&p->c);
    const float *bias = j->bias + slice * j->t.x_step;
    for (int64_t image = 0; image < j->t.images; image++, x += p->x_channels * plane) {
        if (p->last)
            for (int64_t i = 0; i < plane; i++)
                for (int64_t c = 0; c < channels; c++) x[i * p->x_channels + c] += bias[c];
        else
            for (int64_t c = 0; c < channels; c++)
                for (int64_t i = 0; i < plane; i++) x[c * plane + i] += bias[c];
    }
}

static void pack_task(int64_t slice, void *context) {
    job *j = context;
    if (!tpi_onednn_pack(j->plan, w_at(j, slice), packed_at(j, slice))) atomic_store(&j->failed, true);
}

static void unpack_task(int64_t slice, void *context) {
    job *j = context;
    if (!tpi_onednn_unpack(j->plan, packed_at(j, slice), w_at(j, slice))) atomic_store(&j->failed, true);
}

static void *scratch_for(job *j, size_t bytes) {
    void *scratch = tpi_alloc(bytes);
    if (!scratch) atomic_store(&j->no_memory, true);
    return scratch;
}

/* Forward and input gradient: a task is one call. */
static void image_task(int64_t task, void *context) {
    job *j = context;
    int64_t slice = task % j->t.slices, call = task / j->t.slices;
    void *scratch = scratch_for(j, j->scratch_bytes);
    if (!scratch) return;
    const float *bias = j->t.piece.bias ? j->bias + slice * j->t.y_step : NULL;
    float *x = x_at(j, call, slice);
    if (!tpi_onednn_run(j->plan, x, packed_at(j, slice), bias, y_at(j, call, slice), scratch))
        atomic_store(&j->failed, true);
    if (j->t.piece.role == TPI_CONV_X && j->bias) add_bias(j, x, slice);
    tpi_free(scratch, j->scratch_bytes);
}

/* Weight gradient: a task is one partial sum, of a slice over a chunk of calls, added in their order. */
static void weight_task(int64_t task, void *context) {
    job *j = context;
    int64_t slice = task % j->t.slices, chunk = task / j->t.slices,
            end = tpi_min64(j->t.calls, (chunk + 1) * j->t.each);
    size_t bytes = j->scratch_bytes + j->packed_bytes;
    char *scratch = scratch_for(j, bytes);
    float *sum = packed_at(j, task), *more = (float *)(scratch + j->scratch_bytes);
    for (int64_t call = chunk * j->t.each; scratch && call < end; call++) {
        bool first = call == chunk * j->t.each;
        if (!tpi_onednn_run(j->plan, x_at(j, call, slice), first ? sum : more, NULL, y_at(j, call, slice), scratch))
            atomic_store(&j->failed, true);
        for (size_t i = 0; !first && i < j->packed_bytes / sizeof *sum; i++) sum[i] += more[i];
    }
    if (scratch) tpi_free(scratch, bytes);
}

static bool finish(job *j) {
    if (atomic_load(&j->no_memory)) {
        tpi_fail_memory(j->scratch_bytes, "convolution images");
        return false;
    }
    if (atomic_load(&j->failed)) return tpi_refuse(TP_ERR_RUNTIME, "oneDNN could not compute the convolution");
    return true;
}

static bool run_weights(job *j) {
    int64_t slices = j->t.slices, n = (int64_t)(j->packed_bytes / sizeof(float)) * slices;
    tpi_parallel_for(j->t.chunks * slices, true, weight_task, j);
    if (!finish(j)) return false;
    if (j->t.chunks > 1) tpi_conv_merge(TP_FLOAT32, j->packed, n, j->t.chunks, j->packed);
    tpi_parallel_for(slices, true, unpack_task, j);
    return finish(j);
}

static bool run_images(job *j) {
    tpi_parallel_for(j->t.slices, true, pack_task, j);
    tpi_parallel_for(j->t.calls * j->t.slices, true, image_task, j);
    return finish(j);
}

static bool run(const tpi_conv_call *call) {
    tpi_conv_role role = call->role;
    job j = {.t = cut_up(call->c, role, call->last, call->bias),
             .x = role == TPI_CONV_X ? call->out : call->x,
             .y = role == TPI_CONV_Y ? call->out : call->y,
             .w = role == TPI_CONV_W ? call->out : call->w,
             .bias = call->bias};
    tpi_onednn_plan *plan = tpi_onednn_plan_for(&j.t.piece);
    if (!plan) return tpi_refuse(TP_ERR_RUNTIME, "oneDNN has no kernel for the convolution");
    j.plan = plan;
    j.packed_bytes = tpi_onednn_packed_bytes(plan);
    j.scratch_bytes = tpi_onednn_scratch_bytes(plan);
    size_t bytes = j.packed_bytes * (size_t)(role == TPI_CONV_W ? j.t.slices * j.t.chunks : j.t.slices);
    j.packed = tpi_alloc(bytes);
    bool ok = j.packed && (role == TPI_CONV_W ? run_weights(&j) : run_images(&j));
    if (j.packed) tpi_free(j.packed, bytes);
    tpi_onednn_plan_done(plan);
    return ok;
}

const tpi_conv_way tpi_conv_onednn = {fits, run};
