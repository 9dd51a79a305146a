/* Derivatives of functions of the caller's, by the tape. J v is the derivative of v^T J with respect to v, which is
 * linear in it: two backwards and no rules of their own. */
#include "base/memory.h"
#include "autograd/glue.h"
#include "autograd/tape.h"
#include "tensor/check_arguments.h"
#include <string.h>
#include <taper/ops.h>
#include <taper/transforms.h>

typedef struct call { /* one run of the function */
    tp_tensors in;    /* tensors of our own, which require gradients */
    tp_tensor *out;
} call;

static bool good_arguments(tp_segment_fn fn, tp_tensors inputs, const void *results, const char *function) {
    if (!tpi_given((const void *)(uintptr_t)fn, function, "fn", "a function") ||
        !tpi_list_there(inputs.v, inputs.n, function, "inputs"))
        return false;
    if (!inputs.n) return tpi_refuse(TP_ERR_VALUE, "%s: argument 'inputs': expected tensors, got none", function);
    if (!tpi_given(results, function, "the results", "an array")) return false;
    for (int64_t i = 0; i < inputs.n; i++) {
        if (!tpi_is_tensor(inputs.v[i], "inputs")) return false;
        const tp_dtype dtype = (tp_dtype)inputs.v[i]->dtype;
        if (!tp_dtype_is_floating(dtype) && !tp_dtype_is_complex(dtype))
            return tpi_refuse(TP_ERR_TYPE, "%s: argument 'inputs': tensor %lld is %s, which has no gradient", function,
                              (long long)i, tp_dtype_name(dtype));
    }
    return true;
}

/* Runs the function. With create_graph its inputs are views of those given, so that histories go on. */
static bool run(call *c, tp_segment_fn fn, void *context, tp_tensors inputs, bool create_graph, const char *function) {
    c->in = (tp_tensors){tpi_malloc(sizeof(tp_tensor *) * (size_t)inputs.n), inputs.n};
    if (!c->in.v) return false;
    for (int64_t i = 0; i < inputs.n; i++) {
        const bool goes_on = create_graph && tpi_has_history(inputs.v[i]);
        c->in.v[i] = goes_on ? tp_view_as(inputs.v[i], inputs.v[i]) : tp_detach(inputs.v[i]);
        if (c->in.v[i] && !goes_on) tp_set_requires_grad(c->in.v[i], true);
    }
    tp_tensor *out = NULL;
    if (tp_ok())
        TP_SCOPE {
            out = fn(c->in, context);
            if (out) tp_retain(out);
        }
    if (out && !tp_ok()) {
        tp_release(out);
        out = NULL;
    }
    c->out = tpi_to_scope(out);
    if (!c->out && tp_ok()) tpi_fail(TP_ERR_RUNTIME, "%s: argument 'fn': the function gave no tensor", function);
    return c->out != NULL;
}

/* Gradients of one output, zeros where it does not depend on an input. */
static bool gradients(tp_tensor *out, tp_tensors in, tp_tensor *v, tp_tensor **grads, bool create_graph) {
    for (int64_t i = 0; i < in.n; i++) grads[i] = NULL;
    if (!tpi_has_history(out)) { /* a constant */
        for (int64_t i = 0; i < in.n; i++) grads[i] = tp_zeros_like(in.v[i]);
        return tp_ok();
    }
    const tp_grad_options options = {.size = (int64_t)sizeof options,
                                     .retain_graph = true,
                                     .create_graph = create_graph,
                                     .allow_unused = true,
                                     .materialize_grads = true};
    return tp_gradients((tp_tensors){&out, 1}, in, v ? &v : NULL, grads, &options);
}

/* What leaves the function's scope: with a history, or without. */
static tp_tensor *leave(tp_tensor *t, bool create_graph) { return tp_keep(create_graph ? t : tp_detach(t)); }

static bool leave_all(int64_t n, tp_tensor *const *from, tp_tensor **to, bool create_graph) {
    bool fine = tp_ok();
    for (int64_t i = 0; i < n; i++) {
        to[i] = fine ? leave(from[i], create_graph) : NULL;
        fine = fine && to[i];
    }
    return fine;
}

static bool single(const tp_tensor *out, const char *function) {
    return out->numel == 1 || tpi_refuse(TP_ERR_RUNTIME,
                                         "%s: argument 'fn': expected a function of one element, its "
                                         "result has the shape %s",
                                         function, tpi_shape_text(tpi_shape(out)));
}
static bool same_shapes(tp_tensors list, tp_tensors like, const char *argument, const char *function) {
    bool fine = tpi_list_there(list.v, list.n, function, argument);
    if (fine && list.n != like.n)
        fine = tpi_refuse(TP_ERR_VALUE, "%s: argument '%s': expected %lld tensors, one per input, got %lld", function,
                          argument, (long long)like.n, (long long)list.n);
    for (int64_t i = 0; fine && i < list.n; i++)
        fine =
            tpi_is_tensor(list.v[i], argument) &&
            (tpi_same_shape(list.v[i], like.v[i]) ||
             tpi_refuse(TP_ERR_VALUE, "%s: argument '%s': tensor %lld: expected shape %s, got %s", function, argument,
                        (long long)i, tpi_shape_text(tpi_shape(like.v[i])), tpi_shape_text(tpi_shape(list.v[i]))));
    return fine;
}

