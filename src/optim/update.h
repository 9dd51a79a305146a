/* The inside of optimisers: what opgen makes of a stanza, and what runs it. */
#ifndef TPI_UPDATE_H
#define TPI_UPDATE_H
#include "device/device.h"
#include "tensor/tensor.h"
#include <taper/optim.h>

/* Updates n elements: arg[0] the parameter, arg[1] its gradient, then the state that is not scalar, in the table's order. option: the
 * group's values; scalar: what was computed for this parameter; first: its state was just made. */
typedef void (*tpi_update_fn)(int64_t n, char *const *arg, const double *option, const double *scalar, bool first);

enum { TPI_STATE_SCALAR, TPI_STATE_LIKE, TPI_STATE_ROWS, TPI_STATE_COLUMNS, TPI_STATE_VECTOR };
enum { TPI_MAX_SLOTS = 8, TPI_MAX_SCALARS = 32 };
typedef struct tpi_slot {
    int8_t shape; /* of the state: one number, the parameter's shape, a matrix's rows or columns, or the parameter's if it is no matrix */
    int8_t flag;  /* needed where this flag is set; -1: always */
} tpi_slot;

/* A group's step, as natives get it. States are all there. */
typedef struct tpi_update {
    const double *option;
    int64_t n, nstates;
    tp_tensor *const *params, *const *grads; /* a gradient may be NULL: leave that parameter out */
    tp_tensor *const *states;
} tpi_update;

typedef struct tpi_update_ops {
    const tpi_slot *slots;
    void (*starts)(const double *option, double *start);                       /* the state's first values */
    void (*scalars)(const double *option, double *state, double *out, bool wide); /* NULL: there are none */
    unsigned (*flags)(const double *option);
    int (*check)(const double *option);
    int nscalars;
    const tpi_update_fn *fn[TPI_ISAS]; /* [2 * flags + is double]; NULL for natives */
    bool (*native)(const tpi_update *u); /* changes nothing when it fails */
} tpi_update_ops;
extern const tp_optimiser_kind *const tpi_optimiser_kinds[]; /* generated; ends with NULL */

#if defined(__x86_64__)
#define TPI_UPDATE_DECLARE(name) extern const tpi_update_fn name##_base[], name##_avx2[], name##_avx512[]
#else
#define TPI_UPDATE_DECLARE(name) extern const tpi_update_fn name##_base[]
#endif

/* A scalar state's value as its tensor holds it: float32, or float64 if that is the default dtype. */
static inline double tpi_scalar_state(double v, bool wide) { return wide ? v : (double)(float)v; }

bool tpi_adafactor_update(const tpi_update *u);
bool tpi_muon_update(const tpi_update *u);
#endif
