/* Pictures, moving pictures and sound: tensors are brought into the form that the encoders take (bytes, RGB, side by
 * side) and their files become values of a summary. */
#include "autograd/glue.h"
#include "io/events/summary.h"
#include "base/threads.h"
#include "io/media/gif.h"
#include "tensor/tensor.h"
#include <math.h>
#include <string.h>
#include <taper/audio.h>
#include <taper/image.h>

#define PER_ROW 8 /* pictures of a batch in a row */

/* ---- Pixels ---- */

typedef struct pictures { /* n pictures of the same size, anywhere in memory */
    tp_tensor *owner;     /* uint8, contiguous */
    const uint8_t *data;
    int64_t n, channels, height, width;
    int64_t step_n, step_c, step_h, step_w;
} pictures;

/* Bytes from 0 to 255 in row-major order: bytes as they are, anything else times 255, cut. */
static tp_tensor *bytes_of(const tp_tensor *t) {
    if (t->dtype == TP_UINT8) return tpi_plain_of(t, TP_UINT8);
    tp_tensor *floats = tpi_plain_of(t, TP_FLOAT32),
              *bytes = floats ? tpi_empty(tpi_shape(t), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    for (int64_t i = 0; bytes && i < t->numel; i++) {
        float v = ((const float *)floats->data)[i] * 255;
        ((uint8_t *)bytes->data)[i] = (uint8_t)(v > 0 ? v < 255 ? v : 255 : 0); /* NaN: 0 */
    }
    tpi_release(floats);
    return bytes;
}

static bool bad_format(const char *format, const tp_tensor *t) {
    return tpi_refuse(TP_ERR_VALUE, "argument 'dataformats': expected the letters N, C, H and W for shape %s, got '%s'",
                      tpi_shape_text(tpi_shape(t)), format);
}

static bool open_pictures(pictures *p, const tp_tensor *t, const char *format) {
    static const char *const usual[] = {NULL, NULL, "HW", "CHW", "NCHW"};
    if (!format) format = t->ndim >= 2 && t->ndim <= 4 ? usual[t->ndim] : "CHW";
    *p = (pictures){.n = 1, .channels = 1, .height = -1, .width = -1};
    int64_t step = 1;
    if ((int)strlen(format) != t->ndim) return bad_format(format, t);
    bool seen[256] = {false};
    for (int d = t->ndim - 1; d >= 0; step *= t->shape[d--]) {
        unsigned char letter = (unsigned char)(format[d] & ~0x20); /* small letters are fine too */
        if (seen[letter]) return bad_format(format, t);
        seen[letter] = true;
        switch (letter) {
        case 'N':
            p->n = t->shape[d];
            p->step_n = step;
            break;
        case 'C':
            p->channels = t->shape[d];
            p->step_c = step;
            break;
        case 'H':
            p->height = t->shape[d];
            p->step_h = step;
            break;
        case 'W':
            p->width = t->shape[d];
            p->step_w = step;
            break;
        default: return bad_format(format, t);
        }
    }
    if (p->height < 0 || p->width < 0) return bad_format(format, t);
    if (!t->numel || p->channels > 4)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'img_tensor': expected pictures of 1 to 4 channels, got shape %s as '%s'",
                          tpi_shape_text(tpi_shape(t)), format);
    p->owner = bytes_of(t);
    p->data = p->owner ? (const uint8_t *)p->owner->data : NULL;
    return p->owner != NULL;
}

/* The pictures side by side in one, (channels, height, width) of bytes, black where there is none; gray becomes RGB. */
static tp_tensor *lay_out(const pictures *p) {
    int64_t columns = p->n < PER_ROW ? p->n : PER_ROW, rows = tpi_ceil_div(p->n, columns);
    int64_t channels = p->channels == 1 ? 3 : p->channels, height = rows * p->height, width = columns * p->width;
    tp_tensor *out = tpi_empty(TP_INTS(channels, height, width), TP_UINT8, (tp_device){TP_CPU, 0});
    if (!out) return NULL;
    memset(out->data, 0, (size_t)out->numel);
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t y = 0; y < p->height; y++) {
                const uint8_t *from = p->data + n * p->step_n + (p->channels == 1 ? 0 : c) * p->step_c + y * p->step_h;
                uint8_t *to =
                    (uint8_t *)out->data + (c * height + n / columns * p->height + y) * width + n % columns * p->width;
                for (int64_t x = 0; x < p->width; x++) to[x] = from[x * p->step_w];
            }
    return out;
}

/* ---- Boxes and sizes ---- */

static void paint(tp_tensor *image, int64_t y, int64_t x) { /* red, where it is within the picture */
    int64_t h = image->shape[1], w = image->shape[2];
    if (y < 0 || x < 0 || y >= h || x >= w) return;
    for (int64_t c = 0; c < image->shape[0]; c++)
        ((uint8_t *)image->data)[(c * h + y) * w + x] = c == 0 || c == 3 ? 255 : 0;
}

