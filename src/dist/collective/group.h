/* Groups and works from inside. A job is this process's part in the whole: an engine, a store and a watcher. Groups
 * share the engine. A work is one collective, or one send or receive; a group's thread runs its collectives in the
 * order in which they were asked for. */
#ifndef TPI_DIST_GROUP_H
#define TPI_DIST_GROUP_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <taper/dist.h>
#include "dist/engine/engine.h"

/* Where a timeout is not told by the watcher (rank 0 is gone), whoever waits gives up that many seconds later. */
#define TPI_TIME_UP_LATER 10

enum {
    TPI_CALL_SITE_BYTES = 192,
    TPI_REASON_BYTES = 1900,
    TPI_ABOUT_BYTES = 192,
    TPI_NAME_BYTES = 64,
    TPI_MOST_GROUPS = 4096,
    TPI_AGREED = 64
};

typedef enum tpi_work_kind {
    TPI_ALL_REDUCE,
    TPI_REDUCE,
    TPI_BROADCAST,
    TPI_ALL_GATHER,
    TPI_GATHER,
    TPI_SCATTER,
    TPI_REDUCE_SCATTER,
    TPI_ALL_TO_ALL,
    TPI_BARRIER,
    TPI_NEW_GROUP,
    TPI_SEND,
    TPI_RECV
} tpi_work_kind;
extern const char *const tpi_work_names[];

struct tpi_watch;

typedef struct tpi_job {
    const tpi_engine *engine;
    void *self; /* the engine's */
    tpi_engine_host host;
    char listen[256],
        address[256]; /* what its engine is told: where to listen, and by which address others reach this machine */
    tp_store *store;
    int rank, size;
    pid_t pid; /* a forked child is in no job */
    double timeout, stall;
    bool by_nccl;                   /* GPUs' tensors go from GPU to GPU where a library for that is there */
    struct tpi_watch *watch;        /* NULL: there is one rank only */
    uint32_t made[TPI_MOST_GROUPS]; /* what the ids of its groups came from; with the lock */
    int nmade;
    tp_group *all; /* list of groups that are open, for the watcher; with the lock */
    pthread_mutex_t lock;
    atomic_bool begun;  /* all ranks are there */
    atomic_bool failed; /* nothing more can be exchanged, because of: */
    char reason[TPI_REASON_BYTES];
    atomic_bool failed_on_gpu; /* by something that the watcher did not find */
    char engine_error[256];    /* what the engine said last; with the lock */
} tpi_job;

typedef struct tpi_piece {
    tp_tensor *t;    /* the caller's */
    tp_tensor *flat; /* contiguous, where the engine takes it (on the CPU, or for NCCL on t's own device): t itself
                        where it is so. NULL until it is made */
} tpi_piece;

struct tp_group {
    atomic_int refs; /* works hold one */
    tpi_job *job;
    tp_group *next;  /* of the job */
    int id, n, rank; /* rank: -1 if this process is not in it */
    int *ranks;      /* in the job */
    void *members;   /* the engine's */
    char name[TPI_NAME_BYTES];
    double timeout;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a work was added, or is done */
    pthread_t thread;
    bool threaded, closing;
    tp_work *first, **end; /* to be run */
    int64_t number;        /* of collectives asked for */
    tp_work *waiting;      /* list of works that have begun and are not done, for the watcher; with the lock */
    int64_t entered, left; /* numbers of the collectives that this rank came to and left last; with the lock */
    char last[TPI_ABOUT_BYTES], call_site[TPI_CALL_SITE_BYTES]; /* what the last one was, and where in the program */
    double left_at;
    struct tpi_comm *comms;    /* list of NCCL's communicators, with the lock; they stay until the group goes */
    pthread_mutex_t launching; /* collectives on GPUs begin one by one, in the order of their numbers */
    uint64_t
        agreed[TPI_AGREED]; /* what ranks have found to be the same on all of them, with launching: the last ones */
    int nagreed;
};

