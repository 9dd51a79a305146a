#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_ELEMENTS = 1 << 16, MOST_VALUES = 1 << 12, DEEPEST = 24 };

void fuzz_begin(void) {
    static bool begun;
    if (!begun) {
        tp_set_num_threads(1);
        begun = true;
    }
    tp_error_clear();
}

const char *fuzz_path(const uint8_t *data, size_t n) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

void fuzz_touch(tp_tensor *t) {
    if (!t || tp_numel(t) > MOST_ELEMENTS) return;
    TP_SCOPE {
        tp_sum(tp_to(t, .dtype = TP_FLOAT64));
    }
    tp_error_clear();
}

static void walk(const tp_saved *v, int depth, int *left) {
    if (!v || depth > DEEPEST || (*left)-- <= 0) return;
    tp_saved_about about = {.size = sizeof about};
    tp_saved_kind kind = tp_saved_kind_of(v);
    if (kind == TP_SAVED_TENSOR || kind == TP_SAVED_STORAGE) {
        if (tp_saved_describe(v, &about) && kind == TP_SAVED_TENSOR)
            TP_SCOPE {
                fuzz_touch(tp_saved_tensor(v));
            }
        tp_storage *s = about.bytes <= 1 << 20 ? tp_saved_storage(v) : NULL;
        tp_storage_release(s);
    }
    for (int part = TP_PART_CALL; part <= TP_PART_PAIRS; part++)
        walk(tp_saved_part_of(v, (tp_saved_part)part), depth + 1, left);
    bool list = kind == TP_SAVED_LIST || kind == TP_SAVED_TUPLE || kind == TP_SAVED_SET || kind == TP_SAVED_SIZE ||
                kind == TP_SAVED_DICT;
    for (int64_t i = 0; list && i < tp_saved_count(v) && *left > 0; i++) {
        if (kind == TP_SAVED_DICT) walk(tp_saved_key_at(v, i), depth + 1, left);
        walk(tp_saved_at(v, i), depth + 1, left);
    }
    tp_error_clear();
}

static void read_once(const uint8_t *data, size_t n, bool pickle, bool any_global) {
    tp_file_options options = {.size = sizeof options,
                               .memory = n ? (const void *)data : "",
                               .memory_bytes = (int64_t)n,
                               .pickle = pickle,
                               .any_global = any_global};
    tp_file *f = tp_open_file("fuzz", &options);
    int left = MOST_VALUES;
    walk(tp_file_value(f), 0, &left);
    for (int64_t i = 0; i < tp_file_global_count(f); i++) (void)strlen(tp_file_global_at(f, i));
    tp_close_file(f);
    tp_error_clear();
}

void fuzz_file(const uint8_t *data, size_t n, bool pickle) {
    read_once(data, n, pickle, false);
    read_once(data, n, pickle, true);
}

typedef struct memory {
    uint8_t *data;
    size_t n, capacity;
} memory;

static bool append(void *context, const void *data, size_t bytes) {
    memory *m = context;
    if (m->capacity - m->n < bytes) {
        m->capacity = 2 * (m->n + bytes);
        m->data = realloc(m->data, m->capacity);
        if (!m->data) abort();
    }
    if (bytes) memcpy(m->data + m->n, data, bytes);
    m->n += bytes;
    return true;
}

uint8_t *fuzz_archive(const uint8_t *pickle, size_t n, size_t *bytes) {
    static tp_storage *storages[2];
    if (!storages[0])
        TP_SCOPE {
            storages[0] = tp_storage_of(tp_ones(TP_INTS(16)));
            storages[1] = tp_storage_of(tp_ones(TP_INTS(64)));
        }
    memory m = {0};
    if (!tp_write_pt(NULL, &(tp_sink){append, &m}, "archive", pickle, (int64_t)n, 2, storages)) abort();
    *bytes = m.n;
    return m.data;
}
