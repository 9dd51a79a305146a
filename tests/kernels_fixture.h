/* A few kernels in the form that opgen writes, by hand, so that the drivers can be tested without the tables. */
#ifndef KERNELS_FIXTURE_H
#define KERNELS_FIXTURE_H
#include "device/device.h"
#include <math.h>

#define EVERY_ISA(table) \
    { table, table, table }
#define LOOP for (int64_t i = 0; i < n; i++)

/* ---- Maps ---- */
#define MAP2(name, type, out_type, expr)                                    \
    static void name(int64_t n, char *const *arg, const tpi_param *param) { \
        (void)param;                                                        \
        out_type *o = (out_type *)arg[0];                                   \
        const type *a = (const type *)arg[1], *b = (const type *)arg[2];    \
        LOOP o[i] = expr;                                                   \
    }
MAP2(add_b8, uint8_t, uint8_t, a[i] | b[i])
MAP2(add_i32, int32_t, int32_t, (int32_t)((uint32_t)a[i] + (uint32_t)b[i]))
MAP2(add_i64, int64_t, int64_t, a[i] + b[i])
MAP2(add_f32, float, float, a[i] + b[i])
MAP2(add_f64, double, double, a[i] + b[i])
MAP2(add_c64, tpi_c64, tpi_c64, ((tpi_c64){a[i].re + b[i].re, a[i].im + b[i].im}))
MAP2(add_c128, tpi_c128, tpi_c128, ((tpi_c128){a[i].re + b[i].re, a[i].im + b[i].im}))
static const tpi_block_fn add_table[TPI_CTYPES] = {add_b8, add_i32, add_i64, add_f32, add_f64, add_c64, add_c128};
static const tpi_map_op op_add = {.name = "add",
                                  .nin = 2,
                                  .types = TPI_CAT_ALL,
                                  .has_b8 = 1,
                                  .in_type = {TPI_CTYPES, TPI_CTYPES},
                                  .fn = EVERY_ISA(add_table)};

MAP2(lt_i32, int32_t, uint8_t, a[i] < b[i])
MAP2(lt_i64, int64_t, uint8_t, a[i] < b[i])
MAP2(lt_f32, float, uint8_t, a[i] < b[i])
MAP2(lt_f64, double, uint8_t, a[i] < b[i])
static const tpi_block_fn lt_table[TPI_CTYPES] = {NULL, lt_i32, lt_i64, lt_f32, lt_f64};
static const tpi_map_op op_lt = {.name = "lt",
                                 .nin = 2,
                                 .result = TPI_RESULT_BOOL,
                                 .types = TPI_CAT_BOOL | TPI_CAT_INT | TPI_CAT_FLOAT,
                                 .in_type = {TPI_CTYPES, TPI_CTYPES},
                                 .fn = EVERY_ISA(lt_table)};

static void exp_f32(int64_t n, char *const *arg, const tpi_param *param) {
    (void)param;
    LOOP((float *)arg[0])[i] = expf(((const float *)arg[1])[i]);
}
static void exp_f64(int64_t n, char *const *arg, const tpi_param *param) {
    (void)param;
    LOOP((double *)arg[0])[i] = exp(((const double *)arg[1])[i]);
}
static const tpi_block_fn exp_table[TPI_CTYPES] = {[TPI_F32] = exp_f32, [TPI_F64] = exp_f64};
static const tpi_map_op op_exp = {.name = "exp",
                                  .nin = 1,
                                  .rule = TPI_RULE_FLOAT,
                                  .types = TPI_CAT_FLOAT,
                                  .in_type = {TPI_CTYPES},
                                  .fn = EVERY_ISA(exp_table)};

static void scale_f32(int64_t n, char *const *arg, const tpi_param *param) {
    LOOP((float *)arg[0])[i] = ((const float *)arg[1])[i] * param[0].f32 + (float)param[1].i64;
}
static const tpi_block_fn scale_table[TPI_CTYPES] = {[TPI_F32] = scale_f32};
static const tpi_map_op op_scale = {.name = "scale",
                                    .nin = 1,
                                    .nparam = 2,
                                    .rule = TPI_RULE_FLOAT,
                                    .types = TPI_CAT_FLOAT,
                                    .in_type = {TPI_CTYPES},
                                    .param_type = {TPI_CTYPES, TPI_I64},
                                    .fn = EVERY_ISA(scale_table)};

#define WHERE(name, type)                                                                            \
    static void name(int64_t n, char *const *arg, const tpi_param *param) {                          \
        (void)param;                                                                                 \
        LOOP((type *)arg[0])[i] = arg[1][i] ? ((const type *)arg[2])[i] : ((const type *)arg[3])[i]; \
    }
WHERE(where_i32, int32_t)
WHERE(where_i64, int64_t)
WHERE(where_f32, float)
WHERE(where_f64, double)
static const tpi_block_fn where_table[TPI_CTYPES] = {NULL, where_i32, where_i64, where_f32, where_f64};
static const tpi_map_op op_where = {.name = "where",
                                    .nin = 3,
                                    .types = TPI_CAT_ALL,
                                    .in_type = {TPI_B8, TPI_CTYPES, TPI_CTYPES},
                                    .fn = EVERY_ISA(where_table)};

