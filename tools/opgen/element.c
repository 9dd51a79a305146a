/* Expressions per element. A tree becomes C statements in one compute type: every step is a named constant, so that
 * both sides of a choice are computed before choosing (loops with calls in branches do not vectorise) and equal steps
 * are computed once. The functions are el_<name>_<type> of src/device/cpu/element.h; another target brings its own
 * header with the same names. */
#include "opgen.h"
#include <stdio.h>
#include <string.h>

const char *const ctype_c[C_TYPES] = {"uint8_t", "int32_t", "int64_t", "float", "double", "tpi_c64", "tpi_c128"};
const char *const ctype_suffix[C_TYPES] = {"b8", "i32", "i64", "f32", "f64", "c64", "c128"};

#define R   CAT_FLOAT
#define RC  (CAT_FLOAT | CAT_COMPLEX)
#define RI  (CAT_FLOAT | CAT_INT)
#define RIC (CAT_FLOAT | CAT_INT | CAT_COMPLEX)
static const function functions[] = {
    /* name, arguments, what it takes, what it gives, what else is known of it */
    {"exp", 1, RC, 0, COSTLY | HAS_RUN},
    {"log", 1, RC, 0, COSTLY},
    {"sqrt", 1, RC, 0, COSTLY | EXACT},
    {"sin", 1, RC, 0, COSTLY},
    {"cos", 1, RC, 0, COSTLY},
    {"tan", 1, RC, 0, COSTLY},
    {"sinh", 1, RC, 0, COSTLY},
    {"cosh", 1, RC, 0, COSTLY},
    {"tanh", 1, RC, 0, COSTLY},
    {"asin", 1, RC, 0, COSTLY},
    {"acos", 1, RC, 0, COSTLY},
    {"atan", 1, RC, 0, COSTLY},
    {"asinh", 1, RC, 0, COSTLY},
    {"acosh", 1, RC, 0, COSTLY},
    {"atanh", 1, RC, 0, COSTLY},
    {"exp2", 1, RC, 0, COSTLY},
    {"expm1", 1, RC, 0, COSTLY},
    {"log2", 1, RC, 0, COSTLY},
    {"log10", 1, RC, 0, COSTLY},
    {"log1p", 1, RC, 0, COSTLY},
    {"rsqrt", 1, RC, 0, COSTLY},
    {"sigmoid", 1, RC, 0, COSTLY | HAS_RUN},
    {"cbrt", 1, R, 0, COSTLY},
    {"pow", 2, RIC, 0, COSTLY},
    {"reciprocal", 1, RC, 0, COSTLY},
    {"phase", 1, RC, 0, COSTLY}, /* phase: e to the imaginary part */
    {"erf", 1, R, 0, COSTLY},
    {"near_ndtr", 1, R, 0, COSTLY},
    {"erfc", 1, R, 0, COSTLY},
    {"erfinv", 1, R, 0, COSTLY | SPECIAL},
    {"erfcx", 1, R, 0, COSTLY | SPECIAL},
    {"lgamma", 1, R, 0, COSTLY | SPECIAL},
    {"digamma", 1, R, 0, COSTLY | SPECIAL},
    {"polygamma", 2, R, 0, COSTLY | SPECIAL},
    {"zeta", 2, R, 0, COSTLY | SPECIAL},
    {"igamma", 2, R, 0, COSTLY | SPECIAL},
    {"igammac", 2, R, 0, COSTLY | SPECIAL},
    {"i0", 1, R, 0, COSTLY | SPECIAL},
    {"i0e", 1, R, 0, COSTLY | SPECIAL},
    {"i1", 1, R, 0, COSTLY | SPECIAL},
    {"i1e", 1, R, 0, COSTLY | SPECIAL},
    {"ndtr", 1, R, 0, COSTLY | SPECIAL},
    {"ndtri", 1, R, 0, COSTLY | SPECIAL},
    {"log_ndtr", 1, R, 0, COSTLY | SPECIAL},
    {"spherical_j0", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_j0", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_j1", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_y0", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_y1", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_k0", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_k1", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_k0e", 1, R, 0, COSTLY | SPECIAL},
    {"bessel_k1e", 1, R, 0, COSTLY | SPECIAL},
    {"airy_ai", 1, R, 0, COSTLY | SPECIAL},
    {"chebyshev_t", 2, R, 0, COSTLY | SPECIAL},
    {"chebyshev_u", 2, R, 0, COSTLY | SPECIAL},
    {"chebyshev_v", 2, R, 0, COSTLY | SPECIAL},
    {"chebyshev_w", 2, R, 0, COSTLY | SPECIAL},
    {"hermite_h", 2, R, 0, COSTLY | SPECIAL},
    {"hermite_he", 2, R, 0, COSTLY | SPECIAL},
    {"laguerre_l", 2, R, 0, COSTLY | SPECIAL},
    {"legendre_p", 2, R, 0, COSTLY | SPECIAL},
    {"gamma_grad", 2, R, 0, COSTLY | SPECIAL},
    {"beta_grad", 3, R, 0, COSTLY | SPECIAL}, /* of samples by their concentration */
    {"floor", 1, RI, 0, 0},
    {"ceil", 1, RI, 0, 0},
    {"trunc", 1, RI, 0, 0},
    {"round", 1, RI, 0, 0}, /* round: to even */
    {"abs", 1, RIC, RESULT_REAL, 0},
    {"sign", 1, RI, 0, 0},
    {"sgn", 1, RIC, 0, 0},
    {"signbit", 1, RI, RESULT_BOOL, 0},
    {"copysign", 2, R, 0, 0},
    {"fmax", 2, RI, 0, 0},
    {"fmin", 2, RI, 0, 0}, /* a NaN loses */
    {"max", 2, RI, 0, JOINS},
    {"min", 2, RI, 0, JOINS}, /* a NaN wins */
    {"atan2", 2, R, 0, 0},
    {"hypot", 2, R, 0, 0},
    {"fmod", 2, RI, 0, DIVIDES},
    {"nextafter", 2, R, 0, 0},
    {"ldexp", 2, R, 0, 0},
    {"fma", 3, R, 0, 0},
    {"floordiv", 2, RI, 0, DIVIDES},
    {"remainder", 2, RI, 0, DIVIDES}, /* Python's: towards minus infinity, the divisor's sign */
    {"gcd", 2, CAT_INT, 0, DIVIDES},
    {"lcm", 2, CAT_INT, 0, DIVIDES},
    {"isnan", 1, RIC, RESULT_BOOL, 0},
    {"isinf", 1, RIC, RESULT_BOOL, 0},
    {"isfinite", 1, RIC, RESULT_BOOL, 0},
    {"conj", 1, RIC, 0, 0},
    {"real", 1, RIC, RESULT_REAL, 0},
    {"imag", 1, RIC, RESULT_REAL, 0},
    {"angle", 1, RIC, RESULT_REAL, 0},
};

const function *find_function(const char *name, int nargs) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name) && functions[i].nargs == nargs) return &functions[i];
    return NULL;
}

