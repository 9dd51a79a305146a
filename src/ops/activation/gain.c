/* See ops/activation/gain.h. */
#include "ops/activation/gain.h"
#include <stddef.h>
#include <string.h>

double tpi_activation_gain(const char *nonlinearity, double negative_slope) {
    static const struct {
        const char *name;
        double gain;
    } gains[] = {{"linear", 1},           {"conv1d", 1},           {"conv2d", 1},           {"conv3d", 1},
                 {"conv_transpose1d", 1}, {"conv_transpose2d", 1}, {"conv_transpose3d", 1}, {"sigmoid", 1},
                 {"tanh", 5.0 / 3},       {"relu", M_SQRT2},       {"selu", 3.0 / 4}};
    if (!strcmp(nonlinearity, "leaky_relu")) return tpi_leaky_gain(isnan(negative_slope) ? 0.01 : negative_slope);
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++)
        if (!strcmp(nonlinearity, gains[i].name)) return gains[i].gain;
    return NAN;
}
