// The C++ face: lists, options, calls by name, blocks that break and continue leave, and layers that are made from left
// to right.
#include <taper/taper.h>
#include <complex>
#include <cstdlib>
#include <cstring>

static void expect(bool holds, const char *what) {
    if (holds) return;
    std::printf("%s: %s\n", what, tp_error() ? tp_error() : "no error");
    std::exit(1);
}

static double first(tp_module *m, const char *path) {
    TP_SCOPE_HERE;
    return tp_item(tp_select(tp_select(tp_module_tensor(m, path), 0, 0), 0, 0));
}

static void layers_are_made_from_left_to_right() {
    tp_manual_seed(1);
    tp_module *one = tp_nn_linear(3, 3), *two = tp_nn_linear(3, 3);
    tp_manual_seed(1);
    tp_module *both = tp_nn_sequential(tp_nn_linear(3, 3), tp_nn_linear(3, 3));
    expect(first(both, "0.weight") == first(one, "weight") && first(both, "1.weight") == first(two, "weight"),
           "tp_nn_sequential");
    tp_module_release(one), tp_module_release(two), tp_module_release(both);
}

static void lists_and_calls_are_evaluated_in_order() {
    TP_SCOPE_HERE;
    tp_manual_seed(2);
    double a = tp_item(tp_rand(TP_INTS(1))), b = tp_item(tp_rand(TP_INTS(1)));
    tp_manual_seed(2);
    tp_tensor *joined = tp_cat(TP_LIST(tp_rand(TP_INTS(1)), tp_rand(TP_INTS(1))));
    expect(tp_item(tp_select(joined, 0, 0)) == a && tp_item(tp_select(joined, 0, 1)) == b, "TP_LIST");
    tp_manual_seed(2);
    expect(tp_item(tp_call("sub", tp_rand(TP_INTS(1)), tp_rand(TP_INTS(1)))) == (float)a - (float)b, "tp_call");
}

static void numbers_keep_their_values() {
    TP_SCOPE_HERE;
    tp_tensor *x = tp_ones(TP_INTS(1));
    expect(tp_item(tp_mul(x, 2.5L)) == 2.5 && tp_item(tp_mul(x, 3u)) == 3 && tp_item(tp_mul(x, sizeof(char))) == 1,
           "tp_mul");
    expect(tp_item_scalar(tp_mul(x, std::complex<double>(0, 5))).as.d[1] == 5, "tp_mul with std::complex");
    expect(tp_item(tp_mul(x, 1ull << 63)) == 9223372036854775808.0, "tp_mul with 2^63");
    tp_tensor *whole = tp_to(x, {.dtype = TP_INT64});
    expect(!tp_mul(whole, 1ull << 63) && std::strstr(tp_error(), "without overflow"), "tp_mul of int64 with 2^63");
    tp_error_clear();
}

static void options_are_named() {
    TP_SCOPE_HERE;
    tp_tensor *a = tp_ones(TP_INTS(2, 2));
    expect(tp_ndim(tp_sum(a, {.dim = TP_INTS(0), .keepdim = true})) == 2, "tp_sum");
    expect(tp_item(tp_select(tp_select(tp_call("softmax", a, 1), 0, 0), 0, 0)) == 0.5, "tp_call");
    expect(!tp_dist_init({.backend = "none of that name"}), "tp_dist_init");
    tp_error_clear();
}

static void break_and_continue_reach_the_loop() {
    int runs = 0, past = 0;
    for (int i = 0; i < 10; i++) {
        TP_SCOPE {
            tp_ones(TP_INTS(2));
            runs++;
            if (i == 0) continue;
            if (i == 2) break;
        }
        past++;
    }
    expect(runs == 3 && past == 1 && tp_ok(), "TP_SCOPE");
    if (runs == 3)
        TP_NO_GRAD
            expect(!tp_grad_enabled(), "TP_NO_GRAD");
    else
        expect(false, "else belongs to the first if");
    expect(tp_grad_enabled(), "the end of TP_NO_GRAD");
}

int main() {
    layers_are_made_from_left_to_right();
    lists_and_calls_are_evaluated_in_order();
    numbers_keep_their_values();
    options_are_named();
    break_and_continue_reach_the_loop();
    return 0;
}
