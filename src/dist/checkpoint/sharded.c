/* Saving and loading of sharded checkpoints (taper/checkpoint.h says what they promise). Ranks tell each other what
 * they have and work out the same plan; each writes its part, __RANK_NUMBER.distcp, archives one after the other; when
 * all have, rank 0 writes the index and removes what was there before. */
#include <dirent.h>
#include "tensor/check_arguments.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/checkpoint/sharded.h"
#include "io/checkpoint/checkpoint.h"
#include "io/file_writer.h"
#include "tensor/storage.h"

/* ---- The folder ---- */
static bool make_folder(tpi_arena *a, const char *folder) {
    char *path = tpi_arena_text(a, folder, strlen(folder));
    for (char *slash = path ? strchr(path + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    if (!path) return false;
    struct stat found;
    return mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &found) == 0 && S_ISDIR(found.st_mode)) ||
           tpi_refuse(TP_ERR_IO, "could not make the folder '%s': %s", folder, strerror(errno));
}

/* The number of a save in the name of one of its parts, also of one that never was finished (".__0_1.distcp.part"); -1:
 * it is no such name. */
static int part_number(const char *name) {
    int rank, number, end = 0;
    name += *name == '.';
    return sscanf(name, "__%d_%d.distcp%n", &rank, &number, &end) == 2 && end &&
                   (!name[end] || strcmp(name + end, ".part") == 0)
               ? number
               : -1;
}

/* Calls `with` for each part in the folder. */
static void each_part(const char *folder, void (*with)(void *context, int folder_fd, const char *name), void *context) {
    DIR *open = opendir(folder);
    for (struct dirent *one; open && (one = readdir(open));)
        if (part_number(one->d_name) >= 0) with(context, dirfd(open), one->d_name);
    if (open) closedir(open);
}

static void see_number(void *context, int folder, const char *name) {
    (void)folder;
    int *next = context;
    if (part_number(name) >= *next) *next = part_number(name) + 1;
}

static void remove_old(void *context, int folder, const char *name) {
    if (part_number(name) != *(int *)context || name[0] == '.') unlinkat(folder, name, 0);
}

/* ---- Saving ---- */
typedef struct save {
    tpi_arena arena;
    tpi_messages talk;
    const char *folder;
    int number; /* of this save among those to the folder: its parts have names of their own, the checkpoint before
                   stays whole */
    tpi_items items;
    tp_tensor **mine; /* for each item that this rank writes */
} save;

static void save_end(save *s) {
    for (int64_t i = 0; s->mine && i < s->items.n; i++) tp_release(s->mine[i]);
    tpi_arena_free(&s->arena);
}

/* The part without history, in memory of the CPU that holds nothing else; with `copy`, in memory of its own. Owned. */
static tp_tensor *plain(tp_tensor *t, bool copy) {
    bool fits = !copy && tpi_device(t).type == TP_CPU && tp_is_contiguous(t) &&
                (int64_t)t->storage->bytes == t->numel * (int64_t)tpi_itemsize(t);
    if (fits) return tpi_tensor_over(tpi_storage_retain(t->storage), (tp_dtype)t->dtype, tpi_shape(t), tp_no_ints(), 0);
    tp_tensor *here = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    if (here && tpi_copy_data(here, t)) return here;
    tp_release(here);
    return NULL;
}

static tp_saved *tell(save *s, int64_t n, const tp_shard *shards) {
    if (!tpi_shards_check(n, shards) || !make_folder(&s->arena, s->folder)) return NULL;
    if (s->talk.rank == 0) each_part(s->folder, see_number, &s->number);
    return TPI_TUPLE(&s->arena, tpi_saved_number(&s->arena, tp_int(s->number)), tpi_boxes_tell(&s->arena, n, shards));
}

/* What is to be written by this rank; nothing has been yet. All ranks fail if one does. */
static bool plan(save *s, const char *folder, tp_group *group, int64_t n, const tp_shard *shards, bool copy) {
    *s = (save){0};
    if (!folder || !folder[0]) return tpi_refuse(TP_ERR_VALUE, "argument 'folder': expected a folder's name, got none");
    if (!tpi_messages_in(&s->talk, group) || !(s->folder = tpi_arena_text(&s->arena, folder, strlen(folder))))
        return false;
    tp_saved **told = tpi_messages_all(&s->talk, &s->arena, tell(s, n, shards));
    if (!told) return false;
    s->number = (int)told[0]->as.items.v[0]->as.number.as.i;
    for (int i = 0; i < s->talk.size; i++) told[i] = told[i]->as.items.v[1];
    if (!tpi_boxes_plan(&s->arena, &s->talk, told, &s->items)) return false;
    s->mine = tpi_arena_new(&s->arena, sizeof *s->mine * (size_t)(s->items.n + 1));
    bool ok = s->mine;
    for (int64_t i = 0; ok && i < s->items.n; i++)
        if (s->items.v[i].writer == s->talk.rank) ok = (s->mine[i] = plain(shards[s->items.v[i].mine].part, copy));
    return tpi_messages_all(&s->talk, &s->arena, ok ? tpi_saved_new(&s->arena, TP_SAVED_NONE) : NULL);
}

