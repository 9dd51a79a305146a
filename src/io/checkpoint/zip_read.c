/* Reading zip archives that may be damaged or hostile: every length and offset is checked against the file's size
 * before it is used, sizes that no compression could reach are refused, and a member's bytes count only after their
 * checksum agreed. */
#include "io/checkpoint/zip.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/zlib.h"
#include "io/checkpoint/crc.h"
#include "io/checkpoint/zip_format.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFLATE_MOST 1032 /* deflate packs no byte more than this often */

static bool damaged(const tpi_zip *z, const char *what) {
    return tpi_refuse(TP_ERR_IO, "'%s' is not a valid zip archive: %s", z->source.path, what);
}

static bool read_at(const tpi_zip *z, uint64_t at, void *out, size_t bytes) {
    return tpi_source_read(&z->source, at, out, bytes);
}

/* ---- The directory ---- */

typedef struct directory {
    uint64_t at, bytes, n;
} directory;

static bool read_end64(const tpi_zip *z, uint64_t end, directory *d) {
    unsigned char locator[ZIP_LOCATOR_BYTES], record[ZIP_END64_BYTES];
    if (end < ZIP_LOCATOR_BYTES) return true; /* no room for one: the plain record counts */
    if (!read_at(z, end - ZIP_LOCATOR_BYTES, locator, sizeof locator)) return false;
    if (get32(locator) != ZIP_LOCATOR) return true;
    if (!read_at(z, get64(locator + 8), record, sizeof record)) return false;
    if (get32(record) != ZIP_END64) return damaged(z, "its zip64 record is not where it should be");
    *d = (directory){get64(record + 48), get64(record + 40), get64(record + 32)};
    return true;
}

/* The end record is the last thing in the file, but for a comment of up to 64 KiB. */
static bool find_directory(const tpi_zip *z, directory *d) {
    if (z->source.bytes < ZIP_END_BYTES) return damaged(z, "it is too short");
    size_t size = z->source.bytes < 0xffff + ZIP_END_BYTES ? (size_t)z->source.bytes : 0xffff + ZIP_END_BYTES;
    unsigned char *tail = tpi_malloc(size);
    if (!tail) return false;
    uint64_t start = z->source.bytes - size;
    bool ok = read_at(z, start, tail, size), found = false;
    for (size_t i = size - ZIP_END_BYTES + 1; ok && i-- > 0;) {
        if (get32(tail + i) != ZIP_END || (size_t)get16(tail + i + 20) != size - i - ZIP_END_BYTES) continue;
        *d = (directory){get32(tail + i + 16), get32(tail + i + 12), get16(tail + i + 10)};
        ok = read_end64(z, start + i, d);
        found = true;
        break;
    }
    tpi_mfree(tail);
    if (ok && !found) return damaged(z, "no zip directory at its end");
    if (!ok) return false;
    if (d->at > z->source.bytes || d->bytes > z->source.bytes - d->at || d->n > d->bytes / ZIP_ENTRY_BYTES)
        return damaged(z, "its directory does not fit into it");
    return true;
}

/* 64-bit values stand in the extra field, in order, for those fields that hold the mark. */
static bool read_extra64(const tpi_zip *z, const unsigned char *extra, size_t bytes, uint64_t *fields[3]) {
    while (bytes >= 4) {
        size_t part = get16(extra + 2);
        if (part > bytes - 4) return damaged(z, "an extra field is cut off");
        if (get16(extra) == ZIP_EXTRA64) {
            const unsigned char *p = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*fields[i] != 0xffffffffu) continue;
                if ((size_t)(extra + 4 + part - p) < 8) return damaged(z, "a zip64 field is cut off");
                *fields[i] = get64(p);
                p += 8;
            }
            return true;
        }
        extra += 4 + part;
        bytes -= 4 + part;
    }
    return true;
}

/* Checks the local header and finds where the bytes start. */
static bool locate(const tpi_zip *z, tpi_zip_member *m, uint64_t local) {
    unsigned char head[ZIP_LOCAL_BYTES];
    if (!read_at(z, local, head, sizeof head)) return false;
    if (get32(head) != ZIP_LOCAL) return damaged(z, "a member is not where its directory says");
    if (get16(head + 8) != m->method) return damaged(z, "a member's header and the directory disagree");
    m->local = local;
    m->at = local + ZIP_LOCAL_BYTES + get16(head + 26) + get16(head + 28);
    if (m->at > z->source.bytes || m->packed > z->source.bytes - m->at)
        return damaged(z, "a member reaches beyond its end");
    if (m->method == 0 && m->packed != m->bytes) return damaged(z, "a stored member has two sizes");
    if (m->method == 8 && m->bytes / DEFLATE_MOST > m->packed)
        return damaged(z, "a member claims a size it cannot have");
    return true;
}

/* texts: room for the name and the comment, ended by zeros; returns the bytes of the entry, 0 and an error on failure.
 */
