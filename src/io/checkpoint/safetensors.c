/* safetensors: eight bytes that say how long the header is, the header in JSON ({"name": {"dtype": "F32", "shape": [2,
 * 3], "data_offsets": [0, 24]}, ...}), then the tensors' bytes. The format has no checksums; ours stand in the header's
 * metadata, where other readers pass them by. */
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/crc.h"
#include "io/checkpoint/formats.h"
#include "io/checkpoint/json.h"
#include "io/file_writer.h"
#include "io/events/wire.h"
#include "io/checkpoint/zip_format.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const word_of[TP_DTYPE_COUNT] = {
    [TP_BOOL] = "BOOL",
    [TP_UINT8] = "U8",
    [TP_INT8] = "I8",
    [TP_INT16] = "I16",
    [TP_INT32] = "I32",
    [TP_INT64] = "I64",
    [TP_FLOAT16] = "F16",
    [TP_BFLOAT16] = "BF16",
    [TP_FLOAT32] = "F32",
    [TP_FLOAT64] = "F64",
    [TP_COMPLEX64] = "C64",
    [TP_UINT16] = "U16",
    [TP_UINT32] = "U32",
    [TP_UINT64] = "U64",
    [TP_FLOAT8_E4M3FN] = "F8_E4M3",
    [TP_FLOAT8_E5M2] = "F8_E5M2",
    [TP_FLOAT8_E8M0FNU] = "F8_E8M0",
    [TP_FLOAT8_E4M3FNUZ] = "F8_E4M3FNUZ",
    [TP_FLOAT8_E5M2FNUZ] = "F8_E5M2FNUZ",
    [TP_FLOAT4_E2M1FN_X2] = "F4",
};
static const char crc_key[] = "taper.crc32:"; /* followed by the tensor's name */
enum { LONGEST_HEADER = 100000000 };          /* as the format's other readers allow */

/* ---- Writing ---- */

static void add_text(tpi_wire *t, const char *s) { tpi_wire_raw(t, s, strlen(s)); }
static void add_number(tpi_wire *t, long long v) {
    char digits[24];
    tpi_wire_raw(t, digits, (size_t)snprintf(digits, sizeof digits, "%lld", v));
}
static void add_string(tpi_wire *t, const char *before, const char *s) {
    add_text(t, "\"");
    add_text(t, before);
    for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
        char code[8];
        if (*p == '"' || *p == '\\') tpi_wire_raw(t, "\\", 1);
        if (*p < 0x20)
            tpi_wire_raw(t, code, (size_t)snprintf(code, sizeof code, "\\u%04x", *p));
        else
            tpi_wire_raw(t, p, 1);
    }
    add_text(t, "\"");
}

typedef struct entry {
    const char *name;
    tp_tensor *here; /* contiguous on the CPU, owned */
    uint32_t crc;
} entry;

static size_t bytes_of(const entry *e) { return (size_t)e->here->numel * tpi_itemsize(e->here); }

/* Larger elements first, so that all are aligned; then by name. */
static int by_alignment(const void *a, const void *b) {
    const entry *x = a, *y = b;
    size_t i = tpi_itemsize(x->here), k = tpi_itemsize(y->here);
    return i != k ? (i < k) - (i > k) : strcmp(x->name, y->name);
}

static void write_header(tpi_wire *t, int64_t n, const entry *entries) {
    add_text(t, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int64_t i = 0; i < n; i++) {
        char crc[12];
        snprintf(crc, sizeof crc, "%08x", entries[i].crc);
        add_text(t, ",");
        add_string(t, crc_key, entries[i].name);
        add_text(t, ":");
        add_string(t, "", crc);
    }
    add_text(t, "}");
    size_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const tp_tensor *h = entries[i].here;
        add_text(t, ",");
        add_string(t, "", entries[i].name);
        add_text(t, ":{\"dtype\":");
        add_string(t, "", word_of[h->dtype]);
        add_text(t, ",\"shape\":[");
        for (int k = 0; k < h->ndim; k++) {
            add_text(t, k ? "," : "");
            add_number(t, h->shape[k]);
        }
        add_text(t, "],\"data_offsets\":[");
        add_number(t, (long long)at);
        add_text(t, ",");
        at += bytes_of(&entries[i]);
        add_number(t, (long long)at);
        add_text(t, "]}");
    }
    add_text(t, "}");
    while (!t->failed && (t->n + 8) % TPI_ALIGN) add_text(t, " ");
}

static bool write_all(const char *path, int64_t n, const entry *entries, const tpi_wire *header) {
    tpi_file_writer out;
    unsigned char length[8];
    if (!tpi_writer_open(&out, path)) return false;
    put64(length, header->n);
    bool ok = tpi_writer_write(&out, length, sizeof length) && tpi_writer_write(&out, header->data, header->n);
    for (int64_t i = 0; ok && i < n; i++) ok = tpi_writer_write(&out, entries[i].here->data, bytes_of(&entries[i]));
    if (ok) return tpi_writer_commit(&out);
    tpi_writer_abandon(&out);
    return false;
}

