/* Distributions made of others or of matrices, cumulative probabilities and transforms, against PyTorch 2.15: samples
 * with seed 0, and what the classes of torch.distributions give. */
#include "tape_fixture.h"

typedef struct numbers { /* n 0: PyTorch has none, and an error stands */
    int n;
    float v[9];
} numbers;

static void assert_numbers(const char *name, const char *what, tp_tensor *t, numbers want) {
    float got[9];
    if (!want.n) {
        if (t) fail_msg("%s: %s: there should be none", name, what);
        assert_non_null(tp_error());
        tp_error_clear();
        return;
    }
    if (!t) fail_msg("%s: %s: %s", name, what, tp_error());
    if (tp_numel(t) != want.n) fail_msg("%s: %s: %d elements", name, what, (int)tp_numel(t));
    assert_true(tp_copy_out(tp_contiguous(t), got, sizeof got));
    for (int i = 0; i < want.n; i++)
        if (!(fabsf(got[i] - want.v[i]) <= 2e-5f * (1 + fabsf(want.v[i]))))
            fail_msg("%s: %s: element %d: got %g, expected %g", name, what, i, (double)got[i], (double)want.v[i]);
}
static tp_tensor *as_tensor(numbers n) { return tp_from_data(n.v, TP_FLOAT32, TP_INTS(n.n)); }
static tp_tensor *matrix(int64_t rows, int64_t columns, const float *v) {
    return tp_from_data(v, TP_FLOAT32, TP_INTS(rows, columns));
}
static tp_tensor *one(double v) { return tp_full(tp_no_ints(), v); }

static tp_tensor *chances(void) { return matrix(2, 3, (const float[]){0.2f, 0.3f, 0.5f, 0.6f, 0.3f, 0.1f}); }
static tp_distribution *normal(void) { return tp_distribution_normal(LEAF(0.5f, 2), LEAF(1.5f, 0.25f)); }
static tp_transform *affine_sigmoid(void) {
    tp_transform *both[] = {tp_transform_affine(VECTOR(1, 2), VECTOR(-0.5f, 2), 0), tp_transform_sigmoid()};
    return tp_transform_compose(2, both);
}

static tp_distribution *make(const char *name) {
    if (!strcmp(name, "StudentT"))
        return tp_distribution_student_t(VECTOR(2.5f, 4.5f), LEAF(0.5f, 2), LEAF(1.5f, 0.25f));
    if (!strcmp(name, "GeneralizedPareto"))
        return tp_distribution_generalized_pareto(LEAF(0.5f, 2), LEAF(1.5f, 0.25f), VECTOR(0.25f, 0));
    if (!strcmp(name, "ContinuousBernoulli")) return tp_distribution_continuous_bernoulli(LEAF(0.3f, 0.5f), NULL);
    if (!strcmp(name, "Multinomial")) return tp_distribution_multinomial(5, chances(), NULL);
    if (!strcmp(name, "RelaxedBernoulli")) return tp_distribution_relaxed_bernoulli(one(0.7), LEAF(0.3f, 0.5f), NULL);
    if (!strcmp(name, "RelaxedOneHotCategorical"))
        return tp_distribution_relaxed_one_hot_categorical(one(0.7), chances(), NULL);
    if (!strcmp(name, "LogisticNormal")) return tp_distribution_logistic_normal(LEAF(0.5f, 2), LEAF(1.5f, 0.25f));
    if (!strcmp(name, "LowRankMultivariateNormal"))
        return tp_distribution_low_rank_multivariate_normal(
            LEAF(0.5f, 1, 2), matrix(3, 2, (const float[]){1, 0.5f, 0.25f, 2, 0.75f, 0.1f}), VECTOR(0.5f, 0.25f, 1));
    if (!strcmp(name, "Wishart"))
        return tp_distribution_wishart(one(3.5), matrix(2, 2, (const float[]){2, 0.5f, 0.5f, 1}));
    if (!strcmp(name, "LKJCholesky")) return tp_distribution_lkj_cholesky(3, one(1.5));
    if (!strcmp(name, "Independent")) return tp_distribution_independent(normal(), 1);
    if (!strcmp(name, "MixtureSameFamily"))
        return tp_distribution_mixture_same_family(tp_distribution_categorical(VECTOR(0.3f, 0.7f), NULL), normal());
    return tp_distribution_transformed(normal(), affine_sigmoid());
}

