/* Fourier transforms along dims of a tensor: complex to complex, real to the non-redundant half, and back. Values only.
 *
 * Lines are taken in groups of a size that depends on their length alone, so a line's bits do not depend on the thread
 * count. A real line of even length is transformed as a complex one of half the length. */
#include "linalg/fft.h"
#include "device/device.h"
#include "ops/native.h"
#include <stdatomic.h>

/* A group of lines has MOST_LANES if it then has no more than FEW_ELEMENTS, which stay in the first cache, or if
 * vectors are that wide; else SOME_LANES, which are moved by vectors too, up to MANY_ELEMENTS in the second; longer
 * lines go fewer at a time. A last group takes up to one lane less than that in addition. APART: bytes, a multiple of TPI_ALIGN; a power of two apart, the arrays would share cache
 * sets. ARRAYS: four that the kernels work in, and the size of two for a line of complex numbers. */
enum {
    MOST_LANES = 16,
    SOME_LANES = 8,
    FEW_ELEMENTS = 1 << 13,
    MANY_ELEMENTS = 1 << 16,
    TILE = 16,
    APART = 1024,
    ARRAYS = 6
};
typedef enum line_kind { COMPLEX, FROM_REAL, TO_REAL } line_kind;

typedef struct job {
    line_kind kind;
    tpi_fft_plan *plan; /* of n, or of n / 2 for real lines of even length */
    int64_t n;          /* the line's length, as the mathematics has it */
    bool even, forward, single;
    double scale;
    const char *from;
    char *to;
    int64_t from_stride, to_stride; /* bytes along the line */
    int64_t lines, run; /* run: lines that groups do not cross the end of */
    int64_t lanes, groups; /* lines of each group of a run but the last; groups of a run */
    bool direct;        /* do the kernels read and write the tensors themselves? */
    tpi_odometer walk; /* over the other dims: operand 0 is read, 1 is written */
    atomic_bool failed;
} job;

static void run_plan_f32(const tpi_fft_plan *plan, int64_t lanes, const tpi_fft_ends *ends, float **work) {
    TPI_ISA_PICK(tpi_fft_run_f32)(plan, lanes, ends, work);
}
static void run_plan_f64(const tpi_fft_plan *plan, int64_t lanes, const tpi_fft_ends *ends, double **work) {
    TPI_ISA_PICK(tpi_fft_run_f64)(plan, lanes, ends, work);
}

static void load_across_f32(int64_t n, int64_t lanes, const float *from, int64_t step, float *re, float *im) {
    TPI_ISA_PICK(tpi_fft_load_across_f32)(n, lanes, from, step, re, im);
}
static void load_across_f64(int64_t n, int64_t lanes, const double *from, int64_t step, double *re, double *im) {
    TPI_ISA_PICK(tpi_fft_load_across_f64)(n, lanes, from, step, re, im);
}
static void store_across_f32(int64_t n, int64_t lanes, const float *re, const float *im, float scale, float *to,
                             int64_t step) {
    TPI_ISA_PICK(tpi_fft_store_across_f32)(n, lanes, re, im, scale, to, step);
}
static void store_across_f64(int64_t n, int64_t lanes, const double *re, const double *im, double scale, double *to,
                             int64_t step) {
    TPI_ISA_PICK(tpi_fft_store_across_f64)(n, lanes, re, im, scale, to, step);
}