static tp_tensor **list_of(int64_t n) {
    tp_tensor **v = tpi_malloc(sizeof *v * (size_t)(n + 1));
    if (v) memset(v, 0, sizeof *v * (size_t)(n + 1));
    return v;
}

/* ---- products ---- */
bool tp_vjp(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensor *v, tp_tensor **output, tp_tensor **grads,
            bool create_graph) {
    if (TPI_ENDED(v, "a tensor")) return false;
    if (output) *output = NULL;
    if (!good_arguments(fn, inputs, grads, __func__) || !tpi_sound_tensor(v, "v")) return false;
    bool fine = false;
    tp_tensor **found = list_of(inputs.n);
    call c = {{NULL, 0}, NULL};
    TP_ENABLE_GRAD
        TP_SCOPE {
            fine = found && run(&c, fn, context, inputs, create_graph, __func__) && (v || single(c.out, __func__)) &&
                   gradients(c.out, c.in, v, found, create_graph) && leave_all(inputs.n, found, grads, create_graph);
            if (fine && output) *output = leave(c.out, create_graph);
        }
    tpi_mfree(c.in.v);
    tpi_mfree(found);
    return fine;
}

/* The derivative of the gradients' product with w, which stands for v in v^T J, along the tangents. */
static tp_tensor *forward_product(const call *c, tp_tensors tangents, tp_tensor **found, bool create_graph) {
    tp_tensor *w = tp_set_requires_grad(tp_zeros_like(c->out), true), *product = NULL;
    if (!w || !gradients(c->out, c->in, w, found, true)) return NULL;
    tp_tensor *sum = NULL;
    for (int64_t i = 0; i < c->in.n; i++) {
        tp_tensor *one = tp_sum(tp_mul(found[i], tangents.v[i]));
        sum = sum ? tp_add(sum, one) : one;
    }
    return sum && gradients(sum, (tp_tensors){&w, 1}, NULL, &product, create_graph) ? product : NULL;
}

tp_tensor *tp_jvp(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensors tangents, tp_tensor **output,
                  bool create_graph) {
    if (output) *output = NULL;
    if (!good_arguments(fn, inputs, inputs.v, __func__) || !same_shapes(tangents, inputs, "tangents", __func__))
        return NULL;
    tp_tensor **found = list_of(inputs.n), *product = NULL;
    call c = {{NULL, 0}, NULL};
    TP_ENABLE_GRAD
        TP_SCOPE {
            if (found && run(&c, fn, context, inputs, create_graph, __func__)) {
                product = forward_product(&c, tangents, found, create_graph);
                product = product && tp_ok() ? leave(product, create_graph) : NULL;
            }
            if (product && output) *output = leave(c.out, create_graph);
        }
    tpi_mfree(c.in.v);
    tpi_mfree(found);
    return product;
}

bool tp_hvp(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensors v, tp_tensor **output, tp_tensor **products,
            bool create_graph) {
    if (output) *output = NULL;
    if (!good_arguments(fn, inputs, products, __func__) || !same_shapes(v, inputs, "v", __func__)) return false;
    tp_tensor **found = list_of(2 * inputs.n);
    call c = {{NULL, 0}, NULL};
    bool fine = false;
    TP_ENABLE_GRAD
        TP_SCOPE {
            fine = found && run(&c, fn, context, inputs, create_graph, __func__) && single(c.out, __func__) &&
                   gradients(c.out, c.in, NULL, found, true);
            tp_tensor *sum = NULL;
            for (int64_t i = 0; fine && i < inputs.n; i++) {
                tp_tensor *one = tp_sum(tp_mul(found[i], v.v[i]));
                sum = sum ? tp_add(sum, one) : one;
            }
            fine = fine && sum && gradients(sum, c.in, NULL, found + inputs.n, create_graph) &&
                   leave_all(inputs.n, found + inputs.n, products, create_graph);
            if (fine && output) *output = leave(c.out, create_graph);
        }
    tpi_mfree(c.in.v);
    tpi_mfree(found);
    return fine;
}

/* ---- whole ---- */
/* Rows of d out[i] / d in for all elements of out, stacked; into `whole`, one tensor per input, which belong to the
 * scope. */
