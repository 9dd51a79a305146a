/* Derivatives of factorisations, as formulas over operators, so that they can be differentiated again. X^H is
 * adjoint(X). g stands for the gradient of what follows it: gQ is Q's. */
#include "ops/formula.h"
#include "ops/native.h"

/* Hands both results over if both are there. */
static bool set_two_results(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b, tp_tensor **out) {
    out[0] = out[1] = NULL;
    if (a && b) {
        out[0] = tpi_retain(a);
        out[1] = tpi_retain(b);
    }
    tpi_release_temporaries(temps, NULL);
    return out[0] != NULL;
}

/* The forward call found A regular, and rounding may find its adjoint singular: that is no error, as under PyTorch. */
static tp_tensor *solved_unchecked(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b, bool left) {
    tp_tensor *out[2] = {NULL, NULL};
    if (!tpo_linalg_solve_ex(a, b, left, false, out)) return NULL;
    tpi_put(temps, out[1]);
    return tpi_put(temps, out[0]);
}

/* A X = B: gB = A^-H gX, gA = -gB X^H; on the right side, X A = B: gB = gX A^-H, gA = -X^H gB. */
bool tpi_compose_solve_backward(tp_tensor *grad, tp_tensor *A, tp_tensor *B, tp_tensor *X, bool left, tp_tensor **out) {
    tpi_temporaries temps = {0};
    /* The forward call took B as vectors exactly when X has fewer dims than A, or as many as A without the last one. */
    bool vector =
        B->ndim == 1 || (B->ndim == A->ndim - 1 && !memcmp(B->shape, A->shape, sizeof *B->shape * (size_t)B->ndim));
    tp_tensor *g = vector ? as_column(&temps, grad) : grad, *x = vector ? as_column(&temps, X) : X;
    tp_tensor *ah = adjoint(&temps, A), *gB = ah ? solved_unchecked(&temps, ah, g, left) : NULL,
              *xh = adjoint(&temps, x);
    tp_tensor *gA = left ? product(&temps, gB, xh) : product(&temps, xh, gB);
    gA = tpi_put(&temps, tpo_neg(gA));
    if (vector) gB = tpi_put(&temps, tpo_squeeze_dim(gB, -1));
    return set_two_results(&temps, gA, gB, out);
}

/* With t = tr(A^-1 dA): d log|det| = Re t and d sign = i sign Im t. */
tp_tensor *tpi_compose_slogdet_backward(tp_tensor *grad_sign, tp_tensor *grad_logabsdet, tp_tensor *sign,
                                        tp_tensor *A) {
    tpi_temporaries temps = {0};
    bool phased = tp_dtype_is_complex((tp_dtype)A->dtype);
    tp_tensor *factor = grad_logabsdet;
    if (phased && grad_sign) {
        tp_tensor *rotation =
            tpi_put(&temps, tpo_imag(times(&temps, tpi_put(&temps, tpo_conj_physical(grad_sign)), sign)));
        tp_tensor *im = tpi_put(&temps, tpo_neg(rotation)),
                  *re = grad_logabsdet ? grad_logabsdet
                                       : tpi_put(&temps, tpo_zeros_like(im, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE));
        factor = re && im ? tpi_put(&temps, tpo_complex(re, im)) : NULL;
    } else if (!grad_logabsdet) {
        return tpo_zeros_like(A, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE);
    }
    tp_tensor *inverse[2] = {NULL, NULL};
    if (!factor || !tpo_linalg_inv_ex(A, false, inverse)) return tpi_release_temporaries(&temps, NULL);
    tpi_put(&temps, inverse[0]);
    tpi_put(&temps, inverse[1]);
    return tpi_release_temporaries(
        &temps, tpi_retain(times(&temps, tpi_put(&temps, tpo_over_all(factor)), adjoint(&temps, inverse[0]))));
}

/* P^T A = L U, of which the square part is A1 = L1 U1. In all three cases
 *     gA1 = L1^-H (tril(phiL, -1) + triu(phiU)) U1^-H,  phiL = L1^H gL1,  phiU = gU1 U1^H,
 * where the part of U right of U1 takes gU2 U2^H from phiL, and that of L below L1 takes L2^H gL2 from phiU. */
