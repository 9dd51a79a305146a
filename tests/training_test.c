/* A training that is stopped, saved and loaded into new objects goes on with the bits of one that was not stopped: with
 * every optimiser, a schedule, a scaler, dropout, and a shuffling loader in the middle of an epoch. What does not fit
 * changes nothing. */
#include "tape_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

typedef struct run { /* everything that a training has */
    tp_module *net;
    tp_optimiser *optimiser;
    tp_schedule *schedule;
    tp_scaler *scaler;
    tp_dataset *data;
    tp_loader *loader;
} run;

static run begin(const tp_optimiser_kind *kind, int64_t width) {
    run r;
    tp_manual_seed(3);
    r.net = tp_nn_sequential(tp_nn_linear(3, width), tp_nn_dropout(.p = 0.3), tp_nn_batch_norm1d(width),
                             tp_nn_linear(width, 1, .bias = false));
    tp_state all = tp_module_parameters(r.net);
    tp_tensor *matrices[2] = {tp_module_tensor(r.net, "0.weight"), tp_module_tensor(r.net, "3.weight")};
    const bool only_matrices = !strcmp(kind->name, "Muon");
    r.optimiser = tp_optimiser_new(kind, only_matrices ? tp_list(2, matrices) : tp_list(all.n, all.tensors), NULL);
    if (!r.optimiser) fail_msg("%s", tp_error());
    tp_state_free(all);
    r.schedule = tp_step_lr(r.optimiser, .step_size = 2, .gamma = 0.5);
    r.scaler = tp_scaler_new(.init_scale = 16, .growth_interval = 2);
    TP_SCOPE {
        tp_tensor *x = tp_div(tp_reshape(tp_arange(36, .dtype = TP_FLOAT32), TP_INTS(12, 3)), 10);
        r.data = tp_dataset_of_tensors(TP_LIST(x, tp_sum(x, .dim = TP_INTS(1), .keepdim = true)));
    }
    r.loader = tp_loader_new(r.data, .batch = 4, .shuffle = true);
    return r;
}
static void end(run r) {
    tp_loader_free(r.loader);
    tp_dataset_release(r.data);
    tp_scaler_free(r.scaler);
    tp_schedule_free(r.schedule);
    tp_optimiser_free(r.optimiser);
    tp_module_release(r.net);
}
static tp_training of(run *r) {
    return (tp_training)TP_TRAINING(.model = r->net, .optimiser = r->optimiser, .schedule = r->schedule,
                                    .scaler = r->scaler, .loader = r->loader);
}

static tp_tensor *closure(void *context) {
    run *r = context;
    tp_optimiser_zero_grad(r->optimiser);
    tp_tensor *loss = tp_mse_loss(tp_forward(r->net, tp_loader_field(r->loader, 0)), tp_loader_field(r->loader, 1));
    tp_backward(loss);
    return loss;
}
static double some_steps(run *r, int steps) {
    double loss = 0;
    const bool by_closure = !strcmp(tp_optimiser_kind_of(r->optimiser)->name, "LBFGS");
    for (int i = 0; i < steps; i++) {
        if (!tp_loader_next(r->loader) && !tp_loader_next(r->loader)) fail_msg("%s", tp_error());
        TP_SCOPE {
            if (by_closure)
                tp_step_with(r->optimiser, closure, r, &loss);
            else {
                tp_optimiser_zero_grad(r->optimiser);
                tp_tensor *e =
                    tp_mse_loss(tp_forward(r->net, tp_loader_field(r->loader, 0)), tp_loader_field(r->loader, 1));
                tp_backward(tp_scaler_scale(r->scaler, e));
                tp_scaler_step(r->scaler, r->optimiser);
                tp_scaler_update(r->scaler);
                loss = e ? tp_item(e) : 0;
            }
            tp_schedule_step(r->schedule);
        }
    }
    if (!tp_ok()) fail_msg("%s: %s", tp_optimiser_kind_of(r->optimiser)->name, tp_error());
    return loss;
}

