/* NumPy's arrays. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    if (n < 6 || memcmp(data, "\x93NUMPY", 6) != 0) return -1;
    fuzz_file(data, n, false);
    return 0;
}
