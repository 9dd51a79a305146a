/* How a batch goes through an operator (torch.vmap): the stanza's `batch` line, or what follows from the operator's
 * kind. The rule is text in the registry, and python/taper/_batched.py applies it. Operators without one run slice by
 * slice. */
#include "opgen.h"
#include <string.h>

static char *next_word(const char **s) {
    while (**s == ' ') ++*s;
    size_t n = **s == ',' ? 1 : strcspn(*s, " ,");
    char *w = copy_n(*s, n);
    *s += n;
    return w;
}

static void need_argument(const op *o, const char *name, location at) {
    for (int i = 0; i < o->nargs; i++)
        if (!strcmp(o->args[i].name, name)) return;
    fail(at, "%s has no argument '%s'", o->name, name);
}

static bool one_of(const char *w, const char *const *list) {
    while (*list && strcmp(w, *list)) list++;
    return *list != NULL;
}

/* batch each | all | only ARG | rows ARG RANK, then any of `, dims ARG...`, `, sizes ARG`, `, spread ARG`, `, times
 * ARG`, `, order ARG` */
void parse_batch(op *o, const char *s, location at) {
    static const char *const clauses[] = {"dims", "sizes", "spread", "times", "order", NULL};
    o->batch = copy_n(s, strlen(s));
    char *how = next_word(&s);
    bool picks = !strcmp(how, "only") || !strcmp(how, "rows");
    if (!picks && strcmp(how, "each") && strcmp(how, "all"))
        fail(at, "expected 'batch each', 'all', 'only ARG' or 'rows ARG RANK', found '%s'", how);
    char *w = next_word(&s);
    if (picks) {
        need_argument(o, w, at);
        w = next_word(&s);
    }
    if (!strcmp(how, "rows")) {
        if (!*w || strspn(w, "0123456789") != strlen(w)) fail(at, "expected the rank after 'rows ARG', found '%s'", w);
        w = next_word(&s);
    }
    while (!strcmp(w, ",")) {
        w = next_word(&s);
        if (!one_of(w, clauses)) fail(at, "expected dims, sizes, spread, times or order after ',', found '%s'", w);
        for (w = next_word(&s); *w && strcmp(w, ","); w = next_word(&s)) need_argument(o, w, at);
    }
    if (*w) fail(at, "expected ',' or the end of the line, found '%s'", w);
}

/* Is every element of the result made from the elements at its place alone? */
static bool expr_is_each(const expr *e) {
    static const char *const asks[] = {"given", "defined", "pow_ten", NULL};
    switch (e->kind) {
    case E_INT:
    case E_FLOAT:
    case E_STRING:
    case E_NAME: return true;
    case E_FIELD: return !strcmp(e->name, "is_complex") || !strcmp(e->name, "is_floating");
    case E_CALL: {
        const op *called = find_op(e->name);
        if (!one_of(e->name, asks) && (!called || !called->batch || strcmp(called->batch, "each"))) return false;
        break;
    }
    case E_UNARY:
    case E_BINARY:
    case E_TERNARY:
    case E_NAMED: break;
    default: return false;
    }
    for (int i = 0; i < e->n; i++)
        if (!expr_is_each(e->arg[i])) return false;
    return true;
}

static bool composes_each(const op *o) {
    for (int i = 0; i < o->body->n; i++)
        if (!expr_is_each(o->body->value[i])) return false;
    return o->nresults == 1;
}

void derive_batch(void) {
    for (int i = 0; i < nops; i++) {
        op *o = ops[i];
        if (o->batch) continue;
        if (o->kind == K_MAP) o->batch = "each";
        if ((o->kind == K_FOLD || o->kind == K_SCAN) && o->over) o->batch = format("all, dims %s", o->over);
    }
    for (bool more = true; more;) { /* compositions of compositions */
        more = false;
        for (int i = 0; i < nops; i++) {
            op *o = ops[i];
            if (o->batch || o->kind != K_COMPOSE || !composes_each(o)) continue;
            o->batch = "each";
            more = true;
        }
    }
}
