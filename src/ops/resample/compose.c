/* interpolate, grid_sample and affine_grid in torch.nn.functional's form, and moves between channels and pixels, as
 * calls of other operators. They differentiate themselves. */
#include <math.h>
#include <string.h>
#include "autograd/node.h"
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tensor/channels_last.h"
#include "ops/spatial_arguments.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

/* ---- interpolate ---- */

/* A mode: its method along each axis, how many spatial dims it is for (0: any), and PyTorch's names of its nodes, by
 * the number of dims. */
typedef struct resampling {
    const char *mode, *method;
    int dims;
    const char *nodes[3], *antialiased;
} resampling;

/* The mode of a name, which must fit the number of spatial dims; NULL and an error if it does not. */
static const resampling *resampling_of(const char *mode, int n) {
    static const resampling known[] = {
        {"nearest",
         "nearest",
         0,
         {"UpsampleNearest1DBackward0", "UpsampleNearest2DBackward0", "UpsampleNearest3DBackward0"},
         NULL},
        {"nearest-exact",
         "nearest-exact",
         0,
         {"UpsampleNearestExact1DBackward0", "UpsampleNearestExact2DBackward0", "UpsampleNearestExact3DBackward0"},
         NULL},
        {"linear", "linear", 1, {"UpsampleLinear1DBackward0"}, NULL},
        {"bilinear", "linear", 2, {NULL, "UpsampleBilinear2DBackward0"}, "UpsampleBilinear2DAaBackward0"},
        {"trilinear", "linear", 3, {NULL, NULL, "UpsampleTrilinear3DBackward0"}, NULL},
        {"bicubic", "cubic", 2, {NULL, "UpsampleBicubic2DBackward0"}, "UpsampleBicubic2DAaBackward0"},
        {"lanczos", "lanczos", 2, {NULL, NULL}, "UpsampleLanczos2DAaBackward0"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(mode, known[i].mode)) continue;
        if (known[i].dims == 0 || known[i].dims == n) return &known[i];
        return tpi_fail(TP_ERR_MISSING, "argument 'mode': Got %dD input, but %s mode needs %dD input", n + 2, mode,
                        known[i].dims + 2);
    }
    return tpi_fail(TP_ERR_MISSING,
                    "argument 'mode': Input Error: Only 3D, 4D and 5D input Tensors supported (got %dD) for the modes: "
                    "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got %s)",
                    n + 2, mode);
}

/* How many spatial dims there are; 0 and an error if not one to three. */
static int spatial_dims(const tp_tensor *input) {
    if (input->ndim >= 3 && input->ndim <= 5) return input->ndim - 2;
    tpi_fail(TP_ERR_MISSING, "argument 'input': expected 3 to 5 dims, got %s", tpi_shape_text(tpi_shape(input)));
    return 0;
}

static bool check_interpolate(const char *mode, int n, bool sized, bool scaled, int64_t align_corners,
                              int64_t recompute, bool antialias) {
    if (sized && scaled) return tpi_refuse(TP_ERR_VALUE, "only one of size or scale_factor should be defined");
    if (!sized && !scaled) return tpi_refuse(TP_ERR_VALUE, "either size or scale_factor should be defined");
    if (sized && recompute == 1)
        return tpi_refuse(TP_ERR_VALUE, "recompute_scale_factor is not meaningful with an explicit size.");
    if (align_corners != TP_NONE && (!strncmp(mode, "nearest", 7) || !strcmp(mode, "area")))
        return tpi_refuse(TP_ERR_VALUE, "argument 'align_corners': align_corners option can only be set with the "
                                        "interpolating modes: linear | bilinear | bicubic | trilinear");
    bool lanczos = !strcmp(mode, "lanczos");
    if (antialias && (n != 2 || (strcmp(mode, "bilinear") && strcmp(mode, "bicubic") && !lanczos)))
        return tpi_refuse(TP_ERR_VALUE, "argument 'antialias': Anti-alias option is restricted to bilinear, bicubic, "
                                        "and lanczos modes and requires a 4-D tensor as input");
    if (lanczos && !antialias) return tpi_refuse(TP_ERR_VALUE, "argument 'mode': Lanczos mode requires antialias=True");
    if (lanczos && align_corners == 1)
        return tpi_refuse(TP_ERR_VALUE, "argument 'mode': Lanczos mode does not support align_corners=True");
    return true;
}

/* The sizes that factors give; one factor serves for all dims. */
static bool scaled_sizes(const tp_tensor *input, int n, tp_floats factor, int64_t *out, double *each) {
    if (factor.n != 1 && factor.n != n)
        return tpi_refuse(TP_ERR_VALUE,
                          "Input and scale_factor must have the same number of spatial dimensions, but got input with "
                          "spatial dimensions of %s and scale_factor of shape %lld. Please provide input tensor in (N, "
                          "C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format.",
                          tpi_shape_text(tp_ints_view(input->shape + 2, n)), (long long)factor.n);
    for (int i = 0; i < n; i++) {
        each[i] = factor.v[factor.n == 1 ? 0 : i];
        out[i] = tpi_whole(floor((double)input->shape[2 + i] * each[i]));
    }
    return true;
}

