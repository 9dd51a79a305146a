/* Calls of the tables' operators. A file's code says no overload: its arguments choose one, by the signatures of the
 * tables, first exactly and then with the conversions that PyTorch makes. Where an operator of aten takes its arguments
 * in another order than the public function of that name, the tables have an overload `aten`, which goes first. */
#include "base/error.h"
#include "base/memory.h"
#include "dispatch/call.h"
#include "io/script/program.h"
#include <stdio.h>

enum { MOST_ARGS = 32, MOST_RESULTS = 8 };

/* ---- Looking them up ---- */

static bool is_named(const tp_operator *op, const char *name, size_t n) {
    return strncmp(op->name, name, n) == 0 && (op->name[n] == 0 || op->name[n] == '.');
}

static bool is_atens(const tp_operator *op) {
    const char *dot = strchr(op->name, '.');
    return dot && strncmp(dot, ".aten", 5) == 0;
}

const tp_operator *const *tpi_script_operators(tpi_program *p, const char *name, bool *inplace) {
    size_t n = strlen(name);
    int64_t total = tp_operator_count(), count = 0, own = 0;
    for (int pass = 0; pass < 2 && !count; pass++) {
        *inplace = pass == 1;
        if (*inplace && (n < 2 || name[n - 1] != '_')) return NULL;
        for (int64_t i = 0; i < total; i++) {
            const tp_operator *op = tp_operator_at(i);
            bool named = is_named(op, name, n - *inplace) && (!*inplace || op->invoke_inplace);
            count += named;
            own += named && is_atens(op);
        }
    }
    if (!count) return NULL;
    const tp_operator **found = tpi_arena_new(&p->arena, (size_t)(count + 1) * sizeof *found);
    if (!found) return NULL;
    int64_t front = 0, back = own;
    for (int64_t i = 0; i < total; i++) {
        const tp_operator *op = tp_operator_at(i);
        if (!is_named(op, name, n - *inplace) || (*inplace && !op->invoke_inplace)) continue;
        found[is_atens(op) ? front++ : back++] = op;
    }
    if (own) found[own] = NULL; /* the public overloads have another order of arguments */
    return found;
}

/* ---- Fitting values to arguments ---- */

typedef struct fitting {
    tp_value values[MOST_ARGS];
    void *blocks[MOST_ARGS]; /* arrays of lists */
} fitting;

static bool all_items(const tpi_item *v, bool (*is)(const tpi_item *)) {
    for (int64_t i = 0; i < v->as.box->n; i++)
        if (!is(&v->as.box->items[i])) return false;
    return true;
}
static bool is_tensor(const tpi_item *v) { return v->kind == TP_IVALUE_TENSOR; }
static bool is_tensor_or_none(const tpi_item *v) { return v->kind == TP_IVALUE_TENSOR || v->kind == TP_IVALUE_NONE; }
static bool is_integer(const tpi_item *v) { return tpi_item_is_int(v) || tpi_item_is_bool(v); }
static bool is_real(const tpi_item *v) { return is_integer(v) || tpi_item_is_float(v); }
static bool is_number(const tpi_item *v) { return v->kind == TP_IVALUE_NUMBER; }
static bool is_one_element(const tpi_item *v) {
    return v->kind == TP_IVALUE_TENSOR && v->as.tensor && v->as.tensor->numel == 1;
}
static bool is_index(const tpi_item *v) { return is_integer(v) || is_one_element(v); }
static bool is_list(const tpi_item *v) { return v->kind == TP_IVALUE_LIST || v->kind == TP_IVALUE_TUPLE; }

static tp_scalar number_in(const tpi_item *v) {
    return v->kind == TP_IVALUE_TENSOR ? tp_item_scalar(v->as.tensor) : v->as.number;
}

/* The list's elements as an array in *block. */
static bool fit_list(const tpi_item *v, char letter, tp_value *out, void **block) {
    int64_t n = v->as.box->n;
    size_t item = letter == 'S' ? sizeof(tp_scalar) : 8;
    char *array = tpi_malloc((size_t)n * item + 1);
    if (!array) return false;
    *block = array;
    for (int64_t i = 0; i < n; i++) {
        const tpi_item *e = &v->as.box->items[i];
        if (letter == 'l') ((tp_tensor **)array)[i] = e->kind == TP_IVALUE_TENSOR ? e->as.tensor : NULL;
        if (letter == 'n' || letter == 'B') ((int64_t *)array)[i] = tp_scalar_to_int(number_in(e));
        if (letter == 'F') ((double *)array)[i] = tp_scalar_to_double(e->as.number);
        if (letter == 'S') ((tp_scalar *)array)[i] = e->as.number;
    }
    if (letter == 'l')
        *out = tp_value_tensors(tp_list(n, (tp_tensor **)array));
    else if (letter == 'F')
        *out = tp_value_floats((tp_floats){.v = (double *)array, .n = n});
    else if (letter == 'S')
        *out = tp_value_scalars((tp_scalars){.v = (tp_scalar *)array, .n = n});
    else
        *out = tp_value_ints(tp_ints_view((int64_t *)array, n));
    return tp_ok();
}

