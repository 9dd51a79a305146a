/* Writing a program: the code as it was read, the constants, and the module's values as they are now, in the opcodes
 * that PyTorch's reader of TorchScript expects. */
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/zip_format.h"
#include "io/script/program.h"
#include "tensor/storage.h"
#include <stdio.h>

enum { DEEPEST = 500, ALIGN = 64 };

typedef struct saver {
    tpi_program *program;
    tpi_run run;
    tpi_wire out;
    tp_storage **storages; /* that the pickle names, by number */
    void **objects;        /* objects and tensors that were written, by their number in the memo */
    int64_t nstorages, storages_capacity, nobjects, objects_capacity;
} saver;

static bool value(saver *s, const tpi_item *v, const tpi_type *t, int depth);

/* ---- Opcodes ---- */

static void put(saver *s, const char *bytes, size_t n) { tpi_wire_raw(&s->out, bytes, n); }
static void op(saver *s, char code) { put(s, &code, 1); }

static void text(saver *s, const char *words, size_t n) {
    unsigned char head[4];
    put32(head, (uint32_t)n);
    op(s, 'X');
    put(s, (const char *)head, 4);
    put(s, words, n);
}

static void integer(saver *s, int64_t v) {
    unsigned char bytes[8];
    if (v >= INT32_MIN && v <= INT32_MAX) {
        op(s, 'J');
        put32(bytes, (uint32_t)v);
        put(s, (const char *)bytes, 4);
        return;
    }
    put(s, "\x8a\x08", 2);
    put64(bytes, (uint64_t)v);
    put(s, (const char *)bytes, 8);
}

static void put_float(saver *s, double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    op(s, 'G');
    for (int i = 7; i >= 0; i--) op(s, (char)(bits >> 8 * i));
}

/* "module.name" */
static void global(saver *s, const char *full) {
    const char *dot = strrchr(full, '.');
    op(s, 'c');
    put(s, full, dot ? (size_t)(dot - full) : 0);
    op(s, '\n');
    put(s, dot ? dot + 1 : full, strlen(dot ? dot + 1 : full));
    op(s, '\n');
}

static void memo(saver *s, char code, int64_t number) {
    unsigned char bytes[4];
    put32(bytes, (uint32_t)number);
    op(s, code);
    put(s, (const char *)bytes, 4);
}

static int64_t number_in(void *list, int64_t *n, int64_t *capacity, void *wanted, bool *new) {
    void ***v = list;
    *new = false;
    for (int64_t i = 0; i < *n; i++)
        if ((*v)[i] == wanted) return i;
    *new = true;
    if (*n == *capacity) {
        void **larger = tpi_realloc(*v, (size_t)(*capacity ? 2 * *capacity : 64) * sizeof *larger);
        if (!larger) return -1;
        *v = larger;
        *capacity = *capacity ? 2 * *capacity : 64;
    }
    (*v)[*n] = wanted;
    return (*n)++;
}

/* What was written before is named by its number: one object, or tensor, in several places is one again when it is
 * read.
 */
static bool was_written(saver *s, const void *what) {
    for (int64_t i = 0; i < s->nobjects; i++)
        if (s->objects[i] == what) {
            memo(s, 'j', i);
            return true;
        }
    return false;
}

static bool is_written(saver *s, void *what) {
    bool new;
    int64_t number = number_in(&s->objects, &s->nobjects, &s->objects_capacity, what, &new);
    if (number >= 0) memo(s, 'r', number);
    return number >= 0;
}

/* ---- Values ---- */

