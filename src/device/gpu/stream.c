/* The thread's current device and streams, streams from a pool, and marks (events) in them. */
#include <pthread.h>
#include <taper/gpu.h>
#include "tensor/same_device.h"
#include "device/gpu/driver.h"
#include "base/handle.h"

/* ---- The thread's device and streams: no entry means device 0 and its default stream ---- */
static TPI_THREAD_LOCAL int16_t current[2];
/* NULL until the thread sets one; two rows, see row_of. Not thread-local memory itself: of that a library that is
 * loaded late gets little. */
typedef tpi_gpu_stream *stream_rows[2][TPI_MAX_GPUS];
static TPI_THREAD_LOCAL stream_rows *streams;
static pthread_key_t at_exit_key;
static bool at_exit_made;
static pthread_once_t at_exit_once = PTHREAD_ONCE_INIT;
static void thread_ends(void *rows) {
    streams = NULL;
    tpi_delete(rows, sizeof(stream_rows));
}
static void make_key(void) { at_exit_made = pthread_key_create(&at_exit_key, thread_ends) == 0; }

static inline int row_of(int type) { return type == TP_XPU; }

int tpi_gpu_current(tp_device_type type) { return current[row_of(type)]; }

bool tpi_gpu_set_current(tp_device_type type, int index) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of(type);
    if (!driver) return false;
    if (index < 0 || index >= driver->count())
        return tpi_refuse(TP_ERR_VALUE, "%s error: invalid device ordinal: there are %d devices, got index %d",
                          driver->name, driver->count(), index);
    current[row_of(type)] = (int16_t)index;
    return true;
}

tpi_gpu_stream *tpi_gpu_stream_of(tp_device device) {
    return streams ? (*streams)[row_of(device.type)][device.index] : NULL;
}

bool tpi_gpu_side_streams;

bool tpi_gpu_set_stream(tp_device device, tpi_gpu_stream *stream) {
    if (stream) __atomic_store_n(&tpi_gpu_side_streams, true, __ATOMIC_RELAXED);
    return tpi_gpu_set_captured_stream(device, stream);
}

bool tpi_gpu_set_captured_stream(tp_device device, tpi_gpu_stream *stream) {
    if (!streams && !stream) return true;
    if (!streams) {
        pthread_once(&at_exit_once, make_key);
        if (!(streams = tpi_new0(sizeof *streams))) return false;
        if (at_exit_made) pthread_setspecific(at_exit_key, streams);
    }
    (*streams)[row_of(device.type)][device.index] = stream;
    return true;
}

static const tpi_gpu_driver *driver_at(tp_device device) { /* NULL and an error unless the device is there */
    return tpi_gpu_caps_of(device) ? tpi_gpu_driver_of((tp_device_type)device.type) : NULL;
}

int tp_gpu_current(tp_device_type type) { return tpi_gpu_current(type); }
bool tp_gpu_set_current(tp_device device) { return tpi_gpu_set_current((tp_device_type)device.type, device.index); }

bool tp_gpu_synchronize(tp_device device) {
    const tpi_gpu_driver *driver = driver_at(device);
    return driver && driver->device_sync(device.index) && tpi_gpu_fault_check(device);
}

/* ---- Streams from a pool ---- */
enum { LEVELS = 4, PER_LEVEL = 32 };
typedef struct stream_pool {
    tpi_gpu_stream *stream[LEVELS][PER_LEVEL];
    unsigned next[LEVELS];
} stream_pool;
static stream_pool *pools[2][TPI_MAX_GPUS];
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;

static bool next_stream(const tpi_gpu_driver *driver, tp_device device, int level, tpi_gpu_stream **stream) {
    stream_pool **pool = &pools[row_of(device.type)][device.index];
    if (!*pool && !(*pool = tpi_new0(sizeof **pool))) return false;
    tpi_gpu_stream **slot = &(*pool)->stream[level][(*pool)->next[level] % PER_LEVEL];
    if (!*slot && !driver->stream_new(device.index, -level, slot)) return false;
    (*pool)->next[level]++;
    *stream = *slot;
    return true;
}

bool tp_stream_new(tp_device device, int priority, tp_stream **stream) {
    const tpi_gpu_driver *driver = driver_at(device);
    if (!driver) return false;
    int level = priority >= 0 ? 0 : priority > -LEVELS ? -priority : LEVELS - 1;
    tpi_gpu_stream *made = NULL;
    pthread_mutex_lock(&pools_lock);
    bool fine = next_stream(driver, device, level, &made);
    pthread_mutex_unlock(&pools_lock);
    *stream = (tp_stream *)made;
    return fine;
}

int tp_stream_priority(tp_device device, tp_stream *stream) {
    if (device.index < 0 || device.index >= TPI_MAX_GPUS) return 0;
    int level = 0;
    pthread_mutex_lock(&pools_lock);
    const stream_pool *pool = pools[row_of(device.type)][device.index];
    for (int i = 0; pool && stream && i < LEVELS * PER_LEVEL; i++)
        if (pool->stream[i / PER_LEVEL][i % PER_LEVEL] == (tpi_gpu_stream *)stream) level = i / PER_LEVEL;
    pthread_mutex_unlock(&pools_lock);
    return -level;
}

tp_stream *tp_stream_current(tp_device device) {
    return device.index >= 0 && device.index < TPI_MAX_GPUS ? (tp_stream *)tpi_gpu_stream_of(device) : NULL;
}

bool tp_stream_set_current(tp_device device, tp_stream *stream) {
    return driver_at(device) && tpi_gpu_set_stream(device, (tpi_gpu_stream *)stream);
}

