/* Opening oneDNN, making its kernels and calling them. The declarations below are the part of its C interface that is
 * used; constants have the same values in versions 2 and 3, and a descriptor is handed over as a pointer in both, so
 * only making descriptors differs. */
#define _GNU_SOURCE /* dladdr */
#include "ops/conv/onednn.h"
#include "linalg/blas.h"
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The library's interface ---- */

enum { SUCCESS = 0, CPU = 1, DEFAULT_STREAM = 1, USER_SCRATCHPAD = 1, F32 = 3, ANY_LAYOUT = 1, DIRECT = 1 };
enum { FORWARD_TRAINING = 64 };
enum { RUNTIME_SEQUENTIAL = 1, RUNTIME_OPENMP = 2 };
enum {
    ASK_NAME = 8,
    ASK_SRC = 129,
    ASK_DIFF_SRC,
    ASK_WEIGHTS,
    ASK_DIFF_WEIGHTS,
    ASK_DST,
    ASK_DIFF_DST,
    ASK_WORKSPACE,
    ASK_SCRATCHPAD
};
enum { ARG_SRC = 1, ARG_DST = 17, ARG_WEIGHTS = 33, ARG_BIAS = 41, ARG_SCRATCHPAD = 80 };
enum { ARG_DIFF_SRC = 129, ARG_DIFF_DST = 145, ARG_DIFF_WEIGHTS = 161 };
enum { MOST_DIMS = 12, OLD_DESC_BYTES = 696, OLD_CONV_BYTES = 5976 }; /* version 2 hands descriptors over by value */

typedef int64_t dims[MOST_DIMS];
typedef const void *desc; /* of memory */
typedef struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} version;
typedef struct exec_arg {
    int arg;
    void *memory;
} exec_arg;

typedef struct api {
    const version *(*version)(void);
    int (*engine_create)(void **engine, int kind, size_t index);
    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*attr_create)(void **attr);
    int (*attr_set_scratchpad_mode)(void *attr, int mode);
    int (*attr_destroy)(void *attr);
    size_t (*desc_size)(desc d);
    int (*desc_equal)(desc a, desc b);
    int (*memory_create)(void **memory, desc d, void *engine, void *data);
    int (*memory_destroy)(void *memory);
    int (*reorder_create)(void **pd, desc from, void *from_engine, desc to, void *to_engine, const void *attr);
    int (*primitive_create)(void **primitive, const void *pd);
    int (*primitive_destroy)(void *primitive);
    int (*execute)(const void *primitive, void *stream, int n, const exec_arg *args);
    int (*get_pd)(const void *primitive, const void **pd); /* it lives as long as the primitive */
    int (*pd_destroy)(void *pd);
    int (*pd_query)(const void *pd, int what, int index, void *result);
    desc (*pd_desc)(const void *pd, int what, int index);
    /* version 3 */
    int (*desc_strided)(void **d, int n, const int64_t *sizes, int type, const int64_t *strides);
    int (*desc_tagged)(void **d, int n, const int64_t *sizes, int type, int tag);
    int (*desc_destroy)(void *d);
    int (*forward_pd)(void **pd, void *engine, int kind, int algorithm, desc x, desc w, desc bias, desc y,
                      const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after,
                      const void *attr);
    int (*data_pd)(void **pd, void *engine, int algorithm, desc x, desc w, desc y, const int64_t *stride,
                   const int64_t *dilation, const int64_t *before, const int64_t *after, const void *hint,
                   const void *attr);
    int (*weights_pd)(void **pd, void *engine, int algorithm, desc x, desc w, desc bias, desc y, const int64_t *stride,
                      const int64_t *dilation, const int64_t *before, const int64_t *after, const void *hint,
                      const void *attr);
    /* version 2 */
    int (*old_strided)(void *d, int n, const int64_t *sizes, int type, const int64_t *strides);
    int (*old_tagged)(void *d, int n, const int64_t *sizes, int type, int tag);
    int (*old_forward)(void *op, int kind, int algorithm, desc x, desc w, desc bias, desc y, const int64_t *stride,
                       const int64_t *dilation, const int64_t *before, const int64_t *after);
    int (*old_data)(void *op, int algorithm, desc x, desc w, desc y, const int64_t *stride, const int64_t *dilation,
                    const int64_t *before, const int64_t *after);
    int (*old_weights)(void *op, int algorithm, desc x, desc w, desc bias, desc y, const int64_t *stride,
                       const int64_t *dilation, const int64_t *before, const int64_t *after);
    int (*old_pd)(void **pd, const void *op, const void *attr, void *engine, const void *hint);
} api;

