/* Graphs in files: {"format", "note", "values", "steps", "inputs", "outputs"}, as plain values and tensors in PyTorch's
 * format. A value is a list of numbers (kind, dtype, of, offset, wrapped), its shape, its strides and, where it has
 * one, its tensor. A step names its operator. Programs are written as the maps they are made of, and made anew when the
 * file is read. What may change with the inputs' sizes is in "sizes" (io/graph/sizes.c).
 *
 * What is read is checked before it becomes a graph: numbers of values, operators and what they take, that views lie
 * within what they look at. */
#include <string.h>
#include "tensor/same_device.h"
#include "base/memory.h"
#include "io/graph/file.h"
#include "ops/kernels.h"
#include "tpi_ops.h"

#define FORMAT "taper.graph 1"

static const char *const step_names[] = {"map", "fold", "scan", "copy", "fill", "call"};

static const void *kernel_named(tpi_step_kind kind, const char *name) {
    for (int i = 0; kind == TPI_STEP_MAP && tpi_maps[i]; i++)
        if (!strcmp(tpi_maps[i]->name, name)) return tpi_maps[i];
    for (int i = 0; kind == TPI_STEP_FOLD && tpi_folds[i]; i++)
        if (!strcmp(tpi_folds[i]->name, name)) return tpi_folds[i];
    for (int i = 0; kind == TPI_STEP_SCAN && tpi_scans[i]; i++)
        if (!strcmp(tpi_scans[i]->name, name)) return tpi_scans[i];
    return kind == TPI_STEP_CALL ? tp_find_operator(name) : NULL;
}

static const char *name_of(const tpi_graph_step *s) {
    switch (s->kind) {
    case TPI_STEP_MAP: return ((const tpi_map_op *)s->op)->name;
    case TPI_STEP_FOLD: return ((const tpi_fold_op *)s->op)->name;
    case TPI_STEP_SCAN: return ((const tpi_scan_op *)s->op)->name;
    case TPI_STEP_CALL: return ((const tp_operator *)s->op)->name;
    default: return "";
    }
}

static int count_params(const tpi_graph_step *s) {
    if (s->kind == TPI_STEP_MAP) return ((const tpi_map_op *)s->op)->nparam;
    if (s->kind == TPI_STEP_FOLD) return ((const tpi_fold_op *)s->op)->nparam;
    return s->kind == TPI_STEP_SCAN ? ((const tpi_scan_op *)s->op)->nparam : 0;
}

/* ---- Writing ---- */

static void put_ints(tp_file *f, tp_saved *into, const char *key, const int64_t *v, int64_t n) {
    tp_saved *list = tp_put_list(f, into, key);
    for (int64_t i = 0; list && i < n; i++) tp_put_number(f, list, NULL, tp_int(v[i]));
}

static void put_ids(tp_file *f, tp_saved *into, const char *key, const int32_t *v, int64_t n) {
    tp_saved *list = tp_put_list(f, into, key);
    for (int64_t i = 0; list && i < n; i++) tp_put_number(f, list, NULL, tp_int(v[i]));
}

static void put_scalar(tp_file *f, tp_saved *into, const char *key, tp_scalar s) {
    if (s.kind == TP_SCALAR_NONE)
        tp_put_none(f, into, key);
    else
        tp_put_number(f, into, key, s);
}

static void put_scalars(tp_file *f, tp_saved *into, const char *key, const tp_scalar *v, int64_t n) {
    tp_saved *list = tp_put_list(f, into, key);
    for (int64_t i = 0; list && i < n; i++) put_scalar(f, list, NULL, v[i]);
}

static void put_value(tp_file *f, tp_saved *values, const tpi_graph_value *v) {
    tp_saved *list = tp_put_list(f, values, NULL);
    if (!list) return;
    const int64_t facts[] = {v->kind, v->dtype, v->of, v->offset, v->wrapped};
    put_ints(f, list, NULL, facts, 5);
    put_ints(f, list, NULL, v->dims, v->ndim);
    put_ints(f, list, NULL, v->dims + v->ndim, v->ndim);
    if (v->kind == TPI_VALUE_OUTSIDE || v->kind == TPI_VALUE_CONSTANT) tp_put_tensor(f, list, NULL, v->tensor);
}

