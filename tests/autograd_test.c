/* The tape as a user meets it: gradients, in-place writes, views, hooks, modes, custom functions, checkpoints, threads,
 * errors. Numbers are PyTorch's for the same programs. */
#include <pthread.h>
#include "autograd/node.h"
#include "tape_fixture.h"

/* ---- Gradients ---- */

static void gradients_accumulate(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2, 3), *y = square_sum(x);
        assert_true(tp_requires_grad(y));
        assert_true(!tp_is_leaf(y));
        assert_true(tp_is_leaf(x));
        assert_null(tp_grad(x));
        assert_true(tp_backward(y, .retain_graph = true));
        ASSERT_VALUES(tp_grad(x), 2, 4, 6);
        assert_true(tp_backward(y));
        ASSERT_VALUES(tp_grad(x), 4, 8, 12);
        assert_true(tp_zero_grad(x));
        assert_null(tp_grad(x));
    }
}

static void a_second_backward_is_refused_with_advice(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *y = square_sum(LEAF(1, 2));
        assert_true(tp_backward(y));
        assert_false(tp_backward(y));
        assert_non_null(strstr(tp_error(), "saved by mul (MulBackward0)"));
        assert_non_null(strstr(tp_error(), "retain_graph"));
        assert_error("backward through the graph a second time");
    }
}

static void gradients_of_broadcast_inputs_are_summed(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_ones(TP_INTS(2, 3)), true), *b = LEAF(1, 2, 3), *s = LEAF(4);
        assert_true(tp_backward(tp_sum(tp_mul(tp_mul(x, b), s))));
        ASSERT_VALUES(tp_grad(b), 8, 8, 8);
        ASSERT_VALUES(tp_grad(s), 12);
        ASSERT_VALUES(tp_grad(x), 4, 8, 12, 4, 8, 12);
    }
}

static void gradients_of_empty_vectors_beside_others(void **state) { /* cat takes them beside tensors of any shape */
    (void)state;
    TP_SCOPE {
        tp_tensor *none = tp_set_requires_grad(tp_zeros(TP_INTS(0)), true),
                  *x = tp_set_requires_grad(tp_ones(TP_INTS(1, 2)), true);
        assert_true(tp_backward(tp_sum(tp_mul(tp_cat(TP_LIST(none, x), .dim = 1), 3))));
        ASSERT_VALUES(tp_grad(x), 3, 3);
        assert_true(tp_grad(none));
        assert_true(tp_ndim(tp_grad(none)) == 1);
        assert_true(tp_numel(tp_grad(none)) == 0);
    }
}

static void
a_derivative_that_is_missing_is_an_error(void **state) { /* `todo` in the table: never silently no gradient */
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_eye(2), true);
        tp_tensor *f = tp_geqrf(x).a;
        assert_true(tp_requires_grad(f));
        assert_string_equal(tp_grad_fn_name(f), "GeqrfBackward0");
        assert_false(tp_backward(tp_sum(f)));
        assert_error("the derivative of geqrf is not implemented");
        TP_NO_GRAD
            assert_false(tp_requires_grad(tp_geqrf(x).a));
        assert_false(tp_requires_grad(tp_geqrf(tp_detach(x)).a));
    }
}

static void gradients_have_their_inputs_dtype(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *wide = tp_set_requires_grad(tp_ones(TP_INTS(2), .dtype = TP_FLOAT64), true);
        tp_tensor *y = tp_sum(tp_mul(tp_mul(x, wide), x));
        assert_int_equal(tp_dtype_of(y), TP_FLOAT64);
        assert_true(tp_backward(y));
        ASSERT_VALUES(tp_grad(x), 2, 4);
        assert_int_equal(tp_dtype_of(tp_grad(wide)), TP_FLOAT64);
    }
}