#define HALVES(real, suffix)                                                                                     \
    static void make_half_##suffix(int64_t first, int64_t last, int64_t h, const real *half, int64_t lanes,      \
                                   const real *re, const real *im, real *xr, real *xi) {                         \
        TPI_ISA_PICK(tpi_fft_make_half_##suffix)(first, last, h, half, lanes, re, im, xr, xi);                   \
    }                                                                                                            \
    static void load_half_##suffix(int64_t first, int64_t last, const real *half, int64_t lanes, const real *xr, \
                                   const real *xi, const real *yr, const real *yi, real *re, real *im) {         \
        TPI_ISA_PICK(tpi_fft_load_half_##suffix)(first, last, half, lanes, xr, xi, yr, yi, re, im);              \
    }
HALVES(float, f32)
HALVES(double, f64)

#define SINGLE_LINES(real, suffix)                                                                               \
    static void run_line_##suffix(const tpi_fft_plan *plan, const tpi_fft_ends *ends, real **work) {             \
        TPI_ISA_PICK(tpi_fft_line_##suffix)(plan, ends, work);                                                   \
    }                                                                                                            \
    static void make_half_line_##suffix(int64_t h, const real *half, const real *z, real scale, real *x) {       \
        TPI_ISA_PICK(tpi_fft_make_half_line_##suffix)(h, half, z, scale, x);                                     \
    }                                                                                                            \
    static void load_half_line_##suffix(int64_t h, const real *half, const real *x, real *z) {                   \
        TPI_ISA_PICK(tpi_fft_load_half_line_##suffix)(h, half, x, z);                                            \
    }
SINGLE_LINES(float, f32)
SINGLE_LINES(double, f64)

#define T    float
#define NAME _f32
#include "ops/fft/lines.h"
#undef T
#undef NAME
#define T    double
#define NAME _f64
#include "ops/fft/lines.h"
#undef T
#undef NAME

static void run_group(int64_t chunk, void *context) {
    job *j = context;
    const int64_t run = chunk / j->groups, group = chunk % j->groups;
    const int64_t lanes = group == j->groups - 1 ? j->run - group * j->lanes : j->lanes;
    const int64_t numbers = tpi_fft_work_size(j->plan, j->plan->first ? j->plan->together : lanes);
    const size_t item = j->single ? sizeof(float) : sizeof(double);
    const size_t array_bytes = ((size_t)numbers * item + TPI_ALIGN - 1) / TPI_ALIGN * TPI_ALIGN + APART;
    char *memory = tpi_alloc(ARRAYS * array_bytes);
    if (!memory) {
        atomic_store(&j->failed, true);
        return;
    }
    tpi_odometer walk = j->walk;
    tpi_odometer_seek(&walk, run * j->run + group * j->lanes);
    void *part[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) part[i] = memory + i * (int64_t)array_bytes;
    if (j->single)
        (j->plan->first ? run_single_lines_f32
                        : run_lines_f32)(j, &walk, lanes, (float *[]){part[0], part[1], part[2], part[3], part[4]});
    else
        (j->plan->first ? run_single_lines_f64
                        : run_lines_f64)(j, &walk, lanes, (double *[]){part[0], part[1], part[2], part[3], part[4]});
    tpi_free(memory, ARRAYS * array_bytes);
}

/* Do lines lie in memory as complex numbers that follow each other, on both sides? A real line of even length does. */
static bool lies_in_line(const job *j) {
    const int64_t real = j->single ? sizeof(float) : sizeof(double);
    if (j->kind != COMPLEX && !j->even) return false;
    return j->from_stride == (j->kind == FROM_REAL ? real : 2 * real) &&
           j->to_stride == (j->kind == TO_REAL ? real : 2 * real);
}

/* Complex lines that lie beside each other, along the last of the other dims, are taken in groups of a vector's lanes
 * or a cache line, each of them within one run of such lines. Groups of others go on over all dims. */
static void group_lines(job *j) {
    const int64_t vector = TPI_ISA_PICK(tpi_fft_vector_lanes)(j->single), item = j->single ? 8 : 16;
    const int inner = j->walk.ndim - 1;
    const bool beside = inner >= 0 && j->walk.stride[0][inner] == item && j->walk.stride[1][inner] == item;
    const int64_t wide = vector > SOME_LANES ? vector : SOME_LANES, n = j->plan->n;
    j->direct = j->kind == COMPLEX && j->plan->stages > 1 && beside && j->walk.shape[inner] >= wide &&
                wide * n <= 4 * MANY_ELEMENTS;
    j->lanes = vector >= MOST_LANES || MOST_LANES * n <= FEW_ELEMENTS ? MOST_LANES : SOME_LANES;
    while (j->lanes > 1 && j->lanes * n > MANY_ELEMENTS) j->lanes /= 2;
    if (j->plan->first) j->lanes = 2 + FEW_ELEMENTS / n / 2 * 2;
    if (j->direct) j->lanes = wide;
    j->run = j->direct ? j->walk.shape[inner] : j->lines;
    j->groups = j->direct ? j->run / j->lanes : tpi_ceil_div(j->run, j->lanes);
}

/* All lines along `dim`, from one tensor into another (which may be the same). */
static bool transform(line_kind kind, const tp_tensor *from, tp_tensor *to, int dim, int64_t n, double scale,
                      bool forward) {
    if (!to->numel) return true;
    job j = {.kind = kind,
             .n = n,
             .even = kind != COMPLEX && n % 2 == 0,
             .forward = forward,
             .scale = scale,
             .from = from->data,
             .to = to->data,
             .lines = 1};
    j.single = to->dtype == TP_FLOAT32 || to->dtype == TP_COMPLEX64;
    j.from_stride = from->strides[dim] * (int64_t)tpi_itemsize(from);
    j.to_stride = to->strides[dim] * (int64_t)tpi_itemsize(to);
    j.walk.nargs = 2;
    for (int d = 0; d < from->ndim; d++) {
        if (d == dim) continue;
        int64_t strides[TPI_ODOMETER_OPERANDS] = {from->strides[d] * (int64_t)tpi_itemsize(from),
                                                  to->strides[d] * (int64_t)tpi_itemsize(to)};
        tpi_odometer_dim(&j.walk, from->shape[d], strides);
        j.lines *= from->shape[d];
    }
    j.plan = tpi_fft_plan_of(j.even ? n / 2 : n, j.single, lies_in_line(&j));
    if (!j.plan) return false;
    group_lines(&j);
    atomic_init(&j.failed, false);
    tpi_parallel_for(j.lines / j.run * j.groups, j.lines * n >= 1 << 13, run_group, &j);
    tpi_fft_release(j.plan);
    if (!atomic_load(&j.failed)) return true;
    tpi_fail_memory((size_t)n * 64, "the work arrays of a Fourier transform");
    return false;
}

/* A zero-dimensional tensor has no dim to transform, though its dims 0 and -1 are accepted elsewhere. */
static int transformed_dim(const tp_tensor *self, int64_t dim) {
    if (self->ndim) return TPI_DIM(self, dim);
    tpi_fail(TP_ERR_INDEX, "argument 'dim': dimension specified as %lld but the tensor has no dimensions",
             (long long)dim);
    return -1;
}

static bool check_length(int64_t n, int dim) {
    return n >= 1 ||
           tpi_refuse(TP_ERR_VALUE, "argument 'dim': a transform needs at least one element, got %lld along dim %d",
                      (long long)n, dim);
}

tp_tensor *tpi_native_fft_c2c(tp_tensor *self, tp_ints dim, double scale, bool forward) {
    if (!tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected complex64 or complex128, got %s",
                        tp_dtype_name((tp_dtype)self->dtype));
    tp_tensor *out = tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, tpi_device(self));
    if (!out) return NULL;
    if (!dim.n) return tpi_copy_data(out, self) ? out : tpi_release_then(out, NULL);
    for (int64_t i = dim.n - 1; i >= 0; i--) { /* from the last dim on, in place after the first pass */
        int d = transformed_dim(self, dim.v[i]);
        if (d < 0 || !check_length(self->shape[d], d) ||
            !transform(COMPLEX, i == dim.n - 1 ? self : out, out, d, self->shape[d], i ? 1 : scale, forward))
            return tpi_release_then(out, NULL);
    }
    return out;
}

