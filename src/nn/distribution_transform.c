/* Transforms of random numbers: a row of functions per kind, and what a kind is made of. Compositions of transforms are
 * transforms, too. */
#include "nn/distribution_transform.h"
#include "autograd/glue.h"
#include "base/handle.h"
#include "base/memory.h"
#include "nn/distribution.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <string.h>
#include <taper/ops.h>

typedef struct kind {
    const char *name;
    tp_tensor *(*forward)(tp_transform *t, tp_tensor *x);
    tp_tensor *(*inverse)(tp_transform *t, tp_tensor *y);
    tp_tensor *(*log_abs_det)(tp_transform *t, tp_tensor *x, tp_tensor *y); /* NULL: there is none */
    tp_tensor *(*sign)(tp_transform *t);                                    /* NULL: it grows */
    bool signless;                                                          /* it neither grows nor falls */
    int in_dims, out_dims;                                                  /* of one value */
} kind;

struct tp_transform {
    const kind *kind;
    tp_tensor *a, *b;     /* parameters; owned, or NULL */
    tp_transform **parts; /* what it is made of; owned */
    int64_t n;
    tp_distribution *distribution; /* owned, or NULL */
    int64_t in_dims, out_dims;
    int64_t dim, shape[2 * TP_MAX_DIMS], nshape[2]; /* a dim; two shapes, or lengths */
    tp_transform_fn forward, inverse;               /* the user's */
    tp_transform_det_fn log_abs_det;
    void *context;
    uint32_t alive; /* base/handle.h */
};

int64_t tpi_transform_in_dims(const tp_transform *t) { return t->in_dims; }
int64_t tpi_transform_out_dims(const tp_transform *t) { return t->out_dims; }
tp_tensor *tpi_transform_forward(tp_transform *t, tp_tensor *x) { return x ? t->kind->forward(t, x) : NULL; }
tp_tensor *tpi_transform_inverse(tp_transform *t, tp_tensor *y) { return y ? t->kind->inverse(t, y) : NULL; }
tp_tensor *tpi_transform_log_abs_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    if (!x || !y) return NULL;
    if (!t->kind->log_abs_det)
        return tpi_fail(TP_ERR_MISSING, "tp_transform_log_abs_det: %s has no Jacobian", t->kind->name);
    return t->kind->log_abs_det(t, x, y);
}
tp_tensor *tpi_transform_sign(tp_transform *t) {
    if (t->kind->signless)
        return tpi_fail(TP_ERR_MISSING, "tp_distribution_cdf: %s neither grows nor falls", t->kind->name);
    return t->kind->sign ? t->kind->sign(t) : NULL;
}
tp_tensor *tpi_sum_rightmost(tp_tensor *t, int64_t dims) {
    int64_t last[TP_MAX_DIMS];
    for (int64_t i = 0; i < dims && i < TP_MAX_DIMS; i++) last[i] = -1 - i;
    return dims > 0 ? tp_sum(t, .dim = tp_ints_view(last, dims)) : t;
}

static double tiny(const tp_tensor *t) { return tpi_smallest_of(t); }
static double below_one(const tp_tensor *t) { return 1 - tpi_epsilon_of(t); }
static tp_tensor *inside(tp_tensor *y) { return tp_clamp(y, .min = tp_float(tiny(y)), .max = tp_float(below_one(y))); }

/* ---- Of single numbers ---- */
#define PLAIN(name, argument, result)                              \
    static tp_tensor *name(tp_transform *t, tp_tensor *argument) { \
        (void)t;                                                   \
        return result;                                             \
    }
#define DET(name, result)                                                 \
    static tp_tensor *name(tp_transform *t, tp_tensor *x, tp_tensor *y) { \
        (void)t;                                                          \
        (void)y;                                                          \
        return result;                                                    \
    }
