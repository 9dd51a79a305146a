/* The OpenCL driver (gpu/driver.h), for `xpu`: copies, streams and events over what devices.c found; memory.c has the
 * addresses, program.c the kernels, clblast.c the matrix products. One context per device: devices meet on the host. */
#include "device/opencl/cl.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool describe(int index, tpi_gpu_caps *caps) {
    tpi_cl_device *d = tpi_cl_peek(index);
    if (d) *caps = d->caps;
    return d != NULL;
}

static bool version_text(char *text, size_t capacity) {
    tpi_cl_device *d = tpi_cl_peek(0);
    char version[256] = "", driver[256] = "";
    if (!d) return false;
    tpi_cl.GetDeviceInfo(d->id, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    tpi_cl.GetDeviceInfo(d->id, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
    snprintf(text, capacity, "%s, driver %s", version, driver);
    return true;
}

static bool memory_info(int index, size_t *free, size_t *total) {
    tpi_cl_device *d = tpi_cl_peek(index);
    if (!d) return false;
    size_t taken = atomic_load(&d->taken);
    *total = d->caps.memory;
    *free = taken < *total ? *total - taken : 0;
    return true;
}

static void *host_alloc(size_t bytes) {
    void *block = tpi_malloc(bytes);
    if (!block) tp_error_clear();
    return block;
}

/* ---- The end of the program ----
 * A driver may still run a kernel in a thread of its own when the program ends, and PoCL takes down what it runs with
 * (tpi_cl_launch waits for what it compiles). Handlers run in the opposite order of their registration: ours comes
 * before those of the driver if it is registered after the driver has done something. */
static pid_t registered_by;

static void finish_all(void) {
    if (getpid() != registered_by) return; /* a forked child has none of the driver's threads */
    for (int i = 0; i < tpi_cl_count(); i++) {
        tpi_cl_device *d = tpi_cl_peek(i);
        if (!d->context || pthread_mutex_trylock(&d->lock)) continue;
        tpi_cl.Finish(d->first.queue);
        for (tpi_gpu_stream *s = d->streams; s; s = s->next) tpi_cl.Finish(s->queue);
        pthread_mutex_unlock(&d->lock);
    }
}

static void register_end(void) {
    registered_by = getpid();
    atexit(finish_all);
}

/* The driver has done what was asked of it so far. */
static void driver_has_worked(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_end);
}

/* ---- Copies ---- */
static bool enqueued(tpi_gpu_stream *s, cl_int code, const char *call) {
    atomic_fetch_add_explicit(&s->work, 1, memory_order_relaxed);
    return tpi_cl_ok(code, call);
}

static bool copy(int index, tpi_gpu_stream *stream, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    cl_mem target, source;
    size_t at, offset;
    if (!s || bytes == 0) return s != NULL;
    if (way != TPI_GPU_TO_HOST && !tpi_cl_find(to, &target, &at)) return false;
    if (way != TPI_GPU_FROM_HOST && !tpi_cl_find(from, &source, &offset)) return false;
    if (way == TPI_GPU_TO_HOST) {
        bool fine = enqueued(s, tpi_cl.EnqueueReadBuffer(s->queue, source, 1, offset, bytes, to, 0, NULL, NULL),
                             "EnqueueReadBuffer");
        driver_has_worked();
        return fine;
    }
    if (way == TPI_GPU_FROM_HOST)
        return enqueued(s, tpi_cl.EnqueueWriteBuffer(s->queue, target, 1, at, bytes, from, 0, NULL, NULL),
                        "EnqueueWriteBuffer");
    return enqueued(s, tpi_cl.EnqueueCopyBuffer(s->queue, source, target, offset, at, bytes, 0, NULL, NULL),
                    "EnqueueCopyBuffer");
}

static bool set(int index, tpi_gpu_stream *stream, void *to, int byte, size_t bytes) {
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    cl_mem target;
    size_t at;
    if (!s || bytes == 0) return s != NULL;
    unsigned char pattern = (unsigned char)byte;
    return tpi_cl_find(to, &target, &at) &&
           enqueued(s, tpi_cl.EnqueueFillBuffer(s->queue, target, &pattern, 1, at, bytes, 0, NULL, NULL),
                    "EnqueueFillBuffer");
}

/* ---- Streams ---- */
static bool stream_new(int index, int priority, tpi_gpu_stream **stream) {
    (void)priority; /* OpenCL 1.2 has none */
    tpi_cl_device *d = tpi_cl_device_at(index);
    tpi_gpu_stream *made = d ? tpi_malloc(sizeof *made) : NULL;
    if (!made) return false;
    *made = (tpi_gpu_stream){.index = index};
    cl_int code;
    made->queue = tpi_cl.CreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING, &code);
    if (!made->queue) {
        tpi_mfree(made);
        return tpi_cl_ok(code ? code : -5, "CreateCommandQueue");
    }
    pthread_mutex_init(&made->probing, NULL);
    pthread_mutex_lock(&d->lock);
    made->next = d->streams;
    d->streams = made;
    pthread_mutex_unlock(&d->lock);
    *stream = made;
    return true;
}

