/* The reducer behind data parallel training, from C and from Python: parameters in buckets, gradients copied into them
 * as they come, full buckets started in order while the backward goes on, and averages copied back.
 *
 * All ranks start bucket 0 first, then 1, whatever order gradients come in: the same bucket meets the same bucket. How
 * a bucket is exchanged is the caller's (tp_reducer_options). */
#include <string.h>
#include <taper/autograd.h>
#include <taper/ddp.h>
#include "tensor/same_device.h"
#include "autograd/glue.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "tensor/check_arguments.h"
#include "tensor/tensor.h"
#include "tpi_ops.h"

typedef struct hook_link { /* from a parameter's hook to the reducer; belongs to the hook, which may outlive the reducer
                            */
    tp_reducer *reducer;
    int64_t i;
} hook_link;

typedef struct reduced {         /* a parameter */
    tp_tensor *parameter, *view; /* view: of its bucket, laid out as the parameter is */
    char *name;
    hook_link *link;
    int64_t hook, bucket;
    int64_t comes, left; /* static graphs: how often its gradient grows in a backward, and will yet in this one */
    bool ready, unused;
} reduced;

typedef struct bucket {
    tp_tensor *flat;
    int64_t *members, n, missing, bytes, limit;
    bool full;
} bucket;

struct tp_reducer {
    tp_reducer_options o;
    reduced *params;
    bucket *buckets;
    int64_t n, nbuckets, next; /* next: the bucket to be started */
    double divisor;
    bool expects, running, counted, paused;
    tp_tensor *used; /* int32 per parameter */
};

/* ---- Starting buckets ---- */
static bool start(tp_reducer *r, int64_t i) {
    const tp_operand divisor = tp_operand_scalar(tp_float(r->divisor));
    if (r->divisor != 1 && !tpo_div_(r->buckets[i].flat, divisor)) return false;
    return r->o.start(r->o.context, i);
}

static bool copy(const tp_reducer *r, tp_tensor *to, tp_tensor *from) {
    const int done = r->o.copy ? r->o.copy(r->o.context, to, from) : 0;
    if (done) return done > 0;
    if (!tpi_copy_data(to, from)) return false;
    tpi_touch(to);
    return true;
}

static bool lies_in(const tp_tensor *grad, const tp_tensor *view) {
    return grad && grad->data == view->data && grad->dtype == view->dtype;
}

static bool complete(tp_reducer *r);
static bool ready(tp_reducer *r, int64_t i, bool has_gradient) {
    reduced *p = &r->params[i];
    tp_tensor *grad = tp_grad(p->parameter);
    p->ready = true;
    if (!lies_in(grad, p->view)) {
        const bool filled = has_gradient && grad ? copy(r, p->view, grad) : tpi_fill_data(p->view, tp_float(0));
        if (!filled) return false;
    }
    r->buckets[p->bucket].missing--;
    for (; r->next < r->nbuckets && !r->buckets[r->next].missing; r->next++)
        if (!start(r, r->next)) return false;
    return r->next < r->nbuckets || r->o.by_hand || complete(r);
}

/* ---- A backward ---- */
static bool begin(tp_reducer *r) {
    r->running = true;
    if (r->o.static_graph && !r->counted) {
        for (int64_t i = 0; i < r->n; i++) r->params[i].comes = 0;
        if (r->o.began && !r->o.began(r->o.context)) return false;
    }
    for (int64_t i = 0; i < r->n; i++)
        if (r->params[i].unused && !ready(r, i, false)) return false;
    return true;
}

static bool twice(const reduced *p) {
    return tpi_refuse(TP_ERR_RUNTIME,
                      "Expected to mark a variable ready only once: parameter '%s' has been marked as ready twice. "
                      "Either it is used in several forwards or reentrant backwards of one iteration (if the graph "
                      "does not change, _set_static_graph() or static_graph=True helps), or a forward output that it "
                      "hangs on is not part of the loss.",
                      p->name);
}

static bool gradient_came(tp_tensor *leaf, void *context) {
    (void)leaf;
    const hook_link *l = context;
    tp_reducer *r = l->reducer;
    if (!r || !r->expects || r->paused) return true;
    reduced *p = &r->params[l->i];
    if (!tp_grad(p->parameter) || (!r->running && !begin(r))) return tp_ok();
    if (r->o.static_graph && !r->counted) {
        p->comes++;
        return true;
    }
    if (r->o.static_graph && --p->left > 0) return true;
    return p->ready ? twice(p) : ready(r, l->i, true);
}

