/* One LSTM layer in one direction over all steps, and its gradients, on the CPU.
 *
 * The rows of a batch know nothing of each other: a task takes a few of them through all the steps, so the threads meet
 * once for the whole layer. The recurrent weight is packed for the products once. Its gradient is one product over all
 * steps. */
#include "linalg/blas.h"
#include "base/min_max.h"
#include "linalg/gemm.h"
#include "ops/recurrent/lstm_rows.h"
#include "ops/native.h"
#include "tensor/sizes.h"

enum { FEW_ROWS = 8, MANY_ROWS = 24, LARGE_BATCH = 96 };

typedef struct layer {
    tp_dtype dtype;
    int64_t item, steps, batch, width, rows; /* rows: of the batch, per task */
    bool reverse;
    const char *w_hh; /* (4 width, width) */
    float *packed;    /* the same for the gemm's kernels; NULL: none */
    char *acts, *cells, *out;
    const char *h0, *c0, *grad;
    char *dgates, *dh, *dc;
} layer;

/* c (rows, n) += or = a (rows, k) times the weight, transposed in the forward direction. */
static void times_weight(const layer *l, bool forward, int64_t rows, const char *a, char *c) {
    int64_t n = forward ? 4 * l->width : l->width, k = forward ? l->width : 4 * l->width;
    if (l->dtype == TP_FLOAT64) {
        tpi_gemm_f64(false, forward, rows, n, k, 1, (const double *)(const void *)a, k,
                     (const double *)(const void *)l->w_hh, l->width, forward, (double *)(void *)c, n);
    } else if (l->packed) {
        tpi_gemm g = {.m = rows,
                      .n = n,
                      .k = k,
                      .a = (const float *)(const void *)a,
                      .a_row = k,
                      .a_col = 1,
                      .c = (float *)(void *)c,
                      .c_row = n,
                      .alpha = 1,
                      .beta = forward,
                      .packed = l->packed};
        tpi_gemm_alone(&g);
    } else {
        tpi_gemm_f32(false, forward, rows, n, k, 1, (const float *)(const void *)a, k,
                     (const float *)(const void *)l->w_hh, l->width, forward, (float *)(void *)c, n);
    }
}

static int64_t packed_bytes(const layer *l) {
    return tpi_ceil_div(4 * l->width, TPI_GEMM_WIDTH) * TPI_GEMM_WIDTH * tpi_ceil_div(l->width, TPI_GEMM_WIDTH) *
           TPI_GEMM_WIDTH * 4;
}

static bool pack_weight(layer *l, bool forward) {
    if (l->dtype != TP_FLOAT32 || !tpi_gemm_serves(2, l->width, l->width)) return true;
    int64_t n = forward ? 4 * l->width : l->width, k = forward ? l->width : 4 * l->width;
    tpi_gemm g = {.n = n,
                  .k = k,
                  .b = (const float *)(const void *)l->w_hh,
                  .b_row = forward ? 1 : l->width,
                  .b_col = forward ? l->width : 1};
    l->packed = tpi_alloc((size_t)packed_bytes(l));
    if (l->packed) TPI_ISA_PICK(tpi_gemm_pack)(&g, 0, n, l->packed);
    return l->packed;
}

/* The s-th step in the order of time: where it stands. */
static int64_t step_at(const layer *l, int64_t s) { return l->reverse ? l->steps - 1 - s : s; }

static void forward_task(int64_t task, void *context) {
    const layer *l = context;
    int64_t first = task * l->rows, rows = tpi_min64(l->rows, l->batch - first), line = l->width * l->item;
    const char *h = l->h0 + first * line, *c = l->c0 + first * line;
    for (int64_t s = 0; s < l->steps; s++) {
        int64_t at = step_at(l, s) * l->batch + first;
        char *acts = l->acts + at * 4 * line, *cells = l->cells + at * line, *out = l->out + at * line;
        times_weight(l, true, rows, h, acts);
        if (l->dtype == TP_FLOAT32) TPI_ISA_PICK(tpi_lstm_step_f32)
        (rows, l->width, (float *)(void *)acts, (const float *)(const void *)c, (float *)(void *)cells,
         (float *)(void *)out);
        else TPI_ISA_PICK(tpi_lstm_step_f64)(rows, l->width, (double *)(void *)acts, (const double *)(const void *)c,
                                             (double *)(void *)cells, (double *)(void *)out);
        h = out;
        c = cells;
    }
}

