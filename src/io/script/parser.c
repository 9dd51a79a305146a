/* From tokens to trees: classes, functions, statements, expressions and types. */
#include "base/error.h"
#include "io/script/syntax.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- Names ---- */

static int64_t name_slot(const tpi_names *t, const char *name) {
    uint64_t h = 1469598103934665603u;
    for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 1099511628211u;
    int64_t i = (int64_t)((h >> 5) & (uint64_t)(t->capacity - 1));
    while (t->names[i] && strcmp(t->names[i], name) != 0) i = (i + 1) & (t->capacity - 1);
    return i;
}

int64_t tpi_names_find(const tpi_names *t, const char *name) {
    if (!t->capacity) return -1;
    int64_t i = name_slot(t, name);
    return t->names[i] ? t->numbers[i] : -1;
}

bool tpi_names_put(tpi_names *t, tpi_arena *arena, const char *name, int64_t number) {
    if (2 * t->n >= t->capacity) {
        tpi_names larger = {.n = t->n, .capacity = t->capacity ? 4 * t->capacity : 16};
        larger.names = tpi_arena_new(arena, (size_t)larger.capacity * sizeof *larger.names);
        larger.numbers = tpi_arena_new(arena, (size_t)larger.capacity * sizeof *larger.numbers);
        if (!larger.names || !larger.numbers) return false;
        for (int64_t i = 0; i < t->capacity; i++) {
            if (!t->names[i]) continue;
            int64_t at = name_slot(&larger, t->names[i]);
            larger.names[at] = t->names[i];
            larger.numbers[at] = t->numbers[i];
        }
        *t = larger;
    }
    int64_t i = name_slot(t, name);
    if (!t->names[i]) t->n++;
    t->names[i] = name;
    t->numbers[i] = number;
    return true;
}

/* ---- The parser ---- */

typedef struct parser {
    tpi_arena *arena;
    const char *module, *file;
    const tpi_token *at;
    int depth;
    tpi_names variables; /* of the function that is read */
    int64_t nvariables;
    tpi_names aliases; /* of its variables that stand for functions and classes: _0 = __torch__.f */
    const char **globals;
    int64_t nglobals;
} parser;

static void *broken(const parser *p, const char *what) {
    const tpi_token *t = p->at;
    if (t->kind == T_NAME || t->kind == T_NUMBER)
        return tpi_fail(TP_ERR_VALUE, "%s, line %d: expected %s, got '%s'", p->file, t->line, what, t->text);
    if (t->kind == T_MARK)
        return tpi_fail(TP_ERR_VALUE, "%s, line %d: expected %s, got '%c'", p->file, t->line, what, t->mark);
    return tpi_fail(TP_ERR_VALUE, "%s, line %d: expected %s", p->file, t->line, what);
}

static bool is_mark(const parser *p, char c) { return p->at->kind == T_MARK && p->at->mark == c; }
static bool is_word(const parser *p, const char *word) {
    return p->at->kind == T_NAME && strcmp(p->at->text, word) == 0;
}
static bool accept_mark(parser *p, char c) {
    if (!is_mark(p, c)) return false;
    p->at++;
    return true;
}
static bool accept_word(parser *p, const char *word) {
    if (!is_word(p, word)) return false;
    p->at++;
    return true;
}
static bool need_mark(parser *p, char c) {
    char what[] = "'?'";
    what[1] = c;
    return accept_mark(p, c) || broken(p, what);
}
static const char *need_name(parser *p) { return p->at->kind == T_NAME ? (p->at++)->text : broken(p, "a name"); }
static bool accept_line_end(parser *p) {
    if (p->at->kind != T_NEWLINE) return broken(p, "the end of the line");
    p->at++;
    return true;
}
static bool go_deeper(parser *p) { return ++p->depth <= TPI_SCRIPT_NESTING || broken(p, "less nesting"); }

