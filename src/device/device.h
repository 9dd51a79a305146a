/* The device interface: one small versioned table of functions. cpu/, gpu/ (over cuda/ and opencl/) and meta/ fill
 * it. A missing (NULL) member is an error that names the operator and the device. */
#ifndef TPI_DEVICE_H
#define TPI_DEVICE_H
#include "tensor/plan.h"

/* ---- What opgen makes of `map`, `fold` and `scan` stanzas ---- */

/* A pointwise kernel over contiguous blocks: arg[0..nout-1] are written, the others read; n is a multiple of TPI_LANES.
 * Blocks hold the compute type, except where the stanza says otherwise (bool results, bool or int64 arguments). */
#define TPI_LANES 16
typedef void (*tpi_block_fn)(int64_t n, char *const *arg, const tpi_param *param);

typedef enum tpi_isa { TPI_ISA_BASE, TPI_ISA_AVX2, TPI_ISA_AVX512, TPI_ISAS } tpi_isa;
extern tpi_isa tpi_cpu_isa; /* the best this CPU has; TAPER_ISA=base|avx2|avx512 lowers it */
/* What multiplies bfloat16s: nothing but float32's instructions (so with TAPER_ISA as above), AVX-512's dot products of
 * pairs (TAPER_ISA=avx512_bf16), or AMX's tiles. */
typedef enum tpi_bf16_units { TPI_BF16_NONE, TPI_BF16_AVX512, TPI_BF16_AMX } tpi_bf16_units;
extern tpi_bf16_units tpi_cpu_bf16;
/* What multiplies bytes: the instruction set's pairs of 16 bits, AVX-512's VNNI (with TAPER_ISA=avx512_bf16 at most),
 * or AMX's tiles. */
typedef enum tpi_byte_units { TPI_BYTES_NONE, TPI_BYTES_VNNI, TPI_BYTES_AMX } tpi_byte_units;
extern tpi_byte_units tpi_cpu_bytes;

enum {
    TPI_RULE_PROMOTE,
    TPI_RULE_FLOAT
}; /* how the compute dtype comes from the operands: as promoted, or raised to floating */
enum {
    TPI_RESULT_SAME,
    TPI_RESULT_BOOL,
    TPI_RESULT_REAL,
    TPI_RESULT_INT64,
    TPI_RESULT_TRUTH /* bool, but uint8 for uint8 */
};

/* Where the two operands of a map are when it runs in registers (cpu/register_program.h): one is the accumulator, the
 * other is memory or a number; or both are the accumulator. */
enum {
    TPI_REGISTERS_MEMORY,
    TPI_REGISTERS_OF_MEMORY, /* memory is the first operand */
    TPI_REGISTERS_NUMBER,
    TPI_REGISTERS_OF_NUMBER,
    TPI_REGISTERS_ITSELF,
    TPI_REGISTERS_FORMS
};

/* Dtypes of 8 and 16 bits that kernels of cheap maps read and write themselves, one after the other in a row of their
 * table; the rows: no input is constant, the first is, the second is. A map of three inputs has the last row alone,
 * for a constant third input too. A constant input is of the compute type, and only its first element is read. */
enum {
    TPI_NARROW_B8, /* without constants */
    TPI_NARROW_U8,
    TPI_NARROW_I8,
    TPI_NARROW_I16,
    TPI_NARROW_F16,
    TPI_NARROW_BF16,
    TPI_NARROW_F32, /* not narrow: these two have the rows with a constant input alone */
    TPI_NARROW_F64,
    TPI_NARROWS
};
#define TPI_NARROW_FORMS 3

typedef struct tpi_map_op {
    const char *name;
    uint8_t nin, nparam;
    uint8_t rule, result;
    uint16_t types;     /* mask of TPI_CAT_*: which groups of dtypes are allowed */
    uint8_t has_b8;     /* bool operands compute in TPI_B8 rather than TPI_I32 */
    uint8_t costly;     /* computing takes longer than moving the elements: a detour on the way to memory would show */
    uint8_t in_type[8]; /* per input: TPI_CTYPES = the compute type, else that fixed ctype (not part of promotion) */
    const char *in_name[8]; /* for messages */
    uint8_t
        param_type[8]; /* per parameter: TPI_CTYPES = the compute type, TPI_CTYPES + 1 = its real type, else fixed */
    /* A tpi_register_code for each form, in floats; 0: it is not cheap enough for registers. A map of one operand, or
     * of one and two numbers, has the first alone. */
    uint8_t registers[TPI_REGISTERS_FORMS];
    int8_t registers_when;                /* only where this parameter is 1; -1: always */
    const tpi_block_fn *fn[TPI_ISAS];     /* [isa][compute type]; NULL entries: not for that type */
    const tpi_block_fn *narrow[TPI_ISAS]; /* [isa]: see above; NULL: there are none */
    int8_t narrow_when;                   /* only where this parameter is 1; -1: always */
    const char *const
        *source; /* [compute type]: op_element() in the dialect of gpu/kernels; NULL entries: not for that type */
} tpi_map_op;

