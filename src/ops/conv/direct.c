/* Direct convolution: the geometry of its copies, which shapes take it, and its tasks. See ops/conv/direct.h.
 *
 * A result is made in strips of a few channels. The input's gradient is, for each remainder of x's coordinates by the
 * stride, a convolution of y with the taps that reach it; so there is one set of offsets and filters ("phase") per
 * remainder, and nothing is multiplied by the zeros that a stride would put between the elements of y. Everything is
 * split by the shape alone. */
#include "ops/conv/direct.h"
#include "base/min_max.h"
#include <stdatomic.h>
#include <string.h>
#include "base/memory.h"
#include "base/threads.h"
#include "device/device.h"

enum {
    CHANNELS = 16,       /* narrow images: channels of x, */
    PATCH = 1024,        /* elements of a patch, */
    WEIGHT_PATCH = 256,  /* and for the weight's gradient */
    PHASES = 64,         /* remainders at most */
    BAND = 1 << 17,      /* elements of a copy that stay in the second cache */
    DEPTH = 512,         /* elements of a patch that are multiplied together: their filters stay in the first cache */
    TASKS = 32,          /* enough for balance */
    TASK_WORK = 1 << 20, /* multiply-adds that a task should have */
    CHUNKS = 16,         /* partial sums of a weight's gradient */
    PARTIAL = 1 << 22,   /* elements of all partial sums at most */
    SUMMED = 1024,       /* positions of a weight's gradient whose rows stay in the first cache */
    COPIED = 16,         /* channels that are copied together */
    SHORT = 64,          /* elements of a row that is copied together with others */
    TOGETHER = 1 << 16   /* elements of the images that a chunk lays out at once */
};
#define LARGEST 0x1p40 /* elements of all channels' copies, from above */

typedef struct job {
    const tpi_conv *c;
    tpi_conv_role role;
    tpi_direct_copy in, out;           /* of a band, as if it were the first */
    int64_t depth, rows;               /* channels of a group: that are read, and that results have */
    int64_t positions[3];              /* of the whole result */
    int dim;                           /* along which the result is cut into bands */
    int64_t band, bands;               /* positions of a band, and how many bands there are */
    int64_t volume, channel, copy;     /* elements of a part, of a channel's copy and of all copies of a group */
    int64_t phases, first[PHASES + 1]; /* taps of the phases before each */
    int64_t block[PHASES];             /* elements of a phase's patch that are multiplied together */
    int64_t taps, height, strips, slices, planes;
    int64_t low, high;         /* strips: rows of a strip, and how many strips have one more */
    int64_t in_size, out_size; /* elements of a channel */
    int64_t chunks, together;
    tpi_direct_runs runs[2]; /* of a band, and of the last one */
    int64_t computed;        /* positions that kernels compute, between rows and at runs' ends too */
    int64_t *offsets;
    uint16_t *lanes;
    float *filters, *copies; /* copies: of all bands, where several tasks share them, or NULL */
    const float *read, *second, *w, *bias;
    float *result;
    atomic_bool failed;
} job;

/* ---- Geometry ---- */

static int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }
static int64_t floor_div(int64_t a, int64_t b) { return (a - modulo(a, b)) / b; }

/* Sizes of dim i without bands. */
static void plan_dim(job *j, int i) {
    const tpi_conv *c = j->c;
    int64_t s = c->stride[i], last = (c->k[i] - 1) * c->dilation[i];
    bool back = j->role == TPI_CONV_X;
    j->positions[i] = back ? tpi_ceil_div(c->x[i], s) : c->y[i];
    int64_t low = -floor_div(last - c->pad[i], s), high = -floor_div(-c->pad[i], s); /* offsets into y, backward */
    j->in.size[i] = back ? c->y[i] : c->x[i];
    j->in.step[i] = back ? 1 : s;
    j->in.parts[i] = back ? 1 : tpi_min64(s, last + 1);
    j->in.origin[i] = back ? low : -c->pad[i];
    j->in.extent[i] = j->positions[i] + (back ? high - low : last / s);
    j->out.size[i] = back ? c->x[i] : c->y[i];
    j->out.step[i] = back ? s : 1;
    j->out.parts[i] = j->out.step[i];
    j->out.origin[i] = 0;
}