static void test_goes_on_with_the_same_bits(void **state) {
    (void)state;
    for (int64_t k = 0; k < tp_optimiser_kind_count(); k++) {
        const tp_optimiser_kind *kind = tp_optimiser_kind_at(k);
        if (!strcmp(kind->name, "SparseAdam")) continue; /* takes sparse gradients */
        run first = begin(kind, 4);
        some_steps(&first, 4);
        tp_training all = of(&first);
        all.epoch = 7;
        all.step = 4;
        if (!tp_training_save(path, &all)) fail_msg("%s: %s", kind->name, tp_error());
        const double want = some_steps(&first, 4);
        run second = begin(kind, 4);
        some_steps(&second, 1); /* in another state */
        tp_training again = of(&second);
        if (!tp_training_load(path, &again)) fail_msg("%s: %s", kind->name, tp_error());
        assert_int_equal(again.epoch, 7);
        assert_int_equal(again.step, 4);
        const double got = some_steps(&second, 4);
        if (memcmp(&got, &want, sizeof got)) fail_msg("%s: %.17g, expected %.17g", kind->name, got, want);
        end(first);
        end(second);
    }
}

static void test_layout_is_pytorchs(void **state) {
    (void)state;
    run r = begin(tp_optimiser_kind_named("AdamW"), 4);
    some_steps(&r, 1);
    tp_training all = of(&r);
    assert_true(tp_training_save(path, &all));
    tp_file *file = tp_open_file(path, NULL);
    const tp_saved *value = tp_file_value(file), *optimizer = tp_saved_get(value, "optimizer");
    const tp_saved *group = tp_saved_at(tp_saved_get(optimizer, "param_groups"), 0);
    assert_int_equal(tp_saved_kind_of(tp_saved_get(group, "betas")), TP_SAVED_TUPLE);
    assert_float_equal(tp_scalar_to_double(tp_saved_number(tp_saved_get(group, "initial_lr"))), 1e-3, 0);
    assert_int_equal(tp_saved_kind_of(tp_saved_get(group, "foreach")), TP_SAVED_NONE);
    assert_int_equal(tp_saved_count(tp_saved_get(group, "params")), 5);
    const tp_saved *first = tp_saved_get_int(tp_saved_get(optimizer, "state"), 0);
    assert_int_equal(tp_saved_kind_of(tp_saved_get(first, "step")), TP_SAVED_TENSOR);
    assert_int_equal(tp_saved_kind_of(tp_saved_get(first, "exp_avg_sq")), TP_SAVED_TENSOR);
    assert_int_equal(tp_saved_count(first), 3);
    tp_saved_about about = {.size = sizeof about};
    assert_true(tp_saved_describe(tp_saved_get(value, "model"), &about));
    assert_string_equal(about.class_name, "collections.OrderedDict");
    assert_int_equal(tp_scalar_to_int(tp_saved_number(tp_saved_get(tp_saved_get(value, "lr_scheduler"), "last_epoch"))),
                     1);
    tp_close_file(file);
    if (!tp_ok()) fail_msg("%s", tp_error());
    end(r);
}

/* Nothing changes if a part does not fit, and the error says which. */
static void test_refusals_change_nothing(void **state) {
    (void)state;
    const tp_optimiser_kind *adam = tp_optimiser_kind_named("Adam");
    run wide = begin(adam, 5), r = begin(adam, 4);
    some_steps(&wide, 3);
    some_steps(&r, 1);
    tp_training saved = of(&wide), into = of(&r);
    assert_true(tp_training_save(path, &saved));
    TP_SCOPE {
        tp_tensor *weight = tp_clone(tp_module_tensor(r.net, "0.weight")), *saved_state = tp_loader_get_state(r.loader);
        tp_tensor *average = tp_clone(tp_optimiser_state(r.optimiser, 0, "exp_avg"));
        assert_false(tp_training_load(path, &into));
        assert_error("Adam: state 'exp_avg': expected shape [4, 3], got [5, 3]");
        into.optimiser = NULL;
        assert_false(tp_training_load(path, &into));
        assert_error("size mismatch for 0.weight");
        assert_true(tp_equal(weight, tp_module_tensor(r.net, "0.weight")));
        assert_true(tp_equal(saved_state, tp_loader_get_state(r.loader)));
        assert_true(tp_equal(average, tp_optimiser_state(r.optimiser, 0, "exp_avg")));
        assert_float_equal(tp_scaler_get_scale(r.scaler), 16, 0);
        tp_training little = TP_TRAINING(.model = wide.net);
        assert_true(tp_training_save(path, &little));
        assert_false(tp_training_load(path, &saved));
        assert_error("optimizer");
    }
    assert_false(tp_training_save(NULL, &saved));
    assert_error("tp_training_save: argument 'path'");
    assert_false(tp_training_load(path, NULL));
    assert_error("tp_training_load: argument 'training'");
    end(wide);
    end(r);
}

