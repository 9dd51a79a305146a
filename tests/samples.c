/* Samples become arguments and calls: see samples.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "device/device.h"
#include "samples.h"
#include "tensor/storage.h"

const char *const variant_names[VARIANTS] = {"plain", "transposed", "stepped", "offset", "expanded", "repeated"};

/* ---- Numbers: a small generator of our own, so that values depend on the sample's text alone ---- */
static uint64_t mix(uint64_t *state) { /* splitmix64 */
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static double uniform(uint64_t *state) { return ((double)(mix(state) >> 11) + 0.5) * 0x1p-53; }
static double between(uint64_t *state, double low, double high) { return low + (high - low) * uniform(state); }
static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}
static uint64_t seed_of(const char *text, int which) {
    uint64_t h = 1469598103934665603u + (uint64_t)which * 7919;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* Real numbers for floating and complex dtypes. */
static double real_value(sample_maker maker, uint64_t *state) {
    switch (maker) {
    case MAKE_POS: return between(state, 0.2, 2);
    case MAKE_UNIT: return between(state, -0.9, 0.9);
    case MAKE_PROB: return between(state, 0.1, 0.9);
    case MAKE_BIG: return between(state, 1.2, 3);
    case MAKE_AWAY:
        return floor(2 * normal(state)) / 2 + between(state, 0.2, 0.3); /* 0.2 from every multiple of a half */
    default: return normal(state);
    }
}
static double imaginary_value(sample_maker maker, uint64_t *state) {
    if (maker == MAKE_T || maker == MAKE_COMPLEX || maker == MAKE_DISTINCT) return normal(state);
    return maker == MAKE_AWAY ? real_value(maker, state) : between(state, -0.4, 0.4);
}
/* Small integers with what the maker promises; `lowest` is 0 where the dtype has no negative ones. */
static int64_t integer_value(sample_maker maker, bool negative, uint64_t *state) {
    int64_t v;
    switch (maker) {
    case MAKE_POS: return 1 + (int64_t)(mix(state) % 3);
    case MAKE_UNIT: return 0;
    case MAKE_PROB: return (int64_t)(mix(state) % 2);
    case MAKE_BIG: return 2 + (int64_t)(mix(state) % 3);
    case MAKE_AWAY: v = 1 + (int64_t)(mix(state) % 5); return negative && mix(state) % 2 ? -v : v;
    default: v = (int64_t)(mix(state) % 6); return negative && mix(state) % 2 ? -v : v;
    }
}

static tp_scalar element_value(sample_maker maker, const sample_value *v, tp_dtype dtype, uint64_t *state) {
    if (maker == MAKE_INTS || maker == MAKE_INT32S)
        return tp_int(v->low + (int64_t)(mix(state) % (uint64_t)(v->high > v->low ? v->high - v->low : 1)));
    if (dtype == TP_BOOL)
        return tp_truth(maker == MAKE_POS || maker == MAKE_BIG || maker == MAKE_AWAY || mix(state) % 2);
    if (tp_dtype_is_integral(dtype))
        return tp_int(integer_value(
            maker, dtype != TP_UINT8 && !(tpi_dtype_group[dtype] & (TPI_CAT_UNSIGNED | TPI_CAT_UNSIGNED64)), state));
    double real = real_value(maker, state);
    return tp_dtype_is_complex(dtype) ? tp_cplx(real, imaginary_value(maker, state)) : tp_float(real);
}

/* ---- Filling a contiguous tensor ---- */
static void *element(const tp_tensor *t, int64_t i) { return t->data + (size_t)i * tpi_itemsize(t); }
static void store(const tp_tensor *t, int64_t i, double re, double im) {
    tpi_store_scalar(element(t, i), (tp_dtype)t->dtype,
                     tp_dtype_is_complex((tp_dtype)t->dtype) ? tp_cplx(re, im) : tp_float(re));
}

/* A shuffled run of steps of 0.37 around zero (whole numbers from 0 for integers), plus noise too small to change the
 * order. */
static void fill_distinct(tp_tensor *t, uint64_t *state) {
    int64_t n = t->numel, *order = malloc(sizeof(int64_t) * (size_t)(n + 1));
    if (!order) return;
    for (int64_t i = 0; i < n; i++) {
        int64_t j = (int64_t)(mix(state) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (int64_t i = 0; i < n; i++) {
        bool whole = !tp_dtype_is_floating((tp_dtype)t->dtype) && !tp_dtype_is_complex((tp_dtype)t->dtype);
        double v = whole ? (double)order[i] : 0.37 * ((double)order[i] - (double)n / 2) + 0.05 * uniform(state) + 0.02;
        store(t, i, v, normal(state));
    }
    free(order);
}

/* (..., n, n): a diagonal 1, 2, 3, ... with something smaller around it; symmetric (Hermitian) and positive definite if
 * asked. */
static void fill_matrices(tp_tensor *t, bool symmetric, uint64_t *state) {
    int64_t n = t->ndim ? t->shape[t->ndim - 1] : 1;
    for (int64_t first = 0; first < t->numel; first += n * n)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                double re = 0.25 * normal(state), im = 0.25 * normal(state);
                if (i == j)
                    store(t, first + i * n + i, (double)(i + 1) + 0.5 + re * 0.4, symmetric ? 0 : im);
                else {
                    store(t, first + i * n + j, re, im);
                    if (!symmetric) {
                        re = 0.25 * normal(state);
                        im = -0.25 * normal(state);
                    }
                    store(t, first + j * n + i, re, -im);
                }
            }
}

static void fill(tp_tensor *t, const sample_value *v, uint64_t *state) {
    if (v->maker == MAKE_DISTINCT && t->dtype != TP_BOOL)
        fill_distinct(t, state);
    else if (v->maker == MAKE_SPD || v->maker == MAKE_WELLCOND)
        fill_matrices(t, v->maker == MAKE_SPD, state);
    else if (v->maker == MAKE_BEGINS)
        for (int64_t i = 0; i < t->numel; i++)
            store(t, i, (double)(v->low + (v->high - v->low) * i / (t->numel - 1)), 0);
    else
        for (int64_t i = 0; i < t->numel; i++)
            tpi_store_scalar(element(t, i), (tp_dtype)t->dtype, element_value(v->maker, v, (tp_dtype)t->dtype, state));
}

/* ---- Layouts ---- */
static const tp_device cpu = {TP_CPU, 0};

/* An uninitialised tensor of t's shape whose elements lie as the variant says, in a block filled with a value of its
 * own. */
static tp_tensor *laid_out(const tp_tensor *t, variant how) {
    int64_t strides[TP_MAX_DIMS], step = how == STEPPED ? 2 : 1, offset = how == OFFSET ? 3 : how == STEPPED ? 1 : 0;
    for (int d = 0; d < t->ndim; d++) {
        int at = how == TRANSPOSED ? d : t->ndim - 1 - d;
        strides[at] = step;
        step *= t->shape[at] > 0 ? t->shape[at] : 1;
    }
    tp_tensor *block = tpi_empty(TP_INTS(step + offset + 2), (tp_dtype)t->dtype, cpu);
    if (!block || !tpi_fill_data(block, tp_int(1))) {
        tpi_release(block);
        return NULL;
    }
    tp_tensor *view = tpi_alias(block, t->ndim, t->shape, strides, offset), *alone = view ? tpi_detached(view) : NULL;
    tpi_release(view);
    tpi_release(block);
    return alone;
}

/* Takes the reference to t; gives t back where the variant means nothing for it. */
static tp_tensor *vary(tp_tensor *t, sample_maker maker, variant how, bool *varied) {
    if (!t || how == PLAIN || (how == TRANSPOSED && t->ndim < 2) ||
        ((how == EXPANDED || how == REPEATED) && (maker >= MAKE_DISTINCT && maker <= MAKE_INT32S)))
        return t;
    tp_tensor *out;
    if (how == EXPANDED || how == REPEATED) {
        int dim = 0;
        for (int d = 1; d < t->ndim; d++)
            if (t->shape[d] > t->shape[dim]) dim = d;
        if (!t->ndim || t->shape[dim] < 2) return t;
        int64_t strides[TP_MAX_DIMS];
        memcpy(strides, t->strides, sizeof(int64_t) * t->ndim);
        strides[dim] = 0;
        tp_tensor *view = tpi_alias(t, t->ndim, t->shape, strides, 0);
        out = view ? how == EXPANDED ? tpi_detached(view) : tpi_contiguous_data(view) : NULL;
        tpi_release(view);
    } else {
        out = laid_out(t, how);
        if (out && !tpi_copy_data(out, t)) {
            tpi_release(out);
            out = NULL;
        }
    }
    tpi_release(t);
    *varied = true;
    return out;
}

/* ---- Arguments ---- */
typedef struct making {
    const operator_sample *sample;
    tp_dtype dtype;
    variant how;
    const shape_override *shape;
    arguments *out;
    int listed;
} making;

static tp_tensor *make_tensor(making *m, const sample_value *v, int argument) {
    int64_t shape[8];
    int ndim = v->ndim;
    for (int d = 0; d < ndim; d++) shape[d] = v->shape[d];
    if (v->maker == MAKE_SPD || v->maker == MAKE_WELLCOND) {
        shape[ndim] = shape[ndim - 1];
        ndim++;
    }
    if (m->shape) {
        memcpy(shape, m->shape->shape, sizeof m->shape->shape);
        ndim = m->shape->ndim;
    }
    tp_dtype dtype = v->maker == MAKE_INTS      ? TP_INT64
                     : v->maker == MAKE_BEGINS  ? TP_INT64
                     : v->maker == MAKE_INT32S  ? TP_INT32
                     : v->maker == MAKE_BOOLS   ? TP_BOOL
                     : v->maker == MAKE_COMPLEX ? tpi_dtype_to_complex(m->dtype)
                                                : m->dtype;
    tp_tensor *t = tpi_empty(tp_ints_view(shape, ndim), dtype, cpu);
    if (!t) return NULL;
    uint64_t state = seed_of(m->sample->text, m->out->ntensors);
    fill(t, v, &state);
    t = vary(t, v->maker, m->how, &m->out->varied);
    if (!t) return NULL;
    m->out->argument[m->out->ntensors] = argument;
    return m->out->tensors[m->out->ntensors++] = t;
}

static bool make_list(making *m, const sample_value *v, int argument, tp_value *out) {
    tp_tensor **list = m->out->lists + m->listed;
    m->listed += v->kind == SAMPLE_LIST ? v->n : 0;
    for (int i = 0; v->kind == SAMPLE_LIST && i < v->n; i++) {
        list[i] = v->items[i].kind == SAMPLE_TENSOR ? make_tensor(m, &v->items[i], argument) : NULL;
        if (!list[i] && v->items[i].kind == SAMPLE_TENSOR) return false;
    }
    *out = tp_value_tensors((tp_tensors){list, v->kind == SAMPLE_LIST ? v->n : 0});
    return true;
}

static tp_value make_word(const char *word, const char *type) {
    static const char *const layouts[] = {"preserve_format", "contiguous_format", "channels_last", "channels_last_3d"};
    if (!strncmp(type, "device", 6)) return tp_value_device(cpu);
    for (int i = 0; i < 4; i++)
        if (!strcmp(word, layouts[i])) return (tp_value){.kind = TP_K_LAYOUT, .as.layout = (tp_layout)i};
    return tp_value_dtype(tp_dtype_by_name(word));
}

/* A list of numbers for an argument of type float[] or Scalar[]. */
static tp_value make_numbers(making *m, const sample_value *v, const char *type) {
    arguments *a = m->out;
    int first = a->nnumbers, capacity = (int)(sizeof a->floats / sizeof *a->floats);
    for (int i = 0; i < v->n && a->nnumbers < capacity; i++, a->nnumbers++) {
        a->floats[a->nnumbers] = v->floats ? v->floats[i] : (double)v->ints[i];
        a->numbers[a->nnumbers] = v->floats ? tp_float(v->floats[i]) : tp_int(v->ints[i]);
    }
    if (*type == 'f') return tp_value_floats((tp_floats){a->floats + first, a->nnumbers - first});
    return tp_value_scalars((tp_scalars){a->numbers + first, a->nnumbers - first});
}

static bool make_value(making *m, const sample_value *v, int argument, tp_value *out) {
    const char *type = m->out->op->args[argument].type;
    switch (v->kind) {
    case SAMPLE_TENSOR: *out = tp_value_tensor(make_tensor(m, v, argument)); return out->as.tensor;
    case SAMPLE_LIST: return make_list(m, v, argument, out);
    case SAMPLE_INTS:
        if (!strncmp(type, "Tensor", 6)) return make_list(m, v, argument, out);
        if (strncmp(type, "float[", 6) && strncmp(type, "Scalar[", 7))
            *out = tp_value_ints(tp_ints_view(v->ints, v->n));
        else
            *out = make_numbers(m, v, type);
        return true;
    case SAMPLE_FLOATS: *out = make_numbers(m, v, type); return true;
    case SAMPLE_INT: *out = tp_value_int(v->i); return true;
    case SAMPLE_FLOAT: *out = tp_value_double(v->f); return true;
    case SAMPLE_STRING: *out = tp_value_string(v->s); return true;
    case SAMPLE_BOOL: *out = tp_value_bool(v->i); return true;
    case SAMPLE_DTYPE: *out = make_word(v->s, type); return true;
    case SAMPLE_NONE: return true;
    }
    return false;
}

bool make_arguments(const operator_sample *sample, tp_dtype dtype, variant how, const shape_override *shape,
                    arguments *out) {
    *out = (arguments){.op = tp_find_operator(sample->op)};
    making m = {sample, dtype, how, shape, out, 0};
    for (int i = 0; i < sample->nargs; i++) {
        int k = i;
        if (sample->args[i].name)
            for (k = 0; k < out->op->nargs && strcmp(out->op->args[k].name, sample->args[i].name);) k++;
        if (k >= out->op->nargs) {
            report("the sample has arguments the signature does not: %s", out->op->signature);
            drop_arguments(out);
            return false;
        }
        if (!make_value(&m, &sample->args[i], k, &out->values[k])) {
            report_error("making the arguments");
            drop_arguments(out);
            return false;
        }
    }
    return true;
}

/* The arguments with every tensor exchanged for what `as` makes of it. */
static bool exchange_arguments(const arguments *from, arguments *out, tp_tensor *(*as)(tp_tensor *t, tp_device where),
                               tp_device where) {
    *out = *from;
    out->ntensors = 0;
    int listed = 0;
    for (int i = 0; i < from->ntensors; i++) {
        tp_tensor *own = as(from->tensors[i], where);
        if (!own) {
            drop_arguments(out);
            return false;
        }
        out->tensors[out->ntensors++] = own;
        tp_value *v = &out->values[from->argument[i]];
        if (v->kind == TP_K_TENSOR) v->as.tensor = own;
    }
    for (int k = 0, next = 0; k < from->op->nargs; k++) {
        if (from->values[k].kind == TP_K_TENSOR) next++;
        if (from->values[k].kind != TP_K_TENSORS) continue;
        tp_tensors list = from->values[k].as.tensors;
        out->values[k].as.tensors.v = out->lists + listed;
        for (int64_t i = 0; i < list.n; i++) out->lists[listed++] = list.v[i] ? out->tensors[next++] : NULL;
    }
    return true;
}

static tp_tensor *widened(tp_tensor *t, tp_device where) {
    (void)where;
    tp_dtype dtype = (tp_dtype)t->dtype;
    if (tp_dtype_is_complex(dtype))
        dtype = TP_COMPLEX128;
    else if (tp_dtype_is_floating(dtype))
        dtype = TP_FLOAT64;
    else if (dtype != TP_BOOL)
        dtype = TP_INT64;
    tp_tensor *wide = tpi_as_dtype_data(t, dtype),
              *own = wide ? wide == t ? tpi_contiguous_data(t) : tpi_retain(wide) : NULL;
    if (own == t) {
        tpi_release(own);
        own = tpi_empty_like(t, dtype);
        if (own) tpi_copy_data(own, t);
    }
    tpi_release(wide);
    return own;
}

bool widen_arguments(const arguments *from, arguments *out) { return exchange_arguments(from, out, widened, cpu); }

/* The whole storage travels, so that the tensor lies there as it does here. */
static tp_tensor *moved_to(tp_tensor *t, tp_device where) {
    const tpi_device_ops *ops = tpi_device_ops_of(where);
    tpi_storage *s = ops ? tpi_storage_new(where, t->storage->bytes) : NULL;
    if (s && t->storage->bytes && !ops->from_host(where, s->data, t->storage->data, t->storage->bytes)) {
        tpi_storage_release(s);
        s = NULL;
    }
    return s ? tpi_tensor_over(s, (tp_dtype)t->dtype, tpi_shape(t), tpi_strides(t), t->data - t->storage->data) : NULL;
}

bool move_arguments(const arguments *from, tp_device device, arguments *out) {
    if (!exchange_arguments(from, out, moved_to, device)) return false;
    for (int k = 0; k < out->op->nargs; k++)
        if (!strcmp(out->op->args[k].type, "device?")) out->values[k] = tp_value_device(device);
    return true;
}

void drop_arguments(arguments *args) {
    for (int i = 0; i < args->ntensors; i++) tp_release(args->tensors[i]);
    args->ntensors = 0;
}

int want_gradients(const operator_sample *sample, arguments *args, int *which) {
    int n = 0;
    for (int i = 0; i < args->ntensors; i++) {
        tp_tensor *t = args->tensors[i];
        if (sample->nondiff >> args->argument[i] & 1 ||
            !(tpi_dtype_category[t->dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX)))
            continue;
        if (!tp_set_requires_grad(t, true)) report_error("requiring gradients");
        which[n++] = i;
    }
    return n;
}

/* ---- Dtypes ---- */
bool sample_allows(const operator_sample *sample, tp_dtype dtype) {
    if (!(sample->types & tpi_dtype_group[dtype] & ~TPI_CAT_OPAQUE) ||
        (sample->no_half && (dtype == TP_FLOAT16 || dtype == TP_BFLOAT16)))
        return false;
    if (!sample->dtypes) return true;
    const char *name = tp_dtype_name(dtype), *found = sample->dtypes;
    size_t length = strlen(name);
    while ((found = strstr(found, name))) {
        if ((found == sample->dtypes || found[-1] == ' ') && (found[length] == ' ' || !found[length])) return true;
        found += length;
    }
    return false;
}

tp_dtype first_dtype(const operator_sample *sample) {
    static const tp_dtype order[] = {TP_FLOAT32, TP_FLOAT64, TP_COMPLEX64, TP_COMPLEX128, TP_INT64,   TP_INT32,
                                     TP_INT16,   TP_INT8,    TP_UINT8,     TP_BOOL,       TP_FLOAT16, TP_BFLOAT16};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (sample_allows(sample, order[i])) return order[i];
    return TP_FLOAT32;
}

/* ---- Calls ---- */
static bool drew;

bool call(const arguments *args, results *out) {
    tp_value values[8] = {{0}};
    tp_generator *g = tp_default_generator();
    *out = (results){0};
    tp_manual_seed(7);
    int left = g->left;
    uint32_t next = g->next;
    bool fine = args->op->invoke(args->values, values);
    drew = g->left != left || g->next != next;
    if (!fine) return false;
    for (int64_t i = 0; i < args->op->nresults; i++) {
        if (values[i].kind == TP_K_TENSOR)
            out->tensors[out->n++] = values[i].as.tensor;
        else if (values[i].kind == TP_K_SCALAR)
            out->plain = tp_scalar_to_double(values[i].as.scalar);
        else if (values[i].kind == TP_K_TENSORS) {
            for (int64_t k = 0; k < values[i].as.tensors.n && out->n < 32; k++)
                out->tensors[out->n++] = tpi_retain(values[i].as.tensors.v[k]);
            tp_release_all(values[i].as.tensors);
        }
    }
    return true;
}

void drop_results(results *r) {
    for (int i = 0; i < r->n; i++) tp_release(r->tensors[i]);
    r->n = 0;
}

bool call_was_random(void) { return drew; }

static bool among(const char *op, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(op, *names)) return true;
    return false;
}
bool leaves_memory_unset(const char *op) {
    static const char *const names[] = {
        "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", NULL};
    return among(op, names);
}
bool depends_on_strides(const char *op) {
    static const char *const names[] = {
        "as_strided", "as_strided_copy", "as_strided_scatter", "as_strided_backward",  "view", "view.dtype",
        "view_as",    "view_copy",       "view_as_complex",    "view_as_complex_copy", NULL};
    return among(op, names);
}

/* ---- Gradients ---- */
tp_tensor *weights_like(const tp_tensor *t, uint64_t seed) {
    tp_tensor *w = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, cpu);
    for (int64_t i = 0; w && i < w->numel; i++) {
        double re = normal(&seed);
        store(w, i, re, normal(&seed));
    }
    return w;
}

