/* Histograms: how many values lie in each bin, with their extremes and sums. Bins are TensorBoard's own (from 1e-12 to
 * 1e20 and the same below zero, each a tenth wider than the one before), as many equal ones as are asked for or as one
 * of NumPy's rules finds, or the caller's. Values are counted in chunks of a fixed size whose sums are added in order.
 */
#include "autograd/glue.h"
#include "io/events/summary.h"
#include "tensor/check_arguments.h"
#include "base/threads.h"
#include "tensor/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK    65536
#define MAX_BINS 10000000

typedef struct values { /* what is counted: n doubles */
    const double *v;
    int64_t n;
    double min, max, sum, squares;
} values;

typedef struct histogram {  /* n counts between n + 1 edges */
    double *edges, *counts; /* counts[-1] is 0 */
    int64_t n;
} histogram;

static void histogram_free(histogram *h) { tpi_mfree(h->edges); }
static bool histogram_new(histogram *h, int64_t n) {
    size_t half = (size_t)(n + 1), bytes = 2 * half * sizeof(double);
    *h = (histogram){.n = n, .edges = tpi_malloc(bytes)};
    if (!h->edges) return false;
    memset(h->edges, 0, bytes);
    h->counts = h->edges + half + 1;
    return true;
}

/* ---- Sums and counts, in chunks ---- */
typedef struct sums {
    double min, max, sum, squares;
} sums;
typedef struct work {
    const values *of;
    sums *sums;
    const histogram *h;
    int64_t *counts; /* (chunks, h->n) */
} work;

static int64_t chunk_end(const values *x, int64_t chunk) {
    return (chunk + 1) * CHUNK < x->n ? (chunk + 1) * CHUNK : x->n;
}

static void sum_chunk(int64_t chunk, void *context) {
    work *w = context;
    sums s = {INFINITY, -INFINITY, 0, 0};
    for (int64_t i = chunk * CHUNK; i < chunk_end(w->of, chunk); i++) {
        double v = w->of->v[i];
        s.min = v < s.min || v != v ? v : s.min; /* NaN stays: comparisons with it are false */
        s.max = v > s.max || v != v ? v : s.max;
        s.sum += v;
        s.squares += v * v;
    }
    w->sums[chunk] = s;
}

static bool sum_up(values *x) {
    int64_t chunks = tpi_ceil_div(x->n, CHUNK);
    work w = {.of = x, .sums = tpi_malloc(sizeof(sums) * (size_t)chunks)};
    if (!w.sums) return false;
    tpi_parallel_for(chunks, chunks > 1, sum_chunk, &w);
    sums s = w.sums[0];
    for (int64_t i = 1; i < chunks; i++) {
        sums c = w.sums[i];
        s.min = c.min < s.min || c.min != c.min ? c.min : s.min;
        s.max = c.max > s.max || c.max != c.max ? c.max : s.max;
        s.sum += c.sum;
        s.squares += c.squares;
    }
    x->min = s.min;
    x->max = s.max;
    x->sum = s.sum;
    x->squares = s.squares;
    tpi_mfree(w.sums);
    return true;
}

/* The bin of v, or -1: a bin holds its lower edge; the last one its upper edge too. */
static int64_t bin_of(const histogram *h, double v) {
    if (!(v >= h->edges[0] && v <= h->edges[h->n])) return -1;
    int64_t low = 0; /* edges[low] <= v; without branches, which nothing could predict */
    for (int64_t left = h->n; left > 1;) {
        int64_t half = left / 2;
        low += half * (h->edges[low + half] <= v);
        left -= half;
    }
    return low;
}

static void count_chunk(int64_t chunk, void *context) {
    work *w = context;
    int64_t *counts = w->counts + chunk * w->h->n;
    for (int64_t i = chunk * CHUNK; i < chunk_end(w->of, chunk); i++) {
        int64_t bin = bin_of(w->h, w->of->v[i]);
        if (bin >= 0) counts[bin]++;
    }
}

