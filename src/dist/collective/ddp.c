/* Data parallel training from C: a network's parameters under a reducer (reducer.c) whose buckets go by the library's
 * own all_reduce. tp_ddp_finish waits for what is on its way. */
#include <string.h>
#include <taper/ddp.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "dist/collective/group.h"
#include "tensor/tensor.h"

struct tp_ddp {
    tp_group *group;
    tp_state parameters, buffers;
    tp_reducer *reducer;
    tp_work **works; /* per bucket: what is on its way */
};

/* ---- The buckets' way ---- */
static bool start_bucket(void *context, int64_t i) {
    tp_ddp *d = context;
    d->works[i] = tp_dist_all_reduce(d->group, tp_reducer_bucket(d->reducer, i, NULL), TP_REDUCE_SUM);
    return d->works[i] != NULL;
}
static bool wait_bucket(void *context, int64_t i) {
    tp_ddp *d = context;
    tp_work *work = d->works[i];
    d->works[i] = NULL;
    return !work || tp_dist_wait(work);
}
static bool sum_use(void *context, tp_tensor *used) {
    tp_ddp *d = context;
    return tp_dist_wait(tp_dist_all_reduce(d->group, used, TP_REDUCE_SUM));
}

bool tp_ddp_finish(tp_ddp *d) {
    if (!TPI_GIVEN(d, "a ddp")) return false;
    const bool ok = tp_reducer_finish(d->reducer);
    return tp_reducer_prepare(d->reducer, NULL) && ok;
}
void tp_ddp_pause(tp_ddp *d, bool on) {
    if (TPI_ENDED(d, "a ddp")) return;
    if (d) tp_reducer_pause(d->reducer, on);
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

bool tp_ddp_broadcast_buffers(tp_ddp *d) { return TPI_GIVEN(d, "a ddp") && broadcast_all(d, d->buffers); }

static bool make_reducer(tp_ddp *d, int64_t bucket_bytes, bool find_unused) {
    const tp_state all = d->parameters;
    const tp_reducer_options o = {.size = sizeof o,
                                  .bucket_bytes = bucket_bytes,
                                  .find_unused = find_unused,
                                  .by_hand = true,
                                  .context = d,
                                  .start = start_bucket,
                                  .wait = wait_bucket,
                                  .sum = sum_use};
    tp_tensor **tensors = tpi_malloc(sizeof *tensors * (size_t)(all.n + 1));
    const char **names = tpi_malloc(sizeof *names * (size_t)(all.n + 1));
    int64_t n = 0;
    for (int64_t i = 0; tensors && names && i < all.n; i++)
        if (all.tensors[i]->requires_grad) {
            tensors[n] = all.tensors[i];
            names[n++] = all.names[i];
        }
    if (tensors && names) d->reducer = tp_reducer_new(n, tensors, names, &o);
    tpi_mfree(tensors);
    tpi_mfree(names);
    if (!d->reducer) return false;
    tp_reducer_divide(d->reducer, tp_group_size(d->group));
    const size_t bytes = sizeof *d->works * (size_t)(tp_reducer_buckets(d->reducer) + 1);
    if (!(d->works = tpi_malloc(bytes))) return false;
    memset(d->works, 0, bytes);
    return tp_reducer_prepare(d->reducer, NULL);
}

void tp_ddp_free(tp_ddp *d) {
    if (!TPI_ENDS(d, "ddp", "a ddp")) return;
    for (int64_t i = 0; d->works && i < tp_reducer_buckets(d->reducer); i++) {
        if (d->works[i]) tp_work_wait(d->works[i], -1);
        tp_work_release(d->works[i]);
    }
    tp_reducer_free(d->reducer);
    tp_state_free(d->parameters);
    tp_state_free(d->buffers);
    tpi_mfree(d->works);
    tpi_handle_mfree(d);
}

tp_ddp *tp_ddp_new_with(tp_module *net, const tp_ddp_options *options) {
    tp_ddp_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    if (!tpi_given(net, __func__, "net", "a module")) return NULL;
    if (o.bucket_bytes < 0)
        return tpi_fail(TP_ERR_VALUE, "option 'bucket_bytes': expected 0 or more, got %lld", (long long)o.bucket_bytes);
    tp_ddp *d = tpi_malloc(sizeof *d);
    if (!d) return NULL;
    *d = (tp_ddp){.group = o.group, .parameters = tp_module_parameters(net), .buffers = tp_module_buffers(net)};
    tpi_handle_made(d, "ddp");
    if (tp_ok() && broadcast_all(d, d->parameters) && broadcast_all(d, d->buffers) &&
        make_reducer(d, o.bucket_bytes, o.find_unused))
        return d;
    tp_ddp_free(d);
    return NULL;
}
