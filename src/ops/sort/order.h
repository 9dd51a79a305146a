/* The order of elements, once for all dtypes: a key is an unsigned number that sorts as the element does, with NaN
 * above everything and -0 equal to 0. Sorting, selecting, searching and finding duplicates all work on keys.
 *
 * Keys of at most 32 bits travel packed with their position in one 64-bit word; longer ones as a pair. */
#ifndef TPI_ORDER_H
#define TPI_ORDER_H
#include "tensor/tensor.h"

typedef struct tpi_pair {
    uint64_t key, at;
} tpi_pair;

int tpi_key_bits(tp_dtype dtype); /* 32 or 64; complex dtypes have no order: 0 */
/* Keys of n elements, stride bytes apart. descending turns the order round. */
void tpi_keys(uint64_t *out, const char *from, int64_t stride, int64_t n, tp_dtype dtype, bool descending);
bool tpi_key_is_nan(uint64_t key, tp_dtype dtype); /* of an ascending key */

/* ---- A row of elements in order: either width behind one face. items[i] is the i-th smallest after sorting. ---- */
typedef struct tpi_row_order {
    bool packed;
    int64_t n;
    void *items, *scratch, *offsets; /* n items, room for n more, and the radix sort's counters: all in `block` */
    void *block;
    size_t bytes;
} tpi_row_order;
/* Elements, stride bytes apart, to be taken in. */
typedef struct tpi_row {
    const char *from;
    int64_t stride;
    tp_dtype dtype;
    bool descending;
} tpi_row;
#define TPI_LONG_ROW 65536 /* rows up to this are dealt out whole; longer ones are sorted by all threads together */
bool tpi_row_order_new(tpi_row_order *o, int64_t n,
                       tp_dtype dtype); /* memory for rows of n; false and an error without */
void tpi_row_order_free(tpi_row_order *o);
void tpi_row_order_load(tpi_row_order *o, const tpi_row *row);
void tpi_row_order_sort(tpi_row_order *o); /* stable */
/* The k smallest, sorted, to the front; what is behind them is lost. The same as the front of a stable sort. */
void tpi_row_order_select(tpi_row_order *o, int64_t k);
/* Where the k-th smallest, from 0, stands in the row; the order is lost. */
int64_t tpi_row_order_kth(const tpi_row_order *o, int64_t k);
int64_t tpi_row_order_count(const tpi_row_order *o, uint64_t key); /* how many there are of a key */
static inline uint64_t tpi_row_key(const tpi_row_order *o, int64_t i) {
    return o->packed ? ((const uint64_t *)o->items)[i] >> 32 : ((const tpi_pair *)o->items)[i].key;
}
static inline int64_t tpi_row_at(const tpi_row_order *o, int64_t i) {
    return o->packed ? (int64_t)(uint32_t)((const uint64_t *)o->items)[i] : (int64_t)((const tpi_pair *)o->items)[i].at;
}
#endif
