/* The public functions on programs: handles around values, calls, modules as trees of attributes. */
#include "tensor/same_device.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/script/program.h"
#include "io/script/walk.h"
#include "tensor/check_arguments.h"
#include "tpi_ops.h"
#include <taper/autograd.h>
#include <taper/binding.h>

struct tp_ivalue {
    _Atomic int64_t refs;
    uint32_t alive;
    tpi_program *program; /* whose code its objects run; NULL: the caller made it */
    tpi_item item;
};

/* ---- Handles ---- */

/* Takes the item over. */
static tp_ivalue *handle(tpi_program *p, tpi_item item) {
    tp_ivalue *v = item.kind ? tpi_new0(sizeof *v) : NULL;
    if (!v) {
        tpi_item_release(item);
        return NULL;
    }
    tpi_handle_made(v, "ivalue");
    v->refs = 1;
    v->alive = TPI_HANDLE_ALIVE;
    v->program = p;
    v->item = item;
    if (p) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return v;
}

tp_ivalue *tp_ivalue_retain(tp_ivalue *v) {
    if (!TPI_HANDLE_GIVEN(v, "a value")) return NULL;
    atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void tp_ivalue_release(tp_ivalue *v) {
    if (!v || !TPI_HANDLE_GIVEN(v, "a value")) return;
    if (atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
    tpi_item_release(v->item);
    tpi_program_release(v->program);
    v->alive = 0;
    tpi_handle_delete(v, sizeof *v);
}

/* ---- Making and reading values ---- */

tp_ivalue *tp_ivalue_none(void) { return handle(NULL, tpi_item_none()); }

tp_ivalue *tp_ivalue_of_tensor(tp_tensor *t) {
    if (!TPI_GIVEN(t, "a tensor") || !tpi_sound_tensor(t, "t")) return NULL;
    return handle(NULL, tpi_item_tensor(tpi_retain(t)));
}

tp_ivalue *tp_ivalue_of_number(tp_scalar number) {
    return tpi_sound_scalar(number, false, "number") ? handle(NULL, tpi_item_number(number)) : NULL;
}

tp_ivalue *tp_ivalue_of_dtype(tp_dtype dtype) {
    return tpi_sound_dtype(dtype, false, "dtype") ? handle(NULL, tpi_item_int(tpi_number_of_dtype(dtype))) : NULL;
}

tp_ivalue *tp_ivalue_of_text(const char *text) {
    return TPI_GIVEN(text, "a text") ? handle(NULL, tpi_item_text(text, strlen(text))) : NULL;
}

tp_ivalue *tp_ivalue_of_device(tp_device device) {
    return tpi_sound_device(device, "device") ? handle(NULL, tpi_item_device(device)) : NULL;
}

static bool values_given(int64_t n, tp_ivalue *const *v, const char *function, const char *argument) {
    if (!tpi_list_there(v, n, function, argument)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!tpi_handle_given(v[i], v[i] ? v[i]->alive : 0, function, argument, "values")) return false;
    return true;
}

static tpi_program *program_of(int64_t n, tp_ivalue *const *v) {
    for (int64_t i = 0; i < n; i++)
        if (v[i]->program) return v[i]->program;
    return NULL;
}

static tp_ivalue *boxed(tp_ivalue_kind kind, int64_t n, tp_ivalue *const *items) {
    tpi_item v = tpi_item_box(NULL, kind, n);
    for (int64_t i = 0; v.kind && i < n; i++) v.as.box->items[i] = tpi_item_retain(items[i]->item);
    return handle(program_of(n, items), v);
}

tp_ivalue *tp_ivalue_list(int64_t n, tp_ivalue *const *items) {
    return values_given(n, items, __func__, "items") ? boxed(TP_IVALUE_LIST, n, items) : NULL;
}

tp_ivalue *tp_ivalue_tuple(int64_t n, tp_ivalue *const *items) {
    return values_given(n, items, __func__, "items") ? boxed(TP_IVALUE_TUPLE, n, items) : NULL;
}

tp_ivalue *tp_ivalue_dict(int64_t n, tp_ivalue *const *keys, tp_ivalue *const *values) {
    if (!values_given(n, keys, __func__, "keys") || !values_given(n, values, __func__, "values")) return NULL;
    tpi_item v = tpi_item_box(NULL, TP_IVALUE_DICT, 0);
    for (int64_t i = 0; v.kind && i < n; i++) {
        if (tpi_dict_put(v.as.box, tpi_item_retain(keys[i]->item), tpi_item_retain(values[i]->item))) continue;
        tpi_item_release(v);
        return NULL;
    }
    return handle(program_of(n, values), v);
}

tp_ivalue_kind tp_ivalue_kind_of(const tp_ivalue *v) {
    if (TPI_ENDED(v, "a value")) return (tp_ivalue_kind){0};
    return v ? (tp_ivalue_kind)v->item.kind : TP_IVALUE_NOTHING;
}

static bool has_items(const tp_ivalue *v) {
    return v->item.kind == TP_IVALUE_LIST || v->item.kind == TP_IVALUE_TUPLE || v->item.kind == TP_IVALUE_DICT;
}

int64_t tp_ivalue_count(const tp_ivalue *v) {
    if (TPI_ENDED(v, "a value")) return -1;
    return v && has_items(v) ? v->item.as.box->n : 0;
}

static const tpi_item *item_at(const tp_ivalue *v, int64_t i, int of_pair, const char *function) {
    if (!tpi_given(v, function, "v", "a value")) return NULL;
    bool dict = v->item.kind == TP_IVALUE_DICT;
    if (!has_items(v) || (of_pair == 0 && !dict))
        return tpi_fail(TP_ERR_TYPE, "argument 'v': expected %s, got %s", of_pair ? "a list, tuple or dict" : "a dict",
                        tpi_item_kind_name(&v->item));
    if (i < 0 || i >= v->item.as.box->n)
        return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)v->item.as.box->n - 1,
                        (long long)i);
    return &v->item.as.box->items[dict ? 2 * i + of_pair : i];
}

