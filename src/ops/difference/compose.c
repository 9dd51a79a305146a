/* Differences, integrals and gradients of samples along a dim, and covariances: compositions, so that they
 * differentiate themselves. */
#include "ops/formula.h"
#include "ops/native.h"
#include "tensor/sizes.h"

static tp_tensor *scale(tp_tensor *a, double k) { return tpo_mul(tp_operand_tensor(a), tp_operand_double(k)); }
/* a / (n h), for a distance h that may be complex. */
static tp_tensor *by_steps(tp_tensor *a, double n, tp_scalar h) {
    if (h.kind != TP_SCALAR_COMPLEX) return scale(a, 1 / (n * tp_scalar_to_double(h)));
    return tpo_div(tp_operand_tensor(a), tp_operand_scalar(tp_cplx(n * h.as.d[0], n * h.as.d[1])));
}
static tp_tensor *part(tpi_temporaries *temps, tp_tensor *t, int64_t dim, int64_t start, int64_t length) {
    return t ? tpi_put(temps, tpo_narrow(t, dim, start, length)) : NULL;
}

/* ---- Differences and integrals ---- */
static tp_tensor *difference(tp_tensor *t, int64_t dim) {
    tpi_temporaries temps = {0};
    int64_t n = tp_size(t, dim);
    if (n < 1) return tpi_retain(t);
    tp_tensor *after = part(&temps, t, dim, 1, n - 1), *before = part(&temps, t, dim, 0, n - 1);
    if (!before || !after) return tpi_release_temporaries(&temps, NULL);
    return tpi_release_temporaries(
        &temps, t->dtype == TP_BOOL ? tpo_ne(after, tp_operand_tensor(before))
                                    : tpo_sub(tp_operand_tensor(after), tp_operand_tensor(before), tp_int(1)));
}

static bool joins(const tp_tensor *self, const tp_tensor *other, int dim) {
    if (!other) return true;
    if (other->ndim != self->ndim)
        return tpi_refuse(TP_ERR_RUNTIME, "diff expects prepend or append to be the same dimension as input");
    for (int d = 0; d < self->ndim; d++)
        if (d != dim && other->shape[d] != self->shape[d])
            return tpi_refuse(TP_ERR_RUNTIME,
                              "diff expects the shape of tensor to prepend or append to match that of input except "
                              "along the differencing dimension; input.size(%d) = %lld, but got tensor.size(%d) = %lld",
                              d, (long long)self->shape[d], d, (long long)other->shape[d]);
    return true;
}

tp_tensor *tpi_compose_diff(tp_tensor *self, int64_t n, int64_t dim, tp_tensor *prepend, tp_tensor *append) {
    tp_tensor *list[3], *t;
    int64_t count = 0;
    int d = TPI_DIM(self, dim);
    if (d < 0 || !joins(self, prepend, d) || !joins(self, append, d)) return NULL;
    if (n == 0) return tpo_clone(self, TP_PRESERVE); /* nothing is put before or behind it either */
    if (prepend) list[count++] = prepend;
    list[count++] = self;
    if (append) list[count++] = append;
    t = count > 1 ? tpo_cat((tp_tensors){list, count}, dim) : tpi_retain(self);
    for (int64_t i = 0; t && i < n && tp_size(t, dim) > 0; i++) t = tpi_release_then(t, difference(t, dim));
    return t;
}

/* One-dimensional points lie along dim; points with fewer dims than y line up with its last ones, as in broadcasting.
 */
static tp_tensor *points_along(tpi_temporaries *temps, tp_tensor *y, tp_tensor *x, int dim) {
    if (x->ndim != 1) return x;
    int64_t shape[TP_MAX_DIMS];
    if (x->numel != y->shape[dim])
        return tpi_fail(
            TP_ERR_RUNTIME,
            "argument 'x': There must be one `x` value for each sample point, expected %lld samples, got %lld",
            (long long)y->shape[dim], (long long)x->numel);
    for (int i = 0; i < y->ndim; i++) shape[i] = i == dim ? x->numel : 1;
    return tpi_put(temps, tpo_reshape(x, tp_ints_view(shape, y->ndim)));
}

