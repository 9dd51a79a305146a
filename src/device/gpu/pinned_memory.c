/* Pinned host memory, kept in powers of two, and copies between host and device.
 *
 * A block that copies in flight still read or write when it is freed waits for their events before it is handed out
 * again. Which block an address lies in is found in a list sorted by address: there are few pinned blocks, and none in
 * most programs. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <taper/gpu.h>
#include "device/gpu/trace.h"

typedef struct pinned {
    char *address;
    size_t bytes; /* a power of two */
    const tpi_gpu_driver *driver;
    bool live;
    struct use { /* the last copy per stream that used it */
        int index;
        tpi_gpu_stream *stream;
        tpi_gpu_event *event;
    } * uses; /* from tpi_malloc */
    int nuses;
} pinned;

static struct {
    pthread_mutex_t lock;
    pinned **list; /* by address, from tpi_malloc; live and kept ones */
    atomic_int n;
    int capacity;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static TPI_THREAD_LOCAL bool non_blocking;

bool tp_set_non_blocking(bool on) {
    bool before = non_blocking;
    non_blocking = on;
    return before;
}

/* ---- The list; the lock is held ---- */
static int index_behind(const char *address) { /* of the first block that starts behind it */
    int low = 0, high = all.n;
    while (low < high) {
        int mid = (low + high) / 2;
        if (all.list[mid]->address > address)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static pinned *block_at(const void *address) {
    int i = index_behind(address);
    pinned *b = i > 0 ? all.list[i - 1] : NULL;
    return b && (const char *)address < b->address + b->bytes ? b : NULL;
}

static bool list_put(pinned *b) {
    if (all.n == all.capacity) {
        int capacity = all.capacity ? 2 * all.capacity : 64;
        pinned **list = tpi_realloc(all.list, (size_t)capacity * sizeof *list);
        if (!list) return false;
        all.list = list;
        all.capacity = capacity;
    }
    int at = index_behind(b->address);
    memmove(all.list + at + 1, all.list + at, (size_t)(all.n - at) * sizeof *all.list);
    all.list[at] = b;
    all.n++;
    return true;
}

static bool is_idle(pinned *b, bool wait) { /* drops the events that have come */
    for (int i = 0; i < b->nuses; i++) {
        struct use *u = &b->uses[i];
        if (wait)
            b->driver->event_sync(u->index, u->event);
        else if (b->driver->event_query(u->index, u->event) == 0)
            return false;
        b->driver->event_free(u->index, u->event);
        b->uses[i--] = b->uses[--b->nuses];
    }
    return true;
}

static void drop(int i) {
    pinned *b = all.list[i];
    is_idle(b, true);
    b->driver->host_free(b->address);
    memmove(all.list + i, all.list + i + 1, (size_t)(all.n - i - 1) * sizeof *all.list);
    all.n--;
    tpi_mfree(b->uses);
    tpi_delete(b, sizeof *b);
}

/* ---- Blocks ---- */
static pinned *kept_block(const tpi_gpu_driver *driver, size_t bytes) {
    for (int i = 0; i < all.n; i++) {
        pinned *b = all.list[i];
        if (!b->live && b->bytes == bytes && b->driver == driver && is_idle(b, false)) return b;
    }
    return NULL;
}

static void trim(void) {
    for (int i = all.n - 1; i >= 0; i--)
        if (!all.list[i]->live) drop(i);
}

static pinned *new_block(const tpi_gpu_driver *driver, size_t bytes) {
    pinned *b = tpi_new0(sizeof *b);
    if (!b) return NULL;
    b->address = driver->host_alloc(bytes);
    b->bytes = bytes;
    b->driver = driver;
    if (!b->address) {
        trim();
        b->address = driver->host_alloc(bytes);
    }
    if (b->address && list_put(b)) return b;
    if (b->address)
        driver->host_free(b->address);
    else
        tpi_fail(TP_ERR_MEMORY, "out of memory: could not get %zu bytes of pinned host memory", bytes);
    tpi_delete(b, sizeof *b);
    return NULL;
}

static pinned *alloc_pinned(const tpi_gpu_driver *driver, size_t bytes) {
    size_t rounded = 512;
    while (rounded < bytes) rounded *= 2;
    pthread_mutex_lock(&all.lock);
    pinned *b = kept_block(driver, rounded);
    if (!b) b = new_block(driver, rounded);
    if (b) b->live = true;
    pthread_mutex_unlock(&all.lock);
    return b;
}

static void free_pinned(void *context) {
    pinned *b = context;
    pthread_mutex_lock(&all.lock);
    b->live = false;
    pthread_mutex_unlock(&all.lock);
}

void tp_pinned_trim(void) {
    pthread_mutex_lock(&all.lock);
    trim();
    pthread_mutex_unlock(&all.lock);
}

/* ---- Tensors ---- */
static bool is_pinned_address(const void *address) {
    if (all.n == 0) return false;
    pthread_mutex_lock(&all.lock);
    bool found = block_at(address) != NULL;
    pthread_mutex_unlock(&all.lock);
    return found;
}

bool tp_is_pinned(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    return t && tpi_device(t).type == TP_CPU && is_pinned_address(t->storage->data);
}

static const tpi_gpu_driver *any_driver(void) {
    bool fine = tp_ok();
    const tpi_gpu_driver *driver = tpi_gpu_driver_of(TP_CUDA);
    if (!driver) driver = tpi_gpu_driver_of(TP_XPU);
    if (fine) tp_error_clear();
    return driver ? driver : tpi_fail(TP_ERR_RUNTIME, "Cannot access accelerator device when none is available.");
}

static size_t bytes_spanned(const tp_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++) last += (t->shape[d] - 1) * t->strides[d];
    return t->numel ? (size_t)(last + 1) * tpi_itemsize(t) : 0;
}

tp_tensor *tp_pin_memory(tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return NULL;
    if (!t) return NULL;
    if (tpi_device(t).type > TP_CPU)
        return tpi_fail(TP_ERR_RUNTIME,
                        "cannot pin a tensor that is not on the CPU: only dense CPU tensors can be pinned");
    if (tp_is_pinned(t)) return tpi_to_scope(tpi_retain(t));
    const tpi_gpu_driver *driver = any_driver();
    pinned *b = driver ? alloc_pinned(driver, bytes_spanned(t)) : NULL;
    if (!b) return NULL;
    tp_tensor *copy = tp_over_data(b->address, (tp_dtype)t->dtype, tpi_shape(t), tpi_strides(t), free_pinned, b);
    if (!copy) {
        free_pinned(b);
        return NULL;
    }
    return tpi_copy_data(copy, t)
               ? copy
               : NULL; /* an owner outside of scopes clears up by the scope's rules, as with any failure */
}

/* ---- Copies ---- */
static bool note_use(const void *address, tp_device device, tpi_gpu_stream *stream) {
    pthread_mutex_lock(&all.lock);
    pinned *b = block_at(address);
    bool fine = b != NULL;
    struct use *u = NULL;
    for (int i = 0; fine && i < b->nuses; i++)
        if (b->uses[i].stream == stream && b->uses[i].index == device.index) u = &b->uses[i];
    if (fine && !u) {
        struct use *uses = tpi_realloc(b->uses, (size_t)(b->nuses + 1) * sizeof *uses);
        if (uses) b->uses = uses;
        tpi_gpu_event *event = NULL;
        fine = uses && b->driver->event_new(device.index, false, &event);
        if (fine) {
            u = &b->uses[b->nuses++];
            *u = (struct use){device.index, stream, event};
        }
    }
    fine = fine && b->driver->event_record(device.index, u->event, stream);
    pthread_mutex_unlock(&all.lock);
    return fine;
}

static const char *const way_name[] = {
    [TPI_GPU_TO_HOST] = "Memcpy DtoH", [TPI_GPU_FROM_HOST] = "Memcpy HtoD", [TPI_GPU_WITHIN] = "Memcpy DtoD"};

bool tpi_gpu_copy_host(tp_device device, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    if (bytes == 0) return true;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver) return false;
    tpi_gpu_stream *stream = tpi_gpu_stream_of(device);
    const void *host = way == TPI_GPU_TO_HOST ? to : from;
    const bool fetched = way == TPI_GPU_TO_HOST;
    if (way != TPI_GPU_WITHIN && tpi_gpu_graph_under_way(device) && !is_pinned_address(host))
        return tpi_refuse(TP_ERR_RUNTIME, "a copy between the device and pageable memory of the host cannot be part of "
                                          "a graph; pin the memory, or copy before the capture begins");
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_COPY, way_name[way], bytes);
    bool copied = driver->copy(device.index, stream, to, from, bytes, way);
    tpi_gpu_span_end(&span, copied);
    if (!copied) return false;
    if (way == TPI_GPU_WITHIN || !is_pinned_address(host))
        return !fetched || tpi_gpu_fault_check(device); /* the driver has waited for pageable memory */
    if (!non_blocking) return driver->stream_sync(device.index, stream) && (!fetched || tpi_gpu_fault_check(device));
    bool fine = tp_ok();
    if (note_use(host, device, stream)) return true;
    if (fine) tp_error_clear();
    return driver->stream_sync(device.index, stream); /* no memory to remember the copy: wait for it */
}
