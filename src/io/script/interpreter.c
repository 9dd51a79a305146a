/* Running a program's trees: statements, expressions, calls. What a thread has under way lies on its stack, so how deep
 * calls, blocks and expressions may be nested is bounded. */
#include "base/error.h"
#include "base/memory.h"
#include "io/script/program.h"
#include <stdio.h>
#include <taper/autograd.h>

enum { DEEPEST = 3000, NAMED_FRAMES = 12, FEW_ARGS = 8 };

typedef struct tpi_frame {
    const tpi_script_function *function;
    tpi_item *variables;
    int32_t line;
} tpi_frame;

typedef enum outcome { FAILED, FINISHED, RETURNED } outcome;

static tpi_item eval(tpi_run *run, tpi_frame *f, const tpi_expr *e);

static bool deeper(tpi_run *run) {
    if (++run->depth <= DEEPEST) return true;
    return tpi_refuse(TP_ERR_RUNTIME, "the program's calls are nested too deep");
}

/* ---- Attributes ---- */

/* Where an attribute of an object or named tuple is; NULL and an error if it has no place there. */
static tpi_item *slot_of(const tpi_item *object, const char *name) {
    const tpi_script_class *c = object->kind >= TP_IVALUE_LIST ? object->as.box->cls : NULL;
    if (!c) return tpi_fail(TP_ERR_VALUE, "%s has no attribute '%s'", tpi_item_kind_name(object), name);
    int64_t at = tpi_names_find(&c->attribute_numbers, name);
    if (at < 0 || at >= c->nslots || at >= object->as.box->n)
        return tpi_fail(TP_ERR_VALUE, "'%s' object has no attribute '%s'", c->name, name);
    return &object->as.box->items[at];
}

/* A class's constant is an expression over literals: it is worked out where it is read. */
tpi_item tpi_script_get(tpi_run *run, const tpi_item *object, const char *name) {
    const tpi_script_class *c = object->kind >= TP_IVALUE_LIST ? object->as.box->cls : NULL;
    int64_t at = c ? tpi_names_find(&c->attribute_numbers, name) : -1;
    static const tpi_script_function no_function = {0};
    tpi_frame f = {.function = &no_function};
    if (at >= 0 && c->attributes[at].constant && c->attributes[at].value) return eval(run, &f, c->attributes[at].value);
    tpi_item *slot = slot_of(object, name);
    if (!slot) return tpi_item_nothing();
    if (slot->kind == TP_IVALUE_NOTHING)
        tpi_fail(TP_ERR_VALUE, "'%s' object: its attribute '%s' has no value yet", c->name, name);
    return tpi_item_retain(*slot);
}

static bool set_attribute(const tpi_item *object, const char *name, tpi_item v) {
    tpi_item *slot = slot_of(object, name);
    if (slot && object->kind == TP_IVALUE_OBJECT) {
        tpi_item_set(slot, v);
        return true;
    }
    tpi_item_release(v);
    return tpi_refuse(TP_ERR_VALUE, "attribute '%s' cannot be set", name);
}

tpi_item tpi_script_new(tpi_program *p, const tpi_script_class *c) {
    tpi_item v = tpi_item_box(&p->heap, TP_IVALUE_OBJECT, c->nslots);
    if (v.kind != TP_IVALUE_NOTHING) v.as.box->cls = c;
    return v;
}

/* ---- Calls ---- */

static const char *type_name(const tpi_type *t) { return t ? t->name : "a value"; }

