/* Images in files: what is written comes back, modes and cameras' orientations are honoured, and no damage does harm.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <taper/image.h>
#include <unistd.h>
#include <zlib.h>
#include "tensor/tensor.h"

static const tp_device cpu = {TP_CPU, 0};

static void assert_error(tp_code code, const char *words) {
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    assert_int_equal(tp_error_code(), code);
    tp_error_clear();
}

/* A gradient with some texture: (c, h, w) */
static tp_tensor *picture(int64_t c, int64_t h, int64_t w) {
    tp_tensor *t = tpi_empty(TP_INTS(c, h, w), TP_UINT8, cpu);
    assert_non_null(t);
    for (int64_t k = 0; k < c; k++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                ((uint8_t *)t->data)[(k * h + y) * w + x] = (uint8_t)(y * 7 + x * 3 + k * 50);
    return t;
}
static int at(const tp_tensor *t, int64_t c, int64_t y, int64_t x) {
    return ((const uint8_t *)t->data)[(c * t->shape[1] + y) * t->shape[2] + x];
}
static void assert_same(const tp_tensor *a, const tp_tensor *b) {
    if (!a) fail_msg("%s", tp_error());
    assert_true(tpi_same_shape(a, b));
    assert_true(a->dtype == b->dtype);
    assert_memory_equal(a->data, b->data, (size_t)a->numel);
}
static tp_tensor *bytes_of(const void *data, size_t n) { return tp_from_data(data, TP_UINT8, TP_INTS((int64_t)n)); }

static void a_png_holds_every_pixel(void **state) {
    (void)state;
    for (int64_t c = 1; c <= 4; c++)
        for (int level = 0; level <= 9; level += 9) {
            tp_tensor *image = picture(c, 5, 9), *file = tp_encode_png(image, .level = level),
                      *back = tp_decode_png(file), *any = tp_decode_image(file);
            assert_same(back, image);
            assert_same(any, image);
            tp_release(image);
            tp_release(file);
            tp_release(back);
            tp_release(any);
        }
}

static void a_mode_says_which_channels(void **state) {
    (void)state;
    tp_tensor *image = picture(3, 4, 4), *file = tp_encode_png(image);
    static const int64_t channels[] = {3, 1, 2, 3, 4};
    for (int64_t mode = 0; mode <= 4; mode++) {
        tp_tensor *got = tp_decode_png(file, .mode = mode);
        assert_int_equal(tp_size(got, 0), channels[mode]);
        if (mode == TP_IMAGE_RGB_ALPHA) assert_int_equal(at(got, 3, 1, 1), 255);
        if (mode == TP_IMAGE_GRAY)
            assert_int_equal(at(got, 0, 0, 0),
                             40); /* 0.2989 * 0 + 0.587 * 50 + 0.114 * 100 = 40.8, of which libpng drops the rest */
        tp_release(got);
    }
    tp_release(image);
    tp_release(file);
}

static void a_jpeg_is_close(void **state) {
    (void)state;
    for (int64_t c = 1; c <= 3; c += 2) {
        tp_tensor *image = picture(c, 16, 16), *file = tp_encode_jpeg(image, .quality = 95),
                  *back = tp_decode_jpeg(file);
        if (!back) fail_msg("%s", tp_error());
        assert_true(tpi_same_shape(back, image));
        for (int64_t i = 0; i < image->numel; i++)
            assert_in_range(((uint8_t *)back->data)[i] + 12, ((uint8_t *)image->data)[i],
                            ((uint8_t *)image->data)[i] + 24);
        tp_tensor *gray = tp_decode_jpeg(file, .mode = TP_IMAGE_GRAY);
        assert_int_equal(tp_size(gray, 0), 1);
        assert_null(tp_decode_jpeg(file, .mode = TP_IMAGE_RGB_ALPHA));
        assert_error(TP_ERR_RUNTIME, "a JPEG has no alpha");
        tp_release(image);
        tp_release(file);
        tp_release(back);
        tp_release(gray);
    }
}

/* The JPEG of `image` with a camera's orientation behind its first marker. */
static tp_tensor *with_orientation(const tp_tensor *image, int orientation) {
    uint8_t exif[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i',  'f', 0, 0, 'M', 'M', 0, 42, 0,
                      0,    0,    8, 0,  1,   1,   0x12, 0,   3, 0, 0,   0,   1, 0,  (uint8_t)orientation,
                      0,    0,    0, 0,  0,   0};
    tp_tensor *file = tp_encode_jpeg(image, .quality = 100),
              *all = tpi_empty(TP_INTS(file->numel + (int64_t)sizeof exif), TP_UINT8, cpu);
    memcpy(all->data, file->data, 2);
    memcpy(all->data + 2, exif, sizeof exif);
    memcpy(all->data + 2 + sizeof exif, file->data + 2, (size_t)file->numel - 2);
    tp_release(file);
    return all;
}

static void a_camera_turns_its_image(void **state) {
    (void)state;
    tp_tensor *image =
        tpi_empty(TP_INTS(1, 16, 32), TP_UINT8, cpu); /* bright in one corner, at the top and on the left */
    for (int64_t y = 0; y < 16; y++)
        for (int64_t x = 0; x < 32; x++) ((uint8_t *)image->data)[y * 32 + x] = y < 8 && x < 8 ? 250 : 5;
    static const struct {
        int right, below;
    } corner[] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 0}, {1, 0}, {1, 1}, {0, 1}}; /* where it is seen */
    for (int o = 1; o <= 8; o++) {
        tp_tensor *file = with_orientation(image, o), *seen = tp_decode_image(file, .apply_exif_orientation = true),
                  *stored = tp_decode_image(file);
        if (!seen) fail_msg("%s", tp_error());
        int64_t h = tp_size(seen, 1), w = tp_size(seen, 2);
        assert_int_equal(h, o < 5 ? 16 : 32);
        assert_int_equal(w, o < 5 ? 32 : 16);
        for (int k = 0; k < 4; k++) {
            int right = k & 1, below = k >> 1;
            bool bright = at(seen, 0, below ? h - 2 : 1, right ? w - 2 : 1) > 128;
            assert_int_equal(bright, right == corner[o - 1].right && below == corner[o - 1].below);
        }
        assert_int_equal(tp_size(stored, 1), 16);
        tp_release(file);
        tp_release(seen);
        tp_release(stored);
    }
    tp_release(image);
}

