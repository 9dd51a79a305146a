/* Distributions against PyTorch 2.15: samples with seed 0, log-probabilities, entropies, divergences; gradients reach
 * the parameters through samples. */
#include "tape_fixture.h"

typedef struct pair { /* two parameters of a batch of two */
    tp_tensor *a, *b;
} pair;
static pair parameters(void) { return (pair){LEAF(0.5f, 2), LEAF(1.5f, 0.25f)}; }

typedef struct expected {
    tp_distribution *(*make)(tp_tensor *, tp_tensor *);
    const char *name;
    float sample[2], log_prob[2], entropy[2], mean[2], variance[2];
} expected;

static const expected two[] = {
    {tp_distribution_normal,
     "Normal",
     {2.811494f, 1.926643f},
     {-1.338293f, -17.532642f},
     {1.824404f, 0.032644f},
     {0.5f, 2.0f},
     {2.25f, 0.0625f}},
    {tp_distribution_log_normal,
     "LogNormal",
     {16.634754f, 6.866419f},
     {-1.174598f, -56.863831f},
     {2.324404f, 2.032644f},
     {5.078419f, 7.62361f},
     {218.901596f, 3.748381f}},
    {tp_distribution_laplace,
     "Laplace",
     {0.488728f, 2.192207f},
     {-1.265279f, -5.306853f},
     {2.098612f, 0.306853f},
     {0.5f, 2.0f},
     {4.5f, 0.125f}},
    {tp_distribution_cauchy,
     "Cauchy",
     {16.396595f, 2.191192f},
     {-1.577594f, -3.369353f},
     {2.936489f, 1.14473f},
     {NAN, NAN},
     {INFINITY, INFINITY}},
    {tp_distribution_gumbel,
     "Gumbel",
     {1.033594f, 2.333258f},
     {-1.418614f, -396.042511f},
     {1.982681f, 0.190921f},
     {1.365824f, 2.144304f},
     {3.701102f, 0.102808f}},
    {tp_distribution_gamma,
     "Gamma",
     {0.000526f, 2.526162f},
     {-1.350791f, -3.590736f},
     {-0.314856f, 2.96351f},
     {0.333333f, 8.0f},
     {0.222222f, 32.0f}},
    {tp_distribution_beta,
     "Beta",
     {0.002248f, 0.992709f},
     {-1.000889f, -1.336438f},
     {-0.548418f, -2.287087f},
     {0.25f, 0.888889f},
     {0.0625f, 0.030389f}},
};

static void check(const expected *e) {
    TP_SCOPE {
        pair p = parameters();
        tp_distribution *d = e->make(p.a, p.b);
        if (!d) fail_msg("%s: %s", e->name, tp_error());
        assert_string_equal(tp_distribution_name(d), e->name);
        tp_manual_seed(0);
        tp_tensor *x = tp_distribution_sample(d, tp_no_ints(), NULL);
        assert_false(tp_requires_grad(x));
        assert_values(x, 2, e->sample);
        assert_values(tp_distribution_log_prob(d, VECTOR(0.75f, 0.5f)), 2, e->log_prob);
        assert_values(tp_distribution_entropy(d), 2, e->entropy);
        if (!isnan(e->mean[0])) {
            assert_values(tp_distribution_mean(d), 2, e->mean);
            assert_values(tp_distribution_variance(d), 2, e->variance);
        } else {
            assert_true(isnan(tp_item(tp_sum(tp_distribution_mean(d)))));
            assert_true(isinf(tp_item(tp_sum(tp_distribution_variance(d)))));
        }
        tp_tensor *many = tp_distribution_sample(d, TP_INTS(3, 4), NULL);
        assert_int_equal(tp_ndim(many), 3);
        assert_int_equal(tp_size(many, 2), 2);
        tp_distribution_free(d);
    }
}
static void test_pairs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) check(&two[i]);
}

/* Also for numbers that are not finite; n 0: PyTorch has none, and an error stands. */
static void assert_numbers(const char *name, const char *what, tp_tensor *t, int n, const float *want) {
    float got[8];
    if (!n) {
        assert_null(t);
        assert_error("no closed form");
        return;
    }
    if (!t) fail_msg("%s: %s: %s", name, what, tp_error());
    assert_int_equal(tp_numel(t), n);
    assert_true(tp_copy_out(t, got, sizeof got));
    for (int i = 0; i < n; i++) {
        bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
        if (!same && !(fabsf(got[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))))
            fail_msg("%s: %s: element %d: got %g, expected %g", name, what, i, (double)got[i], (double)want[i]);
    }
}

