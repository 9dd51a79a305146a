/* A step of an optimiser on GPUs: all parameters of a device that look alike (dtypes, flags, options) go in one launch,
 * or in as few as a kernel's arguments have room for. Nothing is written before everything that can fail has been done,
 * but for the launches themselves. */
#include "optim/update.h"
#include "ops/native_gpu.h"
#include "tensor/same_device.h"
#include <string.h>

enum { MAX_ARGS = 6, MAX_PARAMS = 64, CHUNK = 4096, TABLE_BYTES = 3584, MAX_OPTIONS = 32 };

typedef struct item {         /* one parameter */
    tp_tensor *arg[MAX_ARGS]; /* NULL where state is not kept; owned */
    tp_tensor
        *whole[MAX_ARGS]; /* what a stand-in (not lying like the parameter) is written back to; borrowed, or NULL */
    double scalar[TPI_MAX_SCALARS];
    bool first, done;
    int64_t numel;
} item;

typedef struct launch_kind { /* what the parameters of one launch share */
    tp_device device;
    const tpi_update_ops *ops;
    const double *option;
    unsigned flags;
    bool wide;
    int nargs, noptions, nscalars, kept;
    uint8_t dtype[MAX_ARGS];
} launch_kind;

/* ---- Parameters ---- */
static tp_dtype real_dtype(tp_dtype d) { return tpi_dtype_to_real(d); }

/* Do both lie in memory in the same order, without holes? */
static bool lies_like(const tp_tensor *t, const tp_tensor *p) {
    if (!tpi_is_dense(p)) return false;
    for (int d = 0; d < p->ndim; d++)
        if (p->shape[d] > 1 && t->strides[d] != p->strides[d]) return false;
    return true;
}

/* A parameter with holes, and what does not lie as it does, is worked on in a copy. */
static bool set_argument(item *it, int k, tp_tensor *t, const tp_tensor *p) {
    if (!t) return true;
    if (lies_like(t, p)) return (it->arg[k] = tpi_retain(t)) != NULL;
    tp_tensor *copy = tpi_is_dense(p)
                          ? tpi_empty_strided(tpi_shape(p), tpi_strides(p), (tp_dtype)t->dtype, tpi_device(t))
                          : tpi_empty(tpi_shape(p), (tp_dtype)t->dtype, tpi_device(t));
    it->arg[k] = copy;
    it->whole[k] = k == 1 ? NULL : t;
    return copy && tpi_copy_data(copy, t);
}

static bool prepare(item *it, const tp_optimiser_kind *kind, const tpi_update_entry *e, tpi_scalars *s) {
    const tpi_update_ops *ops = kind->ops;
    const unsigned flags = ops->flags(e->option);
    memset(it, 0, sizeof *it);
    it->first = e->first;
    it->numel = e->param->numel * (tp_dtype_is_complex((tp_dtype)e->param->dtype) ? 2 : 1);
    bool ok = set_argument(it, 0, e->param, e->param) && set_argument(it, 1, e->grad, e->param);
    int nargs = 2;
    for (int64_t k = 0; k < kind->nstates && ok; k++)
        if (ops->slots[k].shape != TPI_STATE_SCALAR)
            ok = set_argument(it, nargs++, tpi_update_needs(&ops->slots[k], flags, e->param) ? e->state[k] : NULL,
                              e->param);
    tpi_update_scalars(kind, e, s);
    memcpy(it->scalar, s->out, (size_t)ops->nscalars * sizeof *s->out);
    return ok;
}

static bool finish(item *it) {
    bool ok = true;
    for (int k = 0; k < MAX_ARGS; k++)
        if (it->whole[k]) ok = tpi_copy_data(it->whole[k], it->arg[k]) && ok;
    return ok;
}

static void drop(item *it) {
    for (int k = 0; k < MAX_ARGS; k++) tpi_release(it->arg[k]);
}

