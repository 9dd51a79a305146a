/* JPEG through libjpeg, which nothing else includes. As with PNG, errors come as jumps: what they must not lose stands
 * in a `session` in the caller's frame. libjpeg's own bookkeeping comes from the C library. */
#include "io/media/image.h"
#include <setjmp.h>
#include <stdio.h> /* before jpeglib.h, which forgets it */
#include <jpeglib.h>
#include <jerror.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
const char *tpi_jpeg_version(void **function) {
    *function = (void *)jpeg_read_header;
#ifdef LIBJPEG_TURBO_VERSION
    return "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);
#else
    return "libjpeg " TEXT(JPEG_LIB_VERSION);
#endif
}

typedef struct session {
    struct jpeg_error_mgr errors; /* first: libjpeg hands it back */
    jmp_buf fail;
    char message[JMSG_LENGTH_MAX];
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    unsigned char *bytes; /* writing: of malloc, libjpeg's own */
    unsigned long n;
    tpi_pixels pixels;
    int orientation;
} session;

static void on_error(j_common_ptr who) {
    session *s = (session *)who->err;
    who->err->format_message(who, s->message);
    longjmp(s->fail, 1);
}
static void on_message(j_common_ptr who) { (void)who; }

static void listen(session *s, j_common_ptr who) {
    who->err = jpeg_std_error(&s->errors);
    s->errors.error_exit = on_error;
    s->errors.output_message = on_message;
}

/* ---- Reading ---- */

static void nothing(j_decompress_ptr in) { (void)in; }
static boolean at_end(j_decompress_ptr in) {
    session *s = (session *)in->err;
    snprintf(s->message, sizeof s->message, "Image is incomplete or truncated");
    longjmp(s->fail, 1);
}
static void skip(j_decompress_ptr in, long n) {
    if (n <= 0) return;
    if ((size_t)n > in->src->bytes_in_buffer) at_end(in);
    in->src->next_input_byte += n;
    in->src->bytes_in_buffer -= (size_t)n;
}
/* A progressive file may repeat tiny scans of a huge image without end. */
static void on_progress(j_common_ptr who) {
    session *s = (session *)who->err;
    if (s->in.input_scan_number <= 500) return;
    snprintf(s->message, sizeof s->message, "it has more than 500 scans");
    longjmp(s->fail, 1);
}

static void set_source(session *s, const uint8_t *data, size_t n) {
    s->source = (struct jpeg_source_mgr){.next_input_byte = data,
                                         .bytes_in_buffer = n,
                                         .init_source = nothing,
                                         .fill_input_buffer = at_end,
                                         .skip_input_data = skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = nothing};
    s->in.src = &s->source;
    s->progress.progress_monitor = on_progress;
    s->in.progress = &s->progress;
}

