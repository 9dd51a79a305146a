/* Internal operators are reached by name (tp_call) and from graph files: they refuse arguments that do not fit each
 * other, with an error and without reading outside of memory. Sizes that are too large are refused before anything is
 * computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <taper/taper.h>
#include "tensor/sizes.h"

#define T(...)     tp_value_tensor(tp_ones(TP_INTS(__VA_ARGS__)))
#define INDEX(...) tp_value_tensor(tp_full(TP_INTS(__VA_ARGS__), tp_int(1000), .dtype = TP_INT64))
#define INTS(...)  tp_value_ints(TP_INTS(__VA_ARGS__))
#define INT(n)     tp_value_int(n)
#define NOTHING    ((tp_value){0})

static void expect_refused(const char *name, int64_t n, const tp_value *args) {
    tp_value results[8] = {0};
    if (tp_call_values(name, n, args, 8, results)) fail_msg("%s took arguments that do not fit", name);
    assert_false(tp_ok());
    tp_error_clear();
}
#define REFUSED(name, ...) \
    expect_refused(name, (int64_t)(sizeof((tp_value[]){__VA_ARGS__}) / sizeof(tp_value)), (tp_value[]){__VA_ARGS__})

static void internal_operators_check_their_arguments(void **state) {
    (void)state;
    TP_SCOPE {
        tp_value no = tp_value_bool(false), one = tp_value_double(1), dtype = tp_value_dtype(TP_FLOAT32);
        REFUSED("attention_forward", T(2, 3, 8, 8), T(4), T(4), T(4), no, one);
        REFUSED("attention_forward", T(2, 5, 4), T(2, 6, 4), T(1), NOTHING, no, one);
        REFUSED("attention_backward", T(2, 5), T(2, 5, 4), T(2, 6, 4), T(2, 6, 3), T(2, 5, 3), T(2, 5), NOTHING, no,
                one);
        REFUSED("attention_backward", T(2, 5, 3), T(2, 5, 4), T(2, 6, 4), T(2, 6, 3), T(2, 5, 3), T(1), NOTHING, no,
                one);
        REFUSED("base_grid", INTS(2), no);
        REFUSED("base_grid", INTS(2, 1, INT64_MAX - 1, 3), no);
        REFUSED("adaptive_avg_pool", T(2, 3), INTS(2, 2), INT(1000));
        REFUSED("adaptive_avg_pool_backward", T(2, 3, 1), INTS(1000, 1000, 8), INT(1));
        REFUSED("avg_pool_backward", T(1, 1, 1), INTS(2, 3, 8), INT(1), INTS(2), INTS(2), INTS(0), no, no, NOTHING);
        REFUSED("max_pool_gather", T(2, 3, 5), INDEX(2, 3, 2), INT(3037000500));
        REFUSED("max_pool_gather", T(2, 3, 5), INDEX(20, 3, 2), INT(1));
        REFUSED("segment_argmax", T(3, 2), INDEX(3), INT(2));
        REFUSED("segment_argmax", T(3), INDEX(3), INT(2));
        REFUSED("segment_spread", T(3, 2), INDEX(2));
        REFUSED("batch_norm_backward", T(1, 3, 3, 1), T(3, 4, 2), T(4), T(4), T(4), T(4), tp_value_bool(true));
        REFUSED("group_norm_backward", T(1), T(2, 4, 3), T(2, 2), T(2, 2), NOTHING, NOTHING, INT(2), INT(4), INT(3),
                INT(2));
        REFUSED("convolution_grad_weight", tp_value_tensor(tp_ones(tp_ints_view(NULL, 0))), T(2, 4, 4, 3),
                INTS(4, 2, 2, 2), INTS(1, 1), INTS(1, 1), INTS(1, 1), no, INTS(0, 0), INT(2));
        REFUSED("pad_index_backward", T(2, 3, 7), INTS(2, 300, 4), INTS(1, 2), tp_value_string("reflect"));
        REFUSED("_softmax_backward_data", T(2, 5), T(1), INT(1), dtype);
        REFUSED("masked_select_backward", T(1), INTS(4, 4), tp_value_tensor(tp_ones(TP_INTS(4, 4), .dtype = TP_BOOL)));
        REFUSED("mean_last", T(2, 3), INT(1000));
        REFUSED("as_strided_backward", T(2), INTS(4), INTS(1, 1), INT(0), INTS(2), INTS(1), INT(0));
        REFUSED("as_strided_of", T(6), INTS(1), INT(INT64_MAX), INTS(1), INTS(1), INT(0));
        REFUSED("lu_permutation", tp_value_tensor(tp_ones(TP_INTS(5, 5), .dtype = TP_INT32)), INT(3), dtype);
        REFUSED("combination_indices", INT(3), INT(INT64_MIN + 1), no);
    }
}

static void arithmetic_of_sizes_stops_at_the_ends(void **state) {
    (void)state;
    assert_int_equal(tpi_size_plus(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(tpi_size_plus(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(tpi_size_minus(-2, INT64_MAX), INT64_MIN);
    assert_int_equal(tpi_size_times(INT64_C(1) << 62, 2), INT64_MAX);
    assert_int_equal(tpi_size_times(INT64_C(1) << 62, -4), INT64_MIN);
    assert_int_equal(tpi_size_negated(INT64_MIN), INT64_MAX);
    assert_int_equal(tpi_whole(1e30), INT64_MAX);
    assert_true(tpi_size_bytes(INT64_MAX, 8) == SIZE_MAX);
    assert_true(tpi_size_bytes(3, 8) == 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(internal_operators_check_their_arguments),
        cmocka_unit_test(arithmetic_of_sizes_stops_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
