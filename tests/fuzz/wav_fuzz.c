/* Sound: WAV, whole numbers or normalised, from a frame that the first bytes say. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    if (n < 4) return -1;
    TP_SCOPE {
        tp_tensor *bytes = tp_from_data(data + 3, TP_UINT8, TP_INTS((int64_t)n - 3));
        int64_t rate;
        tp_wav_info info = {.size = sizeof info};
        tp_wav_describe(bytes, &info);
        fuzz_touch(tp_decode_wav(bytes, &rate, .normalize = data[0] & 1, .frame_offset = data[1],
                                 .num_frames = data[2] ? data[2] : -1));
    }
    return 0;
}