typedef struct derived {
    const char *name;
    int n, entropies; /* elements of a sample, and of an entropy */
    float sample[6], log_prob[2], entropy[2], mean[6], variance[6];
} derived;

/* Frees d. */
static void check_derived(tp_distribution *d, const derived *e, tp_tensor *x) {
    if (!d) fail_msg("%s: %s", e->name, tp_error());
    assert_string_equal(tp_distribution_name(d), e->name);
    tp_manual_seed(0);
    assert_numbers(e->name, "sample", tp_distribution_sample(d, tp_no_ints(), NULL), e->n, e->sample);
    tp_tensor *log_prob = tp_distribution_log_prob(d, x);
    assert_numbers(e->name, "log_prob", log_prob, log_prob ? (int)tp_numel(log_prob) : 2, e->log_prob);
    assert_numbers(e->name, "entropy", tp_distribution_entropy(d), e->entropies, e->entropy);
    assert_numbers(e->name, "mean", tp_distribution_mean(d), e->n, e->mean);
    assert_numbers(e->name, "variance", tp_distribution_variance(d), e->n, e->variance);
    tp_tensor *many = tp_distribution_sample(d, TP_INTS(3), NULL);
    assert_int_equal(tp_numel(many), 3 * e->n);
    tp_distribution_free(d);
}

static tp_tensor *matrix(int64_t rows, int64_t columns, const float *v) {
    return tp_from_data(v, TP_FLOAT32, TP_INTS(rows, columns));
}

static const derived of_pytorch[] = {
    {"Pareto",
     2,
     2,
     {5.184829f, 274.427185f},
     {0.084949f, -2.586273f},
     {0.568054f, 7.079442f},
     {1.500000f, INFINITY},
     {INFINITY, INFINITY}},
    {"Weibull",
     2,
     2,
     {1.154436f, 4.583463f},
     {-0.535772f, -1.746828f},
     {0.093793f, 1.347795f},
     {0.451373f, 48.000000f},
     {0.093923f, 158975.984375f}},
    {"Kumaraswamy",
     2,
     2,
     {0.139269f, 0.807283f},
     {-1.148894f, -1.170533f},
     {-0.659357f, -2.131972f},
     {0.228571f, 0.874019f},
     {0.058578f, 0.036091f}},
    {"InverseGamma",
     2,
     2,
     {1900.278076f, 0.395857f},
     {-1.938109f, -1.193147f},
     {4.423096f, -0.654647f},
     {INFINITY, 0.250000f},
     {INFINITY, INFINITY}},
    {"FisherSnedecor", 2, 0, {0.000007f, 0.125726f}, {-1.773339f, -1.810617f}, {0}, {NAN, NAN}, {NAN, NAN}},
    {"VonMises",
     2,
     0,
     {0.268876f, 1.099056f},
     {-0.883296f, -1.835757f},
     {0},
     {0.500000f, 2.000000f},
     {0.403867f, 0.875966f}},
    {"Chi2",
     2,
     2,
     {0.000001f, 0.237967f},
     {-1.620548f, -0.943147f},
     {-0.939421f, 1.693147f},
     {0.500000f, 2.000000f},
     {1.000000f, 4.000000f}},
    {"HalfCauchy",
     2,
     2,
     {5.298865f, 1.529535f},
     {-0.937091f, -1.205354f},
     {1.144730f, 2.531024f},
     {INFINITY, INFINITY},
     {INFINITY, INFINITY}},
    {"Dirichlet",
     6,
     2,
     {0.000549f, 0.438964f, 0.560488f, 0.050941f, 0.085254f, 0.863805f},
     {0.740180f, 2.038620f},
     {-1.481570f, -1.318240f},
     {0.142857f, 0.571429f, 0.285714f, 0.200000f, 0.200000f, 0.600000f},
     {0.027211f, 0.054422f, 0.045351f, 0.026667f, 0.026667f, 0.040000f}},
    {"MultivariateNormal",
     2,
     1,
     {2.679297f, 2.270347f},
     {-3.528399f},
     {3.117685f},
     {0.500000f, 2.000000f},
     {2.000000f, 1.000000f}},
    {"Binomial",
     2,
     0,
     {3.000000f, 3.000000f},
     {-1.175385f, -0.316082f},
     {0},
     {1.500000f, 2.700000f},
     {1.050000f, 0.270000f}},
    {"Binomial",
     2,
     0,
     {1.000000f, 2.000000f},
     {-1.567800f, -0.380784f},
     {0},
     {3.112297f, 2.642391f},
     {1.175019f, 0.314981f}},
    {"NegativeBinomial",
     2,
     0,
     {4.000000f, 17.000000f},
     {-1.483270f, -4.921251f},
     {0},
     {2.142857f, 26.999994f},
     {3.061224f, 269.999908f}},
    {"OneHotCategorical",
     6,
     2,
     {0.000000f, 0.000000f, 1.000000f, 0.000000f, 0.000000f, 1.000000f},
     {-1.203973f, -0.223144f},
     {1.029653f, 0.639032f},
     {0.200000f, 0.300000f, 0.500000f, 0.100000f, 0.100000f, 0.800000f},
     {0.160000f, 0.210000f, 0.250000f, 0.090000f, 0.090000f, 0.160000f}},
};

