/* WAV: a RIFF file's "fmt " and "data" chunks. Samples lie frame by frame, little end first; tensors hold a row per
 * channel. PCM of 8, 16, 24 and 32 bits and floating samples of 32 and 64 are read and written; compressed kinds are
 * refused by their number. */
#include <taper/audio.h>
#include "autograd/glue.h"
#include "io/file.h"
#include <math.h>
#include <string.h>

enum { PCM = 1, FLOATING = 3, EXTENSIBLE = 0xfffe, HEADER = 44 };

typedef struct sound {
    tp_wav_info info;
    const uint8_t *data; /* the first frame */
} sound;

static bool read_options(const tp_wav_options *given, tp_wav_options *o) {
    *o = (tp_wav_options){.size = sizeof *o, .num_frames = -1, .normalize = true};
    return !given || tpi_copy_options(o, sizeof *o, given, given->size);
}

static uint32_t get(const uint8_t *p, int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}
static void put(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* ---- Reading ---- */

static bool unreadable(const char *why) {
    return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': the WAV file cannot be read: %s", why);
}

static bool read_format(tp_wav_info *info, const uint8_t *p, size_t n) {
    if (n < 16) return unreadable("its format is cut");
    uint32_t kind = get(p, 2);
    if (kind == EXTENSIBLE && n >= 26) kind = get(p + 24, 2);
    info->channels = get(p + 2, 2);
    info->sample_rate = get(p + 4, 4);
    info->bits = get(p + 14, 2);
    info->floating = kind == FLOATING;
    if (kind != PCM && kind != FLOATING)
        return tpi_refuse(TP_ERR_MISSING,
                          "argument 'input': WAV files of PCM and of floating samples can be read, this is of kind %u",
                          kind);
    bool known = info->floating ? info->bits == 32 || info->bits == 64
                                : info->bits == 8 || info->bits == 16 || info->bits == 24 || info->bits == 32;
    if (!known)
        return tpi_refuse(TP_ERR_MISSING, "argument 'input': WAV samples of %lld bits cannot be read",
                          (long long)info->bits);
    if (!info->channels || get(p + 12, 2) != info->channels * info->bits / 8)
        return unreadable("its frames have no proper size");
    return true;
}

/* A length that goes beyond the file, as streams leave it, means: up to the end. */
static bool parse(sound *s, const uint8_t *p, size_t n) {
    *s = (sound){0};
    if (n < 12 || memcmp(p, "RIFF", 4) != 0 || memcmp(p + 8, "WAVE", 4) != 0)
        return unreadable("it does not begin as one");
    bool format = false;
    for (size_t at = 12; at + 8 <= n;) {
        size_t size = get(p + at + 4, 4), left = n - at - 8;
        const uint8_t *body = p + at + 8;
        if (size > left) size = left;
        if (memcmp(p + at, "fmt ", 4) == 0) {
            if (!read_format(&s->info, body, size)) return false;
            format = true;
        } else if (memcmp(p + at, "data", 4) == 0) {
            if (!format) return unreadable("its data come before its format");
            s->data = body;
            s->info.frames = (int64_t)size / (s->info.channels * s->info.bits / 8);
            return true;
        }
        at += 8 + size + (size & 1 & (size < left));
    }
    return unreadable(format ? "it has no data" : "it has no format");
}

static double as_double(const uint8_t *p) {
    uint64_t bits = get(p, 4) | (uint64_t)get(p + 4, 4) << 32;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static float as_float(const uint8_t *p) {
    uint32_t bits = get(p, 4);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static int32_t as_int(const uint8_t *p, int64_t bits) { /* in the upper bits of 32 */
    return (int32_t)(get(p, (int)bits / 8) << (32 - bits));
}

static void store_sample(const tp_wav_info *info, const uint8_t *p, tp_tensor *out, int64_t i) {
    if (info->floating && info->bits == 64) {
        if (out->dtype == TP_FLOAT64)
            ((double *)out->data)[i] = as_double(p);
        else
            ((float *)out->data)[i] = (float)as_double(p);
    } else if (info->floating)
        ((float *)out->data)[i] = as_float(p);
    else if (out->dtype == TP_FLOAT32)
        ((float *)out->data)[i] =
            info->bits == 8 ? (float)(*p - 128) / 128.0f : (float)as_int(p, info->bits) / 2147483648.0f;
    else if (out->dtype == TP_UINT8)
        ((uint8_t *)out->data)[i] = *p;
    else if (out->dtype == TP_INT16)
        ((int16_t *)out->data)[i] = (int16_t)get(p, 2);
    else
        ((int32_t *)out->data)[i] = as_int(p, info->bits);
}

static tp_dtype dtype_of(const tp_wav_info *info, bool normalize) {
    if (normalize) return TP_FLOAT32;
    if (info->floating) return info->bits == 32 ? TP_FLOAT32 : TP_FLOAT64;
    return info->bits == 8 ? TP_UINT8 : info->bits == 16 ? TP_INT16 : TP_INT32;
}

static tp_tensor *decode(const tp_tensor *bytes, int64_t *sample_rate, const tp_wav_options *o) {
    const uint8_t *data = NULL;
    size_t n = 0;
    tp_tensor *here = tpi_file_bytes(bytes, &data, &n), *out = NULL;
    sound s;
    if (!here || !parse(&s, data, n)) {
        tp_release(here);
        return NULL;
    }
    const tp_wav_info *info = &s.info;
    if (o->frame_offset < 0 || o->num_frames < -1 || o->num_frames == 0)
        tpi_fail(
            TP_ERR_VALUE,
            "expected an argument 'frame_offset' of 0 or more and 'num_frames' of -1 or more than 0, got %lld and %lld",
            (long long)o->frame_offset, (long long)o->num_frames);
    else {
        int64_t first = o->frame_offset < info->frames ? o->frame_offset : info->frames, left = info->frames - first;
        int64_t frames = o->num_frames < 0 || o->num_frames > left ? left : o->num_frames, step = info->bits / 8,
                frame = step * info->channels;
        out = tpi_empty(TP_INTS(info->channels, frames), dtype_of(info, o->normalize), (tp_device){TP_CPU, 0});
        for (int64_t c = 0; out && c < info->channels; c++)
            for (int64_t i = 0; i < frames; i++)
                store_sample(info, s.data + (first + i) * frame + c * step, out, c * frames + i);
        if (out && sample_rate) *sample_rate = info->sample_rate;
    }
    tp_release(here);
    return out;
}

bool tp_wav_describe(const tp_tensor *bytes, tp_wav_info *info) {
    if (TPI_ENDED(bytes, "a tensor")) return false;
    if (!info || info->size < (int64_t)sizeof info->size)
        return tpi_refuse(TP_ERR_VALUE, "wav_describe: argument 'info': expected one whose size is set");
    const uint8_t *data = NULL;
    size_t n = 0;
    tp_tensor *here = tpi_file_bytes(bytes, &data, &n);
    sound s;
    bool ok = here && parse(&s, data, n);
    if (ok) {
        s.info.size = info->size;
        memcpy(info, &s.info, (size_t)info->size < sizeof s.info ? (size_t)info->size : sizeof s.info);
    }
    tp_release(here);
    return ok;
}

tp_tensor *tp_decode_wav_with(const tp_tensor *bytes, int64_t *sample_rate, const tp_wav_options *options) {
    if (TPI_ENDED(bytes, "a tensor")) return NULL;
    const char *before = tpi_op_enter("decode_wav");
    tp_wav_options o;
    tp_tensor *out = read_options(options, &o) ? decode(bytes, sample_rate, &o) : NULL;
    tpi_op_leave(before);
    return tpi_to_scope(out);
}

tp_tensor *tp_read_wav_with(const char *path, int64_t *sample_rate, const tp_wav_options *options) {
    const char *before = tpi_op_enter("read_wav");
    tp_wav_options o;
    tp_tensor *bytes = read_options(options, &o) ? tpi_read_file(path) : NULL;
    tp_tensor *out = bytes ? decode(bytes, sample_rate, &o) : NULL;
    tp_release(bytes);
    tpi_op_leave(before);
    return tpi_to_scope(out);
}

/* ---- Writing ---- */

/* A sample as a whole number of 32 bits, of which the format keeps the upper ones; floating samples are rounded at the
 * format's last bit. */
static int64_t whole(const tp_tensor *t, int64_t i, int64_t bits) {
    switch (t->dtype) {
    case TP_UINT8: return ((int64_t)((const uint8_t *)t->data)[i] - 128) << 24;
    case TP_INT16: return (int64_t)((const int16_t *)t->data)[i] * 65536;
    case TP_INT32: return ((const int32_t *)t->data)[i];
    default: break;
    }
    double x = t->dtype == TP_FLOAT32 ? ((const float *)t->data)[i] : ((const double *)t->data)[i],
           top = ldexp(1, (int)bits - 1);
    double y = rint(x * top);
    if (!(y < top)) y = y >= top ? top - 1 : 0; /* NaN is silence */
    if (y < -top) y = -top;
    return (int64_t)y * ((int64_t)1 << (32 - bits));
}

static void write_sample(uint8_t *p, const tp_tensor *t, int64_t i, const tp_wav_options *o) {
    if (!o->floating) {
        int64_t v = whole(t, i, o->bits) >> (32 - o->bits);
        put(p, (uint64_t)(o->bits == 8 ? v + 128 : v), (int)o->bits / 8);
        return;
    }
    double d = t->dtype == TP_FLOAT32   ? ((const float *)t->data)[i]
               : t->dtype == TP_FLOAT64 ? ((const double *)t->data)[i]
                                        : (double)whole(t, i, 32) / 2147483648.0;
    float f = (float)d;
    if (o->bits == 32)
        memcpy(p, &f, 4);
    else
        memcpy(p, &d, 8);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        for (int64_t k = 0, n = o->bits / 8; k < n / 2; k++) {
            uint8_t b = p[k];
            p[k] = p[n - 1 - k];
            p[n - 1 - k] = b;
        }
}

static bool settle(tp_wav_options *o, tp_dtype dtype) {
    static const uint8_t bits[TP_DTYPE_COUNT] = {
        [TP_UINT8] = 8, [TP_INT16] = 16, [TP_INT32] = 32, [TP_FLOAT32] = 32, [TP_FLOAT64] = 64};
    if (!bits[dtype])
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'sound': expected float32, float64, int32, int16 or uint8, got %s",
                          tp_dtype_name(dtype));
    if (!o->bits) {
        o->bits = bits[dtype];
        o->floating = tp_dtype_is_floating(dtype);
    }
    bool fits =
        o->floating ? o->bits == 32 || o->bits == 64 : o->bits == 8 || o->bits == 16 || o->bits == 24 || o->bits == 32;
    return fits ||
           tpi_refuse(TP_ERR_VALUE, "argument 'bits': expected 8, 16, 24 or 32, or with 'floating' 32 or 64, got %lld",
                      (long long)o->bits);
}

static tp_tensor *encode(const tp_tensor *given, int64_t rate, tp_wav_options o) {
    if (!tpi_is_tensor(given, "sound")) return NULL;
    if (given->ndim < 1 || given->ndim > 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'sound': expected (channels, frames), got shape %s",
                        tpi_shape_text(tpi_shape(given)));
    if (!settle(&o, (tp_dtype)given->dtype)) return NULL;
    int64_t channels = given->ndim == 2 ? given->shape[0] : 1, frames = given->shape[given->ndim - 1],
            step = o.bits / 8;
    if (rate < 1 || rate > INT32_MAX)
        return tpi_fail(TP_ERR_VALUE, "argument 'sample_rate': expected a positive number, got %lld", (long long)rate);
    if (channels < 1 || channels > 65535 / step || frames > (INT64_C(0xffffffff) - HEADER) / (channels * step))
        return tpi_fail(TP_ERR_VALUE, "argument 'sound': %lld channels of %lld frames do not fit a WAV file",
                        (long long)channels, (long long)frames);
    int64_t n = channels * frames * step;
    tp_tensor *t = tpi_contiguous_data((tp_tensor *)given),
              *out = t ? tpi_empty(TP_INTS(HEADER + n + (n & 1)), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    if (out) {
        uint8_t *p = (uint8_t *)out->data;
        memcpy(p, "RIFF....WAVEfmt ", 16);
        put(p + 4, (uint64_t)(out->numel - 8), 4);
        put(p + 16, 16, 4);
        put(p + 20, o.floating ? FLOATING : PCM, 2);
        put(p + 22, (uint64_t)channels, 2);
        put(p + 24, (uint64_t)rate, 4);
        put(p + 28, (uint64_t)(rate * channels * step), 4);
        put(p + 32, (uint64_t)(channels * step), 2);
        put(p + 34, (uint64_t)o.bits, 2);
        memcpy(p + 36, "data", 4);
        put(p + 40, (uint64_t)n, 4);
        p[out->numel - 1] = 0; /* an odd length is filled up */
        for (int64_t i = 0; i < frames; i++)
            for (int64_t c = 0; c < channels; c++)
                write_sample(p + HEADER + (i * channels + c) * step, t, c * frames + i, &o);
    }
    tp_release(t);
    return out;
}

tp_tensor *tp_encode_wav_with(const tp_tensor *sound, int64_t sample_rate, const tp_wav_options *options) {
    const char *before = tpi_op_enter("encode_wav");
    tp_wav_options o;
    tp_tensor *out = read_options(options, &o) ? encode(sound, sample_rate, o) : NULL;
    tpi_op_leave(before);
    return tpi_to_scope(out);
}

bool tp_write_wav_with(const char *path, const tp_tensor *sound, int64_t sample_rate, const tp_wav_options *options) {
    TPI_STOP_ON_ERROR(false);
    const char *before = tpi_op_enter("write_wav");
    tp_wav_options o;
    tp_tensor *bytes = read_options(options, &o) ? encode(sound, sample_rate, o) : NULL;
    bool ok = bytes && tpi_write_file(path, bytes->data, (size_t)bytes->numel);
    tp_release(bytes);
    tpi_op_leave(before);
    return ok;
}
