/* Bytes past the caches, for results too large to stay in them: the destination's lines need not be read first, and
 * what is in the caches stays. Every chunk that streams ends with tpi_nontemporal_end, so that other threads see what
 * it wrote. */
#ifndef TPI_NONTEMPORAL_H
#define TPI_NONTEMPORAL_H
#include "base/dtype.h"
#include "device/cpu/isa.h"
#include "device/device.h"

/* Results of this size and more go past the caches: what the last-level caches of this process's processors hold. */
#define TPI_NONTEMPORAL_UNKNOWN (32 << 20) /* where the system does not say */
#define TPI_NONTEMPORAL_LEAST   (8 << 20)
int64_t tpi_nontemporal_bytes(void);

TPI_ISA_DECLARE(void, tpi_nontemporal_copy, (int64_t bytes, const char *src, char *dst));
TPI_ISA_DECLARE(void, tpi_nontemporal_end, (void));

/* `rows` rows of `bytes` each. Meanwhile as many rows of `next` as there are come into the second cache. */
typedef struct tpi_ahead {
    const char *at;
    int64_t rows, bytes, row; /* `row` bytes from one to the next */
} tpi_ahead;
TPI_ISA_DECLARE(void, tpi_nontemporal_rows,
                (int64_t rows, int64_t bytes, const char *src, int64_t src_row, char *dst, int64_t dst_row,
                 const tpi_ahead *next));

/* Whether rows of n elements, `numel` in all from the start of a block of memory on, go past the caches, in steps of 32
 * bytes. */
static inline bool tpi_rows_nontemporal(int64_t numel, int64_t n, int dtype) {
    return numel * tpi_dtype_bytes[dtype] >= tpi_nontemporal_bytes() && n * tpi_dtype_bytes[dtype] % 32 == 0;
}
#endif
