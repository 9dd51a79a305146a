/* The GPU driver's table (gpu/driver.h) filled by CUDA's driver interface, or HIP's: memory, copies, streams, events,
 * programs, graphs. */
#include <string.h>
#include "device/cuda/driver_api.h"

/* Calls that a capture forbids although they are no part of it (allocating, loading, asking for an event) are made in
 * the relaxed mode; both halves swap. */
static void swap_mode(int *mode) { tpi_cuda.capture_mode(mode); }

/* ---- Memory ---- */
static void *alloc(int index, size_t bytes) {
    void *block = NULL;
    int mode = TPI_CUDA_CAPTURE_RELAXED;
    if (!tpi_cuda_use(index)) return NULL;
    swap_mode(&mode);
    int error = tpi_cuda.alloc(&block, bytes);
    swap_mode(&mode);
    if (error == TPI_CUDA_OUT_OF_MEMORY) return NULL;
    return tpi_cuda_check(error, "alloc") ? block : NULL;
}

static void release_by(int (*free_block)(void *block), int index, void *block) {
    bool fine = tp_ok();
    if (tpi_cuda_use(index))
        free_block(block);
    else if (fine)
        tp_error_clear(); /* a forked child lets go of what its parent owns */
}

static void release(int index, void *block) { release_by(tpi_cuda.free, index, block); }

static bool memory_info(int index, size_t *free, size_t *total) {
    return tpi_cuda_use(index) && TPI_CUDA(memory_info, free, total);
}

static void *host_alloc(size_t bytes) {
    void *block = NULL;
    int mode = TPI_CUDA_CAPTURE_RELAXED;
    if (!tpi_cuda_use(tpi_gpu_current(TP_CUDA))) return NULL;
    swap_mode(&mode);
    int error = tpi_cuda.host_alloc(&block, bytes, 1); /* 1: pinned for every device */
    swap_mode(&mode);
    return error == 0 ? block : NULL;
}

static void host_free(void *block) {
    release_by(tpi_cuda.host_free, tpi_gpu_current(TP_CUDA), block);
} /* the thread may have no context yet */

static bool copy(int index, tpi_gpu_stream *stream, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    if (!tpi_cuda_use(index)) return false;
    if (way == TPI_GPU_FROM_HOST) return TPI_CUDA(copy_from_host, to, from, bytes, stream);
    if (way == TPI_GPU_TO_HOST) return TPI_CUDA(copy_to_host, to, from, bytes, stream);
    return TPI_CUDA(copy_within, to, from, bytes, stream);
}

/* Lets the thread's device reach the other's memory, so that bytes need not go by way of the host. Asked for once;
 * where it is refused, copies work all the same. */
static void reach(int index, int other) {
    static bool asked[TPI_MAX_GPUS][TPI_MAX_GPUS];
    int can = 0, mode = TPI_CUDA_CAPTURE_RELAXED;
    if (__atomic_exchange_n(&asked[index][other], true, __ATOMIC_RELAXED)) return;
    swap_mode(&mode);
    if (tpi_cuda.can_reach(&can, tpi_cuda.device[index], tpi_cuda.device[other]) == 0 && can) {
        if (tpi_cuda.hip)
            tpi_cuda.device_reach(other, 0);
        else
            tpi_cuda.context_reach(tpi_cuda.context[other], 0);
    }
    swap_mode(&mode);
}

static bool copy_peer(int to_index, void *to, int from_index, const void *from, size_t bytes, tpi_gpu_stream *stream) {
    if (!tpi_cuda_use(to_index))
        return false; /* whose stream it is: NULL is the default one of the context that is current */
    reach(to_index, from_index);
    return TPI_CUDA(copy_between, to, from, bytes, stream); /* addresses are the process's own: they tell the device */
}

static bool set(int index, tpi_gpu_stream *stream, void *to, int byte, size_t bytes) {
    return tpi_cuda_use(index) && TPI_CUDA(set, to, (unsigned char)byte, bytes, stream);
}

/* ---- Streams and events ---- */
static bool stream_new(int index, int priority, tpi_gpu_stream **stream) {
    int least = 0, greatest = 0;
    if (!tpi_cuda_use(index) || !TPI_CUDA(priorities, &least, &greatest)) return false;
    if (priority < greatest) priority = greatest;
    if (priority > least) priority = least;
    return TPI_CUDA(stream_new, (void **)stream, TPI_CUDA_STREAM_NON_BLOCKING, priority);
}

