/* L-BFGS. The direction is minus the gradient times an approximation of the inverse Hessian, which the two-loop
 * recursion applies from the last steps and changes of the gradient without ever forming it. A step works on a copy of
 * the memory and knows where it began: if it fails, parameters and memory are as they were. */
#include "optim/lbfgs.h"
#include "autograd/glue.h"
#include "base/handle.h"
#include "tensor/check_arguments.h"
#include "tpi_optimisers.h"
#include <math.h>
#include <string.h>
#include <taper/autograd.h>
#include <taper/ops.h>

struct tp_lbfgs_memory {
    tp_lbfgs_state s; /* n, old_dirs and the others point at what follows */
    int64_t capacity;
    tp_tensor **dirs, **steps;
    double *ro;
};

/* ---- The memory ---- */
tp_lbfgs_memory *tp_lbfgs_memory_new(void) {
    tp_lbfgs_memory *m = tpi_new0(sizeof *m);
    if (m) {
        m->s.size = (int64_t)sizeof m->s;
        m->s.h_diag = 1;
    }
    return m;
}

static void clear(tp_lbfgs_memory *m) {
    for (int64_t i = 0; i < m->s.n; i++) {
        tpi_release(m->dirs[i]);
        tpi_release(m->steps[i]);
    }
    tpi_release(m->s.d);
    tpi_release(m->s.prev_flat_grad);
    tpi_mfree(m->dirs);
    tpi_mfree(m->steps);
    tpi_mfree(m->ro);
}
void tp_lbfgs_memory_free(tp_lbfgs_memory *m) {
    if (TPI_ENDED(m, "a memory of L-BFGS")) return;
    if (!m) return;
    clear(m);
    tpi_handle_delete(m, sizeof *m);
}
void tp_lbfgs_get(const tp_lbfgs_memory *m, tp_lbfgs_state *state) {
    if (!TPI_GIVEN(m, "a memory") || !TPI_GIVEN(state, "a tp_lbfgs_state") || !tpi_sound_size(state->size, "state"))
        return;
    tp_lbfgs_state all = m->s;
    all.size = state->size;
    all.old_dirs = m->dirs;
    all.old_stps = m->steps;
    all.ro = m->ro;
    tpi_copy_options(state, (size_t)state->size, &all, (int64_t)sizeof all);
}

static bool reserve(tp_lbfgs_memory *m, int64_t n) {
    if (n <= m->capacity) return true;
    const int64_t capacity = n < 8 ? 8 : 2 * n;
    tp_tensor **dirs = tpi_realloc(m->dirs, (size_t)capacity * sizeof *dirs);
    if (dirs) m->dirs = dirs;
    tp_tensor **steps = dirs ? tpi_realloc(m->steps, (size_t)capacity * sizeof *steps) : NULL;
    if (steps) m->steps = steps;
    double *ro = steps ? tpi_realloc(m->ro, (size_t)capacity * sizeof *ro) : NULL;
    if (ro) {
        m->ro = ro;
        m->capacity = capacity;
    }
    return ro != NULL;
}

/* A copy that holds references of its own. */
static bool copy_state(tp_lbfgs_memory *m, const tp_lbfgs_state *from) {
    memset(m, 0, sizeof *m);
    if (!reserve(m, from->n + 1)) {
        clear(m);
        return false;
    }
    m->s = *from;
    tpi_retain(m->s.d);
    tpi_retain(m->s.prev_flat_grad);
    for (int64_t i = 0; i < from->n; i++) {
        m->dirs[i] = tpi_retain(from->old_dirs[i]);
        m->steps[i] = tpi_retain(from->old_stps[i]);
        m->ro[i] = from->ro[i];
    }
    return true;
}
bool tp_lbfgs_set(tp_lbfgs_memory *m, const tp_lbfgs_state *state) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(m, "a memory") || !TPI_GIVEN(state, "a tp_lbfgs_state")) return false;
    tp_lbfgs_state all = {0};
    tp_lbfgs_memory made;
    if (!tpi_sound_size(state->size, "state") || !tpi_copy_options(&all, sizeof all, state, state->size) ||
        !copy_state(&made, &all))
        return false;
    clear(m);
    *m = made;
    return true;
}

static bool remember(tp_lbfgs_memory *m, tp_tensor *dir, tp_tensor *step, double ro, int64_t most) {
    if (!reserve(m, m->s.n + 1)) return false;
    m->dirs[m->s.n] = tpi_retain(dir);
    m->steps[m->s.n] = tpi_retain(step);
    m->ro[m->s.n] = ro;
    m->s.n++;
    if (m->s.n <= most) return true;
    tpi_release(m->dirs[0]);
    tpi_release(m->steps[0]);
    m->s.n--;
    memmove(m->dirs, m->dirs + 1, (size_t)m->s.n * sizeof *m->dirs);
    memmove(m->steps, m->steps + 1, (size_t)m->s.n * sizeof *m->steps);
    memmove(m->ro, m->ro + 1, (size_t)m->s.n * sizeof *m->ro);
    return true;
}
static void keep(tp_tensor **at, tp_tensor *t) {
    tpi_retain(t);
    tpi_release(*at);
    *at = t;
}

