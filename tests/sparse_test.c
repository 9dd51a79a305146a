/* Sparse tensors as objects against dense ones, with gradients; and numbers in eight bits against PyTorch's. */
#include "tape_fixture.h"

static tp_tensor *whole(tp_ints shape, const int64_t *v) { return tp_from_data(v, TP_INT64, shape); }

/* [[0 1 0 2], [0 0 0 0], [3 0 4 0]], with place (0, 3) given twice and out of order */
static tp_sparse *example(tp_tensor *values) {
    static const int64_t indices[] = {2, 0, 0, 2, 0, 0, 3, 1, 2, 3};
    return tp_sparse_from_coo(whole(TP_INTS(2, 5), indices), values, TP_INTS(3, 4));
}
static const float dense_example[] = {0, 1, 0, 2, 0, 0, 0, 0, 3, 0, 4, 0};

static void layouts_hold_the_same(void **state) {
    (void)state;
    TP_SCOPE {
        tp_sparse *a = example(VECTOR(3, 0.5f, 1, 4, 1.5f));
        assert_non_null(a);
        assert_int_equal(tp_sparse_nnz(a), 5);
        assert_false(tp_sparse_is_coalesced(a));
        tp_sparse *once = tp_sparse_coalesced(a), *rows = tp_sparse_as_csr(a), *again = tp_sparse_as_coo(rows);
        tp_sparse *transposed = tp_sparse_transposed(rows);
        assert_int_equal(tp_sparse_nnz(once), 4);
        assert_true(tp_sparse_is_coalesced(once));
        assert_true(tp_sparse_is_csr(rows));
        ASSERT_VALUES(tp_sparse_values(rows), 1, 2, 3, 4);
        assert_true(tp_equal(tp_sparse_crow_indices(rows), whole(TP_INTS(4), (int64_t[]){0, 2, 2, 4})));
        assert_true(tp_equal(tp_sparse_col_indices(rows), whole(TP_INTS(4), (int64_t[]){1, 3, 0, 2})));
        tp_tensor *dense = tp_from_data(dense_example, TP_FLOAT32, TP_INTS(3, 4));
        assert_true(tp_equal(tp_sparse_to_dense(a), dense));
        assert_true(tp_equal(tp_sparse_to_dense(once), dense));
        assert_true(tp_equal(tp_sparse_to_dense(rows), dense));
        assert_true(tp_equal(tp_sparse_to_dense(again), dense));
        assert_true(tp_equal(tp_sparse_to_dense(transposed), tp_transpose(dense, 0, 1)));
        tp_sparse *made = tp_sparse_from_dense(dense);
        assert_int_equal(tp_sparse_nnz(made), 4);
        assert_true(tp_equal(tp_sparse_indices(made), tp_sparse_indices(once)));
        assert_int_equal(tp_sparse_size(made).n, 2);
        tp_sparse *all[] = {a, once, rows, again, transposed, made};
        for (int i = 0; i < 6; i++) tp_sparse_free(all[i]);
    }
    assert_true(tp_ok());
}

static void products_are_those_of_dense_ones(void **state) {
    (void)state;
    TP_SCOPE {
        tp_sparse *a = example(VECTOR(3, 0.5f, 1, 4, 1.5f)), *rows = tp_sparse_as_csr(a);
        tp_sparse *transposed = tp_sparse_transposed(a);
        tp_tensor *dense = tp_from_data(dense_example, TP_FLOAT32, TP_INTS(3, 4));
        tp_tensor *x = tp_reshape(tp_arange(tp_float(8), .dtype = TP_FLOAT32), TP_INTS(4, 2));
        assert_true(tp_equal(tp_sparse_matmul(a, x), tp_matmul(dense, x)));
        assert_true(tp_equal(tp_sparse_matmul(rows, x), tp_matmul(dense, x)));
        assert_true(tp_equal(tp_sparse_matmul(rows, tp_select(x, 1, 0)), tp_matmul(dense, tp_select(x, 1, 0))));
        tp_sparse *square = tp_sparse_product(rows, transposed), *twice = tp_sparse_plus(a, rows);
        assert_true(tp_equal(tp_sparse_to_dense(square), tp_matmul(dense, tp_transpose(dense, 0, 1))));
        assert_true(tp_equal(tp_sparse_to_dense(twice), tp_mul(dense, 2)));
        tp_sparse *all[] = {a, rows, transposed, square, twice};
        for (int i = 0; i < 5; i++) tp_sparse_free(all[i]);
    }
    assert_true(tp_ok());
}

static void gradients_reach_values(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *values = LEAF(3, 0.5f, 1, 4, 1.5f), *x = tp_set_requires_grad(tp_ones(TP_INTS(4, 1)), true);
        tp_sparse *rows = NULL, *a = example(values);
        rows = tp_sparse_as_csr(a);
        tp_tensor *y = tp_sparse_matmul(rows, x); /* (3, 0, 7) */
        assert_true(tp_backward(tp_sum(tp_mul(y, y))));
        ASSERT_VALUES(tp_grad(values), 14, 6, 6, 14, 6);
        ASSERT_VALUES(tp_grad(x), 42, 6, 56, 12);
        tp_sparse_free(a);
        tp_sparse_free(rows);
    }
}