PLAIN(abs_forward, x, tp_abs(x))
PLAIN(abs_inverse, y, y)
PLAIN(exp_forward, x, tp_exp(x))
PLAIN(exp_inverse, y, tp_log(y))
DET(exp_det, x)
PLAIN(sigmoid_forward, x, inside(tp_sigmoid(x)))
static tp_tensor *sigmoid_inverse(tp_transform *t, tp_tensor *y) {
    (void)t;
    tp_tensor *share = inside(y);
    return tp_sub(tp_log(share), tp_log1p(tp_neg(share)));
}
DET(sigmoid_det, tp_sub(tp_neg(tp_softplus(tp_neg(x))), tp_softplus(x)))
PLAIN(softplus_forward, x, tp_softplus(x))
PLAIN(softplus_inverse, y, tp_add(y, tp_log(tp_neg(tp_expm1(tp_neg(y))))))
DET(softplus_det, tp_neg(tp_softplus(tp_neg(x))))
PLAIN(tanh_forward, x, tp_tanh(x))
PLAIN(tanh_inverse, y, tp_atanh(y))
DET(tanh_det, tp_mul(tp_sub(tp_sub(M_LN2, x), tp_softplus(tp_mul(x, -2))), 2))

static tp_tensor *power_forward(tp_transform *t, tp_tensor *x) { return tp_pow(x, t->a); }
static tp_tensor *power_inverse(tp_transform *t, tp_tensor *y) { return tp_pow(y, tp_reciprocal(t->a)); }
static tp_tensor *power_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    return tp_log(tp_abs(tp_div(tp_mul(y, t->a), x)));
}
static tp_tensor *power_sign(tp_transform *t) { return tp_sign(t->a); }

static tp_tensor *affine_forward(tp_transform *t, tp_tensor *x) { return tp_add(tp_mul(x, t->b), t->a); }
static tp_tensor *affine_inverse(tp_transform *t, tp_tensor *y) { return tp_div(tp_sub(y, t->a), t->b); }
static tp_tensor *affine_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    (void)y;
    return tpi_sum_rightmost(tp_expand_as(tp_log(tp_abs(t->b)), x), t->in_dims);
}
static tp_tensor *affine_sign(tp_transform *t) { return tp_sign(t->b); }

/* ---- Of rows ---- */
PLAIN(softmax_forward, x, tp_softmax(x, -1))
PLAIN(softmax_inverse, y, tp_log(y))

/* log(parts that are left), so that zeros give equal parts. */
static tp_tensor *stick_offset(tp_tensor *like, int64_t n) {
    tp_tensor *done = tp_arange_start(1, n + 1, .dtype = tp_dtype_of(like), .device = tp_device_of(like));
    return tp_log(tp_sub((double)(n + 1), done));
}
static tp_tensor *padded(tp_tensor *t, bool front) {
    return tp_constant_pad_nd(t, front ? TP_INTS(1, 0) : TP_INTS(0, 1), .value = tp_float(1));
}
static tp_tensor *stick_forward(tp_transform *t, tp_tensor *x) {
    (void)t;
    tp_tensor *share = inside(tp_sigmoid(tp_sub(x, stick_offset(x, tp_size(x, -1)))));
    return tp_mul(padded(share, false), padded(tp_cumprod(tp_sub(1, share), -1), true));
}
static tp_tensor *stick_inverse(tp_transform *t, tp_tensor *y) {
    (void)t;
    const int64_t n = tp_size(y, -1) - 1;
    tp_tensor *parts = tp_narrow(y, -1, 0, n);
    tp_tensor *rest = tp_clamp(tp_sub(1, tp_cumsum(parts, -1)), .min = tp_float(tiny(y)));
    return tp_add(tp_sub(tp_log(parts), tp_log(rest)), stick_offset(y, n));
}
static tp_tensor *stick_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    (void)t;
    const int64_t n = tp_size(x, -1);
    tp_tensor *moved = tp_sub(x, stick_offset(x, n));
    tp_tensor *each = tp_add(tp_sub(tp_logsigmoid(moved), moved), tp_log(tp_narrow(y, -1, 0, n)));
    return tpi_sum_rightmost(each, 1);
}

