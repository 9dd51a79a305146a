/* Attention by cuDNN, forward and backward, without a matrix of queries by keys in memory: the operations are written
 * out one by one as below, and the library recognises them and compiles one kernel.
 *
 *   forward   s = scale q k';  masked: -max where the key is after the query;  p = softmax(s);  o = p v;  lse = log
 *             sum exp s
 *   backward  d = rowsum(grad o);  p = exp(s - lse), 0 where masked;  gv = p' grad;  gs = scale p (grad v' - d);  gq
 *             = gs k;  gk = gs' q */
#include <float.h>
#include <string.h>
#include "device/cuda/cudnn.h"

enum {
    PW_MODE = 0,
    PW_PRECISION = 1,
    PW_AXIS = 9,
    OP_PW = 750,
    OP_PW_X = 751,
    OP_PW_B = 752,
    OP_PW_Y = 753,
    OP_PW_T = 758
};
enum { MM_COMPUTE = 1500, OP_MM_A = 1520, OP_MM_B = 1521, OP_MM_C = 1522, OP_MM = 1523 };
enum {
    RED_MODE = 1600,
    RED_COMPUTE = 1601,
    OP_RED_X = 1610,
    OP_RED_Y = 1611,
    OP_RED = 1612,
    RESHAPE_X = 2200,
    RESHAPE_Y = 2201,
    DNN_OP_RESHAPE = 31
};
enum {
    ADD = 0,
    MUL = 1,
    DIV = 6,
    SUB = 9,
    EXP = 13,
    LOG = 15,
    SAME = 21,
    GREATER_EQUAL = 303,
    INDEX = 501,
    SELECT = 601,
    SUM_OVER = 0,
    MAX_OVER = 3
};
enum {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_O,
    ID_LSE,
    ID_GRAD,
    ID_GQ,
    ID_GK,
    ID_GV,
    ID_KT,
    ID_VT,
    ID_SCALE,
    ID_MASKED,
    ID_ONE,
    ID_SUM,
    ID_INSIDE
};

typedef struct key { /* compared as bytes: cleared first */
    int64_t batch, heads, queries, keys, depth, depth_v;
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3], grad_stride[3], gq_stride[3], gk_stride[3],
        gv_stride[3];
    uint8_t dtype, backward, causal, has_lse, rest[4];
} key;

static tpi_plans plans[TPI_MAX_GPUS];

/* ---- Writing operations down ---- */
typedef struct net {
    tpi_dnn_build *b;
    const key *k;
    int type; /* of q, k, v */
    void *op[40];
    int n;
    int64_t next_id;
    void *scale; /* one tensor, wherever it is used: engines know it by that */
} net;

static void done(net *w, void *op) {
    tpi_dnn_finish(w->b, op);
    if (w->n < 40)
        w->op[w->n++] = op;
    else
        w->b->failed = true;
}