static void wrong_indices_are_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *v = VECTOR(1, 2);
        assert_null(tp_sparse_from_coo(whole(TP_INTS(2, 2), (int64_t[]){0, 3, 0, 0}), v, TP_INTS(3, 4)));
        assert_error("tp_sparse_from_coo: argument 'indices': expected numbers from 0 to 2, got one that is 3");
        assert_null(tp_sparse_from_coo(whole(TP_INTS(2, 2), (int64_t[]){0, -1, 0, 0}), v, TP_INTS(3, 4)));
        assert_error("got one that is -1");
        assert_null(tp_sparse_from_coo(whole(TP_INTS(1, 2), (int64_t[]){0, 1}), v, TP_INTS(3, 4)));
        assert_error("expected 2 rows");
        assert_null(tp_sparse_from_coo(v, v, TP_INTS(3, 4)));
        assert_error("expected int64 or int32");
        assert_null(tp_sparse_from_csr(whole(TP_INTS(3), (int64_t[]){0, 2, 1}), whole(TP_INTS(2), (int64_t[]){0, 1}), v,
                                       TP_INTS(2, 2)));
        assert_error("argument 'crow'");
        tp_sparse *a = example(VECTOR(1, 2, 3, 4, 5));
        assert_null(tp_sparse_crow_indices(a));
        assert_error("expected one by rows, got one by places");
        assert_null(tp_sparse_matmul(a, v));
        assert_error("expected 4 rows, got shape [2]");
        assert_null(tp_sparse_product(a, a));
        assert_error("expected 4 rows, got 3");
        tp_sparse_free(a);
        assert_null(tp_sparse_to_dense(NULL));
        assert_error("expected a sparse tensor, got NULL");
    }
}

static void numbers_in_eight_bits(void **state) {
    (void)state;
    TP_SCOPE {
        double scale;
        int64_t zero;
        assert_true(tp_choose_qparams(-1, 3, 0, 255, &scale, &zero));
        assert_true(scale == 4.0 / 255);
        assert_true(zero == 64);
        tp_tensor *x = VECTOR(-1, 0, 0.26f, 3, 99), *q = tp_quantize_per_tensor(x, 0.1, 10, TP_UINT8);
        assert_true(tp_equal(q, tp_to(whole(TP_INTS(5), (int64_t[]){0, 10, 13, 40, 255}), .dtype = TP_UINT8)));
        ASSERT_VALUES(tp_dequantize(q, 0.1, 10), -1, 0, 0.3f, 3, 24.5f);
        tp_tensor *leaf = LEAF(-1, 0, 0.26f, 3, 99);
        tp_tensor *fake = tp_fake_quantize_per_tensor_affine(leaf, 0.1, 10, 0, 255);
        ASSERT_VALUES(fake, -1, 0, 0.3f, 3, 24.5f);
        assert_true(tp_backward(tp_sum(fake)));
        ASSERT_VALUES(tp_grad(leaf), 1, 1, 1, 1, 0);
        assert_null(tp_quantize_per_tensor(x, 0, 0, TP_INT8));
        assert_error("tp_quantize_per_tensor: argument 'scale': expected a number above 0, got 0");
        assert_null(tp_quantize_per_tensor(x, 1, 0, TP_FLOAT32));
        assert_error("expected int8, uint8 or int32, got float32");
    }
}

static void a_network_in_eight_bits(void **state) {
    (void)state;
    tp_manual_seed(1);
    tp_module *net = tp_nn_sequential(tp_nn_linear(20, 30), tp_nn_relu(), tp_nn_sequential(tp_nn_linear(30, 5)));
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(8, 20)), *exact = tp_detach(tp_forward(net, x));
        assert_int_equal(tp_quantize_dynamic(net), 2);
        tp_tensor *y = tp_forward(net, x), *weight = tp_module_tensor(net, "0.weight");
        assert_int_equal(tp_dtype_of(weight), TP_INT8);
        double off = tp_item(tp_max(tp_abs(tp_sub(y, exact)))), most = tp_item(tp_max(tp_abs(exact)));
        assert_true(off > 0);
        assert_true(off < 0.05 * most);
        assert_int_equal(tp_quantize_dynamic(net), 0);
        tp_module *relu = tp_nn_relu();
        assert_null(tp_quantized_linear(relu));
        assert_error("expected a Linear, got a ReLU");
        tp_module_release(relu);
    }
    assert_true(tp_ok());
    tp_module_release(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_hold_the_same),  cmocka_unit_test(products_are_those_of_dense_ones),
        cmocka_unit_test(gradients_reach_values), cmocka_unit_test(wrong_indices_are_refused),
        cmocka_unit_test(numbers_in_eight_bits),  cmocka_unit_test(a_network_in_eight_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
