/* Checkpoints made in C: a tree of values to fill, and its writing. The tree holds a reference to the memory of each
 * tensor put into it. */
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/formats.h"
#include "tensor/storage.h"
#include <stdio.h>

/* ---- Filling ---- */

tp_file *tp_new_file(void) {
    tp_file *f = tpi_new0(sizeof *f);
    if (!f) return NULL;
    tpi_handle_made(f, "file");
    f->source.fd = f->zip.source.fd = -1;
    f->format = TP_FILE_PT;
    f->was_read = true;
    f->value = tpi_saved_new(&f->arena, TP_SAVED_DICT);
    if (f->value) return f;
    tp_close_file(f);
    return NULL;
}

/* Puts v where it belongs; gives v back, or NULL, and then the file cannot be saved. */
static tp_saved *put_into(tp_file *f, tp_saved *into, tp_saved *key, tp_saved *v) {
    if (!f) return NULL;
    if (!into) into = f->value;
    bool ok = v != NULL;
    if (ok && (into->kind == TP_SAVED_LIST || into->kind == TP_SAVED_TUPLE))
        ok = tpi_saved_append(&f->arena, into, v);
    else if (ok && into->kind == TP_SAVED_DICT)
        ok = key ? tpi_saved_put(&f->arena, into, key, v)
                 : tpi_refuse(TP_ERR_VALUE, "argument 'key': expected a key for the dict, got none");
    else if (ok)
        ok = tpi_refuse(TP_ERR_TYPE, "argument 'into': expected a dict or a list, got %s", tpi_kind_name(into));
    f->failed |= !ok;
    return ok ? v : NULL;
}

static tp_saved *text_value(tp_file *f, const char *text, const char *argument) {
    if (!f || !text) return NULL;
    if (!tpi_is_utf8(text, strlen(text)))
        return tpi_fail(TP_ERR_VALUE, "argument '%s': expected UTF-8, got other bytes", argument);
    return tpi_saved_text(&f->arena, TP_SAVED_TEXT, text, strlen(text));
}

static bool key_value(tp_file *f, const char *key, tp_saved **out) {
    *out = text_value(f, key, "key");
    bool ok = f && (*out || !key);
    if (f && !ok) f->failed = true;
    return ok;
}

static tp_saved *put_value(tp_file *f, tp_saved *into, const char *key, tp_saved *v) {
    tp_saved *k;
    return key_value(f, key, &k) ? put_into(f, into, k, v) : NULL;
}

bool tp_put_number(tp_file *f, tp_saved *into, const char *key, tp_scalar number) {
    return TPI_GIVEN(f, "a file") && put_value(f, into, key, tpi_saved_number(&f->arena, number));
}
bool tp_put_text(tp_file *f, tp_saved *into, const char *key, const char *text) {
    return TPI_GIVEN(f, "a file") && put_value(f, into, key, text_value(f, text, "text"));
}
bool tp_put_none(tp_file *f, tp_saved *into, const char *key) {
    return TPI_GIVEN(f, "a file") && put_value(f, into, key, tpi_saved_new(&f->arena, TP_SAVED_NONE));
}
tp_saved *tp_put_dict(tp_file *f, tp_saved *into, const char *key) {
    return TPI_GIVEN(f, "a file") ? put_value(f, into, key, tpi_saved_new(&f->arena, TP_SAVED_DICT)) : NULL;
}
tp_saved *tp_put_list(tp_file *f, tp_saved *into, const char *key) {
    return TPI_GIVEN(f, "a file") ? put_value(f, into, key, tpi_saved_new(&f->arena, TP_SAVED_LIST)) : NULL;
}
tp_saved *tp_put_tuple(tp_file *f, tp_saved *into, const char *key) {
    return TPI_GIVEN(f, "a file") ? put_value(f, into, key, tpi_saved_new(&f->arena, TP_SAVED_TUPLE)) : NULL;
}
tp_saved *tp_put_dict_int(tp_file *f, tp_saved *into, int64_t key) {
    if (TPI_ENDED(f, "a file")) return NULL;
    return f ? put_into(f, into, tpi_saved_number(&f->arena, tp_int(key)), tpi_saved_new(&f->arena, TP_SAVED_DICT))
             : NULL;
}

/* One store per storage, named by its address. A storage that is looked at in two dtypes counts as bytes. */
static tpi_store *store_of(tp_file *f, tp_tensor *t) {
    char key[24], location[24] = "cpu";
    snprintf(key, sizeof key, "%p", (void *)t->storage);
    tpi_store *s = tpi_file_store(f, key);
    if (s) {
        s->untyped |= s->dtype != (tp_dtype)t->dtype;
        return s;
    }
    tp_device d = tpi_device(t);
    if (d.type != TP_CPU) snprintf(location, sizeof location, "%s:%d", d.type == TP_XPU ? "xpu" : "cuda", d.index);
    s = tpi_arena_new(&f->arena, sizeof *s);
    if (!s) return NULL;
    size_t item = tpi_itemsize(t);
    *s = (tpi_store){.key = tpi_arena_text(&f->arena, key, strlen(key)),
                     .location = tpi_arena_text(&f->arena, location, strlen(location)),
                     .dtype = (tp_dtype)t->dtype,
                     .dtype_name = tp_dtype_name((tp_dtype)t->dtype),
                     .numel = (int64_t)(t->storage->bytes / item),
                     .bytes = (int64_t)t->storage->bytes,
                     .untyped = !tpi_has_storage_class((tp_dtype)t->dtype),
                     .file = f};
    if (!s->key || !s->location || !tpi_file_add_store(f, s)) return NULL;
    s->storage = tpi_storage_retain(t->storage);
    return s;
}