bool is_weighted(const tp_tensor *t) { return tpi_dtype_category[t->dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX); }

bool prepare(const operator_sample *sample, tp_dtype dtype, variant how, evaluation *e) {
    *e = (evaluation){0};
    if (!make_arguments(sample, dtype, how, NULL, &e->args)) return false;
    e->n = want_gradients(sample, &e->args, e->which);
    return true;
}

static tp_tensor *make_weights(const tp_tensor *result, int number, weighting how) {
    tp_tensor *w = weights_like(result, (uint64_t)number + 1);
    if (!w || how == WEIGHTS_ALL || !w->numel) return w;
    int64_t zeros[TP_MAX_DIMS] = {0};
    tp_tensor *view = tpi_alias(w, w->ndim, w->shape, zeros, 0);
    tp_tensor *out = view ? how == WEIGHTS_EXPANDED ? tpi_detached(view) : tpi_contiguous_data(view) : NULL;
    tp_release(view);
    tp_release(w);
    return out;
}

bool differentiate(evaluation *e, bool create_graph, weighting how) {
    tp_tensor *outputs[32], *weights[32], *inputs[MAX_TENSORS];
    int n = 0;
    for (int i = 0; i < e->results.n; i++) {
        tp_tensor *t = e->results.tensors[i];
        if (!is_weighted(t) || !tp_requires_grad(t)) continue;
        e->weights[i] = make_weights(t, i, how);
        if (e->weights[i] && tpi_device(t).type != TP_CPU) {
            tp_tensor *there = moved_to(e->weights[i], tpi_device(t));
            tp_release(e->weights[i]);
            e->weights[i] = there;
        }
        if (!e->weights[i] || (create_graph && !tp_set_requires_grad(e->weights[i], true))) return false;
        outputs[n] = t;
        weights[n++] = e->weights[i];
    }
    for (int i = 0; i < e->n; i++) inputs[i] = e->args.tensors[e->which[i]];
    tp_grad_options options = {.size = sizeof options, .create_graph = create_graph, .allow_unused = true};
    return !n || tp_gradients((tp_tensors){outputs, n}, (tp_tensors){inputs, e->n}, weights, e->grads, &options);
}

void drop_evaluation(evaluation *e) {
    for (int i = 0; i < e->results.n; i++) tp_release(e->weights[i]);
    for (int i = 0; i < e->n; i++) tp_release(e->grads[i]);
    drop_results(&e->results);
    drop_arguments(&e->args);
    *e = (evaluation){0};
}