static tp_tensor *with_size(const tp_tensor *self, int dim, int64_t size, tp_dtype dtype) {
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, self->shape, sizeof *shape * (size_t)self->ndim);
    shape[dim] = size;
    return tpi_empty(tp_ints_view(shape, self->ndim), dtype, tpi_device(self));
}

tp_tensor *tpi_native_fft_r2c(tp_tensor *self, int64_t dim, double scale) {
    if (self->dtype != TP_FLOAT32 && self->dtype != TP_FLOAT64)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected float32 or float64, got %s",
                        tp_dtype_name((tp_dtype)self->dtype));
    int d = transformed_dim(self, dim);
    if (d < 0 || !check_length(self->shape[d], d)) return NULL;
    tp_tensor *out = with_size(self, d, self->shape[d] / 2 + 1, tpi_dtype_to_complex((tp_dtype)self->dtype));
    return out && transform(FROM_REAL, self, out, d, self->shape[d], scale, true) ? out : tpi_release_then(out, NULL);
}

tp_tensor *tpi_native_fft_c2r(tp_tensor *self, int64_t dim, int64_t n, double scale) {
    int d = transformed_dim(self, dim);
    if (d < 0 || !check_length(n, d)) return NULL;
    if (!tp_dtype_is_complex((tp_dtype)self->dtype) || self->shape[d] != n / 2 + 1)
        return tpi_fail(
            TP_ERR_RUNTIME, "argument 'self': expected a complex tensor of size %lld along dim %d, got %s of shape %s",
            (long long)(n / 2 + 1), d, tp_dtype_name((tp_dtype)self->dtype), tpi_shape_text(tpi_shape(self)));
    tp_tensor *out = with_size(self, d, n, tpi_dtype_to_real((tp_dtype)self->dtype));
    return out && transform(TO_REAL, self, out, d, n, scale, false) ? out : tpi_release_then(out, NULL);
}

/* 0, 1, ..., -2, -1 over n * d; the positive half alone for real transforms. */
static tp_tensor *frequencies(int64_t n, double d, tp_dtype dtype, tp_device device, bool positive) {
    dtype = tpi_dtype_or_default(dtype);
    if (!(tpi_dtype_category[dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX)))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dtype': %s requires a floating point or complex dtype, got %s",
                        positive ? "rfftfreq" : "fftfreq", tp_dtype_name(dtype));
    if (n < 1) return tpi_fail(TP_ERR_RUNTIME, "argument 'n': expected at least 1, got %lld", (long long)n);
    int64_t count = positive ? n / 2 + 1 : n;
    tp_tensor *out = tpi_empty(TP_INTS(count), dtype, tpi_device_or_default(device));
    double step = 1.0 / ((double)n * d);
    for (int64_t i = 0; out && i < count; i++) {
        int64_t k = positive || i < (n + 1) / 2 ? i : i - n;
        /* in float32 the step is rounded before it is multiplied, as the tensor operations would do it */
        double v = dtype == TP_FLOAT64 ? (double)k * step : (double)((float)k * (float)step);
        tpi_store_scalar(out->data + (size_t)i * tpi_itemsize(out), dtype, tp_float(v));
    }
    return out;
}

tp_tensor *tpi_native_fftfreq(int64_t n, double d, tp_dtype dtype, tp_device device) {
    return frequencies(n, d, dtype, device, false);
}
tp_tensor *tpi_native_rfftfreq(int64_t n, double d, tp_dtype dtype, tp_device device) {
    return frequencies(n, d, dtype, device, true);
}
