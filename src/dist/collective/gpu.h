/* Collectives and messages between GPUs, by NCCL: they run on streams of their own, so that nobody on the host waits.
 */
#ifndef TPI_DIST_GPU_H
#define TPI_DIST_GPU_H
#include "device/gpu/driver.h"
#include "dist/collective/group.h"

/* Are all of the work's tensors on one GPU, and does NCCL do it there? Sets where. Never an error. */
bool tpi_gpu_serves(tp_work *work);
/* Begin it; the work is the caller's. What fails is told by the work. NULL with an error: nothing has begun, and the
 * work is gone. */
tp_work *tpi_gpu_collective(tp_work *work);
tp_work *tpi_gpu_message(tp_work *work);
void tpi_gpu_check(tp_work *work);   /* in the group's thread: ranks that do not agree end the job */
void tpi_gpu_look_at(tp_work *work); /* is it done? */
/* From here on the caller's stream waits for it, the host does not; but for one that is given a time (seconds >= 0),
 * for which the host waits. */
bool tpi_gpu_wait(tp_work *work, double seconds);
void tpi_gpu_work_free(tp_work *work); /* what it has of the driver's */
/* Lets go of works that are done. The watcher asks for all groups: true, with a text, if the job cannot go on. */
void tpi_gpu_reap(tp_group *group);
bool tpi_gpu_trouble(tpi_job *job, char text[TPI_REASON_BYTES]);
void tpi_gpu_abort(tpi_job *job); /* whatever is on its way ends, on the GPU too */
bool tpi_gpu_quiet(tp_group *group,
                   double seconds);   /* waits until all is done, or the job has failed; false: it is not */
void tpi_gpu_end(tp_group *group);    /* of its threads and communicators, after what was asked for is done */
void tpi_gpu_forget(tp_group *group); /* frees what is left of its communicators */

/* nccl_comm.c */
typedef struct tpi_comm {
    struct tpi_comm *next;
    tp_group *group;
    tp_device device;
    const tpi_gpu_driver *driver;
    const struct tpi_nccl *nccl;
    tpi_gpu_stream *stream;
    void *comm;           /* NCCL's. NULL: not made, or given up; with the lock */
    bool by_host;         /* two of its ranks share a GPU, which NCCL refuses */
    int from, to;         /* of one direction between two ranks of the group; -1: the group's own */
    int nth;              /* of those: there is one for each device that is used */
    pthread_mutex_t lock; /* of comm, while it is used */
    pthread_t thread; /* of a direction: as it begins when the other side comes, it must not hold up the caller. With
                         the group's lock */
    bool threaded;
    tp_work *first, **end; /* to be sent or received; with the group's lock */
} tpi_comm;

/* Finds or adds it; NULL and an error. It still has to be met for. */
tpi_comm *tpi_comm_of(tp_group *group, tp_device device, int from, int to);
bool tpi_comm_meet(tpi_comm *comm); /* once: waits for the other ranks. False with an error */
bool tpi_comm_ok(const tpi_comm *comm, int result, const char *function); /* false with NCCL's error */
void tpi_comm_free(tpi_comm *comm);
#endif
