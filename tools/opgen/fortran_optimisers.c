/* The Fortran face of optimisers: tp_adam(net, lr=1d-3) takes a module's parameters, or an array of tensors. Options go
 * into the list of values that every optimiser of C's has; those that are not given keep the table's defaults. */
#include "fortran.h"
#include "optimiser.h"
#include <string.h>

static bool is_argument(const option *p) { return p->count && !p->fixed; }
static const char *option_type(const option *p) {
    return p->kind == O_STRING ? "character(len=*)" : p->fallback->kind == E_LIST ? "real(c_double)" : "class(*)";
}

static void write_one(text *t, const optimiser *o, const char *from, const char *declaration, const char *start) {
    text list = {0};
    put(&list, "params");
    for (int i = 0; i < o->noptions; i++)
        if (is_argument(&o->options[i])) put(&list, ", %s", lower(o->options[i].name));
    put(t, "\n");
    put_comment(t, "    ", o->doc);
    put_line(t, "    function tpf_%s_%s(%s) result(r)", o->cname, from, list.s);
    put_line(t, "        %s", declaration);
    for (int i = 0; i < o->noptions; i++)
        if (is_argument(&o->options[i]))
            put_line(t, "        %s, intent(in), optional :: %s%s", option_type(&o->options[i]),
                     lower(o->options[i].name), o->options[i].fallback->kind == E_LIST ? "(:)" : "");
    put_line(t, "        type(tp_optimiser) :: r");
    put_line(t, "        type(tpf_options) :: o");
    put_line(t, "        call tpf_options_begin(o, \"%s\")", o->name);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (!is_argument(p)) continue;
        char *name = lower(p->name);
        if (p->kind == O_STRING) {
            for (int c = 0; c < p->nchoices; c++)
                put_line(t, "        call tpf_option_choice(o, %d, \"%s\", %d, %s, %s)", p->at + 1, p->choice[c], c + 1,
                         name, c + 1 == p->nchoices ? ".true." : ".false.");
        } else if (p->fallback->kind == E_LIST)
            put_line(t, "        call tpf_option_list(o, %d, %d, \"%s\", %s)", p->at + 1, p->count, name, name);
        else
            put_line(t, "        call tpf_option(o, %d, %s)", p->at + 1, name);
    }
    put_line(t, "        call tpf_options_end(o, r, %s)", start);
    put_line(t, "    end function");
}

text write_fortran_optimisers(void) {
    text t = {0};
    put(&t,
        "! Optimisers. Written by opgen from tables/optimisers: do not edit. docs/optimisers.md lists them.\nmodule "
        "taper_optimisers\n    use taper_base\n    use taper_objects\n    implicit none\n    public\n");
    for (int i = 0; i < noptimisers; i++)
        put(&t, "    interface tp_%s\n        module procedure tpf_%s_tensors, tpf_%s_module\n    end interface\n",
            optimisers[i]->cname, optimisers[i]->cname, optimisers[i]->cname);
    put(&t, "contains\n");
    for (int i = 0; i < noptimisers; i++) {
        write_one(&t, optimisers[i], "tensors", "type(tp_tensor), intent(in) :: params(:)", "tensors=params");
        write_one(&t, optimisers[i], "module", "type(tp_module), intent(in) :: params", "net=params");
    }
    put(&t, "end module taper_optimisers\n");
    return t;
}
