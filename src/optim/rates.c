/* The formulas of schedules, which C's schedules (schedule.c) and the Python module's share: numbers in, numbers out.
 *
 * Most give a change (tp_rate_change) of a group's rate: from the one it has, so that schedules combine, or by a closed
 * form from the one it began with. All is double and in the order of PyTorch's operations, so that bits agree. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <taper/schedule.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "optim/rates.h"
#include "tensor/check_arguments.h"

static const double PI = 3.14159265358979323846;
typedef const tp_schedule_options *options;
typedef const tp_schedule_place *place;

#define CHANGE(...) ((tp_rate_change){.size = sizeof(tp_rate_change), __VA_ARGS__})
static tp_rate_change keep(void) { return CHANGE(.keep = true); }
static tp_rate_change times(double by, bool from_base) { return CHANGE(.by = by, .from_base = from_base); }

/* ---- Changes ---- */
/* Python's a // b. */
static double floor_of_division(double a, double b) {
    const double rest = fmod(a, b);
    return floor((a - rest) / b + 0.5) - (rest * b < 0);
}
tp_rate_change tpi_step_change(options o, place p) {
    if (p->closed) return times(pow(o->gamma, floor_of_division(p->epoch, o->step_size)), true);
    const double rest = fmod(p->epoch, o->step_size);
    if (isnan(rest)) return times(rest, false);
    return p->epoch == 0 || rest != 0 ? keep() : times(o->gamma, false);
}

/* How many milestones lie at (exactly) or before the epoch. */
static double milestones_until(options o, double epoch, bool exactly) {
    int64_t n = 0;
    for (int64_t i = 0; i < o->milestones.n; i++) {
        const double m = (double)o->milestones.v[i];
        n += exactly ? m == epoch : m <= epoch;
    }
    return (double)n;
}
tp_rate_change tpi_multi_step_change(options o, place p) {
    const double n = milestones_until(o, p->epoch, !p->closed);
    return !p->closed && n == 0 ? keep() : times(pow(o->gamma, n), p->closed);
}

tp_rate_change tpi_constant_change(options o, place p) {
    if (p->closed) return times(p->epoch >= o->total_iters ? o->factor + (1 - o->factor) : o->factor, true);
    if (p->epoch == 0) return times(o->factor, false);
    return p->epoch == o->total_iters ? times(1 / o->factor, false) : keep();
}

tp_rate_change tpi_linear_change(options o, place p) {
    const double by = o->end_factor - o->start_factor;
    if (p->closed) return times(o->start_factor + by * fmin(o->total_iters, p->epoch) / o->total_iters, true);
    if (p->epoch == 0) return times(o->start_factor, false);
    if (p->initial || p->epoch > o->total_iters) return keep();
    return times(1 + by / (o->total_iters * o->start_factor + (p->epoch - 1) * by), false);
}

tp_rate_change tpi_exponential_change(options o, place p) {
    if (p->closed) return times(pow(o->gamma, p->epoch), true);
    return p->initial ? keep() : times(o->gamma, false);
}

tp_rate_change tpi_polynomial_change(options o, place p) {
    const double n = o->total_iters;
    if (p->closed) return times(pow(1 - fmin(n, p->epoch) / n, o->power), true);
    if (p->initial || p->epoch > n) return keep();
    return times(pow((1 - p->epoch / n) / (1 - (p->epoch - 1) / n), o->power), false);
}

tp_rate_change tpi_cosine_change(options o, place p) {
    const double e = p->epoch, n = o->T_max;
    if (!p->closed && p->initial) return keep();
    if (p->closed || (p->steps == 1 && e > 0))
        return CHANGE(.from_base = true, .low = o->eta_min, .by = (1 + cos(PI * e / n)) / 2);
    if (fmod(e - 1 - n, 2 * n) == 0) /* at the bottom nothing can be read off the rate */
        return CHANGE(.rise = true, .low = o->eta_min, .by = (1 - cos(PI / n)) / 2);
    return CHANGE(.low = o->eta_min, .by = (1 + cos(PI * e / n)) / (1 + cos(PI * (e - 1) / n)));
}

tp_rate_change tpi_restarts_change(options o, place p) {
    return CHANGE(.from_base = true, .low = o->eta_min, .by = (1 + cos(PI * p->T_cur / p->T_i)) / 2);
}

double tpi_rate_changed(const tp_rate_change *c, double lr, double base) {
    if (c->keep) return lr;
    if (c->rise) return lr + (base - c->low) * c->by;
    return c->low + ((c->from_base ? base : lr) - c->low) * c->by;
}

