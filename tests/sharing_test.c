/* What docs/threads.md lets threads share: tensors that are read, a module in evaluation, a dataset, a generator; each
 * with an error, scopes and modes of its own. tests/long/races_test.sh runs this under ThreadSanitizer. */
#include "tape_fixture.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 20 };

typedef struct shared {
    tp_module *net;
    tp_tensor *x, *want;
    tp_dataset *data;
    tp_generator *generator;
    atomic_int good;
} shared;

/* Everything that a thread may do with what others use as well. */
static bool one_round(shared *s) {
    bool good = true;
    TP_SCOPE {
        TP_INFERENCE
            good = tp_equal(tp_forward(s->net, s->x), s->want);
        tp_tensor *mine =
            tp_set_requires_grad(tp_detach(tp_clone(s->x)), true); /* a graph of its own over shared weights */
        tp_tensor *slope = NULL, *y = tp_sum(tp_forward(s->net, mine));
        good = good && tp_gradients(TP_LIST(y), TP_LIST(mine), NULL, &slope, NULL) && slope;
        tp_release(tp_retain(s->x));
        tp_tensor *item = NULL;
        good = good && tp_dataset_get(s->data, 1, &item) && tp_numel(item) == 3;
        tp_release(item);
        good = good && tp_randn(TP_INTS(3), .generator = s->generator) != NULL;
        tp_loader *loader = tp_loader_new(s->data, .batch = 2, .threads = 1);
        while (tp_loader_next(loader)) good = good && tp_loader_field(loader, 0);
        tp_loader_free(loader);
    }
    return good && tp_ok();
}

static void *work(void *context) {
    shared *s = context;
    bool good = tp_ok() && tp_grad_enabled();
    for (int i = 0; good && i < ROUNDS; i++) {
        good = one_round(s);
        if (i % 4 == 0) { /* an error is this thread's alone */
            tp_matmul(NULL, NULL);
            good = good && !tp_ok();
            tp_error_clear();
        }
    }
    if (good) atomic_fetch_add(&s->good, 1);
    tp_error_clear();
    return NULL;
}

static void test_threads_share(void **state) {
    (void)state;
    shared s = {.net = tp_nn_sequential(tp_nn_linear(3, 8), tp_nn_gelu(), tp_nn_dropout(), tp_nn_linear(8, 2)),
                .generator = tp_generator_new(1)};
    tp_module_train(s.net, false);
    s.x = tp_randn(TP_INTS(5, 3));
    s.data = tp_dataset_of_tensors(TP_LIST(s.x));
    TP_NO_GRAD
        s.want = tp_forward(s.net, s.x);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &s), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.good), THREADS);
    assert_true(tp_ok());
    tp_release(s.x);
    tp_release(s.want);
    tp_dataset_release(s.data);
    tp_generator_free(s.generator);
    tp_module_release(s.net);
}

int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_threads_share)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
