/* Pools that are calls of other operators: unpooling's output sizes and p-norm pools. They differentiate themselves. */
#include "ops/temporaries.h"
#include "ops/native.h"
#include "ops/spatial_arguments.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

/* The size of the pooled tensor is worked out by default; a given one may be off by less than a stride, and may be a
 * whole shape. */
static tp_tensor *unpool(int n, tp_tensor *input, tp_tensor *indices, tp_ints kernel, tp_ints stride, tp_ints padding,
                         tp_ints output_size) {
    int64_t k[3], s[3], p[3], zeros[3] = {0}, size[3];
    if (input->ndim != n + 1 && input->ndim != n + 2)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor "
                        "with %d dimensions.",
                        n, n + 1, n + 2, input->ndim);
    if (kernel.n != 1 && kernel.n != n)
        return tpi_fail(TP_ERR_RUNTIME, "There should be exactly %s in output_size, but got %lld elements.",
                        n == 3 ? "three elements (depth, height, width)" : "two elements (height, width)",
                        (long long)kernel.n);
    if (!tpi_expand_steps("kernel_size", kernel, n, NULL, k) || !tpi_expand_steps("stride", stride, n, k, s) ||
        !tpi_expand_steps("padding", padding, n, zeros, p))
        return NULL;
    if (output_size.v && output_size.n == n + 2) output_size = tp_ints_view(output_size.v + 2, n);
    if (output_size.v && output_size.n != n)
        return tpi_fail(TP_ERR_VALUE,
                        "output_size should be a sequence containing %d or %d elements, but it has a length of '%lld'",
                        n, n + 2, (long long)output_size.n);
    for (int i = 0; i < n; i++) {
        size[i] = tpi_size_plus(tpi_size_times(input->shape[input->ndim - n + i] - 1, s[i]), k[i] - 2 * p[i]);
        if (!output_size.v) continue;
        if (output_size.v[i] <= tpi_size_minus(size[i], s[i]) || output_size.v[i] >= tpi_size_plus(size[i], s[i]))
            return tpi_fail(TP_ERR_VALUE, "invalid output_size \"%s\" (dim %d must be between %lld and %lld)",
                            tpi_shape_text(output_size), i, (long long)tpi_size_minus(size[i], s[i]),
                            (long long)tpi_size_plus(size[i], s[i]));
        size[i] = output_size.v[i];
    }
    return tpo_max_unpool(input, indices, tp_ints_view(size, n), n);
}

tp_tensor *tpi_compose_max_unpool1d(tp_tensor *input, tp_tensor *indices, tp_ints kernel, tp_ints stride,
                                    tp_ints padding, tp_ints output_size) {
    return unpool(1, input, indices, kernel, stride, padding, output_size);
}
tp_tensor *tpi_compose_max_unpool2d(tp_tensor *input, tp_tensor *indices, tp_ints kernel, tp_ints stride,
                                    tp_ints padding, tp_ints output_size) {
    return unpool(2, input, indices, kernel, stride, padding, output_size);
}
tp_tensor *tpi_compose_max_unpool3d(tp_tensor *input, tp_tensor *indices, tp_ints kernel, tp_ints stride,
                                    tp_ints padding, tp_ints output_size) {
    return unpool(3, input, indices, kernel, stride, padding, output_size);
}

/* (sum of x^p over the window)^(1/p), as PyTorch writes it: by the mean, with the sign kept out of the root. */
static tp_tensor *lp_pool(int n, tp_tensor *input, double p, tp_ints kernel, tp_ints stride, bool ceil_mode) {
    int64_t k[3], count = 1;
    if (kernel.n != 1 && kernel.n != n)
        return tpi_fail(TP_ERR_RUNTIME, "There should be exactly %s in output_size, but got %lld elements.",
                        n == 3 ? "three elements (depth, height, width)" : "two elements (height, width)",
                        (long long)kernel.n);
    if (!tpi_expand_steps("kernel_size", kernel, n, NULL, k)) return NULL;
    for (int i = 0; i < n; i++) count = tpi_size_times(count, k[i]);
    tpi_temporaries temps = {0};
    tp_tensor *powers = tpi_put(&temps, tpo_pow(tp_operand_tensor(input), tp_operand_double(p)));
    tp_tensor *mean =
        tpi_put(&temps, powers ? tpo_avg_pool(powers, n, kernel, stride, TP_INTS(0), ceil_mode, true, TP_NONE) : NULL);
    tp_tensor *sign = tpi_put(&temps, mean ? tpo_sign(mean) : NULL),
              *size = tpi_put(&temps, mean ? tpo_relu(tpi_put(&temps, tpo_abs(mean))) : NULL);
    tp_tensor *both = tpi_put(&temps, tpo_mul(tp_operand_tensor(sign), tp_operand_tensor(size)));
    tp_tensor *sum = tpi_put(&temps, tpo_mul(tp_operand_tensor(both), tp_operand_int(count)));
    return tpi_release_temporaries(&temps, tpo_pow(tp_operand_tensor(sum), tp_operand_double(1.0 / p)));
}

tp_tensor *tpi_compose_lp_pool1d(tp_tensor *input, double norm_type, tp_ints kernel, tp_ints stride, bool ceil_mode) {
    return lp_pool(1, input, norm_type, kernel, stride, ceil_mode);
}
tp_tensor *tpi_compose_lp_pool2d(tp_tensor *input, double norm_type, tp_ints kernel, tp_ints stride, bool ceil_mode) {
    return lp_pool(2, input, norm_type, kernel, stride, ceil_mode);
}
tp_tensor *tpi_compose_lp_pool3d(tp_tensor *input, double norm_type, tp_ints kernel, tp_ints stride, bool ceil_mode) {
    return lp_pool(3, input, norm_type, kernel, stride, ceil_mode);
}

/* Windows at random places: one uniform sample per plane and dim, drawn here unless given. */
static tp_tensor *fractional(int n, tp_tensor *input, tp_ints kernel, tp_ints output_size, tp_tensor *samples) {
    if (input->ndim != n + 1 && input->ndim != n + 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': Expected %dD or %dD tensor, but got %s", n + 1, n + 2,
                        tpi_shape_text(tpi_shape(input)));
    bool batched = input->ndim == n + 2;
    tp_tensor *drawn = samples ? NULL
                               : tpo_rand(TP_INTS(batched ? input->shape[0] : 1, input->shape[batched], n), NULL,
                                          (tp_dtype)input->dtype, tpi_device(input));
    tp_tensor *out[2] = {NULL};
    if ((samples || drawn) && tpo_fractional_max_pool(input, kernel, output_size, samples ? samples : drawn, n, out))
        tpi_release(out[1]);
    tpi_release(drawn);
    return out[0];
}

tp_tensor *tpi_compose_fractional_max_pool2d(tp_tensor *input, tp_ints kernel, tp_ints output_size,
                                             tp_tensor *samples) {
    return fractional(2, input, kernel, output_size, samples);
}
tp_tensor *tpi_compose_fractional_max_pool3d(tp_tensor *input, tp_ints kernel, tp_ints output_size,
                                             tp_tensor *samples) {
    return fractional(3, input, kernel, output_size, samples);
}
