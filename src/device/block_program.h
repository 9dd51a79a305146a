/* Block programs: a chain of pointwise kernels over the same positions. Each block of positions goes through all of the
 * program's steps while it is in the nearest cache; what only the program itself reads never reaches memory. An
 * element's bits are those that the operators give one by one: the same kernels run in the same types, and a value that
 * a tensor would have rounded (half, bfloat16, narrow integers) is rounded. */
#ifndef TPI_PROGRAM_H
#define TPI_PROGRAM_H
#include "device/device.h"

enum {
    TPI_PROGRAM_BASE = 1 << 16, /* the made-up address of a value without memory */
    TPI_PROGRAM_IN = 8,
    TPI_PROGRAM_STEPS = 48,
    TPI_PROGRAM_BLOCKS = 40,
    TPI_PROGRAM_NUMBERS = 32 /* parameters of its steps, and numbers among their inputs */
};

typedef struct tpi_program_arg {
    int16_t value; /* number of a value, or -1: a number that stands in a block of its own */
    int16_t block; /* that block */
    uint8_t type;  /* the dtype that the kernel reads */
    tpi_param number;
} tpi_program_arg;

typedef struct tpi_program_step {
    const tpi_map_op *op;
    uint8_t compute; /* tpi_ctype */
    uint8_t type;    /* the dtype that the kernel writes */
    bool registers;  /* it may be part of a register program (cpu/register_program.h) */
    bool passes;     /* its value has no memory, and the next step is the only one that reads it */
    int16_t out;     /* value */
    tpi_program_arg in[TPI_PROGRAM_IN];
    tpi_param params[8];
} tpi_program_step;

/* Values 0 ... nout - 1 of the plan's operands are written, the others read; what has no operand lives in its block
 * alone. */
typedef struct tpi_program_value {
    uint8_t dtype;
    int8_t operand; /* of the plan, -1: none */
    int16_t block;
} tpi_program_value;

typedef struct tpi_program {
    int nsteps, nvalues, nblocks, nout, noperands;
    tpi_program_step *steps;
    tpi_program_value *values;
    struct tpi_gpu_fused *fused; /* GPUs: what its kernels are known by */
} tpi_program;

/* The dtype that the operator computes in for these operands, and the kernel's type. False: an error is pending.
 * launch.c */
bool tpi_map_settle(const tpi_map_op *op, const tp_operand *in, tp_dtype *dtype, tpi_ctype *compute);
/* Once the program is complete: the CPU finds the steps that may run in registers. cpu/block_program.c,
 * gpu/block_program.c */
bool tpi_cpu_program_ready(tpi_program *program);
bool tpi_gpu_program_ready(tpi_program *program);
const char *tpi_gpu_fused_text(const struct tpi_gpu_fused *fused); /* its op_element() */
const char *tpi_gpu_fused_name(const struct tpi_gpu_fused *fused); /* its operators: "mul_add_tanh" */
/* Runs the program over the plan, whose operands are its own. cpu/block_program.c, gpu/block_program.c */
bool tpi_cpu_program(tp_device device, const tpi_program *program, tpi_plan *plan);
bool tpi_gpu_program_run(tp_device device, const tpi_program *program, tpi_plan *plan);

/* A fold whose elements a program makes: `operand` of the plan, which is written. Without memory they go from the
 * program's blocks into the fold and to no memory; x tells of their shape, strides and dtype. The bits are those of the
 * program and the fold one after the other. reduce.c, cpu/fold.c */
typedef struct tpi_fold_prologue {
    const tpi_program *program;
    tpi_plan *plan;
    int operand;
    bool has_memory; /* otherwise x->data is an address that offsets are counted from, where nothing is */
} tpi_fold_prologue;
bool tpi_run_fold_of_program(const tpi_fold_op *op, tp_tensor **outs, tp_tensor *x, tp_ints dims, bool keepdim,
                             tp_dtype dtype, const tp_scalar *params, const tpi_fold_prologue *feed);
bool tpi_cpu_fold_of_program(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced,
                             tpi_ctype compute, const tpi_param *params, const tpi_fold_prologue *feed);
#endif
