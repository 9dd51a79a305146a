/* What the natives of src/ops share: naming, checks of arguments, and walking strided memory by hand.
 *
 * Names: tpi_native_OP computes an operator's values on the CPU, tpi_geometry_OP a view's geometry, tpi_compose_OP
 * calls other operators (and so differentiates itself). None of them touches the tape or the user's scopes. */
#ifndef TPI_NATIVE_H
#define TPI_NATIVE_H
#include <string.h>
#include "base/threads.h"
#include "tensor/plan.h"
#include "tensor/tensor.h"

/* Work below this many bytes stays on the calling thread. */
#define TPI_WORTH_BYTES 65536

static inline tp_device tpi_device_or_default(tp_device d) { return d.type ? d : tpi_device_default; }
static inline tp_dtype tpi_dtype_or_default(tp_dtype d) { return d ? d : tp_default_dtype(); }
/* Where NaN is a number like others, TP_NO_FLOAT is known by its bits. */
static inline bool tpi_float_given(double v) { return memcmp(&v, &(double){TP_NO_FLOAT}, sizeof v) != 0; }

/* ---- Checks: false (or NULL) with an error that names the argument ---- */
bool tpi_check_dtype(const tp_tensor *t, const char *name, tp_dtype expected);
bool tpi_check_same_dtype(const tp_tensor *t, const char *name, const tp_tensor *as, const char *as_name);
bool tpi_check_not_complex(const tp_tensor *t, const char *name);
bool tpi_check_shape(const tp_tensor *t, const char *name, tp_ints expected);
bool tpi_check_numel(const tp_tensor *t, const char *name, int64_t expected);
/* An index tensor (int64, or int32 which is widened) as contiguous int64: owned. */
tp_tensor *tpi_index_data(tp_tensor *index, const char *name);
/* A bad index, told apart from a good one by the caller. */
bool tpi_index_error(const char *name, int64_t index, int64_t dim, int64_t size);

/* ---- Geometry of temporaries (no tape) ---- */
/* t with its dim moved to the end; a view. A zero-dimensional t becomes one-dimensional. */
tp_tensor *tpi_dim_last(tp_tensor *t, int dim);
tp_tensor *tpi_expanded(tp_tensor *t, tp_ints shape);
/* The part of t that is [start, start + length) along dim. */
tp_tensor *tpi_narrowed(tp_tensor *t, int dim, int64_t start, int64_t length);

/* ---- Marked tensors (view/conjugate_views.c), for the table of calls upwards ---- */
tp_tensor *tpi_conj_or_neg(tp_tensor *t,
                           tp_dtype dtype); /* in the dtype: its conjugate, or negative where it is real */
bool tpi_write_back(tp_tensor *to, tp_tensor *from);

/* ---- Elements of 1, 2, 4, 8 or 16 bytes, moved between strided places (strides in bytes) ---- */
void tpi_move_run(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, size_t itemsize);

/* An odometer over the dims of several operands: byte offsets for a linear position, then step by step. */
#define TPI_ODOMETER_OPERANDS 4
typedef struct tpi_odometer {
    int ndim, nargs;
    int64_t shape[TP_MAX_DIMS], stride[TPI_ODOMETER_OPERANDS][TP_MAX_DIMS]; /* strides in bytes, outermost dim first */
    int64_t at[TP_MAX_DIMS], offset[TPI_ODOMETER_OPERANDS];
} tpi_odometer;
/* Adds a dim (outermost first); the strides come one per operand. */
void tpi_odometer_dim(tpi_odometer *w, int64_t size, const int64_t *strides);
void tpi_odometer_seek(tpi_odometer *w, int64_t position);
void tpi_odometer_next(tpi_odometer *w);
/* Two results of a native that are both there, or both released. Returns ok. */
static inline bool tpi_put_pair(bool ok, tp_tensor *first, tp_tensor *second, tp_tensor **out) {
    if (ok) {
        out[0] = first;
        out[1] = second;
    } else {
        tpi_release(first);
        tpi_release(second);
    }
    return ok;
}
#endif