/* Stretches of n < 2^31 elements each, which lie one after the other. Stretch k goes into column k * columns_apart. */
typedef struct tpi_stretches {
    int64_t count, n;
    const char *x;
    int64_t apart;        /* bytes from one stretch to the next */
    int64_t index, later; /* of the first element of the first, and how much greater the next one's is */
    int64_t columns_apart;
} tpi_stretches;

/* A fold whose state is the sum of the elements, or the largest, can take them from registers. */
typedef enum tpi_fold_end { TPI_FOLD_ENDS_IN_NONE, TPI_FOLD_ENDS_IN_SUM, TPI_FOLD_ENDS_IN_MAX } tpi_fold_end;

/* A reduction. State variables are arrays, one entry per result column; the finished results are written in the
 * result's block type. x is a block of the compute type. */
typedef struct tpi_fold_kernel {
    void (*start)(int64_t m, char *const *state, const tpi_param *param);
    void (*inner)(const tpi_stretches *from, char *const *state, const tpi_param *param);
    void (*outer)(int64_t m, int64_t rows, const char *x, int64_t row, int64_t index0, char *const *state,
                  const tpi_param *param); /* rows, `row` bytes apart, into m columns */
    void (*merge)(int64_t m, char *const *state, char *const *right, const tpi_param *param);
    void (*finish)(int64_t m, char *const *state, int64_t count, char *const *out, const tpi_param *param);
} tpi_fold_kernel;

typedef struct tpi_fold_op {
    const char *name;
    uint8_t nstate, nout, nparam;
    uint8_t rule;
    uint16_t types;
    uint8_t sum_like;      /* bool and integers accumulate in and give int64 (sum, prod) */
    uint8_t empty_error;   /* the tp_code over no elements where no dim is given; TP_OK: it is defined there */
    uint8_t end;           /* a tpi_fold_end */
    uint8_t each;          /* an empty list of dims folds each element by itself; otherwise it stands for all dims */
    uint8_t uses_index;    /* the step reads the element's index: one dim, or all of them flattened */
    uint8_t state_type[4]; /* TPI_CTYPES = the compute type, + 1 = its real type, + 2 = the type with more digits
                              (double for float), else fixed */
    uint8_t out_type[4];   /* TPI_RESULT_* */
    uint8_t param_type[4];
    /* For each state variable the map that its step is, where integers join in any order, as the largest does; NULL:
     * the step is no such map. */
    const tpi_map_op *join[2];
    const tpi_fold_kernel *fn[TPI_ISAS]; /* [isa][compute type] */
    const char *const *source; /* [compute type]: state_t, op_start(), op_step(), op_merge(), op_finish() in the dialect
                                  of gpu/kernels */
} tpi_fold_op;

/* A scan along one dim: like a fold that writes its running result at every step. */
typedef struct tpi_scan_kernel {
    void (*start)(int64_t m, char *const *state, const tpi_param *param);
    void (*inner)(int64_t n, const char *x, int64_t index0, char *const *state, char *const *out,
                  const tpi_param *param);
    void (*outer)(int64_t m, const char *x, int64_t index, char *const *state, char *const *out,
                  const tpi_param *param);
    void (*merge)(int64_t m, char *const *state, char *const *right,
                  const tpi_param *param); /* NULL, as is total: one thread per row */
    void (*total)(int64_t n, const char *x, int64_t index0, char *const *state,
                  const tpi_param *param); /* n elements into column 0, nothing written */
} tpi_scan_kernel;

typedef struct tpi_scan_op {
    const char *name;
    uint8_t nstate, nout, nparam;
    uint8_t rule, sum_like;
    uint16_t types;
    uint8_t state_type[4], out_type[4], param_type[4];
    const tpi_scan_kernel *fn[TPI_ISAS];
    const char *const
        *source; /* as a fold's, with op_value() for op_finish(), and without op_merge() where the table has none */
} tpi_scan_op;

