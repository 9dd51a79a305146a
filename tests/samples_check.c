/* Comparing results, and failures with their place, for the loops over samples: see samples.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "samples.h"
#include "tensor/tensor.h"

/* ---- Comparing ---- */
static char told[512];
const char *difference(void) { return told; }
static bool differ(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(told, sizeof told, format, list);
    va_end(list);
    return false;
}

bool same_kind(const tp_tensor *got, const tp_tensor *want) {
    if (!got || !want) return got == want || differ("%s is missing", got ? "the expected" : "the result");
    if (!tpi_same_shape(got, want))
        return differ("shape %s, expected %s", tpi_shape_text(tpi_shape(got)), tpi_shape_text(tpi_shape(want)));
    if (got->dtype != want->dtype)
        return differ("dtype %s, expected %s", tp_dtype_name((tp_dtype)got->dtype),
                      tp_dtype_name((tp_dtype)want->dtype));
    return true;
}

double *numbers_of(const tp_tensor *t) {
    size_t size = tpi_itemsize(t), n = (size_t)t->numel;
    char *bytes = malloc(n * size + 1);
    double *numbers = malloc((n + 1) * 2 * sizeof(double));
    if (!bytes || !numbers || !tp_copy_out(t, bytes, n * size)) {
        report_error("reading a tensor");
        free(bytes);
        free(numbers);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        tp_scalar s = tpi_load_scalar(bytes + i * size, (tp_dtype)t->dtype);
        bool whole = s.kind == TP_SCALAR_BOOL || s.kind == TP_SCALAR_INT;
        numbers[2 * i] = whole ? (double)s.as.i : s.as.d[0];
        numbers[2 * i + 1] = s.kind == TP_SCALAR_COMPLEX ? s.as.d[1] : 0;
    }
    free(bytes);
    return numbers;
}

static bool as_number(double got, double want) { return got == want || (isnan(got) && isnan(want)); }

bool same_bits(const tp_tensor *got, const tp_tensor *want) {
    if (!same_kind(got, want) || !got) return got == want;
    size_t bytes = (size_t)got->numel * tpi_itemsize(got);
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    bool same = a && b && tp_copy_out(got, a, bytes) && tp_copy_out(want, b, bytes) && !memcmp(a, b, bytes);
    free(a);
    free(b);
    if (same) return true;
    double *x = numbers_of(got), *y = numbers_of(want);
    bool fine = x && y;
    for (int64_t i = 0; fine && i < 2 * got->numel; i++)
        if (!as_number(x[i], y[i])) fine = differ("element %lld is %.9g, expected %.9g", (long long)i / 2, x[i], y[i]);
    free(x);
    free(y);
    return fine;
}

double tolerance_of(tp_dtype dtype) {
    switch (dtype) {
    case TP_FLOAT16:
    case TP_COMPLEX32: return 0.008;
    case TP_BFLOAT16:
    case TP_BCOMPLEX32: return 0.06;
    case TP_FLOAT8_E4M3FN:
    case TP_FLOAT8_E4M3FNUZ: return 0.15;
    case TP_FLOAT8_E5M2:
    case TP_FLOAT8_E5M2FNUZ: return 0.3;
    case TP_FLOAT32:
    case TP_COMPLEX64: return 2e-5;
    default: return 1e-11;
    }
}

/* The largest finite value of got's dtype: what is above it may have become infinite. */
static double highest(tp_dtype dtype) {
    return dtype == TP_FLOAT16                                                    ? 65000
           : dtype == TP_BFLOAT16 || dtype == TP_FLOAT32 || dtype == TP_COMPLEX64 ? 3.3e38
                                                                                  : INFINITY;
}

bool near(const tp_tensor *got, const tp_tensor *want, double tolerance) {
    if (!got || !want) return got == want || differ("%s is missing", got ? "the expected" : "the result");
    if (!tpi_same_shape(got, want))
        return differ("shape %s, expected %s", tpi_shape_text(tpi_shape(got)), tpi_shape_text(tpi_shape(want)));
    double *x = numbers_of(got), *y = numbers_of(want), scale = 0;
    bool fine = x && y;
    for (int64_t i = 0; fine && i < 2 * got->numel; i++)
        if (isfinite(y[i]) && fabs(y[i]) > scale) scale = fabs(y[i]);
    for (int64_t i = 0; fine && i < 2 * got->numel; i++) {
        if (as_number(x[i], y[i]) ||
            fabs(x[i] - y[i]) <= tolerance * (fabs(y[i]) + fmin(scale, highest((tp_dtype)got->dtype))))
            continue;
        if (isinf(x[i]) && x[i] * y[i] > 0 && fabs(y[i]) > highest((tp_dtype)got->dtype)) continue;
        fine = differ("element %lld is %.9g, expected %.9g", (long long)i / 2, x[i], y[i]);
    }
    free(x);
    free(y);
    return fine;
}

