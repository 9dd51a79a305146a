/* Matrix products of OpenCL devices by CLBlast, opened at run time: float32 and float64 without an epilogue. Anything else, or a machine without it, is not served,
 * and the kernels of ops/gpu do it. TAPER_CLBLAST=0 leaves it closed. */
#include "device/opencl/cl.h"
#include <dlfcn.h>
#include <stdlib.h>

enum { COLUMN_MAJOR = 102, AS_IT_IS = 111, TRANSPOSED = 112, CONJUGATED = 113 };

#define GEMM(T) int (*)(int, int, int, size_t, size_t, size_t, T, cl_mem, size_t, size_t, size_t, cl_mem, size_t, size_t, size_t, T, cl_mem, size_t, size_t, size_t, \
                        size_t, cl_command_queue *, cl_event *)
typedef typeof(GEMM(float)) batched_f32;
typedef typeof(GEMM(double)) batched_f64;

static struct {
    batched_f32 f32;
    batched_f64 f64;
} blast;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    const char *wish = getenv("TAPER_CLBLAST");
    void *handle = wish && !strcmp(wish, "0") ? NULL : dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    *(void **)&blast.f32 = dlsym(handle, "CLBlastSgemmStridedBatched");
    *(void **)&blast.f64 = dlsym(handle, "CLBlastDgemmStridedBatched");
}

static int transposition(char t) { return t == 'n' ? AS_IT_IS : t == 't' ? TRANSPOSED : CONJUGATED; }

tpi_gpu_served tpi_cl_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    pthread_once(&once, open_library);
    bool single = g->dtype == TP_FLOAT32;
    if ((!single && g->dtype != TP_FLOAT64) || g->result != g->dtype || g->bias || g->act != TPI_GEMM_PLAIN || (single ? !blast.f32 : !blast.f64))
        return TPI_GPU_NOT_SERVED;
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    cl_mem a, b, c;
    size_t at_a, at_b, at_c, size = single ? sizeof(float) : sizeof(double);
    if (!s || !tpi_cl_find(g->a, &a, &at_a) || !tpi_cl_find(g->b, &b, &at_b) || !tpi_cl_find(g->c, &c, &at_c)) return TPI_GPU_FAILED;
    int ta = transposition(g->trans_a), tb = transposition(g->trans_b);
    size_t m = (size_t)g->m, n = (size_t)g->n, k = (size_t)g->k, lda = (size_t)g->lda, ldb = (size_t)g->ldb, ldc = (size_t)g->ldc;
    size_t sa = (size_t)g->stride_a, sb = (size_t)g->stride_b, sc = (size_t)g->stride_c, batch = (size_t)g->batch;
    int code = single ? blast.f32(COLUMN_MAJOR, ta, tb, m, n, k, (float)g->alpha, a, at_a / size, lda, sa, b, at_b / size, ldb, sb, (float)g->beta, c, at_c / size, ldc,
                                  sc, batch, &s->queue, NULL)
                      : blast.f64(COLUMN_MAJOR, ta, tb, m, n, k, g->alpha, a, at_a / size, lda, sa, b, at_b / size, ldb, sb, g->beta, c, at_c / size, ldc, sc, batch,
                                  &s->queue, NULL);
    atomic_fetch_add_explicit(&s->work, 1, memory_order_relaxed);
    return code == 0 ? TPI_GPU_SERVED : TPI_GPU_NOT_SERVED; /* its refusals are about sizes and devices: nothing was written */
}