static size_t read_entry(const tpi_zip *z, const unsigned char *p, size_t left, tpi_zip_member *m, char **texts) {
    if (left < ZIP_ENTRY_BYTES || get32(p) != ZIP_ENTRY) return damaged(z, "a directory entry is damaged");
    size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32),
           all = ZIP_ENTRY_BYTES + name + extra + comment;
    if (all > left) return damaged(z, "a directory entry is cut off");
    if (memchr(p + ZIP_ENTRY_BYTES, 0, name)) return damaged(z, "a member's name holds a zero byte");
    m->name = *texts;
    m->comment = *texts + name + 1;
    memcpy(m->name, p + ZIP_ENTRY_BYTES, name);
    m->name[name] = 0;
    memcpy(m->name + name + 1, p + ZIP_ENTRY_BYTES + name + extra, comment);
    m->name[name + 1 + comment] = 0;
    *texts += name + comment + 2;
    if (get16(p + 8) & ZIP_ENCRYPTED) return damaged(z, "it is encrypted");
    m->method = get16(p + 10);
    m->crc = get32(p + 16);
    m->packed = get32(p + 20);
    m->bytes = get32(p + 24);
    uint64_t local = get32(p + 42), *fields[3] = {&m->bytes, &m->packed, &local};
    if (m->method != 0 && m->method != 8)
        return tpi_refuse(TP_ERR_MISSING, "'%s': member '%s' is packed with method %d, expected stored or deflate",
                          z->source.path, m->name, m->method);
    if (!read_extra64(z, p + ZIP_ENTRY_BYTES + name, extra, fields) || !locate(z, m, local)) return 0;
    return all;
}

static bool read_directory(tpi_zip *z) {
    directory d;
    if (!find_directory(z, &d)) return false;
    if (d.n == 0) return true;
    unsigned char *bytes = tpi_malloc((size_t)d.bytes);
    z->members = tpi_malloc((size_t)d.n * sizeof *z->members);
    z->texts = tpi_malloc((size_t)(d.bytes + 2 * d.n));
    bool ok = bytes && z->members && z->texts && read_at(z, d.at, bytes, (size_t)d.bytes);
    size_t at = 0;
    char *texts = z->texts;
    for (uint64_t i = 0; ok && i < d.n; i++) {
        size_t n = read_entry(z, bytes + at, (size_t)d.bytes - at, &z->members[i], &texts);
        ok = n > 0;
        at += n;
        z->n += ok;
    }
    tpi_mfree(bytes);
    return ok;
}

static int by_offset(const void *a, const void *b) {
    const tpi_zip_member *x = *(tpi_zip_member *const *)a, *y = *(tpi_zip_member *const *)b;
    return x->local < y->local ? -1 : x->local > y->local;
}

/* Members that share bytes make archives that unpack to far more than they hold. */
static bool check_overlaps(const tpi_zip *z) {
    tpi_zip_member **sorted = tpi_malloc((size_t)z->n * sizeof *sorted + 1);
    if (!sorted) return false;
    for (int64_t i = 0; i < z->n; i++) sorted[i] = &z->members[i];
    qsort(sorted, (size_t)z->n, sizeof *sorted, by_offset);
    bool ok = true;
    for (int64_t i = 1; ok && i < z->n; i++)
        ok = sorted[i]->local >= sorted[i - 1]->at + sorted[i - 1]->packed || damaged(z, "two members share bytes");
    tpi_mfree(sorted);
    return ok;
}

bool tpi_zip_open(tpi_zip *z, tpi_source source) {
    *z = (tpi_zip){.source = source};
    if (read_directory(z) && check_overlaps(z)) return true;
    tpi_zip_close(z);
    return false;
}

void tpi_zip_close(tpi_zip *z) {
    tpi_mfree(z->members);
    tpi_mfree(z->texts);
    tpi_source_close(&z->source);
    *z = (tpi_zip){.source = {.fd = -1}};
}

/* ---- A member's bytes ---- */

enum {
    BUFFER_BYTES = 1 << 16,
    PART_BYTES = 1 << 20, /* small enough that the checksum finds it in the cache */
    PARTS = 64,           /* that threads read side by side */
};

struct tpi_zip_stream {
    const tpi_zip *z;
    const tpi_zip_member *m;
    uint64_t read;  /* packed bytes taken from the file */
    uint64_t given; /* uncompressed bytes handed out */
    uint32_t crc;
    bool inflating;
    z_stream inflate;
    unsigned char buffer[BUFFER_BYTES]; /* packed bytes, when inflating */
};

static void *zlib_alloc(void *context, unsigned n, unsigned size) {
    (void)context;
    return tpi_malloc((size_t)n * size);
}
static void zlib_free(void *context, void *block) {
    (void)context;
    tpi_mfree(block);
}

