/* Convolutions and their gradients on AMD's GPUs by MIOpen. The algorithm of a shape is found by trying, once, and
 * kept. The three computations take their operands in the same way: two that are read and one that is written, so that
 * one function serves them all. */
#include <pthread.h>
#include <string.h>
#include "device/cuda/plan_cache.h"

typedef struct found { /* what the library answers */
    int algorithm;
    float time;
    size_t memory;
} found;
typedef int (*space_fn)(void *handle, void *first, void *second, void *conv, void *result, size_t *bytes);
typedef int (*find_fn)(void *handle, void *first, const void *first_data, void *second, const void *second_data,
                       void *conv, void *result, void *result_data, int most, int *n, found *answers, void *workspace,
                       size_t bytes, bool exhaustive);
typedef int (*run_fn)(void *handle, const void *alpha, void *first, const void *first_data, void *second,
                      const void *second_data, void *conv, int algorithm, const void *beta, void *result,
                      void *result_data, void *workspace, size_t bytes);

static struct {
    bool tried, there;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*tensor_new)(void **tensor);
    int (*tensor_set)(void *tensor, int type, int ndim, const int *shape, const int *strides);
    int (*tensor_free)(void *tensor);
    int (*conv_new)(void **conv);
    int (*conv_set)(void *conv, int dims, const int *padding, const int *stride, const int *dilation, int mode);
    int (*conv_groups)(void *conv, int groups);
    int (*conv_free)(void *conv);
    space_fn space[3]; /* by tpi_gpu_conv.what, as are the next two */
    find_fn find[3];
    run_fn run[3];
    void *handle[TPI_MAX_GPUS];
} mi;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(void) {
    static const char *const names[] = {"libMIOpen.so.1", "libMIOpen.so", NULL};
    const tpi_symbol symbols[] = {{"miopenCreate", &mi.create},
                                  {"miopenSetStream", &mi.set_stream},
                                  {"miopenCreateTensorDescriptor", &mi.tensor_new},
                                  {"miopenSetTensorDescriptor", &mi.tensor_set},
                                  {"miopenDestroyTensorDescriptor", &mi.tensor_free},
                                  {"miopenCreateConvolutionDescriptor", &mi.conv_new},
                                  {"miopenInitConvolutionNdDescriptor", &mi.conv_set},
                                  {"miopenSetConvolutionGroupCount", &mi.conv_groups},
                                  {"miopenDestroyConvolutionDescriptor", &mi.conv_free},
                                  {"miopenConvolutionForwardGetWorkSpaceSize", &mi.space[TPI_CONV_FORWARD]},
                                  {"miopenFindConvolutionForwardAlgorithm", &mi.find[TPI_CONV_FORWARD]},
                                  {"miopenConvolutionForward", &mi.run[TPI_CONV_FORWARD]},
                                  {"miopenConvolutionBackwardDataGetWorkSpaceSize", &mi.space[TPI_CONV_GRAD_INPUT]},
                                  {"miopenFindConvolutionBackwardDataAlgorithm", &mi.find[TPI_CONV_GRAD_INPUT]},
                                  {"miopenConvolutionBackwardData", &mi.run[TPI_CONV_GRAD_INPUT]},
                                  {"miopenConvolutionBackwardWeightsGetWorkSpaceSize", &mi.space[TPI_CONV_GRAD_WEIGHT]},
                                  {"miopenFindConvolutionBackwardWeightsAlgorithm", &mi.find[TPI_CONV_GRAD_WEIGHT]},
                                  {"miopenConvolutionBackwardWeights", &mi.run[TPI_CONV_GRAD_WEIGHT]}};
    void *library = tpi_cuda_library(names);
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols));
}

/* ---- Plans ---- */
typedef struct key { /* compared as bytes: cleared first; sizes are ints, as the library's are */
    int x_shape[5], x_stride[5], w_shape[5], w_stride[5], y_shape[5], y_stride[5], stride[3], padding[3], dilation[3],
        groups;
    int what, dtype, dims, rest;
} key;
typedef struct plan {
    void *x, *w, *y, *conv;
    bool served;
    found how;
} plan;
static tpi_plans plans[TPI_MAX_GPUS];

/* One spatial dim is two, of which the first has size one: solvers are for two or three. False: a number is too large
 * for the library. */
static bool narrow(int *to, const int64_t *from, int dims, int64_t inserted, int at) {
    int n = 0;
    for (int d = 0; d < dims; d++) {
        if (d == at) to[n++] = (int)inserted;
        if (from[d] > INT32_MAX || from[d] < 0) return false;
        to[n++] = (int)from[d];
    }
    return true;
}

static bool key_of(const tpi_gpu_conv *c, key *k) {
    memset(k, 0, sizeof *k);
    int n = c->dims + 2, at = c->dims == 1 ? 2 : -1, window = c->dims == 1 ? 0 : -1;
    k->what = (int)c->what;
    k->dtype = c->dtype;
    k->dims = c->dims == 1 ? 2 : c->dims;
    k->groups = (int)c->groups;
    return narrow(k->x_shape, c->x_shape, n, 1, at) &&
           narrow(k->x_stride, c->x_stride, n, c->x_shape[2] * c->x_stride[2], at) &&
           narrow(k->w_shape, c->w_shape, n, 1, at) &&
           narrow(k->w_stride, c->w_stride, n, c->w_shape[2] * c->w_stride[2], at) &&
           narrow(k->y_shape, c->y_shape, n, 1, at) &&
           narrow(k->y_stride, c->y_stride, n, c->y_shape[2] * c->y_stride[2], at) &&
           narrow(k->stride, c->stride, c->dims, 1, window) && narrow(k->padding, c->padding, c->dims, 0, window) &&
           narrow(k->dilation, c->dilation, c->dims, 1, window);
}

