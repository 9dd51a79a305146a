/* Norms that are calls of other operators: argument checks in front of group and batch norm, instance and local
 * response norm, and the pieces that second derivatives of normalisations are made of. They differentiate themselves.
 */
#include "ops/temporaries.h"
#include "ops/compute_dtype.h"
#include "ops/native.h"
#include "tpi_ops.h"

static tp_tensor *mul(tp_tensor *a, tp_tensor *b) { return tpo_mul(tp_operand_tensor(a), tp_operand_tensor(b)); }
static tp_tensor *sub(tp_tensor *a, tp_tensor *b) {
    return tpo_sub(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1));
}
static tp_tensor *add(tp_tensor *a, tp_tensor *b) {
    return tpo_add(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1));
}

/* ---- Pieces of second derivatives ---- */

tp_tensor *tpi_compose_mean_last(tp_tensor *self, int64_t dims) {
    int64_t list[TP_MAX_DIMS], count = 1;
    if (dims < 0 || dims > self->ndim)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'dims': expected 0 to %d, got %lld", self->ndim, (long long)dims);
    for (int64_t i = 0; i < dims; i++) {
        list[i] = self->ndim - dims + i;
        count *= self->shape[self->ndim - dims + i];
    }
    tp_tensor *sum = tpo_sum(self, tp_ints_view(list, dims), true, TP_NO_DTYPE);
    return sum ? tpi_release_then(sum, tpo_mul(tp_operand_tensor(sum), tp_operand_double(1.0 / (double)count))) : NULL;
}

tp_tensor *tpi_compose_norm_project(tp_tensor *v, tp_tensor *h, tp_tensor *rstd, int64_t dims) {
    tpi_temporaries temps = {0};
    tp_tensor *plain = tpi_put(&temps, tpi_compose_mean_last(v, dims));
    tp_tensor *vh = tpi_put(&temps, mul(v, h));
    tp_tensor *along = tpi_put(&temps, vh ? tpi_compose_mean_last(vh, dims) : NULL);
    tp_tensor *left = tpi_put(&temps, sub(v, plain)), *right = tpi_put(&temps, mul(h, along));
    tp_tensor *rest = tpi_put(&temps, sub(left, right));
    return tpi_release_temporaries(&temps, mul(rest, rstd));
}

/* With F = <a, rstd (b - mean(b) - h mean(b h))>: dF / dh = -rstd (a mean(b h) + b mean(a h)), which goes on to the
 * input by norm_project together with s, and dF / drstd gives -rstd^2 h (mean(a b) - mean(a) mean(b) - mean(a h) mean(b
 * h)). */
tp_tensor *tpi_compose_norm_second(tp_tensor *a, tp_tensor *b, tp_tensor *s, tp_tensor *h, tp_tensor *rstd,
                                   int64_t dims) {
    tpi_temporaries temps = {0};
    tp_tensor *pairs[3] = {tpi_put(&temps, mul(a, h)), tpi_put(&temps, mul(b, h)), tpi_put(&temps, mul(a, b))};
    tp_tensor *of[5] = {pairs[0], pairs[1], pairs[2], a, b}, *mean[5];
    for (int i = 0; i < 5; i++) mean[i] = tpi_put(&temps, of[i] ? tpi_compose_mean_last(of[i], dims) : NULL);
    tp_tensor *cross = tpi_put(&temps, add(tpi_put(&temps, mul(a, mean[1])), tpi_put(&temps, mul(b, mean[0]))));
    tp_tensor *by_h = tpi_put(&temps, sub(s, tpi_put(&temps, mul(rstd, cross))));
    tp_tensor *first = tpi_put(&temps, by_h ? tpi_compose_norm_project(by_h, h, rstd, dims) : NULL);
    tp_tensor *less =
        tpi_put(&temps, add(tpi_put(&temps, mul(mean[3], mean[4])), tpi_put(&temps, mul(mean[0], mean[1]))));
    tp_tensor *spread = tpi_put(&temps, sub(mean[2], less));
    tp_tensor *scale = tpi_put(&temps, mul(tpi_put(&temps, mul(rstd, rstd)), spread));
    return tpi_release_temporaries(&temps, sub(first, tpi_put(&temps, mul(h, scale))));
}

/* ---- Group, batch and instance norm ---- */