static tp_saved *tensor_value(tp_file *f, tp_tensor *t) {
    if (!tpi_is_tensor(t, "t")) return NULL;
    tpi_store *store = store_of(f, t);
    tp_saved *v = store ? tpi_saved_new(&f->arena, TP_SAVED_TENSOR) : NULL,
             *s = v ? tpi_saved_new(&f->arena, TP_SAVED_STORAGE) : NULL;
    tpi_view *view = s ? tpi_arena_new(&f->arena, sizeof *view) : NULL;
    int64_t *sizes = view ? tpi_arena_new(&f->arena, (size_t)(2 * t->ndim + 1) * sizeof *sizes) : NULL;
    if (!sizes) return NULL;
    s->as.storage.store = store;
    s->as.storage.numel = store->numel;
    *view = (tpi_view){.storage = s,
                       .offset = tpi_offset(t),
                       .conjugated = tp_is_conj(t),
                       .negated = tp_is_neg(t),
                       .ndim = t->ndim,
                       .shape = sizes,
                       .strides = sizes + t->ndim,
                       .dtype = (tp_dtype)t->dtype,
                       .dtype_name = tp_dtype_name((tp_dtype)t->dtype),
                       .requires_grad = t->requires_grad};
    for (int i = 0; i < t->ndim; i++) {
        view->shape[i] = t->shape[i];
        view->strides[i] = t->strides[i];
    }
    v->as.view = view;
    return v;
}

bool tp_put_tensor(tp_file *f, tp_saved *into, const char *key, tp_tensor *t) {
    tp_saved *v = TPI_GIVEN(f, "a file") ? tensor_value(f, t) : NULL;
    if (f && !v) f->failed = true;
    return v && put_value(f, into, key, v);
}

/* ---- Saving ----
 */

typedef struct numbering { /* storages in the order of their first mention */
    tp_storage **v;
    const tpi_store **stores;
    size_t n, capacity;
    char last[24];
} numbering;

static const char *number_of(void *context, const tp_saved *storage) {
    numbering *all = context;
    tpi_store *store = storage->as.storage.store;
    for (size_t i = 0; i < all->n; i++)
        if (all->stores[i] == store) {
            snprintf(all->last, sizeof all->last, "%zu", i);
            return all->last;
        }
    tp_storage *s = tp_saved_storage(storage);
    if (!s) return NULL;
    tp_storage_release(s); /* its store keeps it */
    all->v[all->n] = s;
    all->stores[all->n] = store;
    snprintf(all->last, sizeof all->last, "%zu", all->n++);
    return all->last;
}

static char *archive_name(const char *path) { /* the file's name without folders and ending, as PyTorch names it */
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    char *copy = tpi_strdup(name[0] && dot != name ? name : "archive");
    if (copy && dot && dot != name) copy[dot - name] = 0;
    return copy;
}

static bool write_value(tp_file *f, const tp_saved *v, const char *path, const tp_sink *sink, const char *archive) {
    numbering all = {.v = tpi_malloc((size_t)(f->nstores + 1) * sizeof *all.v),
                     .stores = tpi_malloc((size_t)(f->nstores + 1) * sizeof *all.stores)};
    tpi_wire pickle = {0};
    bool ok = all.v && all.stores && tpi_pickle_write(&pickle, v, path, number_of, &all, false) &&
              tp_write_pt(path, sink, archive, pickle.data, (int64_t)pickle.n, (int64_t)all.n, all.v);
    tpi_wire_free(&pickle);
    tpi_mfree(all.v);
    tpi_mfree(all.stores);
    return ok;
}

bool tp_save_value(tp_file *f, const tp_saved *value, const char *path, const tp_sink *sink) {
    if (TPI_ENDED(f, "a file")) return false;
    TPI_STOP_ON_ERROR(false);
    if (!f || !path || !path[0])
        return tpi_refuse(TP_ERR_VALUE, f ? "argument 'path': expected a file's name, got none"
                                          : "argument 'file': expected a file, got NULL");
    if (f->failed) return tpi_refuse(TP_ERR_RUNTIME, "'%s': something could not be put into it", path);
    const tp_saved *v = value ? value : tp_file_value(f);
    char *name = v ? archive_name(path) : NULL;
    bool ok = name && write_value(f, v, path, sink, name);
    tpi_mfree(name);
    return ok;
}

bool tp_save_file(tp_file *f, const char *path) { return tp_save_value(f, NULL, path, NULL); }

bool tpi_pt_write_tensor(const tp_sink *sink, tp_tensor *t) {
    tp_file *f = tp_new_file();
    const tp_saved *v = TPI_GIVEN(f, "a file") ? tensor_value(f, t) : NULL;
    bool ok = v && write_value(f, v, "archive", sink, "archive");
    tp_close_file(f);
    return ok;
}

bool tpi_pt_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    tp_file *f = tp_new_file();
    bool ok = f != NULL;
    if (ok) f->value->class_name = "collections.OrderedDict"; /* as state_dict() gives */
    for (int64_t i = 0; ok && i < n; i++) ok = tp_put_tensor(f, NULL, names[i], tensors[i]);
    ok = ok && tp_save_file(f, path);
    tp_close_file(f);
    return ok;
}
