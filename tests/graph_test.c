/* Graphs from C: captured once, run on other values; chains that run as one, gradients, parameters that change, and
 * what cannot be captured. */
#include <stdio.h>
#include <string.h>
#include <taper/clip.h>
#include <taper/graph.h>
#include <taper/io.h>
#include <taper/optim.h>
#include "graph/graph.h"
#include "tape_fixture.h"
#include "tensor/tensor.h"

static tp_tensor *chain(tp_tensor *x, tp_tensor *y) {
    return tp_add(tp_mul(tp_tanh(tp_add(tp_mul(x, 1.5), y)), tp_sigmoid(y)), x);
}

static tp_compiled *capture_chain(tp_tensor *x, tp_tensor *y) {
    tp_capture *c = tp_capture_begin(TP_LIST(x, y));
    assert_non_null(c);
    assert_true(tp_capturing());
    tp_tensor *z = chain(x, y);
    tp_compiled *g = tp_capture_end(c, TP_LIST(z));
    if (!g) fail_msg("%s", tp_error());
    assert_false(tp_capturing());
    return g;
}

static void assert_same(tp_tensor *a, tp_tensor *b) {
    if (!a || !b) fail_msg("no tensor: %s", tp_error() ? tp_error() : "and no error");
    assert_int_equal(tp_numel(a), tp_numel(b));
    assert_int_equal(tp_dtype_of(a), tp_dtype_of(b));
    assert_memory_equal(tp_data(tp_contiguous(a)), tp_data(tp_contiguous(b)), tp_numel(a) * tp_item_bytes(a));
}

static void a_chain_is_one_step_with_the_same_bits(void **state) {
    (void)state;
    TP_SCOPE {
        for (int i = 0; i < 3; i++) { /* one block; blocks with a rest; several chunks */
            int64_t n = i == 0 ? 7 : i == 1 ? 1303 : 70001;
            tp_compiled *g = capture_chain(tp_randn(TP_INTS(n)), tp_randn(TP_INTS(n)));
            assert_int_equal(tp_compiled_steps(g), 1);
            tp_tensor *x = tp_randn(TP_INTS(n)), *y = tp_randn(TP_INTS(n)), *z = NULL;
            assert_true(tp_compiled_run(g, TP_LIST(x, y), &z));
            assert_same(z, chain(x, y));
            tp_compiled_release(g);
        }
    }
}

static void broadcast_strided_and_mixed_operands_join_too(void **state) {
    (void)state;
    TP_SCOPE {
        for (int i = 0; i < 2; i++) {
            int64_t c = i ? 300 : 20;
            tp_tensor *x = tp_randn(TP_INTS(c, 40)), *b = tp_randn(TP_INTS(c)),
                      *h = tp_to(tp_randn(TP_INTS(40, c)), .dtype = TP_BFLOAT16), *z = NULL;
            tp_capture *cap = tp_capture_begin(TP_LIST(x, b, h));
            tp_tensor *y = tp_mul(tp_exp(tp_mul(h, 0.5)), tp_add(tp_t(x), b));
            tp_tensor *m = tp_where(tp_gt(y, 0.0), y, tp_mul(y, 0.1));
            tp_compiled *g = tp_capture_end(cap, TP_LIST(m));
            assert_non_null(g);
            tp_tensor *x2 = tp_randn(TP_INTS(c, 40)), *b2 = tp_randn(TP_INTS(c)),
                      *h2 = tp_to(tp_randn(TP_INTS(40, c)), .dtype = TP_BFLOAT16);
            assert_true(tp_compiled_run(g, TP_LIST(x2, b2, h2), &z));
            tp_tensor *y2 = tp_mul(tp_exp(tp_mul(h2, 0.5)), tp_add(tp_t(x2), b2));
            assert_same(z, tp_where(tp_gt(y2, 0.0), y2, tp_mul(y2, 0.1)));
            tp_compiled_release(g);
        }
    }
}

static int64_t allocated(void) {
    tp_memory_stats stats = {.size = sizeof stats};
    assert_true(tp_memory_query(&stats));
    return stats.allocated;
}

