/* Connectionist temporal classification: the forward-backward recursion over the target with blanks between its labels,
 * in logarithms and double precision. A task is one sequence of the batch.
 *
 * Shapes: log_probs (T, N, C); targets (N, S) or all labels in one row; log_alpha (N, T, 2 S + 1), where -inf marks
 * what cannot be. */
#include "ops/temporaries.h"
#include "ops/loss/loss.h"
#include "ops/loss/ctc_rows.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tpi_ops.h"
#include <math.h>

typedef struct job {
    int64_t steps, batch, classes, width, blank; /* width: of a row of log_alpha */
    const char *log_probs;
    bool wide; /* double rather than float */
    const int64_t *targets, *first, *input_lengths,
        *target_lengths; /* first[n]: where the labels of sequence n begin */
    double *alpha;
    double *scratch; /* `scratch_size` numbers for each sequence */
    int64_t scratch_size;
    double *loss;
    const char *grad;
    char *out;
    bool zero_infinity;
} job;

static double log_add(double a, double b) {
    double m = a > b ? a : b;
    return m == -INFINITY ? m : m + log1p(exp(-fabs(a - b)));
}

static double log_prob(const job *j, int64_t t, int64_t n, int64_t c) {
    int64_t at = (t * j->batch + n) * j->classes + c;
    return j->wide ? ((const double *)j->log_probs)[at] : (double)((const float *)j->log_probs)[at];
}

/* Label s of the target with blanks: blank, l0, blank, l1, ..., blank. */
static int64_t label(const job *j, int64_t n, int64_t s) {
    return s % 2 == 0 ? j->blank : j->targets[j->first[n] + s / 2];
}
/* A label may follow its predecessor but one unless it is a blank or repeats that one. */
static bool may_skip(const job *j, int64_t n, int64_t s) {
    return s % 2 == 1 && s >= 2 && label(j, n, s) != label(j, n, s - 2);
}

/* A sequence's target with blanks, state by state, and rows of its states. Rows have PAD states that cannot be on
 * either side, and more of them up to a whole number of vectors, so that all states are worked on alike. */
enum { PAD = 2, VECTOR = 8 };
typedef struct states {
    int64_t n, whole; /* whole: a multiple of VECTOR */
    int64_t *label;
    double *skip; /* 0 where may_skip, else -inf; behind the last, PAD more of these */
    double *emit; /* a step's log-probability of each label */
    double *row[2];
    double *weight;                           /* backward */
    double *sum, *log_prob, *fresh, *through; /* backward, by class */
} states;

static int64_t row_size(int64_t width) { return tpi_ceil_div(width, VECTOR) * VECTOR + 2 * PAD; }
static int64_t state_size(int64_t width, int64_t classes) { return 6 * row_size(width) + 4 * classes; }

static states states_of(const job *j, int64_t n) {
    const int64_t wide = row_size(j->width);
    double *scratch = j->scratch + n * j->scratch_size;
    states s = {.n = 2 * j->target_lengths[n] + 1, .label = (int64_t *)(void *)scratch};
    s.skip = scratch + wide;
    s.emit = scratch + 2 * wide;
    for (int i = 0; i < 2; i++) s.row[i] = scratch + (3 + i) * wide + PAD;
    s.weight = scratch + 5 * wide;
    s.sum = scratch + 6 * wide;
    s.log_prob = s.sum + j->classes;
    s.fresh = s.log_prob + j->classes;
    s.through = s.fresh + j->classes;
    s.whole = tpi_ceil_div(s.n, VECTOR) * VECTOR;
    for (int64_t i = wide; i < 5 * wide; i++) scratch[i] = -INFINITY;
    for (int64_t i = 0; i < s.n; i++) {
        s.label[i] = label(j, n, i);
        if (may_skip(j, n, i)) s.skip[i] = 0;
    }
    return s;
}

static void emissions(const job *j, int64_t n, int64_t t, const states *s) {
    for (int64_t i = 0; i < s->n; i++) s->emit[i] = log_prob(j, t, n, s->label[i]);
}

static void forward_task(int64_t n, void *context) {
    job *j = context;
    const int64_t steps = j->input_lengths[n];
    double *row = j->alpha + n * j->steps * j->width;
    for (int64_t i = 0; i < j->steps * j->width; i++) row[i] = -INFINITY;
    states s = states_of(j, n);
    if (steps == 0) {
        j->loss[n] = s.n == 1 ? 0 : INFINITY;
        return;
    }
    double *now = s.row[0], *before = s.row[1];
    for (int64_t i = 0; i < 2 && i < s.n; i++) now[i] = log_prob(j, 0, n, s.label[i]);
    memcpy(row, now, (size_t)s.n * sizeof *row);
    for (int64_t t = 1; t < steps; t++) {
        double *swap = now;
        now = before;
        before = swap;
        row += j->width;
        emissions(j, n, t, &s);
        TPI_ISA_PICK(tpi_ctc_step)(s.whole, before, before - 1, before - 2, s.skip, s.emit, now);
        memcpy(row, now, (size_t)s.n * sizeof *row);
    }
    double all = s.n > 1 ? log_add(row[s.n - 1], row[s.n - 2]) : row[0];
    j->loss[n] = -all;
}

