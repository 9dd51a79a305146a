/* A network with other tensors in the place of its parameters, and the triplet loss with a distance of one's own. */
#include "tape_fixture.h"

static void other_parameters(void **state) {
    (void)state;
    tp_module *net = tp_nn_sequential(tp_nn_linear(2, 1, .bias = false), tp_nn_sequential(tp_nn_linear(1, 1)));
    TP_SCOPE {
        tp_tensor *own = tp_module_tensor(net, "0.weight"), *x = tp_reshape(VECTOR(1, 2), TP_INTS(1, 2));
        tp_tensor *before = tp_forward(net, x);
        tp_tensor *w = tp_set_requires_grad(tp_reshape(VECTOR(3, 4), TP_INTS(1, 2)), true);
        tp_tensor *v = tp_set_requires_grad(tp_full(TP_INTS(1, 1), 5.0), true), *b = LEAF(7);
        const char *names[] = {"0.weight", "1.0.weight", "1.0.bias"};
        tp_tensor *y = tp_functional_call(net, 3, names, (tp_tensor *[]){w, v, b}, x);
        ASSERT_VALUES(y, 62); /* 5 * (3 + 8) + 7 */
        assert_true(tp_backward(tp_sum(y)));
        ASSERT_VALUES(tp_grad(w), 5, 10);
        ASSERT_VALUES(tp_grad(v), 11);
        assert_null(tp_grad(own));
        assert_ptr_equal(tp_module_tensor(net, "0.weight"), own);
        assert_true(tp_equal(tp_forward(net, x), before));
        names[2] = "1.0.nothing";
        assert_null(tp_functional_call(net, 3, names, (tp_tensor *[]){w, v, b}, x));
        assert_error("has no parameter or buffer \"1.0.nothing\"");
        assert_ptr_equal(tp_module_tensor(net, "0.weight"), own);
    }
    tp_module_release(net);
}

static tp_tensor *sum_of_differences(tp_tensors in, void *context) {
    ++*(int *)context;
    return tp_sum(tp_abs(tp_sub(in.v[0], in.v[1])), .dim = TP_INTS(1));
}

static void triplets(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_reshape(VECTOR(0, 0, 1, 1), TP_INTS(2, 2)),
                  *p = tp_reshape(VECTOR(1, 0, 1, 1), TP_INTS(2, 2));
        tp_tensor *n = tp_reshape(VECTOR(0, 1.5f, 4, 1), TP_INTS(2, 2));
        int calls = 0;
        ASSERT_VALUES(tp_triplet_margin_with_distance_loss(a, p, n, sum_of_differences, &calls, 1, false, "none"), 0.5f,
                      0);
        assert_int_equal(calls, 2);
        ASSERT_VALUES(tp_triplet_margin_with_distance_loss(a, p, n, sum_of_differences, &calls, 1, true, "sum"), 0.5f);
        assert_int_equal(calls, 5);
        tp_tensor *mean = tp_triplet_margin_with_distance_loss(a, p, n, NULL, NULL, 1, false, "mean");
        assert_true(fabs(tp_item(mean) - tp_item(tp_triplet_margin_loss(a, p, n))) < 1e-6);
        assert_null(tp_triplet_margin_with_distance_loss(a, p, n, NULL, NULL, 0, false, "mean"));
        assert_error("margin must be greater than 0, got 0");
        assert_null(tp_triplet_margin_with_distance_loss(a, p, n, NULL, NULL, 1, false, "most"));
        assert_error("most is not a valid value for reduction");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_parameters), cmocka_unit_test(triplets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
