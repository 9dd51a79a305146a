/* Every training of trainings.c leaves the same losses, weights and answers, bit by bit, on 1, 2, 3, 7 and 16 threads,
 * and whether a profile runs, hooks hang on its parameters, what its backward needs is packed, or its steps are
 * captured. With TAPER_TRAINING_RESULTS=FILE what they leave is written there, and tests/python/test_same_bits.py
 * compares it with what Python's leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "thread_counts.h"
#include "trainings.h"

enum { STEPS = 3, MOST = 200, NAME = 96 };

typedef enum watcher { NOBODY, PROFILE, HOOKS, PACKED, CAPTURE, WATCHERS } watcher;
static const char *const WATCHER_NAMES[WATCHERS] = {"nobody", "profile", "hooks", "packed", "capture"};

/* ---- What a training leaves ---- */
typedef struct left {
    int64_t n;
    char names[MOST][NAME];
    tp_tensor *tensors[MOST]; /* owned */
} left;

static void note(left *l, const training *t, const char *what, const char *name, tp_tensor *x) {
    if (!x) fail_msg("%s: %s", t->name, tp_error());
    assert_true(l->n < MOST);
    assert_true(snprintf(l->names[l->n], NAME, "%s/%s %s", t->name, what, name) < NAME);
    TP_NO_GRAD
        TP_SCOPE
            l->tensors[l->n++] = tp_own(tp_contiguous(tp_clone(tp_detach(x))));
}

static void note_numbered(left *l, const training *t, const char *what, int i, tp_tensor *x) {
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    note(l, t, what, number, x);
}

static void forget(left *l) {
    for (int64_t i = 0; i < l->n; i++) tp_release(l->tensors[i]);
    l->n = 0;
}

static void assert_same(const left *a, const left *b, const char *how, int threads) {
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) {
        assert_string_equal(a->names[i], b->names[i]);
        size_t bytes = (size_t)tp_numel(a->tensors[i]) * (size_t)tp_dtype_size(tp_dtype_of(a->tensors[i]));
        if (bytes && memcmp(tp_data(a->tensors[i]), tp_data(b->tensors[i]), bytes))
            fail_msg("%s, %d threads: other bits in %s", how, threads, a->names[i]);
    }
}

/* ---- Watchers ---- */
static tp_tensor *see_gradient(tp_tensor *grad, void *context) {
    (void)grad;
    (void)context;
    return NULL;
}
static bool see_leaf(tp_tensor *leaf, void *context) {
    (void)leaf;
    (void)context;
    return true;
}
static void *pack(tp_tensor *t, void *context) {
    (void)context;
    return tp_own(tp_clone(tp_detach(t)));
}
static tp_tensor *unpack(void *packed, void *context) {
    (void)context;
    return tp_own(tp_clone(packed));
}
static void drop(void *packed, void *context) {
    (void)context;
    tp_release(packed);
}

static tp_profile *begin_watching(watcher w, tp_state parameters) {
    if (w == PACKED)
        assert_true(tp_push_saved_hooks(&(tp_saved_hooks){sizeof(tp_saved_hooks), pack, unpack, drop, NULL, NULL}));
    for (int64_t i = 0; w == HOOKS && i < parameters.n; i++) {
        assert_true(tp_add_hook(parameters.tensors[i], see_gradient, NULL, NULL));
        assert_true(tp_add_accumulated_hook(parameters.tensors[i], see_leaf, NULL, NULL));
    }
    return w == PROFILE ? tp_profile_start(NULL) : NULL;
}

static void end_watching(watcher w, tp_profile *profile) {
    if (w == PACKED) assert_true(tp_pop_saved_hooks());
    if (w == PROFILE) assert_true(profile && tp_profile_stop(profile) && tp_profile_count(profile) > 0);
    tp_profile_free(profile);
}

/* ---- One training ---- */
static tp_tensor *step(const training *t, tp_module *net, tp_optimiser *optimiser, tp_tensor *x, tp_tensor *y) {
    tp_optimiser_zero_grad(optimiser);
    tp_tensor *loss = t->loss(tp_forward(net, x), y);
    return tp_backward(loss) && tp_step(optimiser) ? loss : NULL;
}

