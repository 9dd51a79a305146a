/* The C API as a program uses it: expressions checked once at their end, scopes, options as designated initialisers, calls by name,
 * tensors shared with other code, threads with graphs of their own, programs built against an older library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <taper/dlpack.h>
#include <taper/taper.h>
#include "base/memory.h"

static tp_tensor *vector(int n, const float *v) { return tp_from_data(v, TP_FLOAT32, TP_INTS(n)); }
#define VECTOR(...) vector((int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)), (const float[]){__VA_ARGS__})
#define ASSERT_VALUES(t, ...) assert_values(t, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)), (const float[]){__VA_ARGS__})
static void assert_values(tp_tensor *t, int n, const float *want) {
    float got[64];
    if (!t) fail_msg("no tensor: %s", tp_error() ? tp_error() : "and no error");
    assert_int_equal(tp_dtype_of(t), TP_FLOAT32);
    assert_int_equal(tp_numel(t), n);
    assert_true(tp_copy_out(t, got, sizeof got));
    for (int i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %d: got %g, expected %g", i, (double)got[i], (double)want[i]);
}
static void assert_error(tp_code code, const char *words) {
    assert_non_null(tp_error());
    assert_int_equal(tp_error_code(), code);
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    tp_error_clear();
}

/* ---- Errors ---------------------------------------------------------------------------------------------------------------- */

static void an_expression_is_checked_once_at_its_end(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = VECTOR(1, 2, 3), *b = VECTOR(1, 2);
        assert_null(tp_mul(tp_exp(tp_add(a, b)), 2)); /* add fails; the rest passes the NULL on */
        assert_false(tp_ok());
        assert_null(tp_matmul(a, tp_ones(TP_INTS(5, 5)))); /* another failure does not replace the first */
        assert_error(TP_ERR_RUNTIME, "add: ");
        assert_true(tp_ok() && !tp_error() && tp_error_code() == TP_OK);
        ASSERT_VALUES(tp_add(a, 1), 2, 3, 4);
    }
}

static void null_without_an_error_names_the_argument(void **state) {
    (void)state;
    assert_null(tp_softmax(NULL, 0));
    assert_error(TP_ERR_VALUE, "softmax: argument 'self'");
    tp_release(NULL);
    assert_null(tp_keep(NULL));
}

/* A result of another shape is made to fit, but only by a call that works, and never one that is read as well. */
static void a_failed_call_leaves_its_out_tensor_as_it_was(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_ones(TP_INTS(2, 3)), *whole = tp_zeros(TP_INTS(6), .dtype = TP_INT64), *v = VECTOR(1, 2, 3);
        assert_null(tp_add_out(whole, a, a));
        assert_error(TP_ERR_RUNTIME, "add: result type float32 can't be cast to the desired output type int64");
        assert_true(tp_ndim(whole) == 1 && tp_size(whole, 0) == 6);
        assert_null(tp_add_out(v, v, a));
        assert_error(TP_ERR_RUNTIME, "add: output with shape [3] doesn't match the broadcast shape [2, 3]");
        ASSERT_VALUES(v, 1, 2, 3);
        ASSERT_VALUES(tp_add_out(v, a, 1), 2, 2, 2, 2, 2, 2);
    }
}

static void messages_name_an_operator_once(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_ones(TP_INTS(2));
        assert_null(tp_bitwise_and(a, a));
        assert_string_equal(tp_error(), "bitwise_and: expected bool or integer tensors, got float32");
        tp_error_clear();
        assert_null(tp_where(a, a, a));
        assert_string_equal(tp_error(), "where: argument 'condition': expected a tensor of dtype bool, got float32");
        tp_error_clear();
    }
}

static void *fail_elsewhere(void *unused) {
    (void)unused;
    assert_null(tp_reshape(NULL, TP_INTS(1)));
    return tp_error() ? "failed" : NULL;
}
static void errors_belong_to_their_thread(void **state) {
    (void)state;
    pthread_t thread;
    void *there = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, &there), 0);
    assert_non_null(there);
    assert_true(tp_ok());
}

