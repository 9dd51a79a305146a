/* The inside of optimisers: what opgen makes of a stanza, and what runs it. */
#ifndef TPI_UPDATE_H
#define TPI_UPDATE_H
#include "device/device.h"
#include "tensor/tensor.h"
#include <taper/optim.h>

/* Updates n elements: arg[0] the parameter, arg[1] its gradient, then the state that is not scalar, in the table's
 * order. option: the group's values; scalar: what was computed for this parameter; first: its state was just made. */
typedef void (*tpi_update_fn)(int64_t n, char *const *arg, const double *option, const double *scalar, bool first);

enum { TPI_STATE_SCALAR, TPI_STATE_LIKE, TPI_STATE_ROWS, TPI_STATE_COLUMNS, TPI_STATE_VECTOR };
enum { TPI_MAX_SLOTS = 8, TPI_MAX_SCALARS = 32 };
typedef struct tpi_update_slot {
    int8_t shape; /* of the state: one number, the parameter's shape, a matrix's rows or columns, or the parameter's if
                     it is no matrix */
    int8_t flag;  /* needed where this flag is set; -1: always */
} tpi_update_slot;

/* One parameter's part of a step. */
typedef struct tpi_update_entry {
    const double *option;    /* its group's */
    tp_tensor *param, *grad; /* grad: NULL when state is made alone */
    tp_tensor **state;       /* one per slot; NULL where none is needed */
    uint8_t made;            /* a bit per slot: made in this step */
    bool first;              /* state that is not scalar was made */
} tpi_update_entry;

typedef struct tpi_update_ops {
    const tpi_update_slot *slots;
    void (*starts)(const double *option, double *start);                          /* the state's first values */
    void (*scalars)(const double *option, double *state, double *out, bool wide); /* NULL: there are none */
    unsigned (*flags)(const double *option);                                      /* a bit per flag */
    int (*check)(const double *option);
    int nscalars;
    const tpi_update_fn *fn[TPI_ISAS];                          /* [2 * flags + is double]; NULL for natives */
    bool (*native)(int64_t n, const tpi_update_entry *entries); /* changes nothing when it fails */
    const char *const *text; /* [2 * flags + is double]: the update for devices that compile text; NULL for natives */
} tpi_update_ops;
extern const tp_optimiser_kind *const tpi_optimiser_kinds[]; /* generated; ends with NULL */

#if defined(__x86_64__) && !defined(TPI_ISA_BASE_ONLY)
#define TPI_UPDATE_DECLARE(name) extern const tpi_update_fn name##_base[], name##_avx2[], name##_avx512[]
#else
#define TPI_UPDATE_DECLARE(name) extern const tpi_update_fn name##_base[]
#endif

/* A scalar state's value as its tensor holds it: float32, or float64 if that is the default dtype. */
static inline double tpi_scalar_state(double v, bool wide) { return wide ? v : (double)(float)v; }

/* update_gpu.c: the entries, whose parameters are on GPUs, by kernels. */
bool tpi_update_gpu(const tp_optimiser_kind *kind, int64_t n, const tpi_update_entry *entries);
/* The scalars of one parameter: what its scalar state becomes, and what follows from it for the update. */
typedef struct tpi_scalars {
    const double *option; /* they came of these values; NULL: of none yet */
    bool wide;
    double before[TPI_MAX_SLOTS], state[TPI_MAX_SLOTS], out[TPI_MAX_SCALARS];
} tpi_scalars;
/* Works them out, unless they came of the same values before, as they do for most parameters of a group. State itself
 * is left alone. */
void tpi_update_scalars(const tp_optimiser_kind *kind, const tpi_update_entry *e, tpi_scalars *s);
/* Does this parameter have that state? */
bool tpi_update_needs(const tpi_update_slot *slot, unsigned flags, const tp_tensor *p);

bool tpi_adafactor_update(int64_t n, const tpi_update_entry *entries);
bool tpi_muon_update(int64_t n, const tpi_update_entry *entries);
#endif