/* Lists that grow: doubled at powers of two. */
static bool push(parser *p, void *list, int64_t *n, const void *item) {
    void ***v = list;
    if (!item) return false;
    if ((*n & (*n - 1)) == 0) {
        void **larger = tpi_arena_new(p->arena, (size_t)(*n ? 2 * *n : 1) * sizeof *larger);
        if (!larger) return false;
        if (*n) memcpy(larger, *v, (size_t)*n * sizeof *larger);
        *v = larger;
    }
    (*v)[(*n)++] = (void *)(uintptr_t)item;
    return true;
}

static const char *joined(parser *p, const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    char *text = tpi_arena_new(p->arena, n + m + 2);
    if (!text) return NULL;
    memcpy(text, a, n);
    text[n] = '.';
    memcpy(text + n + 1, b, m);
    return text;
}

/* a.b.c as one text, with what a variable in front of it stands for. */
static const char *dotted(parser *p) {
    const char *name = need_name(p);
    int64_t alias = name ? tpi_names_find(&p->aliases, name) : -1;
    if (alias >= 0) name = p->globals[alias];
    while (name && accept_mark(p, '.')) {
        const char *next = need_name(p);
        name = next ? joined(p, name, next) : NULL;
    }
    return name;
}

/* ---- Types ---- */

static const tpi_type *type(parser *p) {
    if (!go_deeper(p)) return NULL;
    tpi_type *t = tpi_arena_new(p->arena, sizeof *t);
    if (!t) return NULL;
    t->name = p->at->kind == T_TEXT ? (p->at++)->text : dotted(p);
    if (!t->name) return NULL;
    if (accept_mark(p, '[')) {
        if (accept_mark(p, '(')) { /* Tuple[()] */
            if (!need_mark(p, ')')) return NULL;
        }
        while (!is_mark(p, ']')) {
            if (!push(p, &t->args, &t->n, type(p))) return NULL;
            if (!accept_mark(p, ',')) break;
        }
        if (!need_mark(p, ']')) return NULL;
    }
    p->depth--;
    return t;
}

/* ---- Expressions ---- */

static tpi_expr *expression(parser *p);

static tpi_expr *new_expr(parser *p, tpi_expr_kind kind) {
    tpi_expr *e = tpi_arena_new(p->arena, sizeof *e);
    if (!e) return NULL;
    e->kind = (uint8_t)kind;
    e->line = p->at->line;
    return e;
}

static tpi_expr *value_expr(parser *p, tpi_item v) {
    tpi_expr *e = new_expr(p, E_VALUE);
    if (e) e->value = v;
    return e;
}

static tpi_expr *variable(parser *p, const char *name) {
    int64_t number = tpi_names_find(&p->variables, name);
    if (number < 0) {
        number = p->nvariables++;
        if (!tpi_names_put(&p->variables, p->arena, name, number)) return NULL;
    }
    tpi_expr *e = new_expr(p, E_VARIABLE);
    if (!e) return NULL;
    e->number = number;
    e->text = name;
    return e;
}

/* Items up to a closing bracket; *comma: was there one? */
static bool items(parser *p, char close, tpi_expr *into, bool *comma) {
    while (!is_mark(p, close)) {
        if (!push(p, &into->args, &into->n, expression(p))) return false;
        if (!accept_mark(p, ',')) break;
        if (comma) *comma = true;
    }
    return need_mark(p, close);
}

/* 0.+1.j: a complex number in two parts; p is behind the first. */
static tpi_expr *with_imaginary(parser *p, tpi_expr *real) {
    const tpi_token *next = p->at + 1;
    if (!is_mark(p, '+') && !is_mark(p, '-')) return real;
    if (next->kind != T_NUMBER || next->text[next->bytes - 1] != 'j') return real;
    double im = strtod(next->text, NULL);
    real->value.as.number = tp_cplx(tp_scalar_to_double(real->value.as.number), is_mark(p, '-') ? -im : im);
    p->at += 2;
    return real;
}