/* One argument of a call: [kind, what it holds]. */
static void put_argument(tp_file *f, tp_saved *args, const tp_value *v) {
    tp_saved *list = tp_put_list(f, args, NULL);
    if (!list) return;
    tp_put_number(f, list, NULL, tp_int(v->kind));
    switch (v->kind) {
    case TP_K_TENSORS: tp_put_number(f, list, NULL, tp_int(v->as.tensors.n)); break;
    case TP_K_SCALAR: put_scalar(f, list, NULL, v->as.scalar); break;
    case TP_K_INTS: put_ints(f, list, NULL, v->as.ints.v, v->as.ints.n); break;
    case TP_K_STRING: tp_put_text(f, list, NULL, v->as.string); break;
    case TP_K_DTYPE: tp_put_number(f, list, NULL, tp_int(v->as.dtype)); break;
    case TP_K_LAYOUT: tp_put_number(f, list, NULL, tp_int(v->as.layout)); break;
    case TP_K_DEVICE: put_ints(f, list, NULL, (const int64_t[]){v->as.device.type, v->as.device.index}, 2); break;
    case TP_K_SCALARS: put_scalars(f, list, NULL, v->as.scalars.v, v->as.scalars.n); break;
    case TP_K_FLOATS: {
        tp_saved *floats = tp_put_list(f, list, NULL);
        for (int64_t i = 0; floats && i < v->as.floats.n; i++)
            tp_put_number(f, floats, NULL, tp_float(v->as.floats.v[i]));
        break;
    }
    default: break;
    }
}

static bool put_step(tp_file *f, tp_saved *steps, const tpi_graph_step *s) {
    if (s->kind == TPI_STEP_PROGRAM) {
        for (int i = 0; i < s->program->nsteps; i++)
            if (!put_step(f, steps, &s->parts[i])) return false;
        return !s->fold || put_step(f, steps, s->fold);
    }
    if (s->prologue || s->epilogue) {
        tpi_graph_step own = *s;
        own.nin = (int16_t)tpi_step_own_in(s);
        own.nout = (int16_t)tpi_step_own_out(s);
        own.prologue = own.epilogue = NULL;
        return (!s->prologue || put_step(f, steps, s->prologue)) && put_step(f, steps, &own) &&
               (!s->epilogue || put_step(f, steps, s->epilogue));
    }
    if (s->kind >= TPI_STEP_CUSTOM)
        return tpi_refuse(TP_ERR_MISSING,
                          "the graph changes gradients or makes calls of the program's, which cannot be saved");
    if (s->op && kernel_named((tpi_step_kind)s->kind, name_of(s)) != s->op)
        return tpi_refuse(TP_ERR_MISSING, "the graph has a derivative of %s in its forward, which cannot be saved",
                          name_of(s));
    tp_saved *d = tp_put_dict(f, steps, NULL);
    if (!d) return false;
    tp_put_text(f, d, "kind", step_names[s->kind]);
    tp_put_text(f, d, "op", name_of(s));
    put_ids(f, d, "in", s->in, s->nin);
    put_ids(f, d, "out", s->out, s->nout);
    tp_put_number(f, d, "inplace", tp_truth(s->inplace));
    if (s->kind == TPI_STEP_MAP) put_scalars(f, d, "numbers", s->numbers, s->nin);
    if (s->kind == TPI_STEP_FILL) put_scalars(f, d, "numbers", s->numbers, 1);
    if (s->kind <= TPI_STEP_SCAN) put_scalars(f, d, "params", s->params, count_params(s));
    if (s->kind == TPI_STEP_FOLD || s->kind == TPI_STEP_SCAN) {
        if (s->dims.v) put_ints(f, d, "dims", s->dims.v, s->dims.n);
        tp_put_number(f, d, "keepdim", tp_truth(s->keepdim));
        tp_put_number(f, d, "dtype", tp_int(s->dtype));
    }
    if (s->kind == TPI_STEP_CALL) {
        tp_saved *args = tp_put_list(f, d, "args");
        for (int64_t i = 0; args && i < ((const tp_operator *)s->op)->nargs; i++) put_argument(f, args, &s->args[i]);
    }
    return true;
}

