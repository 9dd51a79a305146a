/* A bag for the temporaries of a formula written in C over other operators: what is put in is released at the end, at
 * once. A NULL (an operator that failed) goes through, since operators given NULL return NULL; so a formula is checked
 * by its last value.
 *
 *     tpi_temporaries bag = {0};
 *     tp_tensor *inner = tpi_put(&bag, tpo_mm(a, b));
 *     return tpi_release_temporaries(&bag, tpo_mm(inner, c));
 */
#ifndef TPI_TEMPORARIES_H
#define TPI_TEMPORARIES_H
#include "tensor/tensor.h"

enum { TPI_BAG_ROOM = 48 };

typedef struct tpi_temporaries {
    int count;
    tp_tensor *held[TPI_BAG_ROOM];
} tpi_temporaries;

static inline tp_tensor *tpi_put(tpi_temporaries *bag, tp_tensor *owned) {
    if (!owned) return NULL;
    if (bag->count ==
        TPI_BAG_ROOM) { /* a formula longer than the bag is a mistake of the library's, not of the caller's */
        tpi_release(owned);
        return tpi_fail(TP_ERR_RUNTIME, "a formula has more than %d temporaries", TPI_BAG_ROOM);
    }
    return bag->held[bag->count++] = owned;
}

/* Releases everything in the bag and passes the result on. */
static inline tp_tensor *tpi_release_temporaries(tpi_temporaries *bag, tp_tensor *result) {
    for (int i = 0; i < bag->count; i++) tpi_release(bag->held[i]);
    bag->count = 0;
    return result;
}
#endif
