/* Natives of sorting, sampling, indexing, joining and embedding on a GPU (PoCL's counts): their samples come out as on
 * the CPU without a detour by way of the host, and so do the cases that samples have no room for: NaN, ties, many
 * elements, whole numbers beyond floating point, what random draws add up to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include <taper/taper.h>
#include "samples.h"

static const tp_device cpu = {TP_CPU, 0};
static tp_device gpu = {TP_XPU, 0};

static const char *const served[] = {
    "sparse_mm_rows",
    "sparse_mm_coo",
    "sparse_dots",
    "sparse_group",
    "sparse_coalesce",
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "unique",
    "unique_dim",
    "unique_consecutive",
    "median",
    "median.dim",
    "nanmedian",
    "nanmedian.dim",
    "kthvalue",
    "mode",
    "quantile",
    "searchsorted",
    "bucketize",
    "isin",
    "bincount",
    "histc",
    "histogram",
    "histogram.bins_tensor",
    "_histogramdd_bin_edges",
    "_histogramdd_from_bin_tensors",
    "bernoulli",
    "bernoulli.Tensor",
    "multinomial",
    "randperm",
    "normal.Tensor_Tensor",
    "normal.Tensor_float",
    "normal.float_Tensor",
    "poisson",
    "binomial",
    "_standard_gamma",
    "_standard_gamma_grad",
    "_sample_dirichlet",
    "_dirichlet_grad",
    "randint_like",
    "randint_like.low_dtype",
    "rrelu_noise",
    "alpha_dropout_scale",
    "alpha_dropout_shift",
    "take",
    "put",
    "scatter_reduce",
    "scatter_add",
    "index",
    "index_put",
    "index_add",
    "sort",
    "topk",
    "masked_scatter",
    "nonzero_static",
    "index_fill.tensor",
    "fill_diagonal",
    "repeat_interleave.Tensor",
    "one_hot",
    "segment_sum",
    "segment_spread",
    "segment_argmax",
    "bag_of",
    "embedding_renorm",
    "embedding_backward_backward",
    "linalg_det",
    "linalg_slogdet",
    "linalg_inv_ex",
    "linalg_solve_ex",
    "linalg_cholesky_ex",
    "linalg_householder_product",
    "linalg_matrix_rank",
    "linalg_pinv",
    "linalg_svdvals",
    "linalg_matrix_exp",
    "linalg_matrix_norm.str_ord",
    "hann_window",
    "hamming_window",
    "blackman_window",
    "bartlett_window",
    "kaiser_window",
    "signal_windows_cosine",
    "signal_windows_gaussian",
    "signal_windows_exponential",
    "signal_windows_general_cosine",
    "signal_windows_nuttall",
    "fft_fftfreq",
    "fft_rfftfreq",
    "ctc_loss",
    "ctc_loss.IntList",
    "linear_recurrence",
    "fractional_max_pool",
    "linalg_lu",
    "lu_unpack",
    "base_grid",
    "affine_grid",
    "as_strided_backward",
    "as_strided_scatter",
    "unfold_backward",
    "equal",
    "frexp",
};

static void check_sample(const operator_sample *sample, const tp_operator *op) {
    bool listed = false;
    for (size_t i = 0; i < sizeof served / sizeof *served && !listed; i++) listed = !strcmp(served[i], sample->op);
    if (!listed) return;
    arguments here, there;
    results want, got;
    tp_dtype dtype = first_dtype(sample);
    at(sample, dtype, "without a detour");
    if (!make_arguments(sample, dtype, PLAIN, NULL, &here)) return;
    if (!move_arguments(&here, gpu, &there)) {
        report_error("placing the arguments");
        return drop_arguments(&here);
    }
    bool fine = call(&here, &want), random = call_was_random();
    int64_t before = tp_host_detours();
    if (!fine || !call(&there, &got)) {
        report_error("failed");
    } else {
        if (tp_host_detours() != before) report("went by way of the host");
        for (int i = 0; i < got.n && i < want.n; i++) {
            if (!same_kind(got.tensors[i], want.tensors[i]))
                report("result %d: %s", i, difference());
            else if (!random && !near(got.tensors[i], want.tensors[i], 2 * tolerance_of(dtype)))
                report("result %d: %s", i, difference());
        }
        if (!random && !got.n && got.plain != want.plain) report("gave %g, %g on the CPU", got.plain, want.plain);
        drop_results(&got);
    }
    if (fine) drop_results(&want);
    drop_arguments(&there);
    drop_arguments(&here);
    (void)op;
}

static void test_samples(void **state) {
    (void)state;
    for_each_sample(false, check_sample);
    fail_if_reported();
}

/* ---- Cases of their own ---- */
static tp_tensor *there(tp_tensor *t) {
    tp_tensor *moved = tp_to(t, .device = gpu);
    assert_non_null(moved);
    return moved;
}

