/* Schedules: learning rates that follow a plan, stepped once per epoch (or step) after the optimiser.
 *
 *     tp_schedule *schedule = tp_step_lr(adam, .step_size = 30, .gamma = 0.1);
 *     for (int epoch = 0; epoch < epochs; epoch++) { train(); tp_schedule_step(schedule); }
 *     tp_schedule_free(schedule);
 *
 * Names, defaults and numbers are PyTorch's. The optimiser must outlive its schedules. */
#ifndef TAPER_SCHEDULE_H
#define TAPER_SCHEDULE_H
#include <taper/ops_options.h>
#include <taper/optim.h>

TP_BEGIN

typedef struct tp_schedule tp_schedule;

/* Options of all schedules; each takes those that its comment below names, and others are an error. NaN (NULL): the
 * default. */
typedef struct tp_schedule_options {
    TP_STRUCT_SIZE(tp_schedule_options);
    double last_epoch TP_MEMBER(
        TP_NO_FLOAT); /* -1: a new training; otherwise goes on after that epoch with the rates that the groups have */
    double step_size TP_MEMBER(TP_NO_FLOAT), gamma TP_MEMBER(TP_NO_FLOAT), factor TP_MEMBER(TP_NO_FLOAT),
        total_iters TP_MEMBER(TP_NO_FLOAT);
    double start_factor TP_MEMBER(TP_NO_FLOAT), end_factor TP_MEMBER(TP_NO_FLOAT), power TP_MEMBER(TP_NO_FLOAT);
    double T_max TP_MEMBER(TP_NO_FLOAT), eta_min TP_MEMBER(TP_NO_FLOAT), T_0 TP_MEMBER(TP_NO_FLOAT),
        T_mult TP_MEMBER(TP_NO_FLOAT);
    double base_lr TP_MEMBER(TP_NO_FLOAT), max_lr TP_MEMBER(TP_NO_FLOAT), step_size_up TP_MEMBER(TP_NO_FLOAT),
        step_size_down TP_MEMBER(TP_NO_FLOAT);
    double cycle_momentum TP_MEMBER(TP_NO_FLOAT), base_momentum TP_MEMBER(TP_NO_FLOAT),
        max_momentum TP_MEMBER(TP_NO_FLOAT);
    double total_steps TP_MEMBER(TP_NO_FLOAT), pct_start TP_MEMBER(TP_NO_FLOAT), div_factor TP_MEMBER(TP_NO_FLOAT),
        final_div_factor TP_MEMBER(TP_NO_FLOAT);
    double three_phase TP_MEMBER(TP_NO_FLOAT);
    double patience TP_MEMBER(TP_NO_FLOAT), threshold TP_MEMBER(TP_NO_FLOAT), cooldown TP_MEMBER(TP_NO_FLOAT),
        min_lr TP_MEMBER(TP_NO_FLOAT), eps TP_MEMBER(TP_NO_FLOAT);
    const char *mode TP_MEMBER(NULL), *anneal_strategy TP_MEMBER(NULL), *threshold_mode TP_MEMBER(NULL);
    tp_ints milestones TP_MEMBER(TP_NO_INTS_INIT);
    double (*lr_lambda)(int64_t epoch, void *context) TP_MEMBER(NULL);
    void *context TP_MEMBER(NULL);
    double swa_lr TP_MEMBER(TP_NO_FLOAT), anneal_epochs TP_MEMBER(TP_NO_FLOAT);
    TP_OPTIONS_GUARD_
} tp_schedule_options;
TP_API tp_schedule *tp_schedule_new(const char *kind, tp_optimiser *optimiser, const tp_schedule_options *options);

#ifdef __cplusplus
TP_END
#define TP_SCHEDULE_DEFINE_(function, kind)                                                                            \
    static inline tp_schedule *function(tp_optimiser *o, const tp_schedule_options &options = tp_schedule_options()) { \
        return tp_schedule_new(kind, o, &options);                                                                     \
    }
