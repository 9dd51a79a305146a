/* Matrix products of every dtype by tpi_multiply, of bfloat16s and bytes by tpi_gemm_multiply, at every level that this
 * processor has, against plain loops. Elements are small whole numbers, so every sum is exact and results are equal, in
 * whatever order they are added up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <taper/base.h>
#include "base/dtype.h"
#include "device/device.h"
#include "linalg/gemm.h"

static int whole(void) { /* -8 to 8 */
    static uint32_t seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (int)(seed >> 16) % 17 - 8;
}

static void put(void *to, int64_t at, tp_dtype dtype, double re, double im) {
    const bool complex = tp_dtype_is_complex(dtype);
    tpi_store_scalar((char *)to + at * tpi_dtype_bytes[dtype], dtype, complex ? tp_cplx(re, im) : tp_float(re));
}

static tpi_c128 get(const void *from, int64_t at, tp_dtype dtype) {
    return tpi_param_of(tpi_load_scalar((const char *)from + at * tpi_dtype_bytes[dtype], dtype), TPI_C128).c128;
}

static tpi_c128 *widened(const void *from, int64_t elements, tp_dtype dtype) {
    tpi_c128 *to = malloc((size_t)elements * sizeof *to);
    for (int64_t i = 0; i < elements; i++) to[i] = get(from, i, dtype);
    return to;
}

static void *matrix(int64_t elements, tp_dtype dtype) {
    void *m = malloc((size_t)(elements * tpi_dtype_bytes[dtype]));
    for (int64_t i = 0; i < elements; i++) {
        const double re = whole(), im = whole();
        put(m, i, dtype, re, im);
    }
    return m;
}

/* What element (i, j) of matrix `batch` should be, from a's and b's elements and what c held before. */
static tpi_c128 expected(const tpi_product *p, const tpi_c128 *a, const tpi_c128 *b, int64_t batch, int64_t i,
                         int64_t j, tpi_c128 before) {
    const tpi_c128 alpha = tpi_param_of(p->alpha, TPI_C128).c128, beta = tpi_param_of(p->beta, TPI_C128).c128;
    tpi_c128 sum = {0, 0};
    for (int64_t k = 0; k < p->k; k++) {
        const tpi_c128 x = a[batch * p->a.batch + i * p->a.row + k * p->a.col];
        const tpi_c128 y = b[batch * p->b.batch + k * p->b.row + j * p->b.col];
        sum.re += x.re * y.re - x.im * y.im;
        sum.im += x.re * y.im + x.im * y.re;
    }
    return (tpi_c128){alpha.re * sum.re - alpha.im * sum.im + beta.re * before.re - beta.im * before.im,
                      alpha.re * sum.im + alpha.im * sum.re + beta.re * before.im + beta.im * before.re};
}

typedef struct shape {
    int64_t m, n, k;
} shape;

/* layout: bit 0, a is stored transposed; bit 1, b is; bit 2, alpha and beta are not 1 and 0. */
static void check_product(tp_dtype dtype, shape s, int layout, int64_t batches) {
    const tp_dtype result = dtype == TP_BFLOAT16 ? TP_FLOAT32 : dtype;
    void *a = matrix(batches * s.m * s.k, dtype), *b = matrix(batches * s.k * s.n, dtype);
    void *c = matrix(batches * s.m * s.n, result);
    const size_t bytes = (size_t)(batches * s.m * s.n * tpi_dtype_bytes[result]);
    void *before = malloc(bytes);
    memcpy(before, c, bytes);
    const bool complex = tp_dtype_is_complex(dtype), plain = !(layout & 4);
    tpi_product p = {.dtype = dtype,
                     .batches = batches,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .a = {a, s.m * s.k, layout & 1 ? 1 : s.k, layout & 1 ? s.m : 1},
                     .b = {b, s.k * s.n, layout & 2 ? 1 : s.n, layout & 2 ? s.k : 1},
                     .c = c,
                     .c_batch = s.m * s.n,
                     .c_row = s.n,
                     .alpha = plain     ? tp_int(1)
                              : complex ? tp_cplx(2, -1)
                                        : tp_int(2),
                     .beta = plain     ? tp_int(0)
                             : complex ? tp_cplx(1, 3)
                                       : tp_int(3)};
    if (dtype == TP_BFLOAT16)
        assert_true(tpi_gemm_multiply(&p));
    else
        tpi_multiply(&p);
    tpi_c128 *wide_a = widened(a, batches * s.m * s.k, dtype), *wide_b = widened(b, batches * s.k * s.n, dtype);
    for (int64_t at = 0; at < batches * s.m * s.n; at++) {
        const int64_t batch = at / (s.m * s.n), i = at / s.n % s.m, j = at % s.n;
        const tpi_c128 want = expected(&p, wide_a, wide_b, batch, i, j, get(before, at, result));
        const tpi_c128 got = get(c, at, result);
        assert_true(want.re == got.re);
        assert_true(!complex || want.im == got.im);
    }
    free(a);
    free(b);
    free(c);
    free(before);
    free(wide_a);
    free(wide_b);
}

static const shape SHAPES[] = {{2, 2, 1},     {3, 5, 7},      {12, 32, 16},   {13, 33, 17},  {31, 16, 33},
                               {97, 65, 130}, {64, 40, 1025}, {100, 130, 64}, {20, 300, 31}, {260, 33, 50}};
