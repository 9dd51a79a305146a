/* The tape in the user's hands: its nodes, hooks around them, backward over several roots and for chosen inputs, saved
 * tensors through hooks, traces of calls, and what custom functions may ask for. Numbers are PyTorch's for the same
 * programs. */
#include "tape_fixture.h"

static void count_up(void *count) { ++*(int *)count; }

/* ---- Nodes ---- */

static void nodes_are_one_address_each(void **state) {
    (void)state;
    int gone = 0;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, 2), *z = tp_add(y, y);
        tp_node *add = tp_grad_fn(z), *again = tp_grad_fn(z), *mul = tp_grad_fn(y);
        int64_t nr = 7;
        assert_ptr_equal(add, again);
        assert_string_equal(tp_node_name(add), "AddBackward0");
        assert_int_equal(tp_node_edges(add), 2);
        assert_int_equal(tp_node_inputs(add), 1);
        assert_true(tp_node_sequence(add) > tp_node_sequence(mul));
        for (int i = 0; i < 2; i++) {
            tp_node *next = tp_node_next(add, i, &nr);
            assert_ptr_equal(next, mul);
            assert_int_equal(nr, 0);
            tp_node_release(next);
        }
        tp_node *leaf = tp_node_next(mul, 0, NULL), *accumulator = tp_grad_accumulator(x);
        assert_ptr_equal(leaf, accumulator);
        assert_string_equal(tp_node_name(leaf), "AccumulateGrad");
        assert_ptr_equal(tp_node_variable(leaf), x);
        assert_null(tp_node_variable(mul));
        assert_null(tp_node_next(mul, 1, &nr)); /* the number */
        assert_true(tp_ok());
        assert_null(tp_node_next(mul, 2, &nr));
        assert_error("MulBackward0 has 2 edges, got index 2");
        assert_null(tp_grad_fn(x));
        assert_null(tp_grad_accumulator(y));
        assert_error("expected a leaf that requires grad");
        assert_true(tp_node_set_binding(mul, &gone, count_up));
        assert_ptr_equal(tp_node_binding(mul), &gone);
        assert_null(tp_node_binding(add));
        tp_node_release(tp_node_retain(add));
        tp_node_release(add);
        tp_node_release(again);
        tp_node_release(mul);
        tp_node_release(leaf);
        tp_node_release(accumulator);
    }
    assert_int_equal(gone, 1);
}

static void a_node_runs_by_itself(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, x), *out[2], *grad = VECTOR(1, 10);
        tp_node *mul = tp_grad_fn(y);
        assert_true(tp_node_run(mul, &grad, out));
        ASSERT_VALUES(out[0], 1, 20);
        ASSERT_VALUES(out[1], 1, 20);
        grad = NULL;
        assert_true(tp_node_run(mul, &grad, out));
        assert_null(out[0]);
        assert_null(tp_grad(x));
        tp_node_release(mul);
    }
}

/* ---- Hooks ---- */

static char said[64];
static void say(const char *word) {
    if (strlen(said) + strlen(word) + 2 > sizeof said) fail_msg("said too much");
    if (*said) strcat(said, " ");
    strcat(said, word);
}

static tp_tensor *tensor_hook(tp_tensor *grad, void *context) {
    (void)grad;
    (void)context;
    say("tensor");
    return NULL;
}
static bool accumulated(tp_tensor *leaf, void *context) {
    (void)context;
    say("accumulated");
    ASSERT_VALUES(tp_grad(leaf), 2, 2);
    return true;
}
static tp_hook_result before(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)replaced;
    (void)context;
    say("before");
    assert_int_equal(grad_inputs.n, 0);
    ASSERT_VALUES(grad_outputs.v[0], 2, 2);
    return TP_HOOK_KEEP;
}
static tp_hook_result after(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)replaced;
    (void)context;
    say("after");
    assert_int_equal(grad_inputs.n, 0);
    ASSERT_VALUES(grad_outputs.v[0], 2, 2);
    return TP_HOOK_KEEP;
}

