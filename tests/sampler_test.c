/* Samplers and splits draw PyTorch's items (printed by PyTorch 2.15); loaders read by a sampler and go on from a saved
 * place; datasets are put one behind the other and sent through functions on threads. */
#include "tape_fixture.h"

static void assert_items(tp_tensor *t, int n, const int64_t *want) {
    int64_t got[16];
    if (!t) fail_msg("%s", tp_error());
    assert_int_equal(tp_numel(t), n);
    assert_true(tp_copy_out(t, got, sizeof got));
    for (int i = 0; i < n; i++) assert_int_equal(got[i], want[i]);
}
#define ITEMS(...) \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static void assert_draws(tp_sampler *s, int n, const int64_t *want) {
    tp_manual_seed(1);
    assert_int_equal(tp_sampler_count(s), n);
    TP_SCOPE
        assert_items(tp_sampler_draw(s), n, want);
    tp_sampler_free(s);
}

static void test_pytorch_items(void **state) {
    (void)state;
    assert_draws(tp_sampler_sequential(3), ITEMS(0, 1, 2));
    assert_draws(tp_sampler_random(5, false, 0, NULL), ITEMS(1, 3, 4, 0, 2));
    assert_draws(tp_sampler_random(5, false, 8, NULL), ITEMS(1, 3, 4, 0, 2, 1, 0, 3));
    assert_draws(tp_sampler_random(5, true, 7, NULL), ITEMS(1, 2, 0, 4, 1, 4, 0));
    assert_draws(tp_sampler_subset_random(TP_INTS(10, 20, 30, 40), NULL), ITEMS(20, 40, 30, 10));
    tp_sampler *d = tp_sampler_distributed(5, 2, 1, true, 7, false);
    assert_true(tp_sampler_set_epoch(d, 2));
    assert_draws(d, ITEMS(1, 4, 0));
    assert_draws(tp_sampler_distributed(5, 2, 1, false, 0, false), ITEMS(1, 3, 0));
    assert_draws(tp_sampler_distributed(5, 2, 1, false, 0, true), ITEMS(1, 3));
    TP_SCOPE
        assert_draws(tp_sampler_weighted(VECTOR(0, 0, 5, 0), 3, true, NULL), ITEMS(2, 2, 2));
    tp_generator *g = tp_generator_new(3);
    tp_sampler *s = tp_sampler_random(5, false, 0, g);
    TP_SCOPE {
        assert_items(tp_sampler_draw(s), ITEMS(1, 0, 3, 4, 2));
        assert_items(tp_sampler_draw(s), ITEMS(1, 4, 3, 0, 2));
    }
    tp_sampler_free(s);
    tp_generator_free(g);
}

static tp_dataset *five(void) {
    tp_dataset *d = NULL;
    TP_SCOPE
        d = tp_dataset_of_tensors(TP_LIST(tp_arange(5)));
    return d;
}
static tp_tensor *rest_of_epoch(tp_loader *loader) {
    tp_tensor *all = NULL;
    while (tp_loader_next(loader)) {
        tp_tensor *batch = tp_clone(tp_loader_field(loader, 0));
        all = all ? tp_cat(TP_LIST(all, batch)) : batch;
    }
    return all;
}

static void test_loader_with_sampler(void **state) {
    (void)state;
    tp_dataset *d = five();
    tp_sampler *s = tp_sampler_random(5, false, 0, NULL);
    for (int threads = 0; threads < 3; threads += 2) {
        tp_manual_seed(1);
        tp_loader *loader = tp_loader_new(d, .batch = 2, .sampler = s, .threads = threads);
        TP_SCOPE {
            assert_int_equal(tp_loader_batches(loader), 3);
            assert_items(rest_of_epoch(loader), ITEMS(4, 1, 3, 0, 2));
            assert_true(tp_loader_next(loader));
            tp_tensor *saved_state = tp_loader_get_state(loader);
            assert_items(rest_of_epoch(loader), ITEMS(2, 3, 1));
            assert_true(tp_loader_set_state(loader, saved_state));
            assert_items(rest_of_epoch(loader), ITEMS(2, 3, 1));
        }
        tp_loader_free(loader);
    }
    assert_null(tp_loader_new(d, .shuffle = true, .sampler = s));
    assert_error("sampler option is mutually exclusive with shuffle");
    tp_sampler_free(s);
    tp_dataset_release(d);
}

static void assert_dataset(tp_dataset *d, int n, const int64_t *want) {
    tp_loader *loader = tp_loader_new(d, .batch = 16);
    TP_SCOPE
        assert_items(rest_of_epoch(loader), n, want);
    tp_loader_free(loader);
    tp_dataset_release(d);
}

static void test_splits(void **state) {
    (void)state;
    tp_dataset *d = five(), *parts[2];
    for (int shares = 0; shares < 2; shares++) {
        tp_manual_seed(1);
        assert_true(shares ? tp_dataset_random_shares(d, TP_FLOATS(0.5, 0.5), NULL, parts)
                           : tp_dataset_random_split(d, TP_INTS(3, 2), NULL, parts));
        assert_dataset(parts[0], ITEMS(0, 4, 2));
        assert_dataset(parts[1], ITEMS(3, 1));
    }
    assert_false(tp_dataset_random_split(d, TP_INTS(3, 3), NULL, parts));
    assert_error("tp_dataset_random_split: argument 'lengths': Sum of input lengths");
    assert_false(tp_dataset_random_shares(d, TP_FLOATS(0.5, 0.4), NULL, parts));
    assert_error("tp_dataset_random_shares: argument 'shares'");
    tp_dataset_release(d);
}

