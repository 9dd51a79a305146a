/* Storage: one reference-counted block of a device's memory, or of somebody else's, with the version counter that the
 * tape reads.
 *
 * On the CPU small data lives right behind the storage's header, in one block: making a small tensor then costs two
 * trips to the free lists instead of three. Data starts on a cache line and its size is whole cache lines in either
 * case. */
#include "tensor/storage.h"
#include <string.h>
#include <taper/binding.h>
#include "base/handle.h"
#include "tensor/recorder.h"
#include "tensor/upcalls.h"

#define INSIDE_BYTES 256 /* data up to this size shares the header's block */

_Static_assert(sizeof(tpi_storage) <= TPI_ALIGN, "the data behind a storage's header must start on a cache line");

TPI_THREAD_LOCAL int64_t tpi_storage_balance, tpi_device_balance;

static void count_bytes(tp_device device, int64_t bytes) {
    tpi_storage_balance += bytes;
    if (device.type != TP_CPU) tpi_device_balance += bytes;
}
TPI_THREAD_LOCAL tpi_recorder *tpi_recording; /* tensor/recorder.h. Here, since storages are what it hears of first */

static tpi_storage *born(tpi_storage *s) {
    if (__builtin_expect(tpi_recording != NULL, 0)) tpi_recording->born(tpi_recording, s);
    return s;
}

static tpi_storage *header_new(tp_device device, size_t inline_bytes) {
    tpi_storage *s = tpi_alloc(TPI_ALIGN + inline_bytes);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->device = device;
    s->inline_bytes = (uint32_t)inline_bytes;
    s->data = (char *)s + TPI_ALIGN;
    s->bytes = 0;
    s->capacity = inline_bytes;
    s->release = NULL;
    s->context = NULL;
    s->foreign = false;
    s->keeps_data = inline_bytes > 0;
    s->watched = s->made_up = false;
    return s;
}

static void header_free(tpi_storage *s) { tpi_free(s, TPI_ALIGN + s->inline_bytes); }

static void (*watcher_of_all)(tpi_storage *s); /* of storages that are watched */

tpi_storage *tpi_storage_new(tp_device device, size_t bytes) {
    bool inside = device.type == TP_CPU && bytes <= INSIDE_BYTES;
    size_t lines = bytes ? (bytes + TPI_ALIGN - 1) / TPI_ALIGN : 1;
    tpi_storage *s = header_new(device, inside ? lines * TPI_ALIGN : 0);
    if (!s) return NULL;
    s->bytes = bytes;
    if (inside) {
        count_bytes(device, (int64_t)bytes);
        return born(s);
    }
    s->data = tpi_above.alloc(device, bytes);
    s->capacity = bytes;
    if (s->data) {
        count_bytes(device, (int64_t)bytes);
        return born(s);
    }
    header_free(s);
    return NULL;
}

tpi_storage *tpi_storage_over(void *data, size_t bytes, tp_device device, void (*release)(void *context),
                              void *context) {
    tpi_storage *s = header_new(device, 0);
    if (!s) return NULL;
    s->data = data;
    s->bytes = s->capacity = bytes;
    s->release = release;
    s->context = context;
    s->foreign = true;
    return s;
}

tpi_storage *tpi_storage_lend(tpi_storage *owner) {
    tpi_storage *s = header_new(owner->device, 0);
    if (!s) return NULL;
    s->data = owner->data;
    s->bytes = s->capacity = owner->bytes;
    s->context = tpi_storage_retain(owner);
    s->keeps_data = true;
    count_bytes(s->device, (int64_t)s->bytes);
    return s;
}

/* A plain tensor over raw bytes, so that any device's copy can move them. */
static tp_tensor *bytes_over(tp_device device, char *data, size_t bytes) {
    int64_t n = (int64_t)bytes;
    tpi_storage *s = tpi_storage_over(data, bytes, device, NULL, NULL);
    return s ? tpi_tensor_over(s, TP_UINT8, tp_ints_view(&n, 1), tp_no_ints(), 0) : NULL;
}

static bool copy_bytes(tp_device device, char *to, char *from, size_t bytes) {
    if (device.type == TP_CPU) {
        memcpy(to, from, bytes);
        return true;
    }
    tp_tensor *a = bytes_over(device, to, bytes), *b = bytes_over(device, from, bytes);
    bool ok = a && b && tpi_copy_data(a, b);
    tp_release(a);
    tp_release(b);
    return ok;
}

