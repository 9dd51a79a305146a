/* See sparse_rows.h: the loops of sparse_rows_kernels.h for each type. */
#include "ops/sparse/sparse_rows.h"

#define MULADD(sum, a, b) ((sum) += (a) * (b))
#define ADD(sum, a)       ((sum) += (a))

#define REAL      float
#define ORDERED   float
#define IS_NAN(x) ((x) != (x))
#define K(name)   name##_f32
#include "ops/sparse/sparse_rows_kernels.h"
#define REAL      double
#define ORDERED   double
#define IS_NAN(x) ((x) != (x))
#define K(name)   name##_f64
#include "ops/sparse/sparse_rows_kernels.h"
#define REAL      uint64_t
#define ORDERED   int64_t
#define IS_NAN(x) false
#define K(name)   name##_i64
#include "ops/sparse/sparse_rows_kernels.h"

/* The textbook product: C's own looks for infinities. */
#undef MULADD
#define MULADD(sum, a, b)                                                    \
    (__real__(sum) += __real__(a) * __real__(b) - __imag__(a) * __imag__(b), \
     __imag__(sum) += __real__(a) * __imag__(b) + __imag__(a) * __real__(b))
#define REAL    _Complex float
#define K(name) name##_c64
#include "ops/sparse/sparse_rows_kernels.h"
#define REAL    _Complex double
#define K(name) name##_c128
#include "ops/sparse/sparse_rows_kernels.h"

const tpi_sparse_kernels *TPI_ISA(tpi_sparse_kernels_for)(tp_dtype dtype) {
    switch (dtype) {
    case TP_FLOAT32: return &kernels_f32;
    case TP_FLOAT64: return &kernels_f64;
    case TP_INT64: return &kernels_i64;
    case TP_COMPLEX64: return &kernels_c64;
    default: return &kernels_c128;
    }
}
