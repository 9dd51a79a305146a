/* Every public function, called with what no program should pass: NULL and zero everywhere; -1, the largest and the
 * smallest numbers, NaN; good tensors and modules with such numbers; lists without an array, lists with NULL in them,
 * numbers and dtypes that are none. Each call must come back. One that dies or hangs is named with the way it was
 * called. Each function runs in a process of its own.
 *
 * With TAPER_DEBUG=1 each function is also called with each thing that it takes after the end of that thing: there must
 * be an error, and it says that the thing was released before.
 *
 * The calls are written by every_function.py from the headers. `every_function_test NAME` runs one function, in this
 * process for a debugger. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <taper/dlpack.h>
#include <taper/taper.h>
#include <unistd.h>

/* AddressSanitizer ends a program that asks for more than it has, unless it is told to let malloc fail. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

enum { MODES = 9, SECONDS = 60 };
/* Functions written by hand whose error for NULL and 0 names the argument alone. There may be fewer, not more. */
enum { MOST_UNNAMED = 38 };
static const char *const mode_names[MODES] = {"NULL and 0",
                                              "NULL and -1",
                                              "NULL and the largest numbers",
                                              "NULL and no numbers",
                                              "things and 0",
                                              "things and -1",
                                              "things and the largest numbers",
                                              "things and broken lists",
                                              "things and lists without memory"};

typedef struct kit {
    const char *ended; /* the kind of thing that is at its end; NULL: none */
    bool things, truth;
    int i;
    int64_t n;
    size_t capacity;
    double d;
    tp_ints ints;
    tp_floats floats;
    tp_scalars scalars;
    tp_scalar scalar;
    tp_tensors tensors;
    tp_operand operand;
    tp_device device;
    tp_packed packed;
    int choice;
    const char *text;
    void *array;  /* where results and texts may go */
    void *record; /* options, which begin with their size */
    void *zeros;  /* a struct that begins otherwise */
} kit;

