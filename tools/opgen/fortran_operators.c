/* The Fortran face of operators: tp_NAME, tp_NAME_ in place and tp_NAME_out, under the names that C has. One tensor or
 * number is a function's result; several tensors, and lists of them, are arguments behind the required ones, since
 * assignment to an allocatable array of tensors does not allocate it. Calls are boxed (fortran/base.f90). */
#include "fortran.h"
#include "tensor.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 128 };

void put_line(text *t, const char *line, ...) {
    char whole[8192];
    va_list list;
    va_start(list, line);
    vsnprintf(whole, sizeof whole, line, list);
    va_end(list);
    size_t indent = strspn(whole, " ");
    const char *rest = whole;
    bool first = true;
    for (;;) {
        size_t lead = first ? 0 : indent + 8, length = strlen(rest);
        if (lead + length <= LINE) {
            put(t, "%*s%s\n", (int)lead, "", rest);
            return;
        }
        size_t cut = LINE - 2 - lead;
        while (cut && !(rest[cut - 1] == ',' && rest[cut] == ' ')) cut--;
        if (!cut) fail((location){"fortran", 0}, "a line cannot be cut: %s", rest);
        put(t, "%*s%.*s &\n", (int)lead, "", (int)cut, rest);
        rest += cut + 1;
        first = false;
    }
}

void put_comment(text *t, const char *indent, const char *words) {
    while (*words) {
        size_t n = strlen(words), width = LINE - 2 - strlen(indent), cut = n;
        if (n > width) {
            cut = width;
            while (cut && words[cut] != ' ') cut--;
            if (!cut) cut = n;
        }
        const char *newline = memchr(words, '\n', cut);
        if (newline) cut = (size_t)(newline - words);
        put(t, "%s! %.*s\n", indent, (int)cut, words);
        words += cut;
        while (*words == ' ' || *words == '\n') words++;
    }
}

char *lower(const char *s) {
    char *c = copy_n(s, strlen(s));
    for (char *p = c; *p; p++) *p = (char)tolower((unsigned char)*p);
    return c;
}

void dummy_names(int n, const arg *const *args, char **names) {
    for (int i = 0; i < n; i++) {
        names[i] = lower(args[i]->name + strspn(args[i]->name, "_")); /* names begin with a letter */
        for (int j = 0; j < i; j++)
            if (!strcmp(names[i], names[j])) names[i] = format("%s_%d", names[i], i);
    }
}

char *fortran_number(const expr *e) {
    char *s = print_expr(e);
    if (strstr(s, "inf") || strstr(s, "INF")) return strchr(s, '-') ? "-tpf_infinity" : "tpf_infinity";
    bool real = strchr(s, '.') || strchr(s, 'e');
    return real ? format("%s_c_double", s) : s;
}

static const char *dummy_type(type t) {
    switch (t) {
    case T_TENSOR:
    case T_TENSOR_OPT:
    case T_TENSORS:
    case T_TENSORS_OPT: return "type(tp_tensor)";
    case T_INTS:
    case T_INTS_OPT:
    case T_DTYPE:
    case T_LAYOUT: return "integer";
    case T_FLOATS:
    case T_FLOATS_OPT:
    case T_SCALARS:
    case T_SCALARS_OPT: return "real(c_double)";
    case T_BOOL:
    case T_BOOL_OPT:
    case T_BOOLS: return "logical";
    case T_STR:
    case T_STR_OPT:
    case T_DEVICE: return "character(len=*)";
    case T_GENERATOR: return "type(tp_generator)";
    default: return "class(*)"; /* numbers of any kind, and operands */
    }
}
static bool is_list(type t) {
    return is_tensors(t) || t == T_INTS || t == T_INTS_OPT || t == T_FLOATS || t == T_FLOATS_OPT || t == T_SCALARS ||
           t == T_SCALARS_OPT || t == T_BOOLS;
}
void put_dummy(text *t, const arg *a, const char *name, bool optional) {
    put_line(t, "        %s, intent(in)%s :: %s%s", dummy_type(a->type), optional ? ", optional" : "", name,
             is_list(a->type) ? "(:)" : "");
}

