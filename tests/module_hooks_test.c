/* Hooks of modules see and change what goes in, what comes out and the gradients in between; modules move between
 * devices with their gradients, and an optimiser goes on with them; no allocation that fails leaks. */
#include "guarded_device.h"
#include "tape_fixture.h"

static bool doubles_input(tp_module *m, int64_t nargs, tp_value *args, void *context) {
    (void)m;
    ++*(int *)context;
    assert_int_equal(nargs, 1);
    args[0] = tp_value_tensor(tp_mul(args[0].as.tensor, 2));
    return true;
}
static bool doubles_first(tp_module *m, int64_t nargs, tp_value *args, void *context) {
    (void)m;
    (void)nargs;
    (void)context;
    args[0] = tp_value_tensor(tp_mul(args[0].as.tensor, 2));
    return true;
}
static bool adds_one(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results,
                     void *context) {
    (void)m;
    (void)args;
    ++*(int *)context;
    assert_int_equal(nargs + nresults, 2);
    results[0] = tp_value_tensor(tp_add(results[0].as.tensor, 1));
    return true;
}
static void counts(void *context) { *(int *)context += 100; }

static void test_values_pass_through_hooks(void **state) {
    (void)state;
    tp_module *tanh = tp_nn_relu(), *net = tp_nn_sequential(tanh, tp_nn_relu());
    int before = 0, after = 0;
    TP_SCOPE {
        const int64_t first = tp_module_add_prehook(tanh, doubles_input, &before, counts);
        const int64_t second = tp_module_add_forward_hook(tanh, adds_one, &after, counts);
        assert_true(first > 0);
        assert_true(second > 0);
        assert_true(first != second);
        ASSERT_VALUES(tp_forward(net, VECTOR(1, -2, 3)), 3, 1, 7);
        assert_true(tp_module_remove_hook(tanh, first));
        ASSERT_VALUES(tp_forward(net, VECTOR(1, -2, 3)), 2, 1, 4);
        assert_false(tp_module_remove_hook(tanh, first));
        assert_error("tp_module_remove_hook: argument 'handle': ReLU has no hook");
        assert_int_equal(before, 101); /* called once and released */
        tp_module *copy = tp_module_clone(net);
        ASSERT_VALUES(tp_forward(copy, VECTOR(1, -2, 3)), 1, 0, 3);
        tp_module_release(copy);
    }
    tp_module_release(net);
    assert_int_equal(after, 102);
}

/* An input that was given by name is still that input when a hook has exchanged it. */
static void test_named_inputs(void **state) {
    (void)state;
    tp_module *loss = tp_nn_l1_loss();
    int calls = 0;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2), *y = VECTOR(4, 6);
        tp_module_add_prehook(loss, doubles_first, &calls, NULL);
        const tp_value args[] = {tp_named("target", tp_value_tensor(y)), tp_named("input", tp_value_tensor(x))};
        tp_value result;
        assert_true(tp_forward_values(loss, 2, args, 1, &result));
        assert_float_equal(tp_item(result.as.tensor), 8.5, 1e-6); /* |8 - 1| and |12 - 2| */
    }
    tp_module_release(loss);
}

static bool refuses(tp_module *m, int64_t nargs, tp_value *args, void *context) {
    (void)m;
    (void)nargs;
    (void)args;
    (void)context;
    return false;
}
static void test_hooks_can_stop(void **state) {
    (void)state;
    tp_module *layer = tp_nn_relu();
    tp_module_add_prehook(layer, refuses, NULL, NULL);
    TP_SCOPE
        assert_null(tp_forward(layer, VECTOR(1)));
    assert_error("ReLU: a hook stopped the forward before it");
    assert_int_equal(tp_module_add_forward_hook(NULL, adds_one, NULL, NULL), 0);
    assert_error("tp_module_add_forward_hook: argument 'm': expected a module, got NULL");
    assert_int_equal(tp_module_add_backward_hook(layer, NULL, NULL, NULL), 0);
    assert_error("tp_module_add_backward_hook: argument 'fn'");
    tp_module_release(layer);
}

typedef struct seen {
    int calls;
    float in[2], out[2];
    bool replaces;
} seen;
static tp_hook_result watches(tp_module *m, tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced,
                              void *context) {
    seen *s = context;
    s->calls++;
    assert_string_equal(tp_module_name(m), "Tanh");
    assert_int_equal(grad_inputs.n, 1);
    assert_int_equal(grad_outputs.n, 1);
    if (!tp_copy_out(grad_inputs.v[0], s->in, sizeof s->in) || !tp_copy_out(grad_outputs.v[0], s->out, sizeof s->out))
        return TP_HOOK_FAILED;
    if (!s->replaces) return TP_HOOK_KEEP;
    replaced[0] = tp_mul(grad_inputs.v[0], 10);
    return TP_HOOK_REPLACE;
}