/* A capture holds on to what was made only as long as the program does, however it was looked at. */
/* Where the order of a maximum's operands shows: what is no number, and zeros of either sign. */
static tp_tensor *bounded(int which, tp_tensor *x, tp_tensor *y) {
    switch (which) {
    case 0: return tp_neg(tp_maximum(x, y));
    case 1: return tp_neg(tp_minimum(x, y));
    case 2: return tp_maximum(x, tp_neg(y)); /* what is in the register comes second */
    case 3: return tp_minimum(x, tp_neg(y));
    case 4: return tp_neg(tp_clamp(x, .min = tp_float(0)));
    case 5: return tp_neg(tp_clamp(x, .max = tp_float(-0.0)));
    case 6: return tp_neg(tp_clamp(x, .min = tp_float(-1), .max = tp_float(0)));
    case 7: return tp_abs(tp_relu6(tp_mul(x, 2.0)));
    default: return tp_neg(tp_leaky_relu(tp_mul(x, 0.5), .negative_slope = tp_float(-0.25)));
    }
}

static void bounds_in_registers_have_the_same_bits(void **state) {
    (void)state;
    static const float odd[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, -NAN, 7, 0.5f, -0.5f};
    enum { KINDS = sizeof odd / sizeof *odd, N = 8 * KINDS * KINDS + 5 };
    float a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = odd[i % KINDS];
        b[i] = odd[i / KINDS % KINDS];
    }
    for (int which = 0; which < 9; which++)
        TP_SCOPE {
            tp_tensor *x = tp_from_data(a, TP_FLOAT32, TP_INTS(N)), *y = tp_from_data(b, TP_FLOAT32, TP_INTS(N)),
                      *z = NULL;
            tp_capture *c = tp_capture_begin(TP_LIST(x, y));
            tp_tensor *first = bounded(which, x, y);
            tp_compiled *g = tp_capture_end(c, TP_LIST(first));
            if (!g) fail_msg("%s", tp_error());
            assert_int_equal(tp_compiled_steps(g), 1);
            assert_true(tp_compiled_run(g, TP_LIST(x, y), &z));
            assert_same(z, first);
            tp_compiled_release(g);
        }
}

/* Sums of cheap chains, which reach no memory: rows that are whole groups of lanes and others, in pieces, with one
 * number per row, with values that stay, under any stride. */
static tp_tensor *summed(int which, tp_tensor *x, tp_tensor *y, tp_tensor **kept) {
    switch (which) {
    case 0: return tp_sum(tp_relu(tp_add(tp_mul(x, 2.0), 1.0)), .dim = TP_INTS(-1));
    case 1: return tp_mean(tp_square(tp_sub(x, y)));
    case 2: return tp_mean(tp_square(tp_sub(x, tp_mean(x, .dim = TP_INTS(-1), .keepdim = true))), .dim = TP_INTS(-1));
    case 3: return tp_sum(tp_abs(tp_sub(x, y)));
    case 4: return tp_sum(tp_sub(x, y), .dim = TP_INTS(1));
    case 5: return tp_sum(tp_mul(*kept = tp_add(x, y), 3.0), .dim = TP_INTS(1));
    case 6: return tp_sum(tp_neg(*kept = tp_mul(tp_add(x, y), x)), .dim = TP_INTS(0));
    case 7: return tp_sum(tp_div(tp_sub(tp_select(y, 1, 0), tp_select(x, 1, 0)), y), .dim = TP_INTS(1));
    case 8: return tp_mean(tp_square(tp_sub(tp_t(x), tp_t(y))), .dim = TP_INTS(0));
    case 9: return tp_sum(tp_leaky_relu(tp_add(x, y), .negative_slope = tp_float(0.1)), .dim = TP_INTS(1));
    case 10: return tp_mean(tp_clamp(x, .min = tp_float(-0.5), .max = tp_float(0.75)), .dim = TP_INTS(1));
    case 12: return tp_amax(tp_abs(tp_sub(x, y)), .dim = TP_INTS(1));
    case 13: return tp_amax(tp_mul(tp_div(y, tp_relu(x)), 2.0), .dim = TP_INTS(1)); /* some rows hold infinities */
    case 14:
        return tp_amax(tp_div(tp_relu(x), tp_mul(tp_relu(x), 1.0)), .dim = TP_INTS(1)); /* and some what is no number */
    case 11: return tp_sum(tp_maximum(tp_minimum(x, y), tp_mul(x, 0.5)), .dim = TP_INTS(1));
    default:
        return tp_sum(tp_mul(tp_sub(tp_slice(x, .dim = 1, .start = 1), 0.5), tp_slice(y, .dim = 1, .start = 1)),
                      .dim = TP_INTS(1));
    }
}