TP_SCHEDULE_DEFINE_(tp_lambda_lr, "LambdaLR")
TP_SCHEDULE_DEFINE_(tp_multiplicative_lr, "MultiplicativeLR")
TP_SCHEDULE_DEFINE_(tp_step_lr, "StepLR")
TP_SCHEDULE_DEFINE_(tp_multi_step_lr, "MultiStepLR")
TP_SCHEDULE_DEFINE_(tp_constant_lr, "ConstantLR")
TP_SCHEDULE_DEFINE_(tp_linear_lr, "LinearLR")
TP_SCHEDULE_DEFINE_(tp_exponential_lr, "ExponentialLR")
TP_SCHEDULE_DEFINE_(tp_polynomial_lr, "PolynomialLR")
TP_SCHEDULE_DEFINE_(tp_cosine_annealing_lr, "CosineAnnealingLR")
TP_SCHEDULE_DEFINE_(tp_cosine_annealing_warm_restarts, "CosineAnnealingWarmRestarts")
TP_SCHEDULE_DEFINE_(tp_cyclic_lr, "CyclicLR")
TP_SCHEDULE_DEFINE_(tp_one_cycle_lr, "OneCycleLR")
TP_SCHEDULE_DEFINE_(tp_reduce_lr_on_plateau, "ReduceLROnPlateau")
TP_SCHEDULE_DEFINE_(tp_swa_lr, "SWALR")
TP_BEGIN
#else
#define TP_SCHEDULE_DEFAULTS_                                                                                          \
    .size = (int64_t)sizeof(tp_schedule_options), .last_epoch = TP_NO_FLOAT, .step_size = TP_NO_FLOAT,                 \
    .gamma = TP_NO_FLOAT, .factor = TP_NO_FLOAT, .total_iters = TP_NO_FLOAT, .start_factor = TP_NO_FLOAT,              \
    .end_factor = TP_NO_FLOAT, .power = TP_NO_FLOAT, .T_max = TP_NO_FLOAT, .eta_min = TP_NO_FLOAT, .T_0 = TP_NO_FLOAT, \
    .T_mult = TP_NO_FLOAT, .base_lr = TP_NO_FLOAT, .max_lr = TP_NO_FLOAT, .step_size_up = TP_NO_FLOAT,                 \
    .step_size_down = TP_NO_FLOAT, .cycle_momentum = TP_NO_FLOAT, .base_momentum = TP_NO_FLOAT,                        \
    .max_momentum = TP_NO_FLOAT, .total_steps = TP_NO_FLOAT, .pct_start = TP_NO_FLOAT, .div_factor = TP_NO_FLOAT,      \
    .final_div_factor = TP_NO_FLOAT, .three_phase = TP_NO_FLOAT, .patience = TP_NO_FLOAT, .threshold = TP_NO_FLOAT,    \
    .cooldown = TP_NO_FLOAT, .min_lr = TP_NO_FLOAT, .eps = TP_NO_FLOAT, .context = NULL, .swa_lr = TP_NO_FLOAT,        \
    .anneal_epochs = TP_NO_FLOAT
#define TP_SCHEDULE_(kind, optimiser, ...) \
    TP_WITH_(tp_schedule_options, tp_schedule_new(kind, optimiser, &tp_o_), TP_SCHEDULE_DEFAULTS_, __VA_ARGS__)
#define tp_lambda_lr(...)         TP_SCHEDULE_("LambdaLR", __VA_ARGS__, )         /* lr_lambda, context */
#define tp_multiplicative_lr(...) TP_SCHEDULE_("MultiplicativeLR", __VA_ARGS__, ) /* lr_lambda, context */
#define tp_step_lr(...)           TP_SCHEDULE_("StepLR", __VA_ARGS__, )           /* step_size; gamma = 0.1 */
#define tp_multi_step_lr(...)     TP_SCHEDULE_("MultiStepLR", __VA_ARGS__, )      /* milestones; gamma = 0.1 */
#define tp_constant_lr(...)       TP_SCHEDULE_("ConstantLR", __VA_ARGS__, )       /* factor = 1/3, total_iters = 5 */
#define tp_linear_lr(...) \
    TP_SCHEDULE_("LinearLR", __VA_ARGS__, ) /* start_factor = 1/3, end_factor = 1, total_iters = 5 */
#define tp_exponential_lr(...)      TP_SCHEDULE_("ExponentialLR", __VA_ARGS__, )     /* gamma */
#define tp_polynomial_lr(...)       TP_SCHEDULE_("PolynomialLR", __VA_ARGS__, )      /* total_iters = 5, power = 1 */
#define tp_cosine_annealing_lr(...) TP_SCHEDULE_("CosineAnnealingLR", __VA_ARGS__, ) /* T_max; eta_min = 0 */
#define tp_cosine_annealing_warm_restarts(...) \
    TP_SCHEDULE_("CosineAnnealingWarmRestarts", __VA_ARGS__, ) /* T_0; T_mult = 1, eta_min = 0 */
/* base_lr, max_lr; step_size_up = 2000, step_size_down as up, mode = "triangular" ("triangular2", "exp_range"), gamma =
 * 1, cycle_momentum = 1, base_momentum = 0.8, max_momentum = 0.9 */
#define tp_cyclic_lr(...)            TP_SCHEDULE_("CyclicLR", __VA_ARGS__, )
/* max_lr, total_steps; pct_start = 0.3, anneal_strategy = "cos" ("linear"), cycle_momentum = 1, base_momentum = 0.85,
 * max_momentum = 0.95, div_factor = 25, final_div_factor = 1e4, three_phase = 0 */
#define tp_one_cycle_lr(...)         TP_SCHEDULE_("OneCycleLR", __VA_ARGS__, )
/* mode = "min" ("max"), factor = 0.1, patience = 10, threshold = 1e-4, threshold_mode = "rel" ("abs"), cooldown = 0,
 * min_lr = 0, eps = 1e-8 */
#define tp_reduce_lr_on_plateau(...) TP_SCHEDULE_("ReduceLROnPlateau", __VA_ARGS__, )
/* From the rate that a group has to swa_lr in anneal_epochs = 10 steps, then constant; anneal_strategy = "cos"
 * ("linear"). For averages of weights (average.h). */