/* The device that the inputs and the program's tensors are on; none where they are on several, or the CPU, which need
 * no word in the file. */
static tp_device device_of_all(const tp_compiled *g) {
    tp_device found = {TP_DEVICE_NONE, 0};
    for (int32_t i = 0; i < g->nvalues; i++) {
        const tpi_graph_value *v = &g->values[i];
        if (v->kind != TPI_VALUE_INPUT && v->kind != TPI_VALUE_OUTSIDE) continue;
        if (v->device.type == TP_CPU || v->device.type == TP_META || (found.type && !tpi_same_device(found, v->device)))
            return (tp_device){TP_DEVICE_NONE, 0};
        found = v->device;
    }
    return found;
}

bool tp_compiled_save(const tp_compiled *g, const char *path, const char *note) {
    TPI_STOP_ON_ERROR(false);
    if (!tpi_given(g, __func__, "graph", "a graph")) return false;
    tp_file *f = tp_new_file();
    if (!f) return false;
    tp_put_text(f, NULL, "format", FORMAT);
    if (note) tp_put_text(f, NULL, "note", note);
    tp_device device = device_of_all(g);
    if (device.type) put_ints(f, NULL, "device", (const int64_t[]){device.type, device.index}, 2);
    put_ids(f, NULL, "inputs", g->inputs, g->ninputs);
    put_ids(f, NULL, "outputs", g->outputs, g->noutputs);
    tp_saved *values = tp_put_list(f, NULL, "values"), *steps = tp_put_list(f, NULL, "steps");
    bool ok = values && steps;
    for (int32_t i = 0; ok && i < g->nvalues; i++) put_value(f, values, &g->values[i]);
    for (int32_t i = 0; ok && i < g->nforward; i++) ok = put_step(f, steps, &g->steps[i]);
    ok = ok && tp_save_file(f, path);
    tp_close_file(f);
    return ok;
}

/* ---- Reading ---- */

bool tpi_graph_broken(const char *what) { return tpi_refuse(TP_ERR_IO, "the graph's file is damaged: %s", what); }

int64_t tpi_graph_number(const tp_saved *v, int64_t low, int64_t high, bool *ok) {
    if (tp_saved_kind_of(v) != TP_SAVED_NUMBER) {
        *ok = false;
        return low;
    }
    int64_t n = tp_scalar_to_int(tp_saved_number(v));
    if (n < low || n > high) *ok = false;
    return n < low || n > high ? low : n;
}

int64_t tpi_graph_list(const tp_saved *v, int64_t most, bool *ok) {
    tp_saved_kind kind = tp_saved_kind_of(v);
    int64_t n = kind == TP_SAVED_LIST || kind == TP_SAVED_TUPLE ? tp_saved_count(v) : -1;
    if (n < 0 || n > most) {
        *ok = false;
        return 0;
    }
    return n;
}

static const int64_t *read_ints(tpi_graph_memory *memory, const tp_saved *v, int64_t most, int64_t *n, bool *ok) {
    *n = tpi_graph_list(v, most, ok);
    int64_t *list = tpi_graph_memory_alloc(memory, (size_t)*n * sizeof *list);
    if (!list) {
        *ok = false;
        return NULL;
    }
    for (int64_t i = 0; i < *n; i++) list[i] = tpi_graph_number(tp_saved_at(v, i), INT64_MIN, INT64_MAX, ok);
    return list;
}

