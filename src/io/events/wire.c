/* Protocol buffers on the wire (src/io/events/wire.h). Numbers are put together byte by byte, so the machine's byte
 * order does not matter. */
#include "io/events/wire.h"
#include "base/memory.h"
#include <string.h>

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 };
#define MAX_VARINT 10

/* ---- Writing ---- */

void tpi_wire_free(tpi_wire *w) {
    tpi_mfree(w->data);
    *w = (tpi_wire){0};
}

static bool reserve(tpi_wire *w, size_t more) {
    if (w->failed) return false;
    if (more <= w->capacity - w->n) return true;
    size_t capacity = w->capacity ? 2 * w->capacity : 128;
    while (capacity - w->n < more && capacity < SIZE_MAX / 2) capacity *= 2;
    unsigned char *larger = capacity - w->n >= more ? tpi_realloc(w->data, capacity) : NULL;
    if (!larger) {
        w->failed = true;
        return false;
    }
    w->data = larger;
    w->capacity = capacity;
    return true;
}

void *tpi_wire_reserve(tpi_wire *w, size_t bytes) {
    if (!reserve(w, bytes)) return NULL;
    w->n += bytes;
    return w->data + w->n - bytes;
}

void tpi_wire_raw(tpi_wire *w, const void *data, size_t bytes) {
    void *to = tpi_wire_reserve(w, bytes);
    if (to && bytes) memcpy(to, data, bytes);
}

static size_t put_varint(unsigned char out[MAX_VARINT], uint64_t v) {
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) out[n++] = (unsigned char)(v | 0x80);
    out[n++] = (unsigned char)v;
    return n;
}

void tpi_wire_varint(tpi_wire *w, uint64_t v) {
    unsigned char bytes[MAX_VARINT];
    tpi_wire_raw(w, bytes, put_varint(bytes, v));
}

static void head(tpi_wire *w, int field, int type) { tpi_wire_varint(w, (uint64_t)field << 3 | (uint64_t)type); }

static void little(unsigned char *out, uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; i++) out[i] = (unsigned char)(bits >> 8 * i);
}
static void little_double(unsigned char *out, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    little(out, bits, 8);
}
static void little_float(unsigned char *out, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    little(out, bits, 4);
}

void tpi_wire_int(tpi_wire *w, int field, int64_t v) {
    head(w, field, VARINT);
    tpi_wire_varint(w, (uint64_t)v);
}
void tpi_wire_double(tpi_wire *w, int field, double v) {
    unsigned char bytes[8];
    little_double(bytes, v);
    head(w, field, EIGHT);
    tpi_wire_raw(w, bytes, sizeof bytes);
}
void tpi_wire_float(tpi_wire *w, int field, float v) {
    unsigned char bytes[4];
    little_float(bytes, v);
    head(w, field, FOUR);
    tpi_wire_raw(w, bytes, sizeof bytes);
}
void tpi_wire_bytes(tpi_wire *w, int field, const void *data, size_t bytes) {
    head(w, field, BYTES);
    tpi_wire_varint(w, bytes);
    tpi_wire_raw(w, data, bytes);
}
void tpi_wire_text(tpi_wire *w, int field, const char *text) {
    if (text && *text) tpi_wire_bytes(w, field, text, strlen(text));
}
void tpi_wire_doubles(tpi_wire *w, int field, const double *v, size_t n) {
    head(w, field, BYTES);
    tpi_wire_varint(w, 8 * n);
    unsigned char *out = tpi_wire_reserve(w, 8 * n);
    for (size_t i = 0; out && i < n; i++) little_double(out + 8 * i, v[i]);
}
void tpi_wire_floats(tpi_wire *w, int field, const float *v, size_t n) {
    head(w, field, BYTES);
    tpi_wire_varint(w, 4 * n);
    unsigned char *out = tpi_wire_reserve(w, 4 * n);
    for (size_t i = 0; out && i < n; i++) little_float(out + 4 * i, v[i]);
}

size_t tpi_wire_open(tpi_wire *w, int field) {
    head(w, field, BYTES);
    return w->n;
}
void tpi_wire_close(tpi_wire *w, size_t opened) { /* the length goes in front of what was written: that moves up */
    if (w->failed) return;
    unsigned char length[MAX_VARINT];
    size_t bytes = w->n - opened, n = put_varint(length, bytes);
    if (!tpi_wire_reserve(w, n)) return;
    memmove(w->data + opened + n, w->data + opened, bytes);
    memcpy(w->data + opened, length, n);
}

/* ---- Reading ---- */

static bool read_varint(const unsigned char *data, size_t bytes, size_t *at, uint64_t *v) {
    *v = 0;
    for (int i = 0; i < MAX_VARINT && *at < bytes; i++) {
        unsigned char b = data[(*at)++];
        *v |= (uint64_t)(b & 0x7f) << 7 * i;
        if (!(b & 0x80)) return true;
    }
    return false;
}

static bool read_little(const unsigned char *data, size_t bytes, size_t *at, size_t n, uint64_t *v) {
    if (bytes - *at < n) return false;
    *v = 0;
    for (size_t i = 0; i < n; i++) *v |= (uint64_t)data[*at + i] << 8 * i;
    *at += n;
    return true;
}

bool tpi_wire_next(const unsigned char *data, size_t bytes, size_t *at, tpi_field *field) {
    uint64_t key, length;
    size_t p = *at;
    if (p >= bytes || !read_varint(data, bytes, &p, &key) || key >> 3 == 0 || key >> 3 > INT32_MAX) return false;
    *field = (tpi_field){.number = (int)(key >> 3), .type = (int)(key & 7)};
    switch (field->type) {
    case VARINT:
        if (!read_varint(data, bytes, &p, &field->bits)) return false;
        break;
    case EIGHT:
        if (!read_little(data, bytes, &p, 8, &field->bits)) return false;
        break;
    case FOUR:
        if (!read_little(data, bytes, &p, 4, &field->bits)) return false;
        break;
    case BYTES:
        if (!read_varint(data, bytes, &p, &length) || length > bytes - p) return false;
        field->data = data + p;
        field->bytes = (size_t)length;
        p += (size_t)length;
        break;
    default: return false;
    }
    *at = p;
    return true;
}

double tpi_field_double(const tpi_field *f) {
    if (f->type == FOUR) {
        float v;
        uint32_t bits = (uint32_t)f->bits;
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    double v;
    memcpy(&v, &f->bits, sizeof v);
    return v;
}
