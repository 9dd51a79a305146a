/* Pictures: png, in a mode that the first byte says. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    if (n < 2) return -1;
    TP_SCOPE {
        tp_tensor *bytes = tp_from_data(data + 1, TP_UINT8, TP_INTS((int64_t)n - 1));
        fuzz_touch(tp_decode_png(bytes, .mode = data[0] & 7, .apply_exif_orientation = data[0] >> 7));
    }
    return 0;
}