/* Numbers below a matrix's diagonal, and the matrix of them: rows of d (d - 1) / 2. */
static int64_t side_of(int64_t n) { return (int64_t)llround(sqrt(0.25 + 2 * (double)n) + 0.5); }
static tp_tensor *below_indices(int64_t d, int64_t offset, tp_tensor *like) {
    tp_tensor *indices = tp_tril_indices(d, d, .offset = offset, .device = tp_device_of(like));
    return tp_add(tp_mul(tp_select(indices, 0, 0), d), tp_select(indices, 0, 1));
}
static tp_tensor *from_below(tp_tensor *row, int64_t d) {
    int64_t whole[TP_MAX_DIMS + 2];
    if (!row) return NULL;
    const int64_t batch = tp_ndim(row) - 1;
    for (int64_t i = 0; i < batch; i++) whole[i] = tp_size(row, i);
    whole[batch] = d * d;
    tp_tensor *flat = tp_zeros(tp_ints_view(whole, batch + 1), .dtype = tp_dtype_of(row), .device = tp_device_of(row));
    whole[batch] = whole[batch + 1] = d;
    return tp_view(tp_index_copy(flat, -1, below_indices(d, -1, row), row), tp_ints_view(whole, batch + 2));
}
static tp_tensor *to_below(tp_tensor *matrix, int64_t offset) {
    return tp_index_select(tp_flatten(matrix, .start_dim = -2), -1, below_indices(tp_size(matrix, -1), offset, matrix));
}
static tp_tensor *corr_forward(tp_transform *t, tp_tensor *x) {
    (void)t;
    const int64_t n = tp_size(x, -1), d = side_of(n);
    if (d * (d - 1) / 2 != n)
        return tpi_fail(TP_ERR_VALUE, "tp_transform_forward: rows of %lld numbers are no lower triangles",
                        (long long)n);
    const tp_scalar least = tp_float(-below_one(x)), most = tp_float(below_one(x));
    tp_tensor *below = from_below(tp_clamp(tp_tanh(x), .min = least, .max = most), d);
    tp_tensor *left = tp_cumprod(tp_sqrt(tp_sub(1, tp_square(below))), -1);
    tp_tensor *eye = tp_diag_embed(tp_ones_like(tp_select(below, -1, 0)));
    return tp_mul(tp_add(below, eye), padded(tp_narrow(left, -1, 0, d - 1), true));
}
static tp_tensor *rest_of_rows(tp_tensor *y) { return tp_sub(1, tp_cumsum(tp_square(y), -1)); }
static tp_tensor *corr_inverse(tp_transform *t, tp_tensor *y) {
    (void)t;
    tp_tensor *left = padded(tp_narrow(rest_of_rows(y), -1, 0, tp_size(y, -1) - 1), true);
    return tp_atanh(tp_div(to_below(y, -1), tp_sqrt(to_below(left, -1))));
}
static tp_tensor *corr_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    (void)t;
    tp_tensor *rows = tp_mul(tpi_sum_rightmost(tp_log(to_below(rest_of_rows(y), -2)), 1), 0.5);
    tp_tensor *each = tp_sub(tp_add(x, tp_softplus(tp_mul(x, -2))), M_LN2);
    return tp_sub(rows, tp_mul(tpi_sum_rightmost(each, 1), 2));
}

/* ---- Of matrices ---- */
static tp_tensor *with_diagonal(tp_tensor *matrix, bool raised) {
    tp_tensor *diagonal = tp_diagonal(matrix, .dim1 = -2, .dim2 = -1);
    return tp_add(tp_tril(matrix, .diagonal = -1), tp_diag_embed(raised ? tp_exp(diagonal) : tp_log(diagonal)));
}
PLAIN(lower_forward, x, with_diagonal(x, true))
PLAIN(lower_inverse, y, with_diagonal(y, false))
static tp_tensor *definite_forward(tp_transform *t, tp_tensor *x) {
    (void)t;
    tp_tensor *factor = with_diagonal(x, true);
    return tp_matmul(factor, tp_transpose(factor, -2, -1));
}
PLAIN(definite_inverse, y, with_diagonal(tp_linalg_cholesky(y), false))