static const struct symbol {
    const char *name;
    size_t at;
    int major; /* 0: every version */
} symbols[] = {
    {"dnnl_engine_create", offsetof(api, engine_create), 0},
    {"dnnl_stream_create", offsetof(api, stream_create), 0},
    {"dnnl_stream_destroy", offsetof(api, stream_destroy), 0},
    {"dnnl_primitive_attr_create", offsetof(api, attr_create), 0},
    {"dnnl_primitive_attr_set_scratchpad_mode", offsetof(api, attr_set_scratchpad_mode), 0},
    {"dnnl_primitive_attr_destroy", offsetof(api, attr_destroy), 0},
    {"dnnl_memory_desc_get_size", offsetof(api, desc_size), 0},
    {"dnnl_memory_desc_equal", offsetof(api, desc_equal), 0},
    {"dnnl_memory_create", offsetof(api, memory_create), 0},
    {"dnnl_memory_destroy", offsetof(api, memory_destroy), 0},
    {"dnnl_reorder_primitive_desc_create", offsetof(api, reorder_create), 0},
    {"dnnl_primitive_create", offsetof(api, primitive_create), 0},
    {"dnnl_primitive_destroy", offsetof(api, primitive_destroy), 0},
    {"dnnl_primitive_execute", offsetof(api, execute), 0},
    {"dnnl_primitive_get_primitive_desc", offsetof(api, get_pd), 0},
    {"dnnl_primitive_desc_destroy", offsetof(api, pd_destroy), 0},
    {"dnnl_primitive_desc_query", offsetof(api, pd_query), 0},
    {"dnnl_primitive_desc_query_md", offsetof(api, pd_desc), 0},
    {"dnnl_memory_desc_create_with_strides", offsetof(api, desc_strided), 3},
    {"dnnl_memory_desc_create_with_tag", offsetof(api, desc_tagged), 3},
    {"dnnl_memory_desc_destroy", offsetof(api, desc_destroy), 3},
    {"dnnl_convolution_forward_primitive_desc_create", offsetof(api, forward_pd), 3},
    {"dnnl_convolution_backward_data_primitive_desc_create", offsetof(api, data_pd), 3},
    {"dnnl_convolution_backward_weights_primitive_desc_create", offsetof(api, weights_pd), 3},
    {"dnnl_memory_desc_init_by_strides", offsetof(api, old_strided), 2},
    {"dnnl_memory_desc_init_by_tag", offsetof(api, old_tagged), 2},
    {"dnnl_dilated_convolution_forward_desc_init", offsetof(api, old_forward), 2},
    {"dnnl_dilated_convolution_backward_data_desc_init", offsetof(api, old_data), 2},
    {"dnnl_dilated_convolution_backward_weights_desc_init", offsetof(api, old_weights), 2},
    {"dnnl_primitive_desc_create", offsetof(api, old_pd), 2},
};

/* ---- Opening ---- */

static struct {
    api call;
    void *engine, *attr;
    char version[32];
    const char *file;
} lib;
static bool found;         /* written once, by open_library */
static atomic_bool closed; /* by a test */
static pthread_once_t open_once = PTHREAD_ONCE_INIT;

/* Is the number of threads that our OpenMP hands out the one that the library asks for? Not so when it brought a
 * runtime of its own. */