/* A palette of 2 bits with one see-through colour; 16 bits of gray, interlaced (Pillow and zlib made them). */
static const uint8_t palette[] = {
#include "fixtures/palette_png.h"
};
static const uint8_t interlaced16[] = {
#include "fixtures/interlaced16_png.h"
};

static void palettes_interlace_and_16_bits(void **state) {
    (void)state;
    tp_tensor *file = bytes_of(palette, sizeof palette), *image = tp_decode_image(file),
              *rgb = tp_decode_image(file, .mode = TP_IMAGE_RGB);
    if (!image) fail_msg("%s", tp_error());
    assert_int_equal(tp_size(image, 0), 4);
    static const int first[] = {255, 0, 0, 0}, second[] = {0, 255, 0, 255};
    for (int c = 0; c < 4; c++) {
        assert_int_equal(at(image, c, 0, 0), first[c]);
        assert_int_equal(at(image, c, 0, 1), second[c]);
    }
    assert_int_equal(tp_size(rgb, 0), 3);
    tp_release(file);
    tp_release(image);
    tp_release(rgb);

    file = bytes_of(interlaced16, sizeof interlaced16);
    image = tp_decode_image(file);
    if (!image) fail_msg("%s", tp_error());
    assert_int_equal(tp_dtype_of(image), TP_INT32);
    assert_true(tp_size(image, 0) == 1);
    assert_true(tp_size(image, 1) == 9);
    assert_true(tp_size(image, 2) == 9);
    for (int64_t i = 0; i < 81; i++) assert_int_equal(((int32_t *)image->data)[i], i * 800 + 7);
    tp_release(file);
    tp_release(image);
}

static void files_are_read_and_written(void **state) {
    (void)state;
    char path[] = "/tmp/taper_image_XXXXXX.png", jpeg[] = "/tmp/taper_image_XXXXXX.jpg";
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0);
    close(fd);
    fd = mkstemps(jpeg, 4);
    assert_true(fd >= 0);
    close(fd);
    tp_tensor *image = picture(3, 6, 7);
    assert_true(tp_write_image(path, image, .level = 1));
    assert_true(tp_write_image(jpeg, image, .quality = 80));
    TP_SCOPE {
        assert_same(tp_read_image(path), image);
        assert_int_equal(tp_size(tp_read_image(jpeg), 2), 7);
        assert_int_equal(tp_size(tp_read_image(path, .mode = TP_IMAGE_GRAY), 0), 1);
    }
    unlink(path);
    unlink(jpeg);
    assert_null(tp_read_image(path));
    assert_error(TP_ERR_IO, "read_image: could not open");
    assert_null(tp_read_file("/"));
    assert_error(TP_ERR_IO, "it is not a file");
    assert_false(tp_write_image("picture.bmp", image));
    assert_error(TP_ERR_VALUE, ".png, .jpg or .jpeg, got 'picture.bmp'");
    tp_release(image);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    tp_tensor *image = picture(2, 3, 3), *flat = bytes_of("GIF89a", 6),
              *none = tpi_empty(TP_INTS(3, 0, 4), TP_UINT8, cpu),
              *floats = tpi_empty(TP_INTS(3, 2, 2), TP_FLOAT32, cpu);
    assert_null(tp_encode_jpeg(image));
    assert_error(TP_ERR_RUNTIME, "encode_jpeg: argument 'image': The number of channels should be 1 or 3, got: 2");
    assert_null(tp_encode_png(image, .level = 10));
    assert_error(TP_ERR_RUNTIME, "between 0 and 9, got 10");
    assert_null(tp_encode_png(none));
    assert_error(TP_ERR_RUNTIME, "has no pixels");
    assert_null(tp_encode_png(floats));
    assert_error(TP_ERR_RUNTIME, "should be uint8, got float32");
    assert_null(tp_encode_png(flat));
    assert_error(TP_ERR_RUNTIME, "3-dimensional");
    assert_null(tp_decode_image(flat));
    assert_error(TP_ERR_RUNTIME, "Unsupported image file");
    assert_null(tp_decode_png(flat));
    assert_error(TP_ERR_RUNTIME, "does not begin as one");
    assert_null(tp_decode_jpeg(flat));
    assert_error(TP_ERR_RUNTIME, "Not a JPEG file");
    assert_null(tp_decode_png(floats));
    assert_error(TP_ERR_RUNTIME, "expected a file's bytes as uint8");
    assert_null(tp_decode_png(flat, .mode = 7));
    assert_error(TP_ERR_VALUE, "expected 0 to 4, got 7");
    tp_release(image);
    tp_release(flat);
    tp_release(none);
    tp_release(floats);
}