enum { COUNT = sizeof SHAPES / sizeof *SHAPES };

static void check_all(tp_dtype dtype) {
    for (int s = 0; s < COUNT; s++)
        for (int layout = 0; layout < 8; layout++) check_product(dtype, SHAPES[s], layout, 1);
    for (int layout = 0; layout < 8; layout++) {
        check_product(dtype, (shape){9, 10, 11}, layout, 5);
        check_product(dtype, (shape){52, 50, 53}, layout, 3);
    }
}

static void every_dtype_at_every_level(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_FLOAT64, TP_COMPLEX64, TP_COMPLEX128};
    const tpi_isa best = tpi_cpu_isa;
    for (int isa = 0; isa <= (int)best; isa++) {
        tpi_cpu_isa = (tpi_isa)isa;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) check_all(dtypes[d]);
    }
    tpi_cpu_isa = best;
}

static void bfloat16_by_every_unit(void **state) {
    (void)state;
    const tpi_bf16_units best = tpi_cpu_bf16;
    for (int unit = TPI_BF16_AVX512; unit <= (int)best; unit++) {
        tpi_cpu_bf16 = (tpi_bf16_units)unit;
        check_all(TP_BFLOAT16);
    }
    tpi_cpu_bf16 = best;
}

/* Bytes of every value, whose sums wrap at 32 bits. */
static void check_bytes(tp_dtype dtype, shape s, int layout) {
    uint8_t *a = malloc((size_t)(s.m * s.k));
    int8_t *b = malloc((size_t)(s.k * s.n));
    int32_t *c = malloc((size_t)(s.m * s.n) * sizeof *c);
    for (int64_t i = 0; i < s.m * s.k; i++) a[i] = (uint8_t)(whole() * 17 + whole());
    for (int64_t i = 0; i < s.k * s.n; i++) b[i] = (int8_t)(whole() * 17 + whole());
    tpi_product p = {.dtype = dtype,
                     .batches = 1,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .a = {(const char *)a, 0, layout & 1 ? 1 : s.k, layout & 1 ? s.m : 1},
                     .b = {(const char *)b, 0, layout & 2 ? 1 : s.n, layout & 2 ? s.k : 1},
                     .c = (char *)c,
                     .c_row = s.n,
                     .alpha = tp_int(1),
                     .beta = tp_int(0)};
    assert_true(tpi_gemm_multiply(&p));
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            int32_t want = 0;
            for (int64_t k = 0; k < s.k; k++) {
                const uint8_t x = a[i * p.a.row + k * p.a.col];
                want += (dtype == TP_INT8 ? (int8_t)x : x) * b[k * p.b.row + j * p.b.col];
            }
            assert_int_equal(c[i * s.n + j], want);
        }
    free(a);
    free(b);
    free(c);
}

static void bytes_by_every_unit(void **state) {
    (void)state;
    const tpi_byte_units best = tpi_cpu_bytes;
    const tpi_isa isa = tpi_cpu_isa;
    for (int unit = (int)best; unit >= 0; unit--)
        for (int level = (int)isa; level >= 0; level -= unit ? (int)isa + 1 : 1) { /* units are the best level's */
            tpi_cpu_bytes = (tpi_byte_units)unit;
            tpi_cpu_isa = (tpi_isa)level;
            for (int k = 0; k < COUNT; k++)
                for (int layout = 0; layout < 4; layout++) {
                    check_bytes(TP_INT8, SHAPES[k], layout);
                    check_bytes(TP_UINT8, SHAPES[k], layout);
                }
        }
    tpi_cpu_bytes = best;
    tpi_cpu_isa = isa;
}

/* Numbers that round: the same bits on any number of threads. */
static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_FLOAT64, TP_COMPLEX64, TP_COMPLEX128, TP_BFLOAT16};
    const int64_t n = 200, k = 333;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const tp_dtype dtype = dtypes[d], result = dtype == TP_BFLOAT16 ? TP_FLOAT32 : dtype;
        if (dtype == TP_BFLOAT16 && !tpi_gemm_serves_bf16(n, n, k)) continue;
        void *a = matrix(n * k, dtype), *b = matrix(k * n, dtype);
        for (int64_t i = 0; i < n * k; i++) put(a, i, dtype, 1.0 / (1 + whole() * whole()), whole() / 7.0);
        const size_t bytes = (size_t)(n * n * tpi_dtype_bytes[result]);
        char *first = malloc(bytes), *again = malloc(bytes);
        for (int threads = 1; threads < 8; threads += 2) {
            tp_set_num_threads(threads);
            tpi_product p = {.dtype = dtype,
                             .batches = 1,
                             .m = n,
                             .n = n,
                             .k = k,
                             .a = {a, 0, k, 1},
                             .b = {b, 0, n, 1},
                             .c = threads == 1 ? first : again,
                             .c_row = n,
                             .alpha = tp_int(1),
                             .beta = tp_int(0)};
            if (dtype == TP_BFLOAT16)
                assert_true(tpi_gemm_multiply(&p));
            else
                tpi_multiply(&p);
            if (threads > 1) assert_memory_equal(first, again, bytes);
        }
        tp_set_num_threads(0);
        free(a);
        free(b);
        free(first);
        free(again);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_at_every_level),
        cmocka_unit_test(bfloat16_by_every_unit),
        cmocka_unit_test(bytes_by_every_unit),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