tp_tensor *tpi_compose_lu_factor_backward(tp_tensor *grad, tp_tensor *LU, tp_tensor *pivots) {
    tpi_temporaries temps = {0};
    int64_t m = row_count(LU), n = column_count(LU), k = m < n ? m : n;
    tp_tensor *square = column_range(&temps, row_range(&temps, LU, 0, k), 0, k),
              *g = column_range(&temps, row_range(&temps, grad, 0, k), 0, k);
    tp_tensor *l = plus(&temps, lower(&temps, square, -1), identity(&temps, k, k, LU)), *u = upper(&temps, square, 0);
    tp_tensor *lh = adjoint(&temps, l), *uh = adjoint(&temps, u), *rest = NULL;
    tp_tensor *phi_l = product(&temps, lh, lower(&temps, g, -1)), *phi_u = product(&temps, upper(&temps, g, 0), uh);
    if (n > k) {
        tp_tensor *g2 = column_range(&temps, grad, k, n - k), *u2 = column_range(&temps, LU, k, n - k);
        phi_l = minus(&temps, phi_l, product(&temps, g2, adjoint(&temps, u2)));
        rest = solved(&temps, lh, g2, true, true);
    } else if (m > k) {
        tp_tensor *g2 = row_range(&temps, grad, k, m - k), *l2 = row_range(&temps, LU, k, m - k);
        phi_u = minus(&temps, phi_u, product(&temps, adjoint(&temps, l2), g2));
        rest = solved_right(&temps, uh, g2, false, false);
    }
    tp_tensor *inner = plus(&temps, lower(&temps, phi_l, -1), upper(&temps, phi_u, 0));
    tp_tensor *full = solved_right(&temps, uh, solved(&temps, lh, inner, true, true), false, false);
    if (m != n) full = joined(&temps, full, rest, n > m ? -1 : -2);
    tp_tensor *p = tpi_put(&temps, tpo_lu_permutation(pivots, m, (tp_dtype)LU->dtype));
    return tpi_release_temporaries(&temps, tpi_retain(product(&temps, p, full)));
}

/* ---- QR ---- */

/* m >= n: gA = (gQ + Q S) R^-H, where S is the Hermitian matrix with the upper triangle of gR R^H - Q^H gQ. */
static tp_tensor *qr_tall(tpi_temporaries *temps, tp_tensor *gQ, tp_tensor *gR, tp_tensor *Q, tp_tensor *R) {
    tp_tensor *rh = adjoint(temps, R), *m = NULL;
    if (gR) m = product(temps, gR, rh);
    if (gQ) {
        tp_tensor *qg = product(temps, adjoint(temps, Q), gQ);
        m = gR ? minus(temps, m, qg) : tpi_put(temps, tpo_neg(qg));
    }
    tp_tensor *x = upper(temps, m, 0), *both = plus(temps, x, adjoint(temps, x)), *d = diagonal_of(temps, both);
    if (!d) return NULL;
    tp_tensor *half = tpi_put(temps, tpo_mul(TP_OPERAND(on_diagonal(temps, d)), TP_OPERAND(0.5)));
    tp_tensor *sum = product(temps, Q, minus(temps, both, half));
    if (gQ) sum = plus(temps, gQ, sum);
    return solved_right(temps, rh, sum, false, false);
}

tp_tensor *tpi_compose_qr_backward(tp_tensor *gQ, tp_tensor *gR, tp_tensor *Q, tp_tensor *R, const char *mode) {
    if (!strcmp(mode, "r"))
        return tpi_fail(TP_ERR_RUNTIME, "the derivative of linalg_qr needs Q; use mode=\"reduced\" in place of \"r\"");
    int64_t m = row_count(Q), k = column_count(Q), n = column_count(R);
    if (m > n && k > n)
        return tpi_fail(TP_ERR_RUNTIME,
                        "linalg_qr is not differentiable with mode=\"complete\" and more rows than columns");
    tpi_temporaries temps = {0};
    if (m >= n) return tpi_release_temporaries(&temps, tpi_retain(qr_tall(&temps, gQ, gR, Q, R)));
    /* A = [A1 A2], R = [U V] with A1 = Q U and V = Q^H A2: what V needs goes into gQ and gA2. */
    tp_tensor *U = column_range(&temps, R, 0, m), *V = column_range(&temps, R, m, n - m), *gU = NULL, *gA2 = NULL;
    if (gR) {
        tp_tensor *gV = column_range(&temps, gR, m, n - m),
                  *through = product(&temps, product(&temps, Q, V), adjoint(&temps, gV));
        gU = column_range(&temps, gR, 0, m);
        gA2 = product(&temps, Q, gV);
        gQ = gQ ? plus(&temps, gQ, through) : through;
        if (!gU || !gQ) return tpi_release_temporaries(&temps, NULL);
    }
    tp_tensor *gA1 = qr_tall(&temps, gQ, gU, Q, U);
    if (!gR && V) gA2 = tpi_put(&temps, tpo_zeros_like(V, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE));
    return tpi_release_temporaries(&temps, tpi_retain(joined(&temps, gA1, gA2, -1)));
}

