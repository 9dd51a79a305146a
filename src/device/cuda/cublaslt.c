/* Matrix products by cuBLASLt, with the bias in the same kernel. A shape's plan (descriptors and the
 * algorithm that the library picked) is made once and kept; the workspace comes from the caching allocator, so it is in
 * the stream's order and costs nothing when idle. Without the library nothing is served here, and our own kernels do
 * the work. */
#include <pthread.h>
#include <string.h>
#include "device/cuda/plan_cache.h"

/* ---- The library: numbers and layouts as its documentation gives them ---- */
enum {
    R_32F = 0,
    R_64F = 1,
    R_16F = 2,
    R_8I = 3,
    C_32F = 4,
    C_64F = 5,
    R_32I = 10,
    R_16BF = 14,
    R_8F_E4M3 = 28,
    R_8F_E5M2 = 29
};
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72, COMPUTE_TF32 = 77 };
enum { LAYOUT_BATCH = 5, LAYOUT_STRIDE = 6 };
enum {
    DESC_TRANS_A = 3,
    DESC_TRANS_B = 4,
    DESC_EPILOGUE = 7,
    DESC_BIAS = 8,
    DESC_SCALE_A = 17,
    DESC_SCALE_B = 18,
    DESC_FAST = 25
};
enum { EPILOGUE_NONE = 1, EPILOGUE_BIAS = 4 };
enum {
    PREFER_WORKSPACE = 1,
    PREFER_REDUCTION = 3,
    PREFER_ALIGN_A = 5,
    PREFER_ALIGN_B = 6,
    PREFER_ALIGN_C = 7,
    PREFER_ALIGN_D = 8
};
enum { REDUCE_IN_COMPUTE_TYPE = 2, MOST_WORKSPACE = 32 << 20 };

typedef struct heuristic { /* what the library answers */
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} heuristic;

static struct {
    bool tried, there;
    int (*create)(void **handle);
    int (*desc_new)(void **desc, int compute, int scale);
    int (*desc_set)(void *desc, int attribute, const void *value, size_t bytes);
    int (*desc_free)(void *desc);
    int (*layout_new)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
    int (*layout_free)(void *layout);
    int (*prefer_new)(void **preference);
    int (*prefer_set)(void *preference, int attribute, const void *value, size_t bytes);
    int (*prefer_free)(void *preference);
    int (*choose)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int most,
                  heuristic *found, int *n);
    int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b,
                  void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,
                  const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);
    const char *(*status_text)(int status);
} lt;

/* For `lt`, and the handle and plans of each device. It is held while a product is started, too: a plan may be taken
 * from the table by the next one, and a handle is one thread's at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(void) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so",
                                        NULL};
    const tpi_symbol symbols[] = {{"cublasLtCreate", &lt.create},
                                  {"cublasLtMatmulDescCreate", &lt.desc_new},
                                  {"cublasLtMatmulDescSetAttribute", &lt.desc_set},
                                  {"cublasLtMatmulDescDestroy", &lt.desc_free},
                                  {"cublasLtMatrixLayoutCreate", &lt.layout_new},
                                  {"cublasLtMatrixLayoutSetAttribute", &lt.layout_set},
                                  {"cublasLtMatrixLayoutDestroy", &lt.layout_free},
                                  {"cublasLtMatmulPreferenceCreate", &lt.prefer_new},
                                  {"cublasLtMatmulPreferenceSetAttribute", &lt.prefer_set},
                                  {"cublasLtMatmulPreferenceDestroy", &lt.prefer_free},
                                  {"cublasLtMatmulAlgoGetHeuristic", &lt.choose},
                                  {"cublasLtMatmul", &lt.matmul},
                                  {"cublasLtGetStatusString", &lt.status_text}};
    void *library = tpi_cuda_library(names);
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols));
}

static bool is_there(void) { /* the lock is held */
    if (!lt.tried) {
        lt.there = open_library();
        lt.tried = true;
    }
    return lt.there;
}

