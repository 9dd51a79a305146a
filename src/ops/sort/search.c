/* Looking values up in sorted ones: searchsorted and bucketize; and in a set: isin. Values meet as keys of the dtype
 * both promote to. */
#include "ops/native.h"
#include "ops/sort/order.h"
#include "ops/sort/search.h"
#include "tpi_ops.h"

#define CHUNK 4096

/* The first place whose key is not below (or, right, is above) the value's. sorter: the order to read the row in, or
 * NULL. No branch depends on a key: every other one would be guessed wrong. */
static inline int64_t place_of(const uint64_t *row, const int64_t *sorter, int64_t n, uint64_t value, bool right) {
    int64_t low = 0;
    while (n > 0) {
        const int64_t half = (n + 1) / 2, middle = low + half - 1;
        const uint64_t at = row[sorter ? sorter[middle] : middle];
        low += half & -(int64_t)((at < value) | (right & (at == value)));
        n -= half;
    }
    return low;
}
static int64_t insertion_point(const uint64_t *row, const int64_t *sorter, int64_t n, uint64_t value, bool right) {
    return sorter ? place_of(row, sorter, n, value, right) : place_of(row, NULL, n, value, right);
}

typedef struct search_job {
    const uint64_t *keys; /* of the sorted rows */
    const int64_t *sorter;
    int64_t row;            /* elements of a sorted row */
    int64_t values_per_row; /* in a row of values */
    int64_t n;              /* values in all */
    bool one_row;           /* one sorted row serves all */
    bool right;
    const char *values;
    tp_dtype dtype;
    int64_t *out;
} search_job;

static void search_chunk(int64_t chunk, void *context) {
    const search_job *j = context;
    uint64_t key[CHUNK];
    int64_t from = chunk * CHUNK, n = from + CHUNK < j->n ? CHUNK : j->n - from, size = tpi_dtype_bytes[j->dtype];
    tpi_keys(key, j->values + from * size, size, n, j->dtype, false);
    for (int64_t i = 0; i < n; i++) {
        int64_t r = j->one_row ? 0 : (from + i) / j->values_per_row * j->row;
        j->out[from + i] = insertion_point(j->keys + r, j->sorter ? j->sorter + r : NULL, j->row, key[i], j->right);
    }
}

/* t as contiguous elements of the dtype: owned. */
static tp_tensor *plain(tp_tensor *t, tp_dtype dtype) {
    tp_tensor *same = tpi_as_dtype_data(t, dtype);
    return same ? tpi_release_then(same, tpi_contiguous_data(same)) : NULL;
}

tp_dtype tpi_search_dtype(const tp_tensor *a, const tp_tensor *b) {
    tpi_promotion p = {0};
    tpi_promote_tensor(&p, a->dtype, a->ndim);
    tpi_promote_tensor(&p, b->dtype, b->ndim);
    return tpi_promoted(&p);
}

bool tpi_search_fits(const tp_tensor *sequence, const tp_tensor *values) {
    bool fits = sequence->ndim == 1 || (sequence->ndim && sequence->ndim == values->ndim);
    for (int d = 0; d + 1 < sequence->ndim && fits; d++) fits = sequence->shape[d] == values->shape[d];
    return fits;
}

static bool check_rows(const tp_tensor *sequence, const tp_tensor *values) {
    return tpi_search_fits(sequence, values) ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'sorted_sequence': expected one dimension, or the shape of the values %s apart from "
                      "the last dimension, got %s",
                      tpi_shape_text(tpi_shape(values)), tpi_shape_text(tpi_shape(sequence)));
}

static bool check_sorter(const tp_tensor *sorter, const tp_tensor *sequence) {
    if (!sorter) return true;
    if (!tpi_check_dtype(sorter, "sorter", TP_INT64)) return false;
    return tpi_same_shape(sorter, sequence) ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'sorter': expected the shape of sorted_sequence %s, got %s",
                      tpi_shape_text(tpi_shape(sequence)), tpi_shape_text(tpi_shape(sorter)));
}