tp_ivalue *tp_ivalue_at(const tp_ivalue *v, int64_t i) {
    const tpi_item *item = item_at(v, i, 1, __func__);
    return item ? handle(v->program, tpi_item_retain(*item)) : NULL;
}

tp_ivalue *tp_ivalue_key_at(const tp_ivalue *v, int64_t i) {
    const tpi_item *item = item_at(v, i, 0, __func__);
    return item ? handle(v->program, tpi_item_retain(*item)) : NULL;
}

static bool is_kind(const tp_ivalue *v, tp_ivalue_kind kind, const char *function, const char *what) {
    if (!tpi_given(v, function, "v", what)) return false;
    return v->item.kind == kind ||
           tpi_refuse(TP_ERR_TYPE, "argument 'v': expected %s, got %s", what, tpi_item_kind_name(&v->item));
}

tp_tensor *tp_ivalue_tensor(const tp_ivalue *v) {
    if (!is_kind(v, TP_IVALUE_TENSOR, __func__, "a tensor")) return NULL;
    return tpi_to_scope(tpi_retain(v->item.as.tensor));
}

tp_scalar tp_ivalue_number(const tp_ivalue *v) {
    return is_kind(v, TP_IVALUE_NUMBER, __func__, "a number") ? v->item.as.number : tp_no_scalar();
}

const char *tp_ivalue_text(const tp_ivalue *v) {
    return is_kind(v, TP_IVALUE_TEXT, __func__, "a text") ? v->item.as.box->text : NULL;
}

tp_device tp_ivalue_device(const tp_ivalue *v) {
    return is_kind(v, TP_IVALUE_DEVICE, __func__, "a device") ? v->item.as.device : (tp_device){0};
}

bool tp_ivalue_is(const tp_ivalue *a, const tp_ivalue *b) {
    if (TPI_ENDED(a, "a value") || TPI_ENDED(b, "a value")) return false;
    if (!a || !b || a->item.kind != b->item.kind) return false;
    if (a->item.kind == TP_IVALUE_TENSOR) return a->item.as.tensor == b->item.as.tensor;
    return a->item.kind >= TP_IVALUE_LIST ? a->item.as.box == b->item.as.box : tpi_item_equal(&a->item, &b->item);
}

/* ---- Objects ---- */

static const tpi_script_class *class_of(const tp_ivalue *v) {
    bool boxed = v && (v->item.kind == TP_IVALUE_OBJECT || v->item.kind == TP_IVALUE_TUPLE);
    return boxed ? v->item.as.box->cls : NULL;
}

static const tpi_script_class *object_class(const tp_ivalue *v, const char *function) {
    if (!tpi_given(v, function, "object", "an object")) return NULL;
    const tpi_script_class *c = class_of(v);
    if (!c) tpi_fail(TP_ERR_TYPE, "argument 'object': expected an object, got %s", tpi_item_kind_name(&v->item));
    return c;
}