tp_tensor *tpi_compose_group_norm(tp_tensor *input, int64_t groups, tp_tensor *weight, tp_tensor *bias, double eps) {
    if (input->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Expected at least 2 dimensions for input tensor but received %d",
                        input->ndim);
    int64_t images = input->shape[0], channels = input->shape[1], plane = 1;
    if (channels == 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': Expected number of channels to be greater than 0, got 0");
    for (int i = 2; i < input->ndim; i++) plane *= input->shape[i];
    if (groups > 0 && channels % groups == 0 &&
        images * plane * (channels / groups) == 1) /* as batch_norm of groups, which PyTorch's sentence is of */
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'input': Expected more than 1 value per channel when training, got input size %s",
                        tpi_shape_text(tpi_shape(input)));
    const tp_tensor *others[] = {weight, bias};
    if (!tpi_check_mixed_dtypes(input, 2, others)) return NULL;
    tp_tensor *out[3] = {NULL};
    if (!tpo_native_group_norm(input, weight, bias, images, channels, plane, groups, eps, out)) return NULL;
    tpi_release(out[1]);
    tpi_release(out[2]);
    return out[0];
}

tp_tensor *tpi_compose_batch_norm(tp_tensor *input, tp_tensor *running_mean, tp_tensor *running_var, tp_tensor *weight,
                                  tp_tensor *bias, bool training, double momentum, double eps) {
    if (input->ndim == 1 && input->numel == 0) return tpo_clone(input, TP_PRESERVE); /* no channels to look at */
    if (input->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected at least 2 dims, got %s",
                        tpi_shape_text(tpi_shape(input)));
    if (training ? !(eps > 0) : !(eps >= 0))
        return tpi_fail(TP_ERR_VALUE, "argument 'eps': batch_norm eps must be %s, but got %g",
                        training ? "positive during training" : "non-negative", eps);
    int64_t values = input->shape[0];
    for (int i = 2; i < input->ndim; i++) values *= input->shape[i];
    if (training && values == 1)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'input': Expected more than 1 value per channel when training, got input size %s",
                        tpi_shape_text(tpi_shape(input)));
    const tp_tensor *others[] = {weight, bias, running_mean, running_var};
    if (!tpi_check_mixed_dtypes(input, 4, others)) return NULL;
    tp_tensor *out[3] = {NULL};
    if (!tpo_batch_norm_forward(input, weight, bias, running_mean, running_var, training, momentum, eps, out))
        return NULL;
    tpi_release(out[1]);
    tpi_release(out[2]);
    return out[0];
}

/* One of the statistics as native_batch_norm gives it: without a gradient, in the dtype of the parameters. */
static tp_tensor *statistic(tp_tensor *taken, bool training, tp_dtype dtype, tp_tensor *input) {
    if (!training) return tpi_release_then(taken, tpi_empty(TP_INTS(0), input->dtype, tpi_device(input)));
    tp_tensor *plain = tpi_release_then(taken, tpi_detached(taken));
    return plain ? tpi_release_then(plain, tpo_to_dtype(plain, dtype)) : NULL;
}

bool tpi_compose_native_batch_norm(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_tensor *running_mean,
                                   tp_tensor *running_var, bool training, double momentum, double eps,
                                   tp_tensor **out) {
    tp_dtype dtype = (tp_dtype)(weight ? weight : running_mean ? running_mean : input)->dtype;
    if (!tpo_batch_norm_forward(input, weight, bias, running_mean, running_var, training, momentum, eps, out))
        return false;
    for (int i = 1; i < 3; i++) out[i] = statistic(out[i], training, dtype, input);
    if (out[1] && out[2]) return true;
    for (int i = 0; i < 3; i++) tpi_release(out[i]);
    return false;
}

/* The running statistics of one image after another, as the batch norm of (1, N * C, ...) sees them: repeated, then
 * averaged back. */