static bool shares_threads(void *handle) {
    int (*theirs)(void) = NULL;
    *(void **)&theirs = dlsym(handle, "omp_get_max_threads");
    if (!theirs) return false;
    int before = omp_get_max_threads();
    omp_set_num_threads(3);
    bool shared = theirs() == 3;
    omp_set_num_threads(1);
    shared = shared && theirs() == 1;
    omp_set_num_threads(before);
    return shared;
}

static bool find_symbols(void *handle, int major) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if (symbols[i].major && symbols[i].major != major) continue;
        void *address = dlsym(handle, symbols[i].name);
        if (!address) return false;
        memcpy((char *)&lib.call + symbols[i].at, &address, sizeof address);
    }
    return true;
}

static bool accept_library(void *handle) {
    *(void **)&lib.call.version = dlsym(handle, "dnnl_version");
    if (!lib.call.version) return false;
    const version *v = lib.call.version();
    if (v->major != 2 && v->major != 3) return false;
    if (v->cpu_runtime != RUNTIME_SEQUENTIAL && !(v->cpu_runtime == RUNTIME_OPENMP && shares_threads(handle)))
        return false;
    if (!find_symbols(handle, v->major)) return false;
    if (lib.call.engine_create(&lib.engine, CPU, 0) != SUCCESS || lib.call.attr_create(&lib.attr) != SUCCESS ||
        lib.call.attr_set_scratchpad_mode(lib.attr, USER_SCRATCHPAD) != SUCCESS)
        return false;
    snprintf(lib.version, sizeof lib.version, "%d.%d.%d", v->major, v->minor, v->patch);
    Dl_info where;
    if (dladdr(*(void **)&lib.call.version, &where)) lib.file = where.dli_fname;
    return true;
}

