/* src/base: errors, dtypes and their promotion, 16-bit floats, the allocator, failure injection, threads, the
 * generator. Expected numbers were recorded from PyTorch. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/dtype.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"

/* ---- Errors ---- */
static void test_first_error_stays(void **state) {
    (void)state;
    assert_true(tp_ok());
    assert_null(tp_error());
    assert_null(tpi_fail(TP_ERR_INDEX, "argument 'dim': expected at most %d, got %d", 2, 7));
    assert_false(tpi_refuse(TP_ERR_VALUE, "an echo"));
    assert_string_equal(tp_error(), "argument 'dim': expected at most 2, got 7");
    assert_int_equal(tp_error_code(), TP_ERR_INDEX);
    tp_error_clear();
    assert_true(tp_ok());
    assert_int_equal(tp_error_code(), TP_OK);
}

static void test_errors_name_the_outermost_operator(void **state) {
    (void)state;
    const char *outer = tpi_op_enter("softmax"), *inner = tpi_op_enter("exp");
    tpi_fail(TP_ERR_TYPE, "no");
    tpi_op_leave(inner);
    assert_string_equal(tpi_op_now, "softmax");
    tpi_op_leave(outer);
    assert_null(tpi_op_now);
    assert_string_equal(tp_error(), "softmax: no");
    tp_error_clear();
}

static void test_long_errors_are_kept_and_given_back(void **state) {
    (void)state;
    char text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    text[1000] = 0;
    int64_t live = tpi_alloc_live();
    tpi_fail(TP_ERR_VALUE, "%s", text);
    assert_string_equal(tp_error(), text);
    tp_error_clear();
    assert_int_equal(tpi_alloc_live(), live);

    tpi_alloc_fail_at(1, true); /* no memory for the long text: a short one serves */
    tpi_fail(TP_ERR_VALUE, "%s", text);
    tpi_alloc_fail_at(0, false);
    assert_int_equal(tp_error_code(), TP_ERR_VALUE);
    assert_int_equal(strlen(tp_error()), 255);
    assert_string_equal(tp_error() + 252, "...");
    tp_error_clear();
}

static void *fail_elsewhere(void *unused) {
    (void)unused;
    tpi_fail(TP_ERR_IO, "%0500d", 7); /* the thread ends with a long message pending */
    return NULL;
}

static void test_errors_belong_to_their_thread(void **state) {
    (void)state;
    int64_t live = tpi_alloc_live();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_true(tp_ok());
    assert_int_equal(tpi_alloc_live(), live);
}

static void test_shape_text(void **state) {
    (void)state;
    assert_string_equal(tpi_shape_text(TP_INTS(2, 3)), "[2, 3]");
    assert_string_equal(tpi_shape_text(tp_no_ints()), "[]");
    const char *a = tpi_shape_text(TP_INTS(1)), *b = tpi_shape_text(TP_INTS(-5, 6));
    assert_string_equal(a, "[1]");
    assert_string_equal(b, "[-5, 6]");
    int64_t many[TP_MAX_DIMS];
    for (int i = 0; i < TP_MAX_DIMS; i++) many[i] = 1000000;
    const char *cut = tpi_shape_text(tp_ints_view(many, TP_MAX_DIMS));
    assert_true(strlen(cut) < 96);
    assert_string_equal(cut + strlen(cut) - 6, ", ...]");
}