static bool average_back(tp_tensor *running, tp_tensor *repeated, int64_t images, int64_t channels) {
    if (tpi_device(running).type == TP_META) {
        tpi_touch(running);
        return true;
    }
    tp_tensor *all = tpi_on_host(repeated),
              *means = all ? tpi_empty(TP_INTS(channels), (tp_dtype)running->dtype, (tp_device){TP_CPU, 0}) : NULL;
    for (int64_t c = 0; means && c < channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < images; i++)
            sum += tp_scalar_to_double(
                tpi_load_scalar(all->data + (i * channels + c) * (int64_t)tpi_itemsize(all), (tp_dtype)all->dtype));
        tpi_store_scalar(means->data + c * (int64_t)tpi_itemsize(means), (tp_dtype)means->dtype,
                         tp_float(sum / (double)images));
    }
    bool ok = means && tpi_copy_data(running, means);
    if (ok) tpi_touch(running);
    tpi_release(all);
    tpi_release(means);
    return ok;
}

tp_tensor *tpi_compose_instance_norm(tp_tensor *input, tp_tensor *running_mean, tp_tensor *running_var,
                                     tp_tensor *weight, tp_tensor *bias, bool use_input_stats, double momentum,
                                     double eps) {
    if (input->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected at least 2 dims, got %s",
                        tpi_shape_text(tpi_shape(input)));
    if (!use_input_stats && (!running_mean || !running_var))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'use_input_stats': Expected running_mean and running_var to be "
                                        "defined when use_input_stats is false");
    int64_t shape[TP_MAX_DIMS], values = 1, images = input->shape[0], channels = input->shape[1];
    for (int i = 2; i < input->ndim; i++) {
        shape[i] = input->shape[i];
        values *= shape[i];
    }
    shape[0] = 1;
    shape[1] = images * channels;
    if (use_input_stats && values == 1)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'input': Expected more than 1 spatial element when training, got input size %s",
                        tpi_shape_text(tpi_shape(input)));
    tpi_temporaries temps = {0};
    tp_tensor *given[4] = {weight, bias, running_mean, running_var}, *wide[4];
    for (int i = 0; i < 4; i++) {
        wide[i] = given[i] ? tpi_put(&temps, tpo_repeat(given[i], TP_INTS(images))) : NULL;
        if (given[i] && !wide[i]) return tpi_release_temporaries(&temps, NULL);
    }
    tp_tensor *flat = tpi_put(&temps, tpo_reshape(input, tp_ints_view(shape, input->ndim))), *out[3] = {NULL};
    if (!flat || !tpo_batch_norm_forward(flat, wide[0], wide[1], wide[2], wide[3], use_input_stats, momentum, eps, out))
        return tpi_release_temporaries(&temps, NULL);
    if (use_input_stats && running_mean) average_back(running_mean, wide[2], images, channels);
    if (use_input_stats && running_var) average_back(running_var, wide[3], images, channels);
    tpi_put(&temps, out[0]);
    tpi_put(&temps, out[1]);
    tpi_put(&temps, out[2]);
    return tpi_release_temporaries(&temps, tpo_reshape(out[0], tpi_shape(input)));
}

/* x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta; the mean counts the padding. */
tp_tensor *tpi_compose_local_response_norm(tp_tensor *input, int64_t size, double alpha, double beta, double k) {
    if (input->ndim < 3)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'input': Expected 3D or higher dimensionality input (got %d dimensions)",
                        input->ndim);
    if (input->numel == 0) return tpi_retain(input);
    if (size < 1 || size > INT32_MAX)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'size': expected at least 1 and 31 bits, got %lld", (long long)size);
    tpi_temporaries temps = {0};
    int64_t rest = 1;
    for (int i = 2; i < input->ndim; i++) rest *= input->shape[i];
    tp_tensor *squares = tpi_put(&temps, mul(input, input));
    tp_tensor *flat =
        tpi_put(&temps, squares ? tpo_reshape(squares, TP_INTS(input->shape[0], 1, input->shape[1], rest)) : NULL);
    tp_tensor *padded =
        tpi_put(&temps, flat ? tpo_constant_pad_nd(flat, TP_INTS(0, 0, size / 2, (size - 1) / 2), tp_int(0)) : NULL);
    tp_tensor *mean = tpi_put(
        &temps,
        padded ? tpo_avg_pool(padded, 2, TP_INTS(size, 1), TP_INTS(1, 1), TP_INTS(0, 0), false, true, TP_NONE) : NULL);
    tp_tensor *back = tpi_put(&temps, mean ? tpo_reshape(mean, tpi_shape(input)) : NULL);
    tp_tensor *scaled = tpi_put(&temps, tpo_mul(tp_operand_tensor(back), tp_operand_double(alpha)));
    tp_tensor *sum = tpi_put(&temps, tpo_add(tp_operand_tensor(scaled), tp_operand_double(k), tp_int(1)));
    tp_tensor *power = tpi_put(&temps, tpo_pow(tp_operand_tensor(sum), tp_operand_double(beta)));
    return tpi_release_temporaries(&temps, tpo_div(tp_operand_tensor(input), tp_operand_tensor(power)));
}

