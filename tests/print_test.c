/* Printing, byte for byte as PyTorch prints: the texts below were recorded from it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include <taper/print.h>
#include "tensor/tensor.h"
#include "tpi_ops.h"

#define MOST_VALUES 8
typedef struct print_case {
    tp_dtype dtype;
    int64_t ndim, shape[4];
    double step;                /* not 0: the elements are 0, step, 2 * step, ... */
    double values[MOST_VALUES]; /* otherwise these; complex ones as pairs */
    const char *text;
    bool has_options;
    tp_print_options options;
    bool requires_grad;
} print_case;

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ }
#define SCALAR \
    0, { 0 }
#define VALUES(...) \
    0, { __VA_ARGS__ }
#define NOTHING \
    0, { 0 }
#define COUNT(step) \
    step, { 0 }
#define OPTIONS(precision, threshold, edge_items, line_width, sci_mode) \
    .has_options = true, .options = {sizeof(tp_print_options), precision, threshold, edge_items, line_width, sci_mode}

static const print_case cases[] = {
    /* numbers */
    {TP_FLOAT32, SCALAR, VALUES(1.5), .text = "tensor(1.5000)"},
    {TP_FLOAT32, SCALAR, VALUES(0), .text = "tensor(0.)"},
    {TP_FLOAT32, SCALAR, VALUES(-0.0), .text = "tensor(-0.)"},
    {TP_FLOAT32, SCALAR, VALUES(NAN), .text = "tensor(nan)"},
    {TP_FLOAT32, SCALAR, VALUES(-INFINITY), .text = "tensor(-inf)"},
    {TP_FLOAT32, SCALAR, VALUES(1e-05), .text = "tensor(1.0000e-05)"},
    {TP_FLOAT32, SCALAR, VALUES(1000000000), .text = "tensor(1.0000e+09)"},
    {TP_FLOAT64, SCALAR, VALUES(0.1), .text = "tensor(0.1000, dtype=torch.float64)"},
    {TP_FLOAT16, SCALAR, VALUES(65504), .text = "tensor(65504., dtype=torch.float16)"},
    {TP_BFLOAT16, SCALAR, VALUES(0.1), .text = "tensor(0.1001, dtype=torch.bfloat16)"},
    {TP_INT64, SCALAR, VALUES(3), .text = "tensor(3)"},
    {TP_BOOL, SCALAR, VALUES(1), .text = "tensor(True)"},
    {TP_COMPLEX64, SCALAR, VALUES(1, 2), .text = "tensor(1.+2.j)"},
    {TP_COMPLEX128, SCALAR, VALUES(-1.5, -0.25), .text = "tensor(-1.5000-0.2500j, dtype=torch.complex128)"},
    /* whole numbers keep their point; anything else makes all of them fixed */
    {TP_FLOAT32, SHAPE(3), VALUES(1, 2, 3), .text = "tensor([1., 2., 3.])"},
    {TP_FLOAT32, SHAPE(3), VALUES(1.5, 2, -3), .text = "tensor([ 1.5000,  2.0000, -3.0000])"},
    {TP_FLOAT32, SHAPE(2), VALUES(0, -0.0), .text = "tensor([0., -0.])"},
    {TP_FLOAT32, SHAPE(3), VALUES(1, NAN, INFINITY), .text = "tensor([1., nan, inf])"},
    {TP_FLOAT32, SHAPE(3), VALUES(NAN, INFINITY, -INFINITY), .text = "tensor([nan, inf, -inf])"},
    {TP_FLOAT32, SHAPE(3), VALUES(123.456, -0.25, NAN), .text = "tensor([123.4560,  -0.2500,      nan])"},
    {TP_FLOAT32, SHAPE(2), VALUES(99999, 0), .text = "tensor([99999.,     0.])"},
    /* scientific when the range or the size asks for it */
    {TP_FLOAT32, SHAPE(2), VALUES(1e-05, 1), .text = "tensor([1.0000e-05, 1.0000e+00])"},
    {TP_FLOAT32, SHAPE(2), VALUES(10000, 1), .text = "tensor([1.0000e+04, 1.0000e+00])"},
    {TP_FLOAT32, SHAPE(2), VALUES(1000, 1), .text = "tensor([1000.,    1.])"},
    {TP_FLOAT32, SHAPE(2), VALUES(1001, 1), .text = "tensor([1.0010e+03, 1.0000e+00])"},
    {TP_FLOAT32, SHAPE(2), VALUES(1000000000, 2000000000), .text = "tensor([1.0000e+09, 2.0000e+09])"},
    {TP_FLOAT32, SHAPE(1), VALUES(100000000), .text = "tensor([100000000.])"},
    {TP_FLOAT64, SHAPE(2), VALUES(0.00011, 0.0002), .text = "tensor([0.0001, 0.0002], dtype=torch.float64)"},
    {TP_FLOAT64, SHAPE(2), VALUES(-INFINITY, 1e-20), .text = "tensor([      -inf, 1.0000e-20], dtype=torch.float64)"},
    {TP_FLOAT64, SHAPE(2), VALUES(2147483648, 1048576),
     .text = "tensor([2.1475e+09, 1.0486e+06], dtype=torch.float64)"},
    {TP_FLOAT64, SHAPE(2), VALUES(1e-300, 1e+300), .text = "tensor([1.0000e-300, 1.0000e+300], dtype=torch.float64)"},
    /* integers and truth */
    {TP_INT8, SHAPE(2, 2), VALUES(0, 100, -7, 22),
     .text = "tensor([[  0, 100],\n"
             "        [ -7,  22]], dtype=torch.int8)"},
    {TP_UINT8, SHAPE(2), VALUES(0, 255), .text = "tensor([  0, 255], dtype=torch.uint8)"},
    {TP_INT16, SHAPE(2), VALUES(-30000, 5), .text = "tensor([-30000,      5], dtype=torch.int16)"},
    {TP_INT32, SHAPE(3), VALUES(1, 20, 300), .text = "tensor([  1,  20, 300], dtype=torch.int32)"},
    {TP_BOOL, SHAPE(2, 2), VALUES(1, 0, 1, 1),
     .text = "tensor([[ True, False],\n"
             "        [ True,  True]])"},
    {TP_INT64, SHAPE(2), VALUES(1000000, -5), .text = "tensor([1000000,      -5])"},
    /* nothing */
    {TP_FLOAT32, SHAPE(0), NOTHING, .text = "tensor([])"},
    {TP_FLOAT32, SHAPE(0, 3), NOTHING, .text = "tensor([], size=(0, 3))"},
    {TP_INT64, SHAPE(2, 0), NOTHING, .text = "tensor([], size=(2, 0), dtype=torch.int64)"},
    {TP_FLOAT64, SHAPE(2, 0, 3), NOTHING, .text = "tensor([], size=(2, 0, 3), dtype=torch.float64)"},
    {TP_BOOL, SHAPE(0), NOTHING, .text = "tensor([], dtype=torch.bool)"},
    /* complex numbers have a format for each part */
    {TP_COMPLEX64, SHAPE(3), VALUES(1, 2, -3.5, -0.5, 0, 0),
     .text = "tensor([ 1.0000+2.0000j, -3.5000-0.5000j,  0.0000+0.0000j])"},
    {TP_COMPLEX64, SHAPE(3), VALUES(0, -0.0, NAN, INFINITY, -INFINITY, 1),
     .text = "tensor([0.-0.j, nan+infj, -inf+1.j])"},
    {TP_COMPLEX128, SHAPE(2), VALUES(1000000, 1, 2, 3),
     .text = "tensor([1.0000e+06+1.j, 2.0000e+00+3.j], dtype=torch.complex128)"},
    /* nesting */
    {TP_FLOAT32, SHAPE(2, 2, 2), COUNT(1),
     .text = "tensor([[[0., 1.],\n"
             "         [2., 3.]],\n"
             "\n"
             "        [[4., 5.],\n"
             "         [6., 7.]]])"},
    {TP_FLOAT16, SHAPE(1, 2, 1, 3), COUNT(0.5),
     .text = "tensor([[[[0.0000, 0.5000, 1.0000]],\n"
             "\n"
             "         [[1.5000, 2.0000, 2.5000]]]], dtype=torch.float16)"},
    {TP_BFLOAT16, SHAPE(1, 1, 1), VALUES(7), .text = "tensor([[[7.]]], dtype=torch.bfloat16)"},
    /* long lines break, and what follows them may need a line of its own */
    {TP_FLOAT32, SHAPE(20), COUNT(1.25),
     .text = "tensor([ 0.0000,  1.2500,  2.5000,  3.7500,  5.0000,  6.2500,  7.5000,  8.7500,\n"
             "        10.0000, 11.2500, 12.5000, 13.7500, 15.0000, 16.2500, 17.5000, 18.7500,\n"
             "        20.0000, 21.2500, 22.5000, 23.7500])"},
    {TP_INT64, SHAPE(2, 13), COUNT(1),
     .text = "tensor([[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12],\n"
             "        [13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]])"},
    {TP_INT64, SHAPE(30), COUNT(7),
     .text = "tensor([  0,   7,  14,  21,  28,  35,  42,  49,  56,  63,  70,  77,  84,  91,\n"
             "         98, 105, 112, 119, 126, 133, 140, 147, 154, 161, 168, 175, 182, 189,\n"
             "        196, 203])"},
    {TP_FLOAT64, SHAPE(9), COUNT(0.5),
     .text = "tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000, 3.5000, 4.0000],\n"
             "       dtype=torch.float64)"},
    {TP_FLOAT64, SHAPE(8), COUNT(0.5),
     .text = "tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000, 3.5000],\n"
             "       dtype=torch.float64)"},
    {TP_COMPLEX64, SHAPE(2, 5), COUNT(0.25),
     .text = "tensor([[0.0000+0.j, 0.2500+0.j, 0.5000+0.j, 0.7500+0.j, 1.0000+0.j],\n"
             "        [1.2500+0.j, 1.5000+0.j, 1.7500+0.j, 2.0000+0.j, 2.2500+0.j]])"},
    /* large tensors are summarised */
    {TP_INT64, SHAPE(1001), COUNT(1), .text = "tensor([   0,    1,    2,  ...,  998,  999, 1000])"},
    {TP_FLOAT32, SHAPE(30, 40), COUNT(0.5),
     .text = "tensor([[0.0000e+00, 5.0000e-01, 1.0000e+00,  ..., 1.8500e+01, 1.9000e+01,\n"
             "         1.9500e+01],\n"
             "        [2.0000e+01, 2.0500e+01, 2.1000e+01,  ..., 3.8500e+01, 3.9000e+01,\n"
             "         3.9500e+01],\n"
             "        [4.0000e+01, 4.0500e+01, 4.1000e+01,  ..., 5.8500e+01, 5.9000e+01,\n"
             "         5.9500e+01],\n"
             "        ...,\n"
             "        [5.4000e+02, 5.4050e+02, 5.4100e+02,  ..., 5.5850e+02, 5.5900e+02,\n"
             "         5.5950e+02],\n"
             "        [5.6000e+02, 5.6050e+02, 5.6100e+02,  ..., 5.7850e+02, 5.7900e+02,\n"
             "         5.7950e+02],\n"
             "        [5.8000e+02, 5.8050e+02, 5.8100e+02,  ..., 5.9850e+02, 5.9900e+02,\n"
             "         5.9950e+02]])"},
    {TP_FLOAT64, SHAPE(10, 10, 11), COUNT(1),
     .text = "tensor([[[   0.,  ...,   10.],\n"
             "         ...,\n"
             "         [  99.,  ...,  109.]],\n"
             "\n"
             "        ...,\n"
             "\n"
             "        [[ 990.,  ..., 1000.],\n"
             "         ...,\n"
             "         [1089.,  ..., 1099.]]], dtype=torch.float64)",
     OPTIONS(4, 1000, 1, 80, -1)},
    {TP_FLOAT32, SHAPE(2, 501), COUNT(1),
     .text = "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.9800e+02, 4.9900e+02,\n"
             "         5.0000e+02],\n"
             "        [5.0100e+02, 5.0200e+02, 5.0300e+02,  ..., 9.9900e+02, 1.0000e+03,\n"
             "         1.0010e+03]])"},
    {TP_COMPLEX64, SHAPE(7, 143), COUNT(0.5),
     .text = "tensor([[  0.0000+0.j,   0.5000+0.j,   1.0000+0.j,  ...,  70.0000+0.j,  70.5000+0.j,\n"
             "          71.0000+0.j],\n"
             "        [ 71.5000+0.j,  72.0000+0.j,  72.5000+0.j,  ..., 141.5000+0.j, 142.0000+0.j,\n"
             "         142.5000+0.j],\n"
             "        [143.0000+0.j, 143.5000+0.j, 144.0000+0.j,  ..., 213.0000+0.j, 213.5000+0.j,\n"
             "         214.0000+0.j],\n"
             "        ...,\n"
             "        [286.0000+0.j, 286.5000+0.j, 287.0000+0.j,  ..., 356.0000+0.j, 356.5000+0.j,\n"
             "         357.0000+0.j],\n"
             "        [357.5000+0.j, 358.0000+0.j, 358.5000+0.j,  ..., 427.5000+0.j, 428.0000+0.j,\n"
             "         428.5000+0.j],\n"
             "        [429.0000+0.j, 429.5000+0.j, 430.0000+0.j,  ..., 499.0000+0.j, 499.5000+0.j,\n"
             "         500.0000+0.j]])"},
    /* gradients */
    {TP_FLOAT32, SCALAR, VALUES(2), .text = "tensor(2., requires_grad=True)", .requires_grad = true},
    {TP_FLOAT32, SHAPE(2), VALUES(1, 2), .text = "tensor([1., 2.], requires_grad=True)", .requires_grad = true},
    {TP_FLOAT64, SHAPE(7), COUNT(0.5),
     .text = "tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000, 2.5000, 3.0000],\n"
             "       dtype=torch.float64, requires_grad=True)",
     .requires_grad = true},
    {TP_FLOAT32, SHAPE(0, 4), NOTHING, .text = "tensor([], size=(0, 4), requires_grad=True)", .requires_grad = true},
    /* options */
    {TP_FLOAT32, SHAPE(2), VALUES(0.3333333333333333, 0.6666666666666666), .text = "tensor([0.33, 0.67])",
     OPTIONS(2, 1000, 3, 80, -1)},
    {TP_FLOAT64, SHAPE(2), VALUES(0.3333333333333333, 0.6666666666666666),
     .text = "tensor([0.3333333333, 0.6666666667], dtype=torch.float64)", OPTIONS(10, 1000, 3, 80, -1)},
    {TP_FLOAT32, SHAPE(2), VALUES(1.25, 3), .text = "tensor([1, 3])", OPTIONS(0, 1000, 3, 80, -1)},
    {TP_FLOAT32, SHAPE(2), VALUES(1, 2), .text = "tensor([1.0000e+00, 2.0000e+00])", OPTIONS(4, 1000, 3, 80, 1)},
    {TP_FLOAT32, SHAPE(2), VALUES(1e-06, 1.5), .text = "tensor([0.0000, 1.5000])", OPTIONS(4, 1000, 3, 80, 0)},
    {TP_INT64, SHAPE(12), COUNT(1), .text = "tensor([ 0,  1,  ..., 10, 11])", OPTIONS(4, 10, 2, 80, -1)},
    {TP_FLOAT32, SHAPE(3, 4), COUNT(1), .text = "tensor([...], size=(3, 4))", OPTIONS(4, 3, 0, 80, -1)},
    {TP_FLOAT32, SHAPE(2), VALUES(1, 2), .text = "tensor([1., 2.], size=(2,))", OPTIONS(4, 1000, 0, 80, -1)},
    {TP_FLOAT32, SHAPE(12), COUNT(1.5),
     .text = "tensor([ 0.0000,  1.5000,\n"
             "         3.0000,  4.5000,\n"
             "         6.0000,  7.5000,\n"
             "         9.0000, 10.5000,\n"
             "        12.0000, 13.5000,\n"
             "        15.0000, 16.5000])",
     OPTIONS(4, 1000, 3, 30, -1)},
    {TP_FLOAT64, SHAPE(2), VALUES(1, 2),
     .text = "tensor([1.,\n"
             "        2.],\n"
             "       dtype=torch.float64)",
     OPTIONS(4, 1000, 3, 1, -1)},
};

