/* Batch and instance normalisation: which statistics are used, and how the running ones are kept. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "tpi_layers.h"
#include "tpi_ops.h"

static tp_tensor *only_input(int64_t nargs, const tp_value *args, int64_t nresults) {
    if (nargs == 1 && nresults == 1 && args[0].kind == TP_K_TENSOR && args[0].as.tensor) return args[0].as.tensor;
    return tpi_fail(TP_ERR_TYPE, "forward takes one tensor and gives one");
}

/* "expected 2D or 3D input", as the stanza's `dims` line says. */
static bool dims_fit(const tp_module *m, const tp_tensor *input) {
    const uint32_t dims = m->layer->dims;
    if (dims >> input->ndim & 1) return true;
    const int least = __builtin_ctz(dims);
    if (dims >> 31) return tpi_refuse(TP_ERR_VALUE, "expected at least %dD input (got %dD input)", least, input->ndim);
    if (dims >> (least + 1))
        return tpi_refuse(TP_ERR_VALUE, "expected %dD or %dD input (got %dD input)", least, least + 1, input->ndim);
    return tpi_refuse(TP_ERR_VALUE, "expected %dD input (got %dD input)", least, input->ndim);
}

/* 1 / n after counting this batch as the n-th, where the running statistics are the mean of all batches. */
static bool count_batch(tp_module *m, double *momentum) {
    tp_tensor *count = tpi_get_tensor(m, "num_batches_tracked");
    if (!count) return true;
    bool fine = false;
    TP_NO_GRAD
        fine = tpo_add_(count, tp_operand_int(1), tp_int(1)) != NULL;
    if (fine && *momentum != *momentum) *momentum = 1.0 / tp_scalar_to_double(tp_item_scalar(count));
    return fine;
}

bool tpi_forward_batch_norm(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_tensor *input = only_input(nargs, args, nresults);
    if (!input || !dims_fit(m, input)) return false;
    bool tracks = tpi_get_bool(m, "track_running_stats");
    double momentum = tpi_get_float(m, "momentum");
    if (m->training && tracks && !count_batch(m, &momentum)) return false;
    if (momentum != momentum) momentum = 0;
    tp_tensor *mean = tpi_get_tensor(m, "running_mean"), *variance = tpi_get_tensor(m, "running_var");
    bool by_batch = m->training || (!mean && !variance), keep = !m->training || tracks;
    tp_tensor *out = tpo_batch_norm(input, keep ? mean : NULL, keep ? variance : NULL, tpi_get_tensor(m, "weight"),
                                    tpi_get_tensor(m, "bias"), by_batch, momentum, tpi_get_float(m, "eps"));
    results[0] = tpi_box_tensor(out);
    return out != NULL;
}

bool tpi_forward_instance_norm(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_tensor *input = only_input(nargs, args, nresults);
    if (!input || !dims_fit(m, input)) return false;
    const bool single = input->ndim == __builtin_ctz(m->layer->dims);
    int64_t channels = tp_size(input, single ? 0 : 1), features = tpi_get_int(m, "num_features");
    if (channels != features && tpi_get_bool(m, "affine"))
        return tpi_refuse(TP_ERR_VALUE, "expected input's size at dim=%d to match num_features (%lld), but got: %lld.",
                          single ? 0 : 1, (long long)features, (long long)channels);
    double momentum = tpi_get_float(m, "momentum");
    tp_tensor *batch = single ? tpo_unsqueeze(input, 0) : tpi_retain(input);
    tp_tensor *out = batch
                         ? tpo_instance_norm(batch, tpi_get_tensor(m, "running_mean"), tpi_get_tensor(m, "running_var"),
                                             tpi_get_tensor(m, "weight"), tpi_get_tensor(m, "bias"),
                                             m->training || !tpi_get_bool(m, "track_running_stats"),
                                             momentum == momentum ? momentum : 0, tpi_get_float(m, "eps"))
                         : NULL;
    tp_release(batch);
    if (out && single) {
        tp_tensor *squeezed = tpo_squeeze_dim(out, 0);
        tp_release(out);
        out = squeezed;
    }
    results[0] = tpi_box_tensor(out);
    return out != NULL;
}
