/* A layer of LSTM in one direction on GPUs: per step one product and one kernel; the gradient of the recurrent weight
 * is one product over all steps. See ops/recurrent/lstm_layer.c for what the tensors mean. */
#include "ops/native_gpu.h"
#include "ops/matmul/matmul_gpu.h"

static const tpi_gpu_site step_site = {"lstm_gpu_kernel.h", "step"}, back_site = {"lstm_gpu_kernel.h", "back"};

typedef struct layer {
    tp_device device;
    tp_dtype dtype;
    int64_t steps, batch, width;
    bool reverse;
    tp_tensor *w_hh;
} layer;

static bool serves(layer *l, const tp_tensor *gates, const tp_tensor *h0, const tp_tensor *c0, const tp_tensor *w_hh,
                   int64_t steps, bool reverse) {
    if ((gates->dtype != TP_FLOAT32 && gates->dtype != TP_FLOAT64) || !tpi_gpu_floats(gates) || h0->ndim != 2 ||
        !tpi_same_shape(h0, c0) || steps < 1)
        return false;
    *l = (layer){.device = tpi_device(gates),
                 .dtype = (tp_dtype)gates->dtype,
                 .steps = steps,
                 .batch = h0->shape[0],
                 .width = h0->shape[1],
                 .reverse = reverse};
    if (l->batch < 1 || l->width < 1 || l->width > INT32_MAX / 4 || gates->ndim != 2 ||
        gates->shape[0] != steps * l->batch || gates->shape[1] != 4 * l->width)
        return false;
    return w_hh->ndim == 2 && w_hh->shape[0] == 4 * l->width && w_hh->shape[1] == l->width &&
           h0->dtype == gates->dtype && c0->dtype == gates->dtype && w_hh->dtype == gates->dtype;
}

/* The rows of the s-th step in the order of time; a view, owned. */
static tp_tensor *rows_of(const layer *l, tp_tensor *t, int64_t s) {
    return tpi_narrowed(t, 0, (l->reverse ? l->steps - 1 - s : s) * l->batch, l->batch);
}

/* c (batch, ...) = a times the weight + beta c; `forward`: the weight transposed, a of width columns. */
static bool times_weight(const layer *l, bool forward, tp_tensor *a, tp_tensor *c, int beta) {
    int64_t n = forward ? 4 * l->width : l->width, k = forward ? l->width : 4 * l->width;
    tpi_product p = {.dtype = l->dtype,
                     .batches = 1,
                     .m = l->batch,
                     .n = n,
                     .k = k,
                     .c_row = n,
                     .alpha = tp_int(1),
                     .beta = tp_int(beta),
                     .recurrent = true};
    p.a = (tpi_operand_matrix){a->data, 0, k, 1};
    p.b = (tpi_operand_matrix){l->w_hh->data, 0, forward ? 1 : l->width, forward ? l->width : 1};
    return tpi_gpu_multiply(c, &p, NULL);
}

static bool launch(const layer *l, const tpi_gpu_site *site, int count, tp_tensor *const *t) {
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(l->device, site, l->dtype == TP_FLOAT64, 0, NULL);
    int64_t n = l->batch * l->width;
    int width = (int)l->width;
    tpi_gpu_arg args[9];
    for (int i = 0; i < count; i++) args[i] = TPI_GPU_PTR(t[i]->data);
    args[count] = TPI_GPU_VAL(n);
    args[count + 1] = TPI_GPU_VAL(width);
    return kernel && tpi_gpu_launch(l->device, kernel, tpi_ceil_div(n, 128), 128, 0, count + 2, args);
}

static tp_tensor *copy_of(tp_tensor *t) {
    tp_tensor *copy = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, tpi_device(t));
    return copy && !tpi_copy_data(copy, t) ? tpi_release_then(copy, NULL) : copy;
}

/* h and c: the state before the step. They become that after it. */
static bool step(const layer *l, int64_t s, tp_tensor *acts, tp_tensor *cells, tp_tensor *out, tp_tensor **h,
                 tp_tensor **c) {
    tp_tensor *a = rows_of(l, acts, s), *k = rows_of(l, cells, s), *o = rows_of(l, out, s);
    bool ok = a && k && o && times_weight(l, true, *h, a, 1) && launch(l, &step_site, 4, (tp_tensor *[]){a, *c, k, o});
    tpi_release(a);
    tpi_release(*h);
    tpi_release(*c);
    *h = o;
    *c = k;
    return ok;
}

