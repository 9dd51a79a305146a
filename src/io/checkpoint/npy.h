/* The header of NumPy's .npy format: a magic string, a version, and a Python dict with dtype, order and shape. */
#ifndef TPI_NPY_H
#define TPI_NPY_H
#include <taper/base.h>

#define TPI_NPY_HEADER_BYTES 1024 /* enough for any header that tpi_npy_write makes */

typedef struct tpi_npy {
    tp_dtype dtype;
    bool swapped; /* the elements' bytes are in the other order */
    bool fortran; /* the first dim is the fastest */
    int ndim;
    int64_t shape[TP_MAX_DIMS];
} tpi_npy;

/* Writes a header whose length is a multiple of 64, so that elements are aligned if the member is; returns its length.
 */
bool tpi_npy_has(tp_dtype dtype,
                 const char *name); /* false and an error for dtypes that have no place in an array file */
size_t tpi_npy_write(char out[TPI_NPY_HEADER_BYTES], tp_dtype dtype, tp_ints shape);
/* Reads the dict's text (n bytes). `name` is for messages. is_bfloat16: raw two-byte elements are bfloat16. */
bool tpi_npy_parse(tpi_npy *header, const char *text, size_t n, bool is_bfloat16, const char *name);
#endif
