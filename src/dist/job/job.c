/* This process's part in a job: finding the others, opening an engine, failing once with one reason, and leaving in
 * order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "base/memory.h"
#include "dist/collective/gpu.h"
#include "dist/engine/net.h"
#include "dist/job/rank_environment.h"
#include "dist/engine/plugin.h"
#include "dist/job/secret.h"
#include "dist/store/store.h"
#include "dist/watch/watch.h"

tpi_job *tpi_job_now;
static tp_group *world;
static int jobs; /* that this process has been in: their keys in a store stay apart */

tp_group *tp_dist_world(void) { return world; }
tp_store *tp_dist_store(void) { return tpi_job_now ? tpi_job_now->store : NULL; }
const char *tp_dist_engine(void) { return tpi_job_now ? tpi_job_now->engine->name : NULL; }

uint64_t tpi_message_slot(const tp_group *g, int channel, int64_t tag) {
    return (uint64_t)g->id << 32 | (uint64_t)channel << 20 | (uint64_t)tag;
}

/* ---- Failing ---- */
bool tpi_job_fail(tpi_job *job, const char *reason) {
    pthread_mutex_lock(&job->lock);
    bool first = !job->failed;
    if (first) snprintf(job->reason, sizeof job->reason, "%s", reason);
    job->failed = true;
    pthread_mutex_unlock(&job->lock);
    if (first && job->self) job->engine->stop(job->self);
    if (first) tpi_gpu_abort(job);
    return false;
}

bool tpi_job_ok(tpi_job *job) { return !job->failed || tpi_refuse(TP_ERR_RUNTIME, "%s", job->reason); }

bool tpi_refuse_engine(tpi_job *job) {
    char said[256];
    for (int i = 0; i < 200 && job->watch && !job->failed; i++)
        usleep(10000); /* who is gone, and why, is known a little later */
    pthread_mutex_lock(&job->lock);
    memcpy(said, job->engine_error, sizeof said);
    pthread_mutex_unlock(&job->lock);
    tpi_job_fail(job, *said ? said : "the engine failed without a reason");
    return tpi_job_ok(job);
}

/* ---- What engines ask of us ---- */
static bool host_set(void *context, const char *key, const char *text) {
    return tpi_store_set_text(((tpi_job *)context)->store, key, text);
}
static bool host_get(void *context, const char *key, char *text, int64_t capacity) {
    tpi_job *job = context;
    double deadline = tpi_now() + job->host.timeout, slice;
    do { /* a death in the meantime ends the wait */
        slice = tpi_now() + 0.5;
        if (tpi_store_wait_until(job->store, key, slice < deadline ? slice : deadline))
            return tpi_store_get_text(job->store, key, text, (size_t)capacity, deadline);
    } while (tp_ok() && slice < deadline && tpi_job_ok(job));
    return tp_ok() ? tpi_refuse(TP_ERR_IO, "nobody has set the key '%s' within %.0f seconds", key, job->host.timeout)
                   : false;
}
static bool host_failed(void *context) { return ((tpi_job *)context)->failed; }
static void host_fail(void *context, const char *text) {
    tpi_job *job = context;
    pthread_mutex_lock(&job->lock);
    snprintf(job->engine_error, sizeof job->engine_error, "%s", text);
    pthread_mutex_unlock(&job->lock);
}

/* ---- Names of ranks ---- */
static bool tell_name(tpi_job *job) {
    char key[32], text[192];
    snprintf(key, sizeof key, "who/%d", job->rank);
    snprintf(text, sizeof text, "host %s, pid %d", tpi_net_host(), (int)getpid());
    return tpi_store_set_text(job->store, key, text);
}

const char *tpi_rank_name(tpi_job *job, int rank, char *text, size_t capacity) {
    char key[32], who[192] = "";
    snprintf(key, sizeof key, "who/%d", rank);
    if (tp_ok() && !tpi_store_get_text(job->store, key, who, sizeof who, 0))
        tp_error_clear(); /* then the number has to do */
    if (*who)
        snprintf(text, capacity, "rank %d (%s)", rank, who);
    else
        snprintf(text, capacity, "rank %d", rank);
    return text;
}

