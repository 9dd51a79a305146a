/* Automatic mixed precision from C: regions, the casts that the tables ask for, the tape through them, kept casts,
 * unscaled gradients; and profiles, which enter operators by the same way. */
#include <pthread.h>
#include <taper/amp.h>
#include <taper/profile.h>
#include "tape_fixture.h"

static tp_tensor *matrix(int64_t rows, int64_t columns) {
    return tp_set_requires_grad(tp_ones(TP_INTS(rows, columns)), true);
}
#define ASSERT_DTYPE(t, dtype) assert_int_equal(tp_dtype_of(t), dtype)

/* ---- Regions ---- */

static void operators_choose_their_precision(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = matrix(2, 3), *w = matrix(4, 3);
        TP_AUTOCAST(TP_BFLOAT16) {
            tp_tensor *y = tp_linear(x, w);
            ASSERT_DTYPE(y, TP_BFLOAT16);
            ASSERT_DTYPE(tp_add(x, x), TP_FLOAT32); /* takes what comes */
            ASSERT_DTYPE(tp_mul(y, 2), TP_BFLOAT16);
            ASSERT_DTYPE(tp_mse_loss(y, y), TP_FLOAT32);                          /* wants float32 */
            ASSERT_DTYPE(tp_cat(TP_LIST(y, tp_ones(TP_INTS(1, 4)))), TP_FLOAT32); /* the widest of the list */
            ASSERT_DTYPE(tp_call("mm", x, tp_t(w)), TP_BFLOAT16);
            TP_NO_AUTOCAST ASSERT_DTYPE(tp_linear(x, w), TP_FLOAT32);
            TP_AUTOCAST(TP_FLOAT16) ASSERT_DTYPE(tp_linear(x, w), TP_FLOAT16);
            ASSERT_DTYPE(tp_linear(x, w), TP_BFLOAT16);
            ASSERT_DTYPE(
                tp_matmul(tp_ones(TP_INTS(2, 2), .dtype = TP_FLOAT64), tp_ones(TP_INTS(2, 2), .dtype = TP_FLOAT64)),
                TP_FLOAT64);
        }
        ASSERT_DTYPE(tp_linear(x, w), TP_FLOAT32);
        assert_false(tp_autocast_enabled(TP_CPU));
    }
}

static void gradients_arrive_in_the_parameters_dtype(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = matrix(2, 3), *w = matrix(1, 3), *loss = NULL;
        TP_AUTOCAST(TP_BFLOAT16) loss = tp_sum(tp_linear(x, w), .dtype = TP_FLOAT32);
        assert_true(tp_backward(loss));
        ASSERT_VALUES(tp_flatten(tp_grad(w)), 2, 2, 2);
        ASSERT_VALUES(tp_flatten(tp_grad(x)), 1, 1, 1, 1, 1, 1);
    }
}

static tp_tensor *segment(tp_tensors inputs, void *context) {
    int *runs = context;
    *runs = 10 * *runs + (tp_autocast_enabled(TP_CPU) ? 1 : 2);
    return tp_sum(tp_linear(inputs.v[0], inputs.v[1]), .dtype = TP_FLOAT32);
}

static void a_checkpoint_runs_again_in_its_region(void **state) {
    (void)state;
    TP_SCOPE {
        int runs = 0;
        tp_tensor *x = matrix(2, 3), *w = matrix(1, 3), *loss = NULL;
        TP_AUTOCAST(TP_BFLOAT16) loss = tp_checkpoint(segment, &runs, TP_LIST(x, w));
        assert_true(tp_backward(loss));
        assert_int_equal(runs, 11);
        ASSERT_VALUES(tp_flatten(tp_grad(w)), 2, 2, 2);
    }
}

/* Under PyTorch, writing into a tensor takes the dtypes as they are. */
static void what_writes_into_a_tensor_is_not_cast(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = tp_full(TP_INTS(2, 2), tp_float(1.001)), *b = tp_zeros(TP_INTS(2, 2)),
                  *c = tp_zeros(TP_INTS(2, 2)); /* bfloat16 has no 1.001 */
        TP_AUTOCAST(TP_BFLOAT16) {
            assert_non_null(tp_addmm_(b, a, a));
            assert_non_null(tp_mm_out(c, a, a));
            ASSERT_DTYPE(tp_mm(a, a), TP_BFLOAT16);
        }
        ASSERT_VALUES(tp_flatten(b), 2.004002f, 2.004002f, 2.004002f, 2.004002f);
        ASSERT_VALUES(tp_flatten(c), 2.004002f, 2.004002f, 2.004002f, 2.004002f);
    }
}