static void gradients_of_gradients(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(2, 3), *g = grad_of(tp_mul(tp_mul(x, x), x), x);
        ASSERT_VALUES(g, 12, 27);
        tp_tensor *g2 = grad_of(g, x);
        ASSERT_VALUES(g2, 12, 18);
        assert_true(tp_backward(tp_sum(g2)));
        ASSERT_VALUES(tp_grad(x), 6, 6);
        x = LEAF(0.5f);
        float e = expf(0.5f);
        ASSERT_VALUES(grad_of(grad_of(tp_exp(x), x), x), e);
    }
}

static void chosen_gradients_leave_grad_alone(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(3), *w = LEAF(5), *unused = LEAF(1), *g[3];
        tp_tensor *h = tp_mul(x, x), *y = tp_mul(tp_mul(h, h), w);
        assert_true(tp_gradients(TP_LIST(y), TP_LIST(h, x), NULL, g,
                                 &(tp_grad_options){.size = sizeof(tp_grad_options), .retain_graph = true}));
        ASSERT_VALUES(g[0], 90);
        ASSERT_VALUES(g[1], 540);
        assert_null(tp_grad(x));
        assert_null(tp_grad(w));
        assert_false(tp_gradients(TP_LIST(y), TP_LIST(x, unused), NULL, g,
                                  &(tp_grad_options){.size = sizeof(tp_grad_options), .retain_graph = true}));
        assert_error("index 1 appears to not have been used");
        assert_true(tp_gradients(TP_LIST(y), TP_LIST(unused, x), NULL, g,
                                 &(tp_grad_options){.size = sizeof(tp_grad_options), .allow_unused = true}));
        assert_null(g[0]);
        ASSERT_VALUES(g[1], 540);
        assert_false(tp_gradients(TP_LIST(y), TP_LIST(VECTOR(1)), NULL, g, NULL));
        assert_error("does not require grad");
        tp_tensor *twice = tp_mul(x, 2), *weights[2] = {VECTOR(10), NULL};
        assert_true(tp_gradients(TP_LIST(twice, tp_mul(x, 7)), TP_LIST(x), weights, g, NULL));
        ASSERT_VALUES(g[0], 27);
    }
}

static void roots_that_cannot_be_differentiated(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        assert_false(tp_backward(tp_mul(x, x)));
        assert_error("grad can be implicitly created only for");
        assert_false(tp_backward(VECTOR(1)));
        assert_error("does not require grad and does not have a grad_fn");
        assert_false(tp_backward(tp_mul(x, x), .gradient = VECTOR(1, 2, 3)));
        assert_error("grad_output[0] has a shape of [3] and output[0] has a shape of [2]");
        assert_false(tp_backward(NULL));
        assert_error("got NULL");
        assert_true(tp_backward(tp_mul(x, x), .gradient = VECTOR(10, 100)));
        ASSERT_VALUES(tp_grad(x), 20, 400);
    }
}

/* ---- Leaves ---- */

static void leaves_and_what_they_refuse(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        assert_null(tp_set_requires_grad(tp_ones(TP_INTS(2), .dtype = TP_INT64), true));
        assert_error("Only Tensors of floating point and complex dtype can require gradients");
        assert_null(tp_set_requires_grad(tp_mul(x, x), false));
        assert_error("requires_grad flags of leaf variables");
        assert_string_equal(tp_grad_fn_name(tp_mul(x, x)), "MulBackward0");
        assert_null(tp_grad_fn_name(x));
        assert_false(tp_set_grad(x, VECTOR(1)));
        assert_error("of size '[1]' to a tensor of size '[2]'");
        assert_false(tp_set_grad(x, tp_ones(TP_INTS(2), .dtype = TP_FLOAT64)));
        assert_error("a gradient with dtype 'float64' to a tensor");
        assert_true(tp_set_grad(x, VECTOR(5, 5)));
        assert_true(tp_backward(tp_sum(x)));
        ASSERT_VALUES(tp_grad(x), 6, 6);
        tp_tensor *d = tp_detach(tp_mul(x, x)), *y = tp_mul(x, x);
        assert_false(tp_requires_grad(d));
        assert_true(tp_detach_(y));
        assert_false(tp_requires_grad(y));
        assert_false(tp_detach_(item(tp_mul(x, x), 0)));
        assert_error("Can't detach views in-place");
        assert_false(tp_retain_grad(VECTOR(1)));
        assert_error("can't retain_grad");
    }
}

