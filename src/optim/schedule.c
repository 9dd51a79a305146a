/* Schedules. Each kind is two formulas: the next rate of a group from the one it has (so that schedules combine), and
 * the rate at an epoch; a kind without the second uses the first. Numbers are double throughout, as PyTorch's are
 * Python floats. */
#include "autograd/glue.h"
#include "tensor/given.h"
#include "optim/optimiser.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <taper/schedule.h>
#include "tensor/named_errors.h"

enum { LAST_EPOCH, STEPS, T_CUR, T_I, BEST, BAD, COOLING, NUMBERS }; /* what moves */
static const double PI = 3.14159265358979323846;

typedef struct kind kind;
struct tp_schedule {
    const kind *kind;
    tp_optimiser *o;
    uint32_t alive;          /* base/handle.h */
    tp_schedule_options opt; /* every number given; milestones are our own */
    int64_t *milestones;
    int64_t ngroups;
    double *base, *last; /* per group: the rate it began with, the rate that was set last */
    double number[NUMBERS];
    bool initial; /* in the step that making it takes */
    int64_t n;
    tp_schedule **part; /* of combined schedules */
};
typedef double (*rate_fn)(const tp_schedule *s, int64_t group, double lr);
typedef struct given { /* an option that a kind takes */
    size_t at;
    double fallback; /* NaN: it must be given */
} given;
struct kind {
    const char *name;
    rate_fn next, at;
    given options[14]; /* ends with at 0 */
};

/* The schedule is there, and the optimiser whose rates it sets. */
static bool schedule_given(const tp_schedule *s, const char *function) {
    return tpi_handle_given(s, s ? s->alive : 0, function, "schedule", "a schedule") &&
           tpi_handle_given(s->o, s->o->alive, function, "schedule", "a schedule of an optimiser");
}

static double epoch_of(const tp_schedule *s) { return s->number[LAST_EPOCH]; }

/* ---- Formulas ---- */
static double lambda_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * s->opt.lr_lambda((int64_t)epoch_of(s), s->opt.context);
}
static double multiplicative_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    return s->initial ? lr : lr * s->opt.lr_lambda((int64_t)epoch_of(s), s->opt.context);
}

static double step_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    return epoch_of(s) == 0 || fmod(epoch_of(s), s->opt.step_size) != 0 ? lr : lr * s->opt.gamma;
}
static double step_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * pow(s->opt.gamma, floor(epoch_of(s) / s->opt.step_size));
}

/* How many milestones lie at (exactly) or before the epoch. */
static double milestones_until(const tp_schedule *s, bool exactly) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->opt.milestones.n; i++) {
        const double m = (double)s->opt.milestones.v[i];
        n += exactly ? m == epoch_of(s) : m <= epoch_of(s);
    }
    return (double)n;
}
static double multi_step_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    return lr * pow(s->opt.gamma, milestones_until(s, true));
}
static double multi_step_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * pow(s->opt.gamma, milestones_until(s, false));
}

static double constant_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    return epoch_of(s) == 0 ? lr * s->opt.factor : epoch_of(s) == s->opt.total_iters ? lr * (1 / s->opt.factor) : lr;
}
static double constant_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * (epoch_of(s) >= s->opt.total_iters ? 1 : s->opt.factor);
}

static double linear_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    const double e = epoch_of(s), by = s->opt.end_factor - s->opt.start_factor;
    if (e == 0) return lr * s->opt.start_factor;
    if (s->initial || e > s->opt.total_iters) return lr;
    return lr * (1 + by / (s->opt.total_iters * s->opt.start_factor + (e - 1) * by));
}
static double linear_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * (s->opt.start_factor + (s->opt.end_factor - s->opt.start_factor) *
                                                   fmin(s->opt.total_iters, epoch_of(s)) / s->opt.total_iters);
}

static double exponential_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    return s->initial ? lr : lr * s->opt.gamma;
}
static double exponential_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * pow(s->opt.gamma, epoch_of(s));
}

static double polynomial_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    const double e = epoch_of(s), n = s->opt.total_iters;
    return s->initial || e > n ? lr : lr * pow((1 - e / n) / (1 - (e - 1) / n), s->opt.power);
}
static double polynomial_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * pow(1 - fmin(s->opt.total_iters, epoch_of(s)) / s->opt.total_iters, s->opt.power);
}