static void sums_of_chains_have_the_same_bits(void **state) {
    (void)state;
    static const int64_t lengths[] = {7, 31, 32, 48, 64, 96, 1000, 1024, 1056, 2048, 5000, 12320};
    for (int which = 0; which < 16; which++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            TP_SCOPE {
                int64_t rows = which == 7 ? lengths[k] : 6;
                tp_tensor *x = tp_randn(TP_INTS(rows, lengths[k])), *y = tp_randn(TP_INTS(rows, lengths[k])), *kept = x,
                          *z[2] = {NULL}, *same = x;
                if (tp_numel(x) > 4000000) continue;
                tp_capture *c = tp_capture_begin(TP_LIST(x, y));
                tp_tensor *first = summed(which, x, y, &kept);
                tp_compiled *g = tp_capture_end(c, TP_LIST(first, kept));
                if (!g) fail_msg("%s", tp_error());
                x = tp_randn(TP_INTS(rows, lengths[k]));
                y = tp_randn(TP_INTS(rows, lengths[k]));
                same = x;
                assert_true(tp_compiled_run(g, TP_LIST(x, y), z));
                assert_same(z[0], summed(which, x, y, &same));
                assert_same(z[1], same);
                tp_compiled_release(g);
            }
}

/* What a running sum gives ends in a map, in a program, in one that reads it again after a first result, or not at all,
 * since it is a result itself. */
static int over_a_sum(int which, tp_tensor *x, tp_tensor **out) {
    tp_tensor *y = tp_cumsum(x, 1);
    if (which == 0) {
        out[0] = tp_tanh(y);
        return 1;
    }
    if (which == 1) {
        out[0] = tp_mul(tp_tanh(y), 0.5);
        return 1;
    }
    if (which == 2) {
        out[0] = tp_mul(y, 2.0);
        out[1] = tp_sub(tp_exp(out[0]), y);
        return 2;
    }
    if (which == 3) {
        out[0] = tp_mul(tp_tanh(y), 0.5);
        out[1] = y;
        return 2;
    }
    out[0] = tp_mul(tp_tanh(y), 0.5);
    out[1] = tp_sum(tp_t(y), .dim = TP_INTS(0));
    return 2;
}

static int results_over_operands(const tp_compiled *g) {
    int n = 0;
    for (int32_t i = 0; i < g->nsteps; i++)
        for (int k = 0; g->steps[i].over && k < g->steps[i].nout; k++) n += g->steps[i].over[k] > 0;
    return n;
}

static void results_take_over_memory_that_ends(void **state) {
    (void)state;
    static const int expected[] = {1, 1, 1, 0, 0};
    for (int which = 0; which < 5; which++)
        for (int64_t n = 30; n < 100000; n *= 50)
            TP_SCOPE {
                tp_tensor *x = tp_mul(tp_randn(TP_INTS(3, n)), 0.01), *first[2], *got[2], *want[2];
                tp_capture *c = tp_capture_begin(TP_LIST(x));
                int count = over_a_sum(which, x, first);
                tp_compiled *g = tp_capture_end(c, tp_list(count, first));
                if (!g) fail_msg("%s", tp_error());
                assert_int_equal(results_over_operands(g), expected[which]);
                for (int k = 0; k < 2; k++) {
                    x = tp_mul(tp_randn(TP_INTS(3, n)), 0.01);
                    assert_true(tp_compiled_run(g, TP_LIST(x), got));
                    over_a_sum(which, x, want);
                    for (int i = 0; i < count; i++) assert_same(got[i], want[i]);
                }
                tp_compiled_release(g);
            }
}

static void a_capture_keeps_no_memory_of_the_past(void **state) {
    (void)state;
    enum { STEPS = 20 };
    const int64_t n = 1 << 18, bytes = n * 4;
    tp_tensor *x = tp_ones(TP_INTS(n)), *t = tp_retain(x), *again = NULL;
    tp_capture *c = tp_capture_begin(TP_LIST(x));
    const int64_t before = allocated();
    for (int i = 0; i < STEPS; i++) {
        tp_tensor *had = t;
        TP_SCOPE
            t = tp_keep(tp_view(tp_cumsum(tp_t(tp_view(t, TP_INTS(n / 64, 64))), 1), TP_INTS(n)));
        tp_release(had);
    }
    assert_true(allocated() - before < 4 * bytes);
    tp_compiled *g = tp_capture_end(c, TP_LIST(t));
    if (!g) fail_msg("%s", tp_error());
    TP_SCOPE {
        assert_true(tp_compiled_run(g, TP_LIST(x), &again));
        assert_same(again, t);
    }
    tp_release(t);
    tp_release(x);
    tp_compiled_release(g);
}

static tp_tensor *loss_of(tp_tensor *x, tp_tensor *w, tp_tensor *b) {
    tp_tensor *h = tp_relu_(tp_linear(x, w, .bias = b));
    return tp_sum(tp_mul(chain(h, h), h));
}

static void gradients_flow_and_parameters_stay_live(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *w = tp_set_requires_grad(tp_randn(TP_INTS(5, 3)), true),
                  *b = tp_set_requires_grad(tp_randn(TP_INTS(5)), true), *x = tp_randn(TP_INTS(4, 3));
        tp_capture *c = tp_capture_begin(TP_LIST(x));
        tp_tensor *first = loss_of(x, w, b);
        tp_compiled *g = tp_capture_end(c, TP_LIST(first));
        assert_non_null(g);
        assert_true(tp_backward(first)); /* the captured call keeps its own history */
        for (int i = 0; i < 3; i++) {
            tp_tensor *x2 = tp_randn(TP_INTS(4, 3)), *got = NULL;
            tp_zero_grad(w);
            tp_zero_grad(b);
            tp_tensor *want = loss_of(x2, w, b);
            assert_true(tp_backward(want));
            tp_tensor *dw = tp_clone(tp_grad(w)), *db = tp_clone(tp_grad(b));
            tp_zero_grad(w);
            tp_zero_grad(b);
            assert_true(tp_compiled_fits(g, TP_LIST(x2)));
            assert_true(tp_compiled_run(g, TP_LIST(x2), &got));
            assert_same(got, want);
            assert_string_equal(tp_grad_fn_name(got), "CompiledFunctionBackward");
            if (!tp_backward(got)) fail_msg("%s", tp_error());
            assert_same(tp_grad(w), dw);
            assert_same(tp_grad(b), db);
            TP_NO_GRAD
                tp_add_(w, tp_grad(w), .alpha = tp_float(-0.1)); /* the next round sees it */
        }
        tp_tensor *got = NULL;
        assert_true(tp_compiled_run(g, TP_LIST(x), &got));
        tp_mul_(x, 2);
        assert_false(tp_backward(got));
        assert_error("modified by an inplace operation");
        tp_compiled_release(g);
    }
}

