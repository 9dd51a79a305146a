/* The driver of pointwise kernels. A plan is cut into chunks of a fixed number of positions, a chunk into blocks. An
 * operand that lies contiguously in a block and holds the kernel's own type is used in place; others are gathered and
 * converted into L1-sized scratch blocks. Kernels take multiples of TPI_LANES elements; the rest of a block goes
 * through a padded copy, so that an element's value never depends on where it stands. Kernels of cheap maps take 8- and
 * 16-bit elements as they are. */
#include "base/scratch.h"
#include "base/threads.h"
#include "device/cpu/convert.h"
#include "device/cpu/cpu.h"
#include "device/launch.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ARGS = 9,    /* one result and up to eight inputs */
    SHORT_ROW = 128, /* shorter rows are gathered */
    LONG_RUN = 256,  /* runs at least this long are blocks of their own; shorter ones are gathered several to a block */
};

typedef struct map_job {
    const tpi_plan *plan;
    tpi_block_fn fn;
    const tpi_param *params;
    int nargs;
    tpi_scratch scratch;     /* a block per argument, for each thread */
    int64_t block;           /* elements of a scratch block */
    uint8_t type[MAX_ARGS];  /* dtype of the kernel's blocks */
    uint8_t size[MAX_ARGS];  /* its element size */
    bool same[MAX_ARGS];     /* the operand's dtype is the kernel's */
    bool packed[MAX_ARGS];   /* ... and it is contiguous over the whole plan */
    bool constant[MAX_ARGS]; /* one element for the whole plan */
    bool all_packed;         /* constants aside */
    bool rows;               /* the kernel takes each row of the plan as it lies: see map_rows */
    bool stream;             /* the result is contiguous, too large for the caches, and memory is what binds */
} map_job;

/* A whole group of lanes from the `rest` elements at src: the missing ones repeat the first. */
typedef uint16_t __attribute__((may_alias)) word2;
typedef uint32_t __attribute__((may_alias)) word4;
typedef uint64_t __attribute__((may_alias)) word8;
static inline void pad_lanes(char *dst, const char *src, int64_t rest, int size) {
    switch (size) {
    case 1:
        for (int64_t i = 0; i < TPI_LANES; i++) dst[i] = src[i < rest ? i : 0];
        break;
    case 2:
        for (int64_t i = 0; i < TPI_LANES; i++) ((word2 *)dst)[i] = ((const word2 *)src)[i < rest ? i : 0];
        break;
    case 4:
        for (int64_t i = 0; i < TPI_LANES; i++) ((word4 *)dst)[i] = ((const word4 *)src)[i < rest ? i : 0];
        break;
    case 8:
        for (int64_t i = 0; i < TPI_LANES; i++) ((word8 *)dst)[i] = ((const word8 *)src)[i < rest ? i : 0];
        break;
    default:
        for (int64_t i = 0; i < TPI_LANES; i++) {
            ((word8 *)dst)[2 * i] = ((const word8 *)src)[i < rest ? 2 * i : 0];
            ((word8 *)dst)[2 * i + 1] = ((const word8 *)src)[i < rest ? 2 * i + 1 : 1];
        }
    }
}

/* Runs the kernel on n elements at arg: whole lanes in place, the rest through a padded copy. */
static inline void run_block(const map_job *job, int64_t n, char *const *arg) {
    int64_t whole = n & ~(int64_t)(TPI_LANES - 1), rest = n - whole;
    if (whole) job->fn(whole, arg, job->params);
    if (!rest) return;
    _Alignas(64) char pad[MAX_ARGS][TPI_LANES * 16];
    char *at[MAX_ARGS];
    for (int k = 0; k < job->nargs; k++) at[k] = pad[k];
    for (int k = 1; k < job->nargs; k++) pad_lanes(pad[k], arg[k] + whole * job->size[k], rest, job->size[k]);
    job->fn(TPI_LANES, at, job->params);
    memcpy(arg[0] + whole * job->size[0], pad[0], (size_t)(rest * job->size[0]));
}