/* Rows one after the other share the zeros between them, where there are some on both sides. */
static void share_zeros(job *j) {
    int64_t whole = j->in.extent[2], before = tpi_max64(-j->in.origin[2], 0), end = j->in.size[2] - j->in.origin[2];
    if (j->in.step[2] != 1 || (j->positions[0] == 1 && j->positions[1] == 1)) return;
    j->in.extent[2] = tpi_min64(whole, tpi_max64(tpi_max64(whole - before, end), j->positions[2]));
    j->in.tail = whole - j->in.extent[2];
}

static int64_t in_parts(const job *j) { return tpi_size_product(j->in.parts, 3); }

/* What follows from the extents of a band. A channel's copy is an odd number of cache lines, so that the channels of a
 * place do not share the few lines of one set. */
static void plan_volume(job *j) {
    j->volume = tpi_size_product(j->in.extent, 3);
    j->channel = (tpi_ceil_div(in_parts(j) * j->volume + j->in.tail, 16) | 1) * 16;
    j->copy = j->depth * j->channel;
    memcpy(j->in.count, j->in.extent, sizeof j->in.count);
    memcpy(j->out.extent, j->in.extent, sizeof j->out.extent);
    memcpy(j->out.count, j->positions, sizeof j->out.count);
    j->out.count[j->dim] = j->band;
}

static void plan_bands(job *j, int64_t items, double work) {
    int64_t *n = j->positions;
    j->dim = n[0] > 1 ? 0 : n[1] > 1 ? 1 : 2;
    int64_t reach = j->in.extent[j->dim] - n[j->dim];
    j->band = n[j->dim];
    plan_volume(j);
    int64_t each = j->copy / j->in.extent[j->dim], fits = tpi_max64(BAND / tpi_max64(each, 1) - reach, 1);
    int64_t wanted = tpi_ceil_div(tpi_min64(TASKS, (int64_t)(work / TASK_WORK) + 1), items * j->strips);
    fits = tpi_min64(fits, tpi_ceil_div(n[j->dim], wanted));
    if (j->role == TPI_CONV_W) fits = tpi_min64(fits, tpi_max64(SUMMED * n[j->dim] / tpi_size_product(n, 3), 1));
    fits = tpi_max64(fits, tpi_max64(2 * reach, tpi_ceil_div(256 * n[j->dim], tpi_size_product(n, 3)))); /* the part of
        a band that its neighbours copy too, and its vectors, should not be what it costs */
    j->bands = tpi_ceil_div(n[j->dim], tpi_min64(fits, n[j->dim]));
    j->band = tpi_ceil_div(n[j->dim], j->bands);
    j->bands = tpi_ceil_div(n[j->dim], j->band);
    j->in.extent[j->dim] = j->band + reach;
    plan_volume(j);
}

/* Counts n positions through the ends of rows, and of planes, where that makes fewer vectors. Kernels take two of them
 * at least, and four more to begin with when there are few rows of results to hide the time of an addition. The answer
 * is how many positions are computed. */
static int64_t plan_runs(const job *j, const int64_t *n, tpi_direct_runs *runs) {
    const int64_t *e = j->in.extent, vector = tpi_cpu_isa == TPI_ISA_AVX512 ? 16 : 8;
    const int64_t row = n[2], plane = (n[1] - 1) * e[2] + n[2], all = (n[0] - 1) * e[1] * e[2] + plane;
    tpi_direct_runs ways[] = {
        {{1, 1}, {0, 0}, all}, {{n[0], 1}, {e[1] * e[2], 0}, plane}, {{n[0], n[1]}, {e[1] * e[2], e[2]}, row}};
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t each = 2 * tpi_ceil_div(ways[i].length, 2 * vector) + (j->rows <= 4 ? 4 : 0);
        int64_t vectors = ways[i].count[0] * ways[i].count[1] * each;
        if (vectors >= least) continue;
        least = vectors;
        *runs = ways[i];
    }
    return least * vector;
}

