/* Group norm: each group of channels of each image by its own mean and deviation, then scaled channel by channel. */
#include <math.h>
#include "ops/norm/norm_results.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "ops/norm/norm_rows.h"
#include "ops/compute_dtype.h"

typedef struct job {
    tp_dtype dtype;
    int64_t images, channels, plane, groups; /* the input is (images, channels, plane); channels = groups * per group */
    double eps;
    const char *x, *grad, *weight, *bias;
    char *y, *mean, *rstd;
    double *dweight, *dbias; /* (images, channels), one term per image */
} job;

static void forward_task(int64_t row, void *context) {
    job *j = context;
    int64_t each = j->channels / j->groups, n = each * j->plane, item = tpi_dtype_bytes[j->dtype],
            first = row % j->groups * each;
    const char *x = j->x + row * n * item;
    bool f32 = j->dtype == TP_FLOAT32;
    double mean =
        (f32 ? TPI_ISA_PICK(tpi_sum_f32)(n, (const float *)x) : TPI_ISA_PICK(tpi_sum_f64)(n, (const double *)x)) /
        (double)n;
    if (f32) mean = (float)mean;
    double squares = f32 ? TPI_ISA_PICK(tpi_squares_f32)(n, (const float *)x, (float)mean)
                         : TPI_ISA_PICK(tpi_squares_f64)(n, (const double *)x, mean);
    double rstd = 1.0 / sqrt(squares / (double)n + j->eps);
    tpi_compute_set(j->mean, j->dtype, row, mean);
    tpi_compute_set(j->rstd, j->dtype, row, rstd);
    for (int64_t c = 0; c < each; c++) {
        double scale = rstd * (j->weight ? tpi_compute_get(j->weight, j->dtype, first + c) : 1);
        double shift = j->bias ? tpi_compute_get(j->bias, j->dtype, first + c) : 0;
        int64_t at = (row * n + c * j->plane) * item;
        if (f32) TPI_ISA_PICK(tpi_scale_f32)
        (j->plane, (const float *)(j->x + at), (float)mean, (float)scale, (float)shift, (float *)(j->y + at));
        else TPI_ISA_PICK(tpi_scale_f64)(j->plane, (const double *)(j->x + at), mean, scale, shift,
                                         (double *)(j->y + at));
    }
}

/* With h = (x - mean) rstd and v = grad w over the n elements of a group:  dx = rstd (v - sum(v) / n - h sum(v h) / n).
 */
static void backward_task(int64_t row, void *context) {
    job *j = context;
    int64_t each = j->channels / j->groups, n = each * j->plane, item = tpi_dtype_bytes[j->dtype],
            first = row % j->groups * each, image = row / j->groups;
    bool f32 = j->dtype == TP_FLOAT32;
    double mean = tpi_compute_get(j->mean, j->dtype, row), rstd = tpi_compute_get(j->rstd, j->dtype, row), plain = 0,
           along = 0;
    for (int64_t c = 0; c < each; c++) {
        const char *g = j->grad + (row * n + c * j->plane) * item, *x = j->x + (row * n + c * j->plane) * item;
        double sum = f32 ? TPI_ISA_PICK(tpi_sum_f32)(j->plane, (const float *)g)
                         : TPI_ISA_PICK(tpi_sum_f64)(j->plane, (const double *)g);
        double dot = rstd * (f32 ? TPI_ISA_PICK(tpi_dot_f32)(j->plane, (const float *)x, (float)mean, (const float *)g)
                                 : TPI_ISA_PICK(tpi_dot_f64)(j->plane, (const double *)x, mean, (const double *)g));
        double w = j->weight ? tpi_compute_get(j->weight, j->dtype, first + c) : 1;
        j->dbias[image * j->channels + first + c] = sum;
        j->dweight[image * j->channels + first + c] = dot;
        plain += w * sum;
        along += w * dot;
    }
    double shift = -rstd * plain / (double)n, slope = -rstd * rstd * along / (double)n;
    for (int64_t c = 0; c < each; c++) {
        double scale = rstd * (j->weight ? tpi_compute_get(j->weight, j->dtype, first + c) : 1);
        int64_t at = (row * n + c * j->plane) * item;
        if (f32) TPI_ISA_PICK(tpi_blend_f32)
        (j->plane, (const float *)(j->grad + at), (float)scale, (const float *)(j->x + at), (float)mean, (float)slope,
         (float)shift, (float *)(j->y + at));
        else TPI_ISA_PICK(tpi_blend_f64)(j->plane, (const double *)(j->grad + at), scale, (const double *)(j->x + at),
                                         mean, slope, shift, (double *)(j->y + at));
    }
}

