/* Steps of optimisers whose updates are made of operators: see native.h. */
#include "optim/native.h"

static bool compute(int64_t n, const tpi_update_entry *entries, int64_t width, tpi_new_values_fn fn, tp_tensor **out) {
    for (int64_t i = 0; i < n; i++) {
        bool ok = false;
        TP_NO_GRAD
            TP_SCOPE
                ok = fn(entries[i].option, entries[i].param, entries[i].grad, entries[i].state, out + i * width);
        if (!ok) return false;
    }
    return true;
}

/* Copies between tensors of one shape; nothing is allocated, so nothing fails half way. */
static void commit(int64_t n, const tpi_update_entry *entries, int64_t width, tp_tensor *const *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++)
            if (out[i * width + k]) tpi_copy_data(k ? entries[i].state[k - 1] : entries[i].param, out[i * width + k]);
}

bool tpi_update_by_values(int64_t n, const tpi_update_entry *entries, int64_t nstates, tpi_new_values_fn fn) {
    const int64_t width = 1 + nstates;
    size_t bytes = (size_t)(n * width) * sizeof(tp_tensor *);
    tp_tensor **out = tpi_new0(bytes);
    if (!out) return false;
    bool ok = compute(n, entries, width, fn, out);
    if (ok) commit(n, entries, width, out);
    for (int64_t i = 0; i < n * width; i++) tpi_release(out[i]);
    tpi_delete(out, bytes);
    return ok;
}
