/* The MPI engine. One source, built against the headers of OpenMPI and again against those of MPICH, whose ABIs differ;
 * neither is linked: the library opens the site's libmpi first, for all to see, and then the plug-in that fits it.
 *
 * Every group has a communicator of its own. Reductions, broadcasts and gathers are MPI's; a message is one MPI message
 * of its label and its bytes. Where MPI does not let several threads call it, collectives are the non-blocking ones,
 * asked about in turn under a lock. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <taper/dist.h>
#include "dist/engine/engine.h"

#ifdef OPEN_MPI
#define NAME "openmpi"
#else
#define NAME "mpich"
#endif

enum { CHUNK = 1 << 30, LARGE = 256 << 10 }; /* bytes; counts are ints */

typedef struct members {
    MPI_Comm comm;
    int n, size;
    int rank_in[]; /* of the job's ranks in the communicator, -1: not in it; then the job's ranks of its places */
} members;

typedef struct engine {
    tpi_engine_host host;
    members *all;
    bool threads; /* MPI may be called from several at once */
    volatile bool stopped;
    pthread_mutex_t lock;
} engine;

typedef struct request {
    MPI_Request mpi;
    MPI_Datatype type;
    uint64_t head[2]; /* label, bytes */
    int64_t bytes;
    const members *in;
    bool receives;
} request;

static void enter(engine *e) {
    if (!e->threads) pthread_mutex_lock(&e->lock);
}
static void leave(engine *e) {
    if (!e->threads) pthread_mutex_unlock(&e->lock);
}