static bool count(const values *x, histogram *h) {
    int64_t chunks = tpi_ceil_div(x->n, CHUNK);
    if ((double)chunks * (double)h->n > 1e8)
        return tpi_refuse(TP_ERR_VALUE, "argument 'bins': expected fewer bins, got %lld", (long long)h->n);
    size_t bytes = sizeof(int64_t) * (size_t)(chunks * h->n);
    work w = {.of = x, .h = h, .counts = tpi_malloc(bytes)};
    if (!w.counts) return false;
    memset(w.counts, 0, bytes);
    tpi_parallel_for(chunks, chunks > 1, count_chunk, &w);
    for (int64_t c = 0; c < chunks; c++)
        for (int64_t b = 0; b < h->n; b++) h->counts[b] += (double)w.counts[c * h->n + b];
    tpi_mfree(w.counts);
    return true;
}

/* ---- Bins ---- */

static bool tensorboards_bins(histogram *h) {
    int64_t positive = 0;
    for (double v = 1e-12; v < 1e20; v *= 1.1) positive++;
    if (!histogram_new(h, 2 * positive)) return false;
    double v = 1e-12;
    h->edges[positive] = 0;
    for (int64_t i = 1; i <= positive; i++, v *= 1.1) {
        h->edges[positive + i] = v;
        h->edges[positive - i] = -v;
    }
    return true;
}

static bool given_bins(histogram *h, tp_tensor *edges) {
    if (edges->ndim != 1 || edges->numel < 2)
        return tpi_refuse(TP_ERR_VALUE, "argument 'bins': expected at least two edges in one dimension, got shape %s",
                          tpi_shape_text(tpi_shape(edges)));
    if (!histogram_new(h, edges->numel - 1)) return false;
    tp_tensor *to = tp_over_data(h->edges, TP_FLOAT64, tpi_shape(edges), tp_no_ints(), NULL, NULL);
    tp_own(to);
    bool ok = to && tpi_copy_data(to, edges);
    tpi_release(to);
    for (int64_t i = 0; ok && i < h->n; i++)
        if (!(h->edges[i] <= h->edges[i + 1]))
            ok = tpi_refuse(TP_ERR_VALUE, "argument 'bins': expected edges that increase, got others");
    return ok;
}

static bool equal_bins(histogram *h, const values *x, int64_t n) {
    double first = x->min, last = x->max;
    if (first == last) {
        first -= 0.5;
        last += 0.5;
    }
    if (n < 1 || n > MAX_BINS)
        return tpi_refuse(TP_ERR_VALUE, "argument 'bins': expected 1 to %d bins, got %lld", MAX_BINS, (long long)n);
    if (!histogram_new(h, n)) return false;
    double step = (last - first) / (double)n;
    for (int64_t i = 0; i < n; i++) h->edges[i] = (double)i * step + first;
    h->edges[n] = last;
    for (int64_t i = 0; i < n; i++)
        if (!(h->edges[i] < h->edges[i + 1]))
            return tpi_refuse(TP_ERR_VALUE,
                              "argument 'bins': expected bins that doubles can tell apart, got %lld between %g and %g",
                              (long long)n, first, last);
    return true;
}

/* ---- NumPy's rules for the width of bins ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double quantile(const double *sorted, int64_t n, double q) {
    double at = q * (double)(n - 1);
    int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (at - (double)low);
}
static bool quartile_width(const values *x, double *width) { /* Freedman and Diaconis */
    double *sorted = tpi_malloc(sizeof(double) * (size_t)x->n);
    if (!sorted) return false;
    memcpy(sorted, x->v, sizeof(double) * (size_t)x->n);
    qsort(sorted, (size_t)x->n, sizeof(double), by_value);
    *width = 2 * (quantile(sorted, x->n, 0.75) - quantile(sorted, x->n, 0.25)) / cbrt((double)x->n);
    tpi_mfree(sorted);
    return true;
}

