/* Convolution by a 3x3 kernel with stride one through Winograd's tiles, float32. With d a patch of x, g a filter and m
 * a tile of y: y = A' [(G g G') . (B' d B)] A,    dw = G' [sum over tiles (A m A') . (B' d B)] G where the element-wise
 * products, summed over channels (or tiles), are matrix products. x's gradient is the first with the filter turned
 * round.
 *
 * Results (y, x's gradient) have tiles of 2x2 from patches of 4x4: the points 0, 1, -1 and infinity, 16 multiplications
 * per pair of channels instead of 36. Every matrix holds 0, 1 and 1/2 alone, and the error is that of direct sums.
 * Larger tiles need fewer multiplications, but their error is three times as large, and a result near zero that changes
 * its sign takes a ReLU's gradient with it (bench/exactness.py).
 *
 * The weight's gradient has tiles of 4x4 and patches of 6x6: the points 0, +-sqrt(1/2), +-sqrt(2) and infinity, 36
 * multiplications instead of 144. Nothing is computed from it but the update, and sums over all tiles hide the error of
 * each.
 *
 * A value that is not finite spreads over the tiles whose patch it is in.
 *
 * The rooms: patches V (products, panels, depth, PANEL), filters U (products, rows, depth), results M (products, rows,
 * tiles). A panel is as wide as gemm's. */
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

/* B' d B of groups of eight patches, at `places` of `from`, rows `row` apart; element e of group g goes to
 * to + e * step + (the group's panel) * panel_step + (its place in the panel). The second is the weight's. */
TPI_ISA_DECLARE(void, tpi_winograd_patches,
                (int64_t groups, const int64_t *places, const float *from, int64_t row, float *to, int64_t step,
                 int64_t panel_step));
TPI_ISA_DECLARE(void, tpi_winograd_w_patches,
                (int64_t groups, const int64_t *places, const float *from, int64_t row, float *to, int64_t step,
                 int64_t panel_step));
/* A m A' of groups of eight tiles; element e of group g goes to to + e * step + 8 g. */
TPI_ISA_DECLARE(void, tpi_winograd_spread,
                (int64_t groups, const int64_t *places, const float *from, int64_t row, float *to, int64_t step));
/* G g G' of a rectangle of filters, row_step and column_step floats apart, each of 9 taps, turned round if so asked;
 * element e goes to to + e * step + row * columns + column. */
TPI_ISA_DECLARE(void, tpi_winograd_filters,
                (int64_t rows, int64_t columns, const float *w, int64_t row_step, int64_t column_step, bool turned,
                 float *to, int64_t step));
/* G' u G of a row of filters' gradients, element e at u + e * step + column, is w (columns, 9), or is added to it. */
TPI_ISA_DECLARE(void, tpi_winograd_filter_grads, (int64_t columns, const float *u, int64_t step, bool add, float *w));

/* Where a tile goes in a plane of results, and how much of it is inside. */
typedef struct tpi_winograd_tile {
    int64_t place;
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
