/* Products composed of mm, bmm, mv and dot: the rank rules of matmul, and addbmm, addr, outer, inner, linear's
 * gradients, bilinear, tensordot, kron, multi_dot, cross and matrix_power. They call operators, so they differentiate
 * themselves. */
#include "base/min_max.h"
#include "ops/temporaries.h"
#include "tensor/same_device.h"
#include "ops/native.h"
#include "tpi_ops.h"

static bool is_one(tp_scalar s) {
    return s.kind == TP_SCALAR_COMPLEX ? s.as.d[0] == 1 && s.as.d[1] == 0 : tp_scalar_to_double(s) == 1;
}

static int64_t last_size(const tp_tensor *t, int from_end) { return t->shape[t->ndim - from_end]; }

/* ---- matmul ---- */

/* (..., m, k) times a matrix or a vector: the leading dims become rows of one product. */
static tp_tensor *matmul_folded(tp_tensor *self, tp_tensor *other) {
    tpi_temporaries temps = {0};
    int64_t k = last_size(self, 1), rows = 1, shape[TP_MAX_DIMS];
    for (int d = 0; d + 1 < self->ndim; d++) rows *= shape[d] = self->shape[d];
    if (other->ndim == 2) shape[self->ndim - 1] = other->shape[1];
    tp_tensor *flat = tpi_put(&temps, tpo_reshape(self, TP_INTS(rows, k)));
    tp_tensor *product = tpi_put(&temps, other->ndim == 2 ? tpo_mm(flat, other) : tpo_mv(flat, other));
    return tpi_release_temporaries(&temps, tpo_reshape(product, tp_ints_view(shape, self->ndim - (other->ndim == 1))));
}

/* t (..., r, c) over the batch shape as (batches, r, c). One matrix for all is expanded, which copies nothing. */
static tp_tensor *matmul_side(tp_tensor *t, const int64_t *batch, int batch_ndim, int64_t batches) {
    int64_t r = last_size(t, 2), c = last_size(t, 1), shape[TP_MAX_DIMS];
    tpi_temporaries temps = {0};
    if (t->numel == r * c) {
        tp_tensor *one = tpi_put(&temps, tpo_reshape(t, TP_INTS(1, r, c)));
        return tpi_release_temporaries(&temps, tpo_expand(one, TP_INTS(batches, r, c), false));
    }
    memcpy(shape, batch, sizeof *shape * (size_t)batch_ndim);
    shape[batch_ndim] = r;
    shape[batch_ndim + 1] = c;
    tp_tensor *wide = tpi_put(&temps, tpo_expand(t, tp_ints_view(shape, batch_ndim + 2), false));
    return tpi_release_temporaries(&temps, tpo_reshape(wide, TP_INTS(batches, r, c)));
}

static tp_tensor *matmul_batched(tp_tensor *self, tp_tensor *other) {
    int64_t batch[TP_MAX_DIMS];
    int ndim;
    if (last_size(self, 1) != last_size(other, 2))
        return tpi_fail(TP_ERR_RUNTIME,
                        "arguments 'self' and 'other': shapes %s and %s cannot be multiplied (%lld against %lld)",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)),
                        (long long)last_size(self, 1), (long long)last_size(other, 2));
    if (!tpi_broadcast(tp_ints_view(self->shape, self->ndim - 2), tp_ints_view(other->shape, other->ndim - 2), batch,
                       &ndim))
        return NULL;
    int64_t batches = 1;
    for (int d = 0; d < ndim; d++) batches *= batch[d];
    tpi_temporaries temps = {0};
    tp_tensor *a = tpi_put(&temps, matmul_side(self, batch, ndim, batches)),
              *b = tpi_put(&temps, matmul_side(other, batch, ndim, batches));
    tp_tensor *product = tpi_put(&temps, tpo_bmm(a, b));
    batch[ndim] = last_size(self, 2);
    batch[ndim + 1] = last_size(other, 1);
    return tpi_release_temporaries(&temps, tpo_reshape(product, tp_ints_view(batch, ndim + 2)));
}

