/* Image formats whose libraries this build does not have (cmake/Flags.cmake): reading and writing fail with the reason.
 */
#include "io/media/image.h"

#define MISSING(format, library)                                                                                  \
    static tp_tensor *no_##format(void) {                                                                         \
        return tpi_fail(TP_ERR_MISSING, "this build of Taper has no " library ", which reads and writes " #format \
                                        " images (taper info; docs/installing.md)");                              \
    }                                                                                                             \
    tp_tensor *tpi_##format##_decode(const tp_tensor *bytes, const tp_decode_options *options) {                  \
        (void)bytes, (void)options;                                                                               \
        return no_##format();                                                                                     \
    }                                                                                                             \
    tp_tensor *tpi_##format##_encode(const tp_tensor *image, const tp_encode_options *options) {                  \
        (void)image, (void)options;                                                                               \
        return no_##format();                                                                                     \
    }                                                                                                             \
    const char *tpi_##format##_version(void **function) {                                                         \
        *function = NULL;                                                                                         \
        return NULL;                                                                                              \
    }

#ifndef TPI_HAVE_PNG
MISSING(png, "libpng")
#endif
#ifndef TPI_HAVE_JPEG
MISSING(jpeg, "libjpeg")
#endif
