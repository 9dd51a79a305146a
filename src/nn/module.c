/* Modules: making, holding and finding their parts. A module owns its tensors, children, attributes and names; it is
 * counted, and given to another module it belongs to that one. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "base/memory.h"
#include "tensor/same_device.h"
#include "tpi_ops.h"

tp_module *tpi_module_of(const tpi_layer *layer) {
    tp_module *m = tpi_new0(sizeof *m);
    if (!m) return NULL;
    m->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(m, "module");
    m->references = 1;
    m->layer = layer;
    m->training = true;
    if (layer && !(m->name = tpi_strdup(layer->name))) {
        tp_module_release(m);
        return NULL;
    }
    return m;
}

static tp_module *own_module(const char *name) {
    tp_module *m = tpi_module_of(NULL);
    if (m && !(m->name = tpi_strdup(name ? name : "Module"))) {
        tp_module_release(m);
        m = NULL;
    }
    return m;
}
tp_module *tp_module_new(const char *name, tp_tensor *(*forward)(tp_module *, tp_tensor *)) {
    tp_module *m = own_module(name);
    if (m) m->forward_one = forward;
    return m;
}
tp_module *tp_module_new_values(const char *name, tp_forward_function forward) {
    tp_module *m = own_module(name);
    if (m) m->forward = forward;
    return m;
}

tp_module *tp_module_retain(tp_module *m) {
    if (m && !TPI_HANDLE_GIVEN(m, "a module")) return NULL;
    if (m) __atomic_fetch_add(&m->references, 1, __ATOMIC_RELAXED);
    return m;
}

static void drop_value(tp_value *v) {
    if (v->kind == TP_K_TENSOR)
        tp_release(v->as.tensor);
    else if (v->kind == TP_K_INTS)
        tpi_mfree((void *)v->as.ints.v);
    else if (v->kind == TP_K_FLOATS)
        tpi_mfree((void *)v->as.floats.v);
    *v = tp_value_none();
}

void tp_module_release(tp_module *m) {
    if (!m || !TPI_HANDLE_GIVEN(m, "a module") || __atomic_sub_fetch(&m->references, 1, __ATOMIC_ACQ_REL)) return;
    if (m->release_context) m->release_context(m->context);
    tpi_module_hooks_free(m);
    tpi_parametrizations_free(m);
    for (int64_t i = 0; i < m->nslots; i++) {
        tp_release(m->slots[i].tensor);
        tpi_mfree(m->slots[i].name);
    }
    for (int64_t i = 0; i < m->nattributes; i++) drop_value(&m->attributes[i].value);
    for (int64_t i = 0; i < m->nchildren; i++) {
        tp_module_release(m->children[i].module);
        tpi_mfree(m->children[i].name);
    }
    tpi_mfree(m->slots);
    tpi_mfree(m->attributes);
    tpi_mfree(m->children);
    tpi_mfree(m->name);
    m->alive = 0;
    tpi_handle_delete(m, sizeof *m);
}

/* ---- attributes ---- */
static bool copy_value(tp_value *to, tp_value from) {
    *to = from;
    to->name = NULL;
    bool fine = true;
    if (from.kind == TP_K_INTS) fine = tpi_copy_ints(&to->as.ints, from.as.ints);
    if (from.kind == TP_K_FLOATS) fine = tpi_copy_floats(&to->as.floats, from.as.floats);
    if (!fine) to->kind = TP_K_NONE;
    if (from.kind == TP_K_STRING) return (to->as.string = tpi_intern(from.as.string)) != NULL;
    if (from.kind == TP_K_TENSOR) tp_retain(from.as.tensor);
    return fine;
}

bool tpi_module_set(tp_module *m, const char *name, tp_value v) {
    int64_t i = 0;
    while (i < m->nattributes && strcmp(m->attributes[i].name, name)) i++;
    if (i == m->nattributes) {
        tpi_attribute *more = tpi_realloc(m->attributes, sizeof *more * (size_t)(i + 1));
        if (!more) return false;
        m->attributes = more;
        more[i] = (tpi_attribute){name, tp_value_none()};
        m->nattributes++;
    }
    tp_value copy;
    if (!copy_value(&copy, v)) return false;
    drop_value(&m->attributes[i].value);
    m->attributes[i].value = copy;
    return true;
}