/* The gradient at step t from alpha + beta per class; beta holds what comes after t, t included. The sum over a class's
 * states is taken relative to the largest of all. */
static void write_step(const job *j, int64_t n, int64_t t, const double *beta, const states *s, double g) {
    const double *alpha = j->alpha + (n * j->steps + t) * j->width;
    double most = -INFINITY;
    for (int64_t i = 0; i < s->n; i++) {
        s->emit[i] = alpha[i] + beta[i];
        most = s->emit[i] > most ? s->emit[i] : most;
    }
    const double base = most > -INFINITY ? most : 0;
    for (int64_t i = 0; i < s->n; i++) s->emit[i] -= base;
    TPI_ISA_PICK(tpi_ctc_exp)(s->n, s->emit, s->weight);
    memset(s->sum, 0, (size_t)j->classes * sizeof *s->sum);
    for (int64_t i = 0; i < s->n; i++) s->sum[s->label[i]] += s->weight[i];
    for (int64_t c = 0; c < j->classes; c++) {
        const double lp = log_prob(j, t, n, c);
        s->log_prob[c] = lp;
        s->through[c] = s->sum[c] > 0 || lp == -INFINITY ? log(s->sum[c]) + base + j->loss[n] - lp : -INFINITY;
    }
    TPI_ISA_PICK(tpi_ctc_exp)(j->classes, s->log_prob, s->fresh);
    for (int64_t c = 0; c < j->classes; c++) {
        const double through = s->through[c] == -INFINITY ? 0 : exp(s->through[c]);
        const double v = (s->fresh[c] - through) * g;
        const int64_t at = (t * j->batch + n) * j->classes + c;
        if (j->wide)
            ((double *)j->out)[at] = v;
        else
            ((float *)j->out)[at] = (float)v;
    }
}

static void backward_task(int64_t n, void *context) {
    job *j = context;
    const int64_t steps = j->input_lengths[n];
    const double g = j->wide ? ((const double *)j->grad)[n] : (double)((const float *)j->grad)[n];
    if (j->zero_infinity && j->loss[n] == INFINITY) return;
    states s = states_of(j, n);
    double *now = s.row[0], *after = s.row[1];
    for (int64_t t = steps - 1; t >= 0; t--) {
        emissions(j, n, t, &s);
        if (t == steps - 1)
            for (int64_t i = s.n > 1 ? s.n - 2 : 0; i < s.n; i++) now[i] = s.emit[i];
        else
            TPI_ISA_PICK(tpi_ctc_step)(s.whole, after, after + 1, after + 2, s.skip + 2, s.emit, now);
        write_step(j, n, t, now, &s, g);
        double *swap = now;
        now = after;
        after = swap;
    }
}

/* ---- Arguments ---- */
static bool check_lengths(const char *name, tp_ints lengths, int64_t batch, int64_t most) {
    if (lengths.n != batch)
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected %lld lengths, got %lld", name, (long long)batch,
                          (long long)lengths.n);
    for (int64_t i = 0; i < batch; i++)
        if (lengths.v[i] < 0 || lengths.v[i] > most)
            return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': Expected %s to have value at %s %lld, but got value %lld",
                              name, name, lengths.v[i] < 0 ? "least" : "most", (long long)(lengths.v[i] < 0 ? 0 : most),
                              (long long)lengths.v[i]);
    return true;
}

/* Checks everything and fills the job; `first` has room for one number per sequence. */
static bool plan(job *j, tp_tensor *log_probs, tp_tensor *targets, tp_ints input_lengths, tp_ints target_lengths,
                 int64_t blank, int64_t *first) {
    if (log_probs->ndim != 3)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'log_probs': expected shape (T, N, C), got %s",
                          tpi_shape_text(tpi_shape(log_probs)));
    *j = (job){
        .steps = log_probs->shape[0], .batch = log_probs->shape[1], .classes = log_probs->shape[2], .blank = blank};
    if (blank < 0 || blank >= j->classes)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'blank': blank must be in label range [0, %lld), got %lld",
                          (long long)j->classes, (long long)blank);
    bool rows = targets->ndim == 2;
    if (!rows && targets->ndim != 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'targets': expected 1 or 2 dimensions, got %d", targets->ndim);
    if (!check_lengths("input_lengths", input_lengths, j->batch, j->steps)) return false;
    if (!check_lengths("target_lengths", target_lengths, j->batch, rows ? targets->shape[1] : targets->numel))
        return false;
    int64_t total = 0, longest = 0;
    for (int64_t n = 0; n < j->batch; n++) {
        first[n] = rows ? n * targets->shape[1] : total;
        total += target_lengths.v[n];
        longest = target_lengths.v[n] > longest ? target_lengths.v[n] : longest;
    }
    if (!rows && total != targets->numel)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'targets': expected %lld labels in all, got %lld", (long long)total,
                          (long long)targets->numel);
    j->width = 2 * longest + 1;
    j->scratch_size = state_size(j->width, j->classes);
    j->first = first;
    j->input_lengths = input_lengths.v;
    j->target_lengths = target_lengths.v;
    return true;
}