bool tp_stream_synchronize(tp_device device, tp_stream *stream) {
    const tpi_gpu_driver *driver = driver_at(device);
    return driver && driver->stream_sync(device.index, (tpi_gpu_stream *)stream) && tpi_gpu_fault_check(device);
}

int tp_stream_query(tp_device device, tp_stream *stream) {
    const tpi_gpu_driver *driver = driver_at(device);
    return driver ? driver->stream_query(device.index, (tpi_gpu_stream *)stream) : -1;
}

bool tpi_gpu_stream_wait(tp_device device, tpi_gpu_stream *stream, tp_device other_device, tpi_gpu_stream *other) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    tpi_gpu_event *event;
    if (!driver || !driver->event_new(other_device.index, false, &event)) return false;
    bool fine =
        driver->event_record(other_device.index, event, other) && driver->stream_wait(device.index, stream, event);
    driver->event_free(other_device.index, event);
    return fine;
}

bool tp_stream_wait(tp_device device, tp_stream *stream, tp_device other_device, tp_stream *other) {
    if (!driver_at(device) || !driver_at(other_device)) return false;
    if (device.type != other_device.type)
        return tpi_refuse(TP_ERR_VALUE, "argument 'other': a stream cannot wait for one of another type of device");
    return tpi_gpu_stream_wait(device, (tpi_gpu_stream *)stream, other_device, (tpi_gpu_stream *)other);
}

bool tp_record_stream(tp_tensor *t, tp_stream *stream) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!t) return tpi_refuse(TP_ERR_VALUE, "argument 't': expected a tensor, got NULL");
    tp_device device = tpi_device(t);
    if (!tpi_is_gpu(device)) return tpi_refuse(TP_ERR_RUNTIME, "record_stream: expected a tensor on a GPU");
    tpi_gpu_record_stream(device, t->storage->data, (tpi_gpu_stream *)stream);
    return true;
}

/* ---- Marks ---- */
struct tp_mark {
    const tpi_gpu_driver *driver; /* NULL until the first record */
    tpi_gpu_event *event;
    tp_device_type type;
    int index;
    bool timing;
};

tp_mark *tp_mark_new(tp_device_type type, bool timing) {
    if (!tpi_gpu_driver_of(type)) return NULL;
    tp_mark *mark = tpi_new0(sizeof *mark);
    if (mark) {
        mark->type = type;
        mark->timing = timing;
    }
    return mark;
}

void tp_mark_free(tp_mark *mark) {
    if (!mark) return;
    if (mark->driver) mark->driver->event_free(mark->index, mark->event);
    tpi_handle_delete(mark, sizeof *mark);
}

bool tp_mark_record(tp_mark *mark, tp_device device, tp_stream *stream) {
    if (!TPI_GIVEN(mark, "a mark")) return false;
    if (device.type != (int)mark->type)
        return tpi_refuse(TP_ERR_VALUE, "argument 'device': the mark is for another type of device");
    const tpi_gpu_driver *driver = driver_at(device);
    if (!driver) return false;
    if (mark->driver && mark->index != device.index)
        return tpi_refuse(TP_ERR_RUNTIME, "Event device %d does not match recording stream's device %d.", mark->index,
                          device.index);
    if (!mark->driver) {
        if (!driver->event_new(device.index, mark->timing, &mark->event)) return false;
        mark->driver = driver;
        mark->index = device.index;
    }
    return driver->event_record(device.index, mark->event, (tpi_gpu_stream *)stream);
}

int tp_mark_query(tp_mark *mark) {
    if (!TPI_GIVEN(mark, "a mark")) return -1;
    return mark->driver ? mark->driver->event_query(mark->index, mark->event) : 1;
}
bool tp_mark_synchronize(tp_mark *mark) {
    if (!TPI_GIVEN(mark, "a mark")) return false;
    return !mark->driver || (mark->driver->event_sync(mark->index, mark->event) &&
                             tpi_gpu_fault_check((tp_device){(int16_t)mark->type, (int16_t)mark->index}));
}
void *tp_mark_handle(tp_mark *mark) {
    if (!TPI_GIVEN(mark, "a mark")) return NULL;
    return mark->event;
}

bool tp_mark_device(tp_mark *mark, tp_device *device) {
    if (!TPI_GIVEN(mark, "a mark") || !TPI_GIVEN(device, "a place for the device")) return false;
    if (!mark->driver) return false;
    *device = (tp_device){(int16_t)mark->type, (int16_t)mark->index};
    return true;
}

bool tp_mark_elapsed(tp_mark *from, tp_mark *to, double *milliseconds) {
    if (!TPI_GIVEN(from, "a mark") || !TPI_GIVEN(to, "a mark") || !TPI_GIVEN(milliseconds, "a place for the time"))
        return false;
    if (!from->timing || !to->timing)
        return tpi_refuse(TP_ERR_VALUE, "Both events must be created with argument 'enable_timing=True'.");
    if (!from->driver || !to->driver)
        return tpi_refuse(TP_ERR_VALUE, "Both events must be recorded before calculating elapsed time.");
    if (tp_mark_query(from) == 0 || tp_mark_query(to) == 0)
        return tpi_refuse(TP_ERR_VALUE, "Both events must be completed before calculating elapsed time.");
    return from->driver->event_elapsed(from->index, from->event, to->event, milliseconds);
}

bool tp_stream_wait_mark(tp_device device, tp_stream *stream, tp_mark *mark) {
    if (!TPI_GIVEN(mark, "a mark")) return false;
    return !mark->driver || mark->driver->stream_wait(device.index, (tpi_gpu_stream *)stream, mark->event);
}
