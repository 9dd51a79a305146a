/* Values of programs: counting, lists, and dicts that keep the order of their keys. */
#include "io/script/value.h"
#include "base/error.h"
#include "base/memory.h"
#include <string.h>

/* ---- Boxes ---- */

static void enter(tpi_heap *heap, tpi_box *b) {
    pthread_mutex_lock(&heap->lock);
    b->heap = heap;
    b->after = heap->first;
    if (heap->first) heap->first->before = b;
    heap->first = b;
    pthread_mutex_unlock(&heap->lock);
}

static void leave(tpi_box *b) {
    tpi_heap *heap = b->heap;
    if (!heap) return;
    pthread_mutex_lock(&heap->lock);
    if (b->before)
        b->before->after = b->after;
    else
        heap->first = b->after;
    if (b->after) b->after->before = b->before;
    pthread_mutex_unlock(&heap->lock);
    b->heap = NULL;
    b->before = b->after = NULL;
}

static tpi_box *new_box(size_t text) {
    tpi_box *b = tpi_malloc(sizeof *b + text);
    if (!b) return NULL;
    memset(b, 0, sizeof *b);
    b->refs = 1;
    return b;
}

tpi_item tpi_item_text(const char *text, size_t bytes) {
    tpi_box *b = new_box(bytes + 1);
    if (!b) return tpi_item_nothing();
    b->n = (int64_t)bytes;
    if (bytes) memcpy(b->text, text, bytes);
    b->text[bytes] = 0;
    return (tpi_item){.kind = TP_IVALUE_TEXT, .as.box = b};
}

tpi_item tpi_item_box(tpi_heap *heap, tp_ivalue_kind kind, int64_t n) {
    tpi_box *b = new_box(0);
    if (b && n) b->items = tpi_malloc((size_t)n * sizeof *b->items);
    if (!b || (n && !b->items)) {
        tpi_mfree(b);
        return tpi_item_nothing();
    }
    if (n) memset(b->items, 0, (size_t)n * sizeof *b->items);
    b->n = b->capacity = n;
    if (heap) enter(heap, b);
    return (tpi_item){.kind = kind, .as.box = b};
}

static bool is_boxed(const tpi_item *v) { return v->kind == TP_IVALUE_TEXT || v->kind >= TP_IVALUE_LIST; }

tpi_item tpi_item_retain(tpi_item v) {
    if (v.kind == TP_IVALUE_TENSOR && v.as.tensor) tpi_retain(v.as.tensor);
    if (is_boxed(&v)) atomic_fetch_add_explicit(&v.as.box->refs, 1, memory_order_relaxed);
    return v;
}

/* What is in a box goes by way of a list of boxes to free, linked by `after`: a chain of boxes, each in the other, may
 * be longer than the stack is deep. */
static void drop(tpi_item v, tpi_box **waiting) {
    if (v.kind == TP_IVALUE_TENSOR) tp_release(v.as.tensor);
    if (!is_boxed(&v) || atomic_fetch_sub_explicit(&v.as.box->refs, 1, memory_order_acq_rel) != 1) return;
    leave(v.as.box);
    if (v.kind == TP_IVALUE_TEXT) {
        tpi_mfree(v.as.box);
        return;
    }
    if (v.kind == TP_IVALUE_DICT) v.as.box->n *= 2;
    v.as.box->after = *waiting;
    *waiting = v.as.box;
}

void tpi_item_release(tpi_item v) {
    tpi_box *waiting = NULL;
    drop(v, &waiting);
    while (waiting) {
        tpi_box *b = waiting;
        waiting = b->after;
        for (int64_t i = 0; i < b->n; i++) drop(b->items[i], &waiting);
        tpi_mfree(b->items);
        tpi_mfree(b->index);
        tpi_mfree(b);
    }
}

void tpi_heap_clear(tpi_heap *heap) {
    while (heap->first) {
        tpi_box *b = heap->first;
        tpi_item held = {.kind = TP_IVALUE_LIST, .as.box = b};
        tpi_item_retain(held);
        leave(b);
        b->cls = NULL;
        int64_t n = b->index ? 2 * b->n : b->n;
        b->n = 0;
        if (b->index) memset(b->index, -1, 2 * (size_t)b->capacity * sizeof *b->index);
        for (int64_t i = 0; i < n; i++) tpi_item_release(b->items[i]);
        tpi_item_release(held);
    }
}

