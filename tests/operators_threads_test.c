/* The number of threads changes no bit of any result or gradient: every sample, and the heavy operators again at sizes
 * that are really split among threads, on 1, 2, 3, 7 and 16 threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/dtype.h"
#include "samples.h"
#include "thread_counts.h"

static bool run_on(int threads, const operator_sample *sample, const tp_operator *op, tp_dtype dtype, evaluation *e) {
    bool forward = false, fine = false;
    tp_set_num_threads(threads);
    if (!prepare(sample, dtype, PLAIN, e)) return false;
    forward = call(&e->args, &e->results);
    fine = forward && (!op->differentiable || sample->nograd || differentiate(e, false, WEIGHTS_ALL));
    if (!forward)
        tp_error_clear(); /* the values test tells */
    else if (!fine)
        report_error("backward");
    if (!fine) drop_evaluation(e);
    tp_set_num_threads(0);
    return fine;
}

static void compare(const evaluation *got, const evaluation *want, int threads) {
    for (int i = 0; i < want->results.n; i++)
        if (!same_bits(got->results.tensors[i], want->results.tensors[i]))
            report("result %d on %d threads: %s", i, threads, difference());
    for (int i = 0; i < want->n; i++)
        if (!same_bits(got->grads[i], want->grads[i]))
            report("the gradient of %s on %d threads: %s", got->args.op->args[got->args.argument[got->which[i]]].name,
                   threads, difference());
}

static void compare_thread_counts(const operator_sample *sample, const tp_operator *op, tp_dtype dtype) {
    evaluation alone, together;
    at(sample, dtype, "");
    if (leaves_memory_unset(op->name) || !run_on(1, sample, op, dtype, &alone)) return;
    for (int i = 0; i < THREAD_COUNTS; i++) {
        const int threads = thread_counts[i];
        if (!worth_comparing(threads) || !run_on(threads, sample, op, dtype, &together)) continue;
        compare(&together, &alone, threads);
        drop_evaluation(&together);
    }
    drop_evaluation(&alone);
}

static void every_count(const operator_sample *sample, const tp_operator *op) {
    static const tp_dtype dtypes[] = {TP_INT64, TP_BFLOAT16, TP_FLOAT32, TP_FLOAT64, TP_COMPLEX64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (sample_allows(sample, dtypes[i])) compare_thread_counts(sample, op, dtypes[i]);
}

static void samples_give_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    for_each_sample(false, every_count);
    fail_if_reported();
}

/* ---- Heavy operators at sizes that go parallel ---- */

#define SIZES(...) .ndim = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .shape = {__VA_ARGS__}
#define T(...) \
    { .kind = SAMPLE_TENSOR, .maker = MAKE_T, SIZES(__VA_ARGS__) }
#define POS(...) \
    { .kind = SAMPLE_TENSOR, .maker = MAKE_POS, SIZES(__VA_ARGS__) }
#define INDEX(below, ...) \
    { .kind = SAMPLE_TENSOR, .maker = MAKE_INTS, SIZES(__VA_ARGS__), .low = 0, .high = below }
#define INT(v) \
    { .kind = SAMPLE_INT, .i = v }
#define NAMED(what, v) \
    { .kind = SAMPLE_INT, .name = what, .i = v }
#define LIST(what, ...)                                                                             \
    {                                                                                               \
        .kind = SAMPLE_INTS, .name = what, .n = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
        .ints = (const int64_t[]) {                                                                 \
            __VA_ARGS__                                                                             \
        }                                                                                           \
    }
#define HEAVY(name, ...)                                                                                 \
    {                                                                                                    \
        .op = name, .file = "operators_threads_test.c", .line = __LINE__, .text = name " " #__VA_ARGS__, \
        .types = TPI_CAT_FLOAT, .nargs = sizeof((sample_value[]){__VA_ARGS__}) / sizeof(sample_value),   \
        .args = (const sample_value[]) {                                                                 \
            __VA_ARGS__                                                                                  \
        }                                                                                                \
    }

static const operator_sample heavy[] = {
    HEAVY("add", T(300, 1, 700), T(5, 700)),
    HEAVY("mul", T(1100, 700), T(700)),
    HEAVY("exp", T(1 << 20)),
    HEAVY("tanh", T(333, 1777)),
    HEAVY("gelu", T(500, 1501)),
    HEAVY("sum", T(1000003)),
    HEAVY("sum", T(1201, 777), LIST("dim", 0)),
    HEAVY("sum", T(1201, 777), LIST("dim", 1)),
    HEAVY("mean", T(64, 333, 50), LIST("dim", 0, 2)),
    HEAVY("amax", T(700, 1300), LIST("dim", 1)),
    HEAVY("logsumexp", T(700, 1300), LIST("dim", 0)),
    HEAVY("prod", POS(200003)),
    HEAVY("cumsum", T(800001), INT(0)),
    HEAVY("cumsum", T(500, 1501), INT(1)),
    HEAVY("var", T(900, 1100), LIST("dim", 0)),
    HEAVY("softmax", T(700, 1300), INT(1)),
    HEAVY("log_softmax", T(700, 1300), INT(0)),
    HEAVY("layer_norm", T(700, 1300), LIST(NULL, 1300), T(1300), T(1300)),
    HEAVY("batch_norm", T(16, 24, 40, 40), T(24), T(24), {.kind = SAMPLE_NONE}, {.kind = SAMPLE_NONE},
          {.kind = SAMPLE_BOOL, .i = 1}),
    HEAVY("matmul", T(700, 300), T(300, 500)),
    HEAVY("matmul", T(3, 129), T(129, 1000)),
    HEAVY("bmm", T(20, 64, 96), T(20, 96, 80)),
    HEAVY("linear", T(300, 500), T(400, 500), T(400)),
    HEAVY("conv2d", T(8, 16, 32, 32), T(24, 16, 3, 3), T(24)),
    HEAVY("conv2d", T(6, 16, 28, 28), T(16, 1, 3, 3), T(16), LIST("padding", 1), NAMED("groups", 16)),
    HEAVY("conv1d", T(16, 24, 500), T(32, 24, 5), T(32)),
    HEAVY("conv_transpose2d", T(6, 16, 20, 20), T(16, 12, 3, 3), T(12)),
    HEAVY("max_pool2d", T(16, 16, 64, 64), LIST(NULL, 2, 2)),
    HEAVY("avg_pool2d", T(16, 16, 64, 64), LIST(NULL, 3, 3)),
    HEAVY("index_select", T(2000, 300), INT(0), INDEX(2000, 3000)),
    HEAVY("gather", T(500, 900), INT(1), INDEX(900, 500, 1200)),
    HEAVY("embedding", INDEX(500, 64, 100), T(500, 128)),
    HEAVY("cross_entropy", T(5000, 200), INDEX(200, 5000)),
    HEAVY("sort", T(500, 1301), INT(1)),
    HEAVY("topk", T(500, 1301), INT(10)),
    HEAVY("cat", {.kind = SAMPLE_LIST, .n = 2, .items = (const sample_value[]){T(700, 500), T(700, 900)}}, INT(1)),
    HEAVY("scaled_dot_product_attention", T(4, 4, 200, 32), T(4, 4, 180, 32), T(4, 4, 180, 32)),
};

static void heavy_operators_give_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++) {
        const tp_operator *op = tp_find_operator(heavy[i].op);
        if (op)
            compare_thread_counts(&heavy[i], op, TP_FLOAT32);
        else {
            at(NULL, TP_FLOAT32, "");
            report("no operator %s", heavy[i].op);
        }
    }
    fail_if_reported();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_give_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(heavy_operators_give_the_same_bits_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