static double cosine_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->opt.eta_min + (s->base[g] - s->opt.eta_min) * (1 + cos(PI * epoch_of(s) / s->opt.T_max)) / 2;
}
static double cosine_next(const tp_schedule *s, int64_t g, double lr) {
    const double e = epoch_of(s), n = s->opt.T_max, least = s->opt.eta_min;
    if (s->initial) return lr;
    if (s->number[STEPS] == 1 && e > 0) return cosine_at(s, g, lr);
    if (fmod(e - 1 - n, 2 * n) == 0)
        return lr + (s->base[g] - least) * (1 - cos(PI / n)) / 2; /* at the bottom nothing can be read off the rate */
    return (1 + cos(PI * e / n)) / (1 + cos(PI * (e - 1) / n)) * (lr - least) + least;
}

static double restarts_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->opt.eta_min + (s->base[g] - s->opt.eta_min) * (1 + cos(PI * s->number[T_CUR] / s->number[T_I])) / 2;
}
static void restarts_move(tp_schedule *s, double epoch, bool to) {
    double *n = s->number;
    if (!to && n[LAST_EPOCH] < 0) epoch = 0, to = true;
    if (!to) {
        epoch = n[LAST_EPOCH] + 1;
        if (++n[T_CUR] >= n[T_I]) n[T_CUR] = fmod(n[T_CUR], n[T_I]), n[T_I] *= s->opt.T_mult;
    } else if (epoch < s->opt.T_0)
        n[T_I] = s->opt.T_0, n[T_CUR] = epoch;
    else if (s->opt.T_mult == 1)
        n[T_CUR] = fmod(epoch, s->opt.T_0);
    else {
        const double m = s->opt.T_mult, k = floor(log(epoch / s->opt.T_0 * (m - 1) + 1) / log(m));
        n[T_CUR] = epoch - s->opt.T_0 * (pow(m, k) - 1) / (m - 1);
        n[T_I] = s->opt.T_0 * pow(m, k);
    }
    n[LAST_EPOCH] = floor(epoch);
}

/* ---- Rates with momentum going the other way ---- */
static void set_momentum(const tp_schedule *s, int64_t g, double value) {
    const tp_optimiser_kind *k = s->o->kind;
    for (int64_t i = 0; i < k->nvalues; i++)
        if (!strcmp(k->values[i], "momentum") || !strcmp(k->values[i], "beta1")) s->o->groups[g].values[i] = value;
}
static bool has_momentum(const tp_schedule *s) {
    const tp_optimiser_kind *k = s->o->kind;
    for (int64_t i = 0; i < k->nvalues; i++)
        if (!strcmp(k->values[i], "momentum") || !strcmp(k->values[i], "beta1")) return true;
    return tpi_refuse(TP_ERR_VALUE, "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
}

static double cyclic_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    const tp_schedule_options *o = &s->opt;
    const double total = o->step_size_up + o->step_size_down, ratio = o->step_size_up / total,
                 at = 1 + epoch_of(s) / total, cycle = floor(at), x = at - cycle;
    const double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
    const double scale = !strcmp(o->mode, "exp_range")     ? pow(o->gamma, epoch_of(s))
                         : !strcmp(o->mode, "triangular2") ? pow(2, 1 - cycle)
                                                           : 1;
    if (o->cycle_momentum != 0)
        set_momentum(s, g, o->max_momentum - (o->max_momentum - o->base_momentum) * height * scale);
    return o->base_lr + (o->max_lr - o->base_lr) * height * scale;
}

