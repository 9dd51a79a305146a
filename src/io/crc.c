/* CRC-32: by carry-less multiplication where the processor has it, which is as fast as memory; by zlib elsewhere.
 *
 * The fast way keeps four 128-bit remainders and folds 64 bytes into them at a time: multiplying a remainder by x^n mod P moves it n bits
 * further. At the end the four become one, 128 bits become 64 and Barrett's reduction gives the 32 bits. Constants are x^n mod P, bits
 * reversed, for the distances that the folds go. */
#include "io/crc.h"
#include <zlib.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define CLMUL __attribute__((target("pclmul,sse4.1")))

CLMUL static inline __m128i fold(__m128i r, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(r, by, 0x00), high = _mm_clmulepi64_si128(r, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* bytes: a multiple of 16, 64 or more; crc is the complement of what zlib calls the crc. */
CLMUL static uint32_t crc_by_folding(uint32_t crc, const unsigned char *p, size_t bytes) {
    const __m128i by64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by16 = _mm_set_epi64x(0xccaa009e, 0x1751997d0);
    const __m128i by8 = _mm_set_epi64x(0, 0x163cd6124), barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i r[4];
    for (int i = 0; i < 4; i++) r[i] = _mm_loadu_si128((const __m128i *)p + i);
    r[0] = _mm_xor_si128(r[0], _mm_cvtsi32_si128((int)crc));
    for (p += 64, bytes -= 64; bytes >= 64; p += 64, bytes -= 64)
        for (int i = 0; i < 4; i++) r[i] = fold(r[i], by64, _mm_loadu_si128((const __m128i *)p + i));
    __m128i x = r[0];
    for (int i = 1; i < 4; i++) x = fold(x, by16, r[i]);
    for (; bytes >= 16; p += 16, bytes -= 16) x = fold(x, by16, _mm_loadu_si128((const __m128i *)p));
    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, by16, 0x10)); /* 128 bits to 96 */
    __m128i high = _mm_srli_si128(x, 4);
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), by8, 0x00), high); /* to 64 */
    __m128i q = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), barrett, 0x10), low32);
    x = _mm_xor_si128(x, _mm_clmulepi64_si128(q, barrett, 0x00));
    return (uint32_t)_mm_extract_epi32(x, 1);
}

static uint32_t by_processor(uint32_t crc, const unsigned char **data, size_t *bytes) {
    size_t part = *bytes & ~(size_t)15;
    if (part < 64 || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) return crc;
    crc = ~crc_by_folding(~crc, *data, part);
    *data += part;
    *bytes -= part;
    return crc;
}
#else
static uint32_t by_processor(uint32_t crc, const unsigned char **data, size_t *bytes) {
    (void)data, (void)bytes;
    return crc;
}
#endif

uint32_t tpi_crc32(uint32_t crc, const void *data, size_t bytes) {
    const unsigned char *p = data;
    crc = by_processor(crc, &p, &bytes);
    return bytes ? (uint32_t)crc32_z(crc, p, bytes) : crc; /* zlib takes NULL for a new start */
}
