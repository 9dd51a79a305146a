/* Which vendors' libraries there are, for those who ask what a machine runs on. Only asking opens them here; who uses
 * them opens them himself. */
#define _GNU_SOURCE /* dlinfo */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <taper/gpu.h>
#include "device/cuda/driver_api.h"

typedef enum form {
    SILENT,
    NUMBER,
    NUMBER_OUT,
    PAIR_OUT,
    TRIPLE_OUT
} form; /* how its version is told: by size_t f(void), f(int *), f(int *, int *), f(size_t *, ...) */

static const struct known {
    const char *backend, *name, *serves, *instead;
    const char *files[6];
    const char *version;
    form form;
    int major, minor; /* a NUMBER's units: 130200 is 13.2.0 with 10000 and 100 */
} known[] = {
    {"CUDA",
     "NVRTC",
     "compiling kernels",
     "the archive of kernels beside the library",
     {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
     "nvrtcVersion",
     PAIR_OUT,
     0,
     0},
    {"CUDA",
     "cuBLASLt",
     "matrix products",
     "Taper's own tiled product",
     {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"},
     "cublasLtGetVersion",
     NUMBER,
     10000,
     100},
    {"CUDA",
     "cuDNN",
     "convolutions and attention",
     "products over patches, Taper's own attention",
     {"libcudnn.so.9", "libcudnn.so"},
     "cudnnGetVersion",
     NUMBER,
     10000,
     100},
    {"CUDA",
     "cuFFT",
     "Fourier transforms",
     "the CPU's, by way of the host",
     {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10", "libcufft.so"},
     "cufftGetVersion",
     NUMBER_OUT,
     1000,
     100},
    {"CUDA",
     "cuSOLVER",
     "factorisations of large matrices",
     "the CPU's, by way of the host",
     {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"},
     "cusolverGetVersion",
     NUMBER_OUT,
     1000,
     100},
    {"CUDA",
     "NCCL",
     "collectives between GPUs",
     "collectives through the host",
     {"libnccl.so.2", "libnccl.so"},
     "ncclGetVersion",
     NUMBER_OUT,
     10000,
     100},
    {"HIP",
     "hipRTC",
     "compiling kernels",
     "kernels in the cache",
     {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"},
     "hiprtcVersion",
     PAIR_OUT,
     0,
     0},
    {"HIP",
     "rocBLAS",
     "matrix products",
     "Taper's own tiled product",
     {"librocblas.so.5", "librocblas.so.4", "librocblas.so.0", "librocblas.so"},
     NULL,
     SILENT,
     0,
     0},
    {"HIP",
     "MIOpen",
     "convolutions",
     "products over patches",
     {"libMIOpen.so.1", "libMIOpen.so"},
     "miopenGetVersion",
     TRIPLE_OUT,
     0,
     0},
    {"HIP",
     "hipFFT",
     "Fourier transforms",
     "the CPU's, by way of the host",
     {"libhipfft.so.0", "libhipfft.so"},
     NULL,
     SILENT,
     0,
     0},
    {"HIP",
     "RCCL",
     "collectives between GPUs",
     "collectives through the host",
     {"librccl.so.1", "librccl.so"},
     "ncclGetVersion",
     NUMBER_OUT,
     10000,
     100},
    {"OpenCL", "CLBlast", "matrix products", "Taper's own tiled product", {"libclblast.so.1"}, NULL, SILENT, 0, 0}};
enum { KNOWN = sizeof known / sizeof *known };

static void tell_version(const struct known *k, void *library, char *text, size_t capacity) {
    void *symbol = k->version ? dlsym(library, k->version) : NULL;
    if (!symbol) return;
    int a = 0, b = 0;
    size_t x = 0, y = 0, z = 0;
    if (k->form == NUMBER) x = ((size_t(*)(void))symbol)();
    if (k->form == NUMBER_OUT && ((int (*)(int *))symbol)(&a) == 0) x = (size_t)a;
    if (k->form == PAIR_OUT && ((int (*)(int *, int *))symbol)(&a, &b) == 0) snprintf(text, capacity, "%d.%d", a, b);
    if (k->form == TRIPLE_OUT && ((int (*)(size_t *, size_t *, size_t *))symbol)(&x, &y, &z) == 0)
        snprintf(text, capacity, "%zu.%zu.%zu", x, y, z);
    if (k->major && x)
        snprintf(text, capacity, "%zu.%zu.%zu", x / (size_t)k->major, x % (size_t)k->major / (size_t)k->minor,
                 x % (size_t)k->minor);
}

int64_t tp_gpu_library_count(void) { return KNOWN; }

bool tp_gpu_library_at(int64_t i, tp_gpu_library *library) {
    if (i < 0 || i >= KNOWN)
        return tpi_refuse(TP_ERR_INDEX, "argument 'i': expected 0 to %d, got %lld", KNOWN - 1, (long long)i);
    if (!library || library->size < (int64_t)sizeof library->size)
        return tpi_refuse(TP_ERR_VALUE, "argument 'library': expected a tp_gpu_library with its size set");
    const struct known *k = &known[i];
    tp_gpu_library all = {
        .size = library->size, .backend = k->backend, .name = k->name, .serves = k->serves, .instead = k->instead};
    void *found = tpi_cuda_library(k->files);
    struct link_map *map = NULL;
    if (found && dlinfo(found, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(all.file, sizeof all.file, "%s", map->l_name);
    if (found) {
        tell_version(k, found, all.version, sizeof all.version);
        dlclose(found);
    }
    memcpy(library, &all, sizeof all < (size_t)library->size ? sizeof all : (size_t)library->size);
    return true;
}
