/* Steps of a graph as events of a profile: each under its operator's name, with the shapes that it reads. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "dispatch/profile.h"
#include "graph/graph.h"
#include "dispatch/call.h"

enum { NAME = 128, NAMES = 512 };

/* Names that are made here stay for good, since profiles outlive graphs: there is room for as many as programs have,
 * and no more. */
static struct {
    pthread_mutex_t lock;
    int n;
    char text[NAMES][NAME];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *keep(const char *name, const char *when_full) {
    pthread_mutex_lock(&kept.lock);
    int i = 0;
    while (i < kept.n && strcmp(kept.text[i], name)) i++;
    if (i == kept.n && i < NAMES) strcpy(kept.text[kept.n++], name);
    pthread_mutex_unlock(&kept.lock);
    return i < NAMES ? kept.text[i] : when_full;
}

/* "fused: mul, add, tanh"; names that do not fit are left out. */
static const char *program_name(const tpi_graph_step *s) {
    char text[NAME] = "fused: ";
    size_t n = strlen(text), steps = (size_t)s->program->nsteps;
    for (size_t i = 0; i < steps + (s->fold != NULL); i++) {
        const char *name = i < steps ? s->program->steps[i].op->name : ((const tpi_fold_op *)s->fold->op)->name;
        bool fits = n + strlen(name) + sizeof ", , ..." <= NAME;
        n += (size_t)snprintf(text + n, NAME - n, "%s%s", i ? ", " : "", fits ? name : "...");
        if (!fits) break;
    }
    return keep(text, "fused");
}

static const char *inplace_name(const char *name) {
    char text[NAME];
    return snprintf(text, NAME, "%s_", name) < NAME ? keep(text, name) : name;
}

static const char *map_name(const tpi_graph_step *s) {
    const char *name = ((const tpi_map_op *)s->op)->name;
    return s->inplace ? inplace_name(name) : name;
}

/* NULL: no event of its own. Calls open theirs themselves, and what sets a pointer takes no time. */
static const char *name_of(const tpi_graph_step *s) {
    switch ((tpi_step_kind)s->kind) {
    case TPI_STEP_MAP: return map_name(s);
    case TPI_STEP_FOLD: return ((const tpi_fold_op *)s->op)->name;
    case TPI_STEP_SCAN: return ((const tpi_scan_op *)s->op)->name;
    case TPI_STEP_COPY: return inplace_name(TPI_OPERATOR(copy)->name);
    case TPI_STEP_FILL: return inplace_name(TPI_OPERATOR(fill)->name);
    case TPI_STEP_PROGRAM: return program_name(s);
    case TPI_STEP_CUSTOM: return s->custom->what.name;
    case TPI_STEP_ACCUMULATE: return "AccumulateGrad";
    case TPI_STEP_HAND_ON: return "add";
    default: return NULL;
    }
}

static void tell_input(int64_t event, const tp_compiled *g, int32_t v) {
    if (v < 0) return tpi_watch_input(event, NULL, NULL);
    const tpi_graph_value *from = &g->values[v];
    tp_tensor looks = {.alive = TPI_ALIVE, .dtype = from->dtype, .ndim = from->ndim, .shape = from->dims};
    tpi_watch_input(event, &looks, NULL);
}

int64_t tpi_watch_step(const tp_compiled *g, const tpi_graph_step *s) {
    const char *name = name_of(s);
    if (!name) return -1;
    bool accumulates = s->kind == TPI_STEP_ACCUMULATE, written = s->kind == TPI_STEP_COPY || s->kind == TPI_STEP_FILL;
    int64_t event = tpi_watch_begin(name, accumulates ? TP_EVENT_BACKWARD : TP_EVENT_OPERATOR, -1);
    if (written) tell_input(event, g, s->out[0]);
    for (int i = 0; i < s->nin && !accumulates; i++) tell_input(event, g, s->in[i]);
    return event;
}
