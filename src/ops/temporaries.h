/* The temporaries of a formula written in C over other operators: a list. What is put in is released at the end, at
 * once. A NULL (an operator that failed) goes through, since operators given NULL return NULL; so a formula is checked
 * by its last value.
 *
 *     tpi_temporaries temps = {0};
 *     tp_tensor *inner = tpi_put(&temps, tpo_mm(a, b));
 *     return tpi_release_temporaries(&temps, tpo_mm(inner, c));
 */
#ifndef TPI_TEMPORARIES_H
#define TPI_TEMPORARIES_H
#include "tensor/tensor.h"

enum { TPI_TEMPORARIES_CAPACITY = 48 };

typedef struct tpi_temporaries {
    int count;
    tp_tensor *held[TPI_TEMPORARIES_CAPACITY];
} tpi_temporaries;

static inline tp_tensor *tpi_put(tpi_temporaries *temps, tp_tensor *owned) {
    if (!owned) return NULL;
    if (temps->count == TPI_TEMPORARIES_CAPACITY) { /* a formula longer than the list is a mistake of the library's, not
                                                     of the caller's */
        tpi_release(owned);
        return tpi_fail(TP_ERR_RUNTIME, "a formula has more than %d temporaries", TPI_TEMPORARIES_CAPACITY);
    }
    return temps->held[temps->count++] = owned;
}

/* Releases all temporaries and passes the result on. */
static inline tp_tensor *tpi_release_temporaries(tpi_temporaries *temps, tp_tensor *result) {
    for (int i = 0; i < temps->count; i++) tpi_release(temps->held[i]);
    temps->count = 0;
    return result;
}
#endif