static char *part_name(save *s, int rank) {
    char name[64];
    int n = snprintf(name, sizeof name, "__%d_%d.distcp", rank, s->number);
    return tpi_arena_text(&s->arena, name, (size_t)n);
}

static bool into_part(void *context, const void *data, size_t bytes) { return tpi_writer_write(context, data, bytes); }

/* Writes this rank's part; a list of (item, offset, length), or NULL and an error. */
static tp_saved *write_part(save *s) {
    tpi_arena *a = &s->arena;
    char *name = part_name(s, s->talk.rank), *path = name ? tpi_path_in(a, s->folder, name) : NULL;
    tp_saved *locations = path ? tpi_saved_new(a, TP_SAVED_LIST) : NULL;
    tpi_file_writer out;
    bool any = false, ok = locations;
    for (int64_t i = 0; ok && i < s->items.n; i++) {
        if (!s->mine[i]) continue;
        if (!any && !(ok = any = tpi_writer_open(&out, path))) break;
        int64_t at = (int64_t)out.at;
        ok = tpi_pt_write_tensor(&(tp_sink){into_part, &out}, s->mine[i]);
        tp_saved *location =
            ok ? tpi_sizes_value(a, TP_SAVED_TUPLE, (int64_t[]){i, at, (int64_t)out.at - at}, 3) : NULL;
        ok = location && tpi_saved_append(a, locations, location);
    }
    if (any && !ok)
        tpi_writer_abandon(&out);
    else if (any)
        ok = tpi_writer_commit(&out);
    return ok ? locations : NULL;
}

static bool note_locations(save *s, tp_saved *const *told) {
    for (int rank = 0; rank < s->talk.size; rank++) {
        const char *file = part_name(s, rank);
        if (!file) return false;
        for (int64_t i = 0; i < tp_saved_count(told[rank]); i++) {
            int n;
            const int64_t *location = tpi_sizes_of(&s->arena, tp_saved_at(told[rank], i), &n);
            if (!location || n != 3 || location[0] >= s->items.n)
                return tpi_refuse(TP_ERR_IO, "rank %d told of a place that is none", rank);
            tpi_item *item = &s->items.v[location[0]];
            item->file = file;
            item->at = location[1];
            item->bytes = location[2];
        }
    }
    return true;
}

static bool write_all(save *s) {
    tp_saved **told = tpi_messages_all(&s->talk, &s->arena, write_part(s));
    if (!told) return false;
    bool ok = s->talk.rank != 0 || (note_locations(s, told) && tpi_index_write(&s->arena, s->folder, &s->items));
    if (!tpi_messages_all(&s->talk, &s->arena, ok ? tpi_saved_new(&s->arena, TP_SAVED_NONE) : NULL)) return false;
    if (s->talk.rank == 0) each_part(s->folder, remove_old, &s->number);
    return true;
}

bool tp_checkpoint_save(const char *folder, tp_group *group, int64_t n, const tp_shard *shards) {
    if (TPI_ENDED(group, "a group")) return false;
    save s;
    if (!tp_ok()) return false;
    bool ok = plan(&s, folder, group, n, shards, false) && write_all(&s);
    save_end(&s);
    return ok;
}

/* ---- In the background ---- */
struct tp_saving {
    save save;
    tp_group *own; /* NULL: the caller's */
    pthread_t thread;
    atomic_bool done;
    bool ok;
    tp_code code;
    char error[768];
};

static void *saving_main(void *context) {
    tp_saving *s = context;
    s->ok = write_all(&s->save);
    if (!s->ok) {
        s->code = tp_error_code();
        snprintf(s->error, sizeof s->error, "%s", tp_error());
        tp_error_clear();
    }
    s->done = true;
    return NULL;
}

static tp_group *group_of_all(void) {
    int n = tp_group_size(NULL);
    int64_t *ranks = tpi_malloc(sizeof *ranks * (size_t)n);
    for (int i = 0; ranks && i < n; i++) ranks[i] = i;
    tp_group *g = ranks ? tp_group_new(tp_ints_view(ranks, n), 0, "checkpoint") : NULL;
    tpi_mfree(ranks);
    return g;
}

static void saving_free(tp_saving *s) {
    save_end(&s->save);
    tp_group_free(s->own);
    tpi_mfree(s);
}

