/* Fourier transforms along dims of a tensor: complex to complex, real to the non-redundant half, and back. Values only.
 *
 * A line's bits depend neither on the group of lines that it is taken in nor on its place there, so they do not depend
 * on the thread count. A real line of even length is transformed as a complex one of half the length. */
#include "linalg/fft.h"
#include "device/device.h"
#include "ops/native.h"
#include <stdatomic.h>

/* A group of lines has MOST_LANES if it then has no more than FEW_ELEMENTS, which stay in the first cache, or if
 * vectors are that wide; else SOME_LANES, which are moved by vectors too, up to MANY_ELEMENTS in the second; longer
 * lines go fewer at a time. A last group takes up to one lane less than that in addition. APART: bytes, a multiple of
 * TPI_ALIGN; a power of two apart, the arrays would share cache sets. ARRAYS: four that the kernels work in, and the
 * size of two for a line of complex numbers. */
enum {
    MOST_LANES = 16,
    SOME_LANES = 8,
    FEW_ELEMENTS = 1 << 13,
    MANY_ELEMENTS = 1 << 16,
    TILE = 16,
    APART = 1024,
    ARRAYS = 8,
    SLAB_BYTES = 1 << 20,
    THICK_BYTES = 1 << 18
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
    int64_t lines, run;             /* run: lines that groups do not cross the end of */
    int64_t lanes, groups;          /* lines of each group of a run but the last; groups of a run */
    bool direct;                    /* do the kernels read and write the tensors themselves? */
    tpi_odometer walk;              /* over the other dims: operand 0 is read, 1 is written */
    atomic_bool *failed;
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

#define SINGLE_LINES(real, suffix)                                                                                \
    static void run_line_##suffix(const tpi_fft_plan *plan, const real *const *from, real *const *to, real scale, \
                                  bool swapped, real **work) {                                                    \
        TPI_ISA_PICK(tpi_fft_line_##suffix)(plan, from, to, scale, swapped, work);                                \
    }                                                                                                             \
    static void make_half_line_##suffix(int64_t h, const real *half, const real *z, real scale, real *x) {        \
        TPI_ISA_PICK(tpi_fft_make_half_line_##suffix)(h, half, z, scale, x);                                      \
    }                                                                                                             \
    static void load_half_line_##suffix(int64_t h, const real *half, const real *x, real *z) {                    \
        TPI_ISA_PICK(tpi_fft_load_half_line_##suffix)(h, half, x, z);                                             \
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
        atomic_store(j->failed, true);
        return;
    }
    tpi_odometer walk = j->walk;
    tpi_odometer_seek(&walk, run * j->run + group * j->lanes);
    void *part[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) part[i] = memory + i * (int64_t)array_bytes;
    if (j->single)
        (j->plan->first ? run_single_lines_f32 : run_lines_f32)(j, &walk, lanes, (float **)part);
    else
        (j->plan->first ? run_single_lines_f64 : run_lines_f64)(j, &walk, lanes, (double **)part);
    tpi_free(memory, ARRAYS * array_bytes);
}

/* Do lines lie in memory as complex numbers that follow each other, on both sides? A real line of even length does. */
static bool lies_in_line(const job *j) {
    const int64_t real = j->single ? sizeof(float) : sizeof(double);
    if (j->kind != COMPLEX && !j->even) return false;
    return j->from_stride == (j->kind == FROM_REAL ? real : 2 * real) &&
           j->to_stride == (j->kind == TO_REAL ? real : 2 * real);
}

/* Lines that lie beside each other, along the last of the other dims, are taken in groups that do not cross the end of
 * a run of such lines, complex ones a vector's lanes or a cache line at a time. Groups of others go on over all dims.
 */
static void group_lines(job *j) {
    const int64_t vector = TPI_ISA_PICK(tpi_fft_vector_lanes)(j->single), real = j->single ? 4 : 8;
    const int inner = j->walk.ndim - 1;
    const bool beside = inner >= 0 && j->walk.stride[0][inner] == (j->kind == FROM_REAL ? real : 2 * real) &&
                        j->walk.stride[1][inner] == (j->kind == TO_REAL ? real : 2 * real);
    const int64_t wide = vector > SOME_LANES ? vector : SOME_LANES, n = j->plan->n;
    j->lines = 1;
    for (int d = 0; d < j->walk.ndim; d++) j->lines *= j->walk.shape[d];
    j->run = beside ? j->walk.shape[inner] : j->lines;
    j->direct = beside && j->kind == COMPLEX && j->plan->stages > 1 && j->run >= wide && wide * n <= 4 * MANY_ELEMENTS;
    j->lanes = vector >= MOST_LANES || MOST_LANES * n <= FEW_ELEMENTS ? MOST_LANES : SOME_LANES;
    while (j->lanes > 1 && j->lanes * n > MANY_ELEMENTS) j->lanes /= 2;
    if (j->plan->first) j->lanes = 4 + FEW_ELEMENTS / n / 4 * 4;
    if (j->direct) j->lanes = wide;
    j->groups = j->direct ? j->run / j->lanes : tpi_ceil_div(j->run, j->lanes);
}