static void abs_c64(int64_t n, char *const *arg, const tpi_param *param) {
    (void)param;
    LOOP((float *)arg[0])[i] = hypotf(((const tpi_c64 *)arg[1])[i].re, ((const tpi_c64 *)arg[1])[i].im);
}
static void abs_f32(int64_t n, char *const *arg, const tpi_param *param) {
    (void)param;
    LOOP((float *)arg[0])[i] = fabsf(((const float *)arg[1])[i]);
}
static const tpi_block_fn abs_table[TPI_CTYPES] = {[TPI_F32] = abs_f32, [TPI_C64] = abs_c64};
static const tpi_map_op op_abs = {.name = "abs",
                                  .nin = 1,
                                  .result = TPI_RESULT_REAL,
                                  .types = TPI_CAT_FLOAT | TPI_CAT_COMPLEX,
                                  .in_type = {TPI_CTYPES},
                                  .fn = EVERY_ISA(abs_table)};

/* ---- Folds ---- */
#define STATE(type, v) ((type *)state[v])
#define SUM(name, type)                                                                                               \
    static void name##_start(int64_t m, char *const *state, const tpi_param *param) {                                 \
        (void)param;                                                                                                  \
        for (int64_t j = 0; j < m; j++) STATE(type, 0)[j] = 0;                                                        \
    }                                                                                                                 \
    static void name##_inner(const tpi_stretches *from, char *const *state, const tpi_param *param) {                 \
        (void)param;                                                                                                  \
        for (int64_t k = 0; k < from->count; k++) {                                                                   \
            const type *v = (const type *)(from->x + k * from->apart);                                                \
            type lane[TPI_LANES] = {0};                                                                               \
            int64_t i = 0;                                                                                            \
            for (; i + TPI_LANES <= from->n; i += TPI_LANES)                                                          \
                for (int l = 0; l < TPI_LANES; l++) lane[l] += v[i + l];                                              \
            for (; i < from->n; i++) lane[0] += v[i];                                                                 \
            for (int l = 0; l < TPI_LANES; l++) STATE(type, 0)[k * from->columns_apart] += lane[l];                   \
        }                                                                                                             \
    }                                                                                                                 \
    __attribute__((unused)) static void name##_total(int64_t n, const char *x, int64_t index0, char *const *state,    \
                                                     const tpi_param *param) {                                        \
        name##_inner(&(tpi_stretches){1, n, x, 0, index0, 0, 1}, state, param);                                       \
    }                                                                                                                 \
    static void name##_outer(int64_t m, int64_t rows, const char *x, int64_t row, int64_t index0, char *const *state, \
                             const tpi_param *param) {                                                                \
        (void)param, (void)index0;                                                                                    \
        for (int64_t r = 0; r < rows; r++)                                                                            \
            for (int64_t j = 0; j < m; j++) STATE(type, 0)[j] += ((const type *)(x + r * row))[j];                    \
    }                                                                                                                 \
    static void name##_merge(int64_t m, char *const *state, char *const *right, const tpi_param *param) {             \
        (void)param;                                                                                                  \
        for (int64_t j = 0; j < m; j++) STATE(type, 0)[j] += ((const type *)right[0])[j];                             \
    }                                                                                                                 \
    static void name##_finish(int64_t m, char *const *state, int64_t count, char *const *out,                         \
                              const tpi_param *param) {                                                               \
        (void)param, (void)count;                                                                                     \
        for (int64_t j = 0; j < m; j++) ((type *)out[0])[j] = STATE(type, 0)[j];                                      \
    }