static void test_derived(void **state) {
    (void)state;
    const derived *e = of_pytorch;
    TP_SCOPE {
        tp_tensor *a = VECTOR(0.5f, 2), *b = VECTOR(1.5f, 0.25f), *x = VECTOR(0.75f, 0.5f);
        tp_tensor *n = VECTOR(5, 3), *chance = VECTOR(0.3f, 0.9f);
        check_derived(tp_distribution_pareto(a, b), e++, VECTOR(0.75f, 3));
        check_derived(tp_distribution_weibull(a, b), e++, x);
        check_derived(tp_distribution_kumaraswamy(a, b), e++, x);
        check_derived(tp_distribution_inverse_gamma(a, b), e++, x);
        check_derived(tp_distribution_fisher_snedecor(a, b), e++, x);
        check_derived(tp_distribution_von_mises(a, b), e++, x);
        check_derived(tp_distribution_chi2(a), e++, x);
        check_derived(tp_distribution_half_cauchy(a), e++, x);
        check_derived(tp_distribution_dirichlet(matrix(2, 3, (float[]){0.5f, 2, 1, 1, 1, 3})), e++,
                      matrix(2, 3, (float[]){0.2f, 0.5f, 0.3f, 0.1f, 0.1f, 0.8f}));
        check_derived(tp_distribution_multivariate_normal(a, matrix(2, 2, (float[]){2, 0.5f, 0.5f, 1})), e++, x);
        check_derived(tp_distribution_binomial(n, chance, NULL), e++, VECTOR(2, 3));
        check_derived(tp_distribution_binomial(n, NULL, a), e++, VECTOR(2, 3));
        check_derived(tp_distribution_negative_binomial(n, chance, NULL), e++, VECTOR(2, 3));
        check_derived(
            tp_distribution_one_hot_categorical(matrix(2, 3, (float[]){0.2f, 0.3f, 0.5f, 0.1f, 0.1f, 0.8f}), NULL), e++,
            matrix(2, 3, (float[]){0, 1, 0, 0, 0, 1}));
        tp_tensor *p = tp_set_requires_grad(matrix(1, 3, (float[]){0.2f, 0.3f, 0.5f}), true);
        tp_distribution *through = tp_distribution_one_hot_categorical_straight_through(p, NULL);
        tp_tensor *row = tp_distribution_rsample(through, tp_no_ints(), NULL);
        assert_true(tp_item(tp_sum(row)) == 1);
        assert_true(tp_backward(tp_sum(tp_mul(row, matrix(1, 3, (float[]){1, 2, 3})))));
        assert_non_null(tp_grad(p));
        tp_distribution_free(through);
        assert_null(tp_distribution_multivariate_normal(a, matrix(1, 2, (float[]){1, 2})));
        assert_error("argument 'covariance_matrix': expected 2 rows and columns, got shape [1, 2]");
        assert_null(tp_distribution_binomial(n, chance, a));
        assert_error("tp_distribution_binomial: Either `probs` or `logits`");
    }
    assert_int_equal(e - of_pytorch, sizeof of_pytorch / sizeof *of_pytorch);
}

