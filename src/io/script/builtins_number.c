/* Words of the language on numbers: arithmetic, comparisons, conversions, as Python's and TorchScript's. A call with a
 * tensor among its arguments is an operator's, and one with texts or lists is another group's. */
#include "base/error.h"
#include "io/script/program.h"
#include <math.h>
#include <stdlib.h>

static bool are_numbers(const tpi_script_call *c, int64_t n) {
    if (c->n != n || c->names) return false;
    for (int64_t i = 0; i < n; i++)
        if (c->args[i].kind != TP_IVALUE_NUMBER) return false;
    return true;
}

static bool is_whole(const tpi_item *v) { return tpi_item_is_int(v) || tpi_item_is_bool(v); }
static bool is_complex(const tpi_item *v) { return tpi_item_is(v, TP_SCALAR_COMPLEX); }
static int64_t whole(const tpi_item *v) { return v->as.number.as.i; }
static double double_of(const tpi_item *v) { return tp_scalar_to_double(v->as.number); }
static double _Complex complex_of(const tpi_item *v) {
    double re = is_complex(v) ? v->as.number.as.d[0] : double_of(v), im = is_complex(v) ? v->as.number.as.d[1] : 0;
    return __builtin_complex(re, im);
}

static bool fits_int64(double d) { return d >= -0x1p63 && d < 0x1p63; }

static tpi_done by_zero(void) {
    tpi_fail(TP_ERR_VALUE, "ZeroDivisionError: division by zero");
    return TPI_FAILED_WORD;
}

/* ---- Arithmetic ---- Integers wrap, as they do there. */