static char *put_call(type t) {
    switch (t) {
    case T_TENSOR:
    case T_TENSOR_OPT: return "tpf_put_tensor(tpf_f, ";
    case T_TENSORS:
    case T_TENSORS_OPT: return "tpf_put_tensors(tpf_f, ";
    case T_INTS:
    case T_INTS_OPT: return "tpf_put_integers(tpf_f, ";
    case T_BOOLS: return "tpf_put_truths(tpf_f, ";
    case T_FLOATS:
    case T_FLOATS_OPT: return "tpf_put_reals(tpf_f, ";
    case T_SCALARS:
    case T_SCALARS_OPT: return "tpf_put_scalars(tpf_f, ";
    case T_BOOL:
    case T_BOOL_OPT: return "tpf_put_truth(tpf_f, ";
    case T_STR:
    case T_STR_OPT: return "tpf_put_text(tpf_f, ";
    case T_DTYPE: return "tpf_put_enum(tpf_f, tpf_k_dtype, ";
    case T_LAYOUT: return "tpf_put_enum(tpf_f, tpf_k_layout, ";
    case T_DEVICE: return "tpf_put_device(tpf_f, ";
    case T_GENERATOR: return "tpf_put_generator(tpf_f, ";
    default: return "tpf_put_number(tpf_f, ";
    }
}

static bool is_public(const op *o) { return !o->internal && !o->hidden && !o->module; }
static bool may_be_absent(const arg *a) {
    return a->fallback || a->type == T_TENSOR_OPT || a->type == T_INT_OPT || a->type == T_INTS_OPT ||
           a->type == T_FLOAT_OPT || a->type == T_STR_OPT || a->type == T_SCALAR_OPT || a->type == T_BOOL_OPT ||
           a->type == T_TENSORS_OPT || a->type == T_DTYPE || a->type == T_LAYOUT || a->type == T_GENERATOR ||
           a->type == T_DEVICE;
}

/* tp_T and tp_t are one name to Fortran: the one with capitals is tp_upper_t. */
static char *procedure_name(const op *o, form f) {
    char *name = lower(o->cname);
    for (int i = 0; i < nops; i++)
        if (ops[i] != o && is_public(ops[i]) && !strcmp(lower(ops[i]->cname), name) && strcmp(o->cname, name)) {
            name = format("upper_%s", name);
            break;
        }
    name = format("tp_%s%s", name, f == FORM_INPLACE ? "_" : f == FORM_OUT ? "_out" : "");
    if (strlen(name) > 63) fail(o->at, "Fortran's names have 63 letters at most: %s", name);
    return name;
}

/* The results that are arguments: their names, which no argument has. */
static int result_names(const op *o, form f, char *const *dummies, char **names) {
    bool many = f == FORM_PLAIN && !o->plain && (o->nresults > 1 || o->results[0].type == T_TENSORS);
    if (!many) return 0;
    for (int i = 0; i < o->nresults; i++) {
        names[i] = o->results[i].name && *o->results[i].name ? lower(o->results[i].name) : "results";
        for (int j = 0; j < o->nargs; j++)
            if (!strcmp(names[i], dummies[j])) names[i] = format("%s_out", names[i]);
    }
    return o->nresults;
}

static const char *plain_declaration(const op *o) {
    return !strcmp(o->plain_type, "bool")  ? "logical"
           : !strcmp(o->plain_type, "int") ? "integer(c_int64_t)"
                                           : "real(c_double)";
}

static void put_result(text *t, const op *o, form f, int nresults, char *const *results) {
    char *name = format("\"%s%s\" // c_null_char", o->name, f == FORM_INPLACE ? "_" : "");
    if (f == FORM_INPLACE)
        put_line(t, "        call tpf_change(tpf_f, %s)", name);
    else if (f == FORM_OUT)
        put_line(t, "        call tpf_into(out, tpf_f, %s)", name);
    else if (o->plain) {
        put_line(t, "        if (.not. tpf_run(tpf_f, %s, tpf_v)) tpf_v(1)%%word = 0", name);
        put_line(t, "        tpf_r = %s",
                 !strcmp(o->plain_type, "bool")  ? "tpf_v(1)%word(2) /= 0"
                 : !strcmp(o->plain_type, "int") ? "tpf_v(1)%word(2)"
                                                 : "tpf_number(tpf_v(1))");
    } else if (nresults) {
        put_line(t, "        if (.not. tpf_run(tpf_f, %s, tpf_v)) tpf_v%%kind = 0", name);
        for (int i = 0; i < nresults; i++)
            put_line(t, "        call %s(%s, tpf_v(%d))", o->results[i].type == T_TENSORS ? "tpf_set_list" : "tpf_set",
                     results[i], i + 1);
    } else
        put_line(t, "        tpf_r%%handle = tpf_one(tpf_f, %s)", name);
}

