/* Optimisers from C: constructors with options, groups, state by name, L-BFGS; for every optimiser of the table:
 * threads, dtypes, layouts, failing allocations. That the numbers are PyTorch's is tests/python/test_optim.py's matter,
 * which runs the same code. */
#include "tape_fixture.h"

static const tp_optimiser_kind *each_kind(int64_t i) { return tp_optimiser_kind_at(i); }
static bool needs_closure(const tp_optimiser_kind *kind) { return !strcmp(kind->name, "LBFGS"); }
#define EACH_KIND(kind)                                                 \
    for (int64_t each_ = 0; each_ < tp_optimiser_kind_count(); each_++) \
        for (const tp_optimiser_kind *kind = each_kind(each_); kind && !needs_closure(kind); kind = NULL)

/* ---- By hand ---- */
static void a_training_loop(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(32, 3)), *truth = tp_reshape(VECTOR(1, -2, 0.5), TP_INTS(1, 3));
        tp_tensor *y = tp_add(tp_linear(x, truth), 0.25), *weight = tp_set_requires_grad(tp_zeros(TP_INTS(1, 3)), true),
                  *bias = LEAF(0);
        tp_optimiser *adam = tp_adam(TP_LIST(weight, bias), .lr = 0.05, .betas = {0.8, 0.99});
        for (int step = 0; step < 400; step++)
            TP_SCOPE {
                tp_optimiser_zero_grad(adam);
                tp_backward(tp_mse_loss(tp_linear(x, weight, .bias = bias), y));
                tp_step(adam);
            }
        assert_true(tp_ok());
        for (int i = 0; i < 3; i++)
            assert_true(fabs(tp_item(tp_sub(tp_select(tp_reshape(weight, TP_INTS(-1)), 0, i),
                                            tp_select(tp_reshape(truth, TP_INTS(-1)), 0, i)))) < 1e-3);
        assert_true(fabs(tp_item(bias) - 0.25) < 1e-3);
        tp_optimiser_free(adam);
    }
}

static void a_network_trains(void **state) {
    (void)state;
    TP_SCOPE {
        tp_manual_seed(0);
        tp_tensor *x = tp_reshape(VECTOR(0, 0, 0, 1, 1, 0, 1, 1), TP_INTS(4, 2)),
                  *y = tp_reshape(VECTOR(0, 1, 1, 0), TP_INTS(4, 1));
        tp_module *net = tp_nn_sequential(tp_nn_linear(2, 16), tp_nn_tanh(), tp_nn_linear(16, 1));
        tp_state all = tp_module_parameters(net);
        tp_optimiser *adam = tp_adam(tp_list(all.n, all.tensors), .lr = 1e-2);
        tp_schedule *schedule = tp_cosine_annealing_lr(adam, .T_max = 500);
        for (int step = 0; step < 500; step++)
            TP_SCOPE {
                tp_optimiser_zero_grad(adam);
                tp_backward(tp_mse_loss(tp_forward(net, x), y));
                tp_step(adam);
                tp_schedule_step(schedule);
            }
        assert_true(tp_ok());
        assert_true(tp_item(tp_mse_loss(tp_forward(net, x), y)) < 1e-3);
        tp_schedule_free(schedule);
        tp_optimiser_free(adam);
        tp_state_free(all);
        tp_module_release(net);
    }
}

static void steps_are_pytorchs(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p = LEAF(1, 2);
        tp_optimiser *sgd = tp_sgd(TP_LIST(p), .lr = 0.1, .momentum = 0.9, .weight_decay = 0.5);
        for (int i = 0; i < 2; i++) {
            assert_true(tp_set_grad(p, VECTOR(1, -1)));
            assert_true(tp_step(sgd));
        }
        ASSERT_VALUES(p, 0.5725f,
                      2); /* 1 - 0.1 * 1.5 - 0.1 * (0.9 * 1.5 + 1.425); the other gradient and the decay cancel */
        ASSERT_VALUES(tp_optimiser_state(sgd, 0, "momentum_buffer"), 2.775f, 0);
        tp_optimiser_free(sgd);
    }
}

