/* Scans on GPUs. A block takes a column whose elements lie together, tile by tile; a thread takes one that lies beside
 * others, or is short. Where that makes too few of them, columns are cut into pieces. On devices that allow it, and for
 * states that fit beside a flag in 16 bytes, one kernel reads each piece once and waits for those before it. Otherwise
 * the pieces' totals are computed first, as a reduction's, then the state before each piece, then the pieces
 * themselves. How a call is cut follows from shapes and the device alone: the same bits every time. */
#include "base/threads.h"
#include "device/gpu/axes.h"
#include "device/gpu/trace.h"
#include <stdlib.h>
#include <string.h>

enum {
    TOTAL_ROWS,
    TOTAL_COLUMNS,
    CARRY,
    SCAN_ROWS,
    SCAN_COLUMNS,
    SCAN_CHAIN
}; /* kernels of kernels/fold.h and scan.h */
enum {
    SHORT_COLUMN = 32, /* elements that a thread alone may take wherever they lie */
    STRIDED_ITEMS = 4, /* elements per thread of SCAN_ROWS that are read one by one, */
    PACKS = 2,         /* or 16 bytes at a time */
    CHAIN_PACKS = 8,   /* of SCAN_CHAIN, */
    CHAIN = 32,        /* in which so many pieces lead from one state to the next */
};

static bool launch(tpi_gpu_axes_call *c, int kernel, int vec, int block, int64_t blocks, int64_t down) {
    static const char *const names[] = {"FOLD_ROWS", "FOLD_COLUMNS", "SCAN_CARRY",
                                        "SCAN_ROWS", "SCAN_COLUMNS", "SCAN_CHAIN"};
    c->form.kernel = (uint8_t)kernel;
    c->form.vec = (uint8_t)vec;
    c->form.block = (uint16_t)block;
    c->form.split = c->pieces > 1;
    c->form.define = names[kernel];
    c->form.text = kernel <= TOTAL_COLUMNS ? "fold.h" : "scan.h";
    return tpi_gpu_axes_launch(c, kernel != CARRY, kernel != CARRY, blocks, down);
}

static int fitting(int64_t threads, int most) { /* a power of two from 32 to `most` that is no less, if there is one */
    int block = most < 32 ? most : 32;
    while (block < threads && block < most) block *= 2;
    return block;
}

static bool carry(tpi_gpu_axes_call *c) {
    return launch(c, CARRY, 1, fitting(c->pieces, tpi_gpu_block_size(c->caps)), c->kept.total, 1);
}

static bool scan_columns(tpi_gpu_axes_call *c, bool cuttable) {
    int most = tpi_gpu_block_size(c->caps), block = fitting(c->kept.total, most),
        vec = tpi_gpu_vector(c->x, &c->kept, &c->reduced, true);
    if (cuttable) {
        c->group = tpi_gpu_exponent(c->kept.total / vec);
        if (c->group > TPI_GPU_BESIDE) c->group = TPI_GPU_BESIDE;
        tpi_gpu_axes_cut(c, tpi_ceil_div(c->kept.total, block), (int64_t)(most >> c->group) * TPI_GPU_READS);
    }
    int64_t strips = tpi_ceil_div(c->kept.total, (int64_t)vec << c->group);
    bool ok = c->pieces == 1 || (tpi_gpu_axes_states(c, c->pieces * c->kept.total) &&
                                 launch(c, TOTAL_COLUMNS, vec, most, strips, c->pieces) && carry(c));
    return ok && launch(c, SCAN_COLUMNS, 1, block, tpi_ceil_div(c->kept.total, block), c->pieces);
}

/* 16 bytes of x at a time, where results can be written so too. */
static int vector_of(const tpi_gpu_axes_call *c) {
    int vec = tpi_gpu_vector(c->x, &c->reduced, &c->kept, false);
    for (int k = 0; k < c->form.nout && vec > 1; k++) {
        int64_t item = (int64_t)tpi_itemsize(c->outs[k]);
        bool fits = c->rout[k] == item && (uintptr_t)c->outs[k]->data % 16 == 0 && vec * item % 16 == 0;
        for (int d = 0; d < c->kept.ndim; d++) fits &= c->kept.out[k][d] % 16 == 0;
        if (!fits) vec = 1;
    }
    return vec;
}