static void steps(const training *t, tp_module *net, tp_optimiser *optimiser, tp_tensor *x, tp_tensor *y, bool captured,
                  left *l) {
    tp_compiled *graph = NULL;
    for (int i = 0; i < STEPS; i++)
        TP_SCOPE {
            tp_tensor *loss = NULL;
            if (graph) {
                tp_compiled_run(graph, TP_LIST(x, y), &loss);
            } else {
                tp_capture *capture = captured ? tp_capture_begin(TP_LIST(x, y)) : NULL;
                loss = step(t, net, optimiser, x, y);
                if (captured && !(graph = tp_capture_end(capture, TP_LIST(loss))))
                    fail_msg("%s: %s", t->name, tp_error());
            }
            note_numbered(l, t, "loss", i, loss);
        }
    tp_compiled_release(graph);
}

static void evaluate(const training *t, tp_module *net, tp_tensor *x, bool captured, left *l) {
    tp_compiled *graph = NULL;
    tp_module_train(net, false);
    for (int i = 0; i < 2; i++)
        TP_NO_GRAD
            TP_SCOPE {
                tp_tensor *out = NULL;
                tp_manual_seed(8);
                if (graph) {
                    tp_compiled_run(graph, TP_LIST(x), &out);
                } else {
                    tp_capture *capture = captured ? tp_capture_begin(TP_LIST(x)) : NULL;
                    out = tp_forward(net, x);
                    if (captured && !(graph = tp_capture_end(capture, TP_LIST(out))))
                        fail_msg("%s: %s", t->name, tp_error());
                }
                note_numbered(l, t, "evaluated", i, out);
            }
    tp_compiled_release(graph);
}

static void train(const training *t, int threads, watcher w, left *l) {
    tp_set_num_threads(threads);
    tp_manual_seed(5);
    tp_module *net = t->network();
    TP_SCOPE {
        tp_tensor *x, *y;
        t->data(&x, &y);
        if (!tp_ok()) fail_msg("%s: %s", t->name, tp_error());
        tp_state parameters = tp_module_parameters(net), all = tp_module_state(net);
        tp_optimiser *optimiser = t->optimiser(tp_list(parameters.n, parameters.tensors));
        tp_manual_seed(7);
        tp_profile *profile = begin_watching(w, parameters);
        steps(t, net, optimiser, x, y, w == CAPTURE, l);
        evaluate(t, net, x, w == CAPTURE, l);
        end_watching(w, profile);
        for (int64_t i = 0; i < all.n; i++) note(l, t, "state", all.names[i], all.tensors[i]);
        for (int64_t i = 0; i < parameters.n; i++)
            note(l, t, "gradient", parameters.names[i], tp_grad(parameters.tensors[i]));
        tp_optimiser_free(optimiser);
        tp_state_free(parameters);
        tp_state_free(all);
    }
    tp_module_release(net);
    if (!tp_ok()) fail_msg("%s: %s", t->name, tp_error());
    tp_set_num_threads(0);
}

/* ---- The tests ---- */
static left alone, other;

static void threads_leave_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < training_count; i++) {
        train(&trainings[i], 1, NOBODY, &alone);
        for (int k = 0; k < THREAD_COUNTS; k++) {
            if (!worth_comparing(thread_counts[k])) continue;
            train(&trainings[i], thread_counts[k], NOBODY, &other);
            assert_same(&alone, &other, "nobody", thread_counts[k]);
            forget(&other);
        }
        forget(&alone);
    }
}

static void watchers_leave_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < training_count; i++) {
        train(&trainings[i], 1, NOBODY, &alone);
        for (int w = PROFILE; w < WATCHERS; w++)
            for (int threads = 1; threads < 4; threads += 2) {
                train(&trainings[i], threads, (watcher)w, &other);
                assert_same(&alone, &other, WATCHER_NAMES[w], threads);
                forget(&other);
            }
        forget(&alone);
    }
}

/* For Python. */
static void results_are_written(void **state) {
    (void)state;
    static left all[64];
    static const char *names[64 * MOST];
    static tp_tensor *tensors[64 * MOST];
    const char *file = getenv("TAPER_TRAINING_RESULTS");
    int64_t n = 0;
    if (!file) return;
    assert_true(training_count <= 64);
    for (int i = 0; i < training_count; i++) {
        train(&trainings[i], 2, NOBODY, &all[i]);
        for (int64_t k = 0; k < all[i].n; k++) {
            names[n] = all[i].names[k];
            tensors[n++] = all[i].tensors[k];
        }
    }
    if (!tp_save(file, n, names, tensors)) fail_msg("%s", tp_error());
    for (int i = 0; i < training_count; i++) forget(&all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_leave_the_same_bits),
                                       cmocka_unit_test(watchers_leave_the_same_bits),
                                       cmocka_unit_test(results_are_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
