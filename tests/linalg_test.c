/* Linear algebra beyond the tables' samples: derivatives of operators that read one triangle, or whose vectors have a
 * free sign or phase, by differences of functions that do not depend on that; errors that name the matrix; the same
 * bits on any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <taper/taper.h>
#include "tensor/tensor.h"

typedef tp_tensor *(*function)(tp_tensor *x); /* a real number of a matrix */

static tp_tensor *weights(const tp_tensor *like) { /* fixed, different for every element */
    tp_tensor *w = tp_sin(tp_arange(tp_float((double)like->numel), .dtype = TP_FLOAT64));
    return tp_reshape(w, tpi_shape(like));
}
static tp_tensor *weighed(tp_tensor *t) { return tp_sum(tp_mul(t, weights(t))); }
static tp_tensor *sizes(tp_tensor *t) { return tp_square(tp_abs(t)); }
static tp_tensor *symmetric(tp_tensor *x) { return tp_add(x, tp_adjoint(x)); }
static tp_tensor *definite(tp_tensor *x) {
    return tp_add(tp_matmul(x, tp_adjoint(x)), tp_eye(tp_size(x, -1), .dtype = TP_FLOAT64));
}

static tp_tensor *of_cholesky(tp_tensor *x) { return weighed(sizes(tp_linalg_cholesky(definite(x)))); }
static tp_tensor *of_upper_cholesky(tp_tensor *x) {
    return weighed(sizes(tp_linalg_cholesky(definite(x), .upper = true)));
}
static tp_tensor *of_eigenvalues(tp_tensor *x) { return weighed(tp_linalg_eigvalsh(symmetric(x))); }
static tp_tensor *of_eigenvectors(tp_tensor *x) {
    tp_linalg_eigh_result r = tp_linalg_eigh(symmetric(x));
    return tp_add(weighed(sizes(r.eigenvectors)), weighed(r.eigenvalues));
}
static tp_tensor *of_general_eigenvectors(tp_tensor *x) {
    tp_linalg_eig_result r = tp_linalg_eig(x);
    return tp_add(tp_sum(sizes(r.eigenvectors)), tp_sum(sizes(r.eigenvalues)));
}
static tp_tensor *of_singular_vectors(tp_tensor *x) {
    tp_linalg_svd_result r = tp_linalg_svd(x, .full_matrices = false);
    return tp_add(tp_add(weighed(sizes(r.U)), weighed(sizes(r.Vh))), weighed(r.S));
}

/* Along one random direction; twice: the gradient by differences of the function, and its own derivative by differences
 * of the gradient. */
static void check_derivatives(const char *name, function f, tp_tensor *x) {
    const double step = 1e-5;
    tp_tensor *d = tp_mul(tp_randn_like(x), 1.0);
    tp_tensor *leaf = tp_set_requires_grad(tp_clone(x), true), *g = NULL, *h = NULL;
    tp_tensor *y = f(leaf);
    assert_true(tp_ok());
    assert_true(tp_gradients(TP_LIST(y), TP_LIST(leaf), NULL, &g,
                             &(tp_grad_options){.size = sizeof(tp_grad_options), .create_graph = true}));
    tp_tensor *along = tp_real(tp_sum(tp_mul(tp_conj(g), d)));
    double analytic = tp_item(along), up = tp_item(f(tp_add(x, tp_mul(d, step)))),
           down = tp_item(f(tp_sub(x, tp_mul(d, step))));
    double numeric = (up - down) / (2 * step);
    if (fabs(analytic - numeric) > 1e-5 * fmax(1, fabs(numeric)))
        fail_msg("%s: derivative %g, by differences %g", name, analytic, numeric);
    assert_true(
        tp_gradients(TP_LIST(along), TP_LIST(leaf), NULL, &h, &(tp_grad_options){.size = sizeof(tp_grad_options)}));
    double second = tp_item(tp_real(tp_sum(tp_mul(tp_conj(h), d)))),
           numeric2 = (up - 2 * tp_item(f(x)) + down) / (step * step);
    if (fabs(second - numeric2) > 1e-2 * fmax(1, fabs(numeric2)))
        fail_msg("%s: second derivative %g, by differences %g", name, second, numeric2);
}