static tp_scalar *read_scalars(tpi_graph_memory *memory, const tp_saved *v, int64_t n, bool *ok) {
    tp_scalar *list = tpi_graph_memory_alloc(memory, (size_t)n * sizeof *list);
    if (!list || tpi_graph_list(v, n, ok) != n) {
        *ok = false;
        return list;
    }
    for (int64_t i = 0; i < n; i++) {
        const tp_saved *at = tp_saved_at(v, i);
        list[i] = tp_saved_kind_of(at) == TP_SAVED_NUMBER ? tp_saved_number(at) : tp_no_scalar();
    }
    return list;
}

static const int64_t FARTHEST = INT64_C(1) << 56; /* of which TP_MAX_DIMS can be added up */

/* The bytes, from its first element on, that a value spans. */
static void extent(const tpi_graph_value *v, int64_t *low, int64_t *high) {
    int64_t item = tpi_dtype_bytes[v->dtype];
    *low = *high = 0;
    for (int d = 0; d < v->ndim; d++) {
        if (v->dims[d] == 0) return (void)(*low = *high = 0);
        int64_t reach; /* one that cannot be counted lies beyond everything */
        if (__builtin_mul_overflow((v->dims[d] - 1) * item, v->dims[v->ndim + d], &reach) || reach > FARTHEST ||
            reach < -FARTHEST)
            reach = v->dims[v->ndim + d] < 0 ? -FARTHEST : FARTHEST;
        *(reach < 0 ? low : high) += reach;
    }
    *high += item;
}

static bool check_value(const tp_compiled *g, int32_t i) {
    const tpi_graph_value *v = &g->values[i];
    for (int d = 0; d < v->ndim; d++) /* so that one more and a dtype's size do not overflow */
        if (v->dims[d] < 0 || v->dims[d] > INT64_C(1) << 40 || v->dims[v->ndim + d] < -(INT64_C(1) << 40) ||
            v->dims[v->ndim + d] > INT64_C(1) << 40)
            return tpi_graph_broken("a shape");
    if (tpi_numel_of(tpi_value_shape(v)) < 0) return false;
    if (v->kind != TPI_VALUE_VIEW) return true;
    if (v->of < 0 || v->of >= g->nvalues || g->values[v->of].kind == TPI_VALUE_VIEW)
        return tpi_graph_broken("a view of nothing");
    int64_t low, high, root_low, root_high;
    extent(v, &low, &high);
    extent(&g->values[v->of], &root_low, &root_high);
    if (v->offset % tpi_dtype_bytes[v->dtype] ||
        (high > low && (low + v->offset < root_low || high + v->offset > root_high)))
        return tpi_graph_broken("a view beyond what it looks at");
    return true;
}

/* The tensor in the file, on the device: the caller's. NULL without an error: there is none. */
static tp_tensor *tensor_on(const tp_saved *v, tp_device device) {
    tp_tensor *t = tp_own(tp_saved_tensor(v));
    if (!t || device.type == TP_CPU) return t;
    tp_tensor *there = tp_own(tpo_to(t, TP_NO_DTYPE, device, false, TP_PRESERVE, false));
    tp_release(t);
    return there;
}

static bool read_value(tp_compiled *g, const tp_saved *v, tp_device device, const tp_compiled *base) {
    bool ok = true;
    int64_t n, ndim, nstrides;
    const int64_t *facts = read_ints(&g->memory, tp_saved_at(v, 0), 5, &n, &ok),
                  *shape = read_ints(&g->memory, tp_saved_at(v, 1), TP_MAX_DIMS, &ndim, &ok),
                  *strides = read_ints(&g->memory, tp_saved_at(v, 2), TP_MAX_DIMS, &nstrides, &ok);
    if (!ok || n != 5 || ndim != nstrides || facts[0] < 0 || facts[0] > TPI_VALUE_VIEW || facts[0] == TPI_VALUE_GRAD ||
        facts[1] <= TP_NO_DTYPE || facts[1] >= TP_DTYPE_COUNT)
        return tpi_graph_broken("a value");
    tpi_graph_value value = {.kind = (uint8_t)facts[0],
                             .dtype = (uint8_t)facts[1],
                             .of = (int32_t)facts[2],
                             .offset = facts[3],
                             .wrapped = facts[4],
                             .device = base ? base->values[g->nvalues].device : device};
    if (value.kind == TPI_VALUE_OUTSIDE || value.kind == TPI_VALUE_CONSTANT) {
        value.tensor = base ? tp_retain(base->values[g->nvalues].tensor) : tensor_on(tp_saved_at(v, 3), device);
        const tp_tensor *t = value.tensor;
        if (!t) return tp_ok() ? tpi_graph_broken("a tensor is missing") : false;
        bool same =
            t->dtype == value.dtype && t->ndim == ndim && !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape);
        if (same && value.wrapped && !base) value.tensor->flags |= TPI_WRAPPED;
        strides = t->strides;
        if (!same || tpi_graph_add_value(g, &value, tp_ints_view(shape, ndim), tp_ints_view(strides, ndim)) < 0) {
            tp_release(value.tensor);
            return same ? false : tpi_graph_broken("a tensor of another shape");
        }
        return true;
    }
    return tpi_graph_add_value(g, &value, tp_ints_view(shape, ndim), tp_ints_view(strides, ndim)) >= 0;
}

