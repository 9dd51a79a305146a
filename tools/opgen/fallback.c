/* Natives whose tensors are not on the CPU: by kernels where the stanza has a `gpu` line, as they are where it says
 * `anywhere`, else by way of the host. The functions written here call src/dispatch/fallback.h. */
#include "opgen.h"
#include <string.h>

/* In place, the first argument is a plain tensor. */
static char *device_letters(const op *o) { return argument_letters(o, o->kind == K_NATIVE_INPLACE); }

/* Tensors among the arguments or results: their memory may be a device's. */
static bool has_tensors(const op *o) { return !o->anywhere && strpbrk(device_letters(o), "tolD"); }

/* The condition that all is on the CPU. `self`: the name of the first argument of an in-place native. */
static char *on_cpu(const op *o, const char *self) {
    text t = {0};
    const char *letters = device_letters(o);
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

typedef enum { ONE_TENSOR, A_LIST, BY_ARGUMENTS } handover; /* how a native gives what it made */

static handover handover_of(const op *o) {
    if (o->kind == K_NATIVE_INPLACE || o->nresults > 1 || o->plain) return BY_ARGUMENTS;
    return o->results[0].type == T_TENSORS ? A_LIST : ONE_TENSOR;
}

/* The CPU's function asks itself where the tensors are. */
static bool serves_everywhere(const op *o) { return !strcmp(o->gpu, o->function); }

/* The native with kernels: it answers served, declined or failed (base/served.h), and gives what it made by a pointer.
 */
static char *gpu_prototype(const op *o) {
    bool inplace = o->kind == K_NATIVE_INPLACE;
    char *p = parameters(o, inplace);
    const char *comma = o->nargs ? ", " : "";
    if (inplace) return format("tpi_served %s(%s)", o->gpu, p);
    if (o->plain) return format("tpi_served %s(%s%s%s *out)", o->gpu, p, comma, plain_c(o));
    if (handover_of(o) == A_LIST) return format("tpi_served %s(%s%stp_tensors *result)", o->gpu, p, comma);
    return format("tpi_served %s(%s%stp_tensor **result%s)", o->gpu, p, comma,
                  has_neighbours(o) ? ", tpi_neighbours *neighbours" : "");
}

/* The call by kernels, where the device has them. */
static void write_gpu_call(text *t, const op *o, const char *args, const char *failure) {
    static const char *types[] = {"tp_tensor *", "tp_tensors ", "bool "},
                      *none[] = {"NULL", "(tp_tensors){NULL, 0}", "false"};
    handover h = handover_of(o);
    if (serves_everywhere(o)) {
        put(t, "    %smade = e.kernels ? %s(%s) : %s;\n", types[h], o->gpu, args, none[h]);
        put(t, "    tpi_served served = tpi_serve_if(made%s);\n", h == A_LIST ? ".v" : "");
    } else if (h == BY_ARGUMENTS) {
        put(t, "    tpi_served served = e.kernels ? %s(%s%s) : TPI_DECLINED;\n", o->gpu, args,
            has_neighbours(o) ? ", neighbours" : "");
    } else {
        put(t, "    %smade = %s;\n", types[h], none[h]);
        put(t, "    tpi_served served = e.kernels ? %s(%s%s&made) : TPI_DECLINED;\n", o->gpu, args, *args ? ", " : "");
    }
    put(t, "    if (served == TPI_SERVED) {\n        tpi_fallback_end(&e);\n        return %s;\n    }\n",
        h == BY_ARGUMENTS ? "true" : "made");
    if (o->kind == K_NATIVE_INPLACE) put(t, "    if (tpi_fallback_settled(&e)) return true;\n");
    put(t, "    if (served == TPI_FAILED) {\n        tpi_fallback_failed(&e);\n        return %s;\n    }\n", failure);
}

void write_fallback(text *t, const op *o) {
    if (!has_tensors(o)) return;
    bool inplace = o->kind == K_NATIVE_INPLACE, many = !inplace && (o->nresults > 1 || o->plain),
         list = !inplace && !many && o->results[0].type == T_TENSORS;
    const char *comma = o->nargs ? ", " : "", *failure = list              ? "(tp_tensors){NULL, 0}"
                                                         : inplace || many ? "false"
                                                                           : "NULL";
    text copies = {0}, addresses = {0}, args = {0};
    for (int i = 0; i < o->nargs; i++) {
        const char *name = o->args[i].name, *between = i ? ", " : "";
        type y = inplace && i == 0 ? T_TENSOR : o->args[i].type;
        put(&copies, "    %s%s%s_ = %s;\n", types[y].c, space(y), name, name);
        put(&addresses, "%s&%s_", between, name);
        put(&args, "%s%s_", between, name);
    }
    if (many) put(&args, "%sout", comma);
    if (o->gpu && !serves_everywhere(o)) put(t, "%s;\n", gpu_prototype(o));
    op helper = *o;
    helper.function = format("fallback_%s", o->cname);
    char *opening = function_prototype(&helper);
    if (has_neighbours(o)) opening = format("%.*s, tpi_neighbours *neighbours)", (int)strlen(opening) - 1, opening);
    put(t, "static %s {\n%s", opening, copies.s);
    put(t, "    void *const addresses[] = {%s};\n    tpi_fallback e;\n", addresses.s);
    put(t, "    if (!tpi_fallback_begin(&e, TPI_OPERATOR(%s), %s, addresses)) return %s;\n", o->cname,
        inplace ? "true" : "false", failure);
    if (o->gpu) write_gpu_call(t, o, args.s, failure);
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
    if (!has_tensors(o)) return format("%s(%s)", o->function, args);
    if (has_neighbours(o))
        return format("(%s ? %s(%s) : fallback_%s(%s, neighbours))", on_cpu(o, self), o->function, args, o->cname,
                      args);
    return format("(%s ? %s : fallback_%s)(%s)", on_cpu(o, self), o->function, o->cname, args);
}
