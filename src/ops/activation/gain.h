/* By how much a nonlinearity shrinks what passes through it: parameters begin that much larger (PyTorch's
 * nn.init.calculate_gain). */
#ifndef TPI_ACTIVATION_GAIN_H
#define TPI_ACTIVATION_GAIN_H
#include <math.h>

static inline double tpi_leaky_gain(double negative_slope) { return sqrt(2.0 / (1 + negative_slope * negative_slope)); }
/* By PyTorch's name; NaN without an error if there is none. negative_slope is of leaky_relu, NaN: its default. */
double tpi_activation_gain(const char *nonlinearity, double negative_slope);
#endif
