/* Zip archives with PyTorch's or NumPy's files in them: the directory, sizes, packed members. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    if (n < 2 || memcmp(data, "PK", 2) != 0) return -1;
    fuzz_file(data, n, false);
    return 0;
}