tp_tensor *tpi_compose_gumbel_softmax(tp_tensor *logits, double tau, bool hard, double eps, int64_t dim) {
    (void)eps; /* PyTorch ignores it too */
    tpi_temporaries temps = {0};
    tp_tensor *plain = tpi_put(&temps, tpi_detached(logits));
    tp_tensor *noise = tpi_put(&temps, plain ? tpo_exponential(plain, 1.0, NULL) : NULL);
    tp_tensor *gumbel = tpi_put(&temps, noise ? tpo_log(noise) : NULL);
    tp_tensor *noisy =
        tpi_put(&temps, tpo_div(tp_operand_tensor(tpi_put(&temps, sub(logits, gumbel))), tp_operand_double(tau)));
    tp_tensor *soft = tpi_put(&temps, noisy ? tpo_softmax(noisy, dim, TP_NO_DTYPE) : NULL);
    if (!soft || !hard) return tpi_release_temporaries(&temps, tpi_retain(soft));
    tp_tensor *values = tpi_put(&temps, tpi_detached(soft)),
              *zeros = tpi_put(&temps, tpo_zeros_like(soft, TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE));
    tp_tensor *largest_index = tpi_put(&temps, values ? tpo_argmax(values, dim, true) : NULL);
    tp_tensor *one =
        tpi_put(&temps, largest_index && zeros ? tpo_scatter_value(zeros, dim, largest_index, tp_float(1)) : NULL);
    return tpi_release_temporaries(&temps, add(tpi_put(&temps, sub(one, values)), soft));
}

/* Complex numbers are squared as they are, not by their size: PyTorch's choice. */
static tp_tensor *complex_rms_norm(tp_tensor *input, tp_ints normalized_shape, tp_tensor *weight, double eps) {
    int64_t dims[TP_MAX_DIMS], n = normalized_shape.n;
    bool fits = n > 0 && n <= input->ndim;
    for (int64_t i = 0; i < n && fits; i++) {
        dims[i] = input->ndim - n + i;
        fits = input->shape[dims[i]] == normalized_shape.v[i];
    }
    if (!fits)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'normalized_shape': Given normalized_shape=%s, expected input with shape [*, ...] "
                        "ending in it, but got input of size%s",
                        tpi_shape_text(normalized_shape), tpi_shape_text(tpi_shape(input)));
    if (eps != eps) eps = input->dtype == TP_COMPLEX64 ? 1.1920928955078125e-07 : 2.220446049250313e-16;
    tpi_temporaries temps = {0};
    tp_tensor *squares = tpi_put(&temps, tpo_mul(tp_operand_tensor(input), tp_operand_tensor(input)));
    tp_tensor *mean = squares ? tpi_put(&temps, tpo_mean(squares, tp_ints_view(dims, n), true, TP_NO_DTYPE)) : NULL;
    tp_tensor *held =
                  mean ? tpi_put(&temps, tpo_add(tp_operand_tensor(mean), tp_operand_double(eps), tp_int(1))) : NULL,
              *scale = held ? tpi_put(&temps, tpo_rsqrt(held)) : NULL;
    tp_tensor *out = scale ? tpi_put(&temps, tpo_mul(tp_operand_tensor(input), tp_operand_tensor(scale))) : NULL;
    if (out && weight) out = tpi_put(&temps, tpo_mul(tp_operand_tensor(out), tp_operand_tensor(weight)));
    return tpi_release_temporaries(&temps, tpi_retain(out));
}

tp_tensor *tpi_compose_rms_norm(tp_tensor *input, tp_ints normalized_shape, tp_tensor *weight, double eps) {
    if (tp_dtype_is_complex((tp_dtype)input->dtype)) return complex_rms_norm(input, normalized_shape, weight, eps);
    tp_tensor *out[2] = {NULL};
    if (!tpo_rms_norm_forward(input, normalized_shape, weight, eps, out)) return NULL;
    tpi_release(out[1]);
    return out[0];
}