static int64_t floor_div(int64_t a, int64_t b) {
    if (b == -1) return (int64_t) - (uint64_t)a;
    int64_t q = a / b;
    return q - (a % b != 0 && (a % b < 0) != (b < 0));
}
static double floor_mod(double a, double b) {
    double m = fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static tpi_item of_complex(double _Complex z) { return tpi_item_number(tp_cplx(__real__ z, __imag__ z)); }

static tpi_done complex_pair(tpi_script_call *c, char op) {
    double _Complex a = complex_of(&c->args[0]), b = complex_of(&c->args[1]);
    switch (op) {
    case '+': return tpi_script_return(c, of_complex(a + b));
    case '-': return tpi_script_return(c, of_complex(a - b));
    case '*': return tpi_script_return(c, of_complex(a * b));
    case '/': return b == 0 ? by_zero() : tpi_script_return(c, of_complex(a / b));
    default: return TPI_OTHER;
    }
}

static tpi_done whole_pair(tpi_script_call *c, char op) {
    int64_t a = whole(&c->args[0]), b = whole(&c->args[1]);
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    if ((op == '/' || op == '%' || op == 'd') && b == 0) return by_zero();
    switch (op) {
    case '+': return tpi_script_return(c, tpi_item_int((int64_t)(ua + ub)));
    case '-': return tpi_script_return(c, tpi_item_int((int64_t)(ua - ub)));
    case '*': return tpi_script_return(c, tpi_item_int((int64_t)(ua * ub)));
    case 'd': return tpi_script_return(c, tpi_item_int(floor_div(a, b)));
    case '%': return tpi_script_return(c, tpi_item_int(b == -1 ? 0 : a - floor_div(a, b) * b));
    case '/': return tpi_script_return(c, tpi_item_float((double)a / (double)b));
    default: return tpi_script_return(c, tpi_item_float(pow((double)a, (double)b)));
    }
}

static tpi_done pair(tpi_script_call *c, char op) {
    if (!are_numbers(c, 2)) return TPI_OTHER;
    if (is_complex(&c->args[0]) || is_complex(&c->args[1])) return complex_pair(c, op);
    if (is_whole(&c->args[0]) && is_whole(&c->args[1])) return whole_pair(c, op);
    double a = double_of(&c->args[0]), b = double_of(&c->args[1]);
    if ((op == '/' || op == '%' || op == 'd') && b == 0) return by_zero();
    switch (op) {
    case '+': return tpi_script_return(c, tpi_item_float(a + b));
    case '-': return tpi_script_return(c, tpi_item_float(a - b));
    case '*': return tpi_script_return(c, tpi_item_float(a * b));
    case '/': return tpi_script_return(c, tpi_item_float(a / b));
    case 'd': return tpi_script_return(c, tpi_item_float(floor(a / b)));
    case '%': return tpi_script_return(c, tpi_item_float(floor_mod(a, b)));
    default: return tpi_script_return(c, tpi_item_float(pow(a, b)));
    }
}
static tpi_done w_add(tpi_script_call *c) { return pair(c, '+'); }
static tpi_done w_sub(tpi_script_call *c) { return pair(c, '-'); }
static tpi_done w_mul(tpi_script_call *c) { return pair(c, '*'); }
static tpi_done w_div(tpi_script_call *c) { return pair(c, '/'); }
static tpi_done w_floordiv(tpi_script_call *c) { return pair(c, 'd'); }
static tpi_done w_remainder(tpi_script_call *c) { return pair(c, '%'); }
static tpi_done w_divmod(tpi_script_call *c) {
    if (w_floordiv(c) != TPI_DONE) return are_numbers(c, 2) ? TPI_FAILED_WORD : TPI_OTHER;
    tpi_item quotient = c->result;
    if (w_remainder(c) != TPI_DONE) return TPI_FAILED_WORD;
    tpi_item both = tpi_item_box(&c->run->program->heap, TP_IVALUE_TUPLE, 2);
    if (!both.kind) return TPI_FAILED_WORD;
    both.as.box->items[0] = quotient;
    both.as.box->items[1] = c->result;
    return tpi_script_return(c, both);
}
static tpi_done w_pow(tpi_script_call *c) { return pair(c, '^'); }
static tpi_done w_fmod(tpi_script_call *c) {
    if (!are_numbers(c, 2)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_float(fmod(double_of(&c->args[0]), double_of(&c->args[1]))));
}

tpi_done tpi_script_neg(tpi_script_call *c) {
    if (!are_numbers(c, 1)) return TPI_OTHER;
    const tpi_item *v = &c->args[0];
    if (is_complex(v)) return tpi_script_return(c, of_complex(-complex_of(v)));
    if (is_whole(v)) return tpi_script_return(c, tpi_item_int((int64_t) - (uint64_t)whole(v)));
    return tpi_script_return(c, tpi_item_float(-double_of(v)));
}

static tpi_done w_abs(tpi_script_call *c) {
    if (!are_numbers(c, 1)) return TPI_OTHER;
    const tpi_item *v = &c->args[0];
    if (is_whole(v))
        return tpi_script_return(c, tpi_item_int(whole(v) < 0 ? (int64_t) - (uint64_t)whole(v) : whole(v)));
    if (is_complex(v)) return tpi_script_return(c, tpi_item_float(hypot(v->as.number.as.d[0], v->as.number.as.d[1])));
    return tpi_script_return(c, tpi_item_float(fabs(double_of(v))));
}

/* ---- Bits and truth ---- */

static tpi_done bits(tpi_script_call *c, char op) {
    if (!are_numbers(c, 2) || !is_whole(&c->args[0]) || !is_whole(&c->args[1])) return TPI_OTHER;
    int64_t a = whole(&c->args[0]), b = whole(&c->args[1]);
    bool both = tpi_item_is_bool(&c->args[0]) && tpi_item_is_bool(&c->args[1]);
    if ((op == '<' || op == '>') && (b < 0 || b > 63)) {
        tpi_fail(TP_ERR_VALUE, "%s: expected a shift from 0 to 63, got %lld", c->name, (long long)b);
        return TPI_FAILED_WORD;
    }
    int64_t v = op == '&'   ? a & b
                : op == '|' ? a | b
                : op == '^' ? a ^ b
                : op == '<' ? (int64_t)((uint64_t)a << b)
                            : a >> b;
    return tpi_script_return(c, both && op != '<' && op != '>' ? tpi_item_bool(v) : tpi_item_int(v));
}
static tpi_done w_and(tpi_script_call *c) { return bits(c, '&'); }
static tpi_done w_or(tpi_script_call *c) { return bits(c, '|'); }
static tpi_done w_xor(tpi_script_call *c) { return bits(c, '^'); }
static tpi_done w_lshift(tpi_script_call *c) { return bits(c, '<'); }
static tpi_done w_rshift(tpi_script_call *c) { return bits(c, '>'); }

bool tpi_is_true(const tpi_item *v, bool *truth) {
    if (v->kind == TP_IVALUE_NUMBER) {
        *truth = is_complex(v) ? complex_of(v) != 0 : double_of(v) != 0;
        return true;
    }
    if (v->kind == TP_IVALUE_TENSOR) {
        tp_scalar s = tp_item_scalar(v->as.tensor);
        *truth = tp_ok() && tp_scalar_to_bool(s);
        return tp_ok();
    }
    return tpi_refuse(TP_ERR_TYPE, "expected a bool, got %s", tpi_item_kind_name(v));
}

static tpi_done w_not(tpi_script_call *c) {
    bool truth = false;
    if (c->n != 1) return TPI_OTHER;
    return tpi_is_true(&c->args[0], &truth) ? tpi_script_return(c, tpi_item_bool(!truth)) : TPI_FAILED_WORD;
}

/* ---- Comparisons ---- Equality is of all kinds of values, order of numbers and texts. */

static bool has_tensor(const tpi_script_call *c) {
    for (int64_t i = 0; i < c->n; i++)
        if (c->args[i].kind == TP_IVALUE_TENSOR) return true;
    return false;
}

static tpi_done w_eq(tpi_script_call *c) {
    if (c->n != 2 || has_tensor(c)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_bool(tpi_item_equal(&c->args[0], &c->args[1])));
}
static tpi_done w_ne(tpi_script_call *c) {
    if (c->n != 2 || has_tensor(c)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_bool(!tpi_item_equal(&c->args[0], &c->args[1])));
}

/* -1, 0, 1; 2: no order (NaN). */
static int order(const tpi_item *a, const tpi_item *b) {
    if (a->kind == TP_IVALUE_TEXT) return strcmp(a->as.box->text, b->as.box->text);
    if (is_whole(a) && is_whole(b)) return (whole(a) > whole(b)) - (whole(a) < whole(b));
    double x = double_of(a), y = double_of(b);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

static tpi_done compare(tpi_script_call *c, char op) {
    bool texts = c->n == 2 && c->args[0].kind == TP_IVALUE_TEXT && c->args[1].kind == TP_IVALUE_TEXT;
    if (!texts && (!are_numbers(c, 2) || is_complex(&c->args[0]) || is_complex(&c->args[1]))) return TPI_OTHER;
    int o = order(&c->args[0], &c->args[1]);
    bool none = o == 2 && !texts;
    bool less = op == '<' || op == '[', equal = op == '[' || op == ']';
    bool yes = o == 0 ? equal : (o < 0) == less;
    return tpi_script_return(c, tpi_item_bool(!none && yes));
}
static tpi_done w_lt(tpi_script_call *c) { return compare(c, '<'); }
static tpi_done w_le(tpi_script_call *c) { return compare(c, '['); }
static tpi_done w_gt(tpi_script_call *c) { return compare(c, '>'); }
static tpi_done w_ge(tpi_script_call *c) { return compare(c, ']'); }

/* min and max: of two numbers, or of a list of them. */
static tpi_done extreme(tpi_script_call *c, int sign) {
    const tpi_item *v = c->args;
    int64_t n = c->n;
    if (n == 1 && v->kind == TP_IVALUE_LIST) {
        n = v->as.box->n;
        v = v->as.box->items;
        if (!n) {
            tpi_fail(TP_ERR_VALUE, "%s: expected a list that is not empty", c->name);
            return TPI_FAILED_WORD;
        }
    } else if (n != 2) {
        return TPI_OTHER;
    }
    const tpi_item *best = v;
    bool floats = false;
    for (int64_t i = 0; i < n; i++) {
        if (v[i].kind != TP_IVALUE_NUMBER || is_complex(&v[i])) return TPI_OTHER;
        floats = floats || tpi_item_is_float(&v[i]);
        if (order(&v[i], best) * sign == 1) best = &v[i];
    }
    return tpi_script_return(c, floats ? tpi_item_float(double_of(best)) : *best);
}
static tpi_done w_min(tpi_script_call *c) { return extreme(c, -1); }
static tpi_done w_max(tpi_script_call *c) { return extreme(c, 1); }

/* ---- Conversions ---- */

static tpi_done no_number(const tpi_script_call *c) {
    tpi_fail(TP_ERR_VALUE, "%s: '%s' is no number", c->name, c->args[0].as.box->text);
    return TPI_FAILED_WORD;
}

/* A number from a number, a tensor of one element or a text; NONE: it is none of these. */
static tp_scalar number_of(const tpi_item *v) {
    if (v->kind == TP_IVALUE_NUMBER) return v->as.number;
    return v->kind == TP_IVALUE_TENSOR ? tp_item_scalar(v->as.tensor) : tp_no_scalar();
}

static tpi_done w_int(tpi_script_call *c) {
    if (c->n != 1) return TPI_OTHER;
    const tpi_item *v = &c->args[0];
    if (v->kind == TP_IVALUE_TEXT) {
        char *end;
        long long i = strtoll(v->as.box->text, &end, 10);
        return end == v->as.box->text || *end ? no_number(c) : tpi_script_return(c, tpi_item_int(i));
    }
    tp_scalar s = number_of(v);
    if (!tp_ok()) return TPI_FAILED_WORD;
    if (s.kind == TP_SCALAR_NONE) return TPI_OTHER;
    if (s.kind == TP_SCALAR_FLOAT && !fits_int64(s.as.d[0])) {
        tpi_fail(TP_ERR_VALUE, "int: %g is no integer of 64 bits", s.as.d[0]);
        return TPI_FAILED_WORD;
    }
    return tpi_script_return(c, tpi_item_int(tp_scalar_to_int(s)));
}

static tpi_done w_float(tpi_script_call *c) {
    if (c->n != 1) return TPI_OTHER;
    const tpi_item *v = &c->args[0];
    if (v->kind == TP_IVALUE_TEXT) {
        char *end;
        double d = strtod(v->as.box->text, &end);
        return end == v->as.box->text || *end ? no_number(c) : tpi_script_return(c, tpi_item_float(d));
    }
    tp_scalar s = number_of(v);
    if (!tp_ok()) return TPI_FAILED_WORD;
    return s.kind == TP_SCALAR_NONE ? TPI_OTHER : tpi_script_return(c, tpi_item_float(tp_scalar_to_double(s)));
}

static tpi_done w_bool(tpi_script_call *c) {
    bool truth = false;
    if (c->n != 1) return TPI_OTHER;
    if (c->args[0].kind == TP_IVALUE_TEXT) return tpi_script_return(c, tpi_item_bool(c->args[0].as.box->n > 0));
    return tpi_is_true(&c->args[0], &truth) ? tpi_script_return(c, tpi_item_bool(truth)) : TPI_FAILED_WORD;
}

static tpi_done w_complex(tpi_script_call *c) {
    double parts[2] = {0, 0};
    for (int64_t i = 0; i < c->n && i < 2; i++) {
        tp_scalar s = number_of(&c->args[i]);
        if (!tp_ok()) return TPI_FAILED_WORD;
        if (s.kind == TP_SCALAR_COMPLEX) return tpi_script_return(c, tpi_item_number(s));
        if (s.kind == TP_SCALAR_NONE) return TPI_OTHER;
        parts[i] = tp_scalar_to_double(s);
    }
    return tpi_script_return(c, tpi_item_number(tp_cplx(parts[0], parts[1])));
}

/* ---- Functions of a number ---- */

static tpi_done to_whole(tpi_script_call *c, double (*f)(double)) {
    if (!are_numbers(c, 1) || is_complex(&c->args[0])) return TPI_OTHER;
    if (is_whole(&c->args[0])) return tpi_script_return(c, tpi_item_int(whole(&c->args[0])));
    double d = f(double_of(&c->args[0]));
    if (!fits_int64(d)) {
        tpi_fail(TP_ERR_VALUE, "%s: %g is no integer of 64 bits", c->name, d);
        return TPI_FAILED_WORD;
    }
    return tpi_script_return(c, tpi_item_int((int64_t)d));
}
static tpi_done w_floor(tpi_script_call *c) { return to_whole(c, floor); }
static tpi_done w_ceil(tpi_script_call *c) { return to_whole(c, ceil); }

static const struct {
    const char *name;
    double (*f)(double);
} functions[] = {{"sqrt", sqrt},   {"exp", exp},      {"log", log},       {"log2", log2},   {"log10", log10},
                 {"log1p", log1p}, {"expm1", expm1},  {"sin", sin},       {"cos", cos},     {"tan", tan},
                 {"asin", asin},   {"acos", acos},    {"atan", atan},     {"sinh", sinh},   {"cosh", cosh},
                 {"tanh", tanh},   {"asinh", asinh},  {"acosh", acosh},   {"atanh", atanh}, {"erf", erf},
                 {"erfc", erfc},   {"gamma", tgamma}, {"lgamma", lgamma}, {"fabs", fabs},   {"round", rint},
                 {"trunc", trunc}};

static tpi_done w_function(tpi_script_call *c) {
    if (!are_numbers(c, 1) || is_complex(&c->args[0])) return TPI_OTHER;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(c->name, functions[i].name) == 0)
            return tpi_script_return(c, tpi_item_float(functions[i].f(double_of(&c->args[0]))));
    return TPI_OTHER;
}

static tpi_done w_atan2(tpi_script_call *c) {
    if (!are_numbers(c, 2)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_float(atan2(double_of(&c->args[0]), double_of(&c->args[1]))));
}
static tpi_done w_isnan(tpi_script_call *c) {
    return are_numbers(c, 1) ? tpi_script_return(c, tpi_item_bool(isnan(double_of(&c->args[0])))) : TPI_OTHER;
}
static tpi_done w_isinf(tpi_script_call *c) {
    return are_numbers(c, 1) ? tpi_script_return(c, tpi_item_bool(isinf(double_of(&c->args[0])))) : TPI_OTHER;
}
static tpi_done w_isfinite(tpi_script_call *c) {
    return are_numbers(c, 1) ? tpi_script_return(c, tpi_item_bool(isfinite(double_of(&c->args[0])))) : TPI_OTHER;
}

/* ---- Loops over range(start, end, step) ---- */

static tpi_done w_range_length(tpi_script_call *c) {
    if (!are_numbers(c, 3)) return TPI_OTHER;
    int64_t from = whole(&c->args[0]), to = whole(&c->args[1]), step = whole(&c->args[2]);
    if (step == 0) {
        tpi_fail(TP_ERR_VALUE, "range() arg 3 must not be zero");
        return TPI_FAILED_WORD;
    }
    uint64_t span = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    uint64_t by = step > 0 ? (uint64_t)step : -(uint64_t)step;
    bool empty = step > 0 ? to <= from : to >= from;
    return tpi_script_return(c, tpi_item_int(empty ? 0 : (int64_t)((span - 1) / by + 1)));
}
static tpi_done w_derive_index(tpi_script_call *c) {
    if (!are_numbers(c, 3)) return TPI_OTHER;
    uint64_t index = (uint64_t)whole(&c->args[0]), from = (uint64_t)whole(&c->args[1]);
    return tpi_script_return(c, tpi_item_int((int64_t)(from + index * (uint64_t)whole(&c->args[2]))));
}

static const tpi_script_word words[] = {
    {"add", w_add},
    {"mul", w_mul},
    {"neg", tpi_script_neg},
    {"eq", w_eq},
    {"ne", w_ne},
    {"lt", w_lt},
    {"le", w_le},
    {"gt", w_gt},
    {"ge", w_ge},
    {"sub", w_sub},
    {"div", w_div},
    {"floordiv", w_floordiv},
    {"remainder", w_remainder},
    {"divmod", w_divmod},
    {"pow", w_pow},
    {"fmod", w_fmod},
    {"abs", w_abs},
    {"prim.abs", w_abs},
    {"__and__", w_and},
    {"__or__", w_or},
    {"__xor__", w_xor},
    {"__lshift__", w_lshift},
    {"__rshift__", w_rshift},
    {"__not__", w_not},
    {"prim.min", w_min},
    {"prim.max", w_max},
    {"word.int", w_int},
    {"word.float", w_float},
    {"word.bool", w_bool},
    {"word.complex", w_complex},
    {"Complex", w_complex},
    {"Int", w_int},
    {"Float", w_float},
    {"Bool", w_bool},
    {"IntImplicit", w_int},
    {"FloatImplicit", w_float},
    {"prim.Int", w_int},
    {"prim.Float", w_float},
    {"prim.Bool", w_bool},
    {"floor", w_floor},
    {"ceil", w_ceil},
    {"atan2", w_atan2},
    {"isnan", w_isnan},
    {"isinf", w_isinf},
    {"isfinite", w_isfinite},
    {"__range_length", w_range_length},
    {"__derive_index", w_derive_index},
};

static const tpi_script_word function_word = {"a function of a number", w_function};
const tpi_script_word *tpi_script_number_word(const char *name) {
    const tpi_script_word *found = tpi_script_word_in(words, sizeof words / sizeof *words, name);
    for (size_t i = 0; !found && i < sizeof functions / sizeof *functions; i++)
        if (strcmp(name, functions[i].name) == 0) found = &function_word;
    return found;
}
