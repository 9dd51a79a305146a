/* Derivatives of products of sparse matrices, as calls of other operators; so they differentiate themselves. */
#include "ops/native.h"
#include "ops/temporaries.h"
#include "tpi_ops.h"

/* The adjoint of a matrix by rows: owned by `temps`, NULL where something failed. */
typedef struct adjoint_matrix {
    tp_tensor *crow, *col, *values;
} adjoint_matrix;

/* The adjoint of a matrix with so many columns. */
static adjoint_matrix adjoint(tp_tensor *crow, tp_tensor *col, tp_tensor *values, int64_t columns,
                              tpi_temporaries *temps) {
    adjoint_matrix t = {0};
    tp_tensor *groups[2] = {0};
    if (!tpo_sparse_group(col, columns, groups)) return t;
    t.crow = tpi_put(temps, groups[0]);
    tp_tensor *order = tpi_put(temps, groups[1]),
              *at = tpi_put(temps, tpo__convert_indices_from_csr_to_coo(crow, col, false, false)),
              *row = tpi_put(temps, tpo_select(at, 0, 0));
    t.col = tpi_put(temps, tpo_index_select(row, 0, order));
    tp_tensor *conjugate = tpi_put(temps, tpo_conj(values));
    t.values = tpi_put(temps, tpo_index_select(conjugate, 0, order));
    return t;
}

tp_tensor *tpi_compose_sparse_mm_sampled_left(tp_tensor *grad, tp_tensor *crow, tp_tensor *col, tp_tensor *crow_a,
                                              tp_tensor *col_a, tp_tensor *crow_b, tp_tensor *col_b, tp_tensor *b,
                                              int64_t columns) {
    tpi_temporaries temps = {0};
    adjoint_matrix t = adjoint(crow_b, col_b, b, columns, &temps);
    return tpi_release_temporaries(
        &temps, tpo_sparse_mm_sampled(crow_a, col_a, crow, col, grad, t.crow, t.col, t.values, crow_b->numel - 1));
}

tp_tensor *tpi_compose_sparse_mm_sampled_right(tp_tensor *grad, tp_tensor *crow, tp_tensor *col, tp_tensor *crow_a,
                                               tp_tensor *col_a, tp_tensor *a, tp_tensor *crow_b, tp_tensor *col_b,
                                               int64_t columns) {
    tpi_temporaries temps = {0};
    adjoint_matrix t = adjoint(crow_a, col_a, a, crow_b->numel - 1, &temps);
    return tpi_release_temporaries(
        &temps, tpo_sparse_mm_sampled(crow_b, col_b, t.crow, t.col, t.values, crow, col, grad, columns));
}

/* ---- The largest summand alone gets the gradient ---- */

/* What both derivatives need: which stored element each result came from (0 where from none), its column, and the
 * gradient with zeros there. */
typedef struct picked {
    tp_tensor *place, *column, *grad;
} picked;

static picked pick(tp_tensor *grad, tp_tensor *col, tp_tensor *place, tpi_temporaries *temps) {
    picked p = {0};
    tp_tensor *none = tpi_put(temps, tpo_lt(place, tp_operand_int(0))),
              *wide = tpi_put(temps, tpi_as_dtype_data(col, TP_INT64));
    p.place = tpi_put(temps, tpo_clamp_min(place, tp_operand_int(0)));
    p.grad = tpi_put(temps, tpo_masked_fill(grad, none, tp_int(0)));
    p.column = tpi_put(temps, tpo_take(wide, p.place));
    return p;
}

tp_tensor *tpi_compose_sparse_mm_extreme_values(tp_tensor *grad, tp_tensor *col, tp_tensor *dense, tp_tensor *place) {
    tp_tensor *zeros = tpo_zeros(tpi_shape(col), (tp_dtype)grad->dtype, tpi_device(grad));
    if (col->numel == 0 || !zeros) return zeros;
    tpi_temporaries temps = {0};
    tpi_put(&temps, zeros);
    picked p = pick(grad, col, place, &temps);
    tp_tensor *factor = tpi_put(&temps, tpo_gather(dense, 0, p.column, false));
    tp_tensor *product = factor && p.grad ? tpi_put(&temps, tpo_mul(TP_OPERAND(p.grad), TP_OPERAND(factor))) : NULL;
    tp_tensor *flat = tpi_put(&temps, tpo_reshape(product, TP_INTS(-1)));
    tp_tensor *index = tpi_put(&temps, tpo_reshape(p.place, TP_INTS(-1)));
    return tpi_release_temporaries(&temps, tpo_index_add(zeros, 0, index, flat, tp_int(1)));
}

tp_tensor *tpi_compose_sparse_mm_extreme_dense(tp_tensor *grad, tp_tensor *col, tp_tensor *values, tp_tensor *place,
                                               int64_t rows) {
    tp_tensor *zeros = tpo_zeros(TP_INTS(rows, grad->shape[1]), (tp_dtype)grad->dtype, tpi_device(grad));
    if (col->numel == 0 || !zeros) return zeros;
    tpi_temporaries temps = {0};
    tpi_put(&temps, zeros);
    picked p = pick(grad, col, place, &temps);
    tp_tensor *factor = tpi_put(&temps, tpo_take(values, p.place));
    tp_tensor *product = factor && p.grad ? tpi_put(&temps, tpo_mul(TP_OPERAND(p.grad), TP_OPERAND(factor))) : NULL;
    return tpi_release_temporaries(&temps, tpo_scatter_add(zeros, 0, p.column, product));
}