tp_tensor *tpi_compose_matmul(tp_tensor *self, tp_tensor *other) {
    int a = self->ndim, b = other->ndim;
    if (!a || !b)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument '%s': both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                        a ? "other" : "self", a, b);
    if (a == 1 && b == 1) return tpo_dot(self, other);
    if (a == 2 && b == 1) return tpo_mv(self, other);
    if (a == 2 && b == 2) return tpo_mm(self, other);
    if (a == 1) { /* a vector on the left is a matrix of one row */
        tpi_temporaries temps = {0};
        tp_tensor *product = tpi_put(&temps, tpo_matmul(tpi_put(&temps, tpo_unsqueeze(self, 0)), other));
        return tpi_release_temporaries(&temps, tpo_squeeze_dim(product, -2));
    }
    if (b <= 2) {
        if (last_size(self, 1) == other->shape[0]) return matmul_folded(self, other);
        return tpi_fail(TP_ERR_RUNTIME,
                        "arguments 'self' and 'other': shapes %s and %s cannot be multiplied (%lld against %lld)",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)),
                        (long long)last_size(self, 1), (long long)other->shape[0]);
    }
    return matmul_batched(self, other);
}

/* ---- Sums of products ---- */

/* The sum over the batch is one product with the batch folded into the inner dim. */
/* The products one after the other: a sum of 16-bit numbers is rounded after each, as PyTorch does on every device. */
static tp_tensor *add_one_by_one(tp_tensor *self, tp_tensor *batch1, tp_tensor *batch2, tp_scalar beta,
                                 tp_scalar alpha) {
    tp_tensor *sum = tpi_retain(self);
    for (int64_t i = 0; sum && i < batch1->shape[0]; i++) {
        tpi_temporaries temps = {0};
        tp_tensor *before = tpi_put(&temps, sum);
        tp_tensor *a = tpi_put(&temps, tpo_select(batch1, 0, i));
        tp_tensor *b = a ? tpi_put(&temps, tpo_select(batch2, 0, i)) : NULL;
        sum = tpi_release_temporaries(&temps, b ? tpo_addmm(before, a, b, i ? tp_int(1) : beta, alpha) : NULL);
    }
    return sum;
}

tp_tensor *tpi_compose_addbmm(tp_tensor *self, tp_tensor *batch1, tp_tensor *batch2, tp_scalar beta, tp_scalar alpha) {
    if (batch1->ndim != 3 || batch2->ndim != 3 || batch1->shape[0] != batch2->shape[0] ||
        batch1->shape[2] != batch2->shape[1])
        return tpi_fail(TP_ERR_RUNTIME,
                        "arguments 'batch1' and 'batch2': expected shapes (b, n, m) and (b, m, p), got %s and %s",
                        tpi_shape_text(tpi_shape(batch1)), tpi_shape_text(tpi_shape(batch2)));
    if (batch1->shape[0] && (self->dtype == TP_FLOAT16 || self->dtype == TP_BFLOAT16))
        return add_one_by_one(self, batch1, batch2, beta, alpha);
    int64_t inner = batch1->shape[0] * batch1->shape[2];
    tpi_temporaries temps = {0};
    tp_tensor *front = tpi_put(&temps, tpo_transpose(batch1, 0, 1));
    tp_tensor *a = tpi_put(&temps, tpo_reshape(front, TP_INTS(batch1->shape[1], inner)));
    tp_tensor *b = tpi_put(&temps, tpo_reshape(batch2, TP_INTS(inner, batch2->shape[2])));
    return tpi_release_temporaries(&temps, tpo_addmm(self, a, b, beta, alpha));
}

static bool check_vectors(const tp_tensor *a, const char *a_name, const tp_tensor *b, const char *b_name) {
    const tp_tensor *bad = a->ndim != 1 ? a : b;
    return bad->ndim == 1 || tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a 1D tensor, got %dD of shape %s",
                                        bad == a ? a_name : b_name, bad->ndim, tpi_shape_text(tpi_shape(bad)));
}

tp_tensor *tpi_compose_outer(tp_tensor *self, tp_tensor *vec2) {
    if (!check_vectors(self, "self", vec2, "vec2")) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *column = tpi_put(&temps, tpo_unsqueeze(self, 1));
    return tpi_release_temporaries(&temps, tpo_mul(TP_OPERAND(column), TP_OPERAND(vec2)));
}

static tp_tensor *scaled(tpi_temporaries *temps, tp_tensor *t, tp_scalar factor) {
    return is_one(factor) ? t : tpi_put(temps, tpo_mul(TP_OPERAND(t), TP_OPERAND(factor)));
}

