/* The values of a capture. The address of a tensor's storage stands for one value, and what looks at that storage is a
 * view of it. Here is also which memory nobody but the capture holds any more. */
#include <string.h>
#include "graph/capture.h"
#include "tensor/storage.h"

typedef struct address_entry { /* values and storages by their address */
    const void *key;
    int32_t value;         /* -1: born, but not seen yet */
    struct family *family; /* of a storage that a step made */
    struct address_entry *next;
} address_entry;

/* A storage that a step made, and the values that look at it. */
typedef struct family {
    struct family *next;
    struct member {
        struct member *next;
        tp_tensor *tensor; /* the value's */
    } * members;
    int n;
} family;

/* ---- Values by their address ---- */

static size_t bucket(const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key >> 4;
    return (h ^ h >> 12 ^ h >> 24) % TPI_BUCKETS;
}

static bool put(tp_capture *c, address_entry **table, const void *key, int32_t value) {
    address_entry *p = tpi_graph_memory_alloc(&c->memory, sizeof *p);
    if (!p) {
        tpi_capture_no_memory(c);
        return false;
    }
    address_entry **head = &table[bucket(key)];
    *p = (address_entry){key, value, NULL, *head};
    *head = p;
    return true;
}

static address_entry *storage_entry(const tp_capture *c, const tp_tensor *t) {
    for (address_entry *p = c->by_storage[bucket(t->storage)]; p; p = p->next)
        if (p->key == t->storage) return p;
    return NULL;
}

void tpi_capture_born(tp_capture *c, const tp_storage *storage) {
    address_entry *p = c->by_storage[bucket(storage)];
    while (p && p->key != storage) p = p->next;
    if (p)
        p->value = -1; /* the address was another storage's, which nobody saw */
    else
        put(c, c->by_storage, storage, -1);
}

bool tpi_capture_is_new(const tp_capture *c, const tp_tensor *t) {
    const address_entry *p = storage_entry(c, t);
    return p && p->value < 0;
}

/* ---- Memory that the program is done with ---- */

enum { WORTH_FREEING = 4096 };

static bool join_family(tp_capture *c, address_entry *p, tp_tensor *t) {
    if (!p->family && t->storage->bytes < WORTH_FREEING) return true;
    if (!p->family) {
        if (!(p->family = tpi_graph_memory_alloc(&c->memory, sizeof *p->family))) {
            tpi_capture_no_memory(c);
            return false;
        }
        p->family->next = c->families;
        c->families = p->family;
    }
    struct member *m = tpi_graph_memory_alloc(&c->memory, sizeof *m);
    if (!m) {
        tpi_capture_no_memory(c);
        return false;
    }
    *m = (struct member){p->family->members, t};
    p->family->members = m;
    p->family->n++;
    return true;
}

/* Nobody but the capture holds the storage, nor any tensor that looks at it. */
static bool is_left(const family *f) {
    if (atomic_load_explicit(&f->members->tensor->storage->refs, memory_order_acquire) != f->n) return false;
    for (const struct member *m = f->members; m; m = m->next) {
        int own = 1;
        for (const struct member *view = f->members; view; view = view->next) own += view->tensor->base == m->tensor;
        if (atomic_load_explicit(&m->tensor->refs, memory_order_acquire) != own) return false;
    }
    return true;
}

void tpi_capture_free_unused(tp_capture *c) {
    for (family **f = &c->families; *f;) {
        if (!is_left(*f)) {
            f = &(*f)->next;
            continue;
        }
        tpi_storage_empty((*f)->members->tensor->storage);
        *f = (*f)->next;
    }
}

/* ---- Values of tensors ---- */

static bool looks_alike(const tpi_graph_value *v, const tp_tensor *t) {
    if (v->dtype != t->dtype || v->ndim != t->ndim || v->wrapped != !!(t->flags & TPI_WRAPPED)) return false;
    size_t bytes = (size_t)t->ndim * sizeof(int64_t);
    return !memcmp(v->dims, t->shape, bytes) && !memcmp(v->dims + v->ndim, t->strides, bytes);
}

