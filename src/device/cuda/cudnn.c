/* cuDNN: finding it, its descriptors, choosing an engine, running a plan. What is computed is put together in
 * cudnn_conv.c and cudnn_attention.c. */
#include "device/cuda/cudnn.h"
#include <pthread.h>
#include <string.h>

enum {
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE = 901,
    TENSOR_SHAPE = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    TENSOR_VIRTUAL = 907,
    TENSOR_BY_VALUE = 908
};
enum {
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    CONFIG_ENGINE = 300,
    ENGINE_NOTES = 1303
};
enum {
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE = 402,
    VARIANT_IDS = 1000,
    VARIANT_POINTERS = 1001,
    VARIANT_WORKSPACE = 1003
};
enum { MODE_FALLBACK = 2, MODE_A = 3, CANDIDATES = 16 };
#define MOST_WORKSPACE ((int64_t)1 << 30)

static struct {
    bool tried, there;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*desc_new)(int what, void **desc);
    int (*desc_free)(void *desc);
    int (*desc_finish)(void *desc);
    int (*desc_set)(void *desc, int attribute, int type, int64_t n, const void *values);
    int (*desc_get)(void *desc, int attribute, int type, int64_t capacity, int64_t *n, void *values);
    int (*execute)(void *handle, void *plan, void *variant);
    const char *(*status_text)(int status);
    void (*last_error)(char *text, size_t capacity);
    size_t (*version)(void);
    void *handle[TPI_MAX_GPUS];
} dnn;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(void) {
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    const tpi_symbol symbols[] = {{"cudnnCreate", &dnn.create},
                                  {"cudnnSetStream", &dnn.set_stream},
                                  {"cudnnBackendCreateDescriptor", &dnn.desc_new},
                                  {"cudnnBackendDestroyDescriptor", &dnn.desc_free},
                                  {"cudnnBackendFinalize", &dnn.desc_finish},
                                  {"cudnnBackendSetAttribute", &dnn.desc_set},
                                  {"cudnnBackendGetAttribute", &dnn.desc_get},
                                  {"cudnnBackendExecute", &dnn.execute},
                                  {"cudnnGetErrorString", &dnn.status_text},
                                  {"cudnnGetLastErrorString", &dnn.last_error},
                                  {"cudnnGetVersion", &dnn.version}};
    void *library = tpi_cuda_library(names);
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols));
}

bool tpi_dnn_begin(int index) {
    pthread_mutex_lock(&lock);
    if (!dnn.tried) {
        dnn.there = open_library();
        dnn.tried = true;
    }
    if (dnn.there && !dnn.handle[index] && dnn.create(&dnn.handle[index]) != 0) dnn.handle[index] = NULL;
    bool there = dnn.there && dnn.handle[index];
    if (!there) pthread_mutex_unlock(&lock);
    return there;
}

void tpi_dnn_end(void) { pthread_mutex_unlock(&lock); }

int tpi_dnn_version(void) { return (int)dnn.version(); }

const char *tpi_dnn_last_error(void) {
    static char text[512]; /* the lock is held */
    text[0] = 0;
    dnn.last_error(text, sizeof text);
    return text;
}

int tpi_dnn_type(tp_dtype dtype) {
    switch (dtype) {
    case TP_FLOAT32: return DNN_FLOAT;
    case TP_FLOAT64: return DNN_DOUBLE;
    case TP_FLOAT16: return DNN_HALF;
    case TP_BFLOAT16: return DNN_BFLOAT16;
    default: return -1;
    }
}

/* ---- Descriptors ---- */
void *tpi_dnn_new(tpi_dnn_build *b, int what) {
    void *desc = NULL;
    if (b->failed || b->n == TPI_DNN_MOST || dnn.desc_new(what, &desc) != 0) {
        b->failed = true;
        return NULL;
    }
    return b->desc[b->n++] = desc;
}

void tpi_dnn_set(tpi_dnn_build *b, void *desc, int attribute, int type, int64_t n, const void *values) {
    if (!b->failed && dnn.desc_set(desc, attribute, type, n, values) != 0) b->failed = true;
}

void tpi_dnn_finish(tpi_dnn_build *b, void *desc) {
    if (!b->failed && dnn.desc_finish(desc) != 0) b->failed = true;
}

void tpi_dnn_drop(tpi_dnn_build *b) {
    while (b->n > 0) dnn.desc_free(b->desc[--b->n]);
}

