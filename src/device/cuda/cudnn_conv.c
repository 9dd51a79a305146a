/* Convolutions and their gradients by cuDNN: any strides, so channels_last as it lies; a shape's plan is chosen once
 * and kept. A bias is not served: adding it is a pass of its own, as fused engines would have to be compiled first. */
#include <string.h>
#include "device/cuda/cudnn.h"

enum {
    CONV_COMPUTE = 100,
    CONV_MODE = 101,
    CONV_DILATIONS = 102,
    CONV_STRIDES = 103,
    CONV_PADDING_AFTER = 104,
    CONV_PADDING_BEFORE = 105,
    CONV_DIMS = 106
};
enum { ID_X = 1, ID_W, ID_Y };

/* The attributes of an operation, in the order alpha, beta, convolution, w, x, y; by tpi_gpu_conv.what. */
static const int operation_of[3] = {DNN_OP_CONV_FORWARD, DNN_OP_CONV_GRAD_INPUT, DNN_OP_CONV_GRAD_WEIGHT};
static const int attributes[3][6] = {
    {700, 701, 702, 703, 704, 705}, {706, 707, 708, 709, 710, 711}, {712, 713, 714, 715, 716, 717}};

typedef struct key { /* compared as bytes: cleared first */
    int64_t x_shape[5], x_stride[5], w_shape[5], w_stride[5], y_shape[5], y_stride[5];
    int64_t stride[3], padding[3], dilation[3];
    uint8_t what, dtype, dims, tf32, benchmark, deterministic, alignment, rest;
} key;

static tpi_plans plans[TPI_MAX_GPUS];

/* One spatial dim is two, of which the first has size one: the library knows no fewer. */
static void widen(int dims, const int64_t *shape, const int64_t *stride, int64_t *to_shape, int64_t *to_stride) {
    int n = dims + 2;
    for (int d = 0; d < n; d++) {
        to_shape[d] = shape[d];
        to_stride[d] = stride[d];
    }
    if (dims > 1) return;
    to_shape[3] = shape[2];
    to_stride[3] = stride[2];
    to_shape[2] = 1;
    to_stride[2] = stride[2] * shape[2];
}

static void widen_window(int dims, const int64_t *from, int64_t *to, int64_t neutral) {
    to[0] = dims == 1 ? neutral : from[0];
    for (int d = 1; d < 3; d++) to[d] = dims == 1 && d == 1 ? from[0] : d < dims ? from[d] : neutral;
}

static key key_of(const tpi_gpu_conv *c) {
    key k;
    memset(&k, 0, sizeof k);
    widen(c->dims, c->x_shape, c->x_stride, k.x_shape, k.x_stride);
    widen(c->dims, c->w_shape, c->w_stride, k.w_shape, k.w_stride);
    widen(c->dims, c->y_shape, c->y_stride, k.y_shape, k.y_stride);
    widen_window(c->dims, c->stride, k.stride, 1);
    widen_window(c->dims, c->padding, k.padding, 0);
    widen_window(c->dims, c->dilation, k.dilation, 1);
    uintptr_t bits = (uintptr_t)c->x | (uintptr_t)c->w | (uintptr_t)c->y | 16;
    k.what = (uint8_t)c->what;
    k.dtype = (uint8_t)c->dtype;
    k.dims = (uint8_t)(c->dims == 1 ? 2 : c->dims);
    k.tf32 = c->tf32;
    k.benchmark = c->benchmark;
    k.deterministic = c->deterministic;
    k.alignment = (uint8_t)(bits & -bits);
    return k;
}

