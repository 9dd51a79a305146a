/* The C API as a program uses it: expressions checked once at their end, scopes, options as designated initialisers,
 * calls by name, tensors shared with other code, threads with graphs of their own, programs built against an older
 * library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <complex.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <taper/dlpack.h>
#include <taper/taper.h>
#include <unistd.h>
#include "base/memory.h"

static tp_tensor *vector(int n, const float *v) { return tp_from_data(v, TP_FLOAT32, TP_INTS(n)); }
#define VECTOR(...) vector((int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)), (const float[]){__VA_ARGS__})
#define ASSERT_VALUES(t, ...) \
    assert_values(t, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)), (const float[]){__VA_ARGS__})
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

/* ---- Errors ---- */

static void an_expression_is_checked_once_at_its_end(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = VECTOR(1, 2, 3), *b = VECTOR(1, 2);
        assert_null(tp_mul(tp_exp(tp_add(a, b)), 2)); /* add fails; the rest passes the NULL on */
        assert_false(tp_ok());
        assert_null(tp_matmul(a, tp_ones(TP_INTS(5, 5)))); /* another failure does not replace the first */
        assert_error(TP_ERR_RUNTIME, "add: ");
        assert_true(tp_ok());
        assert_true(!tp_error());
        assert_true(tp_error_code() == TP_OK);
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
        assert_error(TP_ERR_RUNTIME, "add: result type Float can't be cast to the desired output type Long");
        assert_true(tp_ndim(whole) == 1);
        assert_true(tp_size(whole, 0) == 6);
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
        assert_string_equal(tp_error(), "bitwise_and: \"bitwise_and_cpu\" not implemented for 'Float': expected bool "
                                        "or integer tensors, got float32");
        tp_error_clear();
        assert_null(tp_where(a, a, a));
        assert_string_equal(tp_error(), "where: argument 'condition': expected a tensor of dtype bool, got float32 (it "
                                        "only supports boolean masks)");
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

/* ---- Scopes ---- */

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
static void scopes_may_be_left_by_return_goto_and_continue(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    int whole = 0;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2);
        tp_tensor *y = leaves_early(x);
        ASSERT_VALUES(y, 4, 6);
        tp_release(y);
        for (int i = 0; i < 3; i++)
            TP_SCOPE {
                tp_mul(x, i);
                if (i == 1) continue;
                whole++;
            }
        TP_SCOPE {
            tp_mul(x, 3);
            goto out;
        }
    }
out:
    assert_int_equal(whole, 2);
    assert_int_equal(tpi_alloc_live(), before);
    assert_true(tp_ok());
}

/* C gives a block no way to pass a break on to the loop around it: it says so, and nothing is saved or stepped with
 * what the loop goes on to do. */
static void a_break_that_ends_only_the_block_is_an_error(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    for (int i = 0; i < 3; i++)
        TP_SCOPE {
            tp_mul(VECTOR(1, 2), i);
            if (i == 1) break;
        }
    assert_error(TP_ERR_RUNTIME, "TP_SCOPE { } in ");
    TP_NO_GRAD {
        break;
    }
    assert_error(TP_ERR_RUNTIME,
                 "was left by break, which ends this block and not the loop around it: stand TP_NO_GRAD_HERE;");
    assert_true(tp_grad_enabled());
    assert_int_equal(tpi_alloc_live(), before);
}

static void a_break_behind_the_declaration_form_ends_the_loop(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    int runs = 0;
    for (int i = 0; i < 10; i++) {
        TP_SCOPE_HERE;
        TP_NO_GRAD_HERE;
        assert_false(tp_grad_enabled());
        tp_mul(VECTOR(1, 2), i);
        runs++;
        if (i == 2) break;
    }
    assert_int_equal(runs, 3);
    assert_true(tp_ok());
    assert_true(tp_grad_enabled());
    assert_int_equal(tpi_alloc_live(), before);
}