static void no_graph_of_what_looks_at_values(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2, 3);
        tp_capture *c = tp_capture_begin(TP_LIST(x));
        tp_tensor *y = tp_item(tp_sum(x)) > 0 ? tp_mul(x, 2) : x;
        assert_non_null(tp_capture_broken(c));
        ASSERT_VALUES(y, 2, 4, 6); /* the program itself runs on */
        assert_null(tp_capture_end(c, TP_LIST(y)));
        assert_error("a value of a tensor is looked at");
        c = tp_capture_begin(TP_LIST(x));
        y = tp_masked_select(x, tp_gt(x, 1.5));
        assert_null(tp_capture_end(c, TP_LIST(y)));
        assert_error("masked_select");
    }
}

static void other_shapes_and_modes_do_not_fit(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2, 3), *z = NULL;
        tp_compiled *g = capture_chain(x, x);
        assert_true(tp_compiled_fits(g, TP_LIST(x, x)));
        assert_false(tp_compiled_fits(g, TP_LIST(x, VECTOR(1, 2, 3)))); /* it was one tensor twice */
        assert_false(tp_compiled_fits(g, TP_LIST(VECTOR(1, 2), VECTOR(1, 2))));
        TP_NO_GRAD
            assert_false(tp_compiled_fits(g, TP_LIST(x, x)));
        assert_false(tp_compiled_run(g, TP_LIST(VECTOR(1, 2), VECTOR(1, 2)), &z));
        assert_error("expected float32 of shape [3]");
        tp_compiled_release(g);
    }
}