/* ---- Plans ---- */
typedef struct key { /* all that a plan depends on; compared as bytes, so every byte of it is set */
    int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
    uint8_t dtype, result, trans_a, trans_b, epilogue, tf32, reduced, accumulates, align_a, align_b, align_c,
        align_bias, dtype_b, scales, fast, rest[1];
} key;

typedef struct plan {
    key key;
    bool served; /* false when the library has nothing for this shape */
    void *desc, *a, *b, *c;
    heuristic how;
} plan;

static struct {
    void *handle;
    tpi_plans plans;
} device[TPI_MAX_GPUS];

static int library_type(int dtype) {
    switch (dtype) {
    case TP_FLOAT16: return R_16F;
    case TP_BFLOAT16: return R_16BF;
    case TP_FLOAT32: return R_32F;
    case TP_FLOAT64: return R_64F;
    case TP_INT8: return R_8I;
    case TP_INT32: return R_32I;
    case TP_FLOAT8_E4M3FN: return R_8F_E4M3;
    case TP_FLOAT8_E5M2: return R_8F_E5M2;
    case TP_COMPLEX64: return C_32F;
    case TP_COMPLEX128: return C_64F;
    default: return -1;
    }
}

static bool is_float8(int dtype) { return dtype == TP_FLOAT8_E4M3FN || dtype == TP_FLOAT8_E5M2; }

static int operation(int trans) { return trans == 'n' ? 0 : trans == 't' ? 1 : 2; }

/* The largest power of two, up to 16, that an address and the steps from it are multiples of. */
static uint8_t alignment(const void *address, int64_t ld, int64_t stride, int64_t itemsize) {
    uint64_t bits = (uint64_t)(uintptr_t)address | (uint64_t)(ld * itemsize) | (uint64_t)(stride * itemsize) | 16;
    return (uint8_t)(bits & -bits);
}

static key key_of(const tpi_gpu_gemm *g) {
    key k;
    memset(&k, 0, sizeof k);
    int64_t bytes = (int64_t)tpi_dtype_bytes[g->dtype], result_bytes = (int64_t)tpi_dtype_bytes[g->result];
    bool many = g->batch > 1;
    k.m = g->m;
    k.n = g->n;
    k.k = g->k;
    k.batch = g->batch;
    k.lda = g->lda;
    k.ldb = g->ldb;
    k.ldc = g->ldc;
    k.stride_a = many ? g->stride_a : 0;
    k.stride_b = many ? g->stride_b : 0;
    k.stride_c = many ? g->stride_c : 0;
    k.dtype = (uint8_t)g->dtype;
    k.result = (uint8_t)g->result;
    k.trans_a = (uint8_t)g->trans_a;
    k.trans_b = (uint8_t)g->trans_b;
    k.epilogue = g->bias ? EPILOGUE_BIAS : EPILOGUE_NONE;
    k.tf32 = g->tf32;
    k.reduced = g->reduced;
    k.accumulates = g->beta != 0;
    k.align_a = alignment(g->a, g->lda, k.stride_a, bytes);
    k.align_b = alignment(g->b, g->ldb, k.stride_b, bytes);
    k.align_c = alignment(g->c, g->ldc, k.stride_c, result_bytes);
    k.align_bias = g->bias ? alignment(g->bias, 0, 0, 1) : 0;
    k.dtype_b = (uint8_t)(is_float8(g->dtype) ? g->dtype_b : g->dtype);
    k.scales = (uint8_t)((g->scale_a != NULL) + 2 * (g->scale_b != NULL));
    k.fast = is_float8(g->dtype) && g->fast;
    return k;
}

static bool make_layout(void **layout, int type, int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                        int64_t stride) {
    if (lt.layout_new(layout, type, (uint64_t)rows, (uint64_t)columns, ld) != 0) return false;
    int32_t count = (int32_t)batch;
    return batch == 1 || (lt.layout_set(*layout, LAYOUT_BATCH, &count, sizeof count) == 0 &&
                          lt.layout_set(*layout, LAYOUT_STRIDE, &stride, sizeof stride) == 0);
}

