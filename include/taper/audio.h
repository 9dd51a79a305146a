/* Sound in files: WAV to and from tensors (channels, frames). */
#ifndef TAPER_AUDIO_H
#define TAPER_AUDIO_H
#include <taper/ops_options.h>
#include <taper/tensor.h>

TP_BEGIN

typedef struct tp_wav_info {
    int64_t size; /* sizeof(tp_wav_info), set by the caller: fields are only ever added */
    int64_t sample_rate, channels, frames;
    int64_t bits; /* of one sample: 8 (unsigned), 16, 24, 32 or, floating, 32 and 64 */
    bool floating;
} tp_wav_info;

typedef struct tp_wav_options {
    TP_STRUCT_SIZE(tp_wav_options);
    int64_t frame_offset TP_MEMBER(0);
    int64_t num_frames TP_MEMBER(-1); /* -1: all that are left */
    bool normalize TP_MEMBER(true);   /* float32 from -1 to 1; otherwise as stored: uint8, int16, int32 (24 bits are its
                                         upper ones), float32, float64 */
    int64_t bits TP_MEMBER(0);        /* writing: 8, 16, 24, 32, or 64 with floating; 0: from the tensor's dtype */
    bool floating TP_MEMBER(false);   /* writing: samples as floating numbers of 32 or 64 bits */
    TP_OPTIONS_GUARD_
} tp_wav_options;

TP_API bool tp_wav_describe(const tp_tensor *bytes, tp_wav_info *info); /* of a file's bytes (uint8, one dimension) */
/* (channels, frames). The file's bytes may say the rate: pass sample_rate or NULL. */
TP_API tp_tensor *tp_decode_wav_with(const tp_tensor *bytes, int64_t *sample_rate, const tp_wav_options *options);
TP_API tp_tensor *tp_read_wav_with(const char *path, int64_t *sample_rate, const tp_wav_options *options);
/* sound: (channels, frames) or (frames); floating ones from -1 to 1 (what is beyond is cut where the samples are whole
 * numbers). */
TP_API tp_tensor *tp_encode_wav_with(const tp_tensor *sound, int64_t sample_rate, const tp_wav_options *options);
TP_API bool tp_write_wav_with(const char *path, const tp_tensor *sound, int64_t sample_rate,
                              const tp_wav_options *options);

#ifndef __cplusplus
#define TP_WAV_DEFAULTS_                                                                                        \
    .size = (int64_t)sizeof(tp_wav_options), .frame_offset = 0, .num_frames = -1, .normalize = true, .bits = 0, \
    .floating = false
#define TP_WAV2_(function, a, b, ...) TP_WITH_(tp_wav_options, function(a, b, &tp_o_), TP_WAV_DEFAULTS_, __VA_ARGS__)
#define TP_WAV3_(function, a, b, c, ...) \
    TP_WITH_(tp_wav_options, function(a, b, c, &tp_o_), TP_WAV_DEFAULTS_, __VA_ARGS__)
#define tp_decode_wav(...) TP_WAV2_(tp_decode_wav_with, __VA_ARGS__, )
#define tp_read_wav(...)   TP_WAV2_(tp_read_wav_with, __VA_ARGS__, )
#define tp_encode_wav(...) TP_WAV2_(tp_encode_wav_with, __VA_ARGS__, )
#define tp_write_wav(...)  TP_WAV3_(tp_write_wav_with, __VA_ARGS__, )
#endif

TP_END

#ifdef __cplusplus
static inline tp_tensor *tp_decode_wav(const tp_tensor *bytes, int64_t *rate,
                                       const tp_wav_options &o = tp_wav_options()) {
    return tp_decode_wav_with(bytes, rate, &o);
}
static inline tp_tensor *tp_read_wav(const char *path, int64_t *rate, const tp_wav_options &o = tp_wav_options()) {
    return tp_read_wav_with(path, rate, &o);
}
static inline tp_tensor *tp_encode_wav(const tp_tensor *sound, int64_t rate,
                                       const tp_wav_options &o = tp_wav_options()) {
    return tp_encode_wav_with(sound, rate, &o);
}
static inline bool tp_write_wav(const char *path, const tp_tensor *sound, int64_t rate,
                                const tp_wav_options &o = tp_wav_options()) {
    return tp_write_wav_with(path, sound, rate, &o);
}
#endif
#endif
