/* A change of rate put to a group's rate; the formulas themselves are public (taper/schedule.h). */
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
double tpi_rate_changed(const tp_rate_change *change, double lr, double base);
#endif