bool tp_reducer_prepare(tp_reducer *r, const bool *unused) {
    if (!TPI_GIVEN(r, "a reducer")) return false;
    r->expects = true;
    r->running = false;
    r->next = 0;
    for (int64_t i = 0; i < r->nbuckets; i++) r->buckets[i].missing = r->buckets[i].n;
    for (int64_t i = 0; i < r->n; i++) {
        reduced *p = &r->params[i];
        p->ready = false;
        p->unused = r->o.static_graph ? r->counted && !p->comes : unused && unused[i];
        p->left = p->comes;
    }
    return true;
}

/* What came in the first backward of a static graph, and how often, is what will come. */
bool tp_reducer_first_done(tp_reducer *r) {
    if (!TPI_GIVEN(r, "a reducer")) return false;
    r->counted = true;
    for (int64_t i = 0; i < r->nbuckets; i++)
        for (int64_t k = 0; k < r->buckets[i].n; k++) {
            const int64_t member = r->buckets[i].members[k];
            if (!ready(r, member, r->params[member].comes > 0)) return false;
        }
    return true;
}

/* ---- Its end ---- */
/* Which parameters some rank has used: the gradients of the others stay as they are. */
static bool sum_of_use(tp_reducer *r, bool *asked) {
    int32_t *used = (int32_t *)r->used->data;
    *asked = r->o.find_unused;
    for (int64_t i = 0; i < r->n; i++) {
        used[i] = !r->params[i].unused;
        *asked |= r->params[i].unused;
    }
    return !*asked || r->o.sum(r->o.context, r->used);
}

static bool store_gradient(tp_reducer *r, reduced *p) {
    tp_tensor *grad = tp_grad(p->parameter);
    if (r->o.as_views) return lies_in(grad, p->view) || tp_set_grad(p->parameter, p->view);
    if (grad) return copy(r, grad, p->view);
    tp_tensor *mine = tpo_clone(p->view, TP_PRESERVE);
    const bool ok = mine && tp_set_grad(p->parameter, mine);
    tp_release(mine);
    return ok;
}

static bool complete(tp_reducer *r) {
    bool asked, ok = sum_of_use(r, &asked);
    for (int64_t i = 0; i < r->nbuckets; i++) {
        const bucket *b = &r->buckets[i];
        if ((ok || r->o.by_hand) && !r->o.wait(r->o.context, i)) ok = false;
        for (int64_t k = 0; ok && k < b->n; k++)
            if (!asked || ((const int32_t *)r->used->data)[b->members[k]])
                ok = store_gradient(r, &r->params[b->members[k]]);
    }
    r->expects = r->running = false;
    return ok;
}

bool tp_reducer_finish(tp_reducer *r) {
    if (!TPI_GIVEN(r, "a reducer")) return false;
    if (!tp_ok() || r->paused || !r->expects) return tp_ok();
    bool ok = true;
    for (int64_t i = 0; ok && i < r->n; i++) {
        reduced *p = &r->params[i];
        if (p->ready) continue;
        p->unused = true;
        ok = r->o.find_unused ? ready(r, i, false)
                              : tpi_refuse(TP_ERR_RUNTIME,
                                           "parameter '%s' got no gradient in this backward: set .find_unused if that "
                                           "is meant",
                                           p->name);
    }
    for (int64_t i = 0; !ok && i < r->next; i++) (void)r->o.wait(r->o.context, i); /* nothing stays on its way */
    return ok && complete(r);
}

bool tp_reducer_shadow(tp_reducer *r) {
    if (!TPI_GIVEN(r, "a reducer")) return false;
    bool ok = true;
    for (int64_t i = 0; ok && i < r->nbuckets; i++) ok = tpi_fill_data(r->buckets[i].flat, tp_float(0)) && start(r, i);
    if (ok && r->o.find_unused) ok = tpi_fill_data(r->used, tp_float(0)) && r->o.sum(r->o.context, r->used);
    for (int64_t i = 0; ok && i < r->nbuckets; i++) ok = r->o.wait(r->o.context, i);
    return ok;
}

