/* A store in a file that all its processes reach: requests that change something are appended to it under a lock, and
 * each process plays the file into a table of its own. A key counts who has the file open. The last of them removes it,
 * if as many as were announced have let go. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"
#include <pthread.h>

typedef struct file_store {
    tp_store store;
    tpi_table table;
    int64_t played; /* bytes of the file that are in the table */
    int64_t users;  /* that will have let go when the file can go; 0: nobody removes it */
    pthread_mutex_t lock;
    char path[];
} file_store;

typedef struct record { /* in the file, followed by the key and the value */
    uint32_t op, key_bytes;
    uint64_t bytes;
} record;

static bool read_all(int fd, char *data, size_t n, int64_t at) {
    while (n) {
        ssize_t got = pread(fd, data, n, at);
        if (got <= 0 && (got == 0 || errno != EINTR)) return false;
        if (got > 0) {
            data += got;
            n -= (size_t)got;
            at += got;
        }
    }
    return true;
}

static bool write_all(int fd, const char *data, size_t n, int64_t at) {
    while (n) {
        ssize_t put = pwrite(fd, data, n, at);
        if (put < 0 && errno != EINTR) return false;
        if (put > 0) {
            data += put;
            n -= (size_t)put;
            at += put;
        }
    }
    return true;
}

/* Plays one record; false if it is not whole. */
static bool play(file_store *f, int fd) {
    record r;
    if (!read_all(fd, (char *)&r, sizeof r, f->played)) return false;
    size_t n = r.key_bytes + (size_t)r.bytes;
    struct stat about;
    if (fstat(fd, &about) < 0 || r.bytes > (uint64_t)about.st_size ||
        f->played + (int64_t)(sizeof r + n) > about.st_size)
        return false; /* what a head claims may not be there */
    char *body = tpi_malloc(n + 1);
    bool ok = body && read_all(fd, body, n, f->played + (int64_t)sizeof r) &&
              tpi_table_ask(&f->table, (enum tpi_store_op)r.op, body, r.key_bytes, body + r.key_bytes, (size_t)r.bytes,
                            NULL) != TPI_STORE_FAILED;
    tpi_mfree(body);
    if (ok) f->played += (int64_t)(sizeof r + n);
    return ok;
}

static bool append(file_store *f, int fd, enum tpi_store_op op, const char *key, size_t key_bytes, const char *in,
                   size_t n) {
    record r = {.op = op, .key_bytes = (uint32_t)key_bytes, .bytes = n};
    int64_t at = f->played;
    if (write_all(fd, (const char *)&r, sizeof r, at) && write_all(fd, key, key_bytes, at + (int64_t)sizeof r) &&
        write_all(fd, in, n, at + (int64_t)(sizeof r + key_bytes))) {
        f->played += (int64_t)(sizeof r + key_bytes + n);
        return true;
    }
    if (ftruncate(fd, at) < 0)
        return tpi_refuse(TP_ERR_IO, "store: '%s' has a broken end: %s", f->path, strerror(errno));
    return tpi_refuse(TP_ERR_IO, "store: cannot write '%s'", f->path);
}

/* What is asked, on the file as it is now. */
static enum tpi_store_answer ask_now(file_store *f, enum tpi_store_op op, const char *key, size_t key_bytes,
                                     const char *in, size_t n, tpi_bytes *out) {
    bool changes = tpi_store_changes(op);
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, changes ? LOCK_EX : LOCK_SH) < 0) {
        tpi_fail(TP_ERR_IO, "store: cannot use the file '%s': %s", f->path, strerror(errno));
        if (fd >= 0) close(fd);
        return TPI_STORE_FAILED;
    }
    while (play(f, fd)) {}
    enum tpi_store_answer a = tpi_table_ask(&f->table, op, key, key_bytes, in, n, out);
    if (changes && a == TPI_STORE_DONE && !append(f, fd, op, key, key_bytes, in, n)) {
        if (out) tpi_mfree(out->data);
        a = TPI_STORE_FAILED;
    }
    close(fd);
    return a;
}

static enum tpi_store_answer file_ask(tp_store *s, enum tpi_store_op op, const char *key, size_t key_bytes,
                                      const char *in, size_t n, double wait, tpi_bytes *out) {
    file_store *f = (file_store *)s;
    double deadline = tpi_now() + wait;
    for (;;) {
        pthread_mutex_lock(&f->lock);
        enum tpi_store_answer a = ask_now(f, op, key, key_bytes, in, n, out);
        pthread_mutex_unlock(&f->lock);
        if (a != TPI_STORE_ABSENT || tpi_now() >= deadline) return a;
        usleep(5000);
    }
}

bool tpi_store_file_secret(const char *path, char *text, size_t capacity) {
    return snprintf(text, capacity, "%s.secret", path) < (int)capacity ||
           tpi_refuse(TP_ERR_VALUE, "store: the name '%s' is too long", path);
}

static void remove_files(const char *path) {
    char secret[4096];
    unlink(path);
    if (tpi_store_file_secret(path, secret, sizeof secret))
        unlink(secret);
    else
        tp_error_clear();
}

static void file_free(tp_store *s) {
    file_store *f = (file_store *)s;
    int64_t gone, open;
    if (f->users > 0 && tp_ok()) {
        /* Who finds that all are gone finds as well that none of them has it open: each says that first. */
        if (tp_store_add(s, "/open", -1, NULL) && tp_store_add(s, "/gone", 1, &gone) &&
            tp_store_add(s, "/open", 0, &open)) {
            if (gone >= f->users && open <= 0) remove_files(f->path);
        } else
            tp_error_clear(); /* nobody is left to tell */
    }
    tpi_table_free(&f->table);
    pthread_mutex_destroy(&f->lock);
}

tp_store *tp_store_file(const char *path, int64_t users) {
    static const tpi_store_kind kind = {file_ask, file_free};
    if (!path || !*path) return tpi_fail(TP_ERR_VALUE, "argument 'path': expected a file's name");
    size_t n = strlen(path) + 1;
    file_store *f = (file_store *)tpi_store_new(sizeof *f + n, &kind, 300);
    if (!f) return NULL;
    memcpy(f->path, path, n);
    f->store.path = f->path;
    f->users = users;
    pthread_mutex_init(&f->lock, NULL);
    if (tp_store_add(&f->store, "/open", 1, NULL)) return &f->store;
    f->users = 0;
    tp_store_release(&f->store);
    return NULL;
}
