/* Fourier transforms against the definition, for lengths with every radix and for primes; halves against whole
 * transforms; the same bits on any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <complex.h>
#include <math.h>
#include <string.h>
#include <taper/taper.h>
#include "tensor/tensor.h"

static const double PI = 3.14159265358979323846;

static double _Complex at(const tp_tensor *t, int64_t i) { /* of a contiguous tensor */
    tpi_c128 v =
        tpi_param_of(tpi_load_scalar(t->data + i * (int64_t)tpi_itemsize(t), (tp_dtype)t->dtype), TPI_C128).c128;
    return v.re + v.im * I;
}

static void check_line(int64_t n, tp_dtype dtype) {
    double epsilon = dtype == TP_COMPLEX64 ? 1.2e-7 : 2.3e-16,
           allowed = 4 * epsilon * sqrt((double)n) * (1 + log2((double)n));
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(3, n), .dtype = dtype), *y = tp_fft_fft(x), *back = tp_fft_ifft(y);
        assert_true(tp_ok());
        for (int64_t k = 0; k < n; k++) {
            double _Complex sum = 0;
            for (int64_t j = 0; j < n; j++) sum += at(x, n + j) * cexp(-2 * PI * I * (double)(j * k % n) / (double)n);
            if (cabs(sum - at(y, n + k)) > allowed)
                fail_msg("n = %d, element %d: off by %g", (int)n, (int)k, cabs(sum - at(y, n + k)));
            assert_true(cabs(at(back, n + k) - at(x, n + k)) <= allowed);
        }
    }
}

static void lengths_against_the_definition(void **state) {
    (void)state;
    static const int64_t large[] = {97,  100, 121, 128, 143, 169, 210,  243, 256,
                                    272, 336, 343, 360, 509, 512, 1001, 1040};
    for (int64_t n = 1; n <= 64; n++) {
        check_line(n, TP_COMPLEX128);
        check_line(n, TP_COMPLEX64);
    }
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        check_line(large[i], TP_COMPLEX128);
        check_line(large[i], TP_COMPLEX64);
    }
}

static void halves_against_whole_transforms(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 40; n++)
        TP_SCOPE {
            tp_tensor *x = tp_randn(TP_INTS(2, n), .dtype = TP_FLOAT64), *whole = tp_fft_fft(x), *half = tp_fft_rfft(x);
            assert_int_equal(tp_size(half, 1), n / 2 + 1);
            tp_tensor *same = tp_sub(half, tp_narrow(whole, 1, 0, n / 2 + 1));
            assert_true(tp_item(tp_amax(tp_abs(same))) < 1e-13 * (double)(n + 1));
            tp_tensor *back = tp_fft_irfft(half, .n = n);
            assert_true(tp_item(tp_amax(tp_abs(tp_sub(back, x)))) < 1e-13);
        }
}

/* Lines that are taken one at a time, from memory that is aligned to an element and no more, and odd rests behind the
 * first stage. */
static void long_halves_against_whole_transforms(void **state) {
    (void)state;
    static const int64_t lengths[] = {32, 128, 256, 336, 512, 672, 1024, 2080, 4096};
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_FLOAT64};
    for (size_t i = 0; i < 2 * (sizeof lengths / sizeof *lengths); i++)
        TP_SCOPE {
            const int64_t n = lengths[i / 2];
            const double allowed = (dtypes[i % 2] == TP_FLOAT32 ? 1.2e-7 : 2.3e-16) * 8 * sqrt((double)n);
            tp_tensor *x = tp_narrow(tp_randn(TP_INTS(3, n + 1), .dtype = dtypes[i % 2]), 1, 1, n);
            tp_tensor *half = tp_fft_rfft(x), *whole = tp_fft_fft(x), *back = tp_fft_irfft(half, .n = n);
            tp_tensor *same = tp_sub(half, tp_narrow(whole, 1, 0, n / 2 + 1));
            assert_true(tp_item(tp_amax(tp_abs(same))) < allowed * log2((double)n));
            assert_true(tp_item(tp_amax(tp_abs(tp_sub(back, x)))) < allowed);
        }
}

/* Lines along any dim of a strided tensor, in groups that do not come out even. */
static void dims_and_strides(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(19, 6, 5), .dtype = TP_COMPLEX128), *permuted = tp_permute(x, TP_INTS(2, 0, 1));
        tp_tensor *a = tp_fft_fft(permuted, .dim = 2), *b = tp_permute(tp_fft_fft(x, .dim = 1), TP_INTS(2, 0, 1));
        assert_true(tp_item(tp_amax(tp_abs(tp_sub(a, b)))) == 0);
    }
}

/* Columns that lie side by side, whole vectors of them and a rest, are what they are as rows; one group may reach into
 * another's memory no more than on the same side. */