static tp_tensor *make_tensor(void) { return tp_ones(TP_INTS(2, 3)); }
static tp_module *make_module(void) { return tp_nn_linear(3, 2); }
static tp_storage *make_storage(void) { return tp_storage_new(16, (tp_device){TP_CPU, 0}); }
static tp_generator *make_generator(void) { return tp_generator_new(1); }
static tp_dataset *make_dataset(void) { return tp_dataset_of_tensors(TP_LIST(make_tensor())); }
static tp_reader *make_reader(void) { return tp_reader_new(make_dataset(), 0, 1); }
static tp_sampler *make_sampler(void) { return tp_sampler_random(2, false, 0, NULL); }
static tp_sparse *make_sparse(void) { return tp_sparse_from_dense(make_tensor()); }
static tp_tokenizer *make_tokenizer(void) {
    FILE *file = fopen("tokenizer.json", "w");
    if (!file) return NULL;
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
          "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
          file);
    fclose(file);
    return tp_tokenizer_load("tokenizer.json");
}
static tp_distribution *make_distribution(void) { return tp_distribution_normal(make_tensor(), make_tensor()); }
static tp_transform *make_transform(void) { return tp_transform_exp(); }
static tp_scaler *make_scaler(void) { return tp_scaler_new(); }
static tp_loader *make_loader(void) { return tp_loader_new(make_dataset(), .batch = 1); }
static tp_optimiser *make_optimiser(void) {
    return tp_sgd(TP_LIST(tp_set_requires_grad(make_tensor(), true)), .lr = 0.1);
}
static tp_schedule *make_schedule(void) { return tp_exponential_lr(make_optimiser(), .gamma = 0.5); }
static tp_file *make_file(void) { return tp_new_file(); }
static tp_summary *make_summary(void) { return tp_summary_scalar("x", 1, NULL); }
static tp_node *make_node(void) {
    tp_tensor *result = tp_mul(tp_set_requires_grad(make_tensor(), true), 2);
    tp_node *node = tp_grad_fn(result);
    tp_release(result);
    return node;
}
static tp_lbfgs_memory *make_lbfgs_memory(void) { return tp_lbfgs_memory_new(); }
static tp_capture *make_capture(void) { return tp_capture_begin(TP_LIST(make_tensor())); }
static tp_profile *make_profile(void) { return tp_profile_start(NULL); }
static tp_mark *make_mark(void) { return NULL; } /* takes a GPU */
static tp_gpu_graph *make_gpu_graph(void) { return tp_gpu_graph_new(); }
static tp_events *make_events(void) { return tp_events_open("."); }
static tp_records *make_records(void) { return tp_records_create("records"); }
static const tp_optimiser_kind *make_optimiser_kind(void) { return tp_optimiser_kind_at(0); }
static tp_store *make_store(void) {
    tp_store *store = tp_store_hash();
    tp_store_set_timeout(store, 0.01);
    return store;
}
static tp_compiled *make_compiled(void) {
    tp_tensor *x = make_tensor();
    tp_capture *capture = tp_capture_begin(TP_LIST(x));
    return tp_capture_end(capture, TP_LIST(tp_relu(x)));
}
static tp_ivalue *make_ivalue(void) { return tp_ivalue_of_text("x"); }
static tp_event_file *make_event_file(void) {
    tp_records *records = tp_records_create("points");
    tp_records_close(records);
    return tp_event_file_open("points");
}
/* A job of this process alone. */
static tp_group *make_group(void) {
    if (!tp_dist_world())
        tp_dist_init(.backend = "tcp", .placed = true, .rank = 0, .world_size = 1, .store = tp_store_hash());
    return tp_group_new(TP_INTS(0), 10, NULL);
}
static tp_work *make_work(void) {
    tp_work *work = tp_dist_barrier(make_group());
    tp_work_wait(work, 10);
    return work;
}
static tp_ddp *make_ddp(void) { return make_group() ? tp_ddp_new(make_module()) : NULL; }
static tp_fsdp *make_fsdp(void) { return make_group() ? tp_fsdp_new(make_module()) : NULL; }
static tp_tensor *square_error(tp_tensor *output, tp_tensor *target, void *context) {
    (void)context;
    return tp_mse_loss(output, target);
}
static tp_pipeline *make_pipeline(void) {
    return make_group() ? tp_pipeline_new(make_module(), .parts = 1, .loss = square_error) : NULL;
}
static tp_mesh *make_mesh(void) { return make_group() ? tp_mesh_new(TP_INTS(1)) : NULL; }
static tp_reducer *make_reducer(void) {
    tp_tensor *parameter = tp_set_requires_grad(make_tensor(), true);
    const char *name = "x";
    const tp_reducer_options options = {.size = (int64_t)sizeof options};
    return make_group() ? tp_reducer_new(1, &parameter, &name, &options) : NULL;
}

