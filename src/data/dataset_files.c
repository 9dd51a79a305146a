/* Datasets in the files they are published in: MNIST's idx files, plain or gzipped, and CIFAR's binary files. A file is
 * read whole and checked against the sizes it states; what is too short or too long is refused with its name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <taper/data.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/zlib.h"
#include "tensor/storage.h"

enum { FIRST_PIECE = 1 << 20 };

static bool is_packed(const char *path) { /* by gzip */
    unsigned char head[2] = {0};
    FILE *file = fopen(path, "rb");
    bool packed = file && fread(head, 1, 2, file) == 2 && head[0] == 0x1f && head[1] == 0x8b;
    if (file) fclose(file);
    return packed;
}

static gzFile open_file(const char *path) {
    if (!path) return tpi_fail(TP_ERR_TYPE, "argument 'path': expected a file's name, got NULL");
    if (!TPI_ZLIB && is_packed(path)) return tpi_fail(TP_ERR_MISSING, "%s: is packed by gzip: " TPI_NO_ZLIB, path);
    gzFile file = gzopen(path, "rb"); /* reads files that are not compressed as they are */
    return file ? file : tpi_fail(TP_ERR_IO, "could not open '%s': %s", path, strerror(errno));
}

static bool read_all(gzFile file, const char *path, void *into, int64_t bytes) {
    const int64_t most = 1 << 30; /* a call's limit */
    for (char *at = into; bytes;) {
        int got = gzread(file, at, (unsigned)(bytes < most ? bytes : most));
        if (got <= 0) return tpi_refuse(TP_ERR_IO, "%s: ends %lld bytes too early", path, (long long)bytes);
        at += got;
        bytes -= got;
    }
    return true;
}

/* So many bytes, into memory that grows as they come: a header may claim any number. */
static char *read_claimed(gzFile file, const char *path, int64_t bytes) {
    char *data = NULL;
    for (int64_t have = 0, capacity = FIRST_PIECE; have < bytes; have = capacity, capacity *= 2) {
        if (capacity > bytes) capacity = bytes;
        char *larger = tpi_realloc(data, (size_t)capacity);
        if (larger) data = larger;
        if (!larger || !read_all(file, path, data + have, capacity - have)) {
            tpi_mfree(data);
            return NULL;
        }
    }
    return data ? data : tpi_malloc(1);
}

static bool at_end(gzFile file, const char *path) {
    char more;
    return gzread(file, &more, 1) == 0 || tpi_refuse(TP_ERR_IO, "%s: is longer than its sizes say", path);
}

/* ---- idx: two zeros, the type, the number of dimensions, their sizes, the elements; all numbers begin with their
 * highest byte ---- */
static tp_dtype idx_dtype(unsigned char code) {
    switch (code) {
    case 0x08: return TP_UINT8;
    case 0x09: return TP_INT8;
    case 0x0B: return TP_INT16;
    case 0x0C: return TP_INT32;
    case 0x0D: return TP_FLOAT32;
    case 0x0E: return TP_FLOAT64;
    default: return TP_NO_DTYPE;
    }
}

static void swap_bytes(char *data, int64_t n, int64_t size) {
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ || size == 1) return;
    for (char *end = data + n * size; data < end; data += size)
        for (int64_t a = 0, b = size - 1; a < b; a++, b--) {
            char byte = data[a];
            data[a] = data[b];
            data[b] = byte;
        }
}

static tp_tensor *idx_read(gzFile file, const char *path) {
    unsigned char head[4], sizes[4 * 255];
    int64_t shape[TP_MAX_DIMS];
    if (!read_all(file, path, head, 4)) return NULL;
    tp_dtype dtype = head[0] || head[1] ? TP_NO_DTYPE : idx_dtype(head[2]);
    if (dtype == TP_NO_DTYPE || head[3] > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_IO, "%s: is not in MNIST's format (idx)", path);
    if (!read_all(file, path, sizes, 4 * (int64_t)head[3])) return NULL;
    for (int d = 0; d < head[3]; d++) {
        const unsigned char *s = sizes + 4 * d;
        shape[d] = (int64_t)s[0] << 24 | (int64_t)s[1] << 16 | (int64_t)s[2] << 8 | s[3];
    }
    tp_ints sizes_read = tp_ints_view(shape, head[3]);
    int64_t numel = tpi_numel_of(sizes_read), bytes;
    if (numel < 0 || __builtin_mul_overflow(numel, tp_dtype_size(dtype), &bytes))
        return numel < 0 ? NULL : tpi_fail(TP_ERR_IO, "%s: its sizes are impossible", path);
    char *data = read_claimed(file, path, bytes);
    if (!data) return NULL;
    tp_storage *storage =
        at_end(file, path) ? tpi_storage_over(data, (size_t)bytes, (tp_device){TP_CPU, 0}, tpi_mfree, data) : NULL;
    if (!storage) {
        tpi_mfree(data);
        return NULL;
    }
    swap_bytes(data, numel, tp_dtype_size(dtype));
    return tpi_tensor_over(storage, dtype, sizes_read, tp_no_ints(), 0);
}