typedef struct map_scratch {
    char (*block)[TPI_BLOCK_BYTES]; /* one per argument */
    const char *filled[MAX_ARGS];   /* the broadcast element that fills the block, or NULL */
} map_scratch;

/* Where the kernel finds input k for the n positions from `at` on; `run` are in the current run, whose pointers are
 * `data`. */
static char *input_block(const map_job *job, map_scratch *s, int k, int64_t at, int64_t n, int64_t run,
                         char *const *data) {
    const tpi_plan *p = job->plan;
    int64_t stride = p->ndim ? p->stride[k][0] : 0;
    if (job->packed[k]) return p->data[k] + at * job->size[k];
    if (job->same[k] && n <= run && stride == job->size[k]) return data[k];
    if (job->constant[k] || (n <= run && stride == 0)) {
        if (s->filled[k] != data[k]) {
            int64_t most = job->constant[k] ? p->numel : p->shape[0], fill = most < job->block ? most : job->block;
            tpi_load_run(fill, data[k], 0, p->dtype[k], s->block[k], job->type[k]);
            s->filled[k] = data[k];
        }
        return s->block[k];
    }
    if (n <= run)
        tpi_load_run(n, data[k], stride, p->dtype[k], s->block[k], job->type[k]);
    else
        tpi_load_walk(&(tpi_walk){p->ndim, p->shape, p->stride[k]}, at, n, p->data[k], p->dtype[k], s->block[k],
                      job->type[k]);
    return s->block[k];
}

/* Positions [at, end), a row of the plan or its part in the chunk at a time. */
static void map_rows(const map_job *job, int64_t at, int64_t end) {
    const tpi_plan *p = job->plan;
    char *data[TPI_MAX_OPERANDS];
    int64_t index[TP_MAX_DIMS], left = tpi_plan_seek(p, at, data);
    for (int64_t d = 0, rest = at; d < p->ndim; rest /= p->shape[d], d++) index[d] = rest % p->shape[d];
    while (true) {
        const int64_t n = end - at < left ? end - at : left;
        job->fn(n, data, job->params);
        at += n;
        if (at == end) return;
        left = p->shape[0];
        int d = 1;
        while (++index[d] == p->shape[d]) index[d++] = 0;
        for (int k = 0; k < job->nargs; k++) {
            data[k] -= (left - n) * p->stride[k][0]; /* to where the row begins */
            data[k] += p->stride[k][d];
            for (int before = 1; before < d; before++) data[k] -= (p->shape[before] - 1) * p->stride[k][before];
        }
    }
}

static void map_chunk(int64_t chunk, void *context) {
    const map_job *job = context;
    const tpi_plan *p = job->plan;
    if (job->rows) {
        map_rows(job, chunk * TPI_CHUNK, p->numel - chunk * TPI_CHUNK < TPI_CHUNK ? p->numel : (chunk + 1) * TPI_CHUNK);
        return;
    }
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    map_scratch s = {.block = tpi_scratch_acquire(&job->scratch, stack)};
    int64_t at = chunk * TPI_CHUNK, end = at + TPI_CHUNK < p->numel ? at + TPI_CHUNK : p->numel;
    bool long_runs = !job->all_packed && p->ndim && p->shape[0] >= LONG_RUN;
    while (at < end) {
        char *data[TPI_MAX_OPERANDS], *arg[MAX_ARGS];
        int64_t run = tpi_plan_seek(p, at, data), n = end - at < job->block ? end - at : job->block;
        if (long_runs && run < n) n = run;
        int64_t stride = p->ndim ? p->stride[0][0] : 0;
        bool direct = !job->stream && (job->packed[0] || (job->same[0] && n <= run && stride == job->size[0]));
        arg[0] = !direct ? s.block[0] : job->packed[0] ? p->data[0] + at * job->size[0] : data[0];
        for (int k = 1; k < job->nargs; k++) arg[k] = input_block(job, &s, k, at, n, run, data);
        run_block(job, n, arg);
        if (job->stream)
            TPI_ISA_PICK(tpi_nontemporal_copy)(n * job->size[0], arg[0], p->data[0] + at * job->size[0]);
        else if (!direct && n <= run)
            tpi_store_run(n, arg[0], job->type[0], data[0], stride, p->dtype[0]);
        else if (!direct)
            tpi_store_walk(&(tpi_walk){p->ndim, p->shape, p->stride[0]}, at, n, arg[0], job->type[0], p->data[0],
                           p->dtype[0]);
        at += n;
    }
    if (job->stream) TPI_ISA_PICK(tpi_nontemporal_end)();
    tpi_scratch_release(&job->scratch, s.block);
}