static void a_gradient_has_its_leafs_strides(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_detach(tp_transpose(tp_ones(TP_INTS(2, 3)), 0, 1)), true);
        assert_true(tp_backward(tp_sum(x)));
        assert_int_equal(tp_stride(tp_grad(x), 0), 1);
        assert_int_equal(tp_stride(tp_grad(x), 1), 3);
    }
}

/* ---- In place ---- */

static void writes_to_leaves_are_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2, 3);
        assert_null(tp_mul_(x, 2));
        assert_error("a leaf Variable that requires grad is being used in an in-place operation");
        assert_null(tp_mul_(item(x, 0), 2));
        assert_error("a view of a leaf Variable that requires grad");
        TP_NO_GRAD
            assert_non_null(tp_mul_(x, 2));
        ASSERT_VALUES(x, 2, 4, 6);
        ASSERT_VALUES(tp_mul_(tp_detach(x), 2), 4, 8, 12);
        assert_null(tp_add_out(tp_zeros(TP_INTS(3)), x, x));
        assert_error("out=... arguments don't support automatic differentiation");
    }
}

static void writes_go_on_the_tape(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2, 3), *w = LEAF(2, 2, 2), *y = tp_mul(x, x);
        assert_non_null(tp_mul_(y, 3));
        assert_non_null(tp_mul_(y, w));
        assert_true(tp_backward(tp_sum(y)));
        ASSERT_VALUES(tp_grad(x), 12, 24, 36);
        ASSERT_VALUES(tp_grad(w), 3, 12, 27);
    }
}

static void saved_tensors_that_changed_are_named(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_exp(x);
        assert_non_null(tp_mul_(y, 3));
        assert_false(tp_backward(tp_sum(y)));
        assert_non_null(strstr(tp_error(), "exp (ExpBackward0)"));
        assert_non_null(strstr(tp_error(), "[torch.FloatTensor [2]], which is output 0 of Exp,"));
        assert_non_null(strstr(tp_error(), "is at version 1; expected version 0"));
        assert_error("has been modified by an inplace operation");
        tp_tensor *h = tp_mul(x, 1), *z = tp_mul(h, h);
        assert_non_null(tp_mul_(h, z)); /* h now is a result of what saved it: still no circle */
        assert_false(tp_backward(tp_sum(z)));
        assert_error("an input of mul");
    }
}

static void writing_into_part_of_a_constant(void **state) { /* y = zeros(3); y[0] = s */
    (void)state;
    TP_SCOPE {
        tp_tensor *s = LEAF(5), *y = tp_zeros(TP_INTS(3)), *other = item(y, 1);
        assert_non_null(tp_copy_(item(y, 0), item(s, 0)));
        assert_true(tp_requires_grad(y));
        assert_true(!tp_is_leaf(y));
        assert_string_equal(tp_grad_fn_name(y), "CopySlices");
        assert_true(tp_requires_grad(other));
        assert_string_equal(tp_grad_fn_name(other), "AsStridedBackward0");
        assert_true(tp_backward(square_sum(y)));
        ASSERT_VALUES(tp_grad(s), 10);
    }
}