/* ---- Lists ---- */

static bool grow(tpi_box *list) {
    if (list->n < list->capacity) return true;
    int64_t capacity = list->capacity ? 2 * list->capacity : 4;
    tpi_item *larger = tpi_realloc(list->items, (size_t)capacity * sizeof *larger);
    if (!larger) return false;
    list->items = larger;
    list->capacity = capacity;
    return true;
}

bool tpi_list_insert(tpi_box *list, int64_t at, tpi_item v) {
    if (v.kind == TP_IVALUE_NOTHING || !grow(list)) {
        tpi_item_release(v);
        return false;
    }
    memmove(list->items + at + 1, list->items + at, (size_t)(list->n - at) * sizeof v);
    list->items[at] = v;
    list->n++;
    return true;
}

bool tpi_list_append(tpi_box *list, tpi_item v) { return tpi_list_insert(list, list->n, v); }

tpi_item tpi_list_remove(tpi_box *list, int64_t at) {
    tpi_item v = list->items[at];
    list->n--;
    memmove(list->items + at, list->items + at + 1, (size_t)(list->n - at) * sizeof v);
    return v;
}

/* ---- Dicts ---- */

bool tpi_item_can_be_key(const tpi_item *v) {
    return v->kind == TP_IVALUE_TEXT || v->kind == TP_IVALUE_DEVICE ||
           (v->kind == TP_IVALUE_NUMBER && v->as.number.kind != TP_SCALAR_NONE) ||
           (v->kind == TP_IVALUE_TENSOR && v->as.tensor);
}

static uint64_t hash_of(const tpi_item *v) {
    uint64_t h = 1469598103934665603u;
    if (v->kind == TP_IVALUE_TEXT) {
        for (int64_t i = 0; i < v->as.box->n; i++) h = (h ^ (unsigned char)v->as.box->text[i]) * 1099511628211u;
        return h;
    }
    if (v->kind == TP_IVALUE_TENSOR) return (uint64_t)(uintptr_t)v->as.tensor * 0x9e3779b97f4a7c15u;
    if (v->kind == TP_IVALUE_DEVICE) return (uint64_t)v->as.device.type * 131 + (uint64_t)v->as.device.index;
    double d = tp_scalar_to_double(v->as.number) + 0.0; /* 1, 1.0 and True are one key; so are the zeros */
    memcpy(&h, &d, sizeof h);
    return (h ^ (h >> 29)) * 0x9e3779b97f4a7c15u;
}

static bool same_key(const tpi_item *a, const tpi_item *b) {
    if (a->kind == TP_IVALUE_TENSOR && b->kind == TP_IVALUE_TENSOR) return a->as.tensor == b->as.tensor;
    return tpi_item_equal(a, b);
}

static int64_t slot_of(const tpi_box *d, const tpi_item *key) {
    int64_t mask = 2 * d->capacity - 1, i = (int64_t)((hash_of(key) >> 7) & (uint64_t)mask);
    while (d->index[i] >= 0 && !same_key(&d->items[2 * d->index[i]], key)) i = (i + 1) & mask;
    return i;
}

int64_t tpi_dict_find(const tpi_box *d, const tpi_item *key) { return d->index ? d->index[slot_of(d, key)] : -1; }

static bool make_index(tpi_box *d, int64_t capacity) {
    tpi_item *items = tpi_realloc(d->items, (size_t)(2 * capacity) * sizeof *items);
    if (!items) return false;
    d->items = items;
    int64_t *index = tpi_malloc((size_t)(2 * capacity) * sizeof *index);
    if (!index) return false;
    tpi_mfree(d->index);
    d->index = index;
    d->capacity = capacity;
    memset(index, -1, (size_t)(2 * capacity) * sizeof *index);
    for (int64_t i = 0; i < d->n; i++) index[slot_of(d, &items[2 * i])] = i;
    return true;
}