static void assert_same(tp_tensor *on_gpu, tp_tensor *want) {
    assert_non_null(on_gpu);
    assert_non_null(want);
    if (!same_bits(tp_to(on_gpu, .device = cpu), want)) fail_msg("%s", difference());
}

/* Few different values, so that there are ties; every 97th is NaN if it may be. */
static tp_tensor *ties(int64_t n, bool nan) {
    tp_tensor *t = tp_zeros(TP_INTS(n));
    float *v = tp_data(t);
    for (int64_t i = 0; i < n; i++) v[i] = nan && i % 97 == 5 ? NAN : (float)((i * 7919 + i / 13) % 61 - 30) / 4;
    return t;
}

/* Where the k-th smallest stands, the first of equals first: GPUs have this rule, the CPU has PyTorch's. */
static tp_tensor *index_in_order(tp_tensor *x, int64_t k, int64_t dim) {
    return tp_contiguous(tp_select(tp_sort(x, .dim = dim, .stable = true).indices, dim, k - 1));
}

static void test_orders(void **state) {
    (void)state;
    TP_SCOPE
        for (int nan = 0; nan < 2; nan++) {
            tp_tensor *x = tp_reshape(ties(9000, nan), TP_INTS(9, 1000)), *y = there(x);
            for (int64_t dim = 0; dim < 2; dim++) {
                assert_same(tp_median_dim(y, dim).values, tp_median_dim(x, dim).values);
                assert_same(tp_median_dim(y, dim).indices, tp_median_dim(x, dim).indices);
                assert_same(tp_nanmedian_dim(y, dim).indices, tp_nanmedian_dim(x, dim).indices);
                assert_same(tp_kthvalue(y, 7, .dim = dim).indices, index_in_order(x, 7, dim));
                assert_same(tp_kthvalue(y, 7, .dim = dim).values, tp_kthvalue(x, 7, .dim = dim).values);
                assert_same(tp_mode(y, .dim = dim).values, tp_mode(x, .dim = dim).values);
                assert_same(tp_mode(y, .dim = dim).indices, tp_mode(x, .dim = dim).indices);
            }
            tp_unique_result a = tp_unique(x, .return_inverse = true, .return_counts = true),
                             b = tp_unique(y, .return_inverse = true, .return_counts = true);
            assert_same(b.output, a.output);
            assert_same(b.inverse_indices, a.inverse_indices);
            assert_same(b.counts, a.counts);
            tp_tensor *rows = tp_reshape(ties(6000, nan), TP_INTS(3000, 2)), *cells = there(rows);
            tp_unique_dim_result c = tp_unique_dim(rows, 0, .return_inverse = true, .return_counts = true),
                                 d = tp_unique_dim(cells, 0, .return_inverse = true, .return_counts = true);
            assert_same(d.output, c.output);
            assert_same(d.inverse_indices, c.inverse_indices);
            assert_same(d.counts, c.counts);
        }
}

static void test_whole_numbers(void **state) {
    (void)state;
    TP_SCOPE { /* beyond what float32 holds */
        int64_t big = ((int64_t)1 << 40) + 1;
        tp_tensor *src = tp_add(tp_zeros(TP_INTS(600), .dtype = TP_INT64), big),
                  *index = tp_remainder(tp_arange(600), 7), *to = tp_zeros(TP_INTS(7), .dtype = TP_INT64);
        assert_same(tp_scatter_add(there(to), 0, there(index), there(src)), tp_scatter_add(to, 0, index, src));
        assert_same(tp_scatter_reduce(there(to), 0, there(index), there(src), "mean"),
                    tp_scatter_reduce(to, 0, index, src, "mean"));
        assert_same(tp_bincount(there(tp_remainder(tp_arange(5000), 3000))),
                    tp_bincount(tp_remainder(tp_arange(5000), 3000)));
    }
}

/* Rows of every length that is sorted in a way of its own: by each element, by a block, by passes over all. */
static void test_rows_of_all_lengths(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 7, 48, 49, 257, 1024, 4096, 4097};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int down = 0; down < 2; down++)
            TP_SCOPE {
                int64_t n = lengths[i];
                tp_tensor *x = tp_reshape(ties(3 * n, n > 1), TP_INTS(3, n)), *y = there(x),
                          *whole = tp_to(tp_mul(tp_nan_to_num(x), 1 << 20), .dtype = TP_INT64);
                assert_same(tp_sort(y, .descending = down).indices, tp_sort(x, .descending = down).indices);
                assert_same(tp_sort(there(whole), .descending = down).values,
                            tp_sort(whole, .descending = down).values);
                assert_same(tp_kthvalue(y, n - n / 3).indices, index_in_order(x, n - n / 3, 1));
                assert_same(tp_median_dim(y, 1).indices, tp_median_dim(x, 1).indices);
                assert_same(tp_nanmedian_dim(y, 1).indices, tp_nanmedian_dim(x, 1).indices);
            }
}

