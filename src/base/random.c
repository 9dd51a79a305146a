/* The generator object: seeding, words, uniforms, normals, in PyTorch's order. Makes no tensors (src/ops/random does).
 */
#include "base/random.h"
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <taper/device.h>
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"

enum { MIDDLE = 397 };
#define DEFAULT_SEED 67280421310721ULL /* what PyTorch starts from when nobody seeds */

/* ---- mt19937 ---- */
static void seed_words(tp_generator *g, uint64_t seed) {
    g->seed = seed;
    g->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < TPI_MT_WORDS; i++) g->word[i] = 1812433253u * (g->word[i - 1] ^ g->word[i - 1] >> 30) + i;
    g->left = 1;
    g->next = 0;
    g->has_normal = g->has_float_normal = false;
    g->normal = 0;
    g->float_normal = 0;
    g->offset = 0;
}

static inline uint32_t twist(uint32_t high, uint32_t low, uint32_t far) {
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ y >> 1 ^ (low & 1 ? 0x9908b0dfu : 0);
}

static void refill_state(tp_generator *g) {
    uint32_t *w = g->word;
    int i = 0;
    for (; i < TPI_MT_WORDS - MIDDLE; i++) w[i] = twist(w[i], w[i + 1], w[i + MIDDLE]);
    for (; i < TPI_MT_WORDS - 1; i++) w[i] = twist(w[i], w[i + 1], w[i + MIDDLE - TPI_MT_WORDS]);
    w[i] = twist(w[i], w[0], w[MIDDLE - 1]);
    g->left = TPI_MT_WORDS;
    g->next = 0;
}

static inline uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* ---- Philox 4x32, ten rounds: words by their number ---- */
void tpi_philox_group(uint64_t seed, uint64_t counter, uint32_t out[4]) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
             c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t a = 0xd2511f53u * (uint64_t)c[0], b = 0xcd9e8d57u * (uint64_t)c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ key[1],
                            (uint32_t)a};
        memcpy(c, next, sizeof c);
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    memcpy(out, c, sizeof c);
}

static uint32_t philox_word(tp_generator *g) {
    if (g->offset % 4 == 0) tpi_philox_group(g->seed, g->offset / 4, g->group);
    return g->group[g->offset++ % 4];
}

static void philox_seek(tp_generator *g, uint64_t offset) {
    g->offset = offset;
    if (offset % 4) tpi_philox_group(g->seed, offset / 4, g->group);
}

uint32_t tpi_random32(tp_generator *g) {
    if (g->device.type > TP_CPU) return philox_word(g);
    if (--g->left == 0) refill_state(g);
    return temper(g->word[g->next++]);
}

uint64_t tpi_random64(tp_generator *g) {
    uint64_t high = tpi_random32(g);
    return high << 32 | tpi_random32(g);
}

void tpi_random_words(tp_generator *g, int64_t n, uint32_t *out) {
    if (g->device.type > TP_CPU) {
        for (int64_t i = 0; i < n; i++) out[i] = philox_word(g);
        return;
    }
    while (n > 0) {
        if (--g->left == 0) refill_state(g);
        int64_t run = n < g->left ? n : g->left; /* the words from `next` to the end */
        const uint32_t *word = g->word + g->next;
        for (int64_t i = 0; i < run; i++) out[i] = temper(word[i]);
        g->next += (uint32_t)run;
        g->left -= (int)run - 1;
        out += run;
        n -= run;
    }
}

double tpi_normal_double(tp_generator *g) {
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double angle = 2 * M_PI * tpi_uniform_double(g);
    double radius = sqrt(-2 * log1p(-tpi_uniform_double(g)));
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}

/* ---- The object ---- */
static struct tp_generator standard = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t standard_once = PTHREAD_ONCE_INIT;

/* A child must not inherit a lock that a thread it does not have holds. Generators made by the user are the user's to
 * guard. */
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

/* ---- Devices' generators: the default ones live as long as the process ---- */
enum { MAX_DEVICES = 64 };
static struct tp_generator of_device[TP_DEVICE_TYPES][MAX_DEVICES];
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void start_devices(void) {
    for (int type = 0; type < TP_DEVICE_TYPES; type++)
        for (int i = 0; i < MAX_DEVICES; i++) {
            tp_generator *g = &of_device[type][i];
            pthread_mutex_init(&g->lock, NULL);
            g->device = (tp_device){(int16_t)type, (int16_t)i};
            g->seed = DEFAULT_SEED;
        }
}

tp_generator *tp_default_generator_of(tp_device device) {
    if (device.type <= TP_CPU) return tp_default_generator();
    if (device.type >= TP_DEVICE_TYPES || device.index < 0 || device.index >= MAX_DEVICES)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'device': expected a device with an index below %d, got type %d, index %d",
                        MAX_DEVICES, device.type, device.index);
    pthread_once(&devices_once, start_devices);
    return &of_device[device.type][device.index];
}

static bool is_default(const tp_generator *g) {
    return g == &standard || (g >= &of_device[0][0] && g < &of_device[0][0] + TP_DEVICE_TYPES * MAX_DEVICES);
}

