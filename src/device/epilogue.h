/* Epilogues: maps that follow a native's result and read it position by position. A graph offers them to the native as
 * a program; the native's kernel may run it on the elements that it is about to write, so that they need not travel to
 * memory and back. Who does not take the offer need not know of it: the graph then runs the program by itself. The bits
 * are the same both ways: the program sees elements as the result's tensor would hold them. */
#ifndef TPI_EPILOGUE_H
#define TPI_EPILOGUE_H
#include "device/program.h"

typedef struct tpi_epilogue {
    const tpi_program *program;
    tp_tensor *operands[TPI_MAX_OPERANDS]; /* the program's, results first; NULL: the native's result */
    int fed;                               /* the number of that one */
    const tp_tensor *like;                 /* looks as the native's result must */
    bool keeps;                            /* others read the native's result: it must be written too */
    bool taken;                            /* the native's word: it was run */
} tpi_epilogue;

extern TPI_THREAD_LOCAL tpi_epilogue *tpi_epilogue_offered; /* NULL: none. gpu/epilogue.c */

/* A prologue is the same before an argument: maps that make it. The argument's tensor has memory, and no elements yet;
 * `keeps` asks to write them. A native that does not take the offer computes nonsense, and is called again when they
 * are there. */
typedef struct tpi_prologue {
    const tpi_program *program;
    tp_tensor *operands[TPI_MAX_OPERANDS]; /* the program's, results first */
    int fed;                               /* which of its results is the argument */
    bool keeps, taken;
} tpi_prologue;
extern TPI_THREAD_LOCAL tpi_prologue *tpi_prologue_offered;
#endif
