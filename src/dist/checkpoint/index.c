/* The index of a sharded checkpoint, .metadata: a pickle of the objects that torch.distributed.checkpoint has there.
 * Reading makes no objects: it looks for the fields that say which boxes a tensor was saved in and where each is. */
#include <stdio.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/checkpoint/sharded.h"
#include "io/checkpoint/checkpoint.h"
#include "io/file.h"

#define CLASSES "torch.distributed.checkpoint.metadata."

char *tpi_path_in(tpi_arena *a, const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = tpi_arena_new(a, size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* ---- Writing ---- */
static tp_saved *object(tpi_arena *a, const char *class_name, tp_saved *args, bool by_new, tp_saved *state) {
    tp_saved *v = tpi_saved_new(a, TP_SAVED_OBJECT), *call = v ? tpi_name_value(a, TP_SAVED_GLOBAL, class_name) : NULL;
    if (!call || !args || !tpi_saved_parts(a, v)) return NULL;
    *v->parts = (tpi_parts){.call = call, .args = args, .state = state, .by_new = by_new};
    return v;
}

/* An object of a class with fields: their names and values in turn, after the first argument NULL-terminated. */
static tp_saved *record(tpi_arena *a, const char *class_name, int n, const char *const *names,
                        tp_saved *const *values) {
    tp_saved *state = tpi_saved_new(a, TP_SAVED_DICT);
    for (int i = 0; state && i < n; i++) {
        tp_saved *key = tpi_name_value(a, TP_SAVED_TEXT, names[i]);
        if (!key || !values[i] || !tpi_saved_put(a, state, key, values[i])) state = NULL;
    }
    return state ? object(a, class_name, tpi_saved_new(a, TP_SAVED_TUPLE), true, state) : NULL;
}
#define FIELDS(...) \
    (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]) { __VA_ARGS__ }
#define VALUES(...) \
    (tp_saved *[]) { __VA_ARGS__ }

static tp_saved *none(tpi_arena *a) { return tpi_saved_new(a, TP_SAVED_NONE); }
static tp_saved *size_value(tpi_arena *a, const int64_t *v, int n) { return tpi_sizes_value(a, TP_SAVED_SIZE, v, n); }
static tp_saved *number(tpi_arena *a, tp_scalar s) { return tpi_saved_number(a, s); }

static tp_saved *properties(tpi_arena *a, const tpi_box *b) {
    int64_t strides[TP_MAX_DIMS + 1];
    strides[b->ndim] = 1;
    for (int i = b->ndim - 1; i >= 0; i--)
        strides[i] = i == b->ndim - 1 ? 1 : strides[i + 1] * (b->size[i + 1] > 1 ? b->size[i + 1] : 1);
    tp_saved *strided = tpi_name_value(a, TP_SAVED_TEXT, "torch.strided");
    tp_saved *layout =
        strided ? object(a, "torch.serialization._get_layout", TPI_TUPLE(a, strided), false, NULL) : NULL;
    tp_saved *format = object(a, CLASSES "_MEM_FORMAT_ENCODING", TPI_TUPLE(a, number(a, tp_int(0))), false, NULL);
    tp_saved *state =
        TPI_TUPLE(a, tpi_name_value(a, TP_SAVED_DTYPE, tp_dtype_name(b->dtype)), layout, number(a, tp_truth(false)),
                  format, number(a, tp_truth(false)), tpi_sizes_value(a, TP_SAVED_TUPLE, strides, b->ndim));
    return state ? object(a, CLASSES "TensorProperties", tpi_saved_new(a, TP_SAVED_TUPLE), true, state) : NULL;
}

static tp_saved *tensor_entry(tpi_arena *a, const tpi_item *items, int64_t n) {
    const tpi_box *first = &items->box;
    tp_saved *chunks = tpi_saved_new(a, TP_SAVED_LIST);
    for (int64_t i = 0; chunks && i < n; i++) {
        const tpi_box *b = &items[i].box;
        tp_saved *chunk = record(a, CLASSES "ChunkStorageMetadata", FIELDS("offsets", "sizes"),
                                 VALUES(size_value(a, b->offset, b->ndim), size_value(a, b->size, b->ndim)));
        if (!chunk || !tpi_saved_append(a, chunks, chunk)) chunks = NULL;
    }
    return record(a, CLASSES "TensorStorageMetadata", FIELDS("properties", "size", "chunks"),
                  VALUES(properties(a, first), size_value(a, first->whole, first->ndim), chunks));
}

static bool put_location(tpi_arena *a, tp_saved *locations, const tpi_item *item) {
    const tpi_box *b = &item->box;
    tp_saved *key =
        record(a, CLASSES "MetadataIndex", FIELDS("fqn", "offset", "index"),
               VALUES(tpi_name_value(a, TP_SAVED_TEXT, b->name), size_value(a, b->offset, b->ndim), none(a)));
    tp_saved *info = record(a, "torch.distributed.checkpoint.filesystem._StorageInfo",
                            FIELDS("relative_path", "offset", "length", "transform_descriptors"),
                            VALUES(tpi_name_value(a, TP_SAVED_TEXT, item->file), number(a, tp_int(item->at)),
                                   number(a, tp_int(item->bytes)), none(a)));
    return key && info && tpi_saved_put(a, locations, key, info);
}

static tp_saved *index_of(tpi_arena *a, const char *folder, const tpi_items *items) {
    tp_saved *about = tpi_saved_new(a, TP_SAVED_DICT), *paths = tpi_saved_new(a, TP_SAVED_DICT),
             *locations = tpi_saved_new(a, TP_SAVED_DICT);
    bool ok = about && paths && locations;
    for (int64_t i = 0, count; ok && i < items->n; i += count) {
        const char *name = items->v[i].box.name;
        tpi_items_named(items, name, &count);
        tp_saved *key = tpi_name_value(a, TP_SAVED_TEXT, name), *entry = tensor_entry(a, &items->v[i], count),
                 *path = key ? TPI_TUPLE(a, key) : NULL;
        ok = entry && path && tpi_saved_put(a, about, key, entry) && tpi_saved_put(a, paths, key, path);
        for (int64_t k = i; ok && k < i + count; k++) ok = put_location(a, locations, &items->v[k]);
    }
    if (!ok) return NULL;
    tp_saved *meta =
        record(a, CLASSES "StorageMeta", FIELDS("checkpoint_id", "save_id", "load_id", "modules"),
               VALUES(tpi_name_value(a, TP_SAVED_TEXT, folder), none(a), none(a), tpi_saved_new(a, TP_SAVED_LIST)));
    return record(a, CLASSES "Metadata",
                  FIELDS("state_dict_metadata", "planner_data", "storage_data", "storage_meta", "version"),
                  VALUES(about, paths, locations, meta, tpi_name_value(a, TP_SAVED_TEXT, "1.0.0")));
}

bool tpi_index_write(tpi_arena *a, const char *folder, const tpi_items *items) {
    char *path = tpi_path_in(a, folder, ".metadata");
    tp_saved *index = path ? index_of(a, folder, items) : NULL;
    tpi_wire pickle = {0};
    bool ok = index && tpi_pickle_write(&pickle, index, path, NULL, NULL, true);
    int64_t bytes = (int64_t)pickle.n;
    ok = ok && tp_write_pieces(path, 1, (const void *const[]){pickle.data}, &bytes);
    tpi_wire_free(&pickle);
    return ok;
}

/* ---- Reading ---- */
static const tp_saved *state_of(const tp_saved *v) {
    return v && v->kind == TP_SAVED_OBJECT && v->parts ? v->parts->state : NULL;
}

static const tp_saved *field(const tp_saved *v, const char *name) {
    const tp_saved *state = state_of(v);
    return state && state->kind == TP_SAVED_DICT && tp_saved_has(state, name) ? tp_saved_get(state, name) : NULL;
}

static bool is_a(const tp_saved *v, const char *class_name) {
    size_t n = v && v->class_name ? strlen(v->class_name) : 0, k = strlen(class_name);
    return v && v->kind == TP_SAVED_OBJECT && n >= k && strcmp(v->class_name + n - k, class_name) == 0;
}

static const char *text_of(const tp_saved *v) {
    return v && v->kind == TP_SAVED_TEXT && strlen(v->as.text) == (size_t)v->n ? v->as.text : NULL;
}

static bool is_within(const tpi_box *b) { /* and can be counted */
    for (int i = 0; i < b->ndim; i++)
        if (b->offset[i] < 0 || b->size[i] < 0 || b->whole[i] < b->size[i] || b->offset[i] > b->whole[i] - b->size[i])
            return false;
    return tpi_numel_of(tp_ints_view(b->whole, b->ndim)) >= 0;
}

static bool boxes_of(tpi_arena *a, const char *name, const tp_saved *entry, const tp_saved *chunks, tpi_items *items) {
    int ndim, n, m;
    const int64_t *whole = tpi_sizes_of(a, field(entry, "size"), &ndim);
    for (int64_t i = 0; whole && i < tp_saved_count(chunks); i++) {
        tpi_box b = {.name = name, .ndim = ndim, .whole = whole};
        const tp_saved *chunk = tp_saved_at(chunks, i);
        b.offset = tpi_sizes_of(a, field(chunk, "offsets"), &n);
        b.size = b.offset ? tpi_sizes_of(a, field(chunk, "sizes"), &m) : NULL;
        if (!b.size || n != ndim || m != ndim)
            return tp_ok() ? tpi_refuse(TP_ERR_VALUE, "'%s': a part has other dims than the whole", name) : false;
        if (!is_within(&b))
            return tp_ok() ? tpi_refuse(TP_ERR_VALUE, "'%s': a part lies outside of the whole", name) : false;
        items->v[items->n++] = (tpi_item){.box = b};
    }
    return whole;
}

/* What was saved: an item for each box of a tensor, and for each value that is no tensor. */
static bool read_items(tpi_arena *a, const tp_saved *about, tpi_items *items) {
    int64_t most = 0;
    for (int64_t i = 0; i < tp_saved_count(about); i++) {
        const tp_saved *chunks = field(tp_saved_at(about, i), "chunks");
        most += chunks && chunks->kind == TP_SAVED_LIST ? chunks->n : 1;
    }
    *items = (tpi_items){tpi_arena_new(a, sizeof *items->v * (size_t)(most + 1)), 0};
    for (int64_t i = 0; items->v && i < tp_saved_count(about); i++) {
        const char *name = text_of(tp_saved_key_at(about, i));
        const tp_saved *entry = tp_saved_at(about, i), *chunks = field(entry, "chunks");
        bool tensor = is_a(entry, "TensorStorageMetadata") && chunks && chunks->kind == TP_SAVED_LIST;
        if (!name || (!tensor && !is_a(entry, "BytesStorageMetadata")))
            return tpi_refuse(TP_ERR_VALUE, "'%s' is neither a tensor nor a value", name ? name : "something");
        if (!tensor)
            items->v[items->n++] = (tpi_item){.box = {.name = name, .ndim = -1}};
        else if (!boxes_of(a, name, entry, chunks, items))
            return false;
    }
    if (items->v) tpi_items_sort(items);
    return items->v;
}

static bool is_inside(const char *file) { /* a name in the folder, not a way out of it */
    return file && file[0] && file[0] != '/' && !strstr(file, "..");
}

static bool read_location(tpi_arena *a, const tp_saved *key, const tp_saved *info, const tpi_items *items) {
    const char *name = text_of(field(key, "fqn")), *file = text_of(field(info, "relative_path"));
    const tp_saved *offset = field(key, "offset"), *at = field(info, "offset"), *bytes = field(info, "length");
    if (!name || !is_inside(file) || !tpi_is_int(at) || !tpi_is_int(bytes))
        return tpi_refuse(TP_ERR_VALUE, "the place of '%s' is not a part of a file", name ? name : "something");
    tpi_box wanted = {.name = name, .ndim = 0};
    if (offset && offset->kind != TP_SAVED_NONE && !(wanted.offset = tpi_sizes_of(a, offset, &wanted.ndim)))
        return false;
    int64_t count, first = tpi_items_named(items, name, &count);
    for (int64_t i = first; i < first + count; i++)
        if (tpi_box_order(&wanted, &items->v[i].box) == 0) {
            items->v[i].file = file;
            items->v[i].at = at->as.number.as.i;
            items->v[i].bytes = bytes->as.number.as.i;
        }
    return true;
}

static bool read_index(tpi_arena *a, const char *path, const tp_tensor *bytes, tpi_items *items) {
    tpi_pickle reader = {.arena = a, .path = path, .any_global = true};
    tp_saved *index = tpi_pickle_read(&reader, (const unsigned char *)bytes->data, (size_t)bytes->numel, NULL, NULL);
    if (!index) return false;
    const tp_saved *about = field(index, "state_dict_metadata"), *locations = field(index, "storage_data");
    if (!about || !locations || about->kind != TP_SAVED_DICT || locations->kind != TP_SAVED_DICT)
        return tpi_refuse(TP_ERR_VALUE, "it is not the index of a checkpoint");
    if (!read_items(a, about, items)) return false;
    for (int64_t i = 0; i < tp_saved_count(locations); i++)
        if (!read_location(a, tp_saved_key_at(locations, i), tp_saved_at(locations, i), items)) return false;
    return true;
}

bool tpi_index_read(tpi_arena *a, const char *folder, tpi_items *items) {
    char *path = tpi_path_in(a, folder, ".metadata"), said[512];
    tp_tensor *bytes = path ? tpi_read_file(path) : NULL;
    if (!bytes) {
        if (!path) return false;
        tp_error_clear();
        return tpi_refuse(TP_ERR_IO, "'%s' holds no complete checkpoint: there is no .metadata in it that can be read",
                          folder);
    }
    bool ok = read_index(a, path, bytes, items);
    tp_release(bytes);
    if (ok) return true;
    tp_code code = tp_error_code();
    snprintf(said, sizeof said, "%s", tp_error());
    tp_error_clear();
    return tpi_refuse(code, "'%s': %s", path, said);
}
