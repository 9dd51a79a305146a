/* Collectives on GPUs, seen from the host: that nobody waits who does not have to, that a stream waits for what it
 * must, that works are held until the GPU is done, and that a job which fails gets its communicators back. The GPU is
 * host memory with streams that are threads, and NCCL is tests/fake_nccl.c, whose operations run in those streams. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <taper/taper.h>
#include "device/cpu/cpu.h"
#include "device/gpu/driver.h"
#include "dist/collective/group.h"
#include "dist/engine/net.h"
#include "tensor/tensor.h"

/* ---- A stream: a thread that does what it is given in order; the default one is made on first use ---- */
typedef struct job {
    struct job *next;
    void (*run)(void *context);
    void *context;
} job;
struct tpi_gpu_stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job *first, **end;
    int64_t given, done;
};
struct tpi_gpu_event {
    tpi_gpu_stream *stream;
    int64_t number; /* of what the stream had been given */
};

static void *stream_main(void *context) {
    tpi_gpu_stream *s = context;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->first) pthread_cond_wait(&s->changed, &s->lock);
        job *j = s->first;
        if (!(s->first = j->next)) s->end = &s->first;
        pthread_mutex_unlock(&s->lock);
        j->run(j->context);
        free(j);
        pthread_mutex_lock(&s->lock);
        s->done++;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static tpi_gpu_stream *stream_start(void) {
    tpi_gpu_stream *s = calloc(1, sizeof *s);
    pthread_t thread;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->end = &s->first;
    pthread_create(&thread, NULL, stream_main, s);
    pthread_detach(thread);
    return s;
}

static tpi_gpu_stream *or_default(tpi_gpu_stream *s) {
    static tpi_gpu_stream *made;
    if (!s && !made) made = stream_start();
    return s ? s : made;
}