/* Whole numbers, so that sums have the same bits in any order. */
static tp_tensor *counted(tp_ints shape, int64_t below) {
    int64_t n = 1;
    for (int64_t i = 0; i < shape.n; i++) n *= shape.v[i];
    tp_tensor *line = tp_remainder(tp_mul(tp_arange(n), 7919), below);
    return tp_reshape(line, shape);
}
static tp_tensor *floats(tp_ints shape) { return tp_to(tp_sub(counted(shape, 61), 30), .dtype = TP_FLOAT32); }

static void check_picks(tp_tensor *x, tp_tensor *far, tp_tensors indices) {
    tp_tensor *moved[3] = {NULL};
    for (int64_t i = 0; i < indices.n; i++) moved[i] = indices.v[i] ? there(indices.v[i]) : NULL;
    tp_tensors far_indices = tp_list(indices.n, moved);
    tp_tensor *picked = tp_index(x, indices);
    assert_same(tp_index(far, far_indices), picked);
    tp_tensor *values = floats(tp_shape(picked));
    assert_same(tp_index_put(far, far_indices, there(values), .accumulate = true),
                tp_index_put(x, indices, values, .accumulate = true));
    assert_same(tp_index_put(far, far_indices, there(tp_full(TP_INTS(1), 5.0))),
                tp_index_put(x, indices, tp_full(TP_INTS(1), 5.0)));
}

/* By tensors of numbers side by side and apart, by masks, out of tensors that lie in memory as they please; and one
 * place that thousands of values are added to. */
static void test_picks(void **state) {
    (void)state;
    int64_t detours = tp_host_detours();
    for (int transposed = 0; transposed < 2; transposed++)
        TP_SCOPE {
            tp_tensor *x = floats(TP_INTS(6, 7, 8)), *far = there(x);
            if (transposed) {
                x = tp_permute(floats(TP_INTS(8, 6, 7)), TP_INTS(1, 2, 0));
                far = tp_permute(there(floats(TP_INTS(8, 6, 7))), TP_INTS(1, 2, 0));
            }
            tp_tensor *a = tp_sub(counted(TP_INTS(5), 12), 6), *b = tp_sub(counted(TP_INTS(4, 1), 14), 7),
                      *c = counted(TP_INTS(5), 8), *m = tp_gt(x, 4);
            tp_tensor *lists[][3] = {{a, b, c},
                                     {a, NULL, c},
                                     {NULL, b, NULL},
                                     {NULL, b, c},
                                     {m},
                                     {tp_select(m, 2, 0)},
                                     {NULL, tp_select(m, 0, 0)},
                                     {tp_select(tp_select(m, 2, 0), 1, 1), NULL, NULL},
                                     {counted(TP_INTS(3000), 6), tp_sub(counted(TP_INTS(3000), 7), 7)}};
            static const int counts[] = {3, 3, 3, 3, 1, 1, 2, 3, 2};
            for (int i = 0; i < 9; i++) check_picks(x, far, tp_list(counts[i], lists[i]));
            for (int64_t dim = 0; dim < 3; dim++) {
                int64_t shape[] = {6, 7, 8};
                shape[dim] = 900;
                tp_tensor *index = counted(TP_INTS(900), 6), *source = floats(tp_ints_view(shape, 3));
                assert_same(tp_index_add(far, dim, there(index), there(source)), tp_index_add(x, dim, index, source));
            }
            tp_tensor *same = tp_zeros(TP_INTS(5000), .dtype = TP_INT64), *ones = tp_ones(TP_INTS(5000, 2)),
                      *to = tp_zeros(TP_INTS(3, 2));
            assert_same(tp_index_add(there(to), 0, there(same), there(ones)), tp_index_add(to, 0, same, ones));
        }
    assert_int_equal(tp_host_detours(), detours);
}

