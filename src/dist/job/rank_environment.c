/* What launchers say in the environment about this process's place: PyTorch's own variables first, then those of MPI
 * libraries and schedulers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "dist/job/rank_environment.h"

typedef struct launcher {
    const char *name;
    const char *rank, *size, *local_rank, *local_size;
    const char *step_size; /* Slurm's: the tasks of a step, where they are not those of the whole job; or NULL */
    const char *step;      /* set in tasks alone, where a batch script has a rank too; or NULL */
    int first_rank;        /* task numbers of PBS begin at 1 */
    bool sizeless;         /* its size may be missing */
} launcher;

/* In this order: who sets more than one kind has the one that knows more first. PMIx gives no size; PBS's TM gives no
 * local rank. */
#define VARIABLES(of_rank, of_size, of_local_rank, of_local_size) \
    .rank = of_rank, .size = of_size, .local_rank = of_local_rank, .local_size = of_local_size
static const launcher launchers[] = {
    {.name = "torchrun", VARIABLES("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")},
    {.name = "openmpi",
     VARIABLES("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE")},
    {.name = "mvapich",
     VARIABLES("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE")},
    {.name = "pals", VARIABLES("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE")},
    {.name = "mpich", VARIABLES("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")},
    {.name = "slurm",
     VARIABLES("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
     .step_size = "SLURM_STEP_NUM_TASKS",
     .step = "SLURM_STEP_ID"},
    {.name = "pmix", VARIABLES("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"), .sizeless = true},
    {.name = "pbs", VARIABLES("PBS_TASKNUM", "PBS_NP", "PBS_LOCAL_RANK", "PBS_NUM_PPN"), .first_rank = 1},
};

int tpi_env_int(const char *name) { /* -1: not set, or no number */
    const char *text = getenv(name);
    char *end = NULL;
    long value = text && *text ? strtol(text, &end, 10) : -1;
    return end && (*end == 0 || *end == '(') && value >= 0 ? (int)value : -1; /* Slurm: "4(x2)" */
}

static int size_of(const launcher *l) {
    int of_step = l->step_size ? tpi_env_int(l->step_size) : -1;
    return of_step > 0 ? of_step : tpi_env_int(l->size);
}

static bool says(const launcher *l) {
    if (tpi_env_int(l->rank) < 0 || (l->step && !getenv(l->step))) return false;
    return l->sizeless || size_of(l) > 0;
}

/* How many of the step's tasks are on this node: "2(x3),1" has two on each of the first three nodes. -1: Slurm does not
 * say. */
static int slurm_tasks_here(void) {
    const char *at = getenv("SLURM_STEP_TASKS_PER_NODE");
    for (int node = tpi_env_int("SLURM_NODEID"); at && node >= 0;) {
        char *end;
        int tasks = (int)strtol(at, &end, 10), times = 1;
        if (end == at) return -1;
        if (end[0] == '(' && end[1] == 'x') {
            times = (int)strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (node < times) return tasks;
        node -= times;
        at = *end == ',' ? end + 1 : NULL;
    }
    return -1;
}

/* PMI and PMIx of a Slurm step say no more than a rank; Slurm knows the place on the node. */
static void ask_slurm(tp_dist_place *p) {
    if (!getenv("SLURM_STEP_ID") || tpi_env_int("SLURM_PROCID") != p->rank) return;
    if (p->local_rank < 0) p->local_rank = tpi_env_int("SLURM_LOCALID");
    if (p->local_size < 0) p->local_size = slurm_tasks_here();
}

/* RANK=0 and WORLD_SIZE=1 that are left over in the environment hide the job that mpiexec or srun started. torchrun
 * sets them for each process, with more beside them. */
static void find_unheeded(tp_dist_place *p) {
    if (p->launcher != launchers[0].name || p->world_size != 1 || getenv("TORCHELASTIC_RUN_ID")) return;
    for (size_t i = 1; i < sizeof launchers / sizeof *launchers && !p->unheeded; i++) {
        const launcher *l = &launchers[i];
        if (!says(l) || size_of(l) < 2) continue;
        p->unheeded = l->name;
        p->unheeded_rank = tpi_env_int(l->rank) - l->first_rank;
        p->unheeded_size = size_of(l);
    }
}

bool tp_dist_query(tp_dist_place *place) {
    tp_dist_place p = {.rank = -1, .world_size = -1, .local_rank = -1, .local_size = -1};
    if (!place || place->size <= 0) return tpi_refuse(TP_ERR_VALUE, "argument 'place': its size is not set");
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const launcher *l = &launchers[i];
        if (!says(l)) continue;
        p.launcher = l->name;
        p.rank = tpi_env_int(l->rank) - l->first_rank;
        p.world_size = size_of(l);
        p.local_rank = tpi_env_int(l->local_rank);
        p.local_size = tpi_env_int(l->local_size);
        ask_slurm(&p);
        if (p.local_rank < 0) p.local_rank = tpi_env_int("PMI_LOCAL_RANK"); /* Cray's and others' PMI */
        if (p.local_size < 0) p.local_size = tpi_env_int("PMI_LOCAL_SIZE");
        if (p.local_rank < 0) p.local_rank = tpi_env_int("LOCAL_RANK");
        break;
    }
    find_unheeded(&p);
    if (place->size > (int64_t)sizeof p) place->size = sizeof p;
    p.size = place->size;
    memcpy(place, &p, (size_t)place->size);
    return true;
}

int tpi_one_machine(void) {
    tp_dist_place place = {.size = sizeof place};
    if (!tp_dist_query(&place) || place.local_size < 1 || place.world_size < 1) return -1;
    return place.local_size >= place.world_size;
}

/* "node[007-010,12],gpu3" begins with node007. */
static void first_host(const char *list, char *host, size_t capacity) {
    size_t stem = strcspn(list, "[,"), n = stem;
    snprintf(host, capacity, "%.*s", (int)stem, list);
    if (list[n] != '[') return;
    size_t digits = strcspn(list + n + 1, "-,]"), at = strlen(host);
    if (at < capacity) snprintf(host + at, capacity - at, "%.*s", (int)digits, list + n + 1);
}

static bool first_line(const char *path, char *text, size_t capacity) {
    FILE *file = path ? fopen(path, "re") : NULL;
    bool ok = file && fgets(text, (int)capacity, file);
    if (file) fclose(file);
    if (ok) text[strcspn(text, "\n")] = 0;
    return ok && *text;
}

/* The same on all ranks, others for another job; below the ports that Linux gives to outgoing connections (32768 and
 * up), any of which may be taken for a moment. A step that is prime to the range leads to other ports each time. */
static void ports_of(const char *job, tpi_meeting *m) {
    uint32_t h = 2166136261u;
    for (const char *at = job; *at; at++) h = (h ^ (unsigned char)*at) * 16777619u;
    for (m->n = 0; m->n < TPI_MEETING_PORTS; m->n++)
        m->ports[m->n] = 16384 + (int)((h + (uint32_t)m->n * 4099u) % 16384);
    snprintf(m->word, sizeof m->word, "%s", job);
}

/* All ranks of an OpenMPI's mpirun are on this host: they can meet without MPI, whose beginning takes longer than all
 * the rest. Its server's address, which all of them are given, tells this job from others. */
static bool meet_on_this_host(tpi_meeting *m) {
    char job[200];
    const char *server = getenv("PMIX_SERVER_URI2"), *name = getenv("PMIX_NAMESPACE");
    int size = tpi_env_int("OMPI_COMM_WORLD_SIZE");
    if (!server || size < 2 || tpi_env_int("OMPI_COMM_WORLD_LOCAL_SIZE") != size) return false;
    if (!name) name = getenv("OMPI_MCA_ess_base_jobid");
    snprintf(job, sizeof job, "%s %s", server, name ? name : "");
    ports_of(job, m);
    snprintf(m->host, sizeof m->host, "127.0.0.1");
    return true;
}

bool tpi_meeting_point(tpi_meeting *m) {
    char job[200];
    const char *address = getenv("MASTER_ADDR");
    const char *port = getenv("MASTER_PORT");
    int given = tpi_env_int("MASTER_PORT");
    if (port && *port && (given < 1 || given > UINT16_MAX))
        return tpi_refuse(TP_ERR_VALUE, "environment variable MASTER_PORT: expected a port's number, got '%s'", port);
    const char *list = getenv("SLURM_STEP_NODELIST");
    if (!list) list = getenv("SLURM_NODELIST");
    snprintf(job, sizeof job, "%s.%s",
             getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID")
             : getenv("PBS_JOBID")  ? getenv("PBS_JOBID")
                                    : "",
             getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : "");
    if (given > 0)
        *m = (tpi_meeting){.ports = {given}, .n = 1};
    else
        ports_of(job, m);
    if (address && *address) {
        if (given <= 0 && strlen(job) < 2) return false;
        snprintf(m->host, sizeof m->host, "%s", address);
        return true;
    }
    if (list && getenv("SLURM_STEP_ID")) {
        first_host(list, m->host, sizeof m->host);
        return true;
    }
    return meet_on_this_host(m) || first_line(getenv("PBS_NODEFILE"), m->host, sizeof m->host);
}