static void writes_to_views_rewrite_the_bases_history(void **state) {
    (void)state;
    TP_SCOPE {
        float six[] = {1, 2, 3, 4, 5, 6};
        tp_tensor *x = tp_set_requires_grad(tp_from_data(six, TP_FLOAT32, TP_INTS(2, 3)), true), *w = LEAF(10, 20);
        tp_tensor *y = tp_mul(x, 2), *other = item(y, 1), *column = tp_select(y, 1, 1);
        assert_non_null(tp_mul_(column, w));
        assert_non_null(tp_mul_(item(y, 0), 0.5));
        assert_non_null(tp_mul_(item(tp_transpose(y, 0, 1), 2), 3));
        ASSERT_VALUES(y, 1, 20, 9, 8, 200, 36);
        assert_true(tp_backward(square_sum(y), .retain_graph = true));
        ASSERT_VALUES(tp_grad(x), 2, 400, 54, 32, 16000, 432);
        ASSERT_VALUES(tp_grad(w), 80, 4000);
        assert_true(tp_zero_grad(x));
        assert_true(tp_zero_grad(w));
        assert_true(tp_backward(tp_sum(tp_mul(other, tp_sum(column)))));
        ASSERT_VALUES(tp_grad(x), 0, 2440, 0, 440, 18560, 1320);
        ASSERT_VALUES(tp_grad(w), 488, 4640);
    }
}

static void
gradients_of_gradients_through_a_written_view(void **state) { /* y = 2x; y[1] = exp(y[1]); the sum of y * y */
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(0.3f, 0.4f), *y = tp_mul(x, 2);
        assert_non_null(tp_exp_(item(y, 1)));
        float e = expf(1.6f);
        tp_tensor *g = grad_of(tp_mul(y, y), x);
        ASSERT_VALUES(g, 2.4f, 4 * e);
        tp_tensor *g2 = grad_of(g, x);
        ASSERT_VALUES(g2, 8, 16 * e);
        ASSERT_VALUES(grad_of(g2, x), 0, 64 * e);
    }
}

static void views_follow_writes_to_their_base(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *base = tp_ones(TP_INTS(2)), *view = item(base, 1);
        assert_false(tp_requires_grad(view));
        assert_non_null(tp_mul_(base, x));
        assert_true(tp_requires_grad(view));
        assert_true(tp_backward(tp_mul(view, view)));
        ASSERT_VALUES(tp_grad(x), 0, 4);
    }
}

static void views_made_without_a_tape_are_not_written_with_one(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *h = tp_mul(x, 2), *view = NULL;
        TP_NO_GRAD
            view = item(h, 0);
        assert_null(tp_mul_(view, 2));
        assert_error("A view was created in no_grad mode and is being modified inplace");
        tp_tensor *base = tp_ones(TP_INTS(2));
        TP_NO_GRAD
            view = item(base, 0);
        assert_null(tp_mul_(view, item(x, 0)));
        assert_error("A view was created in no_grad mode and is being modified inplace");
        assert_null(tp_mul_(tp_expand(tp_ones(TP_INTS(1)), TP_INTS(3)), 2));
        assert_error("more than one element of the written-to tensor refers to a single memory location");
    }
}

/* ---- Long graphs ---- */

static void a_chain_of_a_million(void **state) {
    (void)state;
    tp_tensor *x = LEAF(1), *y = tp_retain(x);
    for (int i = 0; i < 1000000; i++) {
        tp_tensor *next = i % 2 ? tp_mul(y, x) : tp_add(y, 0);
        assert_non_null(next);
        tp_release(y);
        y = next;
    }
    assert_true(tp_backward(y));
    ASSERT_VALUES(tp_grad(x), 500001);
    tp_release(y);
    y = tp_mul(x, 1); /* and one that is dropped without a backward */
    for (int i = 0; i < 1000000; i++) {
        tp_tensor *next = tp_mul(y, y);
        assert_non_null(next);
        tp_release(y);
        y = next;
    }
    tp_release(y);
    tp_release(x);
}

/* ---- Hooks ---- */

static unsigned hook_calls;
static int hooks_freed;
static tp_tensor *doubles(tp_tensor *grad, void *context) {
    hook_calls = hook_calls * 10 + (unsigned)(uintptr_t)context;
    return tp_mul(grad, 2);
}
static tp_tensor *looks(tp_tensor *grad, void *context) {
    (void)grad;
    hook_calls = hook_calls * 10 + (unsigned)(uintptr_t)context;
    return NULL;
}
static tp_tensor *hands_over_its_own(tp_tensor *grad, void *context) {
    hook_calls = hook_calls * 10 + (unsigned)(uintptr_t)context;
    return tp_retain(grad);
}
static tp_tensor *fails(tp_tensor *grad, void *context) {
    (void)context;
    return tp_add(grad, tp_ones(TP_INTS(7)));
}
static tp_tensor *misshapes(tp_tensor *grad, void *context) {
    (void)context;
    return tp_sum(grad);
}
static void hook_freed(void *context) {
    (void)context;
    hooks_freed++;
}