static void open_library(void) {
    const char *wish = getenv("TAPER_ONEDNN");
    const char *const names[] = {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2",
                                 "libdnnl.so"}; /* 3.6: Debian 13's name for 3.7 */
    bool named = wish && *wish && strcmp(wish, "1") != 0;
    if (wish && strcmp(wish, "0") == 0) return;
    for (size_t i = 0; i < (named ? 1 : sizeof names / sizeof *names) && !found; i++) {
        void *handle = dlopen(named ? wish : names[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle) continue;
        found =
            accept_library(handle); /* one that is refused stays mapped: closing a C++ library is a risk for nothing */
    }
}

static bool ready(void) {
    pthread_once(&open_once, open_library);
    return found && !atomic_load_explicit(&closed, memory_order_relaxed);
}

bool tpi_onednn_found(const char **version, const char **file) {
    if (!ready()) return false;
    *version = lib.version;
    *file = lib.file;
    return true;
}

bool tpi_onednn_enable(bool on) { return !atomic_exchange(&closed, !on); }

/* ---- Descriptors ---- */

struct tpi_onednn_plan {
    tpi_onednn_piece piece;
    uint64_t used; /* the table's clock when it last served */
    int64_t users;
    bool filled;
    void *conv; /* NULL: the library has nothing good for this piece */
    void *move_x, *move_y,
        *move_w; /* between the stored layout and the kernel's; NULL: they are one. w: also for reading */
    desc stored_x, stored_y, stored_w, x, y, w, bias, scratch; /* inside of the primitives */
};

/* A descriptor being made: version 3's lives in the library, version 2's here. */
typedef struct making {
    void *v3;
    _Alignas(16) char v2[OLD_DESC_BYTES];
} making;

static desc made(const making *m) { return m->v3 ? m->v3 : (desc)m->v2; }

static bool describe(making *m, int n, const int64_t *sizes,
                     const int64_t *strides) { /* no strides: as the kernel likes it */
    m->v3 = NULL;
    const api *l = &lib.call;
    if (l->desc_strided)
        return (strides ? l->desc_strided(&m->v3, n, sizes, F32, strides)
                        : l->desc_tagged(&m->v3, n, sizes, F32, ANY_LAYOUT)) == SUCCESS;
    return (strides ? l->old_strided(m->v2, n, sizes, F32, strides)
                    : l->old_tagged(m->v2, n, sizes, F32, ANY_LAYOUT)) == SUCCESS;
}

static void forget(making *m, int n) {
    for (int i = 0; i < n; i++)
        if (m[i].v3) lib.call.desc_destroy(m[i].v3);
}

typedef struct request { /* a piece in the library's terms */
    dims x, y, w, x_strides, y_strides, w_strides, bias;
    dims stride, dilation, before, after;
    int n, w_n;
} request;

static void image_strides(const tpi_onednn_piece *p, const int64_t *sizes, int64_t channels, int64_t *strides) {
    int n = (int)p->spatial + 2;
    int64_t step = p->last ? channels : 1;
    for (int i = n - 1; i >= 2; i--) {
        strides[i] = step;
        step *= sizes[i];
    }
    strides[1] = p->last ? 1 : step;
    strides[0] = p->last ? step : step * channels;
}

static request request_for(const tpi_onednn_piece *p) {
    const tpi_conv *c = &p->c;
    request r = {.n = (int)p->spatial + 2, .w_n = (int)p->spatial + 2 + (c->groups > 1)};
    r.x[0] = r.y[0] = c->batch;
    r.x[1] = c->groups * c->cx;
    r.y[1] = c->groups * c->cy;
    int grouped = c->groups > 1, at = 3 - (int)p->spatial;
    r.w[0] = c->groups;
    r.w[grouped] = c->cy;
    r.w[grouped + 1] = c->cx;
    for (int i = 0; i < p->spatial; i++) {
        int d = at + i;
        r.x[2 + i] = c->x[d];
        r.y[2 + i] = c->y[d];
        r.w[grouped + 2 + i] = c->k[d];
        r.stride[i] = c->stride[d];
        r.dilation[i] = c->dilation[d] - 1;
        r.before[i] = c->pad[d];
        /* What the last window reaches past the end; less than 0 when it leaves some of x out. */
        r.after[i] = (c->y[d] - 1) * c->stride[d] + c->dilation[d] * (c->k[d] - 1) + 1 - c->x[d] - c->pad[d];
    }
    image_strides(p, r.x, p->x_channels, r.x_strides);
    image_strides(p, r.y, p->y_channels, r.y_strides);
    int64_t step = 1;
    for (int i = r.w_n - 1; i >= 0; i--) {
        r.w_strides[i] = step;
        step *= i == grouped + 1 ? p->w_channels : r.w[i];
    }
    r.bias[0] = r.y[1];
    return r;
}

/* d: x, w, y and bias. Every backward kernel wants the forward one as a hint. */
static void *make_pd3(const tpi_onednn_piece *p, const request *r, const making *d) {
    const api *l = &lib.call;
    const int64_t *s = r->stride, *g = r->dilation, *b = r->before, *a = r->after;
    desc x = made(&d[0]), w = made(&d[1]), y = made(&d[2]), bias = p->bias ? made(&d[3]) : NULL;
    void *forward = NULL, *pd = NULL;
    if (l->forward_pd(&forward, lib.engine, FORWARD_TRAINING, DIRECT, x, w, bias, y, s, g, b, a, lib.attr) != SUCCESS)
        return NULL;
    if (p->role == TPI_CONV_Y) return forward;
    int status = p->role == TPI_CONV_X
                     ? l->data_pd(&pd, lib.engine, DIRECT, x, w, y, s, g, b, a, forward, lib.attr)
                     : l->weights_pd(&pd, lib.engine, DIRECT, x, w, NULL, y, s, g, b, a, forward, lib.attr);
    l->pd_destroy(forward);
    return status == SUCCESS ? pd : NULL;
}

static void *make_pd2(const tpi_onednn_piece *p, const request *r, const making *d) {
    const api *l = &lib.call;
    const int64_t *s = r->stride, *g = r->dilation, *b = r->before, *a = r->after;
    desc x = made(&d[0]), w = made(&d[1]), y = made(&d[2]), bias = p->bias ? made(&d[3]) : NULL;
    _Alignas(16) char op[OLD_CONV_BYTES];
    void *forward = NULL, *pd = NULL;
    if (l->old_forward(op, FORWARD_TRAINING, DIRECT, x, w, bias, y, s, g, b, a) != SUCCESS) return NULL;
    if (l->old_pd(&forward, op, lib.attr, lib.engine, NULL) != SUCCESS) return NULL;
    if (p->role == TPI_CONV_Y) return forward;
    int status = p->role == TPI_CONV_X ? l->old_data(op, DIRECT, x, w, y, s, g, b, a)
                                       : l->old_weights(op, DIRECT, x, w, NULL, y, s, g, b, a);
    if (status == SUCCESS) status = l->old_pd(&pd, op, lib.attr, lib.engine, forward);
    l->pd_destroy(forward);
    return status == SUCCESS ? pd : NULL;
}

/* ---- Plans ---- */

/* A primitive of the description, which is used up. */
static void *make_primitive(void *pd) {
    void *primitive = NULL;
    if (lib.call.primitive_create(&primitive, pd) != SUCCESS) primitive = NULL;
    lib.call.pd_destroy(pd);
    return primitive;
}

static const void *pd_of(const void *primitive) {
    const void *pd = NULL;
    return lib.call.get_pd(primitive, &pd) == SUCCESS ? pd : NULL;
}

static bool good_kernel(const void *pd) {
    const char *name = NULL;
    if (lib.call.pd_query(pd, ASK_NAME, 0, &name) != SUCCESS || !name) return false;
    return !strstr(name, "gemm") && !strstr(name, "ref");
}

/* The move between the stored layout and the kernel's, in the direction asked for; both are then known by descriptors
 * that last. */
static bool make_move(desc stored, desc kernel, bool in, void **move, desc *kept) {
    void *pd = NULL;
    *kept = kernel;
    if (lib.call.desc_equal(stored, kernel)) return true;
    if (lib.call.reorder_create(&pd, in ? stored : kernel, lib.engine, in ? kernel : stored, lib.engine, NULL) !=
        SUCCESS)
        return false;
    *move = make_primitive(pd);
    if (!*move) return false;
    *kept = lib.call.pd_desc(pd_of(*move), in ? ASK_SRC : ASK_DST, 0);
    return *kept;
}

static void empty_plan(tpi_onednn_plan *p) {
    void *primitives[] = {p->conv, p->move_x, p->move_y, p->move_w};
    for (int i = 0; i < 4; i++)
        if (primitives[i]) lib.call.primitive_destroy(primitives[i]);
    p->conv = p->move_x = p->move_y = p->move_w = NULL;
}

static bool make_moves(tpi_onednn_plan *p, const making *stored) {
    const void *pd = pd_of(p->conv);
    int64_t role = p->piece.role;
    p->x = lib.call.pd_desc(pd, role == TPI_CONV_X ? ASK_DIFF_SRC : ASK_SRC, 0);
    p->y = lib.call.pd_desc(pd, role == TPI_CONV_Y ? ASK_DST : ASK_DIFF_DST, 0);
    p->w = lib.call.pd_desc(pd, role == TPI_CONV_W ? ASK_DIFF_WEIGHTS : ASK_WEIGHTS, 0);
    p->bias = p->piece.bias ? lib.call.pd_desc(pd, ASK_WEIGHTS, 1) : NULL;
    p->scratch = lib.call.pd_desc(pd, ASK_SCRATCHPAD, 0);
    return p->x && p->y && p->w && make_move(made(&stored[0]), p->x, role != TPI_CONV_X, &p->move_x, &p->stored_x) &&
           make_move(made(&stored[1]), p->w, role != TPI_CONV_W, &p->move_w, &p->stored_w) &&
           make_move(made(&stored[2]), p->y, role != TPI_CONV_Y, &p->move_y, &p->stored_y);
}

/* Fills p for its piece; without a good kernel p->conv stays NULL. */
static void fill_plan(tpi_onednn_plan *p) {
    request r = request_for(&p->piece);
    making stored[3] = {{0}}, wanted[4] = {{0}};
    bool own = !p->piece.as_stored;
    bool ok = describe(&stored[0], r.n, r.x, r.x_strides) && describe(&stored[1], r.w_n, r.w, r.w_strides) &&
              describe(&stored[2], r.n, r.y, r.y_strides) && describe(&wanted[0], r.n, r.x, own ? NULL : r.x_strides) &&
              describe(&wanted[1], r.w_n, r.w, NULL) && describe(&wanted[2], r.n, r.y, own ? NULL : r.y_strides) &&
              describe(&wanted[3], 1, r.bias, NULL);
    void *pd = !ok ? NULL : lib.call.forward_pd ? make_pd3(&p->piece, &r, wanted) : make_pd2(&p->piece, &r, wanted);
    if (pd && !good_kernel(pd)) {
        lib.call.pd_destroy(pd);
        pd = NULL;
    }
    if (pd) p->conv = make_primitive(pd);
    if (p->conv && !make_moves(p, stored)) empty_plan(p);
    forget(stored, 3);
    forget(wanted, 4);
}

enum { PLANS = 256 }; /* ResNet-50 has some sixty pieces, forward and backward */
static tpi_onednn_plan plans[PLANS];
static uint64_t plan_hash[PLANS]; /* apart, so that looking for one reads little memory */
static uint64_t plan_clock;
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const tpi_onednn_piece *piece) {
    uint64_t h = 14695981039346656037u, words[sizeof *piece / 8];
    memcpy(words, piece, sizeof words);
    for (size_t i = 0; i < sizeof words / 8; i++) {
        h = (h ^ words[i]) * 1099511628211u;
        h ^= h >> 29;
    }
    return h;
}