/* Which lanes of n vectors from a row's start on have an element, for rows `width` long and `pitch` apart. */
static uint16_t *mark_lanes(int64_t width, int64_t pitch, int64_t n, uint16_t *lanes) {
    int64_t column = 0;
    for (int64_t i = 0; i < n; i++) {
        lanes[i] = 0;
        for (int l = 0; l < 16; l++) {
            if (column < width) lanes[i] |= (uint16_t)(1u << l);
            column = column + 1 == pitch ? 0 : column + 1;
        }
    }
    return lanes;
}

/* Short rows are copied several at a time. */
static bool plan_lanes(job *j) {
    const int64_t *e = j->in.extent, n = tpi_ceil_div(e[1] * e[2], 16) + 1;
    if (e[2] > SHORT || tpi_cpu_isa != TPI_ISA_AVX512) return true;
    j->lanes = tpi_malloc(sizeof *j->lanes * (size_t)(2 * n));
    if (!j->lanes) return false;
    if (j->in.step[1] == 1 && j->in.step[2] == 1) j->in.lanes = mark_lanes(j->in.size[2], e[2], n, j->lanes);
    if (j->phases == 1) j->out.lanes = mark_lanes(j->out.size[2], e[2], n, j->lanes + n);
    return true;
}

/* The phase that a tap belongs to, and its offset in a channel's copy. */
static int64_t offset_of(const job *j, const int64_t tap[3], int64_t *offset) {
    const tpi_conv *c = j->c;
    int64_t phase = 0, part = 0, at = 0;
    for (int i = 0; i < 3; i++) {
        int64_t s = c->stride[i], t = tap[i] * c->dilation[i], index = t / s;
        if (j->role == TPI_CONV_X) {
            int64_t r = modulo(t - c->pad[i], s);
            phase = phase * s + r;
            index = (r + c->pad[i] - t) / s - j->in.origin[i];
        } else {
            part = part * j->in.parts[i] + t % s;
        }
        at = at * j->in.extent[i] + index;
    }
    *offset = part * j->volume + at;
    return phase;
}

/* Offsets (owned), phase by phase, channel by channel, and for each of them the tap (owned, behind the offsets). */
static bool plan_offsets(job *j) {
    const int64_t *k = j->c->k, n = j->depth * j->taps;
    j->offsets = tpi_malloc(sizeof *j->offsets * (size_t)(n + 3 * j->taps));
    if (!j->offsets) return false;
    int64_t *phase = j->offsets + n, *offset = phase + j->taps, *order = offset + j->taps;
    for (int64_t t = 0; t < j->taps; t++) {
        int64_t tap[3] = {t / (k[1] * k[2]), t / k[2] % k[1], t % k[2]};
        phase[t] = offset_of(j, tap, &offset[t]);
    }
    int64_t *to = j->offsets, done = 0;
    for (int64_t f = 0; f < j->phases; f++) {
        j->first[f] = done;
        for (int64_t t = 0; t < j->taps; t++)
            if (phase[t] == f) order[done++] = t;
        for (int64_t channel = 0; channel < j->depth; channel++)
            for (int64_t i = j->first[f]; i < done; i++) *to++ = channel * j->channel + offset[order[i]];
    }
    j->first[j->phases] = done;
    for (int64_t f = 0; f < j->phases; f++) {
        int64_t patch = j->depth * (j->first[f + 1] - j->first[f]);
        j->block[f] = tpi_ceil_div(patch, tpi_max64(tpi_ceil_div(patch, DEPTH), 1));
    }
    memmove(phase, order, sizeof *order * (size_t)j->taps);
    return true;
}

static const int64_t *taps_in_order(const job *j) { return j->offsets + j->depth * j->taps; }

/* Strips have nearly the same height: a low one is slower than its share. */
static int64_t strip_start(const job *j, int64_t strip) { return strip * j->low + tpi_min64(strip, j->high); }