static void random_numbers_are_drawn_anew(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_ones(TP_INTS(64)), *a = NULL, *b = NULL;
        tp_capture *c = tp_capture_begin(TP_LIST(x));
        tp_tensor *y = tp_dropout(x, .p = 0.5);
        tp_compiled *g = tp_capture_end(c, TP_LIST(y));
        assert_non_null(g);
        tp_manual_seed(3);
        assert_true(tp_compiled_run(g, TP_LIST(x), &a));
        assert_true(tp_compiled_run(g, TP_LIST(x), &b));
        assert_memory_not_equal(tp_data(a), tp_data(b), 256);
        tp_manual_seed(3);
        assert_same(a, tp_dropout(x, .p = 0.5));
        tp_compiled_release(g);
    }
}

static void a_saved_graph_runs_alone(void **state) {
    (void)state;
    TP_SCOPE {
        const char *path = "graph_test.pt";
        tp_tensor *w = tp_randn(TP_INTS(4, 3)), *x = tp_randn(TP_INTS(2, 3)), *got = NULL;
        tp_capture *c = tp_capture_begin(TP_LIST(x));
        tp_tensor *y = tp_softmax(chain(tp_linear(x, w), tp_t(tp_randn(TP_INTS(4, 2)))), -1);
        tp_compiled *g = tp_capture_end(c, TP_LIST(y));
        assert_non_null(g);
        assert_true(tp_compiled_save(g, path, "a note"));
        tp_compiled_release(g);
        g = tp_compiled_load(path);
        if (!g) fail_msg("%s", tp_error());
        assert_string_equal(tp_compiled_note(g), "a note");
        assert_int_equal(tp_compiled_inputs(g), 1);
        tp_dtype dtype;
        tp_ints shape;
        assert_true(tp_compiled_input(g, 0, &dtype, &shape));
        assert_true(dtype == TP_FLOAT32);
        assert_true(shape.n == 2);
        assert_true(shape.v[0] == 2);
        assert_true(shape.v[1] == 3);
        tp_manual_seed(11);
        assert_true(tp_compiled_run(g, TP_LIST(x), &got)); /* the randn of the capture is a step: it is drawn again */
        tp_manual_seed(11);
        assert_same(got, tp_softmax(chain(tp_linear(x, w), tp_t(tp_randn(TP_INTS(4, 2)))), -1));
        tp_compiled_release(g);
        assert_null(tp_compiled_load("no such file"));
        tp_error_clear();
        remove(path);
    }
}