static double central_moment(const values *x, double mean, double scale,
                             int power) { /* the mean of ((v - mean) / scale)^power */
    double sum = 0;
    for (int64_t i = 0; i < x->n; i++) sum += pow((x->v[i] - mean) / scale, power);
    return sum / (double)x->n;
}
static double deviation(const values *x) { return sqrt(central_moment(x, x->sum / (double)x->n, 1, 2)); }

static double doane_width(const values *x) {
    double n = (double)x->n, sigma = x->n > 2 ? deviation(x) : 0;
    if (!(sigma > 0)) return 0;
    double spread = sqrt(6 * (n - 2) / ((n + 1) * (n + 3))), skew = central_moment(x, x->sum / n, sigma, 3);
    return (x->max - x->min) / (1 + log2(n) + log2(1 + fabs(skew) / spread));
}

static bool stone_width(const values *x, double *width) { /* the number of bins whose leave-one-out loss is the least */
    double n = (double)x->n, range = x->max - x->min, best = INFINITY;
    int64_t most = (int64_t)sqrt(n) > 100 ? (int64_t)sqrt(n) : 100, chosen = 1;
    *width = 0;
    if (x->n <= 1 || range == 0) return true;
    for (int64_t bins = 1; bins <= most; bins++) {
        histogram h = {0};
        bool ok = equal_bins(&h, x, bins) && count(x, &h);
        double squares = 0, wide = range / (double)bins;
        for (int64_t i = 0; ok && i < bins; i++) squares += h.counts[i] / n * (h.counts[i] / n);
        histogram_free(&h);
        if (!ok) return false;
        double loss = (2 - (n + 1) * squares) / wide;
        if (loss < best) {
            best = loss;
            chosen = bins;
        }
    }
    *width = range / (double)chosen;
    return true;
}

static bool rule_bins(histogram *h, const values *x, const char *rule) {
    double n = (double)x->n, range = x->max - x->min, width = 0, sturges = range / (log2(n) + 1),
           root = range / sqrt(n);
    bool ok = true;
    if (!strcmp(rule, "auto")) {
        ok = quartile_width(x, &width);
        width = fmin(fmax(width, root / 2), sturges);
    } else if (!strcmp(rule, "fd"))
        ok = quartile_width(x, &width);
    else if (!strcmp(rule, "doane"))
        width = doane_width(x);
    else if (!strcmp(rule, "scott"))
        width = cbrt(24 * sqrt(M_PI) / n) * deviation(x);
    else if (!strcmp(rule, "stone"))
        ok = stone_width(x, &width);
    else if (!strcmp(rule, "rice"))
        width = range / (2 * cbrt(n));
    else if (!strcmp(rule, "sturges"))
        width = sturges;
    else if (!strcmp(rule, "sqrt"))
        width = root;
    else
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'bins': expected 'tensorflow', 'auto', 'fd', 'doane', 'scott', 'stone', 'rice', "
                          "'sturges' or 'sqrt', got '%s'",
                          rule);
    if (ok && range == 0 && width) width = 0;
    double bins = width ? ceil(range / width) : 1;
    return ok && equal_bins(h, x, bins < MAX_BINS ? (int64_t)bins : MAX_BINS + 1);
}

static bool make_bins(histogram *h, const values *x, const tp_summary_histogram_options *o) {
    if (o->edges) return given_bins(h, o->edges);
    if (!o->bin_count && (!o->rule || !strcmp(o->rule, "tensorflow"))) return tensorboards_bins(h);
    if (!isfinite(x->min) || !isfinite(x->max))
        return tpi_refuse(TP_ERR_VALUE, "argument 'values': expected finite ones, got a range of [%g, %g]", x->min,
                          x->max);
    return o->bin_count ? equal_bins(h, x, o->bin_count) : rule_bins(h, x, o->rule);
}

/* ---- The summary ---- */

/* Neighbours are joined so that about max_bins stay; empty bins at the end fill the last group. */
static void join_bins(histogram *h, int64_t max_bins) {
    if (max_bins <= 0 || h->n <= max_bins) return;
    int64_t group = h->n / max_bins, groups = tpi_ceil_div(h->n, group);
    for (int64_t g = 0; g < groups; g++) {
        double sum = 0;
        for (int64_t i = g * group; i < (g + 1) * group && i < h->n; i++) sum += h->counts[i];
        h->counts[g] = sum;
        h->edges[g] = h->edges[g * group];
    }
    h->edges[groups] = h->edges[h->n];
    h->n = groups;
}

