/* The float32 product's kernels, each instruction set that this processor has against a plain loop: edges of tiles,
 * every layout, what the result starts from, and that an element's bits depend on its row and its column alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "device/device.h"
#include "linalg/gemm.h"

enum { MOST = 110 * 600 };
static float a[MOST], b[MOST], c[MOST], again[MOST], packed[MOST * 2], row[1024];

static void fill(float *x, int64_t n) {
    static uint32_t seed = 1;
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
}

typedef void tile_fn(const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns);
typedef void pack_fn(const tpi_gemm *g, int64_t first, int64_t columns, void *packed);
static tile_fn *const TILES[] = TPI_ISA_TABLE(tpi_gemm_tile);
static pack_fn *const PACKS[] = TPI_ISA_TABLE(tpi_gemm_pack);

static void run(int isa, tpi_gemm g, float *to) {
    g.c = to;
    for (int64_t i = 0; i < g.m; i += TPI_GEMM_ROWS)
        TILES[isa](&g, i, g.m - i < TPI_GEMM_ROWS ? g.m - i : TPI_GEMM_ROWS, 0, g.n);
}

/* layout: bit 0, a is stored transposed; bit 1, b is. */
static tpi_gemm product(int64_t m, int64_t n, int64_t k, int layout) {
    tpi_gemm g = {.m = m,
                  .n = n,
                  .k = k,
                  .a = a,
                  .b = b,
                  .a_row = k,
                  .a_col = 1,
                  .b_row = n,
                  .b_col = 1,
                  .c = c,
                  .c_row = n,
                  .alpha = 1};
    if (layout & 1) {
        g.a_row = 1;
        g.a_col = m;
    }
    if (layout & 2) {
        g.b_row = 1;
        g.b_col = k;
    }
    fill(a, m * k);
    fill(b, k * n);
    return g;
}

static void check(const tpi_gemm *g, const float *before) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0, start = g->every_row   ? ((const float *)g->every_row)[j]
                                    : g->beta != 0 ? (double)g->beta * before[i * g->n + j]
                                                   : 0;
            for (int64_t p = 0; p < g->k; p++)
                sum += (double)a[i * g->a_row + p * g->a_col] * b[p * g->b_row + j * g->b_col];
            assert_true(fabs(c[i * g->n + j] - (g->alpha * sum + start)) < 1e-6 * sqrt((double)g->k + 1) * 4);
        }
}

/* Around the edges of one and of several of the kernel's tiles, with k's blocks whole and broken, and a few shapes that
 * the kernel's width has no part in. */
typedef struct shape {
    int64_t m, n, k;
} shape;
enum { SHAPES = 17 };

static void shapes_for(int isa, shape *to) {
    typedef void size_fn(int64_t * rows, int64_t * columns);
    static size_fn *const sizes[] = TPI_ISA_TABLE(tpi_gemm_kernel_size);
    int64_t h, w;
    sizes[isa](&h, &w);
    const shape all[SHAPES] = {{h, w, 8},
                               {h + 1, w + 1, 9},
                               {h - 1, w - 1, 17},
                               {2 * h + 1, 2 * w + 1, 300},
                               {2 * h, 2 * w, TPI_GEMM_DEPTH},
                               {5 * h + 2, 3 * w - 1, 6},
                               {h, w / 2, 3},
                               {1, w + w / 2, 20},
                               {TPI_GEMM_ROWS + 1, 5, 64},
                               {100, 70, 2 * TPI_GEMM_DEPTH + 1},
                               {5, 100, 31},
                               {2, 2, 1},
                               {30, 1, 7},
                               {TPI_GEMM_ROWS, 4 * TPI_GEMM_WIDTH, 32},
                               {20, 1024, 20},
                               {40, 300, TPI_GEMM_SHALLOW},
                               {h, 8 * w, TPI_GEMM_SHALLOW + 1}};
    memcpy(to, all, sizeof all);
}

static void every_shape_and_layout(void **state) {
    (void)state;
    static float before[MOST];
    for (int isa = 0; isa <= (int)tpi_cpu_isa; isa++) {
        shape shapes[SHAPES];
        shapes_for(isa, shapes);
        for (int s = 0; s < SHAPES; s++)
            for (int layout = 0; layout < 4; layout++)
                for (int start = 0; start < 3; start++) {
                    tpi_gemm g = product(shapes[s].m, shapes[s].n, shapes[s].k, layout);
                    fill(before, g.m * g.n);
                    fill(row, g.n);
                    memcpy(c, before, sizeof c);
                    if (start == 0) c[0] = NAN; /* beta 0 does not read it */
                    if (start == 1) {
                        g.beta = 0.5f;
                        g.alpha = -2;
                    }
                    if (start == 2) g.every_row = row;
                    run(isa, g, c);
                    check(&g, before);
                }
    }
}