static void hooks_run_in_order(void **state) {
    (void)state;
    hook_calls = hooks_freed = 0;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, x);
        int64_t on_leaf = tp_add_hook(x, doubles, (void *)4, hook_freed);
        assert_true(on_leaf > 0);
        assert_true(tp_retain_grad(y));
        tp_add_hook(y, looks, (void *)1, hook_freed);
        tp_add_hook(y, doubles, (void *)2, hook_freed);
        tp_add_hook(y, hands_over_its_own, (void *)3, NULL);
        assert_true(tp_backward(tp_sum(y)));
        assert_int_equal(hook_calls, 1234);
        ASSERT_VALUES(tp_grad(y), 2, 2);
        ASSERT_VALUES(tp_grad(x), 8, 16);
        assert_true(tp_remove_hook(x, on_leaf));
        assert_int_equal(hooks_freed, 1);
        assert_false(tp_remove_hook(x, on_leaf));
        assert_error("no hook with the handle");
        assert_int_equal(tp_add_hook(VECTOR(1), looks, NULL, NULL), 0);
        assert_error("doesn't require gradient");
    }
    assert_int_equal(hooks_freed, 3);
}

static void a_hook_sees_the_value_it_was_added_to(void **state) {
    (void)state;
    hook_calls = 0;
    TP_SCOPE {
        tp_tensor *x = LEAF(1), *y = tp_mul(x, 2);
        tp_add_hook(y, looks, (void *)2, NULL);
        assert_non_null(tp_mul_(y, 3));
        tp_add_hook(y, looks, (void *)1, NULL);
        assert_true(tp_backward(y));
        assert_int_equal(hook_calls, 12);
    }
}

static void a_failing_hook_stops_the_backward(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, x);
        tp_add_hook(y, fails, NULL, NULL);
        assert_false(tp_backward(tp_sum(y)));
        assert_null(tp_grad(x));
        tp_error_clear();
        y = tp_mul(x, x);
        tp_add_hook(y, misshapes, NULL, NULL);
        assert_false(tp_backward(tp_sum(y)));
        assert_error("a hook returned a gradient of shape []");
    }
}

/* ---- Modes ---- */

static void scopes_without_a_tape(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *made = NULL;
        TP_NO_GRAD {
            assert_false(tp_grad_enabled());
            assert_false(tp_requires_grad(tp_mul(x, x)));
            TP_ENABLE_GRAD
                assert_true(tp_requires_grad(tp_mul(x, x)));
        }
        assert_true(tp_grad_enabled());
        TP_INFERENCE {
            made = tp_mul(x, x);
            assert_non_null(tp_mul_(made, 2));
            TP_ENABLE_GRAD
                assert_false(tp_requires_grad(tp_mul(x, x)));
        }
        assert_null(tp_mul(made, x));
        assert_error("Inference tensors cannot be saved for backward");
        assert_null(tp_mul_(made, 2));
        assert_error("Inplace update to inference tensor outside InferenceMode");
        assert_null(tp_set_requires_grad(made, true));
        assert_error("inference tensor");
    }
}

/* A view made in an inference scope is what its base is: a tensor of the tape, whose writes count, or one without
 * versions. */