/* ---- Mistakes with references ---- */

static void what_is_released_inside_a_scope_leaves_the_scope(void **state) {
    (void)state;
    int64_t before = tpi_alloc_live();
    tp_tensor *x = VECTOR(-1, 2), *z = NULL;
    TP_SCOPE {
        tp_tensor *y = tp_relu(x);
        TP_SCOPE {
            tp_release(y); /* the outer scope owned it */
            tp_mul(x, 2);
        }
        z = tp_retain(tp_full(TP_INTS(2), 7.0)); /* may get y's memory */
    }
    tp_tensor *other = tp_full(TP_INTS(2), 3.0);
    assert_ptr_not_equal(z, other);
    ASSERT_VALUES(z, 7, 7);
    assert_true(tp_ok());
    tp_release(other);
    tp_release(z);
    tp_release(x);
    assert_int_equal(tpi_alloc_live(), before);
}

static void *release_it(void *t) {
    tp_release(t);
    return tp_error() && strstr(tp_error(), "a scope of another thread owns") ? t : NULL;
}
static void a_scope_of_another_thread_keeps_what_it_owns(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *t = VECTOR(1, 2);
        pthread_t thread;
        void *told = NULL;
        assert_int_equal(pthread_create(&thread, NULL, release_it, t), 0);
        assert_int_equal(pthread_join(thread, &told), 0);
        assert_ptr_equal(told, t);
        ASSERT_VALUES(t, 1, 2);
    }
}

static void a_tensor_that_is_gone_is_an_error(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it stops the program */
#endif
    if (getenv("TAPER_ALLOC")) skip(); /* valgrind says it in its own words */
    tp_tensor *x = VECTOR(1, 2), *late = x;
    tp_release(x);
    tp_release(x);
    assert_error(TP_ERR_VALUE,
                 "argument 't': expected a tensor, got one that was released before, or whose scope has ended");
    assert_null(tp_retain(x));
    assert_error(TP_ERR_VALUE, "released before");
    TP_SCOPE
        late = tp_ones(TP_INTS(2));
    assert_null(tp_relu(late));
    assert_error(TP_ERR_VALUE, "relu: argument 'self': expected a tensor, got one that was released before");
    assert_null(tp_add(1, late));
    assert_error(TP_ERR_VALUE, "add: argument 'other'");
    assert_null(tp_cat(TP_LIST(late, late)));
    assert_error(TP_ERR_VALUE, "cat: argument 'tensors'");
    assert_null(tp_call("relu", late));
    assert_error(TP_ERR_VALUE, "relu: argument 'self'");
    assert_false(tp_print(late));
    assert_error(TP_ERR_VALUE, "released before");
    assert_true(tp_ndim(late) == -1);
    tp_error_clear();
}

static void a_module_optimiser_or_schedule_that_is_gone_is_an_error(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it stops the program */
#endif
    if (getenv("TAPER_ALLOC")) skip(); /* valgrind says it in its own words */
    tp_tensor *x = tp_ones(TP_INTS(1, 2));
    tp_module *net = tp_nn_linear(2, 2), *other = tp_module_new("other", NULL);
    tp_state p = tp_module_parameters(net);
    tp_optimiser *o = tp_sgd(tp_list(p.n, p.tensors), .lr = 0.1);
    tp_schedule *s = tp_step_lr(o, .step_size = 1);
    tp_state_free(p);
    tp_optimiser_free(o);
    assert_false(tp_schedule_step(s));
    assert_error(
        TP_ERR_VALUE,
        "tp_schedule_step: argument 'schedule': expected a schedule of an optimiser, got one that was released before");
    tp_schedule_free(s);
    tp_module_release(net);
    assert_null(tp_forward(net, x));
    assert_error(TP_ERR_VALUE, "tp_forward: argument 'm': expected a module, got one that was released before");
    assert_null(tp_module_retain(net));
    assert_error(TP_ERR_VALUE, "tp_module_retain");
    tp_module_release(net);
    assert_error(TP_ERR_VALUE, "tp_module_release");
    assert_false(tp_module_add(other, "net", net));
    assert_error(TP_ERR_VALUE, "tp_module_add: argument 'child'");
    assert_true(tp_module_parameters(net).n == -1);
    assert_error(TP_ERR_VALUE, "tp_module_parameters");
    assert_false(tp_step(o));
    assert_error(TP_ERR_VALUE, "tp_step: argument 'o': expected an optimiser, got one that was released before");
    tp_optimiser_free(o);
    assert_error(TP_ERR_VALUE, "tp_optimiser_free");
    assert_false(tp_schedule_step(s));
    assert_error(TP_ERR_VALUE,
                 "tp_schedule_step: argument 'schedule': expected a schedule, got one that was released before");
    tp_schedule_free(s);
    assert_error(TP_ERR_VALUE, "tp_schedule_free");
    tp_module_release(other);
    tp_release(x);
}

