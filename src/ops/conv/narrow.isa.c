/* The kernels of convolutions with few channels: see ops/conv/narrow.h. A tile of results stays in registers while the
 * patch runs; an element is the sum over its patch in order, wherever it stands. */
#include "ops/conv/narrow.h"
#include "linalg/float_vectors.h"

/* A few output channels of PANEL results side by side; x is at the first one's. `width` of them are there. */
INLINE void tile(int rows, const tpi_narrow *n, int64_t first, const float *x, float *y, int64_t width) {
    vector sum[HEIGHT][2];
    const float *f = n->filters + first * n->patch;
    UNROLL
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = broadcast(n->bias ? n->bias[first + i] : 0);
    for (int64_t p = 0; p < n->patch; p++) {
        vector left = load(x + n->places[p]), right = load(x + n->places[p] + LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            vector by = broadcast(f[i * n->patch + p]);
            sum[i][0] = multiply_add(by, left, sum[i][0]);
            sum[i][1] = multiply_add(by, right, sum[i][1]);
        }
    }
    int64_t plane = n->height * n->width;
    UNROLL
    for (int i = 0; i < rows; i++) {
        if (width >= PANEL) {
            store(y + i * plane, sum[i][0]);
            store(y + i * plane + LANES, sum[i][1]);
        } else {
            float room[PANEL];
            store(room, sum[i][0]);
            store(room + LANES, sum[i][1]);
            memcpy(y + i * plane, room, (size_t)width * sizeof *y);
        }
    }
}

#define ROWS(N) \
    case N: tile(N, n, first, x, y, width); break;
static void tile_of(int64_t rows, const tpi_narrow *n, int64_t first, const float *x, float *y, int64_t width) {
    switch (rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
        ROWS(5)
        ROWS(6)
#if defined(__AVX512F__)
        ROWS(7)
        ROWS(8)
        ROWS(9)
        ROWS(10)
        ROWS(11)
        ROWS(12)
#endif
    }
}

void TPI_ISA(tpi_narrow_image)(const tpi_narrow *n, const float *x, float *y) {
    int64_t strips = (n->outputs + HEIGHT - 1) / HEIGHT, first = 0;
    for (int64_t s = 0, rows; s < strips;
         s++, first += rows) { /* of nearly the same height: a low one is slower than its share */
        rows = n->outputs / strips + (s < n->outputs % strips);
        for (int64_t h = 0; h < n->height; h++)
            for (int64_t w = 0; w < n->width; w += PANEL)
                tile_of(rows, n, first, x + h * n->x_row + w, y + (first * n->height + h) * n->width + w, n->width - w);
    }
}

enum { DOWN = 3, ACROSS = 4 }; /* filters by elements of the patch, one vector of sums each */

static float sum_of(vector v) {
    float lane[LANES];
    store(lane, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

typedef struct batch {
    int64_t images, x_image, y_image, y_row;
} batch;

/* `down` filters from `first` on by `across` elements from p on. */
INLINE void filter_tile(int down, int across, const tpi_narrow *n, const batch *b, int64_t first, int64_t p,
                        const float *x, const float *y, float *grads) {
    vector sum[DOWN][ACROSS];
    int64_t plane = n->height * b->y_row;
    UNROLL
    for (int i = 0; i < down; i++) UNROLL
    for (int j = 0; j < across; j++) sum[i][j] = (vector){0};
    for (int64_t image = 0; image < b->images; image++)
        for (int64_t h = 0; h < n->height; h++) {
            const float *from = x + image * b->x_image + h * n->x_row,
                        *grad = y + image * b->y_image + first * plane + h * b->y_row;
            for (int64_t w = 0; w < n->width; w += LANES) {
                vector g[DOWN];
                UNROLL
                for (int i = 0; i < down; i++) g[i] = load(grad + i * plane + w);
                UNROLL
                for (int j = 0; j < across; j++) {
                    vector v = load(from + n->places[p + j] + w);
                    UNROLL
                    for (int i = 0; i < down; i++) sum[i][j] = multiply_add(g[i], v, sum[i][j]);
                }
            }
        }
    UNROLL
    for (int i = 0; i < down; i++) UNROLL
    for (int j = 0; j < across; j++) grads[(first + i) * n->patch + p + j] += sum_of(sum[i][j]);
}

void TPI_ISA(tpi_narrow_filters)(const tpi_narrow *n, int64_t images, const float *x, int64_t x_image, const float *y,
                                 int64_t y_image, int64_t y_row, float *grads) {
    batch b = {images, x_image, y_image, y_row};
    int64_t down = n->outputs / DOWN * DOWN, across = n->patch / ACROSS * ACROSS;
    for (int64_t first = 0; first < down; first += DOWN) {
        for (int64_t p = 0; p < across; p += ACROSS) filter_tile(DOWN, ACROSS, n, &b, first, p, x, y, grads);
        for (int64_t p = across; p < n->patch; p++) filter_tile(DOWN, 1, n, &b, first, p, x, y, grads);
    }
    for (int64_t first = down; first < n->outputs; first++) {
        for (int64_t p = 0; p < across; p += ACROSS) filter_tile(1, ACROSS, n, &b, first, p, x, y, grads);
        for (int64_t p = across; p < n->patch; p++) filter_tile(1, 1, n, &b, first, p, x, y, grads);
    }
}
