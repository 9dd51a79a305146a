/* Values that were read from a file: making them, and what the user sees of them. */
#include "io/checkpoint/saved.h"
#include "base/error.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdio.h>

/* ---- The arena ---- */

typedef struct tpi_arena_block {
    struct tpi_arena_block *next;
    size_t capacity;
    _Alignas(16) char bytes[];
} tpi_arena_block;

enum { FIRST_BLOCK = 1 << 12, LARGEST_BLOCK = 1 << 20 };

void *tpi_arena_new(tpi_arena *a, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (a->most && bytes > a->most - a->taken)
        return tpi_fail(TP_ERR_VALUE, "a pickle takes more memory than its bytes can account for");
    if (a->capacity - a->used < bytes) {
        size_t capacity = a->capacity ? 2 * a->capacity : FIRST_BLOCK;
        if (capacity > LARGEST_BLOCK) capacity = LARGEST_BLOCK;
        if (capacity < bytes) capacity = bytes;
        tpi_arena_block *b = tpi_malloc(sizeof *b + capacity);
        if (!b) return NULL;
        b->next = a->blocks;
        b->capacity = capacity;
        a->blocks = b;
        a->used = 0;
        a->capacity = capacity;
    }
    void *p = a->blocks->bytes + a->used;
    a->used += bytes;
    a->taken += bytes;
    return memset(p, 0, bytes);
}