static bool is_ended(const kit *k, const char *what) { return k->ended && !strcmp(k->ended, what); }
static void stop(const char *what) {
    fprintf(stderr, "a %s was not made, or not ended: %s\n", what, tp_error() ? tp_error() : "no error");
    abort();
}
/* The group's thread lets go of a work a little later. */
static void end_work(tp_work *work) {
    tp_work_release(work);
    for (int i = 0; i < 2000 && tp_ok(); i++) {
        usleep(1000);
        tp_work_done(work);
    }
    tp_error_clear();
}
/* A thing, or one after its end, as the kit says. What takes a job is made for its end alone. */
#define KIT_THING(what, when, end)                                  \
    static __attribute__((unused)) void *kit_##what(const kit *k) { \
        if (!(when)) return NULL;                                   \
        void *thing = (void *)(uintptr_t)make_##what();             \
        if (!is_ended(k, #what)) return thing;                      \
        if (!thing) stop(#what);                                    \
        end(thing);                                                 \
        if (!tp_ok()) stop(#what);                                  \
        return thing;                                               \
    }
#define KIT(what, end)        KIT_THING(what, k->things, end)
#define KIT_OF_JOB(what, end) KIT_THING(what, is_ended(k, #what), end)
KIT(tensor, tp_release)
KIT(module, tp_module_release)
KIT(storage, tp_storage_release)
KIT(generator, tp_generator_free)
KIT(dataset, tp_dataset_release)
KIT(reader, tp_reader_free)
KIT(sampler, tp_sampler_free)
KIT(sparse, tp_sparse_free)
KIT(tokenizer, tp_tokenizer_free)
KIT(distribution, tp_distribution_free)
KIT(transform, tp_transform_free)
KIT(scaler, tp_scaler_free)
KIT(loader, tp_loader_free)
KIT(optimiser, tp_optimiser_free)
KIT(schedule, tp_schedule_free)
KIT(file, tp_close_file)
KIT(summary, tp_summary_free)
KIT(node, tp_node_release)
KIT(lbfgs_memory, tp_lbfgs_memory_free)
KIT(capture, (void))
KIT(profile, tp_profile_free)
KIT(mark, tp_mark_free)
KIT(gpu_graph, tp_gpu_graph_free)
KIT(events, tp_events_close)
KIT(records, tp_records_close)
KIT(optimiser_kind, (void))
KIT(store, tp_store_release)
KIT(compiled, tp_compiled_release)
KIT(ivalue, tp_ivalue_release)
KIT(event_file, tp_event_file_close)
KIT_OF_JOB(group, tp_group_free)
KIT_OF_JOB(work, end_work)
KIT_OF_JOB(ddp, tp_ddp_free)
KIT_OF_JOB(fsdp, tp_fsdp_free)
KIT_OF_JOB(pipeline, tp_pipeline_free)
KIT_OF_JOB(mesh, tp_mesh_free)
KIT_OF_JOB(reducer, tp_reducer_free)
static tp_state kit_state(const kit *k) {
    if (!is_ended(k, "state")) return (tp_state){NULL, NULL, 0};
    tp_state state = tp_module_parameters(make_module());
    tp_state_free(state);
    return state;
}

#include "every_function_calls.h"
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static kit kit_of(int mode) {
    static char array[1 << 16], record[1 << 16], zeros[1 << 12];
    static int64_t numbers[2];
    static double reals[2];
    static tp_scalar scalars[2];
    static tp_tensor *tensors[2];
    const int64_t n[MODES] = {0, -1, INT64_MAX, INT64_MIN, 0, -1, INT64_MAX, 1, 1};
    const double d[MODES] = {0, -1, INFINITY, NAN, 0, -1, 1e300, 1, 1};
    const bool things = mode >= 4, broken = mode >= 7;
    kit k = {.things = things,
             .truth = mode & 1,
             .n = n[mode],
             .d = d[mode],
             .capacity = things ? sizeof array
                         : mode ? 100
                                : 0,
             .device = {TP_CPU, 0}};
    k.i = mode == 2 || mode == 6 ? INT32_MAX : mode == 3 ? INT32_MIN : (int)n[mode];
    k.choice = broken ? 99 : mode > 4 ? TP_FLOAT32 : k.i;
    k.scalar = broken ? tp_no_scalar() : mode & 1 ? tp_float(k.d) : tp_int(k.n);
    if (!things) {
        k.device = (tp_device){(int16_t)k.i, (int16_t)k.i};
        return k;
    }
    memset(array, 0, sizeof array);
    memset(record, 0, sizeof record);
    memcpy(record, &k.n, sizeof k.n);
    for (int i = 0; i < 2; i++) {
        numbers[i] = k.n;
        reals[i] = k.d;
        scalars[i] = k.scalar;
        tensors[i] = make_tensor();
    }
    k.text = "x";
    k.array = array;
    k.record = record;
    k.zeros = zeros;
    const int64_t count = mode == 4 ? 0 : mode == 8 ? 1 : 2;
    k.ints = tp_ints_view(broken ? NULL : numbers, count);
    k.floats = (tp_floats){broken ? NULL : reals, count};
    k.scalars = (tp_scalars){broken ? NULL : scalars, count};
    if (broken) tensors[1] = NULL;
    k.tensors = (tp_tensors){mode == 8 ? NULL : tensors, count};
    k.packed = (tp_packed){make_tensor(), broken ? NULL : make_tensor(), NULL, NULL};
    k.operand = broken ? tp_operand_tensor(NULL) : tp_operand_scalar(k.scalar);
    return k;
}

static volatile int *mode_now, *unnamed; /* shared with the child */
static bool debugging(void) { return tp_debug_mark() >= 0; }

static void run(int f, int from) {
    for (int mode = from; mode < MODES; mode++) {
        *mode_now = mode;
        alarm(SECONDS);
        kit k = kit_of(mode);
        tp_error_clear();
        functions[f].call(&k);
        if (tp_error() && !*tp_error()) abort(); /* an error has a text */
        if (mode == 0 && tp_error() && !strncmp(tp_error(), "argument '", 10)) ++*unnamed;
        tp_error_clear();
        tp_set_grad_enabled(true);
    }
}

/* Each kind of thing that the function takes, one after the other at its end; the others are alive. */
static void run_ended(int f) {
    char kinds[256], *rest = NULL;
    snprintf(kinds, sizeof kinds, "%s", functions[f].ended);
    for (char *kind = strtok_r(kinds, " ", &rest); kind; kind = strtok_r(NULL, " ", &rest)) {
        alarm(SECONDS);
        tp_error_clear();
        kit k = kit_of(5);
        k.ended = kind;
        k.n = k.i = k.choice = 1;
        k.d = 1;
        *(int64_t *)k.record = (int64_t)sizeof(int64_t); /* options without any: all defaults */
        functions[f].call(&k);
        if (tp_error() && strstr(tp_error(), "released before")) continue;
        fprintf(stderr, "%s with a %s after its end: %s\n", functions[f].name, kind,
                tp_error() ? tp_error() : "no error");
        ++*mode_now;
    }
}

static void be_a_child(int f, int from) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (!freopen("/dev/null", "w", stdout)) _exit(3);
    if (debugging())
        run_ended(f);
    else
        run(f, from);
    _exit(0); /* nothing that the calls set up runs at the end */
}

/* clang's OpenMP leaves a file in shared memory of each child that ends without its exit handlers; a later process of
 * that number would find it. */
static void clean_up_after(pid_t child) {
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/__KMP_REGISTERED_LIB_%d_%d", (int)child, (int)getuid());
    unlink(path);
}

static const char *death(int status) {
    if (!WIFSIGNALED(status)) return "the process ended";
    return WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status));
}