tpi_zip_stream *tpi_zip_begin(const tpi_zip *z, const tpi_zip_member *m) {
    tpi_zip_stream *s = tpi_new(sizeof *s);
    if (!s) return NULL;
    s->z = z;
    s->m = m;
    s->read = s->given = 0;
    s->crc = 0;
    s->inflating = m->method == 8;
    if (!s->inflating) return s;
    if (!TPI_ZLIB) {
        tpi_fail(TP_ERR_MISSING, "'%s': member '%s' is packed: " TPI_NO_ZLIB, z->source.path, m->name);
        s->inflating = false;
        tpi_zip_stop(s);
        return NULL;
    }
    s->inflate = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free};
    if (inflateInit2(&s->inflate, -MAX_WBITS) == Z_OK) return s;
    s->inflating = false;
    tpi_zip_stop(s);
    return tpi_fail(TP_ERR_MEMORY, "out of memory while opening a packed member of '%s'", z->source.path);
}

static bool refill(tpi_zip_stream *s) {
    uint64_t left = s->m->packed - s->read;
    size_t part = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
    if (!read_at(s->z, s->m->at + s->read, s->buffer, part)) return false;
    s->read += part;
    s->inflate.next_in = s->buffer;
    s->inflate.avail_in = (unsigned)part;
    return true;
}

/* bytes: at most what fits an int. */
static bool inflate_into(tpi_zip_stream *s, unsigned char *out, size_t bytes) {
    while (bytes) {
        if (s->inflate.avail_in == 0 && !refill(s)) return false;
        unsigned part = (unsigned)bytes;
        s->inflate.next_out = out;
        s->inflate.avail_out = part;
        int code = inflate(&s->inflate, Z_NO_FLUSH);
        size_t made = part - s->inflate.avail_out;
        out += made;
        bytes -= made;
        if (code == Z_MEM_ERROR)
            return tpi_refuse(TP_ERR_MEMORY, "out of memory while unpacking '%s'", s->z->source.path);
        if (bytes && (code != Z_OK || (made == 0 && s->inflate.avail_in == 0 && s->read == s->m->packed)))
            return damaged(s->z, "a packed member cannot be unpacked");
    }
    return true;
}

/* A stored member's next parts, each read and summed by one thread. */
typedef struct side_by_side {
    const tpi_zip_stream *s;
    unsigned char *out;
    atomic_bool failed;
    uint32_t crc[PARTS];
} side_by_side;

static void read_part(int64_t k, void *context) {
    side_by_side *job = context;
    unsigned char *out = job->out + k * PART_BYTES;
    if (!tpi_source_try(&job->s->z->source, job->s->m->at + job->s->given + (uint64_t)k * PART_BYTES, out, PART_BYTES))
        job->failed = true;
    else
        job->crc[k] = tpi_crc32(0, out, PART_BYTES);
}

/* How many bytes were read so; what could not be is read again by one thread, which tells why. */
static size_t read_side_by_side(tpi_zip_stream *s, unsigned char *out, size_t bytes) {
    size_t parts = s->inflating ? 0 : bytes / PART_BYTES;
    if (parts > PARTS) parts = PARTS;
    side_by_side job = {.s = s, .out = out};
    if (parts < 2) return 0;
    tpi_parallel_for((int64_t)parts, true, read_part, &job);
    if (job.failed) return 0;
    for (size_t k = 0; k < parts; k++) s->crc = tpi_crc32_joined(s->crc, job.crc[k], PART_BYTES);
    return parts * PART_BYTES;
}

bool tpi_zip_read(tpi_zip_stream *s, void *out, size_t bytes) {
    if (bytes > s->m->bytes - s->given) return damaged(s->z, "a member is shorter than it says");
    for (unsigned char *p = out; bytes;) {
        size_t part = read_side_by_side(s, p, bytes);
        if (!part) {
            part = bytes < PART_BYTES ? bytes : PART_BYTES;
            bool ok = s->inflating ? inflate_into(s, p, part) : read_at(s->z, s->m->at + s->given, p, part);
            if (!ok) return false;
            s->crc = tpi_crc32(s->crc, p, part);
        }
        s->given += part;
        p += part;
        bytes -= part;
    }
    return true;
}

bool tpi_zip_end(tpi_zip_stream *s) {
    bool ok = true;
    if (s->given != s->m->bytes)
        ok = damaged(s->z, "a member is longer than it says");
    else if (s->crc != s->m->crc)
        ok = tpi_refuse(TP_ERR_IO, "'%s': member '%s' is damaged: its checksum is %08x, expected %08x",
                        s->z->source.path, s->m->name, s->crc, s->m->crc);
    tpi_zip_stop(s);
    return ok;
}

void tpi_zip_stop(tpi_zip_stream *s) {
    if (!s) return;
    if (s->inflating) inflateEnd(&s->inflate);
    tpi_delete(s, sizeof *s);
}
