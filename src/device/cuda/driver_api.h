/* NVIDIA's and AMD's driver interface, which are one under two sets of names: what each function is called, the few
 * constants, and the state of the one that was opened. No vendor header is needed; everything is looked up at run time.
 *
 * Contexts: a device's primary one, retained when the device is first used. A thread's is set when it turns to another
 * device, or when somebody else's code has turned it to one. */
#ifndef TPI_CUDA_API_H
#define TPI_CUDA_API_H
#include "device/gpu/driver.h"

/* X(member, CUDA's name, HIP's name, arguments): every function returns 0 or an error's number. */
#define TPI_CUDA_FUNCTIONS(X)                                                                                         \
    X(init, "cuInit", "hipInit", (unsigned flags))                                                                    \
    X(driver_version, "cuDriverGetVersion", "hipDriverGetVersion", (int *version))                                    \
    X(device_count, "cuDeviceGetCount", "hipGetDeviceCount", (int *n))                                                \
    X(device_get, "cuDeviceGet", "hipDeviceGet", (int *device, int index))                                            \
    X(device_name, "cuDeviceGetName", "hipDeviceGetName", (char *name, int capacity, int device))                     \
    X(device_memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem", (size_t * bytes, int device))                        \
    X(device_attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute", (int *value, int attribute, int device))     \
    X(device_uuid, "cuDeviceGetUuid", "hipDeviceGetUuid", (void *uuid, int device))                                   \
    X(can_reach, "cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer", (int *can, int device, int other))                \
    X(synchronize, "cuCtxSynchronize", "hipDeviceSynchronize", (void))                                                \
    X(priorities, "cuCtxGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange", (int *least, int *greatest))      \
    X(alloc, "cuMemAlloc_v2", "hipMalloc", (void **block, size_t bytes))                                              \
    X(free, "cuMemFree_v2", "hipFree", (void *block))                                                                 \
    X(memory_info, "cuMemGetInfo_v2", "hipMemGetInfo", (size_t * free, size_t * total))                               \
    X(host_alloc, "cuMemHostAlloc", "hipHostMalloc", (void **block, size_t bytes, unsigned flags))                    \
    X(host_free, "cuMemFreeHost", "hipHostFree", (void *block))                                                       \
    X(copy_from_host, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync",                                                   \
      (void *to, const void *from, size_t bytes, void *stream))                                                       \
    X(copy_to_host, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync",                                                     \
      (void *to, const void *from, size_t bytes, void *stream))                                                       \
    X(copy_within, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync",                                                      \
      (void *to, const void *from, size_t bytes, void *stream))                                                       \
    X(copy_between, "cuMemcpyAsync", "hipMemcpyDtoDAsync", (void *to, const void *from, size_t bytes, void *stream))  \
    X(set, "cuMemsetD8Async", "hipMemsetD8Async", (void *to, unsigned char byte, size_t bytes, void *stream))         \
    X(stream_new, "cuStreamCreateWithPriority", "hipStreamCreateWithPriority",                                        \
      (void **stream, unsigned flags, int priority))                                                                  \
    X(stream_free, "cuStreamDestroy_v2", "hipStreamDestroy", (void *stream))                                          \
    X(stream_sync, "cuStreamSynchronize", "hipStreamSynchronize", (void *stream))                                     \
    X(stream_query, "cuStreamQuery", "hipStreamQuery", (void *stream))                                                \
    X(stream_wait, "cuStreamWaitEvent", "hipStreamWaitEvent", (void *stream, void *event, unsigned flags))            \
    X(event_new, "cuEventCreate", "hipEventCreateWithFlags", (void **event, unsigned flags))                          \
    X(event_free, "cuEventDestroy_v2", "hipEventDestroy", (void *event))                                              \
    X(event_record, "cuEventRecord", "hipEventRecord", (void *event, void *stream))                                   \
    X(event_query, "cuEventQuery", "hipEventQuery", (void *event))                                                    \
    X(event_sync, "cuEventSynchronize", "hipEventSynchronize", (void *event))                                         \
    X(event_elapsed, "cuEventElapsedTime", "hipEventElapsedTime", (float *milliseconds, void *from, void *to))        \
    X(module_load, "cuModuleLoadData", "hipModuleLoadData", (void **module, const void *image))                       \
    X(module_function, "cuModuleGetFunction", "hipModuleGetFunction",                                                 \
      (void **function, void *module, const char *name))                                                              \
    X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", \
      (int *blocks, void *function, int threads, size_t shared))                                                      \
    X(function_set, "cuFuncSetAttribute", "hipFuncSetAttribute", (void *function, int attribute, int value))          \
    X(launch, "cuLaunchKernel", "hipModuleLaunchKernel",                                                              \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
       void *stream, void **args, void **extra))                                                                      \
    X(capture_begin, "cuStreamBeginCapture_v2", "hipStreamBeginCapture", (void *stream, int mode))                    \
    X(capture_end, "cuStreamEndCapture", "hipStreamEndCapture", (void *stream, void **graph))                         \
    X(capture_status, "cuStreamIsCapturing", "hipStreamIsCapturing", (void *stream, int *status))                     \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode", (int *mode))           \
    X(graph_make, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags",                                      \
      (void **exec, void *graph, unsigned long long flags))                                                           \
    X(graph_launch, "cuGraphLaunch", "hipGraphLaunch", (void *exec, void *stream))                                    \
    X(graph_exec_free, "cuGraphExecDestroy", "hipGraphExecDestroy", (void *exec))                                     \
    X(graph_free, "cuGraphDestroy", "hipGraphDestroy", (void *graph))