/* ---- While an error stands ---- */

static void effects_wait_until_an_error_is_read(void **state) {
    (void)state;
    char path[] = "/tmp/taper-sticky-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_true(write(file, "old", 3) == 3);
    assert_true(close(file) == 0);
    tp_module *net = tp_nn_linear(3, 2);
    tp_state p = tp_module_parameters(net);
    tp_optimiser *sgd = tp_sgd(tp_list(p.n, p.tensors), .lr = 1.0);
    tp_schedule *schedule = tp_exponential_lr(sgd, .gamma = 0.5);
    TP_SCOPE {
        tp_tensor *x = tp_ones(TP_INTS(2, 3)), *before = tp_clone(tp_detach(p.tensors[0]));
        assert_true(tp_backward(tp_sum(tp_forward(net, x))));
        tp_tensor *gradient = tp_clone(tp_grad(p.tensors[0])), *good = tp_sum(tp_forward(net, x));
        assert_null(tp_forward(net, tp_matmul(x, x))); /* from here on an error stands */
        assert_false(tp_backward(good));
        assert_false(tp_step(sgd) || tp_schedule_step(schedule) || tp_optimiser_zero_grad(sgd));
        assert_false(tp_clip_grad_value(p.n, p.tensors, 0.1) || tp_clip_grad_norm(p.n, p.tensors, 0.1) >= 0);
        assert_false(tp_save(path, p.n, p.names, p.tensors) || tp_load(path, p.n, p.names, p.tensors));
        TP_NO_GRAD {
            assert_null(tp_mul_(p.tensors[0], 0));
            assert_null(tp_add_out(p.tensors[0], x, x));
            assert_null(tp_call("mul_", p.tensors[0], 0));
        }
        assert_non_null(tp_relu(x)); /* what has no effects goes on */
        assert_error(TP_ERR_RUNTIME, "matmul: ");
        assert_true(tp_equal(p.tensors[0], before));
        assert_true(tp_equal(tp_grad(p.tensors[0]), gradient));
        assert_true(tp_schedule_last_lr(schedule, 0) == 1.0);
        char kept[4] = {0};
        file = open(path, O_RDONLY);
        assert_true(read(file, kept, 3) == 3);
        assert_true(close(file) == 0);
        assert_true(!strcmp(kept, "old"));
        assert_true(tp_step(sgd));
        assert_true(tp_save(path, p.n, p.names, p.tensors)); /* read and cleared: it goes on */
    }
    unlink(path);
    tp_schedule_free(schedule);
    tp_optimiser_free(sgd);
    tp_state_free(p);
    tp_module_release(net);
}

