/* Animated GIFs: for moving pictures in event files. */
#ifndef TPI_GIF_H
#define TPI_GIF_H
#include <stdint.h>
#include "io/events/wire.h"

/* frames pictures of height x width RGB pixels (3 bytes each), one after the other; each is shown for delay hundredths
 * of a second, over and over. Width and height are at most 65535. Appends the file to `out`; look at out->failed. */
void tpi_gif_encode(tpi_wire *out, const uint8_t *pixels, int64_t frames, int64_t height, int64_t width, int delay);
#endif
