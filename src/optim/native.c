/* Steps of optimisers whose updates are made of operators: see native.h. */
#include "optim/native.h"
#include <string.h>

static bool compute(const tpi_update *u, tpi_new_values_fn fn, tp_tensor **out) {
    const int64_t width = 1 + u->nstates;
    for (int64_t i = 0; i < u->n; i++) {
        if (!u->grads[i]) continue;
        bool ok = false;
        TP_NO_GRAD TP_SCOPE ok = fn(u->option, u->params[i], u->grads[i], u->states + i * u->nstates, out + i * width);
        if (!ok) return false;
    }
    return true;
}

/* Copies between tensors of one shape; nothing is allocated, so nothing fails half way. */
static void commit(const tpi_update *u, tp_tensor *const *out) {
    const int64_t width = 1 + u->nstates;
    for (int64_t i = 0; i < u->n; i++)
        for (int64_t k = 0; k < width; k++) {
            tp_tensor *to = k ? u->states[i * u->nstates + k - 1] : u->params[i];
            if (out[i * width + k]) tpi_copy_data(to, out[i * width + k]);
        }
}

bool tpi_update_by_values(const tpi_update *u, tpi_new_values_fn fn) {
    const int64_t n = u->n * (1 + u->nstates);
    size_t bytes = (size_t)n * sizeof(tp_tensor *);
    tp_tensor **out = tpi_new0(bytes);
    if (!out) return false;
    bool ok = compute(u, fn, out);
    if (ok) commit(u, out);
    for (int64_t i = 0; i < n; i++) tpi_release(out[i]);
    tpi_delete(out, bytes);
    return ok;
}
