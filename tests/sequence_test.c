/* Sequences padded and packed give PyTorch's values (printed by PyTorch 2.15 with seed 0), also through an LSTM in both
 * directions, and gradients find their way back. */
#include "tape_fixture.h"

typedef struct three {
    tp_tensor *v[3];
} three;
static three sequences(void) {
    three s;
    s.v[0] = tp_reshape(VECTOR(0, 0.25f, 0.5f, 0.75f), TP_INTS(2, 2));
    s.v[1] = tp_reshape(tp_div(VECTOR(0, 1, 2, 3, 4, 5), 6), TP_INTS(3, 2));
    s.v[2] = tp_ones(TP_INTS(1, 2));
    return s;
}
static void assert_ints(const tp_tensor *t, int n, const int64_t *want) {
    int64_t got[16];
    assert_int_equal(tp_numel(t), n);
    assert_true(tp_copy_out(t, got, sizeof got));
    assert_memory_equal(got, want, sizeof *want * (size_t)n);
}

static void test_padding(void **state) {
    (void)state;
    TP_SCOPE {
        three s = sequences();
        tp_tensor *padded = tp_pad_sequence(tp_list(3, s.v), true, -1), *back[3];
        ASSERT_VALUES(padded, 0, 0.25f, 0.5f, 0.75f, -1, -1, 0, 1.f / 6, 2.f / 6, 0.5f, 4.f / 6, 5.f / 6, 1, 1, -1, -1,
                      -1, -1);
        tp_tensor *lengths = tp_from_data((int64_t[]){2, 3, 1}, TP_INT64, TP_INTS(3));
        assert_true(tp_unpad_sequence(padded, lengths, true, back));
        for (int i = 0; i < 3; i++) assert_true(tp_equal(back[i], s.v[i]));
        assert_null(tp_pad_sequence((tp_tensors){.v = NULL, .n = 0}, true, 0));
        assert_error("tp_pad_sequence: received an empty list of sequences");
    }
}

static void test_packing(void **state) {
    (void)state;
    TP_SCOPE {
        three s = sequences();
        tp_packed p = tp_pack_sequence(tp_list(3, s.v), false);
        ASSERT_VALUES(p.data, 0, 1.f / 6, 0, 0.25f, 1, 1, 2.f / 6, 0.5f, 0.5f, 0.75f, 4.f / 6, 5.f / 6);
        assert_ints(p.batch_sizes, 3, (int64_t[]){3, 2, 1});
        assert_ints(p.sorted_indices, 3, (int64_t[]){1, 0, 2});
        assert_ints(p.unsorted_indices, 3, (int64_t[]){1, 0, 2});
        tp_tensor *lengths, *padded = tp_pad_packed_sequence(p, true, -1, 4, &lengths);
        assert_ints(lengths, 3, (int64_t[]){2, 3, 1});
        assert_true(tp_equal(tp_narrow(padded, 1, 0, 3), tp_pad_sequence(tp_list(3, s.v), true, -1)));
        assert_float_equal(tp_item(tp_sum(tp_select(padded, 1, 3))), -6, 0);
        assert_null(tp_pad_packed_sequence(p, true, 0, 2, NULL));
        assert_error("tp_pad_packed_sequence: argument 'total_length'");
        assert_null(tp_pack_sequence(tp_list(3, s.v), true).data);
        assert_error("tp_pack_padded_sequence: argument 'lengths': must be sorted in decreasing order");
        tp_tensor *wrong = tp_from_data((int64_t[]){2, 1}, TP_INT64, TP_INTS(2));
        assert_null(tp_pack_padded_sequence(padded, wrong, true, true).data);
        assert_error("to be equal to batch_size, but got 2 (batch_size=3)");
    }
}