static bool set_scales(plan *p, const tpi_gpu_gemm *g) {
    if (g->scale_a && lt.desc_set(p->desc, DESC_SCALE_A, &g->scale_a, sizeof g->scale_a)) return false;
    return !g->scale_b || !lt.desc_set(p->desc, DESC_SCALE_B, &g->scale_b, sizeof g->scale_b);
}

/* In which type the library multiplies and adds, and of which type alpha and beta are. */
static void choose_types(const key *k, int *compute, int *scale) {
    const bool tf32 = k->tf32 && (k->dtype == TP_FLOAT32 || k->dtype == TP_COMPLEX64);
    *compute = tf32 ? COMPUTE_TF32 : COMPUTE_32F;
    *scale = k->dtype == TP_COMPLEX64 ? C_32F : R_32F;
    if (k->dtype == TP_INT8) {
        *compute = COMPUTE_32I;
        *scale = R_32I;
    } else if (k->dtype == TP_FLOAT64 || k->dtype == TP_COMPLEX128) {
        *compute = COMPUTE_64F;
        *scale = k->dtype == TP_COMPLEX128 ? C_64F : R_64F;
    }
}

static bool make_descriptors(plan *p, const tpi_gpu_gemm *g) {
    const key *k = &p->key;
    int type = library_type(k->dtype), type_b = library_type(k->dtype_b), result = library_type(k->result);
    int compute, scale;
    choose_types(k, &compute, &scale);
    if (lt.desc_new(&p->desc, compute, scale) != 0) return false;
    int32_t trans_a = operation(k->trans_a), trans_b = operation(k->trans_b);
    uint32_t epilogue = k->epilogue;
    if (lt.desc_set(p->desc, DESC_TRANS_A, &trans_a, sizeof trans_a) ||
        lt.desc_set(p->desc, DESC_TRANS_B, &trans_b, sizeof trans_b) ||
        lt.desc_set(p->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue))
        return false;
    if (g->bias && lt.desc_set(p->desc, DESC_BIAS, &g->bias, sizeof g->bias)) return false;
    const int8_t fast = 1;
    if (!set_scales(p, g) || (k->fast && lt.desc_set(p->desc, DESC_FAST, &fast, sizeof fast))) return false;
    bool ta = k->trans_a != 'n', tb = k->trans_b != 'n';
    return make_layout(&p->a, type, ta ? k->k : k->m, ta ? k->m : k->k, k->lda, k->batch, k->stride_a) &&
           make_layout(&p->b, type_b, tb ? k->n : k->k, tb ? k->k : k->n, k->ldb, k->batch, k->stride_b) &&
           make_layout(&p->c, result, k->m, k->n, k->ldc, k->batch, k->stride_c);
}

static bool choose(void *handle, plan *p) {
    void *preference = NULL;
    if (lt.prefer_new(&preference) != 0) return false;
    uint64_t workspace = MOST_WORKSPACE;
    uint32_t a = p->key.align_a, b = p->key.align_b, c = p->key.align_c, reduction = REDUCE_IN_COMPUTE_TYPE;
    lt.prefer_set(preference, PREFER_WORKSPACE, &workspace, sizeof workspace);
    lt.prefer_set(preference, PREFER_ALIGN_A, &a, sizeof a);
    lt.prefer_set(preference, PREFER_ALIGN_B, &b, sizeof b);
    lt.prefer_set(preference, PREFER_ALIGN_C, &c, sizeof c);
    lt.prefer_set(preference, PREFER_ALIGN_D, &c, sizeof c);
    if (!p->key.reduced) lt.prefer_set(preference, PREFER_REDUCTION, &reduction, sizeof reduction);
    int n = 0;
    int status = lt.choose(handle, p->desc, p->a, p->b, p->c, p->c, preference, 1, &p->how, &n);
    lt.prefer_free(preference);
    return status == 0 && n == 1 && p->how.status == 0;
}