/* ---- Sizes that a file says may change ---- */
static void put_all(tp_file *f, tp_saved *into, const char *key, tp_ints v) {
    tp_saved *list = tp_put_list(f, into, key);
    for (int64_t i = 0; i < v.n; i++) tp_put_number(f, list, NULL, tp_int(v.v[i]));
}
static void put_a_value(tp_file *f, tp_saved *values, int64_t kind, int64_t number, int64_t rows) {
    tp_saved *v = tp_put_list(f, values, NULL);
    put_all(f, v, NULL, TP_INTS(kind, TP_FLOAT32, number, 0, 0));
    put_all(f, v, NULL, TP_INTS(rows, 4));
    put_all(f, v, NULL, TP_INTS(4, 1));
}
static void put_a_rule(tp_file *f, tp_saved *rules, int64_t value, int64_t list, double factor) {
    tp_saved *rule = tp_put_list(f, rules, NULL), *path = tp_put_list(f, rule, NULL),
             *terms = tp_put_list(f, rule, NULL), *term = tp_put_list(f, terms, NULL);
    tp_put_text(f, path, NULL, "values");
    tp_put_number(f, path, NULL, tp_int(value));
    tp_put_number(f, path, NULL, tp_int(list));
    tp_put_number(f, path, NULL, tp_int(0));
    tp_put_number(f, term, NULL, tp_float(factor));
    put_all(f, term, NULL, TP_INTS(0));
}

/* exp of (n, 4) and of (2 n + 1, 4), captured for an n of 3; n is from 1 to 40. A rule of list 7 leads nowhere. */
static bool write_sized(const char *path, int64_t list) {
    tp_file *f = tp_new_file();
    tp_put_text(f, NULL, "format", "taper.graph 1");
    put_all(f, NULL, "inputs", TP_INTS(0, 1));
    put_all(f, NULL, "outputs", TP_INTS(2, 3));
    tp_saved *values = tp_put_list(f, NULL, "values"), *steps = tp_put_list(f, NULL, "steps"),
             *sizes = tp_put_dict(f, NULL, "sizes");
    for (int i = 0; i < 4; i++) put_a_value(f, values, i < 2 ? TPI_VALUE_INPUT : TPI_VALUE_MADE, i % 2, i % 2 ? 7 : 3);
    for (int i = 0; i < 2; i++) {
        tp_saved *step = tp_put_dict(f, steps, NULL);
        tp_put_text(f, step, "kind", "map");
        tp_put_text(f, step, "op", "exp");
        put_all(f, step, "in", TP_INTS(i));
        put_all(f, step, "out", TP_INTS(2 + i));
        tp_put_number(f, step, "inplace", tp_truth(false));
        tp_put_none(f, tp_put_list(f, step, "numbers"), NULL);
        tp_put_list(f, step, "params");
    }
    tp_saved *symbol = tp_put_list(f, tp_put_list(f, sizes, "symbols"), NULL),
             *saved_dims = tp_put_list(f, sizes, "places"), *rules = tp_put_list(f, sizes, "rules");
    tp_put_text(f, symbol, NULL, "n");
    for (int i = 0; i < 3; i++) tp_put_number(f, symbol, NULL, tp_int((const int64_t[]){3, 1, 40}[i]));
    for (int i = 0; i < 2; i++) {
        tp_saved *dims = tp_put_list(f, saved_dims, NULL);
        put_all(f, dims, NULL, TP_INTS(0, i ? 2 : 1, i));
        tp_put_none(f, dims, NULL);
    }
    for (int i = 0; i < 4; i++) put_a_rule(f, rules, i, list, i % 2 ? 2 : 1);
    bool ok = tp_save_file(f, path);
    tp_close_file(f);
    return ok;
}

