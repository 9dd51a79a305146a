/* Process groups: several processes, one per rank, that exchange tensors.
 *
 *     tp_dist_init(.backend = "mpi"); // rank, size and where to meet: from the launcher's variables
 *     tp_dist_wait(tp_dist_all_reduce(NULL, gradient, TP_REDUCE_AVG)); // NULL: the group of all ranks
 *     tp_dist_end();
 *
 * A collective begins when it is called and runs on a thread of its group's, in the order of the calls; what it returns
 * is waited for once, with tp_dist_wait, and the tensors belong to it until then. Tensors may have any strides and
 * dtypes. Ranks that disagree about which collective comes next, or about its shapes, get an error that names them.
 * Sums have a fixed order, by rank: the same bits from run to run.
 *
 * Tensors on a GPU go from GPU to GPU by NCCL (RCCL) where it is there and the backend says so, on a stream of the
 * group's: it waits for what the caller's stream has to do so far, and waiting for the work makes the caller's stream
 * wait for it, not the host. Elsewhere they go by way of the host. */
#ifndef TAPER_DIST_H
#define TAPER_DIST_H
#include <taper/tensor.h>

TP_BEGIN

/* ---- Stores: keys and values that all processes of a job see; by these they find each other ---- */
typedef struct tp_store tp_store; /* counted; threads may share it */
TP_API tp_store *tp_store_tcp(const char *host, int port, bool serve,
                              double timeout); /* serve: others connect to this process; port 0: any */
TP_API tp_store *
tp_store_file(const char *path,
              int64_t users); /* a file that all reach; the last of that many users removes it (0: nobody does) */
TP_API tp_store *tp_store_hash(void);                                  /* within this process */
TP_API tp_store *tp_store_prefix(const char *prefix, tp_store *inner); /* inner's keys that begin with "PREFIX/" */
TP_API tp_store *tp_store_retain(tp_store *store);
TP_API void tp_store_release(tp_store *store); /* NULL is fine */
TP_API bool tp_store_set(tp_store *store, const char *key, const void *data, size_t n);
TP_API bool tp_store_append(tp_store *store, const char *key, const void *data, size_t n);
TP_API bool tp_store_get(tp_store *store, const char *key, char **data,
                         size_t *n); /* waits for the key; data: tp_store_free_data it */
TP_API bool tp_store_add(tp_store *store, const char *key, int64_t amount,
                         int64_t *sum); /* of numbers kept as text; a new key begins at 0 */
/* Sets the key if its value is the expected one (nothing, if expected is empty); data is the value afterwards. */
TP_API bool tp_store_compare_set(tp_store *store, const char *key, const void *expected, size_t expected_bytes,
                                 const void *fresh, size_t fresh_bytes, char **data, size_t *n);
TP_API void tp_store_free_data(char *data);
TP_API bool tp_store_wait(tp_store *store, const char *key, double timeout); /* negative: the store's own */
TP_API int tp_store_check(tp_store *store, const char *key);                 /* 1: it is there, 0: not, -1: failed */
TP_API int tp_store_delete(tp_store *store, const char *key);                /* 1: it was there, 0: not, -1: failed */
TP_API int64_t tp_store_count(tp_store *store);                              /* of keys; -1: failed */
/* All keys, of a prefix store those under it: 4 bytes, how long a key is, then the key, and so on. data:
 * tp_store_free_data it. */
TP_API bool tp_store_keys(tp_store *store, char **data, size_t *n);
/* Queues: a key is there as long as its queue holds something. pop waits (timeout: seconds; negative: the store's own).
 */
TP_API bool tp_store_queue_push(tp_store *store, const char *key, const void *data, size_t n);
TP_API bool tp_store_queue_pop(tp_store *store, const char *key, double timeout, char **data, size_t *n);
TP_API int64_t tp_store_queue_length(tp_store *store, const char *key); /* -1: failed */
TP_API double tp_store_timeout(const tp_store *store);                  /* seconds */
TP_API void tp_store_set_timeout(tp_store *store, double seconds);
TP_API int tp_store_port(const tp_store *store);
TP_API const char *tp_store_host(const tp_store *store);
/* Where a process beside it should listen: addresses with spaces between, "*" for all; "": it does not tell. */
TP_API const char *tp_store_listen(const tp_store *store);

