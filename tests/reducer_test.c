/* The reducer of gradients, with a transport that only notes what it is asked for: buckets, the order in which they
 * start, gradients that come twice or not at all, views, static graphs. */
#include "tape_fixture.h"
#include <taper/ddp.h>

typedef struct transport {
    tp_reducer *reducer;
    int64_t started[8], nstarted, waited, summed, began;
    double others; /* what other ranks add to every element */
    int uses;      /* and how many of them used each parameter */
} transport;

static bool start(void *context, int64_t bucket) {
    transport *t = context;
    t->started[t->nstarted++ % 8] = bucket;
    tp_add_(tp_reducer_bucket(t->reducer, bucket, NULL), t->others);
    return tp_ok();
}
static bool wait_for(void *context, int64_t bucket) {
    (void)bucket;
    ((transport *)context)->waited++;
    return true;
}
static bool sum(void *context, tp_tensor *used) {
    transport *t = context;
    t->summed++;
    tp_add_(used, t->uses);
    return tp_ok();
}
static bool began(void *context) {
    ((transport *)context)->began++;
    return true;
}

#define REDUCER(t, leaves, ...)                                                              \
    ((t)->reducer = tp_reducer_new(3, leaves, (const char *const[]){"a", "b", "c"},          \
                                   &(tp_reducer_options){.size = sizeof(tp_reducer_options), \
                                                         .context = t,                       \
                                                         .start = start,                     \
                                                         .wait = wait_for,                   \
                                                         .sum = sum,                         \
                                                         .began = began,                     \
                                                         .first_bytes = 8,                   \
                                                         .bucket_bytes = 12,                 \
                                                         __VA_ARGS__}))
#define LEAVES \
    { LEAF(1, 2), LEAF(3), LEAF(4, 5) }

static void buckets_start_in_order(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p[] = LEAVES;
        transport t = {.others = 1};
        assert_non_null(REDUCER(&t, p, .as_views = false));
        tp_ints members;
        assert_int_equal(tp_reducer_buckets(t.reducer), 2); /* c is 8 bytes, b and a are 12 */
        assert_int_equal(tp_numel(tp_reducer_bucket(t.reducer, 1, &members)), 3);
        assert_true(members.n == 2);
        assert_true(members.v[0] == 1);
        assert_true(members.v[1] == 0);
        assert_null(tp_reducer_bucket(t.reducer, 2, NULL));
        assert_error("argument 'bucket': expected 0 to 1, got 2");
        tp_reducer_divide(t.reducer, 2);
        assert_true(tp_reducer_prepare(t.reducer, NULL));
        assert_true(tp_backward(tp_sum(tp_mul(p[0], 2))));
        assert_true(tp_backward(tp_sum(p[1]))); /* a and b: bucket 1 is full */
        assert_true(t.nstarted == 0);
        assert_true(tp_reducer_running(t.reducer));
        assert_true(!tp_reducer_has(t.reducer, 2));
        assert_true(tp_backward(tp_sum(tp_mul(p[2], 4))));
        assert_true(t.nstarted == 2);
        assert_true(t.started[0] == 0);
        assert_true(t.started[1] == 1);
        assert_true(t.waited == 2);
        assert_true(!t.summed);
        assert_false(tp_reducer_running(t.reducer));
        ASSERT_VALUES(tp_grad(p[0]), 2, 2);
        ASSERT_VALUES(tp_grad(p[2]), 3, 3);
        assert_true(tp_backward(tp_sum(p[0]))); /* nothing was prepared: this rank's own */
        ASSERT_VALUES(tp_grad(p[0]), 3, 3);
        tp_reducer_free(t.reducer);
        assert_true(tp_backward(tp_sum(p[0])));
        ASSERT_VALUES(tp_grad(p[0]), 4, 4);
    }
}