/* ---- Beginning ---- */
/* The store's address, and the job's key, go from rank 0 to all by MPI. */
static tp_store *meet_by_mpi(const tpi_engine *engine, void *self, int rank, double timeout) {
    struct {
        char address[TPI_ADDRESS_BYTES];
        tpi_key key;
    } told = {.address = ""};
    tp_store *store = NULL;
    bool ok = rank != 0 || (tpi_job_key(&told.key) && (told.key.known || tpi_key_new(&told.key)));
    if (rank == 0 && ok) {
        tpi_job_key_set(&told.key);
        store = tpi_store_tcp_here(timeout);
        if (!store || !tpi_net_address(store->port, store->listen, told.address)) told.address[0] = 0;
    }
    if (engine->broadcast(self, NULL, &told, sizeof told, 0) != TPI_ENGINE_DONE || !*told.address) {
        tp_store_release(store);
        return tpi_fail(TP_ERR_RUNTIME, "rank 0 could not tell the others where to meet");
    }
    if (rank == 0) return store;
    tpi_job_key_set(&told.key);
    return tpi_store_tcp_at(told.address, timeout);
}

/* Ranks that meet by a file of theirs keep a secret beside it. */
static bool share_secret_by_file(const tp_store *store) {
    char path[4096];
    tpi_key key;
    if (!tpi_job_key(&key)) return false;
    if (key.known || !store->path) return true;
    if (!tpi_store_file_secret(store->path, path, sizeof path) || !tpi_key_from_file(path, &key)) return false;
    tpi_job_key_set(&key);
    return true;
}

/* A store in a file does not tell where its users are: they write it down, and on one machine loopback is enough. */
static bool on_one_machine(tpi_job *job, bool *one) {
    char word[192], *lines = NULL, text[256];
    size_t n = 0;
    int64_t came = 0;
    double begun = tpi_now(), told = begun;
    tpi_net_loopback_word(word, sizeof word);
    size_t length = strlen(word);
    word[length++] = '\n';
    if (!tp_store_append(job->store, "places", word, length) || !tp_store_add(job->store, "placed", 1, &came))
        return false;
    if (came == job->size && !tpi_store_set_text(job->store, "placed/all", "")) return false;
    while (!tpi_store_wait_until(job->store, "placed/all", tpi_now() + 0.5)) {
        if (!tp_ok()) return false;
        if (tpi_now() - begun > job->host.timeout)
            return tpi_refuse(TP_ERR_IO, "only some of %d ranks came to the file '%s' within %.0f seconds", job->size,
                              job->store->path, job->host.timeout);
        if (tpi_now() - told < job->stall) continue;
        told = tpi_now();
        if (!tp_store_add(job->store, "placed", 0, &came)) return false;
        snprintf(text, sizeof text, "rank %d (host %s, pid %d) waits in init_process_group: %lld of %d ranks are there",
                 job->rank, tpi_net_host(), (int)getpid(), (long long)came, job->size);
        tpi_report(text);
    }
    if (!tp_store_get(job->store, "places", &lines, &n)) return false;
    *one = n == length * (size_t)job->size;
    for (size_t at = 0; *one && at < n; at += length) *one = memcmp(lines + at, word, length) == 0;
    tp_store_free_data(lines);
    return true;
}

/* Where this rank listens, and how others reach its machine. */
static bool settle_address(tpi_job *job) {
    const tp_store *store = job->store;
    bool one = false;
    snprintf(job->listen, sizeof job->listen, "%s", store->listen);
    if (!*job->listen) tpi_listen_near("", "", job->listen);
    if (strcmp(job->listen, "*") == 0 && store->path && job->size > 1 && !on_one_machine(job, &one)) return false;
    if (one) snprintf(job->listen, sizeof job->listen, "%s", TPI_LOOPBACK);
    if (strcmp(job->listen, "*") != 0)
        snprintf(job->address, sizeof job->address, "%.*s", (int)strcspn(job->listen, " "), job->listen);
    else
        snprintf(job->address, sizeof job->address, "%s",
                 job->rank == 0 && store->host && *store->host ? store->host : tpi_net_host());
    job->host.listen = job->listen;
    job->host.address = job->address;
    return true;
}

