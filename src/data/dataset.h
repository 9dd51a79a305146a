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
/* One item, with the error of whoever failed. */
bool tpi_read_item(const tp_dataset *d, int64_t i, void *const *into);
int64_t tpi_fields_of(const tp_dataset *d, tp_field *fields); /* how many; fields has room for TP_MAX_FIELDS */

/* The generator that a sampler was given; NULL: none. */
tp_generator *tpi_sampler_generator(const tp_sampler *sampler);
/* A seed for another generator, as PyTorch draws it: torch.empty((), dtype=torch.int64).random_(). */
bool tpi_draw_seed(tp_generator *g, int64_t *seed);
#endif
