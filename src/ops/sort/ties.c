/* See ties.h. */
#include "ops/sort/ties.h"

#define SHORT_SORT   16 /* std::sort leaves pieces of this size to the insertion sort */
#define SHORT_SELECT 3  /* std::nth_element does so with pieces of this size */
#define FEW_OF       64 /* topk takes std::partial_sort where k is at most the 64th part of the row */

static int most_divisions(int64_t n) { return n > 0 ? 2 * (63 - __builtin_clzll((unsigned long long)n)) : 0; }

#define ITEM             uint64_t
#define ITEM_OF(key, at) ((key) << 32 | (uint64_t)(at))
#define KEY(x)           ((x) >> 32)
#define NAME(x)          packed_##x
#include "ops/sort/ties_typed.h"

#define ITEM             tpi_pair
#define ITEM_OF(key, at) ((tpi_pair){key, (uint64_t)(at)})
#define KEY(x)           ((x).key)
#define NAME(x)          pair_##x
#include "ops/sort/ties_typed.h"

bool tpi_ties_are_few(int64_t n, int64_t k) { return k <= n / FEW_OF; }

void tpi_ties_smallest(tpi_row_order *o, int64_t k, const tpi_row *row) {
    const bool few = tpi_ties_are_few(o->n, k);
    if (k < 1) return;
    if (!few) tpi_row_order_load(o, row);
    if (few && o->packed)
        packed_few(o->items, o->n, k, row);
    else if (few)
        pair_few(o->items, o->n, k, row);
    else if (o->packed)
        packed_smallest(o->items, o->n, k);
    else
        pair_smallest(o->items, o->n, k);
}

int64_t tpi_ties_kth(tpi_row_order *o, int64_t k, const tpi_row *row) {
    tpi_row_order_load(o, row);
    if (o->packed) return (int64_t)(uint32_t)packed_kth(o->items, o->n, k);
    return (int64_t)pair_kth(o->items, o->n, k).at;
}