static void a_weight_is_cast_once_a_region(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_ones(TP_INTS(1, 2)), *w = matrix(1, 2);
        tp_profile_options options = {.size = sizeof options};
        TP_AUTOCAST(TP_BFLOAT16) {
            tp_tensor *y = tp_linear(x, w);
            tp_profile *p = tp_profile_start(&options);
            TP_AUTOCAST(TP_BFLOAT16) tp_linear(x, w); /* an inner region keeps what the outer one has */
            assert_true(tp_profile_stop(p));
            int casts = 0;
            for (int64_t i = 0; i < tp_profile_count(p); i++)
                casts += !strcmp(tp_profile_event(p, i)->name, "to_dtype");
            assert_int_equal(casts, 1); /* x, which is no parameter */
            tp_profile_free(p);
            TP_NO_GRAD
                tp_mul_(w, 3); /* written: the kept cast is stale */
            ASSERT_VALUES(tp_flatten(tp_to(tp_linear(x, w), .dtype = TP_FLOAT32)), 6);
            ASSERT_VALUES(tp_flatten(tp_to(y, .dtype = TP_FLOAT32)), 2);
        }
        TP_NO_GRAD
            tp_mul_(w, 2);
        TP_AUTOCAST(TP_BFLOAT16) ASSERT_VALUES(tp_flatten(tp_to(tp_linear(x, w), .dtype = TP_FLOAT32)), 12);
    }
}

static void *in_another_thread(void *result) {
    *(bool *)result = tp_autocast_enabled(TP_CPU);
    return NULL;
}

static void regions_belong_to_their_thread(void **state) {
    (void)state;
    bool there = true;
    TP_AUTOCAST(TP_BFLOAT16) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, in_another_thread, &there), 0);
        pthread_join(thread, NULL);
        assert_true(tp_autocast_enabled(TP_CPU));
    }
    assert_false(there);
    assert_false(tp_set_autocast_enabled((tp_device_type)77, true));
    assert_error("device");
}

/* ---- Scaled gradients ---- */

static void gradients_are_unscaled_in_one_pass(void **state) {
    (void)state;
    TP_SCOPE {
        bool found = true;
        tp_tensor *a = VECTOR(2, 4), *long_one = tp_full(TP_INTS(100000), tp_float(8)),
                  *half = tp_full(TP_INTS(3), tp_float(4), .dtype = TP_FLOAT16);
        tp_tensor *holes = tp_select(tp_full(TP_INTS(3, 2), tp_float(6)), 1, 0);
        assert_true(tp_unscale_gradients(TP_LIST(a, NULL, long_one, half, holes), 0.5, &found));
        assert_false(found);
        ASSERT_VALUES(a, 1, 2);
        ASSERT_VALUES(tp_amax(long_one), 4);
        ASSERT_VALUES(tp_to(half, .dtype = TP_FLOAT32), 2, 2, 2);
        ASSERT_VALUES(holes, 3, 3, 3);
        tp_fill_(tp_select(long_one, 0, 77777), tp_float(INFINITY));
        assert_true(tp_unscale_gradients(TP_LIST(a, long_one), 1, &found));
        assert_true(found);
        assert_true(tp_unscale_gradients(TP_LIST(VECTOR(1, NAN)), 1, &found));
        assert_true(found);
        tp_tensor *whole = tp_ones(TP_INTS(2), .dtype = TP_INT64);
        assert_false(tp_unscale_gradients(TP_LIST(a, whole), 0.5, &found));
        assert_error("floating");
        ASSERT_VALUES(a, 1, 2);
    }
}

/* ---- Profiles ---- */

static int64_t find_event(const tp_profile *p, const char *name) {
    for (int64_t i = 0; i < tp_profile_count(p); i++)
        if (!strcmp(tp_profile_event(p, i)->name, name)) return i;
    fail_msg("no event '%s'", name);
    return -1;
}