static void test_version(void **state) {
    (void)state;
    int major, minor, patch;
    assert_int_equal(sscanf(tp_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(tp_version_number(), major * 10000 + minor * 100 + patch);
}

/* ---- Dtypes ---- */
enum {
    b = TP_BOOL,
    u1 = TP_UINT8,
    i1 = TP_INT8,
    i2 = TP_INT16,
    i4 = TP_INT32,
    i8 = TP_INT64,
    f2 = TP_FLOAT16,
    bf = TP_BFLOAT16,
    f4 = TP_FLOAT32,
    f8 = TP_FLOAT64,
    c8 = TP_COMPLEX64,
    c16 = TP_COMPLEX128
};

static const int promotions[12][12] = {
    /*         b   u1   i1   i2   i4   i8   f2   bf   f4   f8   c8   c16 */
    /* b   */ {b, u1, i1, i2, i4, i8, f2, bf, f4, f8, c8, c16},
    /* u1  */ {u1, u1, i2, i2, i4, i8, f2, bf, f4, f8, c8, c16},
    /* i1  */ {i1, i2, i1, i2, i4, i8, f2, bf, f4, f8, c8, c16},
    /* i2  */ {i2, i2, i2, i2, i4, i8, f2, bf, f4, f8, c8, c16},
    /* i4  */ {i4, i4, i4, i4, i4, i8, f2, bf, f4, f8, c8, c16},
    /* i8  */ {i8, i8, i8, i8, i8, i8, f2, bf, f4, f8, c8, c16},
    /* f2  */ {f2, f2, f2, f2, f2, f2, f2, f4, f4, f8, c8, c16},
    /* bf  */ {bf, bf, bf, bf, bf, bf, f4, bf, f4, f8, c8, c16},
    /* f4  */ {f4, f4, f4, f4, f4, f4, f4, f4, f4, f8, c8, c16},
    /* f8  */ {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, c16, c16},
    /* c8  */ {c8, c8, c8, c8, c8, c8, c8, c8, c8, c16, c8, c16},
    /* c16 */ {c16, c16, c16, c16, c16, c16, c16, c16, c16, c16, c16, c16},
};

static void test_promotion_of_pairs(void **state) {
    (void)state;
    for (int x = TP_BOOL; x <= TP_COMPLEX128; x++) {
        for (int y = TP_BOOL; y <= TP_COMPLEX128; y++)
            assert_int_equal(tp_promote_types((tp_dtype)x, (tp_dtype)y), promotions[x - 1][y - 1]);
    }
}

static tp_dtype promoted(int dim, int zero, tp_scalar number) {
    tpi_promotion p = {0};
    if (dim) tpi_promote_tensor(&p, (tp_dtype)dim, 1);
    if (zero) tpi_promote_tensor(&p, (tp_dtype)zero, 0);
    tpi_promote_scalar(&p, number);
    return tpi_promoted(&p);
}

static void test_promotion_among_ranks(void **state) {
    (void)state;
    assert_int_equal(promoted(f2, f8, tp_no_scalar()), f2); /* a zero-dimensional tensor does not widen */
    assert_int_equal(promoted(i4, f8, tp_no_scalar()), f8); /* unless it is of a higher category */
    assert_int_equal(promoted(u1, i8, tp_no_scalar()), u1);
    assert_int_equal(promoted(b, i2, tp_no_scalar()), i2);
    assert_int_equal(promoted(f4, c16, tp_no_scalar()), c8);
    assert_int_equal(promoted(i8, 0, tp_float(2.5)), f4); /* a number takes the default dtype */
    assert_int_equal(promoted(f2, 0, tp_float(2.5)), f2);
    assert_int_equal(promoted(b, 0, tp_int(3)), i8);
    assert_int_equal(promoted(i4, 0, tp_truth(true)), i4);
    assert_int_equal(promoted(f8, 0, tp_cplx(0, 1)), c16);
    assert_int_equal(promoted(0, f2, tp_float(2.5)), f2);
    assert_int_equal(promoted(0, 0, tp_int(3)), i8);
    assert_true(tp_set_default_dtype(TP_FLOAT64));
    assert_int_equal(promoted(i8, 0, tp_float(2.5)), f8);
    assert_int_equal(promoted(i8, 0, tp_cplx(0, 1)), c16);
    assert_true(tp_set_default_dtype(TP_FLOAT32));
    assert_false(tp_set_default_dtype(TP_INT32));
    assert_int_equal(tp_error_code(), TP_ERR_TYPE);
    tp_error_clear();
}

static void test_dtype_names_and_casts(void **state) {
    (void)state;
    for (int d = TP_BOOL; d < TP_DTYPE_COUNT; d++) assert_int_equal(tp_dtype_by_name(tp_dtype_name((tp_dtype)d)), d);
    assert_int_equal(tp_dtype_by_name("long"), TP_INT64);
    assert_int_equal(tp_dtype_by_name("torch.bfloat16"), TP_BFLOAT16);
    assert_int_equal(tp_dtype_by_name("float8"), TP_NO_DTYPE);
    assert_int_equal(tp_dtype_size(TP_COMPLEX128), 16);
    assert_true(tp_can_cast(TP_FLOAT64, TP_FLOAT16));
    assert_true(tp_can_cast(TP_INT64, TP_UINT8));
    assert_false(tp_can_cast(TP_FLOAT32, TP_INT64));
    assert_false(tp_can_cast(TP_COMPLEX64, TP_FLOAT64));
    assert_true(tp_dtype_to_complex(TP_FLOAT16) == TP_COMPLEX32);
    assert_true(tp_dtype_to_real(TP_BCOMPLEX32) == TP_BFLOAT16);
    assert_true(tp_dtype_has_values(TP_UINT64));
    assert_true(!tp_dtype_has_values(TP_UINT4));
    assert_string_equal(tp_dtype_word(TP_FLOAT8_E4M3FN), "Float8_e4m3fn");
}

static void test_promotion_of_limited_dtypes(void **state) {
    (void)state;
    assert_int_equal(tp_promote_types(TP_UINT16, TP_UINT16), TP_UINT16);
    assert_int_equal(tp_promote_types(TP_UINT64, TP_FLOAT16), TP_FLOAT16); /* floating types win */
    assert_int_equal(tp_promote_types(TP_COMPLEX32, TP_BCOMPLEX32), TP_COMPLEX64);
    assert_int_equal(tp_promote_types(TP_INT64, TP_COMPLEX32), TP_COMPLEX32);
    assert_int_equal(tp_promote_types(TP_BFLOAT16, TP_COMPLEX32), TP_COMPLEX64);
    assert_int_equal(tp_promote_types(TP_FLOAT64, TP_BCOMPLEX32), TP_COMPLEX128);
    assert_true(tp_ok());
    static const tp_dtype strangers[][2] = {{TP_UINT16, TP_INT32},
                                            {TP_UINT16, TP_UINT32},
                                            {TP_FLOAT8_E5M2, TP_FLOAT32},
                                            {TP_BITS8, TP_UINT8},
                                            {TP_QINT8, TP_INT8}};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        assert_int_equal(tp_promote_types(strangers[i][0], strangers[i][1]), TP_NO_DTYPE);
        assert_int_equal(tp_error_code(), TP_ERR_RUNTIME);
        tp_error_clear();
    }
    assert_int_equal(promoted(TP_UINT16, TP_INT64, tp_int(1)),
                     TP_UINT16); /* but ranks that do not count are not asked */
    assert_int_equal(promoted(TP_FLOAT8_E4M3FN, 0, tp_float(1)), TP_FLOAT8_E4M3FN);
    assert_int_equal(promoted(TP_FLOAT16, 0, tp_cplx(0, 1)), TP_COMPLEX32);
    assert_int_equal(promoted(TP_FLOAT8_E4M3FN, 0, tp_cplx(0, 1)), TP_NO_DTYPE);
    tp_error_clear();
}

static void test_integers_above_int64(void **state) {
    (void)state;
    tp_scalar large = tp_uint(UINT64_MAX);
    assert_int_equal(large.kind, TP_SCALAR_UINT);
    assert_int_equal(tp_uint(5).kind, TP_SCALAR_INT);
    assert_true(tp_scalar_to_double(large) == 0x1p64);
    uint64_t element;
    tpi_store_scalar(&element, TP_UINT64, large);
    assert_true(element == UINT64_MAX);
    assert_int_equal(tpi_load_scalar(&element, TP_UINT64).kind, TP_SCALAR_UINT);
    tpi_store_scalar(&element, TP_UINT64, tp_float(0x1.8p63));
    assert_true(element == UINT64_C(3) << 62);
    tpi_store_scalar(&element, TP_UINT64, tp_float(-1));
    assert_true(element == UINT64_MAX);
}

/* ---- Float8: every code against its definition, and every tie between neighbours ---- */
static void test_float8(void **state) {
    (void)state;
    static const struct {
        tp_dtype dtype;
        int fraction, bias, largest;
    } forms[] = {{TP_FLOAT8_E4M3FN, 3, 7, 0x7e},
                 {TP_FLOAT8_E5M2, 2, 15, 0x7b},
                 {TP_FLOAT8_E4M3FNUZ, 3, 8, 0x7f},
                 {TP_FLOAT8_E5M2FNUZ, 2, 16, 0x7f}};
    for (size_t f = 0; f < 4; f++) {
        tp_dtype dtype = forms[f].dtype;
        bool fnuz = dtype == TP_FLOAT8_E4M3FNUZ || dtype == TP_FLOAT8_E5M2FNUZ;
        double before = 0;
        for (int code = 0; code <= forms[f].largest; code++) {
            int m = forms[f].fraction, exponent = code >> m, fraction = code & ((1 << m) - 1);
            double value =
                ldexp(exponent ? fraction + (1 << m) : fraction, (exponent ? exponent : 1) - forms[f].bias - m);
            assert_true(tpi_float8_to_float((uint8_t)code, dtype) == value);
            assert_int_equal(tpi_float_to_float8((float)value, dtype), code);
            if (!code) continue;
            double tie = (before + value) / 2;
            int even = code & 1 ? code - 1 : code;
            assert_int_equal(tpi_float_to_float8((float)tie, dtype), even);
            assert_int_equal(tpi_float_to_float8(nextafterf((float)tie, 1e9f), dtype), code);
            assert_int_equal(tpi_float_to_float8((float)-value, dtype), code | 0x80);
            assert_true(tpi_float8_to_float((uint8_t)(code | 0x80), dtype) == -value);
            before = value;
        }
        assert_true(isnan(tpi_float8_to_float(tpi_float_to_float8(NAN, dtype), dtype)));
        float beyond = tpi_float8_to_float(tpi_float_to_float8(1e9f, dtype), dtype);
        assert_true(fnuz ? isnan(beyond) : dtype == TP_FLOAT8_E5M2 ? isinf(beyond) : beyond == 448);
        assert_int_equal(tpi_float_to_float8(-0.0f, dtype), fnuz ? 0 : 0x80);
    }
    for (int code = 0; code < 255; code++) {
        float value = tpi_float8_to_float((uint8_t)code, TP_FLOAT8_E8M0FNU);
        assert_true(value == ldexpf(1, code - 127));
        assert_int_equal(tpi_float_to_float8(-value, TP_FLOAT8_E8M0FNU), code);
        if (code) assert_int_equal(tpi_float_to_float8(value * 1.5f, TP_FLOAT8_E8M0FNU), code + 1);
        if (code) assert_int_equal(tpi_float_to_float8(value * 1.49f, TP_FLOAT8_E8M0FNU), code);
    }
    assert_true(isnan(tpi_float8_to_float(255, TP_FLOAT8_E8M0FNU)));
}

static void test_scalars_travel_through_elements(void **state) {
    (void)state;
    for (int d = TP_UINT8; d <= TP_BCOMPLEX32; d++) {
        char element[16];
        tpi_store_scalar(element, (tp_dtype)d, tp_float(3.5));
        double expected = tp_dtype_is_integral((tp_dtype)d) ? 3 : d == TP_FLOAT8_E8M0FNU ? 4 : 3.5;
        assert_true(tp_scalar_to_double(tpi_load_scalar(element, (tp_dtype)d)) == expected);
    }
    uint8_t byte;
    tpi_store_scalar(&byte, TP_UINT8, tp_int(300)); /* integers wrap */
    assert_int_equal(byte, 44);
    tpi_store_scalar(&byte, TP_UINT8, tp_float(-1));
    assert_int_equal(byte, 255);
    tpi_store_scalar(&byte, TP_BOOL, tp_cplx(0, 0.5));
    assert_int_equal(byte, 1);
    assert_int_equal(tp_scalar_to_int(tp_float(-2.9)), -2);
    assert_int_equal(tp_scalar_to_int(tp_float(1e30)), INT64_MIN);
    assert_true(isnan(tp_scalar_to_double(tp_no_scalar())));
    assert_true(tpi_param_of(tp_cplx(1.5, -2), TPI_C64).c64.im == -2);
}

/* ---- 16-bit floats: every one of them, and every tie between neighbours ---- */
static double half_value(int h) { /* the definition, in double */
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

static void test_halves(void **state) {
    (void)state;
    for (int h = 0; h < 65536; h++) {
        double expected = half_value(h);
        float f = tpi_half_to_float((uint16_t)h);
        if (isnan(expected)) {
            assert_true(isnan(f));
            assert_true(!signbit(f) == !(h & 0x8000));
            assert_int_equal(tpi_float_to_half(f), h | 0x200);
            continue;
        }
        assert_true((double)f == expected);
        assert_true(!signbit(f) == !(h & 0x8000));
        assert_int_equal(tpi_float_to_half(f), h);
        if ((h & 0x7fff) >= 0x7bff) continue;
        float tie = (float)((expected + half_value(h + 1)) / 2);
        assert_int_equal(tpi_float_to_half(tie), h & 1 ? h + 1 : h); /* to even */
        assert_int_equal(tpi_float_to_half(nextafterf(tie, f)), h);
        assert_int_equal(tpi_float_to_half(nextafterf(tie, (float)half_value(h + 1))), h + 1);
    }
    assert_int_equal(tpi_float_to_half(65519.996f), 0x7bff);
    assert_int_equal(tpi_float_to_half(65520), 0x7c00);
    assert_int_equal(tpi_float_to_half(-1e30f), 0xfc00);
    assert_int_equal(tpi_float_to_half(1e-30f), 0);
}

static void test_bfloat16s(void **state) {
    (void)state;
    for (int h = 0; h < 65536; h++) {
        float f = tpi_bf16_to_float((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(tpi_bf16_to_float(tpi_float_to_bf16(f))));
        else
            assert_int_equal(tpi_float_to_bf16(f), h);
    }
    assert_int_equal(tpi_float_to_bf16(1 + 0x1p-8f), 0x3f80); /* ties go to even */
    assert_int_equal(tpi_float_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
}

/* ---- The allocator ---- */
static tp_memory_stats stats_now(void) {
    tp_memory_stats s = {.size = sizeof s};
    assert_true(tp_memory_query(&s));
    return s;
}

static bool is_plain(void) { /* a sanitizer's build, or TAPER_ALLOC=plain: nothing is kept */
    void *block = tpi_alloc(1000);
    tp_memory_stats before = stats_now();
    tpi_free(block, 1000);
    return stats_now().reserved < before.reserved;
}

static void test_blocks_are_aligned_and_their_own(void **state) {
    (void)state;
    enum { N = 60 };
    unsigned char *block[N];
    size_t bytes[N], size = 0;
    for (int i = 0; i < N; i++) {
        bytes[i] = size;
        size = size + size / 3 + 1;
        block[i] = tpi_alloc(bytes[i]);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % TPI_ALIGN, 0);
        if (bytes[i] < 1 << 22) memset(block[i], i, (bytes[i] + TPI_ALIGN - 1) / TPI_ALIGN * TPI_ALIGN);
    }
    for (int i = 0; i < N; i++) {
        for (size_t k = 0; k < bytes[i] && bytes[i] < 1 << 22; k += 61) assert_int_equal(block[i][k], i);
        tpi_free(block[i], bytes[i]);
    }
    tp_memory_trim();
}

static void test_freed_blocks_are_reused(void **state) {
    (void)state;
    if (is_plain()) skip();
    static const size_t sizes[] = {1, 200, 5000, 60000, 300000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *first = tpi_alloc(sizes[i]);
        tpi_free(first, sizes[i]);
        int64_t reserved = stats_now().reserved;
        void *second = tpi_alloc(sizes[i]);
        assert_ptr_equal(first, second);
        assert_int_equal(stats_now().reserved, reserved);
        tpi_free(second, sizes[i]);
    }
}

static void test_counters_tell_the_truth(void **state) {
    (void)state;
    tp_memory_trim();
    tp_memory_stats before = stats_now();
    int64_t live = tpi_alloc_live();
    void *large = tpi_alloc(10 << 20);
    tp_memory_stats during = stats_now();
    assert_int_equal(during.allocated - before.allocated, 10 << 20);
    assert_true(during.reserved >= during.allocated);
    assert_true(during.peak_allocated >= during.allocated);
    assert_int_equal(during.allocations, before.allocations + 1);
    assert_int_equal(tpi_alloc_live(), live + 1);
    tpi_free(large, 10 << 20);
    tp_memory_stats after = stats_now();
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.peak_allocated, during.peak_allocated);
    assert_int_equal(tpi_alloc_live(), live);
    tp_memory_trim();
    assert_int_equal(stats_now().reserved, before.reserved);
    assert_false(tp_memory_query(NULL));
    tp_error_clear();
}

static void test_a_block_wastes_less_than_a_quarter(void **state) {
    (void)state;
    for (size_t bytes = 64; bytes < (size_t)1 << 30; bytes += bytes / 7 + 1) {
        int64_t before = stats_now().allocated;
        void *block = tpi_alloc(bytes);
        int64_t taken = stats_now().allocated - before;
        assert_true(taken >= (int64_t)bytes);
        assert_true((taken < 512 || (double)taken <= 1.25 * (double)bytes));
        tpi_free(block, bytes);
    }
    tp_memory_trim();
}

static void test_sized_blocks_grow(void **state) {
    (void)state;
    int64_t live = tpi_alloc_live();
    char *text = tpi_strdup("taper");
    assert_int_equal((uintptr_t)text % 16, 0);
    for (size_t bytes = 8; bytes < 100000; bytes = bytes * 3 / 2) {
        text = tpi_realloc(text, bytes);
        assert_string_equal(text, "taper");
        text[bytes - 1] = 'x';
    }
    text = tpi_realloc(text, 6);
    assert_string_equal(text, "taper");
    tpi_mfree(text);
    tpi_mfree(tpi_realloc(NULL, 0));
    tpi_mfree(NULL);
    tpi_free(NULL, 10);
    unsigned char *cleared = tpi_new0(100);
    for (int i = 0; i < 100; i++) assert_int_equal(cleared[i], 0);
    tpi_delete(cleared, 100);
    assert_int_equal(tpi_alloc_live(), live);
}

static void test_allocations_fail_on_demand(void **state) {
    (void)state;
    int64_t live = tpi_alloc_live();
    tpi_alloc_fail_at(2, false);
    void *first = tpi_alloc(10), *second = tpi_new(10), *third = tpi_malloc(10);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
    tp_error_clear();
    tpi_alloc_fail_at(1, true);
    assert_null(tpi_alloc(10));
    assert_null(tpi_realloc(third, 20)); /* the old block stays */
    assert_null(tp_generator_new(0));
    tpi_alloc_fail_at(0, false);
    tp_error_clear();
    tpi_free(first, 10);
    tpi_mfree(third);
    assert_int_equal(tpi_alloc_live(), live);
}

static void test_out_of_memory_is_told_in_numbers(void **state) {
    (void)state;
    assert_null(tpi_alloc(SIZE_MAX / 2));
    assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
    assert_non_null(strstr(tp_error(), "9223372036854775807 bytes"));
    assert_non_null(strstr(tp_error(), "largest free block"));
    tp_error_clear();
    assert_null(tpi_malloc(SIZE_MAX));
    tp_error_clear();
}

enum { HANDOVERS = 20000 };
static void *make_blocks(void *slots) {
    void **block = slots;
    for (int i = 0; i < HANDOVERS; i++) block[i] = tpi_new(64 + (size_t)i % 512);
    return NULL;
}

static void test_blocks_may_be_freed_by_another_thread(void **state) {
    (void)state;
    int64_t live = tpi_alloc_live(), allocated = stats_now().allocated;
    void **block = malloc(HANDOVERS * sizeof *block);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, make_blocks, block), 0);
        pthread_join(thread, NULL);
        assert_int_equal(tpi_alloc_live(), live + HANDOVERS);
        for (int i = 0; i < HANDOVERS; i++) tpi_delete(block[i], 64 + (size_t)i % 512);
        assert_int_equal(tpi_alloc_live(), live);
        assert_int_equal(stats_now().allocated, allocated);
    }
    free(block);
}