static bool check_factor(const tp_tensor *self, tp_scalar factor, const char *name) {
    if (factor.kind == TP_SCALAR_BOOL && self->dtype != TP_BOOL)
        return tpi_refuse(TP_ERR_RUNTIME, "Boolean %s only supported for Boolean results.", name);
    bool whole = factor.kind == TP_SCALAR_BOOL || factor.kind == TP_SCALAR_INT;
    return whole || tp_dtype_is_floating((tp_dtype)self->dtype) || tp_dtype_is_complex((tp_dtype)self->dtype) ||
           tpi_refuse(TP_ERR_RUNTIME, "For integral input tensors, argument %s must not be a floating point number.",
                      name);
}

tp_tensor *tpi_compose_addr(tp_tensor *self, tp_tensor *vec1, tp_tensor *vec2, tp_scalar beta, tp_scalar alpha) {
    if (!check_vectors(vec1, "vec1", vec2, "vec2") || !check_factor(self, beta, "beta") ||
        !check_factor(self, alpha, "alpha"))
        return NULL;
    if (self->dtype == TP_BOOL && vec1->dtype == TP_BOOL && vec2->dtype == TP_BOOL) {
        beta = tp_truth(tp_scalar_to_bool(beta));
        alpha = tp_truth(tp_scalar_to_bool(alpha));
    }
    tpi_temporaries temps = {0};
    tp_tensor *product = scaled(&temps, tpi_put(&temps, tpo_outer(vec1, vec2)), alpha);
    if (!tp_scalar_to_bool(beta)) return tpi_release_temporaries(&temps, tpi_retain(product));
    return tpi_release_temporaries(&temps,
                                   tpo_add(TP_OPERAND(scaled(&temps, self, beta)), TP_OPERAND(product), tp_int(1)));
}

tp_tensor *tpi_compose_scale_conj(tp_tensor *self, tp_scalar factor) {
    if (is_one(factor)) return tpi_retain(self);
    if (factor.kind == TP_SCALAR_COMPLEX) factor.as.d[1] = -factor.as.d[1];
    return tpo_mul(TP_OPERAND(self), TP_OPERAND(factor));
}

tp_tensor *tpi_compose_inner(tp_tensor *self, tp_tensor *other) {
    if (!self->ndim || !other->ndim) return tpo_mul(TP_OPERAND(self), TP_OPERAND(other));
    if (last_size(self, 1) != last_size(other, 1))
        return tpi_fail(TP_ERR_RUNTIME, "arguments 'self' and 'other': the last dims of %s and %s differ",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)));
    return tpo_tensordot(self, other, TP_INTS(-1), TP_INTS(-1));
}

/* ---- linear's gradients, bilinear ---- */

static tp_tensor *conjugated(tpi_temporaries *temps, tp_tensor *t) {
    return t && tp_dtype_is_complex((tp_dtype)t->dtype) ? tpi_put(temps, tpo_conj_physical(t)) : t;
}

tp_tensor *tpi_compose_linear_input_grad(tp_tensor *grad, tp_tensor *weight) {
    tpi_temporaries temps = {0};
    tp_tensor *w = conjugated(&temps, weight);
    if (weight->ndim == 2) return tpi_release_temporaries(&temps, tpo_matmul(grad, w));
    tp_tensor *column = tpi_put(&temps, tpo_unsqueeze(grad, -1));
    return tpi_release_temporaries(&temps, tpo_mul(TP_OPERAND(column), TP_OPERAND(w)));
}

/* grad (..., out) and input (..., in): the sum over all leading positions of grad x conj(input). */
tp_tensor *tpi_compose_linear_weight_grad(tp_tensor *grad, tp_tensor *input, int64_t weight_ndim) {
    int64_t in = last_size(input, 1), out = weight_ndim == 2 ? last_size(grad, 1) : 1, rows = 1;
    for (int d = 0; d + 1 < input->ndim; d++) rows *= input->shape[d];
    tpi_temporaries temps = {0};
    bool matrices = grad->ndim == 2 && input->ndim == 2 && weight_ndim == 2;
    tp_tensor *g = matrices ? grad : tpi_put(&temps, tpo_reshape(grad, TP_INTS(rows, out)));
    tp_tensor *x = conjugated(&temps, matrices ? input : tpi_put(&temps, tpo_reshape(input, TP_INTS(rows, in))));
    tp_tensor *product = tpi_put(&temps, tpo_mm(tpi_put(&temps, tpo_transpose(g, 0, 1)), x));
    return tpi_release_temporaries(&temps, weight_ndim == 2 ? tpi_retain(product) : tpo_squeeze_dim(product, 0));
}

/* input1 (..., i), input2 (..., j), weight (o, i, j): first input1 with all of weight, then with input2, one row at a
 * time. */