static bool read_ids(const tp_compiled *g, const tp_saved *v, int32_t *ids, int64_t n, int64_t least) {
    bool ok = tpi_graph_list(v, n, &(bool){true}) == n;
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)tpi_graph_number(tp_saved_at(v, i), least, g->nvalues - 1, &ok);
    return ok || tpi_graph_broken("a value's number");
}

static bool read_argument(tpi_graph_memory *memory, const tp_saved *v, tp_device device, tp_value *to,
                          int64_t *tensors) {
    bool ok = true;
    const tp_saved *held = tp_saved_count(v) > 1 ? tp_saved_at(v, 1) : NULL;
    int64_t n = 0;
    *to = (tp_value){.kind = tpi_graph_number(tp_saved_at(v, 0), TP_K_NONE, TP_K_SCALARS, &ok)};
    switch (to->kind) {
    case TP_K_NONE: break;
    case TP_K_TENSOR: ++*tensors; break;
    case TP_K_TENSORS: *tensors += to->as.tensors.n = tpi_graph_number(held, 0, 1 << 20, &ok); break;
    case TP_K_SCALAR:
        ok = ok && tp_saved_kind_of(held) == TP_SAVED_NUMBER;
        to->as.scalar = ok ? tp_saved_number(held) : tp_no_scalar();
        break;
    case TP_K_INTS:
        to->as.ints.v = read_ints(memory, held, 1 << 20, &n, &ok);
        to->as.ints.n = n;
        break;
    case TP_K_DTYPE: to->as.dtype = (tp_dtype)tpi_graph_number(held, TP_NO_DTYPE + 1, TP_DTYPE_COUNT - 1, &ok); break;
    case TP_K_LAYOUT: to->as.layout = (tp_layout)tpi_graph_number(held, 0, 16, &ok); break;
    case TP_K_DEVICE: to->as.device = device; break;
    case TP_K_SCALARS:
        to->as.scalars.n = n = tpi_graph_list(held, 1 << 20, &ok);
        to->as.scalars.v = read_scalars(memory, held, n, &ok);
        break;
    case TP_K_FLOATS: {
        n = tpi_graph_list(held, 1 << 20, &ok);
        double *floats = tpi_graph_memory_alloc(memory, (size_t)n * sizeof *floats);
        for (int64_t i = 0; floats && i < n; i++)
            floats[i] = tp_scalar_to_double(tp_saved_number(tp_saved_at(held, i)));
        to->as.floats.v = floats;
        to->as.floats.n = n;
        ok = ok && floats;
        break;
    }
    case TP_K_STRING: {
        const char *text = tp_saved_kind_of(held) == TP_SAVED_TEXT ? tp_saved_text(held) : NULL;
        char *copy = text ? tpi_graph_memory_alloc(memory, strlen(text) + 1) : NULL;
        to->as.string = copy ? strcpy(copy, text) : NULL;
        ok = ok && copy;
        break;
    }
    default: ok = false;
    }
    return ok || tpi_graph_broken("an argument");
}

