/* What graphs may ask of natives' kernels: the `prologue`, `epilogue` and `any_float` lines of the tables, in a list
 * that opgen writes. */
#ifndef TPI_KERNEL_FACTS_H
#define TPI_KERNEL_FACTS_H
#include <taper/call.h>
#include "device/epilogue.h"

typedef struct tpi_kernel_facts {
    const tp_operator *op; /* NULL: the list's end */
    int prologue; /* the argument that a GPU's kernel may compute as it reads it (device/epilogue.h); -1: none */
    int epilogue; /* the result over which a GPU's kernel may run a program of maps (device/epilogue.h); -1: none */
    uint64_t any_float; /* bit i: argument i is read in any floating dtype, as if it were converted first */
    /* op->invoke with the maps before and behind the call; NULL: its kernels take none. */
    bool (*invoke)(const tp_value *args, tp_value *results, tpi_neighbours *neighbours);
} tpi_kernel_facts;
extern const tpi_kernel_facts tpi_kernel_facts_list[];

static inline const tpi_kernel_facts *tpi_kernel_facts_of(const tp_operator *op) { /* NULL: nothing is known */
    for (const tpi_kernel_facts *f = tpi_kernel_facts_list; f->op; f++)
        if (f->op == op) return f;
    return NULL;
}

/* The number of that result, -1: none. */
static inline int tpi_epilogue_result(const tp_operator *op) {
    const tpi_kernel_facts *f = tpi_kernel_facts_of(op);
    return f ? f->epilogue : -1;
}
#endif
