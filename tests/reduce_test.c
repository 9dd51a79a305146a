/* Derivatives of products, maps over rows and bags of rows, on sizes where they are cut into pieces, groups and blocks:
 * beside plain loops in double. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <taper/taper.h>
#include "tensor/tensor.h"

static tp_tensor *near_one(int64_t a, int64_t b, int64_t c, tp_dtype dtype) {
    tp_manual_seed(5);
    return tp_add(tp_mul(tp_rand(TP_INTS(a, b, c), .dtype = dtype), 0.02), 0.99);
}

static tp_tensor *gradient(tp_tensor *leaf, tp_tensor *loss) {
    tp_tensor *g = NULL;
    assert_true(
        tp_gradients(TP_LIST(loss), TP_LIST(leaf), NULL, &g, &(tp_grad_options){.size = sizeof(tp_grad_options)}));
    return tp_contiguous(g);
}

static void is_near(double got, double want, double tolerance, const char *what, int64_t at) {
    if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
        fail_msg("%s, element %lld: %.17g, wanted %.17g", what, (long long)at, got, want);
}

/* The product of the others along the middle dim, with a zero in the first line of all. */
static void check_products(int64_t outer, int64_t n, int64_t inner, tp_dtype dtype) {
    tp_tensor *x = near_one(outer, n, inner, dtype);
    if (dtype == TP_FLOAT32)
        ((float *)x->data)[n / 2 * inner] = 0;
    else
        ((double *)x->data)[n / 2 * inner] = 0;
    tp_tensor *leaf = tp_set_requires_grad(tp_clone(x), true), *g = gradient(leaf, tp_sum(tp_prod_dim(leaf, 1)));
    tp_tensor *value = tp_to(x, .dtype = TP_FLOAT64), *got = tp_to(g, .dtype = TP_FLOAT64);
    const double *v = (const double *)value->data, *d = (const double *)got->data;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const double *line = v + o * n * inner + i;
            double all = 1;
            int zeros = 0;
            for (int64_t k = 0; k < n; k++) {
                if (line[k * inner] == 0)
                    zeros++;
                else
                    all *= line[k * inner];
            }
            for (int64_t k = 0; k<n; k += n> 50 ? 13 : 1) {
                const double here = line[k * inner], want = zeros == 0 ? all / here : here == 0 ? all : 0;
                is_near(d[(o * n + k) * inner + i], want, dtype == TP_FLOAT32 ? 3e-6 : 1e-13, "prod", k);
            }
        }
}

static void products_of_others(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 2, 1},     {2, 7, 5},    {1, 8192, 1},
                                        {2, 8193, 1}, {1, 30001, 1}, {2, 300, 70}, {1, 129, 200}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int wide = 0; wide < 2; wide++)
            TP_SCOPE {
                check_products(shapes[s][0], shapes[s][1], shapes[s][2], wide ? TP_FLOAT64 : TP_FLOAT32);
            }
}

/* d out[j] / d x[k] for j >= k is the product of x[0..j] without x[k]. */
static void running_products_of_many_lines(void **state) {
    (void)state;
    enum { LINES = 19, N = 37 };
    TP_SCOPE {
        tp_tensor *x = near_one(1, LINES, N, TP_FLOAT64), *leaf = tp_set_requires_grad(tp_clone(x), true);
        tp_tensor *g = gradient(leaf, tp_sum(tp_cumprod(leaf, 2)));
        const double *v = (const double *)x->data, *d = (const double *)g->data;
        for (int64_t l = 0; l < LINES; l++)
            for (int64_t k = 0; k < N; k++) {
                double want = 0, product = 1;
                for (int64_t j = 0; j < N; j++) {
                    if (j != k) product *= v[l * N + j];
                    if (j >= k) want += product;
                }
                is_near(d[l * N + k], want, 1e-13, "cumprod", l * N + k);
            }
    }
}

/* A number for each row, on either side, in rows that the kernel takes as they lie and in others. */
static void rows_and_numbers(void **state) {
    (void)state;
    static const int64_t widths[] = {16, 100, 128, 160, 1040};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int wide = 0; wide < 2; wide++)
            TP_SCOPE {
                const tp_dtype dtype = wide ? TP_FLOAT64 : TP_FLOAT32;
                const int64_t n = widths[w];
                tp_tensor *x = near_one(3, 50, n, dtype), *column = tp_narrow(near_one(3, 50, 2, dtype), 2, 1, 1),
                          *row = tp_narrow(near_one(3, 2, n, dtype), 1, 1, 1);
                tp_tensor *spread = tp_contiguous(tp_expand(column, TP_INTS(3, 50, n)));
                assert_true(tp_equal(tp_sub(x, column), tp_sub(x, spread)));
                assert_true(tp_equal(tp_sub(column, x), tp_sub(spread, x)));
                assert_true(tp_equal(tp_sub(x, column, .alpha = tp_int(3)), tp_sub(x, spread, .alpha = tp_int(3))));
                assert_true(tp_equal(tp_lt(x, column), tp_lt(x, spread)));
                assert_true(
                    tp_equal(tp_mul(column, row), tp_mul(spread, tp_contiguous(tp_expand(row, TP_INTS(3, 50, n))))));
                assert_true(tp_ok());
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_others),
        cmocka_unit_test(running_products_of_many_lines),
        cmocka_unit_test(rows_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