bool calls_special(const char *code) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i].facts & SPECIAL && strstr(code, format("el_%s_", functions[i].name))) return true;
    return false;
}

void bind(scope *s, const char *name, value v) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) {
            s->v[i] = v;
            return;
        }
    if (s->n == 64) fail((location){"opgen", 0}, "more than 64 names in one expression");
    s->name[s->n] = name;
    s->v[s->n++] = v;
}

const char *arithmetic_name(char symbol) {
    switch (symbol) {
    case '+': return "add";
    case '-': return "sub";
    case '*': return "mul";
    case '/': return "div";
    default: return NULL;
    }
}

static int category(ctype t) {
    if (t == C_B8) return CAT_BOOL;
    if (t <= C_I64) return CAT_INT;
    return t <= C_F64 ? CAT_FLOAT : CAT_COMPLEX;
}
static ctype real_of(ctype t) { return t == C_C64 ? C_F32 : t == C_C128 ? C_F64 : t; }

char *cast_value(value v, ctype to, location at) {
    if (v.t == to && !v.literal) return v.c;
    if (to >= C_C64) {
        if (v.t >= C_C64) return format("el_c%d_of_%s(%s)", to == C_C64 ? 64 : 128, ctype_suffix[v.t], v.c);
        ctype re = real_of(to);
        return format("el_make_%s((%s)%s, 0)", ctype_suffix[to], ctype_c[re], v.c);
    }
    if (v.t >= C_C64) fail(at, "a complex value where a real one is needed; use real(), imag() or abs()");
    if (to == C_B8) return format("((uint8_t)(%s != 0))", v.c);
    return format("((%s)%s)", ctype_c[to], v.c);
}

