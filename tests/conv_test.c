/* Convolution by oneDNN, by Winograd's tiles and by direct sums against our own products: the same values, the same
 * bits on any number of threads, memory that may fail, threads that call at once. Where the library is not installed
 * both sides are our own code, and the tests still hold. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <taper/autograd.h>
#include "base/memory.h"
#include "device/device.h"
#include "ops/conv/onednn.h"
#include "ops/conv/winograd.h"
#include "tpi_ops.h"

static const tp_device cpu = {TP_CPU, 0};

typedef struct conv_case {
    const char *name;
    int64_t x[5], w[5]; /* shapes; 0 ends them */
    int64_t stride, padding, dilation, groups;
    bool transposed;
    int64_t output_padding;
    tp_layout layout; /* of x; 0 is contiguous */
    tp_dtype dtype;   /* 0 is float32 */
    bool much;        /* work, too much to repeat once per allocation; other cases take the same way */
} conv_case;

static const conv_case cases[] = {
    {"3x3", {9, 16, 30, 30}, {24, 16, 3, 3}, 1, 1, 1, .groups = 1},
    {"one image", {1, 64, 24, 24}, {64, 64, 3, 3}, 1, 1, 1, .groups = 1},
    {"no batch", {64, 20, 20}, {96, 64, 3, 3}, 1, 1, 1, .groups = 1},
    {"three images, stride 2, odd sizes", {3, 40, 27, 31}, {64, 40, 3, 3}, 2, 1, 1, .groups = 1},
    {"images in groups of two", {38, 8, 14, 14}, {16, 8, 5, 5}, 1, 2, 1, .groups = 1},
    {"many channels", {4, 256, 9, 9}, {64, 256, 3, 3}, 1, 1, 1, .groups = 1},
    {"stem", {4, 3, 50, 50}, {32, 3, 7, 7}, 2, 3, 1, .groups = 1},
    {"one channel in", {32, 1, 28, 28}, {32, 1, 3, 3}, 1, 0, 1, .groups = 1},
    {"channels that fill no vector", {16, 20, 12, 12}, {50, 20, 5, 5}, 1, 0, 1, .groups = 1},
    {"few channels", {7, 3, 32, 29}, {6, 3, 5, 5}, 1, 0, 1, .groups = 1},
    {"few channels, dilated", {20, 5, 16, 40}, {7, 5, 3, 3}, 1, 2, 2, .groups = 1},
    {"few channels, transposed", {9, 6, 10, 11}, {6, 4, 3, 3}, 1, 1, 1, .groups = 1, .transposed = true},
    {"few channels, transposed, more rows than windows reach",
     {2, 3, 9, 9},
     {3, 2, 3, 3},
     1,
     0,
     2,
     .groups = 1,
     .transposed = true,
     .output_padding = 1},
    {"1x1", {8, 64, 20, 20}, {96, 64, 1, 1}, 1, 0, 1, .groups = 1},
    {"1x1, stride 2", {2, 256, 16, 16}, {128, 256, 1, 1}, 2, 0, 1, .groups = 1},
    {"dilated", {8, 32, 20, 20}, {32, 32, 3, 3}, 1, 2, 2, .groups = 1},
    {"groups", {6, 64, 20, 20}, {64, 16, 3, 3}, 1, 1, 1, .groups = 4},
    {"depthwise", {8, 64, 28, 28}, {64, 1, 3, 3}, 1, 1, 1, .groups = 64},
    {"depthwise, one image, stride 2", {1, 256, 56, 56}, {256, 1, 3, 3}, 2, 1, 1, .groups = 256},
    {"1d", {16, 64, 400}, {64, 64, 5}, 1, 2, 1, .groups = 1},
    {"3d", {2, 16, 8, 18, 18}, {32, 16, 3, 3, 3}, 1, 1, 1, .groups = 1},
    {"transposed, stride 2", {5, 32, 12, 12}, {32, 16, 4, 4}, 2, 1, 1, .groups = 1, .transposed = true},
    {"transposed, padded output",
     {5, 32, 12, 12},
     {32, 16, 3, 3},
     2,
     1,
     1,
     .groups = 1,
     .transposed = true,
     .output_padding = 1},
    {"transposed, groups", {5, 32, 16, 16}, {32, 8, 3, 3}, 1, 1, 1, .groups = 2, .transposed = true},
    {"channels last", {9, 32, 30, 30}, {40, 32, 3, 3}, 1, 1, 1, .groups = 1, .layout = TP_CHANNELS_LAST},
    {"channels last, one image", {1, 64, 24, 24}, {64, 64, 3, 3}, 1, 1, 1, .groups = 1, .layout = TP_CHANNELS_LAST},
    {"channels last, 1x1", {8, 64, 20, 20}, {96, 64, 1, 1}, 1, 0, 1, .groups = 1, .layout = TP_CHANNELS_LAST},
    {"channels last, 1x1, one image",
     {1, 128, 20, 20},
     {128, 128, 1, 1},
     1,
     0,
     1,
     .groups = 1,
     .layout = TP_CHANNELS_LAST},
    {"channels last, depthwise", {8, 64, 28, 28}, {64, 1, 3, 3}, 1, 1, 1, .groups = 64, .layout = TP_CHANNELS_LAST},
    {"channels last, transposed",
     {5, 32, 12, 12},
     {32, 16, 4, 4},
     2,
     1,
     1,
     .groups = 1,
     .transposed = true,
     .layout = TP_CHANNELS_LAST},
    {"channels last, 3d", {2, 16, 8, 18, 18}, {32, 16, 3, 3, 3}, 1, 1, 1, .groups = 1, .layout = TP_CHANNELS_LAST_3D},
    {"bfloat16", {9, 16, 30, 30}, {24, 16, 3, 3}, 1, 1, 1, .groups = 1, .dtype = TP_BFLOAT16},
    {"direct, 1d, one long row", {1, 24, 5000}, {40, 24, 9}, 1, 4, 1, .groups = 1},
    {"direct, 3d, stride 2", {1, 5, 9, 20, 21}, {14, 5, 3, 3, 3}, 2, 1, 1, .groups = 1},
    {"direct, stride 3, dilated, groups", {3, 12, 40, 35}, {18, 4, 3, 2}, 3, 2, 2, .groups = 3},
    {"direct, a stride wider than the kernel", {2, 8, 30, 33}, {20, 8, 2, 2}, 4, 0, 1, .groups = 1},
    {"direct, bands", {1, 3, 160, 150}, {9, 3, 7, 7}, 2, 3, 1, .groups = 1},
    {"direct, one image, slices and a long patch", {1, 60, 20, 20}, {50, 60, 3, 3}, 1, 2, 2, .groups = 1},
    {"direct, far apart taps", {1, 40, 33, 33}, {24, 40, 3, 3}, 1, 12, 12, .groups = 1},
    {"direct, depthwise, small planes", {6, 70, 7, 7}, {70, 1, 5, 5}, 1, 2, 1, .groups = 70},
    {"direct, two filters a channel", {2, 30, 15, 18}, {60, 1, 3, 3}, 2, 1, 1, .groups = 30},
    {"direct, transposed, stride 2", {3, 10, 14, 15}, {10, 13, 4, 4}, 2, 1, 1, .groups = 1, .transposed = true},
    {"direct, transposed, 3d, stride 3",
     {1, 8, 5, 9, 10},
     {8, 6, 2, 2, 2},
     3,
     0,
     1,
     .groups = 2,
     .transposed = true,
     .output_padding = 1},
    {"direct, transposed, depthwise", {2, 40, 12, 13}, {40, 1, 3, 3}, 2, 1, 1, .groups = 40, .transposed = true},
    {"tiles, odd sizes", {3, 40, 27, 31}, {64, 40, 3, 3}, 1, 1, 1, .groups = 1},
    {"tiles, no padding", {5, 50, 14, 29}, {70, 50, 3, 3}, 1, 0, 1, .groups = 1},
    {"tiles, padding 2", {9, 43, 17, 10}, {37, 43, 3, 3}, 1, 2, 1, .groups = 1},
    {"tiles, images of one tile", {61, 65, 4, 3}, {60, 65, 3, 3}, 1, 1, 1, .groups = 1},
    {"tiles, a long row", {1, 48, 7, 500}, {40, 48, 3, 3}, 1, 1, 1, .groups = 1},
    {"tiles, many filters", {2, 181, 12, 12}, {176, 181, 3, 3}, 1, 1, 1, .groups = 1},
    {"tiles, many filters, several portions", {13, 20, 13, 9}, {1500, 20, 3, 3}, 1, 1, 1, .groups = 1, .much = true},
    {"tiles, several portions", {1, 32, 120, 113}, {40, 32, 3, 3}, 1, 1, 1, .groups = 1, .much = true},
    {"tiles, no batch", {64, 40, 40}, {64, 64, 3, 3}, 1, 1, 1, .groups = 1},
    {"tiles, transposed", {3, 40, 18, 22}, {40, 48, 3, 3}, 1, 1, 1, .groups = 1, .transposed = true},
    {"tiles, channels last", {3, 40, 26, 31}, {64, 40, 3, 3}, 1, 1, 1, .groups = 1, .layout = TP_CHANNELS_LAST},
    {"tiles, bfloat16", {4, 48, 32, 32}, {48, 48, 3, 3}, 1, 1, 1, .groups = 1, .dtype = TP_BFLOAT16},
};
enum { CASES = sizeof cases / sizeof *cases, RESULTS = 4 }; /* y and the gradients of x, w and the bias */

