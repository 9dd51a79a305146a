/* Datasets, inside the library: what readers know of them. */
#ifndef TPI_DATASET_H
#define TPI_DATASET_H
#include <stdatomic.h>
#include <taper/data.h>

struct tp_dataset {
    atomic_int refs;
    int64_t count, nfields;
    tp_dtype dtypes[TP_MAX_FIELDS];
    int64_t ndims[TP_MAX_FIELDS], *shapes[TP_MAX_FIELDS]; /* of one item */
    int64_t bytes[TP_MAX_FIELDS];                         /* of one item's field */
    bool (*read)(void *context, int64_t i, void *const *into);
    void (*release)(void *context);
    void *context;
};

/* A batch of the items at the indices: one tensor (n, ...) per field, owned by the caller. Nothing is left on failure.
 */
bool tpi_read_batch(const tp_dataset *d, tp_ints indices, tp_tensor **fields);
#endif