static void a_profile_tells_who_ran_where(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = matrix(2, 3), *w = matrix(4, 3);
        tp_profile_options options = {.size = sizeof options, .shapes = true};
        tp_profile *p = tp_profile_start(&options);
        assert_non_null(p);
        assert_null(tp_profile_start(&options));
        assert_error("already enabled");
        int64_t range = tp_range_begin("forward");
        tp_tensor *y = tp_linear(x, w);
        tp_range_end(range);
        tp_cat(TP_LIST(y, y));
        tp_backward(tp_sum(y));
        assert_true(tp_profile_stop(p));
        tp_add(x, x); /* nobody watches any more */
        const tp_event *linear = tp_profile_event(p, find_event(p, "linear")), *forward = tp_profile_event(p, 0);
        assert_string_equal(forward->name, "forward");
        assert_int_equal(forward->kind, TP_EVENT_RANGE);
        assert_int_equal(linear->parent, 0);
        assert_true(forward->start <= linear->start);
        assert_true(linear->start <= linear->end);
        assert_true(linear->end <= forward->end);
        assert_int_equal(linear->bytes, 8 * sizeof(float));
        const tp_event *node = tp_profile_event(p, find_event(p, "MmBackward0"));
        assert_int_equal(node->kind, TP_EVENT_BACKWARD);
        assert_int_equal(node->sequence, linear->sequence);
        assert_int_equal(linear->ninputs, 3);
        tp_event_input input;
        assert_true(tp_profile_input(p, find_event(p, "linear"), 1, &input));
        assert_true(input.dtype == TP_FLOAT32);
        assert_true(input.shape.n == 2);
        assert_true(input.shape.v[0] == 4);
        assert_true(input.shape.v[1] == 3);
        assert_true(input.count == -1);
        assert_true(tp_profile_input(p, find_event(p, "cat"), 0, &input));
        assert_true(input.count == 2);
        assert_true(tp_profile_input(p, find_event(p, "cat"), 2, &input));
        assert_true(input.shape.n == 2);
        assert_false(tp_profile_input(p, 0, 0, &input));
        assert_error("no input");
        assert_int_equal(tp_profile_lost(p), 0);
        tp_profile_free(p);
    }
}

/* ---- Memory ---- */

static void cast_and_differentiate(void) {
    TP_SCOPE {
        tp_tensor *x = matrix(2, 3), *w = matrix(4, 3), *loss = NULL;
        TP_AUTOCAST(TP_BFLOAT16)
        loss = tp_mse_loss(tp_cat(TP_LIST(tp_linear(x, w), tp_linear(x, w))), tp_zeros(TP_INTS(4, 4)));
        tp_backward(loss);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fail_each_allocation(cast_and_differentiate);
    assert_false(tp_autocast_enabled(TP_CPU));
}

/* A profile that runs out of memory loses events; the calls it watches do not mind. */
static void a_profile_without_memory_loses_events(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2);
        tp_profile *p = tp_profile_start(NULL);
        int64_t made = tpi_alloc_count();
        tp_tensor *y = tp_neg(x);
        int64_t own = tpi_alloc_count() - made; /* among them the first events' room */
        assert_non_null(y);
        assert_true(own > 0);
        assert_true(tp_profile_stop(p));
        tp_profile_free(p);
        p = tp_profile_start(NULL);
        tpi_alloc_fail_at(1, false);
        y = tp_neg(x);
        tpi_alloc_fail_at(0, false);
        assert_true(tp_ok());
        ASSERT_VALUES(y, -1, -2);
        assert_int_equal(tp_profile_lost(p), 1);
        tp_profile_free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(operators_choose_their_precision),
        CASE(gradients_arrive_in_the_parameters_dtype),
        CASE(a_checkpoint_runs_again_in_its_region),
        CASE(what_writes_into_a_tensor_is_not_cast),
        CASE(a_weight_is_cast_once_a_region),
        CASE(regions_belong_to_their_thread),
        CASE(gradients_are_unscaled_in_one_pass),
        CASE(a_profile_tells_who_ran_where),
        CASE(any_allocation_may_fail),
        CASE(a_profile_without_memory_loses_events),
    };
    return cmocka_run_group_tests_name("amp", tests, NULL, NULL);
}
