/* The tree of values that readers make: small nodes in an arena that goes as a whole. Nodes may be shared and form
 * rings; nothing here recurses over them. */
#ifndef TPI_SAVED_H
#define TPI_SAVED_H
#include "base/error.h"
#include <string.h>
#include <taper/io.h>

/* ---- The arena ---- */
typedef struct tpi_arena {
    struct tpi_arena_block *blocks;
    size_t used, capacity; /* of the newest block */
    size_t taken, most;    /* bytes handed out, and how many may be; most 0: any number */
} tpi_arena;
void *tpi_arena_new(tpi_arena *a, size_t bytes);                    /* 16-byte aligned, cleared; NULL and an error */
char *tpi_arena_text(tpi_arena *a, const void *text, size_t bytes); /* a copy, ended by 0 */
void tpi_arena_free(tpi_arena *a);
/* True and an error: with TAPER_DEBUG=1, for a value of a file that was closed. */
bool tpi_saved_gone(const tp_saved *v, const char *function);
#define TPI_SAVED_GONE(v) (__builtin_expect(tpi_debugging, 0) && tpi_saved_gone(v, __func__))

/* ---- Nodes ---- */
typedef struct tpi_store { /* memory that tensors of a file share, named by its key */
    const char *key, *location, *dtype_name;
    tp_dtype dtype; /* TP_NO_DTYPE: one that Taper lacks, or bytes */
    bool untyped;   /* counted in bytes */
    int64_t numel, bytes;
    const struct tpi_zip_member *member; /* that holds its bytes; NULL: the file itself does */
    uint64_t at;                         /* where they start in that */
    bool swapped;                        /* its numbers are in the other byte order */
    bool has_crc;                        /* the file says its checksum elsewhere than in a zip archive's directory */
    uint32_t crc;
    tp_storage *storage; /* once it was read */
    tp_file *file;
} tpi_store;

typedef struct tpi_view { /* how a tensor looks at a storage */
    tp_saved *storage;
    int64_t offset; /* in elements */
    int ndim;
    int64_t *shape, *strides;
    tp_dtype dtype;
    const char *dtype_name;
    bool requires_grad;
    bool conjugated, negated; /* it stands for the conjugate, the negative of what the storage holds */
} tpi_view;

typedef struct tpi_parts { /* what only some nodes have */
    tp_saved *call, *args, *kwargs, *state, *items, *pairs;
    bool by_new;
} tpi_parts;

struct tp_saved {
    uint8_t kind;   /* tp_saved_kind */
    uint8_t global; /* of a GLOBAL: which of those that the reader knows */
    uint32_t
        weight; /* how many values it is, those inside of it included, up to a limit; 0: not weighed (pickle_keys.c) */
    int64_t n;  /* items, pairs, bytes of text */
    union {
        tp_scalar number;
        const char *text; /* n bytes and a 0 */
        struct {
            tp_saved **v; /* n items; of a dict: n keys and values in turn */
            int64_t capacity;
        } items;
        tpi_view *view;
        struct {
            tpi_store *store;
            int64_t first, numel; /* the part of it, in elements, that this storage is (old files have such) */
        } storage;
    } as;
    const char *class_name; /* where it matters: an OrderedDict, a Counter, a bytearray, a Parameter */
    tpi_parts *parts;       /* NULL: none */
};

tp_saved *tpi_saved_new(tpi_arena *a, tp_saved_kind kind);
tp_saved *tpi_saved_number(tpi_arena *a, tp_scalar s);
tp_saved *tpi_saved_text(tpi_arena *a, tp_saved_kind kind, const void *text, size_t bytes);
bool tpi_saved_append(tpi_arena *a, tp_saved *list, tp_saved *item); /* to a list, tuple, set, size */
bool tpi_saved_put(tpi_arena *a, tp_saved *dict, tp_saved *key,
                   tp_saved *value);                   /* behind what is there, also if the key is */
tpi_parts *tpi_saved_parts(tpi_arena *a, tp_saved *v); /* made if it has none */

bool tpi_is_utf8(const char *text, size_t bytes);
const char *tpi_kind_name(const tp_saved *v); /* "a tensor", for messages */
/* What is said of a file's content names the file: adds it to the error if `fine` is false. Returns `fine`. */
bool tpi_error_in_file(const char *path, bool fine);

static inline bool tpi_is_text(const tp_saved *v, const char *text) {
    return v && v->kind == TP_SAVED_TEXT && strcmp(v->as.text, text) == 0 && (size_t)v->n == strlen(text);
}
static inline bool tpi_is_hashable(const tp_saved *v) {
    return v->kind != TP_SAVED_LIST && v->kind != TP_SAVED_DICT && v->kind != TP_SAVED_SET;
}
static inline bool tpi_is_int(const tp_saved *v) {
    return v && v->kind == TP_SAVED_NUMBER && v->as.number.kind == TP_SCALAR_INT;
}
static inline bool tpi_is_bool(const tp_saved *v) {
    return v && v->kind == TP_SAVED_NUMBER && v->as.number.kind == TP_SCALAR_BOOL;
}

/* The way from `root` to the first tensor that looks at `store`, "model.fc.weight", for messages; into capacity bytes.
 */
void tpi_saved_name(const tp_saved *root, const tpi_store *store, char *out, size_t capacity);
#endif