static int64_t pixel_at(double v, int64_t size) {
    return v > -2 ? v < (double)size + 2 ? (int64_t)floor(v) : size + 2 : -2;
} /* NaN: outside */

static bool draw_boxes(tp_tensor *image, const tp_tensor *boxes) {
    if (boxes->ndim != 2 || boxes->shape[1] != 4)
        return tpi_refuse(TP_ERR_VALUE, "argument 'box_tensor': expected shape [n, 4], got %s",
                          tpi_shape_text(tpi_shape(boxes)));
    tp_tensor *corners = tpi_doubles_of(boxes);
    if (!corners) return false;
    for (int64_t i = 0; i < boxes->shape[0]; i++) {
        const double *b = (const double *)corners->data + 4 * i;
        int64_t x0 = pixel_at(b[0], image->shape[2]), y0 = pixel_at(b[1], image->shape[1]),
                x1 = pixel_at(b[2], image->shape[2]), y1 = pixel_at(b[3], image->shape[1]);
        for (int thick = 0; thick < 2; thick++) { /* two pixels wide, inwards */
            for (int64_t x = x0; x <= x1; x++) {
                paint(image, y0 + thick, x);
                paint(image, y1 - thick, x);
            }
            for (int64_t y = y0; y <= y1; y++) {
                paint(image, y, x0 + thick);
                paint(image, y, x1 - thick);
            }
        }
    }
    tpi_release(corners);
    return true;
}

static tp_tensor *resize(tp_tensor *image, double by) { /* takes image over */
    int64_t h = (int64_t)((double)image->shape[1] * by), w = (int64_t)((double)image->shape[2] * by);
    if (!(by > 0) || h < 1 || w < 1 || h > 65535 || w > 65535) {
        tpi_fail(TP_ERR_VALUE, "argument 'rescale': expected a factor that leaves a picture, got %g", by);
        tpi_release(image);
        return NULL;
    }
    tp_tensor *out = tpi_empty(TP_INTS(image->shape[0], h, w), TP_UINT8, (tp_device){TP_CPU, 0});
    for (int64_t i = 0; out && i < out->numel; i++) { /* the nearest pixel */
        int64_t c = i / (h * w), y = i / w % h * image->shape[1] / h, x = i % w * image->shape[2] / w;
        ((uint8_t *)out->data)[i] = ((const uint8_t *)image->data)[(c * image->shape[1] + y) * image->shape[2] + x];
    }
    tpi_release(image);
    return out;
}

/* ---- The summaries ---- */

static bool write_image(tp_summary *s, const char *tag, int64_t height, int64_t width, int64_t channels,
                        const void *file, size_t bytes) {
    size_t value;
    if (!tpi_value_open(s, tag, &value)) return false;
    size_t image = tpi_wire_open(&s->wire, 4);
    tpi_wire_int(&s->wire, 1, height);
    tpi_wire_int(&s->wire, 2, width);
    tpi_wire_int(&s->wire, 3, channels);
    tpi_wire_bytes(&s->wire, 4, file, bytes);
    tpi_wire_close(&s->wire, image);
    tpi_wire_close(&s->wire, value);
    return true;
}

tp_summary *tp_summary_image(const char *tag, const tp_tensor *image, const tp_summary_image_options *options) {
    tp_summary_image_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    if (!tpi_is_tensor(image, "image")) return NULL;
    pictures p;
    tp_tensor *pixels = open_pictures(&p, image, o.format) ? lay_out(&p) : NULL;
    tpi_release(p.owner);
    if (pixels && o.boxes && !draw_boxes(pixels, o.boxes)) {
        tpi_release(pixels);
        pixels = NULL;
    }
    if (pixels && o.rescale && o.rescale != 1) pixels = resize(pixels, o.rescale);
    tp_tensor *png = pixels ? tp_own(tp_encode_png(pixels)) : NULL;
    tp_summary *s = png ? tpi_summary_new() : NULL;
    if (s &&
        !write_image(s, tag, pixels->shape[1], pixels->shape[2], pixels->shape[0], png->data, (size_t)png->numel)) {
        tp_summary_free(s);
        s = NULL;
    }
    tpi_release(pixels);
    tpi_release(png);
    return tpi_summary_done(s);
}

/* Videos side by side, as square an arrangement as a power of two of them makes: RGB pixels of each frame, row by row.
 */