static void derivatives_by_differences(void **state) {
    (void)state;
    static const struct {
        const char *name;
        function f;
        int64_t m, n;
    } cases[] = {{"cholesky", of_cholesky, 4, 4},         {"upper cholesky", of_upper_cholesky, 4, 4},
                 {"eigvalsh", of_eigenvalues, 4, 4},      {"eigh", of_eigenvectors, 4, 4},
                 {"svd", of_singular_vectors, 4, 4},      {"tall svd", of_singular_vectors, 5, 3},
                 {"wide svd", of_singular_vectors, 3, 5}, {"eig", of_general_eigenvectors, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int phased = 0; phased < 2; phased++)
            TP_SCOPE {
                tp_manual_seed(i + 3);
                tp_tensor *x = tp_randn(TP_INTS(cases[i].m, cases[i].n), .dtype = phased ? TP_COMPLEX128 : TP_FLOAT64);
                check_derivatives(cases[i].name, cases[i].f, x);
            }
}

static void refuses(tp_tensor *result, const char *words) {
    assert_null(result);
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    tp_error_clear();
}

static void singular_matrices_are_named(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *zero = tp_zeros(TP_INTS(2, 2)), *eye = tp_eye(2);
        refuses(tp_linalg_inv(zero), "The diagonal element 1 is zero, the inversion could not be completed because the "
                                     "input matrix is singular");
        refuses(tp_linalg_inv(tp_stack(TP_LIST(eye, zero))), "(Batch element 1)");
        refuses(tp_linalg_solve(zero, tp_ones(TP_INTS(2))), "singular");
        refuses(tp_linalg_cholesky(tp_neg(eye)), "the leading minor of order 1 is not positive-definite");
        refuses(tp_linalg_inv(tp_ones(TP_INTS(2, 3))), "square");
        refuses(tp_linalg_inv(tp_to(eye, .dtype = TP_INT64)), "Got Long");
        assert_true(tp_item(tp_linalg_det(zero)) == 0);
    }
}

static void unchecked_inverses_of_singular_matrices_are_infinite(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_FLOAT64};
    for (int i = 0; i < 2; i++)
        TP_SCOPE {
            tp_tensor *zero = tp_zeros(TP_INTS(40, 40), .dtype = dtypes[i]);
            tp_linalg_inv_ex_result inverse = tp_linalg_inv_ex(zero);
            assert_int_equal((int)tp_item(inverse.info), 1);
            assert_true(isinf(tp_item(tp_select(tp_select(inverse.inverse, 0, -1), 0, -1))));
            assert_true(isnan(tp_item(tp_select(tp_select(inverse.inverse, 0, 0), 0, 0))));
        }
}

static void same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 7};
    TP_SCOPE {
        tp_tensor *a = tp_randn(TP_INTS(5, 150, 150));
        tp_set_num_threads(1);
        tp_tensor *inverse = tp_contiguous(tp_linalg_inv(a)), *values = tp_linalg_svdvals(a);
        tp_tensor *large = tp_randn(TP_INTS(500, 500)), *positive = tp_matmul(large, tp_transpose(large, 0, 1));
        tp_tensor *solved = tp_contiguous(tp_linalg_solve(large, large)),
                  *root = tp_contiguous(tp_linalg_cholesky(positive));
        for (int i = 0; i < 3; i++) {
            tp_set_num_threads(threads[i]);
            assert_memory_equal(inverse->data, tp_contiguous(tp_linalg_inv(a))->data, (size_t)inverse->numel * 4);
            assert_memory_equal(solved->data, tp_contiguous(tp_linalg_solve(large, large))->data,
                                (size_t)solved->numel * 4);
            assert_memory_equal(root->data, tp_contiguous(tp_linalg_cholesky(positive))->data, (size_t)root->numel * 4);
            assert_memory_equal(values->data, tp_linalg_svdvals(a)->data, (size_t)values->numel * 4);
        }
        tp_set_num_threads(0);
    }
}

static void exponentials_of_large_matrices(void **state) {
    (void)state;
    TP_SCOPE { /* exp of a quarter turn, many times over */
        const double angle = 40 * acos(-1.0) + 0.5, rotation[4] = {0, -angle, angle, 0};
        tp_tensor *r = tp_linalg_matrix_exp(tp_from_data(rotation, TP_FLOAT64, TP_INTS(2, 2)));
        assert_true(fabs(tp_item(tp_select(tp_select(r, 0, 0), 0, 0)) - cos(0.5)) < 1e-11);
        assert_true(fabs(tp_item(tp_select(tp_select(r, 0, 1), 0, 0)) - sin(0.5)) < 1e-11);
    }
}

/* ---- Factorisations by halves (linalg/blocked_factor.h), around the sizes of their blocks ---- */

static void is_near(const char *what, int64_t n, tp_dtype dtype, tp_tensor *got, tp_tensor *want) {
    const double largest = tp_item(tp_amax(tp_abs(want))), error = tp_item(tp_amax(tp_abs(tp_sub(got, want))));
    const double unit = dtype == TP_FLOAT32 ? 6e-8 : 1.2e-16;
    if (!(error <= 40 * sqrt((double)n) * unit * fmax(largest, 1)))
        fail_msg("%s of size %lld, %s: off by %g of %g", what, (long long)n, tp_dtype_name(dtype), error, largest);
}

