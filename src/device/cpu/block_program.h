/* Running a block program over any range of its positions: for its own driver (block_program.c), and for reductions
 * that are fed by one (fold.c). */
#ifndef TPI_CPU_PROGRAM_H
#define TPI_CPU_PROGRAM_H
#include "device/cpu/convert.h"
#include "device/cpu/register_program.h"
#include "device/block_program.h"

enum {
    TPI_PROGRAM_BLOCK_BYTES = TPI_BLOCK_BYTES + 192
}; /* blocks do not begin at the same place of a page, where they would be in each other's way */

typedef struct tpi_program_job {
    const tpi_program *program;
    const tpi_plan *plan;
    tpi_block_fn fn[TPI_PROGRAM_STEPS];
    int64_t block;                   /* elements of a block */
    bool packed[TPI_MAX_OPERANDS];   /* contiguous over the whole plan */
    bool constant[TPI_MAX_OPERANDS]; /* one element for the whole plan */
    bool repeats[TPI_MAX_OPERANDS];  /* the same run again and again: a bias along the last dim */
    bool long_runs;
    bool straight; /* every operand is contiguous or one element, and no kernel wants another dtype than a value has */
    bool straight_runs; /* the same within each run, and runs are long */
    int aside;          /* an operand that is written to memory of the range's, not of the plan's; -1: none */
} tpi_program_job;

typedef struct tpi_program_scratch {
    _Alignas(64) char converted[TPI_PROGRAM_IN + 1][TPI_PROGRAM_BLOCK_BYTES];
    const char *filled[TPI_MAX_OPERANDS]; /* what fills the operand's block, if it is still of use: the broadcast
                                             element, or the first of a run that repeats */
    int64_t have[TPI_MAX_OPERANDS];       /* elements of the latter */
    char *at[TPI_PROGRAM_STEPS + TPI_MAX_OPERANDS]; /* where each value is now */
    char *aside;                                    /* where element 0 of the operand aside would be */
    _Alignas(64) char block[TPI_PROGRAM_BLOCKS][TPI_PROGRAM_BLOCK_BYTES]; /* a scratch of tpi_program_scratch_bytes()
                                                                      has those alone that its program uses */
} tpi_program_scratch;

bool tpi_program_prepare(tpi_program_job *job, const tpi_program *program, const tpi_plan *plan,
                         int aside); /* false: an error is pending */
size_t tpi_program_scratch_bytes(const tpi_program_job *job);
void tpi_program_begin(const tpi_program_job *job, tpi_program_scratch *s); /* once per scratch */
/* Positions at .. end; the operand aside gets its elements at `to`. */
void tpi_program_range(const tpi_program_job *job, tpi_program_scratch *s, int64_t at, int64_t end, char *to);

/* A program that runs in registers as a whole, and whose last value is the operand aside, can be summed or searched for
 * its largest element without that reaching memory. */
typedef struct tpi_register_program {
    int nops; /* 0: not written yet */
    tpi_register_op ops[TPI_REGISTER_OPS];
} tpi_register_program;
bool tpi_program_can_fold(const tpi_program_job *job, int64_t n); /* n positions at a time */
/* Puts n positions from `at` on into *state, with the bits of the kernels of sums and maxima. False, and nothing is
 * done: they do not lie together. */
bool tpi_program_fold(const tpi_program_job *job, tpi_program_scratch *s, tpi_register_program *registers,
                      tpi_fold_end end, int64_t at, int64_t n, float *state);
#endif