static void a_saved_graph_runs_at_other_sizes(void **state) {
    (void)state;
    const char *path = "graph_sizes_test.pt";
    assert_true(write_sized(path, 1));
    tp_compiled *g = tp_compiled_load(path);
    if (!g) fail_msg("%s", tp_error());
    int64_t least, most;
    assert_true(tp_compiled_input_dim(g, 1, 0, &least, &most));
    assert_true(least == 3);
    assert_true(most == 81);
    assert_true(tp_compiled_input_dim(g, 1, 1, &least, &most));
    assert_true(least == 4);
    assert_true(most == 4);
    for (int64_t k = 0; k < 100; k++)
        TP_SCOPE { /* more than are kept, and some of them again */
            int64_t n = 1 + (k < 3 ? 3 - k : k * 7 % 40);
            tp_tensor *x = tp_randn(TP_INTS(n, 4)), *y = tp_randn(TP_INTS(2 * n + 1, 4)), *got[2];
            TP_NO_GRAD
                assert_true(tp_compiled_fits(g, TP_LIST(x, y)));
            if (!tp_compiled_run(g, TP_LIST(x, y), got)) fail_msg("%s", tp_error());
            assert_same(got[0], tp_exp(x));
            assert_same(got[1], tp_exp(y));
        }
    TP_SCOPE {
        tp_tensor *got[2];
        assert_false(tp_compiled_run(g, TP_LIST(tp_zeros(TP_INTS(41, 4)), tp_zeros(TP_INTS(83, 4))), got));
        assert_error("expected dim 0 of the tensor at index 0 (n) to be from 1 to 40, got 41");
        assert_false(tp_compiled_run(g, TP_LIST(tp_zeros(TP_INTS(5, 4)), tp_zeros(TP_INTS(13, 4))), got));
        assert_error("expected n to be 5 as in an input before, got 6");
        assert_false(tp_compiled_run(g, TP_LIST(tp_zeros(TP_INTS(5, 4)), tp_zeros(TP_INTS(12, 4))), got));
        assert_error("in steps");
        assert_false(tp_compiled_run(g, TP_LIST(tp_zeros(TP_INTS(5, 3)), tp_zeros(TP_INTS(11, 4))), got));
        assert_error("expected float32 of shape [5, 4]");
        TP_NO_GRAD
            assert_false(tp_compiled_fits(g, TP_LIST(tp_zeros(TP_INTS(5, 4)), tp_zeros(TP_INTS(13, 4)))));
    }
    tp_compiled_release(g);
    assert_true(write_sized(path, 7));
    assert_null(tp_compiled_load(path));
    assert_error("leads nowhere");
    remove(path);
}

