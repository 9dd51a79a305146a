/* An optimiser's step as Python source, for steps that autograd records: the same expressions as the kernels', over
 * tensors. What a choice chooses from is computed only where it is chosen, as the state that a flag leaves out is not
 * there. */
#include "optimiser.h"
#include <string.h>

static void python_expr(text *t, const expr *e) {
    switch (e->kind) {
    case E_INT: put(t, "%lld", (long long)e->i); break;
    case E_FLOAT: put(t, "%.17g", e->f); break;
    case E_NAME: put(t, "%s", e->name); break;
    case E_UNARY:
        put(t, "(%s", strcmp(e->name, "!") ? e->name : "not ");
        python_expr(t, e->arg[0]);
        put(t, ")");
        break;
    case E_BINARY:
        put(t, "(");
        python_expr(t, e->arg[0]);
        put(t, " %s ", !strcmp(e->name, "&&") ? "and" : !strcmp(e->name, "||") ? "or" : e->name);
        python_expr(t, e->arg[1]);
        put(t, ")");
        break;
    case E_TERNARY:
        put(t, "choose(");
        python_expr(t, e->arg[0]);
        put(t, ", lambda: ");
        python_expr(t, e->arg[1]);
        put(t, ", lambda: ");
        python_expr(t, e->arg[2]);
        put(t, ")");
        break;
    case E_CALL:
        put(t, "%s(", e->name);
        for (int i = 0; i < e->n; i++) {
            if (i) put(t, ", ");
            python_expr(t, e->arg[i]);
        }
        put(t, ")");
        break;
    default: fail(e->at, "an optimiser's expression cannot be written in Python");
    }
}

static void python_lines(text *t, const block *b) {
    put(t, "[");
    for (int i = 0; b && i < b->n; i++) {
        put(t, "('%s', '", b->name[i]);
        python_expr(t, b->value[i]);
        put(t, "'), ");
    }
    put(t, "]");
}

/* (flags, state that only a flag keeps, numbers, update): lists of (name, expression). NULL where the update is no
 * expression. */
char *python_formula(const optimiser *o) {
    const optimiser *from = o->like ? o->like : o;
    if (!from->update) return NULL;
    text t = {0};
    put(&t, "([");
    for (int i = 0; i < o->nflags; i++) {
        put(&t, "('%s', '", o->flag[i]);
        python_expr(&t, o->flag_value[i]);
        put(&t, "'), ");
    }
    put(&t, "], [");
    for (int i = 0; i < o->nslots; i++)
        put(&t, "('%s', '%s'), ", o->slots[i].name, o->slots[i].flag < 0 ? "True" : o->flag[o->slots[i].flag]);
    put(&t, "], ");
    python_lines(&t, from->scalar);
    put(&t, ", ");
    python_lines(&t, from->update);
    put(&t, ")");
    return t.s;
}
