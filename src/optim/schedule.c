/* Schedules: objects that set the rates of an optimiser's groups. The formulas are rates.c; here are the kinds with
 * their options, and what a step does. Numbers are double throughout, as PyTorch's are Python floats. */
#include "autograd/glue.h"
#include "tensor/check_arguments.h"
#include "optim/optimiser.h"
#include "optim/rates.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <taper/schedule.h>

enum { LAST_EPOCH, STEPS, T_CUR, T_I, BEST, BAD, COOLING, NUMBERS }; /* what moves */

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
    given options[14];                            /* ends with at 0 */
    bool (*check)(tp_schedule *s);                /* of options that are given; NULL: any will do */
    void (*begin)(tp_schedule *s, int64_t group); /* what a new schedule does to a group's rates; NULL: nothing */
    bool (*step)(tp_schedule *s);                 /* tp_schedule_step */
    bool (*advance)(tp_schedule *s);              /* to the next epoch; NULL: it has no epochs */
    bool (*move_to)(tp_schedule *s, double epoch);
    tpi_rate_formula *change; /* of a group's rate; NULL: `next` has its formula, or it has none */
    rate_fn next;
    bool by_figures; /* tp_schedule_report steps it */
};

/* The schedule is there, and the optimiser whose rates it sets. */
static bool schedule_given(const tp_schedule *s, const char *function) {
    return tpi_handle_given(s, s ? s->alive : 0, function, "schedule", "a schedule") &&
           tpi_handle_given(s->o, s->o->alive, function, "schedule", "a schedule of an optimiser");
}

static double epoch_of(const tp_schedule *s) { return s->number[LAST_EPOCH]; }

/* ---- Rates ---- */
static double lambda_next(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    return s->base[g] * s->opt.lr_lambda((int64_t)epoch_of(s), s->opt.context);
}
static double multiplicative_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    return s->initial ? lr : lr * s->opt.lr_lambda((int64_t)epoch_of(s), s->opt.context);
}