static void a_leafs_hooks_run_in_pytorchs_order(void **state) {
    (void)state;
    int released = 0;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        tp_node *accumulator = tp_grad_accumulator(x);
        assert_true(tp_node_add_hook(accumulator, after, &released, count_up) > 0);
        int64_t pre = tp_node_add_prehook(accumulator, before, &released, count_up);
        int64_t post = tp_add_accumulated_hook(x, accumulated, &released, count_up);
        assert_true(pre > 0);
        assert_true(post > 0);
        assert_true(tp_add_hook(x, tensor_hook, NULL, NULL) > 0);
        *said = 0;
        assert_true(tp_backward(tp_sum(tp_mul(x, 2))));
        assert_string_equal(said, "tensor before accumulated after");
        assert_true(tp_node_remove_hook(accumulator, pre));
        assert_true(tp_remove_hook(x, post));
        assert_int_equal(released, 2);
        assert_false(tp_node_remove_hook(accumulator, pre));
        assert_error("has no hook with the handle");
        *said = 0;
        tp_zero_grad(x);
        assert_true(tp_backward(tp_sum(tp_mul(x, 2))));
        assert_string_equal(said, "tensor after");
        assert_int_equal(tp_add_accumulated_hook(tp_mul(x, 2), accumulated, NULL, NULL), 0);
        assert_error("post accumulate grad hooks cannot be registered on non-leaf tensors");
        tp_node_release(accumulator);
    }
    assert_int_equal(released, 3);
}

static tp_hook_result ten_times(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)context;
    tp_tensors grads = grad_inputs.n ? grad_inputs : grad_outputs;
    for (int64_t i = 0; i < grads.n; i++) replaced[i] = grads.v[i] ? tp_mul(grads.v[i], 10) : NULL;
    return TP_HOOK_REPLACE;
}
static tp_hook_result nothing(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)grad_inputs;
    (void)grad_outputs;
    (void)replaced;
    (void)context;
    return TP_HOOK_REPLACE;
}
static tp_hook_result too_large(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)grad_inputs;
    (void)grad_outputs;
    (void)context;
    replaced[0] = tp_zeros(TP_INTS(5));
    return TP_HOOK_REPLACE;
}
static tp_hook_result fails(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)grad_inputs;
    (void)grad_outputs;
    (void)context;
    replaced[0] = tp_zeros(TP_INTS(2));
    return TP_HOOK_FAILED;
}

/* The gradient of x in 3 x, with a hook on the node. */
static tp_tensor *hooked(tp_tensor *x, bool pre, tp_node_hook_fn fn) {
    tp_tensor *y = tp_mul(x, 3);
    tp_node *mul = tp_grad_fn(y);
    assert_true((pre ? tp_node_add_prehook : tp_node_add_hook)(mul, fn, NULL, NULL) > 0);
    tp_node_release(mul);
    tp_zero_grad(x);
    return tp_backward(tp_sum(y)) ? tp_grad(x) : NULL;
}

static void node_hooks_replace_gradients(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        ASSERT_VALUES(hooked(x, false, ten_times), 30, 30);
        ASSERT_VALUES(hooked(x, true, ten_times), 30, 30);
        assert_null(hooked(x, false, nothing));
        assert_null(hooked(x, true, nothing));
        assert_true(tp_ok());
        assert_null(hooked(x, false, too_large));
        assert_error("a hook has changed gradient 0 from float32 of shape [2] to float32 of shape [5]");
        assert_null(hooked(x, true, fails));
        assert_error("a hook of a node failed");
    }
}

static void retaining_is_told(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, 2);
        assert_false(tp_retains_grad(y) || tp_retains_grad(x));
        assert_true(tp_retain_grad(y));
        assert_true(tp_retain_grad(x));
        assert_true(tp_retains_grad(y));
        assert_true(!tp_retains_grad(x));
    }
}

/* ---- Several roots, chosen inputs ---- */

static void several_roots_go_together(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_mul(x, x), *z = tp_sum(tp_mul(y, 3)), *grads[2] = {VECTOR(1, 10), NULL};
        assert_true(tp_backward_many(TP_LIST(y, z), grads, NULL));
        ASSERT_VALUES(tp_grad(x), 2 + 6, 40 + 12);
        assert_false(tp_backward_many(TP_LIST(tp_mul(x, 2), x), NULL, NULL));
        assert_error("grad can be implicitly created only for real scalar outputs");
    }
}

