/* Derivatives of functions against what they are by hand: products from both sides, Jacobians, Hessians, slices; with a
 * history where it is asked for. */
#include "tape_fixture.h"

/* f(x, y) = x^2 * y, element by element. */
static tp_tensor *square_times(tp_tensors in, void *context) {
    if (context) ++*(int *)context;
    return tp_mul(tp_mul(in.v[0], in.v[0]), in.v[1]);
}
static tp_tensor *summed(tp_tensors in, void *context) { return tp_sum(square_times(in, context)); }
static tp_tensor *constant(tp_tensors in, void *context) {
    (void)in;
    (void)context;
    return tp_ones(TP_INTS(2));
}
static tp_tensor *nothing(tp_tensors in, void *context) {
    (void)in;
    (void)context;
    return NULL;
}

static void test_products(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2), *y = VECTOR(3, 4), *out, *grads[2];
        assert_true(tp_vjp(square_times, NULL, TP_LIST(x, y), VECTOR(1, 10), &out, grads, false));
        ASSERT_VALUES(out, 3, 16);
        ASSERT_VALUES(grads[0], 6, 160); /* v 2xy */
        ASSERT_VALUES(grads[1], 1, 40);  /* v x^2 */
        assert_false(tp_requires_grad(grads[0]) || tp_requires_grad(out) || tp_requires_grad(x));
        tp_tensor *product =
            tp_jvp(square_times, NULL, TP_LIST(x, y), TP_LIST(VECTOR(1, 0), VECTOR(1, 1)), &out, false);
        ASSERT_VALUES(product, 7, 4); /* 2xy dx + x^2 dy */
        ASSERT_VALUES(out, 3, 16);
        assert_true(tp_hvp(summed, NULL, TP_LIST(x, y), TP_LIST(VECTOR(1, 0), VECTOR(0, 1)), NULL, grads, false));
        ASSERT_VALUES(grads[0], 6, 4); /* 2y vx + 2x vy */
        ASSERT_VALUES(grads[1], 2, 0); /* 2x vx */
        assert_true(tp_vjp(constant, NULL, TP_LIST(x), VECTOR(1, 1), NULL, grads, false));
        ASSERT_VALUES(grads[0], 0, 0);
    }
}

static void test_whole_derivatives(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2), *y = VECTOR(3, 4), *j[2], *h[4];
        int calls = 0;
        assert_true(tp_jacobian(square_times, &calls, TP_LIST(x, y), j, false));
        assert_int_equal(calls, 1);
        ASSERT_VALUES(j[0], 6, 0, 0, 16);
        ASSERT_VALUES(j[1], 1, 0, 0, 4);
        assert_int_equal(tp_ndim(j[0]), 2);
        assert_true(tp_hessian(summed, NULL, TP_LIST(x, y), h, false));
        ASSERT_VALUES(h[0], 6, 0, 0, 8); /* 2y */
        ASSERT_VALUES(h[1], 2, 0, 0, 4); /* 2x */
        ASSERT_VALUES(h[2], 2, 0, 0, 4);
        ASSERT_VALUES(h[3], 0, 0, 0, 0);
        assert_false(tp_hessian(square_times, NULL, TP_LIST(x, y), h, false));
        assert_error("tp_hessian: argument 'fn': expected a function of one element, its result has the shape [2]");
    }
}

static void test_histories_go_on(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = VECTOR(3, 4), *j[2];
        assert_true(tp_jacobian(square_times, NULL, TP_LIST(x, y), j, true));
        tp_backward(tp_sum(j[0])); /* of 2xy */
        ASSERT_VALUES(tp_grad(x), 6, 8);
        tp_zero_grad(x);
        tp_backward(tp_sum(tp_jvp(square_times, NULL, TP_LIST(x, y), TP_LIST(VECTOR(1, 1), VECTOR(0, 0)), NULL, true)));
        ASSERT_VALUES(tp_grad(x), 6, 8);
    }
}

static tp_tensor *dot(tp_tensors in, void *context) {
    (void)context;
    return tp_dot(in.v[0], in.v[1]);
}
static void test_slices(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *rows = tp_set_requires_grad(tp_reshape(VECTOR(1, 2, 3, 4), TP_INTS(2, 2)), true), *v = VECTOR(1, 10);
        ASSERT_VALUES(tp_vmap(dot, NULL, TP_LIST(rows, v), TP_INTS(0, TP_NONE), 0), 21, 43);
        tp_tensor *columns = tp_vmap(dot, NULL, TP_LIST(rows, v), TP_INTS(1, TP_NONE), 0);
        ASSERT_VALUES(columns, 31, 42);
        tp_backward(tp_sum(columns));
        ASSERT_VALUES(tp_grad(rows), 1, 1, 10, 10);
        assert_null(tp_vmap(dot, NULL, TP_LIST(rows, VECTOR(1, 2, 3)), tp_no_ints(), 0));
        assert_error("tp_vmap: argument 'inputs': tensor 1 has 3 slices, one before it 2");
        assert_null(tp_vmap(dot, NULL, TP_LIST(rows, v), TP_INTS(0), 0));
        assert_error("tp_vmap: argument 'in_dims'");
    }
}