static void views_in_inference_scopes_are_as_their_bases(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *w = LEAF(1, 2), *b = tp_ones(TP_INTS(2)), *out = tp_sum(tp_mul(b, w)), *view = NULL, *of_made = NULL;
        TP_INFERENCE {
            view = tp_view(b, TP_INTS(2, 1));
            of_made = tp_view(tp_ones(TP_INTS(2)), TP_INTS(2, 1));
            assert_false(tp_is_inference(view) || tp_is_inference(tp_detach(b)) || tp_is_inference(tp_alias(b)));
            assert_false(tp_is_inference(tp_reshape(b, TP_INTS(2, 1))));
            assert_true(tp_is_inference(of_made));
        }
        assert_null(tp_mul_(of_made, 2));
        assert_error("Inplace update to inference tensor outside InferenceMode");
        assert_non_null(tp_mul_(view, 1));
        assert_non_null(tp_mul(view, w));
        TP_INFERENCE
            tp_mul_(view, 10);
        assert_false(tp_backward(out));
        assert_error("modified by an inplace operation");
    }
}

static void anomaly_mode_names_both_calls(void **state) {
    (void)state;
    tp_set_anomaly(true);
    TP_SCOPE {
        tp_tensor *x = LEAF(0, 2);
        assert_false(tp_backward(tp_sum(tp_mul(tp_log(x), 0)))); /* 0 * 1 / 0 */
        assert_non_null(strstr(tp_error(), "log(float32 [2])"));
        assert_error("Function 'LogBackward0' returned nan values in its 0th output");
    }
    tp_set_anomaly(false);
    assert_false(tp_anomaly_enabled());
}

/* ---- Threads ---- */

struct shared {
    tp_tensor *x, *y;
    int failures[2];
};
struct worker {
    struct shared *shared;
    int number;
};
static void *differentiates(void *p) {
    struct worker *me = p;
    for (int i = 0; i < 500; i++)
        TP_SCOPE {
            bool ok = tp_backward(square_sum(me->shared->x)) && tp_backward(me->shared->y, .retain_graph = true);
            me->shared->failures[me->number] += !ok;
        }
    return NULL;
}

static void threads_share_leaves_and_graphs(void **state) {
    (void)state;
    TP_SCOPE {
        struct shared shared = {.x = LEAF(1, 2)};
        shared.y = tp_sum(tp_mul(tp_exp(tp_mul(shared.x, 0)), shared.x));
        pthread_t threads[2];
        struct worker workers[2] = {{&shared, 0}, {&shared, 1}};
        for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, differentiates, &workers[i]), 0);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        assert_int_equal(shared.failures[0] + shared.failures[1], 0);
        ASSERT_VALUES(tp_grad(shared.x), 3000, 5000);
    }
}

/* ---- Custom functions ---- */

static bool cube_forward(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs,
                         int64_t noutputs) {
    (void)context;
    (void)noutputs;
    outputs[0] = tp_mul(tp_mul(inputs.v[0], inputs.v[0]), inputs.v[0]);
    return outputs[0] && !tp_requires_grad(outputs[0]) && tp_function_save(call, TP_LIST(inputs.v[0]));
}
static bool cube_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                          tp_tensor **grad_inputs, int64_t ninputs) {
    (void)context;
    (void)noutputs;
    (void)ninputs;
    tp_tensor *x = tp_function_saved(call, 0);
    if (tp_function_needs(call, 0)) grad_inputs[0] = tp_mul(tp_mul(grads[0], 3), tp_mul(x, x));
    return grad_inputs[0] != NULL;
}

static void a_custom_function_twice_differentiated(void **state) {
    (void)state;
    hooks_freed = 0;
    const tp_function cube = {
        .size = sizeof cube, .name = "Cube", .forward = cube_forward, .backward = cube_backward, .release = hook_freed};
    TP_SCOPE {
        tp_tensor *x = LEAF(2), *y;
        assert_true(tp_apply(&cube, NULL, TP_LIST(x), &y, 1));
        assert_string_equal(tp_grad_fn_name(y), "CubeBackward");
        tp_tensor *g = grad_of(y, x);
        ASSERT_VALUES(g, 12);
        ASSERT_VALUES(grad_of(g, x), 12);
        assert_true(tp_backward(y));
        ASSERT_VALUES(tp_grad(x), 12);
        assert_false(tp_backward(y));
        assert_non_null(strstr(tp_error(), "saved by Cube"));
        assert_error("backward through the graph a second time");
        tp_tensor *h = tp_mul(x, 1);
        assert_true(tp_apply(&cube, NULL, TP_LIST(h), &y, 1));
        assert_non_null(tp_mul_(h, 2));
        assert_false(tp_backward(y));
        assert_error("has been modified by an inplace operation");
        TP_NO_GRAD
            assert_true(tp_apply(&cube, NULL, TP_LIST(x), &y, 1));
        assert_false(tp_requires_grad(y));
        assert_int_equal(hooks_freed, 1);
    }
    assert_int_equal(hooks_freed, 3);
}

