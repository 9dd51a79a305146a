/* Writing zip archives. Members are stored as they are, so that their bytes can be mapped or read by anything. */
#include "io/checkpoint/zip.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/crc.h"
#include "io/file_writer.h"
#include "io/checkpoint/zip_format.h"
#include <string.h>

uint64_t tpi_zip64_from = 0xffffffffu;

typedef struct record {
    uint64_t bytes, at;
    uint32_t crc;
    char *name;
    char *comment; /* NULL: none */
} record;

struct tpi_zip_writer {
    tpi_file_writer out;
    size_t align; /* of each member's bytes within the file; 1: none */
    int64_t n, capacity;
    record *records;
};

static void writer_free(tpi_zip_writer *w) {
    for (int64_t i = 0; i < w->n; i++) {
        tpi_mfree(w->records[i].name);
        tpi_mfree(w->records[i].comment);
    }
    tpi_mfree(w->records);
    tpi_delete(w, sizeof *w);
}

tpi_zip_writer *tpi_zip_create(const char *path, const tp_sink *sink, size_t align) {
    tpi_zip_writer *w = tpi_new0(sizeof *w);
    if (!w) return NULL;
    w->align = align;
    if (sink) tpi_writer_into(&w->out, *sink);
    if (sink || tpi_writer_open(&w->out, path)) return w;
    writer_free(w);
    return NULL;
}

void tpi_zip_abandon(tpi_zip_writer *w) {
    if (!w) return;
    tpi_writer_abandon(&w->out);
    writer_free(w);
}

/* ---- Records ---- */

static record *new_record(tpi_zip_writer *w, const char *name, const char *comment) {
    if (w->n == w->capacity) {
        int64_t capacity = w->capacity ? 2 * w->capacity : 16;
        record *larger = tpi_realloc(w->records, (size_t)capacity * sizeof *larger);
        if (!larger) return NULL;
        w->records = larger;
        w->capacity = capacity;
    }
    record r = {.name = tpi_strdup(name), .comment = comment ? tpi_strdup(comment) : NULL};
    if (!r.name || (comment && !r.comment)) {
        tpi_mfree(r.name);
        tpi_mfree(r.comment);
        return NULL;
    }
    w->records[w->n] = r;
    return &w->records[w->n++];
}

static bool is_large(uint64_t v) { return v >= tpi_zip64_from; }
static uint32_t small_or_mark(uint64_t v) { return is_large(v) ? 0xffffffffu : (uint32_t)v; }

/* The extra fields of a local header, behind which the bytes begin: 64-bit sizes, and padding as PyTorch's writer makes
 * it. */
static size_t local_extra(const tpi_zip_writer *w, const record *r, unsigned char extra[ZIP_EXTRA_BYTES]) {
    unsigned char *p = extra;
    if (is_large(r->bytes)) {
        p = put16(p, ZIP_EXTRA64);
        p = put16(p, 16);
        p = put64(p, r->bytes);
        p = put64(p, r->bytes);
    }
    if (w->align <= 1) return (size_t)(p - extra);
    uint64_t start = r->at + ZIP_LOCAL_BYTES + strlen(r->name) + (uint64_t)(p - extra) + 4;
    size_t padding = (size_t)((w->align - start % w->align) % w->align);
    p = put16(p, ZIP_PADDING);
    p = put16(p, (uint16_t)padding);
    memset(p, 'Z', padding);
    return (size_t)(p - extra) + padding;
}

