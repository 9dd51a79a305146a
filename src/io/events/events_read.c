/* Reading event files, also while they are being written: whole records with right checksums are handed out, the rest
 * of the file waits for the next look. A record whose bytes are damaged is counted and skipped; behind a damaged length
 * nothing can be found any more. */
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "io/events/records.h"
#include "io/events/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10) /* read at a time */

struct tp_event_file {
    int fd;
    char *path;
    unsigned char *data; /* bytes [at, n) of it are not used yet */
    size_t at, n, capacity;
    int64_t damaged;
    bool lost; /* a length was damaged */
};

tp_event_file *tp_event_file_open(const char *path) {
    if (!path) return tpi_fail(TP_ERR_VALUE, "argument 'path': expected a path, got none");
    tp_event_file *f = tpi_new0(sizeof *f);
    if (!f) return NULL;
    f->path = tpi_strdup(path);
    f->fd = f->path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (f->fd >= 0) return f;
    if (f->path) tpi_fail(TP_ERR_IO, "could not open '%s': %s", path, strerror(errno));
    tpi_mfree(f->path);
    tpi_delete(f, sizeof *f);
    return NULL;
}

void tp_event_file_close(tp_event_file *f) {
    if (TPI_ENDED(f, "an event file")) return;
    if (!f) return;
    close(f->fd);
    tpi_mfree(f->data);
    tpi_mfree(f->path);
    tpi_handle_delete(f, sizeof *f);
}

int64_t tp_event_file_damaged(const tp_event_file *f) {
    if (TPI_ENDED(f, "an event file")) return -1;
    return f ? f->damaged : 0;
}

/* ---- Records ---- */

/* 1: at least so many bytes are at hand; 0: the file does not hold them yet; -1: an error. */
static int want(tp_event_file *f, size_t bytes) {
    while (f->n - f->at < bytes) {
        if (f->at) {
            memmove(f->data, f->data + f->at, f->n - f->at);
            f->n -= f->at;
            f->at = 0;
        }
        if (f->n == f->capacity) { /* as bytes come: a record may claim any length */
            size_t capacity = f->capacity ? 2 * f->capacity : PIECE;
            unsigned char *larger = tpi_realloc(f->data, capacity);
            if (!larger) return -1;
            f->data = larger;
            f->capacity = capacity;
        }
        ssize_t got = read(f->fd, f->data + f->n, f->capacity - f->n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            tpi_fail(TP_ERR_IO, "could not read '%s': %s", f->path, strerror(errno));
            return -1;
        }
        if (!got) return 0;
        f->n += (size_t)got;
    }
    return 1;
}

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* The next whole record: 1 and its bytes, which stay until the next call; 0: none yet; -1: an error. */
static int next_record(tp_event_file *f, const unsigned char **data, size_t *bytes) {
    while (!f->lost) {
        int there = want(f, TPI_RECORD_HEAD);
        if (there <= 0) return there;
        const unsigned char *head = f->data + f->at;
        uint64_t length = little(head, 8);
        if (tpi_record_crc(head, 8) != little(head + 8, 4) || length > SIZE_MAX / 4) {
            f->lost = true;
            f->damaged++;
            break;
        }
        there = want(f, TPI_RECORD_HEAD + (size_t)length + TPI_RECORD_TAIL);
        if (there <= 0) return there;
        *data = f->data + f->at + TPI_RECORD_HEAD;
        *bytes = (size_t)length;
        f->at += TPI_RECORD_HEAD + (size_t)length + TPI_RECORD_TAIL;
        if (tpi_record_crc(*data, *bytes) == little(*data + length, 4)) return 1;
        f->damaged++;
    }
    return 0;
}

/* ---- Scalars ---- */

/* The number in a tensor of one element, as the newer way of logging scalars has it. */
static bool number_of_tensor(const tpi_field *tensor, double *value) {
    tpi_field f;
    int dtype = 0;
    const tpi_field none = {0};
    tpi_field floats = none, doubles = none, content = none;
    for (size_t at = 0; tpi_wire_next(tensor->data, tensor->bytes, &at, &f);) {
        if (f.number == 1) dtype = (int)f.bits;
        if (f.number == 4) content = f;
        if (f.number == 5) floats = f;
        if (f.number == 6) doubles = f;
    }
    size_t size = dtype == 1 ? 4 : dtype == 2 ? 8 : 0;
    tpi_field held = content.bytes ? content : dtype == 1 ? floats : doubles;
    if (!size || (held.type == 2 && held.bytes != size) || !held.number) return false;
    if (held.type == 2) held = (tpi_field){.type = size == 4 ? 5 : 1, .bits = little(held.data, (int)size)};
    *value = tpi_field_double(&held);
    return true;
}

static bool is_scalars_plugin(const tpi_field *metadata) {
    tpi_field f, g;
    for (size_t at = 0; tpi_wire_next(metadata->data, metadata->bytes, &at, &f);)
        for (size_t in = 0; f.number == 1 && tpi_wire_next(f.data, f.bytes, &in, &g);)
            if (g.number == 1 && g.bytes == 7 && !memcmp(g.data, "scalars", 7)) return true;
    return false;
}

static void read_value(const tpi_field *of, tp_point point, tp_point_fn fn, void *context) {
    tpi_field f, tensor = {0};
    bool plain = false, scalars = false;
    for (size_t at = 0; tpi_wire_next(of->data, of->bytes, &at, &f);) {
        if (f.number == 1) {
            point.tag = (const char *)f.data;
            point.tag_bytes = f.bytes;
        }
        if (f.number == 2) {
            plain = true;
            point.value = tpi_field_double(&f);
        }
        if (f.number == 8) tensor = f;
        if (f.number == 9) scalars = is_scalars_plugin(&f);
    }
    if (point.tag && (plain || (scalars && tensor.data && number_of_tensor(&tensor, &point.value))))
        fn(&point, context);
}

static void read_event(const unsigned char *data, size_t bytes, tp_point_fn fn, void *context) {
    tp_point point = {0};
    tpi_field f, g, summary = {0};
    bool starts = false;
    for (size_t at = 0; tpi_wire_next(data, bytes, &at, &f);) {
        if (f.number == 1) point.wall_time = tpi_field_double(&f);
        if (f.number == 2) point.step = (int64_t)f.bits;
        if (f.number == 5) summary = f;
        for (size_t in = 0; f.number == 7 && tpi_wire_next(f.data, f.bytes, &in, &g);)
            starts |= g.number == 1 && g.bits == 1;
    }
    if (starts) fn(&point, context); /* no tag: what is at this step or later is void */
    for (size_t at = 0; summary.data && tpi_wire_next(summary.data, summary.bytes, &at, &f);)
        if (f.number == 1 && f.type == 2) read_value(&f, point, fn, context);
}

bool tp_event_file_points(tp_event_file *f, tp_point_fn fn, void *context) {
    if (!TPI_GIVEN(f, "an event file") || !TPI_GIVEN(fn, "a function")) return false;
    const unsigned char *data;
    size_t bytes;
    int there;
    while ((there = next_record(f, &data, &bytes)) > 0) read_event(data, bytes, fn, context);
    return there == 0;
}
