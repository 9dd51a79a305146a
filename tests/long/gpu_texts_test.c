/* The kernel text of every map, fold and scan compiles for CUDA (NVRTC) and for AMD's GPUs (hiprtc), which needs no
 * GPU, and for OpenCL devices without double precision: all of a family and compute type as one program, whose kernels
 * call every function, and the kernels of some operators as they are launched, in several forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <taper/taper.h>
#include "ops/kernels.h"
#include "device/gpu/axes.h"
#include "device/gpu/map.h"
#include "device/gpu/program.h"
#include "device/block_program.h"

static const char *const renamed[] = {"op_element", "op_start", "op_step", "op_merge", "op_finish",
                                      "op_value",   "state_t",  "x_t",     "out0_t",   "out1_t",
                                      "out2_t",     "out3_t",   "params_t"};
enum { RENAMED = sizeof renamed / sizeof *renamed };

/* The operator's functions under names of their own, and a kernel that calls `calls`. */
static bool put_operator(tpi_text *t, int number, const char *source, int nparam, const char *calls) {
    for (int i = 0; i < RENAMED; i++)
        if (!tpi_text_put(t, "#define %s %s_%d\n", renamed[i], renamed[i], number)) return false;
    bool ok = tpi_text_put(t, "PARAMS_TYPE(%d)\n", nparam ? nparam : 1) && tpi_text_put(t, "%s", source) &&
              tpi_text_put(t, "KERNEL(k%d)(PTR(to), const int64_t n, const params_t param) {\n%s}\n", number, calls);
    for (int i = 0; i < RENAMED && ok; i++) ok = tpi_text_put(t, "#undef %s\n", renamed[i]);
    return ok;
}

static void map_calls(char *calls, size_t capacity, const tpi_map_op *op, tpi_ctype c) {
    int n = snprintf(calls, capacity, "    *AT(%s, to) = op_element(",
                     tpi_gpu_ctype_text(op->result == TPI_RESULT_SAME    ? c
                                        : op->result == TPI_RESULT_INT64 ? TPI_I64
                                        : op->result == TPI_RESULT_REAL  ? (c == TPI_C64    ? TPI_F32
                                                                            : c == TPI_C128 ? TPI_F64
                                                                                            : c)
                                                                         : TPI_B8));
    for (int i = 0; i < op->nin; i++) {
        tpi_ctype in = op->in_type[i] == TPI_CTYPES ? c : (tpi_ctype)op->in_type[i];
        n += snprintf(calls + n, capacity - (size_t)n, "AT(%s, to)[%d], ", tpi_gpu_ctype_text(in), i);
    }
    snprintf(calls + n, capacity - (size_t)n, "param);\n");
}

static void fold_calls(char *calls, size_t capacity, int nout, bool merges, bool scan) {
    int n = snprintf(calls, capacity,
                     "    state_t a = op_start(param);\n    for (int64_t i = 0; i < n; i++) a = op_step(a, AT(x_t, "
                     "to)[i], i, param);\n");
    if (merges) n += snprintf(calls + n, capacity - (size_t)n, "    a = op_merge(a, a, param);\n");
    for (int r = 0; r < nout; r++) n += snprintf(calls + n, capacity - (size_t)n, "    out%d_t r%d;\n", r, r);
    n += snprintf(calls + n, capacity - (size_t)n, "    op_%s(a, %s, param", scan ? "value" : "finish",
                  scan ? "AT(x_t, to)[0], n" : "n");
    for (int r = 0; r < nout; r++) n += snprintf(calls + n, capacity - (size_t)n, ", &r%d", r);
    n += snprintf(calls + n, capacity - (size_t)n, ");\n");
    for (int r = 0; r < nout; r++)
        n += snprintf(calls + n, capacity - (size_t)n, "    AT(out%d_t, to)[%d] = r%d;\n", r, r, r);
}

typedef struct family_of_type {
    const tpi_family *family;
    tpi_ctype type;
    int *count;
    bool f64;
} family_of_type;