tp_tensor *tpi_compose_pair_sum(tp_tensor *y, tp_tensor *x, int64_t dim, bool running) {
    if (y->ndim == 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'y': expected at least one dimension, got none");
    int d = TPI_DIM(y, dim);
    tpi_temporaries temps = {0};
    tp_tensor *points = d < 0 ? NULL : points_along(&temps, y, x, d);
    if (!points) return tpi_release_temporaries(&temps, NULL);
    int64_t n = y->shape[d];
    if (n == 0)
        return tpi_release_temporaries(&temps, running ? tpo_clone(y, TP_PRESERVE)
                                                       : tpo_sum(y, tp_ints_view(&dim, 1), false, TP_NO_DTYPE));
    tp_tensor *steps = tpi_put(&temps, difference(points, d - y->ndim));
    tp_tensor *left = part(&temps, y, d, 0, n - 1), *right = part(&temps, y, d, 1, n - 1);
    tp_tensor *sums = plus(&temps, left, right), *areas = times(&temps, sums, steps);
    if (!areas) return tpi_release_temporaries(&temps, NULL);
    int64_t along = d - y->ndim; /* the points may have brought more dims in front */
    tp_tensor *all = tpi_put(&temps, running ? tpo_cumsum(areas, along, TP_NO_DTYPE)
                                             : tpo_sum(areas, tp_ints_view(&along, 1), false, TP_NO_DTYPE));
    return tpi_release_temporaries(&temps, all ? tpo_div(tp_operand_tensor(all), tp_operand_double(2)) : NULL);
}

/* ---- Gradients ---- */
/* a s0 + b s1 + c s2 over `length` elements from `start`, with coefficients that broadcast along dim. */
static tp_tensor *three(tpi_temporaries *temps, tp_tensor *self, int64_t dim, int64_t start, int64_t length,
                        tp_tensor *const *k) {
    tp_tensor *sum = NULL;
    for (int i = 0; i < 3; i++) {
        if (!k[i]) return NULL;
        tp_tensor *term = times(temps, part(temps, self, dim, start + i, length), k[i]);
        sum = i ? plus(temps, sum, term) : term;
    }
    return sum;
}

static tp_tensor *negative(tpi_temporaries *temps, tp_tensor *t) { return t ? tpi_put(temps, tpo_neg(t)) : NULL; }

/* By places: steps (n - 1) along dim. At the first element (where 0), between (1) and at the last (2): the weights are
 * those of the parabola through three neighbours, or at the ends of the line through two. */
static tp_tensor *by_points_at(int where, tp_tensor *self, int64_t dim, tp_tensor *steps, int64_t edge_order) {
    tpi_temporaries all = {0}, *temps = &all;
    int64_t n = self->shape[dim], first = where == 2 ? n - 3 : 0, length = where == 1 ? n - 2 : 1;
    if (where != 1 && edge_order == 1) {
        int64_t at = where == 2 ? n - 2 : 0;
        tp_tensor *rise = minus(temps, part(temps, self, dim, at + 1, 1), part(temps, self, dim, at, 1));
        return tpi_release_temporaries(temps, tpi_retain(over(temps, rise, part(temps, steps, dim, at, 1))));
    }
    tp_tensor *p = part(temps, steps, dim, first, length), *q = part(temps, steps, dim, first + 1, length),
              *both = plus(temps, p, q), *k[3];
    tp_tensor *p_both = times(temps, p, both), *q_both = times(temps, q, both), *pq = times(temps, p, q);
    if (where == 0) {
        k[0] = negative(temps, over(temps, plus(temps, p, both), p_both));
        k[1] = over(temps, both, pq);
        k[2] = negative(temps, over(temps, p, q_both));
    } else if (where == 1) {
        k[0] = negative(temps, over(temps, q, p_both));
        k[1] = over(temps, minus(temps, q, p), pq);
        k[2] = over(temps, p, q_both);
    } else {
        k[0] = over(temps, q, p_both);
        k[1] = negative(temps, over(temps, both, pq));
        k[2] = over(temps, plus(temps, q, both), q_both);
    }
    return tpi_release_temporaries(temps, tpi_retain(three(temps, self, dim, first, length, k)));
}

static tp_tensor *by_points(tpi_temporaries *temps, tp_tensor *self, int64_t dim, tp_tensor *steps,
                            int64_t edge_order) {
    tp_tensor *pieces[3];
    int64_t count = 0;
    for (int where = 0; where < 3; where++) {
        if (where == 1 && self->shape[dim] == 2) continue;
        if (!(pieces[count++] = tpi_put(temps, by_points_at(where, self, dim, steps, edge_order)))) return NULL;
    }
    return tpo_cat((tp_tensors){pieces, count}, dim);
}

/* By a distance h. */
static tp_tensor *by_distance(tpi_temporaries *temps, tp_tensor *self, int64_t dim, tp_scalar h, int64_t edge_order) {
    int64_t n = self->shape[dim];
    tp_tensor *rise =
        minus(temps, part(temps, self, dim, 1, n - 1), part(temps, self, dim, 0, n - 1)); /* (n - 1) along dim */
    tp_tensor *first = part(temps, rise, dim, 0, 1), *last = part(temps, rise, dim, n - 2, 1), *middle = NULL;
    if (n > 2) {
        tp_tensor *across = minus(temps, part(temps, self, dim, 2, n - 2), part(temps, self, dim, 0, n - 2));
        middle = across ? tpi_put(temps, by_steps(across, 2, h)) : NULL;
    }
    if (edge_order == 2) { /* (3 r0 - r1) / 2 at an end, r0 the rise next to it */
        tp_tensor *second = part(temps, rise, dim, 1, 1), *before = part(temps, rise, dim, n - 3, 1);
        first = first && second ? tpi_put(temps, tpo_sub(tp_operand_tensor(tpi_put(temps, scale(first, 1.5))),
                                                         tp_operand_tensor(second), tp_float(0.5)))
                                : NULL;
        last = last && before ? tpi_put(temps, tpo_sub(tp_operand_tensor(tpi_put(temps, scale(last, 1.5))),
                                                       tp_operand_tensor(before), tp_float(0.5)))
                              : NULL;
    }
    tp_tensor *a = first ? tpi_put(temps, by_steps(first, 1, h)) : NULL,
              *c = last ? tpi_put(temps, by_steps(last, 1, h)) : NULL;
    if (!a || !c || (n > 2 && !middle)) return NULL;
    tp_tensor *list[3] = {a, n > 2 ? middle : c, c};
    return tpo_cat((tp_tensors){list, n > 2 ? 3 : 2}, dim);
}

static tp_tensor *one_gradient(tp_tensor *self, int64_t dim, tp_scalar spacing, tp_tensor *points, int64_t edge_order) {
    tpi_temporaries temps = {0};
    if (!points || points->ndim == 0) {
        tp_scalar h = spacing.kind == TP_SCALAR_NONE ? tp_int(1) : spacing;
        if (points && tpi_device(points).type != TP_META) h = tp_item_scalar(points);
        return tpi_release_temporaries(&temps, by_distance(&temps, self, dim, h, edge_order));
    }
    tp_tensor *lined = points_along(&temps, self, points, (int)dim),
              *steps = lined ? tpi_put(&temps, difference(lined, dim)) : NULL;
    return tpi_release_temporaries(&temps, steps ? by_points(&temps, self, dim, steps, edge_order) : NULL);
}

/* spacing: none (1 everywhere), one for all dims, or one for each. */
static tp_tensors gradients(tp_tensor *self, tp_scalars spacing, bool each, tp_tensors points, tp_ints dim,
                            int64_t edge_order) {
    tp_tensors none = {NULL, 0}, out = none;
    bool chosen[TP_MAX_DIMS] = {false};
    if (edge_order != 1 && edge_order != 2) {
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'edge_order': torch.gradient only supports edge_order=1 and edge_order=2, got %lld",
                 (long long)edge_order);
        return none;
    }
    int64_t n = dim.v ? dim.n : self->ndim;
    if (dim.v && !tpi_wrap_dims(dim, self->ndim, chosen)) return none;
    if (points.v && points.n != n) {
        tpi_fail(TP_ERR_RUNTIME,
                 "torch.gradient expected spacing to be unspecified, a scalar, or a list with one for each of "
                 "%lld dims, but got a list of length %lld",
                 (long long)n, (long long)points.n);
        return none;
    }
    if (each && spacing.n != n) {
        tpi_fail(TP_ERR_RUNTIME,
                 "torch.gradient expected spacing to be unspecified, a scalar, or a list with one for each of "
                 "%lld dims, but got a list of length %lld",
                 (long long)n, (long long)spacing.n);
        return none;
    }
    out.v = tpi_malloc(sizeof *out.v * (size_t)(n + 1));
    for (int64_t i = 0; out.v && i < n; i++) {
        int d = dim.v ? TPI_DIM(self, dim.v[i]) : (int)i;
        if (self->ndim == 0 || self->shape[d] < edge_order + 1)
            tpi_fail(TP_ERR_RUNTIME,
                     "argument 'self': torch.gradient expected each dimension size to be at least edge_order+1, got %s",
                     tpi_shape_text(tpi_shape(self)));
        else
            out.v[out.n] = one_gradient(self, d, spacing.v[each ? i : 0], points.v ? points.v[i] : NULL, edge_order);
        if (self->ndim == 0 || self->shape[d] < edge_order + 1 || !out.v[out.n]) {
            tpi_release_list(out);
            return none;
        }
        out.n++;
    }
    return out;
}