/* Everything that needs no memory. */
static void plan_shape(job *j, const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    bool back = call->role == TPI_CONV_X;
    j->c = c;
    j->role = call->role;
    j->depth = back ? c->cy : c->cx;
    j->rows = back ? c->cx : c->cy;
    j->taps = tpi_conv_taps(c);
    j->phases = back ? tpi_size_product(c->stride, 3) : 1;
    j->height = TPI_ISA_PICK(tpi_direct_height)();
    j->strips = tpi_ceil_div(j->rows, j->height);
    j->low = j->rows / j->strips;
    j->high = j->rows % j->strips;
    for (int i = 0; i < 3; i++) plan_dim(j, i);
    share_zeros(j);
    j->in_size = tpi_size_product(j->in.size, 3);
    j->out_size = tpi_size_product(j->out.size, 3);
    int64_t items = c->batch * c->groups;
    double work = (double)items * c->cx * c->cy * j->taps * tpi_conv_ysize(c);
    plan_bands(j, items, work);
    double tasks = tpi_max64((int64_t)(work / TASK_WORK), 1);
    j->slices = tpi_min64(tpi_max64(tpi_min64(TASKS, (int64_t)tasks) / (items * j->bands), 1), j->strips);
    j->planes = tpi_max64((int64_t)((double)(items * j->bands * j->slices) / tasks), 1);
    int64_t last[3];
    memcpy(last, j->out.count, sizeof last);
    last[j->dim] = j->positions[j->dim] - (j->bands - 1) * j->band;
    j->computed = (j->bands - 1) * plan_runs(j, j->out.count, &j->runs[0]);
    j->computed += plan_runs(j, last, &j->runs[1]);
}

static bool plan(job *j, const tpi_conv_call *call) {
    plan_shape(j, call);
    j->read = call->role == TPI_CONV_X ? call->y : call->x;
    j->second = call->y;
    j->w = call->w;
    j->bias = call->bias;
    return plan_offsets(j) && plan_lanes(j);
}

/* The copies of band `band`. */
static void band_of(const job *j, int64_t band, tpi_direct_copy *in, tpi_direct_copy *out) {
    *in = j->in;
    *out = j->out;
    int64_t start = band * j->band;
    in->origin[j->dim] += start * in->step[j->dim];
    out->origin[j->dim] += start * out->step[j->dim];
}

static float *scratch_for(job *j, int64_t elements, size_t *bytes) {
    *bytes = (size_t)elements * sizeof(float);
    float *scratch = tpi_alloc(*bytes);
    if (!scratch) atomic_store(&j->failed, true);
    return scratch;
}

static bool finish(job *j, bool fine) {
    if (j->offsets) tpi_mfree(j->offsets);
    if (j->lanes) tpi_mfree(j->lanes);
    if (!fine || !atomic_load(&j->failed)) return fine;
    tpi_fail_memory((size_t)j->copy * sizeof(float), "a convolution's images");
    return false;
}

/* ---- Results ---- */

/* Filters as strips read them: (groups, strips, phases, patch, rows of the strip). */
static void filters_task(int64_t task, void *context) {
    const job *j = context;
    int64_t group = task / j->strips, strip = task % j->strips, row = strip_start(j, strip),
            rows = strip_start(j, strip + 1) - row;
    bool back = j->role == TPI_CONV_X;
    int64_t row_step = back ? j->taps : j->depth * j->taps, depth_step = back ? j->rows * j->taps : j->taps;
    const float *w = j->w + group * j->rows * j->depth * j->taps + row * row_step;
    float *to = j->filters + (group * j->rows + row) * j->depth * j->taps;
    const int64_t *taps = taps_in_order(j);
    for (int64_t f = 0; f < j->phases; f++)
        for (int64_t channel = 0; channel < j->depth; channel++)
            for (int64_t i = j->first[f]; i < j->first[f + 1]; i++)
                for (int64_t r = 0; r < rows; r++) *to++ = w[r * row_step + channel * depth_step + taps[i]];
}