/* ---- Elements of 8 and 16 bits ---- */

static bool is_constant(const tpi_plan *p, int k) {
    for (int d = 0; d < p->ndim; d++)
        if (p->stride[k][d] != 0) return false;
    return true;
}

/* Has the parameter that these kernels take for 1 that value? */
static bool narrow_allowed(const map_job *job, const tpi_map_op *op, tpi_ctype compute) {
    if (op->narrow_when < 0) return true;
    const tpi_param *when = &job->params[op->narrow_when];
    return compute == TPI_I32 ? when->i32 == 1 : compute == TPI_F32 ? when->f32 == 1.0f : when->f64 == 1.0;
}

/* Does a narrow kernel whose constant is operand `constant` (0: none is) take operand k as one element? */
static bool is_single(const map_job *job, int k, int constant) {
    return constant && (k == constant || (job->nargs > 3 && k > constant));
}

/* The first operand that is a single element for the kernels of op->narrow; 0: there is none. */
static int first_constant(const map_job *job) {
    const tpi_plan *p = job->plan;
    if (job->nargs > 3) return is_constant(p, 2) && is_constant(p, 3) ? 2 : 0;
    for (int k = job->nargs - 1; k > 0 && job->nargs > 2; k--)
        if (is_constant(p, k)) return k;
    return 0;
}

/* The kernel for operands that all have one narrow dtype, but for those that are a single element; NULL: there is none.
 * The dtype goes into *dtype, the first single element's place among the operands into *constant (0: there is none). */
static tpi_block_fn narrow_kernel(const map_job *job, const tpi_map_op *op, tpi_ctype compute, int *dtype,
                                  int *constant) {
    const tpi_plan *p = job->plan;
    const tpi_block_fn *table = op->narrow[tpi_cpu_isa];
    if (!table || (compute != TPI_I32 && compute != TPI_F32) || !narrow_allowed(job, op, compute)) return NULL;
    *constant = first_constant(job);
    *dtype = p->dtype[*constant == 1 ? 2 : 1];
    for (int k = 1; k < job->nargs; k++)
        if (!is_single(job, k, *constant) && p->dtype[k] != *dtype) return NULL;
    if ((tpi_ctype)tpi_dtype_ctype[*dtype] != compute) return NULL; /* integers beside 0.5 are compared as floats */
    const int narrow = tpi_narrow_of(*dtype);
    if (narrow == TPI_NARROWS || p->dtype[0] != tpi_result_dtype(op->result, (tp_dtype)*dtype)) return NULL;
    return table[*constant * TPI_NARROWS + narrow];
}

/* The kernel of two operands that takes one of them, number `single`, as one element for a whole row; the other must be
 * of the type to compute in. NULL: there is none. */
static tpi_block_fn single_element_kernel(const map_job *job, const tpi_map_op *op, tpi_ctype compute, int single) {
    enum { RESULT_AND_TWO_OPERANDS = 3 };
    const tpi_block_fn *table = op->narrow[tpi_cpu_isa];
    if (!table || job->nargs != RESULT_AND_TWO_OPERANDS || !narrow_allowed(job, op, compute)) return NULL;
    const int other = single == 1 ? 2 : 1;
    if (job->type[other] != tpi_ctype_dtype(compute)) return NULL;
    switch (compute) {
    case TPI_F32: return table[single * TPI_NARROWS + TPI_NARROW_F32];
    case TPI_F64: return table[single * TPI_NARROWS + TPI_NARROW_F64];
    default: return NULL;
    }
}