static void groups_and_options(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = LEAF(1), *b = LEAF(1), *c = LEAF(1);
        tp_optimiser *sgd = tp_sgd(TP_LIST(a), .lr = 0.5);
        assert_int_equal(tp_optimiser_add_group(sgd, TP_LIST(b, c)), 1);
        assert_int_equal(tp_optimiser_groups(sgd), 2);
        assert_ptr_equal(tp_optimiser_params(sgd, 1).v[1], c);
        assert_true(tp_optimiser_set_option(sgd, 1, "lr", 0.25));
        assert_true(tp_optimiser_option(sgd, 0, "lr") == 0.5);
        assert_true(tp_optimiser_option(sgd, 1, "lr") == 0.25);
        /* c has none: it stays */
        tp_set_grad(a, VECTOR(1));
        tp_set_grad(b, VECTOR(2));
        assert_true(tp_step(sgd));
        ASSERT_VALUES(a, 0.5f);
        ASSERT_VALUES(b, 0.5f);
        ASSERT_VALUES(c, 1);
        assert_true(tp_optimiser_zero_grad(sgd));
        assert_null(tp_grad(b));
        assert_true(tp_optimiser_set_option(sgd, -1, "lr", 2));
        assert_true(tp_optimiser_option(sgd, 0, "lr") == 2);
        assert_true(tp_optimiser_option(sgd, 1, "lr") == 2);
        assert_int_equal(tp_optimiser_add_group(sgd, TP_LIST(a)), -1);
        assert_error("SGD: some parameters appear in more than one parameter group");
        assert_true(isnan(tp_optimiser_option(sgd, 0, "beta1")));
        assert_error("SGD has no option 'beta1'");
        assert_false(tp_optimiser_set_option(sgd, 2, "lr", 1));
        assert_error("expected 0 to 1, got 2");
        tp_optimiser_free(sgd);
    }
}

static void bad_options_are_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p = LEAF(1);
        assert_null(tp_adam(TP_LIST(p), .lr = -1));
        assert_error("Adam: Invalid learning rate: -1");
        assert_null(tp_adamw(TP_LIST(p), .betas = {0.9, 1}));
        assert_error("AdamW: Invalid beta parameter at index 1: 1");
        assert_null(tp_rprop(TP_LIST(p), .etas = {1.5, 2}));
        assert_error("Rprop: Invalid eta values: 1.5, 2");
        assert_null(tp_muon(TP_LIST(p), .adjust_lr_fn = "other"));
        assert_error("option 'adjust_lr_fn' cannot be 'other'");
        assert_null(tp_sgd(((tp_tensors){NULL, 0})));
        assert_error("optimizer got an empty parameter list");
        assert_null(tp_sgd(TP_LIST(tp_mul(p, 2))));
        assert_error("can't optimize a non-leaf Tensor");
        tp_optimiser *muon = tp_muon(TP_LIST(p));
        tp_set_grad(p, VECTOR(1));
        assert_false(tp_step(muon));
        assert_error("Muon only supports 2D real parameters");
        ASSERT_VALUES(p, 1);
        tp_optimiser_free(muon);
        tp_tensor *same = tp_set_requires_grad(tp_detach(tp_expand(VECTOR(1), TP_INTS(3))), true);
        tp_optimiser *sgd = tp_sgd(TP_LIST(same));
        tp_set_grad(same, VECTOR(1, 1, 1));
        assert_false(tp_step(sgd));
        assert_error("elements of a parameter of shape [3] share memory");
        tp_optimiser_free(sgd);
        tp_optimiser_free(NULL);
    }
}

static void state_by_name(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p = LEAF(1, 2), *q = LEAF(1, 2), *g = VECTOR(0.5, -1);
        tp_optimiser *one = tp_adam(TP_LIST(p), .lr = 0.1), *two = tp_adam(TP_LIST(q), .lr = 0.1);
        assert_null(tp_optimiser_state(one, 0, "exp_avg"));
        assert_true(tp_ok());
        tp_set_grad(p, g);
        assert_true(tp_step(one));
        assert_true(tp_step(one));
        for (int64_t k = 0; k < tp_optimiser_kind_of(one)->nstates; k++) {
            const char *name = tp_optimiser_kind_of(one)->states[k];
            if (tp_optimiser_state(one, 0, name))
                assert_true(tp_optimiser_set_state(two, 0, name, tp_optimiser_state(one, 0, name)));
        }
        TP_NO_GRAD
            tp_copy_(q, p);
        tp_set_grad(q, g);
        assert_true(tp_step(one));
        assert_true(tp_step(two));
        float a[2], b[2];
        tp_copy_out(p, a, sizeof a);
        tp_copy_out(q, b, sizeof b);
        assert_memory_equal(a, b, sizeof a);
        assert_true(tp_item(tp_optimiser_state(two, 0, "step")) == 3);
        assert_false(tp_optimiser_set_state(two, 0, "exp_avg", VECTOR(1, 2, 3)));
        assert_error("state 'exp_avg': expected shape [2], got [3]");
        assert_false(tp_optimiser_set_state(two, 0, "max_exp_avg_sq", VECTOR(1, 2)));
        assert_error("has no state 'max_exp_avg_sq' under its group's options");
        assert_null(tp_optimiser_state(two, 0, "nothing"));
        assert_error("Adam has no state 'nothing'");
        assert_null(tp_optimiser_state(two, 1, "step"));
        assert_error("the optimiser has no such parameter");
        tp_optimiser_free(one);
        tp_optimiser_free(two);
    }
}

