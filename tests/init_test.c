/* Initialisers draw PyTorch's numbers: the values were printed by PyTorch 2.15 with seed 0. */
#include "tape_fixture.h"

#define FILLED(shape, call, ...)                 \
    TP_SCOPE {                                   \
        tp_tensor *t = tp_empty(TP_INTS shape);  \
        tp_manual_seed(0);                       \
        if (!(call)) fail_msg("%s", tp_error()); \
        ASSERT_VALUES(t, __VA_ARGS__);           \
    }

static void test_pytorch_numbers(void **state) {
    (void)state;
    FILLED((2, 3), tp_init_orthogonal(t, 1), 0.573981f, -0.109295f, -0.811542f, -0.345415f, -0.930883f, -0.118936f)
    FILLED((3, 2), tp_init_orthogonal(t, 2), 1.069905f, -0.33986f, -1.512722f, 0.680368f, -0.752978f, -1.849755f)
    FILLED((8), tp_init_trunc_normal(t, 0, 1, -0.5, 0.7), 0.191869f, -0.293429f, -0.007537f, 0.568431f, 0.370394f,
           -0.266596f, 0.403347f, 0.122701f)
    FILLED((8), tp_init_trunc_normal(t, 0, 1, 2, 3), 2.17591f, 2.269834f, 2.088477f, 2.13203f, 2.307423f, 2.634079f,
           2.490093f, 2.316765f)
    FILLED((4, 3), tp_init_sparse(t, 0.5, 0.1), 0, 0, 0, 0.056843f, 0, 0, 0.040335f, 0.083803f, -0.071926f, 0,
           -0.059664f, 0.018204f)
    FILLED((2, 3), tp_init_kaiming_uniform_for(t, 0, "fan_out", "relu"), -0.012968f, 0.929148f, -1.425556f, -1.274684f,
           -0.667107f, 0.464462f)
    FILLED((2, 3), tp_init_kaiming_normal_for(t, 0.1, NULL, NULL), 1.251974f, -0.238395f, -1.770145f, 0.461819f,
           -0.881114f, -1.136281f)
    FILLED((2, 3), tp_init_eye(t), 1, 0, 0, 0, 1, 0)
    FILLED((4, 2, 3), tp_init_dirac(t, 2), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0)
}

static void test_gains(void **state) {
    (void)state;
    assert_float_equal(tp_init_gain("tanh", NAN), 5.0 / 3, 0);
    assert_float_equal(tp_init_gain("leaky_relu", NAN), sqrt(2 / 1.0001), 1e-12);
    assert_float_equal(tp_init_gain("leaky_relu", 1), 1, 0);
    assert_true(isnan(tp_init_gain("swish", 0)));
    assert_error("tp_init_gain: argument 'nonlinearity': Unsupported nonlinearity swish");
}

static void test_mistakes(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *row = tp_zeros(TP_INTS(4)), *kernel = tp_zeros(TP_INTS(3, 2, 3));
        assert_false(tp_init_orthogonal(row, 1));
        assert_error("Only tensors with 2 or more dimensions are supported");
        assert_false(tp_init_eye(kernel));
        assert_error("Only tensors with 2 dimensions are supported");
        assert_false(tp_init_dirac(kernel, 2));
        assert_error("tp_init_dirac: argument 'groups': dim 0 must be divisible by groups");
        assert_false(tp_init_trunc_normal(row, 0, 0, -1, 1));
        assert_error("tp_init_trunc_normal: expected std > 0 and low < high");
        assert_false(tp_init_sparse(tp_zeros(TP_INTS(2, 2)), 2, 1));
        assert_error("tp_init_sparse: argument 'sparsity': expected 0 to 1, got 2");
        assert_false(tp_init_kaiming_normal_for(kernel, 0, "fan_on", NULL));
        assert_error("argument 'mode': Mode fan_on not supported");
        assert_false(tp_init_eye(NULL));
        assert_error("'t'");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_pytorch_numbers), TEST(test_pytorch_numbers),
                                     TEST(test_gains), TEST(test_mistakes)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
