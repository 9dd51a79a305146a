/* Convolutions: what the table cannot say. How a border of PyTorch's padding modes is laid out, and which output size a
 * transposed convolution has when it is asked for one. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "tpi_layers.h"
#include "tpi_ops.h"

enum { MOST_DIMS = 3 };

static bool check_conv(tp_ints kernel, tp_ints stride, tp_ints padding, tp_ints dilation, tp_ints output_padding,
                       const char *padding_mode, const char *pad_to) {
    static const char *const modes[] = {"zeros", "reflect", "replicate", "circular"};
    const tp_ints lists[] = {kernel, stride, padding, dilation, output_padding};
    static const char *const names[] = {"kernel_size", "stride", "padding", "dilation", "output_padding"};
    /* Each list must have a number for each dim; the one that differs from others is wrong. */
    const int64_t dims = stride.n == padding.n ? stride.n : kernel.n;
    for (int i = 0; i < 5; i++) {
        if (!lists[i].v || lists[i].n != dims || dims > MOST_DIMS)
            return tpi_refuse(TP_ERR_VALUE, "argument '%s': expected 1 number or one for each dim, got %lld", names[i],
                              (long long)lists[i].n);
    }
    if (pad_to && strcmp(pad_to, "same") && strcmp(pad_to, "valid"))
        return tpi_refuse(TP_ERR_VALUE, "Invalid padding string '%s', should be one of {'same', 'valid'}", pad_to);
    if (pad_to && !strcmp(pad_to, "same") && !tpi_ints_all_are(stride, 1))
        return tpi_refuse(TP_ERR_VALUE, "padding='same' is not supported for strided convolutions");
    for (int i = 0; i < 4; i++)
        if (tpi_same_text(padding_mode, modes[i])) return true;
    return tpi_refuse(
        TP_ERR_VALUE,
        "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but got padding_mode='%s'",
        padding_mode ? padding_mode : "NULL");
}

bool tpi_build_conv(tp_module *m, int64_t in_channels, int64_t out_channels, tp_ints kernel, tp_ints stride,
                    tp_ints padding, tp_ints dilation, bool transposed, tp_ints output_padding, int64_t groups,
                    bool bias, const char *padding_mode, const char *pad_to, tp_device device, tp_dtype dtype) {
    if (!check_conv(kernel, stride, padding, dilation, output_padding, padding_mode, pad_to)) return false;
    int64_t borders[2 * MOST_DIMS], shape[2 + MOST_DIMS] = {transposed ? in_channels : out_channels,
                                                            (transposed ? out_channels : in_channels) / groups};
    for (int64_t i = 0; i < kernel.n; i++) { /* the last dim first, as pad takes them */
        int64_t d = kernel.n - 1 - i,
                total = pad_to ? (strcmp(pad_to, "same") ? 0 : dilation.v[d] * (kernel.v[d] - 1)) : 2 * padding.v[d];
        borders[2 * i] = total / 2;
        borders[2 * i + 1] = total - total / 2;
        shape[2 + i] = kernel.v[i];
    }
    const struct {
        const char *name;
        tp_value value;
    } attributes[] = {{"in_channels", tp_value_int(in_channels)},
                      {"out_channels", tp_value_int(out_channels)},
                      {"kernel_size", tp_value_ints(kernel)},
                      {"stride", tp_value_ints(stride)},
                      {"padding", tp_value_ints(padding)},
                      {"dilation", tp_value_ints(dilation)},
                      {"transposed", tp_value_bool(transposed)},
                      {"output_padding", tp_value_ints(output_padding)},
                      {"groups", tp_value_int(groups)},
                      {"padding_mode", tp_value_string(padding_mode)},
                      {"pad_to", tpi_box_string(pad_to)},
                      {"_reversed_padding_repeated_twice", tp_value_ints(tp_ints_view(borders, 2 * kernel.n))}};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (!tpi_module_set(m, attributes[i].name, attributes[i].value)) return false;
    return tpi_module_make(m, "weight", TPI_PARAMETER, true, tp_ints_view(shape, kernel.n + 2), dtype, device, 0) &&
           tpi_module_make(m, "bias", TPI_PARAMETER, bias, TP_INTS(out_channels), dtype, device, 0) &&
           m->layer->reset(m);
}

/* What is added to the smallest output to reach the size that is asked for. */
static bool extra_size(tp_module *m, const tp_tensor *input, tp_ints wanted, int64_t *extra) {
    tp_ints kernel = tpi_get_ints(m, "kernel_size"), stride = tpi_get_ints(m, "stride"),
            padding = tpi_get_ints(m, "padding"), dilation = tpi_get_ints(m, "dilation");
    int64_t dims = kernel.n, skip = input->ndim - dims;
    if (wanted.n == dims + skip) wanted = tp_ints_view(wanted.v + skip, dims);
    if (wanted.n != dims)
        return tpi_refuse(TP_ERR_VALUE, "for %dD input, output_size must have %lld or %d elements (got %lld)",
                          input->ndim, (long long)dims, input->ndim, (long long)wanted.n);
    for (int64_t d = 0; d < dims; d++) {
        int64_t least =
            (tp_size(input, skip + d) - 1) * stride.v[d] - 2 * padding.v[d] + dilation.v[d] * (kernel.v[d] - 1) + 1;
        extra[d] = wanted.v[d] - least;
        if (extra[d] < 0 || extra[d] >= stride.v[d])
            return tpi_refuse(
                TP_ERR_VALUE, "requested an output size of %lld in dim %lld, but valid sizes range from %lld to %lld",
                (long long)wanted.v[d], (long long)d, (long long)least, (long long)(least + stride.v[d] - 1));
    }
    return true;
}

bool tpi_forward_conv_transpose(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults,
                                tp_value *results) {
    if (nargs < 1 || nargs > 2 || nresults != 1 || args[0].kind != TP_K_TENSOR || !args[0].as.tensor)
        return tpi_refuse(TP_ERR_TYPE, "forward takes a tensor, and maybe an output size");
    tp_tensor *input = args[0].as.tensor, *weight = tpi_get_tensor(m, "weight"), *bias = tpi_get_tensor(m, "bias"),
              *out;
    tp_ints stride = tpi_get_ints(m, "stride"), padding = tpi_get_ints(m, "padding"),
            dilation = tpi_get_ints(m, "dilation"), output_padding = tpi_get_ints(m, "output_padding");
    int64_t extra[MOST_DIMS], groups = tpi_get_int(m, "groups");
    if (nargs == 2 && args[1].kind != TP_K_NONE) {
        tp_ints wanted = tp_no_ints();
        if (!tpi_unbox_ints(&args[1], "output_size", true, &wanted) || !extra_size(m, input, wanted, extra))
            return false;
        output_padding = tp_ints_view(extra, stride.n);
    }
    if (stride.n == 1)
        out = tpo_conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation);
    else if (stride.n == 2)
        out = tpo_conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation);
    else
        out = tpo_conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation);
    results[0] = tpi_box_tensor(out);
    return out != NULL;
}