static tp_tensor *idx_owned(const char *path) {
    gzFile file = open_file(path);
    tp_tensor *t = file ? idx_read(file, path) : NULL;
    if (file) gzclose(file);
    return t;
}

tp_tensor *tp_read_idx(const char *path) { return tpi_to_scope(idx_owned(path)); }

/* ---- Images and labels as a dataset; takes both over ---- */
static tp_dataset *of_images(tp_tensor *images, tp_tensor *labels) {
    tp_tensor *wide = images && labels ? tpi_as_dtype_data(labels, TP_INT64) : NULL;
    tp_dataset *raw = wide ? tp_dataset_of_tensors(TP_LIST(images, wide)) : NULL;
    tp_dataset *d = raw ? tp_dataset_normalised(raw, 0, 255, tp_no_floats(), tp_no_floats()) : NULL;
    tp_dataset_release(raw);
    tp_release(wide);
    tp_release(images);
    tp_release(labels);
    return d;
}

tp_dataset *tp_dataset_mnist(const char *images, const char *labels) {
    tp_tensor *x = idx_owned(images), *y = x ? idx_owned(labels) : NULL;
    bool fits = x && y && x->ndim == 3 && y->ndim == 1 && x->shape[0] == y->shape[0];
    if (x && y && !fits)
        tpi_fail(TP_ERR_IO, "%s has the shape %s, %s has %s: expected images and as many labels", images,
                 tpi_shape_text(tpi_shape(x)), labels, tpi_shape_text(tpi_shape(y)));
    if (fits) { /* (N, 28, 28) becomes (N, 1, 28, 28) */
        tpi_storage *s = x->storage;
        int64_t shape[] = {x->shape[0], 1, x->shape[1], x->shape[2]};
        tp_tensor *with_channel =
            tpi_tensor_over(tpi_storage_retain(s), x->dtype, tp_ints_view(shape, 4), tp_no_ints(), 0);
        tp_release(x);
        x = with_channel;
    }
    if (fits) return of_images(x, y);
    tp_release(x);
    tp_release(y);
    return NULL;
}

/* ---- CIFAR: records of one label (of 100 classes: a coarse and a fine one) and 3 x 32 x 32 pixels ---- */
enum { PIXELS = 3 * 32 * 32 };

static int64_t records_in(const char *path, int64_t record) { /* -1: an error */
    gzFile file = open_file(path);
    if (!file) return -1;
    char buffer[1 << 14];
    int64_t bytes = 0;
    int got;
    while ((got = gzread(file, buffer, sizeof buffer)) > 0) bytes += got;
    gzclose(file);
    if (got < 0 || bytes % record) {
        tpi_fail(TP_ERR_IO, "%s: %lld bytes are no whole number of CIFAR's records of %lld", path, (long long)bytes,
                 (long long)record);
        return -1;
    }
    return bytes / record;
}

static bool cifar_read(const char *path, int64_t n, int64_t labels_per, char *pixels, char *labels) {
    gzFile file = open_file(path);
    bool ok = file != NULL;
    for (int64_t i = 0; i < n && ok; i++) {
        char both[2];
        ok = read_all(file, path, both, labels_per) && read_all(file, path, pixels + i * PIXELS, PIXELS);
        labels[i] = both[labels_per - 1];
    }
    if (file) gzclose(file);
    return ok;
}

tp_dataset *tp_dataset_cifar(int64_t n, const char *const *paths, int64_t classes) {
    if (classes != 10 && classes != 100)
        return tpi_fail(TP_ERR_VALUE, "argument 'classes': expected 10 or 100, got %lld", (long long)classes);
    if (n < 1) return tpi_fail(TP_ERR_VALUE, "argument 'n': expected 1 file or more, got %lld", (long long)n);
    int64_t labels_per = classes == 100 ? 2 : 1, total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t records = records_in(paths[i], labels_per + PIXELS);
        if (records < 0) return NULL;
        total += records;
    }
    tp_device cpu = {TP_CPU, 0};
    tp_tensor *images = tpi_empty(TP_INTS(total, 3, 32, 32), TP_UINT8, cpu),
              *labels = images ? tpi_empty(TP_INTS(total), TP_UINT8, cpu) : NULL;
    bool ok = labels != NULL;
    for (int64_t i = 0, at = 0; i < n && ok; i++) {
        int64_t records = records_in(paths[i], labels_per + PIXELS);
        ok = records >= 0 && at + records <= total &&
             cifar_read(paths[i], records, labels_per, images->data + at * PIXELS, labels->data + at);
        at += records;
    }
    if (ok) return of_images(images, labels);
    tp_release(images);
    tp_release(labels);
    return NULL;
}
