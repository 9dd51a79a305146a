/* The operations of the register machine of CPU programs (src/device/cpu/register_program.h), from the expressions of
 * maps whose stanza says `registers`.
 *
 * The machine has one accumulator of some vectors of floats. An operator with two operands has five forms, by where
 * the operands are: one is the accumulator, the other is memory or a number, or both are the accumulator. Equal forms
 * of several operators are one operation. */
#include "registers.h"
#include <stdio.h>
#include <string.h>

typedef enum { WITH_NOTHING, WITH_MEMORY, WITH_NUMBER, WITH_NUMBERS } company;
typedef struct operation {
    char *name, *vector; /* C text over `a`, `v`, MEMORY(v), number and number2 */
    company with;
} operation;
static operation operations[128];
static int noperations;

/* What the names of an expression stand for. */
typedef struct names {
    const op *o;
    kernel_inputs k;
    const char *operand[3]; /* vector text of each operand */
    const char *param[2];
} names;

typedef struct vtext { /* a vector's text; `mask`: of truth values */
    char *c;
    bool mask, zero, one;
} vtext;

static vtext vector_expr(const names *n, const expr *e);

static vtext name_text(const names *n, const expr *e) {
    int a = find_arg(n->o, e->name);
    for (int i = 0; i < n->k.n; i++)
        if (n->k.arg[i] == a) return (vtext){.c = (char *)n->operand[i]};
    for (int i = 0; i < n->k.nparam; i++)
        if (n->k.param[i] == a && a == n->o->registers_when)
            return (vtext){.c = "ONE", .one = true};
        else if (n->k.param[i] == a)
            return (vtext){.c = (char *)n->param[i]};
    fail(e->at, "%s: '%s' has no place in registers", n->o->name, e->name);
}

static vtext binary_text(const names *n, const expr *e) {
    vtext x = vector_expr(n, e->arg[0]), y = vector_expr(n, e->arg[1]);
    char o = e->name[0];
    bool logical = !strcmp(e->name, "&&") || !strcmp(e->name, "||");
    if (logical) return (vtext){.c = format("(%s %c %s)", x.c, o, y.c), .mask = true};
    if (!strcmp(e->name, "*") && x.one) return y;
    if (!strcmp(e->name, "*") && y.one) return x;
    if (strchr("+*", o) && !strcmp(y.c, "a") && strcmp(x.c, "a")) { /* the accumulator first, so that forms are equal */
        vtext z = x;
        x = y;
        y = z;
    }
    bool compares = strchr("<>=!", o) != NULL;
    if (!compares && !strchr("+-*/", o)) fail(e->at, "%s: '%s' has no place in registers", n->o->name, e->name);
    return (vtext){.c = format("(%s %s %s)", x.c, e->name, y.c), .mask = compares};
}

static vtext call_text(const names *n, const expr *e) {
    static const char *const known[][2] = {{"max", "LARGER_OF"}, {"min", "SMALLER_OF"}, {"abs", "WITHOUT_SIGN"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(e->name, known[i][0])) continue;
        char *first = vector_expr(n, e->arg[0]).c;
        if (e->n == 1) return (vtext){.c = format("%s(%s)", known[i][1], first)};
        return (vtext){.c = format("%s(%s, %s)", known[i][1], first, vector_expr(n, e->arg[1]).c)};
    }
    fail(e->at, "%s: %s() has no place in registers", n->o->name, e->name);
}

static vtext choice_text(const names *n, const expr *e) {
    vtext c = vector_expr(n, e->arg[0]), x = vector_expr(n, e->arg[1]), y = vector_expr(n, e->arg[2]);
    if (!c.mask) fail(e->at, "%s: a choice in registers is by a comparison", n->o->name);
    if (x.zero) return (vtext){.c = format("UNLESS(%s, %s)", c.c, y.c)};
    return (vtext){.c = format("PICK(%s, %s, %s)", c.c, x.c, y.c)};
}

static vtext vector_expr(const names *n, const expr *e) {
    switch (e->kind) {
    case E_INT:
        if (e->i == 0) return (vtext){.c = "ZERO", .zero = true};
        if (e->i == 1) return (vtext){.c = "ONE", .one = true};
        return (vtext){.c = format("SPLAT(%lld.0f)", (long long)e->i)};
    case E_FLOAT: return (vtext){.c = format("SPLAT((float)%.17g)", e->f)};
    case E_NAME: return name_text(n, e);
    case E_UNARY: {
        vtext x = vector_expr(n, e->arg[0]);
        if (e->name[0] == '!' && x.mask) return (vtext){.c = format("(~%s)", x.c), .mask = true};
        if (e->name[0] != '-') break;
        return (vtext){.c = format("(-%s)", x.c)};
    }
    case E_BINARY: return binary_text(n, e);
    case E_TERNARY: return choice_text(n, e);
    case E_CALL: return call_text(n, e);
    default: break;
    }
    fail(e->at, "%s: this expression has no place in registers", n->o->name);
}

/* The number of the operation with this text, which is new or an operator's before it. */
static int operation_of(const names *n, const char *form, company with) {
    const block *b = n->o->body;
    if (b->n != 1 || b->name[0]) fail(n->o->at, "%s: locals have no place in registers", n->o->name);
    char *vector = vector_expr(n, b->value[0]).c;
    for (int i = 0; i < noperations; i++)
        if (operations[i].with == with && !strcmp(operations[i].vector, vector)) return i;
    if (noperations == sizeof operations / sizeof *operations) fail(n->o->at, "more operations in registers than fit");
    operations[noperations] = (operation){format("%s%s", n->o->cname, form), vector, with};
    return noperations++;
}

/* ---- Stanzas ---- */