/* ---- Asking and telling ---- */
bool tp_reducer_running(const tp_reducer *r) {
    if (TPI_ENDED(r, "a reducer")) return false;
    return r && r->running;
}
bool tp_reducer_has(const tp_reducer *r, int64_t i) {
    if (TPI_ENDED(r, "a reducer")) return false;
    return r && i >= 0 && i < r->n && r->params[i].ready;
}
void tp_reducer_divide(tp_reducer *r, double by) {
    if (TPI_ENDED(r, "a reducer")) return;
    if (r) r->divisor = by;
}
void tp_reducer_pause(tp_reducer *r, bool on) {
    if (TPI_ENDED(r, "a reducer")) return;
    if (r) r->paused = on;
}
void tp_reducer_set_static(tp_reducer *r) {
    if (TPI_ENDED(r, "a reducer")) return;
    if (r) r->o.static_graph = true;
}
int64_t tp_reducer_buckets(const tp_reducer *r) {
    if (TPI_ENDED(r, "a reducer")) return -1;
    return r ? r->nbuckets : 0;
}
tp_tensor *tp_reducer_bucket(const tp_reducer *r, int64_t i, tp_ints *parameters) {
    if (!TPI_GIVEN(r, "a reducer")) return NULL;
    if (i < 0 || i >= r->nbuckets)
        return tpi_fail(TP_ERR_INDEX, "argument 'bucket': expected 0 to %lld, got %lld", (long long)r->nbuckets - 1,
                        (long long)i);
    if (parameters) *parameters = (tp_ints){.v = r->buckets[i].members, .n = r->buckets[i].n};
    return r->buckets[i].flat;
}

