/* Taper's figures: what a call costs when there is nothing to compute, and what share of the machine's bandwidth or of
 * the BLAS's speed operators reach when there is. Each row stands against a reference timed in the same run, turn by
 * turn. Memory's speed changes by a factor of two within a minute where others use the machine too, so times of
 * different rounds say nothing about each other: each round gives a share of its own, of two times that are neighbours,
 * and the row's share is the middle one. Rows about bandwidth also run on a block that stays in the caches, in the same
 * rounds, which shows what computing alone takes, and so whether memory binds at all. figures [FILE]     prints the
 * table; with a FILE (bench/README.md) also puts it between that file's two marks */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include <time.h>

enum {
    ROWS = 16384,
    COLUMNS = 1024,
    COUNT = ROWS * COLUMNS, /* 64 MiB of float: more than the caches hold */
    BLOCK = 32,             /* rows that stay in the caches, result included */
    ROUNDS = 31,
    WARM = 3,
    TIMED = 3,   /* runs of one side in a round: those that warm it up, and those that count */
    CALLS = 200, /* of a small operator in one run: some ten microseconds, seldom disturbed */
    SMALL_RUNS = 3000,
    PRODUCTS = 100, /* small ones in one run */
};

/* As cblas.h has it, which not every BLAS comes with. */
enum { CblasRowMajor = 101, CblasNoTrans = 111 };
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

/* ---- What the rows work on ---- */
typedef struct operands {
    tp_tensor *a, *b, *picks; /* rows of COLUMNS floats, and numbers of rows */
    int64_t rows;
} operands;
static operands whole = {.rows = ROWS}, block = {.rows = BLOCK};
static const operands *of = &whole; /* what rows about bandwidth work on */
static tp_tensor *output, *weight, *bias, *one, *leaf, *square[2], *small[2], *product[2];
static float *in, *in2, *out; /* the references' memory: the same kind, as warm */
static volatile float kept;   /* where a reference's sum goes, so that it is computed */

static void stop(const char *what) {
    fprintf(stderr, "figures: %s: %s\n", what, tp_error() ? tp_error() : "cannot be done");
    exit(1);
}
static tp_tensor *need(tp_tensor *t) {
    if (!t) stop("making tensors");
    return t;
}

static void prepare(void) {
    tp_manual_seed(0);
    operands *sets[] = {&whole, &block};
    for (int i = 0; i < 2; i++) {
        sets[i]->a = need(tp_randn(TP_INTS(sets[i]->rows, COLUMNS)));
        sets[i]->b = need(tp_randn(TP_INTS(sets[i]->rows, COLUMNS)));
        sets[i]->picks = need(tp_randperm(sets[i]->rows));
    }
    output = need(tp_zeros(TP_INTS(ROWS, COLUMNS)));
    weight = need(tp_randn(TP_INTS(COLUMNS)));
    bias = need(tp_randn(TP_INTS(COLUMNS)));
    one = need(tp_ones(TP_INTS(1)));
    leaf = need(tp_set_requires_grad(need(tp_ones(TP_INTS(1))), true));
    for (int i = 0; i < 2; i++) {
        square[i] = need(tp_randn(TP_INTS(1024, 1024)));
        small[i] = need(tp_randn(TP_INTS(64, 64)));
    }
    product[0] = need(tp_zeros(TP_INTS(1024, 1024)));
    product[1] = need(tp_zeros(TP_INTS(64, 64)));
    in = tp_data(whole.a);
    in2 = tp_data(whole.b);
    out = tp_data(output);
}

static void done(tp_tensor *t) {
    if (!t) stop("an operator");
    tp_release(t);
}

/* ---- Rows: small calls ---- */
static void add_one(void) {
    for (int i = 0; i < CALLS; i++) done(tp_add(one, one));
}
static void add_one_recorded(void) {
    for (int i = 0; i < CALLS; i++) done(tp_add(leaf, one));
}
static void backward(void) {
    for (int i = 0; i < CALLS; i++)
        TP_SCOPE {
            if (!tp_backward(tp_sum(tp_mul(leaf, 2)))) stop("backward");
        }
    tp_zero_grad(leaf);
}