struct tp_work {
    atomic_int refs;
    tp_group *group;
    tp_work *next, *next_waiting;
    tpi_work_kind kind;
    tp_reduce_op op;
    int root; /* or the peer */
    int64_t tag, number;
    tpi_piece *in, *out;
    int nin, nout;
    atomic_bool done;
    bool failed, finishing, listed, orphan; /* orphan: nobody but the group holds it */
    tp_code code;
    char *error;
    void *request; /* of a send or receive under way */
    int source;
    bool gpu; /* by NCCL, on: */
    tp_device device;
    struct tpi_comm *comm;
    uint64_t print; /* its fingerprint, where it is told from the beginning: on GPUs, and of a new group */
    char about[TPI_ABOUT_BYTES];
    struct tpi_gpu_event *before, *event; /* the caller's stream when it was asked for; its end. NULL until recorded */
    bool checked, launched, captured;     /* ranks agree; it is in the stream; which is being recorded. With the lock */
    double since; /* when it began; reported: when the watcher last spoke of it; awaited: when somebody last waited for
                     this message. With the lock */
    double reported, awaited;
    char call_site[TPI_CALL_SITE_BYTES];
};

/* collective.c: runs it, in the group's thread. False with an error. */
bool tpi_collective_run(tp_work *work);
/* Do ranks agree before each collective (TAPER_DIST_CHECK)? Then none leaves one that another has not come to. */
bool tpi_checks_wanted(void);
/* What a work is about, for messages: "all_reduce(SUM) of float32 [2, 3]". */
void tpi_work_about(const tp_work *work, char text[TPI_ABOUT_BYTES]);

/* job.c. The job of this process; NULL before tp_dist_init. */
extern tpi_job *tpi_job_now;
/* The first reason counts: everything that waits fails with it. Returns false. */
bool tpi_job_fail(tpi_job *job, const char *reason);
bool tpi_job_ok(tpi_job *job); /* false with the reason as an error, if it has failed */
bool tpi_refuse_engine(
    tpi_job *job); /* an engine's function failed: false with an error, the watcher's where it knows more */
const char *tpi_rank_name(tpi_job *job, int rank, char *text, size_t capacity); /* "rank 3 (host n1, pid 812)" */
uint64_t tpi_message_slot(const tp_group *group, int channel, int64_t tag);
enum { TPI_CHANNEL_CHECK = 1, TPI_CHANNEL_DATA, TPI_CHANNEL_MESSAGE };

/* group.c */
void tpi_group_release(tp_group *group);
void tpi_group_end_thread(tp_group *group); /* after what was asked for is done */
void tpi_group_abandon(tp_group *group);    /* after the engine was stopped: messages under way fail */
void tpi_group_reap(tp_group *group);       /* lets go of messages that are done and that nobody waits for */
tp_group *tpi_group_open(tpi_job *job, int n, const int *ranks, double timeout, const char *name);
bool tpi_group_add(tp_work *work);  /* hands it to the group's thread */
void tpi_work_begin(tp_work *work); /* it is waited for from now on */
void tpi_work_end(tp_work *work);   /* with the thread's error, if there is one */
/* Waits for the next work of a list that the group's lock guards, and takes it off; NULL: the group closes. */
tp_work *tpi_next_work(tp_group *group, tp_work **first, tp_work ***end);
void tpi_work_close(
    tp_work *work, char *error,
    tp_code code); /* the same with the group's lock; error, if there is one, is the work's from then on */

bool tpi_work_timed_out(tp_work *work, double seconds); /* false, with an error that names who has not come */

/* work.c */
bool tpi_agree_on_group(int n, const int *ranks); /* do all ranks make a group of that list now? False with an error */
bool tpi_work_by_host(tp_work *work);             /* makes its pieces' flat ones on the CPU */
bool tpi_work_bring_back(tp_work *work);          /* what came into memory of our own goes to the caller's tensors */
static inline bool tpi_work_in_place(const tp_work *work) {
    return work->kind == TPI_ALL_REDUCE || work->kind == TPI_BROADCAST || work->kind == TPI_REDUCE;
}
#endif