bool tpi_zip_add(tpi_zip_writer *w, const char *name, const char *comment, int npieces, const tpi_zip_piece *pieces) {
    size_t length = strlen(name);
    if (length > 0xffff)
        return tpi_refuse(TP_ERR_VALUE, "argument 'names': expected names of at most 65531 bytes, got one of %zu",
                          length - 4);
    record *r = new_record(w, name, comment);
    if (!r) return false;
    r->at = w->out.at;
    r->crc = 0;
    for (int i = 0; i < npieces; i++) {
        r->bytes += pieces[i].bytes;
        r->crc = tpi_crc32(r->crc, pieces[i].data, pieces[i].bytes);
    }
    unsigned char head[ZIP_LOCAL_BYTES], extra[ZIP_EXTRA_BYTES], *p = head;
    size_t extra_bytes = local_extra(w, r, extra);
    p = put32(p, ZIP_LOCAL);
    p = put16(p, is_large(r->bytes) ? 45 : 20);
    p = put16(p, ZIP_UTF8);
    p = put16(p, 0);
    p = put32(p, ZIP_EPOCH);
    p = put32(p, r->crc);
    p = put32(p, small_or_mark(r->bytes));
    p = put32(p, small_or_mark(r->bytes));
    put16(put16(p, (uint16_t)length), (uint16_t)extra_bytes);
    bool ok = tpi_writer_write(&w->out, head, sizeof head) && tpi_writer_write(&w->out, name, length) &&
              tpi_writer_write(&w->out, extra, extra_bytes);
    for (int i = 0; ok && i < npieces; i++) ok = tpi_writer_write(&w->out, pieces[i].data, pieces[i].bytes);
    return ok;
}

static bool write_directory_entry(tpi_zip_writer *w, const record *r) {
    unsigned char head[ZIP_ENTRY_BYTES], extra[28], *p = head, *e = extra + 4;
    if (is_large(r->bytes)) {
        e = put64(e, r->bytes);
        e = put64(e, r->bytes);
    }
    if (is_large(r->at)) e = put64(e, r->at);
    uint16_t extra_bytes = (uint16_t)(e == extra + 4 ? 0 : e - extra);
    put16(put16(extra, ZIP_EXTRA64), (uint16_t)(e - extra - 4));
    size_t length = strlen(r->name), comment = r->comment ? strlen(r->comment) : 0;
    p = put32(p, ZIP_ENTRY);
    p = put16(p, 45);
    p = put16(p, extra_bytes ? 45 : 20);
    p = put16(p, ZIP_UTF8);
    p = put16(p, 0);
    p = put32(p, ZIP_EPOCH);
    p = put32(p, r->crc);
    p = put32(p, small_or_mark(r->bytes));
    p = put32(p, small_or_mark(r->bytes));
    p = put16(p, (uint16_t)length);
    p = put16(p, extra_bytes);
    p = put16(p, (uint16_t)comment);
    p = put16(p, 0);
    p = put16(p, 0);
    p = put32(p, 0);
    p = put32(p, small_or_mark(r->at));
    return tpi_writer_write(&w->out, head, sizeof head) && tpi_writer_write(&w->out, r->name, length) &&
           tpi_writer_write(&w->out, extra, extra_bytes) &&
           (!comment || tpi_writer_write(&w->out, r->comment, comment));
}

static bool write_end(tpi_zip_writer *w) {
    uint64_t start = w->out.at, n = (uint64_t)w->n;
    for (int64_t i = 0; i < w->n; i++)
        if (!write_directory_entry(w, &w->records[i])) return false;
    uint64_t bytes = w->out.at - start, end64 = w->out.at;
    bool many = n >= 0xffff || n >= tpi_zip64_from;
    unsigned char tail[ZIP_END64_BYTES + ZIP_LOCATOR_BYTES + ZIP_END_BYTES], *p = tail;
    if (many || is_large(start) || is_large(bytes)) {
        p = put32(p, ZIP_END64);
        p = put64(p, ZIP_END64_BYTES - 12);
        p = put16(p, 45);
        p = put16(p, 45);
        p = put32(p, 0);
        p = put32(p, 0);
        p = put64(p, n);
        p = put64(p, n);
        p = put64(p, bytes);
        p = put64(p, start);
        p = put32(p, ZIP_LOCATOR);
        p = put32(p, 0);
        p = put64(p, end64);
        p = put32(p, 1);
    }
    p = put32(p, ZIP_END);
    p = put16(p, 0);
    p = put16(p, 0);
    p = put16(p, many ? 0xffff : (uint16_t)n);
    p = put16(p, many ? 0xffff : (uint16_t)n);
    p = put32(p, small_or_mark(bytes));
    p = put32(p, small_or_mark(start));
    p = put16(p, 0);
    return tpi_writer_write(&w->out, tail, (size_t)(p - tail));
}

bool tpi_zip_commit(tpi_zip_writer *w) {
    if (!write_end(w)) {
        tpi_zip_abandon(w);
        return false;
    }
    bool ok = tpi_writer_commit(&w->out);
    writer_free(w);
    return ok;
}