static bool check_labels(const job *j, const int64_t *labels) {
    for (int64_t n = 0; n < j->batch; n++)
        for (int64_t i = 0; i < j->target_lengths[n]; i++)
            if (labels[j->first[n] + i] < 0 || labels[j->first[n] + i] >= j->classes)
                return tpi_refuse(TP_ERR_INDEX, "argument 'targets': label %lld is out of range for %lld classes",
                                  (long long)labels[j->first[n] + i], (long long)j->classes);
    return true;
}

bool tpi_native_ctc_loss_forward(tp_tensor *log_probs, tp_tensor *targets, tp_ints input_lengths,
                                 tp_ints target_lengths, int64_t blank, bool zero_infinity, tp_tensor **out) {
    tp_dtype dtype = tpi_compute_dtype(log_probs, "log_probs");
    int64_t *first = dtype ? tpi_malloc(sizeof *first * (size_t)(input_lengths.n + 1)) : NULL;
    job j;
    bool fine = false;
    tp_tensor *x = NULL, *t = NULL, *loss = NULL, *alpha = NULL;
    double *scratch = NULL;
    if (!first || !plan(&j, log_probs, targets, input_lengths, target_lengths, blank, first)) goto done;
    if (!(x = tpi_to_compute(log_probs, dtype)) || !(t = tpi_index_data(targets, "targets")) ||
        !check_labels(&j, (const int64_t *)t->data))
        goto done;
    if (!(loss = tpi_empty((tp_ints){&j.batch, 1}, TP_FLOAT64, tpi_device(log_probs)))) goto done;
    if (!(alpha = tpi_empty(TP_INTS(j.batch, j.steps, j.width), TP_FLOAT64, tpi_device(log_probs)))) goto done;
    if (!(scratch = tpi_malloc(sizeof(double) * (size_t)(j.batch * j.scratch_size + 1)))) goto done;
    j.log_probs = x->data;
    j.wide = dtype == TP_FLOAT64;
    j.targets = (const int64_t *)t->data;
    j.alpha = (double *)alpha->data;
    j.loss = (double *)loss->data;
    j.scratch = scratch;
    tpi_parallel_for(j.batch, alpha->numel > 4096, forward_task, &j);
    for (int64_t n = 0; zero_infinity && n < j.batch; n++) j.loss[n] = j.loss[n] == INFINITY ? 0 : j.loss[n];
    out[0] = tpi_as_dtype_data(loss, (tp_dtype)log_probs->dtype);
    out[1] = tpi_retain(alpha);
    fine = out[0] != NULL;
    if (!fine) {
        tpi_release(out[1]);
        out[1] = NULL;
    }
done:
    tpi_release(x);
    tpi_release(t);
    tpi_release(loss);
    tpi_release(alpha);
    tpi_mfree(first);
    tpi_mfree(scratch);
    return fine;
}

/* The loss again from the last row of alpha, in full precision and with its infinities. */
static void losses(job *j) {
    for (int64_t n = 0; n < j->batch; n++) {
        int64_t steps = j->input_lengths[n], states = 2 * j->target_lengths[n] + 1;
        const double *row = steps ? j->alpha + (n * j->steps + steps - 1) * j->width : NULL;
        j->loss[n] =
            !row ? (states == 1 ? 0 : INFINITY) : -(states > 1 ? log_add(row[states - 1], row[states - 2]) : row[0]);
    }
}

