/* PNG through libpng, which nothing else includes. libpng reports errors by jumping: everything that a jump must not
 * lose stands in a `session` in the caller's frame, and the functions under setjmp touch nothing else. Its memory is
 * ours. */
#include "io/media/image.h"
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

const char *tpi_png_version(void **function) {
    *function = (void *)png_create_read_struct;
    return png_get_libpng_ver(NULL);
}

enum { CHUNK_BYTES = 1 << 20 }; /* for what chunks beside the picture unpack to */

typedef struct session {
    jmp_buf fail;
    char message[200];
    png_structp png;
    png_infop info;
    const uint8_t *in; /* reading: what is left */
    size_t left, bytes;
    size_t most;  /* memory for one chunk, while chunks are read that claim their lengths; 0: any */
    uint8_t *out; /* writing: what there is, of tpi_malloc */
    size_t n, capacity;
    tpi_pixels pixels;
    int orientation;
} session;

static void on_error(png_structp png, const char *message) {
    session *s = png_get_error_ptr(png);
    snprintf(s->message, sizeof s->message, "%s", message);
    longjmp(s->fail, 1);
}
static void on_warning(png_structp png, const char *message) {
    (void)png;
    (void)message;
}
static void *alloc_memory(png_structp png, png_alloc_size_t bytes) {
    const session *s = png_get_mem_ptr(png);
    return s->most && bytes > s->most ? NULL : tpi_malloc(bytes);
}
static void free_memory(png_structp png, void *block) {
    (void)png;
    tpi_mfree(block);
}

/* ---- Reading ---- */

static void on_read(png_structp png, png_bytep to, size_t n) {
    session *s = png_get_io_ptr(png);
    if (n > s->left) png_error(png, "the file ends too early");
    memcpy(to, s->in, n);
    s->in += n;
    s->left -= n;
}

/* Tells libpng what to make of the file's pixels: 8 or 16 bits, and the channels of the mode. */
static void ask_for(session *s, int64_t mode) {
    int colour = png_get_color_type(s->png, s->info), depth = png_get_bit_depth(s->png, s->info);
    bool palette = colour == PNG_COLOR_TYPE_PALETTE, alpha = colour & PNG_COLOR_MASK_ALPHA,
         coloured = colour & PNG_COLOR_MASK_COLOR;
    if (palette) {
        png_set_palette_to_rgb(s->png);
        alpha = png_get_valid(s->png, s->info, PNG_INFO_tRNS) != 0;
        if (alpha) png_set_tRNS_to_alpha(s->png);
    } else if (depth < 8)
        png_set_expand_gray_1_2_4_to_8(s->png);
    if (depth == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) png_set_swap(s->png);
    if (mode != TP_IMAGE_UNCHANGED) {
        bool want_alpha = mode == TP_IMAGE_GRAY_ALPHA || mode == TP_IMAGE_RGB_ALPHA, want_colour = mode >= TP_IMAGE_RGB;
        if (coloured && !want_colour) png_set_rgb_to_gray(s->png, 1 /* silently */, 0.2989, 0.587);
        if (!coloured && want_colour) png_set_gray_to_rgb(s->png);
        if (alpha && !want_alpha) png_set_strip_alpha(s->png);
        if (!alpha && want_alpha) png_set_add_alpha(s->png, depth == 16 ? 0xffff : 0xff, PNG_FILLER_AFTER);
    }
}

