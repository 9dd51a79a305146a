/* Values as pickles of protocol 2, in the opcodes and names that PyTorch's own files have. A value that stands in
 * several places is written in each; tensors keep sharing memory through their storages. */
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/zip_format.h"
#include <stdlib.h>

enum { DEEPEST = 100 };

typedef struct writer {
    tpi_wire *out;
    const char *path;
    const char *(*name)(void *context, const tp_saved *storage);
    void *context;
    bool objects;
} writer;

static bool put(writer *w, const void *data, size_t n) {
    tpi_wire_raw(w->out, data, n);
    return !w->out->failed;
}

static bool op(writer *w, unsigned char code) { return put(w, &code, 1); }

static bool global(writer *w, const char *module, const char *name) {
    return op(w, 'c') && put(w, module, strlen(module)) && op(w, '\n') && put(w, name, strlen(name)) && op(w, '\n');
}

static bool text(writer *w, const char *s, size_t n) {
    unsigned char head[5] = {'X'};
    if (n > UINT32_MAX) return tpi_refuse(TP_ERR_VALUE, "'%s': a text of %zu bytes is too long", w->path, n);
    put32(head + 1, (uint32_t)n);
    return put(w, head, sizeof head) && put(w, s, n);
}

static bool integer(writer *w, int64_t v) {
    unsigned char code[10];
    if (v >= 0 && v < 256) return put(w, (unsigned char[]){'K', (unsigned char)v}, 2);
    if (v >= 0 && v < 65536) {
        code[0] = 'M';
        put16(code + 1, (uint16_t)v);
        return put(w, code, 3);
    }
    if (v >= INT32_MIN && v <= INT32_MAX) {
        code[0] = 'J';
        put32(code + 1, (uint32_t)v);
        return put(w, code, 5);
    }
    code[0] = 0x8a;
    code[1] = 8;
    put64(code + 2, (uint64_t)v);
    return put(w, code, 10);
}

static bool write_float(writer *w, double d) {
    union {
        double d;
        uint64_t u;
    } v = {d};
    unsigned char code[9] = {'G'};
    for (int i = 0; i < 8; i++) code[1 + i] = (unsigned char)(v.u >> 8 * (7 - i));
    return put(w, code, sizeof code);
}

static bool number(writer *w, tp_scalar s) {
    switch (s.kind) {
    case TP_SCALAR_BOOL: return op(w, s.as.i ? 0x88 : 0x89);
    case TP_SCALAR_INT: return integer(w, s.as.i);
    case TP_SCALAR_FLOAT: return write_float(w, s.as.d[0]);
    case TP_SCALAR_COMPLEX:
        return global(w, "__builtin__", "complex") && write_float(w, s.as.d[0]) && write_float(w, s.as.d[1]) &&
               op(w, 0x86) && op(w, 'R');
    default: return tpi_refuse(TP_ERR_VALUE, "'%s': a number without a value cannot be written", w->path);
    }
}

static bool long_integer(writer *w, const tp_saved *v) {
    unsigned char head[5] = {0x8b};
    put32(head + 1, (uint32_t)v->n);
    return put(w, head, sizeof head) && put(w, v->as.text, (size_t)v->n);
}

/* As text whose code points are the bytes: protocol 2 has no bytes. */
static bool bytes(writer *w, const tp_saved *v) {
    size_t n = 0;
    for (int64_t i = 0; i < v->n; i++) n += (unsigned char)v->as.text[i] < 0x80 ? 1 : 2;
    unsigned char head[5] = {'X'};
    put32(head + 1, (uint32_t)n);
    bool ok = (v->class_name ? global(w, "__builtin__", "bytearray") : global(w, "_codecs", "encode")) &&
              put(w, head, sizeof head);
    for (int64_t i = 0; ok && i < v->n; i++) {
        unsigned char c = (unsigned char)v->as.text[i],
                      two[2] = {(unsigned char)(0xc0 | c >> 6), (unsigned char)(0x80 | (c & 0x3f))};
        ok = c < 0x80 ? put(w, &c, 1) : put(w, two, 2);
    }
    return ok && text(w, v->class_name ? "latin-1" : "latin1", v->class_name ? 7 : 6) && op(w, 0x86) && op(w, 'R');
}