static tp_tensor *rosenbrock(void *context) {
    tp_tensor *x = context, *a = tp_select(x, 0, 0), *b = tp_select(x, 0, 1);
    tp_zero_grad(x);
    tp_tensor *loss = tp_add(tp_square(tp_sub(1, a)), tp_mul(100, tp_square(tp_sub(b, tp_square(a)))));
    return tp_backward(loss) ? loss : NULL;
}
static tp_tensor *failing(void *context) {
    static int calls;
    return ++calls % 3 ? rosenbrock(context) : NULL;
}

static void lbfgs_minimises(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_to(VECTOR(-1.2f, 1), .dtype = TP_FLOAT64), true);
        tp_optimiser *lbfgs = tp_lbfgs(TP_LIST(x), .line_search_fn = "strong_wolfe");
        assert_false(tp_step(lbfgs));
        assert_error("call tp_step_with and give it a closure");
        double loss = 0;
        for (int i = 0; i < 6; i++) assert_true(tp_step_with(lbfgs, rosenbrock, x, i ? NULL : &loss));
        assert_true(fabs(loss - 24.2) < 1e-4);
        const double want[2] = {0.999981422769541, 0.9999619659070429}; /* where PyTorch stops, too */
        for (int i = 0; i < 2; i++) assert_true(fabs(tp_item(tp_select(x, 0, i)) - want[i]) < 1e-9);
        tp_optimiser_free(lbfgs);

        tp_tensor *y = LEAF(-1.2f, 1);
        lbfgs = tp_lbfgs(TP_LIST(y));
        assert_false(tp_step_with(lbfgs, failing, y, NULL)); /* its third call fails: everything is as before */
        tp_error_clear();
        ASSERT_VALUES(y, -1.2f, 1);
        tp_optimiser_free(lbfgs);
    }
}

/* ---- For every optimiser of the table ---- */
enum { PARAMS = 4 };

/* Parameters of several shapes, one of them turned over in memory. */
static void make_params(tp_tensor **p, tp_dtype dtype) {
    const tp_ints shapes[PARAMS] = {TP_INTS(7, 5), TP_INTS(3, 40), TP_INTS(16, 16), TP_INTS(130, 600)};
    tp_manual_seed(5);
    for (int i = 0; i < PARAMS; i++) {
        tp_tensor *t = tp_to(tp_randn(shapes[i]), .dtype = dtype);
        p[i] = tp_set_requires_grad(tp_detach(i == 2 ? tp_t(t) : t), true);
    }
}
static void give_grads(tp_tensor **p, int step) {
    tp_manual_seed(100 + (uint64_t)step);
    for (int i = 0; i < PARAMS; i++)
        tp_set_grad(p[i], step == 1 && i == 1 ? NULL : tp_to(tp_randn(tp_shape(p[i])), .dtype = tp_dtype_of(p[i])));
}
static uint64_t checksum(tp_tensor *t) {
    uint64_t h = 1469598103934665603u;
    TP_SCOPE {
        tp_tensor *c = tp_contiguous(tp_detach(t));
        const unsigned char *bytes = tp_data(c);
        for (int64_t i = 0; i < tp_numel(c) * tp_item_bytes(c); i++) h = (h ^ bytes[i]) * 1099511628211u;
    }
    return h;
}

static void the_bits_do_not_depend_on_threads(void **state) {
    (void)state;
    const int threads[] = {1, 2, 3, 7};
    EACH_KIND(kind) {
        uint64_t want[PARAMS] = {0};
        for (int k = 0; k < 4; k++)
            TP_SCOPE {
                tp_tensor *p[PARAMS];
                tp_set_num_threads(threads[k]);
                make_params(p, TP_FLOAT32);
                tp_optimiser *o = tp_optimiser_new(kind, tp_list(PARAMS, p), NULL);
                for (int step = 0; step < 3; step++) {
                    give_grads(p, step);
                    assert_true(tp_step(o));
                }
                for (int i = 0; i < PARAMS; i++) {
                    if (!k)
                        want[i] = checksum(p[i]);
                    else if (want[i] != checksum(p[i]))
                        fail_msg("%s: other bits with %d threads", kind->name, threads[k]);
                }
                tp_optimiser_free(o);
            }
    }
    tp_set_num_threads(0);
}