static bool put_family(tpi_text *t, const void *context) {
    const family_of_type *f = context;
    const tpi_ctype c = f->type;
    char calls[2000];
    /* this machine's compiler has doubles and takes literals for such, as one of a device without them does not */
    bool ok = f->f64 || tpi_text_put(t, "INLINE float __attribute__((overloadable)) fmod(float x, __typeof__(1.0) y) { "
                                        "return fmod(x, (float)y); }\n");
    int number = 0;
    for (const tpi_map_op *const *m = f->family->maps; *m && ok; m++)
        if ((*m)->source[c]) {
            map_calls(calls, sizeof calls, *m, c);
            ok = put_operator(t, number++, (*m)->source[c], (*m)->nparam, calls);
        }
    for (const tpi_fold_op *const *o = f->family->folds; *o && ok; o++)
        if ((*o)->source[c]) {
            fold_calls(calls, sizeof calls, (*o)->nout, true, false);
            ok = put_operator(t, number++, (*o)->source[c], (*o)->nparam, calls);
        }
    for (const tpi_scan_op *const *o = f->family->scans; *o && ok; o++) {
        if (!(*o)->source[c]) continue;
        fold_calls(calls, sizeof calls, (*o)->nout, strstr((*o)->source[c], "op_merge(") != NULL, true);
        ok = put_operator(t, number++, (*o)->source[c], (*o)->nparam, calls);
    }
    *f->count = number;
    return ok && tpi_text_put(t, "\n");
}

typedef struct target {
    const tpi_gpu_driver *driver;
    const char *arch;
    int warp;
    bool f64;
} target;
static target cuda = {&tpi_cuda_driver, "sm_80", 32, true}, hip = {&tpi_hip_driver, "gfx90a", 64, true},
              opencl = {&tpi_opencl_driver, "", 1, false};

static void need_compiler(const target *t) {
    if (t->driver->compiler()) return;
    print_message("SKIPPED: there is no compiler for %s on this machine\n", t->driver->name);
    skip();
}

static void *compile(const target *t, tpi_gpu_source make, const void *context) {
    tpi_text source = {NULL, 0, 0};
    size_t bytes;
    assert_true(tpi_gpu_compose(&source, &(tpi_gpu_target){t->f64, t->warp}, make, context));
    void *binary = t->driver->compile(source.s, "kernel", t->arch, &bytes);
    if (!binary) print_error("%s\n", tp_error());
    if (!binary && getenv("TAPER_TEST_TEXT")) fputs(source.s, stderr);
    tpi_text_free(&source);
    return binary;
}

static void every_text_compiles(void **state) {
    const target *t = *state;
    need_compiler(t);
    int all = 0, failed = 0;
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (int c = 0; c < TPI_CTYPES; c++) {
            int count = 0;
            if (!t->f64 && (c == TPI_F64 || c == TPI_C128)) continue;
            const family_of_type context = {f, (tpi_ctype)c, &count, t->f64};
            tpi_text probe = {NULL, 0, 0};
            assert_true(put_family(&probe, &context));
            tpi_text_free(&probe);
            if (!count) continue;
            void *binary = compile(t, put_family, &context);
            if (!binary) failed++;
            tp_error_clear();
            tpi_mfree(binary);
            all += count;
        }
    print_message("%d texts\n", all);
    assert_int_equal(failed, 0);
    assert_true(all > 500);
}

static const tpi_map_op *map_named(const char *name) {
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (const tpi_map_op *const *m = f->maps; *m; m++)
            if (!strcmp((*m)->name, name)) return *m;
    fail_msg("no map operator '%s'", name);
    return NULL;
}

static const tpi_fold_op *fold_named(const char *name) {
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (const tpi_fold_op *const *o = f->folds; *o; o++)
            if (!strcmp((*o)->name, name)) return *o;
    fail_msg("no fold operator '%s'", name);
    return NULL;
}