tp_saving *tp_checkpoint_save_async(const char *folder, tp_group *group, int64_t n, const tp_shard *shards) {
    if (TPI_ENDED(group, "a group")) return NULL;
    tp_saving *s = tp_ok() ? tpi_malloc(sizeof *s) : NULL;
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    bool alone = !group && !tp_dist_world();
    if (!group && !alone && !(group = s->own = group_of_all())) {
        tpi_mfree(s);
        return NULL;
    }
    bool ok = plan(&s->save, folder, group, n, shards, true);
    int error = ok ? pthread_create(&s->thread, NULL, saving_main, s) : 0;
    if (error) ok = tpi_refuse(TP_ERR_MEMORY, "cannot start a thread: %s", strerror(error));
    if (ok) return s;
    saving_free(s);
    return NULL;
}

bool tp_saving_done(const tp_saving *s) { return !s || s->done; }

bool tp_saving_wait(tp_saving *s) {
    if (!s) return tp_ok() ? tpi_refuse(TP_ERR_TYPE, "argument 'saving': expected a saving, got NULL") : false;
    pthread_join(s->thread, NULL);
    bool ok = s->ok || tpi_refuse(s->code, "%s", s->error);
    saving_free(s);
    return ok;
}

/* ---- Loading ---- */
/* The part of t from an index on, of that size. Owned. */
static tp_tensor *box_in(tp_tensor *t, const int64_t *from, const int64_t *size) {
    int64_t at = tpi_offset(t);
    for (int i = 0; i < t->ndim; i++) at += from[i] * t->strides[i];
    return tpi_tensor_over(tpi_storage_retain(t->storage), (tp_dtype)t->dtype, tp_ints_view(size, t->ndim),
                           tp_ints_view(t->strides, t->ndim), at * (int64_t)tpi_itemsize(t));
}

/* A part of a file; its memory is taken when the file was found to have as much. For tpi_mfree. */
static char *read_bytes(const char *path, int64_t at, int64_t bytes) {
    tpi_source file;
    if (!tpi_source_open(&file, path)) return NULL;
    bool fits = at >= 0 && bytes >= 0 && (uint64_t)at <= file.bytes && (uint64_t)bytes <= file.bytes - (uint64_t)at;
    if (!fits)
        tpi_fail(TP_ERR_IO, "it ends after %llu bytes: the index says that it has %lld from byte %lld on",
                 (unsigned long long)file.bytes, (long long)bytes, (long long)at);
    char *out = fits ? tpi_malloc((size_t)bytes + 1) : NULL;
    bool ok = out && tpi_source_read(&file, (uint64_t)at, out, (size_t)bytes);
    tpi_source_close(&file);
    if (!ok) tpi_mfree(out);
    return ok ? out : NULL;
}

static bool overlap(const tpi_box *a, const tpi_box *b, int64_t in_a[], int64_t in_b[], int64_t size[]) {
    const tp_box_place x = {a->offset, a->size}, y = {b->offset, b->size};
    return tp_box_overlap(a->ndim, &x, &y, in_a, in_b, size);
}

static bool fill_from(tp_tensor *into, const tpi_box *wanted, const tpi_item *item, const tp_saved *value,
                      int64_t *filled) {
    int64_t in_wanted[TP_MAX_DIMS], in_saved[TP_MAX_DIMS], size[TP_MAX_DIMS], n = 1;
    if (item->box.ndim < 0) {
        if (tp_saved_kind_of(value) != TP_SAVED_NUMBER || into->numel != 1)
            return tpi_refuse(TP_ERR_VALUE, "it is %s, which fills no tensor of shape %s", tpi_kind_name(value),
                              tpi_shape_text(tpi_shape(into)));
        *filled = 1;
        return tpi_fill_data(into, tp_saved_number(value));
    }
    tp_tensor *saved = tp_own(tp_saved_tensor(value));
    if (!saved) return false;
    bool ok = saved->ndim == item->box.ndim;
    for (int i = 0; ok && i < saved->ndim; i++) ok = saved->shape[i] == item->box.size[i];
    if (!ok)
        tpi_fail(TP_ERR_VALUE, "it has shape %s: the index says %s", tpi_shape_text(tpi_shape(saved)),
                 tpi_shape_text(tp_ints_view(item->box.size, item->box.ndim)));
    ok = ok && overlap(wanted, &item->box, in_wanted, in_saved, size);
    tp_tensor *to = ok ? box_in(into, in_wanted, size) : NULL, *from = to ? box_in(saved, in_saved, size) : NULL;
    ok = from && tpi_copy_data(to, from);
    for (int i = 0; i < wanted->ndim; i++) n *= ok ? size[i] : 0;
    *filled += n;
    tp_release(from);
    tp_release(to);
    tp_release(saved);
    return ok;
}

