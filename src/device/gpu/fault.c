/* Indices and probabilities that kernels found out of range. A call that takes indices returns before its kernel has
 * seen them, so a kernel notes the first bad one in a word of its device, and the host raises it as an error wherever
 * it waits for the device anyway: when values come to the host, and when it synchronizes.
 *
 * The word is pinned host memory that kernels write to (drivers with `mapped`), which the host reads for nothing, or
 * else memory of the device, which is fetched only if kernels with indices have run since. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "device/gpu/driver.h"

typedef struct word { /* as kernels/fault.h has it */
    int64_t set, op, index, size;
} word;
enum { WORD_BYTES = 64 }; /* bytes of a word, so that devices do not share lines */

static _Atomic(char *) words[2][TPI_MAX_GPUS];
static atomic_bool armed[2][TPI_MAX_GPUS]; /* kernels may have written; of drivers without `mapped` */
TPI_THREAD_LOCAL const char *tpi_gpu_operator;
static word none;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *new_word(const tpi_gpu_driver *driver, int index) {
    char *made = driver->mapped ? driver->host_alloc(WORD_BYTES) : driver->alloc(index, WORD_BYTES);
    if (!made)
        return tpi_fail(TP_ERR_MEMORY, "out of memory: could not get %d bytes for a device's fault word", WORD_BYTES);
    if (driver->mapped)
        memset(made, 0, WORD_BYTES);
    else if (!driver->set(index, NULL, made, 0, WORD_BYTES) || !driver->stream_sync(index, NULL))
        return NULL;
    return made;
}

void *tpi_gpu_fault_word(tp_device device) {
    if (device.type == TP_META) return &none; /* no kernel runs there */
    int row = device.type == TP_XPU;
    char *found = atomic_load_explicit(&words[row][device.index], memory_order_acquire);
    if (!found) {
        const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
        pthread_mutex_lock(&lock);
        found = atomic_load(&words[row][device.index]);
        if (!found && driver && (found = new_word(driver, device.index)))
            atomic_store(&words[row][device.index], found);
        pthread_mutex_unlock(&lock);
    }
    atomic_store_explicit(&armed[row][device.index], true, memory_order_relaxed);
    return found;
}

/* The word's contents, if they say something; it is empty then. */
static bool read_mapped(char *at, word *out) {
    volatile word *w = (volatile word *)at;
    if (!w->set) return false;
    atomic_thread_fence(memory_order_acquire);
    *out = (word){1, w->op, w->index, w->size};
    w->set = 0;
    return true;
}

static bool fetch(const tpi_gpu_driver *driver, tp_device device, char *at, word *out) {
    atomic_bool *mark = &armed[device.type == TP_XPU][device.index];
    if (!atomic_load_explicit(mark, memory_order_relaxed)) return false;
    if (!__atomic_load_n(&tpi_gpu_side_streams, __ATOMIC_RELAXED))
        atomic_store(mark, false); /* else what it may still have to say is on another stream */
    tpi_gpu_stream *stream = tpi_gpu_stream_of(device);
    if (!driver->copy(device.index, stream, out, at, sizeof *out, TPI_GPU_TO_HOST) || !out->set) return false;
    return driver->set(device.index, stream, at, 0, WORD_BYTES);
}

/* What users call the operator: without its form, and without what it does for the one that they call. */
static int length_of(const char *name) {
    static const char *const ends[] = {"_rows", "_forward"};
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        if (length > n && !strncmp(name + length - n, ends[i], n)) return (int)(length - n);
    }
    return (int)length;
}

/* What was wrong that is not an index; NULL: it was one. */
static const char *other_fault(int64_t size) {
    switch (size) {
    case TPI_FAULT_PROBABILITY: return "expected probabilities in [0, 1]; one that is not";
    case TPI_FAULT_WEIGHT: return "probability tensor contains either `inf`, `nan` or element < 0, which";
    case TPI_FAULT_NO_WEIGHT: return "invalid multinomial distribution (sum of probabilities <= 0), which";
    default: return NULL;
    }
}

bool tpi_gpu_fault_check(tp_device device) {
    char *at = atomic_load_explicit(&words[device.type == TP_XPU][device.index], memory_order_acquire);
    if (!at) return true;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    word w;
    if (!(driver->mapped ? read_mapped(at, &w) : fetch(driver, device, at, &w))) return tp_ok();
    const char *waiting = tpi_op_now, *name = (const char *)(intptr_t)w.op;
    if (!name) name = "a kernel";
    tpi_op_now = NULL; /* the message is not about the call that waits */
    const char *what = other_fault(w.size), *device_name = device.type == TP_XPU ? "xpu" : "cuda";
    if (what)
        tpi_fail(TP_ERR_RUNTIME, "%.*s: %s was met on %s:%d after the call had returned", length_of(name), name, what,
                 device_name, device.index);
    else
        tpi_fail(TP_ERR_INDEX,
                 "%.*s: index %lld is out of bounds for a dimension with size %lld; it was met on %s:%d after the call "
                 "had returned",
                 length_of(name), name, (long long)w.index, (long long)w.size, device_name, device.index);
    tpi_op_now = waiting;
    return false;
}