/* A named constant for a text; equal texts share one. */
static value temp(element_out *out, ctype t, char *c) {
    char *key = format("%d:%s", (int)t, c);
    for (int i = 0; i < out->temps; i++)
        if (!strcmp(out->seen[i], key)) return (value){format("t%d", i), t, false};
    if (out->temps == 1024) fail((location){"opgen", 0}, "an expression with more than 1024 steps");
    out->seen[out->temps] = key;
    put(out->code, "%sconst %s t%d = %s;\n", out->indent, ctype_c[t], out->temps, c);
    return (value){format("t%d", out->temps++), t, false};
}

static char *truth(element_out *out, value v, location at) {
    (void)out;
    if (v.t == C_B8 && !v.literal) return v.c;
    if (v.t >= C_C64) return format("el_nonzero_%s(%s)", ctype_suffix[v.t], v.c);
    (void)at;
    return format("(%s != 0)", v.c);
}

/* The type in which two values meet. */
static ctype meet(element_out *out, value a, value b) {
    if (a.literal && b.literal) return a.t > b.t ? a.t : b.t;
    if (a.literal || b.literal) {
        value lit = a.literal ? a : b, other = a.literal ? b : a;
        if (other.t == C_B8) return out->compute;
        if (lit.t == C_F64 && other.t <= C_I64) return out->compute;
        return other.t;
    }
    ctype t = a.t > b.t ? a.t : b.t;
    if (t == C_C64 && (a.t == C_F64 || b.t == C_F64)) t = C_C128;
    return t;
}

static value arithmetic(element_out *out, const char *op, value a, value b, location at) {
    ctype t = meet(out, a, b);
    if (a.literal && b.literal) return (value){format("(%s %s %s)", a.c, op, b.c), t, true};
    if (t == C_B8) t = out->compute;
    if (t >= C_C64 && op[0] == '/' && b.t < C_C64) { /* by a real number: both parts, each rounded once */
        ctype real = t == C_C64 ? C_F32 : C_F64;
        return temp(out, t,
                    format("el_share_%s(%s, %s)", ctype_suffix[t], cast_value(a, t, at), cast_value(b, real, at)));
    }
    char *x = cast_value(a, t, at), *y = cast_value(b, t, at);
    const char *s = ctype_suffix[t];
    char o = op[0];
    if (t >= C_C64) {
        const char *name = arithmetic_name(o);
        if (!name) fail(at, "'%s' is not defined for complex values", op);
        return temp(out, t, format("el_%s_%s(%s, %s)", name, s, x, y));
    }
    if (t >= C_F32)
        return temp(out, t, o == '%' ? format("el_fmod_%s(%s, %s)", s, x, y) : format("%s %s %s", x, op, y));
    if (t == C_B8)
        return temp(out, t,
                    o == '*'   ? format("%s & %s", x, y)
                    : o == '+' ? format("%s | %s", x, y)
                               : format("%s ^ %s", x, y));
    if (o == '/') return temp(out, t, format("el_quotient_%s(%s, %s)", s, x, y));
    if (o == '%') return temp(out, t, format("el_fmod_%s(%s, %s)", s, x, y));
    const char *u = t == C_I32 ? "uint32_t" : "uint64_t"; /* wraps, as PyTorch's integers do */
    return temp(out, t, format("(%s)((%s)%s %s (%s)%s)", ctype_c[t], u, x, op, u, y));
}

static value comparison(element_out *out, const char *op, value a, value b, location at) {
    ctype t = meet(out, a, b);
    char *x = cast_value(a, t, at), *y = cast_value(b, t, at);
    if (t >= C_C64) {
        bool eq = !strcmp(op, "==");
        if (!eq && strcmp(op, "!=")) fail(at, "'%s' is not defined for complex values", op);
        return temp(out, C_B8, format("%sel_eq_%s(%s, %s)", eq ? "" : "!", ctype_suffix[t], x, y));
    }
    return temp(out, C_B8, format("%s %s %s", x, op, y));
}

