/* Matrix products where the tables' samples are too small: every layout of both operands, long inner dims, all dtypes
 * against one element at a time, and the same bits on any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <taper/taper.h>
#include "tensor/tensor.h"

static double value(const tp_tensor *t, int64_t i, int64_t j) {
    return tp_scalar_to_double(tpi_load_scalar(
        t->data + (i * t->strides[0] + j * t->strides[1]) * (int64_t)tpi_itemsize(t), (tp_dtype)t->dtype));
}

/* (rows, cols) as it is (0), stored transposed (1), or with gaps in both dims (2). */
static tp_tensor *laid_out(int64_t rows, int64_t cols, tp_dtype dtype, int layout) {
    tp_tensor *x = tp_randn(TP_INTS(rows, cols));
    if (!tp_dtype_is_floating(dtype)) x = tp_mul(x, 10.0);
    x = tp_to(x, .dtype = dtype);
    if (layout == 0) return x;
    if (layout == 1) return tp_transpose(tp_contiguous(tp_transpose(x, 0, 1)), 0, 1);
    tp_tensor *whole = tp_zeros(TP_INTS(2 * rows, 3 * cols), .dtype = dtype);
    tp_tensor *part = tp_slice(tp_slice(whole, .dim = 0, .step = 2), .dim = 1, .step = 3);
    assert_non_null(tp_copy_(part, x));
    return part;
}

static double tolerance(tp_dtype dtype, int64_t k) {
    double epsilon = dtype == TP_FLOAT32    ? 1.2e-7
                     : dtype == TP_FLOAT64  ? 2.3e-16
                     : dtype == TP_FLOAT16  ? 1e-3
                     : dtype == TP_BFLOAT16 ? 8e-3
                                            : 0;
    return 8 * epsilon * sqrt((double)k + 1);
}

static double wrapped(double v, tp_dtype dtype) {
    if (dtype == TP_UINT8) return (double)(uint8_t)(int64_t)v;
    return dtype == TP_INT8 ? (double)(int8_t)(int64_t)v : v;
}

static void check_product(tp_dtype dtype, int64_t m, int64_t k, int64_t n, int left, int right) {
    TP_SCOPE {
        tp_tensor *a = laid_out(m, k, dtype, left), *b = laid_out(k, n, dtype, right), *c = tp_mm(a, b);
        assert_true(tp_ok());
        assert_int_equal(c->dtype, dtype);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, size = 0;
                for (int64_t l = 0; l < k; l++) {
                    sum += value(a, i, l) * value(b, l, j);
                    size += fabs(value(a, i, l) * value(b, l, j));
                }
                if (!tp_dtype_is_floating(dtype)) sum = wrapped(sum, dtype);
                assert_true(fabs(value(c, i, j) - sum) <= tolerance(dtype, k) * (size + 1));
            }
    }
}

static void products_of_all_layouts(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_FLOAT64, TP_FLOAT16, TP_BFLOAT16,
                                      TP_INT64,   TP_INT32,   TP_UINT8,   TP_INT8};
    static const int64_t sizes[][3] = {{2, 3, 4}, {1, 5, 1}, {1, 40, 33}, {33, 40, 1}, {17, 19, 23},
                                       {5, 1, 7}, {3, 0, 4}, {0, 3, 4},   {70, 65, 67}};
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int layout = 0; layout < 9; layout++)
                check_product(dtypes[t], sizes[s][0], sizes[s][1], sizes[s][2], layout / 3, layout % 3);
}

static void long_inner_dims(void **state) {
    (void)state;
    check_product(TP_FLOAT32, 1, 100000, 1, 0, 0);
    check_product(TP_FLOAT32, 3, 20000, 5, 1, 0);
    check_product(TP_FLOAT32, 300, 300, 1030, 0, 1); /* more than one tile both ways */
}

static void zero_beta_ignores_what_was_there(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *nan = tp_full(TP_INTS(2, 2), NAN), *one = tp_ones(TP_INTS(2, 2));
        assert_true(tp_item(tp_sum(tp_addmm(nan, one, one, .beta = tp_int(0)))) == 8);
        assert_true(tp_item(tp_sum(tp_addmm(one, one, one, .beta = tp_int(2), .alpha = tp_int(3)))) == 32);
        assert_true(isnan(tp_item(tp_sum(tp_addmm(nan, one, one)))));
    }
}

static bool same_bits(const tp_tensor *a, const tp_tensor *b) {
    return a->numel == b->numel && tp_is_contiguous(a) && tp_is_contiguous(b) &&
           !memcmp(a->data, b->data, (size_t)a->numel * tpi_itemsize(a));
}

static void same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 7};
    TP_SCOPE {
        tp_tensor *a = tp_randn(TP_INTS(700, 513)), *b = tp_randn(TP_INTS(513, 1100)), *v = tp_randn(TP_INTS(200000));
        tp_tensor *batch = tp_randn(TP_INTS(50, 37, 41)), *other = tp_randn(TP_INTS(50, 41, 29)),
                  *bias = tp_randn(TP_INTS(700));
        tp_set_num_threads(1);
        tp_tensor *mm = tp_mm(a, b), *bmm = tp_bmm(batch, other), *dot = tp_dot(v, v),
                  *line = tp_linear(tp_transpose(b, 0, 1), a, .bias = bias);
        for (int i = 0; i < 3; i++) {
            tp_set_num_threads(threads[i]);
            assert_true(same_bits(mm, tp_mm(a, b)));
            assert_true(same_bits(bmm, tp_bmm(batch, other)));
            assert_true(same_bits(dot, tp_dot(v, v)));
            assert_true(same_bits(line, tp_linear(tp_transpose(b, 0, 1), a, .bias = bias)));
        }
        tp_set_num_threads(0);
    }
}