/* ---- Scopes ------------------------------------------------------------------------------------------------------------------ */

static void a_scope_releases_what_was_not_kept(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    tp_tensor *kept = NULL;
    TP_SCOPE {
        tp_tensor *a = VECTOR(1, 2, 3);
        for (int i = 0; i < 10; i++) kept = tp_add(tp_mul(a, i), a);
        tp_keep(kept);
    }
    ASSERT_VALUES(kept, 10, 20, 30);
    tp_release(kept);
    assert_int_equal(tpi_alloc_live(), before);
}

static void kept_tensors_move_to_the_scope_around(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    TP_SCOPE {
        tp_tensor *inner = NULL;
        TP_SCOPE {
            inner = tp_keep(tp_add(VECTOR(1, 2), 1));
        }
        ASSERT_VALUES(inner, 2, 3); /* the outer scope's now */
    }
    assert_int_equal(tpi_alloc_live(), before);
}

static tp_tensor *leaves_early(tp_tensor *x) {
    TP_SCOPE {
        tp_tensor *y = tp_mul(x, 2);
        TP_SCOPE {
            tp_add(y, 1);
            return tp_retain(tp_add(y, 2)); /* the caller's own, whatever scopes there are */
        }
    }
    return NULL;
}
static void scopes_may_be_left_by_return_and_break(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2);
        tp_tensor *y = leaves_early(x);
        ASSERT_VALUES(y, 4, 6);
        tp_release(y);
        for (int i = 0; i < 3; i++) TP_SCOPE {
            tp_mul(x, i);
            if (i == 1) break;
        }
    }
    assert_int_equal(tpi_alloc_live(), before);
}

/* ---- Options and numbers -------------------------------------------------------------------------------------------------------- */

static void options_are_designated_initialisers(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *m = tp_reshape(VECTOR(1, 2, 3, 4, 5, 6), TP_INTS(2, 3));
        ASSERT_VALUES(tp_sum(m), 21);
        ASSERT_VALUES(tp_sum(m, .dim = TP_INTS(0)), 5, 7, 9);
        tp_tensor *kept = tp_sum(m, .dim = TP_INTS(1), .keepdim = true);
        assert_int_equal(tp_ndim(kept), 2);
        assert_int_equal(tp_dtype_of(tp_sum(m, .dtype = TP_FLOAT64)), TP_FLOAT64);
        tp_max_dim_result most = tp_max_dim(m, 1);
        ASSERT_VALUES(most.values, 3, 6);
        assert_int_equal(tp_item_int(tp_select(most.indices, 0, 1)), 2);
    }
}

static void numbers_keep_their_type(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *ints = tp_arange(4), *halves = tp_to(VECTOR(1, 2), .dtype = TP_FLOAT16);
        assert_int_equal(tp_dtype_of(tp_mul(ints, 2)), TP_INT64);
        assert_int_equal(tp_dtype_of(tp_mul(ints, 2.0)), TP_FLOAT32);
        assert_int_equal(tp_dtype_of(tp_mul(ints, true)), TP_INT64);
        assert_int_equal(tp_dtype_of(tp_mul(halves, 2.5)), TP_FLOAT16);
        assert_int_equal(tp_dtype_of(tp_mul(halves, tp_cplx(0, 1))), tp_promote_types(TP_FLOAT16, TP_COMPLEX64));
        assert_int_equal(tp_dtype_of(tp_full(TP_INTS(2), 3)), TP_INT64);
        assert_int_equal(tp_dtype_of(tp_full(TP_INTS(2), 3.0)), TP_FLOAT32);
        assert_int_equal(tp_item_int(tp_sub(7, tp_scalar_tensor_of(tp_int(2), TP_NO_DTYPE))), 5);
    }
}

/* What tp_sum's options looked like before .keepdim and .dtype were added. */
typedef struct old_sum_options {
    int64_t size;
    tp_ints dim;
} old_sum_options;