/* The columns of V, which are the reflectors with their ones, and tau as (..., 1, 1) numbers. */
static tp_tensor *reflector(tpi_temporaries *temps, tp_tensor *V, int64_t i) { return column_range(temps, V, i, 1); }
static tp_tensor *tau_of(tpi_temporaries *temps, tp_tensor *tau, int64_t i) {
    return as_column(temps, column_range(temps, tau, i, 1));
}

/* h = I - t v v^H applied to x. */
static tp_tensor *reflect(tp_tensor *v, tp_tensor *t, tp_tensor *x) {
    tpi_temporaries temps = {0};
    tp_tensor *along = product(&temps, adjoint(&temps, v), x);
    return tpi_release_temporaries(&temps, tpi_retain(minus(&temps, x, times(&temps, t, product(&temps, v, along)))));
}

/* Q_i = H_i Q_(i+1), Q_k = I. With u = v^H gQ_i and w = Q_(i+1)^H v:
 *     g_tau = -u w,  g_v = -conj(tau) gQ_i w - tau Q_(i+1) u^H,  gQ_(i+1) = gQ_i - conj(tau) v u. */
static tp_tensor *one_reflector(tp_tensor *v, tp_tensor *t, tp_tensor *g, tp_tensor *next, tp_tensor **g_v,
                                tp_tensor **g_tau) {
    tpi_temporaries temps = {0};
    tp_tensor *u = product(&temps, adjoint(&temps, v), g), *w = product(&temps, adjoint(&temps, next), v),
              *tc = tpi_put(&temps, tpo_conj_physical(t));
    tp_tensor *sum = plus(&temps, times(&temps, tc, product(&temps, g, w)),
                          times(&temps, t, product(&temps, next, adjoint(&temps, u))));
    *g_v = tpo_neg(sum);
    *g_tau = tpo_neg(product(&temps, u, w));
    return tpi_release_temporaries(&temps, tpi_retain(minus(&temps, g, times(&temps, tc, product(&temps, v, u)))));
}

static tp_tensor *join_all(tp_tensor **v, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n; i++)
        if (!v[i]) return NULL;
    return tpo_cat((tp_tensors){v, n}, dim);
}

static bool householder_sweep(tp_tensor *grad, tp_tensor *V, tp_tensor *tau, int64_t k, tp_tensor **q, tp_tensor **gv,
                              tp_tensor **gt) {
    for (int64_t i = k - 1; i >= 0 && q[i + 1]; i--) {
        tpi_temporaries temps = {0};
        q[i] = tpi_release_temporaries(&temps, reflect(reflector(&temps, V, i), tau_of(&temps, tau, i), q[i + 1]));
    }
    tp_tensor *g = q[0] ? tpi_retain(grad) : NULL;
    for (int64_t i = 0; i < k && g; i++) {
        tpi_temporaries temps = {0};
        tpi_put(&temps, g);
        g = tpi_release_temporaries(
            &temps, one_reflector(reflector(&temps, V, i), tau_of(&temps, tau, i), g, q[i + 1], &gv[i], &gt[i]));
    }
    bool ok = g != NULL;
    tpi_release(g);
    return ok;
}

