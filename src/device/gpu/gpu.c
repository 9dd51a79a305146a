/* GPUs as devices: the tables (device.h) of `cuda` and `xpu`, made of the driver that was found and of what gpu/ builds
 * on it. */
#include "device/gpu/gpu.h"
#include <pthread.h>
#include <taper/gpu.h>
#include "device/block_program.h"

static const tpi_gpu_driver *driver_at(tp_device device) { return tpi_gpu_driver_of((tp_device_type)device.type); }

static int cuda_count(void) { return tpi_gpu_driver_of(TP_CUDA)->count(); }
static int xpu_count(void) { return tpi_gpu_driver_of(TP_XPU)->count(); }

static bool to_host(tp_device device, void *host, const void *block, size_t bytes) {
    return tpi_gpu_copy_host(device, host, block, bytes, TPI_GPU_TO_HOST);
}
static bool from_host(tp_device device, void *block, const void *host, size_t bytes) {
    return tpi_gpu_copy_host(device, block, host, bytes, TPI_GPU_FROM_HOST);
}
static bool synchronize(tp_device device) {
    return driver_at(device)->device_sync(device.index) && tpi_gpu_fault_check(device);
}

/* The bytes leave after what `from`'s stream has in hand, and arrive before what `to`'s stream does next; `from`'s
 * stream waits for that, so that the source may be written again. */
static bool to_peer(tp_device to, void *block, tp_device from, const void *source, size_t bytes) {
    const tpi_gpu_driver *driver = driver_at(to);
    tpi_gpu_stream *there = tpi_gpu_stream_of(to), *here = tpi_gpu_stream_of(from);
    tpi_gpu_event *ready = NULL, *done = NULL;
    bool ok = driver->event_new(from.index, false, &ready) && driver->event_record(from.index, ready, here) &&
              driver->stream_wait(to.index, there, ready) &&
              driver->copy_peer(to.index, block, from.index, source, bytes, there) &&
              driver->event_new(to.index, false, &done) && driver->event_record(to.index, done, there) &&
              driver->stream_wait(from.index, here, done);
    if (ready) driver->event_free(from.index, ready);
    if (done) driver->event_free(to.index, done);
    return ok;
}

static const tpi_device_ops common = {
    .version = TPI_DEVICE_VERSION,
    .alloc = tpi_gpu_alloc_told,
    .free = tpi_gpu_free_told,
    .to_host = to_host,
    .from_host = from_host,
    .synchronize = synchronize,
    .map = tpi_gpu_map,
    .fold = tpi_gpu_fold,
    .fold_of_program = tpi_gpu_fold_of_program,
    .scan = tpi_gpu_scan,
    .copy = tpi_gpu_copy,
    .fill = tpi_gpu_fill,
    .program_ready = tpi_gpu_program_ready,
    .program = tpi_gpu_program_run,
};

const tpi_device_ops *tpi_gpu_open(tp_device_type type) {
    static tpi_device_ops cuda, xpu;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const tpi_gpu_driver *driver = tp_gpu_count(type) > 0 ? tpi_gpu_driver_of(type) : NULL;
    if (!driver) return NULL;
    tpi_device_ops *ops = type == TP_CUDA ? &cuda : &xpu;
    pthread_mutex_lock(&lock);
    if (!ops->version) {
        *ops = common;
        ops->name = type == TP_CUDA ? "cuda" : "xpu";
        ops->gpu = driver;
        ops->count = type == TP_CUDA ? cuda_count : xpu_count;
        ops->to_peer = driver->copy_peer ? to_peer : NULL;
    }
    pthread_mutex_unlock(&lock);
    return ops;
}