static tpi_expr *number(parser *p) {
    const char *text = p->at->text;
    char *end = NULL;
    errno = 0;
    bool integer = strspn(text, "0123456789") == strlen(text);
    unsigned long long i = integer ? strtoull(text, &end, 10) : 0; /* 2**63 stands behind a minus */
    double d = integer ? 0 : strtod(text, &end);
    bool imaginary = !integer && *end == 'j' && !end[1];
    if ((*end && !imaginary) || (integer && (errno || i > (unsigned long long)INT64_MAX + 1)))
        return broken(p, "a number");
    tp_scalar s = integer ? tp_int((int64_t)i) : imaginary ? tp_cplx(0, d) : tp_float(d);
    tpi_expr *e = value_expr(p, tpi_item_number(s));
    p->at++;
    return e && !imaginary ? with_imaginary(p, e) : e;
}

/* Texts are boxes that the program owns: in the arena, with a count that never comes down to nothing. */
static tpi_expr *text(parser *p) {
    size_t n = (size_t)p->at->bytes;
    tpi_box *b = tpi_arena_new(p->arena, sizeof *b + n + 1);
    if (!b) return NULL;
    b->refs = 1;
    b->n = (int64_t)n;
    memcpy(b->text, p->at->text, n);
    tpi_expr *e = value_expr(p, (tpi_item){.kind = TP_IVALUE_TEXT, .as.box = b});
    p->at++;
    return e;
}

static tpi_expr *dict(parser *p) {
    tpi_expr *e = new_expr(p, E_DICT);
    if (!e) return NULL;
    while (!is_mark(p, '}')) {
        if (!push(p, &e->args, &e->n, expression(p)) || !need_mark(p, ':')) return NULL;
        if (!push(p, &e->args, &e->n, expression(p))) return NULL;
        if (!accept_mark(p, ',')) break;
    }
    return need_mark(p, '}') ? e : NULL;
}

static bool arguments(parser *p, tpi_expr *call) {
    while (!is_mark(p, ')')) {
        const char *name = NULL;
        if (p->at->kind == T_NAME && p->at[1].kind == T_MARK && p->at[1].mark == '=') {
            name = p->at->text;
            p->at += 2;
        }
        int64_t n = call->n;
        if (!push(p, &call->args, &call->n, expression(p))) return false;
        if (name && !call->names) {
            call->names = tpi_arena_new(p->arena, 64 * sizeof *call->names);
            if (!call->names) return false;
        }
        if (name && n >= 64) return broken(p, "fewer arguments");
        if (name) call->names[n] = name;
        if (!name && call->names) return broken(p, "an argument by name");
        if (!accept_mark(p, ',')) break;
    }
    return need_mark(p, ')');
}

/* annotate(T, e), unchecked_cast(T, e), uninitialized(T), isinstance(e, T or [T, ...]); p is behind the bracket. */
static tpi_expr *typed(parser *p, tpi_expr_kind kind) {
    tpi_expr *e = new_expr(p, kind);
    if (!e) return NULL;
    if (kind == E_ISINSTANCE) {
        if (!push(p, &e->args, &e->n, expression(p)) || !need_mark(p, ',')) return NULL;
        tpi_type *any = tpi_arena_new(p->arena, sizeof *any);
        if (!any) return NULL;
        any->name = "Union";
        bool list = accept_mark(p, '[') || accept_mark(p, '(');
        do {
            if (is_mark(p, ']') || is_mark(p, ')')) break;
            if (!push(p, &any->args, &any->n, type(p))) return NULL;
        } while (accept_mark(p, ','));
        if (list && !accept_mark(p, ']') && !need_mark(p, ')')) return NULL;
        e->type = any;
    } else {
        e->type = type(p);
        if (!e->type) return NULL;
        if (kind == E_CAST && (!need_mark(p, ',') || !push(p, &e->args, &e->n, expression(p)))) return NULL;
    }
    accept_mark(p, ',');
    return need_mark(p, ')') ? e : NULL;
}

