/* Register programs: runs of cheap steps of a block program, over floats, whose values pass from one step to the next
 * in registers instead of through blocks. A register program is a list for a machine with one accumulator of some
 * vectors: it is loaded, computed with memory or with numbers, and stored.
 *
 * opgen writes the machine's operations (tpi_registers.h) from the expressions of maps whose stanzas say `registers`,
 * so an operation rounds as the operator's kernel does. */
#ifndef TPI_REGISTER_PROGRAM_H
#define TPI_REGISTER_PROGRAM_H
#include "device/cpu/isa.h"
#include "device/block_program.h"
#include "tpi_registers.h"

typedef struct tpi_register_op {
    uint8_t code;          /* a tpi_register_code; TPI_REGISTER_END ends a program */
    bool broadcast;        /* `number` is the one element of `value` */
    float number, number2; /* for operations with numbers */
    int value;             /* of the block program, -1: none; where that stands is for whoever writes the list */
    char *at;              /* its memory, for element 0 */
    int64_t move;          /* bytes to the next block's element: 0 for what stays in its block */
} tpi_register_op;

/* All register programs of a block program have room in as many: a step takes three at most, and a program an end. */
enum { TPI_REGISTER_OPS = 4 * TPI_PROGRAM_STEPS };

/* nops operations, the end not counted, over n elements, a multiple of TPI_LANES, of the block that begins `done`
 * elements after element 0. */
TPI_ISA_DECLARE(void, tpi_register_run, (int64_t n, int64_t done, int nops, const tpi_register_op *ops));
/* The same where n is a multiple of TPI_REGISTER_LANES, and what the accumulator holds in the end is not stored:
 * element i goes into lanes[i % TPI_REGISTER_LANES], by addition or as the larger of the two, as in kernels of sums and
 * maxima (opgen's fold_stretch_sum_f32). */
enum { TPI_REGISTER_LANES = 2 * TPI_LANES };
TPI_ISA_DECLARE(void, tpi_register_fold,
                (tpi_fold_end end, int64_t n, int64_t done, int nops, const tpi_register_op *ops, float *lanes));
/* One half of the lanes on the other until one is left, as those kernels do. */
TPI_ISA_DECLARE(float, tpi_register_total, (tpi_fold_end end, const float *lanes));
#endif