bool tpi_compose_householder_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *tau, tp_tensor **out) {
    int64_t m = row_count(input), n = column_count(input), k = column_count(tau);
    tp_tensor **made = tpi_new0(sizeof *made * (size_t)(3 * k + 1)), **q = made, **gv = made + k + 1, **gt = gv + k;
    if (!made) return false;
    tpi_temporaries temps = {0};
    tp_tensor *V = plus(&temps, lower(&temps, column_range(&temps, input, 0, k), -1), identity(&temps, m, k, input));
    tp_tensor *eye = identity(&temps, m, n, input);
    q[k] = eye ? tpo_expand(eye, tpi_shape(input), false) : NULL;
    bool swept = V && q[k] && k && householder_sweep(grad, V, tau, k, q, gv, gt);
    tp_tensor *g_input = NULL, *g_tau = NULL;
    if (swept) {
        g_input = lower(&temps, tpi_put(&temps, join_all(gv, k, -1)), -1);
        g_tau = tpi_put(&temps, tpo_squeeze_dim(tpi_put(&temps, join_all(gt, k, -2)), -1));
        if (n > k && g_input) {
            tp_tensor *nothing = tpi_put(&temps, tpo_zeros_like(column_range(&temps, input, k, n - k), TP_NO_DTYPE,
                                                                (tp_device){0}, TP_PRESERVE));
            g_input = joined(&temps, g_input, nothing, -1);
        }
    } else if (!k) {
        g_input = tpi_put(&temps, tpo_zeros_like(input, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE));
        g_tau = tpi_put(&temps, tpo_zeros_like(tau, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE));
    }
    for (int64_t i = 0; i < 3 * k + 1; i++) tpi_release(made[i]);
    tpi_delete(made, sizeof *made * (size_t)(3 * k + 1));
    return set_two_results(&temps, g_input, g_tau, out);
}

/* ---- SVD ---- */

static tp_tensor *skew(tpi_temporaries *temps, tp_tensor *x) { return minus(temps, x, adjoint(temps, x)); }

/* The part of U^H gA V that turns the singular vectors: (skew(U^H gU) S + S skew(V^H gV)) / E off the diagonal, E[i,j]
 * = S[j]^2 - S[i]^2, and for complex matrices diag(skew(U^H gU)) / 2S on it. NULL when there is no gradient of U or Vh
 * (or on failure). */
static tp_tensor *svd_phase(tpi_temporaries *temps, tp_tensor *gU, tp_tensor *gVh, tp_tensor *U, tp_tensor *S,
                            tp_tensor *Vh) {
    tp_tensor *gaps = tpi_put(temps, tpo_pair_gaps(times(temps, S, S))), *sum = NULL, *phase = NULL;
    if (gU) {
        tp_tensor *x = skew(temps, product(temps, adjoint(temps, U), gU));
        sum = times(temps, x, as_row(temps, S));
        if (tp_dtype_is_complex((tp_dtype)U->dtype)) phase = over(temps, diagonal_of(temps, x), plus(temps, S, S));
    }
    if (gVh) {
        tp_tensor *x = times(temps, as_column(temps, S), skew(temps, product(temps, Vh, adjoint(temps, gVh))));
        sum = gU ? plus(temps, sum, x) : x;
    }
    tp_tensor *rotation = tpi_put(temps, tpo_offdiagonal(over(temps, sum, gaps)));
    return phase ? plus(temps, rotation, on_diagonal(temps, phase)) : rotation;
}