/* Where a tensor may be missing, the table's type says so. */
static bool has_its_tensors(const tp_operator *op, const tpi_graph_step *s) {
    int at = 0;
    for (int64_t i = 0; i < op->nargs; i++) {
        const tp_value *v = &s->args[i];
        bool optional = strchr(op->args[i].type, '?') != NULL;
        for (int64_t n = v->kind == TP_K_TENSOR ? 1 : v->kind == TP_K_TENSORS ? v->as.tensors.n : 0; n > 0; n--, at++)
            if (s->in[at] < 0 && !optional) return false;
    }
    return true;
}

static bool read_call(tp_compiled *g, tpi_graph_step *s, const tp_saved *d, tp_device device) {
    const tp_operator *op = s->op;
    const tp_saved *args = tp_saved_get(d, "args");
    int64_t tensors = 0;
    s->args = tpi_graph_memory_alloc(&g->memory, (size_t)op->nargs * sizeof *s->args);
    if (!s->args) return false;
    if (!args || tp_saved_count(args) != op->nargs || (s->inplace && !op->invoke_inplace))
        return tpi_graph_broken("a call");
    for (int64_t i = 0; i < op->nargs; i++)
        if (!read_argument(&g->memory, tp_saved_at(args, i), device, &s->args[i], &tensors)) return false;
    if (s->inplace && (s->nout != 1 || !s->nin || s->out[0] != s->in[0])) return tpi_graph_broken("a call in place");
    return (tensors == s->nin && has_its_tensors(op, s)) || tpi_graph_broken("a call's tensors");
}

static int outs_of(const tpi_graph_step *s) {
    return s->kind == TPI_STEP_FOLD   ? ((const tpi_fold_op *)s->op)->nout
           : s->kind == TPI_STEP_SCAN ? ((const tpi_scan_op *)s->op)->nout
                                      : 1;
}

static bool read_kernel(tp_compiled *g, tpi_graph_step *s, const tp_saved *d) {
    bool ok = true;
    int64_t n = 0;
    int wants = s->kind == TPI_STEP_MAP ? ((const tpi_map_op *)s->op)->nin : s->kind == TPI_STEP_FILL ? 0 : 1;
    if (s->nin != wants || s->nout != outs_of(s)) return tpi_graph_broken("a step's values");
    for (int i = 0; i < s->nin; i++) ok = ok && (s->kind == TPI_STEP_MAP || s->in[i] >= 0);
    if (s->kind == TPI_STEP_MAP) s->numbers = read_scalars(&g->memory, tp_saved_get(d, "numbers"), s->nin, &ok);
    if (s->kind == TPI_STEP_FILL) s->numbers = read_scalars(&g->memory, tp_saved_get(d, "numbers"), 1, &ok);
    if (s->kind <= TPI_STEP_SCAN) s->params = read_scalars(&g->memory, tp_saved_get(d, "params"), count_params(s), &ok);
    if (s->kind == TPI_STEP_FOLD || s->kind == TPI_STEP_SCAN) {
        if (tp_saved_has(d, "dims")) {
            s->dims.v = read_ints(&g->memory, tp_saved_get(d, "dims"), TP_MAX_DIMS, &n, &ok);
            s->dims.n = n;
        }
        s->keepdim = tpi_graph_number(tp_saved_get(d, "keepdim"), 0, 1, &ok);
        s->dtype = (tp_dtype)tpi_graph_number(tp_saved_get(d, "dtype"), 0, TP_DTYPE_COUNT - 1, &ok);
    }
    return (ok && (s->kind != TPI_STEP_SCAN || n == 1)) || tpi_graph_broken("a step");
}