static void a_backward_may_be_for_chosen_inputs(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *w = LEAF(3, 4), *h = tp_mul(x, w), *y = tp_sum(tp_mul(h, h));
        int64_t post = tp_add_hook(w, tensor_hook, NULL, NULL);
        *said = 0;
        assert_true(tp_backward(y, .inputs = TP_LIST(x), .retain_graph = true));
        ASSERT_VALUES(tp_grad(x), 18, 64);
        assert_null(tp_grad(w));
        assert_string_equal(said, "");
        assert_true(tp_backward(y, .inputs = TP_LIST(h, x), .retain_graph = true));
        ASSERT_VALUES(tp_grad(x), 36, 128);
        ASSERT_VALUES(tp_grad(h), 6, 16);
        assert_true(tp_backward(y, .inputs = TP_LIST(h))); /* one that is not a leaf, alone */
        ASSERT_VALUES(tp_grad(h), 12, 32);
        ASSERT_VALUES(tp_grad(x), 36, 128);
        assert_null(tp_grad(w));
        assert_true(tp_remove_hook(w, post));
        assert_false(tp_backward(tp_sum(tp_mul(x, 2)), .inputs = TP_LIST(VECTOR(1))));
        assert_error("does not require grad");
    }
}

static void unused_inputs_can_get_zeros(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *w = LEAF(3, 4), *grads[2];
        tp_grad_options options = {.size = sizeof options, .materialize_grads = true, .create_graph = true};
        assert_true(tp_gradients(TP_LIST(tp_sum(tp_mul(x, 2))), TP_LIST(x, w), NULL, grads, &options));
        ASSERT_VALUES(grads[0], 2, 2);
        ASSERT_VALUES(grads[1], 0, 0);
        assert_true(tp_requires_grad(grads[1]));
        assert_true(!tp_requires_grad(grads[0]));
    }
}

/* ---- Saved tensors in other hands ---- */

typedef struct packer {
    int packed, unpacked, dropped, released;
    float scale; /* what comes back is this many times what was given, so that it shows */
    bool writes, fails;
} packer;

static void *pack(tp_tensor *t, void *context) {
    packer *p = context;
    p->packed++;
    assert_false(tp_grad_enabled());
    if (p->writes) tp_mul_(tp_detach(t), 2);
    return p->fails ? NULL : tp_own(tp_clone(tp_detach(t)));
}
static tp_tensor *unpack(void *packed, void *context) {
    packer *p = context;
    p->unpacked++;
    TP_NO_GRAD {
        return tp_mul((tp_tensor *)packed, p->scale);
    }
    return NULL;
}
static void drop(void *packed, void *context) {
    ((packer *)context)->dropped++;
    tp_release(packed);
}
static void packer_gone(void *context) { ((packer *)context)->released++; }
static bool push(packer *p) {
    return tp_push_saved_hooks(&(tp_saved_hooks){.size = sizeof(tp_saved_hooks),
                                                 .pack = pack,
                                                 .unpack = unpack,
                                                 .drop = drop,
                                                 .context = p,
                                                 .release = packer_gone});
}

static void saved_tensors_go_through_hooks(void **state) {
    (void)state;
    packer p = {.scale = 10}, inner = {.scale = 1};
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        assert_true(push(&p));
        assert_true(push(&inner));
        assert_true(tp_pop_saved_hooks());
        assert_int_equal(inner.released, 1);
        tp_tensor *y = tp_exp(tp_mul(x, x)); /* saves x twice and its own result */
        assert_int_equal(p.packed, 3);
        assert_true(tp_pop_saved_hooks());
        assert_int_equal(p.released, 0);
        tp_tensor *z = tp_mul(x, x);
        assert_true(tp_backward(tp_sum(z)));
        assert_int_equal(p.unpacked, 0);
        tp_zero_grad(x);
        assert_true(tp_backward(tp_sum(y)));
        ASSERT_VALUES(tp_grad(x), 100 * 2 * expf(1), 100 * 4 * expf(4)); /* ten times exp's result, ten times x */
        assert_int_equal(p.unpacked, 3);
        assert_int_equal(p.dropped, 3);
        assert_int_equal(p.released, 1);
        assert_false(tp_backward(tp_sum(y)));
        assert_error("a second time");
    }
    assert_int_equal(inner.packed, 0);
    assert_false(tp_pop_saved_hooks());
    assert_error("no hooks for saved tensors are pushed");
}

