/* What the image formats share: pixels as the libraries want them, interleaved and in rows from the top, to and from
 * tensors of planes. */
#ifndef TPI_IMAGE_H
#define TPI_IMAGE_H
#include <taper/image.h>
#include "io/file.h"
#include "tensor/tensor.h"

typedef struct tpi_pixels {
    int64_t height, width, channels;
    int wide;   /* bytes of one value: 1, or 2 (in the machine's order) */
    void *data; /* height * width * channels values, of tpi_alloc */
} tpi_pixels;

/* Room for the pixels, or false and an error: of none, or of more than the limit. tpi_pixels_free takes pixels without
 * data too. */
bool tpi_pixels_make(tpi_pixels *p, int64_t height, int64_t width, int64_t channels, int wide);
void tpi_pixels_free(tpi_pixels *p);
/* The planes as a tensor (C, H, W), turned by an EXIF orientation (1 to 8; others leave it). Owned. */
tp_tensor *tpi_pixels_to_tensor(const tpi_pixels *p, int orientation);
/* From an image as the user gave it, which must be uint8 (C, H, W) with one of the channel counts whose bits are set in
 * `channels`. */
bool tpi_pixels_from_tensor(tpi_pixels *p, const tp_tensor *image, unsigned channels);

/* The orientation in EXIF data (starting with its byte order mark); 1 where it says none that can be read. */
int tpi_exif_orientation(const uint8_t *exif, size_t n);

bool tpi_check_image_mode(int64_t mode);

/* The formats: owned results, no scopes. */
tp_tensor *tpi_png_decode(const tp_tensor *bytes, const tp_decode_options *options);
tp_tensor *tpi_png_encode(const tp_tensor *image, const tp_encode_options *options);
tp_tensor *tpi_jpeg_decode(const tp_tensor *bytes, const tp_decode_options *options);
tp_tensor *tpi_jpeg_encode(const tp_tensor *image, const tp_encode_options *options);
/* Their libraries' versions, and one function of each; NULL in a build without it, in which the functions above fail
 * and say so. */
const char *tpi_png_version(void **function);
const char *tpi_jpeg_version(void **function);
#endif