static tp_tensor *reshaped(tp_transform *t, tp_tensor *x, int from) {
    int64_t whole[2 * TP_MAX_DIMS];
    const int64_t batch = tp_ndim(x) - t->nshape[from];
    if (batch < 0)
        return tpi_fail(TP_ERR_VALUE, "tp_transform_reshape: too few dims in shape %s", tpi_shape_text(tpi_shape(x)));
    for (int64_t i = 0; i < batch; i++) whole[i] = tp_size(x, i);
    const int64_t *to = t->shape + (from ? 0 : TP_MAX_DIMS);
    for (int64_t i = 0; i < t->nshape[!from]; i++) whole[batch + i] = to[i];
    return tp_reshape(x, tp_ints_view(whole, batch + t->nshape[!from]));
}
static tp_tensor *reshape_forward(tp_transform *t, tp_tensor *x) { return reshaped(t, x, 0); }
static tp_tensor *reshape_inverse(tp_transform *t, tp_tensor *y) { return reshaped(t, y, 1); }
static tp_tensor *reshape_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    (void)y;
    return tpi_sum_rightmost(tp_zeros_like(x), t->nshape[0]);
}

/* ---- Of others ---- */
static tp_tensor *compose_forward(tp_transform *t, tp_tensor *x) {
    for (int64_t i = 0; i < t->n; i++) x = tpi_transform_forward(t->parts[i], x);
    return x;
}
static tp_tensor *compose_inverse(tp_transform *t, tp_tensor *y) {
    for (int64_t i = t->n - 1; i >= 0; i--) y = tpi_transform_inverse(t->parts[i], y);
    return y;
}
static tp_tensor *compose_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    tp_tensor *total = NULL;
    int64_t dims = t->in_dims;
    for (int64_t i = 0; i < t->n && x; i++) {
        tp_transform *part = t->parts[i];
        tp_tensor *to = i + 1 < t->n ? tpi_transform_forward(part, x) : y;
        tp_tensor *here = tpi_sum_rightmost(tpi_transform_log_abs_det(part, x, to), dims - part->in_dims);
        total = total ? tp_add(total, here) : here;
        dims += part->out_dims - part->in_dims;
        x = to;
    }
    return t->n ? total : tp_zeros_like(x);
}
static tp_tensor *compose_sign(tp_transform *t) {
    tp_tensor *sign = NULL;
    for (int64_t i = 0; i < t->n && tp_ok(); i++) {
        tp_tensor *one = tpi_transform_sign(t->parts[i]);
        sign = sign && one ? tp_mul(sign, one) : one ? one : sign;
    }
    return sign;
}

static tp_tensor *base_forward(tp_transform *t, tp_tensor *x) { return tpi_transform_forward(t->parts[0], x); }
static tp_tensor *base_inverse(tp_transform *t, tp_tensor *y) { return tpi_transform_inverse(t->parts[0], y); }
static tp_tensor *base_sign(tp_transform *t) { return tpi_transform_sign(t->parts[0]); }
static tp_tensor *independent_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    return tpi_sum_rightmost(tpi_transform_log_abs_det(t->parts[0], x, y), t->dim);
}
static tp_tensor *back_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    return tp_neg(tpi_transform_log_abs_det(t->parts[0], y, x));
}

