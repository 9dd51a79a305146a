/* Runs a graph's branches on several threads. A thread takes a step that is ready; where the step that it finished was
 * the last one that another step waited for, it goes on with that step.
 *
 * A step runs on one thread, since a parallel loop inside of a parallel loop has no other; its bits are the same on any
 * number of threads. The team's threads compute under the modes of the thread that runs the graph, and hand an error
 * over to it. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include "autograd/node.h"
#include "base/memory.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "dispatch/grad_mode.h"

enum { ERROR_TEXT = 2048, PATIENCE = 4000 /* looks before the processor is offered to others */ };

typedef struct modes { /* of a thread */
    const char *op;
    tp_device device;
    bool grad_off, inference;
} modes;

typedef struct parallel_run {
    const tpi_parallel_steps *how;
    const tpi_branches *b;
    modes modes;
    atomic_int *before; /* per step: those that it waits for */
    atomic_int *ready;  /* steps in the order in which they became so, counted from 1; 0: not written yet */
    atomic_int *users;  /* per end */
    _Alignas(64) atomic_int taken;
    _Alignas(64) atomic_int given; /* of `ready` */
    _Alignas(64) atomic_int left;  /* steps that are not done */
    _Alignas(64) atomic_bool failed;
    atomic_flag told;
    tp_code code;
    char text[ERROR_TEXT];
} parallel_run;

static modes exchange_modes(modes to) {
    modes from = {tpi_op_now, tpi_device_default, tpi_grad_off, tpi_inference};
    tpi_op_now = to.op;
    tpi_device_default = to.device;
    tpi_grad_off = to.grad_off;
    tpi_inference = to.inference;
    return from;
}

static void push_ready(parallel_run *s, int32_t step) {
    int at = atomic_fetch_add_explicit(&s->given, 1, memory_order_relaxed);
    atomic_store_explicit(&s->ready[at], step - s->b->from + 1, memory_order_release);
}

/* The next step that is ready, -1: there is nothing left to do. */
static int32_t pop_ready(parallel_run *s) {
    for (int looks = 0;; looks++) {
        if (atomic_load_explicit(&s->left, memory_order_acquire) == 0 ||
            atomic_load_explicit(&s->failed, memory_order_relaxed))
            return -1;
        int at = atomic_load_explicit(&s->taken, memory_order_relaxed);
        int step = at < s->b->to - s->b->from ? atomic_load_explicit(&s->ready[at], memory_order_acquire) : 0;
        if (step &&
            atomic_compare_exchange_strong_explicit(&s->taken, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
            return s->b->from + step - 1;
        if (looks > PATIENCE)
            sched_yield();
        else
            tpi_pause();
    }
}

static void fail(parallel_run *s) {
    if (!atomic_flag_test_and_set(&s->told)) {
        s->code = tp_error_code();
        snprintf(s->text, sizeof s->text, "%s", tp_error());
    }
    tp_error_clear();
    atomic_store_explicit(&s->failed, true, memory_order_relaxed);
}

/* A step is done. Gives the first of those that waited only for it, -1: none; others are anybody's. */
static int32_t finish(parallel_run *s, int32_t i) {
    const tpi_graph_step *step = &s->how->g->steps[i];
    int32_t mine = -1;
    for (int32_t u = 0; u < step->nuses; u++)
        if (atomic_fetch_sub_explicit(&s->users[step->uses[u]], 1, memory_order_acq_rel) == 1)
            s->how->end(s->how->context, s->b->ends[step->uses[u]]);
    for (int32_t k = 0; k < step->nafter; k++) {
        int32_t next = step->after[k];
        if (atomic_fetch_sub_explicit(&s->before[next - s->b->from], 1, memory_order_acq_rel) != 1) continue;
        if (mine < 0)
            mine = next;
        else
            push_ready(s, next);
    }
    atomic_fetch_sub_explicit(&s->left, 1, memory_order_acq_rel);
    return mine;
}

static void work(int64_t member, void *context) {
    (void)member;
    parallel_run *s = context;
    modes own = exchange_modes(s->modes);
    for (int32_t i = -1; i >= 0 || (i = pop_ready(s)) >= 0;) {
        if (s->how->step(s->how->context, i))
            i = finish(s, i);
        else {
            fail(s);
            break;
        }
    }
    exchange_modes(own);
}

bool tpi_run_parallel_steps(const tpi_parallel_steps *how, const tpi_branches *b, int threads) {
    size_t n = (size_t)(b->to - b->from), bytes = (2 * n + (size_t)b->nends) * sizeof(atomic_int);
    parallel_run s = {.how = how,
                      .b = b,
                      .modes = {tpi_op_now, tpi_device_default, tpi_grad_off, tpi_inference},
                      .before = tpi_new0(bytes),
                      .told = ATOMIC_FLAG_INIT};
    if (!s.before) return false;
    s.ready = s.before + n;
    s.users = s.ready + n;
    atomic_init(&s.left, (int)n);
    for (int32_t e = 0; e < b->nends; e++) atomic_init(&s.users[e], b->users[e]);
    for (int32_t i = b->from; i < b->to; i++) {
        atomic_init(&s.before[i - b->from], how->g->steps[i].nbefore);
        if (!how->g->steps[i].nbefore) push_ready(&s, i);
    }
    tpi_parallel_among(threads < b->width ? threads : b->width, b->brief, work, &s);
    tpi_delete(s.before, bytes);
    if (!s.failed) return true;
    const char *op = tpi_op_now;
    tpi_op_now = NULL; /* the text begins with it */
    tpi_fail(s.code, "%s", s.text);
    tpi_op_now = op;
    return false;
}
