/* Which convolutions are narrow, and their tasks: a few images each, or for the weight's gradient a fixed share of the
 * batch. See ops/conv/narrow.h.
 *
 * Measured on one core of an AMD EPYC with AVX2 (columns or the library / this, microseconds: forward, input gradient,
 * weight gradient): 5x5, 3 to 6, 32x32, batch 32      890/335   1169/477   567/404 5x5, 6 to 16, 14x14, batch 32
 * 352/317    658/424   726/484 */
#include "ops/conv/narrow.h"
#include "base/min_max.h"
#include <stdatomic.h>
#include "base/memory.h"
#include "base/threads.h"
#include "device/device.h"

enum {
    CHANNELS = 16,           /* of x, up to which columns cost more than they bring */
    PATCH = 1024,            /* elements of a patch whose filters stay in the first cache beside the image's rows */
    WEIGHT_PATCH = 256,      /* the same for the weight's gradient, which runs over the images once per few elements */
    TASK_ELEMENTS = 1 << 14, /* small images go together, up to about this many elements */
    CHUNKS = 16,             /* partial sums of a weight's gradient */
    TOGETHER = 1 << 16       /* elements of the images that a chunk lays out at once */
};

typedef struct job {
    tpi_conv c;
    tpi_narrow n;
    const float *x, *y;
    float *out;
    int64_t x_plane, x_image, y_row, y_image; /* of the copies */
    int64_t images, chunks;
    atomic_bool failed;
} job;

static bool fits(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    tpi_conv_role role = call->role;
    if (call->dtype != TP_FLOAT32 || call->last || tpi_cpu_isa < TPI_ISA_AVX2 || c->groups != 1 || c->x[0] != 1 ||
        c->k[0] != 1 || c->pad[0] != 0 || c->stride[0] != 1)
        return false;
    if (c->stride[1] != 1 || c->stride[2] != 1 || tpi_conv_taps(c) == 1 || c->batch == 0 || c->cx == 0 || c->cy == 0 ||
        c->cx > CHANNELS || c->y[2] < 6)
        return false;
    bool inside = c->pad[1] <= (c->k[1] - 1) * c->dilation[1] && c->pad[2] <= (c->k[2] - 1) * c->dilation[2];
    for (int d = 1; d < 3; d++)
        inside &= c->x[d] + 2 * c->pad[d] ==
                  c->y[d] + (c->k[d] - 1) * c->dilation[d]; /* a transposed one may have more rows than windows reach */
    if (role == TPI_CONV_X) return inside && c->cy <= 4 * CHANNELS && c->cy * tpi_conv_taps(c) <= PATCH;
    return c->cx * tpi_conv_taps(c) <= (role == TPI_CONV_W ? WEIGHT_PATCH : PATCH);
}

/* The copies' geometry, and the places of a patch's elements in them (owned). */
static int64_t *lay_out(job *j) {
    const tpi_conv *c = &j->c;
    int64_t panel = tpi_cpu_isa == TPI_ISA_AVX512 ? TPI_NARROW_WIDTH : TPI_NARROW_WIDTH / 2, taps = tpi_conv_taps(c);
    j->n.outputs = c->cy;
    j->n.patch = c->cx * taps;
    j->n.height = c->y[1];
    j->n.width = c->y[2];
    j->y_row = tpi_ceil_div(c->y[2], panel) * panel;
    j->y_image = c->cy * c->y[1] * j->y_row;
    j->n.x_row = j->y_row + (c->k[2] - 1) * c->dilation[2];
    j->x_plane = (c->x[1] + 2 * c->pad[1]) * j->n.x_row;
    j->x_image = c->cx * j->x_plane;
    int64_t *places = tpi_malloc(sizeof *places * (size_t)j->n.patch);
    for (int64_t p = 0; places && p < j->n.patch; p++) {
        int64_t channel = p / taps, h = p % taps / c->k[2], w = p % c->k[2];
        places[p] = channel * j->x_plane + h * c->dilation[1] * j->n.x_row + w * c->dilation[2];
    }
    return places;
}

/* Rows of `planes` planes, `from_row` long, to rows of a copy that begin at `to`; the rest of the copy is zero already.
 */
static void copy_rows(const float *from, int64_t planes, int64_t rows, int64_t from_row, float *to, int64_t to_plane,
                      int64_t to_row) {
    for (int64_t p = 0; p < planes; p++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + p * to_plane + r * to_row, from + (p * rows + r) * from_row, (size_t)from_row * sizeof *to);
}

static void copy_image(const job *j, int64_t image, float *to) {
    const tpi_conv *c = &j->c;
    copy_rows(j->x + image * c->cx * c->x[1] * c->x[2], c->cx, c->x[1], c->x[2],
              to + c->pad[1] * j->n.x_row + c->pad[2], j->x_plane, j->n.x_row);
}

static float *cleared(job *j, int64_t elements, size_t *bytes) {
    *bytes = (size_t)elements * sizeof(float);
    float *room = tpi_alloc(*bytes);
    if (room)
        memset(room, 0, *bytes);
    else
        atomic_store(&j->failed, true);
    return room;
}

