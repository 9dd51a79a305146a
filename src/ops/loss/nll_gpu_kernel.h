/* The negative log likelihood of a class per position: scores are (outer, classes, inner), positions (outer, inner).
 * Before this text: A the type to compute in, X the scores' dtype, W the weights', INDEX the classes' (WEIGHT: there
 * are weights). A class that is none is a fault, and gives NaN.
 *
 *   forward   each position's loss and weight into parts; NONE: the losses into the result
 *   finish    the result and the total weight from the parts' sums; MEAN: the loss over the weights
 *   block     both in one block, whose threads (GROUP of group.h) have a few positions each
 *   backward  -weight * scale at each position's class; the rest is zero already */
#include "each.h"
#include "fault.h"
#if WEIGHT
#define WEIGHT_OF(k) GET_W(AT(const T_W, weight)[k])
#else
#define WEIGHT_OF(k) 1
#endif
#define PLACE(p, k) (((int64_t)((p) / inner) * classes + (k)) * inner + (p) % inner)

/* Position p's loss and weight. */
#define POSITION(p)                                                        \
    const int64_t k = AT(const T_INDEX, target)[p];                        \
    const int skip = k == ignore, none = !skip && (k < 0 || k >= classes); \
    A w = 0, loss = 0;                                                     \
    if (none) NOTE_FAULT(k, classes);                                      \
    if (none)                                                              \
        w = loss = NAN;                                                    \
    else if (!skip)                                                        \
        w = WEIGHT_OF(k), loss = -w * GET_X(AT(const T_X, in)[PLACE(p, k)]);

#ifdef KERNEL_forward
KERNEL(entry)
(FAULT, PTR(out), PTR(parts), PTR(in), PTR(target), PTR(weight), const int64_t n, const index_t inner,
 const int64_t classes, const int64_t ignore) {
    EACH(p, n) {
        POSITION(p) {
            AT(A, parts)[p] = loss;
            AT(A, parts)[n + p] = w;
        }
#if NONE
        AT(T_X, out)[p] = SET_X(loss);
#endif
    }
}
#endif

#ifdef KERNEL_finish
KERNEL(entry)
(PTR(out), PTR(total), PTR(sums)) {
    const A loss = AT(const A, sums)[0], weights = AT(const A, sums)[1];
#if !NONE
    AT(T_X, out)[0] = SET_X(MEAN ? loss / weights : loss);
#endif
    AT(T_X, total)[0] = SET_X(weights);
}
#endif

#ifdef KERNEL_block
#include "group.h"
GROUP_SUMS(sums_of, A)
KERNEL(entry)
(FAULT, PTR(out), PTR(total), PTR(in), PTR(target), PTR(weight), const int64_t n, const index_t inner,
 const int64_t classes, const int64_t ignore) {
    SHARED A room[2 * GROUP_ROOM];
    A losses = 0, weights = 0;
    EACH(p, n) {
        POSITION(p) {
            losses += loss;
            weights += w;
        }
    }
    sums_of(&losses, &weights, room);
    if (THREAD == 0) {
        AT(T_X, out)[0] = SET_X(MEAN ? losses / weights : losses);
        AT(T_X, total)[0] = SET_X(weights);
    }
}
#endif

#ifdef KERNEL_backward
KERNEL(entry)
(PTR(out), PTR(grad), PTR(target), PTR(weight), PTR(total), const int64_t n, const index_t inner, const int64_t classes,
 const int64_t ignore) {
    EACH(p, n) {
        const int64_t k = AT(const T_INDEX, target)[p];
        if (k == ignore || k < 0 || k >= classes) continue;
        A g = GET_X(AT(const T_X, grad)[NONE ? p : 0]);
#if MEAN
        g /= GET_X(AT(const T_X, total)[0]);
#endif
        AT(T_X, out)[PLACE(p, k)] = SET_X(-WEIGHT_OF(k) * g);
    }
}
#endif