static void matrices_shared_by_a_batch_are_not_copied(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_randn(TP_INTS(4, 5)), *b = tp_randn(TP_INTS(6, 5, 3)), *c = tp_matmul(a, b);
        for (int64_t i = 0; i < 6; i++)
            assert_true(tp_item(tp_sum(tp_abs(tp_sub(tp_select(c, 0, i), tp_mm(a, tp_select(b, 0, i)))))) < 1e-5);
    }
}

/* Some BLAS libraries read behind the last element of a complex vector. Here nothing is there to read. */
static void nothing_is_read_behind_a_vector(void **state) {
    (void)state;
    enum { MAPPED = 1 << 16, SIZES = 9 };
    char *memory = mmap(NULL, 2 * MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + MAPPED, MAPPED, PROT_NONE), 0);
    for (int64_t n = 1; n <= SIZES; n++)
        for (int64_t step = 1; step <= 40; step += 39)
            for (int wide = 0; wide < 2; wide++)
                TP_SCOPE {
                    tp_dtype dtype = wide ? TP_COMPLEX128 : TP_COMPLEX64;
                    char *at = memory + MAPPED - ((n - 1) * step + 1) * tp_dtype_size(dtype);
                    tp_tensor *x = tp_over_data(at, dtype, TP_INTS(n), TP_INTS(step), NULL, NULL);
                    tp_copy_(x, tp_randn(TP_INTS(n), .dtype = dtype));
                    tp_tensor *a = tp_randn(TP_INTS(n, 6), .dtype = dtype), *product = tp_mv(tp_t(a), x);
                    tp_tensor *sums = tp_sum(tp_mul(a, tp_unsqueeze(x, 1)), .dim = TP_INTS(0));
                    assert_true(tp_item(tp_max(tp_abs(tp_sub(product, sums)))) < 1e-5);
                }
    munmap(memory, 2 * MAPPED);
}

/* A vector beside a matrix of 16-bit floats, which is converted as it is read: the bits of a product in float32. */
static void check_narrow_matrix(tp_dtype dtype, int64_t m, int64_t k, int layout) {
    TP_SCOPE {
        tp_tensor *w = laid_out(m, k, dtype, layout), *x = tp_to(tp_randn(TP_INTS(k)), .dtype = dtype),
                  *y = tp_to(tp_randn(TP_INTS(m)), .dtype = dtype), *row = tp_unsqueeze(x, 0),
                  *column = tp_unsqueeze(y, 0);
        tp_tensor *w32 = tp_to(w, .dtype = TP_FLOAT32), *x32 = tp_to(x, .dtype = TP_FLOAT32),
                  *y32 = tp_to(y, .dtype = TP_FLOAT32), *row32 = tp_unsqueeze(x32, 0), *column32 = tp_unsqueeze(y32, 0);
        tp_tensor *const pairs[][2] = {
            {tp_mv(w, x), tp_mv(w32, x32)},
            {tp_mv(tp_transpose(w, 0, 1), y), tp_mv(tp_transpose(w32, 0, 1), y32)},
            {tp_addmv(y, w, x, .beta = tp_float(0.5), .alpha = tp_int(2)),
             tp_addmv(y32, w32, x32, .beta = tp_float(0.5), .alpha = tp_int(2))},
            {tp_mm(column, w), tp_mm(column32, w32)},
            {tp_linear(row, w, .bias = y), tp_linear(row32, w32, .bias = y32)},
        };
        assert_true(tp_ok());
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            assert_int_equal(pairs[i][0]->dtype, dtype);
            assert_true(tp_equal(pairs[i][0], tp_to(pairs[i][1], .dtype = dtype)));
        }
    }
}

static void narrow_matrices_beside_vectors(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{513, 700}, {3, 50000}, {50000, 3}, {17, 9000}, {1, 140000}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int layout = 0; layout < 3; layout++) {
            check_narrow_matrix(TP_BFLOAT16, sizes[s][0], sizes[s][1], layout);
            check_narrow_matrix(TP_FLOAT16, sizes[s][0], sizes[s][1], layout);
        }
}

static void known_values_of_einsum(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_reshape(tp_arange(tp_float(6)), TP_INTS(2, 3)),
                  *b = tp_reshape(tp_arange(tp_float(9)), TP_INTS(3, 3));
        assert_true(tp_item(tp_einsum("ii", TP_LIST(b))) == 12);
        assert_true(tp_item(tp_einsum("ij,kj->", TP_LIST(a, b))) == 192); /* (3, 5, 7) . (9, 12, 15) */
        tp_tensor *c = tp_einsum("ij,jk", TP_LIST(a, b));
        assert_true(value(c, 1, 2) == 3 * 2 + 4 * 5 + 5 * 8);
        assert_null(tp_einsum("ij,jk->i", TP_LIST(a)));
        assert_non_null(strstr(tp_error(), "operand"));
        tp_error_clear();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_layouts),
        cmocka_unit_test(long_inner_dims),
        cmocka_unit_test(zero_beta_ignores_what_was_there),
        cmocka_unit_test(same_bits_on_any_number_of_threads),
        cmocka_unit_test(matrices_shared_by_a_batch_are_not_copied),
        cmocka_unit_test(nothing_is_read_behind_a_vector),
        cmocka_unit_test(narrow_matrices_beside_vectors),
        cmocka_unit_test(known_values_of_einsum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
