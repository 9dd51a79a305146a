/* Finding engines: the library's own, and plug-ins, which lie in the library's folder (or in the one that TAPER_PLUGINS
 * names).
 *
 * Of MPI the library itself comes first: the one that is loaded already (by mpi4py, or a program linked with it), the
 * one that TAPER_MPI names, or the one of the launcher's kind that the loader finds. What it is decides which plug-in
 * speaks to it. */
#define _GNU_SOURCE /* dladdr */
#include "dist/engine/plugin.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/dist.h>
#include "base/error.h"
#include "dist/collective/nccl.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char no_mpi[768]; /* why there is no engine for MPI */

static void *open_plugin(const char *name) {
    char path[1024];
    const char *folder = getenv("TAPER_PLUGINS");
    Dl_info about;
    if (folder && *folder)
        snprintf(path, sizeof path, "%s/libtaper-%s.so", folder, name);
    else if (dladdr((void *)tpi_engine_for, &about) && about.dli_fname && strrchr(about.dli_fname, '/'))
        snprintf(path, sizeof path, "%.*s/libtaper-%s.so", (int)(strrchr(about.dli_fname, '/') - about.dli_fname),
                 about.dli_fname, name);
    else
        snprintf(path, sizeof path, "libtaper-%s.so", name);
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) snprintf(no_mpi, sizeof no_mpi, "the plug-in for it cannot be opened (%s)", dlerror());
    return file;
}

static const tpi_engine *engine_in(const char *plugin) {
    void *file = open_plugin(plugin);
    tpi_engine_entry entry = NULL;
    if (file) *(void **)&entry = dlsym(file, "tpi_engine_here");
    const tpi_engine *engine = entry ? entry() : NULL;
    if (engine && engine->version == TPI_ENGINE_VERSION) return engine;
    if (file)
        snprintf(no_mpi, sizeof no_mpi, "the plug-in for it, libtaper-%s.so, is of another version of Taper", plugin);
    return NULL;
}

/* ---- MPI ---- */
static const char *const openmpi_files[] = {"libmpi.so.40", "libmpi.so.20", "libmpi.so.12.20"};
/* Cray's differ by compiler in their Fortran alone. */
static const char *const mpich_files[] = {
    "libmpi.so.12",         "libmpich.so.12",      "libmpi_cray.so.12", "libmpi_gnu_123.so.12", "libmpi_gnu_112.so.12",
    "libmpi_gnu_103.so.12", "libmpi_gnu_91.so.12", "libmpi_amd.so.12",  "libmpi_aocc.so.12",    "libmpi_intel.so.12"};
enum {
    OPENMPI_FILES = sizeof openmpi_files / sizeof *openmpi_files,
    MPICH_FILES = sizeof mpich_files / sizeof *mpich_files
};

static void *first_of(const char *const *files, int n, int flags) {
    void *found = NULL;
    for (int i = 0; i < n && !found; i++) found = dlopen(files[i], flags);
    return found;
}

static bool launched_by(const char *names) { /* one of these launchers */
    tp_dist_place place = {.size = sizeof place};
    return tp_dist_query(&place) && place.launcher && strstr(names, place.launcher);
}

static void *open_libmpi(void) {
    int loaded = RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD, fresh = RTLD_NOW | RTLD_GLOBAL;
    const char *wish = getenv("TAPER_MPI");
    bool wants_mpich = wish && strcmp(wish, "mpich") == 0, wants_openmpi = wish && strcmp(wish, "openmpi") == 0;
    if (wish && strchr(wish, '/')) return dlopen(wish, fresh);
    void *found = wish ? NULL : first_of(openmpi_files, OPENMPI_FILES, loaded);
    if (!found && !wish) found = first_of(mpich_files, MPICH_FILES, loaded);
    bool mpich_first =
        wants_mpich ||
        (!wants_openmpi && (launched_by("mpich pals mvapich") || getenv("PMI_RANK") || getenv("PALS_RANKID")));
    if (!found && mpich_first) found = first_of(mpich_files, MPICH_FILES, fresh);
    if (!found && !wants_mpich) found = first_of(openmpi_files, OPENMPI_FILES, fresh);
    if (!found && !wants_openmpi) found = first_of(mpich_files, MPICH_FILES, fresh);
    return found;
}

static const tpi_engine *find_mpi(void) {
    const char *wish = getenv("TAPER_MPI");
    void *library = open_libmpi();
    if (library) return engine_in(dlsym(library, "ompi_mpi_comm_world") ? "mpi-openmpi" : "mpi-mpich");
    const char *said = wish && strchr(wish, '/') ? dlerror() : NULL;
    if (said)
        snprintf(no_mpi, sizeof no_mpi, "TAPER_MPI=%s: %s", wish, said);
    else if (wish)
        snprintf(no_mpi, sizeof no_mpi, "the loader finds no libmpi of the kind that TAPER_MPI=%s names", wish);
    else
        snprintf(no_mpi, sizeof no_mpi, "the loader finds no libmpi (%s, %s and others)", openmpi_files[0],
                 mpich_files[0]);
    return NULL;
}

static const tpi_engine *mpi_engine(void) {
    static bool tried;
    static const tpi_engine *engine;
    pthread_mutex_lock(&lock);
    if (!tried) engine = find_mpi();
    tried = true;
    pthread_mutex_unlock(&lock);
    return engine;
}

static bool launched_by_mpi(void) {
    bool by_mpi = launched_by("openmpi mpich pals mvapich pmix") ||
                  (launched_by("slurm") && (getenv("PMIX_RANK") || getenv("PMI_RANK")));
    return by_mpi || getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") || getenv("PALS_RANKID");
}