/* ---- Threads ---- */
enum { CHUNKS = 1001 };
static atomic_int visits[CHUNKS];

static void visit(int64_t chunk, void *context) {
    (void)context;
    atomic_fetch_add(&visits[chunk], 1);
}

static void visit_nested(int64_t chunk, void *context) {
    assert_true(tpi_in_parallel());
    if (chunk == 0) tpi_parallel_for(CHUNKS, true, visit, context);
}

static bool each_once(int64_t chunks) {
    bool ok = true;
    for (int64_t i = 0; i < CHUNKS; i++) ok = atomic_exchange(&visits[i], 0) == (i < chunks) && ok;
    return ok;
}

static void test_each_chunk_runs_once(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 7};
    static const int64_t chunks[] = {0, 1, 2, 5, 7, 64, CHUNKS};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        tp_set_num_threads(threads[t]);
        assert_int_equal(tp_num_threads(), threads[t]);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            for (int worth_it = 0; worth_it < 2; worth_it++) {
                tpi_parallel_for(chunks[c], worth_it, visit, NULL);
                assert_true(each_once(chunks[c]));
                tpi_parallel_for_brief(chunks[c], worth_it, visit, NULL);
                assert_true(each_once(chunks[c]));
            }
        }
    }
    tpi_parallel_for(3, true, visit_nested, NULL);
    assert_true(each_once(CHUNKS));
    assert_false(tpi_in_parallel());
    tp_set_num_threads(0);
    assert_true(tp_num_threads() >= 1);
}