tp_tensors tpi_compose_gradient(tp_tensor *self, tp_scalar spacing, tp_ints dim, int64_t edge_order) {
    return gradients(self, (tp_scalars){&spacing, 1}, false, (tp_tensors){NULL, 0}, dim, edge_order);
}
tp_tensors tpi_compose_gradient_list(tp_tensor *self, tp_tensors spacing, tp_ints dim, int64_t edge_order) {
    tp_scalar one = tp_no_scalar();
    return gradients(self, (tp_scalars){&one, 1}, false, spacing, dim, edge_order);
}
tp_tensors tpi_compose_gradient_scalararray(tp_tensor *self, tp_scalars spacing, tp_ints dim, int64_t edge_order) {
    return gradients(self, spacing, true, (tp_tensors){NULL, 0}, dim, edge_order);
}

/* ---- Covariance ---- */
static bool check_weights(const char *name, tp_tensor *w, int64_t observations, bool whole) {
    if (w->ndim > 1 || w->numel != observations)
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected one for each of %lld observations, got shape %s",
                          name, (long long)observations, tpi_shape_text(tpi_shape(w)));
    if (whole != tp_dtype_is_integral((tp_dtype)w->dtype) || (!whole && !tp_dtype_is_floating((tp_dtype)w->dtype)))
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected %s dtype, got %s", name,
                          whole ? "an integral" : "a floating", tp_dtype_name((tp_dtype)w->dtype));
    if (tpi_device(w).type == TP_META) return true;
    tp_tensor *here = tpi_on_host(w);
    bool ok = here;
    for (int64_t i = 0; ok && i < observations; i++)
        if (tp_scalar_to_double(tpi_load_scalar(here->data + i * (int64_t)tpi_itemsize(w), (tp_dtype)w->dtype)) < 0)
            ok = tpi_refuse(TP_ERR_RUNTIME, "argument '%s': %s cannot be negative", name, name);
    tpi_release(here);
    return ok;
}