/* ---- Making ---- */
static void *zeroed(size_t bytes) {
    void *block = tpi_malloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

static bool fits(const tp_reducer *r, const bucket *b, const tp_tensor *p) {
    const tp_tensor *first = r->params[b->members[0]].parameter;
    return !b->full && p->dtype == first->dtype && tpi_same_device(tpi_device(p), tpi_device(first));
}

/* The bucket of its dtype and device that is not full yet, or a new one. */
static bucket *open_bucket(tp_reducer *r, const tp_tensor *p, int64_t nfull) {
    for (int64_t i = 0; i < r->nbuckets; i++)
        if (fits(r, &r->buckets[i], p)) return &r->buckets[i];
    bucket *b = &r->buckets[r->nbuckets];
    b->members = tpi_malloc(sizeof *b->members * (size_t)r->n);
    if (!b->members) return NULL;
    b->limit = nfull ? r->o.bucket_bytes : r->o.first_bytes;
    r->nbuckets++;
    return b;
}

/* Full ones in the order in which they filled, then the others. */
static bool order_buckets(tp_reducer *r, const int64_t *filled, int64_t nfull) {
    bucket *sorted = tpi_malloc(sizeof *sorted * (size_t)(r->nbuckets + 1));
    if (!sorted) return false;
    for (int64_t i = 0; i < nfull; i++) sorted[i] = r->buckets[filled[i]];
    for (int64_t i = 0, at = nfull; i < r->nbuckets; i++)
        if (!r->buckets[i].full) sorted[at++] = r->buckets[i];
    memcpy(r->buckets, sorted, sizeof *sorted * (size_t)r->nbuckets);
    tpi_mfree(sorted);
    return true;
}

static bool choose_buckets(tp_reducer *r) {
    int64_t nfull = 0, *filled = tpi_malloc(sizeof *filled * (size_t)(r->n + 1));
    bool ok = filled != NULL;
    for (int64_t i = r->n - 1; ok && i >= 0; i--) {
        const tp_tensor *p = r->params[i].parameter;
        bucket *b = open_bucket(r, p, nfull);
        if (!(ok = b != NULL)) break;
        b->members[b->n++] = i;
        b->bytes += p->numel * tpi_dtype_bytes[p->dtype];
        b->full = b->bytes >= b->limit;
        if (b->full) filled[nfull++] = b - r->buckets;
    }
    ok = ok && order_buckets(r, filled, nfull);
    tpi_mfree(filled);
    return ok;
}

/* Dense strides in the order of the parameter's own. */
static void strides_like(const tp_tensor *p, int64_t *strides) {
    int order[TP_MAX_DIMS];
    for (int d = 0; d < p->ndim; d++) {
        int at = d;
        for (; at > 0 && p->strides[order[at - 1]] < p->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t step = 1;
    for (int k = p->ndim - 1; k >= 0; k--) {
        strides[order[k]] = step;
        step *= p->shape[order[k]];
    }
}

static bool make_views(tp_reducer *r, int64_t i) {
    bucket *b = &r->buckets[i];
    const tp_tensor *first = r->params[b->members[0]].parameter;
    int64_t elements = 0, offset = 0, strides[TP_MAX_DIMS];
    for (int64_t k = 0; k < b->n; k++) elements += r->params[b->members[k]].parameter->numel;
    b->flat = tpi_empty(TP_INTS(elements), (tp_dtype)first->dtype, tpi_device(first));
    if (!b->flat || !tpi_fill_data(b->flat, tp_float(0))) return false;
    for (int64_t k = 0; k < b->n; k++) {
        reduced *p = &r->params[b->members[k]];
        const tp_tensor *t = p->parameter;
        if (tp_is_contiguous(t))
            tpi_contiguous_strides(tpi_shape(t), strides);
        else
            strides_like(t, strides);
        p->bucket = i;
        if (!(p->view = tpi_alias(b->flat, t->ndim, t->shape, strides, offset))) return false;
        offset += t->numel;
    }
    return true;
}

static bool add_hook(tp_reducer *r, int64_t i) {
    reduced *p = &r->params[i];
    if (!(p->link = tpi_malloc(sizeof *p->link))) return false;
    *p->link = (hook_link){r, i};
    p->hook = tp_add_accumulated_hook(p->parameter, gradient_came, p->link, tpi_mfree);
    if (!p->hook) tpi_mfree(p->link);
    return p->hook != 0;
}

void tp_reducer_free(tp_reducer *r) {
    if (!TPI_ENDS(r, "reducer", "a reducer")) return;
    for (int64_t i = 0; r->params && i < r->n; i++) {
        reduced *p = &r->params[i];
        if (p->hook) p->link->reducer = NULL; /* a hook that cannot be removed does nothing from now on */
        if (p->hook && !tp_remove_hook(p->parameter, p->hook)) tp_error_clear();
        tp_release(p->view);
        tp_release(p->parameter);
        tpi_mfree(p->name);
    }
    for (int64_t i = 0; i < r->nbuckets; i++) {
        tp_release(r->buckets[i].flat);
        tpi_mfree(r->buckets[i].members);
    }
    tp_release(r->used);
    tpi_mfree(r->params);
    tpi_mfree(r->buckets);
    tpi_handle_mfree(r);
}

tp_reducer *tp_reducer_new(int64_t n, tp_tensor *const *parameters, const char *const *names,
                           const tp_reducer_options *options) {
    if (!TPI_LIST_GIVEN(parameters, n) || !TPI_LIST_GIVEN(names, n) || !TPI_GIVEN(options, "options")) return NULL;
    tp_reducer *r = zeroed(sizeof *r);
    if (!r) return NULL;
    tpi_copy_options(&r->o, sizeof r->o, options, options->size);
    if (!r->o.bucket_bytes) r->o.bucket_bytes = 25 << 20;
    if (!r->o.first_bytes) r->o.first_bytes = 1 << 20;
    if (r->o.first_bytes > r->o.bucket_bytes) r->o.first_bytes = r->o.bucket_bytes;
    r->divisor = 1;
    r->params = zeroed(sizeof *r->params * (size_t)(n + 1));
    r->buckets = zeroed(sizeof *r->buckets * (size_t)(n + 1));
    r->used = tpi_empty(TP_INTS(n), TP_INT32, (tp_device){TP_CPU, 0});
    bool ok = r->params && r->buckets && r->used;
    for (; ok && r->n < n; r->n++) {
        reduced *p = &r->params[r->n];
        p->parameter = tp_retain(parameters[r->n]);
        ok = (p->name = tpi_strdup(names[r->n])) != NULL;
    }
    ok = ok && choose_buckets(r);
    for (int64_t i = 0; ok && i < r->nbuckets; i++) ok = make_views(r, i);
    for (int64_t i = 0; ok && i < n; i++) ok = add_hook(r, i);
    if (ok) return r;
    tp_reducer_free(r);
    return NULL;
}
