/* Loading a program: the archive's code becomes trees, its two pickles become values. Nothing of the code runs, except
 * for the __setstate__ of classes that have one. */
#include "base/error.h"
#include "base/memory.h"
#include "io/checkpoint/checkpoint.h"
#include "io/script/program.h"
#include <stdlib.h>

enum { DEEPEST_VALUE = 500, NEWEST_VERSION = 10 };

typedef struct loader {
    tpi_program *program;
    tp_file *file;
    tpi_run run;
    /* Values that were made, by the node that they were made from: what was one object stays one. */
    const tp_saved **nodes;
    tpi_item *made;
    int64_t n, capacity;
} loader;

/* ---- Values that appear more than once ---- */

static int64_t slot_of(const loader *l, const tp_saved *node) {
    int64_t i = (int64_t)(((uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u >> 20) & (l->capacity - 1);
    while (l->nodes[i] && l->nodes[i] != node) i = (i + 1) & (l->capacity - 1);
    return i;
}

static bool remember(loader *l, const tp_saved *node, tpi_item v) {
    if (2 * l->n >= l->capacity) {
        loader larger = {.capacity = l->capacity ? 2 * l->capacity : 256};
        larger.nodes = tpi_malloc((size_t)larger.capacity * sizeof *larger.nodes);
        larger.made = tpi_malloc((size_t)larger.capacity * sizeof *larger.made);
        if (!larger.nodes || !larger.made) {
            tpi_mfree(larger.nodes);
            tpi_mfree(larger.made);
            return false;
        }
        memset(larger.nodes, 0, (size_t)larger.capacity * sizeof *larger.nodes);
        for (int64_t i = 0; i < l->capacity; i++) {
            if (!l->nodes[i]) continue;
            int64_t at = slot_of(&larger, l->nodes[i]);
            larger.nodes[at] = l->nodes[i];
            larger.made[at] = l->made[i];
        }
        tpi_mfree(l->nodes);
        tpi_mfree(l->made);
        l->nodes = larger.nodes;
        l->made = larger.made;
        l->capacity = larger.capacity;
    }
    int64_t at = slot_of(l, node);
    l->nodes[at] = node;
    l->made[at] = tpi_item_retain(v);
    l->n++;
    return true;
}

static void forget(loader *l) {
    for (int64_t i = 0; i < l->capacity; i++)
        if (l->nodes[i]) tpi_item_release(l->made[i]);
    tpi_mfree(l->nodes);
    tpi_mfree(l->made);
}

/* ---- Values ---- */

static tpi_item value(loader *l, const tp_saved *v, int depth);

static tpi_item wrong(const loader *l, const char *what) {
    tpi_fail(TP_ERR_VALUE, "'%s': %s", l->program->path, what);
    return tpi_item_nothing();
}

static tpi_item failed(tpi_item v) {
    tpi_item_release(v);
    return tpi_item_nothing();
}

static tpi_item sequence(loader *l, const tp_saved *v, tp_ivalue_kind kind, int depth) {
    tpi_item made = tpi_item_box(&l->program->heap, kind, v->n);
    if (!made.kind || !remember(l, v, made)) return failed(made);
    for (int64_t i = 0; i < v->n; i++) {
        made.as.box->items[i] = value(l, v->as.items.v[i], depth + 1);
        if (!made.as.box->items[i].kind) return failed(made);
    }
    return made;
}

static tpi_item dict(loader *l, const tp_saved *v, int depth) {
    tpi_item made = tpi_item_box(&l->program->heap, TP_IVALUE_DICT, 0);
    if (!made.kind || !remember(l, v, made)) return failed(made);
    for (int64_t i = 0; i < v->n; i++) {
        tpi_item key = value(l, v->as.items.v[2 * i], depth + 1);
        tpi_item item = key.kind ? value(l, v->as.items.v[2 * i + 1], depth + 1) : tpi_item_nothing();
        if (!tpi_dict_put(made.as.box, key, item)) return failed(made);
    }
    return made;
}

static bool set_state(loader *l, const tpi_item *object, const tp_saved *state, int depth) {
    const tpi_script_class *c = object->as.box->cls;
    if (tpi_names_find(&c->method_numbers, "__setstate__") >= 0) {
        tpi_item given = value(l, state, depth + 1);
        tpi_item none = given.kind ? tpi_script_method(&l->run, object, "__setstate__", 1, &given, NULL) : given;
        if (given.kind) tpi_item_release(given);
        if (none.kind) tpi_item_release(none);
        return none.kind != TP_IVALUE_NOTHING;
    }
    if (state->kind != TP_SAVED_DICT) return wrong(l, "the state of an object is no dict").kind;
    for (int64_t i = 0; i < state->n; i++) {
        const tp_saved *key = state->as.items.v[2 * i];
        int64_t at = key->kind == TP_SAVED_TEXT ? tpi_names_find(&c->attribute_numbers, key->as.text) : -1;
        if (at < 0 || at >= c->nslots) return wrong(l, "an object has an attribute that its class lacks").kind;
        tpi_item v = value(l, state->as.items.v[2 * i + 1], depth + 1);
        if (!v.kind) return false;
        tpi_item_set(&object->as.box->items[at], v);
    }
    return true;
}

/* torch.jit._pickle.build_intlist([1, 2]) and restore_type_tag(value, "List[int]") are their first argument. */
static tpi_item object(loader *l, const tp_saved *v, int depth) {
    const tpi_parts *parts = v->parts;
    const tp_saved *call = parts ? parts->call : NULL;
    if (!call || call->kind != TP_SAVED_GLOBAL) return wrong(l, "an object of no class");
    static const char helpers[] = "torch.jit._pickle.";
    if (strncmp(call->as.text, helpers, sizeof helpers - 1) == 0) {
        if (!parts->args || parts->args->kind != TP_SAVED_TUPLE || !parts->args->n)
            return wrong(l, "a list of nothing");
        return value(l, parts->args->as.items.v[0], depth + 1);
    }
    int64_t at = tpi_names_find(&l->program->classes, call->as.text);
    if (at < 0) {
        tpi_fail(TP_ERR_VALUE, "'%s': its class '%s' is not in its code", l->program->path, call->as.text);
        return tpi_item_nothing();
    }
    const tpi_script_class *c = l->program->declared.classes[at];
    if (c->kind == CLASS_NAMED_TUPLE || c->kind == CLASS_ENUM)
        return wrong(l, "a kind of object that Taper does not read");
    tpi_item made = tpi_script_new(l->program, c);
    if (!made.kind || !remember(l, v, made)) return failed(made);
    if (parts->state && !set_state(l, &made, parts->state, depth)) return failed(made);
    return made;
}

static tpi_item device(const loader *l, const tp_saved *v) {
    tpi_item text = tpi_item_text(v->as.text, (size_t)v->n);
    tpi_script_call c = {.run = (tpi_run *)(uintptr_t)&l->run, .name = "device", .n = 1, .args = &text};
    tpi_done done = text.kind ? tpi_script_device(&c) : TPI_FAILED_WORD;
    if (text.kind) tpi_item_release(text);
    return done == TPI_DONE ? c.result : tpi_item_nothing();
}

static tpi_item new_value(loader *l, const tp_saved *v, int depth) {
    tpi_item made;
    switch (v->kind) {
    case TP_SAVED_NONE: return tpi_item_none();
    case TP_SAVED_NUMBER: return tpi_item_number(v->as.number);
    case TP_SAVED_TEXT: return tpi_item_text(v->as.text, (size_t)v->n);
    case TP_SAVED_LIST: return sequence(l, v, TP_IVALUE_LIST, depth);
    case TP_SAVED_TUPLE:
    case TP_SAVED_SIZE: return sequence(l, v, TP_IVALUE_TUPLE, depth);
    case TP_SAVED_DICT: return dict(l, v, depth);
    case TP_SAVED_OBJECT: return object(l, v, depth);
    case TP_SAVED_DEVICE: return device(l, v);
    case TP_SAVED_TENSOR:
        made = tpi_item_tensor(tp_saved_tensor(v));
        return made.kind && remember(l, v, made) ? made : failed(made);
    default:
        tpi_fail(TP_ERR_VALUE, "'%s': it holds %s, which programs do not", l->program->path, tpi_kind_name(v));
        return tpi_item_nothing();
    }
}

static tpi_item value(loader *l, const tp_saved *v, int depth) {
    if (depth > DEEPEST_VALUE) return wrong(l, "its values are nested too deep");
    int64_t at = l->capacity ? slot_of(l, v) : -1;
    return at >= 0 && l->nodes[at] ? tpi_item_retain(l->made[at]) : new_value(l, v, depth);
}

/* ---- Code ---- */

/* "model/code/__torch__/a/b.py" -> "__torch__.a.b"; NULL: no code. */
static char *module_of(tpi_program *p, const tp_file *f, const char *member) {
    size_t prefix = strlen(f->prefix), n = strlen(member);
    if (strncmp(member, f->prefix, prefix) != 0 || strncmp(member + prefix, "code/", 5) != 0) return NULL;
    if (n < prefix + 9 || strcmp(member + n - 3, ".py") != 0) return NULL;
    char *module = tpi_arena_text(&p->arena, member + prefix + 5, n - prefix - 8);
    for (char *c = module; c && *c; c++)
        if (*c == '/') *c = '.';
    return module;
}

static bool read_code(tpi_program *p, const tp_file *f) {
    p->sources = tpi_arena_new(&p->arena, (size_t)(f->zip.n + 1) * sizeof *p->sources);
    p->source_names = tpi_arena_new(&p->arena, (size_t)(f->zip.n + 1) * sizeof *p->source_names);
    p->source_bytes = tpi_arena_new(&p->arena, (size_t)(f->zip.n + 1) * sizeof *p->source_bytes);
    if (!p->sources || !p->source_names || !p->source_bytes) return false;
    for (int64_t i = 0; i < f->zip.n; i++) {
        const tpi_zip_member *m = &f->zip.members[i];
        const char *module = module_of(p, f, m->name);
        if (!module) {
            if (!tp_ok()) return false;
            continue;
        }
        char *text = tpi_arena_new(&p->arena, (size_t)m->bytes + 1);
        char *name = tpi_arena_text(&p->arena, m->name, strlen(m->name));
        if (!text || !name || !tpi_file_read_member(f, m, text)) return false;
        p->sources[p->nsources] = text;
        p->source_bytes[p->nsources] = (int64_t)m->bytes;
        p->source_names[p->nsources++] = name + strlen(f->prefix);
        if (!tpi_script_parse(&p->arena, module, name, text, (size_t)m->bytes, &p->declared)) return false;
    }
    return p->nsources > 0 || tpi_refuse(TP_ERR_VALUE, "'%s': it holds no code", p->path);
}

static bool read_version(tpi_program *p, const tp_file *f) {
    const tpi_zip_member *m = tpi_pt_member(f, "", "version");
    if (!m) m = tpi_pt_member(f, ".data/", "version");
    char text[16] = "";
    if (!m || m->bytes >= sizeof text || !tpi_file_read_member(f, m, text))
        return tp_ok() ? tpi_refuse(TP_ERR_VALUE, "'%s': it does not say its version", p->path) : false;
    p->version = strtol(text, NULL, 10);
    return (p->version > 0 && p->version <= NEWEST_VERSION) ||
           tpi_refuse(TP_ERR_VALUE, "'%s': its version is %lld, expected 1 to %d", p->path, (long long)p->version,
                      NEWEST_VERSION);
}

/* ---- Programs ---- */

static bool read_constants(loader *l, const tp_file_options *options) {
    tpi_program *p = l->program;
    l->file = tpi_open_script(p->path, options, "constants");
    const tp_saved *v = l->file ? tp_file_value(l->file) : NULL;
    bool fine =
        v && (v->kind == TP_SAVED_TUPLE || tpi_refuse(TP_ERR_VALUE, "'%s': its constants are no tuple", p->path));
    if (fine) {
        p->constants = tpi_arena_new(&p->arena, (size_t)(v->n + 1) * sizeof *p->constants);
        fine = p->constants != NULL;
    }
    for (int64_t i = 0; fine && i < v->n; i++) {
        p->constants[i] = value(l, v->as.items.v[i], 0);
        fine = p->constants[i].kind != TP_IVALUE_NOTHING;
        p->nconstants += fine;
    }
    forget(l);
    l->nodes = NULL;
    l->made = NULL;
    l->n = l->capacity = 0;
    tp_close_file(l->file);
    return fine;
}

static bool load(tpi_program *p, const tp_file_options *options, tpi_item *module) {
    loader l = {.program = p, .run.program = p};
    tp_file *file = tpi_open_script(p->path, options, "data");
    bool fine =
        file && read_version(p, file) && read_code(p, file) && tpi_program_bind(p) && read_constants(&l, options);
    const tp_saved *v = fine ? tp_file_value(file) : NULL;
    if (v) {
        l.file = file;
        *module = value(&l, v, 0);
        forget(&l);
    }
    if (module->kind && module->kind != TP_IVALUE_OBJECT) {
        tpi_item_set(module, tpi_item_nothing());
        tpi_fail(TP_ERR_VALUE, "'%s': it holds no module", p->path);
    }
    tp_close_file(file);
    return module->kind != TP_IVALUE_NOTHING;
}

tpi_program *tpi_program_load(const char *path, const void *memory, size_t bytes, tpi_item *module) {
    tpi_program *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    p->refs = 1;
    pthread_mutex_init(&p->heap.lock, NULL);
    tp_file_options options = {
        .size = sizeof options, .any_global = true, .memory = memory, .memory_bytes = (int64_t)bytes};
    p->path = tpi_arena_text(&p->arena, path, strlen(path));
    *module = tpi_item_nothing();
    if (p->path && load(p, &options, module)) return p;
    tpi_program_release(p);
    if (tp_ok()) tpi_fail(TP_ERR_VALUE, "'%s': it is no program", path);
    return NULL;
}

void tpi_program_release(tpi_program *p) {
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    for (int64_t i = 0; i < p->nconstants; i++) tpi_item_release(p->constants[i]);
    tpi_heap_clear(&p->heap);
    pthread_mutex_destroy(&p->heap.lock);
    tpi_arena_free(&p->arena);
    tpi_delete(p, sizeof *p);
}