/* aten numbers what functions call by words. */
static bool fit_word(const tpi_item *v, const char *name, tp_value *out) {
    static const char *const words[][3] = {{"none", "mean", "sum"}, {"sum", "mean", "max"}};
    int64_t i = tpi_item_is_int(v) ? v->as.number.as.i : -1;
    bool reduction = strcmp(name, "reduction") == 0, mode = strcmp(name, "mode") == 0;
    if ((!reduction && !mode) || i < 0 || i > 2) return false;
    *out = tp_value_string(words[mode][i]);
    return true;
}

static bool fit_layout(const tpi_item *v, tp_value *out) {
    static const tp_layout layouts[] = {TP_CONTIGUOUS, TP_PRESERVE, TP_CHANNELS_LAST, TP_CHANNELS_LAST_3D};
    int64_t i = tpi_item_is_int(v) ? v->as.number.as.i : -1;
    if (i < 0 || i > 3) return false;
    out->kind = TP_K_LAYOUT;
    out->as.layout = layouts[i];
    return true;
}

static bool fit_dtype(const tpi_item *v, tp_value *out) {
    tp_dtype dtype = tpi_item_is_int(v) ? tpi_dtype_of_number(v->as.number.as.i) : TP_NO_DTYPE;
    *out = tp_value_dtype(dtype);
    return dtype != TP_NO_DTYPE;
}

static bool fit_number(const tpi_item *v, bool exact, bool (*is)(const tpi_item *), tp_value *out) {
    bool fine = v->kind == TP_IVALUE_NUMBER ? is(v) : !exact && is_one_element(v);
    if (fine) *out = tp_value_scalar(number_in(v));
    return fine && tp_ok();
}

static bool is_bool(const tpi_item *v) { return tpi_item_is_bool(v); }
static bool is_int(const tpi_item *v) { return tpi_item_is_int(v); }

/* A value as the argument `a` of an operator; false: it does not fit, or there is an error. */
static bool fit(const tpi_item *v, const tp_argument_info *a, char letter, bool exact, tp_value *out, void **block) {
    if (v->kind == TP_IVALUE_NONE) {
        *out = tp_value_none();
        return a->default_value || strchr(a->type, '?');
    }
    switch (letter) {
    case 't': *out = tp_value_tensor(v->as.tensor); return is_tensor(v);
    case 'o':
        if (!is_tensor(v)) return fit_number(v, exact, is_number, out);
        *out = tp_value_tensor(v->as.tensor);
        return true;
    case 'l':
        return is_list(v) && all_items(v, strchr(a->type, '?') ? is_tensor_or_none : is_tensor) &&
               fit_list(v, letter, out, block);
    case 'n':
        if (!is_list(v)) return !exact && fit_number(v, exact, is_integer, out);
        return all_items(v, exact ? is_int : is_index) && fit_list(v, letter, out, block);
    case 'B': return is_list(v) && all_items(v, is_bool) && fit_list(v, letter, out, block);
    case 'F': return is_list(v) && all_items(v, is_real) && fit_list(v, letter, out, block);
    case 'S': return is_list(v) && all_items(v, is_number) && fit_list(v, letter, out, block);
    case 'i': return fit_number(v, exact, exact ? is_int : is_integer, out);
    case 'b':
    case 'q': return fit_number(v, exact, is_bool, out);
    case 'f': return fit_number(v, exact, is_real, out);
    case 's': return fit_number(v, exact, is_number, out);
    case 'd': return fit_dtype(v, out);
    case 'L': return fit_layout(v, out);
    case 'D':
        if (v->kind != TP_IVALUE_DEVICE) return false;
        *out = tp_value_device(v->as.device);
        return true;
    case 'c':
        if (v->kind != TP_IVALUE_TEXT) return fit_word(v, a->name, out);
        *out = tp_value_string(v->as.box->text);
        return strlen(v->as.box->text) == (size_t)v->as.box->n;
    default: return false;
    }
}

/* Arguments that aten has and that change nothing here: kinds of memory, libraries. */
static bool is_idle(const char *name, const tpi_item *v) {
    static const char *const idle[] = {"layout", "pin_memory", "non_blocking", "memory_format", "generator", "path"};
    bool off = v->kind == TP_IVALUE_NONE || (v->kind == TP_IVALUE_NUMBER && v->as.number.as.i == 0);
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (off && strcmp(name, idle[i]) == 0) return true;
    return false;
}