/* getattr(e, "0"), p behind the bracket. */
static tpi_expr *get_attribute(parser *p) {
    tpi_expr *e = new_expr(p, E_ATTRIBUTE);
    if (!e || !push(p, &e->args, &e->n, expression(p)) || !need_mark(p, ',')) return NULL;
    if (p->at->kind != T_TEXT) return broken(p, "an attribute's name");
    e->text = (p->at++)->text;
    return need_mark(p, ')') ? e : NULL;
}

/* A call of what has this name and is no variable: an operator, a function of the program, or a word. */
static tpi_expr *named_call(parser *p, const char *name) {
    if (!strcmp(name, "annotate") || !strcmp(name, "unchecked_cast")) return typed(p, E_CAST);
    if (!strcmp(name, "uninitialized")) return typed(p, E_UNSET);
    if (!strcmp(name, "isinstance")) return typed(p, E_ISINSTANCE);
    if (!strcmp(name, "getattr")) return get_attribute(p);
    tpi_expr *e = new_expr(p, strncmp(name, "__torch__.", 10) == 0 ? E_FUNCTION : E_OPERATOR);
    if (!e) return NULL;
    e->text = name;
    if (strncmp(name, "torch.", 6) == 0)
        e->text = name + 6;
    else if (strncmp(name, "ops.", 4) == 0)
        e->text = strncmp(name, "ops.aten.", 9) == 0 ? name + 9 : name + 4;
    else if (e->kind == E_OPERATOR)
        e->text = joined(p, "word", name);
    return e->text && arguments(p, e) ? e : NULL;
}

static const struct literal {
    const char *word;
    int kind;
} literals[] = {{"None", 0}, {"True", 1}, {"False", 2}, {"inf", 3}, {"nan", 4}, {"infj", 5}, {"nanj", 6}};

static tpi_item literal(int kind) {
    switch (kind) {
    case 0: return tpi_item_none();
    case 1: return tpi_item_bool(true);
    case 2: return tpi_item_bool(false);
    case 3: return tpi_item_float(INFINITY);
    case 4: return tpi_item_float(NAN);
    case 5: return tpi_item_number(tp_cplx(0, INFINITY));
    default: return tpi_item_number(tp_cplx(0, NAN));
    }
}

static tpi_expr *constant(parser *p) {
    tpi_expr *e = new_expr(p, E_CONSTANT);
    if (!e || !need_mark(p, '.')) return NULL;
    const char *name = need_name(p);
    char *end = NULL;
    if (!name) return NULL;
    e->number = name[0] == 'c' ? strtol(name + 1, &end, 10) : -1;
    return end && end != name + 1 && !*end ? e : broken(p, "a constant");
}

static tpi_expr *name_or_call(parser *p) {
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
        if (accept_word(p, literals[i].word)) return value_expr(p, literal(literals[i].kind));
    if (accept_word(p, "CONSTANTS")) return constant(p);
    bool global = is_word(p, "torch") || is_word(p, "ops") || is_word(p, "__torch__") ||
                  tpi_names_find(&p->aliases, p->at->text) >= 0;
    if (!global && !(p->at[1].kind == T_MARK && p->at[1].mark == '(')) return variable(p, (p->at++)->text);
    const char *name = global ? dotted(p) : need_name(p);
    if (!name) return NULL;
    if (accept_mark(p, '(')) return named_call(p, name);
    tpi_expr *e = new_expr(p, E_GLOBAL);
    if (e) e->text = name;
    return e;
}

static tpi_expr *atom(parser *p) {
    if (p->at->kind == T_NUMBER) return number(p);
    if (p->at->kind == T_TEXT) return text(p);
    if (p->at->kind == T_NAME) return name_or_call(p);
    if (accept_mark(p, '{')) return dict(p);
    if (accept_mark(p, '[')) {
        tpi_expr *e = new_expr(p, E_LIST);
        return e && items(p, ']', e, NULL) ? e : NULL;
    }
    if (accept_mark(p, '(')) {
        bool comma = false;
        tpi_expr *e = new_expr(p, E_TUPLE);
        if (!e || !items(p, ')', e, &comma)) return NULL;
        return e->n == 1 && !comma ? e->args[0] : e;
    }
    return broken(p, "an expression");
}