const char *tp_ivalue_class(const tp_ivalue *object) {
    if (TPI_ENDED(object, "a value")) return NULL;
    const tpi_script_class *c = class_of(object);
    return c ? c->name : NULL;
}

bool tp_ivalue_is_module(const tp_ivalue *object) {
    if (TPI_ENDED(object, "a value")) return false;
    const tpi_script_class *c = class_of(object);
    return c && c->kind == CLASS_MODULE;
}

int64_t tp_ivalue_attributes(const tp_ivalue *object) {
    if (TPI_ENDED(object, "a value")) return -1;
    const tpi_script_class *c = class_of(object);
    return c ? c->nattributes : 0;
}

const char *tp_ivalue_attribute(const tp_ivalue *object, int64_t i) {
    const tpi_script_class *c = object_class(object, __func__);
    if (!c) return NULL;
    if (i >= 0 && i < c->nattributes) return c->attributes[i].name;
    return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)c->nattributes - 1,
                    (long long)i);
}

tp_attribute_kind tp_ivalue_attribute_kind(const tp_ivalue *object, int64_t i) {
    if (TPI_ENDED(object, "a value")) return (tp_attribute_kind){0};
    const tpi_script_class *c = class_of(object);
    return c && i >= 0 && i < c->nattributes ? (tp_attribute_kind)c->attributes[i].kind : TP_ATTRIBUTE_PLAIN;
}

tp_ivalue *tp_ivalue_get(const tp_ivalue *object, const char *name) {
    if (!object_class(object, __func__) || !TPI_GIVEN(name, "a text")) return NULL;
    tpi_run run = {.program = object->program};
    return handle(object->program, tpi_script_get(&run, &object->item, name));
}

bool tp_ivalue_set(tp_ivalue *object, const char *name, const tp_ivalue *value) {
    TPI_STOP_ON_ERROR(false);
    const tpi_script_class *c = object_class(object, __func__);
    if (!c || !TPI_GIVEN(name, "a text") || !TPI_GIVEN(value, "a value")) return false;
    int64_t at = tpi_names_find(&c->attribute_numbers, name);
    if (object->item.kind != TP_IVALUE_OBJECT || at < 0 || at >= c->nslots)
        return tpi_refuse(TP_ERR_VALUE, "'%s' object has no attribute '%s' that can be set", c->name, name);
    tpi_item v = tpi_script_convert(c->program, c->attributes[at].type, &value->item);
    if (!v.kind)
        return tpi_refuse(TP_ERR_TYPE, "attribute '%s': expected %s, got %s", name, c->attributes[at].type->name,
                          tpi_item_kind_name(&value->item));
    tpi_item_set(&object->item.as.box->items[at], v);
    return true;
}

int64_t tp_ivalue_methods(const tp_ivalue *object) {
    if (TPI_ENDED(object, "a value")) return -1;
    const tpi_script_class *c = class_of(object);
    return c ? c->nmethods : 0;
}

const char *tp_ivalue_method(const tp_ivalue *object, int64_t i) {
    const tpi_script_class *c = object_class(object, __func__);
    if (!c) return NULL;
    if (i >= 0 && i < c->nmethods) return c->methods[i]->name;
    return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)c->nmethods - 1,
                    (long long)i);
}

const char *tp_ivalue_code(const tp_ivalue *object, const char *method) {
    const tpi_script_class *c = object_class(object, __func__);
    if (!c || !TPI_GIVEN(method, "a text")) return NULL;
    int64_t at = tpi_names_find(&c->method_numbers, method);
    if (at >= 0) return c->methods[at]->text;
    return tpi_fail(TP_ERR_VALUE, "'%s' object has no method '%s'", c->name, method);
}

/* ---- Loading and running ---- */

static tp_ivalue *load(const char *name, const void *data, size_t bytes) {
    tpi_item module = tpi_item_nothing();
    int64_t scopes = tp_scopes_aside();
    tpi_program *p = tpi_program_load(name, data, bytes, &module);
    tp_scopes_back(scopes);
    if (!p) return NULL;
    tp_ivalue *v = handle(p, module);
    tpi_program_release(p); /* the handle has a reference of its own */
    return v;
}

tp_ivalue *tp_script_load(const char *path) { return TPI_GIVEN(path, "a path") ? load(path, NULL, 0) : NULL; }

bool tp_script_is(const char *path) {
    if (!tp_ok() || !path) return false;
    tp_file *f = tpi_open_script(path, NULL, "data");
    tp_close_file(f);
    if (!f) tp_error_clear();
    return f != NULL;
}

