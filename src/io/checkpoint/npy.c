/* NumPy's array headers. Written as NumPy writes them; read by a small parser of just the Python that may stand in one:
 * a dict of a string, a truth value and a tuple of integers, in any order and spacing. */
#include "io/checkpoint/npy.h"
#include "base/dtype.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

/* NumPy has no bfloat16: like ml_dtypes, it is written as raw elements of two bytes. */
static const char *const descr_of[TP_DTYPE_COUNT] = {
    [TP_BOOL] = "|b1",      [TP_UINT8] = "|u1",       [TP_INT8] = "|i1",     [TP_INT16] = "<i2",   [TP_INT32] = "<i4",
    [TP_INT64] = "<i8",     [TP_FLOAT16] = "<f2",     [TP_BFLOAT16] = "<V2", [TP_FLOAT32] = "<f4", [TP_FLOAT64] = "<f8",
    [TP_COMPLEX64] = "<c8", [TP_COMPLEX128] = "<c16", [TP_UINT16] = "<u2",   [TP_UINT32] = "<u4",  [TP_UINT64] = "<u8",
};

bool tpi_npy_has(tp_dtype dtype, const char *name) {
    return descr_of[dtype] ||
           tpi_refuse(TP_ERR_MISSING, "array '%s': NumPy has no type for %s", name, tp_dtype_name(dtype));
}

size_t tpi_npy_write(char out[TPI_NPY_HEADER_BYTES], tp_dtype dtype, tp_ints shape) {
    enum { PREFIX = 10 }; /* magic, version 1.0, 16-bit length */
    size_t n = PREFIX;
    n += (size_t)snprintf(out + n, TPI_NPY_HEADER_BYTES - n, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                          descr_of[dtype]);
    for (int64_t i = 0; i < shape.n; i++)
        n += (size_t)snprintf(out + n, TPI_NPY_HEADER_BYTES - n, i ? ", %lld" : "%lld", (long long)shape.v[i]);
    n += (size_t)snprintf(out + n, TPI_NPY_HEADER_BYTES - n, shape.n == 1 ? ",), }" : "), }");
    size_t all = (n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', all - n);
    out[all - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((all - PREFIX) & 0xff);
    out[9] = (char)((all - PREFIX) >> 8);
    return all;
}

/* ---- Reading ---- */

typedef struct parser {
    const char *p, *end;
    const char *name;
} parser;

static bool unreadable(const parser *s, const char *what) {
    return tpi_refuse(TP_ERR_IO, "array '%s': its header is not readable: %s", s->name, what);
}

static char peek(parser *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) s->p++;
    return s->p < s->end ? *s->p : 0;
}

static bool accept(parser *s, char c) {
    if (peek(s) != c || s->p == s->end) return false;
    s->p++;
    return true;
}

static bool word(parser *s, const char *text) {
    size_t n = strlen(text);
    peek(s);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, text, n) != 0) return false;
    s->p += n;
    return true;
}

static bool string(parser *s, char *out, size_t capacity) {
    char quote = peek(s);
    if (quote != '\'' && quote != '"') return unreadable(s, "expected a string (structured arrays are not supported)");
    size_t n = 0;
    for (s->p++; s->p < s->end && *s->p != quote; s->p++) {
        if (n + 1 == capacity) return unreadable(s, "a string is too long");
        out[n++] = *s->p;
    }
    if (s->p == s->end) return unreadable(s, "a string does not end");
    s->p++;
    out[n] = 0;
    return true;
}

static bool integer(parser *s, int64_t *out) {
    int64_t v = 0;
    char c = peek(s);
    if (c < '0' || c > '9') return unreadable(s, "expected a size");
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
            return unreadable(s, "a size is too large");
    accept(s, 'L'); /* as Python 2 wrote long integers */
    *out = v;
    return true;
}

static bool tuple(parser *s, tpi_npy *h) {
    if (!accept(s, '(')) return unreadable(s, "expected a tuple of sizes");
    for (h->ndim = 0; !accept(s, ')'); h->ndim++) {
        if (h->ndim == TP_MAX_DIMS) return unreadable(s, "more than 32 dimensions");
        if (!integer(s, &h->shape[h->ndim])) return false;
        if (!accept(s, ',') && peek(s) != ')') return unreadable(s, "expected a comma between sizes");
    }
    return true;
}

static bool read_descr(const parser *s, tpi_npy *h, const char *descr, bool is_bfloat16) {
    char order = descr[0];
    if (is_bfloat16 && strcmp(descr + (order != 0), "V2") == 0) {
        h->dtype = TP_BFLOAT16;
        return true;
    }
    for (int i = 1; i < TP_DTYPE_COUNT; i++) {
        const char *ours = descr_of[i];
        if (!ours || strcmp(descr + (order != 0), ours + 1) != 0) continue;
        bool bytes = ours[0] == '|';
        if (i == TP_BFLOAT16 ? order != '<' : !strchr("<>=|", order) || (!bytes && order == '|')) continue;
        h->dtype = (tp_dtype)i;
        h->swapped = !bytes && order == '>';
        return true;
    }
    return tpi_refuse(TP_ERR_MISSING, "array '%s': no dtype for NumPy's '%s'", s->name, descr);
}

bool tpi_npy_parse(tpi_npy *h, const char *text, size_t n, bool is_bfloat16, const char *name) {
    parser s = {text, text + n, name};
    *h = (tpi_npy){.dtype = TP_NO_DTYPE};
    bool order = false, shape = false;
    if (!accept(&s, '{')) return unreadable(&s, "expected a dict");
    while (!accept(&s, '}')) {
        char key[32], descr[32];
        if (!string(&s, key, sizeof key)) return false;
        if (!accept(&s, ':')) return unreadable(&s, "expected a colon");
        if (strcmp(key, "descr") == 0) {
            if (!string(&s, descr, sizeof descr) || !read_descr(&s, h, descr, is_bfloat16)) return false;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = word(&s, "True");
            if (!h->fortran && !word(&s, "False")) return unreadable(&s, "expected True or False");
            order = true;
        } else if (strcmp(key, "shape") == 0) {
            if (!tuple(&s, h)) return false;
            shape = true;
        } else {
            return unreadable(&s, "an unknown key");
        }
        if (!accept(&s, ',') && peek(&s) != '}') return unreadable(&s, "expected a comma");
    }
    return (h->dtype && order && shape) || unreadable(&s, "a key is missing");
}
