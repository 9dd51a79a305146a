/* The plan of a sharded checkpoint: which boxes it is made of and who writes each, so that ranks write about as much;
 * and which part of a box that was saved fills one that is wanted. For C's checkpoints and for Python's: every rank
 * works out the same from the same lists. */
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/checkpoint/sharded.h"
#include "tensor/check_arguments.h"
#include "tensor/tensor.h"

static bool same_sizes(const int64_t *a, const int64_t *b, int n) {
    return n <= 0 || memcmp(a, b, sizeof *a * (size_t)n) == 0;
}

static bool agree(const tpi_item *a, const tpi_item *b, bool same_box) {
    const tpi_box *x = &a->box, *y = &b->box;
    bool same = x->dtype == y->dtype && x->ndim == y->ndim && same_sizes(x->whole, y->whole, x->ndim) &&
                (!same_box || same_sizes(x->size, y->size, x->ndim));
    if (same) return true;
    if (x->ndim < 0 || y->ndim < 0)
        return tpi_refuse(TP_ERR_VALUE,
                          "ranks disagree on what '%s' is: for rank %d it is %s tensor, for rank %d it is %s", x->name,
                          a->writer, x->ndim < 0 ? "no" : "a", b->writer, y->ndim < 0 ? "none" : "one");
    char first[160], second[160];
    snprintf(first, sizeof first, "%s %s", tpi_shape_text(tp_ints_view(x->size, x->ndim)),
             tpi_shape_text(tp_ints_view(x->whole, x->ndim)));
    snprintf(second, sizeof second, "%s %s", tpi_shape_text(tp_ints_view(y->size, y->ndim)),
             tpi_shape_text(tp_ints_view(y->whole, y->ndim)));
    return tpi_refuse(TP_ERR_VALUE,
                      "ranks disagree on what '%s' is: rank %d has %s, part and whole %s; rank %d has %s, %s", x->name,
                      a->writer, tp_dtype_name(x->dtype), first, b->writer, tp_dtype_name(y->dtype), second);
}

typedef struct candidate { /* boxes are given to ranks in this order: those that one rank has, then large ones first */
    bool shared;
    int64_t bytes, first, owners; /* of the sorted list of what ranks told */
} candidate;

static int write_order(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->shared != y->shared) return x->shared - y->shared;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Runs of the same box become turns; whoever has nothing of a tensor that others have is left out. -1: ranks disagree.
 */
static int64_t find_candidates(const tpi_items *told, candidate *candidates) {
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
        const int64_t numel = tpi_box_numel(b), bytes = numel * tp_dtype_size(b->dtype);
        if (numel || !tpi_box_numel(&whole))
            candidates[n++] = (candidate){next - i > 1, b->ndim < 0 ? told->v[i].bytes : bytes, i, next - i};
    }
    return n;
}

static void choose(const tpi_items *told, const candidate *candidates, int64_t n, bool lowest, int64_t *load,
                   tpi_item *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t best = candidates[i].first;
        for (int64_t k = best; !lowest && k < candidates[i].first + candidates[i].owners; k++)
            if (load[told->v[k].writer] < load[told->v[best].writer]) best = k;
        load[told->v[best].writer] += candidates[i].bytes;
        out[i] = told->v[best];
    }
}

bool tpi_items_plan(tpi_arena *a, tpi_items *told, int ranks, bool lowest, tpi_items *items) {
    candidate *candidates = tpi_arena_new(a, sizeof *candidates * (size_t)(told->n + 1));
    int64_t *load = candidates ? tpi_arena_new(a, sizeof *load * (size_t)ranks) : NULL;
    if (!load) return false;
    tpi_items_sort(told);
    const int64_t n = find_candidates(told, candidates);
    if (n < 0) return false;
    if (n) qsort(candidates, (size_t)n, sizeof *candidates, write_order);
    *items = (tpi_items){tpi_arena_new(a, sizeof *items->v * (size_t)(n + 1)), n};
    if (!items->v) return false;
    choose(told, candidates, n, lowest, load, items->v);
    tpi_items_sort(items);
    return true;
}

static bool box_fits(const tp_checkpoint_box *b, int ranks) {
    if (!b->name) return tpi_refuse(TP_ERR_VALUE, "argument 'boxes': expected a name, got none");
    if (b->rank < 0 || b->rank >= ranks)
        return tpi_refuse(TP_ERR_VALUE, "argument 'boxes': expected a rank from 0 to %d for '%s', got %d", ranks - 1,
                          b->name, b->rank);
    if (!b->is_tensor || (b->whole.n == b->offset.n && b->offset.n == b->size.n)) return true;
    return tpi_refuse(TP_ERR_VALUE,
                      "argument 'boxes': expected as many numbers in the whole shape, the offset and the size of '%s'",
                      b->name);
}

int64_t tp_checkpoint_plan(int64_t n, const tp_checkpoint_box *boxes, int ranks, bool to_lowest_rank, int64_t *chosen) {
    if (!TPI_LIST_GIVEN(boxes, n) || !TPI_GIVEN(chosen, "room for the numbers of boxes")) return -1;
    tpi_arena arena = {0};
    tpi_items told = {tpi_arena_new(&arena, sizeof *told.v * (size_t)(n + 1)), n}, items = {0};
    bool ok = told.v != NULL;
    for (int64_t i = 0; ok && i < n; i++) {
        const tp_checkpoint_box *b = &boxes[i];
        ok = box_fits(b, ranks);
        told.v[i] = (tpi_item){.writer = b->rank, .mine = i, .bytes = b->bytes};
        told.v[i].box = (tpi_box){.name = b->name,
                                  .dtype = b->dtype,
                                  .ndim = b->is_tensor ? (int)b->whole.n : -1,
                                  .whole = b->whole.v,
                                  .offset = b->offset.v,
                                  .size = b->size.v};
    }
    ok = ok && tpi_items_plan(&arena, &told, ranks, to_lowest_rank, &items);
    for (int64_t i = 0; ok && i < items.n; i++) chosen[i] = items.v[i].mine;
    tpi_arena_free(&arena);
    return ok ? items.n : -1;
}

bool tp_box_overlap(int64_t ndim, const tp_box_place *a, const tp_box_place *b, int64_t *in_a, int64_t *in_b,
                    int64_t *size) {
    if (!TPI_GIVEN(a, "a box") || !TPI_GIVEN(b, "a box")) return false;
    if (!TPI_LIST_GIVEN(in_a, ndim) || !TPI_LIST_GIVEN(in_b, ndim) || !TPI_LIST_GIVEN(size, ndim)) return false;
    for (int64_t i = 0; i < ndim; i++) {
        const int64_t from = a->offset[i] > b->offset[i] ? a->offset[i] : b->offset[i];
        const int64_t end_a = a->offset[i] + a->size[i], end_b = b->offset[i] + b->size[i];
        const int64_t to = end_a < end_b ? end_a : end_b;
        if (from >= to) return false;
        in_a[i] = from - a->offset[i];
        in_b[i] = from - b->offset[i];
        size[i] = to - from;
    }
    return true;
}