static void half_precision_computes_in_float(void **state) {
    (void)state;
    const tp_dtype dtypes[] = {TP_BFLOAT16, TP_FLOAT16, TP_FLOAT64};
    EACH_KIND(kind) for (int k = 0; k < 3; k++) TP_SCOPE {
        tp_tensor *p[PARAMS], *q[PARAMS];
        make_params(q, dtypes[k]);
        for (int i = 0; i < PARAMS; i++) p[i] = tp_set_requires_grad(tp_to(tp_detach(q[i]), .dtype = TP_FLOAT32), true);
        tp_optimiser *one = tp_optimiser_new(kind, tp_list(PARAMS, p), NULL),
                     *two = tp_optimiser_new(kind, tp_list(PARAMS, q), NULL);
        give_grads(q, 0);
        for (int i = 0; i < PARAMS; i++) tp_set_grad(p[i], tp_to(tp_grad(q[i]), .dtype = TP_FLOAT32));
        assert_true(tp_step(one));
        assert_true(tp_step(two));
        for (int i = 0; i < PARAMS; i++) {
            assert_int_equal(tp_dtype_of(q[i]), dtypes[k]);
            if (!tp_allclose(tp_to(tp_detach(q[i]), .dtype = TP_FLOAT32), tp_detach(p[i]), .rtol = 2e-2, .atol = 1e-2))
                fail_msg("%s in %s", kind->name, tp_dtype_name(dtypes[k]));
        }
        tp_optimiser_free(one);
        tp_optimiser_free(two);
    }
}

/* Every allocation of a first step and of a second one fails in turn: parameters and state stay as they are, and the
 * step can be taken again. */
static void failing_allocations_change_nothing(void **state) {
    (void)state;
    EACH_KIND(kind) for (int before = 0; before < 2; before++) TP_SCOPE {
        tp_tensor *p[PARAMS];
        make_params(p, TP_FLOAT32);
        tp_optimiser *o = tp_optimiser_new(kind, tp_list(PARAMS, p), NULL);
        if (before) {
            give_grads(p, 0);
            assert_true(tp_step(o));
        }
        give_grads(p, 2);
        uint64_t params[PARAMS], states[PARAMS][8] = {{0}};
        for (int i = 0; i < PARAMS; i++) {
            params[i] = checksum(p[i]);
            for (int64_t k = 0; k < kind->nstates; k++)
                if (tp_optimiser_state(o, i, kind->states[k]))
                    states[i][k] = checksum(tp_optimiser_state(o, i, kind->states[k]));
        }
        bool done = false;
        for (int64_t nth = 1; !done; nth++) {
            tpi_alloc_fail_at(nth, false);
            done = tp_step(o);
            tpi_alloc_fail_at(0, false);
            tp_error_clear();
            if (nth > 3000) fail_msg("%s never gets through", kind->name);
            for (int i = 0; !done && i < PARAMS; i++) {
                if (params[i] != checksum(p[i]))
                    fail_msg("%s: allocation %d changed a parameter", kind->name, (int)nth);
                for (int64_t k = 0; k < kind->nstates; k++) {
                    tp_tensor *s = tp_optimiser_state(o, i, kind->states[k]);
                    if ((s ? checksum(s) : 0) != states[i][k])
                        fail_msg("%s: allocation %d changed %s", kind->name, (int)nth, kind->states[k]);
                }
            }
        }
        tp_optimiser_free(o);
    }
}

static void failing_allocations_when_made(void **state) {
    (void)state;
    EACH_KIND(kind) TP_SCOPE {
        tp_tensor *p[PARAMS];
        make_params(p, TP_FLOAT32);
        tp_optimiser *o = NULL;
        for (int64_t nth = 1; !o; nth++) {
            tpi_alloc_fail_at(nth, false);
            o = tp_optimiser_new(kind, tp_list(PARAMS, p), NULL);
            tpi_alloc_fail_at(0, false);
            tp_error_clear();
        }
        tp_optimiser_free(o);
    }
}

static void the_table_can_be_asked(void **state) {
    (void)state;
    assert_null(tp_optimiser_kind_named("Nothing"));
    assert_true(tp_ok());
    const tp_optimiser_kind *adamw = tp_optimiser_kind_named("AdamW");
    assert_string_equal(adamw->like, "Adam");
    assert_string_equal(adamw->values[1], "beta1");
    assert_true(adamw->defaults[0] == 1e-3);
    assert_true(tp_optimiser_check(adamw, adamw->defaults) == -1);
    assert_string_equal(adamw->values[adamw->lr], "lr");
    assert_string_equal(adamw->values[adamw->momentum], "beta1");
    const tp_optimiser_kind *sgd = tp_optimiser_kind_named("SGD");
    assert_string_equal(sgd->values[sgd->momentum], "momentum");
    assert_int_equal(tp_optimiser_kind_named("Adagrad")->momentum, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_training_loop),
        CASE(a_network_trains),
        CASE(steps_are_pytorchs),
        CASE(groups_and_options),
        CASE(bad_options_are_refused),
        CASE(state_by_name),
        CASE(lbfgs_minimises),
        CASE(the_bits_do_not_depend_on_threads),
        CASE(half_precision_computes_in_float),
        CASE(failing_allocations_change_nothing),
        CASE(failing_allocations_when_made),
        CASE(the_table_can_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
