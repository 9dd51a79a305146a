/* Arrays of Fortran's and tensors, for each kind of element and each rank: tp_over (a tensor over an array, no copy),
 * tp_from (a copy), tp_pointer (a pointer to a tensor's elements, no copy), tp_copy_to. A tensor's shape is the array's
 * in reverse, since Fortran's first dimension runs fastest and C's last. */
#include "fortran.h"

enum { RANKS = 7 };
static const struct {
    const char *name, *type, *dtype;
    int bytes;
} kinds[] = {{"r4", "real(c_float)", "tp_float32", 4},
             {"r8", "real(c_double)", "tp_float64", 8},
             {"i4", "integer(c_int32_t)", "tp_int32", 4},
             {"i8", "integer(c_int64_t)", "tp_int64", 8},
             {"c4", "complex(c_float_complex)", "tp_complex64", 8},
             {"c8", "complex(c_double_complex)", "tp_complex128", 16}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static char *repeated(const char *s, int n) {
    text t = {0};
    for (int i = 0; i < n; i++) put(&t, "%s%s", i ? ", " : "", s);
    return t.s;
}
/* "1, 2, 1": the second element along a dimension, or with dim 0 the first one. */
static char *element(int rank, int dim) {
    text t = {0};
    for (int i = 1; i <= rank; i++) put(&t, "%s%d", i > 1 ? ", " : "", i == dim ? 2 : 1);
    return t.s;
}

static void write_over(text *t, int k, int rank) {
    put(t, "    function tpf_over_%s_%d(x) result(t)\n", kinds[k].name, rank);
    put(t, "        %s, intent(in), target :: x(%s)\n", kinds[k].type, repeated(":", rank));
    put(t, "        type(tp_tensor) :: t\n        type(c_ptr) :: at\n        integer(c_int64_t) :: steps(%d)\n", rank);
    put(t, "        at = c_null_ptr\n        steps = 1\n        if (size(x) > 0) at = c_loc(x(%s))\n",
        element(rank, 0));
    for (int d = 1; d <= rank; d++)
        put(t, "        if (size(x) > 0 .and. size(x, %d) > 1) steps(%d) = tpf_distance(at, c_loc(x(%s)), %d)\n", d, d,
            element(rank, d), kinds[k].bytes);
    put(t, "        t%%handle = tpf_over(at, %s, shape(x, kind=c_int64_t), steps)\n    end function\n", kinds[k].dtype);
    put(t,
        "    function tpf_from_%s_%d(x) result(t)\n        %s, intent(in), target :: x(%s)\n        type(tp_tensor) :: "
        "t\n"
        "        t%%handle = tpf_copy(tpf_over_%s_%d(x))\n    end function\n",
        kinds[k].name, rank, kinds[k].type, repeated(":", rank), kinds[k].name, rank);
}

static void write_view(text *t, int k, int rank) {
    put(t,
        "    subroutine tpf_pointer_%s_%d(t, p)\n        type(tp_tensor), intent(in) :: t\n"
        "        %s, pointer, intent(out) :: p(%s)\n        p => null()\n"
        "        if (.not. tpf_fits(\"tp_pointer\", t, %s, %d)) return\n"
        "        if (tpf_is_dense(t)) call c_f_pointer(tpf_c_data(t%%handle), p, tpf_reversed(t))\n    end "
        "subroutine\n",
        kinds[k].name, rank, kinds[k].type, repeated(":", rank), kinds[k].dtype, rank);
    put(t,
        "    subroutine tpf_copy_to_%s_%d(t, x)\n        type(tp_tensor), intent(in) :: t\n"
        "        %s, intent(inout), target, contiguous :: x(%s)\n        logical(c_bool) :: ok\n"
        "        if (.not. tpf_fits(\"tp_copy_to\", t, %s, %d)) return\n"
        "        if (.not. tpf_same(shape(x), tpf_reversed(t)) .or. size(x) == 0) return\n"
        "        ok = tpf_c_copy_out(t%%handle, c_loc(x), int(size(x, kind=c_int64_t) * %d, c_size_t))\n    end "
        "subroutine\n",
        kinds[k].name, rank, kinds[k].type, repeated(":", rank), kinds[k].dtype, rank, kinds[k].bytes);
}

text write_fortran_arrays(void) {
    text t = {0};
    static const char *const names[] = {"over", "from", "pointer", "copy_to"};
    put(&t,
        "! Arrays and tensors. Written by opgen: do not edit.\nmodule taper_arrays\n    use taper_base\n    implicit "
        "none\n    public\n");
    for (int i = 0; i < 4; i++) {
        put(&t, "    interface tp_%s\n", names[i]);
        for (int k = 0; k < KINDS; k++) {
            text list = {0};
            for (int rank = 1; rank <= RANKS; rank++)
                put(&list, "%stpf_%s_%s_%d", rank > 1 ? ", " : "", names[i], kinds[k].name, rank);
            put_line(&t, "        module procedure %s", list.s);
        }
        put(&t, "    end interface\n");
    }
    put(&t, "contains\n");
    for (int k = 0; k < KINDS; k++)
        for (int rank = 1; rank <= RANKS; rank++) {
            write_over(&t, k, rank);
            write_view(&t, k, rank);
        }
    put(&t, "end module taper_arrays\n");
    return t;
}