static const tp_value *attribute(const tp_module *m, const char *name) {
    for (int64_t i = 0; i < m->nattributes; i++)
        if (!strcmp(m->attributes[i].name, name)) return &m->attributes[i].value;
    return NULL;
}
tp_value tpi_module_get(const tp_module *m, const char *name) {
    const tp_value *v = attribute(m, name);
    if (v) return *v;
    tpi_module_slot *slot = tpi_find_module_slot(m, name);
    return slot ? tpi_box_tensor(slot->tensor) : tp_value_none();
}
int64_t tpi_get_int(const tp_module *m, const char *name) {
    tp_value v = tpi_module_get(m, name);
    return v.kind == TP_K_NONE ? TP_NONE : v.as.scalar.as.i;
}
bool tpi_get_bool(const tp_module *m, const char *name) { return tpi_get_int(m, name) == 1; }
double tpi_get_float(const tp_module *m, const char *name) {
    tp_value v = tpi_module_get(m, name);
    return v.kind == TP_K_NONE ? TP_NO_FLOAT : tp_scalar_to_double(v.as.scalar);
}
tp_ints tpi_get_ints(const tp_module *m, const char *name) {
    const tp_value *v = attribute(m, name);
    if (!v || v->kind == TP_K_NONE) return tp_no_ints();
    return v->kind == TP_K_SCALAR ? tp_ints_view(&v->as.scalar.as.i, 1) : v->as.ints;
}
tp_floats tpi_get_floats(const tp_module *m, const char *name) {
    const tp_value *v = attribute(m, name);
    if (!v || v->kind == TP_K_NONE) return tp_no_floats();
    return v->kind == TP_K_SCALAR ? (tp_floats){v->as.scalar.as.d, 1} : v->as.floats;
}
const char *tpi_get_string(const tp_module *m, const char *name) {
    tp_value v = tpi_module_get(m, name);
    return v.kind == TP_K_NONE ? NULL : v.as.string;
}
tp_scalar tpi_get_scalar(const tp_module *m, const char *name) {
    tp_value v = tpi_module_get(m, name);
    return v.kind == TP_K_NONE ? tp_no_scalar() : v.as.scalar;
}
tp_tensor *tpi_get_tensor(const tp_module *m, const char *name) {
    tp_value v = tpi_module_get(m, name);
    return v.kind == TP_K_TENSOR ? v.as.tensor : NULL;
}

/* ---- parameters and buffers ---- */
tpi_module_slot *tpi_find_module_slot(const tp_module *m, const char *name) {
    for (int64_t i = 0; i < m->nslots; i++)
        if (!strcmp(m->slots[i].name, name)) return &m->slots[i];
    return NULL;
}

static bool good_name(const char *name, const char *what) {
    if (name && *name && !strchr(name, '.')) return true;
    return tpi_refuse(TP_ERR_VALUE, "%s name can't be empty or contain \".\", got: \"%s\"", what, name ? name : "");
}

bool tpi_module_hold(tp_module *m, const char *name, tpi_module_slot_kind kind, tp_tensor *t) {
    if (!m || !good_name(name, kind == TPI_PARAMETER ? "parameter" : "buffer")) return false;
    tpi_module_slot *slot = tpi_find_module_slot(m, name);
    if (!slot) {
        tpi_module_slot *more = tpi_realloc(m->slots, sizeof *more * (size_t)(m->nslots + 1));
        if (!more) return false;
        m->slots = more;
        char *copy = tpi_strdup(name);
        if (!copy) return false;
        slot = &more[m->nslots++];
        *slot = (tpi_module_slot){.name = copy};
    }
    tp_retain(t);
    tp_release(slot->tensor);
    slot->tensor = t;
    slot->kind = kind;
    return true;
}

bool tpi_module_make(tp_module *m, const char *name, tpi_module_slot_kind kind, bool there, tp_ints shape,
                     tp_dtype dtype, tp_device device, double value) {
    if (!there) return tpi_module_hold(m, name, kind, NULL);
    tp_tensor *t = kind == TPI_PARAMETER ? tpo_empty(shape, dtype, device, TP_CONTIGUOUS)
                                         : tpo_full(shape, tp_float(value), dtype ? dtype : tp_default_dtype(), device);
    if (!t) return false;
    bool fine = (kind != TPI_PARAMETER || tp_set_requires_grad(t, true)) && tpi_module_hold(m, name, kind, t);
    tp_release(t);
    return fine;
}

bool tp_module_add_parameter(tp_module *m, const char *name, tp_tensor *t) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    if (t && !tp_requires_grad(t) && !tp_set_requires_grad(t, true)) return false;
    return tpi_module_hold(m, name, TPI_PARAMETER, t);
}
bool tp_module_add_buffer(tp_module *m, const char *name, tp_tensor *t, bool persistent) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    return tpi_module_hold(m, name, persistent ? TPI_BUFFER : TPI_TEMPORARY, t);
}