tpi_served tpi_gpu_lstm_layer(tp_tensor *gates, tp_tensor *h0, tp_tensor *c0, tp_tensor *w_hh, int64_t steps,
                              bool reverse, tp_tensor **out) {
    layer l;
    if (!serves(&l, gates, h0, c0, w_hh, steps, reverse)) return TPI_DECLINED;
    tp_tensor *h = tpi_contiguous_data(h0), *c = tpi_contiguous_data(c0), *acts = copy_of(gates);
    tp_tensor *o = tpi_empty(TP_INTS(steps * l.batch, l.width), l.dtype, l.device),
              *cells = tpi_empty(TP_INTS(steps * l.batch, l.width), l.dtype, l.device);
    l.w_hh = tpi_contiguous_data(w_hh);
    bool ok = h && c && acts && o && cells && l.w_hh;
    for (int64_t s = 0; s < steps && ok; s++) ok = step(&l, s, acts, cells, o, &h, &c);
    out[0] = o;
    out[1] = ok ? copy_of(h) : NULL;
    out[2] = ok ? copy_of(c) : NULL;
    out[3] = acts;
    out[4] = cells;
    tpi_release(h);
    tpi_release(c);
    tpi_release(l.w_hh);
    ok = ok && out[1] && out[2];
    for (int i = 0; i < 5 && !ok; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return tpi_serve_if(ok);
}

/* The gradient of the weight: that of the gates, over all steps, times the state before. */
static bool weight_product(const layer *l, tp_tensor *dgates, int64_t first, int64_t rows, const char *before, int beta,
                           tp_tensor *dw) {
    tpi_product p = {.dtype = l->dtype,
                     .batches = 1,
                     .m = 4 * l->width,
                     .n = l->width,
                     .k = rows,
                     .c_row = l->width,
                     .alpha = tp_int(1),
                     .beta = tp_int(beta),
                     .recurrent = true};
    p.a = (tpi_operand_matrix){dgates->data + first * 4 * l->width * (int64_t)tpi_itemsize(dgates), 0, 1, 4 * l->width};
    p.b = (tpi_operand_matrix){before, 0, l->width, 1};
    return tpi_gpu_multiply(dw, &p, NULL);
}

static tp_tensor *start_of(tp_tensor *grad, const tp_tensor *like) {
    tp_tensor *t = tpi_empty(tpi_shape(like), (tp_dtype)like->dtype, tpi_device(like));
    if (t && !(grad ? tpi_copy_data(t, grad) : tpi_fill_data(t, tp_int(0)))) return tpi_release_then(t, NULL);
    return t;
}

static bool step_back(const layer *l, int64_t s, tp_tensor *acts, tp_tensor *cells, tp_tensor *c0, tp_tensor *grad,
                      tp_tensor *dgates, tp_tensor *dh, tp_tensor *dc) {
    tp_tensor *a = rows_of(l, acts, s), *k = rows_of(l, cells, s), *g = rows_of(l, grad, s), *d = rows_of(l, dgates, s),
              *before = s ? rows_of(l, cells, s - 1) : tpi_retain(c0);
    bool ok = a && k && g && d && before && launch(l, &back_site, 7, (tp_tensor *[]){a, before, k, g, dh, dc, d}) &&
              times_weight(l, false, d, dh, 0);
    tpi_release(a);
    tpi_release(k);
    tpi_release(g);
    tpi_release(d);
    tpi_release(before);
    return ok;
}

tpi_served tpi_gpu_lstm_layer_back(tp_tensor *grad_output, tp_tensor *grad_h, tp_tensor *grad_c, tp_tensor *h0,
                                   tp_tensor *c0, tp_tensor *w_hh, tp_tensor *output, tp_tensor *acts, tp_tensor *cells,
                                   int64_t steps, bool reverse, tp_tensor **out) {
    layer l;
    if (!serves(&l, acts, h0, c0, w_hh, steps, reverse)) return TPI_DECLINED;
    tp_tensor *h = tpi_contiguous_data(h0), *c = tpi_contiguous_data(c0), *o = tpi_contiguous_data(output),
              *a = tpi_contiguous_data(acts), *k = tpi_contiguous_data(cells);
    tp_tensor *g = grad_output ? tpi_contiguous_data(grad_output) : start_of(NULL, output), *dh = start_of(grad_h, h0),
              *dc = start_of(grad_c, h0);
    tp_tensor *dgates = tpi_empty(tpi_shape(acts), l.dtype, l.device),
              *dw = tpi_empty(tpi_shape(w_hh), l.dtype, l.device);
    l.w_hh = tpi_contiguous_data(w_hh);
    bool ok = h && c && o && a && k && g && dh && dc && dgates && dw && l.w_hh;
    for (int64_t s = steps - 1; s >= 0 && ok; s--) ok = step_back(&l, s, a, k, c, g, dgates, dh, dc);
    int64_t start = reverse ? (steps - 1) * l.batch : 0, item = ok ? (int64_t)tpi_itemsize(o) : 0;
    ok = ok && weight_product(&l, dgates, start, l.batch, h->data, 0, dw);
    if (ok && steps > 1)
        ok = weight_product(&l, dgates, reverse ? 0 : l.batch, (steps - 1) * l.batch,
                            o->data + (reverse ? l.batch * l.width * item : 0), 1, dw);
    tp_tensor *held[] = {h, c, o, a, k, g, l.w_hh};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) tpi_release(held[i]);
    out[0] = dgates;
    out[1] = dh;
    out[2] = dc;
    out[3] = dw;
    for (int i = 0; i < 4 && !ok; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return tpi_serve_if(ok);
}