static const struct {
    const char *name;
    numbers sample, x, log_prob, entropy, mean, variance, cdf, icdf;
} made[] = {
    {"StudentT",
     {2, {23.252047f, 1.934431f}},
     {2, {0.75f, 0.5f}},
     {2, {-1.4414419f, -5.6301341f}},
     {2, {2.2532253f, 0.2652418f}},
     {2, {0.5f, 2.0f}},
     {2, {11.25f, 0.1125f}},
     {0, {0}},
     {0, {0}}},
    {"GeneralizedPareto",
     {2, {1.6219498f, 2.3654935f}},
     {2, {0.75f, 2.5f}},
     {2, {-0.60957509f, -0.61370564f}},
     {2, {1.6554651f, -0.38629436f}},
     {2, {2.5f, 2.25f}},
     {2, {8.0f, 0.0625f}},
     {2, {0.15065342f, 0.86466473f}},
     {2, {0.94741958f, 2.3465736f}}},
    {"ContinuousBernoulli",
     {2, {0.39358294f, 0.7682218f}},
     {2, {0.75f, 0.5f}},
     {2, {-0.24156052f, 0.0f}},
     {2, {-0.029386282f, 0.0f}},
     {2, {0.43022245f, 0.5f}},
     {2, {0.080425024f, 0.083333336f}},
     {2, {0.82305169f, 0.5f}},
     {2, {0.18193209f, 0.75f}}},
    {"Multinomial",
     {6, {0.0f, 1.0f, 4.0f, 4.0f, 1.0f, 0.0f}},
     {6, {1.0f, 2.0f, 2.0f, 3.0f, 2.0f, 0.0f}},
     {2, {-2.0024805f, -1.6378372f}},
     {2, {2.5918088f, 2.2964745f}},
     {6, {1.0f, 1.5f, 2.5f, 3.0f, 1.5f, 0.5f}},
     {6, {0.80000001f, 1.05f, 1.25f, 1.1999999f, 1.05f, 0.44999999f}},
     {0, {0}},
     {0, {0}}},
    {"RelaxedBernoulli",
     {2, {0.22586361f, 0.84707659f}},
     {2, {0.75f, 0.5f}},
     {2, {-0.66137862f, -0.35667491f}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}}},
    {"RelaxedOneHotCategorical",
     {6, {0.11315154f, 0.81575108f, 0.071097478f, 0.40730524f, 0.32741615f, 0.26527852f}},
     {6, {0.2f, 0.30000001f, 0.5f, 0.1f, 0.60000002f, 0.30000001f}},
     {2, {0.17147541f, -1.1072712f}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}}},
    {"LogisticNormal",
     {3, {0.89267367f, 0.093682721f, 0.013643607f}},
     {3, {0.2f, 0.30000001f, 0.5f}},
     {1, {-48.100807f}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}}},
    {"LowRankMultivariateNormal",
     {3, {0.35364497f, 1.0826068f, 2.041882f}},
     {3, {0.2f, 0.30000001f, 0.5f}},
     {1, {-4.6074142f}},
     {1, {5.2412558f}},
     {3, {0.5f, 1.0f, 2.0f}},
     {3, {1.75f, 4.3125f, 1.5725f}},
     {0, {0}},
     {0, {0}}},
    {"Wishart",
     {4, {1.2755958f, 1.4410596f, 1.4410596f, 2.2453194f}},
     {4, {2.0f, 0.30000001f, 0.30000001f, 1.0f}},
     {1, {-4.690402f}},
     {1, {6.8035526f}},
     {4, {7.0f, 1.75f, 1.75f, 3.5f}},
     {4, {28.0f, 7.875f, 7.875f, 7.0f}},
     {0, {0}},
     {0, {0}}},
    {"LKJCholesky",
     {9, {1.0f, 0.0f, 0.0f, 0.15347385f, 0.98815268f, 0.0f, 0.13843808f, 0.5443815f, 0.8273353f}},
     {9, {1.0f, 0.0f, 0.0f, 0.30000001f, 0.9539392f, 0.0f, 0.1f, 0.17820843f, 0.97889823f}},
     {1, {-1.142585f}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {0, {0}}},
    {"Independent",
     {2, {2.8114941f, 1.9266428f}},
     {2, {0.75f, 0.5f}},
     {1, {-18.870935f}},
     {1, {1.8570478f}},
     {2, {0.5f, 2.0f}},
     {2, {2.25f, 0.0625f}},
     {0, {0}},
     {0, {0}}},
    {"MixtureSameFamily",
     {1, {2.1421077f}},
     {1, {0.75f}},
     {1, {-2.5422125f}},
     {0, {0}},
     {1, {1.55f}},
     {1, {1.19125f}},
     {1, {0.16985536f}},
     {0, {0}}},
    {"TransformedDistribution",
     {2, {0.39993232f, 0.99713778f}},
     {2, {0.75f, 0.5f}},
     {2, {0.93469286f, -70.8395f}},
     {0, {0}},
     {0, {0}},
     {0, {0}},
     {2, {0.67896855f, 0.0f}},
     {2, {0.56073183f, 0.99823391f}}},
};