static tp_ints shape_of(const int64_t *v) {
    int64_t n = 0;
    while (n < 5 && v[n]) n++;
    return tp_ints_view(v, n);
}

/* Values without pattern in [-1, 1), the same on every run. */
static tp_tensor *scattered(tp_ints shape, tp_dtype dtype, tp_layout layout) {
    tp_tensor *plain = tpi_empty(shape, TP_FLOAT32, cpu);
    assert_non_null(plain);
    uint64_t v = 88172645463325252u;
    for (int64_t i = 0; i < plain->numel; i++) {
        v ^= v << 13;
        v ^= v >> 7;
        v ^= v << 17;
        ((float *)plain->data)[i] = (float)(v % 100003) / 50001.5f - 1.0f;
    }
    tp_tensor *t = tpi_empty_layout(shape, dtype ? dtype : TP_FLOAT32, cpu, layout ? layout : TP_CONTIGUOUS);
    assert_true(t);
    assert_true(tpi_copy_data(t, plain));
    tp_release(plain);
    return t;
}

typedef struct inputs {
    const conv_case *c;
    tp_tensor *in[3]; /* x, w, bias */
} inputs;

static inputs inputs_of(const conv_case *c) {
    int64_t channels = c->transposed ? c->w[1] * c->groups : c->w[0];
    inputs i = {c,
                {scattered(shape_of(c->x), c->dtype, c->layout), scattered(shape_of(c->w), c->dtype, 0),
                 scattered(TP_INTS(channels), c->dtype, 0)}};
    for (int k = 0; k < 3; k++) assert_non_null(tp_set_requires_grad(i.in[k], true));
    return i;
}