/* A state of another kind of optimiser, with its names alone as PyTorch's files have it, too; of another schedule, of
 * another loader: each is refused with what was found and what was expected. */
static void save_one(tp_optimiser *o, tp_schedule *s, bool as_pytorch) {
    tp_file *file = tp_new_file();
    if (o) assert_true(tp_put_optimiser(file, NULL, "optimizer", o));
    if (s) assert_true(tp_put_schedule(file, NULL, "lr_scheduler", s));
    tp_saved *all = (tp_saved *)(uintptr_t)tp_file_value(file);
    const char *part = o ? "optimizer" : "lr_scheduler";
    if (as_pytorch) assert_true(tp_put_none(file, (tp_saved *)(uintptr_t)tp_saved_get(all, part), "_kind"));
    assert_true(tp_save_file(file, path));
    tp_close_file(file);
}
static void test_other_optimisers_are_refused(void **state) {
    (void)state;
    tp_tensor *w = tp_set_requires_grad(tp_ones(TP_INTS(2, 2)), true);
    for (int64_t i = 0; i < tp_optimiser_kind_count(); i++) {
        const tp_optimiser_kind *saved = tp_optimiser_kind_at(i);
        tp_optimiser *from = tp_optimiser_new(saved, TP_LIST(w), NULL);
        save_one(from, NULL, false);
        for (int64_t k = 0; k < tp_optimiser_kind_count(); k++) {
            const tp_optimiser_kind *kind = tp_optimiser_kind_at(k);
            tp_optimiser *into = tp_optimiser_new(kind, TP_LIST(w), NULL);
            tp_optimiser_set_option(into, 0, "lr", 0.125);
            tp_training all = TP_TRAINING(.optimiser = into);
            const bool taken = tp_training_load(path, &all);
            if (taken != (i == k)) fail_msg("%s into %s: %s", saved->name, kind->name, tp_error());
            if (!taken) {
                char words[128];
                snprintf(words, sizeof words, "tp_training_load: the saved state is that of %s, expected that of %s",
                         saved->name, kind->name);
                assert_error(words);
                assert_float_equal(tp_optimiser_option(into, 0, "lr"), 0.125, 0);
            }
            tp_optimiser_free(into);
        }
        tp_optimiser_free(from);
    }
    tp_release(w);
}

/* What PyTorch writes has no word for the kind: names of options and states tell it. */
static void test_other_optimisers_of_pytorch_are_refused(void **state) {
    (void)state;
    const char *const kinds[] = {"Adadelta", "Adagrad", "Adam",  "AdamW",   "Adamax", "ASGD",
                                 "NAdam",    "RAdam",   "Rprop", "RMSprop", "SGD"};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++) {
            run from = begin(tp_optimiser_kind_named(kinds[i]), 4), to = begin(tp_optimiser_kind_named(kinds[k]), 4);
            if (!strcmp(kinds[i], "SGD")) tp_optimiser_set_option(from.optimiser, -1, "momentum", 0.9);
            some_steps(&from, 1);
            save_one(from.optimiser, NULL, true);
            tp_training all = TP_TRAINING(.optimiser = to.optimiser);
            const bool taken = tp_training_load(path, &all);
            if (taken != (i == k)) fail_msg("%s into %s: %s", kinds[i], kinds[k], tp_error());
            if (!taken) assert_error("tp_training_load: the saved state is that of ");
            end(from);
            end(to);
        }
}

