/* One suite for all devices: every operator's samples on a device against the CPU, forward and backward, in the dtypes
 * that matter on devices and for arguments that lie otherwise in memory. TAPER_TEST_DEVICE=cuda|xpu|test chooses the
 * device: the guarded test device unless it says otherwise, on which a stray look at a device's memory crashes. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/opencl/cl.h"
#include "guarded_device.h"
#include "samples.h"
#include <taper/gpu.h>

static tp_device device = {TP_TEST_DEVICE, 0};

/* ---- What is compared ---- */

/* Random numbers are a device's own; eigenvectors are right with either sign, and so is what else a factorisation
 * leaves open; of two values that name one place either may stay. */
static bool open_to_choice(const char *op) {
    static const char *const names[] = {"linalg_eig",  "linalg_svd", "linalg_svd_with", "svd",         "linalg_eigh",
                                        "linalg_qr",   "qr",         "geqrf",           "pca_lowrank", "svd_lowrank",
                                        "max_unpool3d"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(op, names[i])) return true;
    return false;
}

/* Expanded matrices are singular: whether a factorisation meets a zero there or what rounding left in its place is
 * open, and so is all that follows. */
static bool decided_by_rounding(const char *op, variant how) {
    static const char *const names[] = {"linalg_lu_factor_ex", "linalg_lu_factor", "linalg_lu",
                                        "_lu_with_info",       "linalg_tensorinv", "linalg_tensorsolve",
                                        "linalg_lstsq",        "pinverse",         "linalg_polar"};
    for (size_t i = 0; how == EXPANDED && i < sizeof names / sizeof *names; i++)
        if (!strcmp(op, names[i])) return true;
    return false;
}

/* Operators whose samples say where the result goes. */
static bool goes_elsewhere(const char *op) { return !strcmp(op, "to.device"); }

static bool on_device(const tp_tensor *t) {
    tp_device where = tp_device_of(t);
    return where.type == device.type && where.index == device.index;
}

/* A result in a narrower dtype than the arguments' (a mean of integers) is as exact as that is. */
static double wider(tp_dtype a, tp_dtype b) {
    return tolerance_of(a) > tolerance_of(b) ? tolerance_of(a) : tolerance_of(b);
}

/* Equal elements (expanded ones) cancel in sums of differences: what is left of arguments of about one is what one
 * order of adding or another rounded away, some of a float32's last digits, and not a number to compare with. */
static bool both_cancel(const tp_tensor *got, const tp_tensor *want, variant how) {
    return how == EXPANDED && vanishes(got, 4 * FLT_EPSILON) && vanishes(want, 4 * FLT_EPSILON);
}

/* GPUs solve least squares by another driver than the CPU unless one is asked for, as with PyTorch: it gives residuals
 * and no ranks. */
static bool of_another_driver(const char *op, int result) {
    return result > 0 && device.type != TP_TEST_DEVICE && !strcmp(op, "linalg_lstsq");
}

/* Twice the tolerance of a narrow dtype against a wide one: both sides rounded. */
static void compare(const tp_operator *op, const results *got, const results *want, tp_dtype dtype, variant how,
                    bool values) {
    if (got->n != want->n) return report("%d results, %d on the CPU", got->n, want->n);
    if (got->n == 0 && values && got->plain != want->plain && got->plain == got->plain)
        report("gave %.9g, %.9g on the CPU", got->plain, want->plain);
    for (int i = 0; i < got->n; i++) {
        if (!got->tensors[i] != !want->tensors[i]) {
            report("result %d is %s", i, got->tensors[i] ? "there, but not on the CPU" : "missing");
            continue;
        }
        if (!got->tensors[i] || of_another_driver(op->name, i)) continue;
        if (!on_device(got->tensors[i]) && !goes_elsewhere(op->name)) report("result %d is on another device", i);
        if (!same_kind(got->tensors[i], want->tensors[i]))
            report("result %d: %s", i, difference());
        else if (values && !near(got->tensors[i], want->tensors[i], 2 * wider(dtype, tp_dtype_of(want->tensors[i]))) &&
                 !both_cancel(got->tensors[i], want->tensors[i], how))
            report("result %d: %s", i, difference());
    }
}