static tp_store *meet(tpi_job *job, double timeout) {
    tpi_meeting m;
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    bool by_launcher = agent && strcmp(agent, "True") == 0; /* it serves the store, for all of the ranks' jobs */
    if (job->size == 1) return tp_store_hash();
    if (job->engine->get_rank && job->self) return meet_by_mpi(job->engine, job->self, job->rank, timeout);
    bool said = tpi_meeting_point(&m);
    if (!tp_ok()) return NULL;
    size_t word = said ? strlen(m.word) : 0;
    if (word || (jobs && !by_launcher))
        snprintf(m.word + word, sizeof m.word - word, " %d", jobs); /* the store of the job before may still be there */
    if (said) return tpi_store_tcp_meet(&m, job->rank == 0 && !by_launcher, timeout);
    const tpi_engine *launching = tpi_launching_engine();
    void *self = launching ? launching->open(&job->host) : NULL;
    if (!self)
        return tpi_fail(TP_ERR_VALUE, "%d ranks have nowhere to meet: set MASTER_ADDR and MASTER_PORT, or give a store",
                        job->size);
    return meet_by_mpi(launching, self, job->rank, timeout); /* it stays open: MPI ends with the process */
}

static bool settle(tp_dist_init_options *o) { /* rank and size, by the caller or the launcher */
    tp_dist_place place = {.size = sizeof place};
    if (!o->placed) {
        if (!tp_dist_query(&place)) return false;
        o->rank = place.rank < 0 ? 0 : place.rank;
        o->world_size = place.world_size < 0 ? 1 : place.world_size;
    }
    if (o->world_size < 1 || o->rank < 0 || o->rank >= o->world_size)
        return tpi_refuse(TP_ERR_VALUE, "argument 'rank': expected 0 to %d, got %d", o->world_size - 1, o->rank);
    return true;
}

static void job_free(tpi_job *job, bool in_order) {
    tpi_watch_close(job);
    if (job->self) job->engine->close(job->self, in_order);
    tp_store_release(job->store);
    tpi_job_key_set(NULL);
    pthread_mutex_destroy(&job->lock);
    tpi_mfree(job);
}

/* Engines that know ranks by themselves have the last word. But one that knows of this process alone, while the
 * launcher counts more, is another MPI than the launcher's: each rank would train by itself. */
static bool read_rank(tpi_job *job) {
    int rank = job->rank, size = job->size;
    job->engine->get_rank(job->self, &job->rank, &job->size);
    return job->size > 1 || size <= 1 ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "the launcher says rank %d of %d, but %s, which was opened for the backend 'mpi', knows of this "
                      "process alone: it is not the launcher's MPI. Load the module that the "
                      "launcher is of, name its library (TAPER_MPI=openmpi or mpich), or set MASTER_ADDR and "
                      "MASTER_PORT and take the backend 'gloo'",
                      rank, size, job->engine->name);
}

static bool open_engine(tpi_job *job) {
    job->self = job->engine->open(&job->host);
    if (job->self) return !job->engine->get_rank || read_rank(job);
    return tp_ok() ? tpi_refuse(TP_ERR_RUNTIME, "the engine '%s' cannot be opened: %s", job->engine->name,
                                job->engine_error)
                   : false;
}

static bool open_store(tpi_job *job, tp_store *given) {
    char prefix[48];
    snprintf(prefix, sizeof prefix, "taper/%d", jobs);
    tp_store *bare = given ? tp_store_retain(given) : meet(job, job->host.timeout);
    job->store = bare ? tp_store_prefix(prefix, bare) : NULL;
    tp_store_release(bare);
    return job->store && share_secret_by_file(job->store) && settle_address(job);
}

/* A job that was started by mpiexec and runs over TCP is slower than its user expects, and nothing else would tell. */
static void warn_of_no_mpi(const tpi_job *job, const char *backend) {
    char text[1280];
    const char *why = job->rank == 0 && job->size > 1 ? tpi_why_no_mpi(backend) : NULL;
    if (!why) return;
    snprintf(text, sizeof text,
             "MPI started the %d ranks of this job, but their messages go over TCP, which is slower, because %s. Load "
             "the module of the MPI that started them, or name its library (TAPER_MPI=/path/libmpi.so). The backend "
             "'gloo' takes TCP without this warning",
             job->size, why);
    tpi_report(text);
}

