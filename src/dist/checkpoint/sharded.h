/* Sharded checkpoints from inside: what ranks tell each other (messages.c), tensors as boxes (boxes.c) and who
 * writes which (plan.c), the index (index.c); sharded.c saves and loads. Texts and numbers of one save or load live in
 * its arena.
 */
#ifndef TPI_DIST_SHARDED_H
#define TPI_DIST_SHARDED_H
#include <taper/checkpoint.h>
#include "io/checkpoint/saved.h"

/* ---- Talking ---- */
typedef struct tpi_messages {
    tp_group *group;
    bool together; /* with others */
    int rank, size;
} tpi_messages;
bool tpi_messages_in(tpi_messages *talk, tp_group *group);
/* Every rank's value, in the order of ranks. `mine` NULL: this rank has failed, with an error. Where one has, all get
 * NULL and an error that says who and of what. */
tp_saved **tpi_messages_all(const tpi_messages *talk, tpi_arena *arena, tp_saved *mine);

tp_saved *tpi_tuple(tpi_arena *arena, int n, tp_saved *const *items); /* NULL if one of them is */
#define TPI_TUPLE(arena, ...) \
    tpi_tuple(arena, (int)(sizeof((tp_saved *[]){__VA_ARGS__}) / sizeof(tp_saved *)), (tp_saved *[]){__VA_ARGS__})
tp_saved *tpi_sizes_value(tpi_arena *arena, tp_saved_kind kind, const int64_t *v,
                          int n); /* numbers in a TUPLE or SIZE */
tp_saved *tpi_name_value(tpi_arena *arena, tp_saved_kind kind, const char *text);
const int64_t *tpi_sizes_of(tpi_arena *arena, const tp_saved *v,
                            int *n); /* the other way; NULL and an error if it is something else */

/* ---- Boxes: parts of tensors ---- */
typedef struct tpi_box {
    const char *name;
    tp_dtype dtype;
    int ndim; /* -1: no tensor */
    const int64_t *whole, *offset, *size;
} tpi_box;

typedef struct tpi_item { /* a box of the checkpoint, and where it is */
    tpi_box box;
    int writer;   /* the rank */
    int64_t mine; /* which of this rank's shards it is, if this rank is the writer */
    const char *file;
    int64_t at, bytes;
} tpi_item;

typedef struct tpi_items { /* sorted by name and offset; every box is there once */
    tpi_item *v;
    int64_t n;
} tpi_items;

int tpi_box_order(const tpi_box *a, const tpi_box *b);
int64_t tpi_box_numel(const tpi_box *box);
tpi_box tpi_box_of(const tp_shard *shard); /* points into the shard */
bool tpi_shards_check(int64_t n, const tp_shard *shards);
tp_saved *tpi_boxes_tell(tpi_arena *arena, int64_t n, const tp_shard *shards);
/* From what each rank told: all boxes, and who writes them, so that all write about as much. The same on every rank. */
bool tpi_boxes_plan(tpi_arena *arena, const tpi_messages *talk, tp_saved *const *told, tpi_items *items);
/* The same from a list of what ranks have, which it sorts; lowest: what several have, the lowest of them writes. */
bool tpi_items_plan(tpi_arena *arena, tpi_items *told, int ranks, bool lowest, tpi_items *items);
void tpi_items_sort(tpi_items *items);
/* Those of one name: the first, and how many. */
int64_t tpi_items_named(const tpi_items *items, const char *name, int64_t *count);

/* ---- The index ---- */
bool tpi_index_write(tpi_arena *arena, const char *folder, const tpi_items *items);
bool tpi_index_read(tpi_arena *arena, const char *folder, tpi_items *items);
char *tpi_path_in(tpi_arena *arena, const char *folder, const char *name); /* "FOLDER/NAME" */
#endif