/* ---- What the launcher says ---- */
typedef struct tp_dist_place { /* from the variables of torchrun, OpenMPI, MPICH and Hydra, PMIx, PALS, PBS or Slurm;
                                  -1: not said */
    int64_t size;              /* sizeof(tp_dist_place), set by the caller */
    int rank, world_size, local_rank, local_size;
    const char *launcher; /* "torchrun", "openmpi", ...; NULL: none of them */
    /* Where RANK and WORLD_SIZE make this process a job of one, though another launcher started several: that one. */
    const char *unheeded; /* NULL: there is none */
    int unheeded_rank, unheeded_size;
} tp_dist_place;
/* Fills in this process's place in the job; starts nothing. */
TP_API bool tp_dist_query(tp_dist_place *place);

/* ---- Groups ---- */
typedef struct tp_group tp_group;
typedef enum tp_reduce_op {
    TP_REDUCE_SUM = 0,
    TP_REDUCE_AVG,
    TP_REDUCE_PRODUCT,
    TP_REDUCE_MIN,
    TP_REDUCE_MAX,
    TP_REDUCE_BAND,
    TP_REDUCE_BOR,
    TP_REDUCE_BXOR
} tp_reduce_op;

typedef struct tp_dist_init_options {
    TP_STRUCT_SIZE(tp_dist_init_options); /* sizeof(tp_dist_init_options) */
    const char *backend TP_MEMBER(
        NULL); /* "gloo", "mpi", "tcp", "nccl", or for each device, "cpu:gloo,cuda:nccl"; NULL: by what is there */
    bool placed TP_MEMBER(false); /* rank and world_size are given; otherwise the launcher's count */
    int rank TP_MEMBER(0), world_size TP_MEMBER(0);
    tp_store *store TP_MEMBER(NULL); /* NULL: from MASTER_ADDR and MASTER_PORT, or through MPI */
    double timeout TP_MEMBER(0);     /* seconds, of each collective; 0: 1800 */
    double stall TP_MEMBER(0);       /* seconds until a collective that waits is reported; 0: TAPER_STALL, or 30 */
    TP_OPTIONS_GUARD_
} tp_dist_init_options;
TP_API bool tp_dist_init_with(const tp_dist_init_options *options); /* options may be NULL */
#ifndef __cplusplus
#define tp_dist_init(...) TP_WITH_(tp_dist_init_options, tp_dist_init_with(&tp_o_), TP_DIST_INIT_DEFAULTS_, __VA_ARGS__)
#else
static inline bool tp_dist_init(const tp_dist_init_options &options = tp_dist_init_options()) {
    return tp_dist_init_with(&options);
}
#endif
TP_API void tp_dist_end(void);        /* says goodbye to the others; groups are gone */
TP_API void tp_dist_leave(void);      /* the same at a process's end: waits for nothing that is still under way */
TP_API tp_group *tp_dist_world(void); /* the group of all ranks, borrowed; NULL (no error) before tp_dist_init */
TP_API tp_store *tp_dist_store(void); /* the job's, borrowed; NULL before tp_dist_init */
TP_API bool tp_dist_available(const char *backend); /* can it be opened here? */
/* of the NCCL (or RCCL) that GPUs' tensors go by: 22703 is 2.27.3; 0: there is none here */
TP_API int tp_dist_nccl_version(void);
/* what carries the host's data: "tcp", "gloo", "openmpi", "mpich"; NULL before tp_dist_init */
TP_API const char *tp_dist_engine(void);

/* A group of some ranks, in that order. Every rank of the job makes the call, as a collective of the group of all:
 * lists that differ are an error that names two ranks. A rank that is not in it gets a group in which its rank is -1.
 */
TP_API tp_group *tp_group_new(tp_ints ranks, double timeout, const char *name);
TP_API tp_group *
tp_group_new_local(tp_ints ranks, double timeout,
                   const char *name);            /* the ranks in it alone make the call, and nothing is compared */
TP_API void tp_group_free(tp_group *group);      /* NULL is fine */
TP_API int tp_group_rank(const tp_group *group); /* this process's place in it; NULL is the group of all */
TP_API int tp_group_size(const tp_group *group);
TP_API int tp_group_global_rank(const tp_group *group, int rank);
TP_API const char *tp_group_name(const tp_group *group);
TP_API int64_t tp_group_number(const tp_group *group); /* of collectives so far */
TP_API void tp_group_set_timeout(tp_group *group, double seconds);

