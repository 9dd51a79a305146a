/* The random generator: one Mersenne Twister (mt19937) behind PyTorch's seeded CPU streams, or a counter (Philox) for a
 * device's. Whoever draws holds the lock from the first number of a call to its last, so that two threads that share a
 * generator get whole streams, one after the other. */
#ifndef TPI_RANDOM_H
#define TPI_RANDOM_H
#include <pthread.h>
#include <taper/random.h>
#include "base/error.h"

enum { TPI_MT_WORDS = 624 };

struct tp_generator {
    pthread_mutex_t lock;
    uint64_t seed;
    uint32_t word[TPI_MT_WORDS];
    int left;        /* words before the next turn of the crank, plus one, as PyTorch's saved states count */
    uint32_t next;   /* the next word to hand out */
    bool has_normal; /* the second normal of a pair waits for the next call */
    double normal;
    bool has_float_normal; /* part of PyTorch's saved state; no CPU stream uses it */
    float float_normal;
    tp_device device;  /* type 0 and TP_CPU: the Mersenne Twister; others: Philox */
    uint64_t offset;   /* Philox: words handed out so far */
    uint32_t group[4]; /* the four words around `offset`, if it is not a multiple of 4 */
};

/* For kernels: takes `words` (rounded up to fours) from a device generator's stream (NULL: the device's default one).
 * False: an error. */
typedef struct tpi_philox {
    uint64_t seed, offset; /* the first of them, in fours */
} tpi_philox;
bool tpi_philox_reserve(tp_generator *g, tp_device device, uint64_t words, tpi_philox *out);
void tpi_philox_rewind(tp_device device,
                       uint64_t offset); /* the device's default stream goes on from there, in fours */
void tpi_philox_group(uint64_t seed, uint64_t counter, uint32_t out[4]);

/* NULL stands for the default generator. Returns the generator, locked. */
tp_generator *tpi_generator_lock(tp_generator *g);
void tpi_generator_unlock(tp_generator *g);

/* The rest expects a locked generator. */
uint32_t tpi_random32(tp_generator *g);
uint64_t tpi_random64(tp_generator *g); /* two words, the first one high */
void tpi_random_words(tp_generator *g, int64_t n, uint32_t *out);

static inline float tpi_word_to_uniform(uint32_t word) { return (float)(word & 0xffffff) * 0x1p-24f; } /* in [0, 1) */
static inline float tpi_uniform_float(tp_generator *g) { return tpi_word_to_uniform(tpi_random32(g)); }
static inline double tpi_uniform_double(tp_generator *g) {
    return (double)(tpi_random64(g) & ((1ULL << 53) - 1)) * 0x1p-53;
}
double tpi_normal_double(tp_generator *g); /* one of a Box-Muller pair; the other is kept */
#endif