/* Saved leaves, inputs, results and results written into views: the second derivative knows what each of them was. */
static void packed_tensors_keep_their_history(void **state) {
    (void)state;
    packer p = {.scale = 1};
    TP_SCOPE {
        tp_tensor *x = LEAF(0.5f, 2), *g[2], *second[2];
        for (int i = 0; i < 2; i++) {
            if (i) assert_true(push(&p));
            tp_tensor *h = tp_mul(tp_mul(x, x), x), *part = tp_select(h, 0, 1);
            tp_exp_(tp_mul_(part, 0.25));
            tp_tensor *y = tp_sum(tp_exp(h));
            if (i) assert_true(tp_pop_saved_hooks());
            tp_grad_options options = {.size = sizeof options, .create_graph = true};
            assert_true(tp_gradients(TP_LIST(y), TP_LIST(x), NULL, &g[i], &options));
            assert_true(tp_gradients(TP_LIST(tp_sum(g[i])), TP_LIST(x), NULL, &second[i], NULL));
        }
        assert_true(p.unpacked > 4);
        float want[2];
        assert_true(tp_copy_out(g[0], want, sizeof want));
        assert_values(g[1], 2, want);
        assert_true(tp_copy_out(second[0], want, sizeof want));
        assert_values(second[1], 2, want);
    }
    assert_int_equal(p.packed, p.dropped);
    assert_int_equal(p.released, 1);
}

static void pack_hooks_may_fail_and_may_not_write(void **state) {
    (void)state;
    packer bad = {.fails = true}, writing = {.writes = true, .scale = 1};
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        assert_true(push(&bad));
        assert_null(tp_mul(x, x));
        assert_error("pack hook failed");
        assert_true(tp_pop_saved_hooks());
        assert_true(push(&writing));
        assert_null(tp_mul(x, x));
        assert_error("A saved tensor pack hook is modifying its input in place");
        assert_true(tp_pop_saved_hooks());
        assert_null(tp_forbid_saved_hooks("not here"));
        assert_false(push(&bad));
        assert_error("not here");
        assert_string_equal(tp_forbid_saved_hooks(NULL), "not here");
        assert_true(push(&bad));
        assert_true(tp_pop_saved_hooks());
    }
    assert_int_equal(bad.released, 2);
    assert_int_equal(writing.dropped, 1);
}

/* ---- Modes and anomalies ---- */

static void modes_can_be_set_and_asked(void **state) {
    (void)state;
    TP_SCOPE {
        assert_true(tp_grad_enabled());
        assert_true(!tp_inference_enabled());
        tp_set_grad_enabled(false);
        assert_false(tp_grad_enabled());
        tp_set_grad_enabled(true);
        tp_tensor *made = NULL;
        TP_INFERENCE {
            assert_true(tp_inference_enabled());
            made = tp_mul(VECTOR(1), 2);
            tp_set_grad_enabled(true);
            assert_false(tp_grad_enabled());
        }
        assert_true(tp_grad_enabled());
        assert_true(!tp_inference_enabled());
        assert_true(tp_is_inference(made));
        assert_true(!tp_is_inference(VECTOR(1)));
    }
}

static int traces;
static void *record(void *context) {
    traces++;
    return context;
}
static const char *describe(void *trace, const tp_node *node, void *context) {
    static char text[64];
    assert_ptr_equal(trace, context);
    snprintf(text, sizeof text, "line 7, in %s", tp_node_name(node));
    return text;
}
static void drop_trace(void *trace, void *context) {
    (void)trace;
    (void)context;
    traces--;
}

static void anomalies_tell_where_the_program_was(void **state) {
    (void)state;
    int here;
    assert_true(tp_set_trace_hooks(&(tp_trace_hooks){
        .size = sizeof(tp_trace_hooks), .record = record, .describe = describe, .drop = drop_trace, .context = &here}));
    live_before = tpi_alloc_live(); /* hooks that were ever set stay */
    TP_SCOPE {
        tp_tensor *x = LEAF(0, 1);
        assert_true(tp_anomaly_checks_nan());
        tp_set_anomaly(true);
        tp_tensor *y = tp_mul(tp_sqrt(x), 0.0);
        assert_int_equal(traces, 3); /* mul, sqrt and the leaf's */
        assert_false(tp_backward(tp_sum(y), .retain_graph = true));
        assert_non_null(strstr(tp_error(), "Function 'SqrtBackward0' returned nan values"));
        assert_error("\nline 7, in SqrtBackward0");
        tp_set_anomaly_checks_nan(false);
        assert_false(tp_anomaly_checks_nan());
        assert_true(tp_backward(tp_sum(y)));
        assert_false(tp_backward(tp_sum(y))); /* other failures are told too */
        assert_error("a second time");
        tp_set_anomaly_checks_nan(true);
        tp_set_anomaly(false);
        assert_true(tp_set_trace_hooks(NULL));
    }
    assert_int_equal(traces, 0);
}

