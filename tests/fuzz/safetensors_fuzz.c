/* Safetensors: the input is the header and what follows it; its first two bytes say how long the header is. */
#include "fuzz.h"

enum { LONGEST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t file[8 + LONGEST];
    fuzz_begin();
    if (n < 2 || n > LONGEST) return -1;
    memset(file, 0, 8);
    memcpy(file, data, 2);
    memcpy(file + 8, data + 2, n - 2);
    fuzz_file(file, 8 + n - 2, false);
    return 0;
}