static int library_type(int dtype) {
    switch (dtype) {
    case TP_FLOAT16: return 0;
    case TP_FLOAT32: return 1;
    case TP_BFLOAT16: return 5;
    default: return -1;
    }
}

static void drop(void *plan_) {
    plan *p = plan_;
    if (p->x) mi.tensor_free(p->x);
    if (p->w) mi.tensor_free(p->w);
    if (p->y) mi.tensor_free(p->y);
    if (p->conv) mi.conv_free(p->conv);
    tpi_delete(p, sizeof *p);
}

/* The operands in the order that a computation takes them: read, read, written. */
static void in_order(int what, void *x, void *w, void *y, void *out[3]) {
    void *const orders[3][3] = {{x, w, y}, {y, w, x}, {y, x, w}};
    memcpy(out, orders[what], sizeof orders[what]);
}

static bool describe(plan *p, const key *k) {
    int type = library_type(k->dtype), n = k->dims + 2;
    return mi.tensor_new(&p->x) == 0 && mi.tensor_set(p->x, type, n, k->x_shape, k->x_stride) == 0 &&
           mi.tensor_new(&p->w) == 0 && mi.tensor_set(p->w, type, n, k->w_shape, k->w_stride) == 0 &&
           mi.tensor_new(&p->y) == 0 && mi.tensor_set(p->y, type, n, k->y_shape, k->y_stride) == 0 &&
           mi.conv_new(&p->conv) == 0 && mi.conv_set(p->conv, k->dims, k->padding, k->stride, k->dilation, 0) == 0 &&
           mi.conv_groups(p->conv, k->groups) == 0;
}

static bool choose(int index, tpi_gpu_stream *stream, plan *p, const tpi_gpu_conv *c) {
    void *d[3], *data[3];
    size_t bytes = 0;
    int n = 0;
    in_order(c->what, p->x, p->w, p->y, d);
    in_order(c->what, (void *)c->x, (void *)c->w, (void *)c->y, data);
    bool forward = c->what == TPI_CONV_FORWARD; /* it alone asks for the weight first */
    if (mi.space[c->what](mi.handle[index], d[forward], d[!forward], p->conv, d[2], &bytes) != 0) return false;
    tp_device where = {TP_CUDA, (int16_t)index};
    void *workspace = bytes ? tpi_gpu_alloc_on(where, bytes, stream) : NULL;
    if (bytes && !workspace) return false;
    int status = mi.find[c->what](mi.handle[index], d[0], data[0], d[1], data[1], p->conv, d[2], data[2], 1, &n,
                                  &p->how, workspace, bytes, c->benchmark);
    tpi_gpu_free(where, workspace, bytes);
    return status == 0 && n == 1;
}

static plan *plan_of(int index, tpi_gpu_stream *stream, const key *k, const tpi_gpu_conv *c) {
    plans[index].key_bytes = sizeof *k;
    plans[index].drop = drop;
    void **slot = tpi_plans_slot(&plans[index], k);
    if (!slot || *slot) return slot ? *slot : NULL;
    plan *p = tpi_new0(sizeof *p);
    *slot = p;
    if (p) p->served = describe(p, k) && choose(index, stream, p, c);
    return p;
}

/* ---- Running ---- */
static tpi_served conv_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c) {
    key k;
    if (!mi.tried) {
        mi.there = open_library();
        mi.tried = true;
    }
    if (!mi.there || !key_of(c, &k) || (!mi.handle[index] && mi.create(&mi.handle[index]) != 0)) return TPI_DECLINED;
    if (mi.set_stream(mi.handle[index], stream) != 0) return TPI_DECLINED;
    const plan *p = plan_of(index, stream, &k, c);
    if (!p) return TPI_FAILED;
    if (!p->served) return tp_ok() ? TPI_DECLINED : TPI_FAILED;
    void *d[3], *data[3];
    in_order(c->what, p->x, p->w, p->y, d);
    in_order(c->what, (void *)c->x, (void *)c->w, (void *)c->y, data);
    const float one = 1, zero = 0;
    tp_device where = {TP_CUDA, (int16_t)index};
    void *workspace = p->how.memory ? tpi_gpu_alloc_on(where, p->how.memory, stream) : NULL;
    if (p->how.memory && !workspace) return TPI_FAILED;
    int status = mi.run[c->what](mi.handle[index], &one, d[0], data[0], d[1], data[1], p->conv, p->how.algorithm, &zero,
                                 d[2], data[2], workspace, p->how.memory);
    tpi_gpu_free(where, workspace, p->how.memory);
    if (status == 0) return TPI_SERVED;
    tpi_fail(TP_ERR_RUNTIME, "MIOpen: status %d", status);
    return TPI_FAILED;
}

tpi_served tpi_miopen_conv(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c) {
    if (c->bias || c->dims < 1 || c->dims > 3 || library_type(c->dtype) < 0) return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    pthread_mutex_lock(&lock);
    tpi_served served = conv_locked(index, stream, c);
    pthread_mutex_unlock(&lock);
    return served;
}
