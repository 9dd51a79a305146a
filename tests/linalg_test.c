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

static void same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 7};
    TP_SCOPE {
        tp_tensor *a = tp_randn(TP_INTS(5, 150, 150));
        tp_set_num_threads(1);
        tp_tensor *inverse = tp_contiguous(tp_linalg_inv(a)), *values = tp_linalg_svdvals(a);
        for (int i = 0; i < 3; i++) {
            tp_set_num_threads(threads[i]);
            assert_memory_equal(inverse->data, tp_contiguous(tp_linalg_inv(a))->data, (size_t)inverse->numel * 4);
            assert_memory_equal(values->data, tp_linalg_svdvals(a)->data, (size_t)values->numel * 4);
        }
        tp_set_num_threads(0);
    }
}

static void exponentials_of_large_matrices(void **state) {
    (void)state;
    TP_SCOPE { /* exp of a quarter turn, many times over */
        const double angle = 40 * acos(-1.0) + 0.5, turn[4] = {0, -angle, angle, 0};
        tp_tensor *r = tp_linalg_matrix_exp(tp_from_data(turn, TP_FLOAT64, TP_INTS(2, 2)));
        assert_true(fabs(tp_item(tp_select(tp_select(r, 0, 0), 0, 0)) - cos(0.5)) < 1e-11);
        assert_true(fabs(tp_item(tp_select(tp_select(r, 0, 1), 0, 0)) - sin(0.5)) < 1e-11);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_by_differences),
        cmocka_unit_test(singular_matrices_are_named),
        cmocka_unit_test(same_bits_on_any_number_of_threads),
        cmocka_unit_test(exponentials_of_large_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