tp_tensor *tpi_compose_bilinear(tp_tensor *input1, tp_tensor *input2, tp_tensor *weight, tp_tensor *bias) {
    bool fits = weight->ndim == 3 && input1->ndim == input2->ndim && input1->ndim > 0;
    for (int d = 0; fits && d + 1 < input1->ndim; d++) fits = input1->shape[d] == input2->shape[d];
    if (!fits || last_size(input1, 1) != weight->shape[1] || last_size(input2, 1) != weight->shape[2])
        return tpi_fail(TP_ERR_RUNTIME,
                        "arguments 'input1', 'input2' and 'weight': expected shapes (..., i), (..., j) and (o, i, j), "
                        "got %s, %s and %s",
                        tpi_shape_text(tpi_shape(input1)), tpi_shape_text(tpi_shape(input2)),
                        tpi_shape_text(tpi_shape(weight)));
    int64_t o = weight->shape[0], i = weight->shape[1], j = weight->shape[2], rows = 1, shape[TP_MAX_DIMS];
    for (int d = 0; d + 1 < input1->ndim; d++) rows *= shape[d] = input1->shape[d];
    shape[input1->ndim - 1] = o;
    tpi_temporaries temps = {0};
    tp_tensor *x = tpi_put(&temps, tpo_reshape(input1, TP_INTS(rows, i))),
              *y = tpi_put(&temps, tpo_reshape(input2, TP_INTS(rows, j, 1)));
    tp_tensor *w =
        tpi_put(&temps, tpo_reshape(tpi_put(&temps, tpo_permute(weight, TP_INTS(1, 0, 2))), TP_INTS(i, o * j)));
    tp_tensor *xw = tpi_put(&temps, tpo_reshape(tpi_put(&temps, tpo_mm(x, w)), TP_INTS(rows, o, j)));
    tp_tensor *out = tpi_put(&temps, tpo_reshape(tpi_put(&temps, tpo_bmm(xw, y)), tp_ints_view(shape, input1->ndim)));
    return tpi_release_temporaries(&temps,
                                   bias ? tpo_add(TP_OPERAND(out), TP_OPERAND(bias), tp_int(1)) : tpi_retain(out));
}

/* ---- tensordot, kron, multi_dot ---- */

/* t as a matrix: the kept dims against the contracted ones, in the order given; kept sizes are appended to shape. */
static tp_tensor *contraction_side(tp_tensor *t, tp_ints dims, bool contracted_first, int64_t inner, int64_t *shape,
                                   int *ndim) {
    bool contracted[TP_MAX_DIMS] = {false};
    int64_t order[TP_MAX_DIMS], rows = 1;
    int n = 0;
    for (int64_t i = 0; contracted_first && i < dims.n; i++)
        order[n++] = dims.v[i] < 0 ? dims.v[i] + t->ndim : dims.v[i];
    for (int64_t i = 0; i < dims.n; i++) contracted[dims.v[i] < 0 ? dims.v[i] + t->ndim : dims.v[i]] = true;
    for (int d = 0; d < t->ndim; d++)
        if (!contracted[d]) {
            order[n++] = d;
            shape[(*ndim)++] = t->shape[d];
            rows *= t->shape[d];
        }
    for (int64_t i = 0; !contracted_first && i < dims.n; i++)
        order[n++] = dims.v[i] < 0 ? dims.v[i] + t->ndim : dims.v[i];
    tpi_temporaries temps = {0};
    tp_tensor *ordered = tpi_put(&temps, tpo_permute(t, tp_ints_view(order, n)));
    return tpi_release_temporaries(
        &temps, tpo_reshape(ordered, contracted_first ? TP_INTS(inner, rows) : TP_INTS(rows, inner)));
}