static void capture_and_run(void) {
    TP_SCOPE {
        tp_tensor *w = tp_set_requires_grad(tp_ones(TP_INTS(2, 3)), true), *x = tp_ones(TP_INTS(4, 3)), *y = NULL,
                  *got = NULL;
        tp_capture *c = tp_capture_begin(TP_LIST(x));
        if (!c) continue;
        y = tp_sum(chain(tp_linear(x, w), tp_linear(x, w)));
        if (!y) {
            tp_capture_cancel(c);
            continue;
        }
        tp_compiled *g = tp_capture_end(c, TP_LIST(y));
        if (g && tp_compiled_run(g, TP_LIST(x), &got)) tp_backward(got);
        tp_compiled_release(g);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fail_each_allocation(capture_and_run);
}

static void load_and_resize(void) {
    TP_SCOPE {
        tp_compiled *g = tp_compiled_load("graph_sizes_test.pt");
        tp_tensor *x = tp_zeros(TP_INTS(5, 4)), *y = tp_zeros(TP_INTS(11, 4)), *got[2];
        if (g && x && y) tp_compiled_run(g, TP_LIST(x, y), got);
        tp_compiled_release(g);
    }
}
static void any_allocation_of_a_resized_graph_may_fail(void **state) {
    (void)state;
    assert_true(write_sized("graph_sizes_test.pt", 1));
    fail_each_allocation(load_and_resize);
    remove("graph_sizes_test.pt");
}

/* A whole step: gradients are forgotten, flow back, are clipped, and the optimiser steps. */
static tp_tensor *train_step(tp_optimiser *o, tp_tensor *x, tp_tensor *w, tp_tensor *b) {
    tp_optimiser_zero_grad(o);
    tp_tensor *loss = loss_of(x, w, b);
    if (!tp_backward(loss)) return NULL;
    tp_tensor *grads[] = {tp_grad(w), tp_grad(b)}, *norm = tp_total_norm(tp_list(2, grads), 2);
    return tp_clip_to_norm(tp_list(2, grads), 0.5, norm) && tp_step(o) ? loss : NULL;
}

static void a_whole_training_step(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *w[2], *b[2], *first = tp_randn(TP_INTS(4, 3));
        tp_optimiser *o[2];
        for (int i = 0; i < 2; i++) {
            tp_manual_seed(3);
            w[i] = tp_set_requires_grad(tp_randn(TP_INTS(5, 3)), true);
            b[i] = tp_set_requires_grad(tp_randn(TP_INTS(5)), true);
            o[i] = tp_adam(TP_LIST(w[i], b[i]), .lr = 0.05);
        }
        tp_capture *c = tp_capture_begin(TP_LIST(first));
        tp_tensor *loss = train_step(o[0], first, w[0], b[0]);
        tp_compiled *g = tp_capture_end(c, TP_LIST(loss));
        if (!g) fail_msg("%s", tp_error());
        assert_same(loss, train_step(o[1], first, w[1], b[1]));
        for (int i = 0; i < 4; i++) {
            tp_tensor *x = tp_randn(TP_INTS(4, 3)), *got = NULL;
            if (i == 2)
                assert_true(tp_optimiser_set_option(o[0], 0, "lr", 0.5) && tp_optimiser_set_option(o[1], 0, "lr", 0.5));
            assert_true(tp_compiled_fits(g, TP_LIST(x)));
            assert_true(tp_compiled_run(g, TP_LIST(x), &got));
            assert_same(got, train_step(o[1], x, w[1], b[1]));
            assert_same(w[0], w[1]);
            assert_same(b[0], b[1]);
            assert_same(tp_grad(w[0]), tp_grad(w[1]));
            assert_true(tp_requires_grad(got));
            assert_true(!tp_backward(got));
            assert_true(strstr(tp_error(), "second time"));
            tp_error_clear();
        }
        tp_compiled_release(g);
        for (int i = 0; i < 2; i++) tp_optimiser_free(o[i]);
    }
}

static void capture_and_train(void) {
    TP_SCOPE {
        tp_tensor *w = tp_set_requires_grad(tp_ones(TP_INTS(5, 3)), true),
                  *b = tp_set_requires_grad(tp_ones(TP_INTS(5)), true), *x = tp_ones(TP_INTS(4, 3)), *got = NULL;
        tp_optimiser *o = w && b ? tp_sgd(TP_LIST(w, b), .lr = 0.1) : NULL;
        tp_capture *c = o ? tp_capture_begin(TP_LIST(x)) : NULL;
        tp_tensor *loss = c ? train_step(o, x, w, b) : NULL;
        tp_compiled *g = loss ? tp_capture_end(c, TP_LIST(loss)) : NULL;
        if (c && !loss) tp_capture_cancel(c);
        if (g) tp_compiled_run(g, TP_LIST(x), &got);
        tp_compiled_release(g);
        tp_optimiser_free(o);
    }
}

static void any_allocation_of_a_training_step_may_fail(void **state) {
    (void)state;
    fail_each_allocation(capture_and_train);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_chain_is_one_step_with_the_same_bits),
        CASE(broadcast_strided_and_mixed_operands_join_too),
        CASE(bounds_in_registers_have_the_same_bits),
        CASE(sums_of_chains_have_the_same_bits),
        CASE(results_take_over_memory_that_ends),
        CASE(a_capture_keeps_no_memory_of_the_past),
        CASE(gradients_flow_and_parameters_stay_live),
        CASE(no_graph_of_what_looks_at_values),
        CASE(other_shapes_and_modes_do_not_fit),
        CASE(random_numbers_are_drawn_anew),
        CASE(a_saved_graph_runs_alone),
        CASE(a_saved_graph_runs_at_other_sizes),
        CASE(a_whole_training_step),
        CASE(any_allocation_of_a_training_step_may_fail),
        CASE(any_allocation_of_a_resized_graph_may_fail),
        CASE(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
