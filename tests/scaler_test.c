/* The gradient scaler: gradients are those without it, steps with infinities are left out, and the scale moves as
 * PyTorch's does. */
#include "tape_fixture.h"

static void backward_by(tp_scaler *s, tp_tensor *w, double factor) {
    TP_SCOPE {
        tp_zero_grad(w);
        tp_backward(tp_scaler_scale(s, tp_sum(tp_mul(w, factor))));
    }
}

static void test_scale_moves(void **state) {
    (void)state;
    tp_tensor *w = LEAF(1, 1);
    tp_optimiser *sgd = tp_sgd(TP_LIST(w), .lr = 0.5);
    tp_scaler *s = tp_scaler_new(.init_scale = 8, .growth_interval = 2);
    backward_by(s, w, 2);
    ASSERT_VALUES(tp_grad(w), 16, 16);
    assert_true(tp_scaler_unscale(s, sgd));
    ASSERT_VALUES(tp_grad(w), 2, 2);
    assert_false(tp_scaler_unscale(s, sgd));
    assert_error("tp_scaler_unscale: it has already been called");
    assert_true(tp_scaler_step(s, sgd));
    assert_true(tp_scaler_update(s));
    ASSERT_VALUES(w, 0, 0);
    backward_by(s, w, 2);
    assert_true(tp_scaler_step(s, sgd));
    assert_false(tp_scaler_step(s, sgd));
    assert_error("tp_scaler_step: it has already been called");
    assert_true(tp_scaler_update(s));
    ASSERT_VALUES(w, -1, -1);
    assert_float_equal(tp_scaler_get_scale(s), 16, 0); /* two good steps */
    backward_by(s, w, INFINITY);
    assert_true(tp_scaler_step(s, sgd));
    assert_true(tp_scaler_update(s));
    ASSERT_VALUES(w, -1, -1); /* left out */
    assert_true(tp_scaler_found_inf(s));
    assert_float_equal(tp_scaler_get_scale(s), 8, 0);
    assert_false(tp_scaler_update(s));
    assert_error("tp_scaler_update: No inf checks were recorded prior to update.");
    tp_scaler_free(s);
    tp_optimiser_free(sgd);
    tp_release(w);
}

static void test_off_and_states(void **state) {
    (void)state;
    tp_tensor *w = LEAF(1, 1);
    tp_optimiser *sgd = tp_sgd(TP_LIST(w), .lr = 0.5);
    tp_scaler *off = tp_scaler_new(.enabled = false), *other = tp_scaler_new();
    backward_by(off, w, 2);
    ASSERT_VALUES(tp_grad(w), 2, 2);
    assert_true(tp_scaler_unscale(off, sgd));
    assert_true(tp_scaler_step(off, sgd));
    assert_true(tp_scaler_update(off));
    ASSERT_VALUES(w, 0, 0);
    assert_float_equal(tp_scaler_get_scale(off), 1, 0);
    tp_scaler_state one = {.size = sizeof one};
    assert_true(tp_scaler_get_state(other, &one));
    assert_float_equal(one.scale, 65536, 0);
    one.scale = 4;
    one.growth_tracker = 7;
    assert_true(tp_scaler_set_state(other, &one));
    assert_float_equal(tp_scaler_get_scale(other), 4, 0);
    one.growth_factor = 0.5;
    assert_false(tp_scaler_set_state(other, &one));
    assert_error("tp_scaler_set_state: argument 'state'");
    assert_null(tp_scaler_new(.growth_factor = 1));
    assert_error("tp_scaler_new: option 'growth_factor': The growth factor must be > 1.0.");
    assert_null(tp_scaler_scale(NULL, w));
    assert_error("tp_scaler_scale: argument 'scaler': expected a scaler, got NULL");
    tp_scaler_free(off);
    tp_scaler_free(other);
    tp_optimiser_free(sgd);
    tp_release(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_scale_moves), TEST(test_scale_moves),
                                     TEST(test_off_and_states)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
