/* Weight norm, spectral norm and pruning give PyTorch's values (printed by PyTorch 2.15 with seed 0), names and orders,
 * train the tensor that was the parameter, survive a clone, and end as a plain parameter. */
#include "tape_fixture.h"
#include <stdio.h>

static tp_module *linear(int64_t in, int64_t out) {
    tp_manual_seed(0);
    return tp_nn_linear(in, out);
}
static tp_tensor *rows(void) { return tp_reshape(VECTOR(0, 1, 2, 3, 4, 5), TP_INTS(2, 3)); }
static void assert_names(tp_module *m, const char *want) {
    char got[128] = "";
    tp_state s = tp_module_state(m);
    for (int64_t i = 0; i < s.n; i++) snprintf(got + strlen(got), sizeof got - strlen(got), "%s ", s.names[i]);
    tp_state_free(s);
    assert_string_equal(got, want);
}

static void test_weight_norm(void **state) {
    (void)state;
    tp_module *m = linear(3, 2);
    tp_tensor *before = tp_module_tensor(m, "weight");
    assert_true(tp_weight_norm(m, "weight", 0));
    assert_names(m, "bias weight_g weight_v ");
    assert_ptr_equal(tp_module_tensor(m, "weight_v"), before);
    TP_SCOPE {
        tp_tensor *y = tp_forward(m, rows());
        ASSERT_VALUES(y, -0.652094f, 0.545047f, -1.16147f, -0.932281f);
        tp_backward(tp_sum(y));
        ASSERT_VALUES(tp_grad(tp_module_tensor(m, "weight_g")), -3.156926f, -2.58521f);
        ASSERT_VALUES(tp_grad(tp_module_tensor(m, "weight_v")), 2.975943f, 6.723745f, 4.355325f, 0.820281f, 3.859242f,
                      7.794234f);
        tp_module *copy = tp_module_clone(m);
        tp_init_constant(tp_module_tensor(copy, "weight_g"), 0);
        tp_init_zeros(tp_module_tensor(copy, "bias"));
        ASSERT_VALUES(tp_forward(copy, rows()), 0, 0, 0, 0);
        tp_module_release(copy);
        assert_false(tp_weight_norm(m, "weight", 0));
        assert_error("argument 'name': 'weight' of Linear is parametrized already");
        assert_true(tp_unparametrize(m, "weight"));
        assert_names(m, "weight bias ");
        ASSERT_VALUES(tp_forward(m, rows()), -0.652094f, 0.545047f, -1.16147f, -0.932281f);
        assert_ptr_equal(tp_module_tensor(m, "weight"), before);
    }
    tp_module_release(m);
}

static void test_spectral_norm(void **state) {
    (void)state;
    tp_module *m = linear(3, 2);
    assert_true(tp_spectral_norm(m, "weight", 1, 1e-12, TP_NONE));
    assert_names(m, "bias weight_orig weight_u weight_v ");
    TP_SCOPE {
        ASSERT_VALUES(tp_forward(m, rows()), -1.704027f, 0.688346f, -3.049781f, -3.214705f);
        tp_tensor *u = tp_clone(tp_module_tensor(m, "weight_u"));
        tp_module_train(m, false);
        tp_forward(m, rows());
        assert_true(tp_equal(u, tp_module_tensor(m, "weight_u"))); /* it stands still in evaluation */
    }
    assert_false(tp_spectral_norm(m, "bias", 0, 1e-12, TP_NONE));
    assert_error("tp_spectral_norm: argument 'iterations': expected 1 or more, got 0");
    tp_module_release(m);
}

