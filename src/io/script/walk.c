/* Going through a tree of values, which may share boxes and form rings: a list of boxes that are left, and a set of
 * those that were seen. */
#include "io/script/walk.h"
#include "base/memory.h"
#include <string.h>

typedef struct walk {
    tpi_item *left;
    int64_t nleft, capacity;
    tpi_box **seen;
    int64_t nseen, seen_capacity;
} walk;

static int64_t slot_of(const walk *w, const tpi_box *b) {
    int64_t i = (int64_t)(((uintptr_t)b >> 4) * 0x9e3779b97f4a7c15u >> 20) & (w->seen_capacity - 1);
    while (w->seen[i] && w->seen[i] != b) i = (i + 1) & (w->seen_capacity - 1);
    return i;
}

static bool grow_seen(walk *w) {
    walk larger = {.seen_capacity = w->seen_capacity ? 2 * w->seen_capacity : 64};
    larger.seen = tpi_malloc((size_t)larger.seen_capacity * sizeof *larger.seen);
    if (!larger.seen) return false;
    memset(larger.seen, 0, (size_t)larger.seen_capacity * sizeof *larger.seen);
    for (int64_t i = 0; i < w->seen_capacity; i++)
        if (w->seen[i]) larger.seen[slot_of(&larger, w->seen[i])] = w->seen[i];
    tpi_mfree(w->seen);
    w->seen = larger.seen;
    w->seen_capacity = larger.seen_capacity;
    return true;
}

/* Puts a box that was not seen on the list. */
static bool add(walk *w, const tpi_item *v) {
    if (v->kind < TP_IVALUE_LIST) return true;
    if (2 * w->nseen >= w->seen_capacity && !grow_seen(w)) return false;
    int64_t at = slot_of(w, v->as.box);
    if (w->seen[at]) return true;
    w->seen[at] = v->as.box;
    w->nseen++;
    if (w->nleft == w->capacity) {
        int64_t capacity = w->capacity ? 2 * w->capacity : 64;
        tpi_item *larger = tpi_realloc(w->left, (size_t)capacity * sizeof *larger);
        if (!larger) return false;
        w->left = larger;
        w->capacity = capacity;
    }
    w->left[w->nleft++] = *v;
    return true;
}

bool tpi_script_walk(tpi_item *root, bool (*visit)(tpi_item *v, void *context), void *context) {
    walk w = {0};
    bool fine = visit(root, context) && add(&w, root);
    while (fine && w.nleft) {
        tpi_item v = w.left[--w.nleft];
        int64_t n = v.as.box->n * (v.kind == TP_IVALUE_DICT ? 2 : 1);
        for (int64_t i = 0; fine && i < n; i++) {
            tpi_item *item = &v.as.box->items[i];
            fine = visit(item, context) && add(&w, item);
        }
    }
    tpi_mfree(w.left);
    tpi_mfree(w.seen);
    return fine;
}