/* One strip of a group's results in a band: phases that differ in the last dim alone are made side by side. */
static void make_strip(const job *j, const tpi_direct_runs *runs, const tpi_direct_copy *out, int64_t group,
                       int64_t strip, const float *in, float *sums, float *result) {
    int64_t row = strip_start(j, strip), rows = strip_start(j, strip + 1) - row,
            sums_row = j->volume + TPI_DIRECT_SLACK, part[2] = {0, 0}, beside = 0;
    const float *filters = j->filters + (group * j->rows + row) * j->depth * j->taps;
    tpi_direct_strip s = {
        .runs = *runs, .rows = rows, .bias = j->bias ? j->bias + group * j->rows + row : NULL, .out_row = sums_row};
    for (int64_t f = 0; f < j->phases; f++) {
        int64_t at = j->depth * j->first[f];
        s.patch = j->depth * j->first[f + 1] - at;
        s.block = j->block[f];
        s.offsets = j->offsets + at;
        s.filters = filters + at * rows;
        TPI_ISA_PICK(tpi_direct_strip_run)(&s, in, sums + beside * rows * sums_row);
        if (++beside < out->step[2]) continue;
        for (int64_t r = 0; r < rows; r++) TPI_ISA_PICK(tpi_direct_copy_out)
        (out, part, sums + r * sums_row, rows * sums_row, result + (row + r) * j->out_size);
        beside = 0;
        if (++part[1] < out->step[1]) continue;
        part[1] = 0;
        part[0]++;
    }
}

static void copy_channels(const job *j, const tpi_direct_copy *in, int64_t plane, int64_t first, int64_t end,
                          float *to) {
    for (int64_t d = first; d < end; d++)
        TPI_ISA_PICK(tpi_direct_copy_in)(in, j->read + (plane * j->depth + d) * j->in_size, to + d * j->channel);
}

/* Zeros behind the channels' copies and behind the last one, where kernels read for positions that nobody wants. What
 * memory happens to hold there may be denormal, which takes some processors a hundred times as long. */
static void clear_behind(const job *j, int64_t first, int64_t end, float *copy) {
    int64_t used = in_parts(j) * j->volume + j->in.tail;
    for (int64_t d = first; d < end; d++)
        memset(copy + d * j->channel + used, 0, (size_t)(j->channel - used) * sizeof *copy);
    if (end == j->depth) memset(copy + j->copy, 0, TPI_DIRECT_SLACK * sizeof *copy);
}

/* Where the tasks are slices of channels, they share the copies: (planes, bands, copy). */
static void copies_task(int64_t task, void *context) {
    const job *j = context;
    int64_t blocks = tpi_ceil_div(j->depth, COPIED), first = task % blocks * COPIED, item = task / blocks,
            end = tpi_min64(first + COPIED, j->depth);
    float *copy = j->copies + item * (j->copy + TPI_DIRECT_SLACK);
    tpi_direct_copy in, out;
    band_of(j, item % j->bands, &in, &out);
    copy_channels(j, &in, item / j->bands, first, end, copy);
    clear_behind(j, first, end, copy);
}

static void result_task(int64_t task, void *context) {
    job *j = context;
    int64_t slice = task % j->slices, band = task / j->slices % j->bands,
            first = task / j->slices / j->bands * j->planes, groups = j->c->groups, group = first % groups,
            end = tpi_min64(first + j->planes, j->c->batch * groups), each = j->copy + TPI_DIRECT_SLACK;
    tpi_direct_copy in, out;
    band_of(j, band, &in, &out);
    size_t bytes;
    int64_t sums = tpi_min64(j->height, j->rows) * out.step[2] * (j->volume + TPI_DIRECT_SLACK);
    float *scratch = scratch_for(j, sums + (j->copies ? 0 : each), &bytes);
    if (!scratch) return;
    if (!j->copies) clear_behind(j, 0, j->depth, scratch + sums);
    for (int64_t plane = first; plane < end; plane++) {
        float *copy = j->copies ? j->copies + (plane * j->bands + band) * each : scratch + sums;
        if (!j->copies) copy_channels(j, &in, plane, 0, j->depth, copy);
        for (int64_t strip = slice * j->strips / j->slices; strip < (slice + 1) * j->strips / j->slices; strip++)
            make_strip(j, &j->runs[band == j->bands - 1], &out, group, strip, copy, scratch,
                       j->result + plane * j->rows * j->out_size);
        if (++group == groups) group = 0;
    }
    tpi_free(scratch, bytes);
}