static bool sizes(writer *w, const int64_t *v, int n) {
    bool ok = op(w, '(');
    for (int i = 0; ok && i < n; i++) ok = integer(w, v[i]);
    return ok && op(w, 't');
}

static const char *storage_word(tp_dtype dtype) {
    static const char *const words[TP_DTYPE_COUNT] = {
        [TP_BOOL] = "BoolStorage",
        [TP_UINT8] = "ByteStorage",
        [TP_INT8] = "CharStorage",
        [TP_INT16] = "ShortStorage",
        [TP_INT32] = "IntStorage",
        [TP_INT64] = "LongStorage",
        [TP_FLOAT16] = "HalfStorage",
        [TP_BFLOAT16] = "BFloat16Storage",
        [TP_FLOAT32] = "FloatStorage",
        [TP_FLOAT64] = "DoubleStorage",
        [TP_COMPLEX64] = "ComplexFloatStorage",
        [TP_COMPLEX128] = "ComplexDoubleStorage",
        [TP_QINT8] = "QInt8Storage",
        [TP_QUINT8] = "QUInt8Storage",
        [TP_QINT32] = "QInt32Storage",
        [TP_QUINT4X2] = "QUInt4x2Storage",
        [TP_QUINT2X4] = "QUInt2x4Storage",
    };
    return words[dtype];
}

bool tpi_has_storage_class(tp_dtype dtype) { return storage_word(dtype) != NULL; }

static bool storage_id(writer *w, const tp_saved *v) {
    const tpi_store *s = v->as.storage.store;
    const char *key = w->name(w->context, v);
    if (!key) return false;
    return op(w, '(') && text(w, "storage", 7) &&
           (s->untyped ? global(w, "torch.storage", "UntypedStorage") : global(w, "torch", storage_word(s->dtype))) &&
           text(w, key, strlen(key)) && text(w, s->location, strlen(s->location)) &&
           integer(w, s->untyped ? s->bytes : s->numel) && op(w, 't') && op(w, 'Q');
}

/* A tensor's metadata, {"conj": True}, where it has any. */
static bool marks(writer *w, const tpi_view *t) {
    return (!t->conjugated && !t->negated) ||
           (op(w, '}') && (!t->conjugated || (text(w, "conj", 4) && op(w, 0x88) && op(w, 's'))) &&
            (!t->negated || (text(w, "neg", 3) && op(w, 0x88) && op(w, 's'))));
}