bool tpi_storage_resize(tpi_storage *s, size_t bytes) {
    if (bytes <= s->capacity) {
        if (!s->foreign) count_bytes(s->device, (int64_t)bytes - (int64_t)s->bytes);
        if (!s->foreign && !s->keeps_data && bytes < s->bytes && s->device.type == TP_CPU)
            tpi_discard(s->data + bytes, s->bytes - bytes); /* tensors remember where their data is: the place stays */
        s->bytes = bytes;
        return true;
    }
    if (s->foreign)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "Trying to resize storage that is not resizable: cannot grow memory that is not the library's (it has "
            "%zu bytes, %zu are needed)",
            s->bytes, bytes);
    char *data = tpi_above.alloc(s->device, bytes);
    if (!data) return false;
    if (!copy_bytes(s->device, data, s->data, s->bytes)) {
        tpi_above.free(s->device, data, bytes);
        return false;
    }
    if (!s->keeps_data) tpi_above.free(s->device, s->data, s->capacity);
    count_bytes(s->device, (int64_t)bytes - (int64_t)s->bytes);
    s->data = data;
    s->bytes = s->capacity = bytes;
    s->keeps_data = false;
    return true;
}

void tpi_storage_free(tpi_storage *s) {
    if (s->watched) {
        s->watched = false;
        atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
        watcher_of_all(s);
        return;
    }
    if (s->foreign) {
        if (s->release) s->release(s->context);
    } else {
        count_bytes(s->device, -(int64_t)s->bytes);
        if (!s->keeps_data) tpi_above.free(s->device, s->data, s->capacity);
        if (s->context) tpi_storage_release(s->context); /* its shared copy (shared.c), or who lent it */
    }
    if (!tpi_handle_kept(s)) header_free(s);
}

void tpi_storage_empty(tpi_storage *s) {
    if (s->foreign || s->keeps_data || s->context) return;
    count_bytes(s->device, -(int64_t)s->bytes);
    tpi_above.free(s->device, s->data, s->capacity);
    s->data = NULL;
    s->bytes = s->capacity = 0;
    s->keeps_data = true; /* nothing is left to free but the header */
}

/* ---- What the user holds ---- */

#define given(s) tpi_given(s, __func__, "storage", "a storage")

static bool is_size(int64_t bytes) {
    return bytes >= 0 || tpi_refuse(TP_ERR_VALUE, "argument 'bytes': expected 0 or more, got %lld", (long long)bytes);
}

tp_storage *tp_storage_of(const tp_tensor *t) {
    if (!tpi_is_tensor(t, "t")) return NULL;
    return tpi_storage_retain(t->storage);
}

tp_storage *tp_storage_new(int64_t bytes, tp_device device) {
    return is_size(bytes) ? tpi_storage_new(device.type ? device : tpi_device_default, (size_t)bytes) : NULL;
}

tp_storage *tp_storage_over(void *data, int64_t bytes, void (*release)(void *context), void *context) {
    if (!is_size(bytes)) return NULL;
    if (bytes && !data)
        return tpi_fail(TP_ERR_VALUE, "argument 'data': expected %lld bytes, got NULL", (long long)bytes);
    return tpi_storage_over(data, (size_t)bytes, (tp_device){TP_CPU, 0}, release, context);
}

tp_storage *tp_storage_retain(tp_storage *s) { return given(s) ? tpi_storage_retain(s) : NULL; }

void tp_storage_release(tp_storage *s) {
    if (TPI_ENDED(s, "a storage")) return;
    if (s) tpi_storage_release(s);
}

void *tp_storage_data(const tp_storage *s) { return given(s) && s->device.type != TP_META ? s->data : NULL; }
int64_t tp_storage_size(const tp_storage *s) { return given(s) ? (int64_t)s->bytes : -1; }
tp_device tp_storage_device(const tp_storage *s) { return given(s) ? s->device : (tp_device){0, 0}; }
int64_t tp_storage_references(const tp_storage *s) {
    return given(s) ? atomic_load_explicit(&s->refs, memory_order_acquire) : -1;
}

bool tp_storage_watch(tp_storage *s, void (*watcher)(tp_storage *s)) {
    if (!given(s)) return false;
    s->watched = watcher != NULL;
    if (watcher) watcher_of_all = watcher;
    return true;
}

bool tp_storage_resize(tp_storage *s, int64_t bytes) {
    if (!given(s) || !is_size(bytes)) return false;
    if ((size_t)bytes > s->capacity && !s->foreign && atomic_load_explicit(&s->refs, memory_order_acquire) != 1)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "cannot grow memory that tensors use (it has room for %zu bytes, %lld are needed)",
                          s->capacity, (long long)bytes);
    return tpi_storage_resize(s, (size_t)bytes);
}
