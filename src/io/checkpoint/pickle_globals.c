/* What the names in a pickle stand for: the classes and functions that PyTorch's checkpoints are made of, each
 * understood as the value it makes. No other name means anything here; one that the caller lets through becomes a value
 * that carries it, and nothing is called. */
#include "base/dtype.h"
#include "base/error.h"
#include "io/checkpoint/pickle.h"
#include "tensor/storage.h"
#include <stdio.h>

enum {
    G_OTHER = 0, /* let through by the caller */
    G_CLASS,     /* a name that may be mentioned but not called */
    G_ORDERED_DICT,
    G_COUNTER,
    G_SET,
    G_BYTEARRAY,
    G_COMPLEX,
    G_ENCODE,
    G_SIZE,
    G_DEVICE,
    G_LAYOUT,
    G_TENSOR,
    G_PARAMETER,
    G_REBUILD,
    G_REBUILD_V2,
    G_REBUILD_V3,
    G_REBUILD_META,
    G_REBUILD_PARAMETER,
    G_REBUILD_PARAMETER_STATE,
    G_REBUILD_TYPE,
    G_REBUILD_WRAPPER,
    G_SPARSE,  /* makes a sparse tensor of a layout and dense ones: an object, which Python makes */
    G_NESTED,  /* makes a nested tensor of a buffer, sizes, strides and offsets: an object, too */
    G_ABSENT,  /* makes a kind of tensor that Taper has not */
    G_STORAGE, /* torch.FloatStorage */
    G_UNTYPED
};

static const struct known {
    const char *name;
    uint8_t code;
} known[] = {
    {"collections.OrderedDict", G_ORDERED_DICT},
    {"collections.Counter", G_COUNTER},
    {"builtins.set", G_SET},
    {"builtins.bytearray", G_BYTEARRAY},
    {"builtins.complex", G_COMPLEX},
    {"_codecs.encode", G_ENCODE},
    {"torch.Size", G_SIZE},
    {"torch.device", G_DEVICE},
    {"torch.serialization._get_layout", G_LAYOUT},
    {"torch.Tensor", G_TENSOR},
    {"torch.nn.parameter.Parameter", G_PARAMETER},
    {"torch._utils._rebuild_tensor", G_REBUILD},
    {"torch._utils._rebuild_tensor_v2", G_REBUILD_V2},
    {"torch._utils._rebuild_tensor_v3", G_REBUILD_V3},
    {"torch._utils._rebuild_parameter", G_REBUILD_PARAMETER},
    {"torch._utils._rebuild_parameter_with_state", G_REBUILD_PARAMETER_STATE},
    {"torch._tensor._rebuild_from_type_v2", G_REBUILD_TYPE},
    {"torch._utils._rebuild_sparse_tensor", G_SPARSE},
    {"torch._utils._rebuild_nested_tensor", G_NESTED},
    {"torch._utils._rebuild_qtensor", G_ABSENT},
    {"torch._utils._rebuild_meta_tensor_no_storage", G_REBUILD_META},
    {"torch._utils._rebuild_wrapper_subclass", G_REBUILD_WRAPPER},
    {"torch._utils._rebuild_device_tensor_from_numpy", G_ABSENT},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", G_ABSENT},
    {"torch.storage.UntypedStorage", G_UNTYPED},
    {"torch.storage.TypedStorage", G_CLASS},
    {"torch.UntypedStorage", G_UNTYPED},
};

