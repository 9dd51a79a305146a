/* Serving a network on threads: all of them share its weights, which nobody changes, and answer requests from one
 * queue. The answers are those of one thread, bit for bit. serving [THREADS [REQUESTS]] */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>

enum { FEATURES = 16, CLASSES = 4, MOST = 10000 };

typedef struct service {
    tp_module *net; /* shared: forward in evaluation only reads it */
    tp_tensor *in;  /* requests, one per row */
    float *out;     /* answers, one row per request */
    int64_t requests;
    atomic_llong next; /* the queue: requests that somebody took */
    atomic_int failed;
} service;

static void *serve(void *context) {
    service *s = context;
    for (int64_t i; (i = atomic_fetch_add(&s->next, 1)) < s->requests;) {
        TP_SCOPE_HERE; /* each thread has scopes, errors and a grad mode of its own */
        TP_INFERENCE_HERE;
        tp_tensor *answer = tp_softmax(tp_forward(s->net, tp_narrow(s->in, 0, i, 1)), 1);
        if (!tp_copy_out(answer, s->out + i * CLASSES, CLASSES * sizeof(float))) {
            fprintf(stderr, "serving: request %lld: %s\n", (long long)i, tp_error());
            tp_error_clear();
            atomic_fetch_add(&s->failed, 1);
        }
    }
    return NULL;
}

/* All requests on that many threads. */
static bool run(service *s, int threads, float *out) {
    pthread_t team[64];
    s->out = out;
    atomic_store(&s->next, 0);
    int started = 0;
    while (started < threads && pthread_create(&team[started], NULL, serve, s) == 0) started++;
    for (int i = 0; i < started; i++) pthread_join(team[i], NULL);
    return started > 0 && atomic_load(&s->failed) == 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    int64_t requests = argc > 2 ? atoll(argv[2]) : 1000;
    if (threads < 1 || threads > 64 || requests < 1 || requests > MOST) {
        fprintf(stderr, "serving: 1 to 64 threads, 1 to %d requests\n", MOST);
        return 2;
    }
    tp_set_num_threads(1); /* the requests are what runs in parallel */
    tp_manual_seed(0);
    service s = {.requests = requests};
    s.net =
        tp_nn_sequential(tp_nn_linear(FEATURES, 64), tp_nn_gelu(), tp_nn_dropout(.p = 0.1), tp_nn_linear(64, CLASSES));
    tp_module_train(s.net, false); /* dropout hands through */
    s.in = tp_randn(TP_INTS(requests, FEATURES));
    float *one = calloc((size_t)requests, CLASSES * sizeof(float)),
          *many = calloc((size_t)requests, CLASSES * sizeof(float));
    bool fine = tp_ok() && one && many && run(&s, 1, one) && run(&s, threads, many);
    if (fine)
        printf("%lld requests on %d threads, same bits as on one: %s\n", (long long)requests, threads,
               memcmp(one, many, (size_t)requests * CLASSES * sizeof(float)) ? "no" : "yes");
    free(one);
    free(many);
    tp_release(s.in);
    tp_module_release(s.net);
    if (!tp_ok()) fprintf(stderr, "serving: %s\n", tp_error());
    return fine ? 0 : 1;
}