static bool run_results(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    job j = {.result = call->out};
    bool fine = plan(&j, call);
    int64_t items = c->batch * c->groups, copies = items * j.bands * (j.copy + TPI_DIRECT_SLACK);
    size_t bytes = (size_t)(c->groups * c->cx * c->cy * j.taps) * sizeof(float),
           copies_bytes = (size_t)copies * sizeof(float);
    j.filters = fine ? tpi_alloc(bytes) : NULL;
    j.copies = j.filters && j.slices > 1 ? tpi_alloc(copies_bytes) : NULL;
    fine = j.filters && (j.copies || j.slices == 1);
    if (fine) {
        tpi_parallel_for(c->groups * j.strips, bytes > 100000, filters_task, &j);
        if (j.copies) tpi_parallel_for(items * j.bands * tpi_ceil_div(j.depth, COPIED), true, copies_task, &j);
        tpi_parallel_for(tpi_ceil_div(items, j.planes) * j.bands * j.slices, true, result_task, &j);
    }
    if (j.copies) tpi_free(j.copies, copies_bytes);
    if (j.filters) tpi_free(j.filters, bytes);
    return finish(&j, fine);
}

/* ---- The weight's gradient: a task is one group over a chunk of the bands of all images ---- */

static void grads_task(int64_t task, void *context) {
    job *j = context;
    int64_t group = task % j->c->groups, chunk = task / j->c->groups, items = j->c->batch * j->bands,
            weights = j->rows * j->depth * j->taps;
    int64_t in_image = j->copy + TPI_DIRECT_SLACK, out_row = j->volume + TPI_DIRECT_SLACK,
            image = in_image + j->rows * out_row;
    float *grads = j->result + (chunk * j->c->groups + group) * weights;
    memset(grads, 0, (size_t)weights * sizeof *grads);
    size_t bytes;
    float *copies = scratch_for(j, j->together * image, &bytes);
    if (!copies) return;
    memset(copies, 0, bytes);
    tpi_direct_grads g = {.runs = j->runs[0],
                          .rows = j->rows,
                          .patch = j->depth * j->taps,
                          .offsets = j->offsets,
                          .in_image = image,
                          .out_image = image,
                          .out_row = out_row};
    int64_t end = items * (chunk + 1) / j->chunks;
    for (int64_t item = items * chunk / j->chunks; item < end; item += j->together) {
        g.images = tpi_min64(j->together, end - item);
        for (int64_t i = 0; i < g.images; i++) {
            tpi_direct_copy in, out;
            band_of(j, (item + i) % j->bands, &in, &out);
            int64_t plane = (item + i) / j->bands * j->c->groups + group;
            float *to = copies + i * image;
            copy_channels(j, &in, plane, 0, j->depth, to);
            for (int64_t r = 0; r < j->rows; r++) TPI_ISA_PICK(tpi_direct_copy_in)
            (&out, j->second + (plane * j->rows + r) * j->out_size, to + in_image + r * out_row);
        }
        TPI_ISA_PICK(tpi_direct_grads_run)(&g, copies, copies + in_image, grads);
    }
    tpi_free(copies, bytes);
}

static bool run_grads(const tpi_conv_call *call) {
    job j = {0};
    bool fine = plan(&j, call);
    int64_t weights = call->c->groups * j.rows * j.depth * j.taps, items = call->c->batch * j.bands;
    int64_t most = tpi_max64(tpi_min64(CHUNKS, PARTIAL / weights), 1);
    j.chunks = tpi_min64(tpi_min64(tpi_ceil_div(TASKS, call->c->groups), most), items);
    int64_t image = j.copy + j.rows * j.volume;
    j.together = tpi_min64(tpi_max64(TOGETHER / image, 1), tpi_ceil_div(items, j.chunks));
    size_t bytes = (size_t)(weights * j.chunks) * sizeof(float);
    j.result = fine && j.chunks > 1 ? tpi_alloc(bytes) : call->out;
    fine = fine && j.result;
    if (fine) {
        tpi_parallel_for(j.chunks * call->c->groups, true, grads_task, &j);
        if (j.chunks > 1) {
            if (!atomic_load(&j.failed)) tpi_conv_merge(TP_FLOAT32, j.result, weights, j.chunks, call->out);
            tpi_free(j.result, bytes);
        }
    }
    return finish(&j, fine);
}