static const char *storage_class(tp_dtype dtype) {
    static const struct {
        tp_dtype dtype;
        const char *name;
    } names[] = {{TP_FLOAT32, "torch.FloatStorage"},
                 {TP_FLOAT64, "torch.DoubleStorage"},
                 {TP_FLOAT16, "torch.HalfStorage"},
                 {TP_BFLOAT16, "torch.BFloat16Storage"},
                 {TP_INT64, "torch.LongStorage"},
                 {TP_INT32, "torch.IntStorage"},
                 {TP_INT16, "torch.ShortStorage"},
                 {TP_INT8, "torch.CharStorage"},
                 {TP_UINT8, "torch.ByteStorage"},
                 {TP_BOOL, "torch.BoolStorage"},
                 {TP_COMPLEX64, "torch.ComplexFloatStorage"},
                 {TP_COMPLEX128, "torch.ComplexDoubleStorage"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].dtype == dtype) return names[i].name;
    return tpi_fail(TP_ERR_MISSING, "a tensor of dtype %s cannot be saved in a program", tp_dtype_name(dtype));
}

static void ints(saver *s, tp_ints v) {
    op(s, '(');
    for (int64_t i = 0; i < v.n; i++) integer(s, v.v[i]);
    op(s, 't');
}

static bool tensor(saver *s, tp_tensor *t) {
    if (was_written(s, t)) return true;
    const char *cls = storage_class(tp_dtype_of(t));
    char key[24];
    bool new = false;
    if (!cls) return false;
    tp_storage *storage = tp_storage_of(t);
    int64_t number = storage ? number_in(&s->storages, &s->nstorages, &s->storages_capacity, storage, &new) : -1;
    if (storage && (number < 0 || !new)) tp_storage_release(storage);
    if (number < 0) return false;
    int n = snprintf(key, sizeof key, "%lld", (long long)number);
    global(s, "torch._utils._rebuild_tensor_v2");
    put(s, "((", 2);
    text(s, "storage", 7);
    global(s, cls);
    text(s, key, (size_t)n);
    text(s, "cpu", 3);
    integer(s, tp_storage_size(storage) / tp_dtype_size(tp_dtype_of(t)));
    put(s, "tQ", 2);
    integer(s, tp_storage_offset(t));
    ints(s, tp_shape(t));
    ints(s, tp_strides(t));
    op(s, t->requires_grad ? '\x88' : '\x89');
    global(s, "collections.OrderedDict");
    put(s, ")RtR", 4);
    return is_written(s, t);
}

static void type_text(tpi_wire *w, const tpi_type *t) {
    tpi_wire_raw(w, t->name, strlen(t->name));
    for (int64_t i = 0; i < t->n; i++) {
        tpi_wire_raw(w, i ? ", " : "[", i ? 2 : 1);
        type_text(w, t->args[i]);
    }
    if (t->n) tpi_wire_raw(w, "]", 1);
}

/* Behind a value whose type the reader cannot tell from it: restore_type_tag(value, "List[str]"). */
static void tag(saver *s, const tpi_type *t) {
    tpi_wire w = {0};
    type_text(&w, t);
    s->out.failed = s->out.failed || w.failed;
    text(s, (const char *)w.data, w.n);
    put(s, "\x86R", 2);
    tpi_wire_free(&w);
}

static const char *builder(const tpi_type *t) {
    static const char *const kinds[][2] = {{"int", "torch.jit._pickle.build_intlist"},
                                           {"float", "torch.jit._pickle.build_doublelist"},
                                           {"bool", "torch.jit._pickle.build_boollist"},
                                           {"Tensor", "torch.jit._pickle.build_tensorlist"}};
    for (int i = 0; i < 4; i++)
        if (strcmp(t->args[0]->name, kinds[i][0]) == 0) return kinds[i][1];
    return NULL;
}

static bool list(saver *s, const tpi_box *b, const tpi_type *t, int depth) {
    const tpi_type *of = t && strcmp(t->name, "List") == 0 && t->n == 1 ? t->args[0] : NULL;
    const char *build = of ? builder(t) : NULL;
    if (of) global(s, build ? build : "torch.jit._pickle.restore_type_tag");
    if (build) op(s, '(');
    put(s, "](", 2);
    for (int64_t i = 0; i < b->n; i++)
        if (!value(s, &b->items[i], of, depth + 1)) return false;
    op(s, 'e');
    if (build) put(s, "tR", 2);
    if (of && !build) tag(s, t);
    return true;
}