static void check_lu(tp_tensor *a, int64_t n) {
    tp_linalg_lu_result f = tp_linalg_lu(a);
    is_near("LU", n, tp_dtype_of(a), tp_matmul(f.P, tp_matmul(f.L, f.U)), a);
    assert_true(tp_item(tp_amax(tp_abs(f.L))) <= 1); /* rows were exchanged */
}

static void check_triangles(tp_tensor *a, tp_tensor *b, int64_t n, tp_dtype dtype) {
    for (int form = 0; form < 8; form++) {
        const bool upper = form & 1, left = form & 2, unit = form & 4;
        tp_tensor *t = upper ? tp_triu(a) : tp_tril(a), *right = left ? b : tp_transpose(b, 0, 1);
        tp_tensor *x = tp_linalg_solve_triangular(t, right, upper, .left = left, .unitriangular = unit);
        if (unit) t = tp_add(tp_sub(t, tp_diag(tp_diag(t))), tp_eye(n, .dtype = dtype));
        is_near("triangle", n, dtype, left ? tp_matmul(t, x) : tp_matmul(x, t), right);
    }
}

static void blocks_of_every_size(void **state) {
    (void)state;
    static const int64_t sizes_of_blocks[] = {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 129, 200};
    for (size_t i = 0; i < sizeof sizes_of_blocks / sizeof *sizes_of_blocks; i++)
        for (int wide = 0; wide < 2; wide++)
            TP_SCOPE {
                const int64_t n = sizes_of_blocks[i], lanes = 3 + (int64_t)i * 11;
                const tp_dtype dtype = wide ? TP_FLOAT64 : TP_FLOAT32;
                tp_manual_seed(i);
                tp_tensor *x = tp_div(tp_randn(TP_INTS(n, n), .dtype = dtype), sqrt((double)n)),
                          *b = tp_randn(TP_INTS(n, lanes), .dtype = dtype), *one = tp_eye(n, .dtype = dtype);
                tp_tensor *positive = tp_add(tp_matmul(x, tp_transpose(x, 0, 1)), one), *a = tp_add(x, tp_mul(one, 3));
                tp_tensor *l = tp_linalg_cholesky(positive), *u = tp_linalg_cholesky(positive, .upper = true);
                is_near("Cholesky", n, dtype, tp_matmul(l, tp_transpose(l, 0, 1)), positive);
                is_near("upper Cholesky", n, dtype, tp_matmul(tp_transpose(u, 0, 1), u), positive);
                check_lu(x, n);
                check_lu(tp_cat(TP_LIST(x, b), .dim = 1), n);
                check_lu(tp_transpose(tp_cat(TP_LIST(x, b), .dim = 1), 0, 1), n);
                check_triangles(a, b, n, dtype);
                tp_tensor *shuffled = tp_flip(a, TP_INTS(0));
                is_near("inverse", n, dtype, tp_matmul(shuffled, tp_linalg_inv(shuffled)), one);
                is_near("solve", n, dtype, tp_matmul(shuffled, tp_linalg_solve(shuffled, b)), b);
                tp_tensor *row = tp_transpose(b, 0, 1);
                is_near("solve from the right", n, dtype,
                        tp_matmul(tp_linalg_solve(shuffled, row, .left = false), shuffled), row);
                assert_true(tp_ok());
            }
}

/* The first zero on U's diagonal, and the first minor that is not positive, by number, in each block. */
static void faults_have_their_number(void **state) {
    (void)state;
    for (int64_t bad = 1; bad <= 100; bad += 9)
        TP_SCOPE {
            double diagonal[100];
            for (int64_t i = 0; i < 100; i++) diagonal[i] = i == bad - 1 ? 0 : 1;
            tp_tensor *a = tp_diag(tp_from_data(diagonal, TP_FLOAT64, TP_INTS(100)));
            tp_tensor *minus = tp_sub(tp_mul(a, 2), tp_eye(100, .dtype = TP_FLOAT64));
            assert_int_equal((int64_t)tp_item(tp_linalg_lu_factor_ex(a).info), bad);
            assert_int_equal((int64_t)tp_item(tp_linalg_cholesky_ex(minus).info), bad);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_by_differences),
        cmocka_unit_test(singular_matrices_are_named),
        cmocka_unit_test(unchecked_inverses_of_singular_matrices_are_infinite),
        cmocka_unit_test(same_bits_on_any_number_of_threads),
        cmocka_unit_test(exponentials_of_large_matrices),
        cmocka_unit_test(blocks_of_every_size),
        cmocka_unit_test(faults_have_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