/* Doubles its first input in place; gives a copy of it that has no gradient; passes its second input through. */
static bool mixed_forward(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs,
                          int64_t noutputs) {
    (void)context;
    (void)noutputs;
    tp_mul_(inputs.v[0], 2);
    tp_function_mark_dirty(call, 0);
    outputs[0] = tp_retain(inputs.v[0]);
    outputs[1] = tp_mul(inputs.v[0], 1);
    tp_function_mark_nondiff(call, 1);
    outputs[2] = tp_retain(inputs.v[1]);
    return true;
}
static bool mixed_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                           tp_tensor **grad_inputs, int64_t ninputs) {
    (void)call;
    (void)context;
    (void)noutputs;
    (void)ninputs;
    grad_inputs[0] = grads[0] ? tp_mul(grads[0], 2) : NULL;
    grad_inputs[1] = tp_retain(grads[2]);
    return true;
}

static void dirty_and_nondifferentiable(void **state) {
    (void)state;
    const tp_function mixed = {
        .size = sizeof mixed, .name = "Mixed", .forward = mixed_forward, .backward = mixed_backward};
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *w = LEAF(7, 8), *h = tp_mul(x, 3), *out[3];
        assert_true(tp_apply(&mixed, NULL, TP_LIST(h, w), out, 3));
        assert_ptr_equal(out[0], h);
        assert_false(tp_requires_grad(out[1]));
        assert_true(out[2] != w);
        assert_true(tp_requires_grad(out[2]));
        assert_true(tp_backward(tp_sum(tp_mul(out[0], out[2]))));
        ASSERT_VALUES(tp_grad(x), 42, 48);
        ASSERT_VALUES(tp_grad(w), 6, 12);
        assert_false(tp_apply(&mixed, NULL, TP_LIST(x, w), out, 3));
        tp_error_clear();
        tp_zero_grad(x);
        h = tp_mul(x, 1); /* a view that the function writes */
        assert_true(tp_apply(&mixed, NULL, TP_LIST(item(h, 0), w), out, 3));
        assert_true(tp_backward(tp_sum(h)));
        ASSERT_VALUES(tp_grad(x), 2, 1);
    }
}

/* ---- Checkpoints ---- */

static tp_tensor *square_times(tp_tensors inputs, void *parameter) {
    return tp_mul(tp_mul(inputs.v[0], inputs.v[0]), tp_operand_tensor(parameter));
}
static tp_tensor *drops(tp_tensors inputs, void *context) {
    (void)context;
    return tp_dropout(inputs.v[0], .p = 0.5, .training = true);
}

static void checkpoints_give_the_same_gradients(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *parameter = LEAF(3, 4);
        tp_tensor *y = tp_checkpoint(square_times, parameter, TP_LIST(x));
        ASSERT_VALUES(y, 3, 16);
        assert_true(tp_backward(tp_sum(y)));
        ASSERT_VALUES(tp_grad(x), 6, 16);
        ASSERT_VALUES(tp_grad(parameter), 1, 4);
        tp_zero_grad(x);
        tp_tensor *h = tp_mul(x, 3);
        for (int i = 0; i < 2; i++) h = tp_checkpoint(square_times, VECTOR(2, 2), TP_LIST(h));
        assert_true(tp_backward(tp_sum(h)));
        ASSERT_VALUES(tp_grad(x), 2592, 20736);
        y = tp_checkpoint(square_times, VECTOR(2, 2), TP_LIST(tp_mul(x, 3)));
        tp_tensor *g = grad_of(y, x);
        ASSERT_VALUES(g, 36, 72);
        ASSERT_VALUES(grad_of(g, x), 36, 36);
    }
}