tp_tensor *tpi_native_ctc_loss_backward(tp_tensor *grad_output, tp_tensor *log_probs, tp_tensor *targets,
                                        tp_ints input_lengths, tp_ints target_lengths, tp_tensor *log_alpha,
                                        int64_t blank, bool zero_infinity) {
    tp_dtype dtype = tpi_compute_dtype(log_probs, "log_probs");
    int64_t *first = dtype ? tpi_malloc(sizeof *first * (size_t)(input_lengths.n + 1)) : NULL;
    job j;
    tp_tensor *x = NULL, *t = NULL, *g = NULL, *alpha = NULL, *out = NULL;
    double *scratch = NULL;
    if (!first || !plan(&j, log_probs, targets, input_lengths, target_lengths, blank, first)) goto done;
    if (!(x = tpi_to_compute(log_probs, dtype)) || !(t = tpi_index_data(targets, "targets")) ||
        !(g = tpi_to_compute(grad_output, dtype)))
        goto done;
    if (!(alpha = tpi_to_compute(log_alpha, TP_FLOAT64)) ||
        !(scratch = tpi_malloc(sizeof(double) * (size_t)(j.batch * (j.scratch_size + 1) + 1))))
        goto done;
    out = tpi_empty(tpi_shape(log_probs), dtype, tpi_device(log_probs));
    if (!out || !tpi_fill_data(out, tp_int(0))) goto done;
    j.log_probs = x->data;
    j.wide = dtype == TP_FLOAT64;
    j.targets = (const int64_t *)t->data;
    j.alpha = (double *)alpha->data;
    j.loss = scratch;
    j.scratch = scratch + j.batch;
    j.grad = g->data;
    j.out = out->data;
    j.zero_infinity = zero_infinity;
    losses(&j);
    tpi_parallel_for(j.batch, out->numel > 4096, backward_task, &j);
done:
    tpi_release(x);
    tpi_release(t);
    tpi_release(g);
    tpi_release(alpha);
    tpi_mfree(first);
    tpi_mfree(scratch);
    return tpi_from_compute(out, (tp_dtype)log_probs->dtype);
}

/* ---- The loss itself ---- */
tp_tensor *tpi_compose_ctc_loss_lists(tp_tensor *log_probs, tp_tensor *targets, tp_ints input_lengths,
                                      tp_ints target_lengths, int64_t blank, const char *reduction,
                                      bool zero_infinity) {
    tpi_reduction how = tpi_reduction_of(reduction);
    if (how == TPI_REDUCE_BAD) return NULL;
    tpi_temporaries temps = {0};
    bool single = log_probs->ndim == 2;
    tp_tensor *batch = single ? tpi_put(&temps, tpo_unsqueeze(log_probs, 1)) : log_probs, *out[2] = {NULL};
    if (targets && log_probs && tpi_device(targets).type == TP_CPU && tpi_device(log_probs).type != TP_CPU)
        targets = tpi_put(&temps, tpi_moved_data(tpi_retain(targets), tpi_device(log_probs)));
    if (!batch || !targets ||
        !tpo_ctc_loss_forward(batch, targets, input_lengths, target_lengths, blank, zero_infinity, out))
        return tpi_release_temporaries(&temps, NULL);
    tp_tensor *each = tpi_put(&temps, out[0]);
    tpi_put(&temps, out[1]);
    if (how == TPI_REDUCE_NONE)
        return tpi_release_temporaries(&temps,
                                       single ? tpo_reshape(each, (tp_ints){target_lengths.v, 0}) : tpi_retain(each));
    if (how == TPI_REDUCE_SUM) return tpi_release_temporaries(&temps, tpo_sum(each, tp_no_ints(), false, TP_NO_DTYPE));
    tp_tensor *over = tpi_empty((tp_ints){&target_lengths.n, 1}, (tp_dtype)each->dtype, (tp_device){TP_CPU, 0});
    for (int64_t n = 0; over && n < target_lengths.n; n++)
        tpi_store_scalar(over->data + (size_t)n * tpi_itemsize(over), (tp_dtype)over->dtype,
                         tp_float(target_lengths.v[n] > 1 ? (double)target_lengths.v[n] : 1));
    over = tpi_put(&temps, tpi_moved_data(over, tpi_device(each)));
    if (!over) return tpi_release_temporaries(&temps, NULL);
    tp_tensor *scaled = tpi_put(&temps, tpo_div(tp_operand_tensor(each), tp_operand_tensor(over)));
    return tpi_release_temporaries(&temps, scaled ? tpo_mean(scaled, tp_no_ints(), false, TP_NO_DTYPE) : NULL);
}

tp_tensor *tpi_compose_ctc_loss(tp_tensor *log_probs, tp_tensor *targets, tp_tensor *input_lengths,
                                tp_tensor *target_lengths, int64_t blank, const char *reduction, bool zero_infinity) {
    tp_device host = {TP_CPU, 0};
    tp_tensor *a = tpi_moved_data(tpi_index_data(input_lengths, "input_lengths"), host),
              *b = a ? tpi_moved_data(tpi_index_data(target_lengths, "target_lengths"), host) : NULL, *out = NULL;
    if (b)
        out = tpi_compose_ctc_loss_lists(log_probs, targets, tp_ints_view((const int64_t *)a->data, a->numel),
                                         tp_ints_view((const int64_t *)b->data, b->numel), blank, reduction,
                                         zero_infinity);
    tpi_release(a);
    tpi_release(b);
    return out;
}
