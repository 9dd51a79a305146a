/* Checks that need a whole stanza or all tables; and what a stanza leaves to be derived from the others. */
#include "facts.h"
#include "registers.h"
#include <stdlib.h>
#include <string.h>

static void check_fold(op *o) {
    const char *name = kind_names[o->kind];
    if (!o->start || !o->step || !o->finish || (o->kind == K_FOLD && !o->merge))
        fail(o->at, "%s: a %s needs start, step, merge and finish", o->name, name);
    if (o->start->n > 4) fail(o->at, "%s: more than 4 state variables", o->name);
    for (int i = 0; i < o->start->n; i++)
        if (!o->start->name[i]) fail(o->at, "%s: 'start' is a list of 'name = value'", o->name);
}

static void check_derivatives(op *o) {
    if (o->kind == K_COMPOSE || o->kind == K_COMPOSE_C) {
        for (int i = 0; i < o->nargs; i++)
            if (o->args[i].grad)
                fail(o->at, "%s: a composition differentiates itself; remove its 'grad' lines", o->name);
        return;
    }
    if (o->todo && (o->inplace || o->results[0].type == T_TENSORS))
        fail(o->at, "%s: a 'todo' operator gives new tensors: no 'inplace' form, no list", o->name);
    if (o->nondiff || o->todo || o->plain) return;
    for (int i = 0; i < o->nargs; i++) {
        arg *a = &o->args[i];
        if ((is_tensor(a->type) || is_tensors(a->type)) && !a->grad && !a->nondiff && !a->grad_group)
            fail(o->at, "%s: no derivative for '%s'; write 'grad %s: ...', 'nondiff %s', 'nondiff' or 'todo'", o->name,
                 a->name, a->name, a->name);
    }
}

/* Without a `names` line: the namespace that the name begins with, otherwise torch itself. */
static char *default_names(const op *o) {
    static const char *const prefixed[] = {"linalg", "fft", "special"};
    if (o->internal) return "";
    for (size_t i = 0; i < sizeof prefixed / sizeof *prefixed; i++) {
        size_t n = strlen(prefixed[i]);
        if (!strncmp(o->name, prefixed[i], n) && o->name[n] == '_') return (char *)prefixed[i];
    }
    return "torch";
}

static void check_op(op *o) {
    if (!*o->name) fail(o->at, "a stanza without a signature");
    if (o->kind == K_NONE) fail(o->at, "%s: expected one of map, fold, scan, view, compose, alias, native", o->name);
    if ((o->gpu || o->anywhere) && o->kind != K_NATIVE && o->kind != K_NATIVE_INPLACE)
        fail(o->at, "%s: only natives have 'gpu' and 'anywhere' lines", o->name);
    if (o->host && (o->gpu || o->anywhere || (o->kind != K_NATIVE && o->kind != K_NATIVE_INPLACE)))
        fail(o->at, "%s: 'host' says why a native has neither a 'gpu' nor an 'anywhere' line", o->name);
    if (o->part && o->kind != K_VIEW) fail(o->at, "%s: only views have a 'part' line", o->name);
    if (!o->doc) fail(o->at, "%s: a doc line is missing", o->name);
    if (!o->names) o->names = default_names(o);
    if (o->types < 0)
        o->types = o->kind == K_MAP || o->kind == K_FOLD || o->kind == K_SCAN ? CAT_INT | CAT_FLOAT : CAT_FLOAT;
    if (o->kind == K_FOLD || o->kind == K_SCAN) check_fold(o);
    if (o->kind == K_VIEW && (o->nresults != 1 || o->args[0].type != T_TENSOR))
        fail(o->at, "%s: a view takes a tensor first and gives one", o->name);
    if (o->inplace && (!o->nargs || !is_tensor(o->args[0].type)))
        fail(o->at, "%s: an in-place form needs a tensor as first argument", o->name);
    if (o->kind == K_MAP && (o->nresults != 1 || o->plain)) fail(o->at, "%s: a map gives one tensor", o->name);
    bool any = false;
    for (int i = 0; i < o->nsamples; i++) any = any || !o->samples[i].error;
    if (!any && !o->internal) fail(o->at, "%s: at least one sample is needed", o->name);
    bool optional = false;
    for (int i = 0; i < o->nargs; i++) {
        optional = optional || o->args[i].fallback;
        if (optional && !o->args[i].fallback)
            fail(o->at, "%s: the argument '%s' without a default follows one with a default", o->name, o->args[i].name);
    }
    check_derivatives(o);
}

static int by_name(const void *a, const void *b) { return strcmp((*(op *const *)a)->name, (*(op *const *)b)->name); }

void check_operators(void) {
    qsort(ops, (size_t)nops, sizeof *ops, by_name);
    for (int i = 0; i < nops; i++) {
        check_op(ops[i]);
        for (int j = 0; j < i; j++)
            if (!strcmp(ops[j]->name, ops[i]->name) || !strcmp(ops[j]->cname, ops[i]->cname))
                fail(ops[i]->at, "%s is defined twice; the other is at %s:%d", ops[i]->name, ops[j]->at.file,
                     ops[j]->at.line);
    }
    derive_batch();
    derive_facts();
    derive_registers();
}
