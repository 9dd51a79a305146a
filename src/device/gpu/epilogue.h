/* A native's side of a prologue and of an epilogue (device/epilogue.h), on a GPU. A kernel that may have an epilogue
 * has in its text
 *
 *     EPILOGUE_ARGUMENTS        behind its last argument
 *     EPILOGUE_WRITE(at, y)     behind or, where EPILOGUE_KEEPS is 0, in the place of writing VEC neighbours of the
 *                               result: they are y, in storage type, and go to element `at` and on
 *
 * which kernels/epilogue.h makes nothing of where there is none. It includes rounding.h with and without, so that its
 * own bits are the same. One that may have a prologue has PROLOGUE_ARGUMENTS behind its last argument, before the
 * epilogue's; where PROLOGUE is 1, PROLOGUE_READ(at) gives VEC neighbours of the argument from element `at` on, in
 * storage type, as the member v of a structure of type PROLOGUE_PIECE. */
#ifndef TPI_GPU_EPILOGUE_H
#define TPI_GPU_EPILOGUE_H
#include "device/epilogue.h"
#include "device/gpu/driver.h"

/* The offer of a prologue that makes `argument`, or of an epilogue for `result`, if a kernel that moves `vector`
 * elements at a time can run it; NULL: there is none. neighbours: may be NULL. */
tpi_neighbour *tpi_gpu_prologue_for(const tpi_neighbours *neighbours, const tp_tensor *argument, int vector);
tpi_neighbour *tpi_gpu_epilogue_for(const tpi_neighbours *neighbours, const tp_tensor *result, int vector);

/* Its operators' text, before the lines that define the kernel's words, and what calls them, behind these (VEC is one
 * of them). b: may be NULL. */
bool tpi_gpu_put_neighbour_program(tpi_text *t, const tpi_neighbour *b);
bool tpi_gpu_put_neighbour(tpi_text *t, const tpi_neighbour *b);
uint64_t tpi_gpu_neighbour_form(const tpi_neighbour *b); /* what the text depends on */

/* A program's text with words that begin with pre_, so that a kernel's own, or an epilogue's, may stand beside it. */
bool tpi_gpu_put_program_before(tpi_text *t, const tpi_program *p);

/* Appends the kernel's arguments to args, and returns how many they are. params: memory for those that come by value.
 */
enum { TPI_GPU_NEIGHBOUR_ARGS = TPI_MAX_OPERANDS + 1 };
typedef struct tpi_gpu_neighbour_params {
    tpi_param p[TPI_PROGRAM_NUMBERS];
} tpi_gpu_neighbour_params;
int tpi_gpu_neighbour_args(const tpi_neighbour *b, tpi_gpu_arg *args, tpi_gpu_neighbour_params *params);
#endif