static bool read_pixels(session *s, int64_t mode) {
    if (setjmp(s->fail)) return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': the PNG cannot be read: %s", s->message);
    png_set_read_fn(s->png, s, on_read);
    s->most = s->bytes + CHUNK_BYTES;
    png_read_info(s->png, s->info);
    s->most = 0;
    size_t raw = (size_t)png_get_rowbytes(s->png, s->info) * png_get_image_height(s->png, s->info);
    if (raw / 1040 > s->bytes)
        png_error(s->png, "it claims more pixels than its bytes can hold"); /* deflate packs 1032 to 1 at best */
    ask_for(s, mode);
    int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    int64_t height = png_get_image_height(s->png, s->info), width = png_get_image_width(s->png, s->info);
    int wide = png_get_bit_depth(s->png, s->info) / 8;
    if (!tpi_pixels_make(&s->pixels, height, width, png_get_channels(s->png, s->info), wide)) return false;
    size_t row = png_get_rowbytes(s->png, s->info);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++) png_read_row(s->png, (png_bytep)s->pixels.data + (size_t)y * row, NULL);
    s->most = s->bytes + CHUNK_BYTES;
    png_read_end(s->png, s->info);
    png_bytep exif;
    png_uint_32 length;
    if (png_get_eXIf_1(s->png, s->info, &length, &exif)) s->orientation = tpi_exif_orientation(exif, length);
    return true;
}

tp_tensor *tpi_png_decode(const tp_tensor *bytes, const tp_decode_options *options) {
    session s = {.orientation = 1};
    tp_tensor *here = tpi_file_bytes(bytes, &s.in, &s.left), *image = NULL;
    if (!here) return NULL;
    s.bytes = s.left;
    if (s.left < 8 || png_sig_cmp(s.in, 0, 8) != 0)
        tpi_fail(TP_ERR_RUNTIME, "argument 'input': the PNG cannot be read: it does not begin as one");
    else if ((s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, &s, alloc_memory,
                                               free_memory)) != NULL &&
             (s.info = png_create_info_struct(s.png)) != NULL && read_pixels(&s, options->mode))
        image = tpi_pixels_to_tensor(&s.pixels, options->apply_exif_orientation ? s.orientation : 1);
    if (s.png) png_destroy_read_struct(&s.png, &s.info, NULL);
    if (!image) tpi_fail(TP_ERR_MEMORY, "no memory for reading a PNG"); /* where libpng said nothing more */
    tpi_pixels_free(&s.pixels);
    tp_release(here);
    return image;
}

/* ---- Writing ---- */

static void on_write(png_structp png, png_bytep from, size_t n) {
    session *s = png_get_io_ptr(png);
    if (s->capacity - s->n < n) {
        size_t capacity = 2 * (s->n + n) + 1024;
        uint8_t *larger = tpi_realloc(s->out, capacity);
        if (!larger) png_error(png, "out of memory");
        s->out = larger;
        s->capacity = capacity;
    }
    memcpy(s->out + s->n, from, n);
    s->n += n;
}
static void on_flush(png_structp png) { (void)png; }

static bool write_pixels(session *s, int level) {
    static const int colours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                  PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(s->fail))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'image': the PNG cannot be written: %s", s->message);
    const tpi_pixels *p = &s->pixels;
    png_set_write_fn(s->png, s, on_write, on_flush);
    png_set_user_limits(s->png, 0x7fffffff, 0x7fffffff);
    png_set_IHDR(s->png, s->info, (png_uint_32)p->width, (png_uint_32)p->height, 8, colours[p->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(s->png, level);
    png_write_info(s->png, s->info);
    for (int64_t y = 0; y < p->height; y++)
        png_write_row(s->png, (png_const_bytep)p->data + y * p->width * p->channels);
    png_write_end(s->png, s->info);
    return true;
}

tp_tensor *tpi_png_encode(const tp_tensor *image, const tp_encode_options *options) {
    if (options->level < 0 || options->level > 9)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'level': Compression level should be between 0 and 9, got %lld",
                        (long long)options->level);
    session s = {0};
    if (!tpi_pixels_from_tensor(&s.pixels, image, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4)) return NULL;
    tp_tensor *bytes = NULL;
    if ((s.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, &s, alloc_memory,
                                           free_memory)) != NULL &&
        (s.info = png_create_info_struct(s.png)) != NULL && write_pixels(&s, (int)options->level))
        bytes = tpi_bytes_tensor(s.out, s.n);
    if (s.png) png_destroy_write_struct(&s.png, &s.info);
    if (!bytes) tpi_fail(TP_ERR_MEMORY, "no memory for writing a PNG");
    tpi_pixels_free(&s.pixels);
    tpi_mfree(s.out);
    return bytes;
}
