/* PyTorch's zip format: one folder with data.pkl, a member data/KEY per storage, byteorder and version. What its pickle
 * says of a storage must be what its member is. */
#include "base/error.h"
#include "tensor/check_arguments.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include <stdlib.h>

/* ---- Members ---- */

static int by_name(const void *a, const void *b) {
    return strcmp((*(tpi_zip_member *const *)a)->name, (*(tpi_zip_member *const *)b)->name);
}

bool tpi_zip_sort(tp_file *f) {
    const tpi_zip *z = &f->zip;
    f->members = tpi_malloc((size_t)z->n * sizeof *f->members + 1);
    if (!f->members) return false;
    for (int64_t i = 0; i < z->n; i++) f->members[i] = &z->members[i];
    qsort(f->members, (size_t)z->n, sizeof *f->members, by_name);
    for (int64_t i = 1; i < z->n; i++)
        if (strcmp(f->members[i - 1]->name, f->members[i]->name) == 0)
            return tpi_refuse(TP_ERR_IO, "'%s': two members are named '%s'", z->source.path, f->members[i]->name);
    return true;
}

/* The member of that name in the file's folder; NULL: there is none. */
tpi_zip_member *tpi_pt_member(const tp_file *f, const char *folder, const char *name) {
    size_t n = strlen(f->prefix), k = strlen(folder), m = strlen(name);
    char *full = tpi_malloc(n + k + m + 1);
    if (!full) return NULL;
    memcpy(full, f->prefix, n);
    memcpy(full + n, folder, k);
    memcpy(full + n + k, name, m + 1);
    tpi_zip_member wanted = {.name = full}, *p = &wanted,
                   **found = bsearch(&p, f->members, (size_t)f->zip.n, sizeof p, by_name);
    tpi_mfree(full);
    return found ? *found : NULL;
}

/* PyTorch stores members as they are. Packed ones are read too, unless all of them together claim to be far more than
 * the file. */
static bool check_sizes(const tp_file *f) {
    uint64_t packed = 0, bytes = 0;
    for (int64_t i = 0; i < f->zip.n; i++) {
        const tpi_zip_member *m = &f->zip.members[i];
        if (m->method == 0) continue;
        packed += m->packed;
        bytes += m->bytes; /* at most 1032 times the file's size */
    }
    if (bytes < (uint64_t)1 << 28 || bytes / 200 < packed) return true;
    return tpi_refuse(TP_ERR_IO, "'%s': its packed members claim to hold %llu bytes, which is too much for their %llu",
                      f->zip.source.path, (unsigned long long)bytes, (unsigned long long)packed);
}

/* ---- Opening ---- */

static const char pickle_name[] = "/data.pkl";

static const char *pickle_member(const tp_file *f, size_t *prefix) {
    for (int64_t i = 0; i < f->zip.n; i++) {
        const char *name = f->zip.members[i].name;
        size_t n = strlen(name), k = sizeof pickle_name - 1;
        *prefix = n - k + 1;
        if (n > k && strcmp(name + n - k, pickle_name) == 0) return name;
    }
    return NULL;
}

bool tpi_pt_is_zip(const tp_file *f) {
    size_t n;
    return pickle_member(f, &n) != NULL;
}

static bool find_prefix(tp_file *f) {
    size_t n = 0;
    const char *name = pickle_member(f, &n);
    f->prefix = tpi_arena_text(&f->arena, name, n);
    return f->prefix != NULL;
}

static bool read_byteorder(tp_file *f) {
    const tpi_zip_member *m = tpi_pt_member(f, "", "byteorder");
    char text[8] = {0};
    f->swapped = f->options.big_endian;
    if (!m) return true;
    if (m->bytes > 6 || !tpi_file_read_member(f, m, text))
        return tpi_refuse(TP_ERR_IO, "'%s': its byte order is not readable", f->zip.source.path);
    f->swapped = strcmp(text, "big") == 0;
    return f->swapped || strcmp(text, "little") == 0 ||
           tpi_refuse(TP_ERR_IO, "'%s': expected byte order little or big, got '%s'", f->zip.source.path, text);
}