static void test_choices(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *logits = tp_reshape(LEAF(0, 1, 2, 3, 1, 1), TP_INTS(2, 3));
        tp_distribution *c = tp_distribution_categorical(NULL, logits);
        tp_tensor *classes = tp_from_data((int64_t[]){2, 0}, TP_INT64, TP_INTS(2));
        tp_tensor *log_prob = tp_distribution_log_prob(c, classes);
        ASSERT_VALUES(log_prob, -0.407606f, -0.239533f);
        ASSERT_VALUES(tp_distribution_entropy(c), 0.832396f, 0.665571f);
        assert_non_null(tp_grad_fn_name(log_prob));
        tp_tensor *drawn = tp_distribution_sample(c, TP_INTS(1000), NULL);
        assert_int_equal(tp_size(drawn, 0), 1000);
        assert_int_equal(tp_dtype_of(drawn), TP_INT64);
        const double share = tp_item(tp_mean(tp_to(tp_eq(tp_select(drawn, 1, 0), 2), .dtype = TP_FLOAT32)));
        assert_true(share > 0.6);
        assert_true(share < 0.73); /* exp(-0.4076) is 0.665 */
        tp_distribution *even = tp_distribution_categorical(tp_ones(TP_INTS(2, 3)), NULL);
        ASSERT_VALUES(tp_distribution_kl(c, even), 0.266216f, 0.433041f);
        tp_distribution *b = tp_distribution_bernoulli(VECTOR(0.3f, 0.9f), NULL);
        ASSERT_VALUES(tp_distribution_log_prob(b, VECTOR(1, 0)), -1.203973f, -2.302585f);
        ASSERT_VALUES(tp_distribution_entropy(b), 0.610864f, 0.325083f);
        tp_distribution *g = tp_distribution_geometric(VECTOR(0.3f, 0.9f), NULL);
        ASSERT_VALUES(tp_distribution_log_prob(g, VECTOR(2, 1)), -1.917323f, -2.407946f);
        ASSERT_VALUES(tp_distribution_mean(g), 2.333333f, 0.111111f);
        tp_distribution *p = tp_distribution_poisson(VECTOR(2, 0.5f));
        ASSERT_VALUES(tp_distribution_log_prob(p, VECTOR(3, 0)), -1.712318f, -0.5f);
        assert_null(tp_distribution_entropy(p));
        assert_error("tp_distribution_entropy: Poisson has no closed form of its entropy");
        tp_distribution_free(c);
        tp_distribution_free(even);
        tp_distribution_free(b);
        tp_distribution_free(g);
        tp_distribution_free(p);
    }
}

static void test_divergences_and_gradients(void **state) {
    (void)state;
    TP_SCOPE {
        pair p = parameters();
        tp_distribution *n = tp_distribution_normal(p.a, p.b), *m = tp_distribution_normal(p.b, p.a);
        ASSERT_VALUES(tp_distribution_kl(n, m), 4.901388f, 1.970066f);
        tp_manual_seed(0);
        tp_tensor *x = tp_distribution_rsample(n, tp_no_ints(), NULL);
        tp_backward(tp_sum(x));
        ASSERT_VALUES(tp_grad(p.a), 1, 1);
        ASSERT_VALUES(tp_grad(p.b), 1.540996f, -0.293429f); /* the noise */
        tp_distribution *g = tp_distribution_gamma(tp_detach(p.a), tp_detach(p.b));
        tp_distribution *e = tp_distribution_exponential(p.a);
        assert_null(tp_distribution_kl(n, g));
        assert_error("no KL(p || q) is implemented for p of Normal and q of Gamma");
        tp_distribution *c = tp_distribution_categorical(NULL, tp_zeros(TP_INTS(3)));
        assert_null(tp_distribution_rsample(c, tp_no_ints(), NULL));
        assert_error("tp_distribution_rsample: a sample of Categorical has no gradient");
        assert_null(tp_distribution_normal(p.a, NULL));
        assert_error("tp_distribution_normal: argument 'scale': expected a tensor, got NULL");
        assert_null(tp_distribution_bernoulli(NULL, NULL));
        assert_error("tp_distribution_bernoulli: Either `probs` or `logits` must be specified, but not both.");
        assert_null(tp_distribution_exponential(tp_arange(3)));
        assert_error("tp_distribution_exponential: argument 'rate': expected floating numbers, got int64");
        tp_distribution_free(n);
        tp_distribution_free(m);
        tp_distribution_free(g);
        tp_distribution_free(e);
        tp_distribution_free(c);
    }
}

static void everything(void) {
    TP_SCOPE {
        tp_tensor *a = VECTOR(0.5f, 2), *b = VECTOR(1.5f, 0.25f);
        tp_distribution *d = a && b ? tp_distribution_gamma(a, b) : NULL;
        tp_distribution *c = d ? tp_distribution_categorical(NULL, a) : NULL;
        if (c) {
            tp_distribution_rsample(d, TP_INTS(2), NULL);
            tp_distribution_kl(d, d);
            tp_distribution_log_prob(c, tp_distribution_sample(c, TP_INTS(2), NULL));
        }
        tp_distribution_free(d);
        tp_distribution_free(c);
    }
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_pairs),
                                     TEST(test_pairs),
                                     cmocka_unit_test(test_choices),
                                     TEST(test_choices),
                                     TEST(test_derived),
                                     TEST(test_divergences_and_gradients),
                                     cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
