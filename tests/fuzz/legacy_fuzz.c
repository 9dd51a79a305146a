/* PyTorch's files from before zip archives. */
#include "fuzz.h"

static const uint8_t magic[] = {0x80, 0x02, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
enum { LONGEST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t file[sizeof magic + LONGEST];
    fuzz_begin();
    if (n > LONGEST) return -1;
    memcpy(file, magic, sizeof magic);
    memcpy(file + sizeof magic, data, n);
    fuzz_file(file, sizeof magic + n, false);
    return 0;
}