/* ---- Kernels ---- */
static void describe(launch_kind *l, const tp_optimiser_kind *kind, const tpi_update_entry *e, const item *it) {
    memset(l, 0, sizeof *l);
    l->device = tpi_device(e->param);
    l->ops = kind->ops;
    l->option = e->option;
    l->flags = kind->ops->flags(e->option);
    l->noptions = (int)kind->nvalues;
    l->nscalars = kind->ops->nscalars > 0 ? kind->ops->nscalars : 1;
    l->nargs = 2;
    for (int64_t k = 0; k < kind->nstates; k++) l->nargs += kind->ops->slots[k].shape != TPI_STATE_SCALAR;
    for (int k = 0; k < l->nargs; k++) {
        l->dtype[k] = (uint8_t)real_dtype((tp_dtype)(it->arg[k] ? it->arg[k]->dtype : it->arg[0]->dtype));
        l->kept |= (it->arg[k] != NULL) << k;
        l->wide = l->wide || l->dtype[k] == TP_FLOAT64;
    }
}

static bool alike(const launch_kind *a, const launch_kind *b) {
    return tpi_same_device(a->device, b->device) && a->option == b->option && a->kept == b->kept &&
           !memcmp(a->dtype, b->dtype, sizeof a->dtype);
}

typedef struct source {
    const launch_kind *l;
    bool many;
    int params;
} source;

static bool make(tpi_text *t, const void *context) {
    const source *s = context;
    const launch_kind *l = s->l;
    bool ok = tpi_gpu_put_entry(t, "update", s->many ? "many" : "one");
    ok =
        ok && tpi_text_put(t,
                           "#define KERNEL_%s 1\n#define A %s\n#define NARGS %d\n#define NOPTIONS %d\n#define NSCALARS "
                           "%d\n#define KEPT %d\n#define PARAMS %d\n#define CHUNK %d\n",
                           s->many ? "many" : "one", l->wide ? "double" : "float", l->nargs, l->noptions, l->nscalars,
                           l->kept, s->params, CHUNK);
    for (int k = 0; ok && k < l->nargs; k++) {
        const char *type = tp_dtype_name((tp_dtype)l->dtype[k]);
        ok = tpi_text_put(t, "#define T_A%d s_%s\n#define GET_A%d get_%s\n#define SET_A%d set_%s\n", k, type, k, type,
                          k, type);
    }
    return ok && tpi_text_put(t, "%s#include \"update_gpu_kernel.h\"\n", l->ops->text[2 * l->flags + l->wide]);
}

static tpi_gpu_function *kernel_of(const launch_kind *l, bool many, int params) {
    uint64_t form = (uint64_t)l->flags << 1 | l->wide;
    form = form << 8 | (uint64_t)l->kept;
    for (int k = 0; k < l->nargs; k++) form = form << 4 | l->dtype[k];
    form = (form << 8 | (uint64_t)params) << 1 | many;
    return tpi_gpu_kernel(l->device, l->ops, form, make, &(source){l, many, params});
}

/* The options in the compute type; returns the bytes. */
static uint32_t put_numbers(bool wide, int n, const double *from, void *to) {
    for (int i = 0; i < n; i++) {
        if (wide)
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
    }
    return (uint32_t)n * (wide ? 8 : 4);
}

/* ---- Many parameters in one launch ---- */
static int parameters_that_fit(const launch_kind *l) { /* parameters in a table */
    int each = l->nargs * 8 + 8 + l->nscalars * (l->wide ? 8 : 4) + 4 + 1;
    int n = TABLE_BYTES / each;
    return n > MAX_PARAMS ? MAX_PARAMS : n;
}

