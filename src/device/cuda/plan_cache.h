/* Plans that a library made, by all that they depend on: a fixed number of places, found by a hash of the key's bytes.
 * The caller locks. */
#ifndef TPI_CUDA_PLANS_H
#define TPI_CUDA_PLANS_H
#include "device/cuda/driver_api.h"

enum { TPI_PLANS = 4096 };
typedef struct tpi_plans {
    size_t key_bytes;         /* a multiple of 8; keys are compared as bytes, so padding must be cleared */
    void (*drop)(void *plan); /* of a plan that another one replaces */
    void **plan;              /* NULL entries are free */
    char *keys;
} tpi_plans;

/* The place of the key's plan: NULL in it means that there is none yet, and that the caller makes it. NULL and an error
 * without memory. */
void **tpi_plans_slot(tpi_plans *plans, const void *key);
#endif