/* Values by position and by name into a function's variables. */
static bool order_arguments(tpi_run *run, tpi_frame *f, int64_t n, const tpi_item *args, const char *const *names) {
    const tpi_script_function *fn = f->function;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        if (names && names[i]) {
            for (at = 0; at < fn->nparameters && strcmp(fn->parameters[at].name, names[i]) != 0; at++) continue;
            if (at == fn->nparameters) return tpi_refuse(TP_ERR_TYPE, "%s() has no argument '%s'", fn->name, names[i]);
        }
        if (at >= fn->nparameters || (!(names && names[i]) && fn->parameters[at].by_name))
            return tpi_refuse(TP_ERR_TYPE, "%s() takes %lld arguments, %lld were given", fn->name,
                              (long long)fn->nparameters, (long long)n);
        if (f->variables[at].kind != TP_IVALUE_NOTHING)
            return tpi_refuse(TP_ERR_TYPE, "%s(): argument '%s' is given twice", fn->name, fn->parameters[at].name);
        f->variables[at] = tpi_item_retain(args[i]);
    }
    for (int64_t i = 0; i < fn->nparameters; i++) {
        if (f->variables[i].kind != TP_IVALUE_NOTHING) continue;
        if (!fn->parameters[i].otherwise)
            return tpi_refuse(TP_ERR_TYPE, "%s() is missing value for argument '%s' (%s)", fn->name,
                              fn->parameters[i].name, type_name(fn->parameters[i].type));
        f->variables[i] = eval(run, f, fn->parameters[i].otherwise);
        if (f->variables[i].kind == TP_IVALUE_NOTHING) return false;
    }
    return true;
}

static outcome exec_block(tpi_run *run, tpi_frame *f, const tpi_block *b, tpi_item *result);

static void name_frame(tpi_run *run, const tpi_frame *f) {
    char text[512];
    if (run->frames++ >= NAMED_FRAMES) return;
    snprintf(text, sizeof text, "  in %s (%s, line %d)", f->function->qualified, f->function->file, f->line);
    tpi_error_add(text);
}

tpi_item tpi_script_invoke(tpi_run *run, const tpi_script_function *fn, int64_t n, const tpi_item *args,
                           const char *const *names) {
    tpi_item result = tpi_item_nothing();
    if (!deeper(run)) return result;
    tpi_frame f = {.function = fn, .line = fn->line};
    size_t bytes = (size_t)(fn->nvariables + 1) * sizeof *f.variables;
    f.variables = tpi_new0(bytes);
    if (!f.variables) return result;
    const tpi_frame *before = run->frame;
    run->frame = &f;
    outcome o = order_arguments(run, &f, n, args, names) ? exec_block(run, &f, &fn->body, &result) : FAILED;
    if (o == FAILED) name_frame(run, &f);
    if (o == FINISHED) result = tpi_item_none();
    run->frame = before;
    for (int64_t i = 0; i < fn->nvariables; i++) tpi_item_release(f.variables[i]);
    tpi_delete(f.variables, bytes);
    run->depth--;
    return result;
}

/* The hooks of a module around its forward: a pre-hook gets (self, the inputs as a tuple) and gives the new inputs, a
 * hook also gets what came out. */
static tpi_item call_hooked(tpi_run *run, const tpi_item *object, const tpi_script_function *forward, int64_t n,
                            const tpi_item *args, const char *const *names) {
    const tpi_script_class *c = object->as.box->cls;
    tpi_item inputs = tpi_item_box(&run->program->heap, TP_IVALUE_TUPLE, n - 1), result = tpi_item_nothing();
    if (inputs.kind == TP_IVALUE_NOTHING) return result;
    for (int64_t i = 1; i < n; i++) inputs.as.box->items[i - 1] = tpi_item_retain(args[i]);
    bool fine = true;
    for (int64_t i = 0; fine && i < c->nforward_pre_hooks; i++) {
        tpi_item made = tpi_script_method(run, object, c->forward_pre_hooks[i], 1, &inputs, NULL);
        fine = made.kind != TP_IVALUE_NOTHING;
        if (made.kind == TP_IVALUE_TUPLE) tpi_item_set(&inputs, tpi_item_retain(made));
        if (fine && made.kind != TP_IVALUE_TUPLE && made.kind != TP_IVALUE_NONE) {
            tpi_item one = tpi_item_box(&run->program->heap, TP_IVALUE_TUPLE, 1);
            fine = one.kind != TP_IVALUE_NOTHING;
            if (fine) one.as.box->items[0] = tpi_item_retain(made);
            if (fine) tpi_item_set(&inputs, one);
        }
        tpi_item_release(made);
    }
    int64_t given = inputs.as.box->n + 1;
    tpi_item *all = fine ? tpi_malloc((size_t)given * sizeof *all) : NULL;
    if (all) {
        all[0] = *object;
        for (int64_t i = 1; i < given; i++) all[i] = inputs.as.box->items[i - 1];
        result = tpi_script_invoke(run, forward, given, all, given == n ? names : NULL);
    }
    tpi_mfree(all);
    for (int64_t i = 0; result.kind != TP_IVALUE_NOTHING && i < c->nforward_hooks; i++) {
        tpi_item pair[2] = {inputs, result};
        tpi_item made = tpi_script_method(run, object, c->forward_hooks[i], 2, pair, NULL);
        if (made.kind != TP_IVALUE_NONE) tpi_item_set(&result, made);
    }
    tpi_item_release(inputs);
    return result;
}