static void checkpoints_draw_the_same_numbers(void **state) {
    (void)state;
    TP_SCOPE {
        tp_manual_seed(3);
        tp_tensor *x = tp_set_requires_grad(tp_ones(TP_INTS(64)), true), *y = tp_checkpoint(drops, NULL, TP_LIST(x));
        tp_tensor *next = tp_randn(TP_INTS(1));
        float out[64], grad[64];
        assert_true(tp_backward(tp_sum(y)));
        assert_true(tp_copy_out(y, out, sizeof out));
        assert_true(tp_copy_out(tp_grad(x), grad, sizeof grad));
        for (int i = 0; i < 64; i++) assert_true(out[i] == grad[i]);
        tp_manual_seed(3);
        assert_non_null(tp_dropout(tp_detach(x), .p = 0.5, .training = true));
        assert_true(tp_item(tp_randn(TP_INTS(1))) == tp_item(next));
    }
}

/* ---- Without memory ---- */

static void a_bit_of_everything(void) {
    const tp_function cube = {.size = sizeof cube, .name = "Cube", .forward = cube_forward, .backward = cube_backward};
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, 3), *view = y ? item(y, 1) : NULL, *g = NULL, *z = NULL;
        if (!view || !tp_mul_(view, item(x, 0)) || !tp_exp_(view)) continue;
        tp_grad_options options = {.size = sizeof options, .create_graph = true};
        if (!tp_gradients(TP_LIST(square_sum(y)), TP_LIST(x), NULL, &g, &options) || !tp_backward(tp_sum(g))) continue;
        if (!tp_add_hook(x, doubles, NULL, NULL)) continue;
        if (!tp_apply(&cube, NULL, TP_LIST(x), &z, 1) || !tp_backward(tp_sum(z))) continue;
        tp_backward(tp_sum(tp_checkpoint(square_times, x, TP_LIST(x))));
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fail_each_allocation(a_bit_of_everything);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(gradients_accumulate),
        CASE(a_second_backward_is_refused_with_advice),
        CASE(gradients_of_broadcast_inputs_are_summed),
        CASE(gradients_of_empty_vectors_beside_others),
        CASE(a_derivative_that_is_missing_is_an_error),
        CASE(gradients_have_their_inputs_dtype),
        CASE(gradients_of_gradients),
        CASE(chosen_gradients_leave_grad_alone),
        CASE(roots_that_cannot_be_differentiated),
        CASE(leaves_and_what_they_refuse),
        CASE(a_gradient_has_its_leafs_strides),
        CASE(writes_to_leaves_are_refused),
        CASE(writes_go_on_the_tape),
        CASE(saved_tensors_that_changed_are_named),
        CASE(writing_into_part_of_a_constant),
        CASE(writes_to_views_rewrite_the_bases_history),
        CASE(gradients_of_gradients_through_a_written_view),
        CASE(views_follow_writes_to_their_base),
        CASE(views_made_without_a_tape_are_not_written_with_one),
        CASE(a_chain_of_a_million),
        CASE(hooks_run_in_order),
        CASE(a_hook_sees_the_value_it_was_added_to),
        CASE(a_failing_hook_stops_the_backward),
        CASE(scopes_without_a_tape),
        CASE(views_in_inference_scopes_are_as_their_bases),
        CASE(anomaly_mode_names_both_calls),
        CASE(threads_share_leaves_and_graphs),
        CASE(a_custom_function_twice_differentiated),
        CASE(dirty_and_nondifferentiable),
        CASE(checkpoints_give_the_same_gradients),
        CASE(checkpoints_draw_the_same_numbers),
        CASE(any_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("autograd", tests, NULL, NULL);
}
