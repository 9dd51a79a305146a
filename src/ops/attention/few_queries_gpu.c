/* Attention of a few queries on GPUs (few_queries_gpu_kernel.h): its keys are cut into parts, so that a whole GPU reads
 * them, however few heads there are. The order of sums follows from the shapes. */
#include "ops/attention/few_queries_gpu.h"

enum {
    MOST_QUERIES = 4,
    PIECE = 16, /* bytes of a key that a thread has */
    THREADS = 128,
    AHEAD = 4,
    MOST_LANES = 32,
    BLOCKS = 512 /* enough for a GPU: more heads than that are not cut */
};

typedef struct few_t {                       /* as the kernels have it */
    int64_t q[3], k[3], v[3], o[3], mask[4]; /* strides: of batches, heads and rows; of the mask's keys too */
    int64_t heads, queries, keys;
    int64_t parts, chunk; /* into how many the keys are cut, and keys of one */
    float scale;          /* these kernels compute in float */
} few_t;

typedef struct form {   /* what a kernel is compiled for */
    int lanes, per;     /* threads that have a key together; elements of it that each has, PIECE bytes */
    int queries;        /* 1, 2 or MOST_QUERIES: at least as many as there are */
    int mask;           /* 0: none, 1: of bools, 2: of numbers to add */
    bool causal, alone; /* alone: the keys are one part, so that nothing is left to join */
    tp_dtype dtype, mask_dtype;
    int64_t depth;
} form;

static bool lies_well(const void *data, const int64_t *stride, int per) {
    return (uintptr_t)data % PIECE == 0 && stride[0] % per == 0 && stride[1] % per == 0 && stride[2] % per == 0;
}

bool tpi_gpu_few_queries_suits(tp_device device, const tpi_gpu_attention *a, const tp_tensor *mask) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    int per = PIECE / (int)tp_dtype_size(a->dtype);
    return caps && tpi_gpu_sharing(caps) && caps->max_threads >= THREADS && a->dtype != TP_FLOAT64 &&
           a->queries <= MOST_QUERIES && a->heads == a->kv_heads && a->depth == a->depth_v && a->depth % per == 0 &&
           a->depth <= (int64_t)MOST_LANES * per && lies_well(a->q, a->q_stride, per) &&
           lies_well(a->k, a->k_stride, per) && lies_well(a->v, a->v_stride, per) &&
           (!mask || mask->dtype == TP_BOOL || tpi_gpu_floats(mask));
}

static form form_of(const tpi_gpu_attention *a, const tp_tensor *mask) {
    form f = {.lanes = 1,
              .per = PIECE / (int)tp_dtype_size(a->dtype),
              .queries = a->queries == 3 ? MOST_QUERIES : (int)a->queries,
              .mask = !mask                    ? 0
                      : mask->dtype == TP_BOOL ? 1
                                               : 2,
              .causal = a->causal,
              .dtype = a->dtype,
              .mask_dtype = mask ? (tp_dtype)mask->dtype : a->dtype,
              .depth = a->depth};
    while ((int64_t)f.lanes * f.per < a->depth) f.lanes *= 2;
    return f;
}

/* lanes: how many threads work together. */
static tpi_gpu_function *kernel_of(tp_device device, const form *f, const tpi_gpu_site *site, int lanes) {
    const tpi_gpu_define defines[] = {
        TPI_DEFINE("GROUP", lanes),    TPI_DEFINE("GROUPS", THREADS / lanes), TPI_DEFINE("MOST_PARTS", BLOCKS),
        TPI_DEFINE("PER", f->per),     TPI_DEFINE("QUERIES", f->queries),     TPI_DEFINE("AHEAD", AHEAD),
        TPI_DEFINE("DEPTH", f->depth), TPI_DEFINE("MASK", f->mask),           TPI_DEFINE("CAUSAL", f->causal),
        TPI_DEFINE("ALONE", f->alone), TPI_DEFINE_DTYPE("X", f->dtype),       TPI_DEFINE_DTYPE("M", f->mask_dtype)};
    return tpi_gpu_site_kernel(device, site, false, sizeof defines / sizeof *defines, defines);
}

/* As many parts as there are rounds of all groups, and not more blocks than a GPU has use for. */
static few_t cut(const tpi_gpu_attention *a, const form *f, const tp_tensor *mask) {
    few_t c = {.heads = a->heads, .queries = a->queries, .keys = a->keys, .scale = (float)a->scale};
    int64_t all = a->batch * a->heads, round = (int64_t)THREADS / f->lanes * AHEAD;
    int64_t rounds = tpi_ceil_div(a->keys, round), most = all < BLOCKS ? BLOCKS / all : 1;
    c.chunk = tpi_ceil_div(rounds, rounds < most ? rounds : most) * round;
    c.parts = tpi_ceil_div(a->keys, c.chunk);
    memcpy(c.q, a->q_stride, sizeof c.q);
    memcpy(c.k, a->k_stride, sizeof c.k);
    memcpy(c.v, a->v_stride, sizeof c.v);
    memcpy(c.o, a->o_stride, sizeof c.o);
    for (int i = 0, n = mask ? mask->ndim : 0; i < 4 && i < n; i++) c.mask[3 - i] = mask->strides[n - 1 - i];
    return c;
}

bool tpi_gpu_few_queries(tp_device device, const tpi_gpu_attention *a, const tp_tensor *mask) {
    static const tpi_gpu_site parts_site = {"few_queries_gpu_kernel.h", "parts"},
                              join_site = {"few_queries_gpu_kernel.h", "join"};
    form f = form_of(a, mask);
    const few_t c = cut(a, &f, mask);
    int64_t heads = a->batch * a->heads;
    f.alone = c.parts == 1;
    tp_tensor *parts =
        f.alone ? NULL : tpi_empty(TP_INTS(heads * c.parts * a->queries, a->depth + 2), TP_FLOAT32, device);
    if (!f.alone && !parts) return false;
    tpi_gpu_function *kernel = kernel_of(device, &f, &parts_site, f.lanes);
    const tpi_gpu_arg args[] = {
        TPI_GPU_PTR(a->o), TPI_GPU_PTR(a->lse), TPI_GPU_PTR(tpi_gpu_data(parts)), TPI_GPU_PTR(a->q),
        TPI_GPU_PTR(a->k), TPI_GPU_PTR(a->v),   TPI_GPU_PTR(tpi_gpu_data(mask)),  TPI_GPU_VAL(c)};
    bool ok = kernel && tpi_gpu_launch(device, kernel, heads * c.parts, THREADS, 0, 8, args);
    if (ok && !f.alone) {
        kernel = kernel_of(device, &f, &join_site, THREADS);
        const tpi_gpu_arg ends[] = {TPI_GPU_PTR(a->o), TPI_GPU_PTR(a->lse), TPI_GPU_PTR(parts->data), TPI_GPU_VAL(c)};
        ok = kernel && tpi_gpu_launch(device, kernel, heads * a->queries, THREADS, 0, 4, ends);
    }
    tpi_release(parts);
    return ok;
}