static double anneal(const tp_schedule *s, double start, double end, double share) {
    return !strcmp(s->opt.anneal_strategy, "cos") ? end + (start - end) / 2 * (cos(PI * share) + 1)
                                                  : (end - start) * share + start;
}
static double one_cycle_at(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    const tp_schedule_options *o = &s->opt;
    const bool three = o->three_phase != 0;
    const double low = o->max_lr / o->div_factor, least = low / o->final_div_factor, e = epoch_of(s);
    const double ends[] = {o->pct_start * o->total_steps - 1,
                           three ? 2 * o->pct_start * o->total_steps - 2 : o->total_steps - 1, o->total_steps - 1};
    const double rates[] = {low, o->max_lr, three ? low : least, least},
                 momenta[] = {o->max_momentum, o->base_momentum, o->max_momentum, o->max_momentum};
    int phase = 0;
    while (phase < (three ? 2 : 1) && e > ends[phase]) phase++;
    const double begin = phase ? ends[phase - 1] : 0, share = (e - begin) / (ends[phase] - begin);
    if (o->cycle_momentum != 0) set_momentum(s, g, anneal(s, momenta[phase], momenta[phase + 1], share));
    return anneal(s, rates[phase], rates[phase + 1], share);
}

/* ---- The kinds ---- */
#define TAKES(member, fallback) \
    { offsetof(tp_schedule_options, member), fallback }
static const kind kinds[] = {
    {"LambdaLR", lambda_at, NULL, {{0, 0}}},
    {"MultiplicativeLR", multiplicative_next, NULL, {{0, 0}}},
    {"StepLR", step_next, step_at, {TAKES(step_size, NAN), TAKES(gamma, 0.1)}},
    {"MultiStepLR", multi_step_next, multi_step_at, {TAKES(gamma, 0.1)}},
    {"ConstantLR", constant_next, constant_at, {TAKES(factor, 1.0 / 3), TAKES(total_iters, 5)}},
    {"LinearLR", linear_next, linear_at, {TAKES(start_factor, 1.0 / 3), TAKES(end_factor, 1), TAKES(total_iters, 5)}},
    {"ExponentialLR", exponential_next, exponential_at, {TAKES(gamma, NAN)}},
    {"PolynomialLR", polynomial_next, polynomial_at, {TAKES(total_iters, 5), TAKES(power, 1)}},
    {"CosineAnnealingLR", cosine_next, cosine_at, {TAKES(T_max, NAN), TAKES(eta_min, 0)}},
    {"CosineAnnealingWarmRestarts", restarts_at, NULL, {TAKES(T_0, NAN), TAKES(T_mult, 1), TAKES(eta_min, 0)}},
    {"CyclicLR",
     cyclic_at,
     NULL,
     {TAKES(base_lr, NAN), TAKES(max_lr, NAN), TAKES(step_size_up, 2000), TAKES(step_size_down, -1), TAKES(gamma, 1),
      TAKES(cycle_momentum, 1), TAKES(base_momentum, 0.8), TAKES(max_momentum, 0.9)}},
    {"OneCycleLR",
     one_cycle_at,
     NULL,
     {TAKES(max_lr, NAN), TAKES(total_steps, NAN), TAKES(pct_start, 0.3), TAKES(cycle_momentum, 1),
      TAKES(base_momentum, 0.85), TAKES(max_momentum, 0.95), TAKES(div_factor, 25), TAKES(final_div_factor, 1e4),
      TAKES(three_phase, 0)}},
    {"ReduceLROnPlateau",
     NULL,
     NULL,
     {TAKES(factor, 0.1), TAKES(patience, 10), TAKES(threshold, 1e-4), TAKES(cooldown, 0), TAKES(min_lr, 0),
      TAKES(eps, 1e-8)}},
};
static const kind sequential = {"SequentialLR", NULL, NULL, {{0, 0}}},
                  chained = {"ChainedScheduler", NULL, NULL, {{0, 0}}};
static bool is(const tp_schedule *s, const char *name) { return !strcmp(s->kind->name, name); }

