/* Pointwise kernels: decides a plan's form and launches the kernel written for it (map_text.c).
 *
 * The form (dims, how each operand lies along the fastest one, its dtype) is one 64-bit word; operator and word name a
 * kernel. A thread takes groups of consecutive elements along dimension 0. Operands that are contiguous there move up
 * to 16 bytes at once; those that do not move along it are read once per group; others element by element. Where all is
 * contiguous, or one element for all, that is the whole plan. Otherwise the place of a group is found by dividing its
 * number, by multiplication where 32 bits hold every offset. Numbers come by value, behind the operator's parameters.
 */
#include "device/gpu/map.h"
#include "device/gpu/gpu.h"
#include "device/launch.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_VECTOR = 8,
    MAX_GROUP_BYTES = 64,
    MAX_ARGUMENTS = 1024 /* bytes: OpenCL 1.2 promises so many for all together */
};

static bool is_number(const tpi_plan *p, int k) { return p->numbers >> k & 1; }

/* ---- The form ---- */

/* A program's dtypes are its own, so that they need not be in the word. */
static uint64_t form_word(const tpi_gpu_map_text *m) {
    const tpi_gpu_form *f = m->form;
    uint64_t word =
        (uint64_t)f->ndim | (uint64_t)__builtin_ctz(f->vector) << 6 | (uint64_t)f->packed << 8 | (uint64_t)f->wide << 9;
    for (int k = 0; k < f->nargs; k++)
        word |=
            m->program ? (uint64_t)f->way[k] << (10 + 2 * k) : (uint64_t)(f->dtype[k] | f->way[k] << 4) << (10 + 6 * k);
    return word;
}

/* The address and the steps of every operand that is contiguous along dimension 0 are multiples of what a group moves
 * at once. */
static bool aligned(const tpi_gpu_form *f, const tpi_plan *p, int vector) {
    for (int k = 0; k < f->nargs; k++) {
        if (f->way[k] != TPI_WAY_ALONG) continue;
        uint64_t bytes = (uint64_t)vector * tpi_dtype_bytes[f->dtype[k]], bits = (uint64_t)(uintptr_t)p->data[k];
        for (int d = 1; d < f->ndim; d++) bits |= (uint64_t)p->stride[k][d];
        if (bits & ((bytes < 16 ? bytes : 16) - 1)) return false;
    }
    return true;
}

static void choose_vector(tpi_gpu_form *f, const tpi_plan *p) {
    int least = 16, most = 1;
    for (int k = 0; k < f->nargs; k++) {
        if (f->way[k] != TPI_WAY_ALONG) continue;
        int size = tpi_dtype_bytes[f->dtype[k]];
        if (size < least) least = size;
        if (size > most) most = size;
    }
    int vector = 16 / least;
    if (vector > MAX_VECTOR) vector = MAX_VECTOR;
    if (vector > MAX_GROUP_BYTES / most) vector = MAX_GROUP_BYTES / most;
    while (vector > 1 && ((!f->packed && p->shape[0] % vector) || !aligned(f, p, vector))) vector /= 2;
    f->vector = (uint8_t)vector;
}

static bool needs_64_bits(const tpi_gpu_form *f, const tpi_plan *p) {
    if (p->numel > INT32_MAX) return true;
    for (int k = 0; k < f->nargs && !f->packed; k++) {
        int64_t reach = 0;
        for (int d = 0; d < f->ndim && !is_number(p, k); d++) reach += (p->shape[d] - 1) * llabs(p->stride[k][d]);
        if (reach > INT32_MAX) return true;
    }
    return false;
}

static void study(tpi_gpu_form *f, const tpi_plan *p) {
    f->ndim = (uint8_t)p->ndim;
    f->nargs = (uint8_t)p->nargs;
    f->nout = (uint8_t)p->nout;
    f->packed = p->ndim <= 1;
    for (int k = 0; k < p->nargs; k++) {
        int64_t stride = p->ndim ? p->stride[k][0] : 0, size = tpi_dtype_bytes[p->dtype[k]];
        f->dtype[k] = p->dtype[k];
        if (is_number(p, k))
            f->way[k] = TPI_WAY_NUMBER;
        else if (p->ndim == 0)
            f->way[k] = TPI_WAY_ALONG;
        else
            f->way[k] = stride == size ? TPI_WAY_ALONG : stride == 0 && k >= p->nout ? TPI_WAY_SAME : TPI_WAY_STRIDED;
        f->packed = f->packed && f->way[k] != TPI_WAY_STRIDED;
    }
    if (f->packed) f->ndim = 1;
    choose_vector(f, p);
    f->wide = needs_64_bits(f, p);
    if (f->packed || f->vector > 1) return;
    for (int k = 0; k < p->nargs; k++) /* one element at a time: one kernel serves all ways */
        f->way[k] = f->way[k] == TPI_WAY_NUMBER ? TPI_WAY_NUMBER : TPI_WAY_STRIDED;
}

