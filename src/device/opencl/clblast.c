/* Matrix products of GPUs by CLBlast, opened at run time: float32 and float64 without an epilogue. Anything else, or a
 * machine without it, is not served, and the kernels of ops/matmul do it. On processors its kernels take minutes to
 * compile and are slower: only TAPER_CLBLAST=1 uses it there; 0 leaves it closed. */
#include "device/opencl/cl.h"
#include <dlfcn.h>
#include <stdlib.h>

enum { COLUMN_MAJOR = 102, AS_IT_IS = 111, TRANSPOSED = 112, CONJUGATED = 113 };
enum {
    FEW = 4
}; /* matrices of a batch that it takes, one by one: its own batches come out wrong where matrices are large and start
      within a buffer (1.5.3) */

#define GEMM(T)                                                                                                  \
    int (*)(int, int, int, size_t, size_t, size_t, T, cl_mem, size_t, size_t, cl_mem, size_t, size_t, T, cl_mem, \
            size_t, size_t, cl_command_queue *, cl_event *)

static struct {
    typeof(GEMM(float)) f32;
    typeof(GEMM(double)) f64;
} blast;
static bool everywhere;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    const char *wish = getenv("TAPER_CLBLAST");
    everywhere = wish && !strcmp(wish, "1");
    void *handle = wish && !strcmp(wish, "0") ? NULL : dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    *(void **)&blast.f32 = dlsym(handle, "CLBlastSgemm");
    *(void **)&blast.f64 = dlsym(handle, "CLBlastDgemm");
}

static int transposition(char t) { return t == 'n' ? AS_IT_IS : t == 't' ? TRANSPOSED : CONJUGATED; }

tpi_served tpi_cl_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    pthread_once(&once, open_library);
    bool single = g->dtype == TP_FLOAT32;
    if ((!single && g->dtype != TP_FLOAT64) || g->result != g->dtype || g->bias || g->batch > FEW ||
        (single ? !blast.f32 : !blast.f64))
        return TPI_DECLINED;
    tpi_cl_device *d = tpi_cl_device_at(index);
    if (d && d->caps.host_memory && !everywhere) return TPI_DECLINED;
    tpi_gpu_stream *s = d ? tpi_cl_stream(stream, index) : NULL;
    cl_mem a, b, c;
    size_t at_a, at_b, at_c, size = single ? sizeof(float) : sizeof(double);
    if (!s || !tpi_cl_find(g->a, &a, &at_a) || !tpi_cl_find(g->b, &b, &at_b) || !tpi_cl_find(g->c, &c, &at_c))
        return TPI_FAILED;
    int ta = transposition(g->trans_a), tb = transposition(g->trans_b);
    size_t m = (size_t)g->m, n = (size_t)g->n, k = (size_t)g->k, lda = (size_t)g->lda, ldb = (size_t)g->ldb,
           ldc = (size_t)g->ldc, batch = (size_t)g->batch;
    if (g->beta == 0) { /* it multiplies what C held even so, and NaN stays */
        if (ldc != m || (batch > 1 && g->stride_c != g->m * g->n)) return TPI_DECLINED;
        const unsigned char zero = 0;
        if (!tpi_cl_ok(tpi_cl.EnqueueFillBuffer(s->queue, c, &zero, 1, at_c, batch * m * n * size, 0, NULL, NULL),
                       "EnqueueFillBuffer"))
            return TPI_FAILED;
    }
    for (size_t i = 0; i < batch; i++) {
        size_t from_a = at_a / size + i * (size_t)g->stride_a, from_b = at_b / size + i * (size_t)g->stride_b,
               to = at_c / size + i * (size_t)g->stride_c;
        int code = single ? blast.f32(COLUMN_MAJOR, ta, tb, m, n, k, (float)g->alpha, a, from_a, lda, b, from_b, ldb,
                                      (float)g->beta, c, to, ldc, &s->queue, NULL)
                          : blast.f64(COLUMN_MAJOR, ta, tb, m, n, k, g->alpha, a, from_a, lda, b, from_b, ldb, g->beta,
                                      c, to, ldc, &s->queue, NULL);
        if (code && i == 0) return TPI_DECLINED; /* sizes or a device that it does not take */
        if (code) {
            tpi_fail(TP_ERR_RUNTIME, "CLBlast error %d in a product of matrices", code);
            return TPI_FAILED;
        }
    }
    atomic_fetch_add_explicit(&s->work, 1, memory_order_relaxed);
    return TPI_SERVED;
}