tp_tensor *tpi_compose_tensordot(tp_tensor *self, tp_tensor *other, tp_ints dims_self, tp_ints dims_other) {
    if (dims_self.n != dims_other.n)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "arguments 'dims_self' and 'dims_other': expected lists of the same length, got %lld and %lld dims",
            (long long)dims_self.n, (long long)dims_other.n);
    bool mask[TP_MAX_DIMS];
    if (dims_self.n && (!tpi_wrap_dims(dims_self, self->ndim, mask) || !tpi_wrap_dims(dims_other, other->ndim, mask)))
        return NULL;
    int64_t inner = 1, shape[2 * TP_MAX_DIMS];
    int ndim = 0;
    tpi_temporaries temps = {0};
    for (int64_t i = 0; self && other && i < dims_self.n; i++) {
        int a = TPI_DIM(self, dims_self.v[i]), b = TPI_DIM(other, dims_other.v[i]);
        int64_t m = self->shape[a], n = other->shape[b], at = m == 1 ? b : a;
        inner *= m < n ? m : n;
        if (m == n) continue;
        if (m == 1)
            other = tpi_put(&temps, tpo_sum(other, tp_ints_view(&at, 1), true,
                                            (tp_dtype)other->dtype)); /* a dim of one goes with any */
        else if (n == 1)
            self = tpi_put(&temps, tpo_sum(self, tp_ints_view(&at, 1), true, (tp_dtype)self->dtype));
        else
            return tpi_release_temporaries(
                &temps,
                tpi_fail(TP_ERR_RUNTIME,
                         "contracted dimensions need to match, but first has size %lld in dim %lld and second has "
                         "size %lld in dim %lld",
                         (long long)m, (long long)dims_self.v[i], (long long)n, (long long)dims_other.v[i]));
    }
    if (!self || !other) return tpi_release_temporaries(&temps, NULL);
    if (self->ndim + other->ndim - 2 * dims_self.n > TP_MAX_DIMS)
        return tpi_release_temporaries(
            &temps, tpi_fail(TP_ERR_VALUE, "the result would have more than %d dimensions", TP_MAX_DIMS));
    tp_tensor *a = tpi_put(&temps, contraction_side(self, dims_self, false, inner, shape, &ndim));
    tp_tensor *b = tpi_put(&temps, contraction_side(other, dims_other, true, inner, shape, &ndim));
    tp_tensor *product = tpi_put(&temps, tpo_mm(a, b));
    return tpi_release_temporaries(&temps, tpo_reshape(product, tp_ints_view(shape, ndim)));
}

/* The last dim of t, which has one of size 1 before or behind it, spelt out to both sizes as one dim: the product then
 * runs along rows of the result instead of short pieces of them. */
static tp_tensor *spell_out(tpi_temporaries *temps, tp_tensor *t, int64_t left, int64_t right) {
    int64_t shape[TP_MAX_DIMS];
    if (!t) return NULL;
    memcpy(shape, t->shape, sizeof *shape * (size_t)t->ndim);
    shape[t->ndim - 2] = left;
    shape[t->ndim - 1] = right;
    tp_tensor *wide = tpi_put(temps, tpo_expand(t, tp_ints_view(shape, t->ndim), false));
    shape[t->ndim - 2] = left * right;
    return tpi_put(temps, tpo_reshape(wide, tp_ints_view(shape, t->ndim - 1)));
}

tp_tensor *tpi_compose_kron(tp_tensor *self, tp_tensor *other) {
    enum { SHORT = 256, FEW = 4 }; /* pieces of a row that long are worth a loop; rows that few are not worth copies */
    int n = self->ndim > other->ndim ? self->ndim : other->ndim;
    if (2 * n > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "expected at most %d dimensions, got %d", TP_MAX_DIMS / 2, n);
    int64_t a[TP_MAX_DIMS], b[TP_MAX_DIMS], shape[TP_MAX_DIMS];
    for (int d = 0; d < n; d++) {
        int da = d - (n - self->ndim), db = d - (n - other->ndim);
        a[2 * d] = da < 0 ? 1 : self->shape[da];
        a[2 * d + 1] = 1;
        b[2 * d] = 1;
        b[2 * d + 1] = db < 0 ? 1 : other->shape[db];
        shape[d] = a[2 * d] * b[2 * d + 1];
    }
    tpi_temporaries temps = {0};
    tp_tensor *left = tpi_put(&temps, tpo_reshape(self, tp_ints_view(a, 2 * n))),
              *right = tpi_put(&temps, tpo_reshape(other, tp_ints_view(b, 2 * n)));
    const int64_t across = n ? a[2 * n - 2] : 1, along = n ? b[2 * n - 1] : 1;
    if (across > 1 && along < SHORT && self->numel >= FEW * across && other->numel >= FEW * along) {
        left = spell_out(&temps, left, across, along);
        right = spell_out(&temps, right, across, along);
    }
    tp_tensor *product = tpi_put(&temps, tpo_mul(TP_OPERAND(left), TP_OPERAND(right)));
    return tpi_release_temporaries(&temps, tpo_reshape(product, tp_ints_view(shape, n)));
}