static bool read_step(tp_compiled *g, const tp_saved *d, tp_device device) {
    const char *kind = tp_saved_text(tp_saved_get(d, "kind")), *name = tp_saved_text(tp_saved_get(d, "op"));
    int k = 0;
    while (kind && k < 6 && strcmp(kind, step_names[k])) k++;
    if (!kind || !name || k == 6) return tpi_graph_broken("a step of an unknown kind");
    const void *op = k == TPI_STEP_COPY || k == TPI_STEP_FILL ? NULL : kernel_named((tpi_step_kind)k, name);
    if (!op && k != TPI_STEP_COPY && k != TPI_STEP_FILL)
        return tpi_refuse(TP_ERR_MISSING, "the graph calls %s, which this version does not have", name);
    if (!op && name[0]) return tpi_graph_broken("a step's operator");
    const tp_saved *in = tp_saved_get(d, "in"), *out = tp_saved_get(d, "out");
    bool ok = true;
    int64_t nin = tpi_graph_list(in, 1 << 14, &ok), nout = tpi_graph_list(out, 64, &ok);
    tpi_graph_step *s = ok ? tpi_graph_add_step(g, (tpi_step_kind)k, (int)nin, (int)nout) : NULL;
    if (!s) return ok ? false : tpi_graph_broken("a step's values");
    s->op = op;
    s->inplace = tpi_graph_number(tp_saved_get(d, "inplace"), 0, 1, &ok);
    if (!ok || !read_ids(g, in, s->in, nin, -1) || !read_ids(g, out, s->out, nout, 0))
        return ok ? false : tpi_graph_broken("a step");
    return k == TPI_STEP_CALL ? read_call(g, s, d, device) : read_kernel(g, s, d);
}

static bool read_ends(tp_compiled *g, const tp_saved *root) {
    bool ok = true;
    const tp_saved *in = tp_saved_get(root, "inputs"), *out = tp_saved_get(root, "outputs");
    g->ninputs = (int32_t)tpi_graph_list(in, 1 << 20, &ok);
    g->noutputs = (int32_t)tpi_graph_list(out, 1 << 20, &ok);
    g->inputs = tpi_graph_memory_alloc(&g->memory, (size_t)g->ninputs * sizeof *g->inputs);
    g->outputs = tpi_graph_memory_alloc(&g->memory, (size_t)g->noutputs * sizeof *g->outputs);
    g->input_tracked = tpi_graph_memory_alloc(&g->memory, (size_t)g->ninputs);
    g->follows = tpi_graph_memory_alloc(&g->memory, (size_t)g->noutputs);
    g->tracks = tpi_graph_memory_alloc(&g->memory, (size_t)g->noutputs);
    if (!ok || !g->inputs || !g->outputs || !g->input_tracked || !g->follows || !g->tracks)
        return ok ? false : tpi_graph_broken("inputs and outputs");
    if (!read_ids(g, in, g->inputs, g->ninputs, 0) || !read_ids(g, out, g->outputs, g->noutputs, 0)) return false;
    for (int32_t i = 0; i < g->ninputs; i++) {
        const tpi_graph_value *v = &g->values[g->inputs[i]];
        if (v->kind != TPI_VALUE_INPUT || v->of < 0 || v->of > i || g->inputs[v->of] != g->inputs[i])
            return tpi_graph_broken("an input");
    }
    return true;
}

/* Where the file's graph runs: the CPU unless it says otherwise. */
static bool read_device(const tp_saved *root, tp_device *device) {
    *device = (tp_device){TP_CPU, 0};
    if (!tp_saved_has(root, "device")) return true;
    bool ok = true;
    const tp_saved *v = tp_saved_get(root, "device");
    if (tpi_graph_list(v, 2, &ok) != 2) return tpi_graph_broken("a device");
    device->type = (int16_t)tpi_graph_number(tp_saved_at(v, 0), TP_CPU, TP_DEVICE_TYPES - 1, &ok);
    device->index = (int16_t)tpi_graph_number(tp_saved_at(v, 1), 0, INT8_MAX, &ok);
    return (ok && device->type != TP_META) || tpi_graph_broken("a device"); /* nothing runs where there is no memory */
}