static void columns_against_rows(void **state) {
    (void)state;
    static const int64_t lengths[] = {3, 8, 16, 20, 32, 36, 64, 72, 77, 128, 211, 250, 256, 500};
    static const tp_dtype dtypes[] = {TP_COMPLEX64, TP_COMPLEX128, TP_FLOAT32, TP_FLOAT64};
    for (size_t i = 0; i < 4 * (sizeof lengths / sizeof *lengths); i++)
        TP_SCOPE {
            const int64_t n = lengths[i / 4];
            const bool single = i % 2 == 0, real = i % 4 >= 2;
            const double allowed = (single ? 1.2e-7 : 2.3e-16) * 16 * sqrt((double)n) * log2((double)n);
            tp_tensor *x = tp_randn(TP_INTS(2, n, 37), .dtype = dtypes[i % 4]);
            tp_tensor *rows = tp_contiguous(tp_transpose(x, 1, 2));
            tp_tensor *a = real ? tp_fft_rfft(x, .dim = 1) : tp_fft_fft(x, .dim = 1);
            tp_tensor *b = real ? tp_fft_rfft(rows) : tp_fft_fft(rows);
            assert_true(tp_item(tp_amax(tp_abs(tp_sub(a, tp_transpose(b, 1, 2))))) < allowed);
            tp_tensor *back = real ? tp_fft_irfft(a, .n = n, .dim = 1) : tp_fft_ifft(a, .dim = 1);
            assert_true(tp_item(tp_amax(tp_abs(tp_sub(back, x)))) < allowed);
            for (int64_t count = 1; count < 6; count++) { /* rows in twos and fours, of which some are missing */
                tp_tensor *some = tp_narrow(rows, 1, 3, count), *c = real ? tp_fft_rfft(some) : tp_fft_fft(some);
                tp_tensor *off = tp_sub(c, tp_narrow(b, 1, 3, count));
                assert_true(tp_item(tp_amax(tp_abs(off))) < allowed);
                tp_tensor *same = real ? tp_fft_irfft(c, .n = n) : tp_fft_ifft(c);
                assert_true(tp_item(tp_amax(tp_abs(tp_sub(same, some)))) < allowed);
            }
        }
}

static tp_tensor *one_by_one(tp_tensor *x, const int64_t *dims, int count, bool real, bool forward) {
    for (int i = count - 1; i >= 0; i--)
        x = i == count - 1 && real ? tp_fft_rfft(x, .dim = dims[i])
            : forward              ? tp_fft_fft(x, .dim = dims[i])
                                   : tp_fft_ifft(x, .dim = dims[i]);
    return x;
}

static bool equal_bits(const tp_tensor *a, const tp_tensor *b) {
    return a && b && a->numel == b->numel && !memcmp(a->data, b->data, (size_t)a->numel * tpi_itemsize(a));
}

/* Several dims at once, in slabs where the tensor is larger than those, are the same bits as one after the other, on
 * any number of threads. */
static void several_dims_against_one_by_one(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{5, 200, 131}, {9, 256, 64}, {260, 24, 36}, {6, 8, 10}};
    static const int64_t dims[][3] = {{0, 1, 2}, {1, 2}, {2, 0, 1}, {2, 1}};
    static const int counts[] = {3, 2, 3, 2}, threads[] = {1, 4, 7};
    for (int i = 0; i < 4 * 4 * 3; i++)
        TP_SCOPE {
            const int64_t *shape = shapes[i / 12], *along = dims[i / 3 % 4];
            const int count = counts[i / 3 % 4];
            const tp_ints all = tp_ints_view(along, count);
            tp_set_num_threads(threads[i % 3]);
            tp_tensor *x = tp_randn(tp_ints_view(shape, 3), .dtype = TP_COMPLEX128), *r = tp_real(x);
            tp_tensor *half = tp_fft_rfftn(r, .dim = all);
            assert_true(equal_bits(tp_fft_fftn(x, .dim = all), one_by_one(x, along, count, false, true)));
            assert_true(equal_bits(half, one_by_one(r, along, count, true, true)));
            tp_tensor *back = tp_fft_irfftn(
                half,
                .s =
                    tp_ints_view((int64_t[]){shape[along[0]], shape[along[1]], count > 2 ? shape[along[2]] : 0}, count),
                .dim = all);
            assert_true(tp_item(tp_amax(tp_abs(tp_sub(back, r)))) < 1e-13);
            tp_tensor *whole = tp_fft_ifftn(tp_fft_fftn(x, .dim = all), .dim = all);
            assert_true(tp_item(tp_amax(tp_abs(tp_sub(whole, x)))) < 1e-13);
            tp_set_num_threads(0);
        }
}

static void same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 7};
    static const int64_t lengths[][2] = {{1000, 1009}, {1024, 2048}, {500, 1000}, {264, 256}};
    for (int pair = 0; pair < 4; pair++)
        TP_SCOPE {
            tp_tensor *x = tp_randn(TP_INTS(101, lengths[pair][0]), .dtype = TP_COMPLEX64),
                      *r = tp_randn(TP_INTS(101, lengths[pair][1]));
            tp_set_num_threads(1);
            tp_tensor *y = tp_fft_fft(x), *h = tp_fft_rfft(r);
            for (int i = 0; i < 3; i++) {
                tp_set_num_threads(threads[i]);
                assert_memory_equal(y->data, tp_fft_fft(x)->data, (size_t)y->numel * 8);
                assert_memory_equal(h->data, tp_fft_rfft(r)->data, (size_t)h->numel * 8);
            }
            tp_set_num_threads(0);
        }
}

static void short_time_transforms_turn_back(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(2, 64), .dtype = TP_FLOAT64), *window = tp_hann_window(16, .dtype = TP_FLOAT64);
        tp_tensor *s = tp_stft(x, 16, .hop_length = 4, .window = window, .return_complex = 1);
        assert_int_equal(tp_size(s, 1), 9);
        assert_int_equal(tp_size(s, 2), 17);
        tp_tensor *back = tp_istft(s, 16, .hop_length = 4, .window = window, .length = 64);
        assert_true(tp_item(tp_amax(tp_abs(tp_sub(back, x)))) < 1e-13);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_against_the_definition),
        cmocka_unit_test(halves_against_whole_transforms),
        cmocka_unit_test(long_halves_against_whole_transforms),
        cmocka_unit_test(dims_and_strides),
        cmocka_unit_test(columns_against_rows),
        cmocka_unit_test(several_dims_against_one_by_one),
        cmocka_unit_test(same_bits_on_any_number_of_threads),
        cmocka_unit_test(short_time_transforms_turn_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