bool tpi_pt_open(tp_file *f) {
    if (!find_prefix(f) || !check_sizes(f)) return false;
    const tpi_zip_member *pickle = tpi_pt_member(f, f->script ? f->script : "data", ".pkl");
    bool script = tpi_pt_member(f, "", "constants.pkl") != NULL;
    if (script && !f->script)
        return tpi_refuse(TP_ERR_VALUE,
                          "'%s' is a TorchScript program, which holds code: expected tensors and plain values; "
                          "tp_script_load, and torch.jit.load, read it",
                          f->zip.source.path);
    if (!script && f->script)
        return tpi_refuse(TP_ERR_VALUE, "'%s' is no TorchScript program: it holds no code", f->zip.source.path);
    if (!pickle) return false;
    f->unchecked = pickle->crc == 0 && pickle->bytes; /* PyTorch can be told to leave all checksums out */
    f->pickle = tpi_malloc((size_t)pickle->bytes + 1);
    f->pickle_bytes = (size_t)pickle->bytes;
    return f->pickle && tpi_file_read_member(f, pickle, f->pickle) && read_byteorder(f);
}

/* ---- What persistent ids stand for ---- */

static void *bad_id(const tp_file *f, const char *what) {
    return tpi_fail(TP_ERR_VALUE, "'%s': a storage in its pickle %s", tpi_file_path(f), what);
}

static bool same_bytes(const tp_file *f, tpi_store *s) {
    int64_t item = s->untyped ? 1 : tp_dtype_size(s->dtype);
    if (s->numel < 0 || __builtin_mul_overflow(s->numel, item > 0 ? item : 1, &s->bytes))
        return bad_id(f, "has an impossible size");
    return true;
}

static tpi_store *new_store(tp_file *f, const tp_saved *type, const tp_saved *key, const tp_saved *location,
                            int64_t numel) {
    tpi_store *s = tpi_arena_new(&f->arena, sizeof *s);
    if (!s) return NULL;
    *s = (tpi_store){.key = key->as.text, .location = location->as.text, .numel = numel, .file = f};
    if (!tpi_storage_type(type, &s->dtype, &s->dtype_name, &s->untyped)) return bad_id(f, "is of a type that is none");
    if (!same_bytes(f, s)) return NULL;
    if (f->format == TP_FILE_PT)
        s->member = tpi_pt_member(f, f->script && *f->script == 'c' ? "constants/" : "data/", s->key);
    s->swapped = f->swapped;
    return tpi_file_add_store(f, s) ? s : NULL;
}

/* Old files may save a part of a storage: (its own key, first element, number of elements). */
static bool read_part(const tp_file *f, const tp_saved *part, tp_saved *v) {
    if (part->kind == TP_SAVED_NONE) return true;
    if (part->kind != TP_SAVED_TUPLE || part->n != 3 || !tpi_is_int(part->as.items.v[1]) ||
        !tpi_is_int(part->as.items.v[2]))
        return bad_id(f, "is a part in no known form");
    int64_t first = part->as.items.v[1]->as.number.as.i, numel = part->as.items.v[2]->as.number.as.i,
            whole = v->as.storage.store->numel;
    if (first < 0 || numel < 0 || first > whole || numel > whole - first)
        return bad_id(f, "is a part that reaches beyond the whole");
    v->as.storage.first = first;
    v->as.storage.numel = numel;
    return true;
}

/* What Python calls the type of a value. */
static const char *class_word(const tp_saved *v) {
    if (v->kind == TP_SAVED_NUMBER)
        return v->as.number.kind == TP_SCALAR_FLOAT ? "float" : tpi_is_bool(v) ? "bool" : "int";
    static const char *const words[] = {
        [TP_SAVED_NONE] = "NoneType", [TP_SAVED_LONG] = "int",    [TP_SAVED_TEXT] = "str", [TP_SAVED_BYTES] = "bytes",
        [TP_SAVED_LIST] = "list",     [TP_SAVED_TUPLE] = "tuple", [TP_SAVED_SET] = "set",  [TP_SAVED_DICT] = "dict"};
    return v->kind < sizeof words / sizeof *words && words[v->kind] ? words[v->kind] : "object";
}

