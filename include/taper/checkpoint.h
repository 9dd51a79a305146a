/* Sharded checkpoints: a folder that all ranks write together, each its part, with one index; in the format of
 * torch.distributed.checkpoint, whose folders these functions read and which reads theirs. Another number of ranks may
 * load it, in other parts.
 *
 *     tp_shard mine[] = {
 *         {"fc.weight", weight_rows, TP_INTS(4096, 512), TP_INTS(rank * 1024, 0)}, // a tensor cut over four ranks
 *         {"fc.bias", bias}};                                  // every rank has all of it: one of them writes it
 *     tp_checkpoint_save("last", NULL, 2, mine);
 *
 * Each value is an archive with checksums. Files are synced, the index comes last and takes the place of an older one
 * in one step: a job that dies while it saves leaves the checkpoint before it whole. What fails on one rank fails on
 * all, and names the rank, the file and the tensor. */
#ifndef TAPER_CHECKPOINT_H
#define TAPER_CHECKPOINT_H
#include <taper/dist.h>

TP_BEGIN

typedef struct tp_shard {
    const char *name;
    tp_tensor *part; /* what this rank has of the tensor */
    tp_ints whole;   /* the shape of all of it; none: the part is all of it */
    tp_ints offset;  /* where the part begins in it; none: at its beginning */
} tp_shard;

/* All ranks of the group call it (NULL: all ranks of the job, or this process by itself where it is in none), each with
 * what it has. */
TP_API bool tp_checkpoint_save(const char *folder, tp_group *group, int64_t n, const tp_shard *shards);
/* Fills the parts; dtypes may differ from those saved. Parts that other ranks hold need not be named. Nothing is
 * changed if anything fails on any rank. A value that Python saved as a number fills a tensor of one element. */
TP_API bool tp_checkpoint_load(const char *folder, tp_group *group, int64_t n, const tp_shard *shards);

/* The same in the background: parts are copied before it returns. The group must be one that nothing else uses until
 * then; NULL: one of all ranks is made. */
typedef struct tp_saving tp_saving;
TP_API tp_saving *tp_checkpoint_save_async(const char *folder, tp_group *group, int64_t n, const tp_shard *shards);
TP_API bool tp_saving_done(const tp_saving *saving); /* well or not */
/* until the checkpoint is complete; lets go of it. All ranks call it. NULL: false */
TP_API bool tp_saving_wait(tp_saving *saving);

/* ---- The plan ----
 * For programs that write checkpoints of this kind themselves, as the Python module does: from the same list every rank
 * gets the same plan. */
typedef struct tp_checkpoint_box { /* what a rank has of a value */
    const char *name;
    int rank;
    bool is_tensor;
    tp_dtype dtype;
    tp_ints whole, offset, size; /* of a tensor: its shape, where the part begins, and the part's shape */
    int64_t bytes;               /* of what is no tensor: about how much it is to write */
} tp_checkpoint_box;
/* The boxes that the checkpoint is made of, each once and written by its rank: chosen gets their numbers, by name and
 * offset, and the result is how many they are. What several ranks have goes to the one that has least to write, or to
 * the lowest. Parts without elements are left out, unless the whole has none. -1, with an error: ranks disagree. */
TP_API int64_t tp_checkpoint_plan(int64_t n, const tp_checkpoint_box *boxes, int ranks, bool to_lowest_rank,
                                  int64_t *chosen);
typedef struct tp_box_place {
    const int64_t *offset, *size;
} tp_box_place;
/* What two boxes of one tensor share: where it begins in each, and its size. False, without an error: nothing. */
TP_API bool tp_box_overlap(int64_t ndim, const tp_box_place *a, const tp_box_place *b, int64_t *in_a, int64_t *in_b,
                           int64_t *size);

TP_END
#endif