static double half(int64_t epoch, void *context) {
    (void)epoch;
    (void)context;
    return 0.5;
}
static tp_schedule *schedule_of(const char *kind, tp_optimiser *o) {
    tp_schedule_options all = TP_DEFAULTS(SCHEDULE);
    const tp_ints milestones = TP_INTS(2, 4);
    const struct {
        const char *kind, *option;
        double value;
    } needed[] = {{"StepLR", "step_size", 2},        {"ExponentialLR", "gamma", 0.5},
                  {"CosineAnnealingLR", "T_max", 5}, {"CosineAnnealingWarmRestarts", "T_0", 3},
                  {"CyclicLR", "base_lr", 0.1},      {"CyclicLR", "max_lr", 0.2},
                  {"OneCycleLR", "max_lr", 0.2},     {"OneCycleLR", "total_steps", 10},
                  {"SWALR", "swa_lr", 0.05}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!strcmp(needed[i].kind, kind)) tp_schedule_option(&all, needed[i].option, needed[i].value);
    if (!strcmp(kind, "MultiStepLR")) all.milestones = milestones;
    if (!strcmp(kind, "LambdaLR") || !strcmp(kind, "MultiplicativeLR")) all.lr_lambda = half;
    tp_schedule *s = tp_schedule_new(kind, o, &all);
    if (!s) fail_msg("%s: %s", kind, tp_error());
    return s;
}
static void test_other_schedules_are_refused(void **state) {
    (void)state;
    const char *const kinds[] = {"LambdaLR",
                                 "MultiplicativeLR",
                                 "StepLR",
                                 "MultiStepLR",
                                 "ConstantLR",
                                 "LinearLR",
                                 "ExponentialLR",
                                 "PolynomialLR",
                                 "CosineAnnealingLR",
                                 "CosineAnnealingWarmRestarts",
                                 "CyclicLR",
                                 "OneCycleLR",
                                 "ReduceLROnPlateau",
                                 "SWALR"};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    tp_tensor *w = tp_set_requires_grad(tp_ones(TP_INTS(2, 2)), true);
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++) {
            tp_optimiser *o = tp_sgd(TP_LIST(w), .lr = 0.1, .momentum = 0.9), *p = tp_sgd(TP_LIST(w), .momentum = 0.9);
            tp_schedule *from = schedule_of(kinds[i], o), *into = schedule_of(kinds[k], p);
            if (strcmp(kinds[i], "ReduceLROnPlateau")) assert_true(tp_schedule_step(from));
            save_one(NULL, from, false);
            tp_training all = TP_TRAINING(.schedule = into);
            int64_t n;
            const double before = tp_schedule_state(into, &n)[0];
            const bool taken = tp_training_load(path, &all);
            if (taken != (i == k)) fail_msg("%s into %s: %s", kinds[i], kinds[k], tp_error());
            if (taken)
                assert_float_equal(tp_schedule_last_lr(into, 0), tp_schedule_last_lr(from, 0), 0);
            else {
                char words[128];
                snprintf(words, sizeof words, "tp_training_load: the saved state is that of %s, expected that of %s",
                         kinds[i], kinds[k]);
                assert_error(words);
                assert_float_equal(tp_schedule_state(into, &n)[0], before, 0);
            }
            tp_schedule_free(from);
            tp_schedule_free(into);
            tp_optimiser_free(o);
            tp_optimiser_free(p);
        }
    tp_release(w);
}

