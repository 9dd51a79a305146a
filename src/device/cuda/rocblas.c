/* Matrix products on AMD's GPUs by rocBLAS. Bias and activation are not part of its products: those are declined. */
#include <pthread.h>
#include "device/cuda/driver_api.h"

enum { F16 = 150, F32 = 151, F64 = 152, C64 = 154, C128 = 155, BF16 = 168 }; /* the library's types */
enum { PLAIN = 111, TRANSPOSED = 112, CONJUGATED = 113 };

static struct {
    bool tried, there;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*gemm)(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a,
                int a_type, int lda, int64_t stride_a, const void *b, int b_type, int ldb, int64_t stride_b,
                const void *beta, const void *c, int c_type, int ldc, int64_t stride_c, void *d, int d_type, int ldd,
                int64_t stride_d, int batch, int compute, int algorithm, int32_t solution, uint32_t flags);
    void *handle[TPI_MAX_GPUS];
} roc;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(void) {
    static const char *const names[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.0", "librocblas.so", NULL};
    const tpi_symbol symbols[] = {{"rocblas_create_handle", &roc.create},
                                  {"rocblas_set_stream", &roc.set_stream},
                                  {"rocblas_gemm_strided_batched_ex", &roc.gemm}};
    void *library = tpi_cuda_library(names);
    return library && tpi_cuda_symbols(library, symbols, 3);
}

static int library_type(int dtype) {
    switch (dtype) {
    case TP_FLOAT16: return F16;
    case TP_BFLOAT16: return BF16;
    case TP_FLOAT32: return F32;
    case TP_FLOAT64: return F64;
    case TP_COMPLEX64: return C64;
    case TP_COMPLEX128: return C128;
    default: return 0;
    }
}

static int operation(int trans) { return trans == 'n' ? PLAIN : trans == 't' ? TRANSPOSED : CONJUGATED; }

static bool fits(int64_t v) { return v >= 0 && v <= INT32_MAX; }

static bool can_serve(const tpi_gpu_gemm *g) {
    return library_type(g->dtype) && library_type(g->result) && !g->bias && g->m > 0 && g->n > 0 && g->k > 0 &&
           g->batch > 0 && fits(g->m) && fits(g->n) && fits(g->k) && fits(g->batch) && fits(g->lda) && fits(g->ldb) &&
           fits(g->ldc);
}

static int multiply(void *handle, const tpi_gpu_gemm *g) {
    int type = library_type(g->dtype), result = library_type(g->result);
    bool half = g->dtype == TP_FLOAT16 || g->dtype == TP_BFLOAT16,
         wide = g->dtype == TP_FLOAT64 || g->dtype == TP_COMPLEX128;
    const double numbers[2][2] = {{g->alpha, 0}, {g->beta, 0}};
    const float floats[2][2] = {{(float)g->alpha, 0}, {(float)g->beta, 0}};
    const void *alpha = wide ? (const void *)numbers[0] : floats[0],
               *beta = wide ? (const void *)numbers[1] : floats[1];
    return roc.gemm(handle, operation(g->trans_a), operation(g->trans_b), (int)g->m, (int)g->n, (int)g->k, alpha, g->a,
                    type, (int)g->lda, g->stride_a, g->b, type, (int)g->ldb, g->stride_b, beta, g->c, result,
                    (int)g->ldc, g->stride_c, g->c, result, (int)g->ldc, g->stride_c, (int)g->batch, half ? F32 : type,
                    0, 0, 0);
}

static tpi_served gemm_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    if (!roc.tried) {
        roc.there = open_library();
        roc.tried = true;
    }
    if (!roc.there || (!roc.handle[index] && roc.create(&roc.handle[index]) != 0)) return TPI_DECLINED;
    int status = roc.set_stream(roc.handle[index], stream);
    if (status == 0) status = multiply(roc.handle[index], g);
    if (status == 0) return TPI_SERVED;
    tpi_fail(TP_ERR_RUNTIME, "rocBLAS: status %d for a product of %s, m %lld, n %lld, k %lld, batch %lld", status,
             tp_dtype_name(g->dtype), (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->batch);
    return TPI_FAILED;
}

tpi_served tpi_rocblas_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    if (!can_serve(g)) return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    pthread_mutex_lock(&lock);
    tpi_served served = gemm_locked(index, stream, g);
    pthread_mutex_unlock(&lock);
    return served;
}