/* Fills in defaults; an option that the kind does not take is an error, as is one that is missing. */
static bool settle_options(tp_schedule *s) {
    static const struct {
        const char *name;
        size_t at;
    } all[] = {
#define NAMED(member) {#member, offsetof(tp_schedule_options, member)}
        NAMED(step_size),      NAMED(gamma),
        NAMED(factor),         NAMED(total_iters),
        NAMED(start_factor),   NAMED(end_factor),
        NAMED(power),          NAMED(T_max),
        NAMED(eta_min),        NAMED(T_0),
        NAMED(T_mult),         NAMED(base_lr),
        NAMED(max_lr),         NAMED(step_size_up),
        NAMED(step_size_down), NAMED(cycle_momentum),
        NAMED(base_momentum),  NAMED(max_momentum),
        NAMED(total_steps),    NAMED(pct_start),
        NAMED(div_factor),     NAMED(final_div_factor),
        NAMED(three_phase),    NAMED(patience),
        NAMED(threshold),      NAMED(cooldown),
        NAMED(min_lr),         NAMED(eps)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double *v = (double *)((char *)&s->opt + all[i].at);
        const given *takes = NULL;
        for (int k = 0; k < 14 && s->kind->options[k].at; k++)
            if (s->kind->options[k].at == all[i].at) takes = &s->kind->options[k];
        if (!takes && !isnan(*v)) return tpi_refuse(TP_ERR_VALUE, "it has no option '%s'", all[i].name);
        if (takes && isnan(*v) && isnan(takes->fallback))
            return tpi_refuse(TP_ERR_VALUE, "option '%s' must be given", all[i].name);
        if (takes && isnan(*v)) *v = takes->fallback;
    }
    if (isnan(s->opt.last_epoch)) s->opt.last_epoch = -1;
    return true;
}

static bool one_of(const char **text, const char *option, const char *const *words) {
    if (!*text) *text = words[0];
    for (int i = 0; words[i]; i++)
        if (!strcmp(*text, words[i])) return *text = words[i], true;
    return tpi_refuse(TP_ERR_VALUE, "option '%s' cannot be '%s'", option, *text);
}

static bool check_options(tp_schedule *s) {
    tp_schedule_options *o = &s->opt;
    if ((is(s, "LambdaLR") || is(s, "MultiplicativeLR")) && !o->lr_lambda)
        return tpi_refuse(TP_ERR_VALUE, "option 'lr_lambda' must be given");
    if (is(s, "MultiStepLR") && !o->milestones.v) return tpi_refuse(TP_ERR_VALUE, "option 'milestones' must be given");
    if (is(s, "ConstantLR") && !(o->factor >= 0 && o->factor <= 1))
        return tpi_refuse(TP_ERR_VALUE, "Constant multiplicative factor expected to be between 0 and 1.");
    if (is(s, "LinearLR") && !(o->start_factor > 0 && o->start_factor <= 1))
        return tpi_refuse(TP_ERR_VALUE,
                          "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.");
    if (is(s, "LinearLR") && !(o->end_factor >= 0 && o->end_factor <= 1))
        return tpi_refuse(TP_ERR_VALUE, "Ending multiplicative factor expected to be between 0 and 1.");
    if (is(s, "CosineAnnealingWarmRestarts") && !(o->T_0 > 0 && o->T_0 == floor(o->T_0)))
        return tpi_refuse(TP_ERR_VALUE, "Expected positive integer T_0, but got %g", o->T_0);
    if (is(s, "CosineAnnealingWarmRestarts") && !(o->T_mult >= 1 && o->T_mult == floor(o->T_mult)))
        return tpi_refuse(TP_ERR_VALUE, "Expected integer T_mult >= 1, but got %g", o->T_mult);
    if (is(s, "OneCycleLR") && !(o->total_steps > 0 && o->total_steps == floor(o->total_steps)))
        return tpi_refuse(TP_ERR_VALUE, "Expected positive integer total_steps, but got %g", o->total_steps);
    if (is(s, "OneCycleLR") && !(o->pct_start >= 0 && o->pct_start <= 1))
        return tpi_refuse(TP_ERR_VALUE, "Expected float between 0 and 1 pct_start, but got %g", o->pct_start);
    if (is(s, "ReduceLROnPlateau") && !(o->factor < 1)) return tpi_refuse(TP_ERR_VALUE, "Factor should be < 1.0.");
    if (is(s, "CyclicLR") && o->step_size_down < 0) o->step_size_down = o->step_size_up;
    if ((is(s, "CyclicLR") || is(s, "OneCycleLR")) && o->cycle_momentum != 0 && !has_momentum(s)) return false;
    if (is(s, "CyclicLR") &&
        !one_of(&o->mode, "mode", (const char *const[]){"triangular", "triangular2", "exp_range", NULL}))
        return false;
    if (is(s, "OneCycleLR") &&
        !one_of(&o->anneal_strategy, "anneal_strategy", (const char *const[]){"cos", "linear", NULL}))
        return false;
    if (!is(s, "ReduceLROnPlateau")) return true;
    return one_of(&o->mode, "mode", (const char *const[]){"min", "max", NULL}) &&
           one_of(&o->threshold_mode, "threshold_mode", (const char *const[]){"rel", "abs", NULL});
}