static void test_concat(void **state) {
    (void)state;
    tp_dataset *a = five(), *b = tp_dataset_subset(a, TP_INTS(3)), *empty = tp_dataset_subset(a, TP_INTS(0));
    tp_dataset *floats = NULL;
    TP_SCOPE
        floats = tp_dataset_of_tensors(TP_LIST(VECTOR(1, 2)));
    assert_dataset(tp_dataset_concat(3, (tp_dataset *[]){b, empty, a}), ITEMS(3, 0, 0, 1, 2, 3, 4));
    assert_null(tp_dataset_concat(2, (tp_dataset *[]){a, floats}));
    assert_error("tp_dataset_concat: argument 'datasets': dataset 1 has other fields than dataset 0");
    assert_null(tp_dataset_concat(0, NULL));
    assert_error("tp_dataset_concat");
    tp_dataset_release(a);
    tp_dataset_release(b);
    tp_dataset_release(empty);
    tp_dataset_release(floats);
}

static bool squares(void *context, tp_tensors in, tp_tensor **out) {
    __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
    out[0] = tp_mul(in.v[0], in.v[0]);
    out[1] = tp_div(tp_to(in.v[0], .dtype = TP_FLOAT32), 2);
    return true;
}
static bool wrong_shape(void *context, tp_tensors in, tp_tensor **out) {
    (void)context;
    out[0] = tp_unsqueeze(in.v[0], 0);
    return true;
}
static void one_more(void *context) { *(int *)context += 1000; }

static void test_map(void **state) {
    (void)state;
    tp_dataset *d = five();
    const tp_field fields[] = {{TP_INT64, tp_ints_view(NULL, 0)}, {TP_FLOAT32, tp_ints_view(NULL, 0)}};
    int calls = 0;
    tp_dataset *mapped = tp_dataset_map(d, 2, fields, squares, one_more, &calls);
    tp_loader *loader = tp_loader_new(mapped, .batch = 3, .threads = 2);
    TP_SCOPE {
        assert_true(tp_loader_next(loader));
        assert_items(tp_loader_field(loader, 0), ITEMS(0, 1, 4));
        ASSERT_VALUES(tp_loader_field(loader, 1), 0, 0.5f, 1);
        assert_true(tp_loader_next(loader));
        assert_items(tp_loader_field(loader, 0), ITEMS(9, 16));
    }
    tp_loader_free(loader);
    tp_dataset_release(mapped);
    assert_int_equal(calls, 1005);
    mapped = tp_dataset_map(d, 1, fields, wrong_shape, NULL, NULL);
    tp_tensor *item;
    assert_false(tp_dataset_get(mapped, 0, &item));
    assert_error("tp_dataset_map: field 0: expected int64 [], the function gave int64 [1]");
    assert_null(tp_dataset_map(d, 1, fields, NULL, NULL, NULL));
    assert_error("tp_dataset_map: argument 'map': expected a function, got NULL");
    tp_dataset_release(mapped);
    tp_dataset_release(d);
}

static void test_mistakes(void **state) {
    (void)state;
    assert_null(tp_sampler_random(0, false, 0, NULL));
    assert_error("tp_sampler_random: argument 'count': expected 1 or more, got 0");
    assert_null(tp_sampler_distributed(5, 2, 2, true, 0, false));
    assert_error("tp_sampler_distributed: argument 'rank': Invalid rank 2");
    tp_sampler *s = tp_sampler_sequential(3);
    assert_false(tp_sampler_set_epoch(s, 1));
    assert_error("tp_sampler_set_epoch: argument 'sampler'");
    assert_null(tp_sampler_draw(NULL));
    assert_error("tp_sampler_draw: argument 'sampler': expected a sampler, got NULL");
    tp_sampler_free(s);
}

static void everything(void) {
    tp_dataset *d = five(), *parts[2] = {NULL, NULL}, *both = NULL, *mapped = NULL;
    int calls = 0;
    const tp_field fields[] = {{TP_INT64, tp_ints_view(NULL, 0)}, {TP_FLOAT32, tp_ints_view(NULL, 0)}};
    tp_sampler *s = d ? tp_sampler_random(5, false, 8, NULL) : NULL;
    if (d && tp_dataset_random_split(d, TP_INTS(3, 2), NULL, parts)) both = tp_dataset_concat(2, parts);
    if (both) mapped = tp_dataset_map(both, 2, fields, squares, NULL, &calls);
    tp_loader *loader = mapped && s ? tp_loader_new(mapped, .batch = 3, .sampler = s) : NULL;
    while (loader && tp_loader_next(loader)) continue;
    tp_loader_free(loader);
    tp_sampler_free(s);
    tp_dataset_release(mapped);
    tp_dataset_release(both);
    tp_dataset_release(parts[0]);
    tp_dataset_release(parts[1]);
    tp_dataset_release(d);
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_pytorch_items),
                                     TEST(test_pytorch_items),
                                     cmocka_unit_test(test_loader_with_sampler),
                                     TEST(test_loader_with_sampler),
                                     TEST(test_splits),
                                     TEST(test_concat),
                                     cmocka_unit_test(test_map),
                                     TEST(test_map),
                                     TEST(test_mistakes),
                                     cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