/* ---- Custom functions ---- */

typedef struct two { /* of two results the second gets no gradient */
    bool materialize, saw_null;
    int released;
    tp_node *node;
} two;

static bool two_forward(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs,
                        int64_t noutputs) {
    two *t = context;
    assert_int_equal(noutputs, 3);
    tp_function_materialize(call, t->materialize);
    outputs[0] = tp_mul(inputs.v[0], 2);
    outputs[1] = tp_mul(inputs.v[0], 3);
    outputs[2] = tp_to(inputs.v[0], .dtype = TP_INT64);
    tp_function_mark_nondiff(call, 2);
    t->node = tp_function_node(call);
    assert_ptr_equal(tp_function_context(call), t);
    tp_tensor *kept[4] = {outputs[0], NULL, outputs[2],
                          tp_add(inputs.v[0], 1)}; /* a result, nothing, an integer result, something between */
    return tp_function_save(call, tp_list(4, kept));
}
static bool two_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                         tp_tensor **grad_inputs, int64_t ninputs) {
    two *t = context;
    assert_int_equal(noutputs + ninputs, 4);
    assert_int_equal(tp_function_saved_count(call), 4);
    t->saw_null = !grads[1];
    assert_true(t->materialize == (grads[2] != NULL));
    if (grads[1]) ASSERT_VALUES(grads[1], 0, 0);
    assert_null(tp_function_saved(call, 1));
    assert_true(tp_ok());
    assert_int_equal(tp_dtype_of(tp_function_saved(call, 2)), TP_INT64);
    ASSERT_VALUES(tp_function_saved(call, 3), 2, 3);
    grad_inputs[0] = tp_mul(grads[0], tp_function_saved(call, 0));
    return true;
}
static void two_release(void *context) { ((two *)context)->released++; }

static void gradients_that_did_not_come_are_null_or_zeros(void **state) {
    (void)state;
    const tp_function function = {.size = sizeof function,
                                  .name = "Two",
                                  .forward = two_forward,
                                  .backward = two_backward,
                                  .release = two_release};
    for (int i = 0; i < 2; i++) {
        two t = {.materialize = i};
        TP_SCOPE {
            tp_tensor *x = LEAF(1, 2), *out[3];
            assert_true(tp_apply(&function, &t, TP_LIST(x), out, 3));
            tp_node *node = tp_grad_fn(out[1]);
            assert_ptr_equal(node, t.node);
            assert_int_equal(tp_output_nr(out[1]), 1);
            assert_int_equal(tp_output_nr(x), 0);
            assert_int_equal(tp_node_inputs(node), 3);
            assert_string_equal(tp_node_name(node), "TwoBackward");
            assert_ptr_equal(tp_function_context(tp_node_function(node)), &t);
            assert_false(tp_requires_grad(out[2]));
            tp_node_release(node);
            tp_node_release(t.node);
            assert_true(tp_backward(tp_sum(out[0])));
            ASSERT_VALUES(tp_grad(x), 2, 4);
            assert_true(t.saw_null == !i);
            assert_null(tp_node_function(NULL));
        }
        assert_int_equal(t.released, 1);
    }
}

static bool same_forward(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs,
                         int64_t noutputs) {
    (void)call;
    (void)context;
    (void)noutputs;
    outputs[0] = tp_retain(inputs.v[0]);
    return true;
}
static bool dirty_forward(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs,
                          int64_t noutputs) {
    (void)context;
    (void)noutputs;
    tp_function_mark_dirty(call, 0);
    outputs[0] = tp_mul(inputs.v[0], 1);
    return true;
}
static bool same_backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                          tp_tensor **grad_inputs, int64_t ninputs) {
    (void)call;
    (void)context;
    (void)noutputs;
    (void)ninputs;
    grad_inputs[0] = tp_mul(grads[0], 5);
    return true;
}