static void test_made(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        TP_SCOPE {
            const char *name = made[i].name;
            tp_distribution *d = make(name);
            if (!d) fail_msg("%s: %s", name, tp_error());
            assert_string_equal(tp_distribution_name(d), name);
            tp_manual_seed(0);
            tp_tensor *drawn = tp_distribution_sample(d, tp_no_ints(), NULL);
            assert_numbers(name, "sample", drawn, made[i].sample);
            const tp_ints batch = tp_distribution_batch_shape(d), event = tp_distribution_event_shape(d);
            assert_int_equal(tp_ndim(drawn), batch.n + event.n);
            tp_tensor *several = tp_distribution_sample(d, TP_INTS(4, 2), NULL);
            assert_int_equal(tp_ndim(several), 2 + batch.n + event.n);
            assert_int_equal(tp_ndim(tp_distribution_log_prob(d, several)), 2 + batch.n);
            tp_tensor *x = made[i].x.n == 1 ? one(made[i].x.v[0]) : tp_view_as(as_tensor(made[i].x), drawn);
            assert_numbers(name, "log_prob", tp_distribution_log_prob(d, x), made[i].log_prob);
            assert_numbers(name, "entropy", tp_distribution_entropy(d), made[i].entropy);
            assert_numbers(name, "mean", tp_distribution_mean(d), made[i].mean);
            assert_numbers(name, "variance", tp_distribution_variance(d), made[i].variance);
            assert_numbers(name, "cdf", tp_distribution_cdf(d, x), made[i].cdf);
            tp_tensor *half = batch.n ? VECTOR(0.25f, 0.75f) : VECTOR(0.25f);
            assert_numbers(name, "icdf", tp_distribution_icdf(d, half), made[i].icdf);
            tp_distribution_free(d);
        }
}

