/* Eigenvalues on GPUs: Hermitian matrices that are small, or many, by rotations (a block each), large ones and general
 * matrices by the driver's library. What neither serves, and what goes wrong, is the CPU's. */
#include "ops/temporaries.h"
#include "ops/linalg/factor_gpu.h"
#include "tpi_ops.h"

/* ---- Hermitian ---- */

/* By rotations. */
static bool eigen_of_blocks(tp_tensor *a, bool upper, bool vectors, tp_tensor **out) {
    static const tpi_gpu_site site = {"jacobi_gpu_kernel.h", "eigen"};
    int n = (int)tpi_cols_of(a), above = upper;
    int64_t held = tpi_gpu_held(n, (vectors ? 2 : 1) * (int64_t)n);
    tp_tensor *x = tpi_columns_copy(a, tp_no_ints()), *v = !x        ? NULL
                                                           : vectors ? tpi_columns_new(a, 2, n, n, (tp_dtype)a->dtype)
                                                                     : tpi_retain(x);
    tp_tensor *values = v ? tpi_rows_new(a, 2, n, tpi_dtype_to_real((tp_dtype)a->dtype)) : NULL;
    tp_tensor *scratch = !values                              ? NULL
                         : vectors && !tpi_gpu_holds(a, held) ? tpi_columns_new(a, 2, n, n, (tp_dtype)a->dtype)
                                                              : tpi_retain(x);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(x)),
                                TPI_GPU_PTR(tpi_gpu_data(scratch)),
                                TPI_GPU_PTR(tpi_gpu_data(v)),
                                TPI_GPU_PTR(tpi_gpu_data(values)),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(above)};
    bool ok = scratch && tpi_gpu_each_matrix((tpi_gpu_matrix_kernel){&site, held, vectors}, x, 6, args);
    tpi_release(x);
    tpi_release(scratch);
    return tpi_gpu_hand_over(2, (tp_tensor *[]){values, v}, ok, out);
}

static bool eigen(tp_tensor *self, const char *UPLO, bool vectors,
                  tp_tensor **out) { /* values, and the matrix in whose place the vectors are */
    if (self->ndim < 2 || tpi_rows_of(self) != tpi_cols_of(self) || !UPLO || !UPLO[0]) return false;
    bool upper = UPLO[0] == 'U' || UPLO[0] == 'u', lower = UPLO[0] == 'L' || UPLO[0] == 'l';
    if (!upper && !lower) return false;
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(self);
    if (!driver)
        return tpi_gpu_blocks_fit(self) && tpi_cols_of(self) <= TPI_GPU_MOST_ROTATED &&
               eigen_of_blocks(self, upper, vectors, out);
    tp_tensor *a = tpi_columns_copy(self, tp_no_ints()),
              *values = a ? tpi_rows_new(self, 2, tpi_cols_of(self), tpi_dtype_to_real((tp_dtype)self->dtype)) : NULL;
    tp_tensor *info = values ? tpi_batch_new(self, 2, TP_INT32) : NULL;
    bool ok = info &&
              tpi_gpu_library_solves(driver, a,
                                     (tpi_gpu_solver){.what = TPI_SOLVER_EIGH,
                                                      .upper = upper,
                                                      .vectors = vectors,
                                                      .values = values->data,
                                                      .info = (int32_t *)info->data}) &&
              tpi_gpu_info_clear(info);
    tpi_release(info);
    return tpi_gpu_hand_over(2, (tp_tensor *[]){values, a}, ok, out);
}

tpi_served tpi_gpu_eigh(tp_tensor *self, const char *UPLO, tp_tensor **out) {
    return tpi_serve_if(eigen(self, UPLO, true, out));
}

tpi_served tpi_gpu_eigvalsh(tp_tensor *self, const char *UPLO, tp_tensor **result) {
    tp_tensor *made[2];
    return tpi_serve(eigen(self, UPLO, false, made) ? tpi_release_then(made[1], made[0]) : NULL, result);
}