static void an_input_returned_as_it_is_becomes_a_view(void **state) {
    (void)state;
    const tp_function same = {.size = sizeof same, .name = "Same", .forward = same_forward, .backward = same_backward};
    const tp_function dirty = {
        .size = sizeof dirty, .name = "Dirty", .forward = dirty_forward, .backward = same_backward};
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = NULL, *h = tp_mul(x, 1);
        assert_true(tp_apply(&same, NULL, TP_LIST(h), &y, 1));
        assert_true(y != h);
        assert_true(tp_is_view(y));
        assert_true(tp_shares_storage(y, h));
        assert_null(tp_add_(y, 1));
        assert_error(
            "Output 0 of Same is a view and is being modified inplace. This view was created inside a custom Function");
        assert_null(tp_add_(tp_select(y, 0, 0), 1));
        assert_error("This view was created inside a custom Function");
        assert_true(tp_backward(tp_sum(y)));
        ASSERT_VALUES(tp_grad(x), 5, 5);
        TP_NO_GRAD {
            assert_true(tp_apply(&same, NULL, TP_LIST(x), &y, 1));
        }
        assert_true(y != x);
        assert_true(!tp_requires_grad(y));
        assert_true(tp_shares_storage(y, x));
        assert_true(tp_requires_grad(x));
        assert_false(tp_apply(&dirty, NULL, TP_LIST(h), &y, 1));
        assert_error("The inputs that are modified inplace must all be outputs of the Function");
    }
}

/* ---- Without memory ---- */

static tp_hook_result keep_all(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced, void *context) {
    (void)grad_inputs;
    (void)grad_outputs;
    (void)replaced;
    (void)context;
    return TP_HOOK_KEEP;
}
static void *pack_quietly(tp_tensor *t, void *context) {
    (void)context;
    return tp_own(tp_detach(t));
}
static tp_tensor *unpack_quietly(void *packed, void *context) {
    (void)context;
    return tp_retain(packed);
}
static void drop_quietly(void *packed, void *context) {
    (void)context;
    tp_release(packed);
}

static void a_bit_of_everything(void) {
    const tp_function same = {.size = sizeof same, .name = "Same", .forward = same_forward, .backward = same_backward};
    const tp_saved_hooks hooks = {
        .size = sizeof hooks, .pack = pack_quietly, .unpack = unpack_quietly, .drop = drop_quietly};
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = NULL, *g = NULL;
        tp_node *node = x ? tp_grad_accumulator(x) : NULL;
        bool ok = node && tp_node_add_hook(node, keep_all, NULL, NULL) &&
                  tp_node_add_prehook(node, ten_times, NULL, NULL) && tp_node_set_binding(node, x, NULL);
        if (ok && tp_push_saved_hooks(&hooks)) {
            y = tp_exp(tp_mul(x, x));
            tp_pop_saved_hooks();
        }
        tp_grad_options options = {.size = sizeof options, .create_graph = true, .materialize_grads = true};
        ok = y && tp_gradients(TP_LIST(tp_sum(y)), TP_LIST(x), NULL, &g, &options) &&
             tp_backward(tp_sum(g), .inputs = TP_LIST(x));
        if (ok && tp_apply(&same, NULL, TP_LIST(x), &y, 1)) tp_backward(tp_sum(y));
        tp_node_release(node);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fail_each_allocation(a_bit_of_everything);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(nodes_are_one_address_each),
        CASE(a_node_runs_by_itself),
        CASE(a_leafs_hooks_run_in_pytorchs_order),
        CASE(node_hooks_replace_gradients),
        CASE(retaining_is_told),
        CASE(several_roots_go_together),
        CASE(a_backward_may_be_for_chosen_inputs),
        CASE(unused_inputs_can_get_zeros),
        CASE(saved_tensors_go_through_hooks),
        CASE(packed_tensors_keep_their_history),
        CASE(pack_hooks_may_fail_and_may_not_write),
        CASE(modes_can_be_set_and_asked),
        CASE(anomalies_tell_where_the_program_was),
        CASE(gradients_that_did_not_come_are_null_or_zeros),
        CASE(an_input_returned_as_it_is_becomes_a_view),
        CASE(any_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
