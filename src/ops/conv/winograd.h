/* Winograd's way to compute convolutions by 3x3 kernels with stride one, in float32: fewer multiplications. This header
 * has its transforms, which are compiled per instruction set (winograd.isa.c); winograd.c and winograd_weight.c put
 * them together with matrix products of src/linalg.
 *
 * With d a patch of x, g a filter and m a tile of y
 *
 *     y = A' [(G g G') . (B' d B)] A,   dw = G' [sum over tiles (A m A') . (B' d B)] G
 *
 * where the element-wise products, summed over channels (or tiles), are matrix products. x's gradient is the first with
 * the filter turned round.
 *
 * | what | tiles | patches | points | multiplications | error |
 * | y and x's gradient | 2x2 | 4x4 | 0, 1, -1, infinity | 16 instead of 36 | that of direct sums |
 * | w's gradient | 4x4 | 6x6 | 0, +-sqrt(1/2), +-sqrt(2), infinity | 36 instead of 144 | larger; sums hide it |
 *
 * Larger tiles for results would have three times the error, and a result near zero that changes its sign takes a
 * ReLU's gradient with it (bench/exactness.py). From w's gradient nothing is computed but the update.
 *
 * A value that is not finite spreads over the tiles whose patch it is in.
 *
 * Arrays: patches V (products, panels, depth, PANEL), filters U (products, rows, depth), results M (products, rows,
 * tiles). A panel is as wide as gemm's. The transforms allocate nothing and cannot fail. */
#ifndef TPI_CONV_WINOGRAD_H
#define TPI_CONV_WINOGRAD_H
#include "device/cpu/isa.h"
#include "ops/conv/conv.h"

enum {
    TPI_WINOGRAD_LANES = 8,
    TPI_WINOGRAD_TILE = 2,
    TPI_WINOGRAD_PATCH = 4,
    TPI_WINOGRAD_PRODUCTS = 16, /* of results */
    TPI_WINOGRAD_W_TILE = 4,
    TPI_WINOGRAD_W_PATCH = 6,
    TPI_WINOGRAD_W_PRODUCTS = 36 /* of the weight's gradient */
};

/* Strips of images to copy between zeros: rows of `width` floats, from_row apart, to rows to_row apart. */
typedef struct tpi_winograd_strip {
    int64_t from, to, rows, width;
} tpi_winograd_strip;
TPI_ISA_DECLARE(void, tpi_winograd_copy,
                (int64_t strips, const tpi_winograd_strip *s, const float *from, int64_t from_row, float *to,
                 int64_t to_row));

/* B' d B of groups of eight patches, at `offsets` of `from`, rows `row` apart; element e of group g goes to
 * to + e * step + (the group's panel) * panel_step + (its place in the panel). The second is the weight's. */
TPI_ISA_DECLARE(void, tpi_winograd_patches,
                (int64_t groups, const int64_t *offsets, const float *from, int64_t row, float *to, int64_t step,
                 int64_t panel_step));
TPI_ISA_DECLARE(void, tpi_winograd_w_patches,
                (int64_t groups, const int64_t *offsets, const float *from, int64_t row, float *to, int64_t step,
                 int64_t panel_step));
/* A m A' of groups of eight tiles; element e of group g goes to to + e * step + 8 g. */
TPI_ISA_DECLARE(void, tpi_winograd_spread,
                (int64_t groups, const int64_t *offsets, const float *from, int64_t row, float *to, int64_t step));
/* G g G' of a rectangle of filters, row_step and column_step floats apart, each of 9 taps, rotated by half a circle if
 * so asked; element e goes to to + e * step + row * columns + column. */
TPI_ISA_DECLARE(void, tpi_winograd_filters,
                (int64_t rows, int64_t columns, const float *w, int64_t row_step, int64_t column_step, bool rotated,
                 float *to, int64_t step));
/* G' u G of a row of filters' gradients, element e at u + e * step + column, is w (columns, 9), or is added to it. */
TPI_ISA_DECLARE(void, tpi_winograd_filter_grads, (int64_t columns, const float *u, int64_t step, bool add, float *w));

/* Where a tile goes in a plane of results, and how much of it is inside. */
typedef struct tpi_winograd_tile {
    int64_t offset;
    int32_t rows, columns;
} tpi_winograd_tile;
/* A' m A + bias of groups of eight tiles, element e of group g at m + e * step + 8 g. */
TPI_ISA_DECLARE(void, tpi_winograd_tiles,
                (int64_t groups, const tpi_winograd_tile *tiles, const float *m, int64_t step, float bias, float *y,
                 int64_t row));

/* Tests: never (false), or where it fits; the answer is how it was. TAPER_WINOGRAD=0 in the environment says never,
 * too.
 */
bool tpi_conv_winograd_enable(bool on);
/* The weight's gradient; false and an error without memory. */
bool tpi_conv_winograd_w(const tpi_conv *c, const float *x, const float *y, float *w);
#endif