static void count(int64_t chunk, void *context) { atomic_fetch_add((atomic_llong *)context, chunk + 1); }

/* Loops one close behind the other, as operators are; every chunk of each runs once, whoever else has the team. */
static void *many_loops(void *wrong) {
    for (int i = 0; i < 5000; i++) {
        atomic_llong sum = 0;
        int64_t chunks = 2 + i % 9;
        (i % 3 ? tpi_parallel_for_brief : tpi_parallel_for)(chunks, true, count, &sum);
        if (atomic_load(&sum) != chunks * (chunks + 1) / 2) atomic_fetch_add((atomic_int *)wrong, 1);
    }
    return NULL;
}

static void test_threads_run_loops_at_once(void **state) {
    (void)state;
    atomic_int wrong = 0;
    pthread_t others[2];
    tp_set_num_threads(4);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&others[i], NULL, many_loops, &wrong), 0);
    many_loops(&wrong);
    for (int i = 0; i < 2; i++) pthread_join(others[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    tp_set_num_threads(0);
}

static void test_a_forked_child_works(void **state) {
    (void)state;
    tp_set_num_threads(3);
    tpi_parallel_for(CHUNKS, true, visit, NULL);
    assert_true(each_once(CHUNKS));
    pid_t child = fork();
    if (child == 0) {
        tpi_parallel_for(CHUNKS, true, visit, NULL);
        void *block = tpi_alloc(1 << 20);
        bool ok = block && each_once(CHUNKS) && tp_num_threads() == 1;
        tpi_free(block, 1 << 20);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0);
    tp_set_num_threads(0);
}

/* ---- The generator ---- */
static const struct {
    uint64_t seed;
    float floats[3];
    double doubles[3], normals[4];
    float after_1000[2];
} streams[] = {
    {0,
     {0x1.fc2abp-2f, 0x1.89545ep-1f, 0x1.6a675p-4f},
     {0x1.f0aac97c4aa2fp-1, 0x1.6a675d821cccp-1, 0x1.d6687b744a5f6p-2},
     {1.5409961082440433, -0.2934289057609464, -2.1787893820745574, 0.5684312772806678},
     {0x1.d4789cp-2f, 0x1.c2ceap-4f}},
    {42,
     {0x1.c3b8ccp-1f, 0x1.d47b66p-1f, 0x1.880d7p-2f},
     {0x1.dc66cbea3db3p-5, 0x1.01ae177aca87p-4, 0x1.fa3563ccea238p-4},
     {0.33669035438385886, 0.1288094051365897, 0.23446236336153173, 0.2303330279146119},
     {0x1.7573eap-1f, 0x1.176ef8p-2f}},
    {1099511627783,
     {0x1.11e15ep-1f, 0x1.97262p-3f, 0x1.518432p-1f},
     {0x1.1e15e7465c988p-2, 0x1.18432a35053ecp-2, 0x1.b9643fa6cd0d3p-1},
     {-0.1467950974849952, 0.7861412987235358, 0.9468216090039564, -1.1143440212610307},
     {0x1.e25212p-1f, 0x1.8375bap-1f}},
};

static void test_streams_are_pytorchs(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
        tp_generator *g = tp_generator_new(streams[s].seed);
        assert_non_null(g);
        assert_true(tp_generator_initial_seed(g) == streams[s].seed);
        for (int i = 0; i < 3; i++) assert_true(tpi_uniform_float(g) == streams[s].floats[i]);
        tp_generator_seed(g, streams[s].seed);
        for (int i = 0; i < 3; i++) assert_true(tpi_uniform_double(g) == streams[s].doubles[i]);
        tp_generator_seed(g, streams[s].seed);
        for (int i = 0; i < 4; i++) assert_true(fabs(tpi_normal_double(g) - streams[s].normals[i]) < 1e-14);
        tp_generator_seed(g, streams[s].seed);
        for (int i = 0; i < 1000; i++) tpi_random32(g);
        for (int i = 0; i < 2; i++) assert_true(tpi_uniform_float(g) == streams[s].after_1000[i]);
        tp_generator_free(g);
    }
}

