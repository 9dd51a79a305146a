/* Reductions on GPUs. Where elements of a column lie together, a group of threads takes a column; where columns lie
 * side by side, neighbouring threads take neighbouring columns. Where that makes too few threads to keep the device
 * busy, columns are cut into pieces, whose states a second kernel merges. How a call is cut follows from shapes and the
 * device alone, and everything merges in a fixed order: the same bits every time. */
#include "base/threads.h"
#include "device/gpu/axes.h"
#include <stdlib.h>

enum { ROWS, COLUMNS, MERGE }; /* kernels of kernels/fold.h */
enum {
    MANY_READS = 32, /* of 16 bytes: up to so many per thread, a column is left to threads that run in step, which merge
                        without waiting for others, */
    THREADS_PER_UNIT = 4096, /* if that makes so many threads */
};

static bool launch(tpi_gpu_axes_call *c, int kernel, int64_t blocks, int64_t down) {
    static const char *const names[] = {"FOLD_ROWS", "FOLD_COLUMNS", "FOLD_MERGE"};
    c->form.kernel = (uint8_t)kernel;
    c->form.define = names[kernel];
    c->form.text = "fold.h";
    return tpi_gpu_axes_launch(c, kernel != MERGE, true, blocks, down);
}

/* Columns side by side: a block takes 2^group times vec of them. */
static bool fold_columns(tpi_gpu_axes_call *c) {
    int block = c->form.block, vec = tpi_gpu_vector(c->x, &c->kept, &c->reduced, true);
    c->form.vec = (uint8_t)vec;
    c->group = tpi_gpu_exponent(c->kept.total / vec);
    if (c->group > TPI_GPU_BESIDE) c->group = TPI_GPU_BESIDE;
    if (!c->form.sharing) c->group = tpi_gpu_exponent(block);
    int64_t blocks = tpi_ceil_div(c->kept.total, (int64_t)vec << c->group);
    tpi_gpu_axes_cut(c, blocks, (int64_t)(block >> c->group) * TPI_GPU_READS);
    c->form.split = c->pieces > 1;
    return (!c->form.split || tpi_gpu_axes_states(c, c->pieces * c->kept.total)) &&
           launch(c, COLUMNS, blocks, c->pieces);
}

/* A column at a time, or a piece of one: 2^group threads for each. */
static bool fold_rows(tpi_gpu_axes_call *c) {
    int vec = c->reduced.ndim <= 1 ? tpi_gpu_vector(c->x, &c->reduced, &c->kept, false) : 1,
        widest = c->form.sharing ? tpi_gpu_exponent(c->form.block) : 0;
    c->form.vec = (uint8_t)vec;
    c->group = tpi_gpu_exponent(tpi_ceil_div(c->reduced.total, vec * TPI_GPU_READS));
    if (c->group > widest) c->group = widest;
    int in_step = tpi_gpu_exponent(c->caps->warp);
    if (c->group > in_step && c->reduced.total <= (int64_t)MANY_READS * vec << in_step &&
        c->kept.total << in_step >= c->caps->units * THREADS_PER_UNIT)
        c->group = in_step;
    int64_t per_block = c->form.block >> c->group;
    tpi_gpu_axes_cut(c, tpi_ceil_div(c->kept.total, per_block), ((int64_t)vec << c->group) * TPI_GPU_READS);
    c->form.split = c->pieces > 1;
    return (!c->form.split || tpi_gpu_axes_states(c, c->pieces * c->kept.total)) &&
           launch(c, ROWS, tpi_ceil_div(c->kept.total * c->pieces, per_block), 1);
}

static bool merge(tpi_gpu_axes_call *c) {
    int widest = c->form.sharing ? tpi_gpu_exponent(c->form.block) : 0;
    c->form.vec = 1;
    c->form.split = false;
    c->group = tpi_gpu_exponent(tpi_ceil_div(c->pieces, TPI_GPU_READS));
    if (c->group > widest) c->group = widest;
    return launch(c, MERGE, tpi_ceil_div(c->kept.total, c->form.block >> c->group), 1);
}