/* args are without the object. */
tpi_item tpi_script_method(tpi_run *run, const tpi_item *object, const char *method, int64_t n, const tpi_item *args,
                           const char *const *names) {
    tpi_item result = tpi_item_nothing(), few[FEW_ARGS];
    const tpi_script_class *c = object->kind >= TP_IVALUE_LIST ? object->as.box->cls : NULL;
    int64_t at = c ? tpi_names_find(&c->method_numbers, method) : -1;
    if (at < 0 && object->kind == TP_IVALUE_TENSOR && !n && strcmp(method, "tolist") == 0) {
        tpi_script_call call = {.run = run, .name = method, .n = 1, .args = object, .result = result};
        return tpi_script_tensor_word("prim.tolist")->run(&call) == TPI_DONE ? call.result : result;
    }
    if (at < 0) {
        tpi_fail(TP_ERR_VALUE, "%s%s%s has no method '%s'", c ? "'" : "", c ? c->name : tpi_item_kind_name(object),
                 c ? "' object" : "", method);
        return result;
    }
    const char *few_names[FEW_ARGS];
    tpi_item *all = n < FEW_ARGS ? few : tpi_malloc((size_t)(n + 1) * sizeof *all);
    const char **all_names = n < FEW_ARGS ? few_names : tpi_malloc((size_t)(n + 1) * sizeof *all_names);
    if (all && all_names) {
        all[0] = *object;
        all_names[0] = NULL;
        for (int64_t i = 0; i < n; i++) {
            all[i + 1] = args[i];
            all_names[i + 1] = names ? names[i] : NULL;
        }
        const char *const *given = names ? all_names : NULL;
        bool hooked = (c->nforward_hooks || c->nforward_pre_hooks) && strcmp(method, "forward") == 0;
        result = hooked ? call_hooked(run, object, c->methods[at], n + 1, all, given)
                        : tpi_script_invoke(run, c->methods[at], n + 1, all, given);
    }
    if (all != few) tpi_mfree(all);
    if (all_names != few_names) tpi_mfree(all_names);
    return result;
}

/* A class is called for a named tuple; Class.__new__(Class) makes an object without values. */
static tpi_item call_class(tpi_run *run, const tpi_script_class *c, int64_t n, const tpi_item *args) {
    if (c->kind != CLASS_NAMED_TUPLE) return tpi_script_new(run->program, c);
    tpi_item v = tpi_item_box(&run->program->heap, TP_IVALUE_TUPLE, c->nslots);
    if (v.kind == TP_IVALUE_NOTHING) return v;
    v.as.box->cls = c;
    bool fine = n == c->nslots || tpi_refuse(TP_ERR_TYPE, "%s takes %lld values, %lld were given", c->name,
                                             (long long)c->nslots, (long long)n);
    for (int64_t i = 0; fine && i < n; i++) v.as.box->items[i] = tpi_item_retain(args[i]);
    if (fine) return v;
    tpi_item_release(v);
    return tpi_item_nothing();
}