/* ---- General ---- */
bool tpi_gpu_is_finite(tpi_temporaries *temps, tp_tensor *a) {
    tp_tensor *each = tpi_put(temps, tpo_isfinite(a)),
              *all = each ? tpi_put(temps, tpo_all(each, tp_no_ints(), false)) : NULL;
    tp_tensor *here = all ? tpi_put(temps, tpi_empty(tpi_shape(all), TP_BOOL, (tp_device){TP_CPU, 0})) : NULL;
    return here && tpi_copy_data(here, all) && *(const bool *)here->data;
}

/* Complex vectors of what a real matrix has: v + i w and v - i w where columns v and w stand for a pair. */
static tp_tensor *unpack(tpi_temporaries *temps, tp_tensor *packed, tp_tensor *values) {
    tp_tensor *parts = tpi_put(temps, tpo_imag(values)), *row = parts ? tpi_put(temps, tpo_unsqueeze(parts, -2)) : NULL;
    tp_tensor *is_first = row ? tpi_put(temps, tpo_gt(row, tp_operand_double(0))) : NULL,
              *is_second = is_first ? tpi_put(temps, tpo_lt(row, tp_operand_double(0))) : NULL;
    tp_tensor *next = is_second ? tpi_put(temps, tpo_roll(packed, TP_INTS(-1), TP_INTS(-1))) : NULL,
              *last = next ? tpi_put(temps, tpo_roll(packed, TP_INTS(1), TP_INTS(-1))) : NULL;
    tp_tensor *minus = last ? tpi_put(temps, tpo_neg(packed)) : NULL,
              *re = minus ? tpi_put(temps, tpo_where(is_second, tp_operand_tensor(last), tp_operand_tensor(packed)))
                          : NULL;
    tp_tensor *rest = re ? tpi_put(temps, tpo_where(is_second, tp_operand_tensor(minus), tp_operand_double(0))) : NULL;
    tp_tensor *im = rest ? tpi_put(temps, tpo_where(is_first, tp_operand_tensor(next), tp_operand_tensor(rest))) : NULL;
    return im ? tpi_put(temps, tpo_complex(re, im)) : NULL;
}

/* Values, and vectors unless that is NULL. */
static bool eig(tp_tensor *self, tp_tensor **values, tp_tensor **vectors) {
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(self);
    if (!driver || tpi_rows_of(self) != tpi_cols_of(self)) return false;
    tpi_temporaries temps = {0};
    int64_t n = tpi_cols_of(self);
    tp_dtype dtype = (tp_dtype)self->dtype;
    tp_tensor *a = tpi_put(&temps, tpi_columns_copy(self, tp_no_ints())),
              *w = a && tpi_gpu_is_finite(&temps, a) ? /* the library may never come back from others */
                       tpi_put(&temps, tpi_rows_new(self, 2, n, tpi_dtype_to_complex(dtype)))
                                                     : NULL;
    tp_tensor *v = w && vectors ? tpi_put(&temps, tpi_columns_new(self, 2, n, n, dtype)) : NULL,
              *info = w ? tpi_put(&temps, tpi_batch_new(self, 2, TP_INT32)) : NULL;
    const tpi_gpu_solver what = {.what = TPI_SOLVER_EIG,
                                 .vectors = vectors != NULL,
                                 .b = tpi_gpu_data(v),
                                 .values = tpi_gpu_data(w),
                                 .info = tpi_gpu_data(info)};
    bool ok = info && (v || !vectors) && tpi_gpu_library_solves(driver, a, what) && tpi_gpu_info_clear(info);
    if (ok && vectors && !tp_dtype_is_complex(dtype)) ok = (v = unpack(&temps, v, w)) != NULL;
    if (ok) *values = tpi_retain(w);
    if (ok && vectors) *vectors = tpi_retain(v);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

tpi_served tpi_gpu_eig(tp_tensor *self, tp_tensor **out) { return tpi_serve_if(eig(self, &out[0], &out[1])); }

tpi_served tpi_gpu_eigvals(tp_tensor *self, tp_tensor **result) {
    tp_tensor *values;
    return tpi_serve(eig(self, &values, NULL) ? values : NULL, result);
}
