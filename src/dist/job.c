/* This process's part in a job: finding the others, opening an engine, failing once with one reason, and leaving in order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "base/memory.h"
#include "dist/group.h"
#include "dist/net.h"
#include "dist/place.h"
#include "dist/store.h"

tpi_job *tpi_job_now;
static tp_group *world;
static int jobs; /* that this process has been in: their keys in a store stay apart */

tp_group *tp_dist_world(void) { return world; }
tp_store *tp_dist_store(void) { return tpi_job_now ? tpi_job_now->store : NULL; }
const char *tp_dist_engine(void) { return tpi_job_now ? tpi_job_now->engine->name : NULL; }

uint64_t tpi_slot(const tp_group *g, int channel, int64_t tag) { return (uint64_t)g->id << 32 | (uint64_t)channel << 28 | (uint64_t)tag; }

/* ---- Failing ---- */
bool tpi_job_fail(tpi_job *job, const char *reason) {
    pthread_mutex_lock(&job->lock);
    bool first = !job->failed;
    if (first) snprintf(job->reason, sizeof job->reason, "%s", reason);
    job->failed = true;
    pthread_mutex_unlock(&job->lock);
    if (first && job->self) job->engine->stop(job->self);
    return false;
}

bool tpi_job_ok(tpi_job *job) { return !job->failed || tpi_refuse(TP_ERR_RUNTIME, "%s", job->reason); }

bool tpi_refuse_engine(tpi_job *job) {
    char said[256];
    for (int i = 0; i < 200 && job->watch && !job->failed; i++) usleep(10000); /* who is gone, and why, is known a little later */
    pthread_mutex_lock(&job->lock);
    memcpy(said, job->engine_error, sizeof said);
    pthread_mutex_unlock(&job->lock);
    tpi_job_fail(job, *said ? said : "the engine failed without a reason");
    return tpi_job_ok(job);
}

/* ---- What engines ask of us ---- */
static bool host_set(void *context, const char *key, const char *text) { return tpi_store_set_text(((tpi_job *)context)->store, key, text); }
static bool host_get(void *context, const char *key, char *text, int64_t room) {
    tpi_job *job = context;
    return tpi_store_get_text(job->store, key, text, (size_t)room, tpi_now() + job->host.timeout);
}
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

const char *tpi_rank_name(tpi_job *job, int rank, char *text, size_t room) {
    char key[32], who[192] = "";
    snprintf(key, sizeof key, "who/%d", rank);
    if (tp_ok() && !tpi_store_get_text(job->store, key, who, sizeof who, 0)) tp_error_clear(); /* then the number has to do */
    if (*who) snprintf(text, room, "rank %d (%s)", rank, who);
    else snprintf(text, room, "rank %d", rank);
    return text;
}

/* ---- Beginning ---- */
static tp_store *meet(int rank, int size, double timeout) {
    char host[256];
    int port;
    if (size == 1) return tp_store_hash();
    if (!tpi_meeting_point(host, sizeof host, &port))
        return tpi_fail(TP_ERR_VALUE, "%d ranks have nowhere to meet: set MASTER_ADDR and MASTER_PORT, or give a store", size);
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    return tp_store_tcp(host, port, rank == 0 && !(agent && strcmp(agent, "True") == 0), timeout);
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
    if (job->self) job->engine->close(job->self, in_order);
    tp_store_release(job->store);
    pthread_mutex_destroy(&job->lock);
    tpi_mfree(job);
}

static bool open_engine(tpi_job *job, const char *backend) {
    (void)backend;
    job->engine = &tpi_tcp_engine;
    job->self = job->engine->open(&job->host);
    if (job->self) return true;
    return tp_ok() ? tpi_refuse(TP_ERR_RUNTIME, "the engine '%s' cannot be opened: %s", job->engine->name, job->engine_error) : false;
}

static bool begin(tpi_job *job, const tp_dist_init_options *o) {
    char prefix[48];
    snprintf(prefix, sizeof prefix, "taper/%d", jobs);
    tp_store *bare = o->store ? tp_store_retain(o->store) : meet(job->rank, job->size, job->timeout < 300 ? job->timeout : 300);
    job->store = bare ? tp_store_prefix(prefix, bare) : NULL;
    tp_store_release(bare);
    if (!job->store) return false;
    job->host = (tpi_engine_host){.version = TPI_ENGINE_VERSION, .rank = job->rank, .size = job->size, .timeout = job->timeout < 300 ? job->timeout : 300,
                                  .address = job->store->address, .context = job, .set = host_set, .get = host_get, .fail = host_fail};
    return tell_name(job) && open_engine(job, o->backend);
}

bool tp_dist_init_with(const tp_dist_init_options *options) {
    tp_dist_init_options o = {0};
    if (options) tpi_take_options(&o, sizeof o, options, options->size);
    if (!tp_ok()) return false;
    if (tpi_job_now) return tpi_refuse(TP_ERR_RUNTIME, "trying to initialize the default process group twice!");
    if (!settle(&o)) return false;
    tpi_job *job = tpi_malloc(sizeof *job);
    if (!job) return false;
    const char *stall = getenv("TAPER_STALL");
    *job = (tpi_job){.rank = o.rank, .size = o.world_size, .timeout = o.timeout > 0 ? o.timeout : 1800};
    job->stall = o.stall > 0 ? o.stall : stall && atof(stall) > 0 ? atof(stall) : 30;
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
    return true;
}

void tp_dist_end(void) {
    tpi_job *job = tpi_job_now;
    if (!job) return;
    bool in_order = !job->failed;
    for (tp_group *g = job->all; g; g = g->next) tpi_group_abandon(g);
    while (job->all) tp_group_free(job->all);
    world = NULL;
    tpi_job_now = NULL;
    job_free(job, in_order);
}