/* ---- Rates with momentum going the other way ---- */
static double *momentum_of(const tp_schedule *s, int64_t g) { return &s->o->groups[g].values[s->o->kind->momentum]; }
static bool check_momentum(const tp_schedule *s) {
    return s->opt.cycle_momentum == 0 || s->o->kind->momentum >= 0 ||
           tpi_refuse(TP_ERR_VALUE, "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
}

static double cyclic_next(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    const tp_schedule_options *o = &s->opt;
    const double total = o->step_size_up + o->step_size_down;
    double cycle;
    const double height = tp_cycle_height(epoch_of(s), total, o->step_size_up / total, &cycle);
    const double scale = tpi_cycle_scale_at(o->mode, o->gamma, cycle, epoch_of(s));
    if (o->cycle_momentum != 0)
        *momentum_of(s, g) = o->max_momentum - (o->max_momentum - o->base_momentum) * height * scale;
    return o->base_lr + (o->max_lr - o->base_lr) * height * scale;
}

static double one_cycle_next(const tp_schedule *s, int64_t g, double lr) {
    (void)lr;
    const tp_schedule_options *o = &s->opt;
    const bool three = o->three_phase != 0;
    const double low = o->max_lr / o->div_factor, least = low / o->final_div_factor;
    const double rates[] = {low, o->max_lr, three ? low : least, least},
                 momenta[] = {o->max_momentum, o->base_momentum, o->max_momentum, o->max_momentum};
    double ends[3], share;
    const int64_t n = tp_one_cycle_ends(o->total_steps, o->pct_start, three, ends);
    const int64_t phase = tp_one_cycle_phase(epoch_of(s), n, ends, &share);
    if (o->cycle_momentum != 0)
        *momentum_of(s, g) = tp_anneal(o->anneal_strategy, momenta[phase], momenta[phase + 1], share);
    return tp_anneal(o->anneal_strategy, rates[phase], rates[phase + 1], share);
}

/* How far the rate has gone after so many steps: from 0 to 1. */
static double swa_share(const tp_schedule *s, double step) {
    double share = fmax(0, fmin(1, step / fmax(1, s->opt.anneal_epochs)));
    return tpi_anneals_linearly(s->opt.anneal_strategy) ? share : 0.5 - 0.5 * cos(M_PI * share);
}
/* The rate that it began with is read off the one that the group has. */
static double swa_next(const tp_schedule *s, int64_t g, double lr) {
    (void)g;
    const double step = fmax(s->number[STEPS] - 1, s->opt.anneal_epochs > 0 ? 0 : 1);
    const double before = swa_share(s, step - 1), now = swa_share(s, step), end = s->opt.swa_lr;
    const double first = before == 1 ? end : (lr - before * end) / (1 - before);
    return end * now + first * (1 - now);
}

/* ---- Checks of options ---- */
static bool one_of(const char **text, const char *option, const char *const *words) {
    if (!*text) *text = words[0];
    for (int i = 0; words[i]; i++)
        if (!strcmp(*text, words[i])) {
            *text = words[i];
            return true;
        }
    return tpi_refuse(TP_ERR_VALUE, "option '%s' cannot be '%s'", option, *text);
}

static bool check_anneal_strategy(tp_schedule *s) {
    return one_of(&s->opt.anneal_strategy, "anneal_strategy", (const char *const[]){"cos", "linear", NULL});
}
static bool check_lambda(tp_schedule *s) {
    return s->opt.lr_lambda || tpi_refuse(TP_ERR_VALUE, "option 'lr_lambda' must be given");
}
static bool check_multi_step(tp_schedule *s) {
    return s->opt.milestones.v || tpi_refuse(TP_ERR_VALUE, "option 'milestones' must be given");
}
static bool check_constant(tp_schedule *s) {
    return (s->opt.factor >= 0 && s->opt.factor <= 1) ||
           tpi_refuse(TP_ERR_VALUE, "Constant multiplicative factor expected to be between 0 and 1.");
}
static bool check_linear(tp_schedule *s) {
    const tp_schedule_options *o = &s->opt;
    if (!(o->start_factor > 0 && o->start_factor <= 1))
        return tpi_refuse(TP_ERR_VALUE,
                          "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.");
    return (o->end_factor >= 0 && o->end_factor <= 1) ||
           tpi_refuse(TP_ERR_VALUE, "Ending multiplicative factor expected to be between 0 and 1.");
}
static bool check_restarts(tp_schedule *s) {
    const tp_schedule_options *o = &s->opt;
    if (!(o->T_0 > 0 && o->T_0 == floor(o->T_0)))
        return tpi_refuse(TP_ERR_VALUE, "Expected positive integer T_0, but got %g", o->T_0);
    return (o->T_mult >= 1 && o->T_mult == floor(o->T_mult)) ||
           tpi_refuse(TP_ERR_VALUE, "Expected integer T_mult >= 1, but got %g", o->T_mult);
}
static bool check_cyclic(tp_schedule *s) {
    tp_schedule_options *o = &s->opt;
    if (o->step_size_down < 0) o->step_size_down = o->step_size_up;
    return check_momentum(s) &&
           one_of(&o->mode, "mode", (const char *const[]){"triangular", "triangular2", "exp_range", NULL});
}
static bool check_one_cycle(tp_schedule *s) {
    const tp_schedule_options *o = &s->opt;
    if (!(o->total_steps > 0 && o->total_steps == floor(o->total_steps)))
        return tpi_refuse(TP_ERR_VALUE, "Expected positive integer total_steps, but got %g", o->total_steps);
    if (!(o->pct_start >= 0 && o->pct_start <= 1))
        return tpi_refuse(TP_ERR_VALUE, "Expected float between 0 and 1 pct_start, but got %g", o->pct_start);
    return check_momentum(s) && check_anneal_strategy(s);
}
static bool check_plateau(tp_schedule *s) {
    tp_schedule_options *o = &s->opt;
    if (!(o->factor < 1)) return tpi_refuse(TP_ERR_VALUE, "Factor should be < 1.0.");
    return one_of(&o->mode, "mode", (const char *const[]){"min", "max", NULL}) &&
           one_of(&o->threshold_mode, "threshold_mode", (const char *const[]){"rel", "abs", NULL});
}
static bool check_swa(tp_schedule *s) {
    const tp_schedule_options *o = &s->opt;
    if (!(o->anneal_epochs >= 0 && o->anneal_epochs == floor(o->anneal_epochs)))
        return tpi_refuse(TP_ERR_VALUE, "anneal_epochs must be equal or greater than 0, got %g", o->anneal_epochs);
    return check_anneal_strategy(s);
}

/* ---- Stepping ---- */
static double *lr_of(const tp_schedule *s, int64_t g) { return &s->o->groups[g].values[s->o->kind->lr]; }
static void remember_rates(tp_schedule *s) {
    for (int64_t g = 0; g < s->ngroups; g++) s->last[g] = *lr_of(s, g);
}
static bool change_at(const kind *k, const tp_schedule_options *o, const tp_schedule_place *at, tp_rate_change *made) {
    *made = k->change(o, at);
    return isfinite(made->by) ||
           tpi_refuse(TP_ERR_VALUE, "%s: its options give no finite rate at epoch %g", k->name, at->epoch);
}
static bool set_rates(tp_schedule *s, bool closed) {
    const double *n = s->number;
    tp_rate_change change;
    const tp_schedule_place at = {.size = sizeof at,
                                  .epoch = n[LAST_EPOCH],
                                  .steps = n[STEPS],
                                  .T_cur = n[T_CUR],
                                  .T_i = n[T_I],
                                  .initial = s->initial,
                                  .closed = closed};
    if (s->kind->change && !change_at(s->kind, &s->opt, &at, &change)) return false;
    for (int64_t g = 0; g < s->ngroups; g++) {
        double *lr = lr_of(s, g);
        *lr = s->kind->change ? tpi_rate_changed(&change, *lr, s->base[g]) : s->kind->next(s, g, *lr);
    }
    remember_rates(s);
    return true;
}
static bool advance(tp_schedule *s) {
    s->number[LAST_EPOCH]++;
    return true;
}
static bool move_to(tp_schedule *s, double epoch) {
    s->number[LAST_EPOCH] = epoch;
    return true;
}
static bool move_restarts(tp_schedule *s, double epoch) { /* NaN: to the next epoch */
    double *n = s->number;
    tp_schedule_place at = {.size = sizeof at, .epoch = n[LAST_EPOCH], .T_cur = n[T_CUR], .T_i = n[T_I]};
    if (!tp_restarts_move(&s->opt, &at, epoch)) return false;
    n[LAST_EPOCH] = at.epoch;
    n[T_CUR] = at.T_cur;
    n[T_I] = at.T_i;
    return true;
}
static bool advance_restarts(tp_schedule *s) { return move_restarts(s, NAN); }
static bool advance_one_cycle(tp_schedule *s) {
    if (epoch_of(s) + 1 > s->opt.total_steps)
        return tpi_refuse(TP_ERR_VALUE, "Tried to step %g times. The specified number of total steps is %g",
                          epoch_of(s) + 1, s->opt.total_steps);
    return advance(s);
}

static bool step_by_epoch(tp_schedule *s) {
    if (!s->kind->advance(s)) return false;
    s->number[STEPS]++;
    return set_rates(s, false);
}
static bool refuse_step(tp_schedule *s) {
    return tpi_refuse(TP_ERR_VALUE, "%s is stepped by tp_schedule_report", s->kind->name);
}
static bool set_epoch(tp_schedule *s, double epoch) {
    if (!s->kind->move_to) return tpi_refuse(TP_ERR_VALUE, "%s cannot be stepped to an epoch", s->kind->name);
    return s->kind->move_to(s, epoch) && set_rates(s, true);
}

/* SequentialLR: the schedule whose turn it is. Its first step is its rate at epoch 0. */
static bool step_sequence(tp_schedule *s) {
    const double e = ++s->number[LAST_EPOCH];
    int64_t i = 0;
    while (i < s->opt.milestones.n && (double)s->opt.milestones.v[i] <= e) i++;
    tp_schedule *now = s->part[i];
    bool ok = i > 0 && (double)s->opt.milestones.v[i - 1] == e && now->kind->move_to ? set_epoch(now, 0)
                                                                                     : tp_schedule_step(now);
    if (ok) remember_rates(s);
    return ok;
}

static bool step_chain(tp_schedule *s) {
    for (int64_t i = 0; i < s->n; i++)
        if (!tp_schedule_step(s->part[i])) return false;
    remember_rates(s);
    return true;
}

bool tp_schedule_step(tp_schedule *s) {
    TPI_STOP_ON_ERROR(false);
    if (!schedule_given(s, __func__)) return false;
    return s->kind->step(s);
}
bool tp_schedule_step_to(tp_schedule *s, double epoch) {
    TPI_STOP_ON_ERROR(false);
    if (!schedule_given(s, __func__) || !set_epoch(s, epoch)) return false;
    s->number[STEPS]++;
    return true;
}

bool tp_schedule_report(tp_schedule *s, double figure) {
    TPI_STOP_ON_ERROR(false);
    if (!schedule_given(s, __func__)) return false;
    if (!s->kind->by_figures)
        return tpi_refuse(TP_ERR_VALUE, "%s takes no figures: call tp_schedule_step", s->kind->name);
    double *n = s->number;
    n[LAST_EPOCH]++;
    const bool better = tp_plateau_is_better(&s->opt, figure, n[BEST]);
    if (better) n[BEST] = figure;
    const bool reduce = tp_plateau_count(&s->opt, better, &n[BAD], &n[COOLING]);
    for (int64_t g = 0; reduce && g < s->ngroups; g++) *lr_of(s, g) = tp_plateau_reduced(&s->opt, *lr_of(s, g));
    remember_rates(s);
    return true;
}

double tp_schedule_last_lr(const tp_schedule *s, int64_t group) {
    if (!TPI_HANDLE_GIVEN(s, "a schedule")) return NAN;
    if (group >= 0 && group < s->ngroups) return s->last[group];
    tpi_fail(TP_ERR_INDEX, "argument 'group': expected 0 to %lld, got %lld", (long long)s->ngroups - 1,
             (long long)group);
    return NAN;
}
double *tp_schedule_state(tp_schedule *s, int64_t *n) {
    if (!schedule_given(s, __func__) || !TPI_GIVEN(n, "a place for the count")) return NULL;
    *n = NUMBERS;
    return s->number;
}
const char *tpi_schedule_kind(const tp_schedule *s) { return s->kind->name; }
tpi_schedule_rates tpi_rates_of(tp_schedule *s) { return (tpi_schedule_rates){s->base, s->last, s->ngroups}; }

/* ---- The kinds ---- */
static void begin_cyclic(tp_schedule *s, int64_t group) { *lr_of(s, group) = s->opt.base_lr; }
static void begin_one_cycle(tp_schedule *s, int64_t group) {
    s->o->groups[group].initial_lr = s->opt.max_lr / s->opt.div_factor;
}

#define TAKES(member, fallback) \
    { offsetof(tp_schedule_options, member), fallback }
#define BY_EPOCH .step = step_by_epoch, .advance = advance, .move_to = move_to
static const kind kinds[] = {
    {"LambdaLR", {{0, 0}}, .check = check_lambda, BY_EPOCH, .next = lambda_next},
    {"MultiplicativeLR", {{0, 0}}, .check = check_lambda, BY_EPOCH, .next = multiplicative_next},
    {"StepLR", {TAKES(step_size, NAN), TAKES(gamma, 0.1)}, BY_EPOCH, .change = tpi_step_change},
    {"MultiStepLR", {TAKES(gamma, 0.1)}, .check = check_multi_step, BY_EPOCH, .change = tpi_multi_step_change},
    {"ConstantLR",
     {TAKES(factor, 1.0 / 3), TAKES(total_iters, 5)},
     .check = check_constant,
     BY_EPOCH,
     .change = tpi_constant_change},
    {"LinearLR",
     {TAKES(start_factor, 1.0 / 3), TAKES(end_factor, 1), TAKES(total_iters, 5)},
     .check = check_linear,
     BY_EPOCH,
     .change = tpi_linear_change},
    {"ExponentialLR", {TAKES(gamma, NAN)}, BY_EPOCH, .change = tpi_exponential_change},
    {"PolynomialLR", {TAKES(total_iters, 5), TAKES(power, 1)}, BY_EPOCH, .change = tpi_polynomial_change},
    {"CosineAnnealingLR", {TAKES(T_max, NAN), TAKES(eta_min, 0)}, BY_EPOCH, .change = tpi_cosine_change},
    {"CosineAnnealingWarmRestarts",
     {TAKES(T_0, NAN), TAKES(T_mult, 1), TAKES(eta_min, 0)},
     .check = check_restarts,
     .step = step_by_epoch,
     .advance = advance_restarts,
     .move_to = move_restarts,
     .change = tpi_restarts_change},
    {"CyclicLR",
     {TAKES(base_lr, NAN), TAKES(max_lr, NAN), TAKES(step_size_up, 2000), TAKES(step_size_down, -1), TAKES(gamma, 1),
      TAKES(cycle_momentum, 1), TAKES(base_momentum, 0.8), TAKES(max_momentum, 0.9)},
     .check = check_cyclic,
     .begin = begin_cyclic,
     BY_EPOCH,
     .next = cyclic_next},
    {"OneCycleLR",
     {TAKES(max_lr, NAN), TAKES(total_steps, NAN), TAKES(pct_start, 0.3), TAKES(cycle_momentum, 1),
      TAKES(base_momentum, 0.85), TAKES(max_momentum, 0.95), TAKES(div_factor, 25), TAKES(final_div_factor, 1e4),
      TAKES(three_phase, 0)},
     .check = check_one_cycle,
     .begin = begin_one_cycle,
     .step = step_by_epoch,
     .advance = advance_one_cycle,
     .move_to = move_to,
     .next = one_cycle_next},
    {"ReduceLROnPlateau",
     {TAKES(factor, 0.1), TAKES(patience, 10), TAKES(threshold, 1e-4), TAKES(cooldown, 0), TAKES(min_lr, 0),
      TAKES(eps, 1e-8)},
     .check = check_plateau,
     .step = refuse_step,
     .by_figures = true},
    {"SWALR", {TAKES(swa_lr, NAN), TAKES(anneal_epochs, 10)}, .check = check_swa, BY_EPOCH, .next = swa_next},
};
static const kind *kind_named(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}
static const kind sequential = {"SequentialLR", {{0, 0}}, .step = step_sequence},
                  chained = {"ChainedScheduler", {{0, 0}}, .step = step_chain};

bool tp_rate_change_at(const char *name, const tp_schedule_options *o, const tp_schedule_place *given,
                       tp_rate_change *change) {
    if (!TPI_GIVEN(name, "a text") || !TPI_GIVEN(o, "options") || !TPI_GIVEN(given, "a place") ||
        !TPI_GIVEN(change, "room for a change") || !tpi_sound_size(given->size, "place") ||
        !tpi_sound_size(change->size, "change"))
        return false;
    const kind *k = kind_named(name);
    if (!k || !k->change) return tpi_refuse(TP_ERR_VALUE, "no schedule with such a formula is called '%s'", name);
    tp_schedule_place at = {.size = sizeof at};
    tpi_copy_options(&at, sizeof at, given, given->size);
    tp_rate_change made;
    if (!change_at(k, o, &at, &made)) return false;
    const int64_t size = change->size;
    tpi_copy_options(change, (size_t)size, &made, made.size);
    change->size = size;
    return true;
}

/* ---- Making ---- */
/* The options that are numbers. */
static const struct {
    const char *name;
    size_t at;
} numbers[] = {
#define NAMED(member) \
    { #member, offsetof(tp_schedule_options, member) }
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
    NAMED(min_lr),         NAMED(eps),
    NAMED(swa_lr),         NAMED(anneal_epochs)};
static double *number_option(tp_schedule_options *o, size_t i) { return (double *)((char *)o + numbers[i].at); }
bool tp_schedule_option(tp_schedule_options *o, const char *name, double value) {
    if (!TPI_GIVEN(o, "options") || !TPI_GIVEN(name, "a text")) return false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].name, name)) continue;
        *number_option(o, i) = value;
        return true;
    }
    return false;
}