static void stream_free(int index, tpi_gpu_stream *stream) {
    tpi_cl_device *d = stream ? tpi_cl_device_at(index) : NULL;
    if (!d) return;
    pthread_mutex_lock(&d->lock);
    for (tpi_gpu_stream **at = &d->streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    pthread_mutex_unlock(&d->lock);
    if (stream->probe) tpi_cl.ReleaseEvent(stream->probe);
    if (d->caps.host_memory) tpi_cl.Finish(stream->queue); /* or nobody waits for it at the program's end */
    tpi_cl.ReleaseCommandQueue(stream->queue);
    tpi_mfree(stream);
}

static bool finish(tpi_gpu_stream *s) {
    unsigned long long work = atomic_load(&s->work);
    if (!tpi_cl_ok(tpi_cl.Finish(s->queue), "Finish")) return false;
    driver_has_worked();
    atomic_store(&s->finished, work);
    return true;
}

static bool stream_sync(int index, tpi_gpu_stream *stream) {
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    return s && finish(s);
}

static int status_of(cl_event event) {
    cl_int status;
    if (!tpi_cl_ok(tpi_cl.GetEventInfo(event, CL_EVENT_STATUS, sizeof status, &status, NULL), "GetEventInfo"))
        return -1;
    if (status < 0) {
        tpi_cl_ok(status, "GetEventInfo"); /* the error of what the event waits for */
        return -1;
    }
    return status == CL_COMPLETE;
}

/* A marker behind all work answers for it; it stays until more work comes, so that asking again and again does not put
 * off the answer. */
static int stream_query(int index, tpi_gpu_stream *stream) {
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    if (!s) return -1;
    pthread_mutex_lock(&s->probing);
    unsigned long long work = atomic_load(&s->work);
    if (atomic_load(&s->finished) == work) {
        pthread_mutex_unlock(&s->probing);
        return 1;
    }
    bool ok = true;
    if (!s->probe || s->probed != work) {
        if (s->probe) tpi_cl.ReleaseEvent(s->probe);
        s->probe = NULL;
        s->probed = work;
        ok = tpi_cl_ok(tpi_cl.EnqueueMarkerWithWaitList(s->queue, 0, NULL, &s->probe), "EnqueueMarkerWithWaitList") &&
             tpi_cl_ok(tpi_cl.Flush(s->queue), "Flush");
    }
    int answer = ok ? status_of(s->probe) : -1;
    pthread_mutex_unlock(&s->probing);
    return answer;
}

static bool device_sync(int index) {
    tpi_cl_device *d = tpi_cl_device_at(index);
    if (!d) return false;
    pthread_mutex_lock(&d->lock);
    bool ok = finish(&d->first);
    for (tpi_gpu_stream *s = d->streams; s && ok; s = s->next) ok = finish(s);
    pthread_mutex_unlock(&d->lock);
    return ok;
}

/* ---- Events ---- */
struct tpi_gpu_event {
    pthread_mutex_t lock;
    cl_event event; /* of the last record, NULL before the first */
    int index;
};

static bool event_new(int index, bool timing, tpi_gpu_event **event) {
    (void)timing; /* every queue takes times */
    if (!tpi_cl_device_at(index)) return false;
    tpi_gpu_event *made = tpi_malloc(sizeof *made);
    if (!made) return false;
    *made = (tpi_gpu_event){.index = index};
    pthread_mutex_init(&made->lock, NULL);
    *event = made;
    return true;
}

static void event_free(int index, tpi_gpu_event *event) {
    (void)index;
    if (!event) return;
    if (event->event) tpi_cl.ReleaseEvent(event->event);
    tpi_mfree(event);
}

static bool event_record(int index, tpi_gpu_event *event, tpi_gpu_stream *stream) {
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    cl_event marker;
    if (!s || !enqueued(s, tpi_cl.EnqueueMarkerWithWaitList(s->queue, 0, NULL, &marker), "EnqueueMarkerWithWaitList"))
        return false;
    pthread_mutex_lock(&event->lock);
    if (event->event) tpi_cl.ReleaseEvent(event->event);
    event->event = marker;
    pthread_mutex_unlock(&event->lock);
    return tpi_cl_ok(tpi_cl.Flush(s->queue), "Flush");
}

static cl_event marker_of(tpi_gpu_event *event) { /* a reference, or NULL before the first record */
    pthread_mutex_lock(&event->lock);
    cl_event marker = event->event;
    if (marker) tpi_cl.RetainEvent(marker);
    pthread_mutex_unlock(&event->lock);
    return marker;
}

static bool stream_wait(int index, tpi_gpu_stream *stream, tpi_gpu_event *event) {
    tpi_gpu_stream *s = tpi_cl_stream(stream, index);
    cl_event marker = s ? marker_of(event) : NULL;
    if (!marker) return s != NULL;
    bool ok =
        event->index == index
            ? enqueued(s, tpi_cl.EnqueueBarrierWithWaitList(s->queue, 1, &marker, NULL), "EnqueueBarrierWithWaitList")
            : tpi_cl_ok(tpi_cl.WaitForEvents(1, &marker), "WaitForEvents"); /* events stay within their context */
    tpi_cl.ReleaseEvent(marker);
    return ok;
}

static int event_query(int index, tpi_gpu_event *event) {
    cl_event marker = tpi_cl_device_at(index) ? marker_of(event) : NULL;
    if (!marker) return 1;
    int answer = status_of(marker);
    tpi_cl.ReleaseEvent(marker);
    return answer;
}

static bool event_sync(int index, tpi_gpu_event *event) {
    if (!tpi_cl_device_at(index)) return false;
    cl_event marker = marker_of(event);
    if (!marker) return true;
    bool ok = tpi_cl_ok(tpi_cl.WaitForEvents(1, &marker), "WaitForEvents");
    tpi_cl.ReleaseEvent(marker);
    return ok;
}

static bool time_of(tpi_gpu_event *event, cl_ulong *nanoseconds) {
    cl_event marker = marker_of(event);
    if (!marker) return tpi_refuse(TP_ERR_RUNTIME, "elapsed_time: expected two events that were recorded");
    int status = status_of(marker);
    bool ok = status == 1 ||
              (status == 0 &&
               tpi_refuse(TP_ERR_RUNTIME, "elapsed_time: expected events that have completed; synchronize first"));
    ok = ok && tpi_cl_ok(tpi_cl.GetEventProfilingInfo(marker, CL_PROFILING_END, sizeof *nanoseconds, nanoseconds, NULL),
                         "GetEventProfilingInfo");
    tpi_cl.ReleaseEvent(marker);
    return ok;
}

static bool event_elapsed(int index, tpi_gpu_event *from, tpi_gpu_event *to, double *milliseconds) {
    cl_ulong start, end;
    if (!tpi_cl_device_at(index) || !time_of(from, &start) || !time_of(to, &end)) return false;
    *milliseconds = ((double)end - (double)start) * 1e-6;
    return true;
}

static int max_blocks(int index, tpi_gpu_function *function, int threads, size_t shared) {
    (void)index;
    (void)function;
    (void)threads;
    (void)shared;
    return 0;
}

const tpi_gpu_driver tpi_opencl_driver = {
    .version = TPI_GPU_DRIVER_VERSION,
    .name = "OpenCL",
    .type = TP_XPU,
    .dialect = "opencl",
    .count = tpi_cl_count,
    .missing = tpi_cl_missing,
    .describe = describe,
    .version_text = version_text,
    .alloc = tpi_cl_alloc,
    .free = tpi_cl_free,
    .memory_info = memory_info,
    .host_alloc = host_alloc,
    .host_free = tpi_mfree,
    .copy = copy,
    .set = set,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_sync = stream_sync,
    .stream_query = stream_query,
    .stream_wait = stream_wait,
    .device_sync = device_sync,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_elapsed = event_elapsed,
    .compile = tpi_cl_compile,
    .compiler = tpi_cl_compiler,
    .load = tpi_cl_load,
    .build = tpi_cl_build,
    .function = tpi_cl_function,
    .max_blocks = max_blocks,
    .launch = tpi_cl_launch,
    .gemm = tpi_cl_gemm,
};