/* Packed or not, in one tile or another, alone or among other rows and columns: the same bits. */
static void bits_depend_on_row_and_column_alone(void **state) {
    (void)state;
    for (int isa = 0; isa <= (int)tpi_cpu_isa; isa++)
        for (int layout = 0; layout < 4; layout++) {
            tpi_gemm g = product(100, 70, 513, layout);
            run(isa, g, c);
            PACKS[isa](&g, 0, 32, packed);
            PACKS[isa](&g, 32, 38, packed);
            tpi_gemm same = g;
            same.packed = packed;
            same.c = again;
            TILES[isa](&same, 0, 40, 0, 64);
            TILES[isa](&same, 0, 40, 64, 6);
            TILES[isa](&same, 40, 60, 0, 70);
            assert_memory_equal(c, again, sizeof *c * 7000);
            tpi_gemm part = g; /* rows 31 to 33, columns 41 to 69 */
            part.m = 3;
            part.n = 29;
            part.a = a + 31 * g.a_row;
            part.b = b + 41 * g.b_col;
            part.c_row = 29;
            run(isa, part, again);
            for (int64_t i = 0; i < 3; i++) assert_memory_equal(again + i * 29, c + (31 + i) * 70 + 41, sizeof *c * 29);
        }
}

/* The whole product, on the team, at this process's level: tiles beside each other share an a that was turned around,
 * and b is packed once for tiles below each other. */
static void operands_turned_around_give_the_same_bits(void **state) {
    (void)state;
    static const shape shapes[] = {{512, 128, 768}, {129, 511, 700}, {97, 1030, 257}, {300, 300, 65},
                                   {384, 64, 1024}, {64, 128, 64},   {32, 128, 128},  {128, 40, 100}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
        float *left = malloc((size_t)(m * k) * sizeof *left), *right = malloc((size_t)(k * n) * sizeof *right),
              *transposed = malloc((size_t)(m * k) * sizeof *transposed);
        float *across = malloc((size_t)(k * n) * sizeof *across), *first = malloc((size_t)(m * n) * sizeof *first),
              *other = malloc((size_t)(m * n) * sizeof *other);
        fill(left, m * k);
        fill(right, k * n);
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++) transposed[p * m + i] = left[i * k + p];
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) across[j * k + p] = right[p * n + j];
        for (int layout = 0; layout < 4; layout++) {
            tpi_product product = {.dtype = TP_FLOAT32,
                                   .batches = 1,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .c = (char *)(layout ? other : first),
                                   .c_row = n,
                                   .alpha = tp_int(1),
                                   .beta = tp_int(0)};
            product.a = layout & 1 ? (tpi_operand_matrix){(const char *)transposed, 0, 1, m}
                                   : (tpi_operand_matrix){(const char *)left, 0, k, 1};
            product.b = layout & 2 ? (tpi_operand_matrix){(const char *)across, 0, 1, k}
                                   : (tpi_operand_matrix){(const char *)right, 0, n, 1};
            tpi_gemm_multiply(&product);
            if (layout) assert_memory_equal(first, other, (size_t)(m * n) * sizeof *first);
        }
        free(left);
        free(right);
        free(transposed);
        free(across);
        free(first);
        free(other);
    }
}

/* ---- 8-bit integers, against a plain loop ---- */
static uint8_t bytes_a[MOST], bytes_b[MOST];
static uint32_t sums[MOST];

static void check_bytes(int64_t m, int64_t n, int64_t k, int layout) {
    const bool is_signed = layout & 4;
    for (int64_t i = 0; i < m * k; i++) bytes_a[i] = (uint8_t)(i * 7919 % 251 + i / 13);
    for (int64_t i = 0; i < k * n; i++) bytes_b[i] = (uint8_t)(i * 104729 % 257 + i / 7);
    bytes_a[0] = bytes_b[0] = 0x80; /* the least number there is */
    const tpi_product p = {
        .dtype = is_signed ? TP_INT8 : TP_UINT8,
        .batches = 1,
        .m = m,
        .n = n,
        .k = k,
        .a = layout & 1 ? (tpi_operand_matrix){(const char *)bytes_a, 0, 1, m}
                        : (tpi_operand_matrix){(const char *)bytes_a, 0, k, 1},
        .b = layout & 2 ? (tpi_operand_matrix){(const char *)bytes_b, 0, 1, k}
                        : (tpi_operand_matrix){(const char *)bytes_b, 0, n, 1},
        .c = (char *)sums,
        .c_row = n,
        .alpha = tp_int(1),
        .beta = tp_int(0),
    };
    assert_true(tpi_gemm_multiply(&p));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t wanted = 0;
            for (int64_t at = 0; at < k; at++) {
                const uint8_t x = bytes_a[i * p.a.row + at * p.a.col];
                wanted += (is_signed ? (int8_t)x : x) * (int8_t)bytes_b[at * p.b.row + j * p.b.col];
            }
            assert_int_equal((int32_t)sums[i * n + j], wanted);
        }
}

static void bytes_of_every_shape_and_layout(void **state) {
    (void)state;
    const int64_t rows[] = {1, 2, 13, 40, 100}, columns[] = {1, 5, 32, 33, 70}, depths[] = {1, 2, 3, 4, 7, 64, 257};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof columns / sizeof *columns; j++)
            for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
                for (int layout = 0; layout < 8; layout++) check_bytes(rows[i], columns[j], depths[d], layout);
    check_bytes(40, 40, 1100, 2);
    check_bytes(40, 40, 1101, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_and_layout),
        cmocka_unit_test(bits_depend_on_row_and_column_alone),
        cmocka_unit_test(operands_turned_around_give_the_same_bits),
        cmocka_unit_test(bytes_of_every_shape_and_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