/* The words of torch.FloatStorage and its like, and the dtypes they hold. */
static const struct storage_word {
    const char *word, *dtype;
} storage_words[] = {
    {"Float", "float32"},
    {"Double", "float64"},
    {"Half", "float16"},
    {"BFloat16", "bfloat16"},
    {"Long", "int64"},
    {"Int", "int32"},
    {"Short", "int16"},
    {"Char", "int8"},
    {"Byte", "uint8"},
    {"Bool", "bool"},
    {"ComplexFloat", "complex64"},
    {"ComplexDouble", "complex128"},
    {"QInt8", "qint8"},
    {"QUInt8", "quint8"},
    {"QInt32", "qint32"},
    {"QUInt4x2", "quint4x2"},
    {"QUInt2x4", "quint2x4"},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const layouts[] = {"torch.strided",    "torch.sparse_coo", "torch.sparse_csr",
                                      "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc"};

static bool is_dtype(const char *name) { return tp_dtype_by_name(name) != TP_NO_DTYPE; }

static const char *storage_dtype(const char *full) { /* "torch.FloatStorage" -> "float32"; NULL for others */
    const char *word = strncmp(full, "torch.cuda.", 11) == 0 ? full + 11
                       : strncmp(full, "torch.", 6) == 0     ? full + 6
                                                             : "";
    size_t n = strlen(word);
    if (n <= 7 || strcmp(word + n - 7, "Storage") != 0) return NULL;
    for (size_t i = 0; i < COUNT(storage_words); i++)
        if (strlen(storage_words[i].word) == n - 7 && strncmp(word, storage_words[i].word, n - 7) == 0)
            return storage_words[i].dtype;
    return NULL;
}

bool tpi_storage_type(const tp_saved *g, tp_dtype *dtype, const char **dtype_name, bool *untyped) {
    if (g->kind != TP_SAVED_GLOBAL || (g->global != G_STORAGE && g->global != G_UNTYPED)) return false;
    *untyped = g->global == G_UNTYPED;
    *dtype_name = *untyped ? "bytes" : storage_dtype(g->as.text);
    *dtype = *untyped ? TP_NO_DTYPE : tp_dtype_by_name(*dtype_name);
    return true;
}

/* ---- Names ---- */

static uint8_t code_of(const char *full) {
    for (size_t i = 0; i < COUNT(known); i++)
        if (strcmp(full, known[i].name) == 0) return known[i].code;
    return storage_dtype(full) ? G_STORAGE : G_OTHER;
}

static bool is_allowed(const tpi_pickle *p, const char *full) {
    for (int64_t i = 0; i < p->nallowed; i++)
        if (strcmp(full, p->allowed[i]) == 0) return true;
    return p->any_global;
}

static bool note(const tpi_pickle *p, const char *full) { /* a name that only the caller may let through */
    if (!p->globals) return true;
    for (int64_t i = 0; i < p->globals->n; i++)
        if (strcmp(p->globals->as.items.v[i]->as.text, full) == 0) return true;
    if (p->globals->n == TPI_PICKLE_NAMES)
        return tpi_refuse(TP_ERR_VALUE, "'%s': its pickle names more than %d classes and functions", p->path,
                          TPI_PICKLE_NAMES);
    return tpi_saved_append(p->arena, p->globals, tpi_saved_text(p->arena, TP_SAVED_TEXT, full, strlen(full)));
}

tp_saved *tpi_global(const tpi_pickle *p, const char *module, const char *name) {
    if (strcmp(module, "__builtin__") == 0) module = "builtins"; /* as Python 2 called it */
    if (strcmp(module, "torch") == 0 && is_dtype(name))
        return tpi_saved_text(p->arena, TP_SAVED_DTYPE, name, strlen(name));
    size_t n = strlen(module), k = strlen(name);
    char *full = tpi_arena_new(p->arena, n + k + 2);
    if (!full) return NULL;
    memcpy(full, module, n);
    full[n] = '.';
    memcpy(full + n + 1, name, k + 1);
    uint8_t code = code_of(full);
    if (code == G_OTHER) {
        if (!note(p, full)) return NULL;
        if (!is_allowed(p, full))
            return tpi_fail(TP_ERR_VALUE, "Unsupported global: GLOBAL %s was not an allowed global by default", full);
    }
    tp_saved *g = tpi_saved_new(p->arena, TP_SAVED_GLOBAL);
    if (!g) return NULL;
    g->n = (int64_t)(n + k + 1);
    g->as.text = full;
    g->global = code;
    return g;
}

/* ---- Plain values ---- */

static void *wrong(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    return tpi_fail(TP_ERR_VALUE, "'%s': its pickle calls %s with %lld arguments that do not fit", p->path,
                    call->as.text, (long long)args->n);
}

static const tp_saved *argument(const tp_saved *args, int64_t i) { return i < args->n ? args->as.items.v[i] : NULL; }

static tp_saved *make_dict(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    tp_saved *dict = tpi_saved_new(p->arena, TP_SAVED_DICT);
    if (!dict || args->n == 0) {
        if (dict) dict->class_name = call->as.text;
        return dict;
    }
    dict->class_name = call->as.text;
    const tp_saved *from = argument(args, 0);
    if (args->n > 1 || (from->kind != TP_SAVED_DICT && from->kind != TP_SAVED_LIST)) return wrong(p, call, args);
    bool ok = true;
    for (int64_t i = 0; ok && i < from->n; i++) {
        tp_saved **v = from->as.items.v, *pair = from->kind == TP_SAVED_LIST ? v[i] : NULL;
        if (pair && ((pair->kind != TP_SAVED_LIST && pair->kind != TP_SAVED_TUPLE) || pair->n != 2))
            return wrong(p, call, args);
        tp_saved *key = pair ? pair->as.items.v[0] : v[2 * i];
        if (!tpi_is_hashable(key)) return wrong(p, call, args);
        ok = tpi_saved_put(p->arena, dict, key, pair ? pair->as.items.v[1] : v[2 * i + 1]);
    }
    return ok ? dict : NULL;
}

static tp_saved *make_set(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *from = argument(args, 0);
    if (args->n > 1 || (from && from->kind != TP_SAVED_LIST && from->kind != TP_SAVED_TUPLE))
        return wrong(p, call, args);
    tp_saved *set = tpi_saved_new(p->arena, TP_SAVED_SET);
    for (int64_t i = 0; set && from && i < from->n; i++) {
        if (!tpi_is_hashable(from->as.items.v[i])) return wrong(p, call, args);
        if (!tpi_saved_append(p->arena, set, from->as.items.v[i])) return NULL;
    }
    return set;
}

/* Protocol 2 writes bytes as text whose code points are the bytes. */
static tp_saved *make_bytes(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *text = argument(args, 0), *encoding = argument(args, 1);
    if (args->n == 1 && call->global == G_BYTEARRAY && text->kind == TP_SAVED_BYTES) {
        tp_saved *v = tpi_saved_text(p->arena, TP_SAVED_BYTES, text->as.text, (size_t)text->n);
        if (v) v->class_name = call->as.text;
        return v;
    }
    bool empty = args->n == 0 && call->global == G_BYTEARRAY;
    if (!empty && (args->n != 2 || text->kind != TP_SAVED_TEXT ||
                   !(tpi_is_text(encoding, "latin1") || tpi_is_text(encoding, "latin-1"))))
        return wrong(p, call, args);
    char *bytes = tpi_arena_new(p->arena, empty ? 1 : (size_t)text->n + 1);
    if (!bytes) return NULL;
    size_t n = 0;
    for (const unsigned char *s = empty ? NULL : (const unsigned char *)text->as.text,
                             *end = empty ? NULL : s + text->n;
         s < end; n++) {
        if (*s >= 0xc4) return wrong(p, call, args); /* beyond Latin-1 */
        unsigned c = *s < 0x80 ? *s : (unsigned)(*s & 3) << 6 | (s[1] & 0x3f);
        s += *s < 0x80 ? 1 : 2;
        bytes[n] = (char)c;
    }
    tp_saved *v = tpi_saved_new(p->arena, TP_SAVED_BYTES);
    if (!v) return NULL;
    v->n = (int64_t)n;
    v->as.text = bytes;
    if (call->global == G_BYTEARRAY) v->class_name = call->as.text;
    return v;
}

static tp_saved *make_complex(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *re = argument(args, 0), *im = argument(args, 1);
    if (args->n != 2 || re->kind != TP_SAVED_NUMBER || im->kind != TP_SAVED_NUMBER) return wrong(p, call, args);
    return tpi_saved_number(p->arena, tp_cplx(tp_scalar_to_double(re->as.number), tp_scalar_to_double(im->as.number)));
}

static tp_saved *make_size(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *from = argument(args, 0);
    if (args->n > 1 || (from && from->kind != TP_SAVED_TUPLE && from->kind != TP_SAVED_LIST))
        return wrong(p, call, args);
    tp_saved *size = tpi_saved_new(p->arena, TP_SAVED_SIZE);
    for (int64_t i = 0; size && from && i < from->n; i++) {
        if (!tpi_is_int(from->as.items.v[i])) return wrong(p, call, args);
        if (!tpi_saved_append(p->arena, size, from->as.items.v[i])) return NULL;
    }
    return size;
}

static tp_saved *make_device(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *type = argument(args, 0), *index = argument(args, 1);
    if (args->n < 1 || args->n > 2 || type->kind != TP_SAVED_TEXT || type->n > 32 || (index && !tpi_is_int(index)))
        return wrong(p, call, args);
    char text[64];
    int n = index ? snprintf(text, sizeof text, "%s:%lld", type->as.text, (long long)index->as.number.as.i)
                  : snprintf(text, sizeof text, "%s", type->as.text);
    return tpi_saved_text(p->arena, TP_SAVED_DEVICE, text, (size_t)n);
}

/* ---- Tensors ---- */

static int64_t *ints(const tpi_pickle *p, const tp_saved *from, int *n) {
    if (!from || (from->kind != TP_SAVED_TUPLE && from->kind != TP_SAVED_LIST && from->kind != TP_SAVED_SIZE))
        return NULL;
    if (from->n > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "'%s': a tensor has %lld dimensions, at most %d are possible", p->path,
                        (long long)from->n, TP_MAX_DIMS);
    int64_t *list = tpi_arena_new(p->arena, ((size_t)from->n + 1) * sizeof *list);
    for (int64_t i = 0; list && i < from->n; i++) {
        if (!tpi_is_int(from->as.items.v[i])) return NULL;
        list[i] = from->as.items.v[i]->as.number.as.i;
    }
    *n = (int)from->n;
    return list;
}

/* Does what a file says of a tensor besides, {"conj": True}, have this? */
static bool is_marked(const tp_saved *metadata, const char *mark) {
    for (int64_t i = 0; metadata && metadata->kind == TP_SAVED_DICT && i < metadata->n; i++) {
        const tp_saved *value = metadata->as.items.v[2 * i + 1];
        if (tpi_is_text(metadata->as.items.v[2 * i], mark)) return tpi_is_bool(value) && value->as.number.as.i;
    }
    return false;
}

/* (storage, offset, size, stride, requires_grad, hooks, [dtype of v3], [metadata]) */
static tp_saved *make_tensor(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *storage = argument(args, 0), *offset = argument(args, 1), *grad = argument(args, 4),
                   *dtype = argument(args, 6);
    int64_t least = call->global == G_REBUILD ? 4 : call->global == G_REBUILD_V3 ? 7 : 6;
    if (args->n < least || args->n > least + 1 || storage->kind != TP_SAVED_STORAGE || !tpi_is_int(offset) ||
        (least > 4 && !tpi_is_bool(grad)) || (call->global == G_REBUILD_V3 && dtype->kind != TP_SAVED_DTYPE))
        return wrong(p, call, args);
    tp_saved *t = tpi_saved_new(p->arena, TP_SAVED_TENSOR);
    tpi_view *view = t ? tpi_arena_new(p->arena, sizeof *view) : NULL;
    if (!view) return NULL;
    t->as.view = view;
    int nstrides = 0;
    view->storage = args->as.items.v[0];
    view->offset = offset->as.number.as.i;
    view->shape = ints(p, argument(args, 2), &view->ndim);
    view->strides = ints(p, argument(args, 3), &nstrides);
    if (!view->shape || !view->strides || nstrides != view->ndim) return wrong(p, call, args);
    view->requires_grad = least > 4 && grad->as.number.as.i;
    const tpi_store *store = storage->as.storage.store;
    view->dtype = call->global == G_REBUILD_V3 ? tp_dtype_by_name(dtype->as.text)
                  : store->untyped             ? TP_UINT8
                                               : store->dtype;
    view->dtype_name = call->global == G_REBUILD_V3 ? dtype->as.text : store->dtype_name;
    const tp_saved *metadata = call->global == G_REBUILD ? NULL : argument(args, least);
    view->conjugated = is_marked(metadata, "conj");
    view->negated = is_marked(metadata, "neg");
    return t;
}

/* (dtype, size, stride, requires_grad): a tensor without elements has a store of no file, of which its size is all
 * there is. */
static tp_saved *make_meta_tensor(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *dtype = argument(args, 0), *grad = argument(args, 3);
    if (args->n != 4 || dtype->kind != TP_SAVED_DTYPE || !tpi_is_bool(grad)) return wrong(p, call, args);
    tp_saved *t = tpi_saved_new(p->arena, TP_SAVED_TENSOR), *s = t ? tpi_saved_new(p->arena, TP_SAVED_STORAGE) : NULL;
    tpi_view *view = s ? tpi_arena_new(p->arena, sizeof *view) : NULL;
    tpi_store *store = view ? tpi_arena_new(p->arena, sizeof *store) : NULL;
    if (!store) return NULL;
    int nstrides = 0;
    *view = (tpi_view){.storage = s,
                       .dtype = tp_dtype_by_name(dtype->as.text),
                       .dtype_name = dtype->as.text,
                       .requires_grad = grad->as.number.as.i};
    view->shape = ints(p, argument(args, 1), &view->ndim);
    view->strides = ints(p, argument(args, 2), &nstrides);
    if (!view->shape || !view->strides || nstrides != view->ndim) return wrong(p, call, args);
    if (view->dtype == TP_NO_DTYPE)
        return tpi_fail(TP_ERR_MISSING, "'%s': dtype %s is not in Taper", p->path, view->dtype_name);
    int64_t bytes =
        tpi_span_bytes(tp_ints_view(view->shape, view->ndim), tp_ints_view(view->strides, view->ndim), view->dtype);
    char key[40];
    snprintf(key, sizeof key, "meta %p", (void *)store);
    *store = (tpi_store){.key = tpi_arena_text(p->arena, key, strlen(key)),
                         .location = "meta",
                         .dtype = view->dtype,
                         .dtype_name = view->dtype_name,
                         .bytes = bytes};
    if (bytes < 0 || !store->key) return NULL;
    s->as.storage.store = store;
    s->as.storage.numel = store->numel = bytes / tp_dtype_size(view->dtype);
    t->as.view = view;
    return t;
}

/* The tensor again as another class, with attributes. */
static tp_saved *make_typed(const tpi_pickle *p, const tp_saved *tensor, const char *class_name, const tp_saved *grad,
                            tp_saved *state) {
    tp_saved *t = tpi_saved_new(p->arena, TP_SAVED_TENSOR);
    tpi_view *view = t ? tpi_arena_new(p->arena, sizeof *view) : NULL;
    if (!view) return NULL;
    *view = *tensor->as.view;
    if (grad) view->requires_grad = grad->as.number.as.i;
    t->as.view = view;
    t->class_name = class_name;
    if (state && state->kind != TP_SAVED_NONE) {
        if (!tpi_saved_parts(p->arena, t)) return NULL;
        t->parts->state = state;
    }
    return t;
}

static tp_saved *make_parameter(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *tensor = argument(args, 0), *grad = argument(args, 1);
    bool with_state = call->global == G_REBUILD_PARAMETER_STATE;
    if (args->n != 3 + with_state || tensor->kind != TP_SAVED_TENSOR || !tpi_is_bool(grad)) return wrong(p, call, args);
    return make_typed(p, tensor, "torch.nn.parameter.Parameter", grad, with_state ? args->as.items.v[3] : NULL);
}

/* (function, class, its arguments, attributes) */
static tp_saved *make_of_type(const tpi_pickle *p, const tp_saved *call, const tp_saved *args) {
    const tp_saved *function = argument(args, 0), *type = argument(args, 1), *inner = argument(args, 2);
    if (args->n != 4 || function->kind != TP_SAVED_GLOBAL || type->kind != TP_SAVED_GLOBAL ||
        inner->kind != TP_SAVED_TUPLE)
        return wrong(p, call, args);
    bool meta = function->global == G_REBUILD_META;
    if (!meta && function->global != G_REBUILD && function->global != G_REBUILD_V2 && function->global != G_REBUILD_V3)
        return wrong(p, call, args);
    if (type->global != G_OTHER && type->global != G_TENSOR && type->global != G_PARAMETER) return wrong(p, call, args);
    tp_saved *tensor = meta ? make_meta_tensor(p, function, inner) : make_tensor(p, function, inner);
    return tensor ? make_typed(p, tensor, type->global == G_TENSOR ? NULL : type->as.text, NULL, args->as.items.v[3])
                  : NULL;
}

/* A wrapper has no elements: its class, which the caller let through, makes it, and its attributes hold the rest. */
static bool makes_wrapper(const tp_saved *args) {
    const tp_saved *function = argument(args, 0), *type = argument(args, 1), *inner = argument(args, 2);
    if (args->n != 4 || function->kind != TP_SAVED_GLOBAL || function->global != G_REBUILD_WRAPPER) return false;
    if (type->kind != TP_SAVED_GLOBAL || type->global != G_OTHER || inner->kind != TP_SAVED_TUPLE) return false;
    const tp_saved *again = argument(inner, 0);
    return inner->n == 8 && again->kind == TP_SAVED_GLOBAL && strcmp(again->as.text, type->as.text) == 0;
}

/* ---- Calls ----
 */

static tp_saved *make_object(const tpi_pickle *p, tp_saved *call, tp_saved *args, tp_saved *kwargs, bool by_new) {
    tp_saved *v = tpi_saved_new(p->arena, TP_SAVED_OBJECT);
    if (!v || !tpi_saved_parts(p->arena, v)) return NULL;
    *v->parts = (tpi_parts){.call = call, .args = args, .kwargs = kwargs, .by_new = by_new};
    if (call->kind == TP_SAVED_GLOBAL) v->class_name = call->as.text;
    return v;
}

static void *not_callable(const tpi_pickle *p, const tp_saved *call) {
    return tpi_fail(TP_ERR_VALUE, "'%s': its pickle calls %s, which is not a function that makes values", p->path,
                    call->kind == TP_SAVED_GLOBAL ? call->as.text : tpi_kind_name(call));
}

tp_saved *tpi_global_call(const tpi_pickle *p, tp_saved *call, tp_saved *args) {
    if (call->kind != TP_SAVED_GLOBAL)
        return p->any_global ? make_object(p, call, args, NULL, false) : not_callable(p, call);
    switch (call->global) {
    case G_OTHER: return make_object(p, call, args, NULL, false);
    case G_SPARSE: /* (layout, (indices, values, size, ...)) */
        if (args->n != 2 || args->as.items.v[0]->kind != TP_SAVED_OBJECT || args->as.items.v[1]->kind != TP_SAVED_TUPLE)
            return wrong(p, call, args);
        return make_object(p, call, args, NULL, false);
    case G_NESTED:
        if (args->n != 4) return wrong(p, call, args);
        for (int64_t i = 0; i < 4; i++)
            if (args->as.items.v[i]->kind != TP_SAVED_TENSOR) return wrong(p, call, args);
        return make_object(p, call, args, NULL, false);
    case G_ORDERED_DICT:
    case G_COUNTER: return make_dict(p, call, args);
    case G_SET: return make_set(p, call, args);
    case G_BYTEARRAY:
    case G_ENCODE: return make_bytes(p, call, args);
    case G_COMPLEX: return make_complex(p, call, args);
    case G_SIZE: return make_size(p, call, args);
    case G_DEVICE: return make_device(p, call, args);
    case G_LAYOUT:
        if (args->n != 1 || args->as.items.v[0]->kind != TP_SAVED_TEXT) return wrong(p, call, args);
        for (size_t i = 0; i < COUNT(layouts); i++)
            if (tpi_is_text(args->as.items.v[0], layouts[i])) return make_object(p, call, args, NULL, false);
        return tpi_fail(TP_ERR_MISSING,
                        "'%s': its layout is none of torch.strided, sparse_coo, sparse_csr and sparse_csc", p->path);
    case G_REBUILD:
    case G_REBUILD_V2:
    case G_REBUILD_V3: return make_tensor(p, call, args);
    case G_REBUILD_META: return make_meta_tensor(p, call, args);
    case G_REBUILD_PARAMETER:
    case G_REBUILD_PARAMETER_STATE: return make_parameter(p, call, args);
    case G_REBUILD_TYPE:
        return makes_wrapper(args) ? make_object(p, call, args, NULL, false) : make_of_type(p, call, args);
    case G_ABSENT:
        return tpi_fail(TP_ERR_MISSING, "'%s': it holds a tensor made by %s, a kind that Taper has not", p->path,
                        call->as.text);
    default: return not_callable(p, call);
    }
}

tp_saved *tpi_global_new(const tpi_pickle *p, tp_saved *cls, tp_saved *args, tp_saved *kwargs) {
    if (cls->kind == TP_SAVED_GLOBAL && cls->global == G_OTHER) return make_object(p, cls, args, kwargs, true);
    bool dict = cls->kind == TP_SAVED_GLOBAL &&
                (cls->global == G_ORDERED_DICT || cls->global == G_COUNTER || cls->global == G_SET);
    if (dict && args->n == 0 && (!kwargs || kwargs->n == 0)) return tpi_global_call(p, cls, args);
    return p->any_global ? make_object(p, cls, args, kwargs, true) : not_callable(p, cls);
}

bool tpi_global_build(const tpi_pickle *p, tp_saved *v, tp_saved *state) {
    bool object =
        v->kind == TP_SAVED_OBJECT && (v->parts->call->kind != TP_SAVED_GLOBAL || v->parts->call->global == G_OTHER);
    bool allowed = object || /* no sparse tensor, no layout */
                   (v->kind == TP_SAVED_DICT && v->class_name &&
                    state->kind == TP_SAVED_DICT); /* an OrderedDict's attributes: _metadata */
    if (!allowed && !p->any_global)
        return tpi_refuse(TP_ERR_VALUE, "'%s': its pickle sets the state of %s, which has none", p->path,
                          tpi_kind_name(v));
    if (!tpi_saved_parts(p->arena, v)) return false;
    if (v->parts->state && !p->any_global)
        return tpi_refuse(TP_ERR_VALUE, "'%s': its pickle sets the state of %s twice", p->path, tpi_kind_name(v));
    v->parts->state = state;
    return true;
}