/* registers, or registers when ARG == 1 */
void parse_registers(op *o, const char *s, location at) {
    o->registers = true;
    o->registers_when = -1;
    if (starts(&s, "when")) {
        char *name = word(&s);
        o->registers_when = find_arg(o, name);
        s = spaces(s);
        if (o->registers_when < 0 || strncmp(s, "== 1", 4)) fail(at, "expected 'registers when ARGUMENT == 1'");
        s += 4;
    }
    if (*spaces(s)) fail(at, "expected the end of the line, found '%s'", s);
}

static void find_forms(op *o) {
    static const struct {
        const char *suffix, *first, *second;
        company with;
    } forms[REGISTER_FORMS] = {{"_memory", "a", "MEMORY(v)", WITH_MEMORY},
                               {"_of_memory", "MEMORY(v)", "a", WITH_MEMORY},
                               {"_number", "a", "number", WITH_NUMBER},
                               {"_of_number", "number", "a", WITH_NUMBER},
                               {"_itself", "a", "a", WITH_NOTHING}};
    names n = {.o = o};
    map_inputs(o, -1, &n.k);
    int numbers = n.k.nparam - (o->registers_when >= 0);
    if (n.k.n == 2 && numbers == 0) {
        for (int f = 0; f < REGISTER_FORMS; f++) {
            n.operand[0] = forms[f].first;
            n.operand[1] = forms[f].second;
            o->register_form[f] = 1 + operation_of(&n, forms[f].suffix, forms[f].with);
        }
        return;
    }
    n.operand[0] = "a";
    n.operand[1] = n.param[0] = "number";
    n.operand[2] = n.param[1] = "number2";
    if (n.k.n == 3 && numbers == 0)
        numbers = 2; /* its last two operands, where they are numbers */
    else if (n.k.n != 1 || numbers > 2)
        fail(o->at, "%s: 'registers' is for two operands, or for one and up to two numbers", o->name);
    o->register_form[0] = 1 + operation_of(&n, "",
                                           numbers == 0   ? WITH_NOTHING
                                           : numbers == 1 ? WITH_NUMBER
                                                          : WITH_NUMBERS);
}

void derive_registers(void) {
    for (int i = 0; i < nops; i++) {
        if (!ops[i]->registers) continue;
        if (ops[i]->kind != K_MAP) fail(ops[i]->at, "%s: 'registers' is for maps", ops[i]->name);
        find_forms(ops[i]);
    }
}

/* ---- Records ---- */

char *register_members(const op *o) {
    kernel_inputs k;
    text t = {0};
    put(&t, ".registers = {");
    for (int f = 0; f < REGISTER_FORMS; f++) {
        int r = o->register_form[f];
        put(&t, r ? "TPI_REGISTER_%s, " : "0, ", r ? operations[r - 1].name : "");
    }
    map_inputs(o, -1, &k);
    int when = -1;
    for (int i = 0; o->registers && i < k.nparam; i++)
        if (k.param[i] == o->registers_when) when = i;
    put(&t, "}, .registers_when = %d", when);
    return t.s;
}

static bool is_name(const expr *e, const char *name) { return e->kind == E_NAME && !strcmp(e->name, name); }

/* A fold with one state of the compute type, whose step adds the element, or takes the larger of the two. The element
 * comes first in max(): what is asked of the first, whether it is a NaN, does not wait for the state then. */
const char *register_end(const op *o) {
    if (o->start->n != 1 || o->start->type[0] || o->first || o->step->n != 1) return "NONE";
    const char *state = o->start->name[0];
    const expr *start = o->start->value[0], *step = o->step->value[0];
    if (step->n != 2) return "NONE";
    const bool state_first = is_name(step->arg[0], state) && is_name(step->arg[1], "x"),
               element_first = is_name(step->arg[0], "x") && is_name(step->arg[1], state);
    const bool adds = step->kind == E_BINARY && !strcmp(step->name, "+") && start->kind == E_INT && start->i == 0;
    if (adds && state_first) return "SUM";
    const bool takes_larger = step->kind == E_CALL && !strcmp(step->name, "max") && is_name(start, "least");
    return takes_larger && element_first ? "MAX" : "NONE";
}

text write_registers(void) {
    static const char *const lists[] = {"NOTHING", "MEMORY", "NUMBER", "NUMBERS"};
    text t = {0};
    put(&t, "/* The operations of the register machine, from the maps whose stanzas say `registers`. Written by opgen: "
            "do not edit. */\n#ifndef TPI_REGISTERS_H\n#define TPI_REGISTERS_H\n\n");
    put(&t, "typedef enum tpi_register_code {\n    TPI_REGISTER_END,\n    TPI_REGISTER_LOAD,\n    "
            "TPI_REGISTER_STORE,\n");
    for (int i = 0; i < noperations; i++) put(&t, "    TPI_REGISTER_%s,\n", operations[i].name);
    put(&t, "} tpi_register_code;\n\n/* Each operation on vector `v` of the accumulator, `a`. */\n");
    for (int i = 0; i < noperations; i++) put(&t, "#define IS_%s(a, v) %s\n", operations[i].name, operations[i].vector);
    put(&t, "\n/* X(ALL, name) for each operation with nothing else, with memory, with one number, with two. */\n");
    for (int w = 0; w < 4; w++) {
        put(&t, "#define TPI_REGISTERS_WITH_%s(X, ALL)", lists[w]);
        for (int i = 0; i < noperations; i++)
            if ((int)operations[i].with == w) put(&t, " X(ALL, %s)", operations[i].name);
        put(&t, "\n");
    }
    put(&t, "#define TPI_REGISTERS_ALL(X)");
    for (int i = 0; i < noperations; i++) put(&t, " X(%s)", operations[i].name);
    put(&t, "\n#endif\n");
    return t;
}