static void an_error_ends_the_epoch(void **state) {
    (void)state;
    TP_SCOPE {
        tp_dataset *rows = tp_dataset_of_tensors(TP_LIST(tp_ones(TP_INTS(4, 2))));
        tp_loader *loader = tp_loader_new(rows, .batch = 1);
        int batches = 0;
        while (tp_loader_next(loader)) {
            batches++;
            tp_matmul(tp_loader_field(loader, 0), tp_loader_field(loader, 0));
        }
        assert_int_equal(batches, 1);
        assert_error(TP_ERR_RUNTIME, "matmul");
        tp_loader_free(loader);
        tp_dataset_release(rows);
    }
}

/* ---- Options and numbers ---- */

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
        assert_int_equal(tp_dtype_of(tp_mul(halves, tp_cplx(0, 1))), TP_COMPLEX32);
        assert_int_equal(tp_dtype_of(tp_full(TP_INTS(2), 3)), TP_INT64);
        assert_int_equal(tp_dtype_of(tp_full(TP_INTS(2), 3.0)), TP_FLOAT32);
        assert_int_equal(tp_item_int(tp_sub(7, tp_scalar_tensor_of(tp_int(2), TP_NO_DTYPE))), 5);
    }
}

static void numbers_of_every_type_keep_their_values(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, -2), *one = tp_scalar_tensor_of(tp_int(1), TP_NO_DTYPE);
        ASSERT_VALUES(tp_mul(x, 2.5L), 2.5f, -5);
        ASSERT_VALUES(tp_mul(x, (unsigned char)200), 200, -400);
        ASSERT_VALUES(tp_mul(x, (short)-3), -3, 6);
        ASSERT_VALUES(tp_mul(x, 3u), 3, -6);
        ASSERT_VALUES(tp_call("mul", x, 2.5L), 2.5f, -5);
        assert_int_equal(tp_item_int(tp_mul(one, (uint64_t)INT64_MAX)), INT64_MAX);
        assert_int_equal(tp_item_int(tp_mul(one, (size_t)1 << 40)), (int64_t)1 << 40);
        tp_scalar five = tp_item_scalar(tp_select(tp_mul(x, 5 * I), 0, 0));
        assert_true(five.kind == TP_SCALAR_COMPLEX);
        assert_true(five.as.d[0] == 0);
        assert_true(five.as.d[1] == 5);
        assert_true(tp_item_scalar(tp_full(TP_INTS(1), 3.0f + 2.0f * I)).as.d[1] == 2);
#ifdef __FLT16_MAX__
        ASSERT_VALUES(tp_mul(x, (_Float16)1.5), 1.5f, -3);
#endif
    }
}

static void an_unsigned_number_never_turns_negative(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2), *whole = tp_to(x, .dtype = TP_INT64);
        ASSERT_VALUES(tp_mul(x, 1ull << 63), 0x1p63f, 0x1p64f);
        assert_null(tp_mul(whole, 1ull << 63));
        assert_error(TP_ERR_RUNTIME, "value cannot be converted to type int64_t without overflow");
        assert_null(tp_full(TP_INTS(2), UINT64_MAX));
        assert_error(TP_ERR_RUNTIME, "value cannot be converted to type int64_t without overflow");
        assert_null(tp_call("mul", whole, UINT64_MAX));
        assert_error(TP_ERR_RUNTIME, "without overflow");
        tp_tensor *large = tp_full(TP_INTS(2), UINT64_MAX, .dtype = TP_UINT64);
        assert_true(tp_item_scalar(tp_select(large, 0, 0)).kind == TP_SCALAR_UINT);
        assert_null(tp_full(TP_INTS(2), tp_no_scalar()));
        assert_error(TP_ERR_VALUE, "full: argument 'fill_value': expected a number, got none");
    }
}