const tpi_engine *tpi_launching_engine(void) { return launched_by_mpi() ? mpi_engine() : NULL; }

/* ---- gloo: the library's own TCP engine, which answers sooner (docs/clusters.md has the figures), unless TAPER_GLOO=1
 * asks for libgloo ---- */
static const tpi_engine *gloo_engine(void) {
    static const tpi_engine *engine;
    const char *wish = getenv("TAPER_GLOO");
    if (!wish || strcmp(wish, "1") != 0) return &tpi_tcp_engine;
    pthread_mutex_lock(&lock);
    if (!engine) engine = engine_in("gloo");
    pthread_mutex_unlock(&lock);
    return engine
               ? engine
               : tpi_fail(TP_ERR_RUNTIME, "TAPER_GLOO=1: libtaper-gloo.so, or the libgloo that it needs, is not there");
}

static const tpi_engine *tcp_engine(void) { return &tpi_tcp_engine; }
static const tpi_engine *needed_mpi_engine(void) {
    const tpi_engine *mpi = mpi_engine();
    return mpi ? mpi
               : tpi_fail(TP_ERR_RUNTIME,
                          "backend 'mpi': no libmpi was found, or none that a plug-in (libtaper-mpi-openmpi.so, "
                          "libtaper-mpi-mpich.so) speaks to: %s",
                          no_mpi);
}

static bool always(void) { return true; }
static bool has_mpi(void) { return mpi_engine(); }
static bool has_nccl(void) { return tpi_nccl_for(TP_CUDA); }
static bool has_xccl(void) { return tpi_nccl_for(TP_XPU); }

typedef struct backend_row {
    const char *name;
    const tpi_engine *(*engine)(void); /* what carries bytes between hosts */
    bool (*available)(void);           /* NULL: another name of a backend, which nobody asks for */
    bool as_launched;                  /* where MPI started the ranks, MPI carries them */
    bool by_nccl;                      /* tensors on GPUs go by NCCL or its kin */
} backend_row;
static const backend_row backends[] = {
    {"gloo", gloo_engine, always, .by_nccl = false},
    {"tcp", tcp_engine, always, .by_nccl = false},
    {"mpi", needed_mpi_engine, has_mpi, .by_nccl = false},
    {"nccl", gloo_engine, has_nccl, .by_nccl = true},
    {"xccl", gloo_engine, has_xccl, .as_launched = true, .by_nccl = true},
    {"ccl", gloo_engine, NULL, .as_launched = true, .by_nccl = true},
};

static const backend_row *find_backend_of(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strlen(backends[i].name) == length && memcmp(backends[i].name, name, length) == 0) return &backends[i];
    return NULL;
}
static const backend_row *find_backend(const char *name) { return find_backend_of(name, strlen(name)); }

/* Does it leave the choice to what started the ranks? */
static bool prefers_mpi(const char *backend) {
    const backend_row *row = backend ? find_backend(backend) : NULL;
    return backend ? row && row->as_launched : !getenv("MASTER_ADDR");
}

const char *tpi_why_no_mpi(const char *backend) {
    return prefers_mpi(backend) && launched_by_mpi() && !mpi_engine() ? no_mpi : NULL;
}

const tpi_engine *tpi_engine_for(const char *backend) {
    const tpi_engine *launching = prefers_mpi(backend) ? tpi_launching_engine() : NULL;
    if (launching) return launching;
    const backend_row *row = find_backend(backend ? backend : "gloo");
    if (!row)
        return tpi_fail(TP_ERR_VALUE, "argument 'backend': expected gloo, mpi, nccl, ccl or tcp, got '%s'", backend);
    return row->engine();
}

/* ---- Backends by device ---- */
/* The name that stands for a device in the list; NULL: none does. */
static const char *part_for(const char *backend, const char *device, size_t *length) {
    for (const char *part = backend; *part; part += *part == ',') {
        const char *colon = part + strcspn(part, ":,");
        size_t whole = strcspn(part, ",");
        if (*colon == ':' && (size_t)(colon - part) == strlen(device) && strncmp(part, device, strlen(device)) == 0) {
            *length = whole - (size_t)(colon + 1 - part);
            return colon + 1;
        }
        part += whole;
    }
    return NULL;
}

const char *tpi_host_backend(const char *backend, char *text, size_t capacity) {
    size_t length = 0;
    if (!backend || !strchr(backend, ':')) return backend;
    const char *name = part_for(backend, "cpu", &length);
    if (!name) return NULL; /* GPUs only: whatever is there, for what they leave to the host */
    if (length == 0 || length >= capacity)
        return tpi_fail(TP_ERR_VALUE, "argument 'backend': expected a name after 'cpu:', got '%s'", backend);
    snprintf(text, capacity, "%.*s", (int)length, name);
    return text;
}

bool tpi_gpus_by_nccl(const char *backend) {
    static const char *const devices[] = {"cuda", "xpu"};
    const backend_row *row = backend ? find_backend(backend) : NULL;
    if (!backend || (row && row->by_nccl)) return true;
    for (int d = 0; d < 2; d++) {
        size_t length = 0;
        const char *name = part_for(backend, devices[d], &length);
        row = name ? find_backend_of(name, length) : NULL;
        if (row && row->by_nccl) return true;
    }
    return false;
}

bool tp_dist_available(const char *backend) {
    const backend_row *row = backend ? find_backend(backend) : NULL;
    return row && row->available && row->available();
}