static tp_distribution *plain(const char *name) {
    tp_tensor *a = VECTOR(0.5f, 2), *b = VECTOR(1.5f, 0.25f);
    if (!strcmp(name, "normal")) return tp_distribution_normal(a, b);
    if (!strcmp(name, "log_normal")) return tp_distribution_log_normal(a, b);
    if (!strcmp(name, "uniform")) return tp_distribution_uniform(a, tp_add(tp_add(a, b), 5));
    if (!strcmp(name, "laplace")) return tp_distribution_laplace(a, b);
    if (!strcmp(name, "cauchy")) return tp_distribution_cauchy(a, b);
    if (!strcmp(name, "gumbel")) return tp_distribution_gumbel(a, b);
    if (!strcmp(name, "gamma")) return tp_distribution_gamma(a, b);
    if (!strcmp(name, "pareto")) return tp_distribution_pareto(a, b);
    if (!strcmp(name, "weibull")) return tp_distribution_weibull(a, b);
    if (!strcmp(name, "half_normal")) return tp_distribution_half_normal(a);
    if (!strcmp(name, "half_cauchy")) return tp_distribution_half_cauchy(a);
    if (!strcmp(name, "exponential")) return tp_distribution_exponential(a);
    if (!strcmp(name, "chi2")) return tp_distribution_chi2(a);
    return tp_distribution_kumaraswamy(a, b);
}
static const struct {
    const char *name;
    numbers cdf, icdf;
} cumulative[] = {
    {"normal", {2, {0.87832749f, 0.99996829f}}, {2, {-0.5117346f, 2.1686225f}}},
    {"log_normal", {2, {0.58210707f, 0.00015574694f}}, {2, {0.59945488f, 8.7462273f}}},
    {"uniform", {2, {0.26923078f, 0.19047619f}}, {2, {2.125f, 5.9375f}}},
    {"laplace", {2, {0.84429836f, 0.99084222f}}, {2, {-0.53972077f, 2.1732869f}}},
    {"cauchy", {2, {0.77443725f, 0.92202091f}}, {2, {-1.0f, 2.25f}}},
    {"gumbel", {2, {0.73241854f, 0.98185122f}}, {2, {0.010048479f, 2.3114748f}}},
    {"gamma", {2, {0.9906252f, 0.17335851f}}, {0, {0}}},
    {"pareto", {2, {0.89524347f, 0.096397996f}}, {2, {0.60570687f, 512.0f}}},
    {"weibull", {2, {0.99992853f, 0.66934574f}}, {2, {0.21789397f, 7.386723f}}},
    {"half_normal", {2, {0.99999321f, 0.8663857f}}, {2, {0.15931968f, 2.3006988f}}},
    {"half_cauchy", {2, {0.86079097f, 0.6256659f}}, {2, {0.2071068f, 4.8284268f}}},
    {"exponential", {2, {0.67534757f, 0.99752122f}}, {2, {0.57536417f, 0.69314718f}}},
    {"chi2", {2, {0.94349068f, 0.77686983f}}, {0, {0}}},
    {"kumaraswamy", {2, {0.875f, 0.18671173f}}, {2, {0.030456591f, 0.99804497f}}},
};
static void test_cumulative(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cumulative / sizeof *cumulative; i++)
        TP_SCOPE {
            const char *name = cumulative[i].name;
            tp_distribution *d = plain(name);
            assert_non_null(d);
            tp_tensor *x = VECTOR(2.25f, 3);
            if (!strcmp(name, "kumaraswamy")) x = tp_div(x, 4);
            assert_numbers(name, "cdf", tp_distribution_cdf(d, x), cumulative[i].cdf);
            assert_numbers(name, "icdf", tp_distribution_icdf(d, VECTOR(0.25f, 0.75f)), cumulative[i].icdf);
            tp_distribution_free(d);
        }
}

