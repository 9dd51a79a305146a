/* Images: the public functions, and what PNG and JPEG share. Decoders give interleaved pixels; here they become planes,
 * turned as a camera asked. Nothing of this knows a format. */
#include "io/media/image.h"
#include "autograd/glue.h"
#include "io/file.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_PIXELS = 1 << 30 };

/* ---- Pixels ---- */

static size_t pixel_bytes(const tpi_pixels *p) {
    return (size_t)(p->height * p->width * p->channels) * (size_t)p->wide;
}

bool tpi_pixels_make(tpi_pixels *p, int64_t height, int64_t width, int64_t channels, int wide) {
    *p = (tpi_pixels){height, width, channels, wide, NULL};
    if (height < 1 || width < 1)
        return tpi_refuse(TP_ERR_RUNTIME, "the image has no pixels (%lld x %lld)", (long long)width, (long long)height);
    if (height > MAX_PIXELS / width)
        return tpi_refuse(TP_ERR_RUNTIME, "the image is too large: %lld x %lld, expected at most %d pixels",
                          (long long)width, (long long)height, MAX_PIXELS);
    p->data = tpi_alloc(pixel_bytes(p));
    return p->data != NULL;
}

void tpi_pixels_free(tpi_pixels *p) {
    if (p->data) tpi_free(p->data, pixel_bytes(p));
    p->data = NULL;
}

/* Where pixel (0, 0) of the result lies in the source, and how far its rows and columns are apart there, in pixels.
 * EXIF counts 1 as is, 2 mirrored, 3 upside down, 4 flipped, and 5 to 8 the same with rows and columns exchanged. */
typedef struct pixel_order {
    int64_t height, width, start, row, column;
} pixel_order;

static pixel_order orientation_of(const tpi_pixels *p, int orientation) {
    int64_t h = p->height, w = p->width;
    bool mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    bool flipped = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    bool exchanged = orientation >= 5 && orientation <= 8;
    int64_t right = mirrored ? -1 : 1, down = flipped ? -w : w; /* a step in the source */
    int64_t start = (mirrored ? w - 1 : 0) + (flipped ? (h - 1) * w : 0);
    return exchanged ? (pixel_order){w, h, start, right, down} : (pixel_order){h, w, start, down, right};
}

tp_tensor *tpi_pixels_to_tensor(const tpi_pixels *p, int orientation) {
    pixel_order t = orientation_of(p, orientation);
    tp_tensor *image =
        tpi_empty(TP_INTS(p->channels, t.height, t.width), p->wide == 1 ? TP_UINT8 : TP_INT32, (tp_device){TP_CPU, 0});
    if (!image) return NULL;
    const uint8_t *bytes = p->data;
    const uint16_t *words = p->data;
    int64_t at = 0;
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t y = 0; y < t.height; y++) {
            int64_t from = (t.start + y * t.row) * p->channels + c, step = t.column * p->channels;
            if (p->wide == 1)
                for (int64_t x = 0; x < t.width; x++) ((uint8_t *)image->data)[at++] = bytes[from + x * step];
            else
                for (int64_t x = 0; x < t.width; x++) ((int32_t *)image->data)[at++] = words[from + x * step];
        }
    return image;
}

bool tpi_pixels_from_tensor(tpi_pixels *p, const tp_tensor *image, unsigned channels) {
    *p = (tpi_pixels){0};
    if (!tpi_is_tensor(image, "image")) return false;
    if (image->dtype != TP_UINT8)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'image': Input tensor dtype should be uint8, got %s",
                          tp_dtype_name((tp_dtype)image->dtype));
    if (image->ndim != 3)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'image': Input data should be a 3-dimensional tensor (channels, height, width), got shape %s",
            tpi_shape_text(tpi_shape(image)));
    int64_t c = image->shape[0];
    if (c < 1 || c > 4 || !(channels >> c & 1))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'image': The number of channels should be %s, got: %lld",
                          channels & 1 << 4 ? "1 to 4" : "1 or 3", (long long)c);
    if (!tpi_pixels_make(p, image->shape[1], image->shape[2], c, 1)) return false;
    tp_tensor *planes = tpi_contiguous_data((tp_tensor *)image);
    if (!planes) {
        tpi_pixels_free(p);
        return false;
    }
    int64_t n = p->height * p->width;
    for (int64_t k = 0; k < c; k++)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)p->data)[i * c + k] = ((const uint8_t *)planes->data)[k * n + i];
    tp_release(planes);
    return true;
}

/* ---- EXIF ---- */

static uint32_t exif_number(const uint8_t *p, int bytes, bool little) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | p[little ? bytes - 1 - i : i];
    return v;
}

int tpi_exif_orientation(const uint8_t *exif, size_t n) {
    enum { ENTRY = 12, TAG = 0x112, SHORT = 3 };
    if (n < 8 || (memcmp(exif, "II", 2) != 0 && memcmp(exif, "MM", 2) != 0)) return 1;
    bool little = exif[0] == 'I';
    size_t at = exif_number(exif + 4, 4, little);
    if (exif_number(exif + 2, 2, little) != 42 || at > n - 2) return 1;
    size_t entries = exif_number(exif + at, 2, little);
    for (at += 2; entries > 0 && at + ENTRY <= n; entries--, at += ENTRY)
        if (exif_number(exif + at, 2, little) == TAG && exif_number(exif + at + 2, 2, little) == SHORT)
            return (int)exif_number(exif + at + 8, 2, little);
    return 1;
}