static bool check(job *j, const tp_tensor *input, const tp_tensor *weight, const tp_tensor *bias) {
    if (j->groups < 1 || j->channels % j->groups != 0)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'num_groups': Expected number of channels in input to be divisible by num_groups, "
                          "but got input of shape %s and num_groups=%lld",
                          tpi_shape_text(tpi_shape(input)), (long long)j->groups);
    if (j->images < 0 || j->channels < 0 || j->plane < 0 ||
        input->numel != tpi_size_times(tpi_size_times(j->images, j->channels), j->plane))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': expected %lld x %lld x %lld elements, got %s",
                          (long long)j->images, (long long)j->channels, (long long)j->plane,
                          tpi_shape_text(tpi_shape(input)));
    const tp_tensor *affine[2] = {weight, bias};
    for (int i = 0; i < 2; i++)
        if (affine[i] && (affine[i]->ndim != 1 || affine[i]->numel != j->channels))
            return tpi_refuse(TP_ERR_RUNTIME,
                              "Expected %s to be a vector of size equal to the number of channels in input, but got %s "
                              "of shape %s and input of shape %s",
                              i ? "bias" : "weight", i ? "bias" : "weight", tpi_shape_text(tpi_shape(affine[i])),
                              tpi_shape_text(tpi_shape(input)));
    j->dtype = tpi_compute_dtype(input, "input");
    return j->dtype;
}

bool tpi_native_native_group_norm(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, int64_t images,
                                  int64_t channels, int64_t plane, int64_t groups, double eps, tp_tensor **out) {
    job j = {.images = images, .channels = channels, .plane = plane, .groups = groups, .eps = eps};
    if (!check(&j, input, weight, bias)) return false;
    tp_tensor *x = tpi_to_compute(input, j.dtype), *w = tpi_to_compute(weight, j.dtype),
              *b = tpi_to_compute(bias, j.dtype);
    tp_tensor *y = x ? tpi_empty(tpi_shape(input), j.dtype, tpi_device(input)) : NULL;
    tp_tensor *mean = y ? tpi_empty(TP_INTS(images, groups), j.dtype, tpi_device(input)) : NULL,
              *rstd = mean ? tpi_empty(TP_INTS(images, groups), j.dtype, tpi_device(input)) : NULL;
    bool ok = rstd && (w || !weight) && (b || !bias);
    if (ok) {
        j.x = x->data;
        j.y = y->data;
        j.weight = w ? w->data : NULL;
        j.bias = b ? b->data : NULL;
        j.mean = mean->data;
        j.rstd = rstd->data;
        tpi_parallel_for(images * groups, x->numel > 16384, forward_task, &j);
    }
    tpi_release(x);
    tpi_release(w);
    tpi_release(b);
    return tpi_norm_results_put(&(tpi_norm_results){y, mean, rstd, input, weight, .keeps_layout = true}, ok, out);
}

/* The sum over the images of one gradient's terms, in order. */
static tp_tensor *over_images(const job *j, const double *terms, const tp_tensor *as, tp_device device) {
    if (!as) return tpi_empty(TP_INTS(0), j->dtype, device);
    tp_tensor *sum = tpi_empty(TP_INTS(j->channels), j->dtype, device);
    for (int64_t c = 0; sum && c < j->channels; c++) {
        double s = 0;
        for (int64_t i = 0; i < j->images; i++) s += terms[i * j->channels + c];
        tpi_compute_set(sum->data, j->dtype, c, s);
    }
    return tpi_from_compute(sum, (tp_dtype)as->dtype);
}

bool tpi_native_group_norm_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *mean, tp_tensor *rstd,
                                    tp_tensor *weight, tp_tensor *bias, int64_t images, int64_t channels, int64_t plane,
                                    int64_t groups, tp_tensor **out) {
    job j = {.images = images, .channels = channels, .plane = plane, .groups = groups};
    if (!check(&j, input, weight, bias) || !tpi_check_numel(grad, "grad_out", input->numel) ||
        !tpi_check_numel(mean, "mean", images * groups) || !tpi_check_numel(rstd, "rstd", images * groups))
        return false;
    tp_tensor *x = tpi_to_compute(input, j.dtype), *g = tpi_to_compute(grad, j.dtype),
              *w = tpi_to_compute(weight, j.dtype);
    tp_tensor *m = tpi_to_compute(mean, j.dtype), *k = tpi_to_compute(rstd, j.dtype);
    tp_tensor *dx = x && g ? tpi_empty(tpi_shape(input), j.dtype, tpi_device(input)) : NULL;
    size_t bytes = (size_t)(2 * images * channels) * sizeof(double);
    j.dweight = dx && m && k && (w || !weight) ? tpi_alloc(bytes) : NULL;
    bool ok = j.dweight;
    if (ok) {
        j.dbias = j.dweight + images * channels;
        j.x = x->data;
        j.grad = g->data;
        j.y = dx->data;
        j.weight = w ? w->data : NULL;
        j.mean = m->data;
        j.rstd = k->data;
        tpi_parallel_for(images * groups, x->numel > 16384, backward_task, &j);
        out[0] = tpi_from_compute_like(dx, (tp_dtype)input->dtype, input);
        dx = NULL;
        out[1] = over_images(&j, j.dweight, weight, tpi_device(input));
        out[2] = over_images(&j, j.dbias, bias, tpi_device(input));
        ok = out[0] && out[1] && out[2];
        if (!ok) {
            tpi_release(out[0]);
            tpi_release(out[1]);
            tpi_release(out[2]);
        }
        tpi_free(j.dweight, bytes);
    }
    tpi_release(dx);
    tpi_release(x);
    tpi_release(g);
    tpi_release(w);
    tpi_release(m);
    tpi_release(k);
    return ok;
}