static tp_tensor *search(tp_tensor *sequence, tp_tensor *self, bool out_int32, bool right, tp_tensor *sorter) {
    if (!tpi_check_not_complex(sequence, "sorted_sequence") || !tpi_check_not_complex(self, "self") ||
        !check_rows(sequence, self) || !check_sorter(sorter, sequence))
        return NULL;
    tp_dtype dtype = tpi_search_dtype(sequence, self);
    tp_tensor *rows = plain(sequence, dtype), *values = rows ? plain(self, dtype) : NULL,
              *order = values && sorter ? tpi_contiguous_data(sorter) : NULL, *out = NULL;
    uint64_t *keys = values && (!sorter || order) ? tpi_malloc(sizeof(uint64_t) * (size_t)(rows->numel + 1)) : NULL;
    int64_t n = sequence->shape[sequence->ndim - 1];
    bool ok = keys != NULL;
    for (int64_t i = 0; ok && order && i < order->numel; i++) {
        int64_t at = ((const int64_t *)(const void *)order->data)[i];
        if (at < 0 || at >= n) ok = tpi_index_error("sorter", at, sequence->ndim - 1, n);
    }
    if (ok) out = tpi_empty(tpi_shape(self), TP_INT64, tpi_device(self));
    if (out) {
        tpi_keys(keys, rows->data, (int64_t)tpi_itemsize(rows), rows->numel, dtype, false);
        search_job j = {.keys = keys,
                        .sorter = order ? (const int64_t *)(const void *)order->data : NULL,
                        .row = n,
                        .n = self->numel,
                        .one_row = sequence->ndim == 1,
                        .values_per_row = self->ndim && self->shape[self->ndim - 1] ? self->shape[self->ndim - 1] : 1,
                        .right = right,
                        .values = values->data,
                        .dtype = dtype,
                        .out = (int64_t *)(void *)out->data};
        tpi_parallel_for(tpi_ceil_div(j.n, CHUNK), j.n > CHUNK, search_chunk, &j);
        if (out_int32) out = tpi_release_then(out, tpi_as_dtype_data(out, TP_INT32));
    }
    tpi_mfree(keys);
    tpi_release(rows);
    tpi_release(values);
    tpi_release(order);
    return out;
}

tp_tensor *tpi_native_searchsorted(tp_tensor *sorted_sequence, tp_tensor *self, bool out_int32, bool right,
                                   const char *side, tp_tensor *sorter) {
    if (side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        return tpi_fail(TP_ERR_VALUE, "argument 'side': expected \"left\" or \"right\", got \"%s\"", side);
    if (side && right && strcmp(side, "left") == 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'side': \"left\" and right=true contradict each other");
    return search(sorted_sequence, self, out_int32, right || (side && strcmp(side, "right") == 0), sorter);
}

tp_tensor *tpi_native_bucketize(tp_tensor *self, tp_tensor *boundaries, bool out_int32, bool right) {
    if (boundaries->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'boundaries': boundaries tensor must be 1 dimension, but got dim(%d)",
                        boundaries->ndim);
    return search(boundaries, self, out_int32, right, NULL);
}

/* ---- isin ---- */

/* A set of keys: each is in the first slot that was free from the one on that its bits name. Free slots have the first
 * key that came: so every slot has a key of the set, and a search ends at its own key or at that one. */
typedef struct key_set {
    uint64_t *slot, first;
    int bits; /* there are 2^bits slots */
    bool empty;
} key_set;

static inline uint64_t slot_of(const key_set *s, uint64_t key) {
    return ((key ^ key >> 32) * 0x9e3779b97f4a7c15u) >> (64 - s->bits);
}

/* The slot of the key, if it is in the set. */
static inline uint64_t key_set_find(const key_set *s, uint64_t key) {
    const uint64_t mask = ((uint64_t)1 << s->bits) - 1;
    uint64_t at = slot_of(s, key);
    while (s->slot[at] != key && s->slot[at] != s->first) at = (at + 1) & mask;
    return at;
}

static void key_set_add(key_set *s, uint64_t key) {
    const uint64_t mask = ((uint64_t)1 << s->bits) - 1;
    if (s->empty) {
        s->first = key;
        for (uint64_t i = 0; i <= mask; i++) s->slot[i] = key;
        s->empty = false;
    }
    s->slot[key_set_find(s, key)] = key;
}

/* Keys that are made at a time: three such arrays may stand on a small stack. */
enum { KEYS = 1024 };

/* The set of t's elements but for NaN, which equals nothing. Half of its slots stay free, of small sets most: then
 * nearly every search ends where it begins, and its end is guessed right. */
static bool key_set_new(key_set *s, const tp_tensor *t) {
    enum { SMALL = 4096 };
    const int64_t least = (t->numel <= SMALL ? 8 : 2) * t->numel;
    uint64_t key[KEYS];
    const int64_t size = (int64_t)tpi_itemsize(t);
    const tp_dtype dtype = (tp_dtype)t->dtype;
    *s = (key_set){.bits = 4, .empty = true};
    while ((int64_t)1 << s->bits < least) s->bits++;
    s->slot = tpi_malloc(sizeof(uint64_t) << s->bits);
    for (int64_t i = 0; s->slot && i < t->numel; i += KEYS) {
        const int64_t n = i + KEYS < t->numel ? KEYS : t->numel - i;
        tpi_keys(key, t->data + i * size, size, n, dtype, false);
        for (int64_t j = 0; j < n; j++)
            if (!tpi_key_is_nan(key[j], dtype)) key_set_add(s, key[j]);
    }
    return s->slot != NULL;
}

typedef struct isin_job {
    const key_set *set;
    const bool *seen; /* by slot, where the set is of the values themselves; NULL: it is of what they may be */
    const tp_tensor *values;
    bool *found;
    bool invert;
} isin_job;

static void isin_chunk(int64_t chunk, void *context) {
    const isin_job *j = context;
    const key_set set = *j->set;
    uint64_t key[KEYS];
    const int64_t from = chunk * KEYS, left = j->values->numel - from, size = (int64_t)tpi_itemsize(j->values);
    const int64_t n = left < KEYS ? left : KEYS;
    if (set.empty) {
        memset(j->found + from, j->invert, (size_t)n);
        return;
    }
    tpi_keys(key, j->values->data + from * size, size, n, (tp_dtype)j->values->dtype, false);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t at = key_set_find(&set, key[i]);
        j->found[from + i] = (set.slot[at] == key[i] && (!j->seen || j->seen[at])) != j->invert;
    }
}

