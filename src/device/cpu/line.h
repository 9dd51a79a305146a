/* Lines: runs of cheap steps of a block program, over floats, that pass from one to the next in registers instead of
 * through blocks. A line is a list for a machine with one accumulator of some vectors: it is loaded, computed with what
 * stands in memory or with a number, and stored. Steps round as their kernels do. */
#ifndef TPI_LINE_H
#define TPI_LINE_H
#include "device/cpu/isa.h"
#include "device/program.h"

/* With a number in place of memory: the code plus TPI_LINE_NUMBER. */
typedef enum tpi_line_code {
    TPI_LINE_NONE,
    TPI_LINE_ADD,
    TPI_LINE_SUB,
    TPI_LINE_FROM /* memory less the accumulator */,
    TPI_LINE_MUL,
    TPI_LINE_DIV,
    TPI_LINE_INTO /* memory over it */,
    TPI_LINE_MAX,
    TPI_LINE_LARGER,
    TPI_LINE_MIN,
    TPI_LINE_SMALLER, /* of the accumulator and memory; LARGER, SMALLER: of memory and the accumulator */
    TPI_LINE_NUMBER,
    TPI_LINE_RELU = 2 * TPI_LINE_NUMBER,
    TPI_LINE_LEAKY /* relu with the number as its slope */,
    TPI_LINE_BETWEEN /* LARGER with a number, SMALLER with another: no code of an operation */,
    TPI_LINE_NEG,
    TPI_LINE_ABS,
    TPI_LINE_SQUARE,
    TPI_LINE_LOAD,
    TPI_LINE_STORE
} tpi_line_code;

typedef struct tpi_line_op {
    uint8_t code; /* TPI_LINE_NONE ends a line */
    float number;
    char *at;     /* for element 0 */
    int64_t move; /* bytes to the next block's element: 0 for what stays in its block */
    int value;    /* of the program, -1: none; where that stands is for whoever draws the line */
} tpi_line_op;

enum {
    TPI_LINE_OPS = 5 * TPI_PROGRAM_STEPS
}; /* all lines of a program have room in as many: a step takes four at most, and two steps share an end */

/* nops operations, the end not counted, over n elements, a multiple of TPI_LANES, of the block that begins `done`
 * elements after element 0. */
TPI_ISA_DECLARE(void, tpi_line_run, (int64_t n, int64_t done, int nops, const tpi_line_op *ops));
/* The same where n is a multiple of TPI_LINE_SUMS, and what the accumulator holds in the end is not stored: element i
 * goes into lanes[i % TPI_LINE_SUMS], by addition or as the larger of the two, as in kernels of sums and maxima
 * (opgen's fold_stretch_sum_f32). */
enum { TPI_LINE_SUMS = 2 * TPI_LANES };
typedef enum tpi_line_end { TPI_LINE_STORES, TPI_LINE_ENDS_IN_SUM, TPI_LINE_ENDS_IN_MAX } tpi_line_end;
TPI_ISA_DECLARE(void, tpi_line_fold,
                (tpi_line_end end, int64_t n, int64_t done, int nops, const tpi_line_op *ops, float *lanes));
TPI_ISA_DECLARE(float, tpi_line_total,
                (tpi_line_end end,
                 const float *lanes)); /* one half on the other until one is left, as those kernels do */
#endif