static tpi_expr *behind_dot(parser *p, tpi_expr *object) {
    const char *name = need_name(p);
    tpi_expr *e = name ? new_expr(p, E_ATTRIBUTE) : NULL;
    if (!e || !push(p, &e->args, &e->n, object)) return NULL;
    e->text = name;
    if (!accept_mark(p, '(')) return e;
    e->kind = E_METHOD;
    return arguments(p, e) ? e : NULL;
}

static tpi_expr *expression(parser *p) {
    if (!go_deeper(p)) return NULL;
    tpi_expr *e;
    if (accept_mark(p, '-')) {
        e = new_expr(p, E_NEGATIVE);
        tpi_expr *of = e ? expression(p) : NULL;
        if (of && of->kind == E_VALUE && of->value.kind == TP_IVALUE_NUMBER) {
            tp_scalar *s = &of->value.as.number;
            if (s->kind == TP_SCALAR_INT)
                s->as.i = (int64_t) - (uint64_t)s->as.i;
            else
                s->as.d[0] = -s->as.d[0];
            if (s->kind == TP_SCALAR_COMPLEX) s->as.d[1] = -s->as.d[1];
            e = of;
        } else if (!of || !push(p, &e->args, &e->n, of)) {
            return NULL;
        }
    } else {
        e = atom(p);
    }
    while (e && (is_mark(p, '.') || is_mark(p, '['))) {
        if (accept_mark(p, '.')) {
            e = behind_dot(p, e);
            continue;
        }
        p->at++;
        tpi_expr *index = new_expr(p, E_INDEX);
        if (!index || !push(p, &index->args, &index->n, e) || !push(p, &index->args, &index->n, expression(p)) ||
            !need_mark(p, ']'))
            return NULL;
        e = index;
    }
    p->depth--;
    return e;
}

/* ---- Statements ---- */

static bool block(parser *p, tpi_block *into);

static tpi_statement *loop(parser *p, tpi_statement *s) { /* for i in range(n): */
    s->kind = S_FOR;
    const char *name = need_name(p);
    tpi_expr *target = name ? variable(p, name) : NULL;
    if (!push(p, &s->targets, &s->ntargets, target)) return NULL;
    if (!accept_word(p, "in") || !accept_word(p, "range") || !accept_mark(p, '(')) return broken(p, "in range(...)");
    s->value = expression(p);
    return s->value && need_mark(p, ')') && block(p, &s->body) ? s : NULL;
}

static tpi_statement *with(parser *p, tpi_statement *s) { /* with e: or with e as x: */
    s->kind = S_WITH;
    s->value = expression(p);
    if (!s->value) return NULL;
    if (accept_word(p, "as")) {
        const char *name = need_name(p);
        if (!name || !push(p, &s->targets, &s->ntargets, variable(p, name))) return NULL;
    }
    return block(p, &s->body) ? s : NULL;
}

static tpi_statement *conditional(parser *p, tpi_statement *s) {
    s->kind = S_IF;
    s->value = expression(p);
    if (!s->value || !block(p, &s->body)) return NULL;
    return !accept_word(p, "else") || block(p, &s->otherwise) ? s : NULL;
}