static tp_transform *transform(const char *name) {
    static const struct {
        const char *name;
        tp_transform *(*make)(void);
    } simple[] = {{"abs", tp_transform_abs},
                  {"exp", tp_transform_exp},
                  {"sigmoid", tp_transform_sigmoid},
                  {"softplus", tp_transform_softplus},
                  {"tanh", tp_transform_tanh},
                  {"softmax", tp_transform_softmax},
                  {"stick_breaking", tp_transform_stick_breaking},
                  {"corr_cholesky", tp_transform_corr_cholesky},
                  {"lower_cholesky", tp_transform_lower_cholesky},
                  {"positive_definite", tp_transform_positive_definite}};
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (!strcmp(name, simple[i].name)) return simple[i].make();
    if (!strcmp(name, "power")) return tp_transform_power(one(-1.5));
    if (!strcmp(name, "affine")) return tp_transform_affine(VECTOR(1, 2), VECTOR(-0.5f, 2), 1);
    if (!strcmp(name, "reshape")) return tp_transform_reshape(TP_INTS(2, 2), TP_INTS(4));
    if (!strcmp(name, "independent")) return tp_transform_independent(tp_transform_exp(), 1);
    if (!strcmp(name, "cumulative")) return tp_transform_cumulative_distribution(normal());
    if (!strcmp(name, "inverse")) return tp_transform_inverse_of(tp_transform_exp());
    if (!strcmp(name, "compose")) {
        tp_transform *parts[] = {tp_transform_stick_breaking(), tp_transform_affine(one(1), one(3), 0),
                                 tp_transform_exp()};
        return tp_transform_compose(3, parts);
    }
    tp_transform *two[] = {tp_transform_exp(), tp_transform_tanh()};
    return strcmp(name, "cat") ? tp_transform_stack(2, two, 0) : tp_transform_cat(2, two, 0, TP_INTS(1, 2));
}
static const struct {
    const char *name;
    numbers x, y, det, back;
} transforms[] = {
    {"abs", {2, {-0.25f, -0.75f}}, {2, {0.25f, 0.75f}}, {0, {0}}, {2, {0.25f, 0.75f}}},
    {"exp", {2, {0.25f, 0.75f}}, {2, {1.2840254f, 2.1170001f}}, {2, {0.25f, 0.75f}}, {2, {0.25f, 0.75000006f}}},
    {"sigmoid",
     {2, {0.25f, 0.75f}},
     {2, {0.56217653f, 0.67917871f}},
     {2, {-1.4018788f, -1.5237421f}},
     {2, {0.25000012f, 0.75000012f}}},
    {"softplus",
     {2, {0.25f, 0.75f}},
     {2, {0.82593942f, 1.1368711f}},
     {2, {-0.57593942f, -0.38687101f}},
     {2, {0.25000006f, 0.75000012f}}},
    {"tanh",
     {2, {0.25f, 0.75f}},
     {2, {0.24491866f, 0.63514894f}},
     {2, {-0.061859608f, -0.51653218f}},
     {2, {0.25f, 0.75f}}},
    {"power", {2, {0.25f, 0.75f}}, {2, {8.0f, 1.5396007f}}, {2, {3.871201f, 1.1246703f}}, {2, {0.24999999f, 0.75f}}},
    {"affine", {2, {0.25f, 0.75f}}, {2, {0.875f, 3.5f}}, {1, {0.0f}}, {2, {0.25f, 0.75f}}},
    {"softmax",
     {3, {0.5f, -0.25f, 0.75f}},
     {3, {0.36279309f, 0.17137133f, 0.46583554f}},
     {0, {0}},
     {3, {-1.0139226f, -1.7639226f, -0.76392263f}}},
    {"stick_breaking",
     {3, {0.5f, -0.25f, 0.75f}},
     {4, {0.35466126f, 0.18086591f, 0.31546006f, 0.14901277f}},
     {1, {-5.804038f}},
     {3, {0.50000006f, -0.24999994f, 0.74999976f}}},
    {"corr_cholesky",
     {3, {0.5f, -0.25f, 0.75f}},
     {9, {1.0f, 0.0f, 0.0f, 0.46211717f, 0.88681883f, 0.0f, -0.24491866f, 0.61580461f, 0.74886549f}},
     {1, {-0.8495506f}},
     {3, {0.5f, -0.25f, 0.75f}}},
    {"lower_cholesky",
     {4, {0.5f, 2.0f, 0.30000001f, -0.40000001f}},
     {4, {1.6487212f, 0.0f, 0.30000001f, 0.67032003f}},
     {0, {0}},
     {4, {0.49999997f, 0.0f, 0.30000001f, -0.40000004f}}},
    {"positive_definite",
     {4, {0.5f, 2.0f, 0.30000001f, -0.40000001f}},
     {4, {2.7182817f, 0.49461639f, 0.49461639f, 0.53932893f}},
     {0, {0}},
     {4, {0.49999997f, 0.0f, 0.29999998f, -0.40000004f}}},
    {"reshape",
     {4, {0.5f, 2.0f, 0.30000001f, -0.40000001f}},
     {4, {0.5f, 2.0f, 0.30000001f, -0.40000001f}},
     {1, {0.0f}},
     {4, {0.5f, 2.0f, 0.30000001f, -0.40000001f}}},
    {"compose",
     {3, {0.5f, -0.25f, 0.75f}},
     {4, {7.8772898f, 4.6767235f, 7.0032907f, 4.2505069f}},
     {1, {5.5904112f}},
     {3, {0.50000036f, -0.24999982f, 0.7500006f}}},
    {"independent", {2, {0.25f, 0.75f}}, {2, {1.2840254f, 2.1170001f}}, {1, {1.0f}}, {2, {0.25f, 0.75000006f}}},
    {"cat",
     {3, {0.5f, -0.25f, 0.75f}},
     {3, {1.6487212f, -0.24491866f, 0.63514894f}},
     {3, {0.5f, -0.061859608f, -0.51653218f}},
     {3, {0.49999997f, -0.25f, 0.75f}}},
    {"stack",
     {4, {0.5f, 2.0f, 0.30000001f, -0.40000001f}},
     {4, {1.6487212f, 7.3890562f, 0.29131263f, -0.37994897f}},
     {4, {0.5f, 2.0f, -0.088681519f, -0.15590692f}},
     {4, {0.49999997f, 2.0f, 0.30000001f, -0.40000001f}}},
    {"cumulative",
     {2, {0.25f, 0.75f}},
     {2, {0.43381616f, 2.9802322e-07f}},
     {2, {-1.3382926f, -12.032644f}},
     {2, {0.25f, 0.75187659f}}},
    {"inverse",
     {2, {0.25f, 0.75f}},
     {2, {-1.3862944f, -0.28768206f}},
     {2, {1.3862944f, 0.28768206f}},
     {2, {0.25f, 0.75f}}},
};
static void test_transforms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        TP_SCOPE {
            const char *name = transforms[i].name;
            tp_transform *t = transform(name);
            if (!t) fail_msg("%s: %s", name, tp_error());
            tp_tensor *x = transforms[i].x.n == 4 ? matrix(2, 2, transforms[i].x.v) : as_tensor(transforms[i].x);
            tp_tensor *y = tp_transform_forward(t, x);
            assert_numbers(name, "forward", y, transforms[i].y);
            assert_numbers(name, "log_abs_det", tp_transform_log_abs_det(t, x, y), transforms[i].det);
            if (strcmp(name, "cumulative")) /* y of the second is so small that PyTorch's own way back is off */
                assert_numbers(name, "inverse", tp_transform_inverse(t, y), transforms[i].back);
            tp_transform_free(t);
        }
}