static void test_lstm_over_packed(void **state) {
    (void)state;
    tp_manual_seed(0);
    tp_module *lstm = tp_nn_lstm(2, 3, .bidirectional = true), *linear = tp_nn_linear(2, 2);
    TP_SCOPE {
        three s = sequences();
        for (int i = 0; i < 3; i++) tp_set_requires_grad(s.v[i] = tp_detach(s.v[i]), true);
        tp_tensor *h, *c;
        tp_packed out = tp_forward_packed(lstm, tp_pack_sequence(tp_list(3, s.v), false), NULL, NULL, &h, &c);
        ASSERT_VALUES(h, -0.184286f, -0.166416f, 0.032235f, -0.263066f, -0.225612f, 0.060447f, -0.2693f, -0.123973f,
                      0.074404f, -0.256204f, -0.163034f, 0.017257f, -0.286957f, -0.175901f, 0.020141f, -0.124555f,
                      -0.087733f, 0.073306f);
        ASSERT_VALUES(c, -0.287253f, -0.276411f, 0.08473f, -0.450774f, -0.372591f, 0.151563f, -0.479004f, -0.188791f,
                      0.196449f, -0.481435f, -0.335107f, 0.047768f, -0.54637f, -0.36833f, 0.056479f, -0.264539f,
                      -0.238319f, 0.333285f);
        tp_tensor *padded = tp_pad_packed_sequence(out, false, 0, TP_NONE, NULL);
        ASSERT_VALUES(tp_select(padded, 0, 2), 0, 0, 0, 0, 0, 0, -0.263066f, -0.225612f, 0.060447f, -0.145996f,
                      -0.100615f, 0.062701f, 0, 0, 0, 0, 0, 0);
        /* A sequence alone has the same gradients as in the pack. */
        tp_backward(tp_sum(padded));
        tp_tensor *alone = tp_set_requires_grad(tp_clone(tp_detach(s.v[1])), true);
        tp_backward(tp_sum(tp_forward(lstm, tp_unsqueeze(alone, 1))));
        assert_true(tp_allclose(tp_grad(alone), tp_grad(s.v[1]), .rtol = 1e-5, .atol = 1e-7));
        assert_null(tp_forward_packed(linear, out, NULL, NULL, NULL, NULL).data);
        assert_error("tp_forward_packed: argument 'm': expected an RNN, a GRU or an LSTM, got Linear");
    }
    tp_module_release(lstm);
    tp_module_release(linear);
}

static void test_gru_and_rnn_over_packed(void **state) {
    (void)state;
    tp_module *nets[] = {tp_nn_gru(2, 3), tp_nn_rnn(2, 3), tp_nn_rnn(2, 3, .nonlinearity = "relu")};
    for (int i = 0; i < 3; i++) {
        TP_SCOPE {
            three s = sequences();
            tp_tensor *h;
            tp_packed out = tp_forward_packed(nets[i], tp_pack_sequence(tp_list(3, s.v), false), NULL, NULL, &h, NULL);
            for (int k = 0; k < 3; k++) { /* as each sequence alone */
                tp_value one = tp_value_tensor(s.v[k]), both[2];
                assert_true(tp_forward_values(nets[i], 1, &one, 2, both));
                assert_true(tp_allclose(tp_select(h, 1, k), both[1].as.tensor, .atol = 1e-6));
            }
            assert_non_null(out.data);
        }
        tp_module_release(nets[i]);
    }
}

static void everything(void) {
    tp_module *lstm = tp_nn_lstm(2, 3);
    TP_SCOPE {
        three s = sequences();
        tp_tensor *h, *c;
        if (lstm && s.v[0] && s.v[1] && s.v[2]) {
            tp_packed p = tp_pack_sequence(tp_list(3, s.v), false);
            if (p.data) tp_pad_packed_sequence(tp_forward_packed(lstm, p, NULL, NULL, &h, &c), true, 0, TP_NONE, NULL);
        }
    }
    tp_module_release(lstm);
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_padding),
                                     TEST(test_padding),
                                     TEST(test_packing),
                                     cmocka_unit_test(test_lstm_over_packed),
                                     TEST(test_lstm_over_packed),
                                     cmocka_unit_test(test_gru_and_rnn_over_packed),
                                     TEST(test_gru_and_rnn_over_packed),
                                     cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