static bool all_finite(const float *v, int64_t n) {
    const uint32_t exponent = 0x7f800000;
    bool found = false;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return !found;
}

/* Gradients of weights meet elements of x with the zeros between rows of y: an infinity makes a NaN there. Products
 * over patches do not. */
static bool run_exact_grads(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    if (!run_grads(call)) return false;
    bool finite = all_finite(call->out, c->groups * c->cy * c->cx * tpi_conv_taps(c));
    return finite || tpi_conv_products.run(call);
}

/* Is it quicker than products over patches? Multiply-adds of one group, and what stands beside them in their measure,
 * from timings on one core of an AMD EPYC with AVX-512: copies here, columns and packing there. */
static bool beats_products(const job *j) {
    const tpi_conv *c = j->c;
    double positions = (double)tpi_conv_ysize(c), patch = (double)(j->depth * j->taps), rows = (double)j->rows,
           computed = (double)j->computed;
    if (j->role == TPI_CONV_W) {
        bool plain = j->taps == 1 && in_parts(j) == 1 && tpi_conv_xsize(c) == tpi_conv_ysize(c);
        return (1.35 * computed + 66 * (double)j->bands) * patch * rows <
               positions * patch * (plain ? 2 * rows : (rows + 10) / 0.8);
    }
    if (j->taps == 1 && c->groups == 1) return false; /* images are their own columns there, or a part of them is */
    double copies = (double)(j->copy * j->bands) * (j->in.step[2] > 2 ? 12 : 2) +
                    rows * (double)j->out_size * (j->out.step[2] > 2 ? 12 : 2);
    return 1.05 * computed * patch * rows + copies < positions * patch * (rows + 8) / 0.88;
}

/* Copies hold the padding and what taps reach: sizes that a dilation without bounds makes are not for them. */
static bool is_sizeable(const tpi_conv *c) {
    double padded = (double)(c->cx + c->cy);
    for (int i = 0; i < 3; i++) {
        double reach = (double)(c->k[i] - 1) * (double)c->dilation[i], pad = (double)c->pad[i];
        padded *= (double)c->x[i] + (double)c->y[i] + 2 * (pad < 0 ? -pad : pad) + reach;
    }
    return padded < LARGEST;
}

static bool serves(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    if (call->dtype != TP_FLOAT32 || call->last || tpi_cpu_isa < TPI_ISA_AVX2) return false;
    if (c->batch == 0 || c->cx == 0 || c->cy == 0 || tpi_conv_ysize(c) == 0 || tpi_conv_xsize(c) == 0) return false;
    return tpi_size_product(c->stride, 3) <= PHASES && is_sizeable(c);
}

static bool fits(const tpi_conv_call *call) {
    if (!serves(call)) return false;
    job j = {0};
    plan_shape(&j, call);
    return beats_products(&j);
}

/* Images with few channels and stride one, for which this is quicker than Winograd's tiles and the library too. */
static bool fits_narrow(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    if (!serves(call) || c->groups != 1 || c->x[0] != 1 || c->k[0] != 1 || c->pad[0] != 0 || c->stride[0] != 1)
        return false;
    int64_t taps = tpi_conv_taps(c);
    if (c->stride[1] != 1 || c->stride[2] != 1 || taps == 1 || c->cx > CHANNELS || c->y[2] < 6) return false;
    if (call->role == TPI_CONV_X) return c->cy <= 4 * CHANNELS && c->cy * taps <= PATCH;
    return c->cx * taps <= (call->role == TPI_CONV_W ? WEIGHT_PATCH : PATCH);
}

static bool run(const tpi_conv_call *call) {
    return call->role == TPI_CONV_W ? run_exact_grads(call) : run_results(call);
}

const tpi_conv_way tpi_conv_narrow = {fits_narrow, run}, tpi_conv_direct = {fits, run};
