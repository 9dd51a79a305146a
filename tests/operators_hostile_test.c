/* Every sample of the tables again, with one argument exchanged for something that no program should pass: sizes near
 * 2^31, 2^32, 2^62 and 2^63, negative ones, lists that are too short or too long, NaN, tensors of another shape, rank
 * or dtype, indices far out of range, no tensor at all. Internal operators too: tp_call and graph files reach them. Any
 * answer is right, a result or an error; a crash, a sanitizer's report or a call that does not end is not.
 *
 * The calls run in a child process that writes down which one it is at. When the child dies or stands still, that call
 * is a failure and another child goes on with the next argument. TAPER_TEST_OP=pad runs one operator alone; with
 * TAPER_TEST_CASE, as a failure prints it, that one call in this process, for a debugger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "samples.h"
#include "tensor/tensor.h"

/* AddressSanitizer ends a program that asks for more than it has, and its address space cannot be limited. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=0";
}

enum {
    CALL_SECONDS = 20, /* processor time of one call: a loop that follows a number instead of the input takes hours */
    MOST_FAILURES = 200,
    MOST_ITEMS = 40,
    MEMORY = 1 << 30, /* bytes beyond what the process has when it begins */
};

static const int64_t hostile_ints[] = {0,
                                       1,
                                       -1,
                                       -2,
                                       3,
                                       65,
                                       1 << 30,
                                       INT32_MAX,
                                       1LL << 31,
                                       (1LL << 32) + 1,
                                       1LL << 40,
                                       1LL << 62,
                                       INT64_MAX - 4,
                                       INT64_MAX,
                                       INT64_MIN};
static const double hostile_floats[] = {0, -1, 1e300, -1e300, 1e-310, NAN, INFINITY, -INFINITY};
static const char *const hostile_strings[] = {"", "nonsense", "mean", "sum", "none", "%s%n", "...i,...i->"};
enum {
    INTS = sizeof hostile_ints / sizeof *hostile_ints,
    FLOATS = sizeof hostile_floats / sizeof *hostile_floats,
    STRINGS = sizeof hostile_strings / sizeof *hostile_strings,
    NUMBERS = INTS + FLOATS + 1, /* and a complex one */
    TENSORS = 16,
};

/* ---- Values to exchange an argument for: `which` counts from 0, false when there is none of that number ---- */
static bool hostile_number(int which, tp_value *out) {
    if (which < INTS)
        *out = tp_value_int(hostile_ints[which]);
    else if (which < INTS + FLOATS)
        *out = tp_value_double(hostile_floats[which - INTS]);
    else if (which == INTS + FLOATS)
        *out = tp_value_scalar(tp_cplx(NAN, 1e300));
    else
        return false;
    return true;
}

/* The list with one item exchanged, then shorter, longer and empty ones. */
static bool hostile_list(int which, tp_ints given, tp_value *out) {
    static int64_t items[MOST_ITEMS];
    int64_t n = given.n < MOST_ITEMS ? given.n : MOST_ITEMS;
    for (int64_t i = 0; i < n; i++) items[i] = given.v[i];
    if (which < n * INTS)
        items[which / INTS] = hostile_ints[which % INTS];
    else {
        which -= (int)n * INTS;
        if (which == 0)
            n = 0;
        else if (which == 1)
            n -= n > 1;
        else if (which == 2)
            items[n < MOST_ITEMS ? n++ : 0] = 2;
        else if (which == 3) {
            for (n = 0; n < MOST_ITEMS; n++) items[n] = 1;
        } else if (which < 4 + INTS) {
            for (int64_t i = 0; i < n; i++) items[i] = hostile_ints[which - 4];
        } else
            return false;
    }
    *out = tp_value_ints(tp_ints_view(items, n));
    return true;
}

static tp_tensor *filled(tp_ints shape, tp_dtype dtype, tp_scalar value) {
    tp_tensor *t = tpi_empty(shape, dtype, (tp_device){TP_CPU, 0});
    if (t && !tpi_fill_data(t, value)) {
        tpi_release(t);
        t = NULL;
    }
    return t;
}

/* One element seen as very many: nothing that follows the shape's size may run or be allocated. */
static tp_tensor *endless(int ndim, int64_t size) {
    tp_tensor *one = filled(TP_INTS(1), TP_FLOAT32, tp_float(1));
    int64_t shape[8], strides[8] = {0};
    for (int d = 0; d < ndim; d++) shape[d] = size;
    tp_tensor *view = one ? tpi_alias(one, ndim, shape, strides, 0) : NULL;
    tpi_release(one);
    return view;
}

