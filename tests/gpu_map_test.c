/* Pointwise kernels, copies and fills on a device (PoCL's counts) against the CPU, bit by bit, over the forms that
 * kernels are written for: contiguous with and without a rest, off alignment, broadcast, strided, of mixed dtypes,
 * turned over, and with numbers by value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "device/gpu/map.h"
#include "samples.h"
#include "tensor/storage.h"

static tp_device device = {TP_XPU, 0};

/* ---- Tensors here and there ---- */

/* Eighths between -6.25 and 6.25, which every floating dtype holds; whole numbers for integers. */
static tp_tensor *numbers(tp_dtype dtype, tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, dtype, (tp_device){TP_CPU, 0});
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t k = (i * 37 + 11) % 101 - 50;
        tp_scalar value = tp_dtype_is_complex(dtype)    ? tp_cplx((double)k / 8, (double)(k % 7) / 4)
                          : tp_dtype_is_floating(dtype) ? tp_float((double)k / 8)
                                                        : tp_int(dtype == TP_UINT8 ? k + 50 : k);
        tpi_store_scalar(t->data + i * (int64_t)tpi_itemsize(t), dtype, value);
    }
    return t;
}
#define NUMBERS(dtype, ...) \
    numbers(dtype, (tp_ints){(int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})

/* The same tensor on the device: its whole storage travels, so that it lies there as it does here. */
static tp_tensor *there(const tp_tensor *t) {
    const tpi_device_ops *ops = tpi_device_ops_of(device);
    tpi_storage *s = tpi_storage_new(device, t->storage->bytes);
    assert_true(s);
    assert_true(ops->from_host(device, s->data, t->storage->data, t->storage->bytes));
    tp_tensor *made = tpi_tensor_over(s, (tp_dtype)t->dtype, tpi_shape(t), tpi_strides(t), t->data - t->storage->data);
    assert_non_null(made);
    return made;
}

static tp_tensor *here(tp_tensor *t) {
    tp_tensor *made = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    if (!made || !tpi_copy_data(made, t)) fail_msg("%s", tp_error());
    return made;
}

static tp_tensor *view(tp_tensor *t, tp_ints shape, tp_ints strides, int64_t offset) {
    tp_tensor *v = tp_as_strided(t, shape, strides, .storage_offset = offset);
    assert_non_null(v);
    tp_release(t);
    return v;
}
#define SIZES(...) ((tp_ints){(int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})

/* ---- Comparing ---- */
typedef tp_tensor *(*binary)(tp_tensor *, tp_tensor *);
static tp_tensor *plus(tp_tensor *x, tp_tensor *y) { return tp_add(x, y); }
static tp_tensor *times(tp_tensor *x, tp_tensor *y) { return tp_mul(x, y); }
static tp_tensor *less(tp_tensor *x, tp_tensor *y) { return tp_lt(x, y); }

/* Gives x and y up. */
static void check_binary(const char *what, binary op, tp_tensor *x, tp_tensor *y) {
    tp_tensor *gx = there(x), *gy = there(y), *want = op(x, y), *got = op(gx, gy);
    if (!want || !got) fail_msg("%s: %s", what, tp_error());
    assert_int_equal(tp_device_of(got).type, device.type);
    tp_tensor *back = here(got);
    if (!same_bits(back, want)) fail_msg("%s: %s", what, difference());
    tp_tensor *all[] = {x, y, gx, gy, want, got, back};
    for (int i = 0; i < 7; i++) tp_release(all[i]);
}

static void contiguous_of_all_lengths(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 3, 4, 7, 2047, 2048, 4099};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_binary("float32", plus, NUMBERS(TP_FLOAT32, lengths[i]), NUMBERS(TP_FLOAT32, lengths[i]));
    static const tp_dtype dtypes[] = {TP_BOOL, TP_UINT8, TP_INT64, TP_FLOAT16, TP_BFLOAT16, TP_FLOAT64, TP_COMPLEX64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        check_binary(tp_dtype_name(dtypes[i]), times, NUMBERS(dtypes[i], 1037), NUMBERS(dtypes[i], 1037));
    check_binary("a bool result", less, NUMBERS(TP_FLOAT32, 515), NUMBERS(TP_FLOAT32, 515));
}

static void off_alignment(void **state) {
    (void)state;
    for (int64_t offset = 1; offset < 4; offset++)
        check_binary("offset", plus, view(NUMBERS(TP_FLOAT32, 1100), SIZES(1000), SIZES(1), offset),
                     view(NUMBERS(TP_FLOAT32, 1100), SIZES(1000), SIZES(1), 2));
}

static void broadcast(void **state) {
    (void)state;
    check_binary("a row", plus, NUMBERS(TP_FLOAT32, 5, 64), NUMBERS(TP_FLOAT32, 64));
    check_binary("a column", times, NUMBERS(TP_FLOAT32, 7, 32), NUMBERS(TP_FLOAT32, 7, 1));
    check_binary("rows of odd length", plus, NUMBERS(TP_FLOAT32, 9, 33), NUMBERS(TP_FLOAT32, 33));
    check_binary("both sides", plus, NUMBERS(TP_INT32, 3, 1, 8), NUMBERS(TP_INT32, 1, 6, 8));
    check_binary("one element", times, NUMBERS(TP_BFLOAT16, 100), numbers(TP_BFLOAT16, (tp_ints){NULL, 0}));
}

static void strided(void **state) {
    (void)state;
    check_binary("every other", plus, view(NUMBERS(TP_FLOAT32, 2000), SIZES(1000), SIZES(2), 1),
                 NUMBERS(TP_FLOAT32, 1000));
    check_binary("permuted", plus, view(NUMBERS(TP_FLOAT32, 2, 3, 5, 8), SIZES(2, 5, 8, 3), SIZES(120, 8, 1, 40), 0),
                 NUMBERS(TP_FLOAT32, 2, 5, 8, 3));
    check_binary("both turned", times, view(NUMBERS(TP_FLOAT32, 70, 30), SIZES(30, 70), SIZES(1, 30), 0),
                 NUMBERS(TP_FLOAT32, 30, 70));
    check_binary("turned and large", plus, view(NUMBERS(TP_FLOAT32, 300, 260), SIZES(260, 300), SIZES(1, 260), 0),
                 NUMBERS(TP_FLOAT32, 260, 300));
    int64_t twos[12], steps[12];
    for (int d = 0; d < 12; d++) { /* a permutation in which no two dims merge */
        twos[d] = 2;
        steps[d] = (int64_t)1 << (d * 5 % 12);
    }
    check_binary("twelve dims", plus, view(NUMBERS(TP_FLOAT32, 4096), (tp_ints){twos, 12}, (tp_ints){steps, 12}, 0),
                 numbers(TP_FLOAT32, (tp_ints){twos, 12}));
}

static void mixed_dtypes(void **state) {
    (void)state;
    check_binary("int64 and float32", plus, NUMBERS(TP_INT64, 100), NUMBERS(TP_FLOAT32, 100));
    check_binary("bfloat16 and float32", times, NUMBERS(TP_BFLOAT16, 101), NUMBERS(TP_FLOAT32, 101));
    check_binary("int8 and complex64", plus, NUMBERS(TP_INT8, 30), NUMBERS(TP_COMPLEX64, 30));
    check_binary("bool and float16, broadcast", times, NUMBERS(TP_BOOL, 4, 16), NUMBERS(TP_FLOAT16, 16));
}

static tp_tensor *with_numbers(tp_tensor *x) {
    tp_tensor *result = NULL;
    TP_SCOPE {
        result =
            tp_keep(tp_clamp(tp_mul(tp_add(x, 1.5, .alpha = tp_int(2)), 3), .min = tp_int(-4), .max = tp_float(7.5)));
    }
    return result;
}

static void numbers_and_indices(void **state) {
    (void)state;
    tp_tensor *x = NUMBERS(TP_FLOAT32, 3, 50), *gx = there(x);
    tp_tensor *want = with_numbers(x), *got = with_numbers(gx);
    assert_true(want);
    assert_true(got);
    tp_tensor *back = here(got);
    assert_true(same_bits(back, want));
    tp_tensor *one = tp_scalar_tensor_of(tp_float(0.5), TP_FLOAT64), *w = tp_add_(x, one), *g = tp_add_(gx, one),
              *again = here(gx);
    assert_true(w == x);
    assert_true(g == gx);
    assert_true(same_bits(again, x)); /* a zero-dimensional tensor of the host is a number */
    tp_tensor *all[] = {x, gx, want, got, back, one, again};
    for (int i = 0; i < 7; i++) tp_release(all[i]);
}

static void refuses_tensors_of_the_host(void **state) {
    (void)state;
    tp_tensor *x = NUMBERS(TP_FLOAT32, 3, 50), *gx = there(x);
    assert_null(tp_add(gx, x));
    assert_non_null(strstr(tp_error(), "same device"));
    tp_error_clear();
    tp_release(x);
    tp_release(gx);
}

/* Tensors that need 64-bit offsets are too large for a test: their kernel, over small ones. */
static void offsets_of_64_bits(void **state) {
    (void)state;
    const tpi_gpu_form form = {
        2, 3, 1, 4, false, true, {TP_FLOAT32, TP_FLOAT32, TP_FLOAT32}, {TPI_WAY_ALONG, TPI_WAY_ALONG, TPI_WAY_SAME}};
    const tpi_gpu_map_text text = {
        .form = &form,
        .source = "INLINE float op_element(const float x, const float y, const params_t param) { return x + y; }\n",
        .type = {TPI_F32, TPI_F32, TPI_F32}};
    tpi_gpu_function *kernel = tpi_gpu_program(device, "wide", "entry", tpi_gpu_put_map, &text);
    if (!kernel) fail_msg("%s", tp_error());
    tp_tensor *x = NUMBERS(TP_FLOAT32, 6, 40), *y = NUMBERS(TP_FLOAT32, 6, 1), *want = plus(x, y), *gx = there(x),
              *gy = there(y), *got = there(x);
    const int64_t groups = 60, layout[] = {10, 16, 160, 16, 160, 0, 4};
    const tpi_param none = {.i64 = 0};
    tpi_gpu_arg args[] = {TPI_GPU_PTR(got->data), TPI_GPU_PTR(gx->data), TPI_GPU_PTR(gy->data),
                          TPI_GPU_VAL(groups),    TPI_GPU_VAL(layout),   TPI_GPU_VAL(none)};
    assert_true(tpi_gpu_launch(device, kernel, 1, tpi_gpu_map_threads(&form), 0, 6, args));
    tp_tensor *back = here(got);
    if (!same_bits(back, want)) fail_msg("%s", difference());
    tp_tensor *all[] = {x, y, want, gx, gy, got, back};
    for (int i = 0; i < 7; i++) tp_release(all[i]);
}

/* ---- Copies and fills ---- */

/* Gives x up: copies it into a contiguous tensor of the dtype, here and there. */
static void check_copy(const char *what, tp_tensor *x, tp_dtype dtype) {
    tp_tensor *gx = there(x), *want = tpi_empty(tpi_shape(x), dtype, (tp_device){TP_CPU, 0}),
              *got = tpi_empty(tpi_shape(x), dtype, device);
    if (!want || !got || !tpi_copy_data(want, x) || !tpi_copy_data(got, gx)) fail_msg("%s: %s", what, tp_error());
    tp_tensor *back = here(got);
    if (!same_bits(back, want)) fail_msg("%s to %s: %s", what, tp_dtype_name(dtype), difference());
    tp_tensor *all[] = {x, gx, want, got, back};
    for (int i = 0; i < 5; i++) tp_release(all[i]);
}

static void conversions(void **state) {
    (void)state;
    for (tp_dtype d = TP_BOOL; d <= TP_BCOMPLEX32; d++) {
        check_copy(tp_dtype_name(d), NUMBERS(d, 67), TP_FLOAT32);
        if (d != TP_UINT8 && d != TP_UINT16) check_copy("float32", NUMBERS(TP_FLOAT32, 67), d);
    }
    check_copy("complex128", NUMBERS(TP_COMPLEX128, 67), TP_INT16);
    check_copy("float64", NUMBERS(TP_FLOAT64, 67), TP_FLOAT16);
    check_copy("int64", NUMBERS(TP_INT64, 67), TP_INT8);
}

static void turned_over(void **state) {
    (void)state;
    static const tp_dtype words[] = {TP_INT8, TP_BFLOAT16, TP_FLOAT32, TP_INT64, TP_COMPLEX128};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        check_copy("aligned", view(NUMBERS(words[i], 160, 96), SIZES(96, 160), SIZES(1, 96), 0), words[i]);
        check_copy("at odd sizes", view(NUMBERS(words[i], 77, 131), SIZES(131, 77), SIZES(1, 131), 0), words[i]);
    }
    check_copy("three dims", view(NUMBERS(TP_FLOAT32, 3, 40, 68), SIZES(3, 68, 40), SIZES(40 * 68, 1, 68), 0),
               TP_FLOAT32);
    check_copy("rows and columns about others",
               view(NUMBERS(TP_FLOAT32, 20, 5, 36, 2), SIZES(2, 36, 5, 20), SIZES(1, 2, 72, 360), 0), TP_FLOAT32);
    check_copy("converted", view(NUMBERS(TP_FLOAT32, 50, 90), SIZES(90, 50), SIZES(1, 90), 0), TP_BFLOAT16);
    check_copy("off alignment", view(NUMBERS(TP_FLOAT32, 4000), SIZES(60, 64), SIZES(1, 60), 1), TP_FLOAT32);
}

