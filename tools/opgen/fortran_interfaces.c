/* Fortran's module from its parts: one after the other, as they are, but for lines
 *
 *     !from_c tp_retain tp_release ...
 *
 * inside of an interface block. In their place come interfaces of these functions as C's headers declare them, under
 * the names tpf_c_retain, tpf_c_release, ... A C struct is the part's type of that name, tpf_scope for tp_scope; a
 * pointer without such a type is a type(c_ptr). */
#include "fortran.h"
#include <ctype.h>
#include <string.h>

typedef struct prototype_text { /* as in the header, in one line */
    char *result, *name, *arguments;
} prototype_text;
static prototype_text *known;
static int nknown;
static const char *parts = ""; /* the text of all parts, in which types are looked for */

/* ---- Headers ---- */
/* Without comments and lines of the preprocessor, in one line. */
static char *plain_text(const char *s) {
    text t = {0};
    put(&t, "%s", "");
    for (bool line_begins = true; *s;) {
        if (!strncmp(s, "/*", 2)) {
            s = strstr(s, "*/") + 2;
        } else if (line_begins && s[strspn(s, " ")] == '#') {
            while (*s && *s != '\n') s += *s == '\\' && s[1] == '\n' ? 2 : 1;
        } else {
            line_begins = *s == '\n' || (line_begins && *s == ' ');
            put(&t, "%c", *s == '\n' ? ' ' : *s);
            s++;
        }
    }
    return t.s;
}

static char *trimmed(const char *from, const char *to) {
    while (from < to && isspace((unsigned char)*from)) from++;
    while (to > from && isspace((unsigned char)to[-1])) to--;
    return copy_n(from, (size_t)(to - from));
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* "RESULT NAME(ARGUMENTS)" */
static void add_prototype(const char *from, const char *to) {
    const char *open = memchr(from, '(', (size_t)(to - from)), *name = open;
    if (!open) return;
    while (name > from && is_name(name[-1])) name--;
    while (to > open && *to != ')') to--;
    if ((nknown & (nknown - 1)) == 0) { /* room for powers of two */
        prototype_text *more = need(sizeof *more * (size_t)(nknown ? nknown * 2 : 1));
        if (nknown) memcpy(more, known, sizeof *more * (size_t)nknown);
        known = more;
    }
    known[nknown++] = (prototype_text){trimmed(from, name), copy_n(name, (size_t)(open - name)), trimmed(open + 1, to)};
}

void read_header(const char *path) {
    const char *all = read_file(path);
    if (!all) fail((location){path, 0}, "cannot be read");
    const char *s = plain_text(all);
    while ((s = strstr(s, "TP_API "))) {
        s += strlen("TP_API ");
        const char *end = strchr(s, ';');
        if (end) add_prototype(s, end);
    }
}

/* ---- Types ---- */
static const char *plain_type(const char *c) {
    static const char *const types[][2] = {
        {"bool", "logical(c_bool)"},        {"int", "integer(c_int)"},       {"int64_t", "integer(c_int64_t)"},
        {"uint64_t", "integer(c_int64_t)"}, {"size_t", "integer(c_size_t)"}, {"double", "real(c_double)"},
        {"tp_dtype", "integer(c_int)"},     {"tp_code", "integer(c_int)"},   {"tp_device_type", "integer(c_int)"},
        {"tp_reduce_op", "integer(c_int)"}, {"tp_ints", "type(tpf_list)"},   {"tp_floats", "type(tpf_list)"},
        {"tp_tensors", "type(tpf_list)"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i][0], c)) return types[i][1];
    if (strncmp(c, "tp_", 3)) return NULL;
    const char *own = format("tpf_%s", c + 3), *there = strstr(parts, format("type, bind(c) :: %s", own));
    return there && !is_name(there[strlen("type, bind(c) :: ") + strlen(own)]) ? format("type(%s)", own) : NULL;
}

typedef struct c_type {
    char *base; /* without const and stars */
    int stars;
    bool is_const; /* what a pointer points to */
} c_type;
static c_type read_type(const char *s) {
    c_type t = {.base = NULL};
    while (*(s = spaces(s))) {
        if (*s == '*') {
            t.stars++;
            s++;
            continue;
        }
        char *w = word(&s);
        if (!*w) break; /* nothing that a prototype of ours has */
        if (!strcmp(w, "const"))
            t.is_const = t.is_const || !t.stars;
        else
            t.base = w;
    }
    return t;
}