/* ---- Cosines that begin anew ---- */
bool tp_restarts_move(const tp_schedule_options *o, tp_schedule_place *p, double epoch) {
    if (!TPI_GIVEN(o, "options") || !TPI_GIVEN(p, "a place")) return false;
    if (epoch < 0) return tpi_refuse(TP_ERR_VALUE, "Expected non-negative epoch, but got %g", epoch);
    if (isnan(epoch) && p->epoch < 0) epoch = 0;
    if (isnan(epoch)) {
        epoch = p->epoch + 1;
        p->T_cur++;
        if (p->T_cur >= p->T_i) {
            p->T_cur = fmod(p->T_cur, p->T_i);
            p->T_i *= o->T_mult;
        }
    } else if (epoch < o->T_0) {
        p->T_i = o->T_0;
        p->T_cur = epoch;
    } else if (o->T_mult == 1) {
        p->T_cur = fmod(epoch, o->T_0);
    } else {
        const double m = o->T_mult, k = floor(log(epoch / o->T_0 * (m - 1) + 1) / log(m));
        p->T_cur = epoch - o->T_0 * (pow(m, k) - 1) / (m - 1);
        p->T_i = o->T_0 * pow(m, k);
    }
    p->epoch = floor(epoch);
    return true;
}

/* ---- Cycles ---- */
double tp_cycle_height(double epoch, double total_size, double step_ratio, double *cycle) {
    const double at = 1 + epoch / total_size, whole = floor(at), x = at - whole;
    if (cycle) *cycle = whole;
    return x <= step_ratio ? x / step_ratio : (x - 1) / (step_ratio - 1);
}
double tpi_cycle_scale_at(const char *mode, double gamma, double cycle, double epoch) {
    if (mode && !strcmp(mode, "exp_range")) return pow(gamma, epoch);
    return mode && !strcmp(mode, "triangular2") ? 1 / pow(2, cycle - 1) : 1;
}
double tp_cycle_scale(const char *mode, double gamma, double x) { return tpi_cycle_scale_at(mode, gamma, x, x); }

int64_t tp_one_cycle_ends(double total_steps, double pct_start, bool three_phase, double *ends) {
    if (!TPI_GIVEN(ends, "an array of 3 ends")) return 0;
    int64_t n = 0;
    ends[n++] = pct_start * total_steps - 1;
    if (three_phase) ends[n++] = 2 * pct_start * total_steps - 2;
    ends[n++] = total_steps - 1;
    return n;
}
int64_t tp_one_cycle_phase(double epoch, int64_t n, const double *ends, double *share) {
    if (!TPI_GIVEN(ends, "the ends of the phases") || !TPI_GIVEN(share, "a place for the share")) return -1;
    if (n < 1) {
        tpi_fail(TP_ERR_VALUE, "tp_one_cycle_phase: argument 'n': expected 1 or more phases, got %lld", (long long)n);
        return -1;
    }
    int64_t phase = 0;
    while (phase < n - 1 && epoch > ends[phase]) phase++;
    const double begin = phase ? ends[phase - 1] : 0;
    *share = (epoch - begin) / (ends[phase] - begin);
    return phase;
}
bool tpi_anneals_linearly(const char *strategy) { return strategy && !strcmp(strategy, "linear"); }
double tp_anneal(const char *strategy, double start, double end, double share) {
    if (tpi_anneals_linearly(strategy)) return (end - start) * share + start;
    return end + (start - end) / 2 * (cos(PI * share) + 1);
}

/* ---- Plateaus ---- */
static bool least_is_best(options o) { return !o->mode || !strcmp(o->mode, "min"); }
double tpi_plateau_worst(options o) { return least_is_best(o) ? INFINITY : -INFINITY; }
bool tp_plateau_is_better(const tp_schedule_options *o, double figure, double best) {
    if (!TPI_GIVEN(o, "options")) return false;
    const bool relative = !o->threshold_mode || !strcmp(o->threshold_mode, "rel");
    if (least_is_best(o)) return figure < (relative ? best * (1 - o->threshold) : best - o->threshold);
    return figure > (relative ? best * (o->threshold + 1) : best + o->threshold);
}
bool tp_plateau_count(const tp_schedule_options *o, bool better, double *bad, double *cooling) {
    if (!TPI_GIVEN(o, "options") || !TPI_GIVEN(bad, "a count") || !TPI_GIVEN(cooling, "a count")) return false;
    *bad = better || *cooling > 0 ? 0 : *bad + 1;
    if (*cooling > 0) --*cooling;
    if (*bad <= o->patience) return false;
    *bad = 0;
    *cooling = o->cooldown;
    return true;
}
double tp_plateau_reduced(const tp_schedule_options *o, double lr) {
    if (!TPI_GIVEN(o, "options")) return lr;
    const double next = fmax(lr * o->factor, o->min_lr);
    return lr - next > o->eps ? next : lr;
}