static void fills(void **state) {
    (void)state;
    for (tp_dtype d = TP_BOOL; d <= TP_BCOMPLEX32; d++) {
        tp_tensor *want = NUMBERS(d, 6, 35), *got = there(want),
                  *w = view(tp_retain(want), SIZES(6, 7), SIZES(35, 5), 3),
                  *g = view(tp_retain(got), SIZES(6, 7), SIZES(35, 5), 3);
        tp_scalar value = tp_dtype_is_complex(d)    ? tp_cplx(-2.5, 1)
                          : tp_dtype_is_floating(d) ? tp_float(-2.5)
                                                    : tp_int(d == TP_BOOL ? 1 : 100);
        assert_true(tpi_fill_data(w, value));
        assert_true(tpi_fill_data(g, value));
        tp_tensor *back = here(got);
        if (!same_bits(back, want)) fail_msg("%s: %s", tp_dtype_name(d), difference());
        tp_tensor *all[] = {want, got, w, g, back};
        for (int i = 0; i < 5; i++) tp_release(all[i]);
    }
}

int main(void) {
    setenv("TAPER_XPU_DEVICES", "all", 0); /* processors too */
    if (!tp_device_count(TP_XPU)) {
        fprintf(stderr, "SKIPPED: there is no OpenCL device here: %s\n",
                tp_error() ? tp_error() : "PoCL's packages give one");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_of_all_lengths),
        cmocka_unit_test(off_alignment),
        cmocka_unit_test(broadcast),
        cmocka_unit_test(strided),
        cmocka_unit_test(mixed_dtypes),
        cmocka_unit_test(numbers_and_indices),
        cmocka_unit_test(refuses_tensors_of_the_host),
        cmocka_unit_test(conversions),
        cmocka_unit_test(turned_over),
        cmocka_unit_test(fills),
        cmocka_unit_test(offsets_of_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