static void test_mistakes(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2), *grads[2];
        assert_false(tp_vjp(NULL, NULL, TP_LIST(x), NULL, NULL, grads, false));
        assert_error("tp_vjp: argument 'fn': expected a function, got NULL");
        assert_false(tp_vjp(nothing, NULL, TP_LIST(x), NULL, NULL, grads, false));
        assert_error("tp_vjp: argument 'fn': the function gave no tensor");
        assert_false(tp_vjp(square_times, NULL, TP_LIST(x, x), NULL, NULL, grads, false));
        assert_error("tp_vjp: argument 'fn': expected a function of one element");
        assert_null(tp_jvp(square_times, NULL, TP_LIST(x, x), TP_LIST(x), NULL, false));
        assert_error("tp_jvp: argument 'tangents': expected 2 tensors, one per input, got 1");
        assert_false(tp_jacobian(constant, NULL, TP_LIST(tp_arange(3)), grads, false));
        assert_error("tp_jacobian: argument 'inputs': tensor 0 is int64, which has no gradient");
    }
}

/* ---- gradients against differences ---- */
static bool half_of_it(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                       tp_tensor **grad_inputs, int64_t ninputs) {
    (void)call;
    (void)context;
    (void)noutputs;
    (void)ninputs;
    grad_inputs[0] = tp_keep(tp_mul(grads[0], 0.5)); /* wrong: the function is x itself */
    return grad_inputs[0] != NULL;
}
static bool copy_it(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs) {
    (void)call;
    (void)context;
    (void)noutputs;
    outputs[0] = tp_keep(tp_clone(inputs.v[0]));
    return outputs[0] != NULL;
}
static tp_tensor *wrong(tp_tensors in, void *context) {
    const tp_function f = {.size = (int64_t)sizeof f, .name = "Wrong", .forward = copy_it, .backward = half_of_it};
    tp_tensor *out = NULL;
    return tp_apply(&f, context, in, &out, 1) ? out : NULL;
}

static void test_gradients_are_checked(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_to(VECTOR(1, 2), .dtype = TP_FLOAT64), *y = tp_to(VECTOR(3, 4), .dtype = TP_FLOAT64);
        assert_true(tp_gradcheck(square_times, NULL, TP_LIST(x, y)));
        assert_true(tp_gradcheck(summed, NULL, TP_LIST(x, y), .eps = 1e-4));
        assert_false(tp_gradcheck(summed, NULL, TP_LIST(x, y), .atol = -1));
        assert_error("tp_gradcheck: element 0 of the result with respect to element 0 of input 0: the gradient is 6");
        assert_false(tp_gradcheck(wrong, NULL, TP_LIST(x)));
        assert_error("the gradient is 0.5, differences of values say 1");
        assert_false(tp_gradcheck(square_times, NULL, TP_LIST(x, VECTOR(1, 2))));
        assert_error("tp_gradcheck: argument 'inputs': tensor 1: expected float64, got float32");
        assert_false(tp_gradcheck(nothing, NULL, TP_LIST(x)));
        assert_error("the function gave no tensor");
        ASSERT_VALUES(tp_to(x, .dtype = TP_FLOAT32), 1, 2);
        assert_false(tp_requires_grad(x));
    }
}

static void everything(void) {
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2), *y = VECTOR(3, 4), *h[4];
        if (x && y) {
            tp_hessian(summed, NULL, TP_LIST(x, y), h, false);
            tp_jvp(square_times, NULL, TP_LIST(x, y), TP_LIST(x, y), NULL, false);
            tp_vmap(dot, NULL, TP_LIST(tp_stack(TP_LIST(x, y)), x), TP_INTS(0, TP_NONE), 0);
        }
    }
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_products),
                                     TEST(test_products),
                                     TEST(test_whole_derivatives),
                                     TEST(test_histories_go_on),
                                     TEST(test_slices),
                                     TEST(test_mistakes),
                                     TEST(test_gradients_are_checked),
                                     cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