/* Fills in defaults; an option that the kind does not take is an error, as is one that is missing. */
static bool settle_options(tp_schedule *s) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double *v = number_option(&s->opt, i);
        const given *option = NULL;
        for (int k = 0; k < 14 && s->kind->options[k].at; k++)
            if (s->kind->options[k].at == numbers[i].at) option = &s->kind->options[k];
        if (!option && !isnan(*v)) return tpi_refuse(TP_ERR_VALUE, "it has no option '%s'", numbers[i].name);
        if (option && isnan(*v) && isnan(option->fallback))
            return tpi_refuse(TP_ERR_VALUE, "option '%s' must be given", numbers[i].name);
        if (option && isnan(*v)) *v = option->fallback;
    }
    if (isnan(s->opt.last_epoch)) s->opt.last_epoch = -1;
    return true;
}

static bool begin(tp_schedule *s, tp_optimiser *o, tp_ints milestones) {
    s->o = o;
    s->ngroups = o->ngroups;
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
static bool first_step(tp_schedule *s) {
    s->initial = true;
    s->number[STEPS] = 0;
    const bool ok = step_by_epoch(s);
    s->initial = false;
    return ok;
}

static bool start(tp_schedule *s) {
    const bool fresh = s->opt.last_epoch == -1;
    for (int64_t g = 0; g < s->ngroups; g++) {
        tpi_group *group = &s->o->groups[g];
        if (fresh && s->kind->begin) s->kind->begin(s, g);
        if (fresh && isnan(group->initial_lr)) group->initial_lr = *lr_of(s, g);
        if (isnan(group->initial_lr))
            return tpi_refuse(TP_ERR_VALUE, "group %lld has no initial rate yet: last_epoch is for going on",
                              (long long)g);
        s->base[g] = group->initial_lr;
    }
    s->number[LAST_EPOCH] = s->number[T_CUR] = s->opt.last_epoch;
    s->number[T_I] = s->opt.T_0;
    if (!s->kind->by_figures) return first_step(s);
    s->number[LAST_EPOCH] = 0;
    s->number[BEST] = tpi_plateau_worst(&s->opt);
    return true;
}

static tp_schedule *make(const char *name, tp_optimiser *o, const tp_schedule_options *options) {
    const kind *k = kind_named(name);
    if (!k) return tpi_fail(TP_ERR_VALUE, "no schedule is called '%s'", name);
    if (!o) return tpi_fail(TP_ERR_VALUE, "argument 'optimiser' is NULL");
    if (!tpi_handle_given(o, o->alive, "tp_schedule_new", "optimiser", "an optimiser")) return NULL;
    tp_schedule *s = tpi_new0(sizeof *s);
    if (!s) return NULL;
    s->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(s, "schedule");
    s->kind = k;
    s->opt = (tp_schedule_options){TP_SCHEDULE_DEFAULTS_};
    tpi_copy_options(&s->opt, sizeof s->opt, options, options->size);
    if (begin(s, o, s->opt.milestones) && settle_options(s) && (!k->check || k->check(s)) && start(s)) return s;
    tp_schedule_free(s);
    return NULL;
}
tp_schedule *tp_schedule_new(const char *kind, tp_optimiser *o, const tp_schedule_options *options) {
    if (TPI_ENDED(o, "an optimiser")) return NULL;
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
        if (parts[i]->kind->by_figures)
            return tpi_fail(TP_ERR_VALUE, "%s does not support `%s` scheduler", k->name, parts[i]->kind->name);
    }
    tp_schedule *s = tpi_new0(sizeof *s);
    if (s) {
        s->kind = k;
        s->alive = TPI_HANDLE_ALIVE;
        tpi_handle_made(s, "schedule");
    }
    if (s) s->part = tpi_malloc((size_t)n * sizeof *s->part);
    if (!s || !s->part || !begin(s, parts[0]->o, milestones)) {
        tp_schedule_free(s);
        return NULL;
    }
    memcpy(s->part, parts, (size_t)n * sizeof *s->part);
    s->n = n;
    return s;
}
tp_schedule *tp_chained_scheduler(int64_t n, tp_schedule *const *schedules) {
    return tp_ok() ? combine(&chained, NULL, n, schedules, tp_no_ints()) : NULL;
}

/* Takes back the first step that each schedule took when it was made. */
static void undo_first_step(tp_schedule *s) {
    if (!s->n) s->number[LAST_EPOCH]--;
    for (int64_t i = 0; i < s->n; i++) undo_first_step(s->part[i]);
}
tp_schedule *tp_sequential_lr(tp_optimiser *o, int64_t n, tp_schedule *const *schedules, tp_ints milestones) {
    if (TPI_ENDED(o, "an optimiser")) return NULL;
    if (!tp_ok()) return NULL;
    if (n < 0 || (n && milestones.n != n - 1))
        return tpi_fail(TP_ERR_VALUE, "SequentialLR expects one schedule more than milestones, but got %lld and %lld",
                        (long long)n, (long long)milestones.n);
    tp_schedule *s = combine(&sequential, o, n, schedules, milestones);
    if (!s) return NULL;
    for (int64_t g = 0; g < s->ngroups; g++) *lr_of(s, g) = s->o->groups[g].initial_lr;
    for (int64_t i = 0; i < n; i++) undo_first_step(s->part[i]);
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