static void stream_free(int index, tpi_gpu_stream *stream) {
    if (tpi_cuda_use(index)) tpi_cuda.stream_free(stream);
}

static bool stream_sync(int index, tpi_gpu_stream *stream) {
    return tpi_cuda_use(index) && TPI_CUDA(stream_sync, stream);
}

static int answer(int error, const char *function) {
    if (error == TPI_CUDA_NOT_READY) return 0;
    return tpi_cuda_check(error, function) ? 1 : -1;
}

static int stream_query(int index, tpi_gpu_stream *stream) {
    return tpi_cuda_use(index) ? answer(tpi_cuda.stream_query(stream), "stream_query") : -1;
}
static bool stream_wait(int index, tpi_gpu_stream *stream, tpi_gpu_event *event) {
    return tpi_cuda_use(index) && TPI_CUDA(stream_wait, stream, event, 0);
}
static bool device_sync(int index) { return tpi_cuda_use(index) && TPI_CUDA(synchronize); }

static bool event_new(int index, bool timing, tpi_gpu_event **event) {
    return tpi_cuda_use(index) && TPI_CUDA(event_new, (void **)event, timing ? 0 : TPI_CUDA_EVENT_NO_TIMING);
}

static void event_free(int index, tpi_gpu_event *event) {
    if (tpi_cuda_use(index)) tpi_cuda.event_free(event);
}

static bool event_record(int index, tpi_gpu_event *event, tpi_gpu_stream *stream) {
    return tpi_cuda_use(index) && TPI_CUDA(event_record, event, stream);
}
static int event_query(int index, tpi_gpu_event *event) {
    int mode = TPI_CUDA_CAPTURE_RELAXED;
    if (!tpi_cuda_use(index)) return -1;
    swap_mode(&mode);
    int error = tpi_cuda.event_query(event);
    swap_mode(&mode);
    return answer(error, "event_query");
}
static bool event_sync(int index, tpi_gpu_event *event) { return tpi_cuda_use(index) && TPI_CUDA(event_sync, event); }

static bool event_elapsed(int index, tpi_gpu_event *from, tpi_gpu_event *to, double *milliseconds) {
    float ms = 0;
    if (!tpi_cuda_use(index) || !TPI_CUDA(event_elapsed, &ms, from, to)) return false;
    *milliseconds = ms;
    return true;
}

/* ---- Programs ---- */
static bool load(int index, const void *binary, size_t bytes, tpi_gpu_module **module) {
    (void)bytes;
    int mode = TPI_CUDA_CAPTURE_RELAXED;
    if (!tpi_cuda_use(index)) return false;
    swap_mode(&mode);
    int error = tpi_cuda.module_load((void **)module, binary);
    swap_mode(&mode);
    return tpi_cuda_check(error, "module_load");
}

static bool function(int index, tpi_gpu_module *module, const char *name, tpi_gpu_function **found) {
    int mode = TPI_CUDA_CAPTURE_RELAXED;
    if (!tpi_cuda_use(index)) return false;
    swap_mode(&mode);
    int error = tpi_cuda.module_function((void **)found, module, name);
    swap_mode(&mode);
    return error == 0 || tpi_refuse(TP_ERR_RUNTIME, "the program has no kernel '%s' (driver's error %d)", name, error);
}

enum { SHARED_WITHOUT_ASKING = 48 << 10 };

static int max_blocks(int index, tpi_gpu_function *f, int threads, size_t shared) {
    int blocks = 0;
    if (!tpi_cuda_use(index)) return 0;
    if (!tpi_cuda.hip && shared > SHARED_WITHOUT_ASKING)
        tpi_cuda.function_set(f, TPI_CUDA_FUNCTION_SHARED, (int)shared);
    return tpi_cuda.occupancy(&blocks, f, threads, shared) == 0 ? blocks : 0;
}

static bool launch(int index, tpi_gpu_stream *stream, tpi_gpu_function *f, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args) {
    enum { MOST = 64 };
    void *list[MOST];
    if (nargs > MOST) return tpi_refuse(TP_ERR_VALUE, "a kernel takes at most %d arguments, got %d", MOST, nargs);
    if (!tpi_cuda_use(index)) return false;
    for (int i = 0; i < nargs; i++)
        list[i] = args[i].kind == TPI_GPU_POINTER ? (void *)&args[i].value : (void *)args[i].value;
    if (!tpi_cuda.hip && shared > SHARED_WITHOUT_ASKING &&
        !TPI_CUDA(function_set, f, TPI_CUDA_FUNCTION_SHARED, (int)shared))
        return false;
    return TPI_CUDA(launch, f, grid[0], grid[1], grid[2], block[0], block[1], block[2], (unsigned)shared, stream, list,
                    NULL);
}