/* Engines that know their ranks by themselves are opened first, and tell everybody where the store is; others need the
 * store. */
static bool begin(tpi_job *job, const tp_dist_init_options *o) {
    char host[32];
    const char *named = tpi_host_backend(o->backend, host, sizeof host);
    if (!tp_ok()) return false;
    job->engine = tpi_engine_for(named);
    warn_of_no_mpi(job, named);
    job->by_nccl = tpi_gpus_by_nccl(o->backend);
    job->host = (tpi_engine_host){.version = TPI_ENGINE_VERSION,
                                  .rank = job->rank,
                                  .size = job->size,
                                  .address = "",
                                  .listen = "*",
                                  .context = job,
                                  .set = host_set,
                                  .get = host_get,
                                  .failed = host_failed,
                                  .fail = host_fail};
    job->host.timeout = job->timeout < 300 ? job->timeout : 300;
    if (!job->engine || (job->engine->get_rank && !open_engine(job)) || !open_store(job, o->store) || !tell_name(job))
        return false;
    return (job->size == 1 || tpi_watch_open(job)) && (job->self || open_engine(job));
}

bool tp_dist_init_with(const tp_dist_init_options *options) {
    tp_dist_init_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (!tp_ok()) return false;
    if (tpi_job_now) return tpi_refuse(TP_ERR_RUNTIME, "trying to initialize the default process group twice!");
    if (!settle(&o)) return false;
    tpi_job *job = tpi_malloc(sizeof *job);
    if (!job) return false;
    *job =
        (tpi_job){.rank = o.rank, .size = o.world_size, .pid = getpid(), .timeout = o.timeout > 0 ? o.timeout : 1800};
    job->stall = o.stall > 0 ? o.stall : tpi_stall_time();
    pthread_mutex_init(&job->lock, NULL);
    int *all = begin(job, &o) ? tpi_malloc(sizeof *all * (size_t)job->size) : NULL;
    for (int i = 0; all && i < job->size; i++) all[i] = i;
    world = all ? tpi_group_open(job, job->size, all, job->timeout, "default") : NULL;
    tpi_mfree(all);
    jobs++;
    if (!world) {
        job_free(job, false);
        return false;
    }
    tpi_job_now = job;
    bool met = tp_dist_wait(tp_dist_barrier(world)); /* nobody leaves with the store before all have found each other */
    pthread_mutex_lock(&world->lock);                /* the program's own collectives count from 1 */
    world->number = world->entered = world->left = 0;
    pthread_mutex_unlock(&world->lock);
    job->begun = true;
    if (!met) tp_dist_end();
    return met;
}

/* At a process's end: all of it, unless something is still under way, which nobody will wait for. */
void tp_dist_leave(void) {
    tpi_job *job = tpi_job_now;
    bool busy = !job || job->pid != getpid() || job->failed;
    for (tp_group *g = busy ? NULL : job->all; g; g = g->next) tpi_gpu_quiet(g, 10);
    if (!busy) busy = job->failed;
    bool locked = !busy;
    if (locked) pthread_mutex_lock(&job->lock);
    for (const tp_group *g = busy ? NULL : job->all; g; g = g->next) busy = busy || g->waiting || g->first;
    if (locked) pthread_mutex_unlock(&job->lock);
    if (busy)
        tp_dist_tell_failure(NULL);
    else
        tp_dist_end();
}

void tp_dist_end(void) {
    tpi_job *job = tpi_job_now;
    if (!job) return;
    bool in_order = !job->failed;
    if (job->pid != getpid()) { /* threads and connections are the parent's */
        tpi_job_now = NULL;
        world = NULL;
        return;
    }
    for (tp_group *g = job->all; g; g = g->next) tpi_group_end_thread(g);
    job->engine->stop(job->self); /* messages that nobody took */
    for (tp_group *g = job->all; g; g = g->next) tpi_group_abandon(g);
    tpi_watch_leave(job); /* others may still be in what this rank has left: it is told while there are groups */
    while (job->all) tp_group_free(job->all);
    world = NULL;
    tpi_job_now = NULL;
    job_free(job, in_order);
}