tp_tensor *tpi_compose_cov(tp_tensor *self, int64_t correction, tp_tensor *fweights, tp_tensor *aweights) {
    if (self->ndim > 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected input to have two or fewer dimensions, got %d",
                        self->ndim);
    if (self->dtype == TP_BOOL)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': bool dtype is not supported for input");
    int64_t n = self->ndim < 2 ? self->numel : self->shape[1], ones[1] = {1};
    if (fweights && !check_weights("fweights", fweights, n, true)) return NULL;
    if (aweights && !check_weights("aweights", aweights, n, false)) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *in = self->ndim < 2 ? tpi_put(&temps, tpo_reshape(self, TP_INTS(1, n))) : self,
              *w = fweights ? fweights : aweights;
    if (fweights && aweights) w = times(&temps, fweights, aweights);
    tp_tensor *weighted = w ? times(&temps, in, w) : in;
    tp_tensor *total = w ? tpi_put(&temps, tpo_sum(w, tp_no_ints(), false, TP_NO_DTYPE)) : NULL;
    if (!weighted || (w && !total)) return tpi_release_temporaries(&temps, NULL);
    tp_operand count = total ? tp_operand_tensor(total) : tp_operand_int(n);
    tp_tensor *sums = tpi_put(&temps, tpo_sum(weighted, tp_ints_view(ones, 1), true, TP_NO_DTYPE));
    tp_tensor *centred = sums ? minus(&temps, in, tpi_put(&temps, tpo_div(tp_operand_tensor(sums), count))) : NULL;
    tp_tensor *right = w && centred ? times(&temps, centred, w) : centred;
    tp_tensor *adjoint = right ? tpi_put(&temps, tpo_conj_physical(tpi_put(&temps, tpo_transpose(right, 0, 1)))) : NULL;
    tp_tensor *c = adjoint ? tpi_put(&temps, tpo_mm(centred, adjoint)) : NULL;
    if (!c) return tpi_release_temporaries(&temps, NULL);
    tp_operand factor = tp_operand_int(n > correction ? tpi_size_minus(n, correction) : 0);
    if (total) { /* w_sum - correction, where each observation's weight counts: w_sum - correction sum(w a) / w_sum */
        tp_tensor *less = NULL;
        if (aweights && correction) {
            tp_tensor *wa = times(&temps, w, aweights),
                      *sum = wa ? tpi_put(&temps, tpo_sum(wa, tp_no_ints(), false, TP_NO_DTYPE)) : NULL;
            less = sum ? over(&temps, sum, total) : NULL;
            if (!less) return tpi_release_temporaries(&temps, NULL);
        }
        tp_tensor *f =
            tpi_put(&temps, tpo_sub(count, less ? tp_operand_tensor(less) : tp_operand_int(1), tp_int(correction)));
        if (!f || !(f = tpi_put(&temps, tpo_clamp_min(f, tp_operand_int(0)))))
            return tpi_release_temporaries(&temps, NULL);
        factor = tp_operand_tensor(f);
    }
    tp_tensor *result = tpi_put(&temps, tpo_div(tp_operand_tensor(c), factor));
    return tpi_release_temporaries(&temps, result ? tpo_squeeze(result) : NULL);
}

