/* Tensors as boxes: what of a tensor each rank has, which boxes a checkpoint is made of, and who writes them. */
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/checkpoint/sharded.h"
#include "tensor/tensor.h"

/* ---- Shards ---- */
tpi_box tpi_box_of(const tp_shard *s) {
    static const int64_t zeros[TP_MAX_DIMS];
    const tp_tensor *t = s->part;
    return (tpi_box){.name = s->name,
                     .dtype = (tp_dtype)t->dtype,
                     .ndim = t->ndim,
                     .whole = s->whole.v ? s->whole.v : t->shape,
                     .offset = s->offset.v ? s->offset.v : zeros,
                     .size = t->shape};
}

static bool shard_fits(const tp_shard *s) {
    if (!s->name || !s->name[0] || !tpi_is_utf8(s->name, strlen(s->name)))
        return tpi_refuse(TP_ERR_VALUE, "argument 'shards': expected a name in UTF-8, got none");
    if (!s->part) return tpi_refuse(TP_ERR_TYPE, "argument 'shards': expected a tensor for '%s', got NULL", s->name);
    int n = s->part->ndim;
    if ((s->whole.v && s->whole.n != n) || (s->offset.v && s->offset.n != n))
        return tpi_refuse(
            TP_ERR_VALUE,
            "argument 'shards': expected %d numbers in the whole shape and the offset of '%s', got %lld and %lld", n,
            s->name, (long long)s->whole.n, (long long)s->offset.n);
    tpi_box b = tpi_box_of(s);
    for (int i = 0; i < n; i++)
        if (b.offset[i] < 0 || b.offset[i] > b.whole[i] || b.size[i] > b.whole[i] - b.offset[i])
            return tpi_refuse(TP_ERR_VALUE,
                              "argument 'shards': the part of '%s' leaves the whole in dim %d: it begins at %lld and "
                              "has %lld of %lld",
                              s->name, i, (long long)b.offset[i], (long long)b.size[i], (long long)b.whole[i]);
    return true;
}

bool tpi_shards_check(int64_t n, const tp_shard *shards) {
    if (n < 0 || (n > 0 && !shards))
        return tpi_refuse(TP_ERR_VALUE, "argument 'n': expected a number of shards, got %lld", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!shard_fits(&shards[i])) return false;
    return true;
}

int64_t tpi_box_numel(const tpi_box *b) {
    int64_t n = 1;
    for (int i = 0; i < b->ndim; i++) n *= b->size[i];
    return n;
}

int tpi_box_order(const tpi_box *a, const tpi_box *b) {
    int order = strcmp(a->name, b->name);
    for (int i = 0; order == 0 && i < a->ndim && i < b->ndim; i++)
        order = (a->offset[i] > b->offset[i]) - (a->offset[i] < b->offset[i]);
    return order;
}

static int item_order(const void *a, const void *b) { /* of one box: by rank, and by place in what the rank told */
    const tpi_item *x = a, *y = b;
    int order = tpi_box_order(&x->box, &y->box);
    if (order == 0) order = (x->writer > y->writer) - (x->writer < y->writer);
    return order ? order : (x->mine > y->mine) - (x->mine < y->mine);
}

void tpi_items_sort(tpi_items *items) {
    if (items->n) qsort(items->v, (size_t)items->n, sizeof *items->v, item_order);
}

