/* MNIST's files, plain or gzipped. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    TP_SCOPE {
        fuzz_touch(tp_read_idx(fuzz_path(data, n)));
    }
    return 0;
}