static tpi_item call_operator(tpi_run *run, const tpi_expr *e, int64_t n, const tpi_item *args) {
    tpi_script_call c = {.run = run, .name = e->text, .n = n, .args = args, .names = e->names};
    bool known = false;
    for (int i = 0; i < TPI_WORD_GROUPS; i++) {
        tpi_done done = e->words[i] ? e->words[i]->run(&c) : TPI_OTHER;
        if (done == TPI_DONE) return c.result;
        if (done == TPI_FAILED_WORD) return tpi_item_nothing();
        known = known || e->words[i];
    }
    if (e->operators) return tpi_script_operator(&c, e->operators, e->inplace) ? c.result : tpi_item_nothing();
    if (known)
        tpi_fail(TP_ERR_TYPE, "%s: its arguments (the first is %s) are of no kind that Taper knows it for", e->text,
                 n ? tpi_item_kind_name(&args[0]) : "missing");
    else
        tpi_fail(TP_ERR_MISSING, "the program calls the operator %s, which Taper does not have", e->text);
    return tpi_item_nothing();
}

static tpi_item call(tpi_run *run, tpi_frame *f, const tpi_expr *e) {
    tpi_item few[FEW_ARGS], result = tpi_item_nothing();
    int64_t n = 0;
    tpi_item *args = e->n <= FEW_ARGS ? few : tpi_malloc((size_t)e->n * sizeof *args);
    if (!args) return result;
    for (; n < e->n; n++) {
        args[n] = eval(run, f, e->args[n]);
        if (args[n].kind == TP_IVALUE_NOTHING) break;
    }
    f->line = e->line;
    if (n == e->n) {
        if (e->kind == E_OPERATOR)
            result = call_operator(run, e, n, args);
        else if (e->kind == E_METHOD)
            result = tpi_script_method(run, &args[0], e->text, n - 1, args + 1, e->names ? e->names + 1 : NULL);
        else if (e->cls)
            result = call_class(run, e->cls, n, args);
        else if (e->function)
            result = tpi_script_invoke(run, e->function, n, args, e->names);
        else
            tpi_fail(TP_ERR_MISSING, "the file has no function '%s'", e->text);
    }
    for (int64_t i = 0; i < n; i++) tpi_item_release(args[i]);
    if (args != few) tpi_mfree(args);
    return result;
}

/* ---- Expressions ---- */

static tpi_item sequence(tpi_run *run, tpi_frame *f, const tpi_expr *e, tp_ivalue_kind kind) {
    tpi_item v = tpi_item_box(&run->program->heap, kind, e->n);
    if (v.kind == TP_IVALUE_NOTHING) return v;
    for (int64_t i = 0; i < e->n; i++) {
        v.as.box->items[i] = eval(run, f, e->args[i]);
        if (v.as.box->items[i].kind != TP_IVALUE_NOTHING) continue;
        tpi_item_release(v);
        return tpi_item_nothing();
    }
    return v;
}

static tpi_item dict(tpi_run *run, tpi_frame *f, const tpi_expr *e) {
    tpi_item v = tpi_item_box(&run->program->heap, TP_IVALUE_DICT, 0);
    for (int64_t i = 0; v.kind != TP_IVALUE_NOTHING && i + 1 < e->n; i += 2) {
        tpi_item key = eval(run, f, e->args[i]);
        tpi_item value = key.kind ? eval(run, f, e->args[i + 1]) : tpi_item_nothing();
        if (tpi_dict_put(v.as.box, key, value)) continue;
        tpi_item_release(v);
        return tpi_item_nothing();
    }
    return v;
}

static tpi_item item_at(tpi_run *run, const tpi_item *v, const tpi_item *index) {
    tpi_item pair[2] = {*v, *index};
    tpi_script_call c = {.run = run, .name = "__getitem__", .n = 2, .args = pair};
    tpi_done done = tpi_script_getitem(&c);
    if (done == TPI_OTHER) tpi_fail(TP_ERR_TYPE, "%s has no items", tpi_item_kind_name(v));
    return done == TPI_DONE ? c.result : tpi_item_nothing();
}

static bool has_class(const tpi_item *v, const char *name) {
    return v->kind >= TP_IVALUE_LIST && v->as.box->cls && strcmp(v->as.box->cls->name, name) == 0;
}