/* ---- Forward ---- */
static void check_forward(const operator_sample *sample, const tp_operator *op, tp_dtype dtype, variant how) {
    arguments here, there;
    results want, got;
    at(sample, dtype, variant_names[how]);
    if (!make_arguments(sample, dtype, how, NULL, &here)) return;
    if (how != PLAIN && (!here.varied || depends_on_strides(op->name) || decided_by_rounding(op->name, how)))
        return drop_arguments(&here);
    if (!move_arguments(&here, device, &there)) {
        report_error("placing the arguments");
    } else {
        bool ok = call(&here, &want), random = call_was_random();
        if (!ok) tp_error_clear(); /* views that cannot be, in this layout */
        if (!call(&there, &got)) {
            if (ok)
                report_error("failed");
            else
                tp_error_clear();
        } else {
            if (!ok)
                report("works, but not on the CPU");
            else
                compare(op, &got, &want, dtype, how,
                        !random && !leaves_memory_unset(op->name) && !open_to_choice(op->name));
            drop_results(&got);
        }
        if (ok) drop_results(&want);
        drop_arguments(&there);
    }
    drop_arguments(&here);
}

/* ---- Backward ---- */
static bool evaluate(evaluation *e) {
    return call(&e->args, &e->results) && !call_was_random() && differentiate(e, false, WEIGHTS_ALL);
}

static void check_backward(const operator_sample *sample, const tp_operator *op, tp_dtype dtype) {
    if (sample->nograd || !op->differentiable || open_to_choice(op->name)) return;
    evaluation here, there = {0};
    at(sample, dtype, "backward");
    if (!prepare(sample, dtype, PLAIN, &here)) return;
    if (!move_arguments(&here.args, device, &there.args)) report_error("placing the arguments");
    there.n = want_gradients(sample, &there.args, there.which);
    if (evaluate(&here)) {
        if (!evaluate(&there))
            report_error("failed");
        else
            for (int i = 0; i < here.n; i++) {
                if (there.grads[i] && !on_device(there.grads[i])) report("gradient %d is on another device", i);
                if (!near(there.grads[i], here.grads[i], 4 * tolerance_of(dtype)))
                    report("gradient %d: %s", i, difference());
            }
    }
    tp_error_clear();
    drop_evaluation(&there);
    drop_evaluation(&here);
}

static void check_sample(const operator_sample *sample, const tp_operator *op) {
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_INT64, TP_BOOL,  TP_FLOAT16,  TP_BFLOAT16,
                                      TP_FLOAT64, TP_UINT8, TP_INT32, TP_COMPLEX64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (sample_allows(sample, dtypes[i])) check_forward(sample, op, dtypes[i], PLAIN);
    tp_dtype first = first_dtype(sample);
    check_forward(sample, op, first, TRANSPOSED);
    check_forward(sample, op, first, STEPPED);
    check_forward(sample, op, first, EXPANDED);
    if (sample_allows(sample, TP_FLOAT32)) check_backward(sample, op, TP_FLOAT32);
    if (sample_allows(sample, TP_COMPLEX64)) check_backward(sample, op, TP_COMPLEX64);
}

static void test_samples(void **state) {
    (void)state;
    for_each_sample(false, check_sample);
    fail_if_reported();
}

/* Where programs declare what they call of OpenCL, kernels/builtins.h has all that they do: one that found something
 * missing is compiled with everything, and so is every one after it. */
static void test_declarations(void **state) {
    (void)state;
    tpi_gpu_caps caps = {0};
    if (device.type != TP_XPU || !tpi_opencl_driver.describe(0, &caps) || !caps.keeps) skip();
    assert_true(atomic_load(&tpi_cl_device_at(0)->declares));
}

static bool choose_device(void) {
    const char *wish = getenv("TAPER_TEST_DEVICE");
    if (!wish || !strcmp(wish, "test")) return guarded_device_open();
    device.type = !strcmp(wish, "cuda") ? TP_CUDA : TP_XPU;
    return tp_device_count((tp_device_type)device.type) > 0;
}

int main(void) {
    tp_gpu_turn(TP_GPU_CONV_TF32, false); /* PyTorch's default is on: fewer digits than these comparisons ask for */
    if (!choose_device()) {
        fprintf(stderr, "skipped: %s\n", tp_error() ? tp_error() : "there is no such device here");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_declarations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