static void kernels_in_their_forms(void **state) {
    const target *t = *state;
    need_compiler(t);
    static const tpi_gpu_form forms[] = {
        {1, 3, 1, 4, true, false, {TP_FLOAT32, TP_FLOAT32, TP_FLOAT32}, {0, 0, 0}},
        {1, 3, 1, 8, true, true, {TP_BFLOAT16, TP_BFLOAT16, TP_FLOAT16}, {0, 0, TPI_WAY_SAME}},
        {1, 3, 1, 8, true, false, {TP_FLOAT16, TP_INT8, TP_FLOAT32}, {0, 0, TPI_WAY_NUMBER}},
        {2, 3, 1, 4, false, false, {TP_FLOAT32, TP_FLOAT32, TP_INT64}, {0, TPI_WAY_SAME, TPI_WAY_STRIDED}},
        {4,
         3,
         1,
         1,
         false,
         true,
         {TP_COMPLEX64, TP_BOOL, TP_INT16},
         {TPI_WAY_STRIDED, TPI_WAY_STRIDED, TPI_WAY_STRIDED}},
    };
    const tpi_map_op *op = map_named("mul");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tpi_gpu_map_text text = {.form = &forms[i],
                                 .source = op->source[TPI_F32],
                                 .nparam = op->nparam,
                                 .type = {TPI_F32, TPI_F32, TPI_F32}};
        void *binary = compile(t, tpi_gpu_put_map, &text);
        assert_non_null(binary);
        tpi_mfree(binary);
    }
}

/* (x * y + 1.5 y) rounded to bfloat16, and whether its hyperbolic tangent is greater than y: two results, x in half
 * precision, and y of whatever layout the form says. */
static tpi_program *two_results(void) {
    enum { SUM, MORE, X, Y, PRODUCT, ROUNDED, TANH };
    static tpi_program_value values[] = {
        [SUM] = {TP_BFLOAT16, 0, -1}, [MORE] = {TP_BOOL, 1, -1},        [X] = {TP_FLOAT16, 2, -1},
        [Y] = {TP_FLOAT32, 3, -1},    [PRODUCT] = {TP_FLOAT32, -1, -1}, [ROUNDED] = {TP_FLOAT32, -1, -1},
        [TANH] = {TP_FLOAT32, -1, -1}};
    static tpi_program_step steps[5];
    const tpi_program_step wanted[] = {
        {.op = map_named("mul"),
         .compute = TPI_F32,
         .type = TP_FLOAT32,
         .out = PRODUCT,
         .in = {{.value = X, .type = TP_FLOAT32}, {.value = Y, .type = TP_FLOAT32}}},
        {.op = map_named("mul"),
         .compute = TPI_F32,
         .type = TP_FLOAT32,
         .out = ROUNDED,
         .in = {{.value = -1, .type = TP_FLOAT32, .number = {.f32 = 1.5f}}, {.value = Y, .type = TP_FLOAT32}}},
        {.op = map_named("add"),
         .compute = TPI_F32,
         .type = TP_FLOAT32,
         .out = SUM,
         .in = {{.value = PRODUCT, .type = TP_FLOAT32}, {.value = ROUNDED, .type = TP_FLOAT32}},
         .params = {{.f32 = 1}}},
        {.op = map_named("tanh"),
         .compute = TPI_F32,
         .type = TP_FLOAT32,
         .out = TANH,
         .in = {{.value = SUM, .type = TP_FLOAT32}}},
        {.op = map_named("gt"),
         .compute = TPI_F32,
         .type = TP_BOOL,
         .out = MORE,
         .in = {{.value = TANH, .type = TP_FLOAT32}, {.value = Y, .type = TP_FLOAT32}}},
    };
    memcpy(steps, wanted, sizeof steps);
    static tpi_program program = {
        .nsteps = 5, .nvalues = 7, .nout = 2, .noperands = 4, .steps = steps, .values = values};
    assert_true(tpi_gpu_program_ready(&program));
    return &program;
}

static void programs_in_their_forms(void **state) {
    const target *t = *state;
    need_compiler(t);
    const tpi_program *program = two_results();
#define DTYPES \
    { TP_BFLOAT16, TP_BOOL, TP_FLOAT16, TP_FLOAT32 }
    static const tpi_gpu_form forms[] = {
        {1, 4, 2, 8, true, false, DTYPES, {0, 0, 0, 0}},
        {1, 4, 2, 4, true, true, DTYPES, {0, 0, 0, TPI_WAY_SAME}},
        {2, 4, 2, 4, false, false, DTYPES, {0, 0, TPI_WAY_STRIDED, TPI_WAY_SAME}},
        {3, 4, 2, 1, false, true, DTYPES, {TPI_WAY_STRIDED, TPI_WAY_STRIDED, TPI_WAY_STRIDED, TPI_WAY_STRIDED}},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tpi_gpu_map_text text = {.form = &forms[i],
                                 .source = tpi_gpu_fused_text(program->fused),
                                 .program = true,
                                 .nparam = 2,
                                 .type = {TPI_F32, TPI_B8, TPI_F32, TPI_F32}};
        void *binary = compile(t, tpi_gpu_put_map, &text);
        assert_non_null(binary);
        tpi_mfree(binary);
    }
}

