/* The exponential of matrices on GPUs, as on the CPU (ops/linalg/matrix_functions.c): Pade's fraction of degree 13 of a
 * matrix halved until it is small, squared as often. Each matrix of a batch has its own number of halvings; only the
 * largest comes to the host. */
#include <math.h>
#include "ops/temporaries.h"
#include "ops/linalg/factor_gpu.h"
#include "tpi_ops.h"

static const double SMALL = 5.37; /* the 1-norm up to which the fraction is as exact as double precision */

/* p w1 + q w2 + r w3 + I w0 */
static tp_tensor *combine(tpi_temporaries *temps, tp_tensor *const powers[3], const double w[3], double w0) {
    tp_tensor *sum = tpi_put(temps, tpo_mul(tp_operand_tensor(powers[2]), tp_operand_double(w[2])));
    for (int i = 1; i >= 0 && sum; i--)
        sum = tpi_put(temps, tpo_add(tp_operand_tensor(sum), tp_operand_tensor(powers[i]), tp_float(w[i])));
    tp_tensor *diagonal = sum && w0 != 0 ? tpo_diagonal(sum, 0, -2, -1) : NULL;
    if (diagonal && !tpo_add_(diagonal, tp_operand_double(w0), tp_int(1))) sum = NULL;
    tpi_release(diagonal);
    return sum;
}

/* The polynomial of even powers with the coefficients from `first` on, in steps of two. */
static tp_tensor *polynomial(tpi_temporaries *temps, tp_tensor *const powers[3], int first) {
    tp_tensor *high =
        combine(temps, powers, (double[]){tpi_pade[first + 8], tpi_pade[first + 10], tpi_pade[first + 12]}, 0);
    tp_tensor *part = high ? tpi_put(temps, tpo_matmul(powers[2], high)) : NULL;
    tp_tensor *low =
        part ? combine(temps, powers, (double[]){tpi_pade[first + 2], tpi_pade[first + 4], tpi_pade[first + 6]},
                       tpi_pade[first])
             : NULL;
    return low ? tpi_put(temps, tpo_add(tp_operand_tensor(low), tp_operand_tensor(part), tp_int(1))) : NULL;
}

static tp_tensor *fraction(tp_tensor *a) { /* owned; NULL without an error: not served */
    tpi_temporaries temps = {0};
    tp_tensor *a2 = tpi_put(&temps, tpo_matmul(a, a)), *a4 = a2 ? tpi_put(&temps, tpo_matmul(a2, a2)) : NULL,
              *a6 = a4 ? tpi_put(&temps, tpo_matmul(a2, a4)) : NULL;
    tp_tensor *const powers[] = {a2, a4, a6};
    tp_tensor *odd = a6 ? polynomial(&temps, powers, 1) : NULL, *even = odd ? polynomial(&temps, powers, 0) : NULL,
              *solved[2];
    odd = even ? tpi_put(&temps, tpo_matmul(a, odd)) : NULL;
    tp_tensor *above =
        odd ? tpi_put(&temps, tpo_add(tp_operand_tensor(even), tp_operand_tensor(odd), tp_int(1))) : NULL;
    tp_tensor *below =
        above ? tpi_put(&temps, tpo_sub(tp_operand_tensor(even), tp_operand_tensor(odd), tp_int(1))) : NULL;
    bool ok = below && tpi_gpu_solve_ex(below, above, true, false, solved) == TPI_SERVED;
    if (ok) tpi_put(&temps, solved[1]);
    return tpi_release_temporaries(&temps, ok ? solved[0] : NULL);
}

/* How often each matrix is halved, as (..., 1, 1), and the most of them; negative: there are infinities or NaN. */
static tp_tensor *halvings(tpi_temporaries *temps, tp_tensor *a, int *most) {
    tp_tensor *sizes = tpi_put(temps, tpo_abs(a)),
              *sums = sizes ? tpi_put(temps, tpo_sum(sizes, TP_INTS(-2), true, TP_NO_DTYPE)) : NULL;
    tp_tensor *norms = sums ? tpi_put(temps, tpo_amax(sums, TP_INTS(-1), true)) : NULL,
              *over = norms ? tpi_put(temps, tpo_div(tp_operand_tensor(norms), tp_operand_double(SMALL))) : NULL;
    tp_tensor *exponent = over ? tpi_put(temps, tpo_log2(over)) : NULL,
              *up = exponent ? tpi_put(temps, tpo_ceil(exponent)) : NULL;
    tp_tensor *times = up ? tpi_put(temps, tpo_clamp_min(up, tp_operand_double(0))) : NULL,
              *largest = times ? tpi_put(temps, tpo_amax(times, tp_no_ints(), false)) : NULL;
    tp_scalar host = largest ? tp_item_scalar(largest) : tp_no_scalar();
    if (host.kind == TP_SCALAR_NONE) return NULL;
    double number = tp_scalar_to_double(host);
    *most = number < 2000 ? (int)number : -1;
    return times;
}

/* x squared where step < times, itself elsewhere; takes x. */
static tp_tensor *squared(tp_tensor *x, tp_tensor *times, int step) {
    tp_tensor *twice = tpo_matmul(x, x), *more = twice ? tpo_gt(times, tp_operand_double(step)) : NULL;
    tp_tensor *out = more ? tpo_where(more, tp_operand_tensor(twice), tp_operand_tensor(x)) : NULL;
    tpi_release(twice);
    tpi_release(more);
    return tpi_release_then(x, out);
}

tpi_served tpi_gpu_matrix_exp(tp_tensor *self, tp_tensor **result) {
    if (self->ndim < 2 || !self->numel || tpi_rows_of(self) != tpi_cols_of(self) ||
        !(tpi_gpu_blocks_fit(self) || tpi_gpu_solver_for(self)))
        return tpi_not_served();
    tpi_temporaries temps = {0};
    int most = 0;
    tp_tensor *a = tpi_put(&temps, tpi_detached(self)), *times = a ? halvings(&temps, a, &most) : NULL;
    if (!times || most < 0) {
        tpi_release_temporaries(&temps, NULL);
        return tpi_not_served();
    }
    tp_tensor *down = tpi_put(&temps, tpo_neg(times)), *scale = down ? tpi_put(&temps, tpo_exp2(down)) : NULL;
    tp_tensor *small = scale ? tpi_put(&temps, tpo_mul(tp_operand_tensor(a), tp_operand_tensor(scale))) : NULL,
              *x = small ? fraction(small) : NULL;
    for (int step = 0; x && step < most; step++) x = squared(x, times, step);
    return tpi_serve(tpi_release_temporaries(&temps, x ? tpi_release_then(x, tpi_columns_copy(x, tp_no_ints())) : NULL),
                     result);
}