static void test_another_loader_is_refused(void **state) {
    (void)state;
    run from = begin(tp_optimiser_kind_named("SGD"), 4);
    some_steps(&from, 1);
    tp_training saved = TP_TRAINING(.loader = from.loader);
    assert_true(tp_training_save(path, &saved));
    tp_loader *plain = tp_loader_new(from.data, .batch = 4),
              *small = tp_loader_new(from.data, .batch = 3, .shuffle = true);
    for (int i = 0; i < 2; i++) {
        tp_loader *other = i ? small : plain;
        assert_true(tp_loader_next(other));
        tp_tensor *before = tp_own(tp_loader_get_state(other));
        tp_training into = TP_TRAINING(.loader = other);
        assert_false(tp_training_load(path, &into));
        assert_error(i ? "12 items in 3 batches of 4, shuffled, expected 12 items in 4 batches of 3, shuffled"
                       : "12 items in 3 batches of 4, shuffled, expected 12 items in 3 batches of 4");
        tp_tensor *after = tp_own(tp_loader_get_state(other));
        assert_true(tp_equal(before, after));
        tp_release(before);
        tp_release(after);
        tp_loader_free(other);
    }
    end(from);
}

/* A generator's state is looked at before the network is changed. */
static void test_a_bad_generator_changes_nothing(void **state) {
    (void)state;
    tp_module *net = tp_nn_linear(2, 1, .bias = false);
    TP_SCOPE {
        tp_file *file = tp_new_file();
        tp_saved *dict = tp_put_dict(file, NULL, "model");
        assert_true(tp_put_tensor(file, dict, "weight", tp_zeros(TP_INTS(1, 2))));
        assert_true(tp_put_tensor(file, NULL, "rng_state", tp_zeros(TP_INTS(3), .dtype = TP_UINT8)));
        assert_true(tp_put_number(file, NULL, "epoch", tp_int(1)));
        assert_true(tp_put_number(file, NULL, "step", tp_int(1)));
        assert_true(tp_save_file(file, path));
        tp_close_file(file);
        tp_tensor *weight = tp_clone(tp_module_tensor(net, "weight"));
        tp_training into = TP_TRAINING(.model = net);
        assert_false(tp_training_load(path, &into));
        assert_error("5056 bytes, got 3");
        assert_true(tp_equal(weight, tp_module_tensor(net, "weight")));
    }
    tp_module_release(net);
}

/* A load that runs out of memory leaks nothing and leaves no half-taken state. */
static void load_little(void) {
    tp_module *net = tp_nn_linear(2, 1);
    tp_state all = net ? tp_module_parameters(net) : (tp_state){NULL, NULL, -1};
    tp_optimiser *adam = all.n > 0 ? tp_adam(tp_list(all.n, all.tensors)) : NULL;
    tp_training t = TP_TRAINING(.model = net, .optimiser = adam);
    if (adam) tp_training_load(path, &t);
    tp_optimiser_free(adam);
    if (all.n >= 0) tp_state_free(all);
    tp_module_release(net);
}
static void test_failing_allocations(void **state) {
    (void)state;
    tp_module *net = tp_nn_linear(2, 1);
    tp_state all = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(all.n, all.tensors));
    TP_SCOPE
        tp_backward(tp_sum(tp_forward(net, tp_ones(TP_INTS(1, 2)))));
    assert_true(tp_step(adam));
    tp_training t = TP_TRAINING(.model = net, .optimiser = adam);
    assert_true(tp_training_save(path, &t));
    fail_each_allocation(load_little);
    tp_optimiser_free(adam);
    tp_state_free(all);
    tp_module_release(net);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    snprintf(path, sizeof path, "/tmp/taper-training-%d.pt", (int)getpid());
    const struct CMUnitTest all[] = {cmocka_unit_test(test_goes_on_with_the_same_bits),
                                     TEST(test_layout_is_pytorchs),
                                     cmocka_unit_test(test_refusals_change_nothing),
                                     TEST(test_other_optimisers_are_refused),
                                     TEST(test_other_optimisers_of_pytorch_are_refused),
                                     TEST(test_other_schedules_are_refused),
                                     TEST(test_another_loader_is_refused),
                                     TEST(test_a_bad_generator_changes_nothing),
                                     TEST(test_refusals_change_nothing),
                                     cmocka_unit_test(test_failing_allocations)};
    int failed = cmocka_run_group_tests(all, NULL, NULL);
    remove(path);
    return failed;
}