/* Whether the kernel can take rows where they are. One input may be a single element for each row, if there is a kernel
 * for that, which then becomes the job's. */
static void study_rows(map_job *job, const tpi_map_op *op, tpi_ctype compute) {
    const tpi_plan *p = job->plan;
    if (job->all_packed || job->stream || p->ndim < 2 || p->shape[0] < SHORT_ROW || p->shape[0] % TPI_LANES) return;
    int single = 0;
    for (int k = 0; k < job->nargs; k++) {
        if (!job->same[k]) return;
        if (p->stride[k][0] == job->size[k]) continue;
        if (k == 0 || single || p->stride[k][0] != 0) return;
        single = k;
    }
    if (single) {
        const tpi_block_fn fn = single_element_kernel(job, op, compute, single);
        if (!fn) return;
        job->fn = fn;
    }
    job->rows = true;
}

/* The types that the kernel takes operands in. A narrow kernel reads and writes elements of the dtype `narrow` as they
 * are, but for single ones, from operand `constant` on. */
static void settle_types(map_job *job, const tpi_map_op *op, tp_dtype type, tp_dtype narrow, int constant) {
    job->type[0] = (uint8_t)tpi_result_dtype(op->result, narrow ? narrow : type);
    for (int k = 1; k < job->nargs && k < MAX_ARGS; k++) { /* the second for gcc, which takes it for possible */
        const tpi_ctype fixed = (tpi_ctype)op->in_type[k - 1];
        const tp_dtype wide = fixed == TPI_CTYPES ? type : tpi_ctype_dtype(fixed);
        job->type[k] = (uint8_t)(narrow && !is_single(job, k, constant) ? narrow : wide);
    }
}

/* What is known of each operand once and for all. */
static void study(map_job *job, const tpi_map_op *op, tpi_ctype compute) {
    const tpi_plan *p = job->plan;
    int64_t widest = 1;
    bool constants = false, in_place = false;
    job->all_packed = true;
    int narrow = TP_NO_DTYPE, single = 0;
    const tpi_block_fn narrow_fn = narrow_kernel(job, op, compute, &narrow, &single);
    if (narrow_fn) job->fn = narrow_fn;
    settle_types(job, op, tpi_ctype_dtype(compute), narrow_fn ? (tp_dtype)narrow : TP_NO_DTYPE, single);
    for (int k = 0; k < job->nargs; k++) {
        job->size[k] = tpi_dtype_bytes[job->type[k]];
        if (job->size[k] > widest) widest = job->size[k];
        job->same[k] = p->dtype[k] == job->type[k];
        job->packed[k] = job->same[k] && tpi_walk_is_packed(&(tpi_walk){p->ndim, p->shape, p->stride[k]}, job->size[k]);
        job->constant[k] = !job->packed[k] && k > 0 && is_constant(p, k);
        constants |= job->constant[k];
        in_place |= k && p->data[k] == p->data[0];
        job->all_packed &= job->packed[k] || job->constant[k];
    }
    job->stream = job->packed[0] && !in_place && !op->costly && p->numel * job->size[0] >= tpi_nontemporal_bytes();
    job->block = TPI_BLOCK_BYTES / widest;
    if (job->block > 1024) job->block = 1024;
    if (job->all_packed && !constants && !job->stream) job->block = TPI_CHUNK;
    job->rows = false;
    if (!narrow_fn) study_rows(job, op, compute);
}

/* One block of operands that need no gathering: the straight way for small tensors. Not inlined, as transpose_operand:
 * their arrays would stay on the stack while larger work runs. */