static value bits(element_out *out, const char *op, value a, value b, location at) {
    ctype t = meet(out, a, b);
    if (t > C_I64) fail(at, "'%s' is defined for integers and bool only", op);
    char *x = cast_value(a, t, at), *y = cast_value(b, t, at);
    if (!strcmp(op, "<<")) return temp(out, t, format("el_shl_%s(%s, %s)", ctype_suffix[t], x, y));
    if (!strcmp(op, ">>")) return temp(out, t, format("el_shr_%s(%s, %s)", ctype_suffix[t], x, y));
    return temp(out, t, format("(%s)(%s %s %s)", ctype_c[t], x, op, y));
}

static value choice(element_out *out, const expr *e, const scope *names) {
    value c = element_expr(out, e->arg[0], names), a = element_expr(out, e->arg[1], names),
          b = element_expr(out, e->arg[2], names);
    ctype t = meet(out, a, b);
    if (a.literal && b.literal) return (value){format("(%s ? %s : %s)", truth(out, c, e->at), a.c, b.c), t, true};
    return temp(out, t, format("%s ? %s : %s", truth(out, c, e->at), cast_value(a, t, e->at), cast_value(b, t, e->at)));
}

static value call_function(element_out *out, const function *f, const expr *e, const value *v) {
    ctype t = C_B8;
    bool any = false;
    for (int i = 0; i < e->n; i++)
        if (!v[i].literal) {
            t = any ? meet(out, (value){"", t, false}, v[i]) : v[i].t;
            any = true;
        }
    if (!any || !(category(t) & f->cats)) { /* literals, and integers or bools in a floating kernel */
        if (any && category(out->compute) < category(t))
            fail(e->at, "%s() is not defined for %s values", f->name, ctype_c[t]);
        t = out->compute;
    }
    for (int i = 0; i < e->n; i++)
        if (v[i].literal && v[i].t == C_F64 && t <= C_I64) t = out->compute;
    if (!(category(t) & f->cats)) fail(e->at, "%s() is not defined for %s values; limit 'types'", f->name, ctype_c[t]);
    text s = {0};
    put(&s, "el_%s_%s(", f->name, ctype_suffix[t]);
    for (int i = 0; i < e->n; i++) put(&s, "%s%s", i ? ", " : "", cast_value(v[i], t, e->at));
    put(&s, ")");
    return temp(out, f->result == RESULT_BOOL ? C_B8 : f->result == RESULT_REAL ? real_of(t) : t, s.s);
}

/* A call of another map operator: its expression, with its arguments bound to ours. */
static value call_map(element_out *out, const op *o, const expr *e, const scope *names) {
    scope inner = {0};
    for (int i = 0; i < o->nargs; i++)
        if (o->args[i].fallback && o->args[i].fallback->kind <= E_FLOAT)
            bind(&inner, o->args[i].name, element_expr(out, o->args[i].fallback, names));
    for (int i = 0; i < e->n; i++) {
        const expr *a = e->arg[i];
        int k = a->kind == E_NAMED ? find_arg(o, a->name) : i;
        if (k < 0 || k >= o->nargs)
            fail(e->at, "%s has no argument for '%s'", o->name, a->name ? a->name : "this position");
        bind(&inner, o->args[k].name, element_expr(out, a->kind == E_NAMED ? a->arg[0] : a, names));
    }
    return element_block(out, o->body, &inner);
}

/* The smallest or largest value of the compute type. */
static value limit(ctype t, bool least) {
    const char *infinite = least ? "-INFINITY" : "INFINITY";
    switch (t) {
    case C_B8: return (value){least ? "0" : "1", t, false};
    case C_I32: return (value){least ? "INT32_MIN" : "INT32_MAX", t, false};
    case C_I64: return (value){least ? "INT64_MIN" : "INT64_MAX", t, false};
    default: return (value){(char *)infinite, C_F64, true};
    }
}