static void drop_inputs(inputs *i) {
    for (int k = 0; k < 3; k++) tp_release(i->in[k]);
}

static tp_tensor *convolve(const inputs *i) {
    const conv_case *c = i->c;
    return tpo_convolution(i->in[0], i->in[1], i->in[2], TP_INTS(c->stride), TP_INTS(c->padding), TP_INTS(c->dilation),
                           c->transposed, TP_INTS(c->output_padding), c->groups);
}

/* y and all gradients; false and an error when something failed, with nothing in `out`. */
static bool run(const inputs *i, tp_tensor **out) {
    out[0] = convolve(i);
    if (!out[0]) return false;
    tp_tensor *seed = tpi_empty_like(out[0], (tp_dtype)out[0]->dtype);
    tp_grad_options options = {.size = sizeof options};
    bool ok = seed && tpi_copy_data(seed, out[0]) &&
              tp_gradients((tp_tensors){out, 1}, (tp_tensors){(tp_tensor **)i->in, 3}, &seed, out + 1, &options);
    if (seed) tp_release(seed);
    if (!ok) tp_release(out[0]);
    return ok;
}

static void must_run(const inputs *i, tp_tensor **out) {
    if (!run(i, out)) fail_msg("%s: %s", i->c->name, tp_error());
}

static void drop(tp_tensor **out) {
    for (int k = 0; k < RESULTS; k++) tp_release(out[k]);
}

