/* The end of the forward pass of layer_norm, rms_norm and group_norm on CPUs: what was computed, in the dtypes of the
 * results. */
#ifndef TPI_NORM_RESULTS_H
#define TPI_NORM_RESULTS_H
#include "ops/compute_dtype.h"

typedef struct tpi_norm_results {
    tp_tensor *y, *mean, *rstd; /* computed; mean is NULL for rms_norm. They are taken over */
    const tp_tensor *input;     /* y gets its dtype */
    const tp_tensor *weight;    /* NULL: none */
    bool keeps_layout;          /* y gets the input's stride order as well */
} tpi_norm_results;

/* Results in order, without a mean that is not there. Statistics have the input's dtype, or float32 beside a float32
 * weight; rms_norm keeps the one it computed in. ok: false frees everything, as a failure here does. */
static inline bool tpi_norm_results_put(const tpi_norm_results *r, bool ok, tp_tensor **out) {
    if (!ok) {
        tpi_release(r->y);
        tpi_release(r->mean);
        tpi_release(r->rstd);
        return false;
    }
    tp_dtype dtype = (tp_dtype)r->input->dtype, kept = dtype;
    if (r->weight && r->weight->dtype == TP_FLOAT32) kept = TP_FLOAT32;
    int n = 0;
    out[n++] = r->keeps_layout ? tpi_from_compute_like(r->y, dtype, r->input) : tpi_from_compute(r->y, dtype);
    if (r->mean) out[n++] = tpi_from_compute(r->mean, kept);
    out[n++] = tpi_from_compute(r->rstd, r->mean ? kept : (tp_dtype)r->rstd->dtype);
    for (int i = 0; i < n; i++) ok = ok && out[i];
    for (int i = 0; i < n && !ok; i++) tpi_release(out[i]);
    return ok;
}
#endif