/* The piece's plan or, to be filled, the one that has been idle the longest; NULL when every plan is in use. */
static tpi_onednn_plan *look_up(const tpi_onednn_piece *piece) {
    uint64_t hash = hash_of(piece);
    for (int i = 0; i < PLANS; i++)
        if (plan_hash[i] == hash && plans[i].filled && !memcmp(&plans[i].piece, piece, sizeof *piece)) return &plans[i];
    tpi_onednn_plan *idle = NULL;
    for (tpi_onednn_plan *p = plans; p < plans + PLANS; p++)
        if (p->users == 0 && (!idle || p->used < idle->used)) idle = p;
    if (!idle) return NULL;
    empty_plan(idle);
    idle->piece = *piece;
    idle->filled = false;
    plan_hash[idle - plans] = hash;
    return idle;
}

/* Kernels are made under the lock: once each, and rarely. They are made for one thread, or their sums would be split by
 * threads. */
tpi_onednn_plan *tpi_onednn_plan_for(const tpi_onednn_piece *piece) {
    if (!ready()) return NULL;
    pthread_mutex_lock(&plan_lock);
    tpi_onednn_plan *p = look_up(piece);
    if (p && !p->filled) {
        int before = tpi_blas_quiet();
        fill_plan(p);
        tpi_blas_restore(before);
        p->filled = true;
    }
    if (p) p->used = ++plan_clock;
    if (p && p->conv)
        p->users++;
    else
        p = NULL;
    pthread_mutex_unlock(&plan_lock);
    return p;
}

