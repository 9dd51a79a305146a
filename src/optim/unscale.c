/* Unscaling gradients: one pass over all of them multiplies and looks for infinities and NaNs. Work is cut into chunks
 * of a fixed size. */
#include <math.h>
#include <taper/amp.h>
#include "tensor/same_device.h"
#include "base/threads.h"
#include "optim/unscale.h"
#include "device/device.h"
#include "tensor/check_arguments.h"

enum { CHUNK = 1 << 14 };

typedef struct piece {
    tp_tensor *grad;
    int64_t first, n;
    bool bad;
} piece;

typedef struct job {
    piece *pieces;
    double scale;
} job;

/* Each value leaves as its product, in its own type; x - x is 0 unless x is infinite or NaN. */
#define UNSCALE(name, type, wide, load, store)         \
    static bool name(type *x, int64_t n, wide scale) { \
        int bad = 0;                                   \
        for (int64_t i = 0; i < n; i++) {              \
            wide v = load(x[i]);                       \
            bad |= v - v != 0;                         \
            x[i] = store(v * scale);                   \
        }                                              \
        return bad;                                    \
    }
#define AS_IT_IS(v) (v)
UNSCALE(unscale_float, float, float, AS_IT_IS, AS_IT_IS)
UNSCALE(unscale_double, double, double, AS_IT_IS, AS_IT_IS)
UNSCALE(unscale_half, uint16_t, float, tpi_half_to_float, tpi_float_to_half)
UNSCALE(unscale_bfloat, uint16_t, float, tpi_bf16_to_float, tpi_float_to_bf16)

static void unscale_piece(int64_t chunk, void *context) {
    job *j = context;
    piece *p = &j->pieces[chunk];
    void *at = p->grad->data + p->first * (int64_t)tpi_itemsize(p->grad);
    switch (p->grad->dtype) {
    case TP_FLOAT32: p->bad = unscale_float(at, p->n, (float)j->scale); break;
    case TP_FLOAT64: p->bad = unscale_double(at, p->n, j->scale); break;
    case TP_FLOAT16: p->bad = unscale_half(at, p->n, (float)j->scale); break;
    default: p->bad = unscale_bfloat(at, p->n, (float)j->scale); break;
    }
}

static bool check_gradient(const tp_tensor *g, int64_t i) {
    if (!(tpi_dtype_category[g->dtype] & TPI_CAT_FLOAT))
        return tpi_refuse(TP_ERR_TYPE, "argument 'grads': expected floating tensors, got %s at %lld",
                          tp_dtype_name((tp_dtype)g->dtype), (long long)i);
    const tpi_device_ops *device = tpi_device_ops_of(tpi_device(g));
    if (!device) return false;
    return tpi_device(g).type == TP_CPU || device->gpu ||
           tpi_refuse(TP_ERR_MISSING, "unscaling gradients is not available on the device '%s'", device->name);
}

/* The pieces of one gradient, which is dense: its elements lie in a row whatever their order. */
static int64_t cut(tp_tensor *g, piece *pieces, int64_t n) {
    for (int64_t first = 0; first < g->numel; first += CHUNK, n++)
        pieces[n] = (piece){g, first, g->numel - first < CHUNK ? g->numel - first : CHUNK, false};
    return n;
}

/* A gradient with holes is unscaled through a dense copy. */
static bool unscale_strided(tp_tensor *g, double scale, bool *found) {
    tp_tensor *dense = tpi_contiguous_data(g);
    if (!dense) return false;
    bool bad = false;
    bool ok = tp_unscale_gradients((tp_tensors){&dense, 1}, scale, &bad) && tpi_copy_data(g, dense);
    *found |= bad;
    tp_release(dense);
    return ok;
}

/* The dense gradients that are on the device of the i-th, together; those before it have been done. */
static bool unscale_on_device_of(tp_tensors grads, int64_t i, double scale, bool *found) {
    tp_device device = tpi_device(grads.v[i]);
    for (int64_t k = 0; k < i; k++)
        if (grads.v[k] && tpi_is_dense(grads.v[k]) && tpi_same_device(tpi_device(grads.v[k]), device)) return true;
    tp_tensor **same = tpi_malloc((size_t)grads.n * sizeof *same);
    int64_t n = 0;
    for (int64_t k = i; same && k < grads.n; k++)
        if (grads.v[k] && tpi_is_dense(grads.v[k]) && tpi_same_device(tpi_device(grads.v[k]), device))
            same[n++] = grads.v[k];
    bool ok = same && tpi_unscale_on_gpu(device, n, same, scale, found);
    tpi_mfree(same);
    return ok;
}

bool tp_unscale_gradients(tp_tensors grads, double inverse_scale, bool *found_inf) {
    TPI_STOP_ON_ERROR(false);
    if (!found_inf) return tpi_refuse(TP_ERR_VALUE, "argument 'found_inf' is NULL");
    if (!TPI_TENSORS_GIVEN(grads)) return false;
    *found_inf = false;
    int64_t most = 0, n = 0, total = 0;
    for (int64_t i = 0; i < grads.n; i++) {
        if (!grads.v[i]) continue;
        if (!check_gradient(grads.v[i], i)) return false;
        most += tpi_ceil_div(grads.v[i]->numel, CHUNK);
        total += grads.v[i]->numel;
    }
    piece *pieces = tpi_malloc((size_t)(most + 1) * sizeof *pieces);
    if (!pieces) return false;
    bool ok = true;
    for (int64_t i = 0; ok && i < grads.n; i++) {
        if (!grads.v[i]) continue;
        if (!tpi_is_dense(grads.v[i]))
            ok = unscale_strided(grads.v[i], inverse_scale, found_inf);
        else if (tpi_device(grads.v[i]).type != TP_CPU)
            ok = unscale_on_device_of(grads, i, inverse_scale, found_inf);
        else
            n = cut(grads.v[i], pieces, n);
    }
    if (ok) tpi_parallel_for(n, total > CHUNK, unscale_piece, &(job){pieces, inverse_scale});
    for (int64_t i = 0; ok && i < n; i++) *found_inf |= pieces[i].bad;
    for (int64_t i = 0; ok && i < grads.n; i++)
        if (grads.v[i]) tpi_touch(grads.v[i]);
    tpi_mfree(pieces);
    return ok;
}