tp_tensor *tpi_compose_interpolate(tp_tensor *input, tp_ints size, tp_floats scale_factor, const char *mode,
                                   int64_t align_corners, int64_t recompute, bool antialias) {
    int n = spatial_dims(input);
    int64_t out[3];
    double each[3];
    if (!n || !check_interpolate(mode, n, size.v, scale_factor.v, align_corners, recompute, antialias)) return NULL;
    if (size.v && size.n != 1 && size.n != n)
        return tpi_fail(TP_ERR_VALUE,
                        "Input and output must have the same number of spatial dimensions, but got input with spatial "
                        "dimensions of %s and output size of %s. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                        "format and output size in (o1, o2, ...,oK) format.",
                        tpi_shape_text(tp_ints_view(input->shape + 2, n)), tpi_shape_text(size));
    if (size.v ? !tpi_expand_ints("size", size, n, NULL, out) : !scaled_sizes(input, n, scale_factor, out, each))
        return NULL;
    const tp_ints sizes = tp_ints_view(out, n);
    if (!strcmp(mode, "area"))
        return (n == 1   ? tpo_adaptive_avg_pool1d
                : n == 2 ? tpo_adaptive_avg_pool2d
                         : tpo_adaptive_avg_pool3d)(input, sizes);
    const resampling *how = resampling_of(mode, n);
    if (!how) return NULL;
    bool by_factor = !size.v && recompute != 1;
    tp_tensor *result = tpo_resample(input, sizes, how->method, align_corners == 1, antialias,
                                     by_factor ? (tp_floats){each, n} : tp_no_floats());
    if (result) tpi_node_rename(result, input, antialias ? how->antialiased : how->nodes[n - 1]);
    return result;
}

/* ---- Sampling ---- */

static int64_t choice_of(const char *text, const char *const *names, int n, const char *argument) {
    for (int i = 0; i < n; i++)
        if (!strcmp(text, names[i])) return i;
    tpi_fail(TP_ERR_VALUE, "nn.functional.grid_sample(): expected %s to be '%s', '%s'%s or '%s', but got: '%s'",
             argument, names[0], names[1], strcmp(argument, "mode") ? "," : "", names[2], text);
    return -1;
}

tp_tensor *tpi_compose_grid_sample(tp_tensor *input, tp_tensor *grid, const char *mode, const char *padding_mode,
                                   bool align_corners) {
    static const char *const modes[] = {"bilinear", "nearest", "bicubic"}, *const paddings[] = {"zeros", "border",
                                                                                                "reflection"};
    int64_t m = choice_of(mode, modes, 3, "mode"),
            p = m < 0 ? -1 : choice_of(padding_mode, paddings, 3, "padding_mode");
    if (p < 0) return NULL;
    return (input->ndim == 5 ? tpo_grid_sampler_3d : tpo_grid_sampler_2d)(input, grid, m, p, align_corners);
}

tp_tensor *tpi_compose_affine_grid(tp_tensor *theta, tp_ints size, bool align_corners) {
    int n = (int)size.n - 2;
    if (!tp_dtype_is_floating((tp_dtype)theta->dtype))
        return tpi_fail(TP_ERR_VALUE, "Expected theta to have floating point type, but got torch.%s",
                        tp_dtype_name((tp_dtype)theta->dtype));
    if (n != 2 && n != 3)
        return tpi_fail(
            TP_ERR_MISSING,
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size %s.",
            tpi_shape_text(size));
    if ((n != 2 && n != 3) || theta->ndim != 3 || theta->shape[1] != n || theta->shape[2] != n + 1 ||
        theta->shape[0] != size.v[0])
        return tpi_fail(TP_ERR_VALUE, "Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s.",
                        n, n, n + 1, tpi_shape_text(size), tpi_shape_text(tpi_shape(theta)));
    for (int64_t i = 0; i < size.n; i++)
        if (size.v[i] < 1)
            return tpi_fail(TP_ERR_VALUE, "Expected non-zero, positive output size. Got %s", tpi_shape_text(size));
    int64_t shape[5] = {size.v[0]};
    for (int i = 0; i < n; i++) shape[1 + i] = size.v[2 + i];
    shape[1 + n] = n;
    tpi_temporaries temps = {0};
    tp_tensor *base = tpi_put(&temps, tpo_base_grid(size, align_corners, (tp_dtype)theta->dtype, tpi_device(theta))),
              *transposed = tpi_put(&temps, tpo_transpose(theta, 1, 2));
    tp_tensor *points = tpi_put(&temps, base && transposed ? tpo_matmul(base, transposed) : NULL);
    return tpi_release_temporaries(&temps, points ? tpo_reshape(points, tp_ints_view(shape, n + 2)) : NULL);
}

