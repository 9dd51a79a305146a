/* Connectionist temporal classification, a block per sequence (ops/loss/ctc.c has the recursion and the shapes). Before
 * this text: A the type to compute in, X the dtype of log_probs, INDEX the labels', TEAM the threads of a block (one:
 * there are no barriers).
 *
 *   forward   log_alpha and the loss of each sequence. A label that is no class is a fault, and counts as the blank.
 *   backward  log_beta, as log_alpha goes from the end
 *   gradient  a thread per (step, sequence, class): the probability
 *   through   a thread per (step, sequence, label): the probability, less what goes through the label's class
 *
 * lengths holds each sequence's steps, labels, and where its labels begin. */
#define LARGE 1
#include "each.h"
#include "fault.h"
#if TEAM > 1
#define SYNC() BARRIER()
#else
#define SYNC() (void)0
#endif
#if defined(__OPENCL_VERSION__) || WIDE
#define LOG1P log1p
#else
#define LOG1P log1pf
#endif
#define NEVER (-(A)INFINITY)

typedef struct sequence {
    GLOBAL const T_INDEX *labels;
    int64_t steps, states, blank, classes;
} sequence;

INLINE A log_add(A a, A b) {
    const A m = a > b ? a : b;
    return m == NEVER ? m : m + LOG1P(EXP(-FABS(a - b)));
}

INLINE int64_t label(const sequence *q, int64_t s) { /* blank, l0, blank, l1, ..., blank */
    if (s % 2 == 0) return q->blank;
    const int64_t k = q->labels[s / 2];
    return k < 0 || k >= q->classes ? q->blank : k;
}
INLINE int may_skip(const sequence *q, int64_t s) { return s % 2 == 1 && s >= 2 && label(q, s) != label(q, s - 2); }

INLINE sequence sequence_of(GLOBAL const int64_t *lengths, GLOBAL const T_INDEX *labels, int64_t n, int64_t batch,
                            int64_t blank, int64_t classes) {
    sequence q;
    q.labels = labels + lengths[2 * batch + n];
    q.steps = lengths[n];
    q.states = 2 * lengths[batch + n] + 1;
    q.blank = blank;
    q.classes = classes;
    return q;
}

INLINE A loss_of(const sequence *q, GLOBAL const A *alpha, int64_t width) {
    if (q->steps == 0) return q->states == 1 ? 0 : INFINITY;
    GLOBAL const A *last = alpha + (q->steps - 1) * width;
    return -(q->states > 1 ? log_add(last[q->states - 1], last[q->states - 2]) : last[0]);
}

#ifdef KERNEL_forward
KERNEL(entry)
(FAULT, PTR(loss), PTR(alphas), PTR(log_probs), PTR(targets), PTR(lengths), const int64_t all_steps,
 const int64_t batch, const int64_t classes, const int64_t width, const int64_t blank, const int zero_infinity) {
    const int64_t n = BLOCK;
    const sequence q = sequence_of(AT(const int64_t, lengths), AT(const T_INDEX, targets), n, batch, blank, classes);
    GLOBAL A *alpha = AT(A, alphas) + n * all_steps * width;
    for (int64_t i = THREAD; i < q.states / 2; i += TEAM)
        if (q.labels[i] < 0 || q.labels[i] >= classes) NOTE_FAULT(q.labels[i], classes);
    for (int64_t t = 0; t < all_steps; t++) {
        GLOBAL A *row = alpha + t * width;
        GLOBAL const T_X *x = AT(const T_X, log_probs) + (t * batch + n) * classes;
        for (int64_t s = THREAD; s < width; s += TEAM) {
            A a = NEVER;
            if (t < q.steps && s < q.states) {
                if (t == 0)
                    a = s < 2 ? 0 : NEVER;
                else {
                    a = row[s - width];
                    if (s >= 1) a = log_add(a, row[s - width - 1]);
                    if (may_skip(&q, s)) a = log_add(a, row[s - width - 2]);
                }
                a += GET_X(x[label(&q, s)]);
            }
            row[s] = a;
        }
        SYNC();
    }
    if (THREAD == 0) {
        const A found = loss_of(&q, alpha, width);
        AT(T_X, loss)[n] = SET_X(zero_infinity && found == INFINITY ? 0 : found);
    }
}
#endif