static tpi_engine_result result(engine *e, int error, const char *what) {
    char text[MPI_MAX_ERROR_STRING + 64], why[MPI_MAX_ERROR_STRING] = "";
    int n;
    if (error == MPI_SUCCESS) return TPI_ENGINE_DONE;
    MPI_Error_string(error, why, &n);
    snprintf(text, sizeof text, "%s: %s", what, why);
    e->host.fail(e->host.context, text);
    return TPI_ENGINE_FAILED;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_after(int round) { /* spins at first; then lets others have the core */
    if (round < 200)
        sched_yield();
    else
        usleep(round < 2000 ? 20 : 200);
}

/* ---- Groups ---- */
static members *members_new(engine *e, MPI_Comm comm, int n, const int *ranks) {
    int size = e->host.size;
    members *m = calloc(1, sizeof *m + sizeof(int) * (size_t)(size + n));
    if (!m) return NULL;
    m->comm = comm;
    m->n = n;
    m->size = size;
    for (int i = 0; i < size; i++) m->rank_in[i] = -1;
    for (int i = 0; i < n; i++) {
        int rank = ranks ? ranks[i] : i;
        m->rank_in[rank] = i;
        m->rank_in[size + i] = rank;
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return m;
}

static void *mpi_group(void *self, int n, const int *ranks, int id) {
    engine *e = self;
    MPI_Group all, some;
    MPI_Comm comm = MPI_COMM_NULL;
    enter(e);
    MPI_Comm_group(e->all->comm, &all);
    MPI_Group_incl(all, n, ranks, &some);
    int error = MPI_Comm_create_group(e->all->comm, some, id & 0x7fff, &comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    members *m = error == MPI_SUCCESS ? members_new(e, comm, n, ranks) : NULL;
    leave(e);
    if (error != MPI_SUCCESS) result(e, error, "MPI_Comm_create_group");
    return m;
}

static void mpi_group_free(void *self, void *group) {
    (void)
        self; /* freeing a communicator is collective, and not every rank lets go of a group: it stays until the end */
    free(group);
}

static const members *in(const engine *e, const void *group) { return group ? group : e->all; }

/* ---- Collectives ---- */
static tpi_engine_result wait_for(engine *e, MPI_Request *r, int error, const char *what) {
    int done = 0;
    leave(e);
    for (int round = 0; error == MPI_SUCCESS && !done; round++) {
        enter(e);
        error = MPI_Test(r, &done, MPI_STATUS_IGNORE);
        leave(e);
        if (done || e->stopped) break;
        pause_after(round);
    }
    if (error == MPI_SUCCESS && !done) {
        e->host.fail(e->host.context, "the job was stopped");
        return TPI_ENGINE_FAILED;
    }
    return result(e, error, what);
}

/* A blocking call for what is large, where threads allow it: MPI does that best. Else the non-blocking one, which
 * leaves the core to other ranks while it waits: where there are more ranks than cores, MPICH's blocking calls would
 * spin through their time slices. */
#define CALL(e, large, function, ifunction, ...)                           \
    ((e)->threads && (large) ? result(e, function(__VA_ARGS__), #function) \
                             : (enter(e), wait_for(e, &pending, ifunction(__VA_ARGS__, &pending), #ifunction)))

static MPI_Datatype type_of(int dtype) {
    switch (dtype) {
    case TP_BOOL:
    case TP_UINT8: return MPI_UINT8_T;
    case TP_INT8: return MPI_INT8_T;
    case TP_INT16: return MPI_INT16_T;
    case TP_INT32: return MPI_INT32_T;
    case TP_INT64: return MPI_INT64_T;
    case TP_FLOAT32: return MPI_FLOAT;
    case TP_FLOAT64: return MPI_DOUBLE;
    case TP_COMPLEX64: return MPI_C_FLOAT_COMPLEX;
    case TP_COMPLEX128: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_DATATYPE_NULL; /* halves are combined by the library */
    }
}

static MPI_Op op_of(int dtype, int op) {
    bool truth = dtype == TP_BOOL, whole = dtype <= TP_INT64;
    switch (op) {
    case TP_REDUCE_SUM: return truth ? MPI_BOR : MPI_SUM;
    case TP_REDUCE_AVG: return whole ? MPI_OP_NULL : MPI_SUM;
    case TP_REDUCE_PRODUCT: return truth ? MPI_BAND : MPI_PROD;
    case TP_REDUCE_MIN: return truth ? MPI_BAND : MPI_MIN;
    case TP_REDUCE_MAX: return truth ? MPI_BOR : MPI_MAX;
    case TP_REDUCE_BAND: return MPI_BAND;
    case TP_REDUCE_BOR: return MPI_BOR;
    case TP_REDUCE_BXOR: return MPI_BXOR;
    default: return MPI_OP_NULL;
    }
}

static void divide(void *data, int64_t count, int dtype, int by) {
    if (dtype == TP_COMPLEX64 || dtype == TP_COMPLEX128) count *= 2;
    if (dtype == TP_FLOAT32 || dtype == TP_COMPLEX64)
        for (int64_t i = 0; i < count; i++) ((float *)data)[i] /= (float)by;
    else
        for (int64_t i = 0; i < count; i++) ((double *)data)[i] /= by;
}

static tpi_engine_result mpi_all_reduce(void *self, void *group, void *data, int64_t count, int dtype, int op) {
    engine *e = self;
    const members *m = in(e, group);
    MPI_Datatype type = type_of(dtype);
    MPI_Op how = op_of(dtype, op);
    MPI_Request pending;
    int size;
    if (type == MPI_DATATYPE_NULL || how == MPI_OP_NULL) return TPI_ENGINE_PASS;
    MPI_Type_size(type, &size);
    for (int64_t from = 0; from < count; from += CHUNK) {
        int n = (int)(count - from < CHUNK ? count - from : CHUNK);
        if (CALL(e, count * size >= LARGE, MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, (char *)data + from * size, n,
                 type, how, m->comm) != TPI_ENGINE_DONE)
            return TPI_ENGINE_FAILED;
    }
    if (op == TP_REDUCE_AVG) divide(data, count, dtype, m->n);
    return TPI_ENGINE_DONE;
}

static tpi_engine_result mpi_reduce(void *self, void *group, void *data, int64_t count, int dtype, int op, int root) {
    engine *e = self;
    const members *m = in(e, group);
    MPI_Datatype type = type_of(dtype);
    MPI_Op how = op_of(dtype, op);
    MPI_Request pending;
    int size;
    bool here = m->rank_in[e->host.rank] == root, ok = true;
    if (type == MPI_DATATYPE_NULL || how == MPI_OP_NULL) return TPI_ENGINE_PASS;
    MPI_Type_size(type, &size);
    /* Not in place: MPICH 4.0 reads the constant that says so as an address where the root is not the first rank. */
    char *sum = here ? malloc((size_t)(count < CHUNK ? count : CHUNK) * (size_t)size + 1) : NULL;
    if (here && !sum) {
        e->host.fail(e->host.context, "no memory for a reduction's result");
        return TPI_ENGINE_FAILED;
    }
    for (int64_t from = 0; ok && from < count; from += CHUNK) {
        int n = (int)(count - from < CHUNK ? count - from : CHUNK);
        char *at = (char *)data + from * size;
        ok = CALL(e, count * size >= LARGE, MPI_Reduce, MPI_Ireduce, at, sum, n, type, how, root, m->comm) ==
             TPI_ENGINE_DONE;
        if (ok && here) memcpy(at, sum, (size_t)n * (size_t)size);
    }
    free(sum);
    if (!ok) return TPI_ENGINE_FAILED;
    if (op == TP_REDUCE_AVG && here) divide(data, count, dtype, m->n);
    return TPI_ENGINE_DONE;
}

static tpi_engine_result mpi_broadcast(void *self, void *group, void *data, int64_t bytes, int root) {
    engine *e = self;
    const members *m = in(e, group);
    MPI_Request pending;
    for (int64_t from = 0; from < bytes; from += CHUNK) {
        int n = (int)(bytes - from < CHUNK ? bytes - from : CHUNK);
        if (CALL(e, bytes >= LARGE, MPI_Bcast, MPI_Ibcast, (char *)data + from, n, MPI_BYTE, root, m->comm) !=
            TPI_ENGINE_DONE)
            return TPI_ENGINE_FAILED;
    }
    return TPI_ENGINE_DONE;
}

static tpi_engine_result mpi_all_gather(void *self, void *group, const void *from, void *out, int64_t bytes) {
    engine *e = self;
    const members *m = in(e, group);
    MPI_Request pending;
    if (bytes > CHUNK) return TPI_ENGINE_PASS;
    char *mine = (char *)out + bytes * m->rank_in[e->host.rank];
    if (mine != from) memmove(mine, from, (size_t)bytes);
    return CALL(e, bytes >= LARGE, MPI_Allgather, MPI_Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, (int)bytes,
                MPI_BYTE, m->comm);
}

/* ---- Messages ---- */
/* The head, whole chunks and the rest, where they are in memory. */
static MPI_Datatype message_type(const request *r, const void *data) {
    MPI_Datatype chunk, type, types[3];
    MPI_Aint at[3];
    int lengths[3] = {(int)sizeof r->head, (int)(r->bytes / CHUNK), (int)(r->bytes % CHUNK)};
    MPI_Type_contiguous(CHUNK, MPI_BYTE, &chunk);
    MPI_Get_address(r->head, &at[0]);
    MPI_Get_address(data, &at[1]);
    at[2] = MPI_Aint_add(at[1], (MPI_Aint)(r->bytes - lengths[2]));
    types[0] = types[2] = MPI_BYTE;
    types[1] = chunk;
    MPI_Type_create_struct(3, lengths, at, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&chunk);
    return type;
}

static void *begin(engine *e, const members *m, int peer, uint64_t slot, request r, const void *data) {
    request *kept = malloc(sizeof *kept);
    static char nothing[1];
    if (!kept) return NULL;
    *kept = r;
    kept->in = m;
    enter(e);
    kept->type = message_type(kept, data ? data : nothing);
    int tag = (int)(slot & 0x3fffff);
    int error = r.receives
                    ? MPI_Irecv(MPI_BOTTOM, 1, kept->type, peer == TPI_ANY_RANK ? MPI_ANY_SOURCE : m->rank_in[peer],
                                tag, m->comm, &kept->mpi)
                    : MPI_Isend(MPI_BOTTOM, 1, kept->type, m->rank_in[peer], tag, m->comm, &kept->mpi);
    if (error != MPI_SUCCESS) MPI_Type_free(&kept->type);
    leave(e);
    if (error == MPI_SUCCESS) return kept;
    result(e, error, r.receives ? "MPI_Irecv" : "MPI_Isend");
    free(kept);
    return NULL;
}

static void *mpi_send(void *self, void *group, int to, uint64_t slot, uint64_t label, const void *data, int64_t bytes) {
    return begin(self, in(self, group), to, slot, (request){.head = {label, (uint64_t)bytes}, .bytes = bytes}, data);
}

static void *mpi_recv(void *self, void *group, int from, uint64_t slot, void *data, int64_t bytes) {
    return begin(self, in(self, group), from, slot, (request){.bytes = bytes, .receives = true}, data);
}

static tpi_engine_result mpi_finish(void *self, void *what, double seconds, tpi_message *message) {
    engine *e = self;
    request *r = what;
    int done = 0, error = MPI_SUCCESS, class = 0;
    double until = 0;
    MPI_Status status = {.MPI_SOURCE = 0};
    for (int round = 0; error == MPI_SUCCESS && !done; round++) {
        enter(e);
        error = MPI_Test(&r->mpi, &done, &status);
        leave(e);
        if (done || error != MPI_SUCCESS) break;
        if (e->stopped) { /* the memory must be out of use when this returns */
            enter(e);
            MPI_Cancel(&r->mpi);
            MPI_Request_free(&r->mpi);
            leave(e);
            error = MPI_ERR_OTHER;
            break;
        }
        if (until == 0) until = now() + seconds;
        if (now() >= until) return TPI_ENGINE_PASS;
        pause_after(round);
    }
    if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
    if (message && r->receives)
        *message = (tpi_message){.from = error == MPI_SUCCESS || class == MPI_ERR_TRUNCATE
                                             ? r->in->rank_in[r->in->size + status.MPI_SOURCE]
                                             : 0,
                                 .bytes = (int64_t)r->head[1],
                                 .label = r->head[0]};
    else if (message)
        *message = (tpi_message){.from = e->host.rank, .bytes = r->bytes, .label = r->head[0]};
    enter(e);
    MPI_Type_free(&r->type);
    leave(e);
    free(r);
    /* One that was too long was cut: its head, which came first, says how long it was. */
    return class == MPI_ERR_TRUNCATE && message && message->bytes ? TPI_ENGINE_DONE : result(e, error, "a message");
}

static void mpi_stop(void *self) { ((engine *)self)->stopped = true; }

/* ---- Opening and closing. MPI begins once in a process, and ends with it: unless a job has failed, as the others may
 * then never come to the end ---- */
static bool began, failed;

static void at_exit(void) {
    int over;
    MPI_Finalized(&over);
    if (!over && !failed) MPI_Finalize();
}

static void mpi_close(void *self, bool in_order) {
    engine *e = self;
    if (!in_order) failed = true;
    if (!in_order) return; /* whoever is in a call stays there, with what it uses */
    free(e->all);
    free(e);
}

static void *mpi_open(const tpi_engine_host *host) {
    engine *e = calloc(1, sizeof *e);
    int there, over, level = MPI_THREAD_SINGLE;
    MPI_Comm comm;
    if (!e) return NULL;
    e->host = *host;
    pthread_mutex_init(&e->lock, NULL);
    MPI_Finalized(&over);
    MPI_Initialized(&there);
    if (over) host->fail(host->context, "MPI has been finalised: a process can use it once");
    if (over) {
        free(e);
        return NULL;
    }
    if (!there) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
        if (!began) atexit(at_exit);
        began = true;
    } else
        MPI_Query_thread(&level);
    e->threads = level == MPI_THREAD_MULTIPLE;
    int error = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (result(e, error, "MPI_Comm_dup") != TPI_ENGINE_DONE) {
        free(e);
        return NULL;
    }
    MPI_Comm_rank(comm, &e->host.rank);
    MPI_Comm_size(comm, &e->host.size);
    e->all = members_new(e, comm, e->host.size, NULL);
    if (e->all) return e;
    free(e);
    return NULL;
}

static void mpi_get_rank(void *self, int *rank, int *size) {
    engine *e = self;
    *rank = e->host.rank;
    *size = e->host.size;
}

static const tpi_engine here = {.version = TPI_ENGINE_VERSION,
                                .name = NAME,
                                .open = mpi_open,
                                .get_rank = mpi_get_rank,
                                .close = mpi_close,
                                .stop = mpi_stop,
                                .send = mpi_send,
                                .recv = mpi_recv,
                                .finish = mpi_finish,
                                .group = mpi_group,
                                .group_free = mpi_group_free,
                                .all_reduce = mpi_all_reduce,
                                .reduce = mpi_reduce,
                                .broadcast = mpi_broadcast,
                                .all_gather = mpi_all_gather};

__attribute__((visibility("default"))) const tpi_engine *tpi_engine_here(void);
const tpi_engine *tpi_engine_here(void) { return &here; }