enum { /* the same numbers in both */
       TPI_CUDA_OUT_OF_MEMORY = 2,
       TPI_CUDA_NOT_READY = 600,
       TPI_CUDA_STREAM_NON_BLOCKING = 1,
       TPI_CUDA_EVENT_NO_TIMING = 2,
       TPI_CUDA_CAPTURE_RELAXED = 2,
       TPI_CUDA_FUNCTION_SHARED = 8 /* the most dynamic shared memory of a function */
};

typedef struct tpi_cuda_api {
    bool hip;  /* AMD's */
    int count; /* devices; 0: nothing below is set */
    int device[TPI_MAX_GPUS];
    void *context[TPI_MAX_GPUS]; /* retained; HIP has none: not NULL once used */
#define X(member, cuda, hip, args) int(*member) args;
    TPI_CUDA_FUNCTIONS(X)
#undef X
    int (*context_retain)(void **context, int device); /* CUDA alone, as are the next five */
    int (*context_set)(void *context);
    int (*context_get)(void **context);
    int (*context_reach)(void *other, unsigned flags); /* the thread's device the other's memory */
    int (*error_name)(int error, const char **name);
    int (*error_text)(int error, const char **text);
    int (*device_set)(int index); /* HIP alone, as are the next five */
    int (*device_now)(int *index);
    int (*device_reach)(int other, unsigned flags);
    const char *(*hip_error_name)(int error);
    const char *(*hip_error_text)(int error);
    int (*device_properties)(void *properties, int index);
    size_t arch_offset; /* of the architecture's name in those properties */
} tpi_cuda_api;
extern tpi_cuda_api tpi_cuda; /* the one that was opened */

bool tpi_cuda_use(int index); /* makes it the thread's device; false and an error, in a forked child too */
bool tpi_cuda_check(
    int error,
    const char *function); /* false and an error that names the function and what the driver says, unless 0 */
#define TPI_CUDA(member, ...) tpi_cuda_check(tpi_cuda.member(__VA_ARGS__), #member)

/* open.c */
int tpi_cuda_count(void);
int tpi_hip_count(void);
const char *tpi_cuda_missing(void);
const char *tpi_hip_missing(void);
bool tpi_cuda_describe(int index, tpi_gpu_caps *caps);
bool tpi_cuda_version_text(char *text, size_t capacity);

/* library.c: a shared library by one of its names (NULL ends the list), looked for in the folders of TAPER_CUDA_PATH
 * and LD_LIBRARY_PATH, in those of tp_gpu_search, by the loader, in those of CUDA_HOME, CUDA_PATH and ROCM_PATH, and
 * where toolkits are usually put. NULL without an error. */
void *tpi_cuda_library(const char *const *names);
typedef struct tpi_symbol {
    const char *name;
    void *target; /* of the function pointer to fill */
} tpi_symbol;
bool tpi_cuda_symbols(void *library, const tpi_symbol *symbols, int n); /* false, without an error, if one is missing */

/* compile.c */
void *tpi_nvrtc_compile(const char *source, const char *name, const char *arch, size_t *bytes);
void *tpi_hiprtc_compile(const char *source, const char *name, const char *arch, size_t *bytes);
const char *tpi_nvrtc_compiler(void);
const char *tpi_hiprtc_compiler(void);

/* cublaslt.c, cudnn_conv.c, cudnn_attention.c; AMD's: rocblas.c, miopen.c */
tpi_served tpi_rocblas_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g);
tpi_served tpi_miopen_conv(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c);
tpi_served tpi_cublaslt_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g);
tpi_served tpi_cudnn_conv(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c);
tpi_served tpi_cufft_transform(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f); /* cufft.c; hipFFT's too */
tpi_served tpi_cusolver_solve(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s);
tpi_served tpi_cudnn_attention(int index, tpi_gpu_stream *stream, const tpi_gpu_attention *a);

/* cupti.c */
bool tpi_cupti_start(void);
void tpi_cupti_owner(int64_t event);
void tpi_cupti_stop(tpi_gpu_trace *trace);
#endif
