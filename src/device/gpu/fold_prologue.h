/* Folds whose elements a program makes (device/block_program.h), on GPUs. The kernels of kernels/fold.h read x through
 *
 *     FED_ARGUMENTS     in the place of x's own argument
 *     fed_pack(at)      VEC neighbours of x from element `at` on, as a pack_t
 *     fed_one(at)       element `at` of x, in storage type
 *
 * where FED is 1. These compute the elements, and write those of the program's results that have memory. */
#ifndef TPI_GPU_FOLD_PROLOGUE_H
#define TPI_GPU_FOLD_PROLOGUE_H
#include "device/gpu/driver.h"
#include "device/block_program.h"

typedef enum tpi_gpu_fold_prologue_way {
    TPI_FEED_PIECES, /* lies as x does, and VEC elements can be moved at a time */
    TPI_FEED_ALIKE,  /* lies as x does */
    TPI_FEED_SINGLE, /* one element for all positions */
    /* These have a place of their own, which follows from the coordinates of x's element: */
    TPI_FEED_RUNS,  /* VEC neighbours of x have VEC neighbours here, which can be moved at a time */
    TPI_FEED_SAME,  /* VEC neighbours of x have the same element */
    TPI_FEED_PLACED /* anything else */
} tpi_gpu_fold_prologue_way;

enum { TPI_GPU_FOLD_PROLOGUE_DIMS = 8, TPI_GPU_FOLD_PROLOGUE_ARGS = TPI_MAX_OPERANDS + 2 };

typedef struct tpi_gpu_fold_prologue {
    const tpi_fold_prologue *feed;
    uint8_t way[TPI_MAX_OPERANDS]; /* tpi_gpu_fold_prologue_way; depends on VEC */
    int vec, nplaced;
    bool whole_runs; /* VEC neighbours never cross an end of the fastest dim */
    bool wide;       /* 64-bit positions */
    int64_t places[TPI_GPU_FOLD_PROLOGUE_DIMS * (3 + TPI_MAX_OPERANDS)]; /* fed_places_t of the text */
    tpi_param params[TPI_PROGRAM_NUMBERS];
} tpi_gpu_fold_prologue;

/* Can kernels read the program's elements as they make them? x and all results must lie the same dense way. */
bool tpi_gpu_fold_prologue_begin(tpi_gpu_fold_prologue *f, const tpi_fold_prologue *feed);
void tpi_gpu_fold_prologue_settle(tpi_gpu_fold_prologue *f, int vec,
                                  bool wide);                        /* once VEC and the size of positions are known */
uint64_t tpi_gpu_fold_prologue_form(const tpi_gpu_fold_prologue *f); /* what the text depends on */
bool tpi_gpu_put_fold_prologue(tpi_text *t,
                               const tpi_gpu_fold_prologue *f); /* after axes.h's words and the fold's own functions */
int tpi_gpu_fold_prologue_args(tpi_gpu_fold_prologue *f, tpi_gpu_arg *args);
#endif
