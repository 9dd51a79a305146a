/* WAV files: every kind of sample comes back, parts of files are read, and no damage does harm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <taper/audio.h>
#include <unistd.h>
#include "tensor/tensor.h"

static const tp_device cpu = {TP_CPU, 0};

static void assert_error(tp_code code, const char *words) {
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    assert_int_equal(tp_error_code(), code);
    tp_error_clear();
}

static tp_tensor *tone(int64_t channels, int64_t frames) {
    tp_tensor *t = tpi_empty(TP_INTS(channels, frames), TP_FLOAT32, cpu);
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++) ((float *)t->data)[i] = sinf((float)i * 0.3f) * 0.8f;
    return t;
}
static float value(const tp_tensor *t, int64_t i) { return ((const float *)t->data)[i]; }

static void every_kind_of_sample_comes_back(void **state) {
    (void)state;
    static const struct {
        int bits;
        bool floating;
        float off;
    } kinds[] = {{8, false, 0x1p-8f},   {16, false, 0x1p-16f}, {24, false, 0x1p-23f},
                 {32, false, 0x1p-23f}, {32, true, 0},         {64, true, 0}};
    tp_tensor *sound = tone(2, 31);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tp_tensor *file = tp_encode_wav(sound, 16000, .bits = kinds[k].bits, .floating = kinds[k].floating);
        int64_t rate = 0;
        tp_tensor *back = tp_decode_wav(file, &rate);
        if (!back) fail_msg("%s", tp_error());
        assert_int_equal(rate, 16000);
        assert_true(tpi_same_shape(back, sound));
        for (int64_t i = 0; i < sound->numel; i++) assert_true(fabsf(value(back, i) - value(sound, i)) <= kinds[k].off);
        tp_wav_info info = {.size = sizeof info};
        assert_true(tp_wav_describe(file, &info));
        assert_true(info.channels == 2);
        assert_true(info.frames == 31);
        assert_true(info.bits == kinds[k].bits);
        assert_true(info.floating == kinds[k].floating);
        tp_release(file);
        tp_release(back);
    }
    tp_release(sound);
}

static void samples_as_they_are_stored(void **state) {
    (void)state;
    int16_t v[] = {0, 1, -1, 32767, -32768};
    tp_tensor *sound = tp_from_data(v, TP_INT16, TP_INTS(1, 5)), *file = tp_encode_wav(sound, 8000),
              *back = tp_decode_wav(file, NULL, .normalize = false);
    assert_int_equal(tp_dtype_of(back), TP_INT16);
    assert_memory_equal(back->data, v, sizeof v);
    tp_tensor *wide = tp_encode_wav(sound, 8000, .bits = 24), *upper = tp_decode_wav(wide, NULL, .normalize = false);
    assert_int_equal(tp_dtype_of(upper), TP_INT32);
    assert_int_equal(((int32_t *)upper->data)[4], INT32_MIN);
    assert_int_equal(((int32_t *)upper->data)[1], 65536);
    tp_release(sound);
    tp_release(file);
    tp_release(back);
    tp_release(wide);
    tp_release(upper);
}

static void loud_samples_are_cut(void **state) {
    (void)state;
    float v[] = {2, -2, NAN, 1};
    tp_tensor *sound = tp_from_data(v, TP_FLOAT32, TP_INTS(4)), *file = tp_encode_wav(sound, 8000, .bits = 16),
              *back = tp_decode_wav(file, NULL, .normalize = false);
    static const int16_t want[] = {32767, -32768, 0, 32767};
    assert_memory_equal(back->data, want, sizeof want);
    tp_release(sound);
    tp_release(file);
    tp_release(back);
}

static void a_part_of_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/taper_audio_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tp_tensor *sound = tone(2, 20);
    assert_true(tp_write_wav(path, sound, 44100));
    int64_t rate;
    TP_SCOPE {
        tp_tensor *part = tp_read_wav(path, &rate, .frame_offset = 5, .num_frames = 3),
                  *rest = tp_read_wav(path, NULL, .frame_offset = 15, .num_frames = 100);
        assert_true(tp_size(part, 1) == 3);
        assert_true(value(part, 0) == value(sound, 5));
        assert_true(value(part, 3) == value(sound, 25));
        assert_int_equal(tp_size(rest, 1), 5);
        assert_int_equal(tp_size(tp_read_wav(path, NULL, .frame_offset = 50), 1), 0);
        assert_null(tp_read_wav(path, NULL, .num_frames = 0));
        assert_error(TP_ERR_VALUE, "'num_frames'");
    }
    unlink(path);
    tp_release(sound);
}

static void any_damage_is_survived(void **state) {
    (void)state;
    tp_tensor *sound = tone(3, 5), *file = tp_encode_wav(sound, 8000, .bits = 24);
    int64_t live = tpi_alloc_live();
    for (int64_t n = 1; n <= file->numel; n++) {
        tp_tensor *part = tp_from_data(file->data, TP_UINT8, TP_INTS(n)), *back = tp_decode_wav(part, NULL);
        assert_true((back != NULL) == tp_ok());
        tp_error_clear();
        tp_release(part);
        tp_release(back);
    }
    for (int64_t i = 0; i < file->numel; i++)
        for (int mask = 1; mask < 256; mask = mask * 2 + 1) {
            file->data[i] ^= (char)mask;
            tp_tensor *back = tp_decode_wav(file, NULL);
            assert_true((back != NULL) == tp_ok());
            tp_error_clear();
            tp_release(back);
            file->data[i] ^= (char)mask;
        }
    assert_int_equal(tpi_alloc_live(), live);
    file->data[20] = 6; /* a-law */
    assert_null(tp_decode_wav(file, NULL));
    assert_error(TP_ERR_MISSING, "this is of kind 6");
    tp_release(sound);
    tp_release(file);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    tp_tensor *sound = tone(1, 4), *cube = tpi_empty(TP_INTS(1, 1, 1), TP_FLOAT32, cpu),
              *longs = tpi_empty(TP_INTS(3), TP_INT64, cpu);
    assert_null(tp_encode_wav(sound, 0));
    assert_error(TP_ERR_VALUE, "'sample_rate'");
    assert_null(tp_encode_wav(sound, 8000, .bits = 12));
    assert_error(TP_ERR_VALUE, "got 12");
    assert_null(tp_encode_wav(cube, 8000));
    assert_error(TP_ERR_RUNTIME, "(channels, frames), got shape [1, 1, 1]");
    assert_null(tp_encode_wav(longs, 8000));
    assert_error(TP_ERR_RUNTIME, "got int64");
    tp_release(sound);
    tp_release(cube);
    tp_release(longs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_sample_comes_back),
        cmocka_unit_test(samples_as_they_are_stored),
        cmocka_unit_test(loud_samples_are_cut),
        cmocka_unit_test(a_part_of_a_file),
        cmocka_unit_test(any_damage_is_survived),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
