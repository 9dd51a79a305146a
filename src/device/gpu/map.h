/* The kernels of pointwise operators, copies and fills: map.c decides a plan's form and launches, map_text.c writes the
 * kernel of a form. */
#ifndef TPI_GPU_MAP_H
#define TPI_GPU_MAP_H
#include "device/gpu/driver.h"

enum {
    TPI_GPU_MAP_ARGS = TPI_MAX_OPERANDS, /* an operator's are one result and up to eight inputs, a program's any */
    TPI_GPU_MAP_PARAMS = 32              /* numbers that a kernel takes by value, at most */
};

/* How an operand lies along dimension 0. */
typedef enum tpi_gpu_map_way {
    TPI_WAY_ALONG, /* contiguous */
    TPI_WAY_SAME,  /* one element for all of it */
    TPI_WAY_STRIDED,
    TPI_WAY_NUMBER /* no tensor: it comes by value */
} tpi_gpu_map_way;

typedef struct tpi_gpu_form {
    uint8_t ndim, nargs, nout; /* results come first */
    uint8_t vector;            /* elements of a group: 1, 2, 4 or 8 */
    bool packed;               /* every operand is contiguous, one element or a number: there are no strides */
    bool wide;                 /* 64-bit indices */
    uint8_t dtype[TPI_GPU_MAP_ARGS], way[TPI_GPU_MAP_ARGS];
} tpi_gpu_form;

/* What a kernel computes per element. */
typedef struct tpi_gpu_map_text {
    const tpi_gpu_form *form;
    const char *name;               /* for profilers; NULL: none */
    const char *source;             /* op_element(), in the dialect */
    bool program;                   /* it is a program's: results go to pointers, in their storage types */
    int nparam;                     /* its parameters; numbers follow behind them */
    uint8_t type[TPI_GPU_MAP_ARGS]; /* compute types that it gives (0) and takes */
} tpi_gpu_map_text;
bool tpi_gpu_put_map(tpi_text *text, const void *map_text); /* a tpi_gpu_source */

/* A plan as it is launched: the operator is named by `what` (see tpi_gpu_kernel). */
typedef struct tpi_gpu_map_call {
    const void *what;
    tpi_gpu_map_text text; /* its form is filled here */
    const tpi_param *params;
} tpi_gpu_map_call;
bool tpi_gpu_run_map(tp_device device, tpi_gpu_map_call *call, tpi_plan *plan);

/* block_program.c: what a program's op_element() takes by value, parameters of its steps and numbers among their
 * inputs. */
struct tpi_program;
int tpi_gpu_program_numbers(const struct tpi_program *p);
void tpi_gpu_fill_params(const struct tpi_program *p, tpi_param *to);

/* transpose.c: a copy (operand 0 from operand 1, converting) whose two sides run fastest along different dims. */
bool tpi_gpu_is_transpose(const tpi_plan *plan);
bool tpi_gpu_transpose(tp_device device, const tpi_plan *plan);

/* The compute type of a dtype's elements, TPI_B8 for bool, and what the dialect calls it: "float", "f32". */
static inline tpi_ctype tpi_gpu_ctype(tp_dtype dtype) {
    return dtype == TP_BOOL ? TPI_B8 : (tpi_ctype)tpi_dtype_ctype[dtype];
}
const char *tpi_gpu_ctype_text(tpi_ctype c);
const char *tpi_gpu_ctype_suffix(tpi_ctype c);
/* of what get_<dtype> gives: its compute type's, but uint64's is u64 */
const char *tpi_gpu_cast_suffix(tp_dtype dtype);
bool tpi_gpu_put_dtype(tpi_text *t,
                       tp_dtype dtype); /* includes what has get_<dtype> and set_<dtype>, where the dialect has not */

/* Groups that a thread takes: where finding a group's place is work, or a group is one element, several. Otherwise many
 * threads with 16 bytes each keep the memory busiest (H200: exp over 2^26 floats 128.4 us with one group, 131.9 with
 * two, 133.5 with four). */
static inline int tpi_gpu_map_groups(const tpi_gpu_form *f) { return f->vector == 1 ? 4 : f->packed ? 1 : 2; }

/* Threads of a block. Small blocks of one input are done at different times, so that arithmetic of some hides behind
 * memory of others (H200, 2^26 floats: gelu 128.8 us with 128 threads, 130.5 with 256, 161 with 64; exp and a copy
 * 128.5 with both). */
static inline int tpi_gpu_map_threads(const tpi_gpu_form *f) {
    return f->packed && f->vector > 1 && f->nargs <= 2 ? 128 : 256;
}

/* What the dialect's divide() takes for a divisor below 2^31. */
static inline void tpi_gpu_divider(uint32_t divisor, uint32_t *multiplier, uint32_t *shift) {
    uint32_t s = divisor > 1 ? 32 - (uint32_t)__builtin_clz(divisor - 1) : 0;
    *shift = s;
    *multiplier = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << s) - divisor)) / divisor + 1);
}
#endif