enum { CHAIN = 64 };
typedef struct chain {
    tp_tensor *of[CHAIN];
    int cut[CHAIN][CHAIN];
} chain;

/* The classic dynamic programme: where to cut each stretch of matrices so that the multiplications are fewest. */
static void plan_chain(chain *c, int n) {
    double cost[CHAIN][CHAIN];
    for (int i = 0; i < n; i++) cost[i][i] = 0;
    for (int length = 1; length < n; length++)
        for (int i = 0; i + length < n; i++) {
            int j = i + length;
            cost[i][j] = -1;
            for (int k = i; k < j; k++) {
                double total = cost[i][k] + cost[k + 1][j] +
                               (double)c->of[i]->shape[0] * (double)c->of[k]->shape[1] * (double)c->of[j]->shape[1];
                if (cost[i][j] >= 0 && total >= cost[i][j]) continue;
                cost[i][j] = total;
                c->cut[i][j] = k;
            }
        }
}

static tp_tensor *multiply_chain(chain *c, int i, int j) {
    if (i == j) return tpi_retain(c->of[i]);
    tpi_temporaries temps = {0};
    tp_tensor *left = tpi_put(&temps, multiply_chain(c, i, c->cut[i][j])),
              *right = tpi_put(&temps, multiply_chain(c, c->cut[i][j] + 1, j));
    return tpi_release_temporaries(&temps, tpo_mm(left, right));
}

tp_tensor *tpi_compose_multi_dot(tp_tensors tensors) {
    int n = (int)tensors.n;
    if (n < 1 || n > CHAIN - 2)
        return tpi_fail(TP_ERR_VALUE, "argument 'tensors': expected 1 to %d tensors, got %lld", CHAIN - 2,
                        (long long)tensors.n);
    if (n == 1) return tpi_retain(tensors.v[0]);
    tpi_temporaries ends = {0};
    chain c = {0};
    for (int i = 0; i < n; i++) {
        tp_tensor *t = tensors.v[i];
        bool end = i == 0 || i == n - 1;
        if (t->ndim != 2 && !(end && t->ndim == 1))
            return tpi_release_temporaries(
                &ends, tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': tensor %d must have 2 dimensions%s, got shape %s",
                                i, end ? " or 1" : "", tpi_shape_text(tpi_shape(t))));
        c.of[i] = t->ndim == 2 ? t : tpi_put(&ends, tpo_unsqueeze(t, i == 0 ? 0 : 1));
        if (!c.of[i]) return tpi_release_temporaries(&ends, NULL);
        if (i > 0 && c.of[i - 1]->shape[1] != c.of[i]->shape[0])
            return tpi_release_temporaries(
                &ends, tpi_fail(TP_ERR_RUNTIME,
                                "argument 'tensors': tensors %d and %d, of shapes %s and %s, cannot be multiplied",
                                i - 1, i, tpi_shape_text(tpi_shape(tensors.v[i - 1])), tpi_shape_text(tpi_shape(t))));
    }
    plan_chain(&c, n);
    tp_tensor *product = multiply_chain(&c, 0, n - 1);
    if (tensors.v[0]->ndim == 1) product = tpi_release_then(product, tpo_squeeze_dim(product, 0));
    if (tensors.v[n - 1]->ndim == 1) product = tpi_release_then(product, tpo_squeeze_dim(product, -1));
    return tpi_release_temporaries(&ends, product);
}

/* ---- cross, matrix_power ---- */

enum { CROSS_GROUP = 8192 }; /* vectors that a task multiplies */

/* Made of other operators, which broadcast and promote. The result is contiguous, as all ways give it. */
static tp_tensor *cross_by_rolls(tp_tensor *self, tp_tensor *other, int64_t dim) {
    tpi_temporaries temps = {0};
    tp_tensor *s1 = tpi_put(&temps, tpo_roll(self, TP_INTS(-1), TP_INTS(dim))),
              *s2 = tpi_put(&temps, tpo_roll(self, TP_INTS(-2), TP_INTS(dim)));
    tp_tensor *o1 = tpi_put(&temps, tpo_roll(other, TP_INTS(-1), TP_INTS(dim))),
              *o2 = tpi_put(&temps, tpo_roll(other, TP_INTS(-2), TP_INTS(dim)));
    tp_tensor *plus = tpi_put(&temps, tpo_mul(TP_OPERAND(s1), TP_OPERAND(o2))),
              *minus = tpi_put(&temps, tpo_mul(TP_OPERAND(s2), TP_OPERAND(o1)));
    tp_tensor *product = tpi_put(&temps, tpo_sub(TP_OPERAND(plus), TP_OPERAND(minus), tp_int(1)));
    return tpi_release_temporaries(&temps, product ? tpo_contiguous(product, TP_CONTIGUOUS) : NULL);
}

