/* What the loading of a training takes apart: reading everything first, taking it over when everything fits. */
#ifndef TPI_TRAINING_H
#define TPI_TRAINING_H
#include <taper/io.h>
#include <taper/training.h>

/* An optimiser of the same parameters with what was saved; NULL and an error if it does not fit. */
tp_optimiser *tpi_loaded_optimiser(const tp_saved *state, const tp_optimiser *o);
void tpi_take_optimiser(tp_optimiser *o, tp_optimiser *loaded); /* o becomes it; it is gone then */

enum { TPI_SCHEDULE_NUMBERS = 7 };                              /* what tp_schedule_state gives */
bool tpi_read_schedule(const tp_saved *state, double *numbers); /* those that are there */
#endif
