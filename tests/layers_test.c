/* Every layer of tables/layers on its samples: it is built, called and differentiated; the same seed gives the same
 * bits; copies of its state give the same answers. With TAPER_LAYER_RESULTS=FILE everything it computed is written
 * there, for the Python test to compare. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "layer_samples.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is written down ---- */
enum { MOST = 20000 };
static char *names[MOST];
static tp_tensor *tensors[MOST];
static int64_t count;

static void note(const layer_sample *s, const char *what, const char *name, tp_tensor *t) {
    assert_true(count < MOST);
    size_t n = strlen(s->layer) + strlen(what) + strlen(name) + 32;
    names[count] = malloc(n);
    snprintf(names[count], n, "%s/%d/%s/%s", s->layer, s->number, what, name);
    TP_NO_GRAD
        TP_SCOPE
            tensors[count++] = tp_own(tp_clone(tp_detach(t)));
}

static void note_text(const layer_sample *s, const char *text) {
    int64_t n = (int64_t)strlen(text);
    tp_tensor *t = tp_empty(TP_INTS(n), .dtype = TP_UINT8);
    memcpy(tp_data(t), text, (size_t)n);
    note(s, "text", "repr", t);
    tp_release(t);
}

static void note_state(const layer_sample *s, const char *what, tp_module *m) {
    tp_state state = tp_module_state(m);
    assert_true(state.n >= 0);
    for (int64_t i = 0; i < state.n; i++) note(s, what, state.names[i], state.tensors[i]);
    tp_state_free(state);
}

/* ---- one sample ---- */
static tp_tensor *call(const layer_sample *s, tp_module *m, tp_tensor *first, const tp_value *rest) {
    tp_value args[9] = {tp_value_tensor(first)};
    for (int i = 1; i < s->ninputs; i++) args[i] = rest[i];
    tp_manual_seed(2);
    return tp_forward_one(m, s->ninputs, args);
}

static void run(const layer_sample *s) {
    tp_manual_seed(0);
    tp_module *m = NULL;
    TP_SCOPE
        m = s->make();
    if (!m) fail_msg("%s(%s): %s", s->layer, s->text, tp_error());
    tp_module_train(m, !s->eval);
    char text[4096];
    assert_true(tp_module_format(m, text, sizeof text) > 0);
    note_text(s, text);
    note_state(s, "state", m);
    TP_SCOPE {
        tp_manual_seed(1);
        tp_value inputs[9];
        for (int i = 0; i < s->ninputs; i++) inputs[i] = tp_value_tensor(layer_tensor(s->inputs[i]));
        tp_tensor *x = inputs[0].as.tensor;
        if (!strcmp(s->layer, "Linear") && strstr(s->text, "float64")) x = tp_to(x, .dtype = TP_FLOAT64);
        bool floating = tp_dtype_is_floating(tp_dtype_of(x));
        if (floating) tp_set_requires_grad(x, true);
        tp_tensor *out = call(s, m, floating ? tp_mul(x, 1) : x, inputs);
        if (!out) fail_msg("%s(%s): %s", s->layer, s->text, tp_error());
        note(s, "out", "0", out);
        if (tp_requires_grad(out)) {
            if (!tp_backward(tp_sum(tp_mul(out, out)))) fail_msg("%s(%s): %s", s->layer, s->text, tp_error());
            if (floating && tp_grad(x)) note(s, "grad", "input", tp_grad(x));
            tp_state parameters = tp_module_parameters(m);
            for (int64_t i = 0; i < parameters.n; i++)
                if (tp_grad(parameters.tensors[i]))
                    note(s, "grad", parameters.names[i], tp_grad(parameters.tensors[i]));
            tp_state_free(parameters);
        }
        note_state(s, "after", m);
        if (!tp_ok()) fail_msg("%s(%s): %s", s->layer, s->text, tp_error());
        if (m) tp_module_zero_grad(m);
    }
    tp_module_release(m);
}

static void test_samples(void **state) {
    (void)state;
    const char *only = getenv("TAPER_TEST_LAYER");
    for (int i = 0; i < layer_sample_count; i++)
        if (!only || !strcmp(only, layer_samples[i].layer)) run(&layer_samples[i]);
    const char *file = getenv("TAPER_LAYER_RESULTS");
    if (file && !tp_save(file, count, (const char *const *)names, tensors)) fail_msg("%s", tp_error());
    for (int64_t i = 0; i < count; i++) {
        free(names[i]);
        tp_release(tensors[i]);
    }
    count = 0;
}

/* The state of one copied into another, drawn otherwise: the same answers. */
static void test_state_moves(void **state) {
    (void)state;
    for (int i = 0; i < layer_sample_count; i++) {
        const layer_sample *s = &layer_samples[i];
        tp_manual_seed(0);
        tp_module *a = NULL, *b = NULL;
        TP_SCOPE
            a = s->make(), b = s->make();
        tp_module_train(a, false);
        tp_module_train(b, false);
        tp_state from = tp_module_state(a);
        if (!tp_module_load(b, from.n, from.names, from.tensors, true))
            fail_msg("%s(%s): %s", s->layer, s->text, tp_error());
        TP_NO_GRAD
            TP_SCOPE {
                tp_value inputs[9];
                tp_manual_seed(1);
                for (int k = 0; k < s->ninputs; k++) inputs[k] = tp_value_tensor(layer_tensor(s->inputs[k]));
                tp_tensor *x = inputs[0].as.tensor;
                if (strstr(s->text, "float64")) x = tp_to(x, .dtype = TP_FLOAT64);
                tp_tensor *one = call(s, a, tp_is_view(x) ? x : tp_clone(x), inputs),
                          *two = call(s, b, tp_clone(x), inputs);
                if (!one || !two || !tp_equal(one, two))
                    fail_msg("%s(%s): a copied state answers otherwise: %s", s->layer, s->text,
                             tp_error() ? tp_error() : "");
            }
        tp_state_free(from);
        tp_module_release(a);
        tp_module_release(b);
    }
}

/* Drawn anew from the seed it was made with, a layer is the one that was made. */
static void test_resets(void **state) {
    (void)state;
    for (int i = 0; i < layer_sample_count; i++) {
        const layer_sample *s = &layer_samples[i];
        if (!strncmp(s->layer, "Transformer", 11))
            continue; /* copies of one layer at first, each drawn by itself later */
        tp_module *m = NULL;
        TP_SCOPE {
            tp_manual_seed(3);
            m = s->make();
            tp_module *other = tp_module_clone(m);
            tp_state own = tp_module_state(m), copy = tp_module_state(other);
            bool weighted = strstr(s->text, "weight=") != NULL; /* given tensors drew from the stream */
            for (int64_t k = 0; k < copy.n; k++)
                TP_NO_GRAD
                    if (!weighted) tp_fill_(copy.tensors[k], 7);
            tp_manual_seed(3);
            if (!tp_module_reset(other)) fail_msg("%s(%s): %s", s->layer, s->text, tp_error());
            for (int64_t k = 0; k < own.n; k++)
                if (!weighted && !tp_equal(own.tensors[k], copy.tensors[k]))
                    fail_msg("%s(%s): '%s' is drawn otherwise", s->layer, s->text, own.names[k]);
            tp_state_free(own);
            tp_state_free(copy);
            tp_module_release(other);
        }
        tp_module_release(m);
    }
}

int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_state_moves),
                                     cmocka_unit_test(test_resets)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