/* Every element, as float and in the order of its indices; owned. */
static tp_tensor *plain_floats(tp_tensor *t) {
    tp_tensor *typed = tpi_as_dtype_data(t, TP_FLOAT32), *plain = typed ? tpi_contiguous_data(typed) : NULL;
    assert_non_null(plain);
    tp_release(typed);
    return plain;
}

static bool same_bits(tp_tensor *a, tp_tensor *b) {
    tp_tensor *pa = plain_floats(a), *pb = plain_floats(b);
    bool same = pa->numel == pb->numel && !memcmp(pa->data, pb->data, (size_t)pa->numel * sizeof(float));
    tp_release(pa);
    tp_release(pb);
    return same;
}

static void expect_close(const char *name, int which, tp_tensor *a, tp_tensor *b) {
    static const char *const names[RESULTS] = {"y", "the gradient of x", "the gradient of w",
                                               "the gradient of the bias"};
    tp_tensor *pa = plain_floats(a), *pb = plain_floats(b);
    const float *va = (const float *)pa->data, *vb = (const float *)pb->data;
    float most = 0;
    assert_int_equal(pa->numel, pb->numel);
    assert_int_equal(a->dtype, b->dtype);
    assert_memory_equal(a->strides, b->strides, sizeof *a->strides * (size_t)a->ndim);
    for (int64_t i = 0; i < pb->numel; i++) most = fmaxf(most, fabsf(vb[i]));
    float tolerance = most * (a->dtype == TP_BFLOAT16 ? 1.0f / 128 : 1e-5f);
    for (int64_t i = 0; i < pa->numel; i++)
        if (!(fabsf(va[i] - vb[i]) <= tolerance))
            fail_msg("%s: %s, element %lld is %.9g, by our own code %.9g", name, names[which], (long long)i, va[i],
                     vb[i]);
    tp_release(pa);
    tp_release(pb);
}

static bool library_is_there(void) {
    const char *version, *file;
    return tpi_onednn_found(&version, &file);
}

static void the_library_and_our_own_code_agree(void **state) {
    (void)state;
    int differ[RESULTS] = {0};
    assert_true(tpi_conv_winograd_enable(false));
    for (int k = 0; k < CASES; k++) {
        inputs i = inputs_of(&cases[k]);
        tp_tensor *with[RESULTS], *without[RESULTS];
        must_run(&i, with);
        assert_true(tpi_onednn_enable(false));
        must_run(&i, without);
        assert_false(tpi_onednn_enable(true));
        for (int r = 0; r < RESULTS; r++) {
            expect_close(cases[k].name, r, with[r], without[r]);
            differ[r] += !same_bits(with[r], without[r]);
        }
        drop(with);
        drop(without);
        drop_inputs(&i);
    }
    assert_false(tpi_conv_winograd_enable(true));
    if (!library_is_there()) return print_message("oneDNN is not there\n");
    for (int r = 0; r < 3; r++) assert_true(differ[r] > 0); /* sums in another order: it took part */
}

/* Each of them takes part in all three roles. */
static void tiles_and_our_own_code_agree(void **state) {
    (void)state;
    assert_true(tpi_onednn_enable(false));
    for (int k = 0; k < CASES; k++) {
        if (strncmp(cases[k].name, "tiles", 5)) continue;
        inputs i = inputs_of(&cases[k]);
        tp_tensor *with[RESULTS], *without[RESULTS];
        must_run(&i, with);
        assert_true(tpi_conv_winograd_enable(false));
        must_run(&i, without);
        assert_false(tpi_conv_winograd_enable(true));
        for (int r = 0; r < RESULTS; r++) {
            expect_close(cases[k].name, r, with[r], without[r]);
            if (r < 3 && tpi_cpu_isa >= TPI_ISA_AVX2 && same_bits(with[r], without[r]))
                fail_msg("%s: result %d was not made of tiles", cases[k].name, r);
        }
        drop(with);
        drop(without);
        drop_inputs(&i);
    }
    assert_false(tpi_onednn_enable(true));
}

