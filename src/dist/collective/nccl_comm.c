/* NCCL's communicators: made when they are first needed, by all of their ranks. These meet in the job's store, where a
 * wait can be watched, interrupted and given up, before anything of NCCL's is called; the one that comes last makes the
 * number by which NCCL lets them find each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/collective/gpu.h"
#include "dist/collective/nccl.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"
#include "tensor/same_device.h"

bool tpi_comm_ok(const tpi_comm *c, int result, const char *function) {
    if (result == 0 || result == TPI_NCCL_IN_PROGRESS) return true;
    const char *why = c->nccl->error_text(result), *last = c->nccl->last_error ? c->nccl->last_error(NULL) : NULL;
    return tpi_refuse(TP_ERR_RUNTIME, "%s failed: %s%s%s", function, why ? why : "unknown",
                      last && *last ? "; last error: " : "", last ? last : "");
}

static tpi_comm *find(tp_group *g, tp_device device, int from, int to) { /* with the lock */
    for (tpi_comm *c = g->comms; c; c = c->next)
        if (tpi_same_device(c->device, device) && c->from == from && c->to == to) return c;
    return NULL;
}

tpi_comm *tpi_comm_of(tp_group *g, tp_device device, int from, int to) {
    pthread_mutex_lock(&g->lock);
    tpi_comm *c = find(g, device, from, to);
    pthread_mutex_unlock(&g->lock);
    if (c) return c;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver || !(c = tpi_malloc(sizeof *c))) return NULL;
    *c = (tpi_comm){.group = g,
                    .device = device,
                    .driver = driver,
                    .nccl = tpi_nccl_for((tp_device_type)device.type),
                    .from = from,
                    .to = to};
    if (!driver->stream_new(device.index, -1, &c->stream)) {
        tpi_mfree(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->end = &c->first;
    pthread_mutex_lock(&g->lock);
    tpi_comm *meanwhile = find(g, device, from, to);
    for (const tpi_comm *other = g->comms; other && !meanwhile; other = other->next)
        c->nth += other->from == from && other->to == to;
    if (!meanwhile) {
        c->next = g->comms;
        g->comms = c;
    }
    pthread_mutex_unlock(&g->lock);
    if (meanwhile) tpi_comm_free(c);
    return meanwhile ? meanwhile : c;
}

void tpi_comm_free(tpi_comm *c) {
    c->driver->stream_free(c->device.index, c->stream);
    pthread_mutex_destroy(&c->lock);
    tpi_mfree(c);
}

/* ---- Meeting ---- */
/* Which GPU of which machine it is, as NCCL tells them apart: it takes parts of one GPU for the same. */
static bool tell_gpu(const tpi_comm *c, char *text, size_t capacity) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(c->device);
    const char *host = getenv("NCCL_HOSTID");
    if (!caps) return false;
    int put = snprintf(text, capacity, "%.100s/%x:%x:%x", host && *host ? host : tpi_net_host(), caps->pci_domain,
                       caps->pci_bus, caps->pci_device);
    for (int i = 0; i < 16 && !caps->pci_domain && !caps->pci_bus && !caps->pci_device; i++)
        put += snprintf(text + put, capacity - (size_t)put, "%02x", caps->uuid[i]);
    snprintf(text + put, capacity - (size_t)put, "\n");
    return true;
}

static bool any_twice(char *lines) {
    for (char *line = lines, *end; (end = strchr(line, '\n')); line = end + 1)
        for (const char *other = end + 1; *other; other = strchr(other, '\n') + 1)
            if (strncmp(line, other, (size_t)(end - line) + 1) == 0) return true;
    return false;
}

/* Everybody is there: says how to go on. */
static bool decide(const tpi_comm *c, const char *who, const char *how) {
    tp_store *store = c->group->job->store;
    char *lines = NULL;
    size_t n;
    tpi_nccl_id id;
    if (!tp_store_get(store, who, &lines, &n)) return false;
    bool shared = any_twice(lines);
    tp_store_free_data(lines);
    if (shared) return tp_store_set(store, how, "host", 4);
    return tpi_comm_ok(c, c->nccl->unique_id(&id), "ncclGetUniqueId") && tp_store_set(store, how, &id, sizeof id);
}

static bool await(const tpi_comm *c, const char *key) {
    tp_group *g = c->group;
    double deadline = tpi_now() + g->timeout;
    while (!tpi_store_wait_until(g->job->store, key, tpi_now() + 0.3)) {
        if (!tp_ok() || !tpi_job_ok(g->job)) return false;
        if (g->closing)
            return tpi_refuse(TP_ERR_RUNTIME, "the group '%s' was closed before the other ranks came", g->name);
        if (tpi_now() > deadline)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "the ranks of group '%s' have not all come to their first collective or message on a GPU "
                              "within %.0f seconds",
                              g->name, g->timeout);
    }
    return true;
}

static bool agree_how(const tpi_comm *c, const char *key, int n, tpi_nccl_id *id, bool *by_host) {
    tp_store *store = c->group->job->store;
    char who[96], came[96], how[96], gpu[256], *data;
    int64_t sum;
    size_t bytes;
    snprintf(who, sizeof who, "%s/who", key);
    snprintf(came, sizeof came, "%s/came", key);
    snprintf(how, sizeof how, "%s/how", key);
    if (!tell_gpu(c, gpu, sizeof gpu) || !tp_store_append(store, who, gpu, strlen(gpu)) ||
        !tp_store_add(store, came, 1, &sum))
        return false;
    if (sum == n && !decide(c, who, how)) return false;
    if (!await(c, how) || !tp_store_get(store, how, &data, &bytes)) return false;
    *by_host = bytes != sizeof *id;
    if (!*by_host) memcpy(id, data, sizeof *id);
    tp_store_free_data(data);
    return true;
}

bool tpi_comm_meet(tpi_comm *c) {
    tp_group *g = c->group;
    bool pair = c->from >= 0;
    char key[64];
    tpi_nccl_id id;
    void *comm = NULL;
    if (c->comm || c->by_host) return true;
    if (pair)
        snprintf(key, sizeof key, "nccl/%d/%d/%d-%d", g->id, c->nth, c->from, c->to);
    else
        snprintf(key, sizeof key, "nccl/%d/%d", g->id, c->nth);
    if (!agree_how(c, key, pair ? 2 : g->n, &id, &c->by_host)) return false;
    if (c->by_host) return true;
    if (!c->driver->stream_sync(c->device.index, c->stream))
        return false; /* and it is this thread's device now, which NCCL asks for */
    int result = c->nccl->init(&comm, pair ? 2 : g->n, id, pair ? g->rank == c->to : g->rank);
    if (!tpi_comm_ok(c, result, "ncclCommInitRank")) return false;
    pthread_mutex_lock(&c->lock);
    c->comm = comm;
    pthread_mutex_unlock(&c->lock);
    return true;
}