static bool finish(job *j) {
    if (!atomic_load(&j->failed)) return true;
    tpi_fail_memory((size_t)j->x_image * sizeof(float), "a convolution's rows");
    return false;
}

static void image_task(int64_t task, void *context) {
    job *j = context;
    size_t bytes;
    float *x = cleared(j, j->x_image, &bytes);
    if (!x) return;
    for (int64_t i = task * j->images; i < tpi_min64((task + 1) * j->images, j->c.batch); i++) {
        copy_image(j, i, x);
        TPI_ISA_PICK(tpi_narrow_image)(&j->n, x, j->out + i * j->c.cy * j->c.y[1] * j->c.y[2]);
    }
    tpi_free(x, bytes);
}

static bool run_y(const tpi_conv *c, const float *x, const float *w, const float *bias, float *y) {
    job j = {.c = *c, .x = x, .out = y, .n = {.filters = w, .bias = bias}};
    int64_t *places = lay_out(&j);
    if (!places) return false;
    j.n.places = places;
    j.images = 1 + TASK_ELEMENTS / tpi_max64(j.x_image, j.y_image);
    tpi_parallel_for(tpi_ceil_div(c->batch, j.images), c->batch * j.y_image * j.n.patch > 100000, image_task, &j);
    tpi_mfree(places);
    return finish(&j);
}

/* dx is y convolved with the filters turned round, x's and y's channels exchanged. */
static bool run_x(const tpi_conv *c, const float *y, const float *w, const float *bias, float *x) {
    tpi_conv back = *c;
    int64_t taps = tpi_conv_taps(c);
    back.cx = c->cy;
    back.cy = c->cx;
    for (int i = 1; i < 3; i++) {
        back.x[i] = c->y[i];
        back.y[i] = c->x[i];
        back.pad[i] = (c->k[i] - 1) * c->dilation[i] - c->pad[i];
    }
    size_t bytes = (size_t)(c->cx * c->cy * taps) * sizeof(float);
    float *turned = tpi_alloc(bytes);
    if (!turned) return false;
    for (int64_t i = 0; i < c->cx; i++)
        for (int64_t o = 0; o < c->cy; o++)
            for (int64_t t = 0; t < taps; t++)
                turned[(i * c->cy + o) * taps + t] = w[(o * c->cx + i) * taps + taps - 1 - t];
    bool fine = run_y(&back, y, turned, bias, x);
    tpi_free(turned, bytes);
    return fine;
}

static void filters_task(int64_t chunk, void *context) {
    job *j = context;
    const tpi_conv *c = &j->c;
    int64_t each = tpi_ceil_div(c->batch, j->chunks), end = tpi_min64(c->batch, (chunk + 1) * each),
            weights = c->cy * j->n.patch;
    int64_t together = tpi_min64(tpi_max64(TOGETHER / (j->x_image + j->y_image), 1), each);
    float *grads = j->out + chunk * weights;
    memset(grads, 0, (size_t)weights * sizeof *grads);
    size_t bytes;
    float *x = cleared(j, together * (j->x_image + j->y_image), &bytes), *y = x ? x + together * j->x_image : NULL;
    for (int64_t first = chunk * each; x && first < end; first += together) {
        int64_t images = tpi_min64(together, end - first);
        for (int64_t i = 0; i < images; i++) {
            copy_image(j, first + i, x + i * j->x_image);
            copy_rows(j->y + (first + i) * c->cy * c->y[1] * c->y[2], c->cy, c->y[1], c->y[2], y + i * j->y_image,
                      c->y[1] * j->y_row, j->y_row);
        }
        TPI_ISA_PICK(tpi_narrow_filters)(&j->n, images, x, j->x_image, y, j->y_image, j->y_row, grads);
    }
    if (x) tpi_free(x, bytes);
}

static bool run_w(const tpi_conv *c, const float *x, const float *y, float *w) {
    job j = {.c = *c, .x = x, .y = y, .chunks = tpi_min64(CHUNKS, c->batch)};
    int64_t *places = lay_out(&j), weights = c->cy * c->cx * tpi_conv_taps(c);
    size_t bytes = (size_t)(weights * j.chunks) * sizeof(float);
    j.n.places = places;
    j.out = places ? tpi_alloc(bytes) : NULL;
    bool fine = j.out;
    if (fine) {
        tpi_parallel_for(j.chunks, c->batch * j.y_image * j.n.patch > 100000, filters_task, &j);
        fine = finish(&j);
        if (fine) tpi_conv_merge(TP_FLOAT32, j.out, weights, j.chunks, w);
        tpi_free(j.out, bytes);
    }
    if (places) tpi_mfree(places);
    return fine;
}

static bool run(const tpi_conv_call *call) {
    switch (call->role) {
    case TPI_CONV_Y: return run_y(call->c, call->x, call->w, call->bias, call->out);
    case TPI_CONV_X: return run_x(call->c, call->y, call->w, call->bias, call->out);
    default: return run_w(call->c, call->x, call->y, call->out);
    }
}

const tpi_conv_way tpi_conv_narrow = {fits, run};