/* e; a = e; a, b, = e; self.a = e; a : T = e. */
static tpi_statement *simple(parser *p, tpi_statement *s) {
    tpi_expr *first = expression(p);
    if (!first) return NULL;
    bool comma = false;
    s->kind = S_EXPR;
    s->value = first;
    if (is_mark(p, ',') || is_mark(p, '=') || is_mark(p, ':')) {
        s->kind = S_ASSIGN;
        if (!push(p, &s->targets, &s->ntargets, first)) return NULL;
        while (accept_mark(p, ',')) {
            comma = true;
            if (!is_mark(p, '=') && !push(p, &s->targets, &s->ntargets, expression(p))) return NULL;
        }
        if (accept_mark(p, ':') && !type(p)) return NULL;
        if (!need_mark(p, '=')) return NULL;
        for (int64_t i = 0; i < s->ntargets; i++)
            if (s->targets[i]->kind != E_VARIABLE && s->targets[i]->kind != E_ATTRIBUTE)
                return broken(p, "variables and attributes in front of '='");
        s->value = expression(p);
        if (s->value && is_mark(p, ',')) { /* a, b = c, d */
            tpi_expr *tuple = new_expr(p, E_TUPLE);
            if (!tuple || !push(p, &tuple->args, &tuple->n, s->value)) return NULL;
            while (accept_mark(p, ','))
                if (p->at->kind != T_NEWLINE && !push(p, &tuple->args, &tuple->n, expression(p))) return NULL;
            s->value = tuple;
        }
        s->unpacks = comma;
        if (s->value && s->value->kind == E_GLOBAL && first->kind == E_VARIABLE && !comma) {
            if (!tpi_names_put(&p->aliases, p->arena, first->text, p->nglobals) ||
                !push(p, &p->globals, &p->nglobals, s->value->text))
                return NULL;
            s->kind = S_PASS;
        }
    }
    return s->value && accept_line_end(p) ? s : NULL;
}

static tpi_statement *statement(parser *p) {
    tpi_statement *s = tpi_arena_new(p->arena, sizeof *s);
    if (!s) return NULL;
    s->line = p->at->line;
    if (accept_word(p, "if")) return conditional(p, s);
    if (accept_word(p, "for")) return loop(p, s);
    if (accept_word(p, "with")) return with(p, s);
    if (accept_word(p, "while")) {
        s->kind = S_WHILE;
        s->value = expression(p);
        return s->value && block(p, &s->body) ? s : NULL;
    }
    if (accept_word(p, "pass")) {
        s->kind = S_PASS;
        return accept_line_end(p) ? s : NULL;
    }
    if (accept_word(p, "return")) {
        s->kind = S_RETURN;
        s->value = p->at->kind == T_NEWLINE ? value_expr(p, tpi_item_none()) : expression(p);
        return s->value && accept_line_end(p) ? s : NULL;
    }
    return simple(p, s);
}

static bool block(parser *p, tpi_block *into) {
    if (!go_deeper(p) || !need_mark(p, ':') || !accept_line_end(p)) return false;
    if (p->at->kind != T_INDENT) return broken(p, "an indented block");
    p->at++;
    while (p->at->kind != T_DEDENT && p->at->kind != T_END)
        if (!push(p, &into->v, &into->n, statement(p))) return false;
    if (p->at->kind == T_DEDENT) p->at++;
    p->depth--;
    return true;
}

/* ---- Functions ---- */

static bool parameter(parser *p, tpi_parameter *into, bool by_name) {
    into->name = need_name(p);
    into->by_name = by_name;
    if (!into->name || !variable(p, into->name)) return false;
    if (accept_mark(p, ':') && !(into->type = type(p))) return false;
    return !accept_mark(p, '=') || (into->otherwise = expression(p));
}

static bool parameters(parser *p, tpi_script_function *f) {
    tpi_parameter **list = NULL;
    bool by_name = false;
    while (!is_mark(p, ')')) {
        if (accept_mark(p, '*')) {
            by_name = true;
        } else {
            tpi_parameter *next = tpi_arena_new(p->arena, sizeof *next);
            if (!next || !parameter(p, next, by_name) || !push(p, &list, &f->nparameters, next)) return false;
        }
        if (!accept_mark(p, ',')) break;
    }
    f->parameters = tpi_arena_new(p->arena, (size_t)(f->nparameters + 1) * sizeof *f->parameters);
    if (!f->parameters) return false;
    for (int64_t i = 0; i < f->nparameters; i++) f->parameters[i] = *list[i];
    return need_mark(p, ')');
}