/* All of a family's kernels; the list of families ends with one that has no maps list. */
typedef struct tpi_family {
    const tpi_map_op *const *maps; /* each list ends with NULL */
    const tpi_fold_op *const *folds;
    const tpi_scan_op *const *scans;
} tpi_family;

struct tpi_program;
struct tpi_fold_prologue;

/* ---- The table ---- */
typedef struct tpi_device_ops {
    int version;      /* TPI_DEVICE_VERSION */
    const char *name; /* "cpu" */
    const struct tpi_gpu_driver
        *gpu; /* what kernel text is compiled for and launched by: natives with kernels run here; NULL: they do not */
    int (*count)(void); /* how many there are; NULL: one */
    void *(*alloc)(tp_device device, size_t bytes);
    void (*free)(tp_device device, void *block, size_t bytes);
    /* Bytes between this device and the host, in the order of the device's current stream. When to_host returns, they
     * are there. */
    bool (*to_host)(tp_device device, void *host, const void *block, size_t bytes);
    bool (*from_host)(tp_device device, void *block, const void *host, size_t bytes);
    bool (*synchronize)(tp_device device);
    /* Kernels from the tables. compute: the compute type; params are already of the right types. Operands that
     * plan->numbers names are numbers on the host, in the dtype the plan says. map may change the plan, whose operands
     * may point at memory that is gone when it returns: the caller uses the plan no more. */
    bool (*map)(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params);
    bool (*fold)(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                 const tpi_param *params);
    bool (*scan)(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                 const tpi_param *params);
    bool (*copy)(tp_device device, tpi_plan *plan); /* operand 0 from operand 1, converting */
    bool (*fill)(tp_device device, tpi_plan *plan, const tp_scalar *value);
    /* Programs of maps, and folds of what one makes (device/block_program.h). `program_ready` is called once a program
     * is complete. NULL: a graph's maps run one by one here. */
    bool (*program_ready)(struct tpi_program *program);
    bool (*program)(tp_device device, const struct tpi_program *program, tpi_plan *plan);
    bool (*fold_of_program)(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced,
                            tpi_ctype compute, const tpi_param *params, const struct tpi_fold_prologue *feed);
    /* From a device of the same kind to another: in the order of both current streams. NULL: by way of the host. */
    bool (*to_peer)(tp_device to, void *block, tp_device from, const void *source, size_t bytes);
} tpi_device_ops;
#define TPI_DEVICE_VERSION 3

extern const tpi_device_ops *tpi_devices[TP_DEVICE_TYPES];
/* NULL and an error that names the device if it is not there */
const tpi_device_ops *tpi_device_ops_of(tp_device device);
/* False, and an error for a tensor that is on another device than the call; where: what follows the message, or "". */
bool tpi_refuse_device(tp_device expected, tp_device got, const char *where);
bool tpi_device_register(tp_device_type type, const tpi_device_ops *ops);

/* ---- What tensors ask of devices, by way of tensor/upcalls.h ---- */
void *tpi_device_alloc(tp_device device, size_t bytes);
void tpi_device_free(tp_device device, void *block, size_t bytes);
bool tpi_device_copy(tp_tensor *dst, const tp_tensor *src); /* tpi_copy_data: any strides, dtypes and devices */
bool tpi_device_fill(tp_tensor *dst, tp_scalar value);

/* ---- What generated operators call: promotion, checks, broadcasting, allocation, then the device's kernel ---- */

/* A pointwise operator over nin operands. out: NULL makes a new tensor; otherwise writes there (in place or out form:
 * the result must be castable to out's dtype and broadcast to exactly its shape). Returns an owned reference. */
tp_tensor *tpi_run_map(const tpi_map_op *op, tp_tensor *out, const tp_operand *in, const tp_scalar *params);
/* A reduction over the dims (not given: all). Fills outs with owned references. dtype: compute in this one if set. */
bool tpi_run_fold(const tpi_fold_op *op, tp_tensor **outs, tp_tensor *x, tp_ints dims, bool keepdim, tp_dtype dtype,
                  const tp_scalar *params);
bool tpi_run_scan(const tpi_scan_op *op, tp_tensor **outs, tp_tensor *x, int64_t dim, tp_dtype dtype,
                  const tp_scalar *params);
#endif