static double first_weight(tp_module *m, const char *path) {
    double w = 0;
    TP_SCOPE
        w = tp_item(tp_select(tp_select(tp_module_tensor(m, path), 0, 0), 0, 0));
    return w;
}
static void layers_and_lists_are_made_from_left_to_right(void **state) {
    (void)state;
    tp_manual_seed(1);
    tp_module *one = tp_nn_linear(3, 3), *two = tp_nn_linear(3, 3);
    tp_manual_seed(1);
    tp_module *both = tp_nn_sequential(tp_nn_linear(3, 3), tp_nn_linear(3, 3));
    assert_true(first_weight(both, "0.weight") == first_weight(one, "weight"));
    assert_true(first_weight(both, "1.weight") == first_weight(two, "weight"));
    tp_module_release(one);
    tp_module_release(two);
    tp_module_release(both);
    TP_SCOPE {
        tp_manual_seed(2);
        float a = (float)tp_item(tp_rand(TP_INTS(1))), b = (float)tp_item(tp_rand(TP_INTS(1)));
        tp_manual_seed(2);
        ASSERT_VALUES(tp_cat(TP_LIST(tp_rand(TP_INTS(1)), tp_rand(TP_INTS(1)))), a, b);
        tp_manual_seed(2);
        ASSERT_VALUES(tp_call("sub", tp_rand(TP_INTS(1)), tp_rand(TP_INTS(1))), a - b);
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

/* ---- By name ---- */

static void operators_are_called_by_name(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *m = tp_reshape(VECTOR(1, 2, 3, 4, 5, 6), TP_INTS(2, 3));
        ASSERT_VALUES(tp_call("add", m, 1), 2, 3, 4, 5, 6, 7);
        ASSERT_VALUES(tp_call("sum", m, TP_INTS(0)), 5, 7, 9);
        ASSERT_VALUES(tp_call("sum", m, tp_named("dim", TP_VALUE(TP_INTS(1))), tp_named("keepdim", TP_VALUE(true))), 6,
                      15);
        ASSERT_VALUES(tp_call("add", m, tp_named("alpha", TP_VALUE(2)), tp_named("other", TP_VALUE(10))), 21, 22, 23,
                      24, 25, 26);
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
    assert_true(op->differentiable);
    assert_true(op->nargs >= 2);
    assert_string_equal(op->args[1].name, "dim");
    for (int64_t i = 0; i < tp_operator_count(); i++)
        assert_ptr_equal(tp_find_operator(tp_operator_at(i)->name), tp_operator_at(i));
}

/* ---- Memory of others ---- */

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
    assert_true(memory[0] == 10);
    assert_true(memory[5] == 60);
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

/* ---- Threads ---- */

/* A graph of its own on each thread: x <- x - 0.1 d/dx sum((x * w)^2), many times. */
static void *descend(void *result) {
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(VECTOR(1, 2, 3, 4), true), *w = VECTOR(1, 0.5f, 0.25f, 2);
        for (int i = 0; i < 300; i++)
            TP_SCOPE {
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

/* ---- Options begin with their size: 0 is an error that says so, not a guess ---- */
static void a_size_of_zero_is_an_error(void **state) {
    (void)state;
    tp_tensor *x = tp_ones(TP_INTS(2));
    const tp_sum_options none = {.size = 0};
    tp_release(tp_sum_with(x, &none));
    assert_non_null(tp_error());
    assert_non_null(strstr(tp_error(), "expected a struct that begins with its size, got size 0"));
    tp_error_clear();
    tp_tensor *w = tp_set_requires_grad(tp_ones(TP_INTS(1)), true), *grad = NULL;
    const tp_backward_options backward = {.gradient = x};
    tp_tensor *doubled = tp_mul(w, 2);
    assert_false(tp_backward_with(doubled, &backward));
    tp_release(doubled);
    assert_non_null(strstr(tp_error(), "argument 'options': expected a struct that begins with its size, got size 0"));
    tp_error_clear();
    assert_null(tp_grad(w));
    const tp_grad_options retain = {.retain_graph = true};
    assert_false(tp_gradients(TP_LIST(w), TP_LIST(w), NULL, &grad, &retain));
    assert_non_null(strstr(tp_error(), "argument 'options': expected a struct"));
    tp_error_clear();
    tp_scaler *scaler = tp_scaler_new();
    tp_scaler_state place = {.size = -8};
    assert_false(tp_scaler_get_state(scaler, &place));
    assert_non_null(strstr(tp_error(), "argument 'state': expected a struct that begins with its size, got size -8"));
    tp_error_clear();
    tp_scaler_free(scaler);
    const tp_loader_options loader = {.batch = 2};
    tp_dataset *data = tp_dataset_of_tensors(TP_LIST(x));
    assert_null(tp_loader_new_with(data, &loader));
    assert_non_null(strstr(tp_error(), "begins with its size"));
    tp_error_clear();
    const tp_training training = {.epoch = 1};
    assert_false(tp_training_save("nothing.pt", &training));
    assert_non_null(
        strstr(tp_error(), "tp_training_save: argument 'options': expected a struct that begins with its size"));
    tp_error_clear();
    tp_dataset_release(data);
    tp_release(w);
    tp_release(x);
}

static void messages_name_the_function(void **state) {
    (void)state;
    tp_tensor *x = tp_ones(TP_INTS(2, 3)), *whole = tp_ones(TP_INTS(2), .dtype = TP_INT64);
    assert_int_equal(tp_size(x, 7), -1);
    assert_non_null(strstr(tp_error(), "tp_size: argument 'dim': Dimension out of range"));
    tp_error_clear();
    (void)tp_item(x);
    assert_string_equal(tp_error(), "tp_item: a Tensor with 6 elements cannot be converted to Scalar");
    tp_error_clear();
    assert_null(tp_set_requires_grad(whole, true));
    assert_non_null(strstr(tp_error(), "tp_set_requires_grad: Only Tensors of floating point"));
    tp_error_clear();
    assert_null(tp_call("sofmax", x));
    assert_string_equal(tp_error(), "no operator is called 'sofmax': did you mean 'softmax'?");
    tp_error_clear();
    assert_null(tp_call("zzzzzz", x));
    assert_string_equal(tp_error(), "no operator is called 'zzzzzz'");
    tp_error_clear();
    tp_release(x);
    tp_release(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_name_the_function),
        cmocka_unit_test(an_expression_is_checked_once_at_its_end),
        cmocka_unit_test(null_without_an_error_names_the_argument),
        cmocka_unit_test(a_failed_call_leaves_its_out_tensor_as_it_was),
        cmocka_unit_test(messages_name_an_operator_once),
        cmocka_unit_test(errors_belong_to_their_thread),
        cmocka_unit_test(a_scope_releases_what_was_not_kept),
        cmocka_unit_test(kept_tensors_move_to_the_scope_around),
        cmocka_unit_test(scopes_may_be_left_by_return_goto_and_continue),
        cmocka_unit_test(a_break_that_ends_only_the_block_is_an_error),
        cmocka_unit_test(a_break_behind_the_declaration_form_ends_the_loop),
        cmocka_unit_test(what_is_released_inside_a_scope_leaves_the_scope),
        cmocka_unit_test(a_scope_of_another_thread_keeps_what_it_owns),
        cmocka_unit_test(a_tensor_that_is_gone_is_an_error),
        cmocka_unit_test(a_module_optimiser_or_schedule_that_is_gone_is_an_error),
        cmocka_unit_test(effects_wait_until_an_error_is_read),
        cmocka_unit_test(an_error_ends_the_epoch),
        cmocka_unit_test(options_are_designated_initialisers),
        cmocka_unit_test(numbers_keep_their_type),
        cmocka_unit_test(numbers_of_every_type_keep_their_values),
        cmocka_unit_test(an_unsigned_number_never_turns_negative),
        cmocka_unit_test(layers_and_lists_are_made_from_left_to_right),
        cmocka_unit_test(a_program_with_smaller_options_still_works),
        cmocka_unit_test(a_size_of_zero_is_an_error),
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
