/* Writing PyTorch's zip format: a folder with the pickle, one member per storage on a multiple of 64 bytes, and the
 * small members that PyTorch writes, in its order. */
#include "base/error.h"
#include "tensor/check_arguments.h"
#include "base/memory.h"
#include "io/file_writer.h"
#include "io/checkpoint/zip.h"
#include "tensor/storage.h"
#include <stdio.h>
#include <string.h>

enum { ALIGN = 64 };

static bool add(tpi_zip_writer *w, const char *archive, const char *name, const void *data, size_t bytes) {
    size_t size = strlen(archive) + strlen(name) + 2;
    char *full = tpi_malloc(size);
    if (!full) return false;
    snprintf(full, size, "%s/%s", archive, name);
    bool ok = tpi_zip_add(w, full, NULL, 1, &(tpi_zip_piece){data, bytes});
    tpi_mfree(full);
    return ok;
}

/* The storage's bytes on the CPU, in *copy if they have to be fetched. */
static bool on_cpu(tp_storage *s, tpi_storage **copy) {
    *copy = NULL;
    if (s->device.type == TP_CPU) return true;
    int64_t n = (int64_t)s->bytes;
    tp_tensor *there = tpi_tensor_over(tpi_storage_retain(s), TP_UINT8, tp_ints_view(&n, 1), tp_no_ints(), 0);
    tp_tensor *here = there ? tpi_empty(tp_ints_view(&n, 1), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    bool ok = here && tpi_copy_data(here, there);
    if (ok) *copy = tpi_storage_retain(here->storage);
    tp_release(here);
    tp_release(there);
    return ok;
}

static bool add_storage(tpi_zip_writer *w, const char *archive, int64_t key, tp_storage *s) {
    char name[40];
    tpi_storage *copy;
    snprintf(name, sizeof name, "data/%lld", (long long)key);
    if (!on_cpu(s, &copy)) return false;
    bool ok = add(w, archive, name, copy ? copy->data : s->data, s->bytes);
    if (copy) tpi_storage_release(copy);
    return ok;
}

/* PyTorch's reader tells files apart by this number: here, forty digits that depend on the contents, so that equal
 * contents make equal files. */
static void serialization_id(char out[41], const void *pickle, size_t bytes, int64_t n, tp_storage *const *storages) {
    uint64_t h[2] = {1469598103934665603u, (uint64_t)n + 1};
    for (size_t i = 0; i < bytes; i++) h[0] = (h[0] ^ ((const unsigned char *)pickle)[i]) * 1099511628211u;
    for (int64_t i = 0; i < n; i++) h[1] = (h[1] ^ storages[i]->bytes) * 1099511628211u;
    snprintf(out, 41, "%020llu%020llu", (unsigned long long)h[0], (unsigned long long)h[1]);
}

bool tp_write_pt(const char *path, const tp_sink *sink, const char *archive, const void *pickle, int64_t bytes,
                 int64_t n, tp_storage *const *storages) {
    TPI_STOP_ON_ERROR(false);
    if (!sink && (!path || !path[0]))
        return tpi_refuse(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
    if (!TPI_GIVEN(archive, "a name") || !TPI_LIST_GIVEN(pickle, bytes) || !TPI_LIST_GIVEN(storages, n)) return false;
    char id[41];
    serialization_id(id, pickle, (size_t)bytes, n, storages);
    tpi_zip_writer *w = tpi_zip_create(path, sink, ALIGN);
    if (!w) return false;
    bool ok = add(w, archive, "data.pkl", pickle, (size_t)bytes) && add(w, archive, ".format_version", "1", 1) &&
              add(w, archive, ".storage_alignment", "64", 2) && add(w, archive, "byteorder", "little", 6);
    for (int64_t i = 0; ok && i < n; i++) ok = add_storage(w, archive, i, storages[i]);
    ok = ok && add(w, archive, "version", "3\n", 2) && add(w, archive, ".data/serialization_id", id, 40);
    if (ok) return tpi_zip_commit(w);
    tpi_zip_abandon(w);
    return false;
}

bool tp_write_pieces(const char *path, int64_t n, const void *const *pieces, const int64_t *bytes) {
    TPI_STOP_ON_ERROR(false);
    tpi_file_writer out;
    if (!path || !path[0]) return tpi_refuse(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
    if (!TPI_LIST_GIVEN(pieces, n) || !TPI_LIST_GIVEN(bytes, n)) return false;
    if (!tpi_writer_open(&out, path)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (tpi_writer_write(&out, pieces[i], (size_t)bytes[i])) continue;
        tpi_writer_abandon(&out);
        return false;
    }
    return tpi_writer_commit(&out);
}

void tp_free_bytes(void *bytes) { tpi_mfree(bytes); }