static void write_form(text *t, const op *o, form f) {
    const arg *args[24];
    char *dummies[24], *results[6];
    for (int i = 0; i < o->nargs; i++) args[i] = &o->args[i];
    dummy_names(o->nargs, args, dummies);
    int nresults = result_names(o, f, dummies, results), n = 0;
    bool function = f == FORM_PLAIN && !nresults;
    text list = {0};
    put(&list, "%s", "");
    if (f == FORM_OUT) {
        put(&list, "out");
        n++;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < o->nargs; i++)
            if (may_be_absent(args[i]) == (pass == 1)) put(&list, "%s%s", n++ ? ", " : "", dummies[i]);
        for (int i = 0; i < nresults && !pass; i++) put(&list, "%s%s", n++ ? ", " : "", results[i]);
    }
    char *name = procedure_name(o, f);
    put(t, "\n");
    if (f == FORM_PLAIN) put_comment(t, "    ", o->doc);
    put_line(t, "    %s %s(%s)%s", function ? "function" : "subroutine", name, list.s,
             function ? " result(tpf_r)" : "");
    if (f == FORM_OUT) put_line(t, "        type(tp_tensor), intent(in) :: out");
    for (int i = 0; i < o->nargs; i++) {
        arg self = *args[i];
        if (f == FORM_INPLACE && i == 0) self.type = T_TENSOR;
        put_dummy(t, &self, dummies[i], may_be_absent(args[i]));
    }
    for (int i = 0; i < nresults; i++)
        if (o->results[i].type == T_TENSORS)
            put_line(t, "        type(tp_tensor), allocatable, intent(inout) :: %s(:)", results[i]);
        else
            put_line(t, "        type(tp_tensor), intent(inout), optional :: %s", results[i]);
    if (function) put_line(t, "        %s :: tpf_r", o->plain ? plain_declaration(o) : "type(tp_tensor)");
    if (o->plain || nresults) put_line(t, "        type(tpf_value) :: tpf_v(%d)", o->plain ? 1 : o->nresults);
    put_line(t, "        type(tpf_frame), target :: tpf_f");
    for (int i = 0; i < o->nargs; i++) {
        type y = f == FORM_INPLACE && i == 0 ? T_TENSOR : args[i]->type;
        put_line(t, "        call %s%s)", put_call(y), dummies[i]);
    }
    put_result(t, o, f, nresults, results);
    put_line(t, "    end %s", function ? "function" : "subroutine");
}

/* ---- operators ---- */
static const struct {
    const char *python, *fortran;
} symbols[] = {{"+", "operator(+)"},   {"-", "operator(-)"},   {"*", "operator(*)"},   {"/", "operator(/)"},
               {"**", "operator(**)"}, {"==", "operator(==)"}, {"!=", "operator(/=)"}, {"<", "operator(<)"},
               {"<=", "operator(<=)"}, {">", "operator(>)"},   {">=", "operator(>=)"}, {"&", "operator(.and.)"},
               {"|", "operator(.or.)"}};
