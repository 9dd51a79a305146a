/* The one door to oneDNN, a C++ library that is opened at run time when it is there: libtaper.so neither links it nor
 * needs its headers.
 *
 * TAPER_ONEDNN=0 in the environment leaves it closed, TAPER_ONEDNN=/path/libdnnl.so.3 opens that file instead of the
 * system's. Versions 2 and 3 are understood. The library is only ever called on the calling thread, for pieces of work
 * that the caller cut by shape alone, with kernels that were made for one thread: so the bits do not depend on the
 * number of threads. */
#ifndef TPI_ONEDNN_H
#define TPI_ONEDNN_H
#include "ops/conv/conv.h"

/* What is known of the library after opening it, which the first call does. False: it is not there, or closed. The
 * texts stay. */
bool tpi_onednn_found(const char **version, const char **file);
/* Tests: closes the door (false) or opens it again; the answer is how it was. */
bool tpi_onednn_enable(bool on);

/* A piece of a convolution in float32: some of its images and a slice of its channels, inside of larger arrays. Every
 * member is an int64_t, so that pieces compare as memory. */
typedef struct tpi_onednn_piece {
    tpi_conv c;         /* the piece's own sizes */
    int64_t x_channels; /* channels in an image of the whole x, of the whole y, and input channels in a row of the whole
                           w */
    int64_t y_channels;
    int64_t w_channels;
    int64_t spatial;   /* dims: 1 to 3 */
    int64_t role;      /* tpi_conv_role */
    int64_t bias;      /* 1: y starts with a bias (TPI_CONV_Y alone) */
    int64_t last;      /* 1: x and y are stored channels last */
    int64_t as_stored; /* 1: the kernel reads and writes x and y as they are stored; 0: in the layout it likes best */
} tpi_onednn_piece;

/* A kernel for a piece, kept in a table of fixed size. NULL without an error: there is no library, or it has only a
 * matrix product over patches or a reference loop to offer, which the caller's own code beats. */
typedef struct tpi_onednn_plan tpi_onednn_plan;
tpi_onednn_plan *tpi_onednn_plan_for(const tpi_onednn_piece *piece);
void tpi_onednn_plan_done(tpi_onednn_plan *plan);

/* Bytes of the piece's weights in the kernel's own layout ("packed"), and of the scratch space of one run. */
size_t tpi_onednn_packed_bytes(const tpi_onednn_plan *plan);
size_t tpi_onednn_scratch_bytes(const tpi_onednn_plan *plan);

/* These run on the calling thread. False: the library failed; no error is set. All pointers are at the piece's first
 * element; `packed` is read by y and x and written by w. */
bool tpi_onednn_pack(const tpi_onednn_plan *plan, const float *w, float *packed);
bool tpi_onednn_unpack(const tpi_onednn_plan *plan, const float *packed, float *w);
bool tpi_onednn_run(const tpi_onednn_plan *plan, const float *x, const float *packed, const float *bias, const float *y,
                    void *memory);
#endif
