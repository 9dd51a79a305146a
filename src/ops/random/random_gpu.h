/* Numbers of a device's Philox stream for kernels. */
#ifndef TPI_GPU_RANDOM_H
#define TPI_GPU_RANDOM_H
#include "base/random.h"
#include "ops/native_gpu.h"

typedef struct tpi_gpu_draw {
    tpi_philox stream;
    void *moved; /* where a graph under capture reads the seed and how far the stream has moved; NULL: not captured */
} tpi_gpu_draw;

/* `words` of the generator's stream (NULL: the device's default one). False: an error, or the generator is not the
 * device's. */
bool tpi_gpu_draw_words(tp_generator *g, tp_device device, uint64_t words, tpi_gpu_draw *out);
#endif