/* ---- Stepping ---- */
static double *lr_of(const tp_schedule *s, int64_t g) {
    const tp_optimiser_kind *k = s->o->kind;
    int64_t i = 0;
    while (strcmp(k->values[i], "lr")) i++;
    return &s->o->groups[g].values[i];
}
static void remember_rates(tp_schedule *s) {
    for (int64_t g = 0; g < s->ngroups; g++) s->last[g] = *lr_of(s, g);
}
static void set_rates(tp_schedule *s, rate_fn rate) {
    for (int64_t g = 0; g < s->ngroups; g++) {
        double *lr = lr_of(s, g);
        *lr = rate(s, g, *lr);
    }
    remember_rates(s);
}

static bool step_plain(tp_schedule *s) {
    if (is(s, "ReduceLROnPlateau"))
        return tpi_refuse(TP_ERR_VALUE, "%s is stepped by tp_schedule_report", s->kind->name);
    if (is(s, "CosineAnnealingWarmRestarts"))
        restarts_move(s, 0, false);
    else if (is(s, "OneCycleLR") && epoch_of(s) + 1 > s->opt.total_steps)
        return tpi_refuse(TP_ERR_VALUE, "Tried to step %g times. The specified number of total steps is %g",
                          epoch_of(s) + 1, s->opt.total_steps);
    else
        s->number[LAST_EPOCH]++;
    s->number[STEPS]++;
    set_rates(s, s->kind->next);
    return true;
}
static bool move_to(tp_schedule *s, double epoch) {
    if (!s->kind->next) return tpi_refuse(TP_ERR_VALUE, "%s cannot be stepped to an epoch", s->kind->name);
    if (is(s, "CosineAnnealingWarmRestarts")) {
        if (epoch < 0) return tpi_refuse(TP_ERR_VALUE, "Expected non-negative epoch, but got %g", epoch);
        restarts_move(s, epoch, true);
    } else
        s->number[LAST_EPOCH] = epoch;
    set_rates(s, s->kind->at ? s->kind->at : s->kind->next);
    return true;
}

/* SequentialLR: the schedule whose turn it is. Its first step is its rate at epoch 0. */
static bool step_sequence(tp_schedule *s) {
    const double e = ++s->number[LAST_EPOCH];
    int64_t i = 0;
    while (i < s->opt.milestones.n && (double)s->opt.milestones.v[i] <= e) i++;
    tp_schedule *now = s->part[i];
    bool ok =
        i > 0 && (double)s->opt.milestones.v[i - 1] == e && now->kind->next ? move_to(now, 0) : tp_schedule_step(now);
    if (ok) remember_rates(s);
    return ok;
}

bool tp_schedule_step(tp_schedule *s) {
    TPI_STOP_ON_ERROR(false);
    if (!schedule_given(s, __func__)) return false;
    if (s->kind == &sequential) return step_sequence(s);
    if (s->kind != &chained) return step_plain(s);
    for (int64_t i = 0; i < s->n; i++)
        if (!tp_schedule_step(s->part[i])) return false;
    remember_rates(s);
    return true;
}
bool tp_schedule_step_to(tp_schedule *s, double epoch) {
    TPI_STOP_ON_ERROR(false);
    if (!schedule_given(s, __func__) || !move_to(s, epoch)) return false;
    s->number[STEPS]++;
    return true;
}

