/* Indices out of range on a GPU: the call returns, the next wait raises an IndexError that names operator, index and
 * size, nothing was written at a place that was not asked for, and the device goes on. On whichever GPU is there,
 * PoCL's counts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "device/gpu/driver.h"

static tp_device gpu;
static const tp_device cpu = {TP_CPU, 0};

static int find(void **s) {
    (void)s;
    setenv("TAPER_XPU_DEVICES", "all", 0);
    if (tpi_cuda_driver.count() > 0)
        gpu = (tp_device){TP_CUDA, 0};
    else if (tpi_opencl_driver.count() > 0)
        gpu = (tp_device){TP_XPU, 0};
    return 0;
}

static void need_device(void) {
    if (gpu.type) return;
    print_message("SKIPPED: no GPU and no OpenCL device here (%s; %s)\n", tpi_cuda_driver.missing(),
                  tpi_opencl_driver.missing());
    skip();
}

static tp_tensor *numbers(tp_ints shape, const int64_t *v) {
    return tp_to(tp_from_data(v, TP_INT64, shape), .device = gpu);
}

/* There is an error, about this operator, index and size; it is taken. */
static void expect(bool waited, const char *operator, long long index, long long size) {
    char text[128];
    snprintf(text, sizeof text, "%s: index %lld is out of bounds for a dimension with size %lld", operator, index,
             size);
    assert_false(waited);
    assert_int_equal(tp_error_code(), TP_ERR_INDEX);
    if (!strstr(tp_error(), text)) fail_msg("expected '%s', got '%s'", text, tp_error());
    tp_error_clear();
    assert_true(tp_gpu_synchronize(gpu)); /* told once */
}

static bool fetched(tp_tensor *t) {
    if (!t) fail_msg("%s", tp_error());
    return tp_to(t, .device = cpu) != NULL;
}

static void operators_are_named(void **s) {
    (void)s;
    need_device();
    TP_SCOPE {
        tp_tensor *x = tp_full(TP_INTS(5, 3), 2.0, .device = gpu), *bad = numbers(TP_INTS(2), (int64_t[]){0, 7}),
                  *row = numbers(TP_INTS(1, 3), (int64_t[]){1, 9, 2});
        expect(fetched(tp_index_select(x, 0, bad)), "index_select", 7, 5);
        expect(fetched(tp_embedding(bad, x)), "embedding", 7, 5);
        expect(fetched(tp_gather(x, 0, row)), "gather", 9, 5);
        expect(fetched(tp_scatter_add(x, 0, row, x)), "scatter_add", 9, 5);
        expect(fetched(tp_index_add(x, 0, bad, tp_ones(TP_INTS(2, 3), .device = gpu))), "index_add", 7, 5);
        expect(fetched(tp_cross_entropy(x, numbers(TP_INTS(5), (int64_t[]){0, 1, 3, 0, -100}))), "cross_entropy", 3, 3);
        expect(fetched(tp_nll_loss(x, numbers(TP_INTS(5), (int64_t[]){0, 1, -1, 0, 0}))), "nll_loss", -1, 3);
        expect(fetched(tp_index_put(x, tp_list(1, (tp_tensor *[]){numbers(TP_INTS(1), (int64_t[]){-6})}),
                                    tp_ones(TP_INTS(1, 3), .device = gpu))),
               "index_put", -6, 5);
    }
}

static void expect_text(bool waited, const char *text) {
    assert_false(waited);
    if (!strstr(tp_error(), text)) fail_msg("expected '%s', got '%s'", text, tp_error());
    tp_error_clear();
    assert_true(tp_gpu_synchronize(gpu));
}