void *tpi_dnn_tensor(tpi_dnn_build *b, int64_t id, int type, int ndim, const int64_t *shape, const int64_t *stride,
                     int64_t alignment, tpi_dnn_where where) {
    void *t = tpi_dnn_new(b, DNN_TENSOR);
    tpi_dnn_set(b, t, TENSOR_TYPE, DNN_T_DATA_TYPE, 1, &type);
    tpi_dnn_set(b, t, TENSOR_SHAPE, DNN_T_INT64, ndim, shape);
    tpi_dnn_set(b, t, TENSOR_STRIDES, DNN_T_INT64, ndim, stride);
    tpi_dnn_set(b, t, TENSOR_ID, DNN_T_INT64, 1, &id);
    tpi_dnn_set(b, t, TENSOR_ALIGNMENT, DNN_T_INT64, 1, &alignment);
    bool yes = true;
    if (where != DNN_IN_MEMORY)
        tpi_dnn_set(b, t, where == DNN_INSIDE ? TENSOR_VIRTUAL : TENSOR_BY_VALUE, DNN_T_BOOL, 1, &yes);
    tpi_dnn_finish(b, t);
    return t;
}

/* ---- Choosing an engine ---- */
static void *operation_graph(int index, tpi_dnn_build *b, void *const *operations, int n) {
    void *graph = tpi_dnn_new(b, DNN_GRAPH);
    tpi_dnn_set(b, graph, GRAPH_HANDLE, DNN_T_HANDLE, 1, &dnn.handle[index]);
    tpi_dnn_set(b, graph, GRAPH_OPERATIONS, DNN_T_DESCRIPTOR, n, operations);
    tpi_dnn_finish(b, graph);
    return graph;
}

/* The engines that the library proposes for the graph, best first; how many there are. */
static int proposals(tpi_dnn_build *b, void *graph, int mode, void **config) {
    tpi_dnn_build one = {.n = 0};
    void *heuristics = tpi_dnn_new(&one, DNN_HEURISTICS);
    tpi_dnn_set(&one, heuristics, HEURISTICS_GRAPH, DNN_T_DESCRIPTOR, 1, &graph);
    tpi_dnn_set(&one, heuristics, HEURISTICS_MODE, DNN_T_HEUR_MODE, 1, &mode);
    tpi_dnn_finish(&one, heuristics);
    for (int i = 0; i < CANDIDATES; i++) config[i] = tpi_dnn_new(b, DNN_ENGINE_CONFIG);
    int64_t n = 0;
    bool fine = !one.failed && !b->failed &&
                dnn.desc_get(heuristics, HEURISTICS_RESULTS, DNN_T_DESCRIPTOR, CANDIDATES, &n, config) == 0;
    tpi_dnn_drop(&one);
    return fine ? (int)n : 0;
}

static unsigned notes_of(void *config) {
    tpi_dnn_build one = {.n = 0};
    void *engine = tpi_dnn_new(&one, DNN_ENGINE);
    int64_t n = 0;
    int note[16];
    unsigned mask = 0;
    if (engine && dnn.desc_get(config, CONFIG_ENGINE, DNN_T_DESCRIPTOR, 1, &n, &engine) == 0 &&
        dnn.desc_get(engine, ENGINE_NOTES, DNN_T_NOTE, 16, &n, note) == 0)
        for (int i = 0; i < (int)n && i < 16; i++) mask |= 1u << note[i];
    tpi_dnn_drop(&one);
    return mask;
}

static void *plan_from(int index, tpi_dnn_build *b, void *config,
                       int64_t *workspace) { /* NULL: this engine cannot after all */
    tpi_dnn_build one = {.n = 0};
    void *plan = tpi_dnn_new(&one, DNN_PLAN);
    tpi_dnn_set(&one, plan, PLAN_HANDLE, DNN_T_HANDLE, 1, &dnn.handle[index]);
    tpi_dnn_set(&one, plan, PLAN_CONFIG, DNN_T_DESCRIPTOR, 1, &config);
    tpi_dnn_finish(&one, plan);
    int64_t n = 0;
    if (!one.failed && dnn.desc_get(plan, PLAN_WORKSPACE, DNN_T_INT64, 1, &n, workspace) == 0 &&
        *workspace <= MOST_WORKSPACE && b->n < TPI_DNN_MOST)
        return b->desc[b->n++] = plan;
    tpi_dnn_drop(&one);
    return NULL;
}

