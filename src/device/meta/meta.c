/* The meta device: nothing is kept and nothing is computed there. Blocks are addresses that nobody may follow, apart
 * from each other so that overlaps are found as elsewhere; kernels of the tables are not run, as what a call gives is
 * settled before they would be. To natives it is a GPU whose driver launches nothing: their functions for GPUs
 * (the _gpu.c files of src/ops) make results of the right shapes without a look at an element, and where they need one
 * they fail here, as nothing can be copied out. */
#include "device/meta/meta.h"
#include <stdatomic.h>

/* ---- Memory: addresses beyond those that a process has ---- */
#define FIRST ((uintptr_t)1 << 56)
#define LAST                                                                                                         \
    ((uintptr_t)1 << 62) /* then from the start again: what was given out that long ago and still lives is not going \
                            to meet with it */
enum { GAP = 64 };

static void *alloc_addresses(tp_device device, size_t bytes) {
    static atomic_uintptr_t next = FIRST;
    (void)device;
    if (bytes > LAST - FIRST)
        return tpi_fail(TP_ERR_MEMORY, "a tensor of %zu bytes: more than there are addresses", bytes);
    uintptr_t size = (bytes + 2 * GAP - 1) / GAP * GAP, at = atomic_load_explicit(&next, memory_order_relaxed), from;
    do from = at + size > LAST ? FIRST : at;
    while (!atomic_compare_exchange_weak_explicit(&next, &at, from + size, memory_order_relaxed, memory_order_relaxed));
    return (void *)from;
}

static void forget(tp_device device, void *block, size_t bytes) {
    (void)device;
    (void)block;
    (void)bytes;
}

static bool no_data(void) { /* PyTorch's words alone, which programs look for */
    const char *now = tpi_op_now;
    tpi_op_now = NULL;
    tpi_fail(TP_ERR_MISSING, "Cannot copy out of meta tensor; no data!");
    tpi_op_now = now;
    return false;
}
static bool to_host(tp_device device, void *host, const void *block, size_t bytes) {
    (void)device;
    (void)host;
    (void)block;
    (void)bytes;
    return no_data();
}
static bool from_host(tp_device device, void *block, const void *host, size_t bytes) {
    (void)device;
    (void)block;
    (void)host;
    (void)bytes;
    return true;
}
static bool to_peer(tp_device to, void *block, tp_device from, const void *source, size_t bytes) {
    (void)to;
    (void)block;
    (void)from;
    (void)source;
    (void)bytes;
    return true;
}

/* ---- What the tables' operators launch ---- */
static bool map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params) {
    (void)device;
    (void)op;
    (void)plan;
    (void)compute;
    (void)params;
    return true;
}
static bool fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                 const tpi_param *params) {
    (void)op;
    (void)outs;
    (void)x;
    (void)reduced;
    (void)compute;
    (void)params;
    return true;
}
static bool scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                 const tpi_param *params) {
    (void)op;
    (void)outs;
    (void)x;
    (void)dim;
    (void)compute;
    (void)params;
    return true;
}
static bool copy(tp_device device, tpi_plan *plan) {
    (void)device;
    (void)plan;
    return true;
}
static bool fill(tp_device device, tpi_plan *plan, const tp_scalar *value) {
    (void)device;
    (void)plan;
    (void)value;
    return true;
}

const tpi_device_ops tpi_meta_ops = {
    .version = TPI_DEVICE_VERSION,
    .name = "meta",
    .gpu = &tpi_meta_driver,
    .alloc = alloc_addresses,
    .free = forget,
    .to_host = to_host,
    .from_host = from_host,
    .to_peer = to_peer,
    .map = map,
    .fold = fold,
    .scan = scan,
    .copy = copy,
    .fill = fill,
};

/* ---- The driver: what natives' functions ask of a GPU ---- */
static int one(void) { return 1; }
static const char *nothing_missing(void) { return "nothing is missing"; }

static bool describe(int index, tpi_gpu_caps *caps) {
    (void)index;
    *caps = (tpi_gpu_caps){.name = "meta",
                           .arch = "meta",
                           .major = 9,
                           .units = 64,
                           .warp = 32,
                           .max_threads = 1024,
                           .threads_per_unit = 2048,
                           .memory = LAST,
                           .shared = 48 << 10,
                           .shared_most = 99 << 10,
                           .f64 = true,
                           .chains = true};
    return true;
}

static bool driver_copy(int index, tpi_gpu_stream *stream, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    (void)index;
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    return way != TPI_GPU_TO_HOST || no_data();
}
static bool set(int index, tpi_gpu_stream *stream, void *to, int byte, size_t bytes) {
    (void)index;
    (void)stream;
    (void)to;
    (void)byte;
    (void)bytes;
    return true;
}
static bool stream_sync(int index, tpi_gpu_stream *stream) {
    (void)index;
    (void)stream;
    return true;
}
static bool device_sync(int index) {
    (void)index;
    return true;
}

static char no_kernel;
static bool load(int index, const void *binary, size_t bytes, tpi_gpu_module **module) {
    (void)index;
    (void)binary;
    (void)bytes;
    *module = (tpi_gpu_module *)&no_kernel;
    return true;
}
static bool function(int index, tpi_gpu_module *module, const char *name, tpi_gpu_function **found) {
    (void)index;
    (void)module;
    (void)name;
    *found = (tpi_gpu_function *)&no_kernel;
    return true;
}
static int max_blocks(int index, tpi_gpu_function *f, int threads, size_t shared) {
    (void)index;
    (void)f;
    (void)shared;
    return 2048 / threads;
}
static bool launch(int index, tpi_gpu_stream *stream, tpi_gpu_function *f, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args) {
    (void)index;
    (void)stream;
    (void)f;
    (void)grid;
    (void)block;
    (void)shared;
    (void)nargs;
    (void)args;
    return true;
}

static tpi_served gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    (void)index;
    (void)stream;
    (void)g;
    return TPI_SERVED;
}
static tpi_served conv(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c) {
    (void)index;
    (void)stream;
    (void)c;
    return TPI_SERVED;
}
static tpi_served attention(int index, tpi_gpu_stream *stream, const tpi_gpu_attention *a) {
    (void)index;
    (void)stream;
    return a->dtype == TP_FLOAT64 ? TPI_DECLINED : TPI_SERVED;
}
static tpi_served fft(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f) {
    (void)index;
    (void)stream;
    (void)f;
    return TPI_SERVED;
}

const tpi_gpu_driver tpi_meta_driver = {
    .version = TPI_GPU_DRIVER_VERSION,
    .name = "meta",
    .type = TP_META,
    .dialect = "none",
    .count = one,
    .missing = nothing_missing,
    .describe = describe,
    .copy = driver_copy,
    .set = set,
    .stream_sync = stream_sync,
    .device_sync = device_sync,
    .load = load,
    .function = function,
    .max_blocks = max_blocks,
    .launch = launch,
    .gemm = gemm,
    .conv = conv,
    .attention = attention,
    .fft = fft,
};