static void test_backward_hooks(void **state) {
    (void)state;
    for (int replaces = 0; replaces < 2; replaces++) {
        tp_module *layer = tp_nn_tanh();
        seen s = {.replaces = replaces};
        TP_SCOPE {
            tp_tensor *x = LEAF(0.5f, -1);
            tp_module_add_backward_hook(layer, watches, &s, NULL);
            tp_backward(tp_sum(tp_mul(tp_forward(layer, x), VECTOR(3, 4))));
            const float slopes[2] = {1 - powf(tanhf(0.5f), 2), 1 - powf(tanhf(-1), 2)};
            const float factor = replaces ? 10 : 1;
            assert_int_equal(s.calls, 1);
            assert_float_equal(s.out[0], 3, 0);
            assert_float_equal(s.in[1], 4 * slopes[1], 1e-6);
            ASSERT_VALUES(tp_grad(x), 3 * slopes[0] * factor, 4 * slopes[1] * factor);
        }
        tp_module_release(layer);
    }
}

/* The meta device stands for another one: moved parameters keep their identity and their place in an optimiser. */
static void test_modules_move(void **state) {
    (void)state;
    tp_module *net = tp_nn_sequential(tp_nn_linear(2, 3), tp_nn_batch_norm1d(3));
    tp_tensor *weight = tp_module_tensor(net, "0.weight");
    TP_SCOPE
        tp_backward(tp_sum(tp_forward(net, tp_ones(TP_INTS(4, 2)))));
    assert_true(tp_module_to_device(net, (tp_device){TP_META, 0}));
    assert_int_equal(tp_device_of(weight).type, TP_META);
    assert_int_equal(tp_device_of(tp_grad(weight)).type, TP_META);
    assert_int_equal(tp_device_of(tp_module_tensor(net, "1.running_mean")).type, TP_META);
    assert_int_equal(tp_dtype_of(tp_module_tensor(net, "1.num_batches_tracked")), TP_INT64);
    assert_ptr_equal(tp_module_tensor(net, "0.weight"), weight);
    assert_false(tp_module_to_device(net, (tp_device){0, 0}));
    assert_error("tp_module_to_device: argument 'device'");
    assert_false(tp_module_to_device(NULL, (tp_device){TP_CPU, 0}));
    assert_error("tp_module_to_device: argument 'm': expected a module, got NULL");
    tp_module_release(net);
}

/* A network that moves in the middle of a training goes on as one that stays. */
static double train_moving(bool moves) {
    const tp_device there = {TP_TEST_DEVICE, 0}, here = {TP_CPU, 0};
    tp_manual_seed(5);
    tp_module *net = tp_nn_sequential(tp_nn_linear(3, 4), tp_nn_relu(), tp_nn_linear(4, 1));
    tp_state all = tp_module_parameters(net);
    tp_optimiser *sgd = tp_sgd(tp_list(all.n, all.tensors), .lr = 0.1);
    double loss = 0;
    for (int step = 0; step < 3; step++)
        TP_SCOPE {
            if (moves) assert_true(tp_module_to_device(net, step == 1 ? there : here));
            tp_tensor *x = tp_to(tp_ones(TP_INTS(2, 3)), .device = moves && step == 1 ? there : here);
            tp_optimiser_zero_grad(sgd);
            tp_tensor *e = tp_sum(tp_square(tp_forward(net, x)));
            tp_backward(e);
            if (moves) assert_true(tp_module_to_device(net, here)); /* with the gradients */
            tp_step(sgd);
            loss = e ? tp_item(e) : NAN;
        }
    if (!tp_ok()) fail_msg("%s", tp_error());
    tp_optimiser_free(sgd);
    tp_state_free(all);
    tp_module_release(net);
    return loss;
}
static void test_training_moves(void **state) {
    (void)state;
    assert_true(guarded_device_open());
    assert_float_equal(train_moving(true), train_moving(false), 1e-6);
    assert_int_equal(guarded_device_bytes(), 0);
}

static void everything(void) {
    int calls = 0;
    seen s = {.replaces = true};
    tp_module *layer = tp_nn_tanh();
    if (layer) {
        tp_module_add_prehook(layer, doubles_input, &calls, counts);
        tp_module_add_forward_hook(layer, adds_one, &calls, counts);
        tp_module_add_backward_hook(layer, watches, &s, NULL);
        TP_SCOPE {
            tp_tensor *x = LEAF(0.5f, -1);
            if (x) tp_backward(tp_sum(tp_forward(layer, x)));
        }
    }
    tp_module_release(layer);
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {TEST(test_values_pass_through_hooks),
                                     cmocka_unit_test(test_named_inputs),
                                     TEST(test_named_inputs),
                                     TEST(test_hooks_can_stop),
                                     TEST(test_backward_hooks),
                                     cmocka_unit_test(test_modules_move),
                                     TEST(test_modules_move),
                                     cmocka_unit_test(test_training_moves),
                                     cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