/* double's results come from products over patches, and from loops over planes where a group has one channel. */
static void double_and_direct_sums_agree(void **state) {
    (void)state;
    assert_true(tpi_onednn_enable(false));
    for (int k = 0; k < CASES; k++) {
        if (strncmp(cases[k].name, "direct", 6)) continue;
        conv_case wide = cases[k];
        wide.dtype = TP_FLOAT64;
        inputs i = inputs_of(&cases[k]), j = inputs_of(&wide);
        tp_tensor *direct[RESULTS], *expected[RESULTS];
        must_run(&i, direct);
        must_run(&j, expected);
        for (int r = 0; r < RESULTS; r++) {
            tp_tensor *rounded = tpi_as_dtype_data(expected[r], TP_FLOAT32);
            assert_non_null(rounded);
            expect_close(cases[k].name, r, direct[r], rounded);
            tp_release(rounded);
        }
        drop(direct);
        drop(expected);
        drop_inputs(&i);
        drop_inputs(&j);
    }
    assert_false(tpi_onednn_enable(true));
}

/* "direct" cases are about our own code: they leave the library aside. */
static void choose_code(const conv_case *c) { tpi_onednn_enable(strncmp(c->name, "direct", 6) != 0); }

static void threads_do_not_matter(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 7};
    for (int k = 0; k < CASES; k++) {
        choose_code(&cases[k]);
        inputs i = inputs_of(&cases[k]);
        tp_tensor *alone[RESULTS], *together[RESULTS];
        tp_set_num_threads(1);
        must_run(&i, alone);
        for (int t = 0; t < 3; t++) {
            tp_set_num_threads(threads[t]);
            must_run(&i, together);
            for (int r = 0; r < RESULTS; r++)
                if (!same_bits(alone[r], together[r]))
                    fail_msg("%s: result %d has other bits on %d threads", cases[k].name, r, threads[t]);
            drop(together);
        }
        drop(alone);
        drop_inputs(&i);
    }
    tpi_onednn_enable(true);
    tp_set_num_threads(0);
}

static void out_of_memory_leaks_nothing(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        tp_set_num_threads(threads);
        for (int k = 0; k < CASES; k++) {
            if (cases[k].much) continue;
            choose_code(&cases[k]);
            inputs i = inputs_of(&cases[k]);
            tp_tensor *out[RESULTS];
            must_run(&i, out); /* what is made once and kept is made now */
            drop(out);
            int64_t live = tpi_alloc_live();
            for (int64_t nth = 1;; nth++) {
                tpi_alloc_fail_at(nth, false);
                bool fine = run(&i, out);
                tpi_alloc_fail_at(0, false);
                if (!fine && tp_error_code() != TP_ERR_MEMORY)
                    fail_msg("%s, allocation %lld: %s", cases[k].name, (long long)nth, tp_error());
                tp_error_clear();
                if (fine) drop(out);
                if (tpi_alloc_live() != live)
                    fail_msg("%s: allocation %lld failed and something leaked", cases[k].name, (long long)nth);
                if (fine) break;
            }
            drop_inputs(&i);
        }
    }
    tp_set_num_threads(0);
}

/* ---- Threads of the caller's ---- */

enum { CALLERS = 4, ROUNDS = 3 };
typedef struct caller {
    const inputs *i;
    tp_tensor *const *expected; /* y of every case */
    bool right;
} caller;

static void *call_often(void *context) {
    caller *me = context;
    me->right = true;
    for (int k = 0; k < ROUNDS * CASES; k++) {
        tp_tensor *y = convolve(&me->i[k % CASES]);
        me->right = me->right && y && same_bits(y, me->expected[k % CASES]);
        if (y) tp_release(y);
    }
    return NULL;
}