static void a_program_with_smaller_options_still_works(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *m = tp_reshape(VECTOR(1, 2, 3, 4), TP_INTS(2, 2));
        struct {
            old_sum_options options;
            char behind[64]; /* not options: must not be read */
        } old = {.options = {.size = sizeof(old_sum_options), .dim = TP_INTS(0)}};
        memset(old.behind, 0xff, sizeof old.behind);
        ASSERT_VALUES(tp_sum_with(m, (const tp_sum_options *)(const void *)&old), 4, 6);
        ASSERT_VALUES(tp_sum_with(m, NULL), 10);
    }
    struct {
        int64_t size, allocated;
        unsigned char behind[64];
    } stats = {.size = 16};
    memset(stats.behind, 0xab, sizeof stats.behind);
    assert_true(tp_memory_query((tp_memory_stats *)(void *)&stats));
    for (size_t i = 0; i < sizeof stats.behind; i++) assert_int_equal(stats.behind[i], 0xab); /* nor written */
}

static void the_library_knows_its_version(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TP_VERSION_MAJOR, TP_VERSION_MINOR, TP_VERSION_PATCH);
    assert_string_equal(tp_version(), text);
    assert_int_equal(tp_version_number(), TP_VERSION_MAJOR * 10000 + TP_VERSION_MINOR * 100 + TP_VERSION_PATCH);
}

/* ---- By name ---------------------------------------------------------------------------------------------------------------------- */

static void operators_are_called_by_name(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *m = tp_reshape(VECTOR(1, 2, 3, 4, 5, 6), TP_INTS(2, 3));
        ASSERT_VALUES(tp_call("add", m, 1), 2, 3, 4, 5, 6, 7);
        ASSERT_VALUES(tp_call("sum", m, TP_INTS(0)), 5, 7, 9);
        ASSERT_VALUES(tp_call("sum", m, tp_named("dim", TP_VALUE(TP_INTS(1))), tp_named("keepdim", TP_VALUE(true))), 6, 15);
        ASSERT_VALUES(tp_call("add", m, tp_named("alpha", TP_VALUE(2)), tp_named("other", TP_VALUE(10))), 21, 22, 23, 24, 25, 26);
        tp_value results[2];
        const tp_value args[] = {TP_VALUE(m), TP_VALUE(1)};
        assert_true(tp_call_values("max.dim", 2, args, 2, results));
        ASSERT_VALUES(results[0].as.tensor, 3, 6);
        assert_ptr_equal(tp_call("mul_", m, 2), m);
        ASSERT_VALUES(m, 2, 4, 6, 8, 10, 12);
    }
}

static void wrong_calls_by_name_say_what_is_wrong(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2);
        assert_null(tp_call("no_such_operator", x));
        assert_error(TP_ERR_MISSING, "no_such_operator");
        assert_null(tp_call("sum", x, tp_named("dims", TP_VALUE(0))));
        assert_error(TP_ERR_TYPE, "no argument 'dims'");
        assert_null(tp_call("add", x, 1, tp_named("self", TP_VALUE(x))));
        assert_error(TP_ERR_TYPE, "twice");
        assert_null(tp_call("softmax", x));
        assert_error(TP_ERR_TYPE, "'dim' is missing");
        assert_null(tp_call("softmax", x, "one"));
        assert_error(TP_ERR_TYPE, "expected an integer, got a text");
        assert_null(tp_call("sigmoid", x, 1, 2, 3));
        assert_error(TP_ERR_TYPE, "signature");
    }
}

static void the_list_of_operators_can_be_read(void **state) {
    (void)state;
    assert_true(tp_operator_count() >= 280);
    assert_null(tp_operator_at(-1));
    assert_null(tp_operator_at(tp_operator_count()));
    const tp_operator *op = tp_find_operator("softmax");
    assert_non_null(op);
    assert_true(op->differentiable && op->nargs >= 2);
    assert_string_equal(op->args[1].name, "dim");
    for (int64_t i = 0; i < tp_operator_count(); i++) assert_ptr_equal(tp_find_operator(tp_operator_at(i)->name), tp_operator_at(i));
}

/* ---- Memory of others ---------------------------------------------------------------------------------------------------------------- */

static void count_release(void *context) { ++*(int *)context; }