tp_ivalue *tp_script_load_memory(const char *name, const void *data, int64_t bytes) {
    if (!TPI_GIVEN(data, "a file's bytes")) return NULL;
    if (bytes < 0) return tpi_fail(TP_ERR_VALUE, "argument 'bytes': expected 0 or more, got %lld", (long long)bytes);
    return load(name ? name : "memory", data, (size_t)bytes);
}

/* Values from outside become what the method's signature says: an int for a float is one. */
static bool convert_arguments(const tpi_script_class *c, const tpi_script_function *f, int64_t n, const tpi_item *given,
                              const char *const *names, tpi_item *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i + 1;
        if (names && names[i])
            for (at = 0; at < f->nparameters && strcmp(f->parameters[at].name, names[i]) != 0; at++) continue;
        if (at >= f->nparameters)
            return names && names[i]
                       ? tpi_refuse(TP_ERR_TYPE, "Unknown keyword argument '%s' for operator '%s'.", names[i], f->name)
                       : tpi_refuse(TP_ERR_TYPE,
                                    "%s() expected at most %lld argument(s) but received %lld argument(s).", f->name,
                                    (long long)f->nparameters, (long long)n + 1);
        out[i] = tpi_script_convert(c->program, f->parameters[at].type, &given[i]);
        if (!out[i].kind)
            return tpi_refuse(TP_ERR_TYPE, "%s() Expected a value of type '%s' for argument '%s' but got %s", f->name,
                              f->parameters[at].type->name, f->parameters[at].name, tpi_item_kind_name(&given[i]));
    }
    return true;
}

static tpi_item run_method(tp_ivalue *object, const char *method, int64_t n, const tpi_item *given,
                           const char *const *names) {
    const tpi_script_class *c = object_class(object, "tp_script_call");
    int64_t at = c ? tpi_names_find(&c->method_numbers, method) : -1;
    if (at < 0) {
        if (c) tpi_fail(TP_ERR_VALUE, "'%s' object has no method '%s'", c->name, method);
        return tpi_item_nothing();
    }
    tpi_item *args = tpi_malloc((size_t)n * sizeof *args + 1), result = tpi_item_nothing();
    if (!args) return result;
    memset(args, 0, (size_t)n * sizeof *args);
    tpi_run run = {.program = object->program};
    int64_t scopes = tp_scopes_aside();
    bool grad = tp_grad_enabled();
    if (convert_arguments(c, c->methods[at], n, given, names, args))
        result = tpi_script_method(&run, &object->item, method, n, args, names);
    if (tp_grad_enabled() != grad) tp_set_grad_enabled(grad);
    for (int64_t i = 0; i < n; i++) tpi_item_release(args[i]);
    tpi_mfree(args);
    tp_scopes_back(scopes);
    return result;
}

tp_ivalue *tp_script_call(tp_ivalue *object, const char *method, int64_t n, tp_ivalue *const *args, int64_t nnamed,
                          const char *const *names, tp_ivalue *const *named) {
    TPI_STOP_ON_ERROR(NULL);
    if (!object_class(object, __func__) || !TPI_GIVEN(method, "a text")) return NULL;
    if (!values_given(n, args, __func__, "args") || !values_given(nnamed, named, __func__, "named")) return NULL;
    if (nnamed && !TPI_LIST_GIVEN(names, nnamed)) return NULL;
    int64_t all = n + nnamed;
    tpi_item *items = tpi_malloc((size_t)all * sizeof *items + 1);
    const char **words = tpi_malloc((size_t)all * sizeof *words + 1);
    tp_ivalue *result = NULL;
    if (items && words) {
        for (int64_t i = 0; i < all; i++) {
            items[i] = i < n ? args[i]->item : named[i - n]->item;
            words[i] = i < n ? NULL : names[i - n];
        }
        result = handle(object->program, run_method(object, method, all, items, nnamed ? words : NULL));
    }
    tpi_mfree(items);
    tpi_mfree(words);
    return result;
}

tp_tensor *tp_script_forward(tp_ivalue *module, tp_tensors inputs) {
    TPI_STOP_ON_ERROR(NULL);
    if (!object_class(module, __func__) || !TPI_TENSORS_GIVEN(inputs) || !tpi_sound_tensors(inputs, "inputs"))
        return NULL;
    tpi_item *items = tpi_malloc((size_t)inputs.n * sizeof *items + 1);
    if (!items) return NULL;
    for (int64_t i = 0; i < inputs.n; i++) items[i] = (tpi_item){.kind = TP_IVALUE_TENSOR, .as.tensor = inputs.v[i]};
    tpi_item v = run_method(module, "forward", inputs.n, items, NULL);
    tpi_mfree(items);
    if (!v.kind) return NULL;
    tp_tensor *t = v.kind == TP_IVALUE_TENSOR ? tpi_retain(v.as.tensor) : NULL;
    if (!t) tpi_fail(TP_ERR_TYPE, "forward gives %s; tp_script_call takes any value", tpi_item_kind_name(&v));
    tpi_item_release(v);
    return tpi_to_scope(t);
}