/* A header that promises a gigantic image must not cost gigabytes. */
static void a_bomb_is_refused(void **state) {
    (void)state;
    tp_tensor *image = picture(1, 4, 4), *file = tp_encode_png(image);
    uint8_t *header = (uint8_t *)file->data + 12; /* "IHDR", width, height, five bytes, checksum */
    memcpy(header + 4, "\x00\x0f\x00\x00\x00\x0f\x00\x00", 8);
    uint32_t sum = (uint32_t)crc32(0, header, 17);
    for (int i = 0; i < 4; i++) header[17 + i] = (uint8_t)(sum >> (24 - 8 * i));
    assert_null(tp_decode_png(file));
    assert_error(TP_ERR_RUNTIME, "it claims more pixels than its bytes can hold");
    tp_release(image);
    tp_release(file);
}

static void survive(tp_tensor *file) {
    tp_tensor *image = tp_decode_image(file);
    assert_true((image != NULL) == tp_ok());
    tp_error_clear();
    tp_release(image);
}

static void any_damage_is_survived(void **state) {
    (void)state;
    tp_tensor *image = picture(3, 12, 11), *plain = picture(1, 12, 11);
    tp_tensor *files[] = {tp_encode_png(image), tp_encode_jpeg(image), with_orientation(plain, 6),
                          bytes_of(palette, sizeof palette), bytes_of(interlaced16, sizeof interlaced16)};
    int64_t live = tpi_alloc_live();
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        tp_tensor *file = files[k];
        for (int64_t n = 1; n < file->numel; n++) { /* cut */
            tp_tensor *part = bytes_of(file->data, (size_t)n);
            survive(part);
            tp_release(part);
        }
        for (int64_t i = 0; i < file->numel; i++) /* changed */
            for (int mask = 1; mask < 256; mask = mask * 4 + 3) {
                file->data[i] ^= (char)mask;
                survive(file);
                file->data[i] ^= (char)mask;
            }
    }
    assert_int_equal(tpi_alloc_live(), live);
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) tp_release(files[k]);
    tp_release(image);
    tp_release(plain);
}

static void nothing_is_lost_when_memory_runs_out(void **state) {
    (void)state;
    tp_tensor *image = picture(3, 8, 8), *png = tp_encode_png(image), *jpeg = tp_encode_jpeg(image);
    int64_t live = tpi_alloc_live();
    for (int work = 0; work < 4; work++)
        for (int64_t nth = 1;; nth++) {
            tpi_alloc_fail_at(nth, false);
            tp_tensor *t = work == 0   ? tp_encode_png(image)
                           : work == 1 ? tp_encode_jpeg(image)
                                       : tp_decode_image(work == 2 ? png : jpeg);
            tpi_alloc_fail_at(0, false);
            bool done = t != NULL;
            assert_true(done == tp_ok());
            tp_error_clear();
            tp_release(t);
            assert_int_equal(tpi_alloc_live(), live);
            assert_true(nth < 200);
            if (done && nth > 1) break;
        }
    tp_release(image);
    tp_release(png);
    tp_release(jpeg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_png_holds_every_pixel),
        cmocka_unit_test(a_mode_says_which_channels),
        cmocka_unit_test(a_jpeg_is_close),
        cmocka_unit_test(a_camera_turns_its_image),
        cmocka_unit_test(palettes_interlace_and_16_bits),
        cmocka_unit_test(files_are_read_and_written),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_bomb_is_refused),
        cmocka_unit_test(any_damage_is_survived),
        cmocka_unit_test(nothing_is_lost_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