tp_tensor *tpi_compose_svd_backward(tp_tensor *gU, tp_tensor *gS, tp_tensor *gVh, tp_tensor *U, tp_tensor *S,
                                    tp_tensor *Vh) {
    tpi_temporaries temps = {0};
    int64_t k = column_count(S), m = row_count(U), n = column_count(Vh);
    bool rotates_u = gU != NULL, rotates_v = gVh != NULL;
    if (column_count(U) > k) { /* full matrices: only the first k vectors are determined by A */
        U = column_range(&temps, U, 0, k);
        if (gU) gU = column_range(&temps, gU, 0, k);
    }
    if (row_count(Vh) > k) {
        Vh = row_range(&temps, Vh, 0, k);
        if (gVh) gVh = row_range(&temps, gVh, 0, k);
    }
    if (!U || !Vh || (rotates_u && !gU) || (rotates_v && !gVh)) return tpi_release_temporaries(&temps, NULL);
    tp_tensor *left = gS ? times(&temps, U, as_row(&temps, gS)) : NULL;
    if (gU || gVh) {
        tp_tensor *rotated = product(&temps, U, svd_phase(&temps, gU, gVh, U, S, Vh));
        left = gS ? plus(&temps, left, rotated) : rotated;
    }
    if (gU && m > k) { /* what lies outside of U's columns */
        tp_tensor *x = over(&temps, gU, as_row(&temps, S));
        left = plus(&temps, left, minus(&temps, x, product(&temps, U, product(&temps, adjoint(&temps, U), x))));
    }
    tp_tensor *gA = product(&temps, left, Vh);
    if (gVh && n > k) {
        tp_tensor *y = over(&temps, gVh, as_column(&temps, S));
        tp_tensor *outside = minus(&temps, y, product(&temps, product(&temps, y, adjoint(&temps, Vh)), Vh));
        gA = plus(&temps, gA, product(&temps, U, outside));
    }
    return tpi_release_temporaries(&temps, tpi_retain(gA));
}

/* ---- Least squares ---- */

/* X = P b with P = A^+: g_b = P^H gX, and A's gradient is that of the pseudo-inverse under gX b^H. */
static void solution_gradients(tpi_temporaries *temps, tp_tensor *g, tp_tensor *A, tp_tensor *B, tp_tensor **gA,
                               tp_tensor **gB) {
    tp_tensor *P = tpi_put(temps, tpo_linalg_pinv(A, TP_NO_FLOAT, TP_NO_FLOAT, false));
    tp_tensor *gP = product(temps, g, adjoint(temps, B));
    *gB = product(temps, adjoint(temps, P), g);
    *gA = gP && P ? tpi_put(temps, tpo_pinv_backward(gP, A, P)) : NULL;
}

/* L = sum |r|^2 over each column of r = A X - B. X makes L smallest, so that L does not change with X. */
static void residual_gradients(tpi_temporaries *temps, tp_tensor *g, tp_tensor *A, tp_tensor *B, tp_tensor *X,
                               tp_tensor **gA, tp_tensor **gB) {
    tp_tensor *r = minus(temps, product(temps, A, X), B),
              *twice = tpi_put(temps, tpo_mul(TP_OPERAND(g), TP_OPERAND(2)));
    tp_tensor *weighted = times(temps, r, as_row(temps, twice));
    *gA = product(temps, weighted, adjoint(temps, X));
    *gB = weighted ? tpi_put(temps, tpo_neg(weighted)) : NULL;
}

bool tpi_compose_lstsq_backward(tp_tensor *grad_solution, tp_tensor *grad_residuals, tp_tensor *A, tp_tensor *b,
                                tp_tensor *solution, tp_tensor **out) {
    tpi_temporaries temps = {0};
    bool vector = b->ndim == 1 || b->ndim == A->ndim - 1;
    tp_tensor *B = vector ? as_column(&temps, b) : b, *gA[2] = {NULL}, *gB[2] = {NULL};
    int n = 0;
    if (grad_solution) {
        solution_gradients(&temps, vector ? as_column(&temps, grad_solution) : grad_solution, A, B, &gA[n], &gB[n]);
        n++;
    }
    if (grad_residuals && grad_residuals->numel) {
        tp_tensor *X = vector ? as_column(&temps, solution) : solution; /* residuals have a column for a vector, too */
        residual_gradients(&temps, grad_residuals, A, B, X, &gA[n], &gB[n]);
        n++;
    }
    tp_tensor *a = n == 2 ? plus(&temps, gA[0], gA[1]) : gA[0], *c = n == 2 ? plus(&temps, gB[0], gB[1]) : gB[0];
    if (!n) { /* neither the solution nor the residuals have a gradient */
        a = tpi_put(&temps, tpo_zeros_like(A, TP_NO_DTYPE, tpi_device(A), TP_PRESERVE));
        c = tpi_put(&temps, tpo_zeros_like(B, TP_NO_DTYPE, tpi_device(B), TP_PRESERVE));
    }
    if (vector && c) c = tpi_put(&temps, tpo_squeeze_dim(c, -1));
    return set_two_results(&temps, a, c, out);
}