bool tpi_safetensors_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    entry *entries = tpi_malloc((size_t)n * sizeof *entries + 1);
    tpi_wire header = {0};
    bool ok = entries != NULL;
    int64_t have = 0;
    for (; ok && have < n; have += ok) {
        ok = word_of[tensors[have]->dtype] != NULL;
        if (!ok)
            tpi_fail(TP_ERR_MISSING, "tensor '%s': safetensors has no dtype for %s", names[have],
                     tp_dtype_name((tp_dtype)tensors[have]->dtype));
        if (ok) entries[have] = (entry){names[have], tpi_on_host(tensors[have]), 0};
        ok = ok && entries[have].here;
        if (ok) entries[have].crc = tpi_crc32(0, entries[have].here->data, bytes_of(&entries[have]));
    }
    if (ok) {
        qsort(entries, (size_t)n, sizeof *entries, by_alignment);
        write_header(&header, n, entries);
        ok = !header.failed && write_all(path, n, entries, &header);
    }
    for (int64_t i = 0; i < have; i++) tp_release(entries[i].here);
    tpi_wire_free(&header);
    tpi_mfree(entries);
    return ok;
}

/* ---- Reading ---- */

typedef struct parser {
    tpi_json json;
    tp_file *file;
    uint64_t data, data_bytes; /* where the tensors' bytes start, and how many there are */
    tp_saved *dict, *metadata;
} parser;

static bool refuse(const parser *s, const char *what) { return tpi_json_refuse(&s->json, what); }
static bool accept(parser *s, char c) { return tpi_json_accept(&s->json, c); }
static tp_saved *string(parser *s) { return tpi_json_string(&s->json); }

static bool numbers(parser *s, int64_t *out, int capacity, int *n) {
    const tp_saved *list = tpi_json_value(&s->json);
    if (!list) return false;
    if (list->kind != TP_SAVED_LIST) return refuse(s, "expected a list of numbers");
    if (list->n > capacity) return refuse(s, "a list of numbers is too long");
    for (*n = 0; *n < list->n; (*n)++) {
        const tp_saved *number = list->as.items.v[*n];
        if (!tpi_is_int(number) || number->as.number.as.i < 0) return refuse(s, "expected a number of 0 or more");
        out[*n] = number->as.number.as.i;
    }
    return true;
}

static tp_dtype dtype_of(const char *word) {
    for (int i = 1; i < TP_DTYPE_COUNT; i++)
        if (word_of[i] && strcmp(word, word_of[i]) == 0) return (tp_dtype)i;
    return TP_NO_DTYPE;
}

static bool read_tensor(parser *s, tp_saved *name) {
    int64_t shape[TP_MAX_DIMS], offsets[2] = {0};
    int ndim = -1, noffsets = 0;
    tp_saved *dtype = NULL;
    if (!accept(s, '{')) return refuse(s, "expected what a tensor is");
    for (bool first = true; !accept(s, '}'); first = false) {
        if (!first && !accept(s, ',')) return refuse(s, "expected a comma");
        tp_saved *key = string(s);
        if (!key) return false;
        if (!accept(s, ':')) return refuse(s, "expected a colon");
        if (tpi_is_text(key, "dtype")) dtype = string(s);
        bool ok = tpi_is_text(key, "dtype")          ? dtype != NULL
                  : tpi_is_text(key, "shape")        ? numbers(s, shape, TP_MAX_DIMS, &ndim)
                  : tpi_is_text(key, "data_offsets") ? numbers(s, offsets, 2, &noffsets)
                                                     : refuse(s, "an unknown key");
        if (!ok) return false;
    }
    if (!dtype || ndim < 0 || noffsets != 2) return refuse(s, "a key is missing");
    if (offsets[0] > offsets[1] || (uint64_t)offsets[1] > s->data_bytes)
        return refuse(s, "a tensor reaches beyond its end");
    tpi_store *store = tpi_arena_new(&s->file->arena, sizeof *store);
    if (!store) return false;
    if (tpi_file_store(s->file, name->as.text)) return refuse(s, "two tensors have one name");
    *store = (tpi_store){.key = name->as.text,
                         .dtype = dtype_of(dtype->as.text),
                         .dtype_name = dtype->as.text,
                         .at = s->data + (uint64_t)offsets[0]};
    tp_saved *t = tpi_file_array(s->file, store, tp_ints_view(shape, ndim), false);
    if (!t) return false;
    if (store->dtype && store->bytes != offsets[1] - offsets[0])
        return refuse(s, "a tensor has more or fewer bytes than its shape says");
    store->bytes = offsets[1] - offsets[0];
    return tpi_saved_put(&s->file->arena, s->dict, name, t);
}