char *tpi_arena_text(tpi_arena *a, const void *text, size_t bytes) {
    char *copy = tpi_arena_new(a, bytes + 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* With TAPER_DEBUG=1 the blocks of files that were closed stay, so that their values are known. */
static tpi_arena_block *kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(tpi_arena_block *b) {
    pthread_mutex_lock(&lock);
    b->next = kept;
    kept = b;
    pthread_mutex_unlock(&lock);
}

void tpi_arena_free(tpi_arena *a) {
    for (tpi_arena_block *b = a->blocks; b;) {
        tpi_arena_block *next = b->next;
        if (tpi_debugging)
            keep(b);
        else
            tpi_mfree(b);
        b = next;
    }
    *a = (tpi_arena){0};
}

bool tpi_saved_gone(const tp_saved *v, const char *function) {
    bool gone = false;
    pthread_mutex_lock(&lock);
    for (const tpi_arena_block *b = kept; b && v && !gone; b = b->next)
        gone = (const char *)v >= b->bytes && (const char *)v < b->bytes + b->capacity;
    pthread_mutex_unlock(&lock);
    if (!gone) return false;
    const char *before = tpi_op_enter(function);
    tpi_fail(TP_ERR_VALUE, "argument 'v': expected a value of an open file, got one of a file that was closed before");
    tpi_op_leave(before);
    return true;
}

/* ---- Making nodes ---- */

tp_saved *tpi_saved_new(tpi_arena *a, tp_saved_kind kind) {
    tp_saved *v = tpi_arena_new(a, sizeof *v);
    if (v) v->kind = (uint8_t)kind;
    return v;
}

tp_saved *tpi_saved_number(tpi_arena *a, tp_scalar s) {
    tp_saved *v = tpi_saved_new(a, TP_SAVED_NUMBER);
    if (v) v->as.number = s;
    return v;
}

tp_saved *tpi_saved_text(tpi_arena *a, tp_saved_kind kind, const void *text, size_t bytes) {
    tp_saved *v = tpi_saved_new(a, kind);
    if (!v) return NULL;
    v->n = (int64_t)bytes;
    v->as.text = tpi_arena_text(a, text, bytes);
    return v->as.text ? v : NULL;
}

static bool reserve_values(tpi_arena *a, tp_saved *v, int64_t n) {
    if (n <= v->as.items.capacity) return true;
    int64_t capacity = v->as.items.capacity ? 2 * v->as.items.capacity : 4;
    if (capacity < n) capacity = n;
    tp_saved **larger = tpi_arena_new(a, (size_t)capacity * sizeof *larger);
    if (!larger) return false;
    if (v->as.items.capacity) memcpy(larger, v->as.items.v, (size_t)v->as.items.capacity * sizeof *larger);
    v->as.items.v = larger;
    v->as.items.capacity = capacity;
    return true;
}

bool tpi_saved_append(tpi_arena *a, tp_saved *list, tp_saved *item) {
    if (!item || !reserve_values(a, list, list->n + 1)) return false;
    list->as.items.v[list->n++] = item;
    return true;
}

bool tpi_saved_put(tpi_arena *a, tp_saved *dict, tp_saved *key, tp_saved *value) {
    if (!key || !value || !reserve_values(a, dict, 2 * dict->n + 2)) return false;
    dict->as.items.v[2 * dict->n] = key;
    dict->as.items.v[2 * dict->n + 1] = value;
    dict->n++;
    return true;
}

tpi_parts *tpi_saved_parts(tpi_arena *a, tp_saved *v) {
    if (!v->parts) v->parts = tpi_arena_new(a, sizeof *v->parts);
    return v->parts;
}

bool tpi_is_utf8(const char *text, size_t bytes) {
    const unsigned char *p = (const unsigned char *)text, *end = p + bytes;
    while (p < end) {
        int more = *p < 0x80                 ? 0
                   : *p >= 0xc2 && *p < 0xe0 ? 1
                   : *p >= 0xe0 && *p < 0xf0 ? 2
                   : *p >= 0xf0 && *p < 0xf5 ? 3
                                             : -1;
        if (more < 0 || end - p <= more) return false;
        for (p++; more; more--)
            if ((*p++ & 0xc0) != 0x80) return false;
    }
    return true;
}

/* ---- What the user sees ---- */

static const char *const kind_names[] = {
    [TP_SAVED_NOTHING] = "nothing",     [TP_SAVED_NONE] = "None",        [TP_SAVED_NUMBER] = "a number",
    [TP_SAVED_LONG] = "a long integer", [TP_SAVED_TEXT] = "a text",      [TP_SAVED_BYTES] = "bytes",
    [TP_SAVED_LIST] = "a list",         [TP_SAVED_TUPLE] = "a tuple",    [TP_SAVED_SET] = "a set",
    [TP_SAVED_DICT] = "a dict",         [TP_SAVED_TENSOR] = "a tensor",  [TP_SAVED_STORAGE] = "a storage",
    [TP_SAVED_DTYPE] = "a dtype",       [TP_SAVED_DEVICE] = "a device",  [TP_SAVED_SIZE] = "a size",
    [TP_SAVED_GLOBAL] = "a global",     [TP_SAVED_OBJECT] = "an object",
};

const char *tpi_kind_name(const tp_saved *v) { return kind_names[tp_saved_kind_of(v)]; }

static void *expected(const char *what, const tp_saved *v) {
    return tpi_fail(TP_ERR_TYPE, "argument 'v': expected %s, got %s", what, tpi_kind_name(v));
}

static bool holds_items(const tp_saved *v) {
    return v->kind == TP_SAVED_LIST || v->kind == TP_SAVED_TUPLE || v->kind == TP_SAVED_SET || v->kind == TP_SAVED_SIZE;
}
static bool holds_text(const tp_saved *v) {
    return v->kind == TP_SAVED_TEXT || v->kind == TP_SAVED_BYTES || v->kind == TP_SAVED_DTYPE ||
           v->kind == TP_SAVED_DEVICE || v->kind == TP_SAVED_GLOBAL || v->kind == TP_SAVED_LONG;
}

tp_saved_kind tp_saved_kind_of(const tp_saved *v) {
    return v && !TPI_SAVED_GONE(v) ? (tp_saved_kind)v->kind : TP_SAVED_NOTHING;
}

int64_t tp_saved_count(const tp_saved *v) {
    if (TPI_SAVED_GONE(v)) return 0;
    return v && (holds_items(v) || holds_text(v) || v->kind == TP_SAVED_DICT) ? v->n : 0;
}

static const tp_saved *item(const tp_saved *v, int64_t i, bool key) {
    if (!v) return NULL;
    bool dict = v->kind == TP_SAVED_DICT;
    if (!dict && (key || !holds_items(v))) return expected(key ? "a dict" : "a dict, list, tuple or set", v);
    if (i < 0 || i >= v->n)
        return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)v->n - 1, (long long)i);
    return v->as.items.v[dict ? 2 * i + !key : i];
}
const tp_saved *tp_saved_at(const tp_saved *v, int64_t i) { return TPI_SAVED_GONE(v) ? NULL : item(v, i, false); }
const tp_saved *tp_saved_key_at(const tp_saved *v, int64_t i) { return TPI_SAVED_GONE(v) ? NULL : item(v, i, true); }

/* The newest pair of a key counts. */
static const tp_saved *find_text(const tp_saved *dict, const char *key) {
    for (int64_t i = dict->n; i-- > 0;)
        if (tpi_is_text(dict->as.items.v[2 * i], key)) return dict->as.items.v[2 * i + 1];
    return NULL;
}

/* ": 'model', 'epoch'", for a message: the first keys that are texts. */
static void list_keys(const tp_saved *dict, char *out, size_t capacity) {
    enum { SHOWN = 6 };
    size_t at = 0;
    int64_t shown = 0;
    out[0] = 0;
    for (int64_t i = 0; i < dict->n && shown < SHOWN; i++) {
        const tp_saved *key = dict->as.items.v[2 * i];
        if (key->kind != TP_SAVED_TEXT) continue;
        int more = snprintf(out + at, capacity - at, "%s'%.40s'", shown++ ? ", " : ": ", tp_saved_text(key));
        if (more < 0 || (size_t)more >= capacity - at) break;
        at += (size_t)more;
    }
    if (at && shown < dict->n && at + 6 < capacity) memcpy(out + at, ", ...", 6);
}

bool tp_saved_has(const tp_saved *v, const char *key) {
    return v && !TPI_SAVED_GONE(v) && v->kind == TP_SAVED_DICT && find_text(v, key);
}