static bool launch_many(const launch_kind *l, int n, item *const *items) {
    const int params = parameters_that_fit(l), real = l->wide ? 8 : 4;
    _Alignas(8) char table[TABLE_BYTES + 512], options[MAX_OPTIONS * 8];
    char *at = table;
    memset(table, 0, sizeof table);
    for (int i = 0; i < params; i++)
        for (int k = 0; k < l->nargs; k++, at += 8) {
            void *address = i < n && items[i]->arg[k] ? items[i]->arg[k]->data : NULL;
            memcpy(at, &address, 8);
        }
    for (int i = 0; i < params; i++, at += 8) memcpy(at, &(int64_t){i < n ? items[i]->numel : 0}, 8);
    for (int i = 0; i < params; i++, at += l->nscalars * real)
        if (i < n) put_numbers(l->wide, l->nscalars, items[i]->scalar, at);
    uint32_t blocks = 0;
    for (int i = 0; i < params; i++, at += 4) {
        memcpy(at, &blocks, 4);
        if (i < n) blocks += (uint32_t)tpi_ceil_div(items[i]->numel, CHUNK);
    }
    for (int i = 0; i < params; i++) *at++ = i < n && items[i]->first;
    size_t bytes = ((size_t)(at - table) + 7) / 8 * 8;
    tpi_gpu_function *kernel = kernel_of(l, true, params);
    const tpi_gpu_arg args[] = {{TPI_GPU_VALUE, (uint32_t)bytes, table},
                                {TPI_GPU_VALUE, put_numbers(l->wide, l->noptions, l->option, options), options},
                                TPI_GPU_VAL(n)};
    return kernel && (!blocks || tpi_gpu_launch(l->device, kernel, blocks, 256, 0, 3, args));
}

static bool launch_one(const launch_kind *l, const item *it) {
    tpi_gpu_function *kernel = kernel_of(l, false, 1);
    if (!kernel) return false;
    _Alignas(8) char options[MAX_OPTIONS * 8], scalars[TPI_MAX_SCALARS * 8];
    tpi_gpu_arg args[MAX_ARGS + 4];
    int nargs = 0, first = it->first;
    for (int k = 0; k < l->nargs; k++) args[nargs++] = TPI_GPU_PTR(it->arg[k] ? it->arg[k]->data : it->arg[0]->data);
    args[nargs++] = (tpi_gpu_arg){TPI_GPU_VALUE, put_numbers(l->wide, l->noptions, l->option, options), options};
    args[nargs++] = (tpi_gpu_arg){TPI_GPU_VALUE, put_numbers(l->wide, l->nscalars, it->scalar, scalars), scalars};
    args[nargs++] = TPI_GPU_VAL(it->numel);
    args[nargs++] = TPI_GPU_VAL(first);
    int64_t blocks = tpi_ceil_div(it->numel, 1024);
    return !it->numel || tpi_gpu_launch(l->device, kernel, blocks, 256, 0, nargs, args);
}

/* From item i on, all that are alike and not done yet. */
static bool launch_group(const tp_optimiser_kind *kind, const tpi_update_entry *entries, item *items, int64_t n,
                         int64_t i) {
    launch_kind l, other;
    describe(&l, kind, &entries[i], &items[i]);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)l.device.type);
    if (!driver) return false;
    bool together = strcmp(driver->dialect, "opencl");
    item *some[MAX_PARAMS];
    int count = 0, capacity = together ? parameters_that_fit(&l) : 1;
    for (int64_t k = i; k < n; k++) {
        if (items[k].done) continue;
        describe(&other, kind, &entries[k], &items[k]);
        if (!alike(&l, &other)) continue;
        items[k].done = true;
        some[count++] = &items[k];
        if (count < capacity) continue;
        if (!(together ? launch_many(&l, count, some) : launch_one(&l, some[0]))) return false;
        count = 0;
    }
    return !count || launch_many(&l, count, some);
}

bool tpi_update_gpu(const tp_optimiser_kind *kind, int64_t n, const tpi_update_entry *entries) {
    if (kind->nvalues > MAX_OPTIONS)
        return tpi_refuse(TP_ERR_MISSING, "%s has more options than a kernel takes", kind->name);
    size_t bytes = (size_t)n * sizeof(item);
    item *items = tpi_alloc(bytes);
    if (!items) return false;
    int64_t ready = 0;
    bool ok = true;
    tpi_scalars s = {.option = NULL};
    for (; ready < n && ok; ready++) ok = prepare(&items[ready], kind, &entries[ready], &s);
    for (int64_t i = 0; i < n && ok; i++)
        if (!items[i].done) ok = launch_group(kind, entries, items, n, i);
    for (int64_t i = 0; i < n && ok; i++) ok = finish(&items[i]);
    for (int64_t i = 0; i < ready; i++) drop(&items[i]);
    tpi_free(items, bytes);
    return ok;
}