static void backward_task(int64_t task, void *context) {
    const layer *l = context;
    int64_t first = task * l->rows, rows = tpi_min64(l->rows, l->batch - first), line = l->width * l->item;
    char *dh = l->dh + first * line, *dc = l->dc + first * line;
    for (int64_t s = l->steps - 1; s >= 0; s--) {
        int64_t at = step_at(l, s) * l->batch + first;
        const char *acts = l->acts + at * 4 * line, *cells = l->cells + at * line, *grad = l->grad + at * line;
        const char *before = s ? l->cells + (step_at(l, s - 1) * l->batch + first) * line : l->c0 + first * line;
        char *dgates = l->dgates + at * 4 * line;
        if (l->dtype == TP_FLOAT32) TPI_ISA_PICK(tpi_lstm_back_f32)
        (rows, l->width, (const float *)(const void *)acts, (const float *)(const void *)before,
         (const float *)(const void *)cells, (const float *)(const void *)grad, (const float *)(const void *)dh,
         (float *)(void *)dc, (float *)(void *)dgates);
        else TPI_ISA_PICK(tpi_lstm_back_f64)(rows, l->width, (const double *)(const void *)acts,
                                             (const double *)(const void *)before, (const double *)(const void *)cells,
                                             (const double *)(const void *)grad, (const double *)(const void *)dh,
                                             (double *)(void *)dc, (double *)(void *)dgates);
        times_weight(l, false, rows, dgates, dh);
    }
}

static layer layer_of(const tp_tensor *acts, const tp_tensor *cells, const tp_tensor *h0, const tp_tensor *c0,
                      const tp_tensor *w_hh, int64_t steps, bool reverse) {
    layer l = {.dtype = (tp_dtype)acts->dtype,
               .item = (int64_t)tpi_itemsize(acts),
               .acts = acts->data,
               .cells = cells->data,
               .h0 = h0->data,
               .c0 = c0->data,
               .steps = steps,
               .batch = h0->shape[0],
               .width = h0->shape[1],
               .reverse = reverse,
               .w_hh = w_hh->data};
    l.rows = l.batch >= LARGE_BATCH ? MANY_ROWS : FEW_ROWS;
    return l;
}

static void run(layer *l, tpi_chunk_fn task) {
    tpi_parallel_for(tpi_ceil_div(l->batch, l->rows), l->steps * l->batch * l->width * l->width >= 1 << 15, task, l);
    if (l->packed) tpi_free(l->packed, (size_t)packed_bytes(l));
    l->packed = NULL;
}

bool tpi_lstm_layer_fits(const tp_tensor *gates, const tp_tensor *h0, const tp_tensor *c0, const tp_tensor *w_hh,
                         int64_t steps) {
    int64_t rows = h0->ndim == 2 ? h0->shape[0] : -1, width = h0->ndim == 2 ? h0->shape[1] : -1;
    if (rows < 1 || width < 1 || steps < 1 || gates->ndim != 2 || gates->shape[0] != tpi_size_times(steps, rows) ||
        gates->shape[1] != tpi_size_times(4, width))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'gates': expected steps times the rows of h0, four times as wide, got %s and h0 of %s",
            tpi_shape_text(tpi_shape(gates)), tpi_shape_text(tpi_shape(h0)));
    if (!tpi_same_shape(c0, h0) || w_hh->ndim != 2 || w_hh->shape[0] != 4 * width || w_hh->shape[1] != width)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'w_hh': expected shape (%lld, %lld), got %s",
                          (long long)(4 * width), (long long)width, tpi_shape_text(tpi_shape(w_hh)));
    return tpi_check_same_dtype(h0, "h0", gates, "gates") && tpi_check_same_dtype(c0, "c0", gates, "gates") &&
           tpi_check_same_dtype(w_hh, "w_hh", gates, "gates");
}

/* The last step's rows as a tensor of their own. */
static tp_tensor *last_of(const layer *l, const char *steps, const tp_tensor *like) {
    tp_tensor *t = tpi_empty(TP_INTS(l->batch, l->width), l->dtype, tpi_device(like));
    if (t)
        memcpy(t->data, steps + step_at(l, l->steps - 1) * l->batch * l->width * l->item,
               (size_t)(l->batch * l->width * l->item));
    return t;
}