/* One element of each product after the other, for vectors whose elements are `apart` from each other. */
#define CROSS(T, name)                                                                           \
    static void name(int64_t n, int64_t apart, const char *left, const char *right, char *out) { \
        const T *a = (const T *)left, *b = (const T *)right;                                     \
        T *c = (T *)out;                                                                         \
        const int64_t step = apart == 1 ? 3 : 1;                                                 \
        for (int64_t i = 0; i < n; i++, a += step, b += step, c += step) {                       \
            const T a0 = a[0], a1 = a[apart], a2 = a[2 * apart];                                 \
            const T b0 = b[0], b1 = b[apart], b2 = b[2 * apart];                                 \
            c[0] = a1 * b2 - a2 * b1;                                                            \
            c[apart] = a2 * b0 - a0 * b2;                                                        \
            c[2 * apart] = a0 * b1 - a1 * b0;                                                    \
        }                                                                                        \
    }
CROSS(float, cross_f32)
CROSS(double, cross_f64)

typedef struct crossing {
    void (*run)(int64_t n, int64_t apart, const char *left, const char *right, char *out);
    const char *a, *b;
    char *out;
    int64_t outer, inner, group, item; /* vectors are (outer, 3, inner); `group` of the outer ones for a task */
} crossing;

static void cross_some(int64_t task, void *context) {
    const crossing *c = context;
    const int64_t first = task * c->group, n = tpi_min64(c->group, c->outer - first), size = 3 * c->inner * c->item;
    if (c->inner == 1) {
        c->run(n, 1, c->a + first * size, c->b + first * size, c->out + first * size);
        return;
    }
    for (int64_t i = first; i < first + n; i++)
        c->run(c->inner, c->inner, c->a + i * size, c->b + i * size, c->out + i * size);
}

/* Of tensors of one shape on the host. */
static tp_tensor *cross_in_memory(tp_tensor *self, tp_tensor *other, int d) {
    tp_tensor *a = tpi_contiguous_data(self), *b = a ? tpi_contiguous_data(other) : NULL;
    tp_tensor *out = b ? tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    if (out && out->numel) {
        crossing c = {.run = self->dtype == TP_FLOAT32 ? cross_f32 : cross_f64,
                      .a = a->data,
                      .b = b->data,
                      .out = out->data,
                      .inner = 1,
                      .item = (int64_t)tpi_itemsize(self)};
        for (int i = d + 1; i < self->ndim; i++) c.inner *= self->shape[i];
        c.outer = out->numel / (3 * c.inner);
        c.group = tpi_max64(1, CROSS_GROUP / c.inner);
        tpi_parallel_for(tpi_ceil_div(c.outer, c.group), out->numel * c.item >= TPI_WORTH_BYTES, cross_some, &c);
    }
    tpi_release(a);
    tpi_release(b);
    return out;
}

tp_tensor *tpi_native_cross_product(tp_tensor *self, tp_tensor *other, int64_t dim) {
    const int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    const bool alike = self->dtype == other->dtype && self->ndim == other->ndim && self->shape[d] == 3 &&
                       !memcmp(self->shape, other->shape, sizeof *self->shape * (size_t)self->ndim);
    const bool here = tpi_device(self).type == TP_CPU && tpi_device(other).type == TP_CPU && !tpi_is_made_up(self);
    if (alike && here && (self->dtype == TP_FLOAT32 || self->dtype == TP_FLOAT64))
        return cross_in_memory(self, other, d);
    tp_tensor *a = tpi_detached(self), *b = a ? tpi_detached(other) : NULL,
              *product = b ? cross_by_rolls(a, b, dim) : NULL;
    tpi_release(a);
    tpi_release(b);
    return product;
}

/* One kernel has whole vectors, of tensors that are spread to one shape first. */
static tp_tensor *cross_at_once(tp_tensor *self, tp_tensor *other, int64_t dim) {
    int64_t shape[TP_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) shape[d] = self->shape[d] == 1 ? other->shape[d] : self->shape[d];
    tpi_temporaries temps = {0};
    tp_tensor *a = tpi_put(&temps, tpo_expand(self, tp_ints_view(shape, self->ndim), false)),
              *b = a ? tpi_put(&temps, tpo_expand(other, tp_ints_view(shape, self->ndim), false)) : NULL;
    return tpi_release_temporaries(&temps, b ? tpo_cross_product(a, b, dim) : NULL);
}

