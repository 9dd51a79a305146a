/* The formulas of rates, which schedule.c's table of kinds points to, and a change of rate put to a group's rate. What
 * else rates.c has is public (taper/schedule.h). */
#ifndef TPI_RATES_H
#define TPI_RATES_H
#include <taper/schedule.h>

const char *tpi_schedule_kind(const tp_schedule *s); /* "StepLR" */
/* Of each group the rate it began with, and the rate that was set last. */
typedef struct tpi_schedule_rates {
    double *base, *last;
    int64_t ngroups;
} tpi_schedule_rates;
tpi_schedule_rates tpi_rates_of(tp_schedule *s);

/* What becomes of a group's rate. Its `by` may be no finite number. */
typedef tp_rate_change tpi_rate_formula(const tp_schedule_options *options, const tp_schedule_place *place);
tpi_rate_formula tpi_step_change, tpi_multi_step_change, tpi_constant_change, tpi_linear_change, tpi_exponential_change,
    tpi_polynomial_change, tpi_cosine_change, tpi_restarts_change;
double tpi_rate_changed(const tp_rate_change *change, double lr, double base);

/* tp_cycle_scale for a mode that may ask for the number of the cycle or for the epoch. */
double tpi_cycle_scale_at(const char *mode, double gamma, double cycle, double epoch);
bool tpi_anneals_linearly(const char *strategy);              /* or by a cosine */
double tpi_plateau_worst(const tp_schedule_options *options); /* any figure is better */
#endif