#ifdef KERNEL_backward
KERNEL(entry)
(PTR(betas), PTR(log_probs), PTR(targets), PTR(lengths), const int64_t all_steps, const int64_t batch,
 const int64_t classes, const int64_t width, const int64_t blank) {
    const int64_t n = BLOCK;
    const sequence q = sequence_of(AT(const int64_t, lengths), AT(const T_INDEX, targets), n, batch, blank, classes);
    GLOBAL A *beta = AT(A, betas) + n * all_steps * width;
    for (int64_t t = q.steps - 1; t >= 0; t--) {
        GLOBAL A *row = beta + t * width;
        GLOBAL const T_X *x = AT(const T_X, log_probs) + (t * batch + n) * classes;
        for (int64_t s = THREAD; s < q.states; s += TEAM) {
            A b;
            if (t == q.steps - 1)
                b = s >= q.states - 2 ? 0 : NEVER;
            else {
                b = row[s + width];
                if (s + 1 < q.states) b = log_add(b, row[s + width + 1]);
                if (s + 2 < q.states && may_skip(&q, s + 2)) b = log_add(b, row[s + width + 2]);
            }
            row[s] = b + GET_X(x[label(&q, s)]);
        }
        SYNC();
    }
}
#endif

#ifdef KERNEL_gradient
KERNEL(entry)
(PTR(out), PTR(grads), PTR(alphas), PTR(log_probs), PTR(targets), PTR(lengths), const int64_t all_steps,
 const int64_t batch, const int64_t classes, const int64_t width, const int64_t blank, const int zero_infinity) {
    EACH(i, all_steps * batch * classes) {
        const int64_t n = i / classes % batch, t = i / classes / batch;
        const sequence q =
            sequence_of(AT(const int64_t, lengths), AT(const T_INDEX, targets), n, batch, blank, classes);
        A v = 0;
        if (t < q.steps &&
            !(zero_infinity && loss_of(&q, AT(const A, alphas) + n * all_steps * width, width) == INFINITY))
            v = GET_X(AT(const T_X, grads)[n]) * EXP(GET_X(AT(const T_X, log_probs)[i]));
        AT(T_X, out)[i] = SET_X(v);
    }
}
#endif

#ifdef KERNEL_through
KERNEL(entry)
(PTR(out), PTR(grads), PTR(alphas), PTR(betas), PTR(log_probs), PTR(targets), PTR(lengths), const int64_t all_steps,
 const int64_t batch, const int64_t classes, const int64_t width, const int64_t blank, const int zero_infinity) {
    const int64_t each = width / 2 + 1; /* the blank, then a label each */
    EACH(i, all_steps * batch * each) {
        const int64_t k = i % each, n = i / each % batch, t = i / each / batch;
        const sequence q =
            sequence_of(AT(const int64_t, lengths), AT(const T_INDEX, targets), n, batch, blank, classes);
        if (t >= q.steps || k > q.states / 2) continue;
        const int64_t first = k ? 2 * k - 1 : 0, c = label(&q, first);
        int taken = k && c == blank; /* a class is its first label's */
        for (int64_t s = 1; s < first && !taken; s += 2) taken = label(&q, s) == c;
        if (taken) continue;
        GLOBAL const A *alpha = AT(const A, alphas) + n * all_steps * width,
                       *beta = AT(const A, betas) + n * all_steps * width;
        const A loss = loss_of(&q, alpha, width);
        if (zero_infinity && loss == INFINITY) continue;
        A through = NEVER;
        for (int64_t s = first; s < q.states; s++)
            if (label(&q, s) == c) through = log_add(through, alpha[t * width + s] + beta[t * width + s]);
        const int64_t at = (t * batch + n) * classes + c;
        const A lp = GET_X(AT(const T_X, log_probs)[at]);
        AT(T_X, out)[at] = SET_X((EXP(lp) - EXP(through + loss - lp)) * GET_X(AT(const T_X, grads)[n]));
    }
}
#endif