static void drop(void *plan_) {
    plan *p = plan_;
    if (p->desc) lt.desc_free(p->desc);
    if (p->a) lt.layout_free(p->a);
    if (p->b) lt.layout_free(p->b);
    if (p->c) lt.layout_free(p->c);
    tpi_delete(p, sizeof *p);
}

static plan *plan_of(int index, const tpi_gpu_gemm *g) {
    if (!device[index].handle && lt.create(&device[index].handle) != 0) {
        device[index].handle = NULL;
        return tpi_fail(TP_ERR_RUNTIME, "cuBLASLt could not start on device %d", index);
    }
    device[index].plans.key_bytes = sizeof(key);
    device[index].plans.drop = drop;
    key k = key_of(g);
    void **slot = tpi_plans_slot(&device[index].plans, &k);
    if (!slot || *slot) return slot ? *slot : NULL;
    plan *p = tpi_new0(sizeof *p);
    *slot = p;
    if (!p) return NULL;
    p->key = k;
    p->served = make_descriptors(p, g) && choose(device[index].handle, p);
    return p;
}

/* ---- Products ---- */
static bool can_serve(const tpi_gpu_gemm *g) {
    bool wide = g->dtype == TP_FLOAT64 || g->dtype == TP_COMPLEX64 || g->dtype == TP_COMPLEX128;
    if (library_type(g->dtype) < 0 || library_type(g->result) < 0 || g->m <= 0 || g->n <= 0 || g->k <= 0 ||
        g->batch <= 0)
        return false;
    if (is_float8(g->dtype) && !is_float8(g->dtype_b)) return false;
    bool bytes = g->dtype == TP_INT8 && (g->result != TP_INT32 || g->bias);
    return !bytes && !(wide && g->bias) && g->batch <= INT32_MAX;
}

static int multiply(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g, plan *p, void *workspace) {
    bool wide = g->dtype == TP_FLOAT64 || g->dtype == TP_COMPLEX128;
    const double numbers[2][2] = {{g->alpha, 0}, {g->beta, 0}}; /* complex ones have two parts */
    const float floats[2][2] = {{(float)g->alpha, 0}, {(float)g->beta, 0}};
    const int32_t whole[2] = {(int32_t)g->alpha, (int32_t)g->beta};
    const void *alpha = wide ? (const void *)numbers[0] : floats[0],
               *beta = wide ? (const void *)numbers[1] : floats[1];
    if (g->dtype == TP_INT8) {
        alpha = &whole[0];
        beta = &whole[1];
    }
    if (!set_scales(p, g)) return -1;
    if (g->bias) lt.desc_set(p->desc, DESC_BIAS, &g->bias, sizeof g->bias);
    return lt.matmul(device[index].handle, p->desc, alpha, g->a, p->a, g->b, p->b, beta, g->c, p->c, g->c, p->c,
                     p->how.algorithm, workspace, p->how.workspace, stream);
}

static tpi_served gemm_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    if (!is_there()) return TPI_DECLINED;
    plan *p = plan_of(index, g);
    if (!p) return TPI_FAILED;
    if (!p->served) return TPI_DECLINED;
    tp_device where = {TP_CUDA, (int16_t)index};
    void *workspace = p->how.workspace ? tpi_gpu_alloc_on(where, p->how.workspace, stream) : NULL;
    if (p->how.workspace && !workspace) return TPI_FAILED;
    int status = multiply(index, stream, g, p, workspace);
    tpi_gpu_free(where, workspace, p->how.workspace);
    if (status == 0) return TPI_SERVED;
    tpi_fail(TP_ERR_RUNTIME, "cuBLASLt: %s (status %d) for a product of %s, m %lld, n %lld, k %lld, batch %lld",
             lt.status_text(status), status, tp_dtype_name(g->dtype), (long long)g->m, (long long)g->n, (long long)g->k,
             (long long)g->batch);
    return TPI_FAILED;
}

tpi_served tpi_cublaslt_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    if (!can_serve(g)) return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    pthread_mutex_lock(&lock);
    tpi_served served = gemm_locked(index, stream, g);
    pthread_mutex_unlock(&lock);
    return served;
}
