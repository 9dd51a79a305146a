/* Tells a watcher of every block of device memory that a tensor takes or gives back; memory snapshots with stacks are
 * made of that. No lock of the library is held when the watcher is called, so that it may wait for locks of its own,
 * such as an interpreter's. */
#include <pthread.h>
#include <stdatomic.h>
#include <taper/gpu.h>
#include "device/gpu/gpu.h"

typedef struct watcher {
    void (*told)(const tp_gpu_memory_event *event, void *context);
    void *context;
    struct watcher *before;
} watcher;
static _Atomic(const watcher *) watching; /* NULL: nobody */
static watcher *known; /* all there ever were, the last one first: another thread may still be calling an earlier one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

/* The list's entry for the two; NULL, and an error, without memory. */
static const watcher *entry_of(void (*told)(const tp_gpu_memory_event *event, void *context), void *context) {
    pthread_mutex_lock(&lock);
    watcher *w = known;
    while (w && (w->told != told || w->context != context)) w = w->before;
    if (!w && (w = tpi_malloc(sizeof *w))) {
        *w = (watcher){told, context, known};
        known = w;
    }
    pthread_mutex_unlock(&lock);
    return w;
}

bool tp_gpu_memory_watch(void (*told)(const tp_gpu_memory_event *event, void *context), void *context) {
    const watcher *w = told ? entry_of(told, context) : NULL;
    if (told && !w) return false;
    atomic_store(&watching, w);
    return true;
}

static void tell(tp_device device, void *block, size_t bytes, bool taken) {
    const watcher *w = atomic_load_explicit(&watching, memory_order_acquire);
    if (!w || !block) return;
    const tp_gpu_memory_event event = {.size = sizeof event,
                                       .device = device,
                                       .address = block,
                                       .bytes = (int64_t)bytes,
                                       .stream = tpi_gpu_stream_of(device),
                                       .taken = taken};
    w->told(&event, w->context);
}

void *tpi_gpu_alloc_told(tp_device device, size_t bytes) {
    void *block = tpi_gpu_alloc(device, bytes);
    tell(device, block, bytes, true);
    return block;
}

void tpi_gpu_free_told(tp_device device, void *block, size_t bytes) {
    tell(device, block, bytes, false);
    tpi_gpu_free(device, block, bytes);
}