static void *inside(net *w, int type, int64_t rows, int64_t columns,
                    bool transposed) { /* [batch, heads, rows, columns] */
    int64_t shape[4] = {w->k->batch, w->k->heads, rows, columns};
    int64_t stride[4] = {w->k->heads * rows * columns, rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
    return tpi_dnn_tensor(w->b, w->next_id++, type, 4, shape, stride, 16, DNN_INSIDE);
}

static void *scores(net *w, int type) { return inside(w, type, w->k->queries, w->k->keys, false); }
static void *column(net *w) { return inside(w, DNN_FLOAT, w->k->queries, 1, false); }

static void *in_memory(net *w, int64_t id, int64_t rows, int64_t columns, const int64_t *stride, bool transposed) {
    int64_t shape[4] = {w->k->batch, w->k->heads, transposed ? columns : rows, transposed ? rows : columns};
    int64_t strides[4] = {stride[0], stride[1], transposed ? 1 : stride[2], transposed ? stride[2] : 1};
    return tpi_dnn_tensor(w->b, id, w->type, 4, shape, strides, 16, DNN_IN_MEMORY);
}

static void *number(net *w, int64_t id) {
    const int64_t ones[4] = {1, 1, 1, 1};
    return tpi_dnn_tensor(w->b, id, DNN_FLOAT, 4, ones, ones, 4, DNN_NUMBER);
}

/* y = mode(x, b), or for SELECT: t ? x : b. axis: of INDEX, -1 otherwise. */
static void *pointwise(net *w, int mode, void *x, void *b, void *t, int64_t axis, void *y) {
    int precision = DNN_FLOAT;
    void *what = tpi_dnn_new(w->b, DNN_POINTWISE), *op = NULL;
    tpi_dnn_set(w->b, what, PW_MODE, DNN_T_POINTWISE_MODE, 1, &mode);
    tpi_dnn_set(w->b, what, PW_PRECISION, DNN_T_DATA_TYPE, 1, &precision);
    if (axis >= 0) tpi_dnn_set(w->b, what, PW_AXIS, DNN_T_INT64, 1, &axis);
    tpi_dnn_finish(w->b, what);
    op = tpi_dnn_new(w->b, DNN_OP_POINTWISE);
    tpi_dnn_set(w->b, op, OP_PW, DNN_T_DESCRIPTOR, 1, &what);
    tpi_dnn_set(w->b, op, OP_PW_X, DNN_T_DESCRIPTOR, 1, &x);
    if (b) tpi_dnn_set(w->b, op, OP_PW_B, DNN_T_DESCRIPTOR, 1, &b);
    if (t) tpi_dnn_set(w->b, op, OP_PW_T, DNN_T_DESCRIPTOR, 1, &t);
    tpi_dnn_set(w->b, op, OP_PW_Y, DNN_T_DESCRIPTOR, 1, &y);
    done(w, op);
    return y;
}

static void *binary(net *w, int mode, void *x, void *b, void *y) { return pointwise(w, mode, x, b, NULL, -1, y); }

static void *matmul(net *w, void *a, void *b, void *c) {
    int compute = DNN_FLOAT;
    void *what = tpi_dnn_new(w->b, DNN_MATMUL);
    tpi_dnn_set(w->b, what, MM_COMPUTE, DNN_T_DATA_TYPE, 1, &compute);
    tpi_dnn_finish(w->b, what);
    void *op = tpi_dnn_new(w->b, DNN_OP_MATMUL);
    tpi_dnn_set(w->b, op, OP_MM_A, DNN_T_DESCRIPTOR, 1, &a);
    tpi_dnn_set(w->b, op, OP_MM_B, DNN_T_DESCRIPTOR, 1, &b);
    tpi_dnn_set(w->b, op, OP_MM_C, DNN_T_DESCRIPTOR, 1, &c);
    tpi_dnn_set(w->b, op, OP_MM, DNN_T_DESCRIPTOR, 1, &what);
    done(w, op);
    return c;
}

static void *reduce(net *w, int mode, void *x, void *y) {
    int compute = DNN_FLOAT;
    void *what = tpi_dnn_new(w->b, DNN_REDUCTION);
    tpi_dnn_set(w->b, what, RED_MODE, DNN_T_REDUCTION_MODE, 1, &mode);
    tpi_dnn_set(w->b, what, RED_COMPUTE, DNN_T_DATA_TYPE, 1, &compute);
    tpi_dnn_finish(w->b, what);
    void *op = tpi_dnn_new(w->b, DNN_OP_REDUCTION);
    tpi_dnn_set(w->b, op, OP_RED_X, DNN_T_DESCRIPTOR, 1, &x);
    tpi_dnn_set(w->b, op, OP_RED_Y, DNN_T_DESCRIPTOR, 1, &y);
    tpi_dnn_set(w->b, op, OP_RED, DNN_T_DESCRIPTOR, 1, &what);
    done(w, op);
    return y;
}

static void *transposed(net *w, void *x) { /* [queries, keys] as [keys, queries] */
    void *y = inside(w, w->type, w->k->keys, w->k->queries, true), *op = tpi_dnn_new(w->b, DNN_OP_RESHAPE);
    tpi_dnn_set(w->b, op, RESHAPE_X, DNN_T_DESCRIPTOR, 1, &x);
    tpi_dnn_set(w->b, op, RESHAPE_Y, DNN_T_DESCRIPTOR, 1, &y);
    done(w, op);
    return y;
}

/* ---- The two graphs ---- */
static void *lse_in_memory(net *w) { /* [batch, heads, queries, 1], contiguous */
    const key *k = w->k;
    int64_t shape[4] = {k->batch, k->heads, k->queries, 1}, stride[4] = {k->heads * k->queries, k->queries, 1, 1};
    return tpi_dnn_tensor(w->b, ID_LSE, DNN_FLOAT, 4, shape, stride, 4, DNN_IN_MEMORY);
}

/* lse: subtracted from the scores, or NULL. Before the mask, as PyTorch writes it: the library compiles the
 * operations in that order, and with the mask between scale and difference the backward's main kernel is slower. */
static void *masked_scores(net *w, void *q, void *kt, void *lse) {
    void *s = matmul(w, q, kt, scores(w, DNN_FLOAT));
    w->scale = number(w, ID_SCALE);
    s = binary(w, MUL, s, w->scale, scores(w, DNN_FLOAT));
    if (lse) s = binary(w, SUB, s, lse, scores(w, DNN_FLOAT));
    if (!w->k->causal) return s;
    void *row = pointwise(w, INDEX, s, NULL, NULL, 2, scores(w, DNN_INT32)),
         *col = pointwise(w, INDEX, s, NULL, NULL, 3, scores(w, DNN_INT32));
    void *seen = binary(w, GREATER_EQUAL, row, col, scores(w, DNN_BOOLEAN));
    return pointwise(w, SELECT, s, number(w, ID_MASKED), seen, -1, scores(w, DNN_FLOAT));
}

static void forward(net *w) {
    const key *k = w->k;
    void *q = in_memory(w, ID_Q, k->queries, k->depth, k->q_stride, false),
         *kt = in_memory(w, ID_K, k->keys, k->depth, k->k_stride, true);
    void *v = in_memory(w, ID_V, k->keys, k->depth_v, k->v_stride, false),
         *o = in_memory(w, ID_O, k->queries, k->depth_v, k->o_stride, false);
    void *s = masked_scores(w, q, kt, NULL);
    void *most = reduce(w, MAX_OVER, s, column(w));
    void *e = pointwise(w, EXP, binary(w, SUB, s, most, scores(w, DNN_FLOAT)), NULL, NULL, -1, scores(w, DNN_FLOAT));
    void *sum = reduce(w, SUM_OVER, e, column(w));
    /* A sum that nobody wants is not left out, only not written: without these two operations no engine knows the
     * graph. */
    binary(w, ADD, most, pointwise(w, LOG, sum, NULL, NULL, -1, column(w)), k->has_lse ? lse_in_memory(w) : column(w));
    matmul(w, binary(w, DIV, e, sum, scores(w, w->type)), v, o);
}

static void backward(net *w) {
    const key *k = w->k;
    void *q = in_memory(w, ID_Q, k->queries, k->depth, k->q_stride, false),
         *kk = in_memory(w, ID_KT, k->keys, k->depth, k->k_stride, false);
    void *kt = in_memory(w, ID_K, k->keys, k->depth, k->k_stride, true),
         *vt = in_memory(w, ID_VT, k->keys, k->depth_v, k->v_stride, true);
    void *o = in_memory(w, ID_O, k->queries, k->depth_v, k->o_stride, false),
         *grad = in_memory(w, ID_GRAD, k->queries, k->depth_v, k->grad_stride, false);
    void *d =
        reduce(w, SUM_OVER, binary(w, MUL, grad, o, inside(w, DNN_FLOAT, k->queries, k->depth_v, false)), column(w));
    d = binary(w, MUL, d, number(w, ID_ONE),
               column(w)); /* the factor of a dropout, without which engines take the graph for another */
    void *p = pointwise(w, EXP, masked_scores(w, q, kt, lse_in_memory(w)), NULL, NULL, -1, scores(w, w->type));
    matmul(w, transposed(w, p), grad, in_memory(w, ID_GV, k->keys, k->depth_v, k->gv_stride, false));
    void *gp = matmul(w, grad, vt, scores(w, DNN_FLOAT));
    void *gs = binary(w, MUL, binary(w, SUB, gp, d, scores(w, DNN_FLOAT)), p, scores(w, DNN_FLOAT));
    gs = binary(w, MUL, gs, w->scale, scores(w, w->type));
    matmul(w, transposed(w, gs), q, in_memory(w, ID_GK, k->keys, k->depth, k->gk_stride, false));
    /* The queries' gradient adds up in float32 over blocks of keys; a sum that is not in memory would cost a matrix of
     * queries by keys instead. */
    int64_t shape[4] = {k->batch, k->heads, k->queries, k->depth},
            stride[4] = {k->heads * k->queries * k->depth, k->queries * k->depth, k->depth, 1};
    void *sum = tpi_dnn_tensor(w->b, ID_SUM, DNN_FLOAT, 4, shape, stride, 16, DNN_IN_MEMORY);
    matmul(w, gs, kk, sum);
    pointwise(w, SAME, sum, NULL, NULL, -1, in_memory(w, ID_GQ, k->queries, k->depth, k->gq_stride, false));
}

/* ---- Plans ---- */
static key key_of(const tpi_gpu_attention *a) {
    key k;
    memset(&k, 0, sizeof k);
    k.batch = a->batch;
    k.heads = a->heads;
    k.queries = a->queries;
    k.keys = a->keys;
    k.depth = a->depth;
    k.depth_v = a->depth_v;
    const int64_t *const from[8] = {a->q_stride,    a->k_stride,  a->v_stride,  a->o_stride,
                                    a->grad_stride, a->gq_stride, a->gk_stride, a->gv_stride};
    int64_t *const to[8] = {k.q_stride,    k.k_stride,  k.v_stride,  k.o_stride,
                            k.grad_stride, k.gq_stride, k.gk_stride, k.gv_stride};
    for (int i = 0; i < (a->backward ? 8 : 4); i++) memcpy(to[i], from[i], sizeof k.q_stride);
    k.dtype = (uint8_t)a->dtype;
    k.backward = a->backward;
    k.causal = a->causal;
    k.has_lse = a->lse != NULL;
    return k;
}

static tpi_dnn_plan *make_plan(int index, const key *k) {
    tpi_dnn_plan *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    tpi_nvrtc_compiler(); /* the library compiles with it, and finds it once we have opened it */
    net w = {.b = &p->build, .k = k, .type = tpi_dnn_type((tp_dtype)k->dtype), .next_id = ID_INSIDE};
    if (k->backward)
        backward(&w);
    else
        forward(&w);
    if (!p->build.failed) tpi_dnn_choose(index, NULL, p, w.op, w.n, 0, NULL);
    return p;
}

static void pass(tpi_dnn_call *call, int64_t id, const void *pointer) {
    call->id[call->n] = id;
    call->pointer[call->n++] = (void *)pointer;
}

/* With room for the sum of the queries' gradient, which begins at zero. From 9.19 on (the first that was seen to, with
 * memory full of NaNs and 48 shapes and dtypes) the library's own kernel before the main one clears it, which saves a
 * thirtieth of the whole. */
enum { CLEARS_THE_SUM = 91900 };
static tpi_served run_backward(int index, tpi_gpu_stream *stream, const tpi_dnn_plan *p, const tpi_gpu_attention *a,
                               tpi_dnn_call *call) {
    tp_device where = {TP_CUDA, (int16_t)index};
    size_t bytes = (size_t)(a->batch * a->heads * a->queries * a->depth) * sizeof(float);
    void *sum = tpi_gpu_alloc_on(where, bytes, stream);
    float one = 1;
    if (!sum) return TPI_FAILED;
    pass(call, ID_ONE, &one);
    pass(call, ID_SUM, sum);
    bool cleared = tpi_dnn_version() >= CLEARS_THE_SUM || tpi_cuda_driver.set(index, stream, sum, 0, bytes);
    tpi_served served = cleared ? tpi_dnn_run(index, stream, p, call) : TPI_FAILED;
    tpi_gpu_free(where, sum, bytes);
    return served;
}

static tpi_served attention_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_attention *a) {
    key k = key_of(a);
    plans[index].key_bytes = sizeof k;
    plans[index].drop = tpi_dnn_plan_free;
    void **slot = tpi_plans_slot(&plans[index], &k);
    if (slot && !*slot) *slot = make_plan(index, &k);
    const tpi_dnn_plan *p = slot ? *slot : NULL;
    if (!p) return TPI_FAILED;
    if (!p->plan) return TPI_DECLINED;
    float scale = (float)a->scale, masked = -FLT_MAX;
    tpi_dnn_call call = {.n = 0};
    pass(&call, ID_Q, a->q);
    pass(&call, ID_K, a->k);
    pass(&call, ID_O, a->o);
    pass(&call, ID_SCALE, &scale);
    if (a->lse) pass(&call, ID_LSE, a->lse);
    if (a->causal) pass(&call, ID_MASKED, &masked);
    if (!a->backward)
        pass(&call, ID_V, a->v);
    else {
        pass(&call, ID_KT, a->k);
        pass(&call, ID_VT, a->v);
        pass(&call, ID_GRAD, a->grad);
        pass(&call, ID_GQ, a->gq);
        pass(&call, ID_GK, a->gk);
        pass(&call, ID_GV, a->gv);
    }
    return a->backward ? run_backward(index, stream, p, a, &call) : tpi_dnn_run(index, stream, p, &call);
}

