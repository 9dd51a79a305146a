/* Reading PyTorch's files. The zip format: one folder with data.pkl, a member data/KEY per storage, byteorder and version. Storages are read when
 * a tensor that looks at them is asked for, each once, straight into their memory, and their checksums are compared; or the file is mapped
 * and they look at it. Sizes must be what the pickle says. */
#include "io/pt.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/memory.h"
#include "tensor/storage.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- Members --------------------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp((*(tpi_zip_member *const *)a)->name, (*(tpi_zip_member *const *)b)->name); }

static bool sort_members(tp_file *f) {
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
static tpi_zip_member *member(const tp_file *f, const char *folder, const char *name) {
    size_t n = strlen(f->prefix), k = strlen(folder), m = strlen(name);
    char *full = tpi_malloc(n + k + m + 1);
    if (!full) return NULL;
    memcpy(full, f->prefix, n);
    memcpy(full + n, folder, k);
    memcpy(full + n + k, name, m + 1);
    tpi_zip_member wanted = {.name = full}, *p = &wanted, **found = bsearch(&p, f->members, (size_t)f->zip.n, sizeof p, by_name);
    tpi_mfree(full);
    return found ? *found : NULL;
}

static bool read_member(const tp_file *f, const tpi_zip_member *m, void *out) {
    tpi_zip_stream *s = tpi_zip_begin(&f->zip, m);
    if (!s) return false;
    if (!tpi_zip_read(s, out, (size_t)m->bytes)) {
        tpi_zip_stop(s);
        return false;
    }
    if (!f->unchecked) return tpi_zip_end(s);
    tpi_zip_stop(s);
    return true;
}

/* PyTorch stores members as they are. Packed ones are read too, unless all of them together claim to be far more than the file. */
static bool check_sizes(const tp_file *f) {
    uint64_t packed = 0, bytes = 0;
    for (int64_t i = 0; i < f->zip.n; i++) {
        const tpi_zip_member *m = &f->zip.members[i];
        if (m->method == 0) continue;
        packed += m->packed;
        bytes += m->bytes; /* at most 1032 times the file's size */
    }
    if (bytes < (uint64_t)1 << 28 || bytes / 200 < packed) return true;
    return tpi_refuse(TP_ERR_IO, "'%s': its packed members claim to hold %llu bytes, which is too much for their %llu", f->zip.source.path, (unsigned long long)bytes,
                      (unsigned long long)packed);
}

/* ---- Opening ------------------------------------------------------------------------------------------------------------------------ */

static bool find_prefix(tp_file *f) {
    static const char name[] = "data.pkl";
    for (int64_t i = 0; i < f->zip.n; i++) {
        const char *full = f->zip.members[i].name;
        size_t n = strlen(full);
        if (n < sizeof name || strcmp(full + n - sizeof name + 1, name) != 0 || full[n - sizeof name] != '/') continue;
        f->prefix = tpi_arena_text(&f->arena, full, n - sizeof name + 1);
        return f->prefix != NULL;
    }
    return tpi_refuse(TP_ERR_IO, "'%s' is a zip archive but not one of PyTorch's: it holds no data.pkl", f->zip.source.path);
}

static bool read_byteorder(tp_file *f) {
    const tpi_zip_member *m = member(f, "", "byteorder");
    char text[8] = {0};
    if (!m) return true;
    if (m->bytes > 6 || !read_member(f, m, text)) return tpi_refuse(TP_ERR_IO, "'%s': its byte order is not readable", f->zip.source.path);
    f->swapped = strcmp(text, "big") == 0;
    return f->swapped || strcmp(text, "little") == 0 || tpi_refuse(TP_ERR_IO, "'%s': expected byte order little or big, got '%s'", f->zip.source.path, text);
}

static bool open_zip(tp_file *f, tpi_source source) {
    if (!tpi_zip_open(&f->zip, source) || !sort_members(f) || !find_prefix(f) || !check_sizes(f)) return false;
    const tpi_zip_member *pickle = member(f, "", "data.pkl");
    if (!pickle) return false;
    if (member(f, "", "constants.pkl"))
        return tpi_refuse(TP_ERR_VALUE, "'%s' is a TorchScript program, which holds code: expected tensors and plain values", f->zip.source.path);
    f->unchecked = pickle->crc == 0 && pickle->bytes; /* PyTorch can be told to leave all checksums out */
    f->pickle = tpi_malloc((size_t)pickle->bytes + 1);
    f->pickle_bytes = (size_t)pickle->bytes;
    return f->pickle && read_member(f, pickle, f->pickle) && read_byteorder(f);
}

static bool starts_as_zip(const tpi_source *s) {
    unsigned char magic[4];
    return s->bytes >= 4 && tpi_source_read(s, 0, magic, 4) && memcmp(magic, "PK\3\4", 4) == 0;
}

static bool open_any(tp_file *f, const char *path) {
    tpi_source source;
    bool opened = f->options.memory ? tpi_source_over(&source, f->options.memory, (size_t)f->options.memory_bytes, path ? path : "memory")
                                    : tpi_source_open(&source, path);
    if (!opened) return false;
    if (starts_as_zip(&source)) {
        f->is_zip = true;
        if (!open_zip(f, source)) return false;
    } else {
        f->source = source;
        if (!tpi_pt_is_legacy(&source))
            return tpi_refuse(TP_ERR_IO, "'%s' is not a file of PyTorch's: it starts neither as a zip archive nor as the format before that", source.path);
    }
    if (!f->options.map) return true;
    if (!f->is_zip)
        return tpi_refuse(TP_ERR_RUNTIME, "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`, got '%s'", f->source.path);
    f->mapping = tpi_source_map(&f->zip.source, f->options.map_shared);
    return f->mapping != NULL;
}

tp_file *tp_open_file(const char *path, const tp_file_options *options) {
    tp_file *f = tpi_new0(sizeof *f);
    if (!f) return NULL;
    f->source.fd = f->zip.source.fd = -1;
    if (options) memcpy(&f->options, options, options->size < (int64_t)sizeof f->options ? (size_t)options->size : sizeof f->options);
    if (open_any(f, path)) return f;
    tp_close_file(f);
    return NULL;
}

void tp_close_file(tp_file *f) {
    if (!f) return;
    for (int64_t i = 0; i < f->stores_room; i++)
        if (f->stores[i]) tp_storage_release(f->stores[i]->storage);
    tpi_mfree(f->stores);
    tpi_mfree(f->members);
    tpi_mfree(f->pickle);
    tpi_mapping_release(f->mapping);
    tpi_zip_close(&f->zip);
    tpi_source_close(&f->source);
    tpi_arena_free(&f->arena);
    tpi_delete(f, sizeof *f);
}

static const char *path_of(const tp_file *f) { return f->is_zip ? f->zip.source.path : f->source.path; }

/* ---- Storages by key --------------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *key) {
    uint64_t h = 1469598103934665603u;
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 1099511628211u;
    return h;
}

static int64_t slot_of(const tp_file *f, const char *key) {
    int64_t mask = f->stores_room - 1, i = (int64_t)(hash_of(key) & (uint64_t)mask);
    while (f->stores[i] && strcmp(f->stores[i]->key, key) != 0) i = (i + 1) & mask;
    return i;
}

tpi_store *tpi_pt_store(const tp_file *f, const char *key) { return f->stores_room ? f->stores[slot_of(f, key)] : NULL; }

static bool add_store(tp_file *f, tpi_store *store) {
    if (2 * f->nstores >= f->stores_room) {
        int64_t room = f->stores_room, larger = room ? 2 * room : 64;
        tpi_store **before = f->stores, **after = tpi_malloc((size_t)larger * sizeof *after);
        if (!after) return false;
        memset(after, 0, (size_t)larger * sizeof *after);
        f->stores = after;
        f->stores_room = larger;
        for (int64_t i = 0; i < room; i++)
            if (before[i]) f->stores[slot_of(f, before[i]->key)] = before[i];
        tpi_mfree(before);
    }
    f->stores[slot_of(f, store->key)] = store;
    f->nstores++;
    return true;
}

static void *bad_id(const tp_file *f, const char *what) { return tpi_fail(TP_ERR_VALUE, "'%s': a storage in its pickle %s", path_of(f), what); }

static bool same_bytes(const tp_file *f, tpi_store *s) {
    int64_t item = s->untyped ? 1 : tp_dtype_size(s->dtype);
    if (s->numel < 0 || __builtin_mul_overflow(s->numel, item > 0 ? item : 1, &s->bytes)) return bad_id(f, "has an impossible size");
    return true;
}

static tpi_store *new_store(tp_file *f, const tp_saved *type, const tp_saved *key, const tp_saved *location, int64_t numel) {
    tpi_store *s = tpi_arena_new(&f->arena, sizeof *s);
    if (!s) return NULL;
    *s = (tpi_store){.key = key->as.text, .location = location->as.text, .numel = numel, .file = f};
    if (!tpi_storage_type(type, &s->dtype, &s->dtype_name, &s->untyped)) return bad_id(f, "is of a type that is none");
    if (!same_bytes(f, s)) return NULL;
    return add_store(f, s) ? s : NULL;
}

/* Old files may save a part of a storage: (its own key, first element, number of elements). */
static bool read_part(const tp_file *f, const tp_saved *part, tp_saved *v) {
    if (part->kind == TP_SAVED_NONE) return true;
    if (part->kind != TP_SAVED_TUPLE || part->n != 3 || !tpi_is_int(part->as.items.v[1]) || !tpi_is_int(part->as.items.v[2])) return bad_id(f, "is a part in no known form");
    int64_t first = part->as.items.v[1]->as.number.as.i, numel = part->as.items.v[2]->as.number.as.i, whole = v->as.storage.store->numel;
    if (first < 0 || numel < 0 || first > whole || numel > whole - first) return bad_id(f, "is a part that reaches beyond the whole");
    v->as.storage.first = first;
    v->as.storage.numel = numel;
    return true;
}

tp_saved *tpi_pt_persistent(void *context, tp_saved *id) {
    tp_file *f = context;
    tp_saved *const *v = id->as.items.v;
    if (id->kind != TP_SAVED_TUPLE || id->n < 5 || id->n > 6 || !tpi_is_text(v[0], "storage") || v[2]->kind != TP_SAVED_TEXT || v[3]->kind != TP_SAVED_TEXT ||
        !tpi_is_int(v[4]) || strlen(v[2]->as.text) != (size_t)v[2]->n)
        return bad_id(f, "is not one");
    tpi_store *store = tpi_pt_store(f, v[2]->as.text), wanted = {0};
    if (!store) store = new_store(f, v[1], v[2], v[3], v[4]->as.number.as.i);
    if (!store) return NULL;
    bool same = tpi_storage_type(v[1], &wanted.dtype, &wanted.dtype_name, &wanted.untyped) && wanted.untyped == store->untyped &&
                strcmp(wanted.dtype_name, store->dtype_name) == 0 && v[4]->as.number.as.i == store->numel;
    if (!same) return bad_id(f, "appears with two types or sizes");
    tp_saved *s = tpi_saved_new(&f->arena, TP_SAVED_STORAGE);
    if (!s) return NULL;
    s->as.storage.store = store;
    s->as.storage.numel = store->numel;
    return id->n < 6 || read_part(f, v[5], s) ? s : NULL;
}

tpi_pickle tpi_pt_pickle(tp_file *f) {
    return (tpi_pickle){.arena = &f->arena, .path = path_of(f), .any_global = f->options.any_global, .nallowed = f->options.nallowed,
                        .allowed = f->options.allowed, .persistent = tpi_pt_persistent, .context = f, .globals = f->globals};
}

static tp_saved *read_value(tp_file *f) {
    f->globals = tpi_saved_new(&f->arena, TP_SAVED_SET);
    if (!f->globals) return NULL;
    if (!f->is_zip) return tpi_pt_read_legacy(f);
    tpi_pickle p = tpi_pt_pickle(f);
    return tpi_pickle_read(&p, f->pickle, f->pickle_bytes, NULL, NULL);
}

const tp_saved *tp_file_value(tp_file *f) {
    if (!f) return NULL;
    if (!f->was_read) f->value = read_value(f);
    else if (!f->value) return tpi_fail(TP_ERR_VALUE, "'%s': its value could not be read", path_of(f));
    f->was_read = true;
    return f->value;
}

/* ---- Bytes ---------------------------------------------------------------------------------------------------------------------------------- */

static void swap_bytes(char *data, int64_t bytes, int64_t item) {
    for (; bytes >= item; bytes -= item, data += item)
        for (int64_t i = 0; i < item / 2; i++) {
            char c = data[i];
            data[i] = data[item - 1 - i], data[item - 1 - i] = c;
        }
}

static tp_storage *mapped(tp_file *f, const tpi_zip_member *m) {
    if (m->method != 0) return tpi_fail(TP_ERR_IO, "'%s': member '%s' is packed and cannot be mapped", path_of(f), m->name);
    tp_storage *s = tpi_storage_over(tpi_mapping_data(f->mapping) + m->at, (size_t)m->bytes, (tp_device){TP_CPU, 0}, tpi_mapping_release, f->mapping);
    if (s) tpi_mapping_retain(f->mapping);
    return s;
}

static int64_t number_bytes(tp_dtype d) { return d ? tp_dtype_size(d) / (tp_dtype_is_complex(d) ? 2 : 1) : 1; }

/* dtype: of what is in it, TP_NO_DTYPE for bytes. Numbers are put in this machine's order, and each byte of bools becomes 0 or 1, as others
 * are not bools to C. */
static tp_storage *read_storage(tp_file *f, const char *key, int64_t bytes, tp_dtype dtype, uint64_t at) {
    const tpi_zip_member *m = f->is_zip ? member(f, "data/", key) : NULL;
    if (f->is_zip && !m) return tp_ok() ? tpi_fail(TP_ERR_IO, "'%s': there is no member '%sdata/%s'", path_of(f), f->prefix, key) : NULL;
    if (m && m->bytes != (uint64_t)bytes)
        return tpi_fail(TP_ERR_IO, "'%s': storage '%s' should have %lld bytes, its member has %llu", path_of(f), key, (long long)bytes, (unsigned long long)m->bytes);
    if (m && f->mapping && !f->swapped) return mapped(f, m);
    tp_storage *s = tpi_storage_new((tp_device){TP_CPU, 0}, (size_t)bytes);
    if (!s) return NULL;
    if (m ? !read_member(f, m, s->data) : !tpi_source_read(&f->source, at, s->data, (size_t)bytes)) {
        tpi_storage_release(s);
        return NULL;
    }
    if (f->swapped && number_bytes(dtype) > 1) swap_bytes(s->data, bytes, number_bytes(dtype));
    for (int64_t i = 0; dtype == TP_BOOL && i < bytes; i++) s->data[i] = s->data[i] != 0;
    return s;
}

static bool load_store(tpi_store *s) {
    if (s->storage) return true;
    if (!s->untyped && s->dtype == TP_NO_DTYPE) return tpi_refuse(TP_ERR_MISSING, "dtype %s is not in Taper", s->dtype_name);
    s->storage = read_storage(s->file, s->key, s->bytes, s->dtype, s->at);
    return s->storage != NULL;
}

/* Puts the name of the tensor whose reading failed in front of the error. */
static void *name_failure(const tpi_store *s) {
    char name[256], text[512];
    tp_code code = tp_error_code();
    tpi_saved_name(s->file->value, s, name, sizeof name);
    if (!name[0] || code == TP_ERR_MEMORY) return NULL;
    snprintf(text, sizeof text, "%s", tp_error());
    tp_error_clear();
    return tpi_fail(code, "tensor '%s': %s", name, text);
}

tp_storage *tp_saved_storage(const tp_saved *v) {
    if (!v) return NULL;
    if (v->kind == TP_SAVED_TENSOR) v = v->as.view->storage;
    if (v->kind != TP_SAVED_STORAGE) return tpi_fail(TP_ERR_TYPE, "argument 'v': expected a storage, got %s", tpi_kind_name(v));
    tpi_store *s = v->as.storage.store;
    return load_store(s) ? tpi_storage_retain(s->storage) : name_failure(s);
}

/* ---- Tensors --------------------------------------------------------------------------------------------------------------------------------- */

/* Where a tensor starts in its storage, in elements, and whether what it says of itself can be true. */
static bool check_view(const tpi_view *view, int64_t *offset) {
    const tp_saved *s = view->storage;
    const tpi_store *store = s->as.storage.store;
    if (view->dtype == TP_NO_DTYPE) return tpi_refuse(TP_ERR_MISSING, "dtype %s is not in Taper", view->dtype_name);
    int64_t item = tp_dtype_size(view->dtype), numel = tpi_numel_of(tp_ints_view(view->shape, view->ndim));
    if (numel < 0) return false;
    if (view->offset < 0) return tpi_refuse(TP_ERR_VALUE, "its offset is negative: %lld", (long long)view->offset);
    int64_t last = 0, part = store->untyped ? s->as.storage.numel / item : s->as.storage.numel;
    for (int i = 0; i < view->ndim; i++) {
        int64_t reach;
        if (view->strides[i] < 0) return tpi_refuse(TP_ERR_VALUE, "its strides are negative");
        if (numel && (__builtin_mul_overflow(view->shape[i] - 1, view->strides[i], &reach) || __builtin_add_overflow(last, reach, &last)))
            return tpi_refuse(TP_ERR_VALUE, "its strides are too large");
    }
    if (view->offset > part || (numel && last >= part - view->offset))
        return tpi_refuse(TP_ERR_VALUE, "it reaches beyond its storage of %lld elements", (long long)part);
    *offset = view->offset + s->as.storage.first;
    return true;
}

static const tpi_view *tensor_view(const tp_saved *v, int64_t *offset) {
    if (v->kind != TP_SAVED_TENSOR) return tpi_fail(TP_ERR_TYPE, "argument 'v': expected a tensor, got %s", tpi_kind_name(v));
    return check_view(v->as.view, offset) ? v->as.view : name_failure(v->as.view->storage->as.storage.store);
}

tp_tensor *tp_saved_tensor(const tp_saved *v) {
    int64_t offset;
    const tpi_view *view = v ? tensor_view(v, &offset) : NULL;
    tp_storage *s = view ? tp_saved_storage(view->storage) : NULL;
    if (!s) return NULL;
    tp_tensor *t = tpi_tensor_over(s, view->dtype, tp_ints_view(view->shape, view->ndim), tp_ints_view(view->strides, view->ndim), offset * tp_dtype_size(view->dtype));
    if (t) t->requires_grad = view->requires_grad && (tp_dtype_is_floating(view->dtype) || tp_dtype_is_complex(view->dtype));
    return tpi_to_scope(t);
}

bool tp_saved_describe(const tp_saved *v, tp_saved_about *about) {
    tp_saved_about a = {.size = about->size};
    if (!v) return tpi_refuse(TP_ERR_TYPE, "argument 'v': expected a value, got NULL");
    a.class_name = v->class_name;
    a.by_new = v->parts && v->parts->by_new;
    if (v->kind == TP_SAVED_TENSOR) {
        const tpi_view *view = tensor_view(v, &a.offset);
        if (!view) return false;
        a.requires_grad = view->requires_grad;
        a.dtype = view->dtype;
        a.shape = tp_ints_view(view->shape, view->ndim);
        a.strides = tp_ints_view(view->strides, view->ndim);
    } else if (v->kind == TP_SAVED_STORAGE) {
        const tpi_store *s = v->as.storage.store;
        a.dtype = s->dtype;
        a.key = s->key;
        a.location = s->location;
        a.bytes = s->bytes;
    }
    memcpy(about, &a, a.size < (int64_t)sizeof a ? (size_t)a.size : sizeof a);
    return true;
}

/* ---- The parts of a file ------------------------------------------------------------------------------------------------------------------------- */

bool tp_file_is_zip(const tp_file *f) { return f && f->is_zip; }

bool tp_file_pickle(tp_file *f, const void **data, int64_t *bytes) {
    if (!f || !f->is_zip) return tpi_refuse(TP_ERR_VALUE, "argument 'file': expected a file in the zip format");
    *data = f->pickle;
    *bytes = (int64_t)f->pickle_bytes;
    return true;
}

tp_storage *tp_file_storage(tp_file *f, const char *key, int64_t bytes, tp_dtype dtype) {
    if (!f || !f->is_zip) return tpi_fail(TP_ERR_VALUE, "argument 'file': expected a file in the zip format");
    return read_storage(f, key, bytes, dtype, 0);
}

int64_t tp_file_global_count(tp_file *f) { return f && f->globals ? f->globals->n : 0; }

const char *tp_file_global_at(tp_file *f, int64_t i) {
    if (i >= 0 && i < tp_file_global_count(f)) return f->globals->as.items.v[i]->as.text;
    return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)tp_file_global_count(f) - 1, (long long)i);
}
