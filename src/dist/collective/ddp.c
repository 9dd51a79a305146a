/* Data parallel training: buckets of gradients that are averaged over the ranks as they fill.
 *
 * A hook on each parameter copies its gradient into its place in a bucket. A bucket that is full is sent once those
 * before it are, so that all ranks send in one order whatever order their backward has. tp_ddp_finish waits, and copies
 * the averages back. */
#include <stdio.h>
#include <string.h>
#include <taper/autograd.h>
#include <taper/ddp.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "base/memory.h"
#include "dist/collective/group.h"
#include "tensor/tensor.h"
#include "tensor/named_errors.h"

typedef struct place { /* a parameter's */
    tp_ddp *ddp;
    tp_tensor *parameter, *view; /* view: of its bucket, in its shape */
    const char *name;            /* of the state's */
    int64_t hook;
    int bucket;
    bool ready;
} place;

typedef struct bucket {
    tp_tensor *flat;
    int from, to; /* of places, which are in the order of buckets */
    int ready;
    tp_work *work;
} bucket;

struct tp_ddp {
    tp_group *group;
    tp_state parameters, buffers;
    place *places;
    bucket *buckets;
    int n, nbuckets, sent;
    bool paused, find_unused;
    tp_tensor *used; /* a byte per parameter */
};

/* ---- Sending ---- */
static bool send_full(tp_ddp *d) { /* the buckets that are full and whose turn it is */
    for (; d->sent < d->nbuckets; d->sent++) {
        bucket *b = &d->buckets[d->sent];
        if (b->ready < b->to - b->from) return true;
        if (!(b->work = tp_dist_all_reduce(d->group, b->flat, TP_REDUCE_AVG))) return false;
    }
    return true;
}

static bool take_gradient(place *p) {
    const tp_tensor *grad = tp_grad(p->parameter);
    bucket *b = &p->ddp->buckets[p->bucket];
    if (p->ready || !grad) return true;
    if (b->work)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "parameter '%s' got a gradient after its bucket was sent: call tp_ddp_finish after each backward", p->name);
    if (!tpi_copy_data(p->view, grad)) return false;
    p->ready = true;
    b->ready++;
    return true;
}

static bool gradient_came(tp_tensor *leaf, void *context) {
    (void)leaf;
    place *p = context;
    return p->ddp->paused || (take_gradient(p) && send_full(p->ddp));
}

/* ---- Finishing ---- */
/* Which parameters got a gradient on any rank. Those of this rank that got none count as zeros. */
static bool settle_unused(tp_ddp *d) {
    uint8_t *used = (uint8_t *)d->used->data;
    for (int i = 0; i < d->n; i++) {
        place *p = &d->places[i];
        used[i] = p->ready;
        if (p->ready) continue;
        if (!d->find_unused)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "parameter '%s' got no gradient in this backward: set .find_unused if that is meant",
                              p->name);
        if (!tpi_fill_data(p->view, tp_float(0))) return false;
        p->ready = true;
        d->buckets[p->bucket].ready++;
    }
    return send_full(d);
}

static bool take_back(tp_ddp *d, const bucket *b) {
    const uint8_t *used = (const uint8_t *)d->used->data;
    for (int i = b->from; i < b->to; i++) {
        place *p = &d->places[i];
        tp_tensor *grad = tp_grad(p->parameter);
        if (!used[i]) continue; /* by nobody */
        if (grad && !tpi_copy_data(grad, p->view)) return false;
        if (grad) {
            tpi_touch(grad);
            continue;
        }
        tp_tensor *copy = tpi_empty(tpi_shape(p->parameter), (tp_dtype)p->parameter->dtype, tpi_device(p->parameter));
        bool ok = copy && tpi_copy_data(copy, p->view) && tp_set_grad(p->parameter, copy);
        tp_release(copy);
        if (!ok) return false;
    }
    return true;
}

bool tp_ddp_finish(tp_ddp *d) {
    if (!d) return tpi_refuse(TP_ERR_TYPE, "argument 'ddp': got NULL");
    if (!tp_ok() || d->paused) return tp_ok();
    bool ok = settle_unused(d);
    if (ok && d->find_unused) ok = tp_dist_wait(tp_dist_all_reduce(d->group, d->used, TP_REDUCE_MAX));
    for (int i = 0; i < d->nbuckets; i++) {
        bucket *b = &d->buckets[i];
        if (b->work && !tp_dist_wait(b->work)) ok = false;
        if (ok) ok = take_back(d, b);
        b->work = NULL, b->ready = 0;
    }
    for (int i = 0; i < d->n; i++) d->places[i].ready = false;
    d->sent = 0;
    return ok;
}

void tp_ddp_pause(tp_ddp *d, bool on) {
    if (d) d->paused = on;
}

