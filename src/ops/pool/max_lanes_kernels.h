/* The body of max_lanes.isa.c and max_lanes_f64.isa.c, with PLACE (an integer of the elements' size) and TPI_MAX_LANES
 * (the function's name) defined. Eight planes side by side: where rows are short, a vector along a row would be mostly
 * empty. */
#include <math.h>
#include "linalg/transpose.h"
#include "ops/pool/pool.h"

typedef INDEX indices __attribute__((vector_size(8 * sizeof(INDEX))));

/* v where `mask` is all ones, else w: a macro, as by value the ABI of vectors differs by target. */
#define CHOOSE(mask, v, w) (((v) & (mask)) | ((w) & ~(mask)))

/* The largest elements under one window of the eight planes at x, and where they are. */
INLINE void window(const tpi_conv *c, const tpi_pool_spans *s, int64_t od, int64_t oh, int64_t ow, const REAL *x,
                   eight *most, indices *where) {
    const int64_t first = (s->from[0][od] * c->x[1] + s->from[1][oh]) * c->x[2] + s->from[2][ow];
    eight best = (eight){0} - (REAL)INFINITY;
    indices index = (indices){0} + (INDEX)first;
    for (int64_t d = s->from[0][od]; d < s->to[0][od]; d += s->step[0])
        for (int64_t h = s->from[1][oh]; h < s->to[1][oh]; h += s->step[1])
            for (int64_t w = s->from[2][ow]; w < s->to[2][ow]; w += s->step[2]) {
                const int64_t at = (d * c->x[1] + h) * c->x[2] + w;
                eight v;
                memcpy(&v, x + 8 * at, sizeof v);
                const indices larger = (indices)(v > best) | (indices)(v != v);
                best = (eight)CHOOSE(larger, (indices)v, (indices)best);
                index = CHOOSE(larger, (indices){0} + (INDEX)at, index);
            }
    *most = best;
    *where = index;
}

void TPI_MAX_LANES(const tpi_conv *c, const tpi_pool_spans *s, const REAL *x, REAL *y, int64_t *index, REAL *scratch) {
    const int64_t n = tpi_conv_xsize(c), outputs = tpi_conv_ysize(c);
    const REAL *planes[8], *rows[8];
    REAL *values = scratch + 8 * n;
    for (int i = 0; i < 8; i++) planes[i] = x + i * n;
    transpose_eight(planes, n, scratch, 8);
    int64_t o = 0;
    for (int64_t od = 0; od < c->y[0]; od++)
        for (int64_t oh = 0; oh < c->y[1]; oh++)
            for (int64_t ow = 0; ow < c->y[2]; ow++, o++) {
                eight most;
                indices where;
                window(c, s, od, oh, ow, scratch, &most, &where);
                memcpy(values + 8 * o, &most, sizeof most);
                for (int i = 0; i < 8; i++) index[i * outputs + o] = (int64_t)where[i];
            }
    for (o = 0; o + 8 <= outputs; o += 8) {
        for (int i = 0; i < 8; i++) rows[i] = values + 8 * (o + i);
        transpose_eight(rows, 8, y + o, outputs);
    }
    for (; o < outputs; o++)
        for (int i = 0; i < 8; i++) y[i * outputs + o] = values[8 * o + i];
}