/* Copies what a box that was saved has of the one that is wanted. */
static bool read_item(tpi_arena *a, const char *folder, tp_tensor *into, const tpi_box *wanted, const tpi_item *item,
                      int64_t *filled) {
    if (!item->file)
        return tpi_refuse(TP_ERR_VALUE, "'%s': the index of '%s' does not say where a part of it is", item->box.name,
                          folder);
    char *path = tpi_path_in(a, folder, item->file), said[512];
    if (!path) return false;
    char *bytes = read_bytes(path, item->at, item->bytes);
    tp_file_options options = {.size = sizeof options, .memory = bytes, .memory_bytes = item->bytes};
    tp_file *file = bytes ? tp_open_file(path, &options) : NULL;
    const tp_saved *value = file ? tp_file_value(file) : NULL;
    bool ok = value && fill_from(into, wanted, item, value, filled);
    tp_close_file(file);
    tpi_mfree(bytes);
    if (ok) return true;
    tp_code code = tp_error_code();
    snprintf(said, sizeof said, "%s", tp_error());
    tp_error_clear();
    return tpi_refuse(code, "'%s' in '%s': %s", item->box.name, path, said);
}

static bool same_whole(const tpi_box *a, const tpi_box *b) {
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++) same = a->whole[i] == b->whole[i];
    return same;
}

/* What is wanted, in memory of its own. Owned. */
static tp_tensor *read_shard(tpi_arena *a, const char *folder, const tpi_items *items, const tp_shard *shard) {
    int64_t count, first = tpi_items_named(items, shard->name, &count), filled = 0, sizes[3][TP_MAX_DIMS];
    tpi_box wanted = tpi_box_of(shard);
    if (!count) return tpi_fail(TP_ERR_VALUE, "the checkpoint '%s' holds no '%s'", folder, shard->name);
    const tpi_box *saved = &items->v[first].box;
    if (saved->ndim >= 0 && !same_whole(&wanted, saved)) {
        char was[128];
        snprintf(was, sizeof was, "%s", tpi_shape_text(tp_ints_view(saved->whole, saved->ndim)));
        return tpi_fail(TP_ERR_VALUE, "'%s' in the checkpoint '%s' has shape %s, expected %s", shard->name, folder, was,
                        tpi_shape_text(tp_ints_view(wanted.whole, wanted.ndim)));
    }
    tp_tensor *into = tpi_empty(tpi_shape(shard->part), (tp_dtype)shard->part->dtype, (tp_device){TP_CPU, 0});
    bool ok = into;
    for (int64_t i = first; ok && i < first + count; i++)
        if (saved->ndim < 0 || overlap(&wanted, &items->v[i].box, sizes[0], sizes[1], sizes[2]))
            ok = read_item(a, folder, into, &wanted, &items->v[i], &filled);
    if (ok && filled < into->numel)
        ok = tpi_refuse(TP_ERR_VALUE,
                        "the checkpoint '%s' has only %lld of the %lld elements of '%s' that this rank asks for",
                        folder, (long long)filled, (long long)into->numel, shard->name);
    if (ok) return into;
    tp_release(into);
    return NULL;
}

static bool read_shards(tpi_arena *a, const char *folder, int64_t n, const tp_shard *shards, tp_tensor **read) {
    tpi_items items;
    if (!folder || !folder[0]) return tpi_refuse(TP_ERR_VALUE, "argument 'folder': expected a folder's name, got none");
    if (!read || !tpi_shards_check(n, shards) || !tpi_index_read(a, folder, &items)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (tpi_overlaps_itself(shards[i].part))
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "argument 'shards': the tensor for '%s' is expanded: several of its elements share memory",
                shards[i].name);
        if (!(read[i] = read_shard(a, folder, &items, &shards[i]))) return false;
    }
    return true;
}

bool tp_checkpoint_load(const char *folder, tp_group *group, int64_t n, const tp_shard *shards) {
    if (TPI_ENDED(group, "a group")) return false;
    tpi_arena arena = {0};
    tpi_messages talk;
    if (!tp_ok() || !TPI_LIST_GIVEN(shards, n) || !tpi_messages_in(&talk, group)) return false;
    tp_tensor **read = tpi_arena_new(&arena, sizeof *read * (size_t)((n > 0 ? n : 0) + 1));
    bool ok = read_shards(&arena, folder, n, shards, read);
    ok = tpi_messages_all(&talk, &arena, ok ? tpi_saved_new(&arena, TP_SAVED_NONE) : NULL);
    for (int64_t i = 0; ok && i < n; i++) {
        ok = tpi_copy_data(shards[i].part, read[i]);
        if (ok) tpi_touch(shards[i].part);
    }
    for (int64_t i = 0; read && i < n; i++) tp_release(read[i]);
    tpi_arena_free(&arena);
    return ok;
}