static void what_comes_twice_is_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p[] = LEAVES;
        transport t = {0};
        assert_non_null(REDUCER(&t, p, .as_views = true));
        assert_true(tp_reducer_prepare(t.reducer, NULL));
        assert_true(tp_backward(tp_sum(p[0])));
        assert_false(tp_backward(tp_sum(p[0])));
        assert_error("parameter 'a' has been marked as ready twice");
        tp_reducer_free(t.reducer);
    }
}

static void unused_parameters(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p[] = LEAVES;
        transport t = {.others = 3, .uses = 1};
        assert_non_null(REDUCER(&t, p, .find_unused = true, .as_views = true));
        assert_true(tp_reducer_prepare(t.reducer, (const bool[]){false, true, false}));
        assert_true(tp_backward(tp_add(tp_sum(p[0]), tp_sum(p[2]))));
        assert_true(t.summed == 1);
        assert_true(t.waited == 2);
        ASSERT_VALUES(tp_grad(p[1]), 3); /* zero here, three elsewhere */
        assert_ptr_equal(tp_data(tp_grad(p[1])), tp_data(tp_reducer_bucket(t.reducer, 1, NULL)));
        t.uses = 0;
        assert_true(tp_set_grad(p[1], NULL));
        assert_true(tp_reducer_prepare(t.reducer, (const bool[]){false, true, false}));
        assert_true(tp_backward(tp_add(tp_sum(p[0]), tp_sum(p[2]))));
        assert_null(tp_grad(p[1])); /* used by nobody */
        assert_true(tp_reducer_shadow(t.reducer));
        assert_true(t.summed == 3);
        assert_true(t.waited == 6);
        tp_reducer_free(t.reducer);
    }
}

static void finished_by_hand(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p[] = LEAVES;
        transport t = {0};
        assert_non_null(REDUCER(&t, p, .by_hand = true));
        assert_true(tp_reducer_prepare(t.reducer, NULL));
        assert_true(tp_backward(tp_add(tp_sum(p[0]), tp_sum(p[2]))));
        assert_int_equal(t.waited, 0);
        assert_false(tp_reducer_finish(t.reducer));
        assert_error("parameter 'b' got no gradient in this backward: set .find_unused if that is meant");
        assert_int_equal(t.waited, 1); /* for the bucket that was started */
        tp_reducer_pause(t.reducer, true);
        assert_true(tp_reducer_prepare(t.reducer, NULL));
        assert_true(tp_backward(tp_sum(p[0])));
        assert_true(tp_reducer_finish(t.reducer));
        assert_int_equal(t.waited, 1);
        tp_reducer_free(t.reducer);
    }
}

static void static_graphs_count_once(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *p[] = LEAVES;
        transport t = {.others = 1};
        assert_non_null(REDUCER(&t, p, .static_graph = true));
        assert_true(tp_reducer_prepare(t.reducer, NULL));
        assert_true(tp_backward(tp_sum(p[0])));
        assert_true(tp_backward(tp_sum(p[0])));
        assert_true(tp_backward(tp_sum(p[2])));
        assert_true(t.began == 1);
        assert_true(t.nstarted == 0);
        assert_true(tp_reducer_first_done(t.reducer)); /* a comes twice, b never, c once */
        assert_true(t.nstarted == 2);
        assert_true(t.waited == 2);
        assert_true(tp_reducer_prepare(t.reducer, NULL));
        assert_true(tp_backward(tp_sum(p[0])));
        assert_true(tp_backward(tp_sum(p[2])));
        assert_int_equal(t.nstarted, 3);
        assert_true(tp_backward(tp_sum(p[0])));
        assert_int_equal(t.nstarted, 4);
        tp_reducer_free(t.reducer);
    }
}

static void make_and_free(void) {
    TP_SCOPE {
        tp_tensor *p[] = LEAVES;
        transport t = {0};
        if (tp_ok()) tp_reducer_free(REDUCER(&t, p, .as_views = false));
    }
}
static void failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(make_and_free);
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(buckets_start_in_order),   CASE(what_comes_twice_is_refused),
                                       CASE(unused_parameters),        CASE(finished_by_hand),
                                       CASE(static_graphs_count_once), CASE(failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