static tp_tensor *tensor_of(const print_case *c) {
    tp_tensor *t = tpi_empty(tp_ints_view(c->shape, c->ndim), c->dtype, (tp_device){TP_CPU, 0});
    assert_non_null(t);
    bool complex = tp_dtype_is_complex(c->dtype);
    for (int64_t i = 0; i < t->numel; i++) {
        tp_scalar v = c->step != 0 ? tp_float((double)i * c->step)
                      : complex    ? tp_cplx(c->values[2 * i], c->values[2 * i + 1])
                                   : tp_float(c->values[i]);
        tpi_store_scalar(t->data + i * (int64_t)tpi_itemsize(t), c->dtype, v);
    }
    t->requires_grad = c->requires_grad;
    return t;
}

static void assert_prints(const tp_tensor *t, const char *want) {
    char got[4096];
    int64_t length = tp_format(t, got, sizeof got);
    assert_int_equal(length, (int64_t)strlen(got));
    assert_string_equal(got, want);
}

static void texts_are_pytorchs(void **state) {
    (void)state;
    tp_print_options usual = {.size = sizeof usual};
    assert_true(tp_get_print_options(&usual));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tp_tensor *t = tensor_of(&cases[i]);
        assert_true(tp_set_print_options(cases[i].has_options ? &cases[i].options : &usual));
        assert_prints(t, cases[i].text);
        tp_release(t);
    }
    assert_true(tp_set_print_options(&usual));
}

