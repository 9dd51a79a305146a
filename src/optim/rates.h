/* A change of rate put to a group's rate; the formulas themselves are public (taper/schedule.h). */
#ifndef TPI_RATES_H
#define TPI_RATES_H
#include <taper/schedule.h>

double tpi_rate_changed(const tp_rate_change *change, double lr, double base);
#endif
