/* The Fortran face of layers: tp_nn_NAME with the options of C's function, which it calls. Each has its options as a
 * type of C's layout, private to it. */
#include "fortran.h"
#include "layer.h"
#include <string.h>

static bool is_none(const arg *a) { return a->fallback->kind == E_NAME && !strcmp(a->fallback->name, "None"); }

static const char *member_type(type t) {
    switch (t) {
    case T_TENSOR:
    case T_TENSOR_OPT:
    case T_STR:
    case T_STR_OPT:
    case T_GENERATOR: return "type(c_ptr)";
    case T_INT:
    case T_INT_OPT:
    case T_BOOL_OPT: return "integer(c_int64_t)";
    case T_FLOAT:
    case T_FLOAT_OPT: return "real(c_double)";
    case T_BOOL: return "logical(c_bool)";
    case T_DTYPE:
    case T_LAYOUT: return "integer(c_int)";
    case T_DEVICE: return "type(tpf_device)";
    case T_SCALAR:
    case T_SCALAR_OPT: return "type(tpf_scalar)";
    case T_OPERAND: return NULL;
    default: return "type(tpf_list)";
    }
}

static char *list_default(const arg *a) { /* ", [1, 1]" */
    const expr *e = a->fallback;
    if (!e || is_none(a)) return "";
    text t = {0};
    int n = e->kind == E_LIST ? e->n : 1;
    put(&t, ", [%s",
        a->type == T_INTS || a->type == T_INTS_OPT || a->type == T_BOOLS ? "integer :: " : "real(c_double) :: ");
    for (int i = 0; i < n; i++) put(&t, "%s%s", i ? ", " : "", fortran_number(e->kind == E_LIST ? e->arg[i] : e));
    put(&t, "]");
    return t.s;
}

/* The argument as C takes it: what was given, or the default. */
static char *c_value(const arg *a, const char *name) {
    bool none = !a->fallback || is_none(a);
    const expr *e = a->fallback;
    switch (a->type) {
    case T_TENSOR:
    case T_TENSOR_OPT: return format("tpf_handle_of(%s)", name);
    case T_STR:
    case T_STR_OPT:
        return none ? format("tpf_text_of(f, %s)", name) : format("tpf_text_of(f, %s, \"%s\")", name, e->name);
    case T_INT:
    case T_INT_OPT:
        return format("tpf_whole(%s, %s)", name, none ? "tpf_none" : format("%s_c_int64_t", fortran_number(e)));
    case T_BOOL_OPT: return format("tpf_maybe(%s)", name);
    case T_FLOAT:
    case T_FLOAT_OPT:
        return format("tpf_real(%s, %s)", name,
                      none ? "tpf_no_float" : format("real(%s, c_double)", fortran_number(e)));
    case T_BOOL: return format("tpf_truth(%s, %s)", name, !none && !strcmp(e->name, "true") ? ".true." : ".false.");
    case T_DTYPE:
    case T_LAYOUT: return format("int(tpf_enum(%s), c_int)", name);
    case T_DEVICE: return format("tpf_device_of(%s)", name);
    case T_SCALAR:
    case T_SCALAR_OPT:
        return none ? format("tpf_scalar_of(%s)", name) : format("tpf_scalar_of(%s, %s)", name, fortran_number(e));
    case T_TENSORS:
    case T_TENSORS_OPT: return format("tpf_handles(f, %s)", name);
    case T_FLOATS:
    case T_FLOATS_OPT: return format("tpf_reals(f, %s%s)", name, list_default(a));
    default: return format("tpf_integers(f, %s%s)", name, list_default(a));
    }
}

static bool is_taken_with(int n, const arg *const *args) {
    for (int i = 0; i < n; i++)
        if (args[i]->fallback || args[i]->type == T_SCALAR || args[i]->type == T_OPERAND) return true;
    return false;
}

static void write_options_type(text *t, const layer *l, int n, const arg *const *args, char *const *names) {
    put_line(t, "    type, bind(c), private :: tpo_%s", l->cname);
    put_line(t, "        integer(c_int64_t) :: bytes_");
    for (int i = 0; i < n; i++)
        if (args[i]->fallback) put_line(t, "        %s :: %s", member_type(args[i]->type), names[i]);
    put_line(t, "    end type");
}

static void write_interface(text *t, const layer *l, int n, const arg *const *args, char *const *names, bool options) {
    text list = {0};
    put(&list, "%s", "");
    int k = 0;
    for (int i = 0; i < n; i++)
        if (!args[i]->fallback) put(&list, "%s%s", k++ ? ", " : "", names[i]);
    if (options) put(&list, "%soptions_", k ? ", " : "");
    put_line(t, "        interface");
    put_line(t, "            function make(%s) bind(c, name=\"tp_%s%s\") result(at)", list.s, l->make.cname,
             is_taken_with(n, args) ? "_with" : "");
    put_line(t, "                import");
    for (int i = 0; i < n; i++)
        if (!args[i]->fallback) put_line(t, "                %s, value :: %s", member_type(args[i]->type), names[i]);
    if (options) put_line(t, "                type(tpo_%s), intent(in) :: options_", l->cname);
    put_line(t, "                type(c_ptr) :: at");
    put_line(t, "            end function");
    put_line(t, "        end interface");
}

static void write_layer(text *t, const layer *l, int n, const arg *const *args, char *const *names, bool options) {
    text list = {0}, call = {0};
    put(&list, "%s", "");
    put(&call, "%s", "");
    int k = 0;
    for (int i = 0; i < n; i++) {
        put(&list, "%s%s", i ? ", " : "", names[i]);
        if (!args[i]->fallback) put(&call, "%s%s", k++ ? ", " : "", c_value(args[i], names[i]));
    }
    if (options) put(&call, "%so", k ? ", " : "");
    put(t, "\n");
    put_comment(t, "    ", l->doc);
    put_line(t, "    function tp_%s(%s) result(m)", l->make.cname, list.s);
    for (int i = 0; i < n; i++) put_dummy(t, args[i], names[i], args[i]->fallback);
    put_line(t, "        type(tp_module) :: m");
    put_line(t, "        type(tpf_frame), target :: f");
    if (options) put_line(t, "        type(tpo_%s) :: o", l->cname);
    write_interface(t, l, n, args, names, options);
    if (options) put_line(t, "        o%%bytes_ = int(storage_size(o) / 8, c_int64_t)");
    for (int i = 0; i < n; i++)
        if (args[i]->fallback) put_line(t, "        o%%%s = %s", names[i], c_value(args[i], names[i]));
    put_line(t, "        call tpf_made(m%%ref, tpf_is_module, make(%s))", call.s);
    put_line(t, "        f%%n = 0");
    put_line(t, "    end function");
}

text write_fortran_layers(void) {
    text types = {0}, bodies = {0};
    for (int i = 0; i < nlayers; i++) {
        if (!in_c(layers[i])) continue;
        const arg *args[24];
        char *names[24];
        int n = constructor_arguments(layers[i], args);
        dummy_names(n, args, names);
        bool options = false;
        for (int j = 0; j < n; j++) options = options || args[j]->fallback;
        if (options) write_options_type(&types, layers[i], n, args, names);
        write_layer(&bodies, layers[i], n, args, names, options);
    }
    text t = {0};
    put(&t,
        "! Layers. Written by opgen from tables/layers: do not edit. docs/layers.md lists them.\nmodule "
        "taper_layers\n    use taper_base\n    use taper_objects\n    implicit none\n    public\n%scontains\n%send "
        "module taper_layers\n",
        types.s, bodies.s);
    return t;
}