/* p is behind `def`. `owner` is what the qualified name begins with. */
static tpi_script_function *function(parser *p, const char *owner) {
    tpi_script_function *f = tpi_arena_new(p->arena, sizeof *f);
    if (!f) return NULL;
    const tpi_token *from = p->at - 1;
    p->variables = p->aliases = (tpi_names){0};
    p->nvariables = p->nglobals = 0;
    f->line = p->at->line;
    f->file = p->file;
    f->name = need_name(p);
    f->qualified = f->name ? joined(p, owner, f->name) : NULL;
    if (!f->qualified || !need_mark(p, '(') || !parameters(p, f)) return NULL;
    if (f->nparameters != p->nvariables) return broken(p, "parameters with different names");
    if (accept_mark(p, '>') && !(f->returns = type(p))) return NULL;
    if (!block(p, &f->body)) return NULL;
    f->nvariables = p->nvariables;
    f->text = tpi_arena_text(p->arena, from->at, (size_t)(p->at->at - from->at));
    return f->text ? f : NULL;
}

/* ---- Classes ---- */

typedef struct class_parts {
    tpi_attribute **attributes;
    int64_t nattributes;
    const char **lists[4]; /* __parameters__, __buffers__, __forward_hooks__, __forward_pre_hooks__ */
    int64_t counts[4];
} class_parts;

static bool name_list(parser *p, const char ***names, int64_t *n) { /* = ["a", "b", ] */
    if (!need_mark(p, '=') || !need_mark(p, '[')) return false;
    while (p->at->kind == T_TEXT) {
        if (!push(p, names, n, (p->at++)->text)) return false;
        if (!accept_mark(p, ',')) break;
    }
    return need_mark(p, ']') && accept_line_end(p);
}

static bool attribute(parser *p, class_parts *parts, const char *name, const tpi_type *of, tpi_expr *value) {
    tpi_attribute *a = tpi_arena_new(p->arena, sizeof *a);
    if (!a) return false;
    a->constant = of && strcmp(of->name, "Final") == 0;
    *a = (tpi_attribute){
        .name = name, .type = a->constant && of->n ? of->args[0] : of, .value = value, .constant = a->constant};
    return push(p, &parts->attributes, &parts->nattributes, a);
}

/* name : T, name : Final[T] = e, name = e (of an enumeration), __annotations__["0"] = T */
static bool member(parser *p, class_parts *parts) {
    static const char *const lists[] = {"__parameters__", "__buffers__", "__forward_hooks__", "__forward_pre_hooks__"};
    for (int i = 0; i < 4; i++)
        if (accept_word(p, lists[i])) return name_list(p, &parts->lists[i], &parts->counts[i]);
    const char *name = need_name(p);
    const tpi_type *of = NULL;
    tpi_expr *value = NULL;
    if (!name) return false;
    if (strcmp(name, "__annotations__") == 0) {
        if (accept_mark(p, '=')) return need_mark(p, '[') && need_mark(p, ']') && accept_line_end(p);
        if (!need_mark(p, '[')) return false;
        if (p->at->kind != T_TEXT) return broken(p, "an attribute's name");
        name = (p->at++)->text;
        if (!need_mark(p, ']') || !need_mark(p, '=') || !(of = type(p))) return false;
    } else {
        if (accept_mark(p, ':') && !(of = type(p))) return false;
        if (accept_mark(p, '=') && !(value = expression(p))) return false;
    }
    return accept_line_end(p) && attribute(p, parts, name, of, value);
}

static uint8_t class_kind(const char *base) {
    static const char *const bases[] = {"", "Module", "NamedTuple", "Interface", "Enum"};
    for (int i = 1; base && i < 5; i++) {
        size_t n = strlen(base), k = strlen(bases[i]);
        if (n >= k && strcmp(base + n - k, bases[i]) == 0) return (uint8_t)i;
    }
    return CLASS_PLAIN;
}