bool tpi_dict_put(tpi_box *d, tpi_item key, tpi_item v) {
    bool fine = key.kind != TP_IVALUE_NOTHING && v.kind != TP_IVALUE_NOTHING;
    if (fine && !tpi_item_can_be_key(&key))
        fine = tpi_refuse(TP_ERR_TYPE, "a dict's key: expected a text or a number, got %s", tpi_item_kind_name(&key));
    int64_t at = fine ? tpi_dict_find(d, &key) : -1;
    fine = fine && (at >= 0 || d->n < d->capacity || make_index(d, d->capacity ? 2 * d->capacity : 4));
    if (!fine) {
        tpi_item_release(key);
        tpi_item_release(v);
        return false;
    }
    if (at >= 0) {
        tpi_item_release(key);
        tpi_item_set(&d->items[2 * at + 1], v);
        return true;
    }
    d->index[slot_of(d, &key)] = d->n;
    d->items[2 * d->n] = key;
    d->items[2 * d->n + 1] = v;
    d->n++;
    return true;
}

bool tpi_dict_remove(tpi_box *d, int64_t pair) {
    tpi_item key = d->items[2 * pair], v = d->items[2 * pair + 1];
    d->n--;
    memmove(d->items + 2 * pair, d->items + 2 * pair + 2, (size_t)(2 * (d->n - pair)) * sizeof key);
    memset(d->index, -1, (size_t)(2 * d->capacity) * sizeof *d->index);
    for (int64_t i = 0; i < d->n; i++) d->index[slot_of(d, &d->items[2 * i])] = i;
    tpi_item_release(key);
    tpi_item_release(v);
    return true;
}

/* ---- Asking ---- */

enum { DEEPEST_COMPARISON = 64 };

static bool equal(const tpi_item *a, const tpi_item *b, int depth) {
    if (a->kind != b->kind || depth > DEEPEST_COMPARISON) return false;
    switch (a->kind) {
    case TP_IVALUE_TENSOR: return a->as.tensor == b->as.tensor;
    case TP_IVALUE_NUMBER:
        if (tpi_item_is_int(a) && tpi_item_is_int(b)) return a->as.number.as.i == b->as.number.as.i;
        if (tpi_item_is(a, TP_SCALAR_COMPLEX) != tpi_item_is(b, TP_SCALAR_COMPLEX)) return false;
        if (tpi_item_is(a, TP_SCALAR_COMPLEX) && a->as.number.as.d[1] != b->as.number.as.d[1]) return false;
        return tp_scalar_to_double(a->as.number) == tp_scalar_to_double(b->as.number);
    case TP_IVALUE_DEVICE: return a->as.device.type == b->as.device.type && a->as.device.index == b->as.device.index;
    case TP_IVALUE_TEXT:
        return a->as.box->n == b->as.box->n && memcmp(a->as.box->text, b->as.box->text, (size_t)a->as.box->n) == 0;
    case TP_IVALUE_OBJECT: return a->as.box == b->as.box;
    case TP_IVALUE_LIST:
    case TP_IVALUE_TUPLE:
        if (a->as.box->n != b->as.box->n) return false;
        for (int64_t i = 0; i < a->as.box->n; i++)
            if (!equal(&a->as.box->items[i], &b->as.box->items[i], depth + 1)) return false;
        return true;
    case TP_IVALUE_DICT:
        if (a->as.box->n != b->as.box->n) return false;
        for (int64_t i = 0; i < a->as.box->n; i++) {
            int64_t at = tpi_dict_find(b->as.box, &a->as.box->items[2 * i]);
            if (at < 0 || !equal(&a->as.box->items[2 * i + 1], &b->as.box->items[2 * at + 1], depth + 1)) return false;
        }
        return true;
    default: return true;
    }
}

bool tpi_item_equal(const tpi_item *a, const tpi_item *b) { return equal(a, b, 0); }

const char *tpi_item_kind_name(const tpi_item *v) {
    static const char *const names[] = {"no value", "None",   "a tensor", "a number", "a text",
                                        "a device", "a list", "a tuple",  "a dict",   "an object"};
    if (tpi_item_is_bool(v)) return "a bool";
    if (tpi_item_is_int(v)) return "an int";
    if (tpi_item_is_float(v)) return "a float";
    return names[v->kind];
}

int64_t tpi_script_position(int64_t index, int64_t n) {
    int64_t position = index < 0 ? index + n : index;
    if (position >= 0 && position < n) return position;
    tpi_fail(TP_ERR_INDEX, "list index out of range: %lld of %lld items", (long long)index, (long long)n);
    return -1;
}