static void test_pruning_elements(void **state) {
    (void)state;
    tp_module *m = linear(3, 2), *other = tp_nn_linear(2, 2);
    assert_false(tp_is_pruned(m));
    assert_true(tp_prune_l1(m, "weight", tp_int(2)));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 0, 1, 1, 1, 1, 0);
    assert_true(tp_prune_l1(m, "weight", tp_float(0.5)));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 0, 0, 1, 1, 0, 0);
    ASSERT_VALUES(tp_module_tensor(m, "weight"), 0, 0, -0.475185f, -0.424895f, 0, 0);
    assert_names(m, "bias weight_orig weight_mask ");
    assert_true(tp_is_pruned(m));
    TP_SCOPE {
        tp_backward(tp_sum(tp_forward(m, rows())));
        ASSERT_VALUES(tp_grad(tp_module_tensor(m, "weight_orig")), 0, 0, 7, 3, 0,
                      0); /* what is masked learns nothing */
    }
    assert_true(tp_unparametrize(m, "weight"));
    ASSERT_VALUES(tp_module_tensor(m, "weight"), 0, 0, -0.475185f, -0.424895f, 0, 0);
    tp_module_release(m);
    m = linear(3, 2);
    assert_true(tp_prune_random(m, "weight", tp_int(3)));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 0, 0, 1, 0, 1, 1);
    tp_module_release(m);
    tp_module_release(other);
    m = linear(3, 2);
    other = tp_nn_linear(2, 2);
    assert_true(tp_prune_global_l1(2, (tp_module *[]){m, other}, (const char *[]){"weight", "weight"}, tp_float(0.4)));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 0, 1, 1, 1, 1, 0);
    ASSERT_VALUES(tp_module_tensor(other, "weight_mask"), 0, 1, 1, 0);
    TP_SCOPE
        assert_true(tp_prune_mask(m, "weight", tp_reshape(VECTOR(1, 1, 0, 1, 1, 1), TP_INTS(2, 3))));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 0, 1, 0, 1, 1, 0);
    tp_module_release(m);
    tp_module_release(other);
}

static void test_pruning_channels(void **state) {
    (void)state;
    tp_module *m = linear(3, 4);
    assert_true(tp_prune_ln_structured(m, "weight", tp_int(1), 2, 0));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0);
    assert_true(tp_prune_ln_structured(m, "weight", tp_int(1), 2, 0));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0);
    assert_true(tp_prune_random_structured(m, "weight", tp_int(1), -1));
    ASSERT_VALUES(tp_module_tensor(m, "weight_mask"), 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0);
    assert_false(tp_prune_random_structured(m, "weight", tp_int(1), 2));
    assert_error("tp_prune_random_structured: argument 'dim'");
    assert_false(tp_prune_l1(m, "weight", tp_float(1.5)));
    assert_error("tp_prune_l1: argument 'amount'");
    assert_false(tp_prune_l1(m, "weigth", tp_int(1)));
    assert_error("argument 'name': Linear has no parameter \"weigth\"");
    assert_false(tp_prune_identity(NULL, "weight"));
    assert_error("tp_prune_identity: argument 'm': expected a module, got NULL");
    assert_false(tp_unparametrize(m, "bias"));
    assert_error("tp_unparametrize: argument 'name': 'bias' of Linear is not parametrized");
    tp_module_release(m);
    tp_module *lstm = tp_nn_lstm(2, 2);
    assert_false(tp_weight_norm(lstm, "weight_hh_l0", 0));
    assert_error("LSTM takes all its weights in a row");
    tp_module_release(lstm);
}

static void everything(void) {
    tp_module *m = tp_nn_linear(3, 2), *other = tp_nn_linear(3, 2);
    TP_SCOPE
        if (m && other) {
            tp_weight_norm(m, "weight", 0);
            tp_prune_l1(other, "weight", tp_int(2));
            tp_forward(m, rows());
            tp_forward(other, rows());
            tp_module_release(tp_module_clone(m));
            tp_unparametrize(m, "weight");
            tp_spectral_norm(m, "weight", 1, 1e-12, TP_NONE);
        }
    tp_module_release(m);
    tp_module_release(other);
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_weight_norm), TEST(test_weight_norm),
                                     TEST(test_spectral_norm),           cmocka_unit_test(test_pruning_elements),
                                     TEST(test_pruning_elements),        cmocka_unit_test(test_pruning_channels),
                                     TEST(test_pruning_channels),        cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