static bool all_rows(tp_tensor *out, tp_tensors in, tp_tensor **whole, bool create_graph) {
    const int64_t n = out->numel;
    tp_tensor **rows = list_of(n * in.n), **row = list_of(in.n);
    tp_tensor *flat = rows && row ? tp_reshape(out, TP_INTS(n)) : NULL;
    bool fine = flat != NULL;
    for (int64_t k = 0; fine && k < n; k++) {
        fine = gradients(tp_select(flat, 0, k), in, NULL, row, create_graph);
        for (int64_t i = 0; fine && i < in.n; i++) rows[i * n + k] = row[i];
    }
    for (int64_t i = 0; fine && i < in.n; i++) {
        int64_t shape[2 * TP_MAX_DIMS];
        int64_t dims = 0;
        for (int d = 0; d < out->ndim; d++) shape[dims++] = out->shape[d];
        for (int d = 0; d < in.v[i]->ndim; d++) shape[dims++] = in.v[i]->shape[d];
        tp_tensor *all = n ? tp_stack(tp_list(n, rows + i * n)) : tp_zeros_like(in.v[i]);
        whole[i] = n ? tp_reshape(all, tp_ints_view(shape, dims))
                     : tp_zeros(tp_ints_view(shape, dims), .dtype = (tp_dtype)in.v[i]->dtype);
        fine = whole[i] != NULL;
    }
    tpi_mfree(rows);
    tpi_mfree(row);
    return fine;
}

bool tp_jacobian(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensor **jacobians, bool create_graph) {
    if (!good_arguments(fn, inputs, jacobians, __func__)) return false;
    tp_tensor **whole = list_of(inputs.n);
    call c = {{NULL, 0}, NULL};
    bool fine = false;
    TP_ENABLE_GRAD
        TP_SCOPE
            fine = whole && run(&c, fn, context, inputs, create_graph, __func__) &&
                   all_rows(c.out, c.in, whole, create_graph) && leave_all(inputs.n, whole, jacobians, create_graph);
    tpi_mfree(c.in.v);
    tpi_mfree(whole);
    return fine;
}

bool tp_hessian(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensor **hessians, bool create_graph) {
    if (!good_arguments(fn, inputs, hessians, __func__)) return false;
    tp_tensor **whole = list_of(inputs.n * inputs.n + inputs.n), **first = whole ? whole + inputs.n * inputs.n : NULL;
    call c = {{NULL, 0}, NULL};
    bool fine = false;
    TP_ENABLE_GRAD
        TP_SCOPE {
            fine = whole && run(&c, fn, context, inputs, create_graph, __func__) && single(c.out, __func__) &&
                   gradients(c.out, c.in, NULL, first, true);
            for (int64_t i = 0; fine && i < inputs.n; i++)
                fine = all_rows(first[i], c.in, whole + i * inputs.n, create_graph);
            fine = fine && leave_all(inputs.n * inputs.n, whole, hessians, create_graph);
        }
    tpi_mfree(c.in.v);
    tpi_mfree(whole);
    return fine;
}

/* ---- slices ---- */
/* How many slices there are; -1 and an error. */
static int64_t slices_of(tp_tensors inputs, tp_ints in_dims) {
    int64_t count = -1;
    for (int64_t i = 0; i < inputs.n; i++) {
        if (!tpi_is_tensor(inputs.v[i], "inputs")) return -1;
        const int64_t dim = in_dims.v ? in_dims.v[i] : 0;
        if (dim == TP_NONE) continue;
        const int64_t size = tp_size(inputs.v[i], dim);
        if (size < 0) return -1;
        if (count >= 0 && size != count) {
            tpi_fail(TP_ERR_VALUE, "tp_vmap: argument 'inputs': tensor %lld has %lld slices, one before it %lld",
                     (long long)i, (long long)size, (long long)count);
            return -1;
        }
        count = size;
    }
    if (count > 0) return count;
    tpi_fail(TP_ERR_VALUE, "tp_vmap: argument 'inputs': expected at least one slice of one of them");
    return -1;
}

tp_tensor *tp_vmap(tp_segment_fn fn, void *context, tp_tensors inputs, tp_ints in_dims, int64_t out_dim) {
    if (!TPI_GIVEN(fn, "a function") || !TPI_TENSORS_GIVEN(inputs)) return NULL;
    if (in_dims.v && in_dims.n != inputs.n)
        return tpi_fail(TP_ERR_VALUE, "tp_vmap: argument 'in_dims': expected one dim per input, got %lld for %lld",
                        (long long)in_dims.n, (long long)inputs.n);
    const int64_t count = slices_of(inputs, in_dims);
    tp_tensor **rows = count > 0 ? list_of(count + inputs.n) : NULL, **in = rows ? rows + count : NULL, *out = NULL;
    if (!rows) return NULL;
    TP_SCOPE {
        for (int64_t k = 0; k < count && tp_ok(); k++) {
            TP_SCOPE {
                for (int64_t i = 0; i < inputs.n; i++) {
                    const int64_t dim = in_dims.v ? in_dims.v[i] : 0;
                    in[i] = dim == TP_NONE ? inputs.v[i] : tp_select(inputs.v[i], dim, k);
                }
                rows[k] = tp_ok() ? tp_retain(fn(tp_list(inputs.n, in), context)) : NULL;
            }
            if (rows[k])
                rows[k] = tpi_to_scope(rows[k]);
            else if (tp_ok())
                tpi_fail(TP_ERR_RUNTIME, "tp_vmap: argument 'fn': the function gave no tensor");
        }
        out = tp_ok() ? tp_keep(tp_stack(tp_list(count, rows), .dim = out_dim)) : NULL;
    }
    tpi_mfree(rows);
    return out;
}