/* ---- children ---- */
static tpi_child *child_named(const tp_module *m, const char *name, size_t n) {
    for (int64_t i = 0; i < m->nchildren; i++)
        if (strlen(m->children[i].name) == n && !memcmp(m->children[i].name, name, n)) return &m->children[i];
    return NULL;
}

bool tp_module_add(tp_module *m, const char *name, tp_module *child) {
    if (!m || !child) {
        tp_module_release(child);
        return tp_ok() ? tpi_refuse(TP_ERR_TYPE, "argument '%s': expected a module, got NULL", m ? "child" : "m")
                       : false;
    }
    if (!TPI_HANDLE_GIVEN(child, "a module")) return false;
    if (!TPI_HANDLE_GIVEN(m, "a module")) {
        tp_module_release(child);
        return false;
    }
    char *copy = NULL;
    tpi_child *at = good_name(name, "module") ? child_named(m, name, strlen(name)) : NULL;
    if (at) {
        tp_module_release(at->module);
        at->module = child;
        return true;
    }
    if (tp_ok()) copy = tpi_strdup(name);
    tpi_child *more = copy ? tpi_realloc(m->children, sizeof *more * (size_t)(m->nchildren + 1)) : NULL;
    if (!more) {
        tpi_mfree(copy);
        tp_module_release(child);
        return false;
    }
    m->children = more;
    more[m->nchildren++] = (tpi_child){copy, child};
    return true;
}

void tp_module_set_context(tp_module *m, void *context, void (*release)(void *)) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return;
    if (m->release_context) m->release_context(m->context);
    m->context = context;
    m->release_context = release;
}
void *tp_module_context(const tp_module *m) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return NULL;
    return m->context;
}
const char *tp_module_name(const tp_module *m) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return NULL;
    return m->name;
}
int64_t tp_module_child_count(const tp_module *m) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return -1;
    return m->nchildren;
}
tp_module *tp_module_child_at(const tp_module *m, int64_t i, const char **name) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return NULL;
    if (i < 0 || i >= m->nchildren)
        return tpi_fail(TP_ERR_INDEX, "index %lld is out of range: %s has %lld children", (long long)i, m->name,
                        (long long)m->nchildren);
    if (name) *name = m->children[i].name;
    return m->children[i].module;
}

/* The module that a path's part before its last dot leads to; *last is what follows. */
static tp_module *walk(tp_module *m, const char *path, const char **last) {
    for (const char *dot; m && (dot = strchr(path, '.')); path = dot + 1) {
        tpi_child *c = child_named(m, path, (size_t)(dot - path));
        if (!c) return tpi_fail(TP_ERR_VALUE, "%s has no child \"%.*s\"", m->name, (int)(dot - path), path);
        m = c->module;
    }
    *last = path;
    return m;
}
tp_module *tp_module_child(tp_module *m, const char *path) {
    const char *last;
    m = TPI_HANDLE_GIVEN(m, "a module") && TPI_GIVEN(path, "a path") ? walk(m, path, &last) : NULL;
    if (!m) return NULL;
    tpi_child *c = child_named(m, last, strlen(last));
    return c ? c->module : tpi_fail(TP_ERR_VALUE, "%s has no child \"%s\"", m->name, last);
}
tp_tensor *tp_module_tensor(tp_module *m, const char *path) {
    const char *last;
    m = TPI_HANDLE_GIVEN(m, "a module") && TPI_GIVEN(path, "a path") ? walk(m, path, &last) : NULL;
    if (!m) return NULL;
    tpi_module_slot *slot = tpi_find_module_slot(m, last);
    return slot && slot->tensor ? slot->tensor
                                : tpi_fail(TP_ERR_VALUE, "%s has no parameter or buffer \"%s\"", m->name, last);
}
tp_value tp_module_attribute(tp_module *m, const char *name) {
    return TPI_HANDLE_GIVEN(m, "a module") && TPI_GIVEN(name, "a text") ? tpi_module_get(m, name) : tp_value_none();
}

/* ---- copies ---- */
static tp_tensor *clone_leaf(tp_tensor *t) {
    tp_tensor *copy = NULL;
    TP_NO_GRAD
        copy = tpo_clone(t, TP_PRESERVE);
    if (copy && tp_requires_grad(t) && !tp_set_requires_grad(copy, true)) {
        tp_release(copy);
        copy = NULL;
    }
    return copy;
}