static void foreign_memory_is_used_in_place_and_given_back(void **state) {
    (void)state;
    float memory[6] = {1, 2, 3, 4, 5, 6};
    int released = 0;
    tp_tensor *view = NULL;
    TP_SCOPE {
        tp_tensor *t = tp_over_data(memory, TP_FLOAT32, TP_INTS(3, 2), TP_INTS(1, 3), count_release, &released);
        view = tp_keep(tp_select(t, 1, 1));
        tp_mul_(t, 10);
    }
    assert_int_equal(released, 0); /* the view still uses it */
    ASSERT_VALUES(view, 40, 50, 60);
    assert_true(memory[0] == 10 && memory[5] == 60);
    tp_release(view);
    assert_int_equal(released, 1);
}

static void tensors_travel_by_dlpack_without_a_copy(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    TP_SCOPE {
        tp_tensor *m = tp_reshape(VECTOR(1, 2, 3, 4, 5, 6), TP_INTS(2, 3)), *t = tp_transpose(m, 0, 1);
        DLManagedTensor *out = tp_to_dlpack(t);
        assert_non_null(out);
        assert_int_equal(out->dl_tensor.ndim, 2);
        assert_int_equal(out->dl_tensor.shape[0], 3);
        assert_int_equal(out->dl_tensor.strides[0], 1);
        assert_int_equal(out->dl_tensor.dtype.code, kDLFloat);
        tp_tensor *back = tp_from_dlpack(out);
        assert_ptr_equal(tp_data(back), tp_data(t));
        tp_add_(back, 100);
        ASSERT_VALUES(m, 101, 102, 103, 104, 105, 106);
    }
    assert_int_equal(tpi_alloc_live(), before);
}

/* ---- Threads ---------------------------------------------------------------------------------------------------------------------------- */

/* A graph of its own on each thread: x <- x - 0.1 d/dx sum((x * w)^2), many times. */
static void *descend(void *result) {
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(VECTOR(1, 2, 3, 4), true), *w = VECTOR(1, 0.5f, 0.25f, 2);
        for (int i = 0; i < 300; i++) TP_SCOPE {
            tp_tensor *y = tp_mul(x, w), *loss = tp_sum(tp_mul(y, y));
            tp_backward(loss);
            TP_NO_GRAD {
                tp_sub_(x, tp_mul(tp_grad(x), 0.1));
                tp_zero_grad(x);
            }
        }
        tp_copy_out(tp_detach(x), result, 4 * sizeof(float));
    }
    return tp_ok() ? result : NULL;
}

static void threads_build_and_differentiate_graphs_of_their_own(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    float results[THREADS + 1][4];
    assert_non_null(descend(results[THREADS]));
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, descend, results[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *fine = NULL;
        assert_int_equal(pthread_join(threads[i], &fine), 0);
        assert_non_null(fine);
        assert_memory_equal(results[i], results[THREADS], sizeof results[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expression_is_checked_once_at_its_end),
        cmocka_unit_test(null_without_an_error_names_the_argument),
        cmocka_unit_test(a_failed_call_leaves_its_out_tensor_as_it_was),
        cmocka_unit_test(messages_name_an_operator_once),
        cmocka_unit_test(errors_belong_to_their_thread),
        cmocka_unit_test(a_scope_releases_what_was_not_kept),
        cmocka_unit_test(kept_tensors_move_to_the_scope_around),
        cmocka_unit_test(scopes_may_be_left_by_return_and_break),
        cmocka_unit_test(options_are_designated_initialisers),
        cmocka_unit_test(numbers_keep_their_type),
        cmocka_unit_test(a_program_with_smaller_options_still_works),
        cmocka_unit_test(the_library_knows_its_version),
        cmocka_unit_test(operators_are_called_by_name),
        cmocka_unit_test(wrong_calls_by_name_say_what_is_wrong),
        cmocka_unit_test(the_list_of_operators_can_be_read),
        cmocka_unit_test(foreign_memory_is_used_in_place_and_given_back),
        cmocka_unit_test(tensors_travel_by_dlpack_without_a_copy),
        cmocka_unit_test(threads_build_and_differentiate_graphs_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