static bool dict(saver *s, const tpi_box *b, const tpi_type *t, int depth) {
    bool typed = t && strcmp(t->name, "Dict") == 0 && t->n == 2;
    if (typed) global(s, "torch.jit._pickle.restore_type_tag");
    put(s, "}(", 2);
    for (int64_t i = 0; i < 2 * b->n; i++)
        if (!value(s, &b->items[i], typed ? t->args[i % 2] : NULL, depth + 1)) return false;
    op(s, 'u');
    if (typed) tag(s, t);
    return true;
}

static bool tuple(saver *s, const tpi_box *b, const tpi_type *t, int depth) {
    bool typed = t && strcmp(t->name, "Tuple") == 0 && t->n == b->n;
    op(s, '(');
    for (int64_t i = 0; i < b->n; i++)
        if (!value(s, &b->items[i], typed ? t->args[i] : NULL, depth + 1)) return false;
    op(s, 't');
    return true;
}

static bool state(saver *s, const tpi_item *v, int depth) {
    const tpi_script_class *c = v->as.box->cls;
    int64_t at = tpi_names_find(&c->method_numbers, "__getstate__");
    if (at >= 0) {
        tpi_item held = tpi_script_method(&s->run, v, "__getstate__", 0, NULL, NULL);
        bool fine = held.kind && value(s, &held, c->methods[at]->returns, depth + 1);
        tpi_item_release(held);
        return fine;
    }
    put(s, "}(", 2);
    for (int64_t i = 0; i < c->nslots; i++) {
        const tpi_item *item = &v->as.box->items[i];
        if (item->kind == TP_IVALUE_NOTHING) continue;
        text(s, c->attributes[i].name, strlen(c->attributes[i].name));
        if (!value(s, item, c->attributes[i].type, depth + 1)) return false;
    }
    op(s, 'u');
    return true;
}

static bool object(saver *s, const tpi_item *v, int depth) {
    if (!v->as.box->cls) return tpi_refuse(TP_ERR_VALUE, "an object of another program cannot be saved");
    if (was_written(s, v->as.box)) return true;
    global(s, v->as.box->cls->name);
    put(s, ")\x81", 2);
    if (!state(s, v, depth)) return false;
    op(s, 'b');
    return is_written(s, v->as.box);
}

static bool number(saver *s, tp_scalar v) {
    if (v.kind == TP_SCALAR_BOOL)
        op(s, v.as.i ? '\x88' : '\x89');
    else if (v.kind == TP_SCALAR_INT)
        integer(s, v.as.i);
    else if (v.kind == TP_SCALAR_FLOAT)
        put_float(s, v.as.d[0]);
    else
        return tpi_refuse(TP_ERR_MISSING, "a complex attribute cannot be saved in a program");
    return true;
}

static bool value(saver *s, const tpi_item *v, const tpi_type *t, int depth) {
    if (depth > DEEPEST) return tpi_refuse(TP_ERR_VALUE, "the module's values are nested too deep");
    while (t && strcmp(t->name, "Optional") == 0 && t->n == 1) t = t->args[0];
    switch (v->kind) {
    case TP_IVALUE_NONE: op(s, 'N'); return true;
    case TP_IVALUE_TENSOR: return tensor(s, v->as.tensor);
    case TP_IVALUE_NUMBER: return number(s, v->as.number);
    case TP_IVALUE_TEXT: text(s, v->as.box->text, (size_t)v->as.box->n); return true;
    case TP_IVALUE_LIST: return list(s, v->as.box, t, depth);
    case TP_IVALUE_TUPLE: return tuple(s, v->as.box, t, depth);
    case TP_IVALUE_DICT: return dict(s, v->as.box, t, depth);
    case TP_IVALUE_OBJECT: return object(s, v, depth);
    default: return tpi_refuse(TP_ERR_MISSING, "%s cannot be saved in a program", tpi_item_kind_name(v));
    }
}