#define tp_swa_lr(...)               TP_SCHEDULE_("SWALR", __VA_ARGS__, )
#endif

/* One after the other, from one milestone to the next (one fewer than schedules); all of them in each step. They take
 * the schedules over. */
TP_API tp_schedule *tp_sequential_lr(tp_optimiser *optimiser, int64_t n, tp_schedule *const *schedules,
                                     tp_ints milestones);
TP_API tp_schedule *tp_chained_scheduler(int64_t n, tp_schedule *const *schedules);
TP_API void tp_schedule_free(tp_schedule *schedule); /* NULL is fine */

TP_API bool tp_schedule_step(tp_schedule *schedule); /* the next epoch's rates */
TP_API bool tp_schedule_step_to(tp_schedule *schedule,
                                double epoch); /* a given epoch's, by the closed form where there is one */
TP_API bool tp_schedule_report(tp_schedule *schedule, double figure); /* ReduceLROnPlateau: the epoch's figure */
TP_API double tp_schedule_last_lr(const tp_schedule *schedule,
                                  int64_t group); /* what it set last; NaN and an error if there is no such group */

/* What a checkpoint keeps: the numbers that move, to be read or written. Those of combined schedules are their parts'
 * own. */
TP_API double *tp_schedule_state(tp_schedule *schedule, int64_t *n);

/* ---- The formulas alone ----
 * For programs that keep groups, rates and counts of their own, as the Python module does. What a formula gives does
 * not depend on the group, so that a rate may be anything that can be added and multiplied. */
typedef struct tp_schedule_place { /* where a schedule is */
    TP_STRUCT_SIZE(tp_schedule_place);
    double epoch TP_MEMBER(0);     /* the one whose rate is asked for */
    double steps TP_MEMBER(0);     /* taken so far, this one too */
    double T_cur TP_MEMBER(0);     /* CosineAnnealingWarmRestarts: the place in the cosine that runs */
    double T_i TP_MEMBER(0);       /* and that cosine's length */
    bool initial TP_MEMBER(false); /* the step that is taken when a schedule is made */
    bool closed TP_MEMBER(false);  /* the epoch's rate, whatever the group has now; if the kind has such a form */
    TP_OPTIONS_GUARD_
} tp_schedule_place;
typedef struct tp_rate_change { /* what becomes of a group's rate x: low + (x - low) * by */
    TP_STRUCT_SIZE(tp_rate_change);
    bool keep TP_MEMBER(false);      /* it stays */
    bool from_base TP_MEMBER(false); /* x is the rate that the group began with */
    bool rise TP_MEMBER(false);      /* instead: x + (base - low) * by */
    double by TP_MEMBER(0), low TP_MEMBER(0);
    TP_OPTIONS_GUARD_
} tp_rate_change;
/* Sets one of the options that are numbers; false, without an error: there is none of that name. */
TP_API bool tp_schedule_option(tp_schedule_options *options, const char *name, double value);
/* StepLR, MultiStepLR, ConstantLR, LinearLR, ExponentialLR, PolynomialLR, CosineAnnealingLR and
 * CosineAnnealingWarmRestarts. False, with an error, if there is no finite rate, as for a step_size of 0. */
TP_API bool tp_rate_change_at(const char *kind, const tp_schedule_options *options, const tp_schedule_place *place,
                              tp_rate_change *change);
/* CosineAnnealingWarmRestarts: on to the next epoch (NaN), or to the given one, from place->epoch, T_cur and T_i. */
TP_API bool tp_restarts_move(const tp_schedule_options *options, tp_schedule_place *place, double epoch);
/* CyclicLR: how far up the cycle an epoch is, 0 to 1, and which cycle it is, from 1; and by how much a mode shrinks
 * it: for "exp_range" x is the epoch, otherwise the cycle. */
TP_API double tp_cycle_height(double epoch, double total_size, double step_ratio, double *cycle);
TP_API double tp_cycle_scale(const char *mode, double gamma, double x);
/* OneCycleLR: the last epochs of its phases (their number is the result; `ends` has 3 places); the phase of an epoch,
 * and the share of it that has passed; and what lies between start and end at that share, by "cos" or "linear". */
TP_API int64_t tp_one_cycle_ends(double total_steps, double pct_start, bool three_phase, double *ends);
TP_API int64_t tp_one_cycle_phase(double epoch, int64_t n, const double *ends, double *share);
TP_API double tp_anneal(const char *strategy, double start, double end, double share);
/* ReduceLROnPlateau: is a figure better than the best one; one more epoch counted (true: it is time to reduce); and the
 * rate after a reduction, which may be the same. Of the options mode, threshold, threshold_mode; patience, cooldown;
 * factor, min_lr, eps. */
TP_API bool tp_plateau_is_better(const tp_schedule_options *options, double figure, double best);
TP_API bool tp_plateau_count(const tp_schedule_options *options, bool better, double *bad, double *cooling);
TP_API double tp_plateau_reduced(const tp_schedule_options *options, double lr);

TP_END
#endif
