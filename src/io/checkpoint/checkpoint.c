/* Opened checkpoints of every format: finding out which it is, the storages that tensors share, and their bytes. A
 * storage is read when a tensor that looks at it is asked for, once, straight into its memory, and its checksum is
 * compared; or the file is mapped and the storage looks at it. */
#include "io/checkpoint/checkpoint.h"
#include "autograd/glue.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "io/checkpoint/crc.h"
#include "ops/native.h"
#include "tensor/check_arguments.h"
#include "tensor/storage.h"
#include "tpi_ops.h"
#include <stdio.h>

/* ---- Opening ---- */

static bool starts_with(const tpi_source *s, const char *magic) {
    char head[8];
    size_t n = strlen(magic);
    return s->bytes >= n && tpi_source_read(s, 0, head, n) && memcmp(head, magic, n) == 0;
}

/* Which format it is; the file's contents say, not its name. */
static bool open_as(tp_file *f, tpi_source source) {
    if (starts_with(&source, "PK\3\4") || starts_with(&source, "PK\5\6")) { /* the latter: an empty one */
        if (!tpi_zip_open(&f->zip, source) || !tpi_zip_sort(f)) return false;
        f->format = tpi_pt_is_zip(f) ? TP_FILE_PT : TP_FILE_NPZ;
        return f->format == TP_FILE_NPZ || tpi_pt_open(f);
    }
    f->source = source;
    f->format = tpi_pt_is_legacy(&source)     ? TP_FILE_PT_OLD
                : tpi_npy_is(&source)         ? TP_FILE_NPY
                : tpi_safetensors_is(&source) ? TP_FILE_SAFETENSORS
                                              : TP_FILE_UNKNOWN;
    return f->format != TP_FILE_UNKNOWN ||
           tpi_refuse(TP_ERR_IO,
                      "'%s' is not a file of PyTorch's, nor .safetensors, .npz or .npy, judging by how it starts",
                      source.path);
}

static bool open_pickle(tp_file *f, tpi_source source) {
    f->source = source;
    f->format = TP_FILE_PICKLE;
    f->pickle_bytes = (size_t)source.bytes;
    f->pickle = tpi_malloc(f->pickle_bytes + 1);
    return f->pickle && tpi_source_read(&f->source, 0, f->pickle, f->pickle_bytes);
}