/* Philox 4x32-10 as its authors' known answers give it; and a device generator hands out the same words on the host as
 * kernels would take. */
static void test_philox(void **state) {
    (void)state;
    static const uint32_t zero[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    uint32_t got[4];
    tpi_philox_group(0, 0, got);
    assert_memory_equal(got, zero, sizeof zero);
    tp_device device = {TP_TEST_DEVICE, 1};
    tp_generator *g = tp_generator_new_on(device, 7);
    uint32_t words[9], again[4];
    tpi_generator_lock(g);
    for (int i = 0; i < 9; i++) words[i] = tpi_random32(g);
    tpi_generator_unlock(g);
    tpi_philox_group(7, 1, again);
    assert_memory_equal(again, words + 4, sizeof again);
    tpi_philox taken;
    assert_true(
        tpi_philox_reserve(g, device, 5, &taken)); /* begins at the next whole group, and leaves a whole group behind */
    assert_true(taken.seed == 7);
    assert_true(taken.offset == 3);
    assert_int_equal(tp_generator_offset(g), 20);
    tp_tensor *saved = tp_generator_get_state(g);
    assert_int_equal(tp_numel(saved), 16);
    tp_generator_seed(g, 99);
    assert_true(tp_generator_set_state(g, saved));
    assert_int_equal(tp_generator_offset(g), 20);
    assert_true(tp_generator_initial_seed(g) == 7);
    assert_false(tpi_philox_reserve(g, (tp_device){TP_CUDA, 0}, 4, &taken));
    assert_non_null(strstr(tp_error(), "generator"));
    tp_error_clear();
    tp_manual_seed(5);
    assert_true(tp_generator_initial_seed(tp_default_generator_of(device)) == 5);
    tp_release(saved);
    tp_generator_free(g);
}

static void
test_the_reference_word(void **state) { /* the 10000th word of mt19937 from seed 5489, as the C++ standard gives it */
    (void)state;
    tp_manual_seed(5489);
    tp_generator *g = tp_default_generator();
    for (int i = 1; i < 10000; i++) tpi_random32(g);
    assert_int_equal(tpi_random32(g), 4123659995u);
}

static void test_words_in_bulk_are_the_same_words(void **state) {
    (void)state;
    static const int runs[] = {1, 2, 620, 1, 3, 624, 1300, 7};
    uint32_t bulk[1300];
    tp_generator *one = tp_generator_new(3), *many = tp_generator_new(3);
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        tpi_random_words(many, runs[r], bulk);
        for (int i = 0; i < runs[r]; i++) assert_int_equal(bulk[i], tpi_random32(one));
        assert_int_equal(one->left, many->left);
        assert_int_equal(one->next, many->next);
    }
    tp_generator_free(one);
    tp_generator_free(many);
}