static bool fits(const tpi_item *v, const tpi_type *t, const tpi_program *p, int depth) {
    static const struct {
        const char *type;
        int64_t kind, scalar;
    } plain[] = {{"Tensor", TP_IVALUE_TENSOR, 0},
                 {"int", TP_IVALUE_NUMBER, TP_SCALAR_INT},
                 {"float", TP_IVALUE_NUMBER, TP_SCALAR_FLOAT},
                 {"bool", TP_IVALUE_NUMBER, TP_SCALAR_BOOL},
                 {"complex", TP_IVALUE_NUMBER, TP_SCALAR_COMPLEX},
                 {"number", TP_IVALUE_NUMBER, 0},
                 {"str", TP_IVALUE_TEXT, 0},
                 {"NoneType", TP_IVALUE_NONE, 0},
                 {"None", TP_IVALUE_NONE, 0},
                 {"Device", TP_IVALUE_DEVICE, 0},
                 {"list", TP_IVALUE_LIST, 0},
                 {"tuple", TP_IVALUE_TUPLE, 0}};
    if (!t || depth > TPI_SCRIPT_NESTING || strcmp(t->name, "Any") == 0) return true;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(t->name, plain[i].type) == 0)
            return v->kind == plain[i].kind && (!plain[i].scalar || v->as.number.kind == plain[i].scalar);
    if (strcmp(t->name, "Optional") == 0 && v->kind == TP_IVALUE_NONE) return true;
    if (strcmp(t->name, "Optional") == 0 || strcmp(t->name, "Union") == 0) {
        for (int64_t i = 0; i < t->n; i++)
            if (fits(v, t->args[i], p, depth + 1)) return true;
        return false;
    }
    bool list = strcmp(t->name, "List") == 0 && v->kind == TP_IVALUE_LIST;
    bool tuple = strcmp(t->name, "Tuple") == 0 && v->kind == TP_IVALUE_TUPLE && t->n == v->as.box->n;
    for (int64_t i = 0; (list || tuple) && i < v->as.box->n; i++)
        if (!fits(&v->as.box->items[i], t->args[list ? 0 : i], p, depth + 1)) return false;
    if (list || tuple) return true;
    if (strcmp(t->name, "Dict") == 0 && v->kind == TP_IVALUE_DICT) {
        for (int64_t i = 0; t->n == 2 && i < 2 * v->as.box->n; i++)
            if (!fits(&v->as.box->items[i], t->args[i % 2], p, depth + 1)) return false;
        return true;
    }
    int64_t at = tpi_names_find(&p->classes, t->name);
    bool interface = at >= 0 && p->declared.classes[at]->kind == CLASS_INTERFACE;
    return interface ? v->kind == TP_IVALUE_OBJECT : has_class(v, t->name);
}

bool tpi_item_fits(const tpi_item *v, const tpi_type *t, const tpi_program *p) { return fits(v, t, p, 0); }

static tpi_item convert(const tpi_program *p, const tpi_type *t, const tpi_item *v, int depth);

static tpi_item convert_items(const tpi_program *p, const tpi_type *t, const tpi_item *v, tp_ivalue_kind kind,
                              int depth) {
    int64_t n = v->as.box->n * (kind == TP_IVALUE_DICT ? 2 : 1);
    bool same = v->kind == kind;
    tpi_item made = tpi_item_box(NULL, kind, kind == TP_IVALUE_DICT ? 0 : n);
    for (int64_t i = 0; made.kind && i < n; i++) {
        const tpi_type *of = kind == TP_IVALUE_LIST    ? t->args[0]
                             : kind == TP_IVALUE_TUPLE ? t->args[i]
                                                       : t->args[i % 2];
        const tpi_item *from = &v->as.box->items[i];
        tpi_item item = convert(p, of, from, depth + 1);
        bool fine = item.kind != TP_IVALUE_NOTHING;
        same = same && fine && item.kind == from->kind && tpi_item_equal(&item, from) &&
               (item.kind < TP_IVALUE_LIST || item.as.box == from->as.box) &&
               (item.kind != TP_IVALUE_NUMBER || item.as.number.kind == from->as.number.kind);
        if (kind == TP_IVALUE_DICT && fine && i % 2)
            fine = tpi_dict_put(made.as.box, tpi_item_retain(v->as.box->items[i - 1]), item);
        else if (kind == TP_IVALUE_DICT)
            tpi_item_release(item);
        else
            made.as.box->items[i] = item;
        if (fine) continue;
        tpi_item_release(made);
        return tpi_item_nothing();
    }
    if (!same) return made;
    tpi_item_release(made); /* the value itself, which the program may change */
    return tpi_item_retain(*v);
}

