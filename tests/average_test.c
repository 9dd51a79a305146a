/* Averages of weights: EMA and SWA by their definitions, names as PyTorch's, and batch norms' statistics anew. */
#include "tape_fixture.h"

static void set_all(tp_module *net, double value) {
    tp_state s = tp_module_parameters(net);
    for (int64_t i = 0; i < s.n; i++) tp_init_constant(s.tensors[i], value);
    tp_state_free(s);
}

static void test_averages(void **state) {
    (void)state;
    for (int ema = 0; ema < 2; ema++) {
        tp_module *net = tp_nn_sequential(tp_nn_linear(1, 1), tp_nn_batch_norm1d(1));
        tp_module *average = tp_average_new(net, ema ? 0.9 : NAN, false);
        for (int i = 1; i <= 3; i++) {
            set_all(net, i);
            tp_init_constant(tp_module_tensor(net, "1.running_mean"), 10 * i);
            assert_true(tp_average_update(average, net));
        }
        const double want = ema ? (1 * 0.9 + 2 * 0.1) * 0.9 + 3 * 0.1 : 2;
        assert_float_equal(tp_item(tp_module_tensor(average, "module.0.weight")), want, 1e-6);
        assert_float_equal(tp_item(tp_module_tensor(average, "module.1.running_mean")), 30, 0); /* copied */
        assert_int_equal(tp_item_int(tp_module_tensor(average, "n_averaged")), 3);
        TP_SCOPE {
            tp_module_train(average, false);
            assert_non_null(tp_forward(average, tp_ones(TP_INTS(2, 1))));
        }
        tp_module *copy = tp_module_clone(average);
        assert_true(tp_average_update(copy, net));
        assert_int_equal(tp_item_int(tp_module_tensor(copy, "n_averaged")), 4);
        tp_module_release(copy);
        tp_module_release(net);
        tp_module_release(average);
    }
}

static void test_buffers_are_averaged_if_asked(void **state) {
    (void)state;
    tp_module *net = tp_nn_batch_norm1d(1), *average = tp_average_new(net, NAN, true);
    for (int i = 1; i <= 2; i++) {
        tp_init_constant(tp_module_tensor(net, "running_mean"), i);
        assert_true(tp_average_update(average, net));
    }
    assert_float_equal(tp_item(tp_module_tensor(average, "module.running_mean")), 1.5, 1e-6);
    tp_module_release(net);
    tp_module_release(average);
}

static void test_batch_norms_anew(void **state) {
    (void)state;
    tp_module *net = tp_nn_sequential(tp_nn_batch_norm1d(1), tp_nn_relu());
    TP_SCOPE {
        tp_tensor *x = tp_reshape(VECTOR(1, 3, 5, 11), TP_INTS(4, 1));
        tp_dataset *data = tp_dataset_of_tensors(TP_LIST(x));
        tp_loader *loader = tp_loader_new(data, .batch = 2);
        tp_init_constant(tp_module_tensor(net, "0.running_mean"), 77);
        tp_module_train(net, false);
        assert_true(tp_update_bn(net, loader));
        assert_false(tp_module_is_training(net));
        assert_float_equal(tp_item(tp_module_tensor(net, "0.running_mean")), (2 + 8) / 2.0, 1e-6);
        assert_float_equal(tp_item(tp_module_tensor(net, "0.running_var")), (2 + 18) / 2.0, 1e-5);
        assert_float_equal(tp_scalar_to_double(tp_module_attribute(tp_module_child(net, "0"), "momentum").as.scalar),
                           0.1, 1e-12);
        tp_loader_free(loader);
        tp_dataset_release(data);
    }
    tp_module_release(net);
}

static void test_mistakes(void **state) {
    (void)state;
    tp_module *net = tp_nn_linear(1, 1), *other = tp_nn_linear(2, 1), *average = tp_average_new(net, NAN, false);
    assert_null(tp_average_new(net, 1.5, false));
    assert_error("tp_average_new: argument 'decay': Invalid decay value 1.5");
    assert_false(tp_average_update(net, net));
    assert_error("tp_average_update: argument 'average': expected a module of tp_average_new, got Linear");
    assert_false(tp_average_update(average, other));
    assert_error("tp_average_update: argument 'net': 'weight' has the shape [1, 2], expected [1, 1]");
    assert_false(tp_update_bn(net, NULL));
    assert_error("tp_update_bn: argument 'loader'");
    tp_module_release(net);
    tp_module_release(other);
    tp_module_release(average);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_averages),         TEST(test_averages),         TEST(test_buffers_are_averaged_if_asked),
        cmocka_unit_test(test_batch_norms_anew), TEST(test_batch_norms_anew), TEST(test_mistakes)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
