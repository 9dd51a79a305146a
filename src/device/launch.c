/* Launching a pointwise operator: promotion, checks, broadcasting, the result's memory, then the device's kernel.
 *
 * Numbers and zero-dimensional CPU tensors beside tensors of another device travel as one element in the compute type.
 * An input that shares memory with the result without being the very same elements is copied first. On failure nothing
 * has changed. The caller raises the version of what it had written in place. */
#include "device/launch.h"
#include "device/gpu/gpu.h"
#include "device/block_program.h"
#include "tensor/fits.h"
#include "tensor/recorder.h"
#include "tensor/same_device.h"
#include <string.h>
#include <taper/device.h>

enum { MAX_IN = 8 };

typedef struct map_call {
    const tpi_map_op *op;
    tp_tensor *tensor[MAX_IN]; /* NULL: the number counts */
    tpi_param number[MAX_IN];
    tp_tensor *copy[MAX_IN]; /* owned stand-ins for inputs that overlap the result */
    tp_dtype dtype, result;
    tpi_ctype compute;
    bool number_result; /* numbers in tensors' clothes gave a number */
    tp_device device;
    int ndim;
    int64_t shape[TP_MAX_DIMS];
} map_call;

tp_dtype tpi_result_dtype(int result, tp_dtype dtype) {
    switch (result) {
    case TPI_RESULT_BOOL: return TP_BOOL;
    case TPI_RESULT_TRUTH: return dtype == TP_UINT8 ? TP_UINT8 : TP_BOOL;
    case TPI_RESULT_INT64: return TP_INT64;
    case TPI_RESULT_REAL: return tpi_dtype_to_real(dtype);
    default: return dtype;
    }
}

bool tpi_refuse_cast(tp_dtype result, tp_dtype wanted) {
    return tpi_refuse(TP_ERR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                      tp_dtype_word(result), tp_dtype_word(wanted));
}

bool tpi_refuse_dtype(const char *op, tp_dtype dtype) {
    return tpi_refuse(TP_ERR_MISSING, "\"%s_cpu\" not implemented for '%s'", op, tp_dtype_word(dtype));
}

bool tpi_check_types(const char *op, uint16_t types, tp_dtype dtype) {
    if (types & tpi_dtype_group[dtype]) return true;
    if (!(tpi_dtype_group[dtype] & TPI_CAT_ALL)) return tpi_refuse_dtype(op, dtype);
    static const char *const names[] = {"bool", "integer", "floating point", "complex"};
    char wanted[64] = "";
    for (int i = 0; i < 4; i++)
        if (types >> i & 1) strcat(strcat(wanted, *wanted ? " or " : ""), names[i]);
    return tpi_refuse(TP_ERR_MISSING, "\"%s_cpu\" not implemented for '%s': expected %s tensors, got %s", op,
                      tp_dtype_word(dtype), wanted, tp_dtype_name(dtype));
}

void tpi_fill_params(tpi_param *out, int n, const uint8_t *types, tp_dtype dtype, tpi_ctype compute,
                     const tp_scalar *params) {
    for (int i = 0; i < n; i++) {
        bool truth = dtype == TP_BOOL && types[i] == TPI_CTYPES;
        out[i] = tpi_param_of(truth ? tp_truth(tp_scalar_to_bool(params[i])) : params[i],
                              tpi_param_ctype(types[i], compute));
    }
}

/* Numbers of the table's Scalar arguments take the dtype's type. */
static __attribute__((noinline)) bool check_params(const tpi_map_op *op, tp_dtype dtype, const tp_scalar *params) {
    for (int i = 0; i < op->nparam; i++)
        if (op->param_type[i] == TPI_CTYPES && !tpi_check_number(params[i], dtype)) return false;
    return true;
}

/* ---- Dtypes ---- */

/* A number in a tensor's clothes takes part as the number that it is; its value does not matter. */
static tp_scalar number_like(tp_dtype dtype) {
    switch (tpi_dtype_category[dtype]) {
    case TPI_CAT_BOOL: return tp_truth(false);
    case TPI_CAT_INT: return tp_int(0);
    case TPI_CAT_FLOAT: return tp_float(0);
    default: return tp_cplx(0, 0);
    }
}

/* Numbers among themselves keep all their digits: what they give is a number too. */
static tp_dtype widest(tp_dtype dtype) {
    return tp_dtype_is_floating(dtype) ? TP_FLOAT64 : tp_dtype_is_complex(dtype) ? TP_COMPLEX128 : dtype;
}