static tpi_item convert(const tpi_program *p, const tpi_type *t, const tpi_item *v, int depth) {
    if (!t || depth > TPI_SCRIPT_NESTING) return tpi_item_retain(*v);
    if (strcmp(t->name, "float") == 0 && (tpi_item_is_int(v) || tpi_item_is_bool(v)))
        return tpi_item_float((double)v->as.number.as.i);
    if (strcmp(t->name, "Optional") == 0 && t->n == 1 && v->kind != TP_IVALUE_NONE)
        return convert(p, t->args[0], v, depth + 1);
    bool items = v->kind == TP_IVALUE_LIST || v->kind == TP_IVALUE_TUPLE;
    if (strcmp(t->name, "List") == 0 && t->n == 1 && items) return convert_items(p, t, v, TP_IVALUE_LIST, depth);
    if (strcmp(t->name, "Tuple") == 0 && items && t->n == v->as.box->n)
        return convert_items(p, t, v, TP_IVALUE_TUPLE, depth);
    if (strcmp(t->name, "Dict") == 0 && t->n == 2 && v->kind == TP_IVALUE_DICT)
        return convert_items(p, t, v, TP_IVALUE_DICT, depth);
    int64_t at = v->kind == TP_IVALUE_TUPLE ? tpi_names_find(&p->classes, t->name) : -1;
    const tpi_script_class *c = at >= 0 ? p->declared.classes[at] : NULL;
    if (c && c->kind == CLASS_NAMED_TUPLE && c->nslots == v->as.box->n && !v->as.box->cls) {
        tpi_item made = tpi_item_box(NULL, TP_IVALUE_TUPLE, v->as.box->n);
        for (int64_t i = 0; made.kind && i < v->as.box->n; i++)
            made.as.box->items[i] = tpi_item_retain(v->as.box->items[i]);
        if (made.kind) made.as.box->cls = c;
        return made;
    }
    return tpi_item_fits(v, t, p) ? tpi_item_retain(*v) : tpi_item_nothing();
}

tpi_item tpi_script_convert(const tpi_program *p, const tpi_type *t, const tpi_item *v) { return convert(p, t, v, 0); }

static tpi_item negative(tpi_run *run, tpi_frame *f, const tpi_expr *e) {
    tpi_item v = eval(run, f, e->args[0]), result = tpi_item_nothing();
    if (v.kind == TP_IVALUE_NOTHING) return v;
    tpi_script_call c = {.run = run, .name = "neg", .n = 1, .args = &v};
    tpi_done done = tpi_script_neg(&c);
    if (done == TPI_DONE)
        result = c.result;
    else if (done == TPI_OTHER)
        tpi_fail(TP_ERR_TYPE, "%s has no negative", tpi_item_kind_name(&v));
    tpi_item_release(v);
    return result;
}

static tpi_item constant(const tpi_run *run, const tpi_expr *e) {
    if (e->number >= 0 && e->number < run->program->nconstants)
        return tpi_item_retain(run->program->constants[e->number]);
    tpi_fail(TP_ERR_VALUE, "CONSTANTS.c%lld is not in the file", (long long)e->number);
    return tpi_item_nothing();
}

static tpi_item variable(const tpi_frame *f, const tpi_expr *e) {
    bool there = e->number < f->function->nvariables && f->variables[e->number].kind != TP_IVALUE_NOTHING;
    if (there) return tpi_item_retain(f->variables[e->number]);
    tpi_fail(TP_ERR_VALUE, "the variable '%s' has no value", e->text);
    return tpi_item_nothing();
}