/* As TensorBoard reads it, limit i is the upper edge of count i; so the lower edge of the first bin that holds
 * something goes in front, with nothing in it. Empty bins before and after those are left out. */
static bool write_bins(tpi_wire *w, const histogram *h) {
    int64_t first = 0, last = h->n - 1;
    while (first < h->n && h->counts[first] == 0) first++;
    if (first == h->n) return tpi_refuse(TP_ERR_VALUE, "argument 'values': expected some within the bins, got none");
    while (h->counts[last] == 0) last--;
    size_t n = (size_t)(last - first + 1);
    tpi_wire_doubles(w, 6, h->edges + first, n + 1);
    tpi_wire_doubles(w, 7, h->counts + first - 1, n + 1);
    return true;
}

static void write_sums(tpi_wire *w, const values *x) {
    tpi_wire_double(w, 1, x->min);
    tpi_wire_double(w, 2, x->max);
    tpi_wire_double(w, 3, (double)x->n);
    tpi_wire_double(w, 4, x->sum);
    tpi_wire_double(w, 5, x->squares);
}

static bool write_histogram(tp_summary *s, const char *tag, values *x, const tp_summary_histogram_options *o) {
    histogram h = {0};
    size_t value;
    bool ok = sum_up(x) && make_bins(&h, x, o) && count(x, &h) && tpi_value_open(s, tag, &value);
    if (ok) {
        join_bins(&h, o->max_bins);
        size_t histo = tpi_wire_open(&s->wire, 5);
        write_sums(&s->wire, x);
        ok = write_bins(&s->wire, &h);
        tpi_wire_close(&s->wire, histo);
        tpi_wire_close(&s->wire, value);
    }
    histogram_free(&h);
    return ok;
}

tp_summary *tp_summary_histogram(const char *tag, const tp_tensor *of, const tp_summary_histogram_options *options) {
    tp_summary_histogram_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    if (!tpi_is_tensor(of, "values")) return NULL;
    if (!of->numel) return tpi_fail(TP_ERR_VALUE, "argument 'values': expected at least one element, got none");
    tp_tensor *doubles = tpi_doubles_of(of);
    tp_summary *s = doubles ? tpi_summary_new() : NULL;
    if (s && !write_histogram(s, tag, &(values){.v = (const double *)doubles->data, .n = doubles->numel}, &o)) {
        tp_summary_free(s);
        s = NULL;
    }
    tpi_release(doubles);
    return tpi_summary_done(s);
}

tp_summary *tp_summary_histogram_raw(const char *tag, double min, double max, double num, double sum,
                                     double sum_squares, tp_floats limits, tp_floats counts) {
    if (!TPI_LIST_GIVEN(limits.v, limits.n) || !TPI_LIST_GIVEN(counts.v, counts.n)) return NULL;
    if (limits.n != counts.n)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'bucket_counts': expected %lld, one for each of 'bucket_limits', got %lld",
                        (long long)limits.n, (long long)counts.n);
    tp_summary *s = tpi_summary_new();
    size_t value;
    if (!s || !tpi_value_open(s, tag, &value)) {
        tp_summary_free(s);
        return NULL;
    }
    size_t histo = tpi_wire_open(&s->wire, 5);
    const double fields[] = {min, max, num, sum, sum_squares};
    for (int i = 0; i < 5; i++) tpi_wire_double(&s->wire, i + 1, fields[i]);
    tpi_wire_doubles(&s->wire, 6, limits.v, (size_t)limits.n);
    tpi_wire_doubles(&s->wire, 7, counts.v, (size_t)counts.n);
    tpi_wire_close(&s->wire, histo);
    tpi_wire_close(&s->wire, value);
    return tpi_summary_done(s);
}