void tpi_onednn_plan_done(tpi_onednn_plan *plan) {
    if (!plan) return;
    pthread_mutex_lock(&plan_lock);
    plan->users--;
    pthread_mutex_unlock(&plan_lock);
}

/* ---- Running ---- */

static size_t bytes_of(desc d) { return d ? (lib.call.desc_size(d) + TPI_ALIGN - 1) / TPI_ALIGN * TPI_ALIGN : 0; }

size_t tpi_onednn_packed_bytes(const tpi_onednn_plan *p) { return bytes_of(p->w); }
size_t tpi_onednn_scratch_bytes(const tpi_onednn_plan *p) {
    return (p->move_x ? bytes_of(p->x) : 0) + (p->move_y ? bytes_of(p->y) : 0) + bytes_of(p->scratch);
}

/* The stream and the memory objects of one run; `bad` once something failed. */
typedef struct running {
    void *stream, *memory[8];
    int n, before;
    bool bad;
} running;

static running start_running(void) {
    running r = {.before = tpi_blas_quiet()};
    r.bad = lib.call.stream_create(&r.stream, lib.engine, DEFAULT_STREAM) != SUCCESS;
    return r;
}

static bool stop_running(running *r) {
    for (int i = 0; i < r->n; i++) lib.call.memory_destroy(r->memory[i]);
    if (r->stream) lib.call.stream_destroy(r->stream);
    tpi_blas_restore(r->before);
    return !r->bad;
}