static tpi_item eval_inner(tpi_run *run, tpi_frame *f, const tpi_expr *e) {
    tpi_item a, b, result;
    switch (e->kind) {
    case E_VALUE: return tpi_item_retain(e->value);
    case E_VARIABLE: return variable(f, e);
    case E_CONSTANT: return constant(run, e);
    case E_LIST: return sequence(run, f, e, TP_IVALUE_LIST);
    case E_TUPLE: return sequence(run, f, e, TP_IVALUE_TUPLE);
    case E_DICT: return dict(run, f, e);
    case E_NEGATIVE: return negative(run, f, e);
    case E_CAST: return eval(run, f, e->args[0]);
    case E_UNSET: return tpi_item_none();
    case E_ATTRIBUTE:
        a = eval(run, f, e->args[0]);
        if (a.kind == TP_IVALUE_NOTHING) return a;
        result = tpi_script_get(run, &a, e->text);
        tpi_item_release(a);
        return result;
    case E_INDEX:
        a = eval(run, f, e->args[0]);
        b = a.kind ? eval(run, f, e->args[1]) : tpi_item_nothing();
        result = b.kind ? item_at(run, &a, &b) : tpi_item_nothing();
        tpi_item_release(a);
        tpi_item_release(b);
        return result;
    case E_ISINSTANCE:
        a = eval(run, f, e->args[0]);
        if (a.kind == TP_IVALUE_NOTHING) return a;
        result = tpi_item_bool(tpi_item_fits(&a, e->type, run->program));
        tpi_item_release(a);
        return result;
    case E_GLOBAL: /* the argument of __new__; an enumeration's member */
        if (e->value.kind) return tpi_item_retain(e->value);
        if (e->cls) return tpi_item_none();
        tpi_fail(TP_ERR_MISSING, "the file has no '%s'", e->text);
        return tpi_item_nothing();
    default: return call(run, f, e);
    }
}

static tpi_item eval(tpi_run *run, tpi_frame *f, const tpi_expr *e) {
    if (!deeper(run)) return tpi_item_nothing();
    tpi_item v = eval_inner(run, f, e);
    run->depth--;
    return v;
}

/* ---- Statements ---- */

static bool assign_one(tpi_run *run, tpi_frame *f, const tpi_expr *target, tpi_item v) {
    if (target->kind == E_VARIABLE) {
        tpi_item_set(&f->variables[target->number], v);
        return true;
    }
    tpi_item object = eval(run, f, target->args[0]);
    bool fine = object.kind != TP_IVALUE_NOTHING;
    if (!fine) tpi_item_release(v);
    fine = fine && set_attribute(&object, target->text, v);
    tpi_item_release(object);
    return fine;
}

static bool assign(tpi_run *run, tpi_frame *f, const tpi_statement *s) {
    tpi_item v = eval(run, f, s->value);
    if (v.kind == TP_IVALUE_NOTHING) return false;
    if (s->ntargets == 1 && !s->unpacks) return assign_one(run, f, s->targets[0], v);
    bool items = v.kind == TP_IVALUE_TUPLE || v.kind == TP_IVALUE_LIST;
    bool fine = items && v.as.box->n == s->ntargets;
    if (!fine)
        tpi_fail(TP_ERR_VALUE, "%lld values are needed to unpack, got %s of %lld", (long long)s->ntargets,
                 tpi_item_kind_name(&v), items ? (long long)v.as.box->n : 1LL);
    for (int64_t i = 0; fine && i < s->ntargets; i++)
        fine = assign_one(run, f, s->targets[i], tpi_item_retain(v.as.box->items[i]));
    tpi_item_release(v);
    return fine;
}

static bool condition(tpi_run *run, tpi_frame *f, const tpi_expr *e, bool *truth) {
    tpi_item v = eval(run, f, e);
    bool fine = v.kind != TP_IVALUE_NOTHING && tpi_is_true(&v, truth);
    tpi_item_release(v);
    return fine;
}

static outcome loop_while(tpi_run *run, tpi_frame *f, const tpi_statement *s, tpi_item *result) {
    for (;;) {
        bool on = false;
        f->line = s->line;
        if (!condition(run, f, s->value, &on)) return FAILED;
        if (!on) return FINISHED;
        outcome o = exec_block(run, f, &s->body, result);
        if (o != FINISHED) return o;
    }
}