/* ---- Rows: bandwidth ---- */
static void add(void) { done(tp_add(of->a, of->b)); }
static void exponential(void) { done(tp_exp(of->a)); }
static void gelu(void) { done(tp_gelu(of->a)); }
static void sum(void) { done(tp_sum(of->a)); }
static void sum_rows(void) { done(tp_sum(of->a, .dim = TP_INTS(1))); }
static void amax_rows(void) { done(tp_amax(of->a, .dim = TP_INTS(1))); }
static void sum_columns(void) { done(tp_sum(of->a, .dim = TP_INTS(0))); }
static void softmax(void) { done(tp_softmax(of->a, 1)); }
static void layer_norm(void) { done(tp_layer_norm(of->a, TP_INTS(COLUMNS), .weight = weight, .bias = bias)); }
static void max_rows(void) {
    TP_SCOPE {
        if (!tp_max_dim(of->a, 1).values) stop("max");
    }
}
static void gather_rows(void) { done(tp_index_select(of->a, 0, of->picks)); }
static void transposed(void) {
    TP_SCOPE {
        if (!tp_contiguous(tp_transpose(of->a, 0, 1))) stop("transpose");
    }
}
static void cumsum_rows(void) { done(tp_cumsum(of->a, 1)); }
static void cumsum_long(void) {
    TP_SCOPE {
        if (!tp_cumsum(tp_reshape(of->a, TP_INTS(-1)), 0)) stop("cumsum");
    }
}

/* The references: as many bytes read and written, nothing else to do. */
static void add_loop(void) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < COUNT; i++) out[i] = in[i] + in2[i];
}
static void scale_loop(void) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < COUNT; i++) out[i] = in[i] * 1.5f;
}
static void sum_loop(void) { /* in 32 running sums: one alone would wait for the adder, not for memory */
    float s[32] = {0};
#pragma omp parallel for reduction(+ : s)
    for (int64_t i = 0; i < COUNT; i += 32)
        for (int l = 0; l < 32; l++) s[l] += in[i + l];
    for (int l = 0; l < 32; l++) kept = s[l];
}

/* ---- Rows: matrix products ---- */
static void matmul_large(void) { done(tp_matmul(square[0], square[1])); }
static void matmul_small(void) {
    for (int i = 0; i < PRODUCTS; i++) done(tp_matmul(small[0], small[1]));
}
static void gemm(int n, tp_tensor *const *ab, tp_tensor *c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, tp_data(ab[0]), n, tp_data(ab[1]), n, 0,
                tp_data(c), n);
}
static void blas_large(void) { gemm(1024, square, product[0]); }
static void blas_small(void) {
    for (int i = 0; i < PRODUCTS; i++) gemm(64, small, product[1]);
}

typedef struct row {
    const char *name;
    void (*ours)(void), (*reference)(void); /* no reference: a time alone */
    const char *against;
    double calls;  /* in one run of ours */
    double bytes;  /* moved in one run; 0 if that is not what binds */
    double target; /* seconds a call at most; with a reference, the share of its speed at least */
    bool always;   /* the target stands where computing binds, too */
} row;