/* Folds of what that program makes: x lies as the results do, y is a line, or both lie the other way around. */
static void folds_of_programs(void **state) {
    const target *t = *state;
    need_compiler(t);
    const tpi_program *program = two_results();
    const tpi_fold_op *sum = fold_named("sum");
    static const struct {
        int64_t runs, x[2], y[2];
        int vec;
        const char *kernel;
    } cases[] = {{64, {2, 128}, {4, 0}, 8, "FOLD_ROWS"},
                 {64, {2, 128}, {4, 0}, 8, "FOLD_COLUMNS"},
                 {33, {2, 66}, {0, 4}, 8, "FOLD_ROWS"},
                 {33, {66, 2}, {132, 4}, 1, "FOLD_COLUMNS"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t runs = cases[i].runs;
        tpi_plan plan = {
            .ndim = 2,
            .nout = 2,
            .nargs = 4,
            .numel = runs * 32,
            .shape = {runs, 32},
            .stride = {{2, 2 * runs}, {1, runs}, {cases[i].x[0], cases[i].x[1]}, {cases[i].y[0], cases[i].y[1]}},
            .dtype = {TP_BFLOAT16, TP_BOOL, TP_FLOAT16, TP_FLOAT32}};
        tpi_fold_prologue feed = {program, &plan, 0, false};
        tpi_gpu_fold_prologue fed = {.feed = NULL};
        assert_true(tpi_gpu_fold_prologue_begin(&fed, &feed));
        tpi_gpu_fold_prologue_settle(&fed, cases[i].vec, false);
        tpi_gpu_axes_form form = {.compute = TPI_F32,
                                  .x = TP_BFLOAT16,
                                  .nout = 1,
                                  .out = {TP_BFLOAT16},
                                  .vec = (uint8_t)cases[i].vec,
                                  .kdims = 1,
                                  .rdims = 1,
                                  .sharing = true,
                                  .block = 256,
                                  .nparam = (uint8_t)sum->nparam,
                                  .out_type = {sum->out_type[0]},
                                  .source = sum->source[TPI_F32],
                                  .define = cases[i].kernel,
                                  .text = "fold.h",
                                  .feed = &fed};
        void *binary = compile(t, tpi_gpu_axes_source, &form);
        assert_non_null(binary);
        tpi_mfree(binary);
    }
}

/* In a process of its own: PoCL and hiprtc each bring an LLVM, and two do not live in one. */
static int run_opencl(void) {
    setenv("TAPER_XPU_DEVICES", "all", 0); /* processors too */
    tpi_gpu_caps caps;                     /* compiles for devices that are there */
    if (tpi_opencl_driver.count() && tpi_opencl_driver.describe(0, &caps)) opencl.arch = caps.arch;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_text_compiles, &opencl)};
    return cmocka_run_group_tests_name("OpenCL without double precision", tests, NULL, NULL);
}

int main(void) {
    pid_t child = fork();
    if (child == 0) return run_opencl();
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_text_compiles, &cuda),
        cmocka_unit_test_prestate(kernels_in_their_forms, &cuda),
        cmocka_unit_test_prestate(programs_in_their_forms, &cuda),
        cmocka_unit_test_prestate(folds_of_programs, &cuda),
        cmocka_unit_test_prestate(every_text_compiles, &hip),
        cmocka_unit_test_prestate(kernels_in_their_forms, &hip),
        cmocka_unit_test_prestate(programs_in_their_forms, &hip),
        cmocka_unit_test_prestate(folds_of_programs, &hip),
    };
    return cmocka_run_group_tests_name("CUDA and HIP", tests, NULL, NULL) + (status != 0);
}