static void *window(tpi_dnn_build *b, const key *k) {
    int compute = k->dtype == TP_FLOAT64 ? DNN_DOUBLE : DNN_FLOAT, correlation = 1;
    int64_t dims = k->dims;
    void *conv = tpi_dnn_new(b, DNN_CONVOLUTION);
    tpi_dnn_set(b, conv, CONV_COMPUTE, DNN_T_DATA_TYPE, 1, &compute);
    tpi_dnn_set(b, conv, CONV_MODE, DNN_T_CONV_MODE, 1, &correlation);
    tpi_dnn_set(b, conv, CONV_DIMS, DNN_T_INT64, 1, &dims);
    tpi_dnn_set(b, conv, CONV_PADDING_BEFORE, DNN_T_INT64, dims, k->padding);
    tpi_dnn_set(b, conv, CONV_PADDING_AFTER, DNN_T_INT64, dims, k->padding);
    tpi_dnn_set(b, conv, CONV_STRIDES, DNN_T_INT64, dims, k->stride);
    tpi_dnn_set(b, conv, CONV_DILATIONS, DNN_T_INT64, dims, k->dilation);
    tpi_dnn_finish(b, conv);
    return conv;
}

static void *operation(tpi_dnn_build *b, const key *k) {
    int type = tpi_dnn_type((tp_dtype)k->dtype), n = k->dims + 2;
    void *x = tpi_dnn_tensor(b, ID_X, type, n, k->x_shape, k->x_stride, k->alignment, DNN_IN_MEMORY);
    void *w = tpi_dnn_tensor(b, ID_W, type, n, k->w_shape, k->w_stride, k->alignment, DNN_IN_MEMORY);
    void *y = tpi_dnn_tensor(b, ID_Y, type, n, k->y_shape, k->y_stride, k->alignment, DNN_IN_MEMORY);
    void *conv = window(b, k), *op = tpi_dnn_new(b, operation_of[k->what]);
    const int *a = attributes[k->what];
    const double wide[2] = {1, 0};
    const float narrow[2] = {1, 0};
    bool is_wide = k->dtype == TP_FLOAT64;
    for (int i = 0; i < 2; i++)
        tpi_dnn_set(b, op, a[i], is_wide ? DNN_T_DOUBLE : DNN_T_FLOAT, 1,
                    is_wide ? (const void *)&wide[i] : &narrow[i]);
    void *const part[4] = {conv, w, x, y};
    for (int i = 0; i < 4; i++) tpi_dnn_set(b, op, a[2 + i], DNN_T_DESCRIPTOR, 1, &part[i]);
    tpi_dnn_finish(b, op);
    return op;
}

static tpi_dnn_plan *make_plan(int index, tpi_gpu_stream *stream, const key *k, const tpi_dnn_call *call) {
    tpi_dnn_plan *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    void *op = operation(&p->build, k);
    unsigned refused = (k->deterministic ? DNN_NOTE_NONDETERMINISTIC : 0u) |
                       (k->dtype == TP_FLOAT32 && !k->tf32 ? DNN_NOTE_TENSOR_CORE | DNN_NOTE_DOWN_CONVERT : 0u);
    if (!p->build.failed) tpi_dnn_choose(index, stream, p, &op, 1, refused, k->benchmark ? call : NULL);
    return p;
}

static tpi_served conv_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c) {
    key k = key_of(c);
    plans[index].key_bytes = sizeof k;
    plans[index].drop = tpi_dnn_plan_free;
    tpi_dnn_call call = {.n = 3, .id = {ID_X, ID_W, ID_Y}, .pointer = {(void *)c->x, (void *)c->w, (void *)c->y}};
    void **slot = tpi_plans_slot(&plans[index], &k);
    if (slot && !*slot) *slot = make_plan(index, stream, &k, &call);
    const tpi_dnn_plan *p = slot ? *slot : NULL;
    if (!p) return TPI_FAILED;
    return p->plan ? tpi_dnn_run(index, stream, p, &call) : TPI_DECLINED;
}

tpi_served tpi_cudnn_conv(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c) {
    if (c->bias || c->dims < 1 || c->dims > 3 || tpi_dnn_type(c->dtype) < 0) return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    if (!tpi_dnn_begin(index)) return TPI_DECLINED;
    tpi_served served = conv_locked(index, stream, c);
    tpi_dnn_end();
    return served;
}
