/* The generator object: seeding, words, uniforms, normals, in PyTorch's order. Makes no tensors (src/ops/random*.c do). */
#include "base/random.h"
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include "base/error.h"
#include "base/memory.h"

enum { MIDDLE = 397 };
#define DEFAULT_SEED 67280421310721ULL /* what PyTorch starts from when nobody seeds */

/* ---- mt19937 ------------------------------------------------------------------------------------------------------------- */
static void seed_words(tp_generator *g, uint64_t seed) {
    g->seed = seed;
    g->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < TPI_MT_WORDS; i++) g->word[i] = 1812433253u * (g->word[i - 1] ^ g->word[i - 1] >> 30) + i;
    g->left = 1, g->next = 0;
    g->has_normal = g->has_float_normal = false;
    g->normal = 0, g->float_normal = 0;
}

static inline uint32_t twist(uint32_t high, uint32_t low, uint32_t far) {
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ y >> 1 ^ (low & 1 ? 0x9908b0dfu : 0);
}

static void turn(tp_generator *g) {
    uint32_t *w = g->word;
    int i = 0;
    for (; i < TPI_MT_WORDS - MIDDLE; i++) w[i] = twist(w[i], w[i + 1], w[i + MIDDLE]);
    for (; i < TPI_MT_WORDS - 1; i++) w[i] = twist(w[i], w[i + 1], w[i + MIDDLE - TPI_MT_WORDS]);
    w[i] = twist(w[i], w[0], w[MIDDLE - 1]);
    g->left = TPI_MT_WORDS, g->next = 0;
}

static inline uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

uint32_t tpi_random32(tp_generator *g) {
    if (--g->left == 0) turn(g);
    return temper(g->word[g->next++]);
}

uint64_t tpi_random64(tp_generator *g) {
    uint64_t high = tpi_random32(g);
    return high << 32 | tpi_random32(g);
}

void tpi_random_words(tp_generator *g, int64_t n, uint32_t *out) {
    while (n > 0) {
        if (--g->left == 0) turn(g);
        int64_t run = n < g->left ? n : g->left; /* the words from `next` to the end */
        const uint32_t *word = g->word + g->next;
        for (int64_t i = 0; i < run; i++) out[i] = temper(word[i]);
        g->next += (uint32_t)run, g->left -= (int)run - 1;
        out += run, n -= run;
    }
}

double tpi_normal_double(tp_generator *g) {
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double turn_by = 2 * M_PI * tpi_uniform_double(g);
    double radius = sqrt(-2 * log1p(-tpi_uniform_double(g)));
    g->normal = radius * sin(turn_by);
    g->has_normal = true;
    return radius * cos(turn_by);
}

/* ---- The object ------------------------------------------------------------------------------------------------------------ */
static struct tp_generator standard = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t standard_once = PTHREAD_ONCE_INIT;

/* A child must not inherit a lock that a thread it does not have holds. Generators made by the user are the user's to guard. */
static void before_fork(void) { pthread_mutex_lock(&standard.lock); }
static void after_fork(void) { pthread_mutex_unlock(&standard.lock); }

static void start_standard(void) {
    seed_words(&standard, DEFAULT_SEED);
    pthread_atfork(before_fork, after_fork, after_fork);
}

tp_generator *tp_default_generator(void) {
    pthread_once(&standard_once, start_standard);
    return &standard;
}

tp_generator *tp_generator_new(uint64_t seed) {
    tp_generator *g = tpi_new0(sizeof *g);
    if (!g) return NULL;
    if (pthread_mutex_init(&g->lock, NULL) != 0) {
        tpi_delete(g, sizeof *g);
        return tpi_fail(TP_ERR_RUNTIME, "the system could not make a lock for the generator");
    }
    seed_words(g, seed);
    return g;
}

void tp_generator_free(tp_generator *g) {
    if (!g || g == &standard) return;
    pthread_mutex_destroy(&g->lock);
    tpi_delete(g, sizeof *g);
}

tp_generator *tpi_generator_lock(tp_generator *g) {
    if (!g) g = tp_default_generator();
    pthread_mutex_lock(&g->lock);
    return g;
}

void tpi_generator_unlock(tp_generator *g) { pthread_mutex_unlock(&g->lock); }

void tp_generator_seed(tp_generator *g, uint64_t seed) {
    g = tpi_generator_lock(g);
    seed_words(g, seed);
    tpi_generator_unlock(g);
}

void tp_manual_seed(uint64_t seed) { tp_generator_seed(NULL, seed); }

bool tp_generator_seed_anew(tp_generator *g, uint64_t *seed) {
    uint64_t fresh;
    if (getrandom(&fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh) return tpi_refuse(TP_ERR_RUNTIME, "the system gave no entropy for a seed");
    tp_generator_seed(g, fresh);
    if (seed) *seed = fresh;
    return true;
}

tp_generator *tp_generator_clone(const tp_generator *of) {
    tp_generator *copy = tp_generator_new(0);
    if (!copy) return NULL;
    tp_generator *g = tpi_generator_lock((tp_generator *)of);
    copy->seed = g->seed, copy->left = g->left, copy->next = g->next;
    memcpy(copy->word, g->word, sizeof copy->word);
    copy->has_normal = g->has_normal, copy->normal = g->normal;
    copy->has_float_normal = g->has_float_normal, copy->float_normal = g->float_normal;
    tpi_generator_unlock(g);
    return copy;
}

uint64_t tp_generator_initial_seed(const tp_generator *g) { return (g ? g : tp_default_generator())->seed; }