/* An integer above INT64_MAX would turn negative in every integer type but uint64. */
static bool check_large_numbers(const tpi_map_op *op, const tp_operand *in, tp_dtype dtype) {
    bool holds = !tp_dtype_is_integral(dtype) || dtype == TP_UINT64;
    for (int i = 0; i < op->nin && !holds; i++)
        if (!in[i].tensor && in[i].scalar.kind == TP_SCALAR_UINT)
            return tpi_refuse(TP_ERR_RUNTIME, "value cannot be converted to type int64_t without overflow");
    return true;
}

static bool settle_dtypes(map_call *c, const tp_operand *in) {
    const tpi_map_op *op = c->op;
    tpi_promotion p = {0};
    bool wrapped = false;
    for (int i = 0; i < op->nin; i++) {
        const tp_tensor *t = in[i].tensor;
        int fixed = op->in_type[i];
        if (!t && in[i].scalar.kind == TP_SCALAR_NONE)
            return tpi_refuse(TP_ERR_VALUE, "argument '%s'%s%s: expected a tensor, got NULL", op->in_name[i],
                              TPI_IN(op->name));
        if (fixed != TPI_CTYPES) {
            tp_dtype wanted = tpi_ctype_dtype((tpi_ctype)fixed);
            if (t && t->dtype != wanted) /* who called puts the operator's name before it */
                return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a tensor of dtype %s, got %s%s",
                                  op->in_name[i], tp_dtype_name(wanted), tp_dtype_name(t->dtype),
                                  wanted == TP_BOOL ? " (it only supports boolean masks)" : "");
        } else if (!t)
            tpi_promote_scalar(&p, in[i].scalar);
        else if (t->flags & TPI_WRAPPED) {
            tpi_promote_scalar(&p, number_like(t->dtype));
            wrapped = true;
        } else
            tpi_promote_tensor(&p, t->dtype, t->ndim);
    }
    c->dtype = tpi_promoted(&p);
    if (p.refused) return false;
    if (!check_large_numbers(c->op, in, c->dtype)) return false;
    c->number_result = wrapped && p.dim == TP_NO_DTYPE && p.zero == TP_NO_DTYPE;
    if (c->dtype == TP_NO_DTYPE) c->dtype = tpi_ctype_dtype((tpi_ctype)op->in_type[0]);
    if (op->rule == TPI_RULE_FLOAT) c->dtype = tpi_dtype_to_float(c->dtype);
    if (c->number_result) c->dtype = widest(c->dtype);
    if (!tpi_check_types(op->name, op->types, c->dtype)) return false;
    c->compute = c->dtype == TP_BOOL && op->has_b8 ? TPI_B8 : (tpi_ctype)tpi_dtype_ctype[c->dtype];
    c->result = tpi_result_dtype(op->result, c->dtype);
    return true;
}

bool tpi_map_settle(const tpi_map_op *op, const tp_operand *in, tp_dtype *dtype, tpi_ctype *compute) {
    map_call c = {.op = op};
    if (!settle_dtypes(&c, in)) return false;
    *dtype = c.dtype;
    *compute = c.compute;
    return true;
}

/* ---- Devices and shapes ---- */
static bool settle_device(map_call *c, const tp_operand *in, const tp_tensor *out) {
    const tp_tensor *decides = out;
    for (int i = 0; i < c->op->nin; i++) {
        const tp_tensor *t = in[i].tensor;
        if (!t || (decides && tpi_same_device(tpi_device(decides), tpi_device(t)))) continue;
        bool guest = t->ndim == 0 && tpi_device(t).type == TP_CPU;
        if (!decides || (decides != out && decides->ndim == 0 && tpi_device(decides).type == TP_CPU))
            decides = t;
        else if (!guest)
            return tpi_refuse_device(tpi_device(decides), tpi_device(t), "");
    }
    c->device = decides ? tpi_device(decides) : (tp_device){TP_CPU, 0};
    return true;
}

static void settle_operands(map_call *c, const tp_operand *in) {
    for (int i = 0; i < c->op->nin; i++) {
        tp_tensor *t = in[i].tensor;
        c->copy[i] = NULL;
        c->tensor[i] = t;
        if (t && tpi_same_device(tpi_device(t), c->device)) continue;
        int fixed = c->op->in_type[i];
        c->number[i] = tpi_param_of(t ? tpi_load_scalar(t->data, (tp_dtype)t->dtype) : in[i].scalar,
                                    fixed == TPI_CTYPES ? c->compute : (tpi_ctype)fixed);
        c->tensor[i] = NULL;
    }
}