const tp_saved *tp_saved_get(const tp_saved *v, const char *key) {
    if (TPI_SAVED_GONE(v)) return NULL;
    if (!v) return NULL;
    if (v->kind != TP_SAVED_DICT) return expected("a dict", v);
    const tp_saved *found = find_text(v, key);
    if (found) return found;
    char keys[160];
    list_keys(v, keys, sizeof keys);
    return tpi_fail(TP_ERR_VALUE, "there is no '%s' among the dict's %lld keys%s", key, (long long)v->n, keys);
}

bool tpi_error_in_file(const char *path, bool fine) {
    char text[320];
    if (fine || tp_ok() || tp_error_code() == TP_ERR_MEMORY || strstr(tp_error(), path)) return fine;
    snprintf(text, sizeof text, "in the file '%s'", path);
    tpi_error_add(text);
    return fine;
}

const tp_saved *tp_saved_get_int(const tp_saved *v, int64_t key) {
    if (TPI_SAVED_GONE(v)) return NULL;
    if (!v || v->kind != TP_SAVED_DICT) return item(v, key, false);
    for (int64_t i = v->n; i-- > 0;) {
        const tp_saved *k = v->as.items.v[2 * i];
        if (tpi_is_int(k) && k->as.number.as.i == key) return v->as.items.v[2 * i + 1];
    }
    return tpi_fail(TP_ERR_VALUE, "there is no %lld among the dict's %lld keys", (long long)key, (long long)v->n);
}

tp_scalar tp_saved_number(const tp_saved *v) {
    if (TPI_SAVED_GONE(v)) return tp_no_scalar();
    if (v && v->kind == TP_SAVED_NUMBER) return v->as.number;
    if (v) expected("a number", v);
    return tp_no_scalar();
}

const char *tp_saved_text(const tp_saved *v) {
    if (TPI_SAVED_GONE(v)) return NULL;
    if (!v || holds_text(v)) return v ? v->as.text : NULL;
    return expected("a text", v);
}

const tp_saved *tp_saved_part_of(const tp_saved *v, tp_saved_part part) {
    if (TPI_SAVED_GONE(v)) return NULL;
    if (!v) return NULL;
    if (part == TP_PART_STORAGE) return v->kind == TP_SAVED_TENSOR ? v->as.view->storage : NULL;
    if (!v->parts) return NULL;
    const tp_saved *const parts[] = {
        [TP_PART_CALL] = v->parts->call,   [TP_PART_ARGS] = v->parts->args,   [TP_PART_KWARGS] = v->parts->kwargs,
        [TP_PART_STATE] = v->parts->state, [TP_PART_ITEMS] = v->parts->items, [TP_PART_PAIRS] = v->parts->pairs,
    };
    return (size_t)part < sizeof parts / sizeof *parts ? parts[part] : NULL;
}

/* ---- Names of tensors ---- */

enum { DEEPEST = 64 };

typedef struct step {
    const tp_saved *in;
    int64_t at;
} step;

static void print_way(const step *way, int depth, char *out, size_t capacity) {
    size_t n = 0;
    for (int i = 0; i < depth && n < capacity; i++) {
        const char *dot = n ? "." : "";
        const tp_saved *key = way[i].in->kind == TP_SAVED_DICT ? way[i].in->as.items.v[2 * way[i].at] : NULL;
        if (!key || key->kind == TP_SAVED_NUMBER)
            n += (size_t)snprintf(out + n, capacity - n, "%s%lld", dot,
                                  (long long)(key ? tp_scalar_to_int(key->as.number) : way[i].at));
        else
            n += (size_t)snprintf(out + n, capacity - n, "%s%s", dot,
                                  key->kind == TP_SAVED_TEXT ? key->as.text : tpi_kind_name(key));
    }
}

/* Depth first, no deeper than a name is worth printing; each container is entered once at each depth at most by the
 * limit on steps. */
void tpi_saved_name(const tp_saved *root, const tpi_store *store, char *out, size_t capacity) {
    step way[DEEPEST];
    int depth = 0;
    out[0] = 0;
    if (!root || (root->kind != TP_SAVED_DICT && !holds_items(root))) return;
    way[depth++] = (step){root, -1};
    for (int64_t steps = 0; depth > 0 && steps < 1000000; steps++) {
        step *s = &way[depth - 1];
        if (++s->at >= s->in->n) {
            depth--;
            continue;
        }
        const tp_saved *v = s->in->as.items.v[s->in->kind == TP_SAVED_DICT ? 2 * s->at + 1 : s->at];
        if ((v->kind == TP_SAVED_TENSOR && v->as.view->storage->as.storage.store == store) ||
            (v->kind == TP_SAVED_STORAGE && v->as.storage.store == store)) {
            print_way(way, depth, out, capacity);
            return;
        }
        if ((v->kind == TP_SAVED_DICT || holds_items(v)) && depth < DEEPEST) way[depth++] = (step){v, -1};
    }
}