/* ---- Graphs ---- */
struct tpi_gpu_graph {
    int index;
    void *graph, *exec;
};

static bool capture_begin(int index, tpi_gpu_stream *stream, int mode) {
    return tpi_cuda_use(index) && TPI_CUDA(capture_begin, stream, mode);
}

static bool capture_end(int index, tpi_gpu_stream *stream, tpi_gpu_graph **graph) {
    void *recorded = NULL;
    if (!tpi_cuda_use(index) || !TPI_CUDA(capture_end, stream, &recorded)) return false;
    if (!recorded)
        return tpi_refuse(TP_ERR_RUNTIME, "the capture was given up: something in it cannot be part of a graph");
    tpi_gpu_graph *made = tpi_new0(sizeof *made);
    if (made) *made = (tpi_gpu_graph){index, recorded, NULL};
    if (!made || !TPI_CUDA(graph_make, &made->exec, recorded, 0)) {
        tpi_cuda.graph_free(recorded);
        if (made) tpi_delete(made, sizeof *made);
        return false;
    }
    *graph = made;
    return true;
}

static int capturing(int index, tpi_gpu_stream *stream) {
    int status = 0;
    return tpi_cuda_use(index) && tpi_cuda.capture_status(stream, &status) == 0 && status == 1;
}

static bool graph_launch(int index, tpi_gpu_graph *graph, tpi_gpu_stream *stream) {
    return tpi_cuda_use(index) && TPI_CUDA(graph_launch, graph->exec, stream);
}

static void graph_free(tpi_gpu_graph *graph) {
    if (!graph) return;
    if (tpi_cuda_use(graph->index)) {
        tpi_cuda.graph_exec_free(graph->exec);
        tpi_cuda.graph_free(graph->graph);
    }
    tpi_delete(graph, sizeof *graph);
}

/* ---- The tables ---- */
#define SHARED_MEMBERS                                                                                                \
    .version = TPI_GPU_DRIVER_VERSION, .type = TP_CUDA, .describe = tpi_cuda_describe,                                \
    .version_text = tpi_cuda_version_text, .alloc = alloc, .free = release, .memory_info = memory_info,               \
    .host_alloc = host_alloc, .host_free = host_free, .mapped = true, .copy = copy, .copy_peer = copy_peer,           \
    .set = set, .stream_new = stream_new, .stream_free = stream_free, .stream_sync = stream_sync,                     \
    .stream_query = stream_query, .stream_wait = stream_wait, .device_sync = device_sync, .event_new = event_new,     \
    .event_free = event_free, .event_record = event_record, .event_query = event_query, .event_sync = event_sync,     \
    .event_elapsed = event_elapsed, .load = load, .function = function, .max_blocks = max_blocks, .launch = launch,   \
    .capture_begin = capture_begin, .capture_end = capture_end, .capturing = capturing, .graph_launch = graph_launch, \
    .graph_free = graph_free, .fft = tpi_cufft_transform

const tpi_gpu_driver tpi_cuda_driver = {SHARED_MEMBERS,
                                        .name = "CUDA",
                                        .dialect = "cuda",
                                        .count = tpi_cuda_count,
                                        .missing = tpi_cuda_missing,
                                        .compile = tpi_nvrtc_compile,
                                        .compiler = tpi_nvrtc_compiler,
                                        .gemm = tpi_cublaslt_gemm,
                                        .conv = tpi_cudnn_conv,
                                        .attention = tpi_cudnn_attention,
                                        .solver = tpi_cusolver_solve,
                                        .trace_start = tpi_cupti_start,
                                        .trace_owner = tpi_cupti_owner,
                                        .trace_stop = tpi_cupti_stop};

const tpi_gpu_driver tpi_hip_driver = {SHARED_MEMBERS,
                                       .name = "HIP",
                                       .dialect = "hip",
                                       .count = tpi_hip_count,
                                       .missing = tpi_hip_missing,
                                       .compile = tpi_hiprtc_compile,
                                       .compiler = tpi_hiprtc_compiler,
                                       .gemm = tpi_rocblas_gemm,
                                       .conv = tpi_miopen_conv};