/* A dummy's declaration. */
static char *declared(const char *name, const c_type *t, location at) {
    const char *type = t->base ? plain_type(t->base) : NULL;
    if (t->stars == 0 && type) return format("%s, value :: %s", type, name);
    if (t->stars == 1 && !strcmp(t->base, "char"))
        return format("character(kind=c_char), intent(%s) :: %s(*)", t->is_const ? "in" : "out", name);
    if (t->stars == 1 && !strcmp(t->base, "tp_value"))
        return format("type(tpf_value), intent(%s) :: %s(*)", t->is_const ? "in" : "inout", name);
    if (t->stars == 1 && !strcmp(t->base, "double"))
        return t->is_const ? format("%s, intent(in) :: %s(*)", type, name)
                           : format("%s, intent(out) :: %s", type, name);
    if (t->stars == 1 && type) return format("%s, intent(%s) :: %s", type, t->is_const ? "in" : "inout", name);
    if (t->stars == 2 && !t->is_const) return format("type(c_ptr), intent(out) :: %s(*)", name);
    if (t->stars) return format("type(c_ptr), value :: %s", name);
    fail(at, "no Fortran type is known for C's %s", t->base);
}

/* One argument of C, from `s` on to its comma: its name and its declaration. Returns what comes behind it. */
static const char *read_argument(const char *s, char **name, char **declaration, location at) {
    int depth = 0;
    const char *end = s;
    for (; *end && (depth || *end != ','); end++) depth += (*end == '(') - (*end == ')');
    char *whole = trimmed(s, end), *function = strstr(whole, "(*");
    const char *last = whole + strlen(whole);
    if (function) {
        const char *from = function + 2;
        *name = word(&from);
    } else {
        while (last > whole && is_name(last[-1])) last--;
        *name = copy_n(last, strlen(last));
    }
    const c_type t = read_type(function ? "" : trimmed(whole, last));
    const size_t n = t.base ? strlen(t.base) : 0;
    if (function || (n > 3 && !strcmp(t.base + n - 3, "_fn")))
        *declaration = format("type(c_funptr), value :: %s", *name);
    else {
        c_type pointed = t;
        /* "tp_tensor *const *": an array that is read */
        pointed.is_const = t.is_const || strstr(whole, "*const");
        *declaration = declared(*name, &pointed, at);
    }
    return *end ? end + 1 : end;
}

/* ---- Interfaces ---- */
static void put_interface(text *out, const char *function, location at) {
    const prototype_text *p = NULL;
    for (int i = 0; i < nknown; i++)
        if (!strcmp(known[i].name, function)) p = &known[i];
    if (!p) fail(at, "no header declares %s", function);
    text dummies = {0}, declarations = {0};
    put(&dummies, "%s", "");
    put(&declarations, "%s", "");
    for (const char *s = strcmp(p->arguments, "void") ? p->arguments : ""; *s;) {
        char *name, *declaration;
        s = read_argument(s, &name, &declaration, at);
        put(&dummies, "%s%s", *dummies.s ? ", " : "", name);
        put(&declarations, "            %s\n", declaration);
    }
    const c_type result = read_type(p->result);
    const bool nothing = !result.stars && !strcmp(result.base, "void");
    const char *type = result.stars ? "type(c_ptr)" : plain_type(result.base),
               *kind = nothing ? "subroutine" : "function";
    if (!nothing && !type) fail(at, "no Fortran type is known for C's %s", p->result);
    put_line(out, "        %s tpf_c_%s(%s) bind(c, name=\"%s\")%s", kind, function + 3, dummies.s, function,
             nothing ? "" : " result(c_result)");
    put(out, "            import\n%s", declarations.s);
    if (!nothing) put(out, "            %s :: c_result\n", type);
    put(out, "        end %s\n", kind);
}

text write_fortran_module(int n, char **paths) {
    static const char mark[] = "!from_c ";
    text out = {0}, all = {0};
    for (int i = 0; i < n; i++) {
        const char *part = read_file(paths[i]);
        if (!part) fail((location){paths[i], 0}, "cannot be read");
        put(&all, "%s", part);
    }
    parts = all.s;
    for (int i = 0; i < n; i++) {
        location at = {paths[i], 0};
        for (const char *s = read_file(paths[i]), *next; *s; s = next) {
            const char *end = strchr(s, '\n');
            next = end ? end + 1 : s + strlen(s);
            at.line++;
            const char *line = copy_n(s, (size_t)(next - s)), *names = spaces(line);
            if (strncmp(names, mark, strlen(mark))) {
                put(&out, "%s", line);
                continue;
            }
            for (names += strlen(mark); *(names = spaces(names)) && *names != '\n';)
                put_interface(&out, word(&names), at);
        }
    }
    return out;
}