static bool is_aligned(const void *pointer, const int64_t *stride) {
    return pointer == NULL || (((uintptr_t)pointer | (uintptr_t)(2 * (stride[0] | stride[1] | stride[2]))) & 15) == 0;
}

static bool can_serve(const tpi_gpu_attention *a) {
    if (a->dtype != TP_FLOAT16 && a->dtype != TP_BFLOAT16) return false;
    if (a->backward && a->deterministic) return false; /* blocks of keys add to the queries' gradient in no order */
    if (a->heads != a->kv_heads || a->depth % 8 || a->depth_v % 8 || a->batch < 1 || a->heads < 1 || a->queries < 1 ||
        a->keys < 1 || a->depth < 8 || a->depth_v < 8)
        return false;
    bool fine = is_aligned(a->q, a->q_stride) && is_aligned(a->k, a->k_stride) && is_aligned(a->v, a->v_stride) &&
                is_aligned(a->o, a->o_stride);
    if (!fine || !a->backward) return fine;
    return a->lse && is_aligned(a->grad, a->grad_stride) && is_aligned(a->gq, a->gq_stride) &&
           is_aligned(a->gk, a->gk_stride) && is_aligned(a->gv, a->gv_stride);
}

tpi_served tpi_cudnn_attention(int index, tpi_gpu_stream *stream, const tpi_gpu_attention *a) {
    if (!can_serve(a)) return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    if (!tpi_dnn_begin(index)) return TPI_DECLINED;
    tpi_served served = attention_locked(index, stream, a);
    tpi_dnn_end();
    return served;
}