value element_expr(element_out *out, const expr *e, const scope *names) {
    switch (e->kind) {
    case E_INT: return (value){e->name, C_I64, true};
    case E_FLOAT: return (value){e->name, C_F64, true};
    case E_NAME:
        for (int i = 0; i < names->n; i++)
            if (!strcmp(names->name[i], e->name)) return names->v[i];
        if (!strcmp(e->name, "inf")) return (value){"INFINITY", C_F64, true};
        if (!strcmp(e->name, "nan")) return (value){"NAN", C_F64, true};
        if (!strcmp(e->name, "pi")) return (value){"3.14159265358979323846", C_F64, true};
        if (!strcmp(e->name, "least") || !strcmp(e->name, "most")) return limit(out->compute, e->name[0] == 'l');
        if (!strcmp(e->name, "true")) return (value){"1", C_I64, true};
        if (!strcmp(e->name, "false")) return (value){"0", C_I64, true};
        fail(e->at, "'%s' is not a name here; expected an argument, a local, inf, nan, pi, least or most", e->name);
    case E_UNARY: {
        value v = element_expr(out, e->arg[0], names);
        char o = e->name[0];
        if (o == '!') return temp(out, C_B8, format("!%s", truth(out, v, e->at)));
        if (v.literal) return (value){format("(%s%s)", e->name, v.c), v.t, true};
        if (o == '~') {
            if (v.t > C_I64) fail(e->at, "'~' is defined for integers and bool only");
            return temp(out, v.t, v.t == C_B8 ? format("(uint8_t)!%s", v.c) : format("~%s", v.c));
        }
        if (v.t >= C_C64) return temp(out, v.t, format("el_neg_%s(%s)", ctype_suffix[v.t], v.c));
        if (v.t >= C_F32) return temp(out, v.t, format("-%s", v.c));
        return arithmetic(out, "-", (value){"0", C_I64, true}, v, e->at);
    }
    case E_BINARY: {
        value a = element_expr(out, e->arg[0], names), b = element_expr(out, e->arg[1], names);
        if (!strcmp(e->name, "&&") || !strcmp(e->name, "||"))
            return temp(out, C_B8,
                        format("(uint8_t)(%s %c %s)", truth(out, a, e->at), e->name[0], truth(out, b, e->at)));
        if (strchr("+-*/%", e->name[0])) return arithmetic(out, e->name, a, b, e->at);
        if (!strcmp(e->name, "<<") || !strcmp(e->name, ">>") || strchr("&|^", e->name[0]))
            return bits(out, e->name, a, b, e->at);
        return comparison(out, e->name, a, b, e->at);
    }
    case E_TERNARY: return choice(out, e, names);
    case E_CALL: {
        const function *f = find_function(e->name, e->n);
        if (f) {
            value v[8];
            for (int i = 0; i < e->n; i++) v[i] = element_expr(out, e->arg[i], names);
            return call_function(out, f, e, v);
        }
        const op *o = find_op(e->name);
        if (!o || o->kind != K_MAP)
            fail(e->at, "'%s' with %d arguments is neither a function nor a map operator", e->name, e->n);
        return call_map(out, o, e, names);
    }
    default: fail(e->at, "lists, texts and fields have no place in an expression per element");
    }
}

value element_block(element_out *out, const block *b, scope *names) {
    for (int i = 0; i < b->n; i++) {
        value v = element_expr(out, b->value[i], names);
        if (!b->name[i]) return v;
        bind(names, b->name[i], v);
    }
    fail(b->at, "expected a result after the locals");
}

bool uses_name(const expr *e, const char *name) {
    if (e->kind == E_NAME && !strcmp(e->name, name)) return true;
    for (int i = 0; i < e->n; i++)
        if (uses_name(e->arg[i], name)) return true;
    return false;
}

/* A function that computes for longer than memory takes to bring an element and take its result away. */
static bool is_costly(const expr *e) {
    const function *f = e->kind == E_CALL ? find_function(e->name, e->n) : NULL;
    const op *called = e->kind == E_CALL && !f ? find_op(e->name) : NULL;
    if (f && f->facts & COSTLY) return true;
    if (called && called->kind == K_MAP && is_costly_block(called->body)) return true;
    for (int i = 0; i < e->n; i++)
        if (is_costly(e->arg[i])) return true;
    return false;
}

bool is_costly_block(const block *b) {
    for (int i = 0; i < b->n; i++)
        if (is_costly(b->value[i])) return true;
    return false;
}