/* ---- The launch ---- */

static int layout_bytes(const tpi_gpu_form *f) {
    int dims = f->ndim > 1 ? f->ndim - 1 : 1;
    return f->wide ? 8 * (dims + f->nargs * f->ndim) : 4 * (3 * dims + f->nargs * f->ndim);
}

/* OpenCL's pointers are a block and an offset; a number is never larger than that. */
static int argument_bytes(const tpi_gpu_map_text *m) {
    return (int)sizeof(int64_t) + m->form->nargs * 16 + (m->nparam ? m->nparam : 1) * (int)sizeof(tpi_param) +
           (m->form->packed ? 0 : layout_bytes(m->form));
}

/* Sizes and strides as the kernel's layout_t has them. Dimension 0 counts groups. */
static void fill_layout(const tpi_gpu_form *f, const tpi_plan *p, void *layout) {
    int dims = f->ndim > 1 ? f->ndim - 1 : 1, at = 0;
    if (f->wide) {
        int64_t *to = layout;
        for (int d = 0; d < dims; d++) to[at++] = p->shape[d] / (d ? 1 : f->vector);
        for (int k = 0; k < f->nargs; k++)
            for (int d = 0; d < f->ndim; d++) to[at++] = is_number(p, k) ? 0 : p->stride[k][d] * (d ? 1 : f->vector);
        return;
    }
    uint32_t *to = layout;
    for (int d = 0; d < dims; d++) {
        to[d] = (uint32_t)(p->shape[d] / (d ? 1 : f->vector));
        tpi_gpu_divider(to[d], &to[dims + d], &to[2 * dims + d]);
    }
    at = 3 * dims;
    for (int k = 0; k < f->nargs; k++)
        for (int d = 0; d < f->ndim; d++)
            to[at++] = is_number(p, k) ? 0 : (uint32_t)(int32_t)(p->stride[k][d] * (d ? 1 : f->vector));
}

typedef struct make_context {
    tp_device device;
    const tpi_gpu_map_text *text;
} make_context;

static bool make(tpi_text *t, const void *context) {
    const make_context *c = context;
    const tpi_gpu_map_text *m = c->text;
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(c->device);
    if (!caps) return false;
    for (int k = 0; k < m->form->nargs && !caps->f64; k++)
        if (m->form->dtype[k] == TP_FLOAT64 || m->form->dtype[k] == TP_COMPLEX128)
            return tpi_refuse(TP_ERR_MISSING, "%s is not available on %s, which has no double precision",
                              tp_dtype_name(m->form->dtype[k]), caps->name);
    return tpi_gpu_put_map(t, m);
}

static bool launch(tp_device device, const tpi_gpu_map_call *call, const tpi_plan *p) {
    const tpi_gpu_form *f = call->text.form;
    tpi_gpu_function *kernel =
        tpi_gpu_kernel(device, call->what, form_word(&call->text), make, &(make_context){device, &call->text});
    if (!kernel) return false;
    tpi_gpu_arg args[TPI_GPU_MAP_ARGS + 3];
    tpi_param params[TPI_GPU_MAP_PARAMS];
    _Alignas(8) char layout[MAX_ARGUMENTS];
    int nargs = 0, nparam = call->text.nparam;
    if (nparam) memcpy(params, call->params, (size_t)nparam * sizeof *params);
    for (int k = 0; k < f->nargs; k++) {
        if (is_number(p, k))
            memcpy(&params[nparam++], p->data[k], tpi_dtype_bytes[p->dtype[k]]);
        else
            args[nargs++] = TPI_GPU_PTR(p->data[k]);
    }
    int64_t groups = p->numel / f->vector, n = f->packed ? p->numel : groups,
            tile = (int64_t)tpi_gpu_map_groups(f) * tpi_gpu_map_threads(f);
    args[nargs++] = TPI_GPU_VAL(n);
    if (!f->packed) {
        fill_layout(f, p, layout);
        args[nargs++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)layout_bytes(f), layout};
    }
    args[nargs++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((nparam ? nparam : 1) * (int)sizeof *params), params};
    int64_t blocks = (groups + tile - 1) / tile;
    return tpi_gpu_launch(device, kernel, blocks ? blocks : 1, tpi_gpu_map_threads(f), 0, nargs, args);
}

/* ---- Operands that are straightened first ---- */

