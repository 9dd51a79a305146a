/* The table of plans: a key has eight places; where all are taken, the first is given up. */
#include "device/cuda/plan_cache.h"
#include <string.h>

enum { TRIES = 8 };

static uint64_t hash_of(const void *key, size_t bytes) {
    uint64_t hash = 0, word;
    for (size_t i = 0; i < bytes; i += 8) {
        memcpy(&word, (const char *)key + i, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static bool start(tpi_plans *p) {
    p->plan = tpi_new0(TPI_PLANS * sizeof *p->plan);
    p->keys = p->plan ? tpi_new0(TPI_PLANS * p->key_bytes) : NULL;
    if (p->keys) return true;
    if (p->plan) tpi_delete(p->plan, TPI_PLANS * sizeof *p->plan);
    p->plan = NULL;
    return false;
}

void **tpi_plans_slot(tpi_plans *p, const void *key) {
    if (!p->plan && !start(p)) return NULL;
    uint64_t hash = hash_of(key, p->key_bytes);
    int at = (int)(hash % TPI_PLANS);
    for (int i = 0; i < TRIES; i++) {
        int slot = (int)((hash + (uint64_t)i) % TPI_PLANS);
        if (p->plan[slot] && memcmp(p->keys + (size_t)slot * p->key_bytes, key, p->key_bytes) == 0)
            return &p->plan[slot];
        if (!p->plan[slot]) {
            at = slot;
            break;
        }
    }
    if (p->plan[at]) {
        p->drop(p->plan[at]);
        p->plan[at] = NULL;
    }
    memcpy(p->keys + (size_t)at * p->key_bytes, key, p->key_bytes);
    return &p->plan[at];
}