static tp_tensor *as_kind(const tp_tensor *given, tp_dtype dtype, tp_scalar value) {
    return filled(tpi_shape(given), dtype, value);
}

/* Another tensor in the place of `given`, which may be NULL. Owned; *made is false when there is none of that number.
 */
static tp_tensor *hostile_tensor(int which, const tp_tensor *given, bool *made) {
    *made = which < TENSORS && (given || which < 9);
    if (!*made) return NULL;
    switch (which) {
    case 0: return NULL;
    case 1: return filled(tp_ints_view(NULL, 0), TP_FLOAT32, tp_float(2));
    case 2: return filled(TP_INTS(0), TP_FLOAT32, tp_float(0));
    case 3: return filled(TP_INTS(3, 0, 2), TP_FLOAT32, tp_float(0));
    case 4: return filled(TP_INTS(7), TP_INT64, tp_int(INT64_MAX));
    case 5: return filled(TP_INTS(1, 1, 1, 1, 1, 1), TP_FLOAT64, tp_float(1));
    case 6: return filled(TP_INTS(5, 4, 3), TP_BOOL, tp_truth(true));
    case 7: return endless(2, 1LL << 30);
    case 8: return filled(TP_INTS(2, 3), TP_COMPLEX64, tp_cplx(1, NAN));
    case 9: return as_kind(given, (tp_dtype)given->dtype, tp_int(-1));
    case 10: return as_kind(given, TP_INT64, tp_int(INT64_MAX));
    case 11: return as_kind(given, TP_INT64, tp_int(INT64_MIN));
    case 12: return as_kind(given, TP_FLOAT32, tp_float(NAN));
    case 13: return as_kind(given, TP_FLOAT16, tp_float(INFINITY));
    case 14: return as_kind(given, TP_UINT8, tp_int(255));
    default: return as_kind(given, TP_INT32, tp_int(100000));
    }
}

static bool hostile_tensors(int which, tp_tensors given, tp_value *out, tp_tensor **own) {
    static tp_tensor *items[MOST_ITEMS];
    int64_t n = given.n < MOST_ITEMS ? given.n : MOST_ITEMS;
    bool made = false;
    for (int64_t i = 0; i < n; i++) items[i] = given.v[i];
    if (which == 0) {
        n = 0;
        made = true;
    } else if (n)
        items[(which - 1) / TENSORS % n] = *own =
            hostile_tensor((which - 1) % TENSORS, items[(which - 1) / TENSORS % n], &made);
    *out = tp_value_tensors((tp_tensors){items, n});
    return which == 0 || which - 1 < n * TENSORS ? made || which : false;
}

/* Case `which` of exchanging `value`, an argument of the table's type `type`. *own: a tensor to release. */
static bool exchange(int which, const char *type, tp_value *value, tp_tensor **own) {
    bool made = false;
    if (!strncmp(type, "Tensor[", 7))
        return hostile_tensors(which, value->kind == TP_K_TENSORS ? value->as.tensors : (tp_tensors){NULL, 0}, value,
                               own);
    if (!strncmp(type, "Tensor", 6) || !strncmp(type, "Operand", 7)) {
        *own = hostile_tensor(which, value->kind == TP_K_TENSOR ? value->as.tensor : NULL, &made);
        if (made) *value = tp_value_tensor(*own);
        return made || (*type == 'O' && which >= TENSORS && hostile_number(which - TENSORS, value));
    }
    if (!strncmp(type, "int[", 4))
        return hostile_list(which, value->kind == TP_K_INTS ? value->as.ints : TP_INTS(1, 1), value);
    if (!strncmp(type, "str", 3)) {
        if (which >= STRINGS) return false;
        *value = tp_value_string(hostile_strings[which]);
        return true;
    }
    if (!strncmp(type, "dtype", 5)) {
        if (which >= 20) return false;
        *value = tp_value_dtype((tp_dtype)(which - 3));
        return true;
    }
    return which < NUMBERS && hostile_number(which, value);
}

/* ---- One call ---- */
typedef struct position { /* shared with the child: the call that it is at */
    volatile int sample, argument, which, calls;
} position;

static void start_clock(void) { setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {CALL_SECONDS, 0}}, NULL); }

