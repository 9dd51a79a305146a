/* The text of every map operator and every derivative, in each compute type, run on a device (PoCL's counts) and held
 * against the CPU's own kernel of the same expression: all of a family and compute type as one kernel, over ordinary
 * and special values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include <taper/taper.h>
#include "ops/kernels.h"
#include "base/memory.h"
#include "device/gpu/map.h"
#include "device/gpu/program.h"
#include "device/launch.h"

enum { N = 64, SLOTS = 8, SLOT_BYTES = N * 16, MAX_OPS = 512 };
static tp_device device = {TP_XPU, 0};

/* ---- Inputs: in[type][slot] ---- */
static _Alignas(64) char inputs[TPI_CTYPES][SLOTS][SLOT_BYTES];

static double real_value(int slot, int i) {
    static const double special[] = {0, 1, -1, 0.5, 2, INFINITY, -INFINITY, NAN};
    uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(slot * 40503u + 977u);
    h ^= h >> 13;
    h *= 0x85ebca6bu;
    h ^= h >> 16;
    double unit = (h & 0xffff) / 65536.0;
    if (i >= N - 8 && slot == 0) return special[i - (N - 8)];
    return i < 16 ? 0.02 + 0.96 * unit : i < 32 ? 1 + 4 * unit : 6 * unit - 3;
}

static void fill_inputs(void) {
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; i < N; i++) {
            double x = real_value(slot, i), y = real_value(slot + 3, i);
            int64_t whole = isfinite(x) ? (int64_t)(x * 4) : 7;
            inputs[TPI_B8][slot][i] = whole & 1;
            ((int32_t *)inputs[TPI_I32][slot])[i] = (int32_t)whole;
            ((int64_t *)inputs[TPI_I64][slot])[i] = whole;
            ((float *)inputs[TPI_F32][slot])[i] = (float)x;
            ((double *)inputs[TPI_F64][slot])[i] = x;
            ((tpi_c64 *)inputs[TPI_C64][slot])[i] = isfinite(x) ? (tpi_c64){(float)x, (float)y} : (tpi_c64){0, 0};
            ((tpi_c128 *)inputs[TPI_C128][slot])[i] = isfinite(x) ? (tpi_c128){x, y} : (tpi_c128){0, 0};
        }
}

/* ---- One kernel for a family in a compute type ---- */
typedef struct job {
    tpi_ctype type;
    int n;
    const tpi_map_op *op[MAX_OPS];
} job;

static tpi_ctype in_type(const tpi_map_op *op, int i, tpi_ctype c) {
    return op->in_type[i] == TPI_CTYPES ? c : (tpi_ctype)op->in_type[i];
}
static tpi_ctype out_type(const tpi_map_op *op, tpi_ctype c) {
    return tpi_gpu_ctype(tpi_result_dtype(op->result, tpi_ctype_dtype(c)));
}

static bool put_job(tpi_text *t, const void *context) {
    const job *j = context;
    bool ok = tpi_text_put(t, "PARAMS_TYPE(8)\n");
    for (int o = 0; o < j->n && ok; o++)
        ok = tpi_text_put(t, "#define op_element element_%d\n", o) &&
             tpi_text_put(t, "%s#undef op_element\n", j->op[o]->source[j->type]);
    ok = ok && tpi_text_put(t, "KERNEL(every)(PTR(out), PTR(in), PTR(params)) {\n    const int i = BLOCK * THREADS + "
                               "THREAD;\n    GLOBAL const params_t *p = AT(const params_t, params);\n");
    for (int o = 0; o < j->n && ok; o++) {
        const tpi_map_op *op = j->op[o];
        ok = tpi_text_put(t, "    ((GLOBAL %s *)(AT(char, out) + %d))[i] = element_%d(",
                          tpi_gpu_ctype_text(out_type(op, j->type)), o * SLOT_BYTES, o);
        for (int k = 0; k < op->nin && ok; k++) {
            tpi_ctype in = in_type(op, k, j->type);
            ok = tpi_text_put(t, "((GLOBAL const %s *)(AT(char, in) + %d))[i], ", tpi_gpu_ctype_text(in),
                              ((int)in * SLOTS + k) * SLOT_BYTES);
        }
        ok = ok && tpi_text_put(t, "p[%d]);\n", o);
    }
    return ok && tpi_text_put(t, "}\n");
}

static void params_of(const tpi_map_op *op, tpi_ctype c, tpi_param *params) {
    static const double values[8] = {0.75, 1.25, 0.5, 2, 0.25, 1.5, 3, 1};
    tp_scalar scalars[8];
    for (int i = 0; i < 8; i++) scalars[i] = op->param_type[i] < TPI_F32 ? tp_int(i == 0) : tp_float(values[i]);
    tpi_fill_params(params, op->nparam, op->param_type, tpi_ctype_dtype(c), c, scalars);
}