static bool is_better(const tp_schedule *s, double a, double best) {
    const bool relative = !strcmp(s->opt.threshold_mode, "rel");
    const double by = s->opt.threshold;
    if (!strcmp(s->opt.mode, "min")) return a < (relative ? best * (1 - by) : best - by);
    return a > (relative ? best * (1 + by) : best + by);
}
bool tp_schedule_report(tp_schedule *s, double figure) {
    TPI_STOP_ON_ERROR(false);
    if (!schedule_given(s, __func__)) return false;
    if (!is(s, "ReduceLROnPlateau"))
        return tpi_refuse(TP_ERR_VALUE, "%s takes no figures: call tp_schedule_step", s->kind->name);
    double *n = s->number;
    n[LAST_EPOCH]++;
    if (is_better(s, figure, n[BEST]))
        n[BEST] = figure, n[BAD] = 0;
    else
        n[BAD]++;
    if (n[COOLING] > 0) n[COOLING]--, n[BAD] = 0;
    if (n[BAD] > s->opt.patience) {
        for (int64_t g = 0; g < s->ngroups; g++) {
            double *lr = lr_of(s, g), next = fmax(*lr * s->opt.factor, s->opt.min_lr);
            if (*lr - next > s->opt.eps) *lr = next;
        }
        n[COOLING] = s->opt.cooldown, n[BAD] = 0;
    }
    remember_rates(s);
    return true;
}

double tp_schedule_last_lr(const tp_schedule *s, int64_t group) {
    if (s && !TPI_HANDLE_GIVEN(s, "a schedule")) return NAN;
    if (s && group >= 0 && group < s->ngroups) return s->last[group];
    tpi_fail(TP_ERR_INDEX, "argument 'group': expected 0 to %lld, got %lld", s ? (long long)s->ngroups - 1 : -1LL,
             (long long)group);
    return NAN;
}
double *tp_schedule_state(tp_schedule *s, int64_t *n) {
    if (!schedule_given(s, __func__) || !TPI_GIVEN(n, "a place for the count")) return NULL;
    *n = NUMBERS;
    return s->number;
}

/* ---- Making ---- */
static bool begin(tp_schedule *s, tp_optimiser *o, tp_ints milestones) {
    s->o = o, s->ngroups = o->ngroups;
    s->base = tpi_malloc((size_t)s->ngroups * sizeof(double));
    s->last = tpi_malloc((size_t)s->ngroups * sizeof(double));
    s->milestones = tpi_malloc((size_t)(milestones.n + 1) * sizeof(int64_t));
    if (!s->base || !s->last || !s->milestones) return false;
    if (milestones.n) memcpy(s->milestones, milestones.v, (size_t)milestones.n * sizeof(int64_t));
    s->opt.milestones = (tp_ints){milestones.v ? s->milestones : NULL, milestones.n};
    remember_rates(s);
    return true;
}

/* The first step, which PyTorch takes when a schedule is made. */
static void first_step(tp_schedule *s) {
    s->initial = true, s->number[STEPS] = 0;
    step_plain(s);
    s->initial = false;
}

static bool start(tp_schedule *s) {
    const bool fresh = s->opt.last_epoch == -1;
    for (int64_t g = 0; g < s->ngroups; g++) {
        tpi_group *group = &s->o->groups[g];
        if (fresh && is(s, "CyclicLR")) *lr_of(s, g) = s->opt.base_lr;
        if (fresh && is(s, "OneCycleLR")) group->initial_lr = s->opt.max_lr / s->opt.div_factor;
        if (fresh && isnan(group->initial_lr)) group->initial_lr = *lr_of(s, g);
        if (isnan(group->initial_lr))
            return tpi_refuse(TP_ERR_VALUE, "group %lld has no initial rate yet: last_epoch is for going on",
                              (long long)g);
        s->base[g] = group->initial_lr;
    }
    s->number[LAST_EPOCH] = s->number[T_CUR] = s->opt.last_epoch, s->number[T_I] = s->opt.T_0;
    if (!is(s, "ReduceLROnPlateau")) return first_step(s), true;
    s->number[LAST_EPOCH] = 0, s->number[BEST] = strcmp(s->opt.mode, "min") ? -INFINITY : INFINITY;
    return true;
}

