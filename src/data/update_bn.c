/* Running statistics of batch norms, anew from a loader's data. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/layer.h"
#include <taper/average.h>

typedef struct norms { /* the batch norms of a network, and the momentum that each had */
    tp_module **v;
    double *momentum;
    int64_t n;
} norms;

static bool is_batch_norm(const tp_module *m) {
    return m->layer && (m->layer->facts & TPI_LAYER_RUNNING_STATISTICS) && tpi_get_tensor(m, "running_mean") &&
           tpi_get_tensor(m, "running_var");
}
static int64_t count(const tp_module *m) {
    int64_t n = is_batch_norm(m);
    for (int64_t i = 0; i < m->nchildren; i++) n += count(m->children[i].module);
    return n;
}
static void collect(tp_module *m, norms *all) {
    if (is_batch_norm(m)) {
        all->momentum[all->n] = tpi_get_float(m, "momentum");
        all->v[all->n++] = m;
    }
    for (int64_t i = 0; i < m->nchildren; i++) collect(m->children[i].module, all);
}

/* Without a momentum the statistics are plain means of all batches. */
static bool begin_anew(tp_module *m) {
    tp_tensor *seen = tpi_get_tensor(m, "num_batches_tracked");
    return tp_init_zeros(tpi_get_tensor(m, "running_mean")) && tp_init_ones(tpi_get_tensor(m, "running_var")) &&
           (!seen || tp_init_zeros(seen)) && tpi_module_set(m, "momentum", tp_value_none());
}

bool tp_update_bn(tp_module *net, tp_loader *loader) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(net, "a module") || !TPI_GIVEN(loader, "a loader")) return false;
    const int64_t n = count(net);
    if (!n) return true;
    norms all = {tpi_malloc(sizeof(tp_module *) * (size_t)n), tpi_malloc(sizeof(double) * (size_t)n), 0};
    bool fine = all.v && all.momentum;
    if (fine) collect(net, &all);
    for (int64_t i = 0; fine && i < n; i++) fine = begin_anew(all.v[i]);
    const bool training = net->training;
    tp_module_train(net, true);
    TP_NO_GRAD
        while (fine && tp_loader_next(loader))
            TP_SCOPE
                fine = tp_forward(net, tp_loader_field(loader, 0)) != NULL;
    tp_module_train(net, training);
    for (int64_t i = 0; i < all.n; i++)
        fine = tpi_module_set(all.v[i], "momentum", tpi_box_float(all.momentum[i])) && fine;
    tpi_mfree(all.v);
    tpi_mfree(all.momentum);
    return fine && tp_ok();
}