/* The slices of a value: as many as there are parts. */
static tp_tensors slices(tp_transform *t, tp_tensor *x) {
    const bool cat = t->nshape[0] > 0;
    tp_tensors all =
        cat ? tp_split_with_sizes(x, tp_ints_view(t->shape, t->n), .dim = t->dim) : tp_unbind(x, .dim = t->dim);
    if (all.n == t->n) return all;
    if (tp_ok())
        tpi_fail(TP_ERR_VALUE, "%s: expected %lld slices along dim %lld, got shape %s", t->kind->name, (long long)t->n,
                 (long long)t->dim, tpi_shape_text(tpi_shape(x)));
    return (tp_tensors){.n = 0};
}
typedef tp_tensor *(*of_slice)(tp_transform *part, tp_tensor *x, tp_tensor *y);
static tp_tensor *slice_forward(tp_transform *p, tp_tensor *x, tp_tensor *y) {
    (void)y;
    return tpi_transform_forward(p, x);
}
static tp_tensor *slice_inverse(tp_transform *p, tp_tensor *x, tp_tensor *y) {
    (void)y;
    return tpi_transform_inverse(p, x);
}
static tp_tensor *slice_det(tp_transform *p, tp_tensor *x, tp_tensor *y) { return tpi_transform_log_abs_det(p, x, y); }
static tp_tensor *each_slice(tp_transform *t, tp_tensor *x, tp_tensor *y, of_slice function) {
    tp_tensors xs = slices(t, x), ys = y ? slices(t, y) : xs;
    if (!xs.n || !ys.n) return NULL;
    tp_tensor **out = tpi_malloc(sizeof *out * (size_t)t->n);
    bool ok = out != NULL;
    for (int64_t i = 0; ok && i < t->n; i++) ok = (out[i] = function(t->parts[i], xs.v[i], ys.v[i])) != NULL;
    /* A Jacobian of values with dims is short of these at its end. */
    const int64_t lost = function == slice_det ? t->in_dims : 0;
    const int64_t dim = (t->dim < 0 ? t->dim : t->dim - tp_ndim(x)) + lost;
    tp_tensor *joined = NULL;
    if (ok && t->nshape[0] && dim < 0) joined = tp_cat(tp_list(t->n, out), .dim = dim);
    if (ok && t->nshape[0] && dim >= 0) {
        joined = out[0];
        for (int64_t i = 1; i < t->n; i++) joined = tp_add(joined, out[i]);
    }
    if (ok && !t->nshape[0]) joined = tp_stack(tp_list(t->n, out), .dim = t->dim);
    tpi_mfree(out);
    return joined;
}
static tp_tensor *slices_forward(tp_transform *t, tp_tensor *x) { return each_slice(t, x, NULL, slice_forward); }
static tp_tensor *slices_inverse(tp_transform *t, tp_tensor *y) { return each_slice(t, y, NULL, slice_inverse); }
static tp_tensor *slices_det(tp_transform *t, tp_tensor *x, tp_tensor *y) { return each_slice(t, x, y, slice_det); }

static tp_tensor *cumulative_forward(tp_transform *t, tp_tensor *x) {
    return tpi_distribution_at(t->distribution, false, x);
}
static tp_tensor *cumulative_inverse(tp_transform *t, tp_tensor *y) {
    return tpi_distribution_at(t->distribution, true, y);
}
static tp_tensor *cumulative_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    (void)y;
    return tpi_distribution_log_prob(t->distribution, x);
}

static tp_tensor *own_forward(tp_transform *t, tp_tensor *x) {
    tp_tensor *y = NULL;
    TP_SCOPE
        y = tp_keep(t->forward(x, t->context));
    return y;
}
static tp_tensor *own_inverse(tp_transform *t, tp_tensor *y) {
    tp_tensor *x = NULL;
    TP_SCOPE
        x = tp_keep(t->inverse(y, t->context));
    return x;
}
static tp_tensor *own_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    if (!t->log_abs_det) return tpi_fail(TP_ERR_MISSING, "tp_transform_log_abs_det: the transform was given none");
    tp_tensor *det = NULL;
    TP_SCOPE
        det = tp_keep(t->log_abs_det(x, y, t->context));
    return det;
}

