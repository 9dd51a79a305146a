/* Conjugates and negatives as views: memory is shared, operators see the elements, writes reach both ways, and nothing
 * is left of the mark when the last marked tensor is gone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <taper/taper.h>
#include "tensor/tensor.h"

static const float values[] = {1, 2, 3, -4};

static tp_tensor *pair(void) { return tp_from_data(values, TP_COMPLEX64, TP_INTS(2)); }

static void expect(const tp_tensor *t, float a, float b, float c, float d) {
    float got[4];
    assert_true(tp_copy_out(t, got, sizeof got));
    const float want[4] = {a, b, c, d};
    for (int i = 0; i < 4; i++) assert_float_equal(got[i], want[i], 0);
}

static void memory_is_shared(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = pair(), *y = tp_conj(x);
        assert_true(tp_is_conj(y));
        assert_true(!tp_is_conj(x));
        assert_true(tp_data(x) == tp_data(y));
        expect(y, 1, -2, 3, 4);
        tp_fill_(tp_select(x, 0, 0), tp_cplx(5, 6));
        expect(y, 5, -6, 3, 4);
        expect(tp_mul(y, 2), 10, -12, 6, 8);
        assert_false(tp_is_conj(tp_conj(y)) || tp_is_conj(tp_resolve_conj(y)) || tp_is_conj(tp_clone(y)));
        assert_true(tp_is_conj(tp_unsqueeze(y, 0)));
        assert_true(tp_is_conj(tp_detach(y)));
    }
    assert_null(tp_error());
    assert_int_equal(atomic_load(&tpi_marks), 0);
}

static void writes_reach_both_ways(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = pair(), *y = tp_conj(x), *part = tp_imag(y);
        assert_ptr_equal(tp_add_(y, 1), y);
        expect(x, 2, 2, 4, -4);
        assert_true(tp_is_neg(part));
        assert_true(!tp_is_neg(tp_real(y)));
        tp_add_(part, 1);
        expect(x, 2, 1, 4, -5);
        tp_copy_(y, x);
        expect(x, 2, -1, 4, 5);
        assert_ptr_equal(tp_mul_out(y, x, 2), y);
        expect(y, 4, -2, 8, 10);
        expect(x, 4, 2, 8, -10);
    }
    assert_null(tp_error());
    assert_int_equal(atomic_load(&tpi_marks), 0);
}

static void what_reads_memory_is_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *y = tp_conj(pair());
        assert_null(tp_view_as_real(y));
        assert_non_null(tp_error());
        tp_error_clear();
        assert_null(tp_to_dlpack(y));
        assert_non_null(tp_error());
        tp_error_clear();
    }
}

static void gradients_pass_through_marks(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = pair();
        tp_set_requires_grad(x, true);
        tp_tensor *copy = tp_mul(x, 1);
        tp_mul_(tp_conj(copy), 3);
        tp_backward(tp_sum(tp_imag(copy)));
        expect(tp_grad(x), 0, 3, 0, 3);
    }
    assert_null(tp_error());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(writes_reach_both_ways),
        cmocka_unit_test(what_reads_memory_is_refused),
        cmocka_unit_test(gradients_pass_through_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