/* x laid out anew, with the reduced dims innermost: they merge to one, and so do the others. For shapes of more dims
 * than a kernel takes. Owned. */
static tp_tensor *regular(tp_tensor *x, const bool *reduced) {
    int64_t strides[TP_MAX_DIMS], step = 1;
    for (int pass = 1; pass >= 0; pass--)
        for (int d = x->ndim - 1; d >= 0; d--)
            if (reduced[d] == pass) {
                strides[d] = step;
                step *= x->shape[d];
            }
    tp_tensor *y = tpi_empty_strided(tpi_shape(x), (tp_ints){strides, x->ndim}, (tp_dtype)x->dtype, tpi_device(x));
    if (!y || tpi_copy_data(y, x)) return y;
    tpi_release(y);
    return NULL;
}

static void select_axes(tpi_gpu_axes_call *c, const tpi_fold_op *op, const bool *reduced) {
    tpi_axes_select(&c->kept, c->x, op->nout, c->outs, reduced, false, false);
    tpi_axes_select(&c->reduced, c->x, 0, c->outs, reduced, true, op->uses_index);
}

static bool has_many_dims(const tpi_gpu_axes_call *c) {
    return c->kept.ndim > TPI_GPU_DIMS || c->reduced.ndim > TPI_GPU_DIMS;
}

static bool run(tpi_gpu_axes_call *c, const tpi_fold_op *op, tpi_ctype compute, const char *source) {
    if (!tpi_gpu_axes_begin(c, compute, op->nout, op->out_type, op->nparam, source)) return false;
    bool beside = c->kept.ndim && c->reduced.ndim && llabs(c->kept.x[0]) < llabs(c->reduced.x[0]);
    bool ok = (beside ? fold_columns(c) : fold_rows(c)) && (c->pieces == 1 || merge(c));
    tpi_gpu_axes_end(c);
    return ok;
}

bool tpi_gpu_fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                  const tpi_param *params) {
    tpi_gpu_axes_call c = tpi_gpu_axes_call_of(op, op->name, op->nstate, x, outs, params);
    const char *source = tpi_gpu_axes_functions(op->source, op->name, compute);
    if (!source) return false;
    select_axes(&c, op, reduced);
    if (c.kept.total == 0) return true;
    if (!has_many_dims(&c)) return run(&c, op, compute, source);
    tp_tensor *y = regular(x, reduced);
    bool ok = y && tpi_gpu_fold(op, outs, y, reduced, compute, params);
    if (y) tpi_release(y);
    return ok;
}

/* First the program, then the fold: for what the kernels cannot read as it is made. */
static bool fold_after_program(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced,
                               tpi_ctype compute, const tpi_param *params, const tpi_fold_prologue *feed) {
    tp_tensor *made = feed->has_memory
                          ? tpi_retain(x)
                          : tpi_empty_strided(tpi_shape(x), tpi_strides(x), (tp_dtype)x->dtype, tpi_device(x));
    if (!made) return false;
    feed->plan->data[feed->operand] = made->data;
    bool ok = tpi_gpu_program_run(tpi_device(x), feed->program, feed->plan) &&
              tpi_gpu_fold(op, outs, made, reduced, compute, params);
    tpi_release(made);
    return ok;
}

bool tpi_gpu_fold_of_program(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced,
                             tpi_ctype compute, const tpi_param *params, const tpi_fold_prologue *feed) {
    tpi_gpu_fold_prologue fed = {.feed = NULL};
    tpi_gpu_axes_call c = tpi_gpu_axes_call_of(op, op->name, op->nstate, x, outs, params);
    c.feed = &fed;
    const char *source = tpi_gpu_axes_functions(op->source, op->name, compute);
    if (!source) return false;
    select_axes(&c, op, reduced);
    if (x->numel == 0 || has_many_dims(&c) || !tpi_gpu_fold_prologue_begin(&fed, feed))
        return fold_after_program(op, outs, x, reduced, compute, params, feed);
    return run(&c, op, compute, source);
}