/* One dim's transform, from one tensor into another (which may be the same). */
typedef struct pass {
    line_kind kind;
    const tp_tensor *from;
    tp_tensor *to;
    int dim;
    int64_t n;
    double scale;
    bool forward;
} pass;

static bool prepare(job *j, const pass *p, atomic_bool *failed) {
    const int64_t from_item = (int64_t)tpi_itemsize(p->from), to_item = (int64_t)tpi_itemsize(p->to);
    *j = (job){.kind = p->kind,
               .n = p->n,
               .even = p->kind != COMPLEX && p->n % 2 == 0,
               .forward = p->forward,
               .single = p->to->dtype == TP_FLOAT32 || p->to->dtype == TP_COMPLEX64,
               .scale = p->scale,
               .from = p->from->data,
               .to = p->to->data,
               .from_stride = p->from->strides[p->dim] * from_item,
               .to_stride = p->to->strides[p->dim] * to_item,
               .walk.nargs = 2,
               .failed = failed};
    for (int d = 0; d < p->from->ndim; d++) {
        int64_t strides[TPI_ODOMETER_OPERANDS] = {p->from->strides[d] * from_item, p->to->strides[d] * to_item};
        if (d != p->dim) tpi_odometer_dim(&j->walk, p->from->shape[d], strides);
    }
    j->plan = tpi_fft_plan_of(j->even ? p->n / 2 : p->n, j->single, lies_in_line(j));
    if (j->plan) group_lines(j);
    return j->plan;
}

/* ---- Several dims: slab by slab of the tensor, which stay in the second cache from one dim to the next ---- */

/* A slab is a few of the indices of dim `split` and one of each dim before it. */
typedef struct slabs {
    const job *jobs;
    int count, split;
    int64_t extent, thick; /* indices of dim `split`: of the tensor, of a slab */
} slabs;

static void run_slab(int64_t slab, void *context) {
    const slabs *s = context;
    const int64_t each = tpi_ceil_div(s->extent, s->thick), first = slab % each * s->thick;
    for (int i = 0; i < s->count; i++) {
        job j = s->jobs[i];
        tpi_odometer outer = j.walk;
        outer.ndim = s->split + 1;
        tpi_odometer_seek(&outer, slab / each * s->extent + first);
        j.from += outer.offset[0];
        j.to += outer.offset[1];
        j.walk.ndim = 0;
        for (int d = s->split; d < s->jobs[i].walk.ndim; d++) {
            const int64_t rest = s->extent - first, size = rest < s->thick ? rest : s->thick;
            tpi_odometer_dim(&j.walk, d == s->split ? size : outer.shape[d],
                             (int64_t[]){outer.stride[0][d], outer.stride[1][d]});
        }
        group_lines(&j);
        for (int64_t group = 0; group < j.lines / j.run * j.groups; group++) run_group(group, &j);
    }
}

/* Passes one after the other; those along dims behind `split` slab by slab, if there are slabs for all threads. */
static void run_jobs(job *jobs, const pass *passes, int count) {
    const tp_tensor *t = passes[0].to;
    int64_t bytes = t->numel * (int64_t)tpi_itemsize(t), outer = 1;
    int inner = 0; /* a slab's first whole dim */
    for (; inner < t->ndim && bytes > SLAB_BYTES; inner++) {
        outer *= inner ? t->shape[inner - 1] : 1;
        bytes /= t->shape[inner];
    }
    slabs s = {jobs, 0, inner - 1, inner ? t->shape[inner - 1] : 1, 1 + THICK_BYTES / (bytes + 1)};
    const int64_t all = outer * tpi_ceil_div(s.extent, s.thick);
    for (int i = 0; i < count; i += s.count) {
        s.jobs = jobs + i;
        for (s.count = 0; inner && i + s.count < count && passes[i + s.count].dim >= inner;) s.count++;
        if (s.count > 1 && all >= tp_num_threads()) {
            tpi_parallel_for(all, true, run_slab, &s);
            continue;
        }
        s.count = 1;
        tpi_parallel_for(jobs[i].lines / jobs[i].run * jobs[i].groups, jobs[i].lines * jobs[i].n >= 1 << 13, run_group,
                         jobs + i);
    }
}

