/* Reading pickles without executing them: the opcodes become values of io/checkpoint/saved.h, calls that make values (a
 * tensor, an OrderedDict) are understood by name, and any other class or function is refused, or kept as a value that
 * names it where the caller lets it through.
 *
 * What a pickle may ask for is bounded by its length: memory grows with the bytes read, never with a number that stands
 * in them. */
#ifndef TPI_PICKLE_H
#define TPI_PICKLE_H
#include "io/checkpoint/saved.h"

typedef struct tpi_pickle {
    tpi_arena *arena;
    const char *path; /* for messages */
    bool any_global;  /* let all classes and functions through */
    int64_t nallowed;
    const char *const *allowed;
    tp_saved *(*persistent)(void *context,
                            tp_saved *id); /* what a persistent id stands for; NULL and an error if nothing */
    void *context;
    tp_saved *globals; /* a set of the names that were let through or would have to be; NULL: not asked for */
} tpi_pickle;

/* The value of the pickle at the start of the bytes; *used: how many it takes. *cut: set where it failed for the bytes'
 * end alone. */
tp_saved *tpi_pickle_read(const tpi_pickle *p, const unsigned char *data, size_t bytes, size_t *used, bool *cut);

/* Is hashing its keys in proportion to its bytes (pickle_keys.c)? Gives every value its weight. */
bool tpi_pickle_check_keys(const tpi_pickle *p, tp_saved *root, size_t bytes);

/* ---- What names stand for (pickle_globals.c) ---- */
tp_saved *tpi_global(const tpi_pickle *p, const char *module, const char *name);
tp_saved *tpi_global_call(const tpi_pickle *p, tp_saved *call, tp_saved *args); /* call(*args) */
tp_saved *tpi_global_new(const tpi_pickle *p, tp_saved *cls, tp_saved *args,
                         tp_saved *kwargs);                               /* cls.__new__(cls, *args, **kwargs) */
bool tpi_global_build(const tpi_pickle *p, tp_saved *v, tp_saved *state); /* v.__setstate__(state) */
bool tpi_storage_type(const tp_saved *global, tp_dtype *dtype, const char **dtype_name,
                      bool *untyped);       /* is it torch.FloatStorage or the like? */
bool tpi_has_storage_class(tp_dtype dtype); /* PyTorch keeps the other dtypes in untyped storages (pickle_write.c) */

/* Bounds that no honest file comes near. */
enum { TPI_PICKLE_MARKS = 1 << 16, TPI_KEY_WEIGHT = 1 << 14, TPI_PICKLE_NAMES = 1 << 12 };
#endif