static __attribute__((noinline)) bool map_small(const map_job *job) {
    const tpi_plan *p = job->plan;
    char *arg[MAX_ARGS];
    _Alignas(64) char fill[MAX_ARGS][TPI_LANES * 16];
    for (int k = 0; k < job->nargs; k++) {
        arg[k] = p->data[k];
        if (job->packed[k]) continue;
        if (!job->constant[k] || !job->same[k] || p->numel > TPI_LANES) return false;
        pad_lanes(fill[k], p->data[k], 1, job->size[k]);
        arg[k] = fill[k];
    }
    run_block(job, p->numel, arg);
    return true;
}

/* ---- Inputs that run fastest along another dimension than the result ---- */

/* Gathering such an input block by block reads a cache line per element; transposing it first, tile by tile, does not.
 */
static bool is_transposed(const tpi_plan *p, int k) {
    int64_t size = tpi_dtype_bytes[p->dtype[k]];
    if (p->ndim < 2 || p->numel < TPI_WORTH_THREADS || p->shape[0] < 8 || llabs(p->stride[k][0]) <= size) return false;
    for (int d = 1; d < p->ndim; d++)
        if (p->stride[k][d] == size && p->shape[d] >= 8) return true;
    return false;
}

/* Replaces operand k by a contiguous copy, which the caller frees. */
static __attribute__((noinline)) bool transpose_operand(tpi_plan *p, int k, void **copy) {
    int64_t size = tpi_dtype_bytes[p->dtype[k]];
    *copy = tpi_alloc((size_t)(p->numel * size));
    if (!*copy) return false;
    tpi_plan transpose = {.ndim = p->ndim,
                          .nout = 1,
                          .nargs = 2,
                          .numel = p->numel,
                          .data = {*copy, p->data[k]},
                          .dtype = {p->dtype[k], p->dtype[k]}};
    for (int d = 0; d < p->ndim; d++) {
        transpose.shape[d] = p->shape[d];
        transpose.stride[0][d] = size;
        transpose.stride[1][d] = p->stride[k][d];
        size *= p->shape[d];
    }
    memcpy(p->stride[k], transpose.stride[0], (size_t)p->ndim * sizeof(int64_t));
    p->data[k] = *copy;
    return tpi_cpu_copy((tp_device){TP_CPU, 0}, &transpose);
}

static bool run_plan(map_job *job, const tpi_map_op *op, tpi_ctype compute) {
    study(job, op, compute);
    int64_t numel = job->plan->numel, chunks = tpi_ceil_div(numel, TPI_CHUNK);
    if (numel <= TPI_CHUNK && job->all_packed && map_small(job)) return true;
    bool worth = numel >= TPI_WORTH_THREADS;
    if (!tpi_scratch_make(&job->scratch, (size_t)job->nargs * TPI_BLOCK_BYTES, chunks, worth)) return false;
    tpi_parallel_for(chunks, worth, map_chunk, job);
    tpi_scratch_free(&job->scratch);
    return true;
}

bool tpi_cpu_map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params) {
    (void)device;
    if (plan->numel == 0) return true;
    map_job job;
    job.plan = plan;
    job.params = params;
    job.nargs = op->nin + 1;
    const tpi_block_fn *table = op->fn[tpi_cpu_isa];
    job.fn = table ? table[compute] : NULL;
    if (!job.fn)
        return tpi_refuse(TP_ERR_MISSING, "%s has no CPU kernel for %s", op->name,
                          tp_dtype_name(tpi_ctype_dtype(compute)));
    if (plan->ndim < 2) return run_plan(&job, op, compute);
    void *copies[MAX_ARGS] = {NULL};
    size_t bytes[MAX_ARGS];
    bool ok = true;
    for (int k = 1; k < job.nargs && ok; k++) {
        bytes[k] = (size_t)(plan->numel * tpi_dtype_bytes[plan->dtype[k]]);
        if (is_transposed(plan, k)) ok = transpose_operand(plan, k, &copies[k]);
    }
    ok = ok && run_plan(&job, op, compute);
    for (int k = 1; k < job.nargs; k++)
        if (copies[k]) tpi_free(copies[k], bytes[k]);
    return ok;
}