static tp_schedule *make(const char *name, tp_optimiser *o, const tp_schedule_options *options) {
    const kind *k = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) k = &kinds[i];
    if (!k) return tpi_fail(TP_ERR_VALUE, "no schedule is called '%s'", name);
    if (!o) return tpi_fail(TP_ERR_VALUE, "argument 'optimiser' is NULL");
    if (!tpi_handle_given(o, o->alive, "tp_schedule_new", "optimiser", "an optimiser")) return NULL;
    tp_schedule *s = tpi_new0(sizeof *s);
    if (!s) return NULL;
    s->alive = TPI_HANDLE_ALIVE;
    s->kind = k;
    s->opt = (tp_schedule_options){TP_SCHEDULE_DEFAULTS_};
    tpi_take_options(&s->opt, sizeof s->opt, options, options->size);
    if (begin(s, o, s->opt.milestones) && settle_options(s) && check_options(s) && start(s)) return s;
    tp_schedule_free(s);
    return NULL;
}
tp_schedule *tp_schedule_new(const char *kind, tp_optimiser *o, const tp_schedule_options *options) {
    if (!TPI_GIVEN(kind, "a text")) return NULL;
    const char *outer = tpi_op_enter(kind);
    tp_schedule *s = make(kind, o, options);
    tpi_op_leave(outer);
    return s;
}

static tp_schedule *combine(const kind *k, tp_optimiser *o, int64_t n, tp_schedule *const *parts, tp_ints milestones) {
    if (!TPI_LIST_GIVEN(parts, n) || !TPI_LIST_GIVEN(milestones.v, milestones.n)) return NULL;
    if (n < 1) return tpi_fail(TP_ERR_VALUE, "%s expects at least one scheduler, but got no scheduler.", k->name);
    for (int64_t i = 0; i < n; i++) {
        if (!parts[i]) return tpi_fail(TP_ERR_VALUE, "%s: schedule %lld is NULL", k->name, (long long)i);
        if (!schedule_given(parts[i], k->name)) return NULL;
        if (parts[i]->o != (o ? o : parts[0]->o))
            return tpi_fail(TP_ERR_VALUE, "%s expects all schedulers to belong to the same optimizer", k->name);
        if (is(parts[i], "ReduceLROnPlateau"))
            return tpi_fail(TP_ERR_VALUE, "%s does not support `ReduceLROnPlateau` scheduler", k->name);
    }
    tp_schedule *s = tpi_new0(sizeof *s);
    if (s) s->kind = k, s->alive = TPI_HANDLE_ALIVE;
    s = s && begin(s, parts[0]->o, milestones) && (s->part = tpi_malloc((size_t)n * sizeof *s->part))
            ? s
            : (tp_schedule_free(s), NULL);
    if (!s) return NULL;
    memcpy(s->part, parts, (size_t)n * sizeof *s->part);
    s->n = n;
    return s;
}
tp_schedule *tp_chained_scheduler(int64_t n, tp_schedule *const *schedules) {
    return tp_ok() ? combine(&chained, NULL, n, schedules, tp_no_ints()) : NULL;
}

/* Takes back the first step that each schedule took when it was made. */
static void take_back(tp_schedule *s) {
    if (!s->n) s->number[LAST_EPOCH]--;
    for (int64_t i = 0; i < s->n; i++) take_back(s->part[i]);
}
tp_schedule *tp_sequential_lr(tp_optimiser *o, int64_t n, tp_schedule *const *schedules, tp_ints milestones) {
    if (!tp_ok()) return NULL;
    if (n < 0 || (n && milestones.n != n - 1))
        return tpi_fail(TP_ERR_VALUE, "SequentialLR expects one schedule more than milestones, but got %lld and %lld",
                        (long long)n, (long long)milestones.n);
    tp_schedule *s = combine(&sequential, o, n, schedules, milestones);
    if (!s) return NULL;
    for (int64_t g = 0; g < s->ngroups; g++) *lr_of(s, g) = s->o->groups[g].initial_lr;
    for (int64_t i = 0; i < n; i++) take_back(s->part[i]);
    if (s->part[0]->n)
        tp_schedule_step(s->part[0]);
    else
        first_step(s->part[0]);
    remember_rates(s);
    return s;
}

void tp_schedule_free(tp_schedule *s) {
    if (!s || !TPI_HANDLE_GIVEN(s, "a schedule")) return;
    for (int64_t i = 0; i < s->n; i++) tp_schedule_free(s->part[i]);
    tpi_mfree(s->part);
    tpi_mfree(s->base);
    tpi_mfree(s->last);
    tpi_mfree(s->milestones);
    s->alive = 0;
    tpi_handle_delete(s, sizeof *s);
}
