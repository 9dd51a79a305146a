/* Storage: one reference-counted block of a device's memory, or of somebody else's, with the version counter that the tape reads.
 *
 * On the CPU small data lives right behind the storage's header, in one block: making a small tensor then costs two
 * trips to the free lists instead of three. Data starts on a cache line and its room is whole cache lines in either case. */
#include "tensor/storage.h"
#include <string.h>

#define INSIDE_BYTES 256 /* data up to this size shares the header's block */

_Static_assert(sizeof(tpi_storage) <= TPI_ALIGN, "the data behind a storage's header must start on a cache line");

static tpi_storage *header_new(tp_device device, size_t room) {
    tpi_storage *s = tpi_alloc(TPI_ALIGN + room);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->device = device;
    s->room = (uint32_t)room;
    s->data = (char *)s + TPI_ALIGN;
    s->bytes = 0;
    s->release = NULL;
    s->context = NULL;
    s->foreign = false;
    s->inside = room > 0;
    return s;
}

static void header_free(tpi_storage *s) { tpi_free(s, TPI_ALIGN + s->room); }

tpi_storage *tpi_storage_new(tp_device device, size_t bytes) {
    bool inside = device.type == TP_CPU && bytes <= INSIDE_BYTES;
    size_t lines = bytes ? (bytes + TPI_ALIGN - 1) / TPI_ALIGN : 1;
    tpi_storage *s = header_new(device, inside ? lines * TPI_ALIGN : 0);
    if (!s) return NULL;
    s->bytes = bytes;
    if (inside) return s;
    s->data = tpi_device_alloc(device, bytes);
    if (s->data) return s;
    header_free(s);
    return NULL;
}

tpi_storage *tpi_storage_over(void *data, size_t bytes, tp_device device, void (*release)(void *context), void *context) {
    tpi_storage *s = header_new(device, 0);
    if (!s) return NULL;
    s->data = data;
    s->bytes = bytes;
    s->release = release;
    s->context = context;
    s->foreign = true;
    return s;
}

/* A plain tensor over raw bytes, so that any device's copy can move them. */
static tp_tensor *bytes_over(tp_device device, char *data, size_t bytes) {
    int64_t n = (int64_t)bytes;
    tpi_storage *s = tpi_storage_over(data, bytes, device, NULL, NULL);
    return s ? tpi_tensor_over(s, TP_UINT8, tp_ints_view(&n, 1), tp_no_ints(), 0) : NULL;
}

static bool copy_bytes(tp_device device, char *to, char *from, size_t bytes) {
    if (device.type == TP_CPU) return memcpy(to, from, bytes), true;
    tp_tensor *a = bytes_over(device, to, bytes), *b = bytes_over(device, from, bytes);
    bool ok = a && b && tpi_copy_data(a, b);
    tp_release(a);
    tp_release(b);
    return ok;
}

bool tpi_storage_grow(tpi_storage *s, size_t bytes) {
    if (bytes <= s->bytes) return true;
    if (s->inside && bytes <= s->room) {
        s->bytes = bytes;
        return true;
    }
    char *data = tpi_device_alloc(s->device, bytes);
    if (!data) return false;
    if (!copy_bytes(s->device, data, s->data, s->bytes)) {
        tpi_device_free(s->device, data, bytes);
        return false;
    }
    if (!s->inside) tpi_device_free(s->device, s->data, s->bytes);
    s->data = data;
    s->bytes = bytes;
    s->inside = false;
    return true;
}

void tpi_storage_free(tpi_storage *s) {
    if (s->foreign) {
        if (s->release) s->release(s->context);
    } else if (!s->inside) {
        tpi_device_free(s->device, s->data, s->bytes);
    }
    header_free(s);
}