static void *memory_at(running *r, desc d, const void *data) {
    void *memory = NULL;
    if (r->bad || lib.call.memory_create(&memory, d, lib.engine, (void *)data) != SUCCESS) {
        r->bad = true;
        return NULL;
    }
    return r->memory[r->n++] = memory;
}

static void execute(running *r, const void *primitive, int n, const exec_arg *args) {
    if (!r->bad) r->bad = lib.call.execute(primitive, r->stream, n, args) != SUCCESS;
}

static void move(running *r, const void *primitive, void *from, void *to) {
    execute(r, primitive, 2, (exec_arg[]){{ARG_SRC, from}, {ARG_DST, to}});
}

static bool move_weights(const tpi_onednn_plan *p, const float *from, desc from_desc, float *to, desc to_desc) {
    if (!p->move_w) {
        memcpy(to, from, lib.call.desc_size(p->w));
        return true;
    }
    running r = start_running();
    void *a = memory_at(&r, from_desc, from), *b = memory_at(&r, to_desc, to);
    move(&r, p->move_w, a, b);
    return stop_running(&r);
}

bool tpi_onednn_pack(const tpi_onednn_plan *p, const float *w, float *packed) {
    return move_weights(p, w, p->stored_w, packed, p->w);
}
bool tpi_onednn_unpack(const tpi_onednn_plan *p, const float *packed, float *w) {
    return move_weights(p, packed, p->w, w, p->stored_w);
}

bool tpi_onednn_run(const tpi_onednn_plan *p, const float *x, const float *packed, const float *bias, const float *y,
                    void *memory) {
    int64_t role = p->piece.role;
    char *at = memory, *x_scratch = at, *y_scratch = x_scratch + (p->move_x ? bytes_of(p->x) : 0),
         *scratch = y_scratch + (p->move_y ? bytes_of(p->y) : 0);
    running r = start_running();
    void *outer_x = memory_at(&r, p->stored_x, x), *outer_y = memory_at(&r, p->stored_y, y);
    void *mx = p->move_x ? memory_at(&r, p->x, x_scratch) : outer_x,
         *my = p->move_y ? memory_at(&r, p->y, y_scratch) : outer_y;
    exec_arg args[5] = {{role == TPI_CONV_X ? ARG_DIFF_SRC : ARG_SRC, mx},
                        {role == TPI_CONV_Y ? ARG_DST : ARG_DIFF_DST, my},
                        {role == TPI_CONV_W ? ARG_DIFF_WEIGHTS : ARG_WEIGHTS, memory_at(&r, p->w, packed)}};
    int n = 3;
    if (bytes_of(p->scratch)) args[n++] = (exec_arg){ARG_SCRATCHPAD, memory_at(&r, p->scratch, scratch)};
    if (p->bias) args[n++] = (exec_arg){ARG_BIAS, memory_at(&r, p->bias, bias)};
    if (p->move_x && role != TPI_CONV_X) move(&r, p->move_x, outer_x, mx);
    if (p->move_y && role != TPI_CONV_Y) move(&r, p->move_y, outer_y, my);
    execute(&r, p->conv, n, args);
    if (p->move_x && role == TPI_CONV_X) move(&r, p->move_x, mx, outer_x);
    if (p->move_y && role == TPI_CONV_Y) move(&r, p->move_y, my, outer_y);
    return stop_running(&r);
}