static void probabilities_are_looked_at(void **s) {
    (void)s;
    need_device();
    TP_SCOPE {
        tp_tensor *fine = tp_full(TP_INTS(2, 3), 0.5, .device = gpu),
                  *above = tp_full(TP_INTS(2, 3), 1.5, .device = gpu),
                  *below = tp_full(TP_INTS(2, 3), -0.5, .device = gpu);
        tp_tensor *none = tp_full(TP_INTS(2, 3), 0.0, .device = gpu), *nan = tp_full(TP_INTS(3), NAN, .device = gpu),
                  *labels = numbers(TP_INTS(2), (int64_t[]){1, 4});
        assert_true(fetched(tp_bernoulli(fine)));
        assert_true(fetched(tp_bernoulli(none)));
        assert_true(fetched(tp_multinomial(fine, 2)));
        assert_true(fetched(tp_multinomial(above, 1)));
        assert_true(fetched(tp_one_hot(labels, .num_classes = 5)));
        expect_text(fetched(tp_bernoulli(above)), "bernoulli: expected probabilities in [0, 1]");
        expect_text(fetched(tp_bernoulli(nan)), "bernoulli: expected probabilities in [0, 1]");
        expect_text(fetched(tp_multinomial(below, 1)),
                    "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
        expect_text(fetched(tp_multinomial(nan, 2, .replacement = true)),
                    "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
        expect_text(fetched(tp_multinomial(none, 1)),
                    "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
        expect(fetched(tp_one_hot(labels, .num_classes = 3)), "one_hot", 4, 3);
        const int64_t steps[] = {4, 4}, lengths[] = {2, 2};
        expect(fetched(tp_ctc_loss_IntList(tp_zeros(TP_INTS(4, 2, 3), .device = gpu),
                                           numbers(TP_INTS(2, 2), (int64_t[]){1, 2, 9, 1}), tp_ints_view(steps, 2),
                                           tp_ints_view(lengths, 2))),
               "ctc_loss", 9, 3);
    }
}

static void every_wait_tells(void **s) {
    (void)s;
    need_device();
    TP_SCOPE {
        tp_tensor *x = tp_full(TP_INTS(5, 3), 2.0, .device = gpu), *bad = numbers(TP_INTS(2), (int64_t[]){0, 7});
        assert_non_null(tp_index_select(x, 0, bad));
        expect(tp_gpu_synchronize(gpu), "index_select", 7, 5);
        assert_non_null(tp_index_select(x, 0, bad));
        expect(tp_stream_synchronize(gpu, NULL), "index_select", 7, 5);
        assert_non_null(tp_index_select(x, 0, bad));
        tp_mark *mark = tp_mark_new((tp_device_type)gpu.type, false);
        assert_true(mark);
        assert_true(tp_mark_record(mark, gpu, NULL));
        expect(tp_mark_synchronize(mark), "index_select", 7, 5);
        tp_mark_free(mark);
        assert_non_null(tp_index_select(x, 0, bad));
        tp_item(tp_sum(x));
        expect(tp_ok(), "index_select", 7, 5);
        assert_true(tp_item(tp_sum(x)) == 30);
    }
}

static void nothing_else_is_written(void **s) {
    (void)s;
    need_device();
    TP_SCOPE {
        tp_tensor *row = numbers(TP_INTS(1, 3), (int64_t[]){1, 9, -1}), *source = tp_ones(TP_INTS(1, 3), .device = gpu);
        tp_tensor *put = tp_scatter(tp_zeros(TP_INTS(5, 3), .device = gpu), 0, row, source),
                  *added = tp_scatter_add(tp_zeros(TP_INTS(5, 3), .device = gpu), 0, row, source);
        assert_true(put);
        assert_true(added);
        assert_false(tp_gpu_synchronize(gpu));
        tp_error_clear();
        assert_true(tp_item(tp_sum(put)) == 1);
        assert_true(tp_item(tp_sum(added)) == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operators_are_named),
                                       cmocka_unit_test(probabilities_are_looked_at),
                                       cmocka_unit_test(every_wait_tells), cmocka_unit_test(nothing_else_is_written)};
    return cmocka_run_group_tests(tests, find, NULL);
}