static void enqueue(void *stream, void (*run)(void *context), void *context) {
    tpi_gpu_stream *s = or_default(stream);
    job *j = malloc(sizeof *j);
    *j = (job){NULL, run, context};
    pthread_mutex_lock(&s->lock);
    *s->end = j;
    s->end = &j->next;
    s->given++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void await(tpi_gpu_stream *s, int64_t number) {
    pthread_mutex_lock(&s->lock);
    while (s->done < number) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* ---- The driver ---- */
static int count(void) { return 1; }
static bool describe(int index, tpi_gpu_caps *caps) {
    *caps = (tpi_gpu_caps){
        .name = "a thread", .pci_bus = index + 1, .memory = 1 << 30, .warp = 1, .max_threads = 1, .units = 1};
    return true;
}
static void *raw_alloc(int index, size_t bytes) {
    (void)index;
    return malloc(bytes);
}
static void raw_free(int index, void *block) {
    (void)index;
    free(block);
}
static bool stream_new(int index, int priority, tpi_gpu_stream **s) {
    (void)index;
    (void)priority;
    *s = stream_start();
    return true;
}
static void stream_free(int index, tpi_gpu_stream *s) {
    (void)index;
    (void)s;
}
static bool stream_sync(int index, tpi_gpu_stream *s) {
    (void)index;
    s = or_default(s);
    await(s, s->given);
    return true;
}
static bool event_new(int index, bool timing, tpi_gpu_event **event) {
    (void)index;
    (void)timing;
    return (*event = calloc(1, sizeof **event)) != NULL;
}
static void event_free(int index, tpi_gpu_event *event) {
    (void)index;
    free(event);
}
static bool event_record(int index, tpi_gpu_event *event, tpi_gpu_stream *s) {
    (void)index;
    event->stream = or_default(s);
    pthread_mutex_lock(&event->stream->lock);
    event->number = event->stream->given;
    pthread_mutex_unlock(&event->stream->lock);
    return true;
}
static int event_query(int index, tpi_gpu_event *event) {
    (void)index;
    pthread_mutex_lock(&event->stream->lock);
    bool reached = event->stream->done >= event->number;
    pthread_mutex_unlock(&event->stream->lock);
    return reached;
}
static void run_wait(void *context) {
    tpi_gpu_event *event = context;
    await(event->stream, event->number);
    free(event);
}
static bool stream_wait(int index, tpi_gpu_stream *s, tpi_gpu_event *event) {
    (void)index;
    tpi_gpu_event *copy = malloc(sizeof *copy);
    *copy = *event;
    enqueue(s, run_wait, copy);
    return true;
}
typedef struct copying {
    void *to;
    const void *from;
    size_t bytes;
} copying;
static void run_copy(void *context) {
    copying *c = context;
    memcpy(c->to, c->from, c->bytes);
    free(c);
}
static bool copy_bytes(int index, tpi_gpu_stream *s, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    copying *c = malloc(sizeof *c);
    *c = (copying){to, from, bytes};
    enqueue(s, run_copy, c);
    return way == TPI_GPU_WITHIN || stream_sync(index, s);
}
static const tpi_gpu_driver driver = {.version = TPI_GPU_DRIVER_VERSION,
                                      .name = "threads",
                                      .type = TP_CUDA,
                                      .count = count,
                                      .describe = describe,
                                      .alloc = raw_alloc,
                                      .free = raw_free,
                                      .copy = copy_bytes,
                                      .stream_new = stream_new,
                                      .stream_free = stream_free,
                                      .stream_sync = stream_sync,
                                      .stream_wait = stream_wait,
                                      .event_new = event_new,
                                      .event_free = event_free,
                                      .event_record = event_record,
                                      .event_query = event_query};

/* ---- The device: the CPU's kernels, after what the current stream has to do ---- */
static bool quiet(tp_device device) { return stream_sync(device.index, tpi_gpu_stream_of(device)); }
static void *alloc_host(tp_device device, size_t bytes) {
    (void)device;
    return malloc(bytes + 1);
}
static atomic_int freed;
static void free_host(tp_device device, void *block, size_t bytes) {
    (void)device;
    (void)bytes;
    atomic_fetch_add(&freed, 1);
    free(block);
}
static bool to_host(tp_device device, void *host, const void *block, size_t bytes) {
    return quiet(device) && memcpy(host, block, bytes);
}
static bool from_host(tp_device device, void *block, const void *host, size_t bytes) {
    return quiet(device) && memcpy(block, host, bytes);
}
static bool map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params) {
    return quiet(device) && tpi_cpu_map(device, op, plan, compute, params);
}
static bool copy(tp_device device, tpi_plan *plan) { return quiet(device) && tpi_cpu_copy(device, plan); }
static bool fill(tp_device device, tpi_plan *plan, const tp_scalar *value) {
    return quiet(device) && tpi_cpu_fill(device, plan, value);
}
static const tpi_device_ops table = {.version = TPI_DEVICE_VERSION,
                                     .name = "cuda",
                                     .count = count,
                                     .alloc = alloc_host,
                                     .free = free_host,
                                     .to_host = to_host,
                                     .from_host = from_host,
                                     .synchronize = quiet,
                                     .map = map,
                                     .copy = copy,
                                     .fill = fill};

/* ---- Ranks: forked, each with a program to run. What they wait for comes on the slowest machine, so that the limits
 * end a test that hangs and nothing else ---- */
enum { HANGS = 600, LONG = 300 }; /* seconds: of a rank, and of what it waits for */
static const tp_device gpu = {TP_CUDA, 0};
static char store_path[] = "/tmp/taper-nccl-XXXXXX";
#define MUST(...)                                                                                               \
    do {                                                                                                        \
        if (!(__VA_ARGS__)) fprintf(stderr, "line %d: %s; %s\n", __LINE__, #__VA_ARGS__, tp_error()), _exit(1); \
    } while (0)

static void begin(int rank, int size, double stall) {
    char host[8];
    snprintf(host, sizeof host, "%d", rank);
    setenv("NCCL_HOSTID", host, 1);
    const char *folder = getenv("TAPER_BUILD_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/libfake-nccl.so", folder ? folder : ".");
    setenv("TAPER_NCCL_LIBRARY", path, 1);
    void *library = dlopen(path, RTLD_NOW);
    void (*streams)(void (*)(void *, void (*)(void *), void *)) = NULL;
    if (library) *(void **)&streams = dlsym(library, "fake_nccl_streams");
    MUST(streams);
    streams(enqueue);
    tpi_gpu_put_driver(&driver);
    MUST(tpi_device_register(TP_CUDA, &table));
    MUST(tp_dist_init(.backend = "nccl", .placed = true, .rank = rank, .world_size = size,
                      .store = tp_store_file(store_path, 0), .stall = stall, .timeout = LONG));
    MUST(tp_dist_available("nccl") && tp_dist_nccl_version() == 22703);
}

static bool run(int n, void (*program)(int rank, int n), int *statuses) { /* did all end well? */
    pid_t ranks[4];
    bool well = true;
    close(mkstemp(store_path));
    for (int i = 0; i < n; i++)
        if ((ranks[i] = fork()) == 0) {
            alarm(HANGS);
            program(i, n);
            _exit(0);
        }
    for (int i = 0; i < n; i++) {
        int status;
        waitpid(ranks[i], &status, 0);
        if (statuses) statuses[i] = status;
        well = well && status == 0;
    }
    unlink(store_path);
    strcpy(store_path + sizeof store_path - 7, "XXXXXX");
    return well;
}

static tp_tensor *full(double value, tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, gpu);
    MUST(t && tpi_fill_data(t, tp_float(value)));
    return t;
}

static float first(tp_tensor *t) {
    float v = 0;
    tp_tensor *host = tpi_on_host(t);
    MUST(host);
    memcpy(&v, host->data, sizeof v);
    tp_release(host);
    return v;
}

/* What a rank computes with after it has waited is there, though the host went on while another rank was late. */
static void overlaps(int rank, int n) {
    begin(rank, n, 30);
    tp_tensor *t = full(rank + 1, TP_INTS(1000)), *late = full(1, TP_INTS(1000));
    MUST(tp_dist_wait(tp_dist_all_reduce(NULL, t, TP_REDUCE_SUM)));
    MUST(first(t) == 6 || first(t) == 3);
    if (rank == 1) MUST(tp_store_wait(tp_dist_store(), "went on", LONG));
    tp_work *w = tp_dist_all_reduce(NULL, late, TP_REDUCE_SUM); /* seen before: nobody compares first */
    MUST(w && tp_work_wait(w, -1));
    if (rank == 0) MUST(!tp_work_done(w) && tp_store_set(tp_dist_store(), "went on", "", 0));
    MUST(first(late) == (float)n);
    while (!tp_work_done(w)) usleep(1000);
    MUST(tp_work_succeeded(w));
    tp_work_release(w);
    /* The caller lets go of everything: it is kept until the GPU is done. */
    if (rank == 1) MUST(tp_store_wait(tp_dist_store(), "let go", LONG));
    tp_tensor *gone = full(1, TP_INTS(1000));
    w = tp_dist_all_reduce(NULL, gone, TP_REDUCE_SUM); /* seen before, too */
    int now = freed;
    tp_work_release(w);
    tp_release(gone);
    if (rank == 0) MUST(freed == now && tp_store_set(tp_dist_store(), "let go", "", 0));
    MUST(tp_dist_wait(tp_dist_barrier(NULL)));
    tp_release(t);
    tp_release(late);
    tp_dist_end();
    MUST(freed > now);
}

static void each(int rank, int n) {
    begin(rank, n, 30);
    tp_tensor *x = full(rank, TP_INTS(2, 3)), *transposed = tpi_alias(x, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0),
              *whole = full(0, TP_INTS(n * 6)), *part = full(0, TP_INTS(6));
    tp_tensor *words = tpi_empty(TP_INTS(4), TP_INT16, gpu), *truth = tpi_empty(TP_INTS(4), TP_BOOL, gpu);
    MUST(tpi_fill_data(words, tp_int(rank + 1)) && tpi_fill_data(truth, tp_int(rank == 0)));
    MUST(tp_dist_wait(tp_dist_all_gather_into(NULL, whole, x)) &&
         tp_dist_wait(tp_dist_reduce_scatter_of(NULL, part, whole, TP_REDUCE_SUM)));
    MUST(first(part) == (float)(rank * n));
    MUST(tp_dist_wait(tp_dist_broadcast(NULL, transposed, n - 1)) && first(x) == (float)(n - 1));
    MUST(tp_dist_wait(tp_dist_all_reduce(NULL, words, TP_REDUCE_PRODUCT)) &&
         tp_dist_wait(tp_dist_all_reduce(NULL, truth, TP_REDUCE_SUM)));
    tp_tensor *host = tpi_on_host(words), *said = tpi_on_host(truth);
    MUST(*(int16_t *)host->data == (int16_t[]){1, 1, 2, 6, 24}[n] && *said->data == 1);
    tp_tensor *got = full(0, TP_INTS(3)),
              *mine = full(rank, TP_INTS(3)); /* to the right, all at once; far more than fits on the way */
    tp_tensor *far = full(rank, TP_INTS(100000)), *near = full(-1, TP_INTS(100000));
    if (n > 1) {
        tp_work *works[4] = {
            tp_dist_send(NULL, far, (rank + 1) % n, 0), tp_dist_recv(NULL, near, (rank + n - 1) % n, 0),
            tp_dist_send(NULL, mine, (rank + 1) % n, 0), tp_dist_recv(NULL, got, (rank + n - 1) % n, 0)};
        for (int i = 0; i < 4; i++) MUST(tp_dist_wait(works[i]));
        MUST(first(near) == (float)((rank + n - 1) % n) && first(got) == first(near));
    }
    tp_tensor *all[] = {x, transposed, whole, part, words, truth, host, said, got, mine, far, near};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tp_release(all[i]);
    tp_dist_end();
}

static char reported[8192];
static void report(const char *text) {
    snprintf(reported + strlen(reported), sizeof reported - strlen(reported), "%s\n", text);
}

/* A rank dies: the others' GPUs are in a collective that never ends, until it is given up. */
static void dies(int rank, int n) {
    tp_dist_set_watcher(report, NULL, 30);
    begin(rank, n, 30);
    tp_tensor *t = full(1, TP_INTS(10));
    MUST(tp_dist_wait(tp_dist_all_reduce(NULL, t, TP_REDUCE_SUM)) && first(t) == (float)n);
    if (rank == 1) {
        for (int other = 0; other < n; other++) { /* when the others are in the collective */
            char key[32];
            snprintf(key, sizeof key, "in/%d", other);
            MUST(other == rank || tp_store_wait(tp_dist_store(), key, LONG));
        }
        _exit(3);
    }
    tp_work *w = tp_dist_all_reduce(NULL, t, TP_REDUCE_SUM);
    MUST(tp_work_wait(w, -1)); /* the stream waits */
    char key[32];
    snprintf(key, sizeof key, "in/%d", rank);
    MUST(tp_store_set(tp_dist_store(), key, "", 0));
    MUST(stream_sync(0, NULL)); /* it is given up long before the job's time is over: the error says why */
    while (!tp_work_done(w)) usleep(1000);
    MUST(!tp_work_succeeded(w) && strstr(tp_work_error(w), "rank 1 (host") && strstr(reported, "died"));
    MUST(!tp_dist_all_reduce(NULL, t, TP_REDUCE_SUM) && strstr(tp_error(), "died"));
    _exit(0);
}

/* All have come, and one's data does not: the watcher says so, and what takes longer than the group's time ends the
 * job. */
static void hold(void *context) {
    (void)context;
    sleep(24); /* three times what the others wait */
}
static void stalls(int rank, int n) {
    tp_dist_set_watcher(report, NULL, 30);
    begin(rank, n, 1);
    tp_tensor *t = full(1, TP_INTS(10));
    MUST(tp_dist_wait(tp_dist_all_reduce(NULL, t, TP_REDUCE_SUM)) && first(t) == (float)n);
    tp_group_set_timeout(NULL, 8);
    if (rank == 1) enqueue(NULL, hold, NULL); /* its GPU is busy */
    tp_work *w = tp_dist_all_reduce(NULL, t, TP_REDUCE_SUM);
    MUST(w && tp_work_wait(w, -1));
    while (!tp_work_done(w)) usleep(1000);
    MUST(!tp_work_succeeded(w) && strstr(tp_work_error(w), "timed out after 8.0 seconds"));
    MUST(strstr(reported, "has waited") &&
         strstr(reported, "all_reduce(SUM) of float32 [10] on cuda, number 2 of group 'default'") &&
         strstr(reported, "All ranks have come"));
    _exit(0);
}

/* ---- The tests ---- */
static void the_host_goes_on(void **state) {
    (void)state;
    assert_true(run(2, overlaps, NULL));
}

static void every_collective(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) assert_true(run(n, each, NULL));
}

static void a_death(void **state) {
    (void)state;
    int statuses[3];
    run(3, dies, statuses);
    assert_true(statuses[0] == 0);
    assert_true(WEXITSTATUS(statuses[1]) == 3);
    assert_true(statuses[2] == 0);
}

static void a_stall(void **state) {
    (void)state;
    assert_true(run(2, stalls, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_host_goes_on), cmocka_unit_test(every_collective),
                                       cmocka_unit_test(a_death), cmocka_unit_test(a_stall)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
