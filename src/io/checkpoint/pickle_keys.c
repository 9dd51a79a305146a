/* Limits what hashing a pickle's keys may cost. Values may be shared, so a few bytes make a tuple that holds another
 * twice, and that one another twice, forty deep: little to keep, and endless to hash or compare. Here every value gets
 * a weight: how many values it holds if shared ones are counted each time. The weights of all keys together, and of the
 * arguments of calls, must stay in proportion to the bytes of the pickle. Nothing recurses: values to visit wait in a
 * list. */
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/pickle.h"

enum { ALLOWANCE = 1 << 24, PER_BYTE = 64, LONG_KEYS = 1 << 12, PARTS = 6 };

typedef struct visit {
    tp_saved *v;
    int64_t next; /* child */
    uint64_t weight;
} visit;

typedef struct scales {
    const tpi_pickle *p;
    visit *open;
    size_t n, capacity;
    uint64_t spent, budget;
    int64_t long_keys; /* that can be made to fall on one hash by the thousand */
} scales;

static bool is_list(const tp_saved *v) {
    return v->kind == TP_SAVED_LIST || v->kind == TP_SAVED_TUPLE || v->kind == TP_SAVED_SET || v->kind == TP_SAVED_SIZE;
}

static int64_t count_items(const tp_saved *v) { return v->kind == TP_SAVED_DICT ? 2 * v->n : is_list(v) ? v->n : 0; }

static tp_saved *child(const tp_saved *v, int64_t i) { /* NULL: none in this place */
    int64_t items = count_items(v);
    if (i < items) return v->as.items.v[i];
    tp_saved *const parts[PARTS] = {v->parts->call,  v->parts->args,  v->parts->kwargs,
                                    v->parts->state, v->parts->items, v->parts->pairs};
    return parts[i - items];
}

static bool spend(scales *s, uint64_t weight) {
    s->spent += weight;
    return s->spent <= s->budget ||
           tpi_refuse(TP_ERR_VALUE, "'%s': its pickle has keys that hold too many values", s->p->path);
}

static bool check_key(scales *s, const tp_saved *key) {
    if (key->kind == TP_SAVED_LONG && ++s->long_keys > LONG_KEYS)
        return tpi_refuse(TP_ERR_VALUE, "'%s': its pickle has too many long integers for keys", s->p->path);
    if (key->kind == TP_SAVED_TUPLE && key->weight > TPI_KEY_WEIGHT)
        return tpi_refuse(TP_ERR_VALUE, "'%s': its pickle has a tuple of too many values for a key", s->p->path);
    return key->kind != TP_SAVED_TUPLE && key->kind != TP_SAVED_OBJECT ? true : spend(s, key->weight);
}

/* What is inside of v was weighed. */
static bool check_inside(scales *s, const tp_saved *v) {
    bool dict = v->kind == TP_SAVED_DICT;
    for (int64_t i = 0; (dict || v->kind == TP_SAVED_SET) && i < v->n; i++)
        if (!check_key(s, v->as.items.v[dict ? 2 * i : i])) return false;
    if (v->kind != TP_SAVED_OBJECT) return true;
    return spend(s, v->parts->args->weight + (v->parts->kwargs ? (uint64_t)v->parts->kwargs->weight : 0));
}

static bool enter(scales *s, tp_saved *v) {
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 64;
        visit *larger = tpi_realloc(s->open, capacity * sizeof *larger);
        if (!larger) return false;
        s->open = larger;
        s->capacity = capacity;
    }
    v->weight = 1; /* what leads back here while it is open counts once */
    s->open[s->n++] = (visit){v, 0, 1};
    return true;
}

static bool weigh(scales *s, tp_saved *root) {
    if (!enter(s, root)) return false;
    while (s->n) {
        visit *at = &s->open[s->n - 1];
        if (at->next < count_items(at->v) + (at->v->parts ? PARTS : 0)) {
            tp_saved *c = child(at->v, at->next);
            if (c && !c->weight) {
                if (!enter(s, c)) return false;
                continue;
            }
            at->weight += c ? c->weight : 0;
            at->next++;
            continue;
        }
        at->v->weight = at->weight < UINT32_MAX ? (uint32_t)at->weight : UINT32_MAX;
        s->n--;
        if (!check_inside(s, s->open[s->n].v)) return false;
    }
    return true;
}

bool tpi_pickle_check_keys(const tpi_pickle *p, tp_saved *root, size_t bytes) {
    scales s = {.p = p, .budget = ALLOWANCE + (uint64_t)bytes * PER_BYTE};
    bool ok = weigh(&s, root);
    tpi_mfree(s.open);
    return ok;
}
