/* What GPUs did for a thread that a profile watches, and when: kernels, products and other calls of libraries, copies
 * and fills.
 *
 * Times come from the driver's own tool where it has one (trace_start in driver.h), which sees every kernel of every
 * library, and else from two events around each call. Tracing never makes a call fail: what could not be timed is
 * counted as lost. What runs inside of a stream's capture is not timed by events; its replay is. */
#ifndef TPI_GPU_TRACE_H
#define TPI_GPU_TRACE_H
#include <taper/profile.h>
#include "device/gpu/driver.h"

extern TPI_THREAD_LOCAL tpi_gpu_trace *tpi_gpu_tracing; /* NULL: nobody traces this thread */

tpi_gpu_trace *tpi_gpu_trace_start(void);      /* of this thread, from now on; NULL and an error: no memory */
void tpi_gpu_trace_stop(tpi_gpu_trace *trace); /* on the thread that started it; waits for what was launched */
void tpi_gpu_trace_free(tpi_gpu_trace *trace);
/* The profile's event that launches from now on belong to; -1: to none. */
void tpi_gpu_trace_event(tpi_gpu_trace *trace, int64_t event);
int64_t tpi_gpu_trace_count(const tpi_gpu_trace *trace);
int64_t tpi_gpu_trace_lost(const tpi_gpu_trace *trace);
const tp_activity *tpi_gpu_trace_activity(const tpi_gpu_trace *trace, int64_t i);

/* Around a call that puts work on the device's current stream:
 *     tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_COPY, "copy", bytes);
 *     ok = driver->copy(...);
 *     tpi_gpu_span_end(&span, ok); */
typedef struct tpi_gpu_span {
    tpi_gpu_trace *trace; /* NULL: nobody traces */
    tp_device device;
    tpi_gpu_stream *stream;
    tpi_gpu_event *start; /* NULL: not timed by events */
    const char *name;
    tp_activity_kind kind;
    int64_t bytes;
} tpi_gpu_span;
tpi_gpu_span tpi_gpu_span_open(tp_device device, tp_activity_kind kind, const char *name, size_t bytes);
void tpi_gpu_span_close(tpi_gpu_span *span, bool ran); /* ran false: the call did nothing, and is not told of */

static inline tpi_gpu_span tpi_gpu_span_begin(tp_device device, tp_activity_kind kind, const char *name, size_t bytes) {
    if (__builtin_expect(!tpi_gpu_tracing, 1)) return (tpi_gpu_span){0};
    return tpi_gpu_span_open(device, kind, name, bytes);
}
static inline void tpi_gpu_span_end(tpi_gpu_span *span, bool ran) {
    if (__builtin_expect(span->trace != NULL, 0)) tpi_gpu_span_close(span, ran);
}

/* Kernels' names, by which traces tell of them: noted when a function is made, never forgotten. */
void tpi_gpu_name_function(const tpi_gpu_function *function, const char *name);
const char *tpi_gpu_function_name(const tpi_gpu_function *function); /* "kernel" where none was noted */

/* What a driver's tool found. name: its copy is taken. event: what trace_owner was given last on the launching thread
 * before the launch, -1 if nothing. Times are those of CLOCK_MONOTONIC, in nanoseconds. */
void tpi_gpu_trace_put(tpi_gpu_trace *trace, const tp_activity *activity);
void tpi_gpu_trace_lose(tpi_gpu_trace *trace, int64_t n); /* so many were not kept */
#endif