static void call_and_forget(const operator_sample *sample, arguments *args) {
    tp_value results[8] = {{0}};
    int64_t given = args->op->nargs;
    while (given && args->values[given - 1].kind == TP_K_NONE) given--;
    TP_SCOPE {
        if (tp_call_values(sample->op, given, args->values, args->op->nresults, results) &&
            results[0].kind == TP_K_TENSOR && results[0].as.tensor && tp_requires_grad(results[0].as.tensor) &&
            results[0].as.tensor->numel < 1 << 20)
            tp_backward(tp_real(tp_sum(results[0].as.tensor)));
    }
    tp_error_clear();
}

/* False when the argument has no case of this number. */
static bool one_case(const operator_sample *sample, int argument, int which) {
    arguments args;
    int positions[MAX_TENSORS];
    if (!make_arguments(sample, first_dtype(sample), PLAIN, NULL, &args)) {
        tp_error_clear();
        return false;
    }
    if (args.op->differentiable && which % 2) want_gradients(sample, &args, positions);
    tp_tensor *own = NULL;
    bool made = exchange(which, args.op->args[argument].type, &args.values[argument], &own);
    if (made) {
        start_clock();
        call_and_forget(sample, &args);
    }
    tp_release(own);
    drop_arguments(&args);
    tp_error_clear();
    return made;
}

static bool wanted(const operator_sample *sample) {
    const char *only = getenv("TAPER_TEST_OP");
    return !sample->error && (!only || !strcmp(only, sample->op));
}

static void run_from(position *at, const struct position from) {
    bool first = true;
    for (int s = from.sample; s < operator_sample_count; s++) {
        const operator_sample *sample = &operator_samples[s];
        if (!wanted(sample)) continue;
        int nargs = (int)tp_find_operator(sample->op)->nargs;
        for (int k = first ? from.argument : 0; k < nargs; k++, first = false)
            for (int w = first ? from.which : 0;; w++, first = false) {
                at->sample = s;
                at->argument = k;
                at->which = w;
                if (!one_case(sample, k, w)) break;
                at->calls++;
            }
        first = false;
    }
    at->sample = operator_sample_count;
}

static void limit_memory(void) {
#if !defined(__SANITIZE_ADDRESS__)
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld", &pages) == 1) {
        rlim_t limit = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + MEMORY;
        setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    }
    if (file) fclose(file);
#endif
}

__attribute__((noreturn)) static void run_child(position *at, position from) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], SIG_DFL); /* cmocka's handlers would say its name alone */
    limit_memory();
    tp_set_num_threads(1);
    run_from(at, from);
    _exit(0);
}

static void describe(const position *at, int status) {
    const operator_sample *sample = &operator_samples[at->sample];
    const tp_operator *op = tp_find_operator(sample->op);
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    const char *end = !WIFSIGNALED(status) ? "exited with"
                      : number == SIGPROF  ? "did not end: signal"
                                           : "crashed with signal";
    fprintf(stderr, "%s(%s)%s, argument %s: %s %d; TAPER_TEST_OP=%s TAPER_TEST_CASE='%d %d %d'\n", sample->op,
            sample->text, op->internal ? ", internal" : "", op->args[at->argument].name, end, number, sample->op,
            sample->line, at->argument, at->which);
}

static void every_hostile_call_is_answered(void **state) {
    (void)state;
    position *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    *at = (position){0};
    int failures = 0;
    position from = {0};
    while (failures < MOST_FAILURES) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) run_child(at, from);
        int status = 0;
        waitpid(child, &status, 0);
        if (at->sample >= operator_sample_count) break;
        describe(at, status);
        failures++;
        from = *at;
        from.argument++; /* this argument is not looked at: one failure of a kind is enough */
        from.which = 0;
    }
    fprintf(stderr, "%d hostile calls\n", at->calls);
    assert_int_equal(failures, 0);
    assert_true(getenv("TAPER_TEST_OP") || at->calls > 50000);
}

int main(void) {
    if (getenv("TAPER_TEST_CASE") && getenv("TAPER_TEST_OP")) { /* "SAMPLE_LINE ARGUMENT CASE", for a debugger */
        int line, argument, which;
        if (sscanf(getenv("TAPER_TEST_CASE"), "%d %d %d", &line, &argument, &which) != 3) return 2;
        for (int s = 0; s < operator_sample_count; s++)
            if (wanted(&operator_samples[s]) && operator_samples[s].line == line)
                one_case(&operator_samples[s], argument, which);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_hostile_call_is_answered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
