/* The line search of L-BFGS. First the step grows until the minimum is bracketed, then the bracket shrinks around it,
 * each time by the minimum of the cubic through two points and their slopes, until a point meets the strong Wolfe
 * conditions: the loss fell enough (by ENOUGH of what the slope at the start promises), and the slope became flat
 * enough (FLAT of it). */
#include "optim/lbfgs.h"
#include <math.h>

static const double ENOUGH = 1e-4, FLAT = 0.9, LEAST_CHANGE = 1e-9;
enum { MOST_STEPS = 25 };

static double within(double x, double low, double high) { return fmin(fmax(x, low), high); }

/* Where the cubic through both points has its minimum, between the bounds; their middle if it has none. */
static double cubic_minimum(const tpi_point *a, const tpi_point *b, double low, double high) {
    const double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t),
                 square = d1 * d1 - a->slope * b->slope;
    if (!(square >= 0)) return (low + high) / 2;
    const double d2 = sqrt(square);
    if (a->t <= b->t)
        return within(b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2)), low, high);
    return within(a->t - (a->t - b->t) * ((a->slope + d2 - d1) / (a->slope - b->slope + 2 * d2)), low, high);
}

typedef struct bracket {
    tpi_point end[2];
    int low;   /* the end with the smaller loss */
    bool done; /* that end meets the conditions */
    int steps;
} bracket;

static void set_point(tpi_point *to, const tpi_point *from) { /* takes a reference of its own */
    tpi_retain(from->grad);
    tpi_release(to->grad);
    *to = *from;
}
static void set_ends(bracket *b, const tpi_point *one, const tpi_point *two) {
    set_point(&b->end[0], one);
    set_point(&b->end[1], two);
    b->low = one->loss <= two->loss ? 0 : 1;
}
static bool too_high(const tpi_point *from, const tpi_point *x) {
    return x->loss > from->loss + ENOUGH * x->t * from->slope;
}
static bool is_flat(const tpi_point *from, const tpi_point *x) { return fabs(x->slope) <= -FLAT * from->slope; }

/* Steps grow until two points have the minimum between them, or one is good enough. now: the first point; owned by the
 * caller, as is before. */
static bool grow(tpi_problem *p, tp_tensor *direction, const tpi_point *from, tpi_point *now, tpi_point *before,
                 bracket *b) {
    for (;; b->steps++) {
        if (b->steps == MOST_STEPS) {
            set_ends(b, from, now);
            return true;
        }
        if (too_high(from, now) || (b->steps > 1 && now->loss >= before->loss)) {
            set_ends(b, before, now);
            return true;
        }
        if (is_flat(from, now)) {
            set_ends(b, now, now);
            return b->done = true;
        }
        if (now->slope >= 0) {
            set_ends(b, before, now);
            return true;
        }
        const double next = cubic_minimum(before, now, now->t + 0.01 * (now->t - before->t), now->t * 10);
        set_point(before, now);
        if (!tpi_evaluate_at(p, direction, next, now)) return false;
    }
}

/* The next place to look: not too near to an end twice in a row. */
static double inside(const bracket *b, bool *stuck) {
    const tpi_point *one = &b->end[0], *two = &b->end[1];
    const double low = fmin(one->t, two->t), high = fmax(one->t, two->t), margin = 0.1 * (high - low);
    double t = cubic_minimum(one, two, low, high);
    if (!(fmin(high - t, t - low) < margin)) {
        *stuck = false;
        return t;
    }
    if (!*stuck && t < high && t > low) {
        *stuck = true;
        return t;
    }
    *stuck = false;
    return fabs(t - high) < fabs(t - low) ? high - margin : low + margin;
}

static bool shrink(tpi_problem *p, tp_tensor *direction, const tpi_point *from, tpi_point *now, bracket *b) {
    const double longest = tpi_vector_max(direction);
    bool stuck = false;
    for (; !b->done && b->steps < MOST_STEPS; b->steps++) {
        if (fabs(b->end[1].t - b->end[0].t) * longest < LEAST_CHANGE) break;
        if (!tpi_evaluate_at(p, direction, inside(b, &stuck), now)) return false;
        tpi_point *low = &b->end[b->low], *high = &b->end[1 - b->low];
        if (too_high(from, now) || now->loss >= low->loss) {
            set_point(high, now);
            b->low = b->end[0].loss <= b->end[1].loss ? 0 : 1;
            continue;
        }
        if (is_flat(from, now))
            b->done = true;
        else if (now->slope * (high->t - low->t) >= 0)
            set_point(high, low);
        set_point(low, now);
    }
    return true;
}

bool tpi_strong_wolfe(tpi_problem *p, tp_tensor *direction, const tpi_point *from, double t, tpi_point *found) {
    tpi_point now = {0}, before = {0};
    bracket b = {0};
    set_point(&before, from);
    bool ok = tpi_evaluate_at(p, direction, t, &now) && grow(p, direction, from, &now, &before, &b) &&
              shrink(p, direction, from, &now, &b) && tp_ok();
    if (ok) {
        *found = b.end[b.low];
        tpi_retain(found->grad);
    }
    tpi_release(now.grad);
    tpi_release(before.grad);
    tpi_release(b.end[0].grad);
    tpi_release(b.end[1].grad);
    return ok;
}