static int orientation_of(const struct jpeg_decompress_struct *in) {
    static const uint8_t mark[] = "Exif\0"; /* and another 0 */
    for (jpeg_saved_marker_ptr m = in->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && memcmp(m->data, mark, 6) == 0)
            return tpi_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

/* Inks, as Adobe writes them (255 is none): a colour shows as far as neither its own ink nor the black hides it. */
static void from_inks(uint8_t *row, const uint8_t *inks, int64_t width, bool gray) {
    for (int64_t x = 0; x < width; x++, inks += 4) {
        int r = inks[0] * inks[3] / 255, g = inks[1] * inks[3] / 255, b = inks[2] * inks[3] / 255;
        if (gray)
            row[x] = (uint8_t)((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
        else {
            row[3 * x] = (uint8_t)r;
            row[3 * x + 1] = (uint8_t)g;
            row[3 * x + 2] = (uint8_t)b;
        }
    }
}

static bool read_pixels(session *s, int64_t mode, const uint8_t *data, size_t n, uint8_t **inks) {
    if (setjmp(s->fail)) return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': the JPEG cannot be read: %s", s->message);
    struct jpeg_decompress_struct *in = &s->in;
    listen(s, (j_common_ptr)in);
    jpeg_create_decompress(in);
    set_source(s, data, n);
    jpeg_save_markers(in, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(in, TRUE);
    s->orientation = orientation_of(in);
    /* A block of 64 pixels takes a bit or more, but by arithmetic coding, which some files have. */
    uint64_t most = (uint64_t)n * (in->arith_code ? 1 << 16 : 1 << 10);
    if ((uint64_t)in->image_width * in->image_height > most)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'input': the JPEG cannot be read: it claims more pixels than its bytes can hold");
    bool four = in->jpeg_color_space == JCS_CMYK || in->jpeg_color_space == JCS_YCCK, gray = mode == TP_IMAGE_GRAY;
    if (four)
        in->out_color_space = JCS_CMYK;
    else if (mode != TP_IMAGE_UNCHANGED)
        in->out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(in);
    int64_t channels = four && mode != TP_IMAGE_UNCHANGED ? (gray ? 1 : 3) : in->out_color_components;
    if (!tpi_pixels_make(&s->pixels, in->output_height, in->output_width, channels, 1)) return false;
    jpeg_start_decompress(in);
    bool convert = four && mode != TP_IMAGE_UNCHANGED;
    if (convert && !(*inks = tpi_malloc((size_t)in->output_width * 4))) return false;
    while (in->output_scanline < in->output_height) {
        uint8_t *to = (uint8_t *)s->pixels.data + (size_t)in->output_scanline * (size_t)(s->pixels.width * channels),
                *row = convert ? *inks : to;
        jpeg_read_scanlines(in, &row, 1);
        if (convert) from_inks(to, *inks, s->pixels.width, gray);
    }
    jpeg_finish_decompress(in);
    return true;
}

tp_tensor *tpi_jpeg_decode(const tp_tensor *bytes, const tp_decode_options *options) {
    if (options->mode == TP_IMAGE_GRAY_ALPHA || options->mode == TP_IMAGE_RGB_ALPHA)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'mode': a JPEG has no alpha: expected UNCHANGED, GRAY or RGB, got %lld",
                        (long long)options->mode);
    const uint8_t *data = NULL;
    size_t n = 0;
    tp_tensor *here = tpi_file_bytes(bytes, &data, &n), *image = NULL;
    if (!here) return NULL;
    session s;
    memset(&s, 0, sizeof s);
    uint8_t *inks = NULL;
    if (read_pixels(&s, options->mode, data, n, &inks))
        image = tpi_pixels_to_tensor(&s.pixels, options->apply_exif_orientation ? s.orientation : 1);
    jpeg_destroy_decompress(&s.in);
    tpi_pixels_free(&s.pixels);
    tpi_mfree(inks);
    tp_release(here);
    return image;
}

/* ---- Writing ---- */

static bool write_pixels(session *s, int quality) {
    if (setjmp(s->fail))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'image': the JPEG cannot be written: %s", s->message);
    struct jpeg_compress_struct *out = &s->out;
    listen(s, (j_common_ptr)out);
    jpeg_create_compress(out);
    jpeg_mem_dest(out, &s->bytes, &s->n);
    out->image_width = (JDIMENSION)s->pixels.width;
    out->image_height = (JDIMENSION)s->pixels.height;
    out->input_components = (int)s->pixels.channels;
    out->in_color_space = s->pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(out);
    jpeg_set_quality(out, quality, TRUE);
    jpeg_start_compress(out, TRUE);
    while (out->next_scanline < out->image_height) {
        JSAMPROW row =
            (JSAMPROW)s->pixels.data + (size_t)out->next_scanline * (size_t)(s->pixels.width * s->pixels.channels);
        jpeg_write_scanlines(out, &row, 1);
    }
    jpeg_finish_compress(out);
    return true;
}

tp_tensor *tpi_jpeg_encode(const tp_tensor *image, const tp_encode_options *options) {
    if (options->quality < 1 || options->quality > 100)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'quality': Image quality should be a positive number between 1 and 100, got %lld",
                        (long long)options->quality);
    session s;
    memset(&s, 0, sizeof s);
    if (!tpi_pixels_from_tensor(&s.pixels, image, 1 << 1 | 1 << 3)) return NULL;
    tp_tensor *bytes = write_pixels(&s, (int)options->quality) ? tpi_bytes_tensor(s.bytes, s.n) : NULL;
    jpeg_destroy_compress(&s.out);
    free(s.bytes);
    tpi_pixels_free(&s.pixels);
    return bytes;
}