/* Which of the set's keys are among t's elements, by slot; owned, NULL without memory. */
static bool *seen_in(const key_set *s, const tp_tensor *t) {
    uint64_t key[KEYS];
    const int64_t size = (int64_t)tpi_itemsize(t);
    bool *seen = tpi_malloc((size_t)1 << s->bits);
    if (seen) memset(seen, 0, (size_t)1 << s->bits);
    for (int64_t i = 0; seen && !s->empty && i < t->numel; i += KEYS) {
        const int64_t n = i + KEYS < t->numel ? KEYS : t->numel - i;
        tpi_keys(key, t->data + i * size, size, n, (tp_dtype)t->dtype, false);
        for (int64_t k = 0; k < n; k++) {
            const uint64_t at = key_set_find(s, key[k]);
            if (s->slot[at] == key[k]) seen[at] = true;
        }
    }
    return seen;
}

tp_tensor *tpi_native_isin(tp_tensor *elements, tp_tensor *test_elements, bool assume_unique, bool invert) {
    (void)assume_unique;
    if (!tpi_check_not_complex(elements, "elements") || !tpi_check_not_complex(test_elements, "test_elements"))
        return NULL;
    tp_dtype dtype = tpi_search_dtype(elements, test_elements);
    tp_tensor *known = plain(test_elements, dtype), *values = known ? plain(elements, dtype) : NULL, *out = NULL;
    key_set set = {0};
    bool *seen = NULL;
    const bool few = values && values->numel < known->numel / 4; /* the smaller set is made, the larger side read */
    bool ok = values && key_set_new(&set, few ? values : known);
    if (ok && few) ok = (seen = seen_in(&set, known)) != NULL;
    if (ok) out = tpi_empty(tpi_shape(elements), TP_BOOL, tpi_device(elements));
    if (out) {
        isin_job j = {
            .set = &set, .seen = seen, .values = values, .found = (bool *)(void *)out->data, .invert = invert};
        const int64_t n = values->numel;
        tpi_parallel_for(tpi_ceil_div(n, KEYS), n > CHUNK, isin_chunk, &j);
    }
    tpi_mfree(seen);
    tpi_mfree(set.slot);
    tpi_release(known);
    tpi_release(values);
    return out;
}

/* ---- One number ---- */
/* As exact as the number is: in promotion it counts as a number all the same. */
static tp_tensor *number_for(tp_scalar number, const tp_tensor *like) {
    return tpi_of_scalar(number, number.kind == TP_SCALAR_FLOAT ? TP_FLOAT64 : TP_NO_DTYPE, tpi_device(like));
}

tp_tensor *tpi_compose_searchsorted_scalar(tp_tensor *sorted_sequence, tp_scalar self, bool out_int32, bool right,
                                           const char *side, tp_tensor *sorter) {
    tp_tensor *number = number_for(self, sorted_sequence);
    return number ? tpi_release_then(number, tpo_searchsorted(sorted_sequence, number, out_int32, right, side, sorter))
                  : NULL;
}

tp_tensor *tpi_compose_bucketize_scalar(tp_scalar self, tp_tensor *boundaries, bool out_int32, bool right) {
    tp_tensor *number = number_for(self, boundaries);
    return number ? tpi_release_then(number, tpo_bucketize(number, boundaries, out_int32, right)) : NULL;
}
