/* What the loading of a training takes apart: reading everything first, taking it over when everything fits. */
#ifndef TPI_TRAINING_H
#define TPI_TRAINING_H
#include <taper/io.h>
#include <taper/training.h>

/* An optimiser of the same parameters with what was saved; NULL and an error if it does not fit. */
tp_optimiser *tpi_loaded_optimiser(const tp_saved *state, const tp_optimiser *o);
void tpi_replace_optimiser(tp_optimiser *o, tp_optimiser *loaded); /* o becomes it; it is gone then */

/* What a schedule becomes by what was saved, to be taken or given to tpi_mfree; NULL and an error if it does not fit.
 */
double *tpi_loaded_schedule(const tp_saved *state, tp_schedule *schedule);
void tpi_replace_schedule(tp_schedule *schedule, double *loaded); /* it is gone then; NULL: nothing happens */
#endif