static bool read_graph(tp_compiled *g, const tp_saved *root, const tp_compiled *base) {
    const tp_saved *format =
        tp_saved_kind_of(root) == TP_SAVED_DICT && tp_saved_has(root, "format") ? tp_saved_get(root, "format") : NULL;
    if (tp_saved_kind_of(format) != TP_SAVED_TEXT || strcmp(tp_saved_text(format), FORMAT))
        return tpi_refuse(TP_ERR_IO, "the file holds no graph that this version reads");
    const tp_saved *values = tp_saved_get(root, "values"), *steps = tp_saved_get(root, "steps");
    if (tp_saved_has(root, "note") && !(g->note = tpi_strdup(tp_saved_text(tp_saved_get(root, "note"))))) return false;
    tp_device device;
    if (!read_device(root, &device)) return false;
    if (base && tp_saved_count(values) > base->nvalues)
        return tpi_refuse(TP_ERR_VALUE, "argument 'other': expected a graph with the values of the one in the file");
    for (int64_t i = 0; i < tp_saved_count(values); i++)
        if (!read_value(g, tp_saved_at(values, i), device, base)) return false;
    for (int32_t i = 0; i < g->nvalues; i++)
        if (!check_value(g, i)) return false;
    for (int64_t i = 0; i < tp_saved_count(steps); i++)
        if (!read_step(g, tp_saved_at(steps, i), device)) return false;
    g->nforward = g->nsteps;
    return tp_ok() && read_ends(g, root) && tpi_graph_check(g) && tpi_graph_fuse(g) && tpi_graph_find_epilogues(g) &&
           tpi_graph_plan(g);
}

tp_compiled *tpi_graph_read(const tp_saved *root, const tp_compiled *base) {
    tp_compiled *g = tpi_graph_new();
    if (!g) return NULL;
    g->grad_off = true;
    g->default_dtype = base ? base->default_dtype : tp_default_dtype();
    if (read_graph(g, root, base)) return g;
    tp_compiled_release(g);
    if (tp_ok()) tpi_graph_broken("it does not fit together");
    return NULL;
}

tp_compiled *tp_compiled_load(const char *path) { return tp_compiled_load_with(path, NULL); }

tp_compiled *tp_compiled_load_with(const char *path, const tp_compiled *other) {
    if (TPI_ENDED(other, "a compiled graph")) return NULL;
    tp_file *f = tp_open_file(path, NULL);
    if (!f) return NULL;
    tp_compiled *g = tpi_graph_read(tp_file_value(f), other);
    if (!g || !tpi_graph_read_sizes(g, f)) tp_close_file(f);
    if (g && !g->sizes && !tp_ok()) {
        tp_compiled_release(g);
        g = NULL;
    }
    return g;
}

const char *tp_compiled_note(const tp_compiled *g) {
    if (TPI_ENDED(g, "a compiled graph")) return NULL;
    return g ? g->note : NULL;
}

bool tp_compiled_input(const tp_compiled *g, int64_t i, tp_dtype *dtype, tp_ints *shape) {
    if (TPI_ENDED(g, "a compiled graph")) return false;
    if (!g || i < 0 || i >= g->ninputs)
        return tpi_refuse(TP_ERR_INDEX, "argument 'i': expected an input from 0 to %d, got %lld",
                          g ? g->ninputs - 1 : -1, (long long)i);
    const tpi_graph_value *v = &g->values[g->inputs[i]];
    *dtype = (tp_dtype)v->dtype;
    *shape = tpi_value_shape(v);
    return true;
}

bool tp_compiled_input_dim(const tp_compiled *g, int64_t i, int64_t dim, int64_t *least, int64_t *most) {
    if (TPI_ENDED(g, "a compiled graph")) return false;
    tp_dtype dtype;
    tp_ints shape;
    if (!tp_compiled_input(g, i, &dtype, &shape)) return false;
    if (dim < 0 || dim >= shape.n)
        return tpi_refuse(TP_ERR_INDEX, "argument 'dim': expected a dim from 0 to %lld, got %lld",
                          (long long)shape.n - 1, (long long)dim);
    if (g->sizes)
        tpi_size_bounds(g, i, (int)dim, least, most);
    else
        *least = *most = shape.v[dim];
    return true;
}
