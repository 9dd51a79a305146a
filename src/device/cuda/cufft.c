/* Fourier transforms of contiguous lines and blocks by cuFFT, or by hipFFT under its names. A shape's plan is made once
 * and kept; its workspace comes from the caching allocator. */
#include <pthread.h>
#include <string.h>
#include "device/cuda/plan_cache.h"

enum {
    C2C = 0x29,
    R2C = 0x2a,
    C2R = 0x2c,
    DOUBLE = 0x40
}; /* the library's types: single, and what doubles add to them */

static struct {
    bool tried, there;
    int (*create)(int *plan);
    int (*own_workspace)(int plan, int own);
    int (*make)(int plan, int rank, long long *n, long long *in, long long in_stride, long long in_step, long long *out,
                long long out_stride, long long out_step, int type, long long batch, size_t *workspace);
    int (*set_stream)(int plan, void *stream);
    int (*set_workspace)(int plan, void *workspace);
    int (*complex)(int plan, const void *x, void *y, int direction),
        (*complex_wide)(int plan, const void *x, void *y, int direction);
    int (*from_real)(int plan, const void *x, void *y), (*from_real_wide)(int plan, const void *x, void *y);
    int (*to_real)(int plan, const void *x, void *y), (*to_real_wide)(int plan, const void *x, void *y);
    int (*destroy)(int plan);
} fft;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(bool hip) {
    static const char *const cuda_names[] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10", "libcufft.so", NULL};
    static const char *const hip_names[] = {"libhipfft.so.0", "libhipfft.so", NULL};
    void *library = tpi_cuda_library(hip ? hip_names : cuda_names);
    const tpi_symbol symbols[] = {{hip ? "hipfftCreate" : "cufftCreate", &fft.create},
                                  {hip ? "hipfftSetAutoAllocation" : "cufftSetAutoAllocation", &fft.own_workspace},
                                  {hip ? "hipfftMakePlanMany64" : "cufftMakePlanMany64", &fft.make},
                                  {hip ? "hipfftSetStream" : "cufftSetStream", &fft.set_stream},
                                  {hip ? "hipfftSetWorkArea" : "cufftSetWorkArea", &fft.set_workspace},
                                  {hip ? "hipfftExecC2C" : "cufftExecC2C", &fft.complex},
                                  {hip ? "hipfftExecZ2Z" : "cufftExecZ2Z", &fft.complex_wide},
                                  {hip ? "hipfftExecR2C" : "cufftExecR2C", &fft.from_real},
                                  {hip ? "hipfftExecD2Z" : "cufftExecD2Z", &fft.from_real_wide},
                                  {hip ? "hipfftExecC2R" : "cufftExecC2R", &fft.to_real},
                                  {hip ? "hipfftExecZ2D" : "cufftExecZ2D", &fft.to_real_wide},
                                  {hip ? "hipfftDestroy" : "cufftDestroy", &fft.destroy}};
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols));
}

/* ---- Plans ---- */
typedef struct key {
    int64_t shape[3], rank, woven, lines, type;
} key;
typedef struct plan {
    int handle;
    bool served;
    size_t workspace;
} plan;
static tpi_plans plans[TPI_MAX_GPUS];

static void drop(void *plan_) {
    plan *p = plan_;
    if (p->served) fft.destroy(p->handle);
    tpi_delete(p, sizeof *p);
}

static plan *make_plan(const key *k) {
    plan *p = tpi_new0(sizeof *p);
    if (!p || fft.create(&p->handle) != 0) return p;
    long long n[3] = {k->shape[0], k->shape[1], k->shape[2]}, lines = k->lines;
    long long *shape = k->woven ? n : NULL; /* NULL: blocks lie one behind the other, and the rest is not read */
    p->served = fft.own_workspace(p->handle, 0) == 0 && fft.make(p->handle, (int)k->rank, n, shape, lines, 1, shape,
                                                                 lines, 1, (int)k->type, lines, &p->workspace) == 0;
    if (!p->served) fft.destroy(p->handle);
    return p;
}

/* ---- Transforms ---- */
static int run(const plan *p, const tpi_gpu_fft *f) {
    if (f->kind == TPI_FFT_C2C)
        return (f->wide ? fft.complex_wide : fft.complex)(p->handle, f->x, f->y, f->forward ? -1 : 1);
    if (f->kind == TPI_FFT_R2C) return (f->wide ? fft.from_real_wide : fft.from_real)(p->handle, f->x, f->y);
    return (f->wide ? fft.to_real_wide : fft.to_real)(p->handle, f->x, f->y);
}

static tpi_served transform_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f) {
    if (!fft.tried) {
        fft.there = open_library(tpi_cuda.hip);
        fft.tried = true;
    }
    if (!fft.there) return TPI_DECLINED;
    static const int types[] = {[TPI_FFT_C2C] = C2C, [TPI_FFT_R2C] = R2C, [TPI_FFT_C2R] = C2R};
    key k = {.rank = 1, .shape = {f->n}, .lines = f->lines, .type = types[f->kind] + (f->wide ? DOUBLE : 0)};
    if (f->rank) {
        k.rank = f->rank;
        k.woven = f->woven;
        memcpy(k.shape, f->shape, sizeof k.shape);
    }
    plans[index].key_bytes = sizeof k;
    plans[index].drop = drop;
    void **slot = tpi_plans_slot(&plans[index], &k);
    if (slot && !*slot) *slot = make_plan(&k);
    const plan *p = slot ? *slot : NULL;
    if (!p) return TPI_FAILED;
    if (!p->served) return TPI_DECLINED;
    tp_device where = {TP_CUDA, (int16_t)index};
    void *workspace = p->workspace ? tpi_gpu_alloc_on(where, p->workspace, stream) : NULL;
    if (p->workspace && !workspace) return TPI_FAILED;
    int status = fft.set_stream(p->handle, stream);
    if (status == 0 && workspace) status = fft.set_workspace(p->handle, workspace);
    if (status == 0) status = run(p, f);
    tpi_gpu_free(where, workspace, p->workspace);
    if (status == 0) return TPI_SERVED;
    tpi_fail(TP_ERR_RUNTIME, "%s: status %d for %lld lines of %lld", tpi_cuda.hip ? "hipFFT" : "cuFFT", status,
             (long long)f->lines, (long long)f->n);
    return TPI_FAILED;
}

tpi_served tpi_cufft_transform(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f) {
    if ((!f->rank && f->n < 1) || f->lines < 1) return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    pthread_mutex_lock(&lock);
    tpi_served served = transform_locked(index, stream, f);
    pthread_mutex_unlock(&lock);
    return served;
}