static void test_seeding_forgets_the_kept_normal(void **state) {
    (void)state;
    tp_generator *g = tp_generator_new(0);
    double first = tpi_normal_double(g);
    tp_generator_seed(g, 0);
    assert_true(tpi_normal_double(g) == first);
    tp_generator_free(g);
    tp_generator_free(NULL);
    tp_generator_free(tp_default_generator()); /* refused, silently */
    tp_manual_seed(0);
    assert_true(tp_generator_initial_seed(NULL) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_error_stays),
        cmocka_unit_test(test_errors_name_the_outermost_operator),
        cmocka_unit_test(test_long_errors_are_kept_and_given_back),
        cmocka_unit_test(test_errors_belong_to_their_thread),
        cmocka_unit_test(test_shape_text),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_promotion_of_pairs),
        cmocka_unit_test(test_promotion_among_ranks),
        cmocka_unit_test(test_promotion_of_limited_dtypes),
        cmocka_unit_test(test_integers_above_int64),
        cmocka_unit_test(test_float8),
        cmocka_unit_test(test_dtype_names_and_casts),
        cmocka_unit_test(test_scalars_travel_through_elements),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_bfloat16s),
        cmocka_unit_test(test_blocks_are_aligned_and_their_own),
        cmocka_unit_test(test_freed_blocks_are_reused),
        cmocka_unit_test(test_counters_tell_the_truth),
        cmocka_unit_test(test_a_block_wastes_less_than_a_quarter),
        cmocka_unit_test(test_sized_blocks_grow),
        cmocka_unit_test(test_allocations_fail_on_demand),
        cmocka_unit_test(test_out_of_memory_is_told_in_numbers),
        cmocka_unit_test(test_blocks_may_be_freed_by_another_thread),
        cmocka_unit_test(test_each_chunk_runs_once),
        cmocka_unit_test(test_threads_run_loops_at_once),
        cmocka_unit_test(test_a_forked_child_works),
        cmocka_unit_test(test_streams_are_pytorchs),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_the_reference_word),
        cmocka_unit_test(test_words_in_bulk_are_the_same_words),
        cmocka_unit_test(test_seeding_forgets_the_kept_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