/* ---- The problem ---- */
double tpi_vector_max(tp_tensor *x) {
    double v = NAN;
    TP_SCOPE
        v = tp_item(tp_max(tp_abs(x)));
    return v;
}
double tpi_vector_dot(tp_tensor *a, tp_tensor *b) {
    double v = NAN;
    TP_SCOPE
        v = tp_item(tp_dot(a, b));
    return v;
}

static tp_tensor *reals(tp_tensor *t) { return tp_dtype_is_complex(t->dtype) ? tp_view_as_real(t) : t; }

/* All gradients end to end; zeros where there is none. An owned reference. */
static tp_tensor *flat_grad(const tpi_problem *p) {
    tp_tensor **parts = tpi_malloc((size_t)p->params.n * sizeof *parts), *flat = NULL;
    if (!parts) return NULL;
    TP_SCOPE {
        for (int64_t i = 0; i < p->params.n; i++) {
            tp_tensor *grad = tp_grad(p->params.v[i]);
            parts[i] = tp_reshape(reals(grad ? grad : tp_zeros_like(p->params.v[i])), TP_INTS(-1));
        }
        flat = tp_cat(tp_list(p->params.n, parts));
        if (p->sign < 0) flat = tp_neg(flat);
        flat = tp_retain(flat);
    }
    tpi_mfree(parts);
    return flat;
}

/* The parameters move by t times the direction. */
static bool move(const tpi_problem *p, double t, tp_tensor *direction) {
    int64_t at = 0;
    TP_SCOPE
        for (int64_t i = 0; i < p->params.n; i++) {
            tp_tensor *x = reals(p->params.v[i]);
            if (!x) break;
            const int64_t n = tp_numel(x);
            tp_add_(x, tp_reshape(tp_narrow(direction, 0, at, n), tp_shape(x)), .alpha = tp_float(t));
            at += n;
        }
    return tp_ok();
}
static void go_back(const tpi_problem *p) {
    for (int64_t i = 0; i < p->params.n; i++) {
        tpi_copy_data(p->params.v[i], p->start[i]);
        tpi_touch(p->params.v[i]);
    }
}

static bool evaluate(tpi_problem *p, double *loss, tp_tensor **grad) {
    const char *here = tpi_op_now;
    tpi_op_leave(NULL); /* what fails in the closure is not ours */
    bool ok = p->closure(p->context, loss);
    tpi_op_leave(here);
    if (!ok) return false;
    p->evaluations++;
    *loss *= p->sign;
    tp_tensor *g = flat_grad(p);
    if (!g) return false;
    tpi_release(*grad);
    *grad = g;
    return true;
}
bool tpi_evaluate_at(tpi_problem *p, tp_tensor *direction, double t, tpi_point *out) {
    bool ok = move(p, t, direction) && evaluate(p, &out->loss, &out->grad);
    go_back(p);
    if (!ok) return false;
    out->t = t;
    out->slope = tpi_vector_dot(out->grad, direction);
    return tp_ok();
}

/* ---- A step ---- */

/* The next direction into m->s.d, by the two-loop recursion over what is remembered. */
static bool find_direction(tp_lbfgs_memory *m, const double *o, tp_tensor *grad) {
    tp_lbfgs_state *s = &m->s;
    TP_SCOPE {
        if (s->n_iter == 1) {
            keep(&s->d, tp_neg(grad));
            continue;
        }
        tp_tensor *change = tp_sub(grad, s->prev_flat_grad), *step = tp_mul(s->d, s->t);
        if (!step || !change) continue;
        const double curvature = tpi_vector_dot(change, step);
        if (curvature > 1e-10) {
            if (!remember(m, change, step, 1 / curvature, (int64_t)o[LBFGS_HISTORY_SIZE])) continue;
            s->h_diag = curvature / tpi_vector_dot(change, change);
        }
        double *share = tpi_malloc((size_t)(s->n + 1) * sizeof *share);
        tp_tensor *q = tp_neg(grad);
        for (int64_t i = s->n - 1; share && q && i >= 0; i--) {
            share[i] = tpi_vector_dot(m->steps[i], q) * m->ro[i];
            q = tp_sub_(q, m->dirs[i], .alpha = tp_float(share[i]));
        }
        q = q ? tp_mul_(q, s->h_diag) : NULL;
        for (int64_t i = 0; share && q && i < s->n; i++)
            q = tp_add_(q, m->steps[i], .alpha = tp_float(share[i] - tpi_vector_dot(m->dirs[i], q) * m->ro[i]));
        tpi_mfree(share);
        keep(&s->d, q);
    }
    return tp_ok();
}

/* Where each parameter is, as fresh tensors. */
static bool save_start(const tpi_problem *p) {
    for (int64_t i = 0; i < p->params.n; i++) {
        tpi_release(p->start[i]);
        p->start[i] = tp_own(tp_clone(tp_detach(p->params.v[i])));
        if (!p->start[i]) return false;
    }
    return true;
}