/* ---- Making ---- */
static bool broadcast_all(tp_ddp *d, tp_state state) {
    tp_work **works = tpi_malloc(sizeof *works * (size_t)(state.n ? state.n : 1));
    if (!works) return false;
    int64_t n = 0;
    bool ok = true;
    for (; ok && n < state.n; n += ok) ok = (works[n] = tp_dist_broadcast(d->group, state.tensors[n], 0));
    for (int64_t i = 0; i < n; i++) ok = tp_dist_wait(works[i]) && ok;
    tpi_mfree(works);
    return ok;
}

bool tp_ddp_broadcast_buffers(tp_ddp *d) {
    return d ? broadcast_all(d, d->buffers) : tpi_refuse(TP_ERR_TYPE, "argument 'ddp': got NULL");
}

/* Parameters from the network's end, cut where a bucket is full, or the dtype or the device changes. */
static bool make_buckets(tp_ddp *d, int64_t most) {
    for (int at = 0; at < d->n;) {
        tp_dtype dtype = (tp_dtype)d->places[at].parameter->dtype;
        tp_device device = tpi_device(d->places[at].parameter);
        int64_t item = tpi_dtype_bytes[dtype], limit = d->nbuckets || most < 1 << 20 ? most : 1 << 20, elements = 0;
        bucket *b = &d->buckets[d->nbuckets];
        for (b->from = b->to = at; b->to < d->n; b->to++) {
            const tp_tensor *p = d->places[b->to].parameter;
            if (p->dtype != dtype || tpi_device(p).type != device.type || tpi_device(p).index != device.index ||
                (b->to > b->from && (elements + p->numel) * item > limit))
                break;
            elements += p->numel;
        }
        if (!(b->flat = tpi_empty(TP_INTS(elements), dtype, device))) return false;
        int64_t offset = 0;
        for (int i = b->from; i < b->to; i++) {
            place *p = &d->places[i];
            int64_t strides[TP_MAX_DIMS];
            tpi_contiguous_strides(tpi_shape(p->parameter), strides);
            p->bucket = d->nbuckets;
            if (!(p->view = tpi_alias(b->flat, p->parameter->ndim, p->parameter->shape, strides, offset)))
                return d->nbuckets++, false;
            offset += p->parameter->numel;
        }
        at = b->to;
        d->nbuckets++;
    }
    return true;
}

static bool add_hooks(tp_ddp *d) {
    for (int i = 0; i < d->n; i++) {
        place *p = &d->places[i];
        if (!(p->hook = tp_add_accumulated_hook(p->parameter, gradient_came, p, NULL))) return false;
    }
    return true;
}

void tp_ddp_free(tp_ddp *d) {
    if (!d) return;
    for (int i = 0; i < d->n; i++) {
        if (d->places[i].hook) tp_remove_hook(d->places[i].parameter, d->places[i].hook);
        tp_release(d->places[i].view);
    }
    for (int i = 0; i < d->nbuckets; i++) {
        if (d->buckets[i].work) tp_work_wait(d->buckets[i].work, -1);
        tp_work_release(d->buckets[i].work);
        tp_release(d->buckets[i].flat);
    }
    tp_release(d->used);
    tp_state_free(d->parameters);
    tp_state_free(d->buffers);
    tpi_mfree(d->places);
    tpi_mfree(d->buckets);
    tpi_mfree(d);
}

tp_ddp *tp_ddp_new_with(tp_module *net, const tp_ddp_options *options) {
    tp_ddp_options o = {0};
    if (options) tpi_take_options(&o, sizeof o, options, options->size);
    if (!net) return tpi_fail(TP_ERR_TYPE, "argument 'net': expected a module, got NULL");
    if (o.bucket_bytes < 0)
        return tpi_fail(TP_ERR_VALUE, "option 'bucket_bytes': expected 0 or more, got %lld", (long long)o.bucket_bytes);
    tp_ddp *d = tpi_malloc(sizeof *d);
    if (!d) return NULL;
    *d = (tp_ddp){.group = o.group,
                  .find_unused = o.find_unused,
                  .parameters = tp_module_parameters(net),
                  .buffers = tp_module_buffers(net)};
    size_t n = (size_t)d->parameters.n + 1;
    d->places = tpi_malloc(sizeof *d->places * n);
    d->buckets = tpi_malloc(sizeof *d->buckets * n);
    if (d->places) memset(d->places, 0, sizeof *d->places * n);
    if (d->buckets) memset(d->buckets, 0, sizeof *d->buckets * n);
    for (int64_t i = d->parameters.n - 1; d->places && i >= 0; i--)
        if (d->parameters.tensors[i]->requires_grad)
            d->places[d->n++] =
                (place){.ddp = d, .parameter = d->parameters.tensors[i], .name = d->parameters.names[i]};
    d->used = tpi_empty(TP_INTS(d->n), TP_UINT8, (tp_device){TP_CPU, 0});
    bool ok =
        tp_ok() && d->places && d->buckets && d->used && make_buckets(d, o.bucket_bytes ? o.bucket_bytes : 25 << 20);
    if (ok && broadcast_all(d, d->parameters) && broadcast_all(d, d->buffers) && add_hooks(d)) return d;
    tp_ddp_free(d);
    return NULL;
}
