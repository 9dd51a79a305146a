/* What reductions and scans of GPUs share on the host: a call's geometry as its kernels take it (kernels/axes.h), how
 * columns are cut, and the text that stands before the kernel's own. */
#ifndef TPI_GPU_AXES_H
#define TPI_GPU_AXES_H
#include "device/cpu/axes.h"
#include "device/gpu/fold_prologue.h"
#include "device/gpu/gpu.h"

enum {
    TPI_GPU_DIMS = 8,  /* kept and reduced dims that a kernel takes, each */
    TPI_GPU_READS = 4, /* that a thread of kernels/fold.h has on their way at a time */
    TPI_GPU_BESIDE = 5 /* threads side by side over columns there at most: 32 */
};

/* What a program depends on, beside the operator. */
typedef struct tpi_gpu_axes_form {
    uint8_t kernel; /* which one of the operator's: fold.c and scan.c number them */
    uint8_t compute, x, nout, out[TPI_AXES_OUTS];
    uint8_t vec;               /* elements per 16 bytes, or 1 */
    uint8_t kdims, rdims;      /* at least 1 */
    bool wide, split, sharing; /* 64-bit positions; columns in several pieces; threads of a block work together */
    uint16_t block;            /* threads */
    uint8_t nparam, out_type[TPI_AXES_OUTS];
    const char *name;                  /* the operator's, for profilers; NULL: none */
    const char *source;                /* its functions */
    const char *define, *text;         /* which kernel of which text */
    const tpi_gpu_fold_prologue *feed; /* what makes x's elements; NULL: they are in memory */
} tpi_gpu_axes_form;
bool tpi_gpu_axes_source(tpi_text *text, const void *form); /* a tpi_gpu_source */

typedef struct tpi_gpu_axes_call {
    const void *op;
    const char *name; /* the operator's */
    tp_device device;
    const tpi_gpu_caps *caps;
    tp_tensor *x;
    tpi_gpu_fold_prologue *feed; /* NULL: x has its elements */
    tp_tensor *const *outs;
    const tpi_param *params;
    tpi_axes kept, reduced;       /* a scan's dim is the reduced one */
    int64_t rout[TPI_AXES_OUTS];  /* results' strides along it */
    int64_t piece, pieces, group; /* see axes_t */
    int nstate;
    char *states; /* of pieces, NULL without */
    size_t states_bytes;
    tpi_gpu_axes_form form;
} tpi_gpu_axes_call;

/* A call with its tensors, before its geometry. op: a tpi_fold_op or tpi_scan_op with this name and so many states. */
static inline tpi_gpu_axes_call tpi_gpu_axes_call_of(const void *op, const char *name, int nstate, tp_tensor *x,
                                                     tp_tensor *const *outs, const tpi_param *params) {
    return (tpi_gpu_axes_call){
        .op = op, .name = name, .device = tpi_device(x), .x = x, .outs = outs, .params = params, .nstate = nstate};
}

/* The operator's functions; NULL, and an error, where it has none for the type. */
const char *tpi_gpu_axes_functions(const char *const *sources, const char *name, tpi_ctype compute);

/* The form's part that follows from the tensors. */
bool tpi_gpu_axes_begin(tpi_gpu_axes_call *c, tpi_ctype compute, int nout, const uint8_t *out_type, int nparam,
                        const char *source);
void tpi_gpu_axes_end(tpi_gpu_axes_call *c); /* frees the states */
/* Cuts columns into pieces, each a multiple of `step` elements, where `blocks` blocks without a cut would leave the
 * device idle. */
void tpi_gpu_axes_cut(tpi_gpu_axes_call *c, int64_t blocks, int64_t step);
bool tpi_gpu_axes_states(tpi_gpu_axes_call *c, int64_t states); /* memory for so many states */
/* Launches the kernel that the form names, with x and the results, one of them, or neither, then the states. */
bool tpi_gpu_axes_launch(tpi_gpu_axes_call *c, bool uses_x, bool uses_outs, int64_t blocks, int64_t down);

/* Elements that 16 bytes hold, where runs along `along` start on multiples of 16 bytes (whole_runs: and end there);
 * else 1. */
int tpi_gpu_vector(const tp_tensor *x, const tpi_axes *along, const tpi_axes *other, bool whole_runs);
int tpi_gpu_exponent(int64_t n); /* of the first power of two that is no less */
#endif