SUM(sum_i64, int64_t)
SUM(sum_i32, int32_t)
SUM(sum_f32, float)
SUM(sum_f64, double)
#define FOLD(name) \
    { name##_start, name##_inner, name##_outer, name##_merge, name##_finish }
static const tpi_fold_kernel sum_table[TPI_CTYPES] = {
    [TPI_I32] = FOLD(sum_i32), [TPI_I64] = FOLD(sum_i64), [TPI_F32] = FOLD(sum_f32), [TPI_F64] = FOLD(sum_f64)};
static const tpi_fold_op op_sum = {.name = "sum",
                                   .nstate = 1,
                                   .nout = 1,
                                   .types = TPI_CAT_ALL,
                                   .sum_like = 1,
                                   .state_type = {TPI_CTYPES},
                                   .fn = EVERY_ISA(sum_table)};

/* The largest element and where it stands first; NaN is not looked at. */
#define MAX(name, type, lowest)                                                                                       \
    static void name##_start(int64_t m, char *const *state, const tpi_param *param) {                                 \
        (void)param;                                                                                                  \
        for (int64_t j = 0; j < m; j++) STATE(type, 0)[j] = lowest, STATE(int64_t, 1)[j] = -1;                        \
    }                                                                                                                 \
    static void name##_inner(const tpi_stretches *from, char *const *state, const tpi_param *param) {                 \
        (void)param;                                                                                                  \
        for (int64_t k = 0; k < from->count; k++) {                                                                   \
            const type *v = (const type *)(from->x + k * from->apart);                                                \
            type *most = STATE(type, 0) + k * from->columns_apart;                                                    \
            int64_t *at = STATE(int64_t, 1) + k * from->columns_apart;                                                \
            for (int64_t i = 0; i < from->n; i++)                                                                     \
                if (v[i] > *most || *at < 0) *most = v[i], *at = from->index + k * from->later + i;                   \
        }                                                                                                             \
    }                                                                                                                 \
    static void name##_outer(int64_t m, int64_t rows, const char *x, int64_t row, int64_t index0, char *const *state, \
                             const tpi_param *param) {                                                                \
        (void)param;                                                                                                  \
        for (int64_t r = 0; r < rows; r++, x += row)                                                                  \
            for (int64_t j = 0; j < m; j++)                                                                           \
                if (((const type *)x)[j] > STATE(type, 0)[j] || STATE(int64_t, 1)[j] < 0)                             \
                    STATE(type, 0)[j] = ((const type *)x)[j], STATE(int64_t, 1)[j] = index0 + r;                      \
    }                                                                                                                 \
    static void name##_merge(int64_t m, char *const *state, char *const *right, const tpi_param *param) {             \
        (void)param;                                                                                                  \
        for (int64_t j = 0; j < m; j++)                                                                               \
            if (((const type *)right[0])[j] > STATE(type, 0)[j]) STATE(type, 0)                                       \
        [j] = ((const type *)right[0])[j], STATE(int64_t, 1)[j] = ((const int64_t *)right[1])[j];                     \
    }                                                                                                                 \
    static void name##_finish(int64_t m, char *const *state, int64_t count, char *const *out,                         \
                              const tpi_param *param) {                                                               \
        (void)param, (void)count;                                                                                     \
        for (int64_t j = 0; j < m; j++)                                                                               \
            ((type *)out[0])[j] = STATE(type, 0)[j], ((int64_t *)out[1])[j] = STATE(int64_t, 1)[j];                   \
    }
MAX(max_i32, int32_t, INT32_MIN)
MAX(max_i64, int64_t, INT64_MIN)
MAX(max_f32, float, -INFINITY)
MAX(max_f64, double, -INFINITY)
static const tpi_fold_kernel max_table[TPI_CTYPES] = {
    [TPI_I32] = FOLD(max_i32), [TPI_I64] = FOLD(max_i64), [TPI_F32] = FOLD(max_f32), [TPI_F64] = FOLD(max_f64)};
static const tpi_fold_op op_max = {.name = "max",
                                   .nstate = 2,
                                   .nout = 2,
                                   .types = TPI_CAT_BOOL | TPI_CAT_INT | TPI_CAT_FLOAT,
                                   .uses_index = 1,
                                   .empty_error = TP_ERR_INDEX,
                                   .state_type = {TPI_CTYPES, TPI_I64},
                                   .out_type = {TPI_RESULT_SAME, TPI_RESULT_INT64},
                                   .fn = EVERY_ISA(max_table)};

/* ---- A scan ---- */
#define CUMSUM(name, type)                                                                                   \
    static void name##_inner(int64_t n, const char *x, int64_t index0, char *const *state, char *const *out, \
                             const tpi_param *param) {                                                       \
        (void)param, (void)index0;                                                                           \
        type total = *STATE(type, 0);                                                                        \
        for (int64_t i = 0; i < n; i++) ((type *)out[0])[i] = total += ((const type *)x)[i];                 \
        *STATE(type, 0) = total;                                                                             \
    }                                                                                                        \
    static void name##_outer(int64_t m, const char *x, int64_t index, char *const *state, char *const *out,  \
                             const tpi_param *param) {                                                       \
        (void)param, (void)index;                                                                            \
        for (int64_t j = 0; j < m; j++) ((type *)out[0])[j] = STATE(type, 0)[j] += ((const type *)x)[j];     \
    }
CUMSUM(cumsum_i64, int64_t)
CUMSUM(cumsum_f32, float)
CUMSUM(cumsum_f64, double)
static const tpi_scan_kernel cumsum_table[TPI_CTYPES] = {
    [TPI_I64] = {sum_i64_start, cumsum_i64_inner, cumsum_i64_outer, sum_i64_merge, sum_i64_total},
    [TPI_F32] = {sum_f32_start, cumsum_f32_inner, cumsum_f32_outer, sum_f32_merge, sum_f32_total},
    [TPI_F64] = {sum_f64_start, cumsum_f64_inner, cumsum_f64_outer, sum_f64_merge, sum_f64_total}};
static const tpi_scan_op op_cumsum = {.name = "cumsum",
                                      .nstate = 1,
                                      .nout = 1,
                                      .types = TPI_CAT_ALL,
                                      .sum_like = 1,
                                      .state_type = {TPI_CTYPES},
                                      .fn = EVERY_ISA(cumsum_table)};
#endif
