/* Natives whose tensors are not on the CPU: by kernels where the stanza has a `gpu` line, as they are where it says
 * `anywhere`, else by way of the host. The functions written here call src/dispatch/fallback.h. */
#include "opgen.h"
#include <string.h>

/* In place, the first argument is a plain tensor. */
static char *place_letters(const op *o) { return argument_letters(o, o->kind == K_NATIVE_INPLACE); }

/* Where the arguments' elements are, or the results will be, may be another place than the CPU's memory. */
static bool has_place(const op *o) { return !o->anywhere && strpbrk(place_letters(o), "tolD"); }

/* The condition that all is on the CPU. `self`: the name of the first argument of an in-place native. */
static char *on_cpu(const op *o, const char *self) {
    text t = {0};
    const char *letters = place_letters(o);
    for (int i = 0; i < o->nargs; i++) {
        if (!strchr("tolD", letters[i])) continue;
        const char *name = self && i == 0 ? self : o->args[i].name;
        /* Without a device of its own a tensor's counts: what is asked for is looked at where it is asked for. */
        bool tensors_decide = letters[i] == 'D' && strpbrk(letters, "tol");
        put(&t, "%s%s%s%s", t.s ? " && " : "",
            letters[i] == 'l'   ? "tpi_list_on_cpu("
            : letters[i] != 'D' ? "tpi_on_cpu("
            : tensors_decide    ? format("(!%s.type || tpi_means_cpu(", name)
                                : "tpi_means_cpu(",
            name,
            letters[i] == 'o' ? ".tensor)"
            : tensors_decide  ? "))"
                              : ")");
    }
    return t.s;
}

void write_elsewhere(text *t, const op *o) {
    if (!has_place(o)) return;
    bool inplace = o->kind == K_NATIVE_INPLACE, many = !inplace && (o->nresults > 1 || o->plain),
         list = !inplace && !many && o->results[0].type == T_TENSORS;
    const char *comma = o->nargs ? ", " : "", *failure = list              ? "(tp_tensors){NULL, 0}"
                                                         : inplace || many ? "false"
                                                                           : "NULL";
    text copies = {0}, places = {0}, args = {0};
    for (int i = 0; i < o->nargs; i++) {
        const char *name = o->args[i].name, *between = i ? ", " : "";
        type y = inplace && i == 0 ? T_TENSOR : o->args[i].type;
        put(&copies, "    %s%s%s_ = %s;\n", types[y].c, space(y), name, name);
        put(&places, "%s&%s_", between, name);
        put(&args, "%s%s_", between, name);
    }
    if (many) put(&args, "%sout", comma);
    if (o->gpu) {
        op kernels = *o;
        kernels.function = o->gpu;
        put(t, "%s;\n", function_prototype(&kernels));
    }
    op helper = *o;
    helper.function = format("elsewhere_%s", o->cname);
    put(t, "static %s {\n%s", function_prototype(&helper), copies.s);
    put(t, "    void *const places[] = {%s};\n    tpi_fallback e;\n", places.s);
    put(t, "    if (!tpi_fallback_begin(&e, TPI_OPERATOR(%s), %s, places)) return %s;\n", o->cname,
        inplace ? "true" : "false", failure);
    if (o->gpu) {
        put(t, "    if (e.kernels) {\n        %sby_kernels = %s(%s);\n",
            list              ? "tp_tensors "
            : inplace || many ? "bool "
                              : "tp_tensor *",
            o->gpu, args.s);
        put(t, "        if (by_kernels%s) return tpi_fallback_end(&e), by_kernels;\n    }\n", list ? ".v" : "");
    }
    if (o->gpu && inplace) put(t, "    if (tpi_fallback_settled(&e)) return true;\n");
    put(t, "    if (!tpi_fallback_to_host(&e)) return %s;\n", failure);
    const char *call = format("%s(%s)", o->function, args.s);
    if (list)
        put(t, "    return tpi_fallback_back_list(&e, %s);\n}\n\n", call);
    else if (inplace || many)
        put(t, "    return tpi_fallback_back_many(&e, %s, %s, %d);\n}\n\n", call, many && !o->plain ? "out" : "NULL",
            many && !o->plain ? o->nresults : 0);
    else
        put(t, "    return tpi_fallback_back(&e, %s);\n}\n\n", call);
}

char *native_call(const op *o, const char *args, const char *self) {
    if (!has_place(o)) return format("%s(%s)", o->function, args);
    return format("(%s ? %s : elsewhere_%s)(%s)", on_cpu(o, self), o->function, o->cname, args);
}