static tp_tensor *twice(tp_tensor *x, void *context) { return tp_mul(x, *(double *)context); }
static tp_tensor *half(tp_tensor *y, void *context) { return tp_div(y, *(double *)context); }
static tp_tensor *log_twice(tp_tensor *x, tp_tensor *y, void *context) {
    (void)y;
    return tp_full_like(x, log(*(double *)context));
}
static void test_own_transform(void **state) {
    (void)state;
    TP_SCOPE {
        double by = 2;
        tp_distribution *d = tp_distribution_transformed(normal(), tp_transform_new(twice, half, log_twice, &by));
        tp_distribution *same = tp_distribution_normal(VECTOR(1, 4), VECTOR(3, 0.5f));
        tp_tensor *x = VECTOR(0.75f, 0.5f);
        tp_tensor *gap = tp_sub(tp_distribution_log_prob(d, x), tp_distribution_log_prob(same, x));
        assert_true(tp_item(tp_max(tp_abs(gap))) < 1e-5);
        tp_tensor *drawn = tp_distribution_rsample(d, TP_INTS(3), NULL);
        assert_true(tp_requires_grad(drawn));
        assert_true(tp_size(drawn, 0) == 3);
        tp_distribution_free(d);
        tp_distribution_free(same);
    }
}

static void test_refused(void **state) {
    (void)state;
    TP_SCOPE {
        assert_null(tp_distribution_independent(normal(), 2));
        assert_error("expected 0 to 1, got 2");
        assert_null(tp_distribution_mixture_same_family(normal(), normal()));
        assert_error("expected a Categorical, got a Normal");
        assert_null(tp_distribution_mixture_same_family(tp_distribution_categorical(chances(), NULL), normal()));
        assert_error("3 choices");
        assert_null(tp_distribution_wishart(one(1), matrix(2, 2, (const float[]){2, 0.5f, 0.5f, 1})));
        assert_error("expected more than 1");
        assert_null(tp_distribution_lkj_cholesky(1, one(1)));
        assert_error("expected 2 or more");
        assert_null(tp_transform_reshape(TP_INTS(2, 2), TP_INTS(3)));
        assert_error("different numbers of elements");
        tp_transform *broken[] = {tp_transform_exp(), NULL};
        assert_null(tp_transform_compose(2, broken));
        assert_error("parts");
        assert_null(tp_distribution_transformed(normal(), tp_transform_lower_cholesky()));
        assert_error("needs 2 dims or more");
        tp_transform *corr = tp_transform_corr_cholesky();
        assert_null(tp_transform_forward(corr, VECTOR(1, 2)));
        assert_error("no lower triangles");
        tp_transform_free(corr);
    }
}

/* What is made of others is freed with them, also where making it fails. */
static void everything(void) {
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        TP_SCOPE {
            tp_distribution *d = make(made[i].name);
            if (d) tp_distribution_log_prob(d, tp_distribution_sample(d, tp_no_ints(), NULL));
            tp_distribution_free(d);
        }
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        TP_SCOPE {
            tp_transform *t = transform(transforms[i].name);
            tp_tensor *x = transforms[i].x.n == 4 ? matrix(2, 2, transforms[i].x.v) : as_tensor(transforms[i].x);
            if (t && x) tp_transform_inverse(t, tp_transform_forward(t, x));
            tp_transform_free(t);
        }
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_made),       TEST(test_cumulative),
                                       TEST(test_transforms), TEST(test_own_transform),
                                       TEST(test_refused),    cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