typedef struct progress {
    double loss;
    tp_tensor *grad; /* owned */
    int64_t evaluations;
    bool stop;
} progress;

/* Moves along the direction; the loss and gradient there, unless nobody needs them any more. */
static bool advance(tp_lbfgs_memory *m, const double *o, tpi_problem *p, progress *now, double slope, bool last) {
    tp_lbfgs_state *s = &m->s;
    bool ok = true;
    p->evaluations = 0;
    if (o[LBFGS_LINE_SEARCH_FN] != 0) {
        const tpi_point from = {0, now->loss, slope, now->grad};
        tpi_point found = {0};
        TP_SCOPE
            ok = save_start(p);
        if (!ok || !tpi_strong_wolfe(p, s->d, &from, s->t, &found)) return false;
        tpi_release(now->grad);
        now->loss = found.loss;
        now->grad = found.grad;
        s->t = found.t;
        ok = move(p, s->t, s->d);
    } else
        ok = move(p, s->t, s->d) && (last || evaluate(p, &now->loss, &now->grad));
    now->evaluations += p->evaluations;
    s->func_evals += p->evaluations;
    return ok;
}

static bool is_optimal(const double *o, tp_tensor *grad) { return tpi_vector_max(grad) <= o[LBFGS_TOLERANCE_GRAD]; }

/* One direction and the way along it. */
static bool iterate(tp_lbfgs_memory *m, const double *o, tpi_problem *p, progress *now, bool last) {
    tp_lbfgs_state *s = &m->s;
    s->n_iter++;
    if (s->n_iter == 1) s->h_diag = 1;
    if (!find_direction(m, o, now->grad)) return false;
    keep(&s->prev_flat_grad, now->grad);
    s->prev_loss = now->loss;
    s->t = o[LBFGS_LR];
    if (s->n_iter == 1) {
        TP_SCOPE
            s->t *= fmin(1, 1 / tp_item(tp_sum(tp_abs(now->grad))));
    }
    const double slope = tpi_vector_dot(now->grad, s->d), change = o[LBFGS_TOLERANCE_CHANGE];
    if (!tp_ok()) return false;
    now->stop = slope > -change;
    if (now->stop) return true;
    if (!advance(m, o, p, now, slope, last)) return false;
    const double most = isnan(o[LBFGS_MAX_EVAL]) ? floor(o[LBFGS_MAX_ITER] * 5 / 4) : o[LBFGS_MAX_EVAL];
    now->stop = last || (double)now->evaluations >= most || is_optimal(o, now->grad) ||
                tpi_vector_max(s->d) * fabs(s->t) <= change || fabs(now->loss - s->prev_loss) < change;
    return tp_ok();
}

static bool run(tp_lbfgs_memory *m, const double *o, tpi_problem *p, double *loss) {
    progress now = {.evaluations = 1};
    bool ok = evaluate(p, &now.loss, &now.grad);
    m->s.func_evals++;
    *loss = now.loss * p->sign;
    const int64_t most = (int64_t)o[LBFGS_MAX_ITER];
    bool stop = ok && is_optimal(o, now.grad);
    for (int64_t i = 1; ok && !stop && i <= most; i++) {
        ok = iterate(m, o, p, &now, i == most);
        stop = now.stop;
    }
    tpi_release(now.grad);
    return ok && tp_ok();
}

static tp_tensor **copies_of(tp_tensors params) {
    tp_tensor **copies = tpi_malloc((size_t)params.n * sizeof *copies);
    if (copies) memset(copies, 0, (size_t)params.n * sizeof *copies);
    return copies;
}
static void drop_copies(tp_tensors params, tp_tensor **copies) {
    for (int64_t i = 0; copies && i < params.n; i++) tpi_release(copies[i]);
    tpi_mfree(copies);
}

bool tp_lbfgs_step(tp_lbfgs_memory *memory, const double *values, tp_tensors params, tp_loss_fn closure, void *context,
                   double *loss) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(memory, "a memory") || !TPI_GIVEN(values, "the options' values") ||
        !TPI_GIVEN(closure, "a function"))
        return false;
    if (!TPI_GIVEN(loss, "a place for the loss") || !TPI_LIST_GIVEN(params.v, params.n)) return false;
    const char *outer = tpi_op_enter("LBFGS");
    tpi_problem p = {params, copies_of(params), closure, context, values[LBFGS_MAXIMIZE] != 0 ? -1 : 1, 0};
    tpi_problem back = {.params = params, .start = copies_of(params)};
    tp_lbfgs_state now = {.size = sizeof now};
    tp_lbfgs_memory next = {0};
    tp_lbfgs_get(memory, &now);
    bool ok = p.start && back.start && copy_state(&next, &now);
    TP_NO_GRAD {
        TP_SCOPE
            ok = ok && save_start(&back);
        if (ok) {
            ok = run(&next, values, &p, loss);
            if (!ok) go_back(&back);
        }
    }
    if (ok) {
        clear(memory);
        *memory = next;
    } else
        clear(&next);
    drop_copies(params, p.start);
    drop_copies(params, back.start);
    tpi_op_leave(outer);
    return ok;
}
