/* Largest and smallest elements, one or some of them, of dtypes whose elements are few bits and often equal: beside
 * those of wide integers and beside the sorted row. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <taper/taper.h>

static tp_tensor *scattered(tp_ints shape, tp_dtype dtype) {
    return tp_to(tp_mul(tp_randn(shape), 200.0), .dtype = dtype);
}

/* Small integers are joined before they are widened, in columns and in rows. */
static void check_extremes(tp_dtype dtype, int64_t rows, int64_t columns) {
    TP_SCOPE {
        tp_tensor *x = scattered(TP_INTS(rows, columns), dtype), *wide = tp_to(x, .dtype = TP_INT32);
        for (int d = 0; d < 2; d++) {
            tp_tensor *most = tp_amax(x, .dim = TP_INTS(d)), *least = tp_amin(x, .dim = TP_INTS(d));
            assert_true(tp_equal(most, tp_to(tp_amax(wide, .dim = TP_INTS(d)), .dtype = dtype)));
            assert_true(tp_equal(least, tp_to(tp_amin(wide, .dim = TP_INTS(d)), .dtype = dtype)));
        }
        tp_aminmax_result both = tp_aminmax(x);
        assert_true(tp_item(both.min) == tp_item(tp_amin(wide)));
        assert_true(tp_item(both.max) == tp_item(tp_amax(wide)));
        tp_tensor *none = tp_zeros(TP_INTS(rows, columns), .dtype = dtype);
        assert_true(tp_item(tp_any(none)) == 0);
        assert_true(tp_item(tp_all(tp_eq(none, 0))) == 1);
        assert_true(tp_ok());
    }
}

static void extremes_of_small_integers(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_BOOL, TP_UINT8, TP_INT8, TP_INT16};
    static const int64_t shapes[][2] = {{1, 70001}, {300, 4099}, {513, 511}, {700, 16}, {40, 17}, {3, 1}};
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            check_extremes(dtypes[t], shapes[s][0], shapes[s][1]);
}

/* The k largest are the front of the sorted row, stand where their indices say, and are in the row. */
static void check_front(tp_dtype dtype, int64_t n, int64_t k) {
    TP_SCOPE {
        tp_tensor *x = scattered(TP_INTS(2, n), dtype),
                  *front = tp_narrow(tp_sort(x, .descending = true).values, 1, 0, k);
        tp_topk_result top = tp_topk(x, k);
        tp_kthvalue_result kth = tp_kthvalue(x, n + 1 - k);
        assert_true(tp_equal(top.values, front));
        assert_true(tp_equal(tp_gather(x, 1, top.indices), front));
        assert_true(tp_equal(kth.values, tp_select(front, 1, k - 1)));
        assert_true(tp_equal(tp_gather(x, 1, tp_unsqueeze(kth.indices, 1)), tp_unsqueeze(kth.values, 1)));
        assert_true(tp_item(tp_all(tp_isin(front, x))) == 1);
        tp_tensor *beyond = tp_add(tp_to(front, .dtype = TP_INT64), 100000);
        assert_true(tp_item(tp_any(tp_isin(beyond, x))) == 0);
        assert_true(tp_ok());
    }
}

static void the_largest_are_the_front_of_the_sorted_row(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_UINT8, TP_INT16, TP_FLOAT16, TP_FLOAT32, TP_INT64};
    static const int64_t counts[][2] = {{70000, 1}, {70000, 1000}, {70000, 9000}, {512, 10}, {512, 100},
                                        {512, 300}, {512, 512},    {20, 3},       {1, 1}};
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) check_front(dtypes[t], counts[c][0], counts[c][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extremes_of_small_integers),
        cmocka_unit_test(the_largest_are_the_front_of_the_sorted_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