static double milliseconds(int index, tpi_gpu_stream *stream, const tpi_dnn_plan *plan,
                           const tpi_dnn_call *call) { /* of a run that is warm; negative: it failed */
    const tpi_gpu_driver *driver = &tpi_cuda_driver;
    tpi_gpu_event *from = NULL, *to = NULL;
    double ms = -1;
    enum { RUNS = 3 };
    bool clean = tp_ok(); /* a candidate that fails is passed over, not an error */
    bool fine = tpi_dnn_run(index, stream, plan, call) == TPI_SERVED && driver->event_new(index, true, &from) &&
                driver->event_new(index, true, &to) && driver->event_record(index, from, stream);
    for (int i = 0; fine && i < RUNS; i++) fine = tpi_dnn_run(index, stream, plan, call) == TPI_SERVED;
    if (!fine || !driver->event_record(index, to, stream) || !driver->event_sync(index, to) ||
        !driver->event_elapsed(index, from, to, &ms))
        ms = -1;
    if (from) driver->event_free(index, from);
    if (to) driver->event_free(index, to);
    if (ms < 0 && clean) tp_error_clear();
    return ms;
}

static bool choose_in(int index, tpi_gpu_stream *stream, tpi_dnn_plan *p, void *graph, int mode, unsigned refused,
                      const tpi_dnn_call *timed) {
    void *config[CANDIDATES];
    int n = proposals(&p->build, graph, mode, config);
    double best = -1;
    tpi_dnn_plan chosen = {.plan = NULL};
    for (int i = 0; i < n; i++) {
        if (notes_of(config[i]) & refused) continue;
        p->plan = plan_from(index, &p->build, config[i], &p->workspace);
        if (p->plan && !timed) return true;
        double ms = p->plan ? milliseconds(index, stream, p, timed) : -1;
        if (ms >= 0 && (best < 0 || ms < best)) {
            best = ms;
            chosen.plan = p->plan;
            chosen.workspace = p->workspace;
        }
    }
    p->plan = chosen.plan;
    p->workspace = chosen.workspace;
    return p->plan != NULL;
}

bool tpi_dnn_choose(int index, tpi_gpu_stream *stream, tpi_dnn_plan *p, void *const *operations, int n,
                    unsigned refused, const tpi_dnn_call *timed) {
    if (p->build.failed) return false;
    void *graph = operation_graph(index, &p->build, operations, n);
    if (p->build.failed) return false;
    return choose_in(index, stream, p, graph, MODE_A, refused, timed) ||
           choose_in(index, stream, p, graph, MODE_FALLBACK, refused, timed);
}

/* ---- Running ---- */
static int execute(int index, tpi_gpu_stream *stream, const tpi_dnn_plan *p, const tpi_dnn_call *call,
                   void *workspace) {
    tpi_dnn_build one = {.n = 0};
    void *variant = tpi_dnn_new(&one, DNN_VARIANT);
    tpi_dnn_set(&one, variant, VARIANT_IDS, DNN_T_INT64, call->n, call->id);
    tpi_dnn_set(&one, variant, VARIANT_POINTERS, DNN_T_POINTER, call->n, call->pointer);
    tpi_dnn_set(&one, variant, VARIANT_WORKSPACE, DNN_T_POINTER, 1, &workspace);
    tpi_dnn_finish(&one, variant);
    int status = one.failed ? -1 : dnn.set_stream(dnn.handle[index], stream);
    if (status == 0) status = dnn.execute(dnn.handle[index], p->plan, variant);
    tpi_dnn_drop(&one);
    return status;
}

tpi_served tpi_dnn_run(int index, tpi_gpu_stream *stream, const tpi_dnn_plan *p, const tpi_dnn_call *call) {
    tp_device where = {TP_CUDA, (int16_t)index};
    void *workspace = p->workspace > 0 ? tpi_gpu_alloc_on(where, (size_t)p->workspace, stream) : NULL;
    if (p->workspace > 0 && !workspace) return TPI_FAILED;
    int status = execute(index, stream, p, call, workspace);
    tpi_gpu_free(where, workspace, (size_t)p->workspace);
    if (status == 0) return TPI_SERVED;
    tpi_fail(TP_ERR_RUNTIME, "cuDNN: %s (status %d): %s",
             status > 0 ? dnn.status_text(status) : "the call could not be described", status, tpi_dnn_last_error());
    return TPI_FAILED;
}

void tpi_dnn_plan_free(void *plan) {
    tpi_dnn_plan *p = plan;
    tpi_dnn_drop(&p->build);
    tpi_delete(p, sizeof *p);
}