#define ONE_WAY (4.0 * COUNT)
static const row table[] = {
    {"`a + b`, one element", add_one, NULL, NULL, CALLS, 0, 150e-9, false},
    {"`a + b`, one element, recorded", add_one_recorded, NULL, NULL, CALLS, 0, 300e-9, false},
    {"`(x * 2).sum().backward()`", backward, NULL, NULL, CALLS, 0, 2e-6, false},
    {"add", add, add_loop, "out = a + b", 1, 3 * ONE_WAY, 0.8, false},
    {"exp", exponential, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.8, false},
    {"gelu", gelu, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.8, false},
    {"sum", sum, sum_loop, "s += a", 1, ONE_WAY, 0.8, false},
    {"sum over rows", sum_rows, sum_loop, "s += a", 1, ONE_WAY, 0.8, false},
    {"sum over columns", sum_columns, sum_loop, "s += a", 1, ONE_WAY, 0.8, false},
    {"max over rows", amax_rows, sum_loop, "s += a", 1, ONE_WAY, 0.8, false},
    {"max over rows, with indices", max_rows, sum_loop, "s += a", 1, ONE_WAY, 0.8, false},
    {"softmax over rows", softmax, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.8, false},
    {"layer_norm over rows", layer_norm, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.8, false},
    {"gather of rows", gather_rows, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.8, false},
    {"transpose copy", transposed, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.8, false},
    {"cumsum along rows", cumsum_rows, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.5, true},
    {"cumsum of one long row", cumsum_long, scale_loop, "out = a * c", 1, 2 * ONE_WAY, 0.5, true},
    {"matmul, 1024 by 1024", matmul_large, blas_large, "cblas_sgemm", 1, 0, 0.95, false},
    {"matmul, 64 by 64", matmul_small, blas_small, "cblas_sgemm", PRODUCTS, 0, 0.8, false},
};

/* ---- Measuring and printing ---- */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double timed(void (*work)(void)) {
    double start = now();
    work();
    return now() - start;
}

static const char *duration(double seconds, char *text, size_t n) {
    if (seconds < 1e-6)
        snprintf(text, n, "%.0f ns", seconds * 1e9);
    else if (seconds < 1e-3)
        snprintf(text, n, "%.2f us", seconds * 1e6);
    else
        snprintf(text, n, "%.2f ms", seconds * 1e3);
    return text;
}

static void machine(FILE *f) {
    char line[256], name[256] = "an unnamed processor", date[32];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, sizeof name, "%s", strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = 0;
            break;
        }
    if (info) fclose(info);
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&t));
    fprintf(f, "%s, %d threads, %s; Taper %s.\n\n", name, tp_num_threads(), date, tp_version());
}

typedef struct figure {
    double ours, reference; /* seconds a call */
    double share;           /* of the reference's speed */
    double computing; /* seconds that as many threads would take if all elements were in their caches; 0: no such row */
    bool computing_binds;
} figure;

static int by_size(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
/* What stands at `part` of the way through the sorted values. */
static double quantile(int n, double *values, double part) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[(int)(part * (n - 1) + 0.5)];
}

/* One side's turn. Threads of OpenMP and of the BLAS go on spinning for a while after their work, on cores that the
 * other side needs: a turn begins when the other's have gone to sleep, with runs that wake its own. */
static double median_time(void (*f)(void)) {
    double times[TIMED];
    nanosleep(&(struct timespec){.tv_nsec = 40 * 1000 * 1000}, NULL);
    for (int i = 0; i < WARM; i++) f();
    for (int i = 0; i < TIMED; i++) times[i] = timed(f);
    return quantile(TIMED, times, 0.5);
}

/* The row's operator on the block, by one thread, brought up to all elements and shared by all threads. */
static double median_time_in_caches(const row *r) {
    enum { REPEATS = 16 };
    int threads = tp_num_threads();
    double times[TIMED];
    of = &block;
    tp_set_num_threads(1);
    for (int i = 0; i < WARM; i++) r->ours();
    for (int i = 0; i < TIMED; i++) {
        double start = now();
        for (int k = 0; k < REPEATS; k++) r->ours();
        times[i] = (now() - start) / REPEATS;
    }
    tp_set_num_threads(threads);
    of = &whole;
    const double rows = ROWS;
    return quantile(TIMED, times, 0.5) * rows / BLOCK / threads;
}