static bool open_any(tp_file *f, const char *path) {
    tpi_source source;
    bool opened = f->options.memory ? tpi_source_over(&source, f->options.memory, (size_t)f->options.memory_bytes,
                                                      path ? path : "memory")
                                    : tpi_source_open(&source, path);
    if (!opened || !(f->options.pickle ? open_pickle(f, source) : open_as(f, source))) return false;
    if (!f->options.map || f->options.pickle) return true;
    if (f->format == TP_FILE_PT_OLD)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`, got '%s'",
            f->source.path);
    f->mapping = tpi_source_map(f->format == TP_FILE_PT || f->format == TP_FILE_NPZ ? &f->zip.source : &f->source,
                                f->options.map_shared);
    return f->mapping != NULL;
}

tp_file *tp_open_file(const char *path, const tp_file_options *options) {
    tp_file_options known = {0};
    if (options && !tpi_copy_options(&known, sizeof known, options, options->size)) return NULL;
    return tpi_open_script(path, &known, NULL);
}

tp_file *tpi_open_script(const char *path, const tp_file_options *options, const char *pickle) {
    tp_file *f = tpi_new0(sizeof *f);
    if (!f) return NULL;
    f->script = pickle;
    tpi_handle_made(f, "file");
    f->source.fd = f->zip.source.fd = -1;
    if (options) f->options = *options;
    bool opened = open_any(f, path);
    if (opened && (!pickle || f->format == TP_FILE_PT)) return f;
    if (opened) tpi_fail(TP_ERR_VALUE, "'%s' is no TorchScript program", tpi_file_path(f));
    tp_close_file(f);
    return NULL;
}

void tpi_file_forget_tensors(tp_file *f) {
    for (int64_t i = 0; i < f->stores_capacity; i++)
        if (f->stores[i]) tp_storage_release(f->stores[i]->storage);
    tpi_mfree(f->stores);
    tpi_mfree(f->members);
    tpi_mfree(f->pickle);
    tpi_mapping_release(f->mapping);
    tpi_zip_close(&f->zip);
    tpi_source_close(&f->source);
    f->stores = NULL;
    f->members = NULL;
    f->pickle = NULL;
    f->mapping = NULL;
    f->nstores = f->stores_capacity = 0;
}

void tp_close_file(tp_file *f) {
    if (!TPI_ENDS(f, "file", "a file")) return;
    tpi_file_forget_tensors(f);
    tpi_arena_free(&f->arena);
    tpi_handle_delete(f, sizeof *f);
}

const char *tpi_file_path(const tp_file *f) { return f->zip.source.path ? f->zip.source.path : f->source.path; }

tp_file_kind tp_file_kind_of(const tp_file *f) {
    if (TPI_ENDED(f, "a file")) return (tp_file_kind){0};
    return f ? f->format : TP_FILE_UNKNOWN;
}

/* ---- Storages by key ---- */

static uint64_t hash_of(const char *key) {
    uint64_t h = 1469598103934665603u;
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 1099511628211u;
    return h;
}

static int64_t slot_of(const tp_file *f, const char *key) {
    int64_t mask = f->stores_capacity - 1, i = (int64_t)(hash_of(key) & (uint64_t)mask);
    while (f->stores[i] && strcmp(f->stores[i]->key, key) != 0) i = (i + 1) & mask;
    return i;
}

tpi_store *tpi_file_store(const tp_file *f, const char *key) {
    return f->stores_capacity ? f->stores[slot_of(f, key)] : NULL;
}

bool tpi_file_add_store(tp_file *f, tpi_store *store) {
    if (2 * f->nstores >= f->stores_capacity) {
        int64_t capacity = f->stores_capacity, larger = capacity ? 2 * capacity : 64;
        tpi_store **before = f->stores, **after = tpi_malloc((size_t)larger * sizeof *after);
        if (!after) return false;
        memset(after, 0, (size_t)larger * sizeof *after);
        f->stores = after;
        f->stores_capacity = larger;
        for (int64_t i = 0; i < capacity; i++)
            if (before[i]) f->stores[slot_of(f, before[i]->key)] = before[i];
        tpi_mfree(before);
    }
    f->stores[slot_of(f, store->key)] = store;
    f->nstores++;
    return true;
}

/* ---- The value ---- */

tpi_pickle tpi_file_pickle(tp_file *f) {
    return (tpi_pickle){.arena = &f->arena,
                        .path = tpi_file_path(f),
                        .any_global = f->options.any_global,
                        .nallowed = f->options.nallowed,
                        .allowed = f->options.allowed,
                        .persistent = f->format == TP_FILE_PICKLE ? NULL : tpi_pt_persistent,
                        .context = f,
                        .globals = f->globals};
}

static tp_saved *read_value(tp_file *f) {
    f->globals = tpi_saved_new(&f->arena, TP_SAVED_SET);
    if (!f->globals) return NULL;
    tpi_pickle p = tpi_file_pickle(f);
    switch (f->format) {
    case TP_FILE_PICKLE:
    case TP_FILE_PT: return tpi_pickle_read(&p, f->pickle, f->pickle_bytes, NULL, NULL);
    case TP_FILE_PT_OLD: return tpi_pt_read_legacy(f);
    case TP_FILE_NPZ: return tpi_npz_read(f);
    case TP_FILE_NPY: return tpi_npy_read(f);
    default: return tpi_safetensors_read(f);
    }
}

const tp_saved *tp_file_value(tp_file *f) {
    if (TPI_ENDED(f, "a file")) return NULL;
    if (!f) return NULL;
    if (f->was_read && !f->value) return tpi_fail(TP_ERR_VALUE, "'%s': its value could not be read", tpi_file_path(f));
    if (!f->was_read) f->value = read_value(f);
    f->was_read = true;
    return f->value;
}

/* ---- Bytes ---- */

static void swap_bytes(char *data, int64_t bytes, int64_t item) {
    for (; bytes >= item; bytes -= item, data += item)
        for (int64_t i = 0; i < item / 2; i++) {
            char c = data[i];
            data[i] = data[item - 1 - i];
            data[item - 1 - i] = c;
        }
}

bool tpi_file_read_member(const tp_file *f, const tpi_zip_member *m, void *out) {
    tpi_zip_stream *s = tpi_zip_begin(&f->zip, m);
    if (!s) return false;
    bool ok = tpi_zip_read(s, out, (size_t)m->bytes);
    if (ok && !f->unchecked) return tpi_zip_end(s);
    tpi_zip_stop(s);
    return ok;
}

/* The checksum covers what stands in front of the storage's bytes in its member, too. */
static bool read_from_member(const tpi_store *store, void *out) {
    const tp_file *f = store->file;
    char head[256];
    tpi_zip_stream *s = tpi_zip_begin(&f->zip, store->member);
    bool ok = s != NULL;
    for (uint64_t left = store->at; ok && left;) {
        size_t part = left < sizeof head ? (size_t)left : sizeof head;
        ok = tpi_zip_read(s, head, part);
        left -= part;
    }
    ok = ok && tpi_zip_read(s, out, (size_t)store->bytes);
    if (ok && !f->unchecked) return tpi_zip_end(s);
    tpi_zip_stop(s);
    return ok;
}

static bool read_bytes(const tpi_store *store, void *out) {
    const tp_file *f = store->file;
    if (store->member) return read_from_member(store, out);
    if (!tpi_source_read(&f->source, store->at, out, (size_t)store->bytes)) return false;
    uint32_t crc = store->has_crc ? tpi_crc32(0, out, (size_t)store->bytes) : store->crc;
    return crc == store->crc || tpi_refuse(TP_ERR_IO, "'%s' is damaged: the checksum of '%s' is %08x, expected %08x",
                                           tpi_file_path(f), store->key, crc, store->crc);
}

static int64_t number_bytes(tp_dtype d) { return d ? tp_dtype_size(d) / (tp_dtype_is_complex(d) ? 2 : 1) : 1; }

/* The storage over the mapped file; *fits false without an error where it has to be read: packed, misaligned, in
 * another byte order, or bools, which must be looked at. */
static tp_storage *mapped(const tpi_store *store, bool *fits) {
    const tpi_zip_member *m = store->member;
    tp_file *f = store->file;
    uint64_t at = store->at + (m ? m->at : 0);
    int64_t align = store->untyped ? 1 : number_bytes(store->dtype);
    *fits = f->mapping && !(m && m->method != 0) && !(store->swapped && align > 1) && store->dtype != TP_BOOL &&
            at % (uint64_t)align == 0;
    if (!*fits) return NULL;
    tp_storage *s = tpi_storage_over(tpi_mapping_data(f->mapping) + at, (size_t)store->bytes, (tp_device){TP_CPU, 0},
                                     tpi_mapping_release, f->mapping);
    if (s) tpi_mapping_retain(f->mapping);
    return s;
}

static bool check_location(const tpi_store *s) {
    const tp_file *f = s->file;
    if (!s->untyped && s->dtype == TP_NO_DTYPE)
        return tpi_refuse(TP_ERR_MISSING, "dtype %s is not in Taper", s->dtype_name);
    if (f->format != TP_FILE_PT) return true; /* other formats were checked when they were opened */
    if (!s->member)
        return tpi_refuse(TP_ERR_IO, "'%s': there is no member '%sdata/%s'", tpi_file_path(f), f->prefix, s->key);
    return s->member->bytes == (uint64_t)s->bytes ||
           tpi_refuse(TP_ERR_IO, "'%s': storage '%s' should have %lld bytes, its member has %llu", tpi_file_path(f),
                      s->key, (long long)s->bytes, (unsigned long long)s->member->bytes);
}

/* Numbers are put in this machine's order, and each byte of bools becomes 0 or 1, as others are not bools to C. */
static bool load_store(tpi_store *store) {
    if (store->storage) return true;
    bool fits = false;
    if (!check_location(store)) return false;
    tp_storage *s = mapped(store, &fits);
    if (!fits) s = tpi_storage_new((tp_device){TP_CPU, 0}, (size_t)store->bytes);
    if (!s) return false;
    if (!fits && !read_bytes(store, s->data)) {
        tpi_storage_release(s);
        return false;
    }
    if (!fits && store->swapped && number_bytes(store->dtype) > 1)
        swap_bytes(s->data, store->bytes, number_bytes(store->dtype));
    for (int64_t i = 0; !fits && store->dtype == TP_BOOL && i < store->bytes; i++) s->data[i] = s->data[i] != 0;
    store->storage = s;
    return true;
}

/* Puts the name of the tensor whose reading failed in front of the error. Where somebody else reads the pickle, it is
 * looked at here, too.
 */
static void *name_failure(const tpi_store *s) {
    char name[256], text[512];
    tp_file *f = s->file;
    tp_code code = tp_error_code();
    if (code == TP_ERR_MEMORY || !f) return NULL;
    snprintf(text, sizeof text, "%s", tp_error());
    tp_error_clear();
    if (!f->was_read) {
        f->options.any_global = true;
        if (!tp_file_value(f)) tp_error_clear();
    }
    tpi_saved_name(f->value, s, name, sizeof name);
    return name[0] ? tpi_fail(code, "tensor '%s': %s", name, text) : tpi_fail(code, "%s", text);
}

tp_storage *tp_saved_storage(const tp_saved *v) {
    if (TPI_SAVED_GONE(v)) return NULL;
    if (!v) return NULL;
    if (v->kind == TP_SAVED_TENSOR) v = v->as.view->storage;
    if (v->kind != TP_SAVED_STORAGE)
        return tpi_fail(TP_ERR_TYPE, "argument 'v': expected a storage, got %s", tpi_kind_name(v));
    tpi_store *s = v->as.storage.store;
    if (!s->file) return tpi_storage_new((tp_device){TP_META, 0}, (size_t)s->bytes); /* a meta tensor's */
    return load_store(s) ? tpi_storage_retain(s->storage) : name_failure(s);
}

/* ---- Tensors ---- */

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
        if (numel && (__builtin_mul_overflow(view->shape[i] - 1, view->strides[i], &reach) ||
                      __builtin_add_overflow(last, reach, &last)))
            return tpi_refuse(TP_ERR_VALUE, "its strides are too large");
    }
    if (view->offset > part || (numel && last >= part - view->offset))
        return tpi_refuse(TP_ERR_VALUE, "the tensor reaches beyond its storage of %lld elements", (long long)part);
    *offset = view->offset + s->as.storage.first;
    return true;
}

static const tpi_view *tensor_view(const tp_saved *v, int64_t *offset) {
    if (v->kind != TP_SAVED_TENSOR)
        return tpi_fail(TP_ERR_TYPE, "argument 'v': expected a tensor, got %s", tpi_kind_name(v));
    return check_view(v->as.view, offset) ? v->as.view : name_failure(v->as.view->storage->as.storage.store);
}

/* The new tensor t, marked where the storage holds the conjugates or negatives of its elements. A conjugate's negative
 * has no mark: it becomes a copy. */
static tp_tensor *marked(tp_tensor *t, const tpi_view *view) {
    if (!t) return NULL;
    const bool complex = tp_dtype_is_complex((tp_dtype)t->dtype);
    if (complex ? view->conjugated : view->negated) tpi_flip_mark(t);
    return complex && view->negated ? tpi_release_then(t, tpo_neg(t)) : t;
}

tp_tensor *tp_saved_tensor(const tp_saved *v) {
    if (TPI_SAVED_GONE(v)) return NULL;
    int64_t offset;
    const tpi_view *view = v ? tensor_view(v, &offset) : NULL;
    tp_storage *s = view ? tp_saved_storage(view->storage) : NULL;
    if (!s) return NULL;
    tp_tensor *t = tpi_tensor_over(s, view->dtype, tp_ints_view(view->shape, view->ndim),
                                   tp_ints_view(view->strides, view->ndim), offset * tp_dtype_size(view->dtype));
    t = marked(t, view);
    if (t)
        t->requires_grad =
            view->requires_grad && (tp_dtype_is_floating(view->dtype) || tp_dtype_is_complex(view->dtype));
    return tpi_to_scope(t);
}

bool tp_saved_describe(const tp_saved *v, tp_saved_about *about) {
    if (!TPI_GIVEN(about, "a tp_saved_about") || !tpi_sound_size(about->size, "about")) return false;
    tp_saved_about a = {.size = about->size};
    if (!v) return tpi_refuse(TP_ERR_TYPE, "argument 'v': expected a value, got NULL");
    a.class_name = v->class_name;
    a.by_new = v->parts && v->parts->by_new;
    if (v->kind == TP_SAVED_TENSOR) {
        const tpi_view *view = tensor_view(v, &a.offset);
        if (!view) return false;
        a.requires_grad = view->requires_grad;
        a.conjugated = view->conjugated;
        a.negated = view->negated;
        a.dtype = view->dtype;
        a.shape = tp_ints_view(view->shape, view->ndim);
        a.strides = tp_ints_view(view->strides, view->ndim);
    } else if (v->kind == TP_SAVED_STORAGE) {
        const tpi_store *s = v->as.storage.store;
        a.dtype = s->dtype;
        a.key = s->key;
        a.location = s->location;
        a.bytes = s->bytes;
        a.offset = v->as.storage.first;
        a.numel = v->as.storage.numel;
    }
    memcpy(about, &a, a.size < (int64_t)sizeof a ? (size_t)a.size : sizeof a);
    return true;
}

tp_saved *tpi_file_array(tp_file *f, tpi_store *store, tp_ints shape, bool fortran) {
    tp_saved *t = tpi_saved_new(&f->arena, TP_SAVED_TENSOR), *s = t ? tpi_saved_new(&f->arena, TP_SAVED_STORAGE) : NULL;
    tpi_view *view = s ? tpi_arena_new(&f->arena, sizeof *view) : NULL;
    int64_t *sizes = view ? tpi_arena_new(&f->arena, (size_t)(2 * shape.n + 1) * sizeof *sizes) : NULL;
    if (!sizes) return NULL;
    store->file = f;
    store->location = "cpu";
    store->numel = tpi_numel_of(shape);
    if (store->numel < 0 ||
        __builtin_mul_overflow(store->numel, store->dtype ? tp_dtype_size(store->dtype) : 1, &store->bytes))
        return tpi_fail(TP_ERR_IO, "'%s': array '%s' has an impossible shape", tpi_file_path(f), store->key);
    *view = (tpi_view){.storage = s,
                       .ndim = (int)shape.n,
                       .shape = sizes,
                       .strides = sizes + shape.n,
                       .dtype = store->dtype,
                       .dtype_name = store->dtype_name};
    s->as.storage.store = store;
    s->as.storage.numel = store->numel;
    t->as.view = view;
    memcpy(sizes, shape.v, (size_t)shape.n * sizeof *sizes);
    tpi_contiguous_strides(shape, view->strides);
    int64_t step = 1;
    for (int64_t i = 0; fortran && i < shape.n; i++) {
        view->strides[i] = step;
        if (shape.v[i] > 1) step *= shape.v[i];
    }
    return tpi_file_add_store(f, store) ? t : NULL;
}

int64_t tp_file_end(tp_file *f) {
    if (TPI_ENDED(f, "a file")) return -1;
    return f ? (int64_t)f->end : 0;
}

int64_t tp_file_global_count(tp_file *f) {
    if (TPI_ENDED(f, "a file")) return -1;
    return f && f->globals ? f->globals->n : 0;
}

const char *tp_file_global_at(tp_file *f, int64_t i) {
    if (TPI_ENDED(f, "a file")) return NULL;
    if (i >= 0 && i < tp_file_global_count(f)) return f->globals->as.items.v[i]->as.text;
    return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)tp_file_global_count(f) - 1,
                    (long long)i);
}