/* ---- which derivatives can be one kernel ---- */
bool is_pointwise(const op *o, const expr *e) {
    switch (e->kind) {
    case E_INT:
    case E_FLOAT: return true;
    case E_NAME: return strcmp(e->name, "none") && strcmp(e->name, "None");
    case E_CALL: {
        const op *called = find_op(e->name);
        if (!find_function(e->name, e->n) && (!called || called->kind != K_MAP)) return false;
        for (int i = 0; i < e->n; i++)
            if (!is_pointwise(o, e->arg[i]->kind == E_NAMED ? e->arg[i]->arg[0] : e->arg[i])) return false;
        return true;
    }
    case E_UNARY:
    case E_BINARY:
    case E_TERNARY:
        for (int i = 0; i < e->n; i++)
            if (!is_pointwise(o, e->arg[i])) return false;
        return true;
    default: return false;
    }
}

bool is_pointwise_block(const op *o, const block *b) {
    for (int i = 0; i < b->n; i++)
        if (!is_pointwise(o, b->value[i])) return false;
    return true;
}

bool has_fused_grad(const op *o, int a) {
    const block *b = o->args[a].grad;
    if (o->kind != K_MAP || !b || !differentiable(o) || !is_pointwise_block(o, b)) return false;
    return !(b->n == 1 && b->value[0]->kind == E_NAME); /* the gradient passed on as it is needs no kernel */
}

static bool uses_bits(const expr *e) {
    if ((e->kind == E_UNARY && e->name[0] == '~') ||
        (e->kind == E_BINARY && strlen(e->name) == 1 && strchr("&|^", e->name[0])))
        return true;
    for (int i = 0; i < e->n; i++)
        if (uses_bits(e->arg[i])) return true;
    return false;
}

int op_ctypes(const op *o) {
    int m = 0;
    bool bitwise = false;
    if (o->kind == K_MAP)
        for (int i = 0; i < o->body->n; i++) bitwise = bitwise || uses_bits(o->body->value[i]);
    if (o->types & CAT_FLOAT) m |= 1 << C_F32 | 1 << C_F64;
    if (o->types & CAT_COMPLEX) m |= 1 << C_C64 | 1 << C_C128;
    if (o->rule_float) return m;
    if (o->rule_sum) return m | (o->types & (CAT_INT | CAT_BOOL) ? 1 << C_I64 : 0);
    if (o->types & CAT_INT) m |= 1 << C_I32 | 1 << C_I64;
    if (o->types & CAT_BOOL) m |= bitwise ? 1 << C_B8 : 1 << C_I32;
    return m;
}

static void collect(const op *o, const expr *e, bool *used, bool *grad, bool *result) {
    if (e->kind == E_NAME) {
        int i = find_arg(o, e->name);
        if (!strcmp(e->name, "grad"))
            *grad = true;
        else if (i >= 0)
            used[i] = true;
        if (!strcmp(e->name, "result")) *result = true;
    }
    for (int i = 0; i < e->n; i++) collect(o, e->arg[i], used, grad, result);
}

static bool is_number(type t) {
    return t == T_SCALAR || t == T_SCALAR_OPT || t == T_FLOAT || t == T_FLOAT_OPT || t == T_INT || t == T_INT_OPT ||
           t == T_BOOL;
}

void map_inputs(const op *o, int grad, kernel_inputs *k) {
    bool used[24] = {false}, wants_grad = false, wants_result = false;
    const block *b = grad < 0 ? o->body : o->args[grad].grad;
    for (int i = 0; i < b->n; i++) collect(o, b->value[i], used, &wants_grad, &wants_result);
    *k = (kernel_inputs){0};
    if (grad >= 0 && wants_grad) k->arg[k->n++] = -1;
    if (grad >= 0 && wants_result) k->arg[k->n++] = -2;
    for (int i = 0; i < o->nargs; i++) {
        if (is_tensor(o->args[i].type) && (used[i] || grad < 0)) k->arg[k->n++] = i;
        if (is_number(o->args[i].type) && used[i]) k->param[k->nparam++] = i;
    }
    if (k->n > 8 || k->nparam > 8) fail(o->at, "%s: more than 8 inputs or parameters in one kernel", o->name);
}
