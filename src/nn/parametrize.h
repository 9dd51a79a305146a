/* Parametrizations of a module: what is computed, from which slots, and how. */
#ifndef TPI_PARAMETRIZE_H
#define TPI_PARAMETRIZE_H
#include "nn/layer.h"
#include <taper/parametrize.h>

typedef enum tpi_parametrization_kind { TPI_WEIGHT_NORM, TPI_SPECTRAL_NORM, TPI_PRUNED } tpi_parametrization_kind;
typedef struct tpi_parametrization {
    tpi_parametrization_kind kind;
    char *name; /* of the computed slot; its parts have endings: "weight_g" */
    int64_t dim, iterations;
    double eps;
} tpi_parametrization;

enum { TPI_PART_NAME = 128 };
bool tpi_part_name(const char *name, const char *ending, char *out);                /* into TPI_PART_NAME bytes */
tp_tensor *tpi_slot_part(const tp_module *m, const char *name, const char *ending); /* borrowed; NULL: there is none */
bool tpi_part_hold(tp_module *m, const char *name, const char *ending, tpi_module_slot_kind kind, tp_tensor *t);
tpi_parametrization *tpi_parametrization_of(const tp_module *m, const char *name);
/* The parameter of that name, borrowed, if it can be computed from now on; NULL and an error. */
tp_tensor *tpi_parameter_to_compute(tp_module *m, const char *name);
bool tpi_parametrize(tp_module *m, tpi_parametrization p); /* once its parts are held; the name is copied */
bool tpi_parametrize_still(tp_module *m); /* computes what is computed, without a step of power iteration */
#endif
