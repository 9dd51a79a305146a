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

static void parameters_in_one_row(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_ones(TP_INTS(2, 2)), *b = tp_zeros(TP_INTS(3));
        tp_set_requires_grad(a, true);
        tp_tensor *row = tp_parameters_to_vector(TP_LIST(a, b));
        ASSERT_VALUES(row, 1, 1, 1, 1, 0, 0, 0);
        tp_backward(tp_sum(tp_mul(row, row)));
        ASSERT_VALUES(tp_grad(a), 2, 2, 2, 2);
        assert_true(tp_vector_to_parameters(tp_arange(7, .dtype = TP_FLOAT32), TP_LIST(a, b)));
        ASSERT_VALUES(a, 0, 1, 2, 3);
        ASSERT_VALUES(b, 4, 5, 6);
        assert_true(tp_requires_grad(a));
        assert_false(tp_vector_to_parameters(tp_zeros(TP_INTS(8)), TP_LIST(a, b)));
        assert_error("expected one dim of 7 elements, got 1 dims and 8 elements");
        assert_false(tp_vector_to_parameters(tp_zeros(TP_INTS(1, 7)), TP_LIST(a, b)));
        assert_error("got 2 dims and 7 elements");
        ASSERT_VALUES(b, 4, 5, 6);
        assert_null(tp_parameters_to_vector(tp_list(0, NULL)));
        assert_error("expected one at least");
    }
}

/* A list that is released by hand inside of a scope is not released again at its end. */
static void lists_released_in_a_scope(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++)
        TP_SCOPE {
            tp_tensors parts = tp_chunk(tp_ones(TP_INTS(6)), 3);
            tp_tensor *kept = tp_retain(parts.v[1]);
            tp_release_all(parts);
            tp_tensor *others[] = {tp_zeros(TP_INTS(3)), tp_zeros(TP_INTS(5))};
            assert_int_equal(tp_numel(others[0]) + tp_numel(others[1]), 8);
            ASSERT_VALUES(kept, 1, 1);
            tp_release(kept);
        }
    assert_true(tp_ok());
}

/* A network of a recurrent layer by itself, so that it has a parent. */
static void quantized_recurrent_layers(void **state) {
    (void)state;
    for (int gru = 0; gru < 2; gru++)
        TP_SCOPE {
            tp_manual_seed(4);
            tp_module *layer = gru ? tp_nn_gru(5, 7, .num_layers = 2, .bidirectional = true)
                                   : tp_nn_lstm(5, 7, .num_layers = 2, .batch_first = true, .dropout = 0.5);
            tp_tensor *x = tp_randn(TP_INTS(3, 4, 5));
            tp_module_train(layer, false);
            tp_tensor *before = tp_forward(layer, x);
            tp_module *small = tp_quantized_recurrent(layer);
            tp_tensor *y = tp_forward(small, x);
            assert_true(tp_item(tp_max(tp_abs(tp_sub(y, before)))) < 0.02);
            assert_false(tp_equal(y, before));
            assert_int_equal(tp_dtype_of(tp_module_tensor(small, "weight_hh_l1")), TP_INT8);
            /* The same bits as the layer has with its weights turned back. */
            tp_state all = tp_module_parameters(layer);
            for (int64_t i = 0; i < all.n; i++)
                TP_NO_GRAD {
                    char scale[64];
                    snprintf(scale, sizeof scale, "%s_scale", all.names[i]);
                    if (strncmp(all.names[i], "weight", 6)) continue;
                    double by = tp_item(tp_module_tensor(small, scale));
                    tp_copy_(all.tensors[i], tp_dequantize(tp_module_tensor(small, all.names[i]), by, 0));
                }
            assert_true(tp_equal(tp_forward(small, x), tp_forward(layer, x)));
            assert_true(tp_equal(y, tp_forward(small, x)));
            tp_state_free(all);
            tp_module *net = tp_nn_sequential(layer, tp_nn_linear(2, 2));
            assert_int_equal(tp_quantize_dynamic(net), 2);
            assert_string_equal(tp_module_name(tp_module_child(net, "0")),
                                gru ? "DynamicQuantizedGRU" : "DynamicQuantizedLSTM");
            tp_tensor *again = tp_forward(tp_module_child(net, "0"), x);
            assert_true(tp_item(tp_max(tp_abs(tp_sub(again, y)))) < 0.02);
            tp_module_release(net);
            tp_module_release(small);
        }
    tp_module *rnn = tp_nn_rnn(2, 2);
    assert_null(tp_quantized_recurrent(rnn));
    assert_error("expected an LSTM or a GRU, got a RNN");
    tp_module_release(rnn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_parameters), cmocka_unit_test(triplets), cmocka_unit_test(parameters_in_one_row),
        cmocka_unit_test(lists_released_in_a_scope), cmocka_unit_test(quantized_recurrent_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