static int64_t position_of(const tp_operator *op, const char *name) {
    for (int64_t i = 0; i < op->nargs; i++)
        if (strcmp(op->args[i].name, name) == 0) return i;
    /* aten calls the first argument `self` where functions call it `input`, and the other way round */
    return op->nargs && (strcmp(name, "self") == 0 || strcmp(name, "input") == 0) ? 0 : -1;
}

static void forget(fitting *f) {
    for (int i = 0; i < MOST_ARGS; i++) tpi_mfree(f->blocks[i]);
}

static bool fit_all(const tpi_script_call *c, const tp_operator *op, bool exact, fitting *f) {
    memset(f, 0, sizeof *f);
    if (op->nargs > MOST_ARGS) return false;
    for (int64_t i = 0; i < c->n; i++) {
        const char *name = c->names ? c->names[i] : NULL;
        int64_t at = name ? position_of(op, name) : i;
        if (name && at < 0 && is_idle(name, &c->args[i])) continue;
        if (at < 0 || at >= op->nargs || f->values[at].kind != TP_K_NONE || f->blocks[at]) return false;
        if (!fit(&c->args[i], &op->args[at], op->letters[at], exact, &f->values[at], &f->blocks[at])) return false;
    }
    for (int64_t i = 0; i < op->nargs; i++) {
        bool none = f->values[i].kind == TP_K_NONE;
        if (none && !op->args[i].default_value && !strchr(op->args[i].type, '?')) return false;
    }
    return true;
}

/* ---- Calling ---- */

static tpi_item from_value(tpi_heap *heap, const tp_value *v) {
    if (v->kind == TP_K_TENSOR) return (tpi_item){.kind = TP_IVALUE_TENSOR, .as.tensor = v->as.tensor};
    if (v->kind == TP_K_SCALAR) return tpi_item_number(v->as.scalar);
    if (v->kind == TP_K_DTYPE) return tpi_item_int(tpi_number_of_dtype(v->as.dtype));
    if (v->kind != TP_K_TENSORS) return tpi_item_none();
    tpi_item list = tpi_item_box(heap, TP_IVALUE_LIST, v->as.tensors.n);
    for (int64_t i = 0; list.kind && i < v->as.tensors.n; i++)
        list.as.box->items[i] = tpi_item_tensor(tpi_retain(v->as.tensors.v[i]));
    tpi_release_list(v->as.tensors);
    return list;
}

static bool store_results(tpi_script_call *c, int64_t n, const tp_value *results) {
    tpi_heap *heap = &c->run->program->heap;
    if (n == 1) {
        c->result = from_value(heap, &results[0]);
        return c->result.kind != TP_IVALUE_NOTHING;
    }
    tpi_item tuple = tpi_item_box(heap, TP_IVALUE_TUPLE, n);
    bool fine = tuple.kind != TP_IVALUE_NOTHING;
    for (int64_t i = 0; i < n; i++) {
        tpi_item v = from_value(heap, &results[i]);
        fine = fine && v.kind != TP_IVALUE_NOTHING;
        if (fine)
            tuple.as.box->items[i] = v;
        else
            tpi_item_release(v);
    }
    c->result = fine ? tuple : tpi_item_nothing();
    if (!fine) tpi_item_release(tuple);
    return fine;
}

static bool invoke(tpi_script_call *c, const tp_operator *op, bool inplace, const fitting *f) {
    tp_value results[MOST_RESULTS] = {{0}};
    const char *before = tpi_op_enter(op->name);
    bool fine = (inplace ? op->invoke_inplace : op->invoke)(f->values, results);
    tpi_op_leave(before);
    return fine && store_results(c, inplace ? 1 : op->nresults, results);
}

static bool fits_none(const tpi_script_call *c, const tp_operator *const *overloads) {
    char given[256] = "";
    size_t n = 0;
    for (int64_t i = 0; i < c->n && n + 40 < sizeof given; i++)
        n += (size_t)snprintf(given + n, sizeof given - n, "%s%s", i ? ", " : "", tpi_item_kind_name(&c->args[i]));
    return tpi_refuse(TP_ERR_TYPE, "%s: no overload takes (%s); one is %s", c->name, given, overloads[0]->signature);
}

bool tpi_script_operator(tpi_script_call *c, const tp_operator *const *overloads, bool inplace) {
    fitting f;
    for (int exact = 1; exact >= 0; exact--)
        for (int64_t i = 0; overloads[i]; i++) {
            bool fine = fit_all(c, overloads[i], exact, &f);
            bool done = fine && invoke(c, overloads[i], inplace, &f);
            forget(&f);
            if (fine || !tp_ok()) return done;
        }
    return fits_none(c, overloads);
}