static const struct {
    const char *name, *type;
} numbers[] = {{"i4", "integer(c_int32_t)"}, {"i8", "integer(c_int64_t)"},       {"r4", "real(c_float)"},
               {"r8", "real(c_double)"},     {"c4", "complex(c_float_complex)"}, {"c8", "complex(c_double_complex)"}};
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static const char *fortran_symbol(const op *o) {
    for (int i = 0; o->symbol && i < COUNT(symbols); i++)
        if (!strcmp(symbols[i].python, o->symbol)) return symbols[i].fortran;
    return NULL;
}
/* Intrinsic functions of one argument that serve tensors too, where PyTorch's operator has the same name. */
static bool is_intrinsic(const op *o) {
    static const char *const names[] = {"abs",     "acos", "acosh", "asin", "asinh", "atan",  "atanh",
                                        "ceiling", "cos",  "cosh",  "erf",  "erfc",  "exp",   "log",
                                        "sin",     "sinh", "sqrt",  "tan",  "tanh",  "log10", "sign"};
    for (int i = 0; i < COUNT(names); i++)
        if (!strcmp(names[i], o->name)) return o->nargs == 1;
    return false;
}

static void write_interfaces(text *t) {
    for (int k = 0; k < nops; k++) {
        const op *o = ops[k];
        if (!is_public(o)) continue;
        const char *symbol = fortran_symbol(o);
        if (symbol) {
            text list = {0};
            put(&list, "tpf_%s_tt", o->cname);
            for (int i = 0; i < COUNT(numbers); i++)
                put(&list, ", tpf_%s_t%s, tpf_%s_%st", o->cname, numbers[i].name, o->cname, numbers[i].name);
            put_line(t, "    interface %s", symbol);
            put_line(t, "        module procedure %s", list.s);
            put_line(t, "    end interface");
        }
        const char *generic = !o->symbol                 ? NULL
                              : !strcmp(o->symbol, "-x") ? "operator(-)"
                              : !strcmp(o->symbol, "~x") ? "operator(.not.)"
                              : !strcmp(o->symbol, "@")  ? "matmul"
                                                         : NULL;
        if (!generic && is_intrinsic(o)) generic = o->name;
        if (generic) {
            put_line(t, "    interface %s", generic);
            put_line(t, "        module procedure %s", procedure_name(o, FORM_PLAIN));
            put_line(t, "    end interface");
        }
    }
}

static void write_binary(text *t, const op *o, const char *name, const char *left, const char *right) {
    put_line(t, "    function tpf_%s_%s(a, b) result(tpf_r)", o->cname, name);
    put_line(t, "        %s, intent(in) :: a", left);
    put_line(t, "        %s, intent(in) :: b", right);
    put_line(t, "        type(tp_tensor) :: tpf_r");
    put_line(t, "        tpf_r%%handle = tpf_binary(\"%s\" // c_null_char, a, b)", o->name);
    put_line(t, "    end function");
}

static void write_symbols(text *t) {
    put(t, "\n    ! ---- operators: tensors with tensors and with numbers ----\n"
           "    function tpf_binary(name, a, b) result(at)\n"
           "        character(len=*), intent(in) :: name\n        class(*), intent(in) :: a, b\n"
           "        type(c_ptr) :: at\n        type(tpf_frame), target :: f\n        call tpf_put_number(f, a)\n"
           "        call tpf_put_number(f, b)\n        at = tpf_one(f, name)\n    end function\n");
    const char *tensor = "type(tp_tensor)";
    for (int k = 0; k < nops; k++) {
        if (!is_public(ops[k]) || !fortran_symbol(ops[k])) continue;
        write_binary(t, ops[k], "tt", tensor, tensor);
        for (int i = 0; i < COUNT(numbers); i++) {
            write_binary(t, ops[k], format("t%s", numbers[i].name), tensor, numbers[i].type);
            write_binary(t, ops[k], format("%st", numbers[i].name), numbers[i].type, tensor);
        }
    }
}

text write_fortran_operators(void) {
    text t = {0};
    put(&t, "! Operators. Written by opgen from tables/operators: do not edit. docs/operators.md lists them.\n"
            "module taper_operators\n    use taper_base\n    implicit none\n    public\n");
    write_interfaces(&t);
    put(&t, "contains\n");
    for (int k = 0; k < nops; k++) {
        if (!is_public(ops[k])) continue;
        write_form(&t, ops[k], FORM_PLAIN);
        if (ops[k]->inplace) write_form(&t, ops[k], FORM_INPLACE);
        if (ops[k]->out) write_form(&t, ops[k], FORM_OUT);
    }
    write_symbols(&t);
    put(&t, "end module taper_operators\n");
    return t;
}