int64_t tpi_items_named(const tpi_items *items, const char *name, int64_t *count) {
    int64_t low = 0, high = items->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (strcmp(items->v[middle].box.name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (*count = 0; low + *count < items->n && strcmp(items->v[low + *count].box.name, name) == 0;) ++*count;
    return low;
}

/* ---- Telling: a list of (name, dtype, whole, offset, size) ---- */
tp_saved *tpi_boxes_tell(tpi_arena *a, int64_t n, const tp_shard *shards) {
    tp_saved *list = tpi_saved_new(a, TP_SAVED_LIST);
    for (int64_t i = 0; list && i < n; i++) {
        tpi_box b = tpi_box_of(&shards[i]);
        tp_saved *one = TPI_TUPLE(
            a, tpi_name_value(a, TP_SAVED_TEXT, b.name), tpi_name_value(a, TP_SAVED_TEXT, tp_dtype_name(b.dtype)),
            tpi_sizes_value(a, TP_SAVED_TUPLE, b.whole, b.ndim), tpi_sizes_value(a, TP_SAVED_TUPLE, b.offset, b.ndim),
            tpi_sizes_value(a, TP_SAVED_TUPLE, b.size, b.ndim));
        if (!one || !tpi_saved_append(a, list, one)) list = NULL;
    }
    return list;
}

static bool box_told(tpi_arena *a, const tp_saved *v, tpi_box *b) {
    int n[3] = {0};
    *b = (tpi_box){.name = tp_saved_text(tp_saved_at(v, 0)),
                   .dtype = tp_dtype_by_name(tp_saved_text(tp_saved_at(v, 1)))};
    b->whole = tpi_sizes_of(a, tp_saved_at(v, 2), &n[0]);
    b->offset = b->whole ? tpi_sizes_of(a, tp_saved_at(v, 3), &n[1]) : NULL;
    b->size = b->offset ? tpi_sizes_of(a, tp_saved_at(v, 4), &n[2]) : NULL;
    b->ndim = n[0];
    return b->size && b->name && n[0] == n[1] && n[1] == n[2];
}

/* ---- Planning ---- */
static bool same_sizes(const int64_t *a, const int64_t *b, int n) {
    return n <= 0 || memcmp(a, b, sizeof *a * (size_t)n) == 0;
}

static bool agree(const tpi_item *a, const tpi_item *b, bool same_box) {
    const tpi_box *x = &a->box, *y = &b->box;
    bool same = x->dtype == y->dtype && x->ndim == y->ndim && same_sizes(x->whole, y->whole, x->ndim) &&
                (!same_box || same_sizes(x->size, y->size, x->ndim));
    if (same) return true;
    char first[160], second[160];
    snprintf(first, sizeof first, "%s %s", tpi_shape_text(tp_ints_view(x->size, x->ndim)),
             tpi_shape_text(tp_ints_view(x->whole, x->ndim)));
    snprintf(second, sizeof second, "%s %s", tpi_shape_text(tp_ints_view(y->size, y->ndim)),
             tpi_shape_text(tp_ints_view(y->whole, y->ndim)));
    return tpi_refuse(TP_ERR_VALUE,
                      "ranks disagree on what '%s' is: rank %d has %s, part and whole %s; rank %d has %s, %s", x->name,
                      a->writer, tp_dtype_name(x->dtype), first, b->writer, tp_dtype_name(y->dtype), second);
}

typedef struct turn { /* boxes are given to ranks in this order: those that one rank has, then large ones first */
    bool shared;
    int64_t bytes, first, owners; /* of the sorted list of what ranks told */
} turn;

static int turn_order(const void *a, const void *b) {
    const turn *x = a, *y = b;
    if (x->shared != y->shared) return x->shared - y->shared;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Runs of the same box become turns; whoever has nothing of a tensor that others have is left out. -1: ranks disagree.
 */
static int64_t find_turns(const tpi_items *told, turn *turns) {
    int64_t n = 0;
    for (int64_t i = 0, next; i < told->n; i = next) {
        const tpi_box *b = &told->v[i].box;
        for (next = i + 1; next < told->n && tpi_box_order(b, &told->v[next].box) == 0; next++) {
            if (!agree(&told->v[i], &told->v[next], true)) return -1;
            if (told->v[next].writer == told->v[next - 1].writer) {
                tpi_fail(TP_ERR_VALUE, "rank %d gave the same part of '%s' twice", told->v[next].writer, b->name);
                return -1;
            }
        }
        if (next < told->n && strcmp(b->name, told->v[next].box.name) == 0 &&
            !agree(&told->v[i], &told->v[next], false))
            return -1;
        tpi_box whole = *b;
        whole.size = b->whole;
        int64_t numel = tpi_box_numel(b);
        if (numel || !tpi_box_numel(&whole))
            turns[n++] = (turn){next - i > 1, numel * tp_dtype_size(b->dtype), i, next - i};
    }
    return n;
}

static void choose(const tpi_items *told, const turn *turns, int64_t n, int64_t *load, tpi_item *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t best = turns[i].first;
        for (int64_t k = best; k < turns[i].first + turns[i].owners; k++)
            if (load[told->v[k].writer] < load[told->v[best].writer]) best = k;
        load[told->v[best].writer] += turns[i].bytes;
        out[i] = told->v[best];
    }
}

bool tpi_boxes_plan(tpi_arena *a, const tpi_messages *talk, tp_saved *const *told, tpi_items *items) {
    tpi_items all = {0};
    for (int rank = 0; rank < talk->size; rank++) all.n += tp_saved_count(told[rank]);
    all.v = tpi_arena_new(a, sizeof *all.v * (size_t)(all.n + 1));
    turn *turns = all.v ? tpi_arena_new(a, sizeof *turns * (size_t)(all.n + 1)) : NULL;
    int64_t *load = turns ? tpi_arena_new(a, sizeof *load * (size_t)talk->size) : NULL, at = 0;
    if (!load) return false;
    for (int rank = 0; rank < talk->size; rank++)
        for (int64_t i = 0; i < tp_saved_count(told[rank]); i++, at++) {
            all.v[at] = (tpi_item){.writer = rank, .mine = i};
            if (!box_told(a, tp_saved_at(told[rank], i), &all.v[at].box))
                return tp_ok() ? tpi_refuse(TP_ERR_IO, "rank %d told nothing that is a part of a tensor", rank) : false;
        }
    tpi_items_sort(&all);
    int64_t n = find_turns(&all, turns);
    if (n < 0) return false;
    if (n) qsort(turns, (size_t)n, sizeof *turns, turn_order);
    *items = (tpi_items){tpi_arena_new(a, sizeof *items->v * (size_t)(n + 1)), n};
    if (!items->v) return false;
    choose(&all, turns, n, load, items->v);
    tpi_items_sort(items);
    return true;
}