static void views_print_their_own_elements(void **state) {
    (void)state;
    int64_t values[6] = {0, 1, 2, 3, 4, 5};
    tp_tensor *t = tp_from_data(values, TP_INT64, TP_INTS(2, 3));
    tp_tensor *transposed = tpi_alias(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0),
              *last = tpi_alias(t, 1, (int64_t[]){2}, (int64_t[]){3}, 2);
    tp_tensor *wide = tpi_alias(t, 2, (int64_t[]){2, 3}, (int64_t[]){0, 1}, 3);
    assert_prints(transposed, "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
    assert_prints(last, "tensor([2, 5])");
    assert_prints(wide, "tensor([[3, 4, 5],\n        [3, 4, 5]])");
    tp_release(t);
    tp_release(transposed);
    tp_release(last);
    tp_release(wide);
}

static void results_name_what_made_them(void **state) {
    (void)state;
    tp_tensor *x = tpi_of_scalar(tp_float(3), TP_FLOAT32, (tp_device){TP_CPU, 0});
    x->flags = 0; /* a tensor, and no number */
    x->requires_grad = true;
    tp_tensor *t = tpo_mul(tp_operand_tensor(x), tp_operand_int(2));
    assert_prints(t, "tensor(6., grad_fn=<MulBackward0>)");
    tp_release(t);
    tp_release(x);
}

static void the_default_dtype_is_not_named(void **state) {
    (void)state;
    tp_tensor *t = tpi_of_scalar(tp_float(2.5), TP_FLOAT64, (tp_device){TP_CPU, 0});
    assert_prints(t, "tensor(2.5000, dtype=torch.float64)");
    assert_true(tp_set_default_dtype(TP_FLOAT64));
    assert_prints(t, "tensor(2.5000)");
    assert_true(tp_set_default_dtype(TP_FLOAT32));
    tp_release(t);
}

static void short_buffers_are_filled_and_ended(void **state) {
    (void)state;
    tp_tensor *t = tpi_of_scalar(tp_float(1.5), TP_FLOAT32, (tp_device){TP_CPU, 0});
    char out[8];
    assert_int_equal(tp_format(t, out, sizeof out), 14);
    assert_string_equal(out, "tensor(");
    assert_int_equal(tp_format(t, NULL, 0), 14);
    assert_int_equal(tp_format(NULL, NULL, 0), -1);
    tp_error_clear();
    tp_release(t);
}

static void names_and_contents_can_be_others(void **state) {
    (void)state;
    const float values[] = {1, 2, 3};
    tp_tensor *t = tp_from_data(values, TP_FLOAT32, TP_INTS(3, 1));
    char text[64];
    assert_int_equal(tp_format_as(t, "Column", "...", text, sizeof text), 11);
    assert_string_equal(text, "Column(...)");
    assert_true(tp_format_as(t, "Rows", NULL, text, sizeof text) > 0);
    assert_string_equal(text, "Rows([[1.],\n      [2.],\n      [3.]])");
    tp_release(t);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    tp_print_options o = {.size = sizeof o};
    assert_true(tp_get_print_options(&o));
    o.precision = -1;
    assert_false(tp_set_print_options(&o));
    assert_non_null(strstr(tp_error(), "options.precision"));
    tp_error_clear();
    assert_true(tp_get_print_options(&o));
    assert_int_equal(o.precision, 4);
    o.size = 0;
    assert_false(tp_get_print_options(&o));
    assert_non_null(strstr(tp_error(), "sizeof(tp_print_options)"));
    tp_error_clear();
    assert_false(tp_set_print_options(NULL));
    tp_error_clear();
}

/* A caller's struct may end before the library's does, or go on behind it: only what both know is read and written. */
static void options_of_other_versions_work(void **state) {
    (void)state;
    tp_print_options whole = {.size = sizeof whole},
                     early = {.size = offsetof(tp_print_options, edge_items), .edge_items = 77};
    struct {
        tp_print_options known;
        int64_t new_field;
    } late = {{.size = sizeof late}, 99};
    assert_true(tp_get_print_options(&early));
    assert_true(early.threshold == 1000);
    assert_true(early.edge_items == 77);
    early.precision = 2;
    early.edge_items = -5;
    assert_true(tp_set_print_options(&early));
    assert_true(tp_get_print_options(&late.known));
    assert_true(late.known.precision == 2);
    assert_true(late.known.edge_items == 3);
    assert_true(late.new_field == 99);
    late.known.precision = 4;
    assert_true(tp_set_print_options(&late.known));
    assert_true(tp_get_print_options(&whole));
    assert_true(whole.precision == 4);
    assert_true(whole.edge_items == 3);
}

static void without_memory_printing_fails_cleanly(void **state) {
    (void)state;
    tp_tensor *t = tpi_of_scalar(tp_float(1.5), TP_FLOAT32, (tp_device){TP_CPU, 0});
    int64_t live = tpi_alloc_live();
    tpi_alloc_fail_at(1, true);
    assert_int_equal(tp_format(t, NULL, 0), -1);
    tpi_alloc_fail_at(0, false);
    assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
    assert_int_equal(tpi_alloc_live(), live);
    tp_error_clear();
    tp_release(t);
}

int main(void) {
    setlocale(LC_ALL, ""); /* whatever the user's decimal point is */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_pytorchs),
        cmocka_unit_test(views_print_their_own_elements),
        cmocka_unit_test(results_name_what_made_them),
        cmocka_unit_test(the_default_dtype_is_not_named),
        cmocka_unit_test(short_buffers_are_filled_and_ended),
        cmocka_unit_test(names_and_contents_can_be_others),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(options_of_other_versions_work),
        cmocka_unit_test(without_memory_printing_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