static bool tensor(writer *w, const tp_saved *v) {
    const tpi_view *t = v->as.view;
    bool parameter = v->class_name && strcmp(v->class_name, "torch.nn.parameter.Parameter") == 0,
         v3 = t->storage->as.storage.store->untyped;
    if (v->class_name && !parameter)
        return tpi_refuse(TP_ERR_VALUE, "'%s': a tensor of class %s cannot be written", w->path, v->class_name);
    bool ok = (!parameter || global(w, "torch._utils", "_rebuild_parameter")) &&
              global(w, "torch._utils", v3 ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2") && op(w, '(') &&
              storage_id(w, t->storage) && integer(w, t->offset + t->storage->as.storage.first) &&
              sizes(w, t->shape, t->ndim) && sizes(w, t->strides, t->ndim) &&
              op(w, t->requires_grad && !parameter ? 0x88 : 0x89) && global(w, "collections", "OrderedDict") &&
              op(w, ')') && op(w, 'R') && (!v3 || global(w, "torch", t->dtype_name)) && marks(w, t) && op(w, 't') &&
              op(w, 'R');
    if (!ok || !parameter) return ok;
    return op(w, t->requires_grad ? 0x88 : 0x89) && global(w, "collections", "OrderedDict") && op(w, ')') &&
           op(w, 'R') && op(w, 0x87) && op(w, 'R');
}

static bool device(writer *w, const tp_saved *v) {
    const char *colon = strchr(v->as.text, ':');
    size_t n = colon ? (size_t)(colon - v->as.text) : (size_t)v->n;
    return global(w, "torch", "device") && text(w, v->as.text, n) && (!colon || integer(w, atoll(colon + 1))) &&
           op(w, colon ? 0x86 : 0x85) && op(w, 'R');
}

static bool value(writer *w, const tp_saved *v, int depth);

static bool items(writer *w, const tp_saved *v, int depth) {
    bool ok = op(w, '(');
    for (int64_t i = 0, n = v->kind == TP_SAVED_DICT ? 2 * v->n : v->n; ok && i < n; i++)
        ok = value(w, v->as.items.v[i], depth + 1);
    return ok;
}

static bool dict(writer *w, const tp_saved *v, int depth) {
    const char *dot = v->class_name ? strrchr(v->class_name, '.') : NULL;
    bool ok = dot ? global(w, "collections", dot + 1) && op(w, ')') && op(w, 'R') : op(w, '}');
    ok = ok && (v->n == 0 || (items(w, v, depth) && op(w, 'u')));
    return ok && (!dot || !v->parts || !v->parts->state || (value(w, v->parts->state, depth + 1) && op(w, 'b')));
}

/* What a class or function makes of its arguments, and the state that it is given. */
static bool object(writer *w, const tp_saved *v, int depth) {
    const tpi_parts *p = v->parts;
    const char *dot =
        w->objects && p->call->kind == TP_SAVED_GLOBAL && !p->kwargs ? strrchr(p->call->as.text, '.') : NULL;
    if (!dot) return tpi_refuse(TP_ERR_VALUE, "'%s': %s cannot be written, only values can", w->path, tpi_kind_name(v));
    bool ok = op(w, 'c') && put(w, p->call->as.text, (size_t)(dot - p->call->as.text)) && op(w, '\n') &&
              put(w, dot + 1, strlen(dot + 1)) && op(w, '\n');
    ok = ok && value(w, p->args, depth + 1) && op(w, p->by_new ? 0x81 : 'R');
    return ok && (!p->state || (value(w, p->state, depth + 1) && op(w, 'b')));
}

static bool value(writer *w, const tp_saved *v, int depth) {
    if (depth > DEEPEST)
        return tpi_refuse(TP_ERR_VALUE, "'%s': values are nested more than %d deep, or hold themselves", w->path,
                          DEEPEST);
    switch (v->kind) {
    case TP_SAVED_NONE: return op(w, 'N');
    case TP_SAVED_NUMBER: return number(w, v->as.number);
    case TP_SAVED_LONG: return long_integer(w, v);
    case TP_SAVED_TEXT: return text(w, v->as.text, (size_t)v->n);
    case TP_SAVED_BYTES: return bytes(w, v);
    case TP_SAVED_LIST: return op(w, ']') && (v->n == 0 || (items(w, v, depth) && op(w, 'e')));
    case TP_SAVED_TUPLE: return items(w, v, depth) && op(w, 't');
    case TP_SAVED_SET:
        return global(w, "__builtin__", "set") && op(w, ']') && (v->n == 0 || (items(w, v, depth) && op(w, 'e'))) &&
               op(w, 0x85) && op(w, 'R');
    case TP_SAVED_DICT: return dict(w, v, depth);
    case TP_SAVED_TENSOR: return tensor(w, v);
    case TP_SAVED_STORAGE: return storage_id(w, v);
    case TP_SAVED_DTYPE: return global(w, "torch", v->as.text);
    case TP_SAVED_DEVICE: return device(w, v);
    case TP_SAVED_SIZE:
        return global(w, "torch", "Size") && items(w, v, depth) && op(w, 't') && op(w, 0x85) && op(w, 'R');
    case TP_SAVED_OBJECT: return object(w, v, depth);
    default: return tpi_refuse(TP_ERR_VALUE, "'%s': %s cannot be written, only values can", w->path, tpi_kind_name(v));
    }
}

bool tpi_pickle_write(tpi_wire *out, const tp_saved *v, const char *path,
                      const char *(*name)(void *context, const tp_saved *storage), void *context, bool objects) {
    writer w = {out, path, name, context, objects};
    return put(&w, "\x80\x02", 2) && value(&w, v, 0) && op(&w, '.');
}
