/* Launching folds and scans: dims, dtypes, the results' memory, then the device's kernel. On failure outs holds
 * nothing. */
#include "device/launch.h"
#include "device/gpu/gpu.h"
#include "device/block_program.h"
#include "tensor/recorder.h"

/* The dtype an operator computes in, from the input's or the one that was asked for; TP_NO_DTYPE and an error if it
 * takes none such. */
static tp_dtype compute_dtype(const char *name, uint16_t types, int rule, bool sum_like, const tp_tensor *x,
                              tp_dtype asked) {
    tp_dtype d = asked != TP_NO_DTYPE ? asked : (tp_dtype)x->dtype;
    if (sum_like && asked == TP_NO_DTYPE && (tpi_dtype_category[d] & (TPI_CAT_BOOL | TPI_CAT_INT))) d = TP_INT64;
    if (rule == TPI_RULE_FLOAT) d = tpi_dtype_to_float(d);
    return tpi_check_types(name, types, d) ? d : TP_NO_DTYPE;
}

/* x, or a copy in the asked-for dtype where the elements must take its values before they are computed with: kernels
 * convert to the compute type only, which keeps more than a 16-bit float or a narrow integer does. Owned. */
static tp_tensor *input_as(tp_tensor *x, tp_dtype asked, tpi_ctype compute) {
    if (asked == TP_NO_DTYPE || asked == (tp_dtype)x->dtype || asked == tpi_ctype_dtype(compute)) return tpi_retain(x);
    return tpi_as_dtype_data(x, asked);
}

static void drop(tp_tensor **outs, int n) {
    for (int k = 0; k < n; k++) {
        if (outs[k]) tpi_release(outs[k]);
        outs[k] = NULL;
    }
}

static bool make_outs(const char *op, tp_tensor **outs, int n, tp_ints shape, const uint8_t *result, tp_dtype dtype,
                      tp_device device) {
    for (int k = 0; k < n; k++) outs[k] = NULL;
    bool mine = tpi_gpu_owner_begin(device, op);
    bool ok = true;
    for (int k = 0; k < n && ok; k++)
        ok = (outs[k] = tpi_empty(shape, tpi_result_dtype(result[k], dtype), device)) != NULL;
    tpi_gpu_owner_end(mine);
    if (!ok) drop(outs, n);
    return ok;
}

/* A fold over no elements: an error that names the dim unless the operator is defined there. */
static bool check_empty(const tpi_fold_op *op, const tp_tensor *x, tp_ints dims, const bool *reduced) {
    if (!op->empty_error || x->numel) return true;
    if (!dims.v || dims.n == 0) /* PyTorch's kinds of error */
        return tpi_refuse(
            (tp_code)op->empty_error,
            "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument.");
    for (int d = 0; d < x->ndim; d++)
        if (reduced[d] && x->shape[d] == 0)
            return tpi_refuse(TP_ERR_INDEX, "Expected reduction dim %d to have non-zero size, but the shape is %s", d,
                              tpi_shape_text(tpi_shape(x)));
    return true;
}

static bool fold(const tpi_fold_op *op, tp_tensor **outs, tp_tensor *x, tp_ints dims, bool keepdim, tp_dtype dtype,
                 const tp_scalar *params, const tpi_fold_prologue *feed) {
    if (!x) return tpi_refuse(TP_ERR_VALUE, "argument 'self'%s%s: expected a tensor, got NULL", TPI_IN(op->name));
    bool reduced[TP_MAX_DIMS] = {false};
    if (!(op->each && dims.v && !dims.n) && !tpi_wrap_dims(dims, x->ndim, reduced)) return false;
    if (!check_empty(op, x, dims, reduced)) return false;
    tp_dtype d = compute_dtype(op->name, op->types, op->rule, op->sum_like, x, dtype);
    const tpi_device_ops *device = tpi_device_ops_of(tpi_device(x));
    if (d == TP_NO_DTYPE || !device) return false;
    if (!device->fold) return tpi_refuse(TP_ERR_MISSING, "%s is not available on device '%s'", op->name, device->name);
    tpi_ctype compute = (tpi_ctype)tpi_dtype_ctype[d];
    if (op->sum_like && (tpi_dtype_category[d] & (TPI_CAT_BOOL | TPI_CAT_INT))) compute = TPI_I64;
    int64_t shape[TP_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++)
        if (!reduced[i] || keepdim) shape[ndim++] = reduced[i] ? 1 : x->shape[i];
    if (!make_outs(op->name, outs, op->nout, (tp_ints){shape, ndim}, op->out_type, d, tpi_device(x))) return false;
    tpi_param values[4];
    tpi_fill_params(values, op->nparam, op->param_type, d, compute, params);
    tp_tensor *input = feed ? x : input_as(x, dtype, compute);
    bool ok = input && (feed ? device->fold_of_program(op, outs, input, reduced, compute, values, feed)
                             : device->fold(op, outs, input, reduced, compute, values));
    if (input && !feed) tpi_release(input);
    if (!ok) drop(outs, op->nout);
    return ok;
}