tp_module *tp_module_clone(const tp_module *m) {
    tp_module *c = TPI_HANDLE_GIVEN(m, "a module") ? tpi_module_of(NULL) : NULL;
    if (!c) return NULL;
    c->layer = m->layer;
    c->training = m->training;
    c->compressed = m->compressed;
    c->forward = m->forward;
    c->forward_one = m->forward_one;
    memcpy(c->source_kind, m->source_kind, sizeof c->source_kind);
    memcpy(c->source_at, m->source_at, sizeof c->source_at);
    c->name = tpi_strdup(m->name);
    bool fine = c->name != NULL;
    for (int64_t i = 0; fine && i < m->nattributes; i++)
        fine = tpi_module_set(c, m->attributes[i].name, m->attributes[i].value);
    for (int64_t i = 0; fine && i < m->nslots; i++) {
        tp_tensor *copy = m->slots[i].tensor ? clone_leaf(m->slots[i].tensor) : NULL;
        fine = (copy || !m->slots[i].tensor) && tpi_module_hold(c, m->slots[i].name, m->slots[i].kind, copy);
        tp_release(copy);
    }
    for (int64_t i = 0; fine && i < m->nchildren; i++)
        fine = tp_module_add(c, m->children[i].name, tp_module_clone(m->children[i].module));
    if (fine && tpi_parametrizations_copy(c, m)) return c;
    tp_module_release(c);
    return NULL;
}

/* ---- the whole tree ---- */
void tp_module_train(tp_module *m, bool on) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return;
    m->training = on;
    for (int64_t i = 0; i < m->nchildren; i++) tp_module_train(m->children[i].module, on);
}
bool tp_module_is_training(const tp_module *m) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    return m->training;
}

bool tp_module_zero_grad(tp_module *m) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slots[i].kind == TPI_PARAMETER && m->slots[i].tensor && !tp_zero_grad(m->slots[i].tensor)) return false;
    for (int64_t i = 0; i < m->nchildren; i++)
        if (!tp_module_zero_grad(m->children[i].module)) return false;
    return true;
}

bool tp_module_requires_grad(tp_module *m, bool on) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slots[i].kind == TPI_PARAMETER && m->slots[i].tensor && !tp_set_requires_grad(m->slots[i].tensor, on))
            return false;
    for (int64_t i = 0; i < m->nchildren; i++)
        if (!tp_module_requires_grad(m->children[i].module, on)) return false;
    return true;
}

/* The tensor keeps its identity, as an optimiser may hold it; its gradient is converted with it. No dtype: it stays. */
static bool convert(tp_tensor *t, tp_dtype dtype, tp_device device) {
    bool fine = true;
    TP_NO_GRAD {
        tp_tensor *grad = tp_grad(t), *moved = tpo_to(t, dtype, device, false, TP_PRESERVE, false),
                  *moved_grad = grad ? tpo_to(grad, dtype, device, false, TP_PRESERVE, false) : NULL;
        fine = moved && (!grad || moved_grad) && tp_set_grad(t, NULL) && tp_set_data(t, moved) &&
               (!moved_grad || tp_set_grad(t, moved_grad));
        tp_release(moved);
        tp_release(moved_grad);
    }
    return fine;
}

bool tp_module_to(tp_module *m, tp_dtype dtype) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    if (!tp_dtype_is_floating(dtype))
        return tpi_refuse(TP_ERR_TYPE, "a module converts to floating dtypes, not to %s", tp_dtype_name(dtype));
    for (int64_t i = 0; i < m->nslots; i++) {
        tp_tensor *t = m->slots[i].tensor;
        bool stays = !t || m->slots[i].kind == TPI_COMPUTED || !tp_dtype_is_floating((tp_dtype)t->dtype) ||
                     (tp_dtype)t->dtype == dtype;
        if (!stays && !convert(t, dtype, tpi_device(t))) return false;
    }
    for (int64_t i = 0; i < m->nchildren; i++)
        if (!tp_module_to(m->children[i].module, dtype)) return false;
    return true;
}

bool tp_module_to_device(tp_module *m, tp_device device) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    if (device.type <= TP_DEVICE_NONE || device.type >= TP_DEVICE_TYPES)
        return tpi_refuse(TP_ERR_VALUE, "tp_module_to_device: argument 'device': expected a device, got number %d",
                          device.type);
    for (int64_t i = 0; i < m->nslots; i++) {
        tp_tensor *t = m->slots[i].tensor;
        bool stays = !t || m->slots[i].kind == TPI_COMPUTED || tpi_same_device(tpi_device(t), device);
        if (!stays && !convert(t, (tp_dtype)t->dtype, device)) return false;
    }
    for (int64_t i = 0; i < m->nchildren; i++)
        if (!tp_module_to_device(m->children[i].module, device)) return false;
    return true;
}

bool tp_module_reset(tp_module *m) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(m, "a module")) return false;
    for (int64_t i = 0; i < m->nchildren; i++)
        if (!tp_module_reset(m->children[i].module)) return false;
    return !m->layer || !m->layer->reset || m->layer->reset(m);
}
