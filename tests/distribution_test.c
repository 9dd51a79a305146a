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
        assert_true(share > 0.6 && share < 0.73); /* exp(-0.4076) is 0.665 */
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
        tp_distribution_free(c), tp_distribution_free(even), tp_distribution_free(b), tp_distribution_free(g);
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
        tp_distribution_free(n), tp_distribution_free(m), tp_distribution_free(g), tp_distribution_free(e);
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
        tp_distribution_free(d), tp_distribution_free(c);
    }
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_pairs),         TEST(test_pairs),
                                     cmocka_unit_test(test_choices),       TEST(test_choices),
                                     TEST(test_divergences_and_gradients), cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