static outcome loop_for(tpi_run *run, tpi_frame *f, const tpi_statement *s, tpi_item *result) {
    tpi_item count = eval(run, f, s->value);
    bool fine = tpi_item_is_int(&count);
    if (!fine && count.kind) tpi_fail(TP_ERR_TYPE, "range: expected an int, got %s", tpi_item_kind_name(&count));
    int64_t n = fine ? count.as.number.as.i : 0;
    tpi_item_release(count);
    if (!fine) return FAILED;
    for (int64_t i = 0; i < n; i++) {
        tpi_item_set(&f->variables[s->targets[0]->number], tpi_item_int(i));
        outcome o = exec_block(run, f, &s->body, result);
        if (o != FINISHED) return o;
    }
    return FINISHED;
}

/* `with` around PyTorch's own grad modes turns gradients on or off; other classes have __enter__ and __exit__. */
static bool grad_mode_of(const tpi_item *v, bool *on) {
    static const char prefix[] = "__torch__.torch.autograd.grad_mode.";
    const char *name = v->kind == TP_IVALUE_OBJECT && v->as.box->cls ? v->as.box->cls->name : "";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    const char *end = strrchr(name, '.');
    *on = strcmp(end, ".enable_grad") == 0;
    return *on || strcmp(end, ".no_grad") == 0;
}

static outcome with(tpi_run *run, tpi_frame *f, const tpi_statement *s, tpi_item *result) {
    tpi_item context = eval(run, f, s->value);
    if (context.kind == TP_IVALUE_NOTHING) return FAILED;
    bool on, before = tp_grad_enabled(), mode = grad_mode_of(&context, &on);
    tpi_item entered = tpi_item_none(), none[3] = {tpi_item_none(), tpi_item_none(), tpi_item_none()};
    if (mode)
        tp_set_grad_enabled(on);
    else
        entered = tpi_script_method(run, &context, "__enter__", 0, NULL, NULL);
    outcome o = entered.kind ? FINISHED : FAILED;
    if (o == FINISHED && s->ntargets && !assign_one(run, f, s->targets[0], tpi_item_retain(entered))) o = FAILED;
    tpi_item_release(entered);
    if (o == FINISHED) o = exec_block(run, f, &s->body, result);
    if (mode) {
        tp_set_grad_enabled(before);
    } else if (o != FAILED) {
        tpi_item left = tpi_script_method(run, &context, "__exit__", 3, none, NULL);
        if (left.kind == TP_IVALUE_NOTHING) {
            tpi_item_set(result, tpi_item_nothing());
            o = FAILED;
        }
        tpi_item_release(left);
    }
    tpi_item_release(context);
    return o;
}

static outcome exec(tpi_run *run, tpi_frame *f, const tpi_statement *s, tpi_item *result) {
    bool on = false;
    tpi_item v;
    f->line = s->line;
    switch (s->kind) {
    case S_ASSIGN: return assign(run, f, s) ? FINISHED : FAILED;
    case S_EXPR:
        v = eval(run, f, s->value);
        tpi_item_release(v);
        return v.kind == TP_IVALUE_NOTHING ? FAILED : FINISHED;
    case S_IF:
        if (!condition(run, f, s->value, &on)) return FAILED;
        return exec_block(run, f, on ? &s->body : &s->otherwise, result);
    case S_WHILE: return loop_while(run, f, s, result);
    case S_FOR: return loop_for(run, f, s, result);
    case S_WITH: return with(run, f, s, result);
    case S_RETURN: *result = eval(run, f, s->value); return result->kind == TP_IVALUE_NOTHING ? FAILED : RETURNED;
    default: return FINISHED;
    }
}

static outcome exec_block(tpi_run *run, tpi_frame *f, const tpi_block *b, tpi_item *result) {
    if (!deeper(run)) return FAILED;
    outcome o = FINISHED;
    for (int64_t i = 0; i < b->n && o == FINISHED; i++) o = exec(run, f, b->v[i], result);
    run->depth--;
    return o;
}