static figure measure_alone(const row *r) {
    static double times[SMALL_RUNS];
    for (int i = 0; i < SMALL_RUNS; i++) times[i] = timed(r->ours) / r->calls;
    return (figure){.ours = quantile(SMALL_RUNS, times, 0.1)}; /* what disturbs a run only ever adds to it */
}

static figure measure(const row *r) {
    double ours[ROUNDS], reference[ROUNDS], share[ROUNDS], computing[ROUNDS], bound[ROUNDS];
    if (!r->reference) return measure_alone(r);
    for (int i = 0; i < ROUNDS; i++) {
        bool first = i % 2; /* sides change places, so that a drift helps neither */
        if (first) reference[i] = median_time(r->reference) / r->calls;
        ours[i] = median_time(r->ours) / r->calls;
        if (!first) reference[i] = median_time(r->reference) / r->calls;
        computing[i] = r->bytes > 0 ? median_time_in_caches(r) : 0;
        share[i] = reference[i] / ours[i];
        bound[i] = computing[i] / reference[i];
    }
    return (figure){quantile(ROUNDS, ours, 0.5), quantile(ROUNDS, reference, 0.5), quantile(ROUNDS, share, 0.5),
                    quantile(ROUNDS, computing, 0.5), quantile(ROUNDS, bound, 0.5) > 1};
}

static const char *const heading = "| what                             |       Taper |   reference | which       |     "
                                   " rate | share |  target | met |  in caches | what binds |\n"
                                   "|----------------------------------|------------:|------------:|-------------|-----"
                                   "-----:|------:|--------:|-----|-----------:|------------|\n";

static void format_row(char *line, size_t n, const row *r, figure m) {
    char ours[32], reference[32] = "", rate[32] = "", share[32] = "", target[32], computing[32] = "";
    bool asked = !m.computing_binds || r->always;
    bool reached = r->reference ? m.share >= r->target : m.ours <= r->target;
    const char *verdict = reached ? "yes" : "no", *met = asked ? verdict : "";
    duration(m.ours, ours, sizeof ours);
    if (r->reference) {
        duration(m.reference, reference, sizeof reference);
        snprintf(share, sizeof share, "%.0f%%", 100 * m.share);
        snprintf(target, sizeof target, asked ? ">= %.0f%%" : "none", 100 * r->target);
    } else
        duration(r->target, target, sizeof target);
    if (r->bytes > 0) snprintf(rate, sizeof rate, "%.1f GB/s", r->bytes / m.ours * 1e-9);
    if (m.computing > 0) duration(m.computing, computing, sizeof computing);
    snprintf(line, n, "| %-32s | %11s | %11s | %-11s | %9s | %5s | %7s | %-3s | %10s | %-10s |\n", r->name, ours,
             reference, r->against ? r->against : "", rate, share, target, met, computing,
             m.computing == 0    ? ""
             : m.computing_binds ? "computing"
                                 : "memory");
}

/* Puts the report between the file's two marks. */
static const char *const marks[2] = {"<!-- figures -->\n", "<!-- end of figures -->\n"};
static void update(const char *path, const char *report) {
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    char *from = strstr(text, marks[0]), *to = strstr(text, marks[1]);
    if (!from || !to) stop(path);
    f = fopen(path, "w");
    if (!f) stop(path);
    fprintf(f, "%.*s%s\n%s\n%s", (int)(from - text), text, marks[0], report, to);
    fclose(f);
}

int main(int argc, char **argv) {
    enum { REPORT = 8192 };
    static char report[REPORT];
    prepare();
    FILE *f = fmemopen(report, REPORT, "w");
    if (!f) stop("memory");
    machine(f);
    fputs(heading, f);
    fflush(f);
    fputs(report, stdout);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char line[512];
        format_row(line, sizeof line, &table[i], measure(&table[i]));
        fputs(line, f);
        fputs(line, stdout);
        fflush(stdout);
    }
    fclose(f);
    if (argc > 1) update(argv[1], report);
    return 0;
}