static void callers_share_the_kernels(void **state) {
    (void)state;
    static inputs i[CASES];
    tp_tensor *expected[CASES];
    for (int k = 0; k < CASES; k++) {
        i[k] = inputs_of(&cases[k]);
        expected[k] = convolve(&i[k]);
        assert_non_null(expected[k]);
    }
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (int t = 0; t < CALLERS; t++) {
        callers[t] = (caller){i, expected, false};
        assert_int_equal(pthread_create(&threads[t], NULL, call_often, &callers[t]), 0);
    }
    for (int t = 0; t < CALLERS; t++) {
        pthread_join(threads[t], NULL);
        assert_true(callers[t].right);
    }
    for (int k = 0; k < CASES; k++) {
        tp_release(expected[k]);
        drop_inputs(&i[k]);
    }
}

/* More shapes than the table of kernels has room for: the oldest give way, and come back when they are asked for. */
static void many_shapes_take_turns(void **state) {
    (void)state;
    enum { SHAPES = 300 };
    bool first[SHAPES];
    for (int round = 0; round < 2; round++)
        for (int64_t s = 0; s < SHAPES; s++) {
            tpi_conv c = {.batch = 1,
                          .groups = 1,
                          .cx = 16,
                          .cy = 16,
                          .x = {1, 40, 20 + s},
                          .y = {1, 40, 20 + s},
                          .k = {1, 3, 3},
                          .stride = {1, 1, 1},
                          .pad = {0, 1, 1},
                          .dilation = {1, 1, 1}};
            bool fits = tpi_conv_onednn.fits(&(tpi_conv_call){.c = &c, .role = TPI_CONV_Y, .dtype = TP_FLOAT32});
            if (round == 0) first[s] = fits;
            assert_int_equal(fits, first[s]);
        }
    inputs i = inputs_of(&cases[0]);
    tp_tensor *out[RESULTS];
    must_run(&i, out);
    drop(out);
    drop_inputs(&i);
}

/* Blocks of memory that are free and hold what no arithmetic takes without a sign. */
static void fill_free_memory(void) {
    enum { LEAST = 256, MOST = 1 << 21 };
    const uint32_t signalling = 0x7fa00000;
    struct {
        uint32_t *at;
        size_t bytes;
    } block[64];
    int n = 0;
    for (size_t bytes = LEAST; bytes < MOST; bytes += bytes / 4 / 64 * 64 + 64, n++) {
        block[n].bytes = bytes;
        block[n].at = tpi_alloc(bytes);
        assert_non_null(block[n].at);
        for (size_t i = 0; i < bytes / sizeof signalling; i++) block[n].at[i] = signalling;
    }
    while (n-- > 0) tpi_free(block[n].at, block[n].bytes);
}

/* Results are right without it, but numbers that memory happens to hold may be denormal, and slow to compute with. */
static void nothing_is_computed_from_stale_memory(void **state) {
    (void)state;
    tp_set_num_threads(1);
    tpi_onednn_enable(false);
    for (int k = 0; k < CASES; k++) {
        if (cases[k].dtype == TP_BFLOAT16) continue; /* halves of such numbers are others */
        inputs i = inputs_of(&cases[k]);
        fill_free_memory();
        feclearexcept(FE_ALL_EXCEPT);
        tp_tensor *y = convolve(&i);
        assert_non_null(y);
        if (fetestexcept(FE_INVALID)) fail_msg("%s: something was computed from stale memory", cases[k].name);
        tp_release(y);
        drop_inputs(&i);
    }
    tpi_onednn_enable(true);
    tp_set_num_threads(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_and_our_own_code_agree),
        cmocka_unit_test(tiles_and_our_own_code_agree),
        cmocka_unit_test(double_and_direct_sums_agree),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(out_of_memory_leaks_nothing),
        cmocka_unit_test(callers_share_the_kernels),
        cmocka_unit_test(many_shapes_take_turns),
        cmocka_unit_test(nothing_is_computed_from_stale_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