/* ---- Comparing ---- */
static double part(const char *at, tpi_ctype c, int i, int which) {
    switch (c) {
    case TPI_B8: return ((const uint8_t *)at)[i];
    case TPI_I32: return ((const int32_t *)at)[i];
    case TPI_I64: return (double)((const int64_t *)at)[i];
    case TPI_F32: return ((const float *)at)[i];
    case TPI_F64: return ((const double *)at)[i];
    case TPI_C64: return which ? ((const tpi_c64 *)at)[i].im : ((const tpi_c64 *)at)[i].re;
    default: return which ? ((const tpi_c128 *)at)[i].im : ((const tpi_c128 *)at)[i].re;
    }
}

static bool close_enough(double got, double want, double scale, tpi_ctype c) {
    if (got == want || (isnan(got) && isnan(want))) return true;
    double tolerance = c == TPI_F32 || c == TPI_C64 ? 2e-5 : c == TPI_F64 || c == TPI_C128 ? 1e-10 : 0;
    return fabs(got - want) <= tolerance * (fabs(want) + scale);
}

/* gelu's kernels for float are approximations that promise nothing at NaN and minus infinity, where the CPU's happens
 * to give other values. */
static bool is_open(const tpi_map_op *op, tpi_ctype c, double input) {
    return c == TPI_F32 && !strncmp(op->name, "gelu_", 5) && (isnan(input) || input == -INFINITY);
}

/* Complex numbers by the size of both parts together. */
static bool check_op(const job *j, int o, const char *got, const char *want) {
    tpi_ctype c = out_type(j->op[o], j->type), in = in_type(j->op[o], 0, j->type);
    for (int i = 0; i < N; i++)
        for (int which = 0; which <= (c >= TPI_C64); which++) {
            double input = part(inputs[in][0], in, i, 0);
            double g = part(got, c, i, which), w = part(want, c, i, which),
                   other = c >= TPI_C64 ? part(want, c, i, !which) : 0;
            if (close_enough(g, w, isfinite(other) ? 1 + fabs(other) : 1, c) || is_open(j->op[o], j->type, input))
                continue;
            print_error("%s, %s: element %d is %.17g, %.17g on the CPU; the first input is %.17g\n", j->op[o]->name,
                        tpi_gpu_ctype_suffix(j->type), i, g, w, input);
            return false;
        }
    return true;
}

static int run_job(const job *j) {
    const tpi_device_ops *ops = tpi_device_ops_of(device);
    size_t bytes = (size_t)j->n * SLOT_BYTES, param_bytes = (size_t)j->n * 8 * sizeof(tpi_param);
    tpi_param *params = tpi_malloc(param_bytes);
    char *got = tpi_malloc(bytes), key[32];
    static _Alignas(64) char want[SLOT_BYTES];
    for (int o = 0; o < j->n; o++) params_of(j->op[o], j->type, params + 8 * o);
    char *out = ops->alloc(device, bytes), *in = ops->alloc(device, sizeof inputs),
         *p = ops->alloc(device, param_bytes);
    assert_true(params);
    assert_true(got);
    assert_true(out);
    assert_true(in);
    assert_true(p);
    assert_true(ops->from_host(device, in, inputs, sizeof inputs));
    assert_true(ops->from_host(device, p, params, param_bytes));
    snprintf(key, sizeof key, "%p %d", (const void *)j->op[0], (int)j->type);
    tpi_gpu_function *kernel = tpi_gpu_program(device, key, "every", put_job, j);
    if (!kernel) fail_msg("%s", tp_error());
    assert_true(
        tpi_gpu_launch(device, kernel, 1, N, 0, 3, (tpi_gpu_arg[]){TPI_GPU_PTR(out), TPI_GPU_PTR(in), TPI_GPU_PTR(p)}));
    assert_true(ops->to_host(device, got, out, bytes));
    int failed = 0;
    for (int o = 0; o < j->n; o++) {
        const tpi_map_op *op = j->op[o];
        char *args[SLOTS + 1] = {want};
        for (int k = 0; k < op->nin; k++) args[k + 1] = inputs[in_type(op, k, j->type)][k];
        op->fn[tpi_cpu_isa][j->type](N, args, params + 8 * o);
        failed += !check_op(j, o, got + (size_t)o * SLOT_BYTES, want);
    }
    ops->free(device, out, bytes);
    ops->free(device, in, sizeof inputs);
    ops->free(device, p, param_bytes);
    tpi_mfree(params);
    tpi_mfree(got);
    return failed;
}

static void every_map_in_every_type(void **state) {
    (void)state;
    static job j;
    int failed = 0, count = 0;
    fill_inputs();
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (int c = 0; c < TPI_CTYPES; c++) {
            j.type = (tpi_ctype)c;
            j.n = 0;
            for (const tpi_map_op *const *m = f->maps; *m; m++)
                if ((*m)->source[c] && j.n < MAX_OPS) j.op[j.n++] = *m;
            if (j.n) {
                failed += run_job(&j);
                count += j.n;
            }
        }
    print_message("%d texts\n", count);
    assert_true(count > 500);
    assert_int_equal(failed, 0);
}

int main(void) {
    setenv("TAPER_XPU_DEVICES", "all", 0); /* processors too */
    if (!tp_gpu_count(TP_XPU)) {
        fprintf(stderr, "SKIPPED: there is no OpenCL device here: %s\n", tp_gpu_missing(TP_XPU));
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_map_in_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