tp_device tp_generator_device(const tp_generator *g) {
    if (TPI_ENDED(g, "a generator")) return (tp_device){0};
    return g && g->device.type > TP_CPU ? g->device : (tp_device){TP_CPU, 0};
}
int64_t tp_generator_offset(const tp_generator *g) {
    if (TPI_ENDED(g, "a generator")) return -1;
    return g && g->device.type > TP_CPU ? (int64_t)g->offset : -1;
}

bool tp_generator_set_offset(tp_generator *g, int64_t offset) {
    if (TPI_ENDED(g, "a generator")) return false;
    if (!g || g->device.type <= TP_CPU)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'g': expected the generator of a device, got the CPU's");
    if (offset < 0 || offset % 4)
        return tpi_refuse(TP_ERR_VALUE, "argument 'offset': expected a multiple of 4, got %lld", (long long)offset);
    tpi_generator_lock(g);
    philox_seek(g, (uint64_t)offset);
    tpi_generator_unlock(g);
    return true;
}

bool tpi_philox_reserve(tp_generator *g, tp_device device, uint64_t words, tpi_philox *out) {
    if (device.type == TP_META) { /* no element takes one */
        *out = (tpi_philox){0, 0};
        return true;
    }
    if (!g && !(g = tp_default_generator_of(device))) return false;
    if (g->device.type != device.type)
        return tpi_refuse(TP_ERR_RUNTIME, "Expected a '%s' device type for generator but found '%s'",
                          tp_device_type_name((tp_device_type)device.type),
                          tp_device_type_name((tp_device_type)tp_generator_device(g).type));
    tpi_generator_lock(g);
    uint64_t first = (g->offset + 3) / 4;
    *out = (tpi_philox){g->seed, first};
    philox_seek(g, 4 * (first + (words + 3) / 4));
    tpi_generator_unlock(g);
    return true;
}

void tpi_philox_rewind(tp_device device, uint64_t offset) {
    tp_generator *g = tp_default_generator_of(device);
    if (!g) return;
    tpi_generator_lock(g);
    philox_seek(g, 4 * offset);
    tpi_generator_unlock(g);
}

tp_generator *tp_generator_new_on(tp_device device, uint64_t seed) {
    tp_generator *g = tp_generator_new(seed);
    if (g && device.type > TP_CPU) g->device = device;
    return g;
}

tp_generator *tp_generator_new(uint64_t seed) {
    tp_generator *g = tpi_new0(sizeof *g);
    if (!g) return NULL;
    if (pthread_mutex_init(&g->lock, NULL) != 0) {
        tpi_delete(g, sizeof *g);
        return tpi_fail(TP_ERR_RUNTIME, "the system could not make a lock for the generator");
    }
    seed_words(g, seed);
    tpi_handle_made(g, "generator");
    return g;
}

void tp_generator_free(tp_generator *g) {
    if (!TPI_ENDS(g, "g", "a generator") || is_default(g)) return;
    pthread_mutex_destroy(&g->lock);
    tpi_handle_delete(g, sizeof *g);
}

tp_generator *tpi_generator_lock(tp_generator *g) {
    if (!g) g = tp_default_generator();
    pthread_mutex_lock(&g->lock);
    return g;
}

void tpi_generator_unlock(tp_generator *g) { pthread_mutex_unlock(&g->lock); }

void tp_generator_seed(tp_generator *g, uint64_t seed) {
    if (TPI_ENDED(g, "a generator")) return;
    g = tpi_generator_lock(g);
    seed_words(g, seed);
    tpi_generator_unlock(g);
}

void tp_manual_seed(uint64_t seed) {
    tp_generator_seed(tp_default_generator(), seed);
    pthread_once(&devices_once, start_devices);
    for (int type = TP_CPU + 1; type < TP_DEVICE_TYPES; type++)
        for (int i = 0; i < MAX_DEVICES; i++) {
            tp_generator *g = &of_device[type][i];
            pthread_mutex_lock(&g->lock);
            g->seed = seed;
            g->offset = 0;
            g->has_normal = false;
            pthread_mutex_unlock(&g->lock);
        }
}

bool tp_generator_seed_anew(tp_generator *g, uint64_t *seed) {
    if (TPI_ENDED(g, "a generator")) return false;
    uint64_t fresh;
    if (getrandom(&fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
        return tpi_refuse(TP_ERR_RUNTIME, "the system gave no entropy for a seed");
    tp_generator_seed(g, fresh);
    if (seed) *seed = fresh;
    return true;
}

tp_generator *tp_generator_clone(const tp_generator *of) {
    if (TPI_ENDED(of, "a generator")) return NULL;
    tp_generator *copy = tp_generator_new(0);
    if (!copy) return NULL;
    tp_generator *g = tpi_generator_lock((tp_generator *)of);
    copy->seed = g->seed;
    copy->left = g->left;
    copy->next = g->next;
    memcpy(copy->word, g->word, sizeof copy->word);
    copy->has_normal = g->has_normal;
    copy->normal = g->normal;
    copy->has_float_normal = g->has_float_normal;
    copy->float_normal = g->float_normal;
    copy->device = g->device;
    philox_seek(copy, g->offset);
    tpi_generator_unlock(g);
    return copy;
}

uint64_t tp_generator_initial_seed(const tp_generator *g) {
    if (TPI_ENDED(g, "a generator")) return 0;
    return (g ? g : tp_default_generator())->seed;
}