bool tp_script_save_with(tp_ivalue *module, const char *path, int64_t n, const char *const *names,
                         tp_tensor *const *contents) {
    TPI_STOP_ON_ERROR(false);
    if (!object_class(module, __func__) || !TPI_GIVEN(path, "a path") || !TPI_LIST_GIVEN(names, n) ||
        !TPI_LIST_GIVEN(contents, n))
        return false;
    for (int64_t i = 0; i < n; i++) {
        const tp_tensor *t = contents[i];
        if (!TPI_GIVEN(t, "a tensor") || !tpi_is_tensor(t, "contents") || !names[i]) return false;
        if (t->dtype != TP_UINT8 || !tp_is_contiguous(t) || tp_device_of(t).type != TP_CPU)
            return tpi_refuse(TP_ERR_VALUE, "tp_script_save_with: argument 'contents': expected bytes as uint8");
    }
    int64_t scopes = tp_scopes_aside();
    bool fine = tpi_program_save(module->program, &module->item, path, n, names, contents);
    tp_scopes_back(scopes);
    return fine;
}

bool tp_script_save(tp_ivalue *module, const char *path) {
    TPI_STOP_ON_ERROR(false);
    if (!object_class(module, __func__) || !TPI_GIVEN(path, "a path")) return false;
    return tp_script_save_with(module, path, 0, NULL, NULL);
}

tp_tensor *tp_script_extra(const char *path, const void *data, int64_t bytes, const char *name) {
    TPI_STOP_ON_ERROR(NULL);
    if (!TPI_GIVEN(name, "a text") || (!data && !TPI_GIVEN(path, "a path"))) return NULL;
    const tp_file_options options = {.size = (int64_t)sizeof options, .memory = data, .memory_bytes = bytes};
    tp_file *f = tpi_open_script(path, &options, "data");
    const tpi_zip_member *m = f ? tpi_pt_member(f, "extra/", name) : NULL;
    tp_tensor *t = m ? tpi_empty(TP_INTS((int64_t)m->bytes), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    if (t && !tpi_file_read_member(f, m, t->data)) {
        tp_release(t);
        t = NULL;
    }
    tp_close_file(f);
    return tpi_to_scope(t);
}

/* ---- Whole modules ---- */

static bool set_training(tpi_item *v, void *context) {
    const tpi_script_class *c = v->kind == TP_IVALUE_OBJECT ? v->as.box->cls : NULL;
    int64_t at = c && c->kind == CLASS_MODULE ? tpi_names_find(&c->attribute_numbers, "training") : -1;
    if (at >= 0 && at < c->nslots) tpi_item_set(&v->as.box->items[at], tpi_item_bool(*(const bool *)context));
    return true;
}

bool tp_script_train(tp_ivalue *module, bool on) {
    TPI_STOP_ON_ERROR(false);
    return object_class(module, __func__) && tpi_script_walk(&module->item, set_training, &on);
}

static bool move(tpi_item *v, void *context) {
    tp_device to = *(const tp_device *)context;
    if (v->kind != TP_IVALUE_TENSOR || !v->as.tensor) return true;
    tp_device now = tp_device_of(v->as.tensor);
    if (tpi_same_device(now, to)) return true;
    tp_tensor *plain = tp_detach(v->as.tensor), *moved = plain ? tpo_to_device(plain, to) : NULL;
    bool fine = moved && tp_set_data(v->as.tensor, moved);
    tp_release(plain);
    tp_release(moved);
    return fine;
}

bool tp_script_to(tp_ivalue *module, tp_device device) {
    TPI_STOP_ON_ERROR(false);
    if (!object_class(module, __func__) || !tpi_sound_device(device, "device")) return false;
    int64_t scopes = tp_scopes_aside();
    tp_grad_mode before = tp_grad_mode_enter(false, false);
    bool fine = tpi_script_walk(&module->item, move, &device);
    tp_grad_mode_leave(&before);
    tp_scopes_back(scopes);
    return fine;
}