#define KIND(label, stem, ...) \
    { .name = label, .forward = stem##_forward, .inverse = stem##_inverse, __VA_ARGS__ }
static const kind abs_kind = KIND("AbsTransform", abs, .signless = true)
, exp_kind = KIND("ExpTransform", exp, .log_abs_det = exp_det)
, sigmoid_kind = KIND("SigmoidTransform", sigmoid, .log_abs_det = sigmoid_det)
, softplus_kind = KIND("SoftplusTransform", softplus, .log_abs_det = softplus_det)
, tanh_kind = KIND("TanhTransform", tanh, .log_abs_det = tanh_det)
, power_kind = KIND("PowerTransform", power, .log_abs_det = power_det, .sign = power_sign)
, affine_kind = KIND("AffineTransform", affine, .log_abs_det = affine_det, .sign = affine_sign)
, softmax_kind = KIND("SoftmaxTransform", softmax, .in_dims = 1, .out_dims = 1, .signless = true)
, stick_kind =
      KIND("StickBreakingTransform", stick, .log_abs_det = stick_det, .in_dims = 1, .out_dims = 1, .signless = true)
, corr_kind =
      KIND("CorrCholeskyTransform", corr, .log_abs_det = corr_det, .in_dims = 1, .out_dims = 2, .signless = true)
, lower_kind = KIND("LowerCholeskyTransform", lower, .in_dims = 2, .out_dims = 2, .signless = true)
, definite_kind = KIND("PositiveDefiniteTransform", definite, .in_dims = 2, .out_dims = 2, .signless = true)
, reshape_kind = KIND("ReshapeTransform", reshape, .log_abs_det = reshape_det, .signless = true)
, compose_kind = KIND("ComposeTransform", compose, .log_abs_det = compose_det, .sign = compose_sign)
, independent_kind = KIND("IndependentTransform", base, .log_abs_det = independent_det, .sign = base_sign)
,
    back_kind = {.name = "InverseTransform",
                 .forward = base_inverse,
                 .inverse = base_forward,
                 .log_abs_det = back_det,
                 .sign = base_sign},
    cat_kind = KIND("CatTransform", slices, .log_abs_det = slices_det, .signless = true)
, stack_kind = KIND("StackTransform", slices, .log_abs_det = slices_det, .signless = true)
, cumulative_kind = KIND("CumulativeDistributionTransform", cumulative, .log_abs_det = cumulative_det)
, own_kind = KIND("Transform", own, .log_abs_det = own_det, .signless = true);

/* ---- Making ---- */
static tp_transform *make(const kind *k) {
    tp_transform *t = tpi_new0(sizeof *t);
    if (!t) return NULL;
    t->kind = k;
    t->in_dims = k->in_dims;
    t->out_dims = k->out_dims;
    t->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(t, "transform");
    return t;
}
tp_transform *tp_transform_abs(void) { return make(&abs_kind); }
tp_transform *tp_transform_exp(void) { return make(&exp_kind); }
tp_transform *tp_transform_sigmoid(void) { return make(&sigmoid_kind); }
tp_transform *tp_transform_softplus(void) { return make(&softplus_kind); }
tp_transform *tp_transform_tanh(void) { return make(&tanh_kind); }
tp_transform *tp_transform_softmax(void) { return make(&softmax_kind); }
tp_transform *tp_transform_stick_breaking(void) { return make(&stick_kind); }
tp_transform *tp_transform_corr_cholesky(void) { return make(&corr_kind); }
tp_transform *tp_transform_lower_cholesky(void) { return make(&lower_kind); }
tp_transform *tp_transform_positive_definite(void) { return make(&definite_kind); }

tp_transform *tp_transform_power(tp_tensor *exponent) {
    if (!tpi_is_tensor_of(exponent, "exponent", __func__)) return NULL;
    tp_transform *t = make(&power_kind);
    if (t) t->a = tp_retain(exponent);
    return t;
}

static bool is_dims(int64_t dims, const char *argument, const char *function) {
    return (dims >= 0 && dims <= TP_MAX_DIMS) ||
           tpi_refuse(TP_ERR_VALUE, "%s: argument '%s': expected 0 to %d, got %lld", function, argument, TP_MAX_DIMS,
                      (long long)dims);
}
tp_transform *tp_transform_affine(tp_tensor *loc, tp_tensor *scale, int64_t event_dims) {
    if (!tpi_is_tensor_of(loc, "loc", __func__) || !tpi_is_tensor_of(scale, "scale", __func__)) return NULL;
    if (!is_dims(event_dims, "event_dims", __func__)) return NULL;
    tp_transform *t = make(&affine_kind);
    if (!t) return NULL;
    t->a = tp_retain(loc);
    t->b = tp_retain(scale);
    t->in_dims = t->out_dims = event_dims;
    return t;
}

static int64_t product(tp_ints shape) {
    int64_t n = 1;
    for (int64_t i = 0; i < shape.n; i++)
        if (shape.v[i] < 0 || __builtin_mul_overflow(n, shape.v[i], &n)) return -1;
    return n;
}
tp_transform *tp_transform_reshape(tp_ints in_shape, tp_ints out_shape) {
    if (!TPI_LIST_GIVEN(in_shape.v, in_shape.n) || !TPI_LIST_GIVEN(out_shape.v, out_shape.n)) return NULL;
    if (!is_dims(in_shape.n, "in_shape", __func__) || !is_dims(out_shape.n, "out_shape", __func__)) return NULL;
    if (product(in_shape) < 0 || product(in_shape) != product(out_shape))
        return tpi_fail(TP_ERR_VALUE,
                        "tp_transform_reshape: in_shape, out_shape have different numbers of elements, %s and %s",
                        tpi_shape_text(in_shape), tpi_shape_text(out_shape));
    tp_transform *t = make(&reshape_kind);
    if (!t) return NULL;
    for (int64_t i = 0; i < in_shape.n; i++) t->shape[i] = in_shape.v[i];
    for (int64_t i = 0; i < out_shape.n; i++) t->shape[TP_MAX_DIMS + i] = out_shape.v[i];
    t->in_dims = t->nshape[0] = in_shape.n;
    t->out_dims = t->nshape[1] = out_shape.n;
    return t;
}

static void free_all(int64_t n, tp_transform *const *parts) {
    for (int64_t i = 0; i < n; i++) tp_transform_free(parts[i]);
}
/* Takes the parts over; on failure they are freed. */
static tp_transform *of_parts(const kind *k, int64_t n, tp_transform *const *parts, const char *function) {
    if (!tpi_list_there(parts, n, function, "parts")) return NULL;
    bool all = true;
    for (int64_t i = 0; i < n; i++)
        all = all && tpi_handle_given(parts[i], parts[i] ? parts[i]->alive : 0, function, "parts", "a transform");
    tp_transform *t = all ? make(k) : NULL;
    if (t) t->parts = tpi_malloc(sizeof *t->parts * (size_t)(n + 1));
    if (!t || !t->parts) {
        free_all(n, parts);
        tp_transform_free(t);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) t->parts[i] = parts[i];
    t->n = n;
    return t;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
tp_transform *tp_transform_compose(int64_t n, tp_transform *const *parts) {
    tp_transform *t = of_parts(&compose_kind, n, parts, __func__);
    if (!t || !n) return t;
    /* As many dims of a batch go into a value as some part needs. */
    int64_t in = parts[n - 1]->out_dims, out = parts[0]->in_dims;
    for (int64_t i = n - 1; i >= 0; i--) in = most(in + parts[i]->in_dims - parts[i]->out_dims, parts[i]->in_dims);
    for (int64_t i = 0; i < n; i++) out = most(out + parts[i]->out_dims - parts[i]->in_dims, parts[i]->out_dims);
    t->in_dims = in;
    t->out_dims = out;
    return t;
}
tp_transform *tp_transform_independent(tp_transform *base, int64_t dims) {
    if (!TPI_HANDLE_GIVEN(base, "a transform")) return NULL;
    if (!is_dims(dims, "dims", __func__)) {
        tp_transform_free(base);
        return NULL;
    }
    tp_transform *t = of_parts(&independent_kind, 1, &base, __func__);
    if (!t) return NULL;
    t->dim = dims;
    t->in_dims = base->in_dims + dims;
    t->out_dims = base->out_dims + dims;
    return t;
}
tp_transform *tp_transform_inverse_of(tp_transform *base) {
    if (!TPI_HANDLE_GIVEN(base, "a transform")) return NULL;
    tp_transform *t = of_parts(&back_kind, 1, &base, __func__);
    if (!t) return NULL;
    t->in_dims = base->out_dims;
    t->out_dims = base->in_dims;
    return t;
}

static tp_transform *of_slices(const kind *k, int64_t n, tp_transform *const *parts, int64_t dim,
                               const char *function) {
    tp_transform *t = of_parts(k, n, parts, function);
    if (!t) return NULL;
    t->dim = dim;
    for (int64_t i = 0; i < n; i++) {
        t->in_dims = most(t->in_dims, parts[i]->in_dims);
        t->out_dims = most(t->out_dims, parts[i]->out_dims);
    }
    if (n > 0) return t;
    tp_transform_free(t);
    return tpi_fail(TP_ERR_VALUE, "%s: argument 'parts': expected one or more, got none", function);
}
tp_transform *tp_transform_stack(int64_t n, tp_transform *const *parts, int64_t dim) {
    return of_slices(&stack_kind, n, parts, dim, __func__);
}
tp_transform *tp_transform_cat(int64_t n, tp_transform *const *parts, int64_t dim, tp_ints lengths) {
    if (!TPI_LIST_GIVEN(lengths.v, lengths.n)) return NULL;
    tp_transform *t = of_slices(&cat_kind, n, parts, dim, __func__);
    if (!t) return NULL;
    if (n <= 2 * TP_MAX_DIMS && (!lengths.n || lengths.n == n)) {
        for (int64_t i = 0; i < n; i++) t->shape[i] = lengths.n ? lengths.v[i] : 1;
        t->nshape[0] = n;
        return t;
    }
    tp_transform_free(t);
    return tpi_fail(TP_ERR_VALUE,
                    "tp_transform_cat: argument 'lengths': expected one for each of %lld parts (at most %d)",
                    (long long)n, 2 * TP_MAX_DIMS);
}

tp_transform *tp_transform_cumulative_distribution(tp_distribution *d) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution")) return NULL;
    tp_transform *t = make(&cumulative_kind);
    if (t)
        t->distribution = d;
    else
        tp_distribution_free(d);
    return t;
}
tp_transform *tp_transform_new(tp_transform_fn forward, tp_transform_fn inverse, tp_transform_det_fn log_abs_det,
                               void *context) {
    if (!TPI_GIVEN(forward, "a function") || !TPI_GIVEN(inverse, "a function")) return NULL;
    tp_transform *t = make(&own_kind);
    if (!t) return NULL;
    t->forward = forward;
    t->inverse = inverse;
    t->log_abs_det = log_abs_det;
    t->context = context;
    return t;
}

void tp_transform_free(tp_transform *t) {
    if (!t || !TPI_HANDLE_GIVEN(t, "a transform")) return;
    free_all(t->n, t->parts);
    tpi_mfree(t->parts);
    tp_release(t->a);
    tp_release(t->b);
    tp_distribution_free(t->distribution);
    t->alive = 0;
    tpi_handle_delete(t, sizeof *t);
}

/* ---- Using ---- */
static bool has_dims(tp_tensor *x, int64_t dims, const char *function) {
    return tp_ndim(x) >= dims || tpi_refuse(TP_ERR_VALUE, "%s: expected %lld or more dims, got shape %s", function,
                                            (long long)dims, tpi_shape_text(tpi_shape(x)));
}
tp_tensor *tp_transform_forward(tp_transform *t, tp_tensor *x) {
    if (!TPI_HANDLE_GIVEN(t, "a transform") || !tpi_is_tensor(x, "x") || !has_dims(x, t->in_dims, __func__))
        return NULL;
    tp_tensor *y = NULL;
    TP_SCOPE
        y = tp_keep(tp_alias(tpi_transform_forward(t, x)));
    return y;
}
tp_tensor *tp_transform_inverse(tp_transform *t, tp_tensor *y) {
    if (!TPI_HANDLE_GIVEN(t, "a transform") || !tpi_is_tensor(y, "y") || !has_dims(y, t->out_dims, __func__))
        return NULL;
    tp_tensor *x = NULL;
    TP_SCOPE
        x = tp_keep(tp_alias(tpi_transform_inverse(t, y)));
    return x;
}
tp_tensor *tp_transform_log_abs_det(tp_transform *t, tp_tensor *x, tp_tensor *y) {
    if (!TPI_HANDLE_GIVEN(t, "a transform") || !tpi_is_tensor(x, "x") || !tpi_is_tensor(y, "y")) return NULL;
    if (!has_dims(x, t->in_dims, __func__) || !has_dims(y, t->out_dims, __func__)) return NULL;
    tp_tensor *det = NULL;
    TP_SCOPE
        det = tp_keep(tp_alias(tpi_transform_log_abs_det(t, x, y)));
    return det;
}