tp_saved *tpi_pt_persistent(void *context, tp_saved *id) {
    tp_file *f = context;
    tp_saved *const *v = id->as.items.v;
    if (id->kind == TP_SAVED_TUPLE && id->n && !tpi_is_text(v[0], "storage"))
        return tpi_fail(TP_ERR_VALUE, "'%s': Only persistent_load of storage is allowed, but got <class '%s'>",
                        tpi_file_path(f), class_word(v[0]));
    if (id->kind != TP_SAVED_TUPLE || id->n < 5 || id->n > 6 || !tpi_is_text(v[0], "storage") ||
        v[2]->kind != TP_SAVED_TEXT || v[3]->kind != TP_SAVED_TEXT || !tpi_is_int(v[4]) ||
        strlen(v[2]->as.text) != (size_t)v[2]->n)
        return bad_id(f, "is not one");
    tpi_store *store = tpi_file_store(f, v[2]->as.text), wanted = {0};
    if (!store) store = new_store(f, v[1], v[2], v[3], v[4]->as.number.as.i);
    if (!store) return NULL;
    bool same = tpi_storage_type(v[1], &wanted.dtype, &wanted.dtype_name, &wanted.untyped) &&
                wanted.untyped == store->untyped && strcmp(wanted.dtype_name, store->dtype_name) == 0 &&
                v[4]->as.number.as.i == store->numel;
    if (!same) return bad_id(f, "appears with two types or sizes");
    tp_saved *s = tpi_saved_new(&f->arena, TP_SAVED_STORAGE);
    if (!s) return NULL;
    s->as.storage.store = store;
    s->as.storage.numel = store->numel;
    return id->n < 6 || read_part(f, v[5], s) ? s : NULL;
}

/* ---- For those who read the pickle themselves ---- */

static bool is_pt(const tp_file *f) {
    return (f && f->format == TP_FILE_PT && f->prefix) ||
           tpi_refuse(TP_ERR_VALUE, "argument 'file': expected PyTorch's zip format");
}

bool tp_file_pickle(tp_file *f, const void **data, int64_t *bytes) {
    if (TPI_ENDED(f, "a file")) return false;
    if (!is_pt(f)) return false;
    *data = f->pickle;
    *bytes = (int64_t)f->pickle_bytes;
    return true;
}

tp_storage *tp_file_storage(tp_file *f, const char *key, int64_t bytes, tp_dtype dtype) {
    if (TPI_ENDED(f, "a file")) return NULL;
    if (!TPI_GIVEN(key, "a text") || !is_pt(f) || !tpi_sound_dtype(dtype, true, "dtype")) return NULL;
    tpi_store *store = tpi_file_store(f, key);
    if (!store) {
        store = tpi_arena_new(&f->arena, sizeof *store);
        const char *copy = store ? tpi_arena_text(&f->arena, key, strlen(key)) : NULL;
        if (!copy) return NULL;
        *store = (tpi_store){.key = copy,
                             .location = "cpu",
                             .dtype = dtype,
                             .dtype_name = dtype ? tp_dtype_name(dtype) : "bytes",
                             .untyped = !dtype,
                             .numel = bytes / (dtype ? tp_dtype_size(dtype) : 1),
                             .bytes = bytes,
                             .file = f,
                             .member = tpi_pt_member(f, "data/", key),
                             .swapped = f->swapped};
        if (!tpi_file_add_store(f, store)) return NULL;
    }
    if (store->bytes != bytes)
        return tpi_fail(TP_ERR_VALUE, "argument 'bytes': storage '%s' has %lld, got %lld", key, (long long)store->bytes,
                        (long long)bytes);
    tp_saved *v = tpi_saved_new(&f->arena, TP_SAVED_STORAGE);
    if (!v) return NULL;
    v->as.storage.store = store;
    return tp_saved_storage(v);
}