/* Lines of few elements, of as many as a block has, and longer ones, along every dim. */
static void test_scattered_lines(void **state) {
    (void)state;
    static const int64_t lengths[] = {5, 33, 700, 4097};
    for (int i = 0; i < 4; i++)
        for (int64_t dim = 0; dim < 2; dim++)
            TP_SCOPE {
                tp_ints shape = dim ? TP_INTS(3, lengths[i]) : TP_INTS(lengths[i], 3),
                        to = dim ? TP_INTS(4, 300) : TP_INTS(300, 4);
                tp_tensor *x = floats(to), *index = counted(shape, 300), *src = floats(shape);
                assert_same(tp_scatter_add(there(x), dim, there(index), there(src)),
                            tp_scatter_add(x, dim, index, src));
                for (int way = 0; way < 4; way++) {
                    const char *reduce = (const char *[]){"amax", "amin"}[way / 2];
                    assert_same(
                        tp_scatter_reduce(there(x), dim, there(index), there(src), reduce, .include_self = way % 2),
                        tp_scatter_reduce(x, dim, index, src, reduce, .include_self = way % 2));
                }
            }
}

static double mean_of(tp_tensor *t) { return tp_item(tp_mean(tp_to(t, .dtype = TP_FLOAT64, .device = cpu))); }
static double variance_of(tp_tensor *t) { return tp_item(tp_var(tp_to(t, .dtype = TP_FLOAT64, .device = cpu))); }

/* Means and variances of many samples, within some standard errors. */
static void assert_moments(tp_tensor *samples, double mean, double variance) {
    double n = (double)tp_numel(samples), off = fabs(mean_of(samples) - mean), error = sqrt(variance / n);
    if (off > 5 * error) fail_msg("the mean is off by %g, %g standard errors", off, off / error);
    if (fabs(variance_of(samples) / variance - 1) > 0.1)
        fail_msg("a variance of %g, expected %g", variance_of(samples), variance);
}

static void test_samples_add_up(void **state) {
    (void)state;
    tp_manual_seed(3);
    TP_SCOPE {
        static const double rates[] = {0.3, 4, 40, 3000}, shapes[] = {0.2, 1.5, 30};
        tp_tensor *ones = there(tp_ones(TP_INTS(20000)));
        for (int i = 0; i < 4; i++) assert_moments(tp_poisson(tp_mul(ones, rates[i])), rates[i], rates[i]);
        for (int i = 0; i < 3; i++) assert_moments(tp__standard_gamma(tp_mul(ones, shapes[i])), shapes[i], shapes[i]);
        assert_moments(tp_binomial(tp_mul(ones, 12), tp_mul(ones, 0.2)), 2.4, 1.92);
        assert_moments(tp_binomial(tp_mul(ones, 500), tp_mul(ones, 0.7)), 350, 105);
        assert_moments(tp_bernoulli(tp_mul(ones, 0.3)), 0.3, 0.21);
        assert_moments(tp_normal_Tensor_Tensor(tp_mul(ones, 3), tp_mul(ones, 2)), 3, 4);
        tp_tensor *parts = tp__sample_dirichlet(there(tp_add(tp_zeros(TP_INTS(5000, 3)), 0.5)));
        assert_moments(tp_select(parts, 1, 0), 1.0 / 3, 2.0 / 9 / 2.5);
    }
}

static void test_draws(void **state) {
    (void)state;
    TP_SCOPE {
        static const float p[] = {0, 1, 0, 3, 0};
        tp_tensor *weights = there(tp_from_data(p, TP_FLOAT32, TP_INTS(5)));
        for (int replacement = 0; replacement < 2; replacement++) {
            tp_tensor *drawn = replacement ? tp_multinomial(weights, 20000, .replacement = true)
                                           : tp_multinomial(tp_expand(weights, TP_INTS(20000, 5)), 1);
            tp_tensor *counts = tp_to(tp_bincount(tp_reshape(drawn, TP_INTS(-1)), .minlength = 5), .device = cpu);
            const int64_t *n = tp_data(counts);
            assert_true(n[0] == 0);
            assert_true(n[2] == 0);
            assert_true(n[4] == 0);
            assert_true(n[1] + n[3] == 20000);
            assert_true(llabs(n[3] - 15000) < 400);
        }
        tp_tensor *order = tp_randperm(3000, .device = gpu);
        assert_same(tp_sort(order).values, tp_arange(3000));
        assert_false(tp_equal(order, there(tp_arange(3000))));
    }
}

int main(void) {
    if (tp_device_count(TP_XPU) <= 0) {
        fprintf(stderr, "skipped: %s\n", tp_error() ? tp_error() : "there is no OpenCL device here");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples),       cmocka_unit_test(test_orders),
                                       cmocka_unit_test(test_whole_numbers), cmocka_unit_test(test_samples_add_up),
                                       cmocka_unit_test(test_draws),         cmocka_unit_test(test_rows_of_all_lengths),
                                       cmocka_unit_test(test_picks),         cmocka_unit_test(test_scattered_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
