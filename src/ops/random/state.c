/* A generator's state as a tensor, in the 5056 bytes of PyTorch's get_rng_state, so that either library reads the
 * other's. */
#include <string.h>
#include "base/random.h"
#include "tensor/tensor.h"

typedef struct saved_state {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next;
    uint64_t word[TPI_MT_WORDS]; /* 32 bits each, in 64 */
    double normal_x, normal_y, normal_rho;
    int32_t has_normal; /* normal_y holds one */
    int32_t unused;
    float float_normal;
    uint8_t has_float_normal, unused_too[3];
} saved_state;
_Static_assert(sizeof(saved_state) == 5056, "PyTorch's layout");

/* ---- A device's: the seed and the place, as PyTorch's CUDA generators save them ---- */
typedef struct device_state {
    uint64_t seed, offset;
} device_state;

static bool is_device(const tp_generator *g) { return g && g->device.type > TP_CPU; }

static tp_tensor *device_get_state(const tp_generator *g) {
    tp_tensor *t = tpi_empty(TP_INTS(sizeof(device_state)), TP_UINT8, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    memcpy(t->data, &(device_state){g->seed, g->offset}, sizeof(device_state));
    return tpi_to_scope(t);
}

static bool device_set_state(tp_generator *g, const tp_tensor *state) {
    device_state s;
    if (!tp_copy_out(state, &s, sizeof s)) return false;
    tp_generator_seed(g, s.seed);
    return tp_generator_set_offset(g, (int64_t)((s.offset + 3) / 4 * 4));
}

/* ---- The CPU's ---- */
tp_tensor *tp_generator_get_state(const tp_generator *generator) {
    if (TPI_ENDED(generator, "a generator")) return NULL;
    if (is_device(generator)) return device_get_state(generator);
    tp_tensor *t = tpi_empty(TP_INTS(sizeof(saved_state)), TP_UINT8, (tp_device){TP_CPU, 0});
    if (!t) return NULL;
    saved_state s;
    memset(&s, 0, sizeof s);
    tp_generator *g = tpi_generator_lock((tp_generator *)generator);
    s.seed = g->seed;
    s.left = g->left;
    s.seeded = 1;
    s.next = g->next;
    for (int i = 0; i < TPI_MT_WORDS; i++) s.word[i] = g->word[i];
    if (g->has_normal) {
        s.has_normal = 1;
        s.normal_y = g->normal;
    }
    if (g->has_float_normal) {
        s.has_float_normal = 1;
        s.float_normal = g->float_normal;
    }
    tpi_generator_unlock(g);
    memcpy(t->data, &s, sizeof s);
    return tpi_to_scope(t);
}

static bool sane(const saved_state *s) {
    return s->left > 0 && s->left <= TPI_MT_WORDS && s->next <= TPI_MT_WORDS && s->seeded &&
           (s->left == 1 || s->left + (int64_t)s->next == TPI_MT_WORDS + 1);
}

bool tp_generator_set_state(tp_generator *generator, const tp_tensor *state) {
    if (TPI_ENDED(generator, "a generator") || TPI_ENDED(state, "a tensor")) return false;
    TPI_STOP_ON_ERROR(false);
    if (!state)
        return tpi_refuse(TP_ERR_VALUE, "argument 'state': expected a uint8 tensor of %zu bytes, got NULL",
                          sizeof(saved_state));
    if (state->dtype != TP_UINT8)
        return tpi_refuse(TP_ERR_TYPE, "argument 'state': expected a uint8 tensor, got %s",
                          tp_dtype_name((tp_dtype)state->dtype));
    size_t expected = is_device(generator) ? sizeof(device_state) : sizeof(saved_state);
    if (state->numel != (int64_t)expected)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'state': expected %zu bytes, got %lld", expected,
                          (long long)state->numel);
    if (is_device(generator)) return device_set_state(generator, state);
    saved_state s;
    if (!tp_copy_out(state, &s, sizeof s)) return false;
    if (!sane(&s))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'state': expected the state of a generator, got other bytes");
    tp_generator *g = tpi_generator_lock(generator);
    g->seed = s.seed;
    g->left = s.left;
    g->next = (uint32_t)s.next;
    for (int i = 0; i < TPI_MT_WORDS; i++) g->word[i] = (uint32_t)s.word[i];
    g->has_normal = s.has_normal != 0;
    g->normal = s.normal_y;
    g->has_float_normal = s.has_float_normal != 0;
    g->float_normal = s.float_normal;
    tpi_generator_unlock(g);
    return true;
}
