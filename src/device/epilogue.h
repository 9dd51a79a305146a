/* Epilogues: maps that follow a native's result and read it position by position. A graph offers them to the native as
 * a program; the native's kernel may run it on the elements that it is about to write, so that they need not travel to
 * memory and back. Who does not take the offer need not know of it: the graph then runs the program by itself. The bits
 * are the same both ways: the program sees elements as the result's tensor would hold them.
 *
 * A prologue is the same before an argument: maps that make it. The argument's tensor has memory, and no elements yet;
 * `keeps` asks to write them. A native that does not take the offer computes nonsense, and is called again when they
 * are there. */
#ifndef TPI_EPILOGUE_H
#define TPI_EPILOGUE_H
#include "device/block_program.h"

typedef struct tpi_neighbour {
    const tpi_program *program;
    tp_tensor *operands[TPI_MAX_OPERANDS]; /* the program's, results first; an epilogue's that is the native's result is
                                              NULL */
    int fed;                               /* the number of the one that the native and the program share */
    const tp_tensor *like;                 /* looks as that one must */
    bool before;                           /* a prologue */
    bool keeps;                            /* others read the shared one: it must be written too */
    bool taken;                            /* the native's word: it was run */
} tpi_neighbour;

/* What a native with `prologue` or `epilogue` in its stanza is given: NULL, or an offer of either or both. */
typedef struct tpi_neighbours {
    tpi_neighbour *prologue, *epilogue;
} tpi_neighbours;
#endif