static bool read_metadata(parser *s) {
    if (!accept(s, '{')) return refuse(s, "expected metadata");
    for (bool first = true; !accept(s, '}'); first = false) {
        if (!first && !accept(s, ',')) return refuse(s, "expected a comma");
        tp_saved *key = string(s);
        if (!key) return false;
        if (!accept(s, ':')) return refuse(s, "expected a colon");
        tp_saved *value = string(s);
        if (!value || !tpi_saved_put(&s->file->arena, s->metadata, key, value)) return false;
    }
    return true;
}

static int by_offset(const void *a, const void *b) {
    const tpi_store *x = *(tpi_store *const *)a, *y = *(tpi_store *const *)b;
    return x->at < y->at ? -1 : x->at > y->at ? 1 : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* No two tensors may share bytes, and none may be left over. */
static bool check_offsets(const parser *s) {
    tp_file *f = s->file;
    tpi_store **sorted = tpi_malloc((size_t)f->nstores * sizeof *sorted + 1);
    if (!sorted) return false;
    int64_t n = 0;
    for (int64_t i = 0; i < f->stores_capacity; i++)
        if (f->stores[i]) sorted[n++] = f->stores[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_offset);
    uint64_t at = s->data;
    bool ok = true;
    for (int64_t i = 0; ok && i < n; i++) {
        ok = sorted[i]->at == at || refuse(s, "tensors share bytes or leave a gap");
        at = sorted[i]->at + (uint64_t)sorted[i]->bytes;
    }
    tpi_mfree(sorted);
    return ok && (at == s->data + s->data_bytes || refuse(s, "it is longer than its tensors"));
}

static void read_checksums(parser *s) {
    size_t n = sizeof crc_key - 1;
    for (int64_t i = 0; i < s->metadata->n; i++) {
        const tp_saved *key = s->metadata->as.items.v[2 * i], *value = s->metadata->as.items.v[2 * i + 1];
        tpi_store *store = strncmp(key->as.text, crc_key, n) == 0 ? tpi_file_store(s->file, key->as.text + n) : NULL;
        if (!store || value->n != 8) continue;
        store->crc = (uint32_t)strtoul(value->as.text, NULL, 16);
        store->has_crc = true;
    }
}

static bool read_entries(parser *s) {
    if (!accept(s, '{')) return refuse(s, "expected a dict");
    for (bool first = true; !accept(s, '}'); first = false) {
        if (!first && !accept(s, ',')) return refuse(s, "expected a comma");
        tp_saved *name = string(s);
        if (!name) return false;
        if (!accept(s, ':')) return refuse(s, "expected a colon");
        if (tpi_is_text(name, "__metadata__") ? !read_metadata(s) : !read_tensor(s, name)) return false;
    }
    if (tpi_json_peek(&s->json) || s->json.p != s->json.end) return refuse(s, "its header goes on behind its end");
    read_checksums(s);
    return check_offsets(s);
}

bool tpi_safetensors_is(const tpi_source *s) {
    unsigned char head[9];
    return s->bytes >= 10 && tpi_source_read(s, 0, head, sizeof head) && head[8] == '{' && get64(head) >= 2 &&
           get64(head) <= s->bytes - 8;
}

tp_saved *tpi_safetensors_read(tp_file *f) {
    unsigned char head[8];
    if (!tpi_source_read(&f->source, 0, head, sizeof head)) return NULL;
    uint64_t n = get64(head);
    if (n > LONGEST_HEADER || n > f->source.bytes - 8)
        return tpi_fail(TP_ERR_IO, "'%s': its header of %llu bytes is too long", f->source.path, (unsigned long long)n);
    unsigned char *header = tpi_malloc((size_t)n);
    parser s = {.json = {.p = header,
                         .end = header + n,
                         .arena = &f->arena,
                         .path = tpi_file_path(f),
                         .format = "safetensors file"},
                .file = f,
                .data = 8 + n,
                .data_bytes = f->source.bytes - 8 - n,
                .dict = tpi_saved_new(&f->arena, TP_SAVED_DICT),
                .metadata = tpi_saved_new(&f->arena, TP_SAVED_DICT)};
    bool ok = header && s.dict && s.metadata && tpi_source_read(&f->source, 8, header, (size_t)n) && read_entries(&s);
    tpi_mfree(header);
    if (!ok || s.metadata->n == 0) return ok ? s.dict : NULL;
    if (!tpi_saved_parts(&f->arena, s.dict)) return NULL;
    s.dict->parts->state = s.metadata; /* tp_saved_part_of(value, TP_PART_STATE) */
    return s.dict;
}
