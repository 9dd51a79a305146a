/* The kernels of reductions, scans and matrix products compile for CUDA (NVRTC) and AMD's GPUs (hiprtc) in the forms
 * they are launched in, which needs no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <taper/taper.h>
#include "ops/kernels.h"
#include "device/gpu/axes.h"
#include "device/gpu/program.h"
#include "device/launch.h"
#include "ops/matmul/matmul_gpu.h"

typedef struct target {
    const tpi_gpu_driver *driver;
    const char *arch;
    int warp;
} target;
static target cuda = {&tpi_cuda_driver, "sm_80", 32}, hip = {&tpi_hip_driver, "gfx90a", 64};

static void need_compiler(const target *t) {
    if (t->driver->compiler()) return;
    print_message("SKIPPED: there is no compiler for %s on this machine\n", t->driver->name);
    skip();
}

static void compile(const target *t, const char *what, tpi_gpu_source make, const void *form) {
    tpi_text source = {NULL, 0, 0};
    size_t bytes;
    assert_true(tpi_gpu_compose(&source, &(tpi_gpu_target){true, t->warp}, make, form));
    void *binary = t->driver->compile(source.s, what, t->arch, &bytes);
    if (!binary) fail_msg("%s: %s", what, tp_error());
    tpi_text_free(&source);
    tpi_mfree(binary);
}

/* One kernel over elements of the dtype: 16 bytes at a time over one dim each, and one by one over several. */
static void compile_axes(const target *t, const char *name, tp_dtype dtype, bool sum_like, int nout,
                         const uint8_t *out_type, int nparam, const char *const *source, const char *kernel,
                         const char *text, bool split, bool packed) {
    bool whole = sum_like && (tpi_dtype_category[dtype] & (TPI_CAT_BOOL | TPI_CAT_INT));
    tp_dtype result = whole ? TP_INT64 : dtype;
    tpi_ctype c = whole ? TPI_I64 : (tpi_ctype)tpi_dtype_ctype[dtype];
    if (!source[c]) return;
    tpi_gpu_axes_form f = {.compute = (uint8_t)c,
                           .x = (uint8_t)dtype,
                           .nout = (uint8_t)nout,
                           .vec = packed ? 16 / tpi_dtype_bytes[dtype] : 1,
                           .kdims = packed ? 1 : 3,
                           .rdims = packed || strncmp(kernel, "FOLD", 4) ? 1 : 2,
                           .wide = !packed,
                           .split = split,
                           .sharing = true,
                           .block = 256,
                           .nparam = (uint8_t)nparam,
                           .source = source[c],
                           .define = kernel,
                           .text = text};
    for (int k = 0; k < nout; k++) {
        f.out_type[k] = out_type[k];
        f.out[k] = (uint8_t)tpi_result_dtype(out_type[k], result);
    }
    compile(t, name, tpi_gpu_axes_source, &f);
}

/* The operators' functions compile in gpu_texts_test.c; here are some of each kind of state. */
static bool stands_for_others(const char *name) {
    static const char *const names[] = {"sum", "max.dim", "var_mean", "all", "cumsum", "cummax", "logcumsumexp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static void folds(void **state) {
    need_compiler(*state);
    static const struct {
        const char *kernel;
        bool split, packed;
    } forms[] = {{"FOLD_ROWS", false, true},
                 {"FOLD_ROWS", true, false},
                 {"FOLD_COLUMNS", true, true},
                 {"FOLD_COLUMNS", false, false},
                 {"FOLD_MERGE", false, false}};
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_BFLOAT16, TP_COMPLEX64, TP_BOOL};
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (const tpi_fold_op *const *o = f->folds; *o; o++)
            for (size_t i = 0; i < sizeof forms / sizeof *forms && stands_for_others((*o)->name); i++)
                for (size_t d = 0; d < (strcmp((*o)->name, "sum") ? 1 : sizeof dtypes / sizeof *dtypes); d++)
                    compile_axes(*state, (*o)->name, dtypes[d], (*o)->sum_like, (*o)->nout, (*o)->out_type,
                                 (*o)->nparam, (*o)->source, forms[i].kernel, "fold.h", forms[i].split,
                                 forms[i].packed);
}

static void scans(void **state) {
    need_compiler(*state);
    static const struct {
        const char *kernel, *text;
        bool split, packed;
    } forms[] = {{"FOLD_ROWS", "fold.h", true, true},
                 {"SCAN_ROWS", "scan.h", true, true},
                 {"SCAN_ROWS", "scan.h", false, false},
                 {"SCAN_CARRY", "scan.h", true, false},
                 {"SCAN_COLUMNS", "scan.h", true, false}};
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_BFLOAT16, TP_UINT8};
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (const tpi_scan_op *const *o = f->scans; *o; o++)
            for (size_t i = 0; i < sizeof forms / sizeof *forms && stands_for_others((*o)->name); i++)
                for (size_t d = 0; d < (strcmp((*o)->name, "cumsum") ? 1 : sizeof dtypes / sizeof *dtypes); d++)
                    compile_axes(*state, (*o)->name, dtypes[d], (*o)->sum_like, (*o)->nout, (*o)->out_type,
                                 (*o)->nparam, (*o)->source, forms[i].kernel, forms[i].text, forms[i].split,
                                 forms[i].packed);
}

static void products(void **state) {
    need_compiler(*state);
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_BFLOAT16, TP_UINT8, TP_INT64, TP_COMPLEX64, TP_COMPLEX128};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int tiled = 0; tiled < 2; tiled++) {
            tpi_gpu_matmul_form f = {.dtype = dtypes[d],
                                     .tiled = tiled,
                                     .sharing = true,
                                     .a_down = d % 2,
                                     .b_down = d % 3,
                                     .has_c = d % 2 == 0,
                                     .has_bias = d % 2,
                                     .side = 16};
            compile(*state, "mm", tpi_gpu_matmul_source, &f);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(folds, &cuda),    cmocka_unit_test_prestate(scans, &cuda),
        cmocka_unit_test_prestate(products, &cuda), cmocka_unit_test_prestate(folds, &hip),
        cmocka_unit_test_prestate(scans, &hip),     cmocka_unit_test_prestate(products, &hip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