/* ---- Options ---- */

static bool decode_options(const tp_decode_options *given, tp_decode_options *o) {
    *o = (tp_decode_options){.size = sizeof *o};
    return !given || tpi_copy_options(o, sizeof *o, given, given->size);
}

static bool encode_options(const tp_encode_options *given, tp_encode_options *o) {
    *o = (tp_encode_options){.size = sizeof *o, .level = 6, .quality = 75};
    return !given || tpi_copy_options(o, sizeof *o, given, given->size);
}

bool tpi_check_image_mode(int64_t mode) {
    return (mode >= TP_IMAGE_UNCHANGED && mode <= TP_IMAGE_RGB_ALPHA) ||
           tpi_refuse(TP_ERR_VALUE, "argument 'mode': expected 0 to 4, got %lld", (long long)mode);
}

/* ---- The public functions ---- */

static tp_tensor *decode_any(const tp_tensor *bytes, const tp_decode_options *options) {
    const uint8_t *data = NULL;
    size_t n = 0;
    tp_tensor *here = tpi_file_bytes(bytes, &data, &n);
    if (!here) return NULL;
    tp_tensor *image = NULL;
    if (n >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
        image = tpi_jpeg_decode(here, options);
    else if (n >= 4 && memcmp(data, "\x89PNG", 4) == 0)
        image = tpi_png_decode(here, options);
    else
        tpi_fail(TP_ERR_RUNTIME,
                 "argument 'input': Unsupported image file: expected a PNG or a JPEG, got a file that begins with "
                 "0x%02x 0x%02x",
                 data[0], n > 1 ? data[1] : 0);
    tp_release(here);
    return image;
}

static tp_tensor *decoded(const char *name, tp_tensor *(*decode)(const tp_tensor *, const tp_decode_options *),
                          const tp_tensor *bytes, const tp_decode_options *options) {
    const char *before = tpi_op_enter(name);
    tp_decode_options o;
    tp_tensor *image = decode_options(options, &o) && tpi_check_image_mode(o.mode) ? decode(bytes, &o) : NULL;
    tpi_op_leave(before);
    return tpi_to_scope(image);
}

tp_tensor *tp_decode_image_with(const tp_tensor *bytes, const tp_decode_options *options) {
    if (TPI_ENDED(bytes, "a tensor")) return NULL;
    return decoded("decode_image", decode_any, bytes, options);
}
tp_tensor *tp_decode_png_with(const tp_tensor *bytes, const tp_decode_options *options) {
    if (TPI_ENDED(bytes, "a tensor")) return NULL;
    return decoded("decode_png", tpi_png_decode, bytes, options);
}
tp_tensor *tp_decode_jpeg_with(const tp_tensor *bytes, const tp_decode_options *options) {
    if (TPI_ENDED(bytes, "a tensor")) return NULL;
    return decoded("decode_jpeg", tpi_jpeg_decode, bytes, options);
}

tp_tensor *tp_read_image_with(const char *path, const tp_decode_options *options) {
    const char *before = tpi_op_enter("read_image");
    tp_decode_options o;
    tp_tensor *bytes = decode_options(options, &o) ? tpi_read_file(path) : NULL;
    tp_tensor *image = bytes && tpi_check_image_mode(o.mode) ? decode_any(bytes, &o) : NULL;
    tp_release(bytes);
    tpi_op_leave(before);
    return tpi_to_scope(image);
}

static tp_tensor *encoded(const char *name, tp_tensor *(*encode)(const tp_tensor *, const tp_encode_options *),
                          const tp_tensor *image, const tp_encode_options *options) {
    const char *before = tpi_op_enter(name);
    tp_encode_options o;
    tp_tensor *bytes = encode_options(options, &o) ? encode(image, &o) : NULL;
    tpi_op_leave(before);
    return bytes;
}

tp_tensor *tp_encode_png_with(const tp_tensor *image, const tp_encode_options *options) {
    return tpi_to_scope(encoded("encode_png", tpi_png_encode, image, options));
}
tp_tensor *tp_encode_jpeg_with(const tp_tensor *image, const tp_encode_options *options) {
    return tpi_to_scope(encoded("encode_jpeg", tpi_jpeg_encode, image, options));
}

bool tp_write_image_with(const char *path, const tp_tensor *image, const tp_encode_options *options) {
    if (TPI_ENDED(image, "a tensor")) return false;
    TPI_STOP_ON_ERROR(false);
    const char *dot = path ? strrchr(path, '.') : NULL;
    bool png = dot && strcasecmp(dot, ".png") == 0,
         jpeg = dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
    if (!png && !jpeg)
        return tpi_refuse(TP_ERR_VALUE,
                          "write_image: argument 'path': expected a name that ends in .png, .jpg or .jpeg, got '%s'",
                          path ? path : "");
    tp_tensor *bytes = encoded("write_image", png ? tpi_png_encode : tpi_jpeg_encode, image, options);
    bool ok = bytes && tpi_write_file(path, bytes->data, (size_t)bytes->numel);
    tp_release(bytes);
    return ok;
}