/* Operand k's elements alone, into contiguous memory at `to` in the plan's order. */
static tpi_plan straight_copy(const tpi_plan *p, int k, char *to) {
    tpi_plan copy = {.ndim = p->ndim,
                     .nout = 1,
                     .nargs = 2,
                     .numel = p->numel,
                     .data = {to, p->data[k]},
                     .dtype = {p->dtype[k], p->dtype[k]}};
    int64_t step = tpi_dtype_bytes[p->dtype[k]];
    for (int d = 0; d < p->ndim; d++) {
        copy.shape[d] = p->shape[d];
        copy.stride[0][d] = step;
        copy.stride[1][d] = p->stride[k][d];
        step *= p->shape[d];
    }
    return copy;
}

/* Does reading the operand as it lies cost more than turning it over first? */
static bool better_straight(const tpi_plan *p, int k) {
    if (is_number(p, k) || p->ndim < 2 || p->numel < 1 << 16) return false;
    tpi_plan copy = straight_copy(p, k, p->data[k]);
    return tpi_gpu_is_transpose(&copy);
}

static void free_blocks(tp_device device, const tpi_plan *p, void *const *blocks) {
    for (int k = 0; k < p->nargs; k++)
        if (blocks[k]) tpi_gpu_free(device, blocks[k], (size_t)(p->numel * tpi_dtype_bytes[p->dtype[k]]));
}

/* A contiguous copy in the operand's place, for the caller to free. */
static bool straighten(tp_device device, tpi_plan *p, int k, void **block) {
    *block = tpi_gpu_alloc(device, (size_t)(p->numel * tpi_dtype_bytes[p->dtype[k]]));
    if (!*block) return false;
    tpi_plan copy = straight_copy(p, k, *block);
    memcpy(p->stride[k], copy.stride[0], (size_t)p->ndim * sizeof *p->stride[k]);
    p->data[k] = *block;
    return tpi_gpu_copy(device, &copy);
}

/* More dims than a kernel's arguments hold: everything goes through contiguous memory, as one dim. */
static bool run_flat(tp_device device, tpi_gpu_map_call *call, tpi_plan *p, void **blocks) {
    tpi_gpu_form form;
    tpi_plan flat = *p;
    bool ok = true;
    for (int k = 0; k < p->nout && ok; k++)
        ok = (flat.data[k] = blocks[k] = tpi_gpu_alloc(device, (size_t)(p->numel * tpi_dtype_bytes[p->dtype[k]])));
    for (int k = p->nout; k < p->nargs && ok; k++)
        if (!is_number(p, k) && !blocks[k]) ok = straighten(device, &flat, k, &blocks[k]);
    if (!ok) return false;
    flat.ndim = 1;
    flat.shape[0] = p->numel;
    for (int k = 0; k < p->nargs; k++) flat.stride[k][0] = is_number(p, k) ? 0 : tpi_dtype_bytes[p->dtype[k]];
    study(&form, &flat);
    call->text.form = &form;
    ok = launch(device, call, &flat);
    for (int k = 0; k < p->nout && ok; k++) {
        tpi_plan back = straight_copy(p, k, blocks[k]); /* the other way round */
        for (int d = 0; d < p->ndim; d++) {
            back.stride[1][d] = back.stride[0][d];
            back.stride[0][d] = p->stride[k][d];
        }
        back.data[0] = p->data[k];
        back.data[1] = blocks[k];
        ok = tpi_gpu_copy(device, &back);
    }
    return ok;
}

bool tpi_gpu_run_map(tp_device device, tpi_gpu_map_call *call, tpi_plan *p) {
    void *blocks[TPI_GPU_MAP_ARGS] = {NULL};
    tpi_gpu_form form;
    bool ok = true;
    for (int k = p->nout; k < p->nargs && p->ndim > 1 && ok; k++)
        if (better_straight(p, k)) ok = straighten(device, p, k, &blocks[k]);
    if (!ok) {
        free_blocks(device, p, blocks);
        return false;
    }
    study(&form, p);
    call->text.form = &form;
    if (argument_bytes(&call->text) > MAX_ARGUMENTS)
        ok = run_flat(device, call, p, blocks);
    else
        ok = launch(device, call, p);
    if (p->ndim > 1) free_blocks(device, p, blocks);
    return ok;
}

bool tpi_gpu_map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params) {
    if (plan->numel == 0) return true;
    tpi_gpu_map_call call = {
        .what = op, .text = {.name = op->name, .nparam = op->nparam, .source = op->source[compute]}, .params = params};
    if (!call.text.source)
        return tpi_refuse(TP_ERR_MISSING, "%s has no kernel for %s", op->name, tp_dtype_name(tpi_ctype_dtype(compute)));
    call.text.type[0] = (uint8_t)tpi_gpu_ctype(tpi_result_dtype(op->result, tpi_ctype_dtype(compute)));
    for (int k = 1; k <= op->nin; k++)
        call.text.type[k] = op->in_type[k - 1] == TPI_CTYPES ? (uint8_t)compute : op->in_type[k - 1];
    call.what = &op->source[compute];
    return tpi_gpu_run_map(device, &call, plan);
}