/* ---- Channels and pixels: (..., C r r, H, W) and (..., C, H r, W r) ---- */

/* reshape, permute, reshape: `middle` and `order` describe the six or fewer last dims, `last` how many dims the result
 * ends in. */
static tp_tensor *rearrange(tp_tensor *self, int lead, const int64_t *middle, const int64_t *order, int n,
                            const int64_t *last, int last_n) {
    int64_t shape[TP_MAX_DIMS], dims[TP_MAX_DIMS];
    for (int i = 0; i < lead; i++) {
        shape[i] = self->shape[i];
        dims[i] = i;
    }
    for (int i = 0; i < n; i++) {
        shape[lead + i] = middle[i];
        dims[lead + i] = lead + order[i];
    }
    tpi_temporaries temps = {0};
    tp_tensor *wide = tpi_put(&temps, tpo_reshape(self, tp_ints_view(shape, lead + n)));
    tp_tensor *permuted = tpi_put(&temps, wide ? tpo_permute(wide, tp_ints_view(dims, lead + n)) : NULL);
    for (int i = 0; i < last_n; i++) shape[lead + i] = last[i];
    tp_tensor *out = tpi_put(&temps, permuted ? tpo_reshape(permuted, tp_ints_view(shape, lead + last_n)) : NULL);
    return tpi_release_temporaries(&temps, out ? tpo_contiguous(out, tpi_suggested_layout(self)) : NULL);
}

tp_tensor *tpi_compose_pixel_shuffle(tp_tensor *self, int64_t r) {
    int n = self->ndim;
    if (n < 3)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': pixel_shuffle expects input to have at least 3 dimensions, but got input "
                        "with %d dimension(s)",
                        n);
    if (r < 1 || r > INT32_MAX)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'upscale_factor': pixel_shuffle expects a positive upscale_factor, but got %lld (of "
                        "31 bits at most)",
                        (long long)r);
    int64_t c = self->shape[n - 3], h = self->shape[n - 2], w = self->shape[n - 1];
    if (c % (r * r) != 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
                        "square of upscale_factor, but input.size(-3)=%lld is not divisible by %lld",
                        (long long)c, (long long)(r * r));
    return rearrange(self, n - 3, (int64_t[]){c / (r * r), r, r, h, w}, (int64_t[]){0, 3, 1, 4, 2}, 5,
                     (int64_t[]){c / (r * r), tpi_size_times(h, r), tpi_size_times(w, r)}, 3);
}

tp_tensor *tpi_compose_pixel_unshuffle(tp_tensor *self, int64_t r) {
    int n = self->ndim;
    if (n < 3)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': pixel_unshuffle expects input to have at least 3 dimensions, but got input "
                        "with %d dimension(s)",
                        n);
    if (r < 1 || r > INT32_MAX)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'downscale_factor': pixel_unshuffle expects a positive downscale_factor, but got "
                        "%lld (of 31 bits at most)",
                        (long long)r);
    int64_t c = self->shape[n - 3], h = self->shape[n - 2], w = self->shape[n - 1];
    if (h % r != 0 || w % r != 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': pixel_unshuffle expects %s to be divisible by downscale_factor, but "
                        "input.size(%d)=%lld is not divisible by %lld",
                        h % r ? "height" : "width", h % r ? -2 : -1, (long long)(h % r ? h : w), (long long)r);
    return rearrange(self, n - 3, (int64_t[]){c, h / r, r, w / r, r}, (int64_t[]){0, 2, 4, 1, 3}, 5,
                     (int64_t[]){c * r * r, h / r, w / r}, 3);
}

tp_tensor *tpi_compose_channel_shuffle(tp_tensor *self, int64_t groups) {
    if (self->ndim < 3)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'self': channel_shuffle expects input with > 2 dims, but got input with sizes %s",
                        tpi_shape_text(tpi_shape(self)));
    if (groups < 1 || self->shape[1] % groups != 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'groups': Number of %s Value of groups:%lld, channels: %lld",
                        groups < 1 ? "groups to divide channels in must be positive."
                                   : "channels must be divisible by groups.",
                        (long long)groups, (long long)self->shape[1]);
    int64_t rest = 1;
    for (int i = 2; i < self->ndim; i++) rest *= self->shape[i];
    return rearrange(self, 1, (int64_t[]){groups, self->shape[1] / groups, rest}, (int64_t[]){1, 0, 2}, 3,
                     self->shape + 1, self->ndim - 1);
}