/* gates (steps * rows, 4 width): the input's share, biases included. */
bool tpi_native_lstm_layer(tp_tensor *gates, tp_tensor *h0, tp_tensor *c0, tp_tensor *w_hh, int64_t steps, bool reverse,
                           tp_tensor **out) {
    if (!tpi_lstm_layer_fits(gates, h0, c0, w_hh, steps)) return false;
    tp_tensor *h = tpi_contiguous_data(h0), *c = tpi_contiguous_data(c0), *w = tpi_contiguous_data(w_hh);
    int64_t rows = gates->shape[0], width = h0->shape[1];
    tp_tensor *o = tpi_empty(TP_INTS(rows, width), (tp_dtype)gates->dtype, tpi_device(gates)),
              *cells = tpi_empty(TP_INTS(rows, width), (tp_dtype)gates->dtype, tpi_device(gates));
    tp_tensor *acts = tpi_empty(tpi_shape(gates), (tp_dtype)gates->dtype, tpi_device(gates)), *last = NULL,
              *last_c = NULL;
    bool fine = h && c && w && o && cells && acts && tpi_copy_data(acts, gates);
    if (fine) {
        layer l = layer_of(acts, cells, h, c, w, steps, reverse);
        l.out = o->data;
        fine = pack_weight(&l, true);
        if (fine) {
            run(&l, forward_task);
            last = last_of(&l, l.out, gates);
            last_c = last_of(&l, l.cells, gates);
        }
        fine = fine && last && last_c;
    }
    tpi_release(h);
    tpi_release(c);
    tpi_release(w);
    out[0] = o;
    out[1] = last;
    out[2] = last_c;
    out[3] = acts;
    out[4] = cells;
    for (int i = 0; i < 5 && !fine; i++) tpi_release(out[i]);
    return fine;
}

/* The gradient of the weight: over all steps, that of the gates times the state before. */
static void weight_product(const layer *l, int64_t gates_at, int64_t rows, const char *before, bool add,
                           tp_tensor *dw) {
    tpi_product p = {.dtype = l->dtype,
                     .batches = 1,
                     .m = 4 * l->width,
                     .n = l->width,
                     .k = rows,
                     .c = dw->data,
                     .c_row = l->width,
                     .alpha = tp_int(1),
                     .beta = tp_int(add)};
    p.a = (tpi_operand_matrix){l->dgates + gates_at * 4 * l->width * l->item, 0, 1, 4 * l->width};
    p.b = (tpi_operand_matrix){before, 0, l->width, 1};
    tpi_multiply(&p);
}

/* A gradient that may be missing, as a tensor that may be written. */
static tp_tensor *start_of(tp_tensor *grad, const tp_tensor *like) {
    tp_tensor *t = tpi_empty(tpi_shape(like), (tp_dtype)like->dtype, tpi_device(like));
    if (t && !grad) memset(t->data, 0, (size_t)t->numel * tpi_itemsize(t));
    if (t && grad && !tpi_copy_data(t, grad)) return tpi_release_then(t, NULL);
    return t;
}

bool tpi_native_lstm_layer_back(tp_tensor *grad_output, tp_tensor *grad_h, tp_tensor *grad_c, tp_tensor *h0,
                                tp_tensor *c0, tp_tensor *w_hh, tp_tensor *output, tp_tensor *acts, tp_tensor *cells,
                                int64_t steps, bool reverse, tp_tensor **out) {
    if (!tpi_lstm_layer_fits(acts, h0, c0, w_hh, steps)) return false;
    tp_tensor *h = tpi_contiguous_data(h0), *c = tpi_contiguous_data(c0), *w = tpi_contiguous_data(w_hh);
    tp_tensor *g = grad_output ? tpi_contiguous_data(grad_output) : start_of(NULL, output);
    tp_tensor *dgates = tpi_empty(tpi_shape(acts), (tp_dtype)acts->dtype, tpi_device(acts)), *dh = start_of(grad_h, h0),
              *dc = start_of(grad_c, h0);
    tp_tensor *dw = tpi_empty(tpi_shape(w_hh), (tp_dtype)w_hh->dtype, tpi_device(w_hh));
    tp_tensor *o = tpi_contiguous_data(output), *a = tpi_contiguous_data(acts), *k = tpi_contiguous_data(cells);
    bool fine = h && c && w && g && dgates && dh && dc && dw && o && a && k;
    if (fine) {
        layer l = layer_of(a, k, h, c, w, steps, reverse);
        l.grad = g->data;
        l.dgates = dgates->data;
        l.dh = dh->data;
        l.dc = dc->data;
        fine = pack_weight(&l, false);
        if (fine) {
            run(&l, backward_task);
            weight_product(&l, step_at(&l, 0) * l.batch, l.batch, l.h0, false, dw);
            if (steps > 1)
                weight_product(&l, reverse ? 0 : l.batch, (steps - 1) * l.batch,
                               o->data + (reverse ? l.batch * l.width * l.item : 0), true, dw);
        }
    }
    tpi_release(h);
    tpi_release(c);
    tpi_release(w);
    tpi_release(g);
    tpi_release(o);
    tpi_release(a);
    tpi_release(k);
    out[0] = dgates;
    out[1] = dh;
    out[2] = dc;
    out[3] = dw;
    for (int i = 0; i < 4 && !fine; i++) tpi_release(out[i]);
    return fine;
}