static bool settle_shape(map_call *c) {
    c->ndim = -1;
    for (int i = 0; i < c->op->nin; i++) {
        const tp_tensor *t = c->tensor[i];
        if (!t) continue;
        if (c->ndim < 0) {
            c->ndim = t->ndim;
            memcpy(c->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
        } else if (t->ndim != c->ndim || memcmp(c->shape, t->shape, (size_t)t->ndim * sizeof *t->shape)) {
            int64_t joint[TP_MAX_DIMS];
            if (!tpi_broadcast((tp_ints){c->shape, c->ndim}, tpi_shape(t), joint, &c->ndim)) return false;
            memcpy(c->shape, joint, (size_t)c->ndim * sizeof *joint);
        }
    }
    if (c->ndim < 0) c->ndim = 0; /* numbers alone: or tensors that became numbers, which have no dimensions */
    return true;
}

/* ---- The result ---- */
static bool full_shape(const map_call *c, const tp_tensor *t) {
    return t && t->ndim == c->ndim && !memcmp(t->shape, c->shape, (size_t)c->ndim * sizeof *c->shape);
}

/* Every operand is a tensor of the full shape with the same strides: the result has them too. */
static bool same_strides(const map_call *c) {
    const tp_tensor *first = c->tensor[0];
    for (int i = 0; i < c->op->nin; i++)
        if (!full_shape(c, c->tensor[i]) ||
            memcmp(c->tensor[i]->strides, first->strides, (size_t)c->ndim * sizeof *first->strides))
            return false;
    return tpi_is_dense(first);
}

static bool all_contiguous(const map_call *c) {
    for (int i = 0; i < c->op->nin; i++)
        if (c->tensor[i] && !tp_is_contiguous(c->tensor[i])) return false;
    return true;
}

/* The stride order of the inputs, as PyTorch's iterator has it: channels_last survives. Not inlined: its arrays would
 * stay on the stack while the kernel runs. */
static __attribute__((noinline)) void result_strides(const map_call *c, int64_t *order) {
    int64_t strides[MAX_IN][TP_MAX_DIMS];
    const int64_t *rows[MAX_IN];
    int n = 0;
    for (int i = 0; i < c->op->nin; i++) {
        const tp_tensor *t = c->tensor[i];
        if (!t) continue;
        int lead = c->ndim - t->ndim;
        for (int d = 0; d < c->ndim; d++)
            strides[n][d] = d < lead || t->shape[d - lead] != c->shape[d] ? 0 : t->strides[d - lead];
        rows[n] = strides[n];
        n++;
    }
    tpi_dense_strides(c->ndim, c->shape, n, rows, order);
}

static tp_tensor *new_result(const map_call *c) {
    tp_ints shape = {c->shape, c->ndim};
    if (all_contiguous(c)) return tpi_empty(shape, c->result, c->device);
    if (same_strides(c)) return tpi_empty_like(c->tensor[0], c->result);
    int64_t order[TP_MAX_DIMS];
    result_strides(c, order);
    return tpi_empty_strided(shape, (tp_ints){order, c->ndim}, c->result, c->device);
}

/* A tensor that was given for the result takes its shape, and the strides that a new one would have. */
static __attribute__((noinline)) bool reshape_result(const map_call *c, tp_tensor *out) {
    if (!tpi_resize(out, (tp_ints){c->shape, c->ndim})) return false;
    if (all_contiguous(c)) return true;
    tpi_geometry g = {.ndim = c->ndim, .offset = tpi_offset(out)};
    memcpy(g.shape, c->shape, (size_t)c->ndim * sizeof *c->shape);
    result_strides(c, g.strides);
    return tpi_set_geometry(out, &g);
}

/* The last check of a call: only when nothing else can be wrong does a result of another shape take the right one. */
static bool check_result(const map_call *c, const tp_operand *in, tp_tensor *out) {
    if (!tp_can_cast(c->result, (tp_dtype)out->dtype)) return tpi_refuse_cast(c->result, (tp_dtype)out->dtype);
    /* floor, neg and their like, which keep the dtype, write no other one: PyTorch's rule for one operand */
    if (c->op->nin == 1 && c->op->rule == TPI_RULE_PROMOTE && c->op->result == TPI_RESULT_SAME &&
        c->result != (tp_dtype)out->dtype)
        return tpi_refuse(TP_ERR_RUNTIME, "Found dtype %s but expected %s", tp_dtype_word((tp_dtype)out->dtype),
                          tp_dtype_word(c->result));
    if (!full_shape(c, out)) {
        bool in_place = false;
        for (int i = 0; i < c->op->nin; i++) in_place |= in[i].tensor == out;
        if (in_place)
            return tpi_refuse(TP_ERR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                              tpi_shape_text(tpi_shape(out)), tpi_shape_text((tp_ints){c->shape, c->ndim}));
        if (!reshape_result(c, out)) return false;
    }
    if (!tp_is_contiguous(out) && !tpi_check_no_shared_elements(out)) return false;
    for (int i = 0; i < c->op->nin; i++)
        if (!tpi_check_overlap(out, c->tensor[i], TPI_OVERLAP_SAME)) return false;
    return true;
}

/* ---- Overlap ---- */

static bool part_from(map_call *c, const tp_tensor *out) {
    for (int i = 0; i < c->op->nin; i++) {
        tp_tensor *t = c->tensor[i];
        if (!t || t == out || !tpi_shares_memory(t, out)) continue;
        c->copy[i] = tpi_empty_like(t, (tp_dtype)t->dtype);
        if (!c->copy[i] || !tpi_copy_data(c->copy[i], t)) return false;
        c->tensor[i] = c->copy[i];
    }
    return true;
}

/* ---- The launch ---- */

/* The plan over the tensors, then numbers put in their places as operands that never move. */
static bool make_plan(map_call *c, tp_tensor *out, tpi_plan *plan) {
    tp_tensor *operands[MAX_IN + 1] = {out};
    int n = 1;
    for (int i = 0; i < c->op->nin; i++)
        if (c->tensor[i]) operands[n++] = c->tensor[i];
    if (!tpi_plan_make(plan, tpi_shape(out), 1, n, operands)) return false;
    plan->nargs = c->op->nin + 1;
    for (int i = c->op->nin - 1; i >= 0 && n < plan->nargs; i--) {
        if (c->tensor[i]) n--;
        int to = i + 1, from = c->tensor[i] ? n : -1;
        if (from == to) break;
        plan->data[to] = from < 0 ? (char *)&c->number[i] : plan->data[from];
        if (from < 0) plan->numbers |= (uint16_t)(1u << to);
        int fixed = c->op->in_type[i];
        plan->dtype[to] = from < 0 ? (uint8_t)tpi_ctype_dtype(fixed == TPI_CTYPES ? c->compute : (tpi_ctype)fixed)
                                   : plan->dtype[from];
        for (int d = 0; d < plan->ndim; d++) plan->stride[to][d] = from < 0 ? 0 : plan->stride[from][d];
    }
    return true;
}

static bool launch(map_call *c, tp_tensor *out, const tp_scalar *params) {
    if (out->numel == 0) return true;
    const tpi_device_ops *device = tpi_device_ops_of(c->device);
    if (!device) return false;
    if (!device->map)
        return tpi_refuse(TP_ERR_MISSING, "%s is not available on device '%s'", c->op->name, device->name);
    tpi_param values[8];
    tpi_fill_params(values, c->op->nparam, c->op->param_type, c->dtype, c->compute, params);
    tpi_plan plan;
    return make_plan(c, out, &plan) && device->map(c->device, c->op, &plan, c->compute, values);
}

/* The everyday call: contiguous tensors of one dtype, one shape and one device, and numbers that do not raise it, into
 * a new result. Nothing to promote, broadcast or order, so it skips all that. */
static const tp_tensor *first_tensor(const tpi_map_op *op, const tp_operand *in) {
    for (int i = 0; i < op->nin; i++)
        if (in[i].tensor) return in[i].tensor;
    return NULL;
}

static bool is_plain(const tpi_map_op *op, const tp_operand *in, const tp_tensor *first) {
    for (int i = 0; i < op->nin; i++) {
        const tp_tensor *t = in[i].tensor;
        if (op->in_type[i] != TPI_CTYPES) return false;
        if (!t) {
            tp_scalar_kind kind = in[i].scalar.kind;
            if (kind == TP_SCALAR_NONE || 1 << (kind - TP_SCALAR_BOOL) > tpi_dtype_category[first->dtype]) return false;
            continue;
        }
        if ((t->flags & TPI_WRAPPED) || !tp_is_contiguous(t)) return false;
        if (t == first) continue;
        if (t->dtype != first->dtype || t->ndim != first->ndim || !tpi_same_device(tpi_device(t), tpi_device(first)))
            return false;
        for (int d = 0; d < t->ndim; d++)
            if (t->shape[d] != first->shape[d]) return false;
    }
    return true;
}

static tp_tensor *run_plain(const tpi_map_op *op, const tp_operand *in, const tp_tensor *first,
                            const tp_scalar *params) {
    tp_dtype dtype = op->rule == TPI_RULE_FLOAT ? tpi_dtype_to_float((tp_dtype)first->dtype) : (tp_dtype)first->dtype;
    if (!tpi_check_types(op->name, op->types, dtype) || !check_params(op, dtype, params)) return NULL;
    tpi_ctype compute = dtype == TP_BOOL && op->has_b8 ? TPI_B8 : (tpi_ctype)tpi_dtype_ctype[dtype];
    const tpi_device_ops *device = tpi_device_ops_of(tpi_device(first));
    if (!device) return NULL;
    if (!device->map) return tpi_fail(TP_ERR_MISSING, "%s is not available on device '%s'", op->name, device->name);
    bool mine = tpi_gpu_owner_begin(tpi_device(first), op->name);
    tp_tensor *out = tpi_empty(tpi_shape(first), tpi_result_dtype(op->result, dtype), tpi_device(first));
    tpi_gpu_owner_end(mine);
    if (!out || out->numel == 0) return out;
    tpi_param values[8], number[MAX_IN];
    tpi_fill_params(values, op->nparam, op->param_type, dtype, compute, params);
    tpi_plan plan;
    plan.ndim = 1;
    plan.nout = 1;
    plan.numbers = 0;
    plan.nargs = op->nin + 1;
    plan.numel = plan.shape[0] = out->numel;
    for (int k = 0; k < plan.nargs; k++) {
        const tp_tensor *t = k ? in[k - 1].tensor : out;
        if (!t) {
            number[k - 1] = tpi_param_of(in[k - 1].scalar, compute);
            plan.numbers |= (uint16_t)(1u << k);
            plan.data[k] = (char *)&number[k - 1];
            plan.dtype[k] = (uint8_t)tpi_ctype_dtype(compute);
            plan.stride[k][0] = 0;
            continue;
        }
        plan.data[k] = t->data;
        plan.dtype[k] = t->dtype;
        plan.stride[k][0] = (int64_t)tpi_itemsize(t);
    }
    if (device->map(tpi_device(first), op, &plan, compute, values)) return out;
    tpi_release(out);
    return NULL;
}

/* The kernel rounds once, to what it writes: where the operator's own dtype is narrower than what the kernel computes
 * in, a result of yet another dtype would be more exact than PyTorch's, which is rounded to the operator's dtype first.
 */
static bool rounds_twice(const map_call *c, const tp_tensor *out) {
    return c->result == c->dtype && c->dtype != (tp_dtype)out->dtype && tpi_ctype_dtype(c->compute) != c->dtype;
}

static bool launch_by_way(map_call *c, tp_tensor *out, const tp_scalar *params) {
    tp_tensor *own = new_result(c);
    bool ok = own && launch(c, own, params) && tpi_copy_data(out, own);
    if (own) tpi_release(own);
    return ok;
}

static tp_tensor *run(const tpi_map_op *op, tp_tensor *out, const tp_operand *in, const tp_scalar *params) {
    const tp_tensor *first = out ? NULL : first_tensor(op, in);
    if (first && is_plain(op, in, first)) return run_plain(op, in, first, params);
    map_call c;
    c.op = op;
    if (!settle_dtypes(&c, in) || !settle_device(&c, in, out)) return NULL;
    settle_operands(&c, in);
    if (!settle_shape(&c) || !check_params(op, c.dtype, params)) return NULL;
    if (out && !check_result(&c, in, out)) return NULL;
    bool mine = tpi_gpu_owner_begin(c.device, op->name);
    tp_tensor *result = out ? tpi_retain(out) : new_result(&c);
    tpi_gpu_owner_end(mine);
    bool ok = result && (!out || part_from(&c, out));
    if (ok) ok = out && rounds_twice(&c, out) ? launch_by_way(&c, out, params) : launch(&c, result, params);
    for (int i = 0; i < op->nin; i++)
        if (c.copy[i]) tpi_release(c.copy[i]);
    if (ok && c.number_result && !out) result->flags |= TPI_WRAPPED;
    if (ok) return result;
    if (result) tpi_release(result);
    return NULL;
}

tp_tensor *tpi_run_map(const tpi_map_op *op, tp_tensor *out, const tp_operand *in, const tp_scalar *params) {
    tpi_recorder *recorder = tpi_recording;
    if (__builtin_expect(!recorder, 1)) return run(op, out, in, params);
    tpi_recording = NULL;
    tp_tensor *result = run(op, out, in, params);
    tpi_recording = recorder;
    if (result) recorder->map(recorder, op, result, !out, in, params);
    return result;
}
