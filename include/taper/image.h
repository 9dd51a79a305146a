/* Images in files: PNG and JPEG to and from tensors of bytes, shape (channels, height, width). */
#ifndef TAPER_IMAGE_H
#define TAPER_IMAGE_H
#include <taper/ops_options.h>
#include <taper/tensor.h>

TP_BEGIN

/* ---- Whole files as bytes ---- */
TP_API tp_tensor *tp_read_file(const char *path);                    /* uint8, one dimension */
TP_API bool tp_write_file(const char *path, const tp_tensor *bytes); /* uint8, one dimension */

/* ---- Decoding ----
 * What channels the result has. UNCHANGED keeps those of the file; a palette becomes RGB, with alpha where it has any.
 * JPEG has no alpha: modes with alpha are an error for it. */
typedef enum tp_image_mode {
    TP_IMAGE_UNCHANGED = 0,
    TP_IMAGE_GRAY,
    TP_IMAGE_GRAY_ALPHA,
    TP_IMAGE_RGB,
    TP_IMAGE_RGB_ALPHA
} tp_image_mode;

typedef struct tp_decode_options {
    TP_STRUCT_SIZE(tp_decode_options);
    int64_t mode TP_MEMBER(TP_IMAGE_UNCHANGED);   /* tp_image_mode */
    bool apply_exif_orientation TP_MEMBER(false); /* turn and mirror the image as its camera says */
    TP_OPTIONS_GUARD_
} tp_decode_options;

/* A file's bytes (uint8, one dimension) to a tensor (C, H, W): uint8, or int32 from 0 to 65535 for PNGs of 16 bits.
 * Images of more than 2^30 pixels are refused; so are damaged and cut ones. tp_decode_image looks at the first bytes to
 * tell the format. */
TP_API tp_tensor *tp_decode_image_with(const tp_tensor *bytes, const tp_decode_options *options);
TP_API tp_tensor *tp_decode_png_with(const tp_tensor *bytes, const tp_decode_options *options);
TP_API tp_tensor *tp_decode_jpeg_with(const tp_tensor *bytes, const tp_decode_options *options);
TP_API tp_tensor *tp_read_image_with(const char *path, const tp_decode_options *options);

/* ---- Encoding ----
 * image: uint8 (C, H, W); PNG takes 1 to 4 channels (gray, gray and alpha, RGB, RGB and alpha), JPEG 1 or 3. The result
 * is the file's bytes. */
typedef struct tp_encode_options {
    TP_STRUCT_SIZE(tp_encode_options);
    int64_t level TP_MEMBER(6);    /* PNG: how hard to compress, 0 to 9 */
    int64_t quality TP_MEMBER(75); /* JPEG: 1 to 100 */
    TP_OPTIONS_GUARD_
} tp_encode_options;
TP_API tp_tensor *tp_encode_png_with(const tp_tensor *image, const tp_encode_options *options);
TP_API tp_tensor *tp_encode_jpeg_with(const tp_tensor *image, const tp_encode_options *options);
TP_API bool tp_write_image_with(const char *path, const tp_tensor *image,
                                const tp_encode_options *options); /* by the name: .png, .jpg, .jpeg */

#ifndef __cplusplus
#define TP_DECODE_DEFAULTS_ \
    .size = (int64_t)sizeof(tp_decode_options), .mode = TP_IMAGE_UNCHANGED, .apply_exif_orientation = false
#define TP_ENCODE_DEFAULTS_ .size = (int64_t)sizeof(tp_encode_options), .level = 6, .quality = 75
#define TP_DECODE_(function, what, ...) \
    TP_WITH_(tp_decode_options, function(what, &tp_o_), TP_DECODE_DEFAULTS_, __VA_ARGS__)
#define TP_ENCODE_(function, what, ...) \
    TP_WITH_(tp_encode_options, function(what, &tp_o_), TP_ENCODE_DEFAULTS_, __VA_ARGS__)
#define TP_WRITE_IMAGE_(path, image, ...) \
    TP_WITH_(tp_encode_options, tp_write_image_with(path, image, &tp_o_), TP_ENCODE_DEFAULTS_, __VA_ARGS__)
#define tp_decode_image(...) TP_DECODE_(tp_decode_image_with, __VA_ARGS__, )
#define tp_decode_png(...)   TP_DECODE_(tp_decode_png_with, __VA_ARGS__, )
#define tp_decode_jpeg(...)  TP_DECODE_(tp_decode_jpeg_with, __VA_ARGS__, )
#define tp_read_image(...)   TP_DECODE_(tp_read_image_with, __VA_ARGS__, )
#define tp_encode_png(...)   TP_ENCODE_(tp_encode_png_with, __VA_ARGS__, )
#define tp_encode_jpeg(...)  TP_ENCODE_(tp_encode_jpeg_with, __VA_ARGS__, )
#define tp_write_image(...)  TP_WRITE_IMAGE_(__VA_ARGS__, )
#endif

TP_END

#ifdef __cplusplus
static inline tp_tensor *tp_decode_image(const tp_tensor *bytes, const tp_decode_options &o = tp_decode_options()) {
    return tp_decode_image_with(bytes, &o);
}
static inline tp_tensor *tp_decode_png(const tp_tensor *bytes, const tp_decode_options &o = tp_decode_options()) {
    return tp_decode_png_with(bytes, &o);
}
static inline tp_tensor *tp_decode_jpeg(const tp_tensor *bytes, const tp_decode_options &o = tp_decode_options()) {
    return tp_decode_jpeg_with(bytes, &o);
}
static inline tp_tensor *tp_read_image(const char *path, const tp_decode_options &o = tp_decode_options()) {
    return tp_read_image_with(path, &o);
}
static inline tp_tensor *tp_encode_png(const tp_tensor *image, const tp_encode_options &o = tp_encode_options()) {
    return tp_encode_png_with(image, &o);
}
static inline tp_tensor *tp_encode_jpeg(const tp_tensor *image, const tp_encode_options &o = tp_encode_options()) {
    return tp_encode_jpeg_with(image, &o);
}
static inline bool tp_write_image(const char *path, const tp_tensor *image,
                                  const tp_encode_options &o = tp_encode_options()) {
    return tp_write_image_with(path, image, &o);
}
#endif
#endif
