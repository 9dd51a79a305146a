/* Tensors as boxes: what of a tensor each rank has, and what ranks tell each other of it. */
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

/* ---- What all told ---- */
bool tpi_boxes_plan(tpi_arena *a, const tpi_messages *talk, tp_saved *const *told, tpi_items *items) {
    tpi_items all = {0};
    for (int rank = 0; rank < talk->size; rank++) all.n += tp_saved_count(told[rank]);
    if (!(all.v = tpi_arena_new(a, sizeof *all.v * (size_t)(all.n + 1)))) return false;
    int64_t at = 0;
    for (int rank = 0; rank < talk->size; rank++)
        for (int64_t i = 0; i < tp_saved_count(told[rank]); i++, at++) {
            all.v[at] = (tpi_item){.writer = rank, .mine = i};
            if (!box_told(a, tp_saved_at(told[rank], i), &all.v[at].box))
                return tp_ok() ? tpi_refuse(TP_ERR_IO, "rank %d told nothing that is a part of a tensor", rank) : false;
        }
    return tpi_items_plan(a, &all, talk->size, false, items);
}