/* How many kinds of things were not seen to be at their end. */
static int try_ended(int f) {
    *mode_now = 0;
    if (!*functions[f].ended) return 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) be_a_child(f, 0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    clean_up_after(child);
    if (status) printf("%s with a %safter its end: %s\n", functions[f].name, functions[f].ended, death(status));
    return *mode_now + (status != 0);
}

/* The number of ways in which the function died. */
static int try_function(int f) {
    int bad = 0;
    for (int from = 0; from < MODES; from = *mode_now + 1) {
        *mode_now = from;
        pid_t child = fork();
        if (child == 0) be_a_child(f, from);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0) {
            perror("fork");
            return 1;
        }
        clean_up_after(child);
        if (status == 0) break;
        bad++;
        printf("%s with %s: %s\n", functions[f].name, mode_names[*mode_now], death(status));
        fflush(stdout);
    }
    return bad;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/taper-every-function-XXXXXX", command[64];
    mode_now = mmap(NULL, 2 * sizeof *mode_now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mode_now == MAP_FAILED || !mkdtemp(folder) || chdir(folder)) {
        perror("every_function_test");
        return 1;
    }
    unnamed = mode_now + 1;
    tp_set_num_threads(1); /* a forked child has none of the parent's */
    int bad = 0, tried = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        if (argc > 1 && strcmp(argv[1], functions[f].name)) continue;
        tried++;
        if (argc > 1 && debugging())
            run_ended(f);
        else if (argc > 1)
            run(f, 0);
        else
            bad += debugging() ? try_ended(f) : try_function(f);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0 || tried == 0) return 1;
    if (debugging()) {
        printf("%d functions with things after their end: %d were not seen\n", tried, bad);
        return bad != 0;
    }
    printf("%d functions in %d ways each: %d calls did not come back\n", tried, MODES, bad);
    printf("%d of them do not name themselves when they are given nothing, at most %d may\n", *unnamed, MOST_UNNAMED);
    if (argc > 1) return bad != 0;
    if (bad || *unnamed > MOST_UNNAMED) return 1;
    fflush(stdout);
    setenv("TAPER_DEBUG", "1", 1);
    execv("/proc/self/exe", argv);
    perror("every_function_test");
    return 1;
}
