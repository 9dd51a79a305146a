/* NumPy's archives: the input is an array, stored as a member of one with a right checksum. */
#include "fuzz.h"
#include "io/checkpoint/crc.h"
#include "io/checkpoint/zip_format.h"

enum { LONGEST = 1 << 16, NAME = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t file[2 * LONGEST];
    fuzz_begin();
    if (n > LONGEST) return -1;
    uint8_t *p = file;
    memset(p, 0, ZIP_LOCAL_BYTES);
    put32(p, ZIP_LOCAL);
    put32(p + 14, tpi_crc32(0, data, n));
    put32(p + 18, (uint32_t)n);
    put32(p + 22, (uint32_t)n);
    put16(p + 26, NAME);
    memcpy(p + ZIP_LOCAL_BYTES, "a.npy", NAME);
    memcpy(p + ZIP_LOCAL_BYTES + NAME, data, n);
    uint8_t *entry = p + ZIP_LOCAL_BYTES + NAME + n, *end = entry + ZIP_ENTRY_BYTES + NAME;
    memset(entry, 0, ZIP_ENTRY_BYTES + NAME + ZIP_END_BYTES);
    put32(entry, ZIP_ENTRY);
    put32(entry + 16, tpi_crc32(0, data, n));
    put32(entry + 20, (uint32_t)n);
    put32(entry + 24, (uint32_t)n);
    put16(entry + 28, NAME);
    memcpy(entry + ZIP_ENTRY_BYTES, "a.npy", NAME);
    put32(end, ZIP_END);
    put16(end + 8, 1);
    put16(end + 10, 1);
    put32(end + 12, ZIP_ENTRY_BYTES + NAME);
    put32(end + 16, (uint32_t)(entry - file));
    fuzz_file(file, (size_t)(end + ZIP_END_BYTES - file), false);
    return 0;
}