static bool settle_class(parser *p, tpi_script_class *c, const class_parts *parts) {
    c->attributes = tpi_arena_new(p->arena, (size_t)(parts->nattributes + 1) * sizeof *c->attributes);
    if (!c->attributes) return false;
    for (int constants = 0; constants < 2; constants++) {
        for (int64_t i = 0; i < parts->nattributes; i++) {
            if (parts->attributes[i]->constant != constants) continue;
            if (tpi_names_find(&c->attribute_numbers, parts->attributes[i]->name) >= 0) continue;
            if (!tpi_names_put(&c->attribute_numbers, p->arena, parts->attributes[i]->name, c->nattributes))
                return false;
            c->attributes[c->nattributes++] = *parts->attributes[i];
        }
        if (!constants) c->nslots = c->nattributes;
    }
    for (int list = 0; list < 2; list++)
        for (int64_t i = 0; i < parts->counts[list]; i++) {
            int64_t at = tpi_names_find(&c->attribute_numbers, parts->lists[list][i]);
            if (at >= 0) c->attributes[at].kind = list ? TP_ATTRIBUTE_BUFFER : TP_ATTRIBUTE_PARAMETER;
        }
    c->forward_hooks = parts->lists[2];
    c->nforward_hooks = parts->counts[2];
    c->forward_pre_hooks = parts->lists[3];
    c->nforward_pre_hooks = parts->counts[3];
    return true;
}

static tpi_script_class *class_of(parser *p) { /* behind `class` */
    tpi_script_class *c = tpi_arena_new(p->arena, sizeof *c);
    if (!c) return NULL;
    const char *name = need_name(p), *base = NULL;
    c->name = name ? joined(p, p->module, name) : NULL;
    c->file = p->file;
    if (!c->name) return NULL;
    if (accept_mark(p, '(') && (!(base = dotted(p)) || !need_mark(p, ')'))) return NULL;
    c->kind = class_kind(base);
    if (!need_mark(p, ':') || !accept_line_end(p)) return NULL;
    if (p->at->kind != T_INDENT) return broken(p, "a class's body");
    p->at++;
    class_parts parts = {0};
    while (p->at->kind != T_DEDENT && p->at->kind != T_END) {
        if (accept_word(p, "pass")) {
            if (!accept_line_end(p)) return NULL;
        } else if (accept_word(p, "def")) {
            int64_t n = c->nmethods;
            if (!push(p, &c->methods, &c->nmethods, function(p, c->name))) return NULL;
            if (!tpi_names_put(&c->method_numbers, p->arena, c->methods[n]->name, n)) return NULL;
        } else if (!member(p, &parts)) {
            return NULL;
        }
    }
    if (p->at->kind == T_DEDENT) p->at++;
    return settle_class(p, c, &parts) ? c : NULL;
}

bool tpi_script_parse(tpi_arena *arena, const char *module, const char *file, const char *source, size_t bytes,
                      tpi_declared *into) {
    parser p = {.arena = arena, .module = module, .file = file};
    p.at = tpi_script_tokens(arena, file, source, bytes);
    if (!p.at) return false;
    while (p.at->kind != T_END) {
        p.depth = 0;
        if (accept_word(&p, "class")) {
            if (!push(&p, &into->classes, &into->nclasses, class_of(&p))) return false;
        } else if (accept_word(&p, "def")) {
            if (!push(&p, &into->functions, &into->nfunctions, function(&p, module))) return false;
        } else if (is_word(&p, "import") || is_word(&p, "op_version_set")) { /* of files before PyTorch 1.4 */
            while (p.at->kind != T_NEWLINE) p.at++;
            p.at++;
        } else {
            return broken(&p, "a class or a function");
        }
    }
    return true;
}