/* One state of 8 bytes, one result that is as long as x. */
static bool can_chain(const tpi_gpu_axes_call *c, int vec) {
    return (c->caps->chains || tpi_gpu_sharing_there) && vec > 1 && c->nstate == 1 && c->form.nout == 1 &&
           c->form.compute != TPI_C64 && c->form.compute != TPI_C128 &&
           tpi_itemsize(c->outs[0]) == tpi_itemsize(c->x) &&
           c->kept.total * tpi_ceil_div(c->reduced.total, c->form.block * vec) < INT32_MAX;
}

static bool clear_states(const tpi_gpu_driver *driver, tpi_gpu_axes_call *c) {
    tpi_gpu_span span = tpi_gpu_span_begin(c->device, TP_ACTIVITY_FILL, "Memset (Device)", c->states_bytes);
    bool ok = driver->set(c->device.index, tpi_gpu_stream_of(c->device), c->states, 0, c->states_bytes);
    tpi_gpu_span_end(&span, ok);
    return ok;
}

static bool scan_chain(tpi_gpu_axes_call *c, int vec, int block) {
    c->piece = (int64_t)block * CHAIN_PACKS * vec;
    c->pieces = tpi_ceil_div(c->reduced.total, c->piece);
    int64_t pieces = c->kept.total * c->pieces, cells = 1 + pieces + c->kept.total * tpi_ceil_div(c->pieces, CHAIN);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of(c->device.type);
    return tpi_gpu_axes_states(c, cells) && clear_states(driver, c) && launch(c, SCAN_CHAIN, vec, block, pieces, 1);
}

static bool scan_rows(tpi_gpu_axes_call *c) {
    int vec = vector_of(c), items = vec > 1 ? PACKS * vec : STRIDED_ITEMS, most = tpi_gpu_block_size(c->caps);
    int block = fitting(tpi_ceil_div(c->reduced.total, items), most);
    tpi_gpu_axes_cut(c, c->kept.total, (int64_t)block * items);
    int64_t blocks = c->kept.total * c->pieces;
    if (c->pieces > 1 && can_chain(c, vec)) return scan_chain(c, vec, most);
    c->group = tpi_gpu_exponent(most);
    if (c->pieces > 1 &&
        !(tpi_gpu_axes_states(c, c->pieces * c->kept.total) && launch(c, TOTAL_ROWS, vec, most, blocks, 1) && carry(c)))
        return false;
    return launch(c, SCAN_ROWS, vec, block, blocks, 1);
}

bool tpi_gpu_scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                  const tpi_param *params) {
    tpi_gpu_axes_call c = tpi_gpu_axes_call_of(op, op->name, op->nstate, x, outs, params);
    const char *source = tpi_gpu_axes_functions(op->source, op->name, compute);
    if (!source) return false;
    if (x->numel == 0) return true;
    bool mask[TP_MAX_DIMS] = {false};
    if (x->ndim) mask[dim] = true;
    tpi_axes_select(&c.kept, x, op->nout, outs, mask, false, false);
    if (c.kept.ndim > TPI_GPU_DIMS) { /* a contiguous tensor has two kept dims at most */
        tp_tensor *y = tpi_contiguous_data(x);
        bool ok = y && tpi_gpu_scan(op, outs, y, dim, compute, params);
        if (y) tpi_release(y);
        return ok;
    }
    int64_t length = x->ndim ? x->shape[dim] : 1;
    c.reduced = (tpi_axes){
        .ndim = 1, .total = length, .size = {length}, .x = {x->ndim ? x->strides[dim] * (int64_t)tpi_itemsize(x) : 0}};
    for (int k = 0; k < op->nout; k++) c.rout[k] = x->ndim ? outs[k]->strides[dim] * (int64_t)tpi_itemsize(outs[k]) : 0;
    if (!tpi_gpu_axes_begin(&c, compute, op->nout, op->out_type, op->nparam, source)) return false;
    bool merges = op->fn[TPI_ISA_BASE][compute].merge,
         beside = c.kept.ndim && llabs(c.kept.x[0]) < llabs(c.reduced.x[0]);
    bool alone = beside || !merges || !c.form.sharing || (length <= SHORT_COLUMN && c.kept.total > 1);
    bool ok = alone ? scan_columns(&c, beside && merges && c.form.sharing) : scan_rows(&c);
    tpi_gpu_axes_end(&c);
    return ok;
}