int32_t tpi_capture_known(tp_capture *c, const tp_tensor *t) {
    for (address_entry *p = c->by_data[bucket(t->data)]; p; p = p->next) {
        const tpi_graph_value *v = &c->g->values[p->value];
        if (p->key == t->data && v->tensor->storage == t->storage && looks_alike(v, t)) return p->value;
    }
    return -1;
}

int32_t tpi_capture_add(tp_capture *c, tpi_value_kind kind, tp_tensor *t, int32_t of, int64_t offset) {
    tpi_graph_value v = {.kind = (uint8_t)kind,
                         .dtype = t->dtype,
                         .wrapped = t->flags & TPI_WRAPPED,
                         .of = of,
                         .offset = offset,
                         .device = tpi_device(t)};
    int32_t id = tpi_graph_add_value(c->g, &v, tpi_shape(t), tpi_strides(t));
    if (id < 0) {
        tpi_capture_no_memory(c);
        return -1;
    }
    c->g->values[id].tensor = tpi_retain(t);
    if (!put(c, c->by_data, t->data, id)) return -1;
    address_entry *p = storage_entry(c, t);
    if (p && (p->value < 0 || kind == TPI_VALUE_LEAF_GRAD))
        p->value = id; /* what was handed to a leaf is its gradient from now on */
    if (!p && !put(c, c->by_storage, t->storage, id)) return -1;
    if (kind != TPI_VALUE_MADE && kind != TPI_VALUE_VIEW) return id;
    if (!p) p = storage_entry(c, t);
    return (kind == TPI_VALUE_VIEW && !p->family) || join_family(c, p, t) ? id : -1;
}

/* A leaf's gradient can be looked up in the leaf as long as it is there. */
static bool still_there(tp_capture *c, int32_t id) {
    int32_t root = tpi_value_root(c->g, id);
    if (c->g->values[root].kind != TPI_VALUE_LEAF_GRAD || tpi_capture_is_current(c, root)) return true;
    tpi_capture_abandon(c, "%s reads a gradient that its leaf has no more", c->doing);
    return false;
}

int32_t tpi_capture_value(tp_capture *c, tp_tensor *t) {
    int32_t id = tpi_capture_known(c, t);
    if (id >= 0) return still_there(c, id) ? id : -1;
    address_entry *p = storage_entry(c, t);
    if (!p && t->base && t->base->storage == t->storage && tpi_capture_value(c, t->base) < 0) return -1;
    p = storage_entry(c, t);
    if (!p) return tpi_capture_add(c, TPI_VALUE_OUTSIDE, t, -1, 0);
    if (p->value >= 0) {
        int32_t root = tpi_value_root(c->g, p->value);
        if (!still_there(c, root)) return -1;
        return tpi_capture_add(c, TPI_VALUE_VIEW, t, root, t->data - c->g->values[root].tensor->data);
    }
    if (t->flags & TPI_WRAPPED) return tpi_capture_add(c, TPI_VALUE_CONSTANT, t, -1, 0);
    tpi_capture_abandon(c, "%s reads a tensor that was not made by a recorded operator", c->doing);
    return -1;
}

/* New memory that only part of is written is not known afterwards. */
int32_t tpi_capture_result(tp_capture *c, tp_tensor *t, bool made) {
    address_entry *p = storage_entry(c, t);
    bool fresh = made ? !p || p->value < 0 : p && p->value < 0;
    if (!fresh) return tpi_capture_value(c, t);
    if (!made && t->numel * (int64_t)tpi_itemsize(t) < (int64_t)t->storage->bytes) {
        tpi_capture_abandon(c, "%s writes a part of new memory", c->doing);
        return -1;
    }
    return tpi_capture_add(c, TPI_VALUE_MADE, t, -1, 0);
}