/* ---- The archive ---- */

static void forget(saver *s) {
    for (int64_t i = 0; i < s->nstorages; i++) tp_storage_release(s->storages[i]);
    tpi_mfree(s->storages);
    tpi_mfree(s->objects);
    tpi_wire_free(&s->out);
    *s = (saver){.program = s->program, .run.program = s->program};
}

static bool add(tpi_zip_writer *w, const char *name, const void *data, size_t bytes) {
    char full[512];
    if (snprintf(full, sizeof full, "archive/%s", name) >= (int)sizeof full)
        return tpi_refuse(TP_ERR_VALUE, "a file of code has too long a name");
    return tpi_zip_add(w, full, NULL, 1, &(tpi_zip_piece){data, bytes});
}

static bool add_storage(tpi_zip_writer *w, const char *folder, int64_t number, tp_storage *storage) {
    char name[40];
    snprintf(name, sizeof name, "%s/%lld", folder, (long long)number);
    int64_t n = tp_storage_size(storage);
    tp_tensor *there = tpi_tensor_over(tpi_storage_retain(storage), TP_UINT8, tp_ints_view(&n, 1), tp_no_ints(), 0);
    tp_tensor *here = there ? tpi_empty(tp_ints_view(&n, 1), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    bool fine = here && tpi_copy_data(here, there) && add(w, name, tp_data(here), (size_t)n);
    tp_release(here);
    tp_release(there);
    return fine;
}

/* One of the two pickles with the storages that it names, in a folder of that name. */
static bool add_pickle(saver *s, tpi_zip_writer *w, const char *name, const tpi_item *v) {
    char member[40];
    snprintf(member, sizeof member, "%s.pkl", name);
    put(s, "\x80\x02", 2);
    bool fine = value(s, v, NULL, 0);
    op(s, '.');
    fine = fine && !s->out.failed && add(w, member, s->out.data, s->out.n);
    for (int64_t i = 0; fine && i < s->nstorages; i++) fine = add_storage(w, name, i, s->storages[i]);
    forget(s);
    return fine;
}

static bool write_all(saver *s, tpi_zip_writer *w, const tpi_item *module) {
    const tpi_program *p = s->program;
    tpi_box constants = {.refs = 1, .n = p->nconstants, .items = p->constants};
    tpi_item all = {.kind = TP_IVALUE_TUPLE, .as.box = &constants};
    char version[24];
    int n = snprintf(version, sizeof version, "%lld\n", (long long)p->version);
    bool fine = add_pickle(s, w, "data", module) && add(w, "byteorder", "little", 6);
    for (int64_t i = 0; fine && i < p->nsources; i++)
        fine = add(w, p->source_names[i], p->sources[i], (size_t)p->source_bytes[i]);
    return fine && add_pickle(s, w, "constants", &all) && add(w, "version", version, (size_t)n);
}

static bool add_extra(tpi_zip_writer *w, const char *name, const tp_tensor *contents) {
    char member[480];
    if (snprintf(member, sizeof member, "extra/%s", name) >= (int)sizeof member)
        return tpi_refuse(TP_ERR_VALUE, "an extra file has too long a name");
    return add(w, member, tp_data(contents), (size_t)tp_numel(contents));
}

bool tpi_program_save(tpi_program *p, const tpi_item *module, const char *path, int64_t nextra,
                      const char *const *names, tp_tensor *const *extra) {
    saver s = {.program = p, .run.program = p};
    tpi_zip_writer *w = tpi_zip_create(path, NULL, ALIGN);
    if (!w) return false;
    bool fine = write_all(&s, w, module);
    for (int64_t i = 0; fine && i < nextra; i++) fine = add_extra(w, names[i], extra[i]);
    if (fine) return tpi_zip_commit(w);
    forget(&s);
    tpi_zip_abandon(w);
    return false;
}