static bool transform(const pass *passes, int count) {
    if (!passes[0].to->numel || !passes[count - 1].to->numel) return true;
    job *jobs = tpi_malloc((size_t)count * sizeof *jobs);
    if (!jobs) return false;
    atomic_bool failed = false;
    int ready = 0;
    while (ready < count && prepare(jobs + ready, passes + ready, &failed)) ready++;
    if (ready == count) run_jobs(jobs, passes, count);
    for (int i = 0; i < ready; i++) tpi_fft_release(jobs[i].plan);
    tpi_mfree(jobs);
    if (atomic_load(&failed)) tpi_fail_memory((size_t)passes[0].n * 64, "the work arrays of a Fourier transform");
    return ready == count && !atomic_load(&failed);
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

/* Complex passes over dims, from the last one on, behind those that are there; how many there are then, or -1. */
static int add_passes(pass *passes, int count, const tp_tensor *self, tp_ints dim, bool forward) {
    if (dim.n > TP_MAX_DIMS) {
        tpi_fail(TP_ERR_RUNTIME, "argument 'dim': expected at most %d dims, got %lld", TP_MAX_DIMS, (long long)dim.n);
        return -1;
    }
    for (int64_t i = dim.n - 1; i >= 0; i--) {
        const int d = transformed_dim(self, dim.v[i]);
        if (d < 0 || !check_length(self->shape[d], d)) return -1;
        passes[count++] = (pass){COMPLEX, self, NULL, d, self->shape[d], 1, forward};
    }
    return count;
}

/* All into `out`, in place after the first. */
static void send_to(pass *passes, int count, tp_tensor *out) {
    for (int i = 0; i < count; i++) {
        passes[i].to = out;
        if (i) passes[i].from = out;
    }
}

tp_tensor *tpi_native_fft_c2c(tp_tensor *self, tp_ints dim, double scale, bool forward) {
    if (!tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected complex64 or complex128, got %s",
                        tp_dtype_name((tp_dtype)self->dtype));
    pass passes[TP_MAX_DIMS];
    const int count = add_passes(passes, 0, self, dim, forward);
    if (count < 0) return NULL;
    tp_tensor *out = tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, tpi_device(self));
    if (!out || !count) return out && tpi_copy_data(out, self) ? out : tpi_release_then(out, NULL);
    send_to(passes, count, out);
    passes[count - 1].scale = scale;
    return transform(passes, count) ? out : tpi_release_then(out, NULL);
}

static tp_tensor *with_size(const tp_tensor *self, int dim, int64_t size, tp_dtype dtype) {
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, self->shape, sizeof *shape * (size_t)self->ndim);
    shape[dim] = size;
    return tpi_empty(tp_ints_view(shape, self->ndim), dtype, tpi_device(self));
}

/* `others`: dims that are transformed too, from and to complex numbers, after the real one or before it. */
tp_tensor *tpi_native_fft_r2c(tp_tensor *self, tp_ints others, int64_t dim, double scale) {
    if (self->dtype != TP_FLOAT32 && self->dtype != TP_FLOAT64)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected float32 or float64, got %s",
                        tp_dtype_name((tp_dtype)self->dtype));
    int d = transformed_dim(self, dim);
    if (d < 0 || !check_length(self->shape[d], d)) return NULL;
    pass passes[TP_MAX_DIMS + 1] = {{FROM_REAL, self, NULL, d, self->shape[d], scale, true}};
    const int count = add_passes(passes, 1, self, others, true);
    if (count < 0) return NULL;
    tp_tensor *out = with_size(self, d, self->shape[d] / 2 + 1, tpi_dtype_to_complex((tp_dtype)self->dtype));
    if (!out) return NULL;
    send_to(passes, count, out);
    return transform(passes, count) ? out : tpi_release_then(out, NULL);
}

tp_tensor *tpi_native_fft_c2r(tp_tensor *self, tp_ints others, int64_t dim, int64_t n, double scale) {
    int d = transformed_dim(self, dim);
    if (d < 0 || !check_length(n, d)) return NULL;
    if (!tp_dtype_is_complex((tp_dtype)self->dtype) || self->shape[d] != n / 2 + 1)
        return tpi_fail(
            TP_ERR_RUNTIME, "argument 'self': expected a complex tensor of size %lld along dim %d, got %s of shape %s",
            (long long)(n / 2 + 1), d, tp_dtype_name((tp_dtype)self->dtype), tpi_shape_text(tpi_shape(self)));
    pass passes[TP_MAX_DIMS + 1];
    const int count = add_passes(passes, 0, self, others, false);
    if (count < 0) return NULL;
    tp_tensor *between = count ? tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, tpi_device(self)) : self;
    tp_tensor *out = between ? with_size(self, d, n, tpi_dtype_to_real((tp_dtype)self->dtype)) : NULL;
    send_to(passes, count, between);
    passes[count] = (pass){TO_REAL, between, out, d, n, scale, false};
    const bool done = out && transform(passes, count + 1);
    if (count) tpi_release(between);
    return done ? out : tpi_release_then(out, NULL);
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