static bool scan(const tpi_scan_op *op, tp_tensor **outs, tp_tensor *x, int64_t dim, tp_dtype dtype,
                 const tp_scalar *params) {
    if (!x) return tpi_refuse(TP_ERR_VALUE, "argument 'self'%s%s: expected a tensor, got NULL", TPI_IN(op->name));
    int along = TPI_DIM(x, dim);
    if (along < 0) return false;
    tp_dtype d = compute_dtype(op->name, op->types, op->rule, op->sum_like, x, dtype);
    const tpi_device_ops *device = tpi_device_ops_of(tpi_device(x));
    if (d == TP_NO_DTYPE || !device) return false;
    if (!device->scan) return tpi_refuse(TP_ERR_MISSING, "%s is not available on device '%s'", op->name, device->name);
    tpi_ctype compute = (tpi_ctype)tpi_dtype_ctype[d];
    if (op->sum_like && (tpi_dtype_category[d] & (TPI_CAT_BOOL | TPI_CAT_INT))) compute = TPI_I64;
    if (!make_outs(op->name, outs, op->nout, tpi_shape(x), op->out_type, d, tpi_device(x))) return false;
    tpi_param values[4];
    tpi_fill_params(values, op->nparam, op->param_type, d, compute, params);
    tp_tensor *input = input_as(x, dtype, compute);
    bool ok = input && device->scan(op, outs, input, along, compute, values);
    if (input) tpi_release(input);
    if (!ok) drop(outs, op->nout);
    return ok;
}

bool tpi_run_fold(const tpi_fold_op *op, tp_tensor **outs, tp_tensor *x, tp_ints dims, bool keepdim, tp_dtype dtype,
                  const tp_scalar *params) {
    tpi_recorder *recorder = tpi_recording;
    if (__builtin_expect(!recorder, 1)) return fold(op, outs, x, dims, keepdim, dtype, params, NULL);
    tpi_recording = NULL;
    bool ok = fold(op, outs, x, dims, keepdim, dtype, params, NULL);
    tpi_recording = recorder;
    if (ok) recorder->fold(recorder, op, outs, x, dims, keepdim, dtype, params);
    return ok;
}

bool tpi_run_fold_of_program(const tpi_fold_op *op, tp_tensor **outs, tp_tensor *x, tp_ints dims, bool keepdim,
                             tp_dtype dtype, const tp_scalar *params, const tpi_fold_prologue *feed) {
    return fold(op, outs, x, dims, keepdim, dtype, params, feed);
}

bool tpi_run_scan(const tpi_scan_op *op, tp_tensor **outs, tp_tensor *x, int64_t dim, tp_dtype dtype,
                  const tp_scalar *params) {
    tpi_recorder *recorder = tpi_recording;
    if (__builtin_expect(!recorder, 1)) return scan(op, outs, x, dim, dtype, params);
    tpi_recording = NULL;
    bool ok = scan(op, outs, x, dim, dtype, params);
    tpi_recording = recorder;
    if (ok) recorder->scan(recorder, op, outs, x, dim, dtype, params);
    return ok;
}