tp_tensor *tpi_compose_linalg_cross(tp_tensor *self, tp_tensor *other, int64_t dim) {
    int ds = TPI_DIM(self, dim), d = ds < 0 ? -1 : TPI_DIM(other, dim);
    if (d < 0) return NULL;
    if (self->ndim != other->ndim || self->shape[d] != 3 || other->shape[d] != 3)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "argument 'dim': expected tensors of as many dims and size 3 along dim %lld, got shapes %s and %s",
            (long long)dim, tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)));
    bool at_once = tpi_same_device(tpi_device(self), tpi_device(other)) && self->dtype == other->dtype &&
                   tp_dtype_is_floating((tp_dtype)self->dtype) && tp_is_contiguous(self) && tp_is_contiguous(other);
    for (int i = 0; i < self->ndim; i++)
        at_once = at_once && (self->shape[i] == other->shape[i] || self->shape[i] == 1 || other->shape[i] == 1);
    return at_once ? cross_at_once(self, other, dim) : cross_by_rolls(self, other, dim);
}

tp_tensor *tpi_compose_cross(tp_tensor *self, tp_tensor *other, int64_t dim) {
    if (dim == TP_NONE) {
        for (int d = 0; d < self->ndim && dim == TP_NONE; d++)
            if (self->shape[d] == 3) dim = d;
        if (dim == TP_NONE)
            return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected a dim of size 3, got shape %s",
                            tpi_shape_text(tpi_shape(self)));
    }
    return tpo_linalg_cross(self, other, dim);
}

static tp_tensor *identity_like(tp_tensor *self) {
    int64_t n = last_size(self, 1);
    tpi_temporaries temps = {0};
    tp_tensor *eye = tpi_put(&temps, tpo_eye(n, TP_NONE, (tp_dtype)self->dtype, tpi_device(self)));
    tp_tensor *wide = tpi_put(&temps, tpo_expand(eye, tpi_shape(self), false));
    return tpi_release_temporaries(&temps, tpo_clone(wide, TP_CONTIGUOUS));
}

tp_tensor *tpi_compose_matrix_power(tp_tensor *self, int64_t n) {
    if (self->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME, "linalg.matrix_power: The input tensor A must have at least 2 dimensions.");
    if (last_size(self, 1) != last_size(self, 2))
        return tpi_fail(TP_ERR_RUNTIME,
                        "linalg.matrix_power: A must be batches of square matrices, but they are %lld by %lld matrices",
                        (long long)last_size(self, 2), (long long)last_size(self, 1));
    if (n == 0) { /* a function of self all the same: its derivative is zero */
        tp_tensor *one = identity_like(self),
                  *always = one ? tpo_ones(tp_ints_view(self->shape, 0), TP_BOOL, tpi_device(self)) : NULL;
        tp_tensor *power = always ? tpo_where(always, TP_OPERAND(one), TP_OPERAND(self)) : NULL;
        tpi_release(always);
        return tpi_release_then(one, power);
    }
    tp_tensor *base = n < 0 ? tpo_linalg_inv(self) : tpi_retain(self), *power = NULL;
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    while (base) {
        if (left & 1) {
            tp_tensor *next = power ? tpo_matmul(power, base) : tpi_retain(base);
            tpi_release(power);
            if (!(power = next)) break;
        }
        if (!(left >>= 1)) break;
        base = tpi_release_then(base, tpo_matmul(base, base));
    }
    if (!base) power = tpi_release_then(power, NULL);
    tpi_release(base);
    return power;
}

tp_tensor *tpi_compose_tensordot_count(tp_tensor *self, tp_tensor *other, int64_t dims) {
    if (dims < 0 || dims > self->ndim || dims > other->ndim)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "argument 'dims': expected 0 to the number of dims of both tensors, got %lld for shapes %s and %s",
            (long long)dims, tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)));
    int64_t last[TP_MAX_DIMS], first[TP_MAX_DIMS];
    for (int64_t i = 0; i < dims; i++) {
        last[i] = self->ndim - dims + i;
        first[i] = i;
    }
    return tpo_tensordot(self, other, tp_ints_view(last, dims), tp_ints_view(first, dims));
}
