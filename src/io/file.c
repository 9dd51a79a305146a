/* Whole files as bytes. A write that fails removes what it has begun. */
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <taper/image.h>
#include <unistd.h>

static bool failed(const char *did, const char *path) {
    return tpi_refuse(TP_ERR_IO, "could not %s '%s': %s", did, path, strerror(errno));
}
static bool named(const char *path) {
    return (path && path[0]) || tpi_refuse(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
}

static bool read_all(int fd, char *data, size_t n, const char *path) {
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, data + at, n - at < (1 << 30) ? n - at : 1 << 30);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("read", path);
        if (got == 0) return tpi_refuse(TP_ERR_IO, "could not read '%s': it became shorter meanwhile", path);
        at += (size_t)got;
    }
    return true;
}

tp_tensor *tpi_read_file(const char *path) {
    if (!named(path)) return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        failed("open", path);
        return NULL;
    }
    struct stat info;
    tp_tensor *t = NULL;
    if (fstat(fd, &info) < 0)
        failed("read", path);
    else if (!S_ISREG(info.st_mode))
        tpi_fail(TP_ERR_IO, "could not read '%s': it is not a file", path);
    else
        t = tpi_empty(TP_INTS((int64_t)info.st_size), TP_UINT8, (tp_device){TP_CPU, 0});
    if (t && !read_all(fd, t->data, (size_t)t->numel, path)) {
        tp_release(t);
        t = NULL;
    }
    close(fd);
    return t;
}

bool tpi_write_file(const char *path, const void *data, size_t n) {
    if (!named(path)) return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return failed("create", path);
    bool ok = true;
    for (size_t at = 0; ok && at < n;) {
        ssize_t put = write(fd, (const char *)data + at, n - at < (1 << 30) ? n - at : 1 << 30);
        if (put < 0 && errno == EINTR) continue;
        ok = put >= 0 || failed("write", path);
        if (ok) at += (size_t)put;
    }
    if (close(fd) < 0 && ok) ok = failed("write", path);
    if (!ok) unlink(path);
    return ok;
}

tp_tensor *tpi_file_bytes(const tp_tensor *bytes, const uint8_t **data, size_t *n) {
    if (!bytes) return tpi_fail(TP_ERR_TYPE, "argument 'input': expected a tensor of a file's bytes, got NULL");
    if (bytes->dtype != TP_UINT8)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected a file's bytes as uint8, got %s",
                        tp_dtype_name((tp_dtype)bytes->dtype));
    if (bytes->ndim != 1 || bytes->numel == 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected a non empty 1-dimensional tensor, got shape %s",
                        tpi_shape_text(tpi_shape(bytes)));
    tp_tensor *here = tpi_contiguous_data((tp_tensor *)bytes);
    if (!here) return NULL;
    *data = (const uint8_t *)here->data;
    *n = (size_t)here->numel;
    return here;
}

tp_tensor *tpi_bytes_tensor(const void *data, size_t n) {
    tp_tensor *t = tpi_empty(TP_INTS((int64_t)n), TP_UINT8, (tp_device){TP_CPU, 0});
    if (t && n) memcpy(t->data, data, n);
    return t;
}

tp_tensor *tp_read_file(const char *path) {
    const char *before = tpi_op_enter("read_file");
    tp_tensor *t = tpi_read_file(path);
    tpi_op_leave(before);
    return tpi_to_scope(t);
}

bool tp_write_file(const char *path, const tp_tensor *bytes) {
    if (TPI_ENDED(bytes, "a tensor")) return false;
    TPI_STOP_ON_ERROR(false);
    const char *before = tpi_op_enter("write_file");
    bool fits = bytes && bytes->dtype == TP_UINT8 && bytes->ndim == 1;
    if (!fits) tpi_fail(TP_ERR_RUNTIME, "argument 'data': expected a one-dimensional tensor of uint8");
    tp_tensor *here = fits ? tpi_contiguous_data((tp_tensor *)bytes) : NULL;
    bool ok = here && tpi_write_file(path, here->data, (size_t)here->numel);
    tp_release(here);
    tpi_op_leave(before);
    return ok;
}