static tp_tensor *frames_of(const tp_tensor *video, int64_t *frames, int64_t *height, int64_t *width) {
    int64_t n = video->shape[0], t = video->shape[1], channels = video->shape[2], h = video->shape[3],
            w = video->shape[4];
    int64_t slots = 1, rows = 1;
    while (slots < n) slots *= 2;
    while (rows * rows * 4 <= slots) rows *= 2;
    int64_t columns = slots / rows;
    *frames = t;
    *height = rows * h;
    *width = columns * w;
    if (*height > 65535 || *width > 65535)
        return tpi_fail(TP_ERR_VALUE, "argument 'vid_tensor': expected at most 65535 pixels a side, got %lld x %lld",
                        (long long)*height, (long long)*width);
    tp_tensor *bytes = bytes_of(video),
              *out = bytes ? tpi_empty(TP_INTS(t, *height, *width, 3), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    if (out) memset(out->data, 0, (size_t)out->numel);
    const uint8_t *from = bytes ? (const uint8_t *)bytes->data : NULL;
    for (int64_t i = 0; out && i < video->numel; i++) { /* i counts (n, t, c, h, w) */
        int64_t x = i % w, y = i / w % h, c = i / (w * h) % channels, f = i / (w * h * channels) % t,
                v = i / (w * h * channels * t);
        uint8_t *to = (uint8_t *)out->data + ((f * *height + v / columns * h + y) * *width + v % columns * w + x) * 3;
        if (channels == 1)
            to[0] = to[1] = to[2] = from[i];
        else if (c < 3)
            to[c] = from[i];
    }
    tpi_release(bytes);
    return out;
}

tp_summary *tp_summary_video(const char *tag, const tp_tensor *video, double fps) {
    if (TPI_ENDED(video, "a tensor")) return NULL;
    if (!video) return NULL;
    if (video->ndim != 5 || !video->numel || video->shape[2] == 2 || video->shape[2] > 4)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'vid_tensor': expected shape [batch, frames, 1 or 3 channels, height, width], got %s",
                        tpi_shape_text(tpi_shape(video)));
    if (!(fps > 0)) return tpi_fail(TP_ERR_VALUE, "argument 'fps': expected more than 0, got %g", fps);
    int64_t frames, height, width;
    tp_tensor *pixels = frames_of(video, &frames, &height, &width);
    if (!pixels) return NULL;
    tpi_wire gif = {0};
    tpi_gif_encode(&gif, (const uint8_t *)pixels->data, frames, height, width,
                   (int)fmin(65535, fmax(1, round(100 / fps))));
    tpi_release(pixels);
    tp_summary *s = gif.failed ? NULL : tpi_summary_new();
    if (s && !write_image(s, tag, height, width, 3, gif.data, gif.n)) {
        tp_summary_free(s);
        s = NULL;
    }
    tpi_wire_free(&gif);
    return tpi_summary_done(s);
}

static bool write_audio(tp_summary *s, const char *tag, const tp_tensor *sound, int64_t sample_rate,
                        const tp_tensor *wav) {
    size_t value;
    if (!tpi_value_open(s, tag, &value)) return false;
    size_t audio = tpi_wire_open(&s->wire, 6);
    tpi_wire_float(&s->wire, 1, (float)sample_rate);
    tpi_wire_int(&s->wire, 2, sound->shape[0]);
    tpi_wire_int(&s->wire, 3, sound->shape[1]);
    tpi_wire_bytes(&s->wire, 4, wav->data, (size_t)wav->numel);
    tpi_wire_text(&s->wire, 5, "audio/wav");
    tpi_wire_close(&s->wire, audio);
    tpi_wire_close(&s->wire, value);
    return true;
}

tp_summary *tp_summary_audio(const char *tag, const tp_tensor *sound, int64_t sample_rate) {
    if (TPI_ENDED(sound, "a tensor")) return NULL;
    if (!sound) return NULL;
    if (sound->ndim < 1 || sound->ndim > 2 || !sound->numel)
        return tpi_fail(TP_ERR_VALUE, "argument 'snd_tensor': expected shape [frames] or [channels, frames], got %s",
                        tpi_shape_text(tpi_shape(sound)));
    int64_t channels = sound->ndim == 2 ? sound->shape[0] : 1, frames = sound->shape[sound->ndim - 1];
    tp_tensor *floats = tpi_plain_of(sound, TP_FLOAT32),
              *samples = floats ? tpi_empty(TP_INTS(channels, frames), TP_INT16, (tp_device){TP_CPU, 0}) : NULL;
    for (int64_t i = 0; samples && i < samples->numel; i++) {
        float v = ((const float *)floats->data)[i];
        ((int16_t *)samples->data)[i] = (int16_t)((v > -1 ? v < 1 ? v : 1 : v <= -1 ? -1 : 0) * 32767);
    }
    tp_tensor *wav = samples ? tp_own(tp_encode_wav(samples, sample_rate)) : NULL;
    tp_summary *s = wav ? tpi_summary_new() : NULL;
    if (s && !write_audio(s, tag, samples, sample_rate, wav)) {
        tp_summary_free(s);
        s = NULL;
    }
    tpi_release(floats);
    tpi_release(samples);
    tpi_release(wav);
    return tpi_summary_done(s);
}
