/* Short names for formulas over matrices: each calls an operator and puts the result into `temps`
 * (ops/temporaries.h). */
#ifndef TPI_FORMULA_H
#define TPI_FORMULA_H
#include "ops/temporaries.h"
#include "tpi_ops.h"

static inline tp_tensor *product(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return tpi_put(temps, tpo_matmul(a, b));
}
static inline tp_tensor *adjoint(tpi_temporaries *temps, tp_tensor *a) {
    return tpi_put(temps, tpo_adjoint_physical(a));
}
static inline tp_tensor *plus(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return tpi_put(temps, tpo_add(TP_OPERAND(a), TP_OPERAND(b), tp_int(1)));
}
static inline tp_tensor *minus(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return tpi_put(temps, tpo_sub(TP_OPERAND(a), TP_OPERAND(b), tp_int(1)));
}
static inline tp_tensor *times(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return tpi_put(temps, tpo_mul(TP_OPERAND(a), TP_OPERAND(b)));
}
static inline tp_tensor *over(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return tpi_put(temps, tpo_div(TP_OPERAND(a), TP_OPERAND(b)));
}
static inline tp_tensor *as_row(tpi_temporaries *temps, tp_tensor *a) { return tpi_put(temps, tpo_unsqueeze(a, -2)); }
static inline tp_tensor *as_column(tpi_temporaries *temps, tp_tensor *a) {
    return tpi_put(temps, tpo_unsqueeze(a, -1));
}
static inline tp_tensor *diagonal_of(tpi_temporaries *temps, tp_tensor *a) {
    return tpi_put(temps, tpo_diagonal(a, 0, -2, -1));
}
static inline tp_tensor *on_diagonal(tpi_temporaries *temps, tp_tensor *a) {
    return tpi_put(temps, tpo_diag_embed(a, 0, -2, -1));
}
static inline tp_tensor *lower(tpi_temporaries *temps, tp_tensor *a, int64_t k) {
    return tpi_put(temps, tpo_tril(a, k));
}
static inline tp_tensor *upper(tpi_temporaries *temps, tp_tensor *a, int64_t k) {
    return tpi_put(temps, tpo_triu(a, k));
}
static inline tp_tensor *column_range(tpi_temporaries *temps, tp_tensor *a, int64_t from, int64_t n) {
    return tpi_put(temps, tpo_narrow(a, -1, from, n));
}
static inline tp_tensor *row_range(tpi_temporaries *temps, tp_tensor *a, int64_t from, int64_t n) {
    return tpi_put(temps, tpo_narrow(a, -2, from, n));
}
static inline tp_tensor *joined(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b, int64_t dim) {
    return a && b ? tpi_put(temps, tpo_cat((tp_tensors){(tp_tensor *[]){a, b}, 2}, dim)) : NULL;
}
static inline tp_tensor *identity(tpi_temporaries *temps, int64_t m, int64_t n, const tp_tensor *like) {
    return tpi_put(temps, tpo_eye(m, n, (tp_dtype)like->dtype, tpi_device(like)));
}
/* a^-1 b for a triangular a, and b a^-1. */
static inline tp_tensor *solved(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b, bool is_upper, bool unit) {
    return tpi_put(temps, tpo_linalg_solve_triangular(a, b, is_upper, true, unit));
}
static inline tp_tensor *solved_right(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b, bool is_upper, bool unit) {
    return tpi_put(temps, tpo_linalg_solve_triangular(a, b, is_upper, false, unit));
}
static inline int64_t row_count(const tp_tensor *t) { return t->shape[t->ndim - 2]; }
static inline int64_t column_count(const tp_tensor *t) { return t->shape[t->ndim - 1]; }
#endif