bool vanishes(const tp_tensor *t, double bound) {
    double *x = numbers_of(t);
    bool small = x != NULL;
    for (int64_t i = 0; small && i < 2 * t->numel; i++) small = fabs(x[i]) <= bound;
    free(x);
    return small;
}

/* ---- Failures ---- */
static const operator_sample *at_sample;
static tp_dtype at_dtype;
static const char *at_what;
static int reported;

void at(const operator_sample *sample, tp_dtype dtype, const char *what) {
    at_sample = sample;
    at_dtype = dtype;
    at_what = what;
}

static int shown_at_most(void) {
    const char *text = getenv("TAPER_TEST_FAILURES");
    return text ? atoi(text) : 60;
}

void report(const char *format, ...) {
    if (reported++ >= shown_at_most()) return;
    va_list list;
    va_start(list, format);
    if (at_sample)
        fprintf(stderr, "%s (%s:%d) `%s` %s %s: ", at_sample->op, at_sample->file, at_sample->line, at_sample->text,
                tp_dtype_name(at_dtype), at_what ? at_what : "");
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

void report_error(const char *doing) {
    report("%s: %s", doing, tp_error() ? tp_error() : "failed without an error");
    tp_error_clear();
}

void fail_if_reported(void) {
    int n = reported;
    reported = 0;
    at_sample = NULL;
    if (n > shown_at_most())
        fprintf(stderr, "... and %d more (TAPER_TEST_FAILURES=%d shows them)\n", n - shown_at_most(), n);
    if (n) fail_msg("%d failures", n);
}

/* ---- The loop ---- */
#if defined(__SANITIZE_ADDRESS__) || TPI_PLAIN_ALLOC
#define CATCH_CRASHES 0 /* the sanitizer tells more than we could */
#else
#define CATCH_CRASHES 1
#endif
static sigjmp_buf crashed;
static pthread_t looping;

static void on_crash(int number) {
    if (pthread_equal(looping, pthread_self())) siglongjmp(crashed, number);
    static const char text[] = "a worker thread crashed\n";
    if (write(2, text, sizeof text - 1) < 0 || at_sample) report("crashed in a worker thread with signal %d", number);
    _exit(1);
}

static void catch_crashes(void) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    looping = pthread_self();
    for (size_t i = 0; CATCH_CRASHES && i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], on_crash);
}

/* Is the operator one of the part that TAPER_TEST_PART names? Operators are dealt out one by one, so that a family's
 * load is shared. */
static bool in_part(const char *op) {
    static const char *last = NULL;
    static int number = -1;
    if (!last || strcmp(last, op)) number++;
    last = op;
    int part = 1, parts = 1;
    const char *wish = getenv("TAPER_TEST_PART");
    return !wish || sscanf(wish, "%d/%d", &part, &parts) != 2 || parts < 1 || number % parts == part - 1;
}

void for_each_sample(bool errors, void (*body)(const operator_sample *sample, const tp_operator *op)) {
    const char *only = getenv("TAPER_TEST_OP");
    if (only && !tp_find_operator(only)) fail_msg("TAPER_TEST_OP=%s: there is no such operator", only);
    catch_crashes();
    for (volatile int i = 0; i < operator_sample_count; i++) { /* volatile: it must live through a crash's jump */
        const operator_sample *sample = &operator_samples[i];
        if (!in_part(sample->op) || !sample->error == errors || (only && strcmp(only, sample->op))) continue;
        at(sample, first_dtype(sample), "");
        int number = sigsetjmp(crashed, 1);
        if (number) {
            tpi_alloc_fail_at(0, false);
            report("crashed with signal %d", number);
        } else
            body(sample, tp_find_operator(sample->op));
        if (!tp_ok()) report_error("an error was left");
        tp_grad_mode_leave(&(tp_grad_mode){false, false});
    }
}