tp_tensor *tpi_compose_corrcoef(tp_tensor *self) {
    tpi_temporaries temps = {0};
    tp_tensor *c = tpi_put(&temps, tpo_cov(self, 1, NULL, NULL));
    if (!c || c->ndim == 0)
        return tpi_release_temporaries(&temps, c ? tpo_div(tp_operand_tensor(c), tp_operand_tensor(c)) : NULL);
    bool complex = tp_dtype_is_complex((tp_dtype)c->dtype);
    tp_tensor *d = tpi_put(&temps, tpo_diagonal(c, 0, 0, 1));
    if (complex && d) d = tpi_put(&temps, tpo_real(d));
    tp_tensor *s = d ? tpi_put(&temps, tpo_sqrt(d)) : NULL;
    tp_tensor *tall = s ? as_column(&temps, s) : NULL, *half = tall ? over(&temps, c, tall) : NULL;
    tp_tensor *r = half ? over(&temps, half, s) : NULL;
    if (!r) return tpi_release_temporaries(&temps, NULL);
    if (!complex) return tpi_release_temporaries(&temps, tpo_clamp(r, tp_int(-1), tp_int(1)));
    tp_tensor *parts = tpi_put(&temps, tpo_view_as_real(r)),
              *held = parts ? tpi_put(&temps, tpo_clamp(parts, tp_int(-1), tp_int(1))) : NULL;
    return tpi_release_temporaries(&temps, held ? tpo_view_as_complex(held) : NULL);
}