/* ---- Collectives: group NULL is the group of all; roots and peers are ranks within the group. NULL on failure ---- */
typedef struct tp_work tp_work;
TP_API tp_work *tp_dist_all_reduce(tp_group *group, tp_tensor *t, tp_reduce_op op); /* in place */
/* The result is root's alone. */
TP_API tp_work *tp_dist_reduce(tp_group *group, tp_tensor *t, tp_reduce_op op, int root);
/* root's values go to all others, in place. */
TP_API tp_work *tp_dist_broadcast(tp_group *group, tp_tensor *t, int root);
TP_API tp_work *tp_dist_all_gather(tp_group *group, tp_tensors out,
                                   tp_tensor *in); /* out[i]: rank i's; they may differ in shape */
TP_API tp_work *tp_dist_all_gather_into(tp_group *group, tp_tensor *out,
                                        tp_tensor *in); /* one after the other in out's memory */
TP_API tp_work *tp_dist_gather(tp_group *group, tp_tensors out, tp_tensor *in,
                               int root); /* out counts at the root only */
TP_API tp_work *tp_dist_scatter(tp_group *group, tp_tensor *out, tp_tensors in,
                                int root); /* in counts at the root only */
/* Rank i gets the ranks' in[i], reduced. */
TP_API tp_work *tp_dist_reduce_scatter(tp_group *group, tp_tensor *out, tp_tensors in, tp_reduce_op op);
/* The same from one tensor, whose elements are cut into equal parts in their order. */
TP_API tp_work *tp_dist_reduce_scatter_of(tp_group *group, tp_tensor *out, tp_tensor *in, tp_reduce_op op);
TP_API tp_work *tp_dist_all_to_all(tp_group *group, tp_tensors out,
                                   tp_tensors in); /* in[i] to rank i; shapes may differ */
TP_API tp_work *tp_dist_all_to_all_single(tp_group *group, tp_tensor *out, tp_tensor *in, tp_ints out_rows,
                                          tp_ints in_rows); /* rows not given: equal parts */
/* Done when all ranks have come here. */
TP_API tp_work *tp_dist_barrier(tp_group *group);
/* Sends t to one rank, which receives it with the same tag. */
TP_API tp_work *tp_dist_send(tp_group *group, tp_tensor *t, int to, int64_t tag);
TP_API tp_work *tp_dist_recv(tp_group *group, tp_tensor *t, int from, int64_t tag); /* from -1: whoever is first */

TP_API bool tp_dist_wait(tp_work *work); /* waits and lets go of it; false: it failed. NULL: false */
/* The parts of that, for those who keep it: seconds < 0 waits until the group's timeout. */
TP_API bool tp_work_wait(tp_work *work, double seconds);
TP_API bool tp_work_done(tp_work *work); /* finished, well or not */
TP_API bool tp_work_succeeded(tp_work *work);
TP_API const char *tp_work_error(tp_work *work); /* of one that failed; NULL otherwise. Lives as long as the work */
TP_API int tp_work_source(tp_work *work);        /* of a receive that is done: whose message it was */
TP_API void tp_work_release(tp_work *work);      /* waits for what is under way; NULL is fine */

/* ---- When something goes wrong ---- */
/* What a watcher has to say: that a collective stalls and who has not come, that a rank has died, that the job must
 * end. The library prints nothing and ends nothing by itself: `report` gets each text, and `end` is called when a rank
 * has died and this one has not left within `grace` seconds (a process that waits in a dead collective cannot go on by
 * itself). Both run on the watcher's thread. */
TP_API void tp_dist_set_watcher(void (*report)(const char *text), void (*end)(const char *text), double grace);
/* where in the program the calls that follow on this thread stand, for reports */
TP_API void tp_dist_set_place(const char *text);
/* asked while something waits: true ends the wait with an error */
TP_API void tp_dist_set_interrupt(bool (*check)(void));
/* For connections that a program makes itself between its ranks: each side, one of which serves, shows the other that
 * it knows the job's secret (TAPER_JOB_SECRET, or what the launcher gave), before anything else is sent. False with an
 * error that says why not. */
TP_API bool tp_dist_prove(int fd, bool serves, double seconds);
/* to all ranks: this one ends because of it; NULL: it ends in order */
TP_API void tp_dist_tell_failure(const char *reason);

/* SIGTERM and SIGUSR1, by which schedulers announce the end, set a flag from the first call on: a training loop asks,
 * saves, and leaves. */
TP_API bool tp_preempted(void);

TP_END

/* What TP_DEFAULTS gives. */
#define TP_DIST_INIT_DEFAULTS_ .size = (int64_t)sizeof(tp_dist_init_options), .stall = 0
#endif
