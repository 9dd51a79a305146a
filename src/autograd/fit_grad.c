/* Fits a gradient to what it is the gradient of: summed to its shape, real where it is real, in its dtype. What cannot
 * fit is refused in PyTorch's words. */
#include "autograd/tape.h"
#include "tensor/check_arguments.h"
#include "tensor/same_device.h"

static bool shape_is(const tp_tensor *t, const tpi_meta *meta) {
    if (t->ndim != meta->ndim) return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] != meta->shape[d]) return false;
    return true;
}

/* Could t's shape have come from broadcasting the output's? */
static bool sums_down_to(const tp_tensor *t, const tpi_meta *meta) {
    int more = t->ndim - meta->ndim;
    if (more < 0) return false;
    for (int d = 0; d < meta->ndim; d++)
        if (meta->shape[d] != 1 && meta->shape[d] != t->shape[d + more]) return false;
    return true;
}

static tp_tensor *refuse_grad(const tpi_meta *meta, tp_tensor *g, const tpi_node *from, int index) {
    tp_ints expected = {meta->shape, meta->ndim};
    if (from)
        tpi_fail(TP_ERR_RUNTIME,
                 "Function %s (of %s) returned an invalid gradient at index %d - got shape %s but expected shape "
                 "compatible with %s",
                 from->name, from->cls->op, index, tpi_shape_text(tpi_shape(g)), tpi_shape_text(expected));
    else
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'gradient': Mismatch in shape: grad_output[%d] has a shape of %s and output[%d] has a shape "
                 "of %s",
                 index, tpi_shape_text(tpi_shape(g)), index, tpi_shape_text(expected));
    tpi_release(g);
    return NULL;
}

tp_tensor *tpi_fit_grad(const tpi_meta *meta, tp_tensor *g, const tpi_node *from, int index) {
    if (!shape_is(g, meta)) {
        if (!from || !sums_down_to(g, meta)) return refuse_grad(meta, g, from, index);
        g = tpi_release_then(g, tpi_sum_to(g, (tp_ints){meta->shape, meta->ndim}));
    }
    if (!g || (g->dtype == meta->dtype &&
               (tpi_same_device(tpi_device(g), meta->device) || tpi_opaque(g) || meta->device.type == TP_META)))
        return g;
    if (!tpi_same_device(tpi_device(g), meta->device)) {
        tpi_fail(TP_ERR_RUNTIME, "%s gave gradient %d on another device than the tensor it is for",
                 from ? from->name : "argument 'gradient'", index);
        return tpi_release_then(g, NULL);
    }
    if (tp_dtype_is_complex((tp_dtype)g->dtype) && !tp_dtype_is_complex((tp_dtype)meta->dtype))
        g = tpi_release_then(g, tpi_real_part(g));
    if (g && g->dtype != meta->dtype) g = tpi_release_then(g, tpi_to_dtype(g, (tp_dtype)meta->dtype));
    return g;
}
